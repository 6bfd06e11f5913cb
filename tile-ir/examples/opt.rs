//! `cargo xtask opt [--passes bind,check,lower,emit] [--target sm_90a] [--instance "T = f16, ROWS = 8"] FILE`: reads a kernel's text,
//! runs the passes and prints what the last one makes of it. What is left out is as the file's comments say.

use std::process::ExitCode;
use tile_ir::text::filetest::{Case, Pass, target};

const USAGE: &str = "opt [--passes bind,check,lower,emit] [--target sm_90a] [--instance \"T = f16, ROWS = 8\"] FILE";

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("opt: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut args: impl Iterator<Item = String>) -> Result<String, String> {
    let (mut passes, mut chosen, mut instance, mut file) = (None, None, None, None);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value\n{USAGE}"));
        match arg.as_str() {
            "--passes" => passes = Some(Pass::list(&value()?)?),
            "--target" => chosen = Some(target(&value()?)?),
            "--instance" => instance = Some(value()?),
            _ if arg.starts_with('-') || file.is_some() => return Err(format!("what is `{arg}`?\n{USAGE}")),
            _ => file = Some(arg),
        }
    }
    let file = file.ok_or(USAGE)?;
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
    let mut case = Case::read(&text).map_err(|error| format!("{file}:{error}"))?;
    case.passes = passes.unwrap_or(case.passes);
    case.target = chosen.unwrap_or(case.target);
    case.instance = instance.unwrap_or(case.instance);
    Ok(case.run(&file))
}
