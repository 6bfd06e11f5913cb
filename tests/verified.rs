//! Every lowered program of the repository's kernels breaks none of the rules of `verify::program`, and what it synchronises is executed in
//! at least one launch.

#[path = "nvrtc/kernels.rs"]
#[allow(dead_code)] // how they are compiled is for tests/nvrtc
mod kernels;
#[path = "nvrtc/products.rs"]
mod products;

use rayon::prelude::*;
use std::time::Instant;
use tile_ir::ir::{Class, Instance, Kernel, Target, Width};
use tile_ir::lower::lower;
use tile_ir::verify::program::{Effort, Verified, program as verify};

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
    let shows = |name: &str| std::env::var_os(name).is_some();
    let (launches, times) = (shows("VERIFY_LAUNCHES"), shows("VERIFY_TIMES"));
    let kernels =
        kernels::kernels().into_iter().map(|definition| definition.kernel().expect("a bundled kernel decodes"));
    let all = kernels.flat_map(|kernel| {
        let instances = some(kernel, most).into_iter();
        instances.flat_map(move |i| Target::ALL.map(|target| (kernel, i.clone(), target)))
    });
    let judged = |(kernel, instance, target): (&Kernel, Instance, Target)| {
        // A target may lack what a kernel needs.
        let program = lower(kernel, &instance, target).ok()?;
        let start = Instant::now();
        let name = format!("{} for {target}", program.name);
        let verified = verify(&program, effort)
            .map_err(|bug| format!("{name}: {}", bug.diagnostic().render(&program.source, &program.spans)));
        let took = start.elapsed();
        if let (true, Ok(verified)) = (launches, &verified) {
            println!("{name}: {} phases\n    {}", verified.phases, verified.launches.join("\n    "));
        }
        if times {
            println!("{:>8.1} ms  {name}", took.as_secs_f64() * 1e3);
        }
        Some((name, verified, took))
    };
    let judged: Vec<_> = all.collect::<Vec<_>>().into_par_iter().with_max_len(1).filter_map(judged).collect();
    let programs = judged.len();
    let executed = judged.iter().filter(|(_, v, _)| v.as_ref().is_ok_and(|v| !v.launches.is_empty())).count();
    let slowest = judged.iter().max_by_key(|(_, _, took)| *took).map(|(name, _, took)| (took, name));
    let leaves_out = |v: &Verified| v.synchronises && v.launches.is_empty();
    let not_executed: Vec<_> =
        judged.iter().filter(|(_, v, _)| v.as_ref().is_ok_and(leaves_out)).map(|(name, ..)| name).collect();
    let broken: Vec<_> = judged.iter().filter_map(|(_, v, _)| v.as_ref().err().cloned()).collect();
    println!("{programs} programs, {executed} executed, slowest {slowest:?}; not executed: {not_executed:#?}");
    assert!(broken.is_empty(), "{} of {programs}:\n{}", broken.len(), broken.join("\n\n"));
    assert!(programs > 150 && executed > 100, "{executed} of {programs}");
}
