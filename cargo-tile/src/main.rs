//! `cargo tile`: the tile kernels of any crate.
//!
//! | module | what it is |
//! |---|---|
//! | [`cli`] | the command line |
//! | [`project`] | the package that is meant, its targets, and cargo |
//! | [`kernels`] | the kernels that a check of the package has recorded |
//! | [`choose`] | which kernel, instance, dims, class and target are meant |
//! | [`look`] | `list`, `show`, `explain` |
//! | [`check`], [`tune`], [`export`] | the commands of these names |
//! | [`setup`], [`wheel`] | fetching NVRTC |
//! | [`doctor`] | what this machine has |
//! | [`process`] | running other programs |
//!
//! A kernel is data: its expansion writes it down while cargo checks the package (`tile_syntax`'s `record`). What is private, in a binary,
//! an example or a test is reached like anything else, and no code of the package is run, but for its own tests by `check`.
#![deny(missing_docs)]

mod check;
mod choose;
mod cli;
mod doctor;
mod export;
mod kernels;
mod look;
#[allow(dead_code)]
mod process;
mod project;
mod setup;
mod tune;
mod wheel;

/// Which folders may hold what programs run: the runtime's own rules.
mod trust {
    pub use tile_runtime::library::prepare_folder as prepare;
}

use clap::Parser;
use cli::{Cargo, Command};
use std::process::ExitCode;

/// What lines about a run begin with.
const NAME: &str = "tile";

fn main() -> ExitCode {
    let Cargo::Tile(command) = Cargo::parse();
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = format!("{error:#}");
            // A diagnostic has its own heading.
            process::say(if text.starts_with("error") { text } else { format!("error: {text}") });
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::List(arguments) => look::list(&arguments),
        Command::Show(arguments) => look::show(&arguments),
        Command::Explain(arguments) => look::explain(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Tune(arguments) => tune::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Setup => setup::run(setup::Wanted::Kernels, None).map(|_| ()),
        Command::Doctor => {
            doctor::run("cargo tile");
            Ok(())
        }
    }
}
