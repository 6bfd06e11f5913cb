//! `cargo tile export`: machine code for `tile_runtime::embed!`.

use crate::cli::Export;
use crate::kernels::Found;
use crate::process::say;
use crate::project::Project;
use crate::{choose, kernels};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use tile_runtime::embedded::Bundle;
use tile_runtime::kernel::{Class, Variant, instance_text};

/// Runs it.
pub fn run(arguments: &Export) -> Result<()> {
    let project = Project::find(&arguments.place)?;
    let file = arguments.out.as_path();
    if arguments.check {
        return check(&project, file);
    }
    // A program that embeds a file does not compile before it is there.
    let made = !file.exists();
    if made {
        write(file, &Bundle::new())?;
    }
    let written = export(arguments, &project, file);
    if made && written.is_err() {
        fs::remove_file(file).ok();
    }
    written
}

fn export(arguments: &Export, project: &Project, file: &Path) -> Result<()> {
    let before = read(file)?;
    let found = kernels::all(project)?;
    let mut bundle = Bundle::new();
    if arguments.refresh {
        for item in before.items() {
            bundle.add_again(choose::kernel(&found, &item.kernel)?.definition, item)?;
        }
    } else {
        bundle = before;
        for name in &arguments.kernels {
            add(arguments, choose::kernel(&found, name)?, &mut bundle)?;
        }
    }
    write(file, &bundle)?;
    for item in bundle.items() {
        let (version, kib) = (item.version(), item.bytes.div_ceil(1024));
        println!("{} {} for {}: version {version}, {kib} KiB", item.kernel, item.instance, item.architecture);
    }
    say(format!("{} kernels in {}", bundle.items().count(), file.display()));
    Ok(())
}

/// Adds the variants of a kernel that the command line means.
fn add(arguments: &Export, found: &Found, bundle: &mut Bundle) -> Result<()> {
    let kernel = found.definition.kernel()?;
    let which = &arguments.which;
    let target = choose::target(kernel, which.target)?;
    let mut instances = Vec::new();
    let all = [String::new()];
    for asked in if which.instance.is_empty() { &all } else { which.instance.as_slice() } {
        instances.extend(choose::instances(kernel, asked)?);
    }
    instances.sort_unstable();
    instances.dedup();
    let dims = choose::dims(kernel, &arguments.values)?;
    let dims: Vec<(&str, i64)> = dims.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let absent: Vec<&str> = which.without.iter().map(String::as_str).collect();
    let classes = if which.class.is_empty() { &[Class::WIDEST][..] } else { which.class.as_slice() };
    let count = instances.len() * classes.len();
    let mut done = 0;
    for instance in instances {
        for class in classes {
            done += 1;
            let text = instance_text(kernel, &kernel.instances[instance]);
            say(format!("[{done}/{count}] {} {text}", kernel.name));
            let variant = Variant { instance, dims: &dims, class: *class, absent: &absent };
            bundle.add(found.definition, variant, target, arguments.arch.as_deref())?;
        }
    }
    Ok(())
}

/// Compares what a file holds with what the kernels are now.
fn check(project: &Project, file: &Path) -> Result<()> {
    let bundle = read(file)?;
    let found = kernels::all(project)?;
    let (mut stale, mut count) = (0, 0);
    for item in bundle.items() {
        count += 1;
        let name = format!("{} {} for {}", item.kernel, item.instance, item.architecture);
        let current = choose::kernel(&found, &item.kernel).and_then(|f| Ok(item.current(f.definition)?));
        match current {
            Ok(hash) if hash == item.hash => println!("{name}: version {}", item.version()),
            Ok(hash) => {
                stale += 1;
                let now = hash.get(..12).unwrap_or(&hash);
                println!("{name}: version {}, but the kernel is version {now}", item.version());
            }
            Err(error) => {
                stale += 1;
                println!("{name}: {error:#}");
            }
        }
    }
    match stale {
        0 => Ok(()),
        _ => bail!(
            "{stale} of {count} kernels in {} are stale: `cargo tile export --refresh --out {}`",
            file.display(),
            file.display()
        ),
    }
}

fn read(file: &Path) -> Result<Bundle> {
    let bytes = fs::read(file).with_context(|| format!("could not read {}", file.display()))?;
    Bundle::read(&bytes).with_context(|| file.display().to_string())
}

/// Writes a bundle, whole or not at all.
fn write(file: &Path, bundle: &Bundle) -> Result<()> {
    let unfinished = file.with_extension(format!("{}.tmp", std::process::id()));
    let written = fs::write(&unfinished, bundle.to_bytes()).and_then(|()| fs::rename(&unfinished, file));
    written.with_context(|| {
        fs::remove_file(&unfinished).ok();
        format!("could not write {}", file.display())
    })
}
