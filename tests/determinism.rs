//! The compiler is a function: equal kernels give equal text, whatever ran before, wherever the source stood, and
//! after a trip through the bytes that a kernel is carried as.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use std::collections::BTreeMap;
use std::process::Command;
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

/// A digest of everything, lowered and printed in an order drawn from `seed`.
fn digest(seed: u64) -> String {
    let kernels = kernels();
    let mut jobs: Vec<(usize, usize, Target)> = Vec::new();
    for (k, kernel) in kernels.iter().enumerate() {
        let some = (0..kernel.instances.len()).step_by(kernel.instances.len().div_ceil(12).max(1));
        jobs.extend(some.flat_map(|i| Target::ALL.map(|target| (k, i, target))));
    }
    jobs.shuffle(&mut StdRng::seed_from_u64(seed));
    let mut texts = BTreeMap::new();
    for (k, i, target) in jobs {
        let program = lower(kernels[k], &kernels[k].instances[i], target).expect("a bundled kernel lowers");
        texts.insert((k, i, target.name()), emit(&program));
    }
    // FNV-1a: the order of the map is that of the kernels.
    let bytes = texts.values().flat_map(|text| text.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    format!("{} programs: {hash:016x}", texts.len())
}

/// In any order, and in other processes, whose hash tables have other seeds.
#[test]
fn the_order_of_builds_does_not_matter() {
    let first = digest(1);
    assert_eq!(first, digest(2));
    for seed in ["3", "4"] {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "prints_a_digest", "--ignored", "--nocapture"]).env("DIGEST_SEED", seed);
        let output = child.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains(&first), "{first} is not what another process has:\n{text}");
    }
}

#[test]
#[ignore = "run by the_order_of_builds_does_not_matter"]
fn prints_a_digest() {
    let seed = std::env::var("DIGEST_SEED").unwrap().parse().unwrap();
    println!("{}", digest(seed));
}
