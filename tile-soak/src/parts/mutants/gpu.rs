//! Survivors on a device: each in a process of its own, so that one that hangs or faults does not take the others along.

use super::survivors::Survivor;
use crate::kernels::device;
use crate::kernels::launch::Launch;
use crate::kernels::problem::Results;
use crate::kernels::source::{Library, library};
use anyhow::{Context, Result, anyhow, ensure};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tile_ir::emit::cuda::emit;
use tile_ir::ir::{Dtype, DtypeClass, DtypeRef, EntityRef, FloatFormat, Kernel, ParamKind, Target};
use tile_ir::sim::numeric;
use tile_runtime::Device;

/// What running the survivors of a folder showed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    /// The device.
    pub device: String,
    /// The command that each was run under; empty for none.
    pub wrap: String,
    /// Files by end: `exact`, `close`, `differs`, `refused`, `failed`, `hangs`.
    pub ends: BTreeMap<String, u64>,
    /// What was said of each that did not end well, by file.
    pub said: BTreeMap<String, String>,
}

/// Runs one file on the device, and compares with the fast simulator: `exact`, or `close` within what the order of sums and
/// inexact functions allow.
///
/// # Errors
/// The launch fails, or the results differ.
pub fn one(path: &Path, device: &Device) -> Result<&'static str> {
    let survivor = load(path)?;
    let kernel = kernel(&survivor)?;
    let target = if device.supports(Target::Sm90a) || device.is_simulator() { Target::Sm90a } else { Target::Sm80 };
    let mut end = "exact";
    for (instance, problem) in &survivor.runs {
        let said = |what: String| anyhow!("instance {instance}, {problem:?}: {what}");
        let declared = kernel.instances.get(*instance).ok_or_else(|| anyhow!("no instance {instance}"))?;
        let Ok(launch) = Launch::new(&kernel, declared, target, problem) else { continue };
        let expected = launch.fast(problem).map_err(|error| said(error.to_string()))?;
        let found = device::launch(&kernel, *instance, problem, device).map_err(|error| said(format!("{error:#}")))?;
        if found != expected {
            close(&launch.bound, &expected, &found).map_err(said)?;
            end = "close";
        }
    }
    Ok(end)
}

/// The CUDA C of one of a file's runs on sm_90a.
///
/// # Errors
/// There is no such run, or its launch is refused.
pub fn cuda(path: &Path, run: usize) -> Result<String> {
    let survivor = load(path)?;
    let kernel = kernel(&survivor)?;
    let (instance, problem) = survivor.runs.get(run).ok_or_else(|| anyhow!("{} runs", survivor.runs.len()))?;
    let declared = kernel.instances.get(*instance).ok_or_else(|| anyhow!("no instance {instance}"))?;
    let launch = Launch::new(&kernel, declared, Target::Sm90a, problem).map_err(|refusal| anyhow!("{refusal:?}"))?;
    Ok(emit(&launch.program))
}

fn kernel(survivor: &Survivor) -> Result<Kernel> {
    let own = Library::of_functions(&survivor.functions);
    let functions = if survivor.functions.is_empty() { library() } else { &own };
    let checked =
        functions.check_as(&survivor.id, &survivor.mutant.join("\n")).ok_or_else(|| anyhow!("not a kernel"))?;
    ensure!(checked.diagnostics.is_empty() && checked.deferred.is_empty(), "refused while typing");
    Ok(checked.kernel)
}

/// Runs every file of a folder in a process of its own, several at once, `wrap` before its command line, and writes `gpu.json`
/// beside them.
///
/// # Errors
/// The folder cannot be read, or there is no device to run on.
pub fn all(folder: &Path, wrap: &str, timeout: Duration, jobs: usize) -> Result<Summary> {
    let device = Device::auto()?;
    let mut summary = Summary { device: device.to_string(), wrap: wrap.into(), ..Summary::default() };
    let read = fs::read_dir(folder).with_context(|| format!("could not read {}", folder.display()))?;
    let mut files: Vec<PathBuf> = read.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| load(path).is_ok());
    files.sort();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs.max(1)).build()?;
    let ended = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (end, said) = child(path, wrap, timeout)?;
        println!("{name}: {end} {}", said.lines().last().unwrap_or_default());
        Ok((name, end, said))
    };
    let ended = pool.install(|| files.par_iter().map(ended).collect::<Result<Vec<_>>>())?;
    for (name, end, said) in ended {
        *summary.ends.entry(end.into()).or_default() += 1;
        if !["exact", "close"].contains(&end) {
            summary.said.insert(name, said);
        }
    }
    fs::write(folder.join("gpu.json"), format!("{}\n", serde_json::to_string_pretty(&summary)?))?;
    Ok(summary)
}

fn load(path: &Path) -> Result<Survivor> {
    let text = fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no survivor", path.display()))
}

fn child(path: &Path, wrap: &str, timeout: Duration) -> Result<(&'static str, String)> {
    let mut words = wrap.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    words.extend([std::env::current_exe()?.display().to_string(), "gpu-mutant".into(), path.display().to_string()]);
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let said = std::env::temp_dir().join(format!("tile-soak-{}-{name}.txt", std::process::id()));
    let file = fs::File::create(&said)?;
    let mut child = Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .spawn()
        .with_context(|| format!("could not start {}", words[0]))?;
    let start = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break Some(status),
            None if start.elapsed() > timeout => {
                child.kill()?;
                child.wait()?;
                break None;
            }
            None => sleep(Duration::from_millis(20)),
        }
    };
    let text = fs::read_to_string(&said).unwrap_or_default();
    let ended = |end: &str| text.lines().any(|line| line == end);
    Ok(match status {
        None => ("hangs", text),
        Some(status) if !status.success() && text.contains("differs") => ("differs", text),
        Some(status) if !status.success() => ("failed", text),
        Some(_) if ended("exact") => ("exact", text),
        Some(_) if ended("close") => ("close", text),
        Some(_) => ("failed", text),
    })
}

/// Whether results differ by no more than another order of sums and inexact functions can make of them.
fn close(bound: &Kernel, expected: &Results, found: &Results) -> std::result::Result<(), String> {
    for (id, param) in bound.params.iter() {
        let ParamKind::Tensor { dtype: DtypeRef::Is(dtype), .. } = param.kind else { continue };
        let (Some(a), Some(b)) = (expected.get(&param.name), found.get(&param.name)) else { continue };
        let size = dtype.bytes() as usize;
        for (i, (a, b)) in a.chunks(size).zip(b.chunks(size)).enumerate() {
            let (a, b) = (number(dtype, a), number(dtype, b));
            let bound = match dtype.class() {
                DtypeClass::Float(FloatFormat::Binary16) => 4e-3,
                DtypeClass::Float(FloatFormat::Bfloat16) => 3e-2,
                DtypeClass::Float(FloatFormat::Binary32) => 1e-3,
                DtypeClass::Bool | DtypeClass::Int(_) => 0.0,
            };
            let same = a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= bound * (1.0 + a.abs());
            if !same {
                let name = &param.name;
                return Err(format!(
                    "`{name}` (parameter {}) differs at element {i}: {a} expected, {b} found",
                    id.index()
                ));
            }
        }
    }
    Ok(())
}

fn number(dtype: Dtype, bytes: &[u8]) -> f64 {
    let bits = bytes.iter().rev().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
    match dtype.class() {
        DtypeClass::Float(_) => f64::from(numeric::decode(dtype, bits)),
        DtypeClass::Int(format) => numeric::extend(format, bits) as f64,
        DtypeClass::Bool => f64::from(bits),
    }
}

#[cfg(test)]
mod tests {
    use super::super::survivors::unchanged;
    use super::*;

    #[test]
    fn files_run_on_a_simulator_as_on_a_device() {
        let folder = std::env::temp_dir().join(format!("tile-soak-files-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        // One with specialised dims, one with scalars, one with workspaces.
        let ids =
            ["tests/specialize.rs::scale", "tests/loop_ranges.rs::scalars", "tests/grammar/kernels.rs::reductions"];
        for (number, id) in ids.into_iter().enumerate() {
            let file = unchanged(library(), library().kernel(id).unwrap(), number as u64).unwrap();
            assert!(!file.runs.is_empty(), "{id}");
            let path = folder.join(format!("{number}.json"));
            fs::write(&path, serde_json::to_string(&file).unwrap()).unwrap();
            assert_eq!(one(&path, &Device::simulator()).map_err(|e| format!("{id}: {e:#}")), Ok("exact"));
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
