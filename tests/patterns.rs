//! The patterns that have miscompiled kernels of other compilers in public (`reliability.md` R4), one test each, named by the
//! pattern. A kernel with the pattern computes right on both simulators (and on the GPU where there is one), or it is
//! refused with its code. Where the pattern is about what the compiler places, the program is broken by hand as
//! well, an operation at a time, and the checked simulator must say so: a test of a barrier can fail only where a missing
//! barrier is seen.
//!
//! Three patterns cannot occur here:
//!
//! - *A user's barrier that has the number of one of the compiler's*: authors have `sync_threads()`, `sync_warp()` and nothing
//!   with a number. That the compiler's own differ from each other and from the block's is
//!   `named_barriers_have_numbers_of_their_own`.
//! - *Read-modify-write of less than a byte*: the smallest element has 8 bits, and no access is wider than its elements unless it
//!   is a vector that one thread owns. The next larger thing, neighbouring elements of 16 bits by different threads, is
//!   `neighbouring_halves_of_a_word`.
//! - *The granularities of two swizzles merged*: a swizzle belongs to an array, and its address formula to the access; there is no
//!   layout algebra that could merge them. Two arrays of different swizzles in one product are
//!   `two_swizzles_in_one_product`.

use std::sync::Arc;
use tile_ir::ir::{Dtype, Kernel, Target};
use tile_ir::lowered::visit::{each, each_list_mut};
use tile_ir::lowered::{OpKind, Program};
use tile_ir::sim::checked::{CheckedOptions, Copies, Schedule, run};
use tile_ir::sim::{Argument, Memory, ScalarValue, TensorArgument, numeric};
use tile_kernel_examples::data::integers;
use tile_kernel_examples::devices::devices;
use tile_runtime::prelude::*;

// ---- helpers -------------------------------------------------------------------------------------------------------

/// The codes that a kernel's text is refused with while it is typed.
fn refused(attribute: &str, item: &str) -> Vec<String> {
    let checked = tile_syntax::check_kernel(attribute.parse().expect("tokens"), item.parse().expect("tokens"));
    checked.diagnostics.iter().map(|d| d.code.to_string()).collect()
}

/// A parameter of a launch of a lowered program.
enum Parameter {
    In(Vec<f32>, Vec<i64>, Dtype),
    Out(Vec<i64>, Dtype),
    Index(u64),
}

/// A program's results, and what the checked simulator says under three schedules; the results of the last.
fn execute(program: &Program, parameters: &[Parameter]) -> (Vec<Vec<f32>>, String) {
    let (mut results, mut said) = (vec![], String::new());
    for (seed, copies) in [(1, Copies::Early), (2, Copies::Late), (3, Copies::Seeded)] {
        let mut outputs = vec![];
        let args: Vec<Argument> = parameters
            .iter()
            .map(|parameter| {
                let (values, shape, dtype) = match parameter {
                    Parameter::In(values, shape, dtype) => (Some(values), shape, *dtype),
                    Parameter::Out(shape, dtype) => (None, shape, *dtype),
                    Parameter::Index(value) => return Argument::Scalar(ScalarValue::Index(*value as i64)),
                };
                let len: i64 = shape.iter().product();
                let memory = Arc::new(Memory::zeros(len as usize * dtype.bytes() as usize));
                for (at, value) in values.into_iter().flatten().enumerate() {
                    let bits = numeric::encode(dtype, *value);
                    memory.set(at * dtype.bytes() as usize, dtype, bits).expect("inside");
                }
                if values.is_none() {
                    outputs.push((memory.clone(), len as usize, dtype));
                }
                let strides = (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect();
                Argument::Tensor(TensorArgument { dtype, memory, offset: 0, shape: shape.clone(), strides })
            })
            .collect();
        let schedule = Schedule::Seeded { resident_blocks: 2 };
        let options = CheckedOptions { seed, copies, schedule, step_limit: 4_000_000, ..CheckedOptions::default() };
        match run(program, &args, &options) {
            Ok(report) => report.diagnostics.iter().for_each(|d| said += &format!("{}: {}\n", d.code, d.message)),
            Err(error) => said += &format!("{error}\n"),
        }
        let read = |(memory, len, dtype): &(Arc<Memory>, usize, Dtype)| -> Vec<f32> {
            let get = |at: usize| memory.get(at * dtype.bytes() as usize, *dtype).expect("inside");
            (0..*len).map(|at| numeric::decode(*dtype, get(at))).collect()
        };
        results = outputs.iter().map(read).collect();
    }
    (results, said)
}

/// The program of an instance: the first whose constants are these.
fn program(kernel: &Kernel, consts: &[i64], target: Target) -> Program {
    let same = |i: &&tile_ir::ir::Instance| i.consts == consts;
    let instance = kernel.instances.iter().find(same).expect("a declared instance");
    tile_ir::lower::lower(kernel, instance, target).expect("it lowers")
}

fn count(program: &Program, matches: impl Fn(&OpKind) -> bool) -> usize {
    let mut count = 0;
    each(&program.body, &mut |op| count += usize::from(matches(&op.kind)));
    count
}

/// The program without one of the operations that match, the `number`th.
fn without(program: &Program, number: usize, matches: impl Fn(&OpKind) -> bool) -> Program {
    let (mut broken, mut seen) = (program.clone(), 0);
    each_list_mut(&mut broken.body, &mut |ops| {
        ops.retain(|op| {
            let dropped = matches(&op.kind) && seen == number;
            seen += usize::from(matches(&op.kind));
            !dropped
        });
    });
    broken
}

/// The program is clean and gives these results; without any one of the operations that match it gives them still, or is
/// reported, and at least one of those is reported.
fn needs(program: &Program, parameters: &[Parameter], expected: &[Vec<f32>], matches: impl Fn(&OpKind) -> bool) {
    let (results, said) = execute(program, parameters);
    assert_eq!(said, "", "{}", program.name);
    assert!(results == expected, "{}: the results differ", program.name);
    let all = count(program, &matches);
    let mut reported = 0;
    for number in 0..all {
        let (results, said) = execute(&without(program, number, &matches), parameters);
        assert!(!said.is_empty() || results == expected, "{}: {number} of {all} is missed", program.name);
        reported += u32::from(!said.is_empty());
    }
    assert!(reported > 0, "{}: none of {all} operations is needed", program.name);
}

fn is_barrier(op: &OpKind) -> bool {
    matches!(op, OpKind::Barrier | OpKind::NamedBarrier { .. })
}

fn floats(len: usize) -> Vec<f32> {
    (0..len).map(|i| (i % 97) as f32 - 48.0).collect()
}

// ---- products --------------------------------------------------------------------------------------------------------

/// C = A B, on Hopper by roles over persistent tiles where its tiles allow it.
#[tile_kernel(instances((BM, BN, BK, STAGES) in [
    (64, 64, 64, 2), (64, 96, 32, 3), (64, 192, 32, 2), (64, 72, 32, 2), (64, 24, 64, 4),
]))]
pub fn product<const BM: usize, const BN: usize, const BK: usize, const STAGES: usize>(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    c: &mut Tensor<f16, (M, N)>,
) {
    threads([128]);
    let mut a_s = alloc_shared::<f16>([BM, BK]);
    let mut b_s = alloc_shared::<f16>([BN, BK]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    for [bx, by] in persistent([ceil_div(N, BN), ceil_div(M, BM)]) {
        clear(&mut acc);
        for k in pipelined(0..ceil_div(K, BK), STAGES) {
            copy(a.at([by * BM, k * BK]), &mut a_s);
            copy(b.at([bx * BN, k * BK]), &mut b_s);
            gemm(&a_s, b_s.t(), &mut acc);
        }
        copy(&acc, c.at_mut([by * BM, bx * BN]));
    }
}

/// Small integers, whose products are exact in f16.
fn operands(m: usize, n: usize, k: usize) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
    let whole = |seed, len| -> Vec<f32> { integers::<f32>(seed, len, 2) };
    let (a, b) = (whole(1, m * k), whole(2, n * k));
    let c = (0..m * n).map(|e| (0..k).map(|i| a[e / n * k + i] * b[e % n * k + i]).sum()).collect();
    (a, b, c)
}

fn of_product(m: usize, n: usize, k: usize) -> (Vec<Parameter>, Vec<Vec<f32>>) {
    let (a, b, c) = operands(m, n, k);
    let shape = |x: usize, y: usize| vec![x as i64, y as i64];
    let parameters = vec![
        Parameter::In(a, shape(m, k), Dtype::F16),
        Parameter::In(b, shape(n, k), Dtype::F16),
        Parameter::Out(shape(m, n), Dtype::F16),
    ];
    (parameters, vec![c])
}

/// The product of this shape, on every device, by `launch`.
fn multiplies(
    [m, n, k]: [usize; 3],
    launch: impl Fn(&Device, &Tensor<f16, 2>, &Tensor<f16, 2>, &mut Tensor<f16, 2>) -> Result<(), LaunchError>,
) {
    let (a, b, expected) = operands(m, n, k);
    let halves = |values: &[f32]| -> Vec<f16> { values.iter().map(|v| f16::from_f32(*v)).collect() };
    for device in devices() {
        let a = device.tensor(&halves(&a), [m, k]).unwrap();
        let b = device.tensor(&halves(&b), [n, k]).unwrap();
        let mut c = device.zeros::<f16, 2>([m, n]).unwrap();
        launch(&device, &a, &b, &mut c).unwrap();
        assert!(c.to_vec().unwrap() == halves(&expected), "{m}x{n}x{k} on {device:?}");
    }
}

fn hopper(consts: [i64; 4]) -> Program {
    let kernel = product::<64, 64, 64, 2>::definition().kernel().unwrap();
    let program = program(kernel, &consts, Target::Sm90a);
    assert!(count(&program, |op| matches!(op, OpKind::TensorLoad { .. })) > 0, "{consts:?} is specialised");
    program
}

// ---- synchronisation -------------------------------------------------------------------------------------------------

/// A row of 48 elements, turned round by 48 threads.
#[tile_kernel]
pub fn turned(x: &Tensor<f32, (N, Fixed<48>)>, y: &mut Tensor<f32, (N, Fixed<48>)>) {
    let [b] = blocks([N]);
    let [t] = threads([48]);
    let mut s = alloc_shared::<f32>([48]);
    s[t] = x[[b, t]];
    sync_threads();
    y[[b, t]] = s[47 - t];
}

#[test]
fn barrier_of_threads_that_are_not_whole_warps() {
    let kernel = turned::definition().kernel().unwrap();
    let x = floats(3 * 48);
    let expected: Vec<f32> = (0..3 * 48).map(|i| x[i / 48 * 48 + 47 - i % 48]).collect();
    let parameters = [Parameter::In(x, vec![3, 48], Dtype::F32), Parameter::Out(vec![3, 48], Dtype::F32)];
    for target in [Target::Sm80, Target::Sm90a] {
        needs(&program(kernel, &[], target), &parameters, std::slice::from_ref(&expected), is_barrier);
    }
}

/// Tiles go through shared memory where `n` is positive: the barriers stand where the tiles do.
#[tile_kernel]
pub fn doubled_where(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>, n: usize) {
    let [b] = blocks([ceil_div(M, 8)]);
    threads([48]);
    let mut s = alloc_shared::<f32>([8, 36]);
    if n > b {
        copy(x.at([b * 8, 0]), &mut s);
        for [i, j] in parallel([8, 36]) {
            let value = s[[7 - i, 35 - j]];
            *y.masked_mut([b * 8 + i, j]) = value + value;
        }
    } else {
        for [i, j] in parallel([8, 36]) {
            *y.masked_mut([b * 8 + i, j]) = 0.0;
        }
    }
}

#[test]
fn barrier_hoisted_out_of_a_conditional() {
    // By threads: refused. By blocks: every thread of the block reaches the barriers, which the compiler placed.
    let item = "fn f(x: &Tensor<f32, (Fixed<64>,)>, y: &mut Tensor<f32, (Fixed<64>,)>) {
        blocks([1]); let [t] = threads([64]); let mut s = alloc_shared::<f32>([64]);
        s[t] = x[t];
        if t < 32 { sync_threads(); }
        y[t] = s[63 - t];
    }";
    assert_eq!(refused("", item), ["TK0402"]);
    let kernel = doubled_where::definition().kernel().unwrap();
    let x = floats(16 * 36);
    let expected: Vec<f32> = (0..16 * 36).map(|i| if i < 8 * 36 { 2.0 * x[8 * 36 - 1 - i] } else { 0.0 }).collect();
    let shape = vec![16, 36];
    let parameters =
        [Parameter::In(x, shape.clone(), Dtype::F32), Parameter::Out(shape, Dtype::F32), Parameter::Index(1)];
    for target in [Target::Sm80, Target::Sm90a] {
        needs(&program(kernel, &[], target), &parameters, std::slice::from_ref(&expected), is_barrier);
    }
}

#[test]
fn pipelined_loop_where_roles_do_not_fire() {
    // For sm_80 there are no roles: every thread copies ahead, and waits.
    let kernel = product::<64, 64, 64, 2>::definition().kernel().unwrap();
    let program = program(kernel, &[64, 96, 32, 3], Target::Sm80);
    let (parameters, expected) = of_product(64, 96, 128);
    needs(&program, &parameters, &expected, |op| matches!(op, OpKind::AsyncWait { .. } | OpKind::Barrier));
}

/// Every thread writes its neighbour's element of what all have filled.
#[tile_kernel]
pub fn filled(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N, Fixed<64>)>) {
    let [b] = blocks([N]);
    let [t] = threads([64]);
    let mut s = alloc_shared::<f32>([2, 64]);
    fill(&mut s, 1.0);
    s[[0, (t + 33) % 64]] = x[b];
    sync_threads();
    y[[b, t]] = s[[0, t]] + s[[1, 63 - t]];
}

#[test]
fn write_after_write_on_fill() {
    let kernel = filled::definition().kernel().unwrap();
    let x = floats(3);
    let expected: Vec<f32> = (0..3 * 64).map(|i| x[i / 64] + 1.0).collect();
    let parameters = [Parameter::In(x, vec![3], Dtype::F32), Parameter::Out(vec![3, 64], Dtype::F32)];
    for target in [Target::Sm80, Target::Sm90a] {
        let program = program(kernel, &[], target);
        assert!(count(&program, is_barrier) >= 2, "one that the author wrote, one between the writes");
        needs(&program, &parameters, std::slice::from_ref(&expected), is_barrier);
    }
}

/// A tile that is written anew while it may still be read by the copy of the last one.
#[tile_kernel]
pub fn reused(x: &Tensor<f32, (M, Fixed<64>)>, y: &mut Tensor<f32, (M, Fixed<64>)>) {
    blocks([1]);
    threads([64]);
    let mut s = alloc_shared::<f32>([4, 64]);
    let mut turned = alloc_shared::<f32>([4, 64]);
    for i in 0..ceil_div(M, 4) {
        copy(x.at([i * 4, 0]), &mut s);
        for [r, j] in parallel([4, 64]) {
            turned[[r, j]] = s[[3 - r, 63 - j]] + 1.0;
        }
        copy(&turned, y.at_mut([i * 4, 0]));
    }
}

#[test]
fn shared_memory_reused_while_a_copy_reads_it() {
    let kernel = reused::definition().kernel().unwrap();
    let x = floats(12 * 64);
    let expected: Vec<f32> = x.chunks(4 * 64).flat_map(|tile| tile.iter().rev().map(|v| v + 1.0)).collect();
    let parameters = [Parameter::In(x, vec![12, 64], Dtype::F32), Parameter::Out(vec![12, 64], Dtype::F32)];
    for target in [Target::Sm80, Target::Sm90a] {
        needs(&program(kernel, &[], target), &parameters, std::slice::from_ref(&expected), is_barrier);
    }
    // The slots of a ring, and the tile that TMA stores from, are given back by barriers and waits of their own.
    let (parameters, expected) = of_product(192, 128, 192);
    let ring = |op: &OpKind| matches!(op, OpKind::BarrierWait { .. } | OpKind::BulkWait { .. });
    needs(&hopper([64, 64, 64, 2]), &parameters, &expected, ring);
}

/// The rows of every block's tile, `step` apart.
#[tile_kernel(targets(sm_90a), partial(c))]
pub fn tiles_at(a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, c: &mut Tensor<f16, (M, N)>, step: usize) {
    let [by] = blocks([2]);
    threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 64]);
    let mut b_s = alloc_shared::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, 64), 2) {
        copy(a.at([by * 64, k * 64]), &mut a_s);
        copy(b.at([0, k * 64]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    copy(&acc, c.at_mut([by * step, 0]));
}

#[test]
fn bulk_store_counts_as_a_write() {
    let kernel = tiles_at::definition().kernel().unwrap();
    let program = program(kernel, &[], Target::Sm90a);
    assert!(count(&program, |op| matches!(op, OpKind::TensorStore { .. })) > 0, "TMA stores");
    let with = |step| {
        let (mut parameters, expected) = of_product(128, 64, 64);
        parameters.push(Parameter::Index(step));
        let (results, said) = execute(&program, &parameters);
        (results == expected, said)
    };
    assert_eq!(with(64), (true, String::new()));
    // Two blocks store the same rows: TMA writes them twice, though no thread stores an element.
    assert!(with(32).1.contains("TK0403: `c` is written twice"), "{}", with(32).1);
}

#[test]
fn tensor_store_has_its_fence_and_barrier() {
    let program = hopper([64, 64, 64, 2]);
    let (parameters, expected) = of_product(64, 64, 64);
    assert!(count(&program, |op| matches!(op, OpKind::TensorStore { .. })) > 0);
    needs(&program, &parameters, &expected, |op| matches!(op, OpKind::FenceProxyAsync));
    needs(&program, &parameters, &expected, |op| matches!(op, OpKind::NamedBarrier { .. }));
    // In the text: what threads wrote is made visible to TMA, and all have, before one thread stores.
    let text = tile_ir::emit::cuda::emit(&program);
    let body = text.split("__global__").last().unwrap_or_default();
    let store = body.find("tensor_store").expect("a store by TMA");
    let fence = body[..store].rfind("fence_proxy_async").expect("a fence before it");
    assert!(body[fence..store].contains("barrier"), "{}", &body[fence..store]);
}

#[test]
fn barrier_phases_over_persistent_tiles() {
    // Five tiles for two blocks, three steps in two slots: no tile begins at the phase that the one before began at.
    let program = hopper([64, 64, 64, 2]);
    let (parameters, expected) = of_product(320, 64, 192);
    needs(&program, &parameters, &expected, |op| matches!(op, OpKind::BarrierArrive { .. }));
    for shape in [[192, 128, 64], [320, 64, 192], [64, 320, 320]] {
        multiplies(shape, |d, a, b, c| product::<64, 64, 64, 2>::launch(d, a, b, c));
    }
}

#[test]
fn named_barriers_have_numbers_of_their_own() {
    for consts in [[64, 64, 64, 2], [64, 192, 32, 2]] {
        let program = hopper(consts);
        let mut threads_of = std::collections::BTreeMap::new();
        each(&program.body, &mut |op| {
            if let OpKind::NamedBarrier { id, threads, .. } = op.kind {
                // 0 is the block's; the hardware has 16.
                assert!((1..16).contains(&id), "barrier {id}");
                assert_eq!(*threads_of.entry(id).or_insert(threads), threads, "barrier {id} has one set of threads");
            }
        });
        assert!(!threads_of.is_empty());
    }
}

/// Different threads store the halves of a word.
#[tile_kernel]
pub fn halves(x: &Tensor<f16, (N,)>, y: &mut Tensor<f16, (N,)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let mut s = alloc_shared::<f16>([65]);
    s[t + 1] = x.masked([b * 64 + t]);
    sync_threads();
    *y.masked_mut([b * 64 + t]) = s[t + 1];
}

#[test]
fn neighbouring_halves_of_a_word() {
    let values: Vec<f16> = (0..201).map(|i| f16::from_f32(i as f32)).collect();
    for device in devices() {
        let x = device.tensor(&values, [201]).unwrap();
        let mut y = device.zeros::<f16, 1>([201]).unwrap();
        halves::launch(&device, &x, &mut y).unwrap();
        assert_eq!(y.to_vec().unwrap(), values, "{device:?}");
    }
}

// ---- vectors and TMA ---------------------------------------------------------------------------------------------------

/// Vectors of what is read in one type and stored in another.
#[tile_kernel(require(N % 8 == 0))]
pub fn widened(x: &Tensor<f16, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 256)]);
    let [t] = threads([32]);
    let mut halves = alloc_local::<f16>([8]);
    let mut words = alloc_local::<f32>([8]);
    for v in vectorized(0..8) {
        halves[v] = x.masked([b * 256 + t * 8 + v]);
    }
    for v in unroll(0..8) {
        words[v] = halves[v].cast::<f32>() * 2.0;
    }
    for half in unroll(0..2) {
        for v in vectorized(0..4) {
            *y.masked_mut([b * 256 + t * 8 + half * 4 + v]) = words[half * 4 + v];
        }
    }
}

#[test]
fn vector_from_a_start_that_is_not_aligned() {
    let item = |start: &str| {
        format!(
            "fn f(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {{
            let [b] = blocks([ceil_div(N, 128)]); let [t] = threads([32]);
            for v in vectorized(0..4) {{
                *y.masked_mut([b * 128 + t * 4 + v]) = x.masked([b * 128 + t * 4 + v{start}]);
            }}
        }}"
        )
    };
    assert_eq!(refused("require(N % 4 == 0)", &item("")), Vec::<String>::new());
    assert_eq!(refused("require(N % 4 == 0)", &item(" + 1")), ["TK0201"]);
    assert_eq!(refused("require(N % 4 == 0)", &item(" + 4")), Vec::<String>::new());
}

#[test]
fn vectors_of_two_types() {
    let values: Vec<f16> = (0..520).map(|i| f16::from_f32(i as f32)).collect();
    let expected: Vec<f32> = (0..520).map(|i| 2.0 * i as f32).collect();
    for device in devices() {
        let x = device.tensor(&values, [520]).unwrap();
        let mut y = device.zeros::<f32, 1>([520]).unwrap();
        widened::launch(&device, &x, &mut y).unwrap();
        assert_eq!(y.to_vec().unwrap(), expected, "{device:?}");
    }
}

#[test]
fn row_stride_that_the_copy_engine_cannot_have() {
    // Rows of 72 bytes, and of 74: not multiples of 16. The launch takes the class that asks less, and computes right.
    for k in [36, 37] {
        multiplies([80, 70, k], |d, a, b, c| product::<64, 64, 64, 2>::launch(d, a, b, c));
    }
}

#[test]
fn swizzled_tiles_are_aligned_and_boxes_fit() {
    for consts in [[64, 64, 64, 2], [64, 96, 32, 3], [64, 192, 32, 2]] {
        let program = hopper(consts);
        let mut tiles = 0;
        let mut check = |shared: tile_ir::lowered::SharedId| {
            tiles += 1;
            let array = &program.shared[shared];
            assert_eq!(array.offset % 1024, 0, "{} at {}", array.name, array.offset);
            let slot = array.len * array.dtype.bytes() / array.slots.max(1);
            assert_eq!(slot % 1024, 0, "a slot of {} has {slot} bytes", array.name);
        };
        each(&program.body, &mut |op| {
            if let OpKind::TensorLoad { shared, .. } = op.kind {
                check(shared);
            }
        });
        assert!(tiles > 0);
        for map in program.tensor_maps.values() {
            assert!(map.box_extents.iter().all(|e| (1..=256).contains(e)), "{} {:?}", map.name, map.box_extents);
        }
    }
}

/// A tile of 512 columns: more than a box of TMA has.
#[tile_kernel]
pub fn wide_rows(x: &Tensor<f32, (M, K)>, y: &mut Tensor<f32, (M,)>) {
    let [b] = blocks([ceil_div(M, 4)]);
    let [t] = threads([128]);
    let mut s = alloc_shared::<f32>([4, 512]);
    let mut sum = 0.0f32;
    for k in pipelined(0..ceil_div(K, 512), 2) {
        copy(x.at([b * 4, k * 512]), &mut s);
        for j in 0..16 {
            sum += s[[t / 32, j * 32 + t % 32]];
        }
    }
    let total = warp_reduce(Sum, sum);
    if t % 32 == 0 && b * 4 + t / 32 < M {
        y[b * 4 + t / 32] = total;
    }
}

#[test]
fn box_of_more_than_256() {
    let kernel = wide_rows::definition().kernel().unwrap();
    let program = program(kernel, &[], Target::Sm90a);
    for map in program.tensor_maps.values() {
        assert!(map.box_extents.iter().all(|e| (1..=256).contains(e)), "{} {:?}", map.name, map.box_extents);
    }
    let values = floats(6 * 1100);
    let expected: Vec<f32> = values.chunks(1100).map(|row| row.iter().sum()).collect();
    for device in devices() {
        let x = device.tensor(&values, [6, 1100]).unwrap();
        let mut y = device.zeros::<f32, 1>([6]).unwrap();
        wide_rows::launch(&device, &x, &mut y).unwrap();
        assert_eq!(y.to_vec().unwrap(), expected, "{device:?}");
    }
}

#[test]
fn vector_width_does_not_change_with_the_shape() {
    // A width is a demand: another shape is refused with both numbers, not done by single elements.
    for device in [Device::simulator(), Device::checked_simulator()] {
        let x = device.tensor(&vec![f16::ZERO; 523], [523]).unwrap();
        let mut y = device.zeros::<f32, 1>([523]).unwrap();
        let error = widened::launch(&device, &x, &mut y).unwrap_err().to_string();
        assert!(error.contains("TK0702") && error.contains("N % 8 == 0") && error.contains("523"), "{error}");
    }
}

// ---- layouts -----------------------------------------------------------------------------------------------------------

/// Tiles of any number of columns, through shared memory and registers.
#[tile_kernel(instances(W in [33, 48, 192, 229]))]
pub fn columns<const W: usize>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let [b] = blocks([ceil_div(M, 6)]);
    threads([128]);
    let mut s = alloc_shared::<f32>([6, W]);
    copy(x.at([b * 6, 0]), &mut s);
    for [i, j] in parallel([6, W]) {
        *y.masked_mut([b * 6 + i, j]) = s[[i, W - 1 - j]];
    }
}

fn turns<const W: usize>(launch: impl Fn(&Device, &Tensor<f32, 2>, &mut Tensor<f32, 2>) -> Result<(), LaunchError>) {
    let values = floats(10 * W);
    let expected: Vec<f32> = (0..10 * W).map(|i| values[i / W * W + W - 1 - i % W]).collect();
    for device in devices() {
        let x = device.tensor(&values, [10, W]).unwrap();
        let mut y = device.zeros::<f32, 2>([10, W]).unwrap();
        launch(&device, &x, &mut y).unwrap();
        assert!(y.to_vec().unwrap() == expected, "{W} columns on {device:?}");
    }
}

#[test]
fn tile_widths_that_are_no_powers_of_two() {
    turns::<33>(|d, x, y| columns::<33>::launch(d, x, y));
    turns::<48>(|d, x, y| columns::<48>::launch(d, x, y));
    multiplies([70, 100, 80], |d, a, b, c| product::<64, 96, 32, 3>::launch(d, a, b, c));
}

#[test]
fn columns_192_and_229_with_128_threads() {
    turns::<192>(|d, x, y| columns::<192>::launch(d, x, y));
    turns::<229>(|d, x, y| columns::<229>::launch(d, x, y));
    multiplies([64, 192, 64], |d, a, b, c| product::<64, 192, 32, 2>::launch(d, a, b, c));
    multiplies([64, 229, 64], |d, a, b, c| product::<64, 192, 32, 2>::launch(d, a, b, c));
}

#[test]
fn wgmma_of_columns_that_are_8_past_a_multiple_of_16() {
    hopper([64, 72, 32, 2]);
    hopper([64, 24, 64, 4]);
    multiplies([64, 72, 64], |d, a, b, c| product::<64, 72, 32, 2>::launch(d, a, b, c));
    multiplies([130, 150, 96], |d, a, b, c| product::<64, 72, 32, 2>::launch(d, a, b, c));
    multiplies([64, 24, 128], |d, a, b, c| product::<64, 24, 64, 4>::launch(d, a, b, c));
}

/// The rows of one operand are swizzled by 128 bytes, those of the other by 64.
#[tile_kernel]
pub fn swizzled(a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (K, N)>, c: &mut Tensor<f32, (M, N)>) {
    let [bx, by] = blocks([ceil_div(N, 32), ceil_div(M, 64)]);
    threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 64]).swizzle(B128);
    let mut b_s = alloc_shared::<f16>([64, 32]).swizzle(B64);
    let mut acc = alloc_fragment::<f32>([64, 32]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, 64), 2) {
        copy(a.at([by * 64, k * 64]), &mut a_s);
        copy(b.at([k * 64, bx * 32]), &mut b_s);
        gemm(&a_s, &b_s, &mut acc);
    }
    copy(&acc, c.at_mut([by * 64, bx * 32]));
}

#[test]
fn two_swizzles_in_one_product() {
    let (m, n, k) = (80, 40, 128);
    let (a, b): (Vec<f16>, Vec<f16>) = (integers(1, m * k, 3), integers(2, k * n, 3));
    let at = |e: usize| (0..k).map(|i| a[e / n * k + i].to_f32() * b[i * n + e % n].to_f32()).sum();
    let expected: Vec<f32> = (0..m * n).map(at).collect();
    for device in devices() {
        let (a, b) = (device.tensor(&a, [m, k]).unwrap(), device.tensor(&b, [k, n]).unwrap());
        let mut c = device.zeros::<f32, 2>([m, n]).unwrap();
        swizzled::launch(&device, &a, &b, &mut c).unwrap();
        assert!(c.to_vec().unwrap() == expected, "{device:?}");
    }
}

// ---- dropped work --------------------------------------------------------------------------------------------------------

#[test]
fn break_is_not_dropped_but_refused() {
    let item = "fn f(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
        blocks([1]); let [t] = threads([32]); let mut sum = 0.0f32;
        for i in vectorized(0..4) { if i == 2 { break; } sum += x.masked([t * 4 + i]); }
        *y.masked_mut([t]) = sum;
    }";
    let codes = refused("", item);
    assert!(codes.iter().any(|code| code == "TK0801"), "{codes:?}");
}

/// A store under two conditions, inside loops.
#[tile_kernel]
pub fn nested(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, from: usize) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([32]);
    for i in unroll(0..4) {
        let at = b * 128 + i * 32 + t;
        if at < N {
            if at >= from {
                if t % 3 != 1 {
                    y[at] = x[at];
                } else if t % 2 == 0 {
                    y[at] = 0.0 - x[at];
                } else {
                    y[at] = 7.0;
                }
            } else {
                y[at] = 9.0;
            }
        }
    }
}

#[test]
fn store_in_a_nested_predicate() {
    let (n, from) = (301, 50);
    let values = floats(n);
    let one = |i: usize| match i % 32 {
        _ if i < from => 9.0,
        t if t % 3 != 1 => values[i],
        t if t % 2 == 0 => -values[i],
        _ => 7.0,
    };
    let expected: Vec<f32> = (0..n).map(one).collect();
    for device in devices() {
        let x = device.tensor(&values, [n]).unwrap();
        let mut y = device.zeros::<f32, 1>([n]).unwrap();
        nested::launch(&device, &x, &mut y, from).unwrap();
        assert_eq!(y.to_vec().unwrap(), expected, "{device:?}");
    }
}

#[test]
fn no_stages() {
    let item = |stages: u32| {
        format!(
            "fn f(x: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N,)>) {{
            let [b] = blocks([N]); let [t] = threads([32]);
            let mut s = alloc_shared::<f32>([1, 32]); let mut sum = 0.0f32;
            for k in pipelined(0..ceil_div(K, 32), {stages}) {{ copy(x.at([b, k * 32]), &mut s); sum += s[[0, t]]; }}
            let total = warp_reduce(Sum, sum);
            if t == 0 {{ y[b] = total; }}
        }}"
        )
    };
    assert_eq!(refused("", &item(0)), ["TK0803"]);
    assert_eq!(refused("", &item(1)), Vec::<String>::new());
}

// ---- races in global memory ------------------------------------------------------------------------------------------------

/// Threads of one block, `group` of which share an element.
#[tile_kernel(partial(y))]
pub fn grouped(x: &Tensor<f32, (Fixed<64>,)>, y: &mut Tensor<f32, (Fixed<64>,)>, group: usize) {
    blocks([1]);
    let [t] = threads([64]);
    let by = max(group, 1);
    y[t / by] = x[t];
}

#[test]
fn race_in_global_memory_inside_one_block() {
    let item = "fn f(x: &Tensor<f32, (Fixed<64>,)>, y: &mut Tensor<f32, (Fixed<64>,)>) {
        blocks([1]); let [t] = threads([64]);
        y[t / 2] = x[t];
    }";
    assert_eq!(refused("partial(y)", item), ["TK0401"]);
    let device = Device::checked_simulator();
    let x = device.tensor(&floats(64), [64]).unwrap();
    let mut y = device.zeros::<f32, 1>([64]).unwrap();
    grouped::launch(&device, &x, &mut y, 1).unwrap();
    let report = grouped::launch(&device, &x, &mut y, 2).unwrap_err().to_string();
    assert!(report.contains("TK0401"), "{report}");
}

// ---- what is emitted -------------------------------------------------------------------------------------------------------

/// The texts of these programs are ones that NVRTC makes machine code of, for every target.
#[test]
fn every_pattern_compiles() {
    use tile_runtime::nvrtc::{Nvrtc, Output, options};
    let nvrtc = match Nvrtc::get() {
        Ok(nvrtc) => nvrtc,
        Err(error) => return eprintln!("patterns: NVRTC not run: {error}"),
    };
    let definitions = [
        product::<64, 64, 64, 2>::definition(),
        turned::definition(),
        doubled_where::definition(),
        filled::definition(),
        reused::definition(),
        tiles_at::definition(),
        halves::definition(),
        widened::definition(),
        wide_rows::definition(),
        columns::<33>::definition(),
        swizzled::definition(),
        nested::definition(),
        grouped::definition(),
    ];
    for definition in definitions {
        let kernel = definition.kernel().unwrap();
        for (instance, target) in kernel.instances.iter().flat_map(|i| kernel.targets.iter().map(move |t| (i, *t))) {
            let program = tile_ir::lower::lower(kernel, instance, target).unwrap();
            let source = tile_ir::emit::cuda::emit(&program);
            let compiled = nvrtc.compile(&program.name, &source, &options(target.name(), false), Output::Cubin);
            let log = compiled.unwrap_or_else(|error| panic!("{} {instance:?}: {error}\n{source}", kernel.name)).log;
            assert!(!log.contains("Performance Loss"), "{} {instance:?} {target}: {log}", kernel.name);
        }
    }
}
