//! `cargo tile check`.
//!
//! A reference is code of the author's, so it is the author's tests that run it: those that `tile_runtime::check!` makes. They are
//! told by an environment variable which kernel, instance and shapes are meant. A kernel that no `check!` names is run here, from
//! its record, without a reference.

use crate::cli::Check;
use crate::kernels::Found;
use crate::process::{say, spell};
use crate::project::Project;
use crate::{choose, kernels};
use anyhow::{Context, Result, bail};
use std::path::Path;
use tile_runtime::check::{CheckOptions, REQUEST, Request, run as run_check};

/// Runs it.
pub fn run(arguments: &Check) -> Result<()> {
    let project = Project::find(&arguments.place)?;
    let found = kernels::all(&project)?;
    let found = choose::kernel(&found, &arguments.kernel)?;
    let kernel = found.definition.kernel()?;
    let values = choose::lists(&arguments.values)?;
    choose::whole(kernel, &values)?;
    if arguments.shapes == 0 {
        bail!("--shapes 0 would run nothing");
    }
    let base = CheckOptions {
        instance: None,
        values,
        shapes: arguments.shapes,
        tolerance: arguments.tolerance,
        seed: arguments.seed,
    };
    let chosen: Vec<CheckOptions> = match &arguments.instance {
        None => vec![base],
        Some(asked) => {
            let instances = choose::instances(kernel, asked)?;
            instances.into_iter().map(|i| CheckOptions { instance: Some(i), ..base.clone() }).collect()
        }
    };
    for options in chosen {
        let report = match with_reference(&project, found, &options)? {
            Some(report) => report,
            None => {
                say(format!(
                    "`{0}` has no reference: `tile_runtime::check! {{ {0} == reference }}` names one. \
                     Running it without: the simulators against each other",
                    kernel.name
                ));
                run_check(found.definition, None, &options, &mut |line| println!("{line}"))?.to_string()
            }
        };
        println!("`{}` passed: {report}", kernel.name);
    }
    Ok(())
}

/// Runs the tests that `check!` made of a kernel; `None` where there are none.
fn with_reference(project: &Project, found: &Found, options: &CheckOptions) -> Result<Option<String>> {
    let done = project.target_folder.join("tile").join(format!("check-{}", std::process::id()));
    let request = Request { kernel: found.definition.name().into(), options: options.clone(), done: done.clone() };
    let mut command = project.cargo("test", &found.target);
    command.args(["--quiet", "--", &format!("tile_check::{}", found.definition.name()), "--nocapture"]);
    command.env(REQUEST, serde_json::to_string(&request)?);
    let spelled = spell(&command);
    // The harness's own lines say nothing here; what the checks print is shown.
    let output = command.stderr(std::process::Stdio::inherit()).output();
    let output = output.with_context(|| format!("could not start `{spelled}`"))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let report = take(&done);
    if !output.status.success() {
        print!("{printed}");
        bail!("`{}` failed; see above", found.definition.name());
    }
    let lines = printed.lines().filter(|line| line.starts_with(&format!("{} ", found.definition.name())));
    lines.for_each(|line| println!("{line}"));
    Ok(report)
}

/// What the tests wrote: the report of the last that passed.
fn take(done: &Path) -> Option<String> {
    let text = std::fs::read_to_string(done).ok()?;
    std::fs::remove_file(done).ok();
    text.lines().filter_map(|line| line.strip_prefix("ok ")).next_back().map(str::to_owned)
}
