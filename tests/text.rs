//! A kernel's text is the kernel: every kernel of the repository is printed and read, and what was read prints, binds and lowers
//! as the kernel itself does. Random programs are `tile-soak`'s.

#[path = "nvrtc/kernels.rs"]
#[allow(dead_code)] // how they are compiled is for tests/nvrtc
mod kernels;
#[path = "nvrtc/products.rs"]
mod products;

use tile_ir::ir::{Class, Instance, Kernel, ParamKind, Width};
use tile_ir::testing::text::round_trip;

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
    for definition in all {
        let kernel = definition.kernel().expect("a bundled kernel decodes");
        if let Err(difference) = round_trip(kernel, &some(kernel)) {
            panic!("{difference}");
        }
    }
}
