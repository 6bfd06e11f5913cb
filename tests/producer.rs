//! What a producer executes of a kernel beside its loads: the control flow around them, and what the tiles' coordinates are made of. Loops that end
//! early, conditions, variables that are assigned: producer and consumers have to come to the same tiles; or the kernel has no producer, and a
//! remark says why. Each kernel multiplies tiles of `A` with tiles of `B`, as many and which ones it finds in a table.

use std::sync::Arc;
use tile_ir::ir::{Dtype, Target};
use tile_ir::lower::lower;
use tile_ir::lowered::Program;
use tile_ir::sim::checked::{CheckedOptions, Copies, Schedule, run};
use tile_ir::sim::{Argument, Memory, TensorArgument};
use tile_ir::verify::program::{Effort, program as verify};
use tile_runtime::kernel::Definition;
use tile_runtime::prelude::*;

/// The sequence that tile `y` is of, by `while`: the first that ends behind it.
#[tile_kernel(targets(sm_90a), require(T > 0))]
pub fn by_while(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    ends: &Tensor<i32, (T,)>,
    c: &mut Tensor<f32, (M, Fixed<64>)>,
) {
    let [y] = blocks([ceil_div(M, 64)]);
    threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 64]);
    let mut b_s = alloc_shared::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    let mut z = 0;
    while z < T && ends[min(z, T - 1)] <= y as i32 {
        z += 1;
    }
    let at = min(z, 7);
    clear(&mut acc);
    for step in pipelined(0..ceil_div(K, 64), 2) {
        copy(a.at([y * 64, step * 64]), &mut a_s);
        copy(b.at([at * 64, step * 64]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    copy(&acc, c.at_mut([y * 64, 0]));
}

/// `c[y] = a[y] b[at]^T`, where `at` is found by a `for` loop that assigns it and ends in a `break`; a persistent block has several tiles.
#[tile_kernel(targets(sm_90a), require(T > 0))]
pub fn by_break(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    ends: &Tensor<i32, (T,)>,
    c: &mut Tensor<f32, (M, Fixed<64>)>,
) {
    threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 64]);
    let mut b_s = alloc_shared::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    for [y] in persistent([ceil_div(M, 64)]) {
        let mut z = 0;
        for i in 0..T {
            if ends[i] > y as i32 {
                z = i;
                break;
            }
        }
        let at = min(z, 7);
        clear(&mut acc);
        for step in pipelined(0..ceil_div(K, 64), 2) {
            copy(a.at([y * 64, step * 64]), &mut a_s);
            copy(b.at([at * 64, step * 64]), &mut b_s);
            gemm(&a_s, b_s.t(), &mut acc);
        }
        copy(&acc, c.at_mut([y * 64, 0]));
    }
}

/// Loops in one another that end early, one by a `break` in the arm of an `else`; the number of steps is what they count.
#[tile_kernel(targets(sm_90a), require(T > 0))]
pub fn by_loops(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    ends: &Tensor<i32, (T,)>,
    c: &mut Tensor<f32, (M, Fixed<64>)>,
) {
    let [y] = blocks([ceil_div(M, 64)]);
    threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 64]);
    let mut b_s = alloc_shared::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    let mut z = 0;
    let mut steps = 1u32;
    loop {
        let mut inner = steps - 1;
        for i in 0..4 {
            if i < z {
                inner += 1;
            } else if ends[min(i, T - 1)] > y as i32 {
                inner += 2;
                break;
            } else {
                inner += 1;
            }
        }
        steps = inner % 4 + 1;
        if z >= y || inner > 4 {
            break;
        }
        z += 1;
    }
    let at = min(z, 7);
    clear(&mut acc);
    for step in pipelined(0..min(steps, 3) as usize, 2) {
        copy(a.at([y * 64, step * 64]), &mut a_s);
        copy(b.at([at * 64, step * 64]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    copy(&acc, c.at_mut([y * 64, 0]));
}

/// A condition on what threads have written: no producer can know it.
#[tile_kernel(targets(sm_90a), require(T > 0))]
pub fn by_shared_condition(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    ends: &Tensor<i32, (T,)>,
    c: &mut Tensor<f32, (M, Fixed<64>)>,
) {
    let [y] = blocks([ceil_div(M, 64)]);
    let [t] = threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 64]);
    let mut b_s = alloc_shared::<f16>([64, 64]);
    let mut flags = alloc_shared::<i32>([128]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    flags[t] = ends[min(y, T - 1)] + t as i32;
    sync_threads();
    let mut z = 0;
    if flags[0] > 3 {
        z = 1;
    }
    let at = min(z, 7);
    clear(&mut acc);
    for step in pipelined(0..ceil_div(K, 64), 2) {
        copy(a.at([y * 64, step * 64]), &mut a_s);
        copy(b.at([at * 64, step * 64]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    copy(&acc, c.at_mut([y * 64, 0]));
}

/// As many turns as threads have written.
#[tile_kernel(targets(sm_90a), require(T > 0))]
pub fn by_shared_bound(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    ends: &Tensor<i32, (T,)>,
    c: &mut Tensor<f32, (M, Fixed<64>)>,
) {
    let [y] = blocks([ceil_div(M, 64)]);
    let [t] = threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 64]);
    let mut b_s = alloc_shared::<f16>([64, 64]);
    let mut flags = alloc_shared::<i32>([128]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    flags[t] = ends[min(y, T - 1)] + t as i32;
    sync_threads();
    clear(&mut acc);
    for step in pipelined(0..min(max(flags[0], 0), 3) as usize, 2) {
        copy(a.at([y * 64, step * 64]), &mut a_s);
        copy(b.at([y * 64, step * 64]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    copy(&acc, c.at_mut([y * 64, 0]));
}

/// Two warpgroups that take tiles in turn, whose number of steps is named in the tile.
#[tile_kernel(targets(sm_90a), require(T > 0))]
pub fn in_turn_named(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    ends: &Tensor<i32, (T,)>,
    c: &mut Tensor<f32, (M, Fixed<64>)>,
) {
    threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 64]);
    let mut b_s = alloc_shared::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    for [y] in persistent([ceil_div(M, 64)]) {
        let steps = min(max(ends[0], 1), 3) as usize;
        clear(&mut acc);
        for step in pipelined(0..steps, 2).schedule(PingPong) {
            copy(a.at([y * 64, step * 64]), &mut a_s);
            copy(b.at([y * 64, step * 64]), &mut b_s);
            gemm(&a_s, b_s.t(), &mut acc);
        }
        copy(&acc, c.at_mut([y * 64, 0]));
    }
}

/// Of which some tiles have more steps than others, by a condition.
#[tile_kernel(targets(sm_90a), require(T > 0))]
pub fn in_turn_by_condition(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    ends: &Tensor<i32, (T,)>,
    c: &mut Tensor<f32, (M, Fixed<64>)>,
) {
    threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 64]);
    let mut b_s = alloc_shared::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    for [y] in persistent([ceil_div(M, 64)]) {
        let mut steps = 1;
        if ends[0] == 2 && y % 3 == 1 {
            steps = 3;
        }
        clear(&mut acc);
        for step in pipelined(0..steps, 2).schedule(PingPong) {
            copy(a.at([y * 64, step * 64]), &mut a_s);
            copy(b.at([y * 64, step * 64]), &mut b_s);
            gemm(&a_s, b_s.t(), &mut acc);
        }
        copy(&acc, c.at_mut([y * 64, 0]));
    }
}

/// Of which only some tiles have the loop at all.
#[tile_kernel(targets(sm_90a), require(T > 0))]
pub fn in_turn_under_condition(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    ends: &Tensor<i32, (T,)>,
    c: &mut Tensor<f32, (M, Fixed<64>)>,
) {
    threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 64]);
    let mut b_s = alloc_shared::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    for [y] in persistent([ceil_div(M, 64)]) {
        clear(&mut acc);
        if (ends[0] + y as i32) % 2 == 0 {
            for step in pipelined(0..ceil_div(K, 64), 2).schedule(PingPong) {
                copy(a.at([y * 64, step * 64]), &mut a_s);
                copy(b.at([y * 64, step * 64]), &mut b_s);
                gemm(&a_s, b_s.t(), &mut acc);
            }
        }
        copy(&acc, c.at_mut([y * 64, 0]));
    }
}

/// Of which each has the loop twice.
#[tile_kernel(targets(sm_90a), require(T > 0))]
pub fn in_turn_twice(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    ends: &Tensor<i32, (T,)>,
    c: &mut Tensor<f32, (M, Fixed<64>)>,
) {
    threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 64]);
    let mut b_s = alloc_shared::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    for [y] in persistent([ceil_div(M, 64)]) {
        clear(&mut acc);
        for turn in 0..min(max(ends[0], 0), 2) as usize {
            for step in pipelined(0..ceil_div(K, 64), 2).schedule(PingPong) {
                copy(a.at([y * 64, step * 64]), &mut a_s);
                copy(b.at([turn * 64, step * 64]), &mut b_s);
                gemm(&a_s, b_s.t(), &mut acc);
            }
        }
        copy(&acc, c.at_mut([y * 64, 0]));
    }
}

/// Two blocks of a cluster whose tiles of `B` are others because of a condition.
#[tile_kernel(targets(sm_90a), require(T > 0))]
pub fn in_cluster(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    ends: &Tensor<i32, (T,)>,
    c: &mut Tensor<f32, (M, Fixed<64>)>,
) {
    let [y] = blocks([ceil_div(M, 64)]);
    threads([128]);
    cluster([2]);
    let mut a_s = alloc_shared::<f16>([64, 64]);
    let mut b_s = alloc_shared::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    let mut z = 0;
    if y % 2 == 1 {
        z = min(max(ends[0], 0), 7) as usize;
    }
    let at = min(z, 7);
    clear(&mut acc);
    for step in pipelined(0..ceil_div(K, 64), 2) {
        copy(a.at([y * 64, step * 64]), &mut a_s);
        copy(b.at([at * 64, step * 64]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    copy(&acc, c.at_mut([y * 64, 0]));
}

/// A launch that may begin early, whose first tiles are those that a loop finds.
#[tile_kernel(targets(sm_90a), require(T > 0), pdl(independent = [b, ends]))]
pub fn early(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    ends: &Tensor<i32, (T,)>,
    c: &mut Tensor<f32, (M, Fixed<64>)>,
) {
    let [y] = blocks([ceil_div(M, 64)]);
    threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 64]);
    let mut b_s = alloc_shared::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    let mut z = 0;
    for i in 0..T {
        if ends[i] <= y as i32 {
            z += 1;
        }
    }
    let at = min(z, 7);
    clear(&mut acc);
    for step in pipelined(0..ceil_div(K, 64), 2) {
        copy(a.at([y * 64, step * 64]), &mut a_s);
        copy(b.at([at * 64, step * 64]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    copy(&acc, c.at_mut([y * 64, 0]));
}

/// A launch that may begin early, but not read which tiles it loads: the table is the previous kernel's.
#[tile_kernel(targets(sm_90a), require(T > 0), pdl(independent = [b]))]
pub fn early_by_table(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    ends: &Tensor<i32, (T,)>,
    c: &mut Tensor<f32, (M, Fixed<64>)>,
) {
    let [y] = blocks([ceil_div(M, 64)]);
    threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 64]);
    let mut b_s = alloc_shared::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    let z = min(max(ends[min(y, T - 1)], 0), 7) as usize;
    clear(&mut acc);
    for step in pipelined(0..ceil_div(K, 64), 2) {
        copy(a.at([y * 64, step * 64]), &mut a_s);
        copy(b.at([z * 64, step * 64]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    copy(&acc, c.at_mut([y * 64, 0]));
}

/// Elements of a row of `A` and `B`, and columns of a tile.
const K: usize = 192;
/// Tiles of `A`, and those of `B`.
const TILES: [usize; 2] = [6, 8];
/// Where sequences of tiles of `A` end.
const ENDS: [usize; 4] = [2, 3, 5, 6];

/// One of the kernels.
struct Case {
    name: &'static str,
    definition: fn() -> &'static Definition,
    /// The tiles of `B` that tile `y` of `A` is multiplied with, and the number of steps.
    tiles: fn(usize) -> (Vec<usize>, usize),
    /// Why no producer loads the tiles.
    no_producer: Option<&'static str>,
}

const fn case(
    name: &'static str,
    definition: fn() -> &'static Definition,
    tiles: fn(usize) -> (Vec<usize>, usize),
) -> Case {
    Case { name, definition, tiles, no_producer: None }
}

/// The first sequence that ends behind a tile.
fn sequence(y: usize) -> usize {
    ENDS.iter().position(|end| *end > y).unwrap()
}

/// What [`by_loops`] counts.
fn counted(y: usize) -> (usize, usize) {
    let (mut z, mut steps) = (0, 1);
    loop {
        let mut inner: usize = steps - 1;
        for (i, end) in ENDS.iter().enumerate() {
            if i >= z && *end > y {
                inner += 2;
                break;
            }
            inner += 1;
        }
        steps = inner % 4 + 1;
        if z >= y || inner > 4 {
            return (z, steps);
        }
        z += 1;
    }
}

const LOADED: &str = "depends on a condition or a loop's bounds, computed from what threads have loaded or computed";

fn cases() -> [Case; 12] {
    let without = |why: &'static str, case: Case| Case { no_producer: Some(why), ..case };
    [
        case("by while", by_while::definition, |y| (vec![sequence(y)], 3)),
        case("by break", by_break::definition, |y| (vec![sequence(y)], 3)),
        case("by loops", by_loops::definition, |y| (vec![counted(y).0], counted(y).1.min(3))),
        without(
            LOADED,
            case("by shared condition", by_shared_condition::definition, |y| {
                (vec![usize::from(ENDS[y.min(3)] > 3)], 3)
            }),
        ),
        without(LOADED, case("by shared bound", by_shared_bound::definition, |y| (vec![y], ENDS[y.min(3)].min(3)))),
        without(
            "ping-pong needs the length of its pipelined loop before the first tile",
            case("in turn, named", in_turn_named::definition, |y| (vec![y], 2)),
        ),
        without(
            "ping-pong needs pipelined loops of one length for all tiles",
            case("in turn, by condition", in_turn_by_condition::definition, |y| {
                (vec![y], if y % 3 == 1 { 3 } else { 1 })
            }),
        ),
        without(
            "ping-pong goes round its pipelined loop once a tile",
            case("in turn, under condition", in_turn_under_condition::definition, |y| {
                (if y % 2 == 0 { vec![y] } else { vec![] }, 3)
            }),
        ),
        without(
            "ping-pong goes round its pipelined loop once a tile",
            case("in turn, twice", in_turn_twice::definition, |_| (vec![0, 1], 3)),
        ),
        case("in cluster", in_cluster::definition, |y| (vec![if y % 2 == 1 { 2 } else { 0 }], 3)),
        case("early", early::definition, |y| (vec![sequence(y)], 3)),
        case("early by table", early_by_table::definition, |y| (vec![ENDS[y.min(3)]], 3)),
    ]
}

fn lowered(definition: &'static Definition) -> Result<Program, String> {
    let kernel = definition.kernel().unwrap();
    lower(kernel, &kernel.instances[0], Target::Sm90a).map_err(|all| format!("{all:?}"))
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

fn left(at: usize) -> f32 {
    (at * 7 % 11 % 3) as f32
}

fn right(at: usize) -> f32 {
    (at * 5 % 13 % 3) as f32 - 1.0
}

impl Case {
    fn arguments(&self) -> Vec<Argument> {
        let half = |of: fn(usize) -> f32| move |at: usize| u32::from(f16::from_f32(of(at)).to_bits());
        let [rows, columns] = TILES.map(|tiles| 64 * tiles as i64);
        vec![
            tensor(Dtype::F16, &[rows, K as i64], half(left)),
            tensor(Dtype::F16, &[columns, K as i64], half(right)),
            tensor(Dtype::I32, &[ENDS.len() as i64], |at| ENDS[at] as u32),
            tensor(Dtype::F32, &[rows, 64], |_| f32::NAN.to_bits()),
        ]
    }

    fn wanted(&self) -> Vec<f32> {
        let element = |row: usize, column: usize| -> f32 {
            let (tiles, steps) = (self.tiles)(row / 64);
            let products =
                |tile: usize| (0..64 * steps).map(move |k| left(row * K + k) * right((tile * 64 + column) * K + k));
            tiles.into_iter().flat_map(products).sum()
        };
        (0..64 * TILES[0])
            .flat_map(|row| (0..64).map(move |column| (row, column)))
            .map(|(r, c)| element(r, c))
            .collect()
    }

    /// What a launch says, and whether it left what it should.
    fn launch(&self, program: &Program, seed: u64, blocks: u32) -> Result<(), String> {
        let arguments = self.arguments();
        let schedule = match seed {
            0 => Schedule::InOrder,
            _ => Schedule::Seeded { resident_blocks: (seed % 3 + 1) as u32 },
        };
        let copies = [Copies::Late, Copies::Early, Copies::default()][seed as usize % 3];
        let step_limit = 400_000;
        let options =
            CheckedOptions { seed, schedule, copies, clusters: blocks, step_limit, ..CheckedOptions::default() };
        let report = run(program, &arguments, &options).map_err(|error| error.to_string())?;
        let found: Vec<String> =
            report.diagnostics.iter().map(|d| format!("{} {} {}", d.code, d.message, d.at)).collect();
        let Argument::Tensor(result) = &arguments[3] else { panic!("a tensor") };
        let mut bytes = vec![0; result.memory.len()];
        result.memory.read(0, &mut bytes).expect("its own bytes");
        let result: Vec<f32> = bytes.chunks(4).map(|x| f32::from_le_bytes(x.try_into().unwrap())).collect();
        match found.is_empty() {
            false => Err(found.join("; ")),
            true if result != self.wanted() => Err("another result".to_owned()),
            true => Ok(()),
        }
    }
}

/// Producer and consumers come to the same tiles, whatever the order of warps.
#[test]
fn the_tiles_that_are_meant_are_loaded() {
    let mut wrong = Vec::new();
    for case in cases() {
        let program = match lowered((case.definition)()) {
            Ok(program) => program,
            Err(all) => {
                wrong.push(format!("{}: {all}", case.name));
                continue;
            }
        };
        if let Err(bug) = verify(&program, Effort::Test) {
            wrong.push(format!("{}: {bug:?}", case.name));
        }
        for (blocks, seed) in [(1, 0), (1, 1), (2, 2), (2, 4)] {
            if let Err(what) = case.launch(&program, seed, blocks) {
                wrong.push(format!("{} of {blocks} blocks, seed {seed}: {what}", case.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Who has a producer, and of those who have none why.
#[test]
fn it_is_said_why_there_is_no_producer() {
    for case in cases() {
        let program = lowered((case.definition)()).unwrap();
        let says = |text: &str| program.remarks.iter().any(|remark| remark.text.contains(text));
        assert_eq!(
            says("warp specialised: a producer fills"),
            case.no_producer.is_none(),
            "{}: {:?}",
            case.name,
            program.remarks
        );
        assert!(case.no_producer.is_none_or(says), "{}: {:?}", case.name, program.remarks);
    }
}
