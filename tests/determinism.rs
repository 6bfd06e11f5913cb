//! The compiler is a function: equal kernels give equal text, whatever ran before, wherever the source stood, and
//! after a trip through the bytes that a kernel is carried as.

use tile_ir::codec::{decode, encode};
use tile_ir::emit::cuda::emit;
use tile_ir::ir::{Kernel, Source, Span, Target};
use tile_ir::lower::lower;
use tile_kernel_examples::ladder;

fn kernels() -> Vec<&'static Kernel> {
    let mut all = ladder::definitions();
    all.push(tile_kernels::gemv::definition());
    all.into_iter().map(|d| d.kernel().expect("a bundled kernel decodes")).collect()
}

/// Every instance's CUDA C for every target.
fn emitted(kernel: &Kernel) -> Vec<String> {
    let instances = kernel.instances.iter().flat_map(|i| Target::ALL.map(|target| (i, target)));
    instances.map(|(i, target)| emit(&lower(kernel, i, target).expect("a bundled kernel lowers"))).collect()
}

#[test]
fn lowering_twice_gives_the_same_bytes() {
    for kernel in kernels() {
        assert_eq!(emitted(kernel), emitted(kernel), "{}", kernel.name);
    }
}

#[test]
fn where_the_source_stands_does_not_matter() {
    for kernel in kernels() {
        let mut moved = kernel.clone();
        moved.source = Source::default();
        moved.spans.values_mut().for_each(|span| *span = Span::default());
        assert_eq!(emitted(kernel), emitted(&moved), "{}", kernel.name);
    }
}

#[test]
fn bytes_round_trip() {
    for kernel in kernels() {
        assert_eq!(&decode(&encode(kernel)).expect("what was encoded decodes"), kernel, "{}", kernel.name);
    }
}
