//! Tiles from a counter, under schedules that a GPU may have: each tile is taken once whatever the order of blocks, warps and copies, the counter is 0
//! again when a launch ends, and mistakes in how a number reaches the consumers are noticed. One to five tiles a block: up to four the next tile
//! is counted behind a tile's loads, from five on before them.

use std::collections::BTreeMap;
use std::sync::Arc;
use tile_ir::emit::cuda::emit;
use tile_ir::ir::{Dtype, Target};
use tile_ir::lower::lower;
use tile_ir::lowered::{OpKind, Program, visit::count};
use tile_ir::sim::checked::{CheckedOptions, Copies, Schedule, run};
use tile_ir::sim::{Argument, Memory, TensorArgument};
use tile_ir::testing::plant::{Family, mistakes, planted};
use tile_ir::verify::program::{Effort, program as verify};
use tile_runtime::kernel::Definition;
use tile_runtime::prelude::*;

/// C = A B^T, where the rows of tile `y` have `y + 1` steps, so that tiles are of different length.
#[tile_kernel(targets(sm_90a))]
pub fn stairs(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    c: &mut Tensor<f32, (M, N)>,
    taken: &mut Tensor<u32, (Fixed<1>,)>,
) {
    threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 64]);
    let mut b_s = alloc_shared::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    for [x, y] in persistent([ceil_div(N, 64), ceil_div(M, 64)]).counter(&mut taken[0]) {
        clear(&mut acc);
        for step in pipelined(0..min(ceil_div(K, 64), y % 3), 2) {
            copy(a.at([y * 64, step * 64]), &mut a_s);
            copy(b.at([x * 64, step * 64]), &mut b_s);
            gemm(&a_s, b_s.t(), &mut acc);
        }
        copy(&acc, c.at_mut([y * 64, x * 64]));
    }
}

/// `stairs` in a launch that may begin before the previous one is done.
#[tile_kernel(targets(sm_90a), pdl(independent = [a, b]))]
pub fn early_stairs(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    c: &mut Tensor<f32, (M, N)>,
    taken: &mut Tensor<u32, (Fixed<1>,)>,
) {
    threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 64]);
    let mut b_s = alloc_shared::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    for [x, y] in persistent([ceil_div(N, 64), ceil_div(M, 64)]).counter(&mut taken[0]) {
        clear(&mut acc);
        for step in pipelined(0..ceil_div(K, 64), 2) {
            copy(a.at([y * 64, step * 64]), &mut a_s);
            copy(b.at([x * 64, step * 64]), &mut b_s);
            gemm(&a_s, b_s.t(), &mut acc);
        }
        copy(&acc, c.at_mut([y * 64, x * 64]));
    }
}

/// `stairs` of clusters, whose blocks take tiles a grid apart: the counter is not touched.
#[tile_kernel(targets(sm_90a))]
pub fn stairs_of_clusters(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    c: &mut Tensor<f32, (M, N)>,
    taken: &mut Tensor<u32, (Fixed<1>,)>,
) {
    threads([128]);
    cluster([2]);
    let mut a_s = alloc_shared::<f16>([64, 64]);
    let mut b_s = alloc_shared::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    for [x, y] in persistent([ceil_div(N, 64), ceil_div(M, 64)]).counter(&mut taken[0]) {
        clear(&mut acc);
        for step in pipelined(0..ceil_div(K, 64), 2) {
            copy(a.at([y * 64, step * 64]), &mut a_s);
            copy(b.at([x * 64, step * 64]), &mut b_s);
            gemm(&a_s, b_s.t(), &mut acc);
        }
        copy(&acc, c.at_mut([y * 64, x * 64]));
    }
}

fn lowered(definition: &'static Definition) -> Program {
    let kernel = definition.kernel().unwrap();
    lower(kernel, &kernel.instances[0], Target::Sm90a).unwrap()
}

fn tensor(dtype: Dtype, shape: &[i64], bits: impl Fn(usize) -> u32) -> Argument {
    let elements: i64 = shape.iter().product();
    let memory = Memory::zeros(elements as usize * dtype.bytes() as usize);
    for i in 0..elements as usize {
        memory.set(i * dtype.bytes() as usize, dtype, bits(i)).expect("inside");
    }
    let strides = (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect();
    Argument::Tensor(TensorArgument { dtype, shape: shape.to_vec(), strides, memory: Arc::new(memory), offset: 0 })
}

const K: i64 = 128;

/// `tiles` tiles below one another, of which a number of `A` says which it is; the counter begins at `taken`.
fn arguments(tiles: i64, taken: u32) -> Vec<Argument> {
    let number = |i: usize| u32::from(f16::from_f32((i / (64 * K as usize) % 61 + 1) as f32).to_bits());
    vec![
        tensor(Dtype::F16, &[64 * tiles, K], number),
        tensor(Dtype::F16, &[64, K], |i| u32::from(f16::from_f32((i / K as usize % 3) as f32).to_bits())),
        tensor(Dtype::F32, &[64 * tiles, 64], |_| f32::NAN.to_bits()),
        tensor(Dtype::U32, &[1], |_| taken),
    ]
}

fn words(argument: &Argument) -> Vec<u32> {
    let Argument::Tensor(tensor) = argument else { panic!("a tensor") };
    let mut bytes = vec![0; tensor.memory.len()];
    tensor.memory.read(0, &mut bytes).expect("its own bytes");
    bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}

/// What [`stairs`] makes of [`arguments`].
fn wanted(tiles: i64) -> Vec<u32> {
    let element = |i: i64| {
        let (tile, column) = (i / (64 * 64), i % 64);
        let depth = 64 * (tile % 3).min(K / 64);
        (((tile % 61 + 1) * (column % 3) * depth) as f32).to_bits()
    };
    (0..64 * 64 * tiles).map(element).collect()
}

fn options(seed: u64, blocks: u32) -> CheckedOptions {
    let schedule = match seed {
        0 => Schedule::InOrder,
        _ => Schedule::Seeded { resident_blocks: (seed % 4 + 1) as u32 },
    };
    let copies = [Copies::Late, Copies::Early, Copies::default()][seed as usize % 3];
    CheckedOptions { seed, schedule, copies, clusters: blocks, ..CheckedOptions::default() }
}

/// What a launch says, and whether it left what it should.
fn launch(program: &Program, arguments: &[Argument], options: &CheckedOptions, tiles: i64) -> Result<(), String> {
    let report = run(program, arguments, options).map_err(|error| error.to_string())?;
    let found: Vec<String> = report.diagnostics.iter().map(|d| format!("{} {}", d.code, d.message)).collect();
    match found.is_empty() {
        false => Err(found.join("; ")),
        true if words(&arguments[2]) != wanted(tiles) => Err("another result".to_owned()),
        true if words(&arguments[3]) != [0] => Err(format!("the counter is {:?}", words(&arguments[3]))),
        true => Ok(()),
    }
}

/// Two launches behind one another on one counter, of every number of tiles a block with a rest and without, under `COUNTED_SEEDS` schedules.
#[test]
fn every_schedule_takes_every_tile_once() {
    let seeds = std::env::var("COUNTED_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(6);
    let program = lowered(stairs::definition());
    let (mut launches, mut wrong) = (0, Vec::new());
    for blocks in 1..=3u32 {
        // Fewer tiles than blocks, one to five a block, and one more than that.
        let whole = (1..=5).flat_map(|a_block| [a_block * i64::from(blocks), a_block * i64::from(blocks) + 1]);
        for tiles in [1].into_iter().chain(whole) {
            for seed in 0..seeds {
                let arguments = arguments(tiles, 0);
                for again in ["", ", again"] {
                    launches += 1;
                    if let Err(what) = launch(&program, &arguments, &options(seed, blocks), tiles) {
                        wrong.push(format!("{tiles} tiles of {blocks} blocks, seed {seed}{again}: {what}"));
                    }
                }
            }
        }
    }
    println!("{launches} launches");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Clusters count nothing, and a remark says so.
#[test]
fn clusters_take_tiles_a_grid_apart() {
    let program = lowered(stairs_of_clusters::definition());
    assert!(program.remarks.iter().any(|remark| remark.text.contains("`.counter(..)` has no effect")));
    assert_eq!(count(&program.body, &|op| matches!(op, OpKind::Atomic { .. })), 0);
    for tiles in [1, 2, 7] {
        for seed in 0..4 {
            let arguments = arguments(tiles, 0);
            let report = run(&program, &arguments, &options(seed, 2)).unwrap();
            assert!(report.diagnostics.is_empty(), "{tiles} tiles, seed {seed}: {}", report.render(&program));
            let depth = |i: usize| ((i / (64 * 64) % 61 + 1) * (i % 64 % 3) * K as usize) as f32;
            let wanted: Vec<u32> = (0..64 * 64 * tiles as usize).map(|i| depth(i).to_bits()).collect();
            assert!(words(&arguments[2]) == wanted, "{tiles} tiles, seed {seed}");
        }
    }
}

/// A counter that an author hands over without clearing it: the tiles before its number are taken by nobody, and are found by what stays unwritten.
#[test]
fn a_counter_that_was_not_zero_is_noticed() {
    let program = lowered(stairs::definition());
    for tiles in [4, 12] {
        let said = launch(&program, &arguments(tiles, 1), &options(1, 2), tiles).unwrap_err();
        assert!(said.contains("TK0307"), "{tiles} tiles: {said}");
    }
}

/// Every mistake of the protocol that can be planted is found by the verifier, or shows in a launch of one of these numbers of tiles.
#[test]
fn planted_mistakes_are_noticed() {
    let program = lowered(stairs::definition());
    let shows = |wrong: &Program| {
        [(1, 1), (2, 2), (7, 2), (3, 1), (5, 1), (11, 2)].into_iter().any(|(tiles, blocks)| {
            let options = |seed| CheckedOptions { step_limit: 400_000, ..options(seed, blocks) };
            (0..3).any(|seed| launch(wrong, &arguments(tiles, 0), &options(seed), tiles).is_err())
        })
    };
    let mut counts: BTreeMap<Family, [usize; 3]> = BTreeMap::new();
    let mut unnoticed = Vec::new();
    for mistake in mistakes(&program).into_iter().filter(|mistake| mistake.family.is_protocol()) {
        let wrong = planted(&program, &mistake);
        let way = match () {
            () if verify(&wrong, Effort::Test).is_err() => 0,
            () if shows(&wrong) => 1,
            // The producer may be any one of its warps, and all consumers have met before one of them gives the next tile's place back.
            () if mistake.text == "another warp does what one is to do" => continue,
            () => {
                unnoticed.push(mistake.to_string());
                2
            }
        };
        counts.entry(mistake.family).or_default()[way] += 1;
    }
    println!("by the verifier, by a launch, unnoticed: {counts:#?}");
    assert!(counts.values().map(|[verified, ..]| verified).sum::<usize>() >= 50, "{counts:?}");
    assert!(unnoticed.is_empty(), "{unnoticed:#?}");
}

/// A launch that may begin early waits for the previous one before it counts, whether early or late: that one sets the counter back to 0 when it ends.
#[test]
fn an_early_launch_counts_behind_its_wait() {
    let program = lowered(early_stairs::definition());
    assert_eq!(count(&program.body, &|op| matches!(op, OpKind::Atomic { .. })), 3, "early, late, and back to 0");
    let text = emit(&program);
    let first = text.find("atomicAdd(").unwrap_or_else(|| panic!("{text}"));
    let producer = text.find("if (warp < 4) {").unwrap_or_else(|| panic!("{text}"));
    assert!(text[producer..first].contains("griddepcontrol.wait;"), "{text}");
}
