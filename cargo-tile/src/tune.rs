//! `cargo tile tune`.

use crate::cli::Tune;
use crate::look::print;
use crate::project::Project;
use crate::{choose, kernels};
use anyhow::{Result, bail};
use tile_runtime::Device;
use tile_runtime::kernel::Dtype;
use tile_runtime::tuner::{TuneOptions, tune_at};

/// Runs it.
pub fn run(arguments: &Tune) -> Result<()> {
    let found = kernels::all(&Project::find(&arguments.place)?)?;
    let found = choose::kernel(&found, &arguments.kernel)?;
    let kernel = found.definition.kernel()?;
    let lists = choose::lists(&arguments.values)?;
    choose::whole(kernel, &lists)?;
    let values = choose::numbers(&arguments.values)?;
    let mut dtypes: Vec<&[Dtype]> = Vec::new();
    for instance in choose::instances(kernel, arguments.instance.as_deref().unwrap_or_default())? {
        let these = kernel.instances[instance].dtypes.as_slice();
        if !dtypes.contains(&these) {
            dtypes.push(these);
        }
    }
    let dtypes = match dtypes.as_slice() {
        [one] => *one,
        several => {
            let names = several.iter().map(|d| d.iter().map(|d| d.name()).collect::<Vec<_>>().join(","));
            bail!("choose the dtypes by --instance: {}", names.collect::<Vec<_>>().join("; "))
        }
    };
    let device = match &arguments.device {
        Some(name) => Device::named(name)?,
        None => Device::auto()?,
    };
    if device.is_simulator() {
        crate::process::say(format!(
            "nothing is measured on {device}, because a simulator has no clock: the first instance that may be launched is \
             shown. `cargo tile doctor` says why no GPU is used"
        ));
    }
    let options = TuneOptions { force: arguments.force, ..TuneOptions::default() };
    let report = tune_at(found.definition, dtypes, &device, &options, &values)?;
    print(&format!("{report}\n"))
}
