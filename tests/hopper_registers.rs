//! Specialised Hopper kernels with left operands in registers: loaded by `ldmatrix` from a slot or from a tile that stays,
//! worked on, multiplied; and reductions of fragments by consumers, in both directions. Small integers: every sum is exact.

use std::sync::Arc;
use tile_ir::ir::{Dtype, Kernel, Target};
use tile_ir::lowered::visit::{count, each_mut};
use tile_ir::lowered::{Op, OpKind, Program, RemarkKind, WgmmaOperand};
use tile_ir::sim::checked::{CheckedOptions, run};
use tile_ir::sim::{Argument, Memory, TensorArgument};
use tile_runtime::prelude::*;

/// `c = max(a, 0) b^T`: a tile of `a` goes from its slot to registers, is worked on there and multiplied from there.
#[tile_kernel(
    instances((BM, BN, THREADS) in [(64, 64, 128), (128, 32, 128), (128, 128, 256)]),
    dtypes(T in [f16, bf16]), targets(sm_90a)
)]
pub fn positive<T: Half, const BM: usize, const BN: usize, const THREADS: usize>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (N, K)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    threads([THREADS]);
    use_swizzle(2);
    let mut a_s = alloc_shared::<T>([BM, 64]);
    let mut b_s = alloc_shared::<T>([BN, 64]);
    let mut left = alloc_fragment::<T>([BM, 64]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    for [bx, by] in persistent([ceil_div(N, BN), ceil_div(M, BM)]) {
        clear(&mut acc);
        for k in pipelined(0..ceil_div(K, 64), 3) {
            copy(a.at([by * BM, k * 64]), &mut a_s);
            copy(b.at([bx * BN, k * 64]), &mut b_s);
            copy(&a_s, &mut left);
            for [i, j] in parallel([BM, 64]) {
                left[[i, j]] = max(left[[i, j]], T::ZERO);
            }
            gemm(&left, b_s.t(), &mut acc);
        }
        copy(&acc, c.at_mut([by * BM, bx * BN]));
    }
}

/// `s = q k^T` by tiles of k, `q` in registers from a tile that stays: sums of the rows of s, and the largest of each
/// column among the rows of a block. The accumulator is used before its product, so that it may not be folded away.
/// `DIRECT`: the threads load `q` themselves, straight into registers. `BLOCKS` of a cluster share the tiles of `k`.
#[tile_kernel(
    instances(
        (BM, THREADS, BN, DIRECT, BLOCKS) in
            [(64, 128, 64, false, 1), (128, 256, 32, false, 1), (128, 256, 64, true, 1), (64, 128, 32, false, 2)]
    ),
    targets(sm_90a)
)]
pub fn stay<const BM: usize, const THREADS: usize, const BN: usize, const DIRECT: bool, const BLOCKS: usize>(
    q: &Tensor<f16, (M, Fixed<64>)>,
    k: &Tensor<f16, (N, Fixed<64>)>,
    rows: &mut Tensor<f32, (M,)>,
    columns: &mut Tensor<f32, (B, N)>,
    twice: &mut Tensor<f32, (M, BN)>,
) {
    threads([THREADS]);
    cluster([BLOCKS]);
    let mut q_s = alloc_shared::<f16>([BM, 64]);
    let mut k_s = alloc_shared::<f16>([BN, 64]);
    let mut left = alloc_fragment::<f16>([BM, 64]);
    let mut s = alloc_fragment::<f32>([BM, BN]);
    let mut sum = alloc_fragment::<f32>([BM]);
    let mut total = alloc_fragment::<f32>([BM]);
    let mut most = alloc_fragment::<f32>([BN]);
    let mut double = alloc_fragment::<f32>([BM, BN]);
    for [by] in persistent([ceil_div(M, BM)]) {
        clear(&mut total);
        clear(&mut double);
        copy(q.at([by * BM, 0]), &mut q_s);
        if DIRECT {
            copy(q.at([by * BM, 0]), &mut left);
        } else {
            copy(&q_s, &mut left);
        }
        for step in pipelined(0..ceil_div(N, BN), 2) {
            copy(k.at([step * BN, 0]), &mut k_s);
            gemm(&left, k_s.t(), &mut s).clear();
            reduce(Sum, &s, &mut sum, 1);
            for [i] in parallel([BM]) {
                total[i] += sum[i];
            }
            reduce(Max, &s, &mut most, 0);
            for [j] in parallel([BN]) {
                *columns.masked_mut([by, step * BN + j]) = most[j];
            }
            for [i, j] in parallel([BM, BN]) {
                double[[i, j]] *= 2.0;
            }
            gemm(&q_s, k_s.t(), &mut double);
        }
        for [i] in parallel([BM]) {
            *rows.masked_mut([by * BM + i]) = total[i];
        }
        copy(&double, twice.at_mut([by * BM, 0]));
    }
}

/// Every product begins anew, also the second of an iteration: `s` is the product with the last tile of `k`.
#[tile_kernel(targets(sm_90a))]
pub fn cleared(q: &Tensor<f16, (M, Fixed<64>)>, k: &Tensor<f16, (N, Fixed<64>)>, s: &mut Tensor<f32, (M, Fixed<64>)>) {
    let [b] = blocks([ceil_div(M, 64)]);
    threads([128]);
    let mut q_s = alloc_shared::<f16>([64, 64]);
    let mut k_s = alloc_shared::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    clear(&mut acc);
    copy(q.at([b * 64, 0]), &mut q_s);
    for step in pipelined(0..ceil_div(N, 64), 2) {
        copy(k.at([step * 64, 0]), &mut k_s);
        gemm(&q_s, k_s.t(), &mut acc).clear();
        gemm(&q_s, k_s.t(), &mut acc).clear();
    }
    copy(&acc, s.at_mut([b * 64, 0]));
}

/// What consumers do beside products (`WHICH`): a product in a loop of the loop that loads; a tile that is loaded for several rounds of
/// it; a reduction into a shared array, which nothing reads; none of these; a tile that two copies fill.
#[tile_kernel(instances(WHICH in [0, 1, 2, 3, 4]), targets(sm_90a), lints(TK0608 = "off"))]
pub fn around<const WHICH: usize>(
    q: &Tensor<f16, (M, Fixed<64>)>,
    k: &Tensor<f16, (N, Fixed<64>)>,
    s: &mut Tensor<f32, (M, Fixed<64>)>,
) {
    let [b] = blocks([ceil_div(M, 64)]);
    threads([128]);
    let mut q_s = alloc_shared::<f16>([64, 64]);
    let mut k_s = alloc_shared::<f16>([64, 64]);
    let mut sums = alloc_shared::<f32>([64]);
    let mut row = alloc_fragment::<f32>([64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    clear(&mut acc);
    copy(q.at([b * 64, 0]), &mut q_s);
    if WHICH == 4 {
        copy(q.at([b * 64 + 64, 0]), &mut q_s);
    }
    if WHICH == 1 {
        for _ in 0..2 {
            for step in pipelined(0..ceil_div(N, 64), 2) {
                copy(k.at([step * 64, 0]), &mut k_s);
                gemm(&q_s, k_s.t(), &mut acc).policy(FullRow);
            }
        }
    } else {
        for step in pipelined(0..ceil_div(N, 64), 2) {
            copy(k.at([step * 64, 0]), &mut k_s);
            if WHICH == 0 {
                for _ in 0..2 {
                    gemm(&q_s, k_s.t(), &mut acc).policy(FullRow);
                }
            } else {
                gemm(&q_s, k_s.t(), &mut acc).policy(FullRow);
            }
            if WHICH == 2 {
                reduce(Sum, &acc, &mut sums, 1);
            }
        }
    }
    reduce(Sum, &acc, &mut row, 1);
    for [i, j] in parallel([64, 64]) {
        acc[[i, j]] -= row[i];
    }
    copy(&acc, s.at_mut([b * 64, 0]));
}

/// What keeps a kernel from being specialised (`WHICH`): a slot that threads write; a loop whose end threads find out together.
#[tile_kernel(instances(WHICH in [0, 1]), targets(sm_90a))]
pub fn refused<const WHICH: usize>(
    q: &Tensor<f16, (M, Fixed<64>)>,
    k: &Tensor<f16, (N, Fixed<64>)>,
    s: &mut Tensor<f32, (M, Fixed<64>)>,
) {
    let [b] = blocks([ceil_div(M, 64)]);
    let [t] = threads([128]);
    let mut q_s = alloc_shared::<f16>([64, 64]);
    let mut k_s = alloc_shared::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    clear(&mut acc);
    if WHICH == 0 {
        clear(&mut k_s);
    }
    copy(q.at([b * 64, 0]), &mut q_s);
    let found = thread_allreduce(Max, ceil_div(N, 64) as u32 + t as u32 * 0u32, t);
    let end = if WHICH == 1 { min(found as usize, 1000) } else { ceil_div(N, 64) };
    for step in 0..end {
        copy(k.at([step * 64, 0]), &mut k_s);
        gemm(&q_s, k_s.t(), &mut acc);
    }
    if WHICH == 0 {
        for [i, j] in parallel([64, 64]) {
            acc[[i, j]] += k_s[[0, 0]].cast::<f32>();
        }
    }
    copy(&acc, s.at_mut([b * 64, 0]));
}

/// The devices that have `wgmma`.
fn devices() -> Vec<Device> {
    let mut all = tile_kernel_examples::devices::devices();
    all.retain(|device| device.supports(Target::Sm90a));
    all
}

fn small(count: usize, by: usize) -> Vec<f32> {
    (0..count).map(|i| (i * by % 7) as f32 - 3.0).collect()
}

fn dot(a: &[f32], b: &[f32], [i, j, k]: [usize; 3]) -> f32 {
    a[i * k..][..k].iter().zip(&b[j * k..][..k]).map(|(a, b)| a * b).sum()
}

#[test]
fn a_left_operand_from_a_slot() {
    for [m, n, k] in [[64, 64, 64], [150, 72, 200], [3, 200, 8], [300, 136, 72]] {
        let (a, b) = (small(m * k, 11), small(n * k, 5));
        let positive_a: Vec<f32> = a.iter().map(|x| x.max(0.0)).collect();
        let wanted: Vec<f32> = (0..m * n).map(|e| dot(&positive_a, &b, [e / n, e % n, k])).collect();
        let halves = |x: &[f32]| x.iter().map(|x| f16::from_f32(*x)).collect::<Vec<_>>();
        let bhalves = |x: &[f32]| x.iter().map(|x| bf16::from_f32(*x)).collect::<Vec<_>>();
        for device in devices() {
            let (x, y) = (device.tensor(&halves(&a), [m, k]).unwrap(), device.tensor(&halves(&b), [n, k]).unwrap());
            for which in 0..3 {
                let mut c = device.tensor(&vec![f32::NAN; m * n], [m, n]).unwrap();
                match which {
                    0 => positive::<f16, 64, 64, 128>::launch(&device, &x, &y, &mut c).unwrap(),
                    1 => positive::<f16, 128, 32, 128>::launch(&device, &x, &y, &mut c).unwrap(),
                    _ => positive::<f16, 128, 128, 256>::launch(&device, &x, &y, &mut c).unwrap(),
                }
                assert_eq!(c.to_vec().unwrap(), wanted, "{m} x {n} x {k}, {which}");
            }
            let (x, y) = (device.tensor(&bhalves(&a), [m, k]).unwrap(), device.tensor(&bhalves(&b), [n, k]).unwrap());
            let mut c = device.tensor(&vec![f32::NAN; m * n], [m, n]).unwrap();
            positive::<bf16, 128, 128, 256>::launch(&device, &x, &y, &mut c).unwrap();
            assert_eq!(c.to_vec().unwrap(), wanted, "{m} x {n} x {k}, bf16");
        }
    }
}

#[test]
fn a_tile_that_stays_and_reductions_both_ways() {
    for [m, n] in [[64, 64], [150, 100], [1, 72], [700, 40]] {
        let (q, k) = (small(m * 64, 3), small(n * 64, 13));
        let half = |x: &[f32]| x.iter().map(|x| f16::from_f32(*x)).collect::<Vec<_>>();
        for device in devices() {
            for (which, bm, bn) in [(0, 64, 64), (1, 128, 32), (2, 128, 64), (3, 64, 32)] {
                let at = |i: usize, j: usize| if i < m && j < n { dot(&q, &k, [i, j, 64]) } else { 0.0 };
                let (tiles, steps) = (m.div_ceil(bm), n.div_ceil(bn));
                let (x, y) = (device.tensor(&half(&q), [m, 64]).unwrap(), device.tensor(&half(&k), [n, 64]).unwrap());
                let mut rows = device.tensor(&vec![f32::NAN; m], [m]).unwrap();
                let mut columns = device.tensor(&vec![f32::NAN; tiles * n], [tiles, n]).unwrap();
                let mut twice = device.tensor(&vec![f32::NAN; m * bn], [m, bn]).unwrap();
                let (r, c, t) = (&mut rows, &mut columns, &mut twice);
                match which {
                    0 => stay::<64, 128, 64, false, 1>::launch(&device, &x, &y, r, c, t).unwrap(),
                    1 => stay::<128, 256, 32, false, 1>::launch(&device, &x, &y, r, c, t).unwrap(),
                    2 => stay::<128, 256, 64, true, 1>::launch(&device, &x, &y, r, c, t).unwrap(),
                    _ => stay::<64, 128, 32, false, 2>::launch(&device, &x, &y, r, c, t).unwrap(),
                }
                let sums: Vec<f32> = (0..m).map(|i| (0..n).map(|j| at(i, j)).sum()).collect();
                assert_eq!(rows.to_vec().unwrap(), sums, "{m} x {n}, {which}");
                let most =
                    |tile: usize, j: usize| (tile * bm..tile * bm + bm).map(|i| at(i, j)).reduce(f32::max).unwrap();
                let most: Vec<f32> = (0..tiles * n).map(|e| most(e / n, e % n)).collect();
                assert_eq!(columns.to_vec().unwrap(), most, "{m} x {n}, {which}");
                let double = |i: usize, j: usize| (0..steps).fold(0.0, |sum, s| 2.0 * sum + at(i, s * bn + j));
                let double: Vec<f32> = (0..m * bn).map(|e| double(e / bn, e % bn)).collect();
                assert_eq!(twice.to_vec().unwrap(), double, "{m} x {n}, {which}");
            }
        }
    }
}

#[test]
fn every_cleared_product_begins_anew() {
    let program = &programs(cleared::definition().kernel().unwrap())[0];
    assert_eq!(count(&program.body, &|op| matches!(op, OpKind::Wgmma { .. })), 8, "two products of four steps");
    let (m, n) = (70, 100);
    let (q, k) = (small(m * 64, 3), small(n * 64, 13));
    let half = |x: &[f32]| x.iter().map(|x| f16::from_f32(*x)).collect::<Vec<_>>();
    let at = |i: usize, j: usize| if 64 + j < n { dot(&q, &k, [i, 64 + j, 64]) } else { 0.0 };
    let expected: Vec<f32> = (0..m * 64).map(|e| at(e / 64, e % 64)).collect();
    for device in devices() {
        let (x, y) = (device.tensor(&half(&q), [m, 64]).unwrap(), device.tensor(&half(&k), [n, 64]).unwrap());
        let mut s = device.zeros::<f32, 2>([m, 64]).unwrap();
        cleared::launch(&device, &x, &y, &mut s).unwrap();
        assert_eq!(s.to_vec().unwrap(), expected, "on {device:?}");
    }
}

fn programs(kernel: &Kernel) -> Vec<Program> {
    let lower = |i| tile_ir::lower::lower(kernel, i, Target::Sm90a).unwrap();
    kernel.instances.iter().map(lower).collect()
}

#[test]
fn nothing_falls_back() {
    let kernels = [positive::<f16, 64, 64, 128>::definition(), stay::<64, 128, 64, false, 1>::definition()];
    for mut program in kernels.iter().flat_map(|d| programs(d.kernel().unwrap())) {
        let fallbacks: Vec<_> = program.remarks.iter().filter(|r| r.kind == RemarkKind::Fallback).collect();
        assert!(fallbacks.is_empty(), "{}: {fallbacks:?}", program.name);
        let (mut products, mut matrices, mut multicast) = (0, 0, 0);
        each_mut(&mut program.body, &mut |op| match &mut op.kind {
            OpKind::TensorLoad { multicast: Some(_), .. } => multicast += 1,
            OpKind::Wgmma { a: WgmmaOperand::Registers(..), .. } => products += 1,
            OpKind::LoadMatrix { .. } => matrices += 1,
            _ => {}
        });
        // The tiles of the ring are shared, those that stay are each block's own.
        assert_eq!(multicast, program.launch.cluster_size() - 1, "{}", program.name);
        let direct = program.name.ends_with("_1_1") && program.name.starts_with("stay_128_256_64");
        assert!(
            products > 0 && (matrices > 0) != direct,
            "{}: {products} from registers, {matrices} ldmatrix",
            program.name
        );
    }
}

/// Whatever consumers do beside products, the kernel is specialised, and right.
#[test]
fn what_stands_around_products_is_the_consumers() {
    for program in programs(around::<0>::definition().kernel().unwrap()) {
        let fallbacks: Vec<_> = program.remarks.iter().filter(|r| r.kind == RemarkKind::Fallback).collect();
        assert!(fallbacks.is_empty(), "{}: {fallbacks:?}", program.name);
    }
    let [m, n] = [70, 64];
    let (q, k) = (small(m * 64, 3), small(n * 64, 13));
    let half = |x: &[f32]| x.iter().map(|x| f16::from_f32(*x)).collect::<Vec<_>>();
    // Rows of `q` from `first` on, zeros behind the last.
    let wanted = |first: usize, times: f32| -> Vec<f32> {
        let score = |i: usize, j: usize| if i + first < m { times * dot(&q, &k, [i + first, j, 64]) } else { 0.0 };
        (0..m * 64).map(|e| score(e / 64, e % 64) - (0..64).map(|j| score(e / 64, j)).sum::<f32>()).collect()
    };
    for device in devices() {
        let (x, y) = (device.tensor(&half(&q), [m, 64]).unwrap(), device.tensor(&half(&k), [n, 64]).unwrap());
        let mut s = device.zeros::<f32, 2>([m, 64]).unwrap();
        around::<0>::launch(&device, &x, &y, &mut s).unwrap();
        assert_eq!(s.to_vec().unwrap(), wanted(0, 2.0));
        around::<1>::launch(&device, &x, &y, &mut s).unwrap();
        assert_eq!(s.to_vec().unwrap(), wanted(0, 2.0));
        around::<2>::launch(&device, &x, &y, &mut s).unwrap();
        assert_eq!(s.to_vec().unwrap(), wanted(0, 1.0));
        around::<3>::launch(&device, &x, &y, &mut s).unwrap();
        assert_eq!(s.to_vec().unwrap(), wanted(0, 1.0));
        around::<4>::launch(&device, &x, &y, &mut s).unwrap();
        assert_eq!(s.to_vec().unwrap(), wanted(64, 1.0));
    }
}

/// Why a kernel is not specialised is said, and it runs all the same.
#[test]
fn what_is_not_specialised_says_why() {
    let reasons = [
        "`k_s` is loaded by a loop and written elsewhere",
        "which tiles are loaded depends on `found`, which threads find out together",
    ];
    for (program, reason) in programs(refused::<0>::definition().kernel().unwrap()).iter().zip(reasons) {
        let said = |r: &&tile_ir::lowered::Remark| r.kind == RemarkKind::Fallback && r.text.contains("not specialised");
        let found = program.remarks.iter().find(said).map(|r| r.text.as_str()).unwrap_or_default();
        assert!(found.ends_with(reason), "{}: {found}", program.name);
    }
    let [m, n] = [70, 128];
    let (q, k) = (small(m * 64, 3), small(n * 64, 13));
    let half = |x: &[f32]| x.iter().map(|x| f16::from_f32(*x)).collect::<Vec<_>>();
    let wanted = |e: usize| (0..n / 64).map(|step| dot(&q, &k[step * 64 * 64..], [e / 64, e % 64, 64])).sum::<f32>();
    for device in devices() {
        let (x, y) = (device.tensor(&half(&q), [m, 64]).unwrap(), device.tensor(&half(&k), [n, 64]).unwrap());
        let mut s = device.zeros::<f32, 2>([m, 64]).unwrap();
        refused::<0>::launch(&device, &x, &y, &mut s).unwrap();
        assert_eq!(s.to_vec().unwrap(), (0..m * 64).map(|e| wanted(e) + k[(n - 64) * 64]).collect::<Vec<_>>());
        refused::<1>::launch(&device, &x, &y, &mut s).unwrap();
        assert_eq!(s.to_vec().unwrap(), (0..m * 64).map(wanted).collect::<Vec<_>>());
    }
}

fn tensor(dtype: Dtype, shape: [usize; 2], values: &[u32]) -> Argument {
    let bytes = dtype.bytes() as usize;
    let memory = Memory::zeros(shape[0] * shape[1] * bytes);
    for (i, bits) in values.iter().enumerate() {
        memory.set(i * bytes, dtype, *bits).expect("inside");
    }
    Argument::Tensor(TensorArgument {
        dtype,
        shape: shape.map(|n| n as i64).to_vec(),
        strides: vec![shape[1] as i64, 1],
        memory: Arc::new(memory),
        offset: 0,
    })
}

/// Every list of operations.
fn lists(ops: &mut Vec<Op>, f: &mut impl FnMut(&mut Vec<Op>)) {
    f(ops);
    for op in ops {
        match &mut op.kind {
            OpKind::If { then, otherwise, .. } => {
                lists(then, f);
                lists(otherwise, f);
            }
            OpKind::For { body, .. } => lists(body, f),
            _ => {}
        }
    }
}

/// Moves a fence before the store that precedes it.
fn fence_early(ops: &mut Vec<Op>) {
    if let Some(fence) = ops.iter().position(|op| op.kind == OpKind::WgmmaFence)
        && let Some(store) = ops[..fence].iter().rposition(|op| matches!(op.kind, OpKind::Store { .. }))
    {
        let op = ops.remove(fence);
        ops.insert(store, op);
    }
}

/// What the checked simulator says of `positive` after a change to its operations, under several seeds.
fn reports(change: impl Fn(&mut OpKind)) -> Vec<String> {
    reports_of(|program| each_mut(&mut program.body, &mut |op| change(&mut op.kind)))
}

/// What the checked simulator says of `positive` after a change to its program, under several seeds.
fn reports_of(change: impl Fn(&mut Program)) -> Vec<String> {
    let mut program = programs(positive::<f16, 64, 64, 128>::definition().kernel().unwrap()).remove(0);
    change(&mut program);
    let [m, n, k] = [64, 64, 256];
    let half = |count: usize, by: usize| small(count, by).iter().map(|x| f16::from_f32(*x).to_bits().into()).collect();
    let (a, b): (Vec<u32>, Vec<u32>) = (half(m * k, 11), half(n * k, 5));
    let reports = (0..6).map(|seed| {
        let arguments =
            [tensor(Dtype::F16, [m, k], &a), tensor(Dtype::F16, [n, k], &b), tensor(Dtype::F32, [m, n], &[])];
        let report = run(&program, &arguments, &CheckedOptions { seed, ..CheckedOptions::default() }).unwrap();
        report.render(&program)
    });
    reports.collect()
}

/// The registers of a left operand are the product's until the wait: words that are packed anew too early are reported,
/// and so is a product that begins without a fence.
#[test]
fn a_left_operand_that_is_written_in_flight_is_found() {
    assert!(reports(|_| {}).iter().all(|text| !text.contains("error")), "{:?}", reports(|_| {}));
    let late = reports(|op| {
        if let OpKind::WgmmaWait { pending } = op {
            *pending = 1;
        }
    });
    assert!(late.iter().all(|text| text.contains("`left_words` is written while a product reads it")), "{late:?}");
    // The fence before the last word is packed: it orders the sum's registers, and not that word.
    let unfenced = reports_of(|program| lists(&mut program.body, &mut fence_early));
    assert!(
        unfenced.iter().all(|text| text.contains("takes the registers of `left_words` with no fence")),
        "{unfenced:?}"
    );
}

/// Threads read the slot, and one of them gives it back: without the barrier between, TMA may be too early.
#[test]
fn a_slot_that_is_given_back_while_others_read_it_is_found() {
    let early = reports(|op| {
        if matches!(op, OpKind::NamedBarrier { id: 1, .. }) {
            *op = OpKind::Order;
        }
    });
    assert!(early.iter().any(|text| text.contains("`a_s` is overwritten while it is read")), "{early:?}");
}
