//! Running other programs, echoing what is run and refusing failures.

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};

/// Says something about the run, apart from the output of the programs it starts.
pub fn say(text: impl AsRef<str>) {
    eprintln!("{}: {}", crate::NAME, text.as_ref());
}

/// The cargo that runs this program, in `root`.
pub fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// The command as a person would type it.
pub fn spell(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Runs a command, its output shown; fails if it does.
pub fn run(command: &mut Command) -> Result<()> {
    say(format!("$ {}", spell(command)));
    let status = command.status().with_context(|| format!("could not start `{}`", spell(command)))?;
    if !status.success() {
        bail!("`{}` failed: {status}", spell(command));
    }
    Ok(())
}

/// Runs a command and returns what it prints on its standard output; its standard error is shown.
pub fn output(command: &mut Command) -> Result<String> {
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("could not start `{}`", spell(command)))?;
    if !output.status.success() {
        bail!("`{}` failed: {}", spell(command), output.status);
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("`{}` printed something that is not UTF-8", spell(command)))
}

/// Whether a program can be started at all: it answers `--version`.
pub fn installed(program: &str) -> bool {
    let quiet = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}
