//! The command line.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use tile_runtime::kernel::{Class, Format, Machine, Target, Width};

/// What cargo starts: its first argument is the subcommand's name.
#[derive(Parser)]
#[command(name = "cargo", bin_name = "cargo", version)]
pub enum Cargo {
    /// The tile kernels of any crate.
    #[command(version, subcommand)]
    Tile(Command),
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// List the kernels, with their instances.
    List(List),
    /// Show an instance on its way to the machine.
    Show(Show),
    /// Say what a launch costs and what bounds it.
    Explain(Explain),
    /// Run a kernel on both simulators over boundary shapes, beside the reference that its crate names.
    Check(Check),
    /// Find the fastest declared instance for given dims on this machine's GPU.
    Tune(Tune),
    /// Write machine code for `tile_runtime::embed!`, or compare what was written with the kernels.
    Export(Export),
    /// Fetch NVRTC and the disassembler into ~/.local/share/tile-kernels; offline once they are there.
    Setup,
    /// Say what this machine has, and what to do next.
    Doctor,
}

/// Where the kernels are.
#[derive(Args, Clone, Default)]
pub struct Where {
    /// The package; else that of the current folder.
    #[arg(short, long)]
    pub package: Option<String>,
    /// Its library.
    #[arg(long)]
    pub lib: bool,
    /// A binary; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub bin: Vec<String>,
    /// An example; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub example: Vec<String>,
    /// An integration test; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub test: Vec<String>,
    /// Examples and integration tests beside the library and binaries.
    #[arg(long)]
    pub all_targets: bool,
    /// Features of the package, as cargo takes them.
    #[arg(short = 'F', long)]
    pub features: Vec<String>,
    /// All features of the package.
    #[arg(long)]
    pub all_features: bool,
    /// Not the default features of the package.
    #[arg(long)]
    pub no_default_features: bool,
    /// Its Cargo.toml; else that of the current folder.
    #[arg(long, value_name = "FILE")]
    pub manifest_path: Option<PathBuf>,
}

/// Which variant of a kernel.
#[derive(Args, Clone, Default)]
pub struct Which {
    /// An instance: dtypes and constants in order, or by name, as many as tell it apart: `f16,8`, `ROWS=8`, `T=f16,ROWS=8`; or its
    /// number in `list`: `#3`.
    #[arg(short, long, value_name = "INSTANCE")]
    pub instance: Vec<String>,
    /// `sm_80` or `sm_90a`; else the newest that the kernel is declared for.
    #[arg(long, value_parser = target)]
    pub target: Option<Target>,
    /// An alignment class: the bytes that rows are read and written by, `16`, `8`, `4` or `element`, or `8/16` for both.
    #[arg(long, value_parser = class)]
    pub class: Vec<Class>,
    /// An optional tensor that is left out; may be repeated.
    #[arg(long, value_name = "TENSOR")]
    pub without: Vec<String>,
}

/// `list`.
#[derive(Args)]
pub struct List {
    /// Where.
    #[command(flatten)]
    pub place: Where,
    /// Every instance on a line of its own, with its number.
    #[arg(long)]
    pub instances: bool,
}

/// `show`.
#[derive(Args)]
pub struct Show {
    /// The kernel's name; or the place that `list` shows for it, where two have one name.
    pub kernel: String,
    /// A value for each dim that the kernel is specialised by: `K=4096`.
    #[arg(value_name = "DIM=VALUE")]
    pub values: Vec<String>,
    /// What to show: tile, lowered, cuda, ptx, sass or resources.
    #[arg(short, long, default_value = "tile")]
    pub format: Format,
    /// Which.
    #[command(flatten)]
    pub which: Which,
    /// Where.
    #[command(flatten)]
    pub place: Where,
}

/// `explain`.
#[derive(Args)]
pub struct Explain {
    /// The kernel.
    pub kernel: String,
    /// The dims, and scalars whose value decides what is executed: `N=4096 K=4096`.
    #[arg(value_name = "NAME=VALUE")]
    pub values: Vec<String>,
    /// The GPU: H200, H100 or A100; else what the target is usually run on.
    #[arg(long, value_parser = machine)]
    pub machine: Option<Machine>,
    /// Which.
    #[command(flatten)]
    pub which: Which,
    /// Where.
    #[command(flatten)]
    pub place: Where,
}

/// `check`.
#[derive(Args)]
pub struct Check {
    /// The kernel.
    pub kernel: String,
    /// Values that a dim takes in place of boundary values, or of a scalar: `K=64,72 alpha=0.5`.
    #[arg(value_name = "NAME=VALUE[,VALUE..]")]
    pub values: Vec<String>,
    /// An instance, as for `show`; else every one.
    #[arg(short, long)]
    pub instance: Option<String>,
    /// The most shapes of an instance.
    #[arg(long, default_value_t = 12)]
    pub shapes: usize,
    /// The largest difference from the reference, relative to the largest magnitude of the result; else the dtype's own.
    #[arg(long)]
    pub tolerance: Option<f64>,
    /// What the random inputs are made of.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where.
    #[command(flatten)]
    pub place: Where,
}

/// `tune`.
#[derive(Args)]
pub struct Tune {
    /// The kernel.
    pub kernel: String,
    /// The dims: `N=4096 K=4096`; scalars may be given too.
    #[arg(value_name = "NAME=VALUE")]
    pub values: Vec<String>,
    /// The dtypes, `f16` or `T=f16`; needed where the kernel is declared for several.
    #[arg(short, long)]
    pub instance: Option<String>,
    /// The device: `cuda:0`, `sim`; else the first GPU.
    #[arg(long)]
    pub device: Option<String>,
    /// Measure although the result is remembered.
    #[arg(long)]
    pub force: bool,
    /// Where.
    #[command(flatten)]
    pub place: Where,
}

/// `export`.
#[derive(Args)]
pub struct Export {
    /// The kernels.
    #[arg(required_unless_present_any = ["check", "refresh"])]
    pub kernels: Vec<String>,
    /// The file that is embedded; one that exists is added to.
    #[arg(short, long, default_value = "kernels.tkb")]
    pub out: PathBuf,
    /// A value of a dim that kernels are specialised by: `--dim K=4096`.
    #[arg(long = "dim", value_name = "DIM=VALUE")]
    pub values: Vec<String>,
    /// What NVRTC compiles for, such as `sm_89`; else the target's name. Code for `sm_80` runs on 8.0, 8.6 and 8.9.
    #[arg(long)]
    pub arch: Option<String>,
    /// Write nothing: fail where the file holds other versions than the kernels are now. Needs no NVRTC.
    #[arg(long, conflicts_with_all = ["refresh", "kernels"])]
    pub check: bool,
    /// Write again what the file holds, as the kernels are now.
    #[arg(long, conflicts_with = "kernels")]
    pub refresh: bool,
    /// Which.
    #[command(flatten)]
    pub which: Which,
    /// Where.
    #[command(flatten)]
    pub place: Where,
}

fn target(text: &str) -> Result<Target, String> {
    Target::ALL.into_iter().find(|target| target.name() == text).ok_or_else(|| {
        let names = Target::ALL.map(Target::name).join(", ");
        format!("the targets are {names}")
    })
}

fn machine(text: &str) -> Result<Machine, String> {
    Machine::named(text).ok_or_else(|| {
        let names: Vec<&str> = Machine::ALL.iter().map(|machine| machine.name).collect();
        format!("known are {}", names.join(", "))
    })
}

fn class(text: &str) -> Result<Class, String> {
    let width = |text: &str| match text {
        "16" => Ok(Width::Sixteen),
        "8" => Ok(Width::Eight),
        "4" => Ok(Width::Four),
        "element" => Ok(Width::Element),
        other => Err(format!("`{other}` is not 16, 8, 4 or element")),
    };
    let (reads, writes) = text.split_once('/').unwrap_or((text, text));
    Ok(Class { reads: width(reads)?, writes: width(writes)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cargo::command().debug_assert();
    }

    #[test]
    fn classes_are_widths_of_reads_and_writes() {
        assert_eq!(class("16"), Ok(Class::WIDEST));
        assert_eq!(class("8/element"), Ok(Class { reads: Width::Eight, writes: Width::Element }));
        assert!(class("7").unwrap_err().contains('7') && class("8/").is_err());
    }
}
