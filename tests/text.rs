//! A kernel's text is the kernel: every kernel of the repository is printed and read, and what was read prints, binds and lowers
//! as the kernel itself does. So is the text of every program that they become. Random kernels are `tile-soak`'s.

#[path = "nvrtc/kernels.rs"]
#[allow(dead_code)] // how they are compiled is for tests/nvrtc
mod kernels;
#[path = "nvrtc/products.rs"]
mod products;

use rayon::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use tile_ir::ir::{Class, Instance, Kernel, ParamKind, Target, Width};
use tile_ir::lower::lower;
use tile_ir::testing::text::{program_round_trip, round_trip};

/// Most instances of one kernel: those between them have its other forms.
const MOST: usize = 6;

/// Instances of a kernel from its first to its last, and one without its optional tensors whose rows are not aligned.
fn some(kernel: &Kernel) -> Vec<Instance> {
    let step = kernel.instances.len().div_ceil(MOST).max(1);
    let mut all: Vec<Instance> = kernel.instances.iter().step_by(step).cloned().collect();
    let optional = kernel.params.iter().filter(|(_, p)| matches!(p.kind, ParamKind::Tensor { optional: true, .. }));
    let absent = optional.map(|(id, _)| id).collect();
    let class = Class { reads: Width::Four, writes: Width::Element };
    all.extend(kernel.instances.last().map(|last| Instance { absent, class, ..last.clone() }));
    let dims: Vec<_> = kernel.specialized().iter().map(|dim| (*dim, 4096)).collect();
    all.into_iter().map(|instance| instance.with_dims(dims.clone())).collect()
}

#[test]
fn every_kernel_is_what_is_read_of_its_text() {
    let all = kernels::kernels();
    assert!(all.len() > 40, "{}", all.len());
    all.into_par_iter().for_each(|definition| {
        let kernel = definition.kernel().expect("a bundled kernel decodes");
        if let Err(difference) = round_trip(kernel, &some(kernel)) {
            panic!("{difference}");
        }
    });
}

/// Every instance as it is declared, and some of a kernel's in the classes of rows that are less aligned.
fn each(kernel: &Kernel) -> Vec<Instance> {
    let dims: Vec<_> = kernel.specialized().iter().map(|dim| (*dim, 4096)).collect();
    let declared = kernel.instances.iter().map(|instance| instance.clone().with_dims(dims.clone()));
    let lesser = [Width::Eight, Width::Four, Width::Element].map(|width| Class { reads: width, writes: width });
    let unaligned = some(kernel).into_iter().zip(lesser.into_iter().cycle());
    let unaligned: Vec<_> = unaligned.map(|(instance, class)| Instance { class, ..instance }).collect();
    declared.chain(some(kernel)).chain(unaligned).collect()
}

#[test]
fn every_program_is_what_is_read_of_its_text() {
    let programs = AtomicUsize::new(0);
    kernels::kernels().into_par_iter().for_each(|definition| {
        let kernel = definition.kernel().expect("a bundled kernel decodes");
        let all: Vec<_> =
            each(kernel).into_iter().flat_map(|i| Target::ALL.map(|target| (i.clone(), target))).collect();
        all.par_iter().for_each(|(instance, target)| {
            // A target may lack what a kernel needs.
            let Ok(program) = lower(kernel, instance, *target) else { return };
            if let Err(difference) = program_round_trip(&program) {
                panic!("{difference}");
            }
            programs.fetch_add(1, Ordering::Relaxed);
        });
    });
    let programs = programs.into_inner();
    assert!(programs > 400, "{programs}");
    println!("{programs} programs");
}
