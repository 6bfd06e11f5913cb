//! Tiles that stay in shared memory while a loop goes round, of which a block has several one after the other and some without a step of the
//! loop: nothing that all warps of a warpgroup come to then stands between the wait for such a tile and where it is given back. Under schedules
//! that a GPU may have, on the checked simulator, which says what may happen under any other; and what the kernels compute, on every device.

use std::sync::Arc;
use tile_ir::ir::{Dtype, Target};
use tile_ir::lower::lower;
use tile_ir::lowered::Program;
use tile_ir::sim::checked::{CheckedOptions, Copies, Schedule, run};
use tile_ir::sim::{Argument, Memory, TensorArgument};
use tile_ir::testing::plant::{mistakes, planted};
use tile_ir::verify::program::{Effort, program as verify};
use tile_kernel_examples::devices::devices;
use tile_runtime::kernel::Definition;
use tile_runtime::prelude::*;

/// `(Q K^T) K` of tiles of 64 rows, of which number `t` sees the first `steps[t]` tiles of `K`: two products, the second from registers, which are
/// software-pipelined.
#[tile_kernel(targets(sm_90a), require(T > 0))]
pub fn shifted(
    q: &Tensor<f16, (M, Fixed<64>)>,
    k: &Tensor<f16, (N, Fixed<64>)>,
    steps: &Tensor<i32, (T,)>,
    c: &mut Tensor<f32, (M, Fixed<64>)>,
) {
    threads([128]);
    let mut q_s = alloc_shared::<f16>([64, 64]);
    let mut k_s = alloc_shared::<f16>([64, 64]);
    let mut v_s = alloc_shared::<f16>([64, 64]);
    let mut scores = alloc_fragment::<f32>([64, 64]);
    let mut weights = alloc_fragment::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    for [y] in persistent([ceil_div(M, 64)]) {
        let count = max(min(steps[min(y, T - 1)], 8), 0) as usize;
        clear(&mut acc);
        copy(q.at([y * 64, 0]), &mut q_s);
        for step in pipelined(0..count, 2) {
            copy(k.at([step * 64, 0]), &mut k_s);
            copy(k.at([step * 64, 0]), &mut v_s);
            gemm(&q_s, k_s.t(), &mut scores).clear();
            for [i, j] in parallel([64, 64]) {
                weights[[i, j]] = scores[[i, j]].cast::<f16>();
            }
            gemm(&weights, &v_s, &mut acc);
        }
        copy(&acc, c.at_mut([y * 64, 0]));
    }
}

/// [`shifted`] whose tiles are counted, two warpgroups a tile.
#[tile_kernel(targets(sm_90a), require(T > 0))]
pub fn counted(
    q: &Tensor<f16, (M, Fixed<64>)>,
    k: &Tensor<f16, (N, Fixed<64>)>,
    steps: &Tensor<i32, (T,)>,
    c: &mut Tensor<f32, (M, Fixed<64>)>,
    taken: &mut Tensor<u32, (Fixed<1>,)>,
) {
    threads([256]);
    let mut q_s = alloc_shared::<f16>([128, 64]);
    let mut k_s = alloc_shared::<f16>([64, 64]);
    let mut v_s = alloc_shared::<f16>([64, 64]);
    let mut scores = alloc_fragment::<f32>([128, 64]);
    let mut weights = alloc_fragment::<f16>([128, 64]);
    let mut acc = alloc_fragment::<f32>([128, 64]);
    for [y] in persistent([ceil_div(M, 128)]).counter(&mut taken[0]) {
        let count = max(min(steps[min(y, T - 1)], 8), 0) as usize;
        clear(&mut acc);
        copy(q.at([y * 128, 0]), &mut q_s);
        for step in pipelined(0..count, 2) {
            copy(k.at([step * 64, 0]), &mut k_s);
            copy(k.at([step * 64, 0]), &mut v_s);
            gemm(&q_s, k_s.t(), &mut scores).clear();
            for [i, j] in parallel([128, 64]) {
                weights[[i, j]] = scores[[i, j]].cast::<f16>();
            }
            gemm(&weights, &v_s, &mut acc);
        }
        copy(&acc, c.at_mut([y * 128, 0]));
    }
}

/// [`shifted`] with the last step, of which a half of the scores is hidden, in a loop of its own: either loop may be empty.
#[tile_kernel(targets(sm_90a), require(T > 0))]
pub fn masked_apart(
    q: &Tensor<f16, (M, Fixed<64>)>,
    k: &Tensor<f16, (N, Fixed<64>)>,
    steps: &Tensor<i32, (T,)>,
    c: &mut Tensor<f32, (M, Fixed<64>)>,
) {
    threads([128]);
    let mut q_s = alloc_shared::<f16>([64, 64]);
    let mut k_s = alloc_shared::<f16>([64, 64]);
    let mut v_s = alloc_shared::<f16>([64, 64]);
    let mut scores = alloc_fragment::<f32>([64, 64]);
    let mut weights = alloc_fragment::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    for [y] in persistent([ceil_div(M, 64)]) {
        let count = max(min(steps[min(y, T - 1)], 8), 0) as usize;
        let whole = count / 2 * 2;
        clear(&mut acc);
        copy(q.at([y * 64, 0]), &mut q_s);
        for step in pipelined(0..whole, 2) {
            copy(k.at([step * 64, 0]), &mut k_s);
            copy(k.at([step * 64, 0]), &mut v_s);
            gemm(&q_s, k_s.t(), &mut scores).clear();
            for [i, j] in parallel([64, 64]) {
                weights[[i, j]] = scores[[i, j]].cast::<f16>();
            }
            gemm(&weights, &v_s, &mut acc);
        }
        for step in pipelined(whole..count, 2) {
            copy(k.at([step * 64, 0]), &mut k_s);
            copy(k.at([step * 64, 0]), &mut v_s);
            gemm(&q_s, k_s.t(), &mut scores).clear();
            for [i, j] in parallel([64, 64]) {
                if j >= 32 {
                    scores[[i, j]] = 0.0;
                }
            }
            for [i, j] in parallel([64, 64]) {
                weights[[i, j]] = scores[[i, j]].cast::<f16>();
            }
            gemm(&weights, &v_s, &mut acc);
        }
        copy(&acc, c.at_mut([y * 64, 0]));
    }
}

/// `Q` times the sum of `steps[t]` tiles of `K`: one product, several of which are in flight.
#[tile_kernel(targets(sm_90a), require(T > 0))]
pub fn overlapped(
    q: &Tensor<f16, (M, Fixed<64>)>,
    k: &Tensor<f16, (N, Fixed<64>)>,
    steps: &Tensor<i32, (T,)>,
    c: &mut Tensor<f32, (M, Fixed<64>)>,
) {
    threads([128]);
    let mut q_s = alloc_shared::<f16>([64, 64]);
    let mut k_s = alloc_shared::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    for [y] in persistent([ceil_div(M, 64)]) {
        let count = max(min(steps[min(y, T - 1)], 8), 0) as usize;
        clear(&mut acc);
        copy(q.at([y * 64, 0]), &mut q_s);
        for step in pipelined(0..count, 2) {
            copy(k.at([step * 64, 0]), &mut k_s);
            gemm(&q_s, k_s.t(), &mut acc);
        }
        copy(&acc, c.at_mut([y * 64, 0]));
    }
}

/// The largest elements of the products of `Q` with `steps[t]` tiles of `K`, and 0: a product is issued before the work on the one before.
#[tile_kernel(targets(sm_90a), require(T > 0))]
pub fn alternating(
    q: &Tensor<f16, (M, Fixed<64>)>,
    k: &Tensor<f16, (N, Fixed<64>)>,
    steps: &Tensor<i32, (T,)>,
    c: &mut Tensor<f32, (M, Fixed<64>)>,
) {
    threads([128]);
    let mut q_s = alloc_shared::<f16>([64, 64]);
    let mut k_s = alloc_shared::<f16>([64, 64]);
    let mut scores = alloc_fragment::<f32>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    for [y] in persistent([ceil_div(M, 64)]) {
        let count = max(min(steps[min(y, T - 1)], 8), 0) as usize;
        clear(&mut acc);
        copy(q.at([y * 64, 0]), &mut q_s);
        for step in pipelined(0..count, 2) {
            copy(k.at([step * 64, 0]), &mut k_s);
            gemm(&q_s, k_s.t(), &mut scores).clear();
            for [i, j] in parallel([64, 64]) {
                acc[[i, j]] = max(acc[[i, j]], scores[[i, j]]);
            }
        }
        copy(&acc, c.at_mut([y * 64, 0]));
    }
}

/// `Q` times the sum of the tiles of `K`, and that `steps[t]` times times the first of them, which is loaded once while the loop before goes on.
#[tile_kernel(targets(sm_90a), require(T > 0))]
pub fn late(
    q: &Tensor<f16, (M, Fixed<64>)>,
    k: &Tensor<f16, (N, Fixed<64>)>,
    steps: &Tensor<i32, (T,)>,
    c: &mut Tensor<f32, (M, Fixed<64>)>,
) {
    threads([128]);
    let mut q_s = alloc_shared::<f16>([64, 64]);
    let mut k_s = alloc_shared::<f16>([64, 64]);
    let mut w_s = alloc_shared::<f16>([64, 64]);
    let mut weights = alloc_fragment::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    let mut sum = alloc_fragment::<f32>([64, 64]);
    for [y] in persistent([ceil_div(M, 64)]) {
        let count = max(min(steps[min(y, T - 1)], 8), 0) as usize;
        clear(&mut acc);
        clear(&mut sum);
        copy(q.at([y * 64, 0]), &mut q_s);
        for step in pipelined(0..2, 2) {
            copy(k.at([step * 64, 0]), &mut k_s);
            gemm(&q_s, k_s.t(), &mut acc);
        }
        for [i, j] in parallel([64, 64]) {
            weights[[i, j]] = acc[[i, j]].cast::<f16>();
        }
        copy(k.at([0, 0]), &mut w_s);
        for _turn in 0..count {
            gemm(&weights, &w_s, &mut sum);
        }
        copy(&sum, c.at_mut([y * 64, 0]));
    }
}

/// Columns of `Q` and `K`, and rows of a tile of `K`.
const D: usize = 64;

/// One of the kernels.
struct Case {
    name: &'static str,
    definition: fn() -> &'static Definition,
    /// Rows of a tile of `Q`.
    rows: usize,
    /// A row of the result, of a row of `Q`, the rows of `K` and the tile's number of steps.
    row: fn(&[f32], &[f32], usize) -> Vec<f32>,
}

fn dots(row: &[f32], keys: &[f32]) -> Vec<f32> {
    keys.chunks(D).map(|key| row.iter().zip(key).map(|(a, b)| a * b).sum()).collect()
}

/// The sum of rows of `K`, each times its number among `weights`.
fn weighted(weights: &[f32], keys: &[f32]) -> Vec<f32> {
    (0..D).map(|column| weights.iter().zip(keys.chunks(D)).map(|(w, key)| w * key[column]).sum()).collect()
}

fn attended(q: &[f32], k: &[f32], steps: usize) -> Vec<f32> {
    let keys = &k[..steps * D * D];
    weighted(&dots(q, keys), keys)
}

fn half_hidden(q: &[f32], k: &[f32], steps: usize) -> Vec<f32> {
    let keys = &k[..steps * D * D];
    let seen = |at: usize| steps.is_multiple_of(2) || at < (steps - 1) * D + D / 2;
    let weights: Vec<f32> = dots(q, keys).iter().enumerate().map(|(at, w)| if seen(at) { *w } else { 0.0 }).collect();
    weighted(&weights, keys)
}

/// What a column comes to, tile after tile of `K`.
fn folded(q: &[f32], k: &[f32], steps: usize, f: fn(f32, f32) -> f32) -> Vec<f32> {
    let scores = dots(q, &k[..steps * D * D]);
    (0..D).map(|column| scores.iter().skip(column).step_by(D).copied().fold(0.0, f)).collect()
}

fn late_sum(q: &[f32], k: &[f32], steps: usize) -> Vec<f32> {
    let weights = folded(q, k, 2, |a, b| a + b);
    weighted(&weights, &k[..D * D]).into_iter().map(|x| x * steps as f32).collect()
}

const CASES: [Case; 6] = [
    Case { name: "shifted", definition: shifted::definition, rows: 64, row: attended },
    Case { name: "counted", definition: counted::definition, rows: 128, row: attended },
    Case { name: "masked apart", definition: masked_apart::definition, rows: 64, row: half_hidden },
    Case {
        name: "overlapped",
        definition: overlapped::definition,
        rows: 64,
        row: |q, k, steps| folded(q, k, steps, |a, b| a + b),
    },
    Case {
        name: "alternating",
        definition: alternating::definition,
        rows: 64,
        row: |q, k, steps| folded(q, k, steps, f32::max),
    },
    Case { name: "late", definition: late::definition, rows: 64, row: late_sum },
];

/// Steps of tiles: none, one, as many as a ring has slots, more; with several empty ones in a row, at the beginning and at the end.
const STEPS: [usize; 9] = [0, 2, 0, 0, 1, 3, 0, 1, 0];

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

/// Elements of `Q` and of `K`.
fn query(at: usize) -> f32 {
    (at * 7 % 5 % 2) as f32
}

fn key(at: usize) -> f32 {
    (at * 11 % 7 % 3) as f32 - 1.0
}

impl Case {
    fn arguments(&self) -> Vec<Argument> {
        let half = |of: fn(usize) -> f32| move |at: usize| u32::from(f16::from_f32(of(at)).to_bits());
        let rows = (self.rows * STEPS.len()) as i64;
        let mut all = vec![
            tensor(Dtype::F16, &[rows, 64], half(query)),
            tensor(Dtype::F16, &[3 * 64, 64], half(key)),
            tensor(Dtype::I32, &[STEPS.len() as i64], |at| STEPS[at] as u32),
            tensor(Dtype::F32, &[rows, 64], |_| f32::NAN.to_bits()),
        ];
        if self.name == "counted" {
            all.push(tensor(Dtype::U32, &[1], |_| 0));
        }
        all
    }

    fn wanted(&self) -> Vec<f32> {
        let keys: Vec<f32> = (0..3 * D * D).map(key).collect();
        let row = |row: usize| {
            let q: Vec<f32> = (row * D..row * D + D).map(query).collect();
            (self.row)(&q, &keys, STEPS[row / self.rows])
        };
        (0..self.rows * STEPS.len()).flat_map(row).collect()
    }

    /// What a launch says, and whether it left what it should.
    fn launch(&self, program: &Program, seed: u64, blocks: u32) -> Result<(), String> {
        let arguments = self.arguments();
        let schedule = match seed {
            0 => Schedule::InOrder,
            _ => Schedule::Seeded { resident_blocks: (seed % 3 + 1) as u32 },
        };
        let copies = [Copies::Late, Copies::Early, Copies::default()][seed as usize % 3];
        let options = CheckedOptions { seed, schedule, copies, clusters: blocks, ..CheckedOptions::default() };
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

/// Every kernel is lowered as its name says.
#[test]
fn the_kernels_have_tiles_that_stay() {
    for case in CASES {
        let program = lowered((case.definition)());
        let says = |text: &str| program.remarks.iter().any(|remark| remark.text.contains(text));
        let what =
            if case.name == "late" { "is loaded while the loop before goes on" } else { "is loaded once and stays" };
        assert!(says(what), "{}: {:?}", case.name, program.remarks);
        let shifted = ["shifted", "counted", "masked apart"].contains(&case.name);
        assert_eq!(says("is issued before the second one of this"), shifted, "{}: {:?}", case.name, program.remarks);
        assert_eq!(says("is issued before the work on this one"), case.name == "alternating", "{}", case.name);
    }
}

/// Whatever the order of warps, a tile without a step neither waits for ever nor gets the tile of another.
#[test]
fn tiles_without_a_step() {
    let mut wrong = Vec::new();
    for case in CASES {
        let program = lowered((case.definition)());
        for blocks in 1..=2 {
            for seed in 0..6 {
                if let Err(what) = case.launch(&program, seed, blocks) {
                    wrong.push(format!("{} of {blocks} blocks, seed {seed}: {what}", case.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The barrier that stands where a tile has no step is one that the verifier misses.
#[test]
fn the_barrier_of_an_empty_loop_is_missed() {
    for case in CASES {
        let program = lowered((case.definition)());
        verify(&program, Effort::Test).unwrap_or_else(|bug| panic!("{}: {bug:?}", case.name));
        let slot = if case.name == "late" { "`late_full[0]`" } else { "`resident_full[0]`" };
        let is_missed = |wrong: &Program| {
            let found = verify(wrong, Effort::Test).err().map(|bug| format!("{bug:?}"));
            found.is_some_and(|text| {
                text.contains(&format!("{slot} completes a phase that nothing orders after this wait"))
            })
        };
        let barriers: Vec<_> =
            mistakes(&program).into_iter().filter(|m| m.text == "`named barrier` is left out").collect();
        assert!(barriers.iter().any(|mistake| is_missed(&planted(&program, mistake))), "{}: {barriers:?}", case.name);
    }
}

/// On every device; on a GPU with several tiles a block.
#[test]
fn what_is_computed() {
    for device in devices() {
        let again = if device.is_simulator() { 1 } else { 100 };
        for case in CASES {
            let tiles: Vec<usize> = (0..again).flat_map(|_| STEPS).collect();
            let rows = case.rows * STEPS.len();
            let q: Vec<f16> = (0..again).flat_map(|_| 0..rows * D).map(|at| f16::from_f32(query(at))).collect();
            let k: Vec<f16> = (0..3 * D * D).map(|at| f16::from_f32(key(at))).collect();
            let steps: Vec<i32> = tiles.iter().map(|steps| *steps as i32).collect();
            let q = device.tensor(&q, [rows * again, D]).unwrap();
            let k = device.tensor(&k, [3 * D, D]).unwrap();
            let steps = device.tensor(&steps, [tiles.len()]).unwrap();
            let mut c = device.tensor(&vec![f32::NAN; rows * again * D], [rows * again, D]).unwrap();
            let mut taken = device.zeros::<u32, 1>([1]).unwrap();
            match case.name {
                "shifted" => shifted::launch(&device, &q, &k, &steps, &mut c),
                "counted" => counted::launch(&device, &q, &k, &steps, &mut c, &mut taken),
                "masked apart" => masked_apart::launch(&device, &q, &k, &steps, &mut c),
                "overlapped" => overlapped::launch(&device, &q, &k, &steps, &mut c),
                "alternating" => alternating::launch(&device, &q, &k, &steps, &mut c),
                _ => late::launch(&device, &q, &k, &steps, &mut c),
            }
            .unwrap();
            let wanted = case.wanted();
            let wanted: Vec<f32> = (0..again).flat_map(|_| wanted.iter().copied()).collect();
            assert!(c.to_vec().unwrap() == wanted, "{device}: {}", case.name);
        }
    }
}
