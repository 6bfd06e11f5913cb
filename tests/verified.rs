//! Every lowered program of the repository's kernels breaks none of the rules of `verify::program`, and what it synchronises is executed in
//! at least one launch.

#[path = "nvrtc/kernels.rs"]
#[allow(dead_code)] // how they are compiled is for tests/nvrtc
mod kernels;
#[path = "nvrtc/products.rs"]
mod products;

use std::time::{Duration, Instant};
use tile_ir::ir::{Class, Instance, Kernel, Target, Width};
use tile_ir::lower::lower;
use tile_ir::verify::program::{Effort, program as verify};

/// Instances of a kernel from its first to its last, and the last with rows that are not aligned.
fn some(kernel: &Kernel, most: usize) -> Vec<Instance> {
    let step = kernel.instances.len().div_ceil(most).max(1);
    let mut all: Vec<Instance> = kernel.instances.iter().step_by(step).cloned().collect();
    let class = Class { reads: Width::Four, writes: Width::Element };
    all.extend(kernel.instances.last().map(|last| Instance { class, ..last.clone() }));
    let dims = kernels::dims(kernel, kernels::values(kernel)[0]);
    all.into_iter().map(|instance| instance.with_dims(dims.clone())).collect()
}

#[test]
fn every_program_breaks_no_rule() {
    // What is done before a compilation, instead of everything.
    let is_quick = std::env::var_os("VERIFY_QUICK").is_some();
    let effort = if is_quick { Effort::Compilation } else { Effort::Test };
    let most = std::env::var("VERIFY_INSTANCES").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    let (mut programs, mut executed, mut slowest) = (0, 0, (Duration::ZERO, String::new()));
    let mut broken = Vec::new();
    let mut not_executed = Vec::new();
    for definition in kernels::kernels() {
        let kernel = definition.kernel().expect("a bundled kernel decodes");
        for (instance, target) in some(kernel, most).iter().flat_map(|i| Target::ALL.map(|target| (i, target))) {
            // A target may lack what a kernel needs.
            let Ok(program) = lower(kernel, instance, target) else { continue };
            let start = Instant::now();
            let name = format!("{} for {target}", program.name);
            match verify(&program, effort) {
                Ok(verified) => {
                    executed += usize::from(!verified.launches.is_empty());
                    if verified.synchronises && verified.launches.is_empty() {
                        not_executed.push(name.clone());
                    }
                    if std::env::var_os("VERIFY_LAUNCHES").is_some() {
                        println!("{name}: {} phases\n    {}", verified.phases, verified.launches.join("\n    "));
                    }
                }
                Err(bug) => {
                    broken.push(format!("{name}: {}", bug.diagnostic().render(&program.source, &program.spans)))
                }
            }
            if std::env::var_os("VERIFY_TIMES").is_some() {
                println!("{:>8.1} ms  {name}", start.elapsed().as_secs_f64() * 1e3);
            }
            slowest = slowest.max((start.elapsed(), name));
            programs += 1;
        }
    }
    println!("{programs} programs, {executed} executed, slowest {slowest:?}; not executed: {not_executed:#?}");
    assert!(broken.is_empty(), "{} of {programs}:\n{}", broken.len(), broken.join("\n\n"));
    assert!(programs > 150 && executed > 100, "{executed} of {programs}");
}
