//! K split over the blocks of a cluster: `cluster_reduce` adds their tiles in the order of ranks, so that the result has the
//! same bits everywhere; and `cluster_exchange`, by which each block gets its part of what all of them have. The mistakes that the hardware
//! would not forgive are planted and found.

use tile_runtime::prelude::*;

/// `c = a b^T`, K cut into `CK` parts, each a block's of a cluster.
#[tile_kernel(
    instances((BM, BN, CK) in [(64, 64, 1), (64, 64, 2), (64, 32, 4), (8, 32, 2), (16, 64, 2), (32, 64, 2), (128, 64, 2)]),
    targets(sm_90a)
)]
pub fn cluster_k<const BM: usize, const BN: usize, const CK: usize>(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    let [bx, by, part] = blocks([ceil_div(N, BN), ceil_div(M, BM), CK]);
    threads([128]);
    cluster([1, 1, CK]);
    let mut a_s = alloc_shared::<f16>([BM, 64]);
    let mut b_s = alloc_shared::<f16>([BN, 64]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    let share = ceil_div(ceil_div(K, 64), CK);
    clear(&mut acc);
    for step in pipelined(0..share, 3) {
        let k = (part * share + step) * 64;
        copy(a.at([by * BM, k]), &mut a_s);
        copy(b.at([bx * BN, k]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    for [i, j] in parallel([BM, BN]) {
        acc[[i, j]] = acc[[i, j]] * 0.1;
    }
    cluster_reduce(Sum, &mut acc);
    if part == 0 {
        copy(&acc, c.at_mut([by * BM, bx * BN]));
    }
}

/// The largest of what three (of four) blocks hold, in a block without roles, along the first axis of the grid.
#[tile_kernel(targets(sm_90a))]
pub fn largest(x: &Tensor<i32, (P, Q)>, y: &mut Tensor<i32, (P,)>) {
    let [part, b] = blocks([4, ceil_div(P, 16)]);
    threads([64]);
    cluster([4, 1]);
    let mut tile = alloc_fragment::<i32>([16, 8]);
    let mut rows = alloc_fragment::<i32>([16]);
    fill(&mut tile, -1000);
    for [i, j] in parallel([16, 8]) {
        if b * 16 + i < P && part * 8 + j < Q {
            tile[[i, j]] = x[[b * 16 + i, part * 8 + j]];
        }
    }
    cluster_reduce(Max, &mut tile);
    if part == 0 {
        reduce(Max, &tile, &mut rows, 1);
        for [i] in parallel([16]) {
            if b * 16 + i < P {
                y[b * 16 + i] = rows[i];
            }
        }
    }
}

fn devices() -> Vec<Device> {
    let mut all = vec![Device::simulator(), Device::checked_simulator()];
    all.extend(Device::cuda(0).ok().filter(|cuda| cuda.supports(tile_ir::ir::Target::Sm90a)));
    all
}

fn noise(count: usize, by: usize) -> Vec<f16> {
    (0..count).map(|i| f16::from_f32((i * by % 11) as f32 - 5.0)).collect()
}

/// The sums of the parts are integers, and so exact in any order; what follows is not.
fn expected(a: &[f16], b: &[f16], [m, n, k]: [usize; 3], parts: usize) -> Vec<f32> {
    let share = k.div_ceil(64).div_ceil(parts) * 64;
    let element = |i: usize, j: usize| {
        let part = |s: usize| -> f32 {
            let range = (s * share).min(k)..(s * share + share).min(k);
            range.map(|x| a[i * k + x].to_f32() * b[j * k + x].to_f32()).sum::<f32>() * 0.1
        };
        (1..parts).fold(part(0), |sum, s| sum + part(s))
    };
    (0..m * n).map(|e| element(e / n, e % n)).collect()
}

fn bits(values: Vec<f32>) -> Vec<u32> {
    values.into_iter().map(f32::to_bits).collect()
}

#[test]
fn the_first_block_adds_in_the_order_of_ranks() {
    // Ragged everywhere; where K is 64, all blocks but the first have nothing.
    for [m, n, k] in [[70, 72, 328], [5, 72, 64], [130, 64, 520]] {
        let (a, b) = (noise(m * k, 7), noise(n * k, 13));
        for device in devices() {
            let (x, y) = (device.tensor(&a, [m, k]).unwrap(), device.tensor(&b, [n, k]).unwrap());
            let mut c = device.zeros::<f32, 2>([m, n]).unwrap();
            let mut check = |parts: usize, launch: &dyn Fn(&mut Tensor<f32, 2>)| {
                launch(&mut c);
                let found = c.to_vec().unwrap();
                assert_eq!(bits(found), bits(expected(&a, &b, [m, n, k], parts)), "{parts} parts, {m} {n} {k}");
            };
            check(1, &|c| cluster_k::<64, 64, 1>::launch(&device, &x, &y, c).unwrap());
            check(2, &|c| cluster_k::<64, 64, 2>::launch(&device, &x, &y, c).unwrap());
            check(4, &|c| cluster_k::<64, 32, 4>::launch(&device, &x, &y, c).unwrap());
            check(2, &|c| cluster_k::<8, 32, 2>::launch(&device, &x, &y, c).unwrap());
            check(2, &|c| cluster_k::<16, 64, 2>::launch(&device, &x, &y, c).unwrap());
            check(2, &|c| cluster_k::<32, 64, 2>::launch(&device, &x, &y, c).unwrap());
            check(2, &|c| cluster_k::<128, 64, 2>::launch(&device, &x, &y, c).unwrap());
        }
    }
}

/// The largest and the sum of what `CK` blocks hold of each of 8 rows: each block sends every other one the rows that are that one's to add.
#[tile_kernel(instances(CK in [1, 2, 4, 8]))]
pub fn exchanged<const CK: usize>(
    x: &Tensor<f32, (Fixed<8>, N)>,
    largest: &mut Tensor<f32, (Fixed<8>,)>,
    sum: &mut Tensor<f32, (Fixed<8>,)>,
) {
    let [part, _] = blocks([CK, 1]);
    cluster([CK, 1]);
    let [t] = threads([64]);
    let mut mine = alloc_shared::<f32>([CK, 8 / CK, 4]);
    let mut theirs = alloc_shared::<f32>([CK, 8 / CK, 4]);
    let share = ceil_div(N, CK);
    // The second warp writes what the first sends.
    let r = t % 32;
    if t / 32 == 1 && r < 8 {
        let mut top = -1e30f32;
        let mut all = 0.0f32;
        for i in part * share..min(part * share + share, N) {
            top = max(top, x[[r, i]]);
            all += x[[r, i]];
        }
        mine[[r / (8 / CK), r % (8 / CK), 0]] = top;
        mine[[r / (8 / CK), r % (8 / CK), 1]] = all;
        mine[[r / (8 / CK), r % (8 / CK), 2]] = 0.0;
        mine[[r / (8 / CK), r % (8 / CK), 3]] = 0.0;
    }
    cluster_exchange(&mine, &mut theirs);
    if t < 8 / CK {
        let mut top = -1e30f32;
        let mut all = 0.0f32;
        for s in 0..CK {
            top = max(top, theirs[[s, t, 0]]);
            all += theirs[[s, t, 1]];
        }
        largest[part * (8 / CK) + t] = top;
        sum[part * (8 / CK) + t] = all;
    }
}

#[test]
fn each_block_receives_its_part_of_every_block() {
    let n = 61;
    let values: Vec<f32> = (0..8 * n).map(|i| (i * 7919 % 1013) as f32 / 7.0 - 70.0).collect();
    for device in devices() {
        let x = device.tensor(&values, [8, n]).unwrap();
        let check = |parts: usize, launch: &dyn Fn(&mut Tensor<f32, 1>, &mut Tensor<f32, 1>)| {
            let (mut largest, mut sum) = (device.zeros::<f32, 1>([8]).unwrap(), device.zeros::<f32, 1>([8]).unwrap());
            launch(&mut largest, &mut sum);
            let share = n.div_ceil(parts);
            let part_sum = |part: &[f32]| part.iter().fold(0.0f32, |a, b| a + b);
            let rows = values.chunks(n);
            let tops: Vec<f32> = rows.clone().map(|row| row.iter().copied().fold(f32::MIN, f32::max)).collect();
            let sums: Vec<f32> = rows.map(|row| row.chunks(share).map(part_sum).fold(0.0f32, |a, b| a + b)).collect();
            assert_eq!(bits(largest.to_vec().unwrap()), bits(tops), "{parts} parts");
            assert_eq!(bits(sum.to_vec().unwrap()), bits(sums), "{parts} parts");
        };
        check(1, &|a, b| exchanged::<1>::launch(&device, &x, a, b).unwrap());
        // Where there are no clusters the instances of several blocks do not exist.
        check(2, &|a, b| exchanged::<2>::launch(&device, &x, a, b).unwrap());
        check(4, &|a, b| exchanged::<4>::launch(&device, &x, a, b).unwrap());
        check(8, &|a, b| exchanged::<8>::launch(&device, &x, a, b).unwrap());
    }
}

#[test]
fn an_exchange_over_several_blocks_needs_clusters() {
    use tile_ir::ir::Target;
    let kernel = exchanged::<1>::definition().kernel().unwrap();
    for instance in &kernel.instances {
        let several = instance.consts != [1];
        assert!(tile_ir::lower::lower(kernel, instance, Target::Sm90a).is_ok());
        let found = tile_ir::lower::lower(kernel, instance, Target::Sm80).err();
        assert_eq!(found.is_some(), several, "{:?}", instance.consts);
        if let Some(found) = found {
            assert!(found[0].message.contains("`cluster_exchange` over"), "{}", found[0].message);
        }
    }
}

#[test]
fn a_block_without_roles_reduces_too() {
    let (p, q) = (37, 30);
    let values: Vec<i32> = (0..p * q).map(|i| (i * 7919 % 1013) as i32 - 500).collect();
    let wanted: Vec<i32> = values.chunks(q).map(|row| *row.iter().max().unwrap()).collect();
    for device in devices() {
        let x = device.tensor(&values, [p, q]).unwrap();
        let mut y = device.zeros::<i32, 1>([p]).unwrap();
        largest::launch(&device, &x, &mut y).unwrap();
        assert_eq!(y.to_vec().unwrap(), wanted);
    }
}

/// `total = a b^T`, K cut over the blocks of a cluster, which count themselves: the last one adds what all have put aside.
#[tile_kernel(targets(sm_90a), require(ceil_div(M, 64) <= 8), require(ceil_div(N, 64) <= 8))]
pub fn counted(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    total: &mut Tensor<f32, (M, N)>,
    held: &mut Tensor<f32, (Fixed<2>, M, N)>,
    arrived: &mut Tensor<u32, (Fixed<8>, Fixed<8>)>,
) {
    let [bx, by, part] = blocks([ceil_div(N, 64), ceil_div(M, 64), 2]);
    threads([128]);
    cluster([1, 1, 2]);
    let mut a_s = alloc_shared::<f16>([64, 64]);
    let mut b_s = alloc_shared::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    let mut other = alloc_fragment::<f32>([64, 64]);
    clear(&mut acc);
    let share = ceil_div(ceil_div(K, 64), 2);
    for step in pipelined(0..share, 2) {
        copy(a.at([by * 64, (part * share + step) * 64]), &mut a_s);
        copy(b.at([bx * 64, (part * share + step) * 64]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    copy(&acc, held.at_mut([part, by * 64, bx * 64]));
    if last_arriver(&mut arrived[[by, bx]], 2) {
        clear(&mut acc);
        for s in 0..2 {
            copy(held.at([s, by * 64, bx * 64]), &mut other);
            for [i, j] in parallel([64, 64]) {
                acc[[i, j]] += other[[i, j]];
            }
        }
        copy(&acc, total.at_mut([by * 64, bx * 64]));
    }
}

/// Whichever block of a cluster comes first, the last one sees what the other has written.
#[test]
fn blocks_of_one_cluster_count_themselves() {
    use std::sync::Arc;
    use tile_ir::ir::{Dtype, Target};
    use tile_ir::sim::checked::{CheckedOptions, run};
    use tile_ir::sim::{Argument, Memory, TensorArgument};
    let kernel = counted::definition().kernel().unwrap();
    let program = tile_ir::lower::lower(kernel, &kernel.instances[0], Target::Sm90a).unwrap();
    let tensor = |shape: &[i64], dtype: Dtype, ones: bool| {
        let count = shape.iter().product::<i64>() as usize;
        let memory = Memory::zeros(count * dtype.bytes() as usize);
        let one = u32::from(f16::from_f32(1.0).to_bits());
        (0..count).filter(|_| ones).for_each(|i| memory.set(i * dtype.bytes() as usize, dtype, one).expect("inside"));
        let strides = (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect();
        Argument::Tensor(TensorArgument { dtype, memory: Arc::new(memory), offset: 0, shape: shape.to_vec(), strides })
    };
    for seed in 0..24 {
        let args = [
            tensor(&[70, 200], Dtype::F16, true),
            tensor(&[40, 200], Dtype::F16, true),
            tensor(&[70, 40], Dtype::F32, false),
            tensor(&[2, 70, 40], Dtype::F32, false),
            tensor(&[8, 8], Dtype::U32, false),
        ];
        let report = run(&program, &args, &CheckedOptions { seed, ..CheckedOptions::default() }).unwrap();
        assert!(report.diagnostics.is_empty(), "seed {seed}: {:?}", report.diagnostics);
        let Argument::Tensor(total) = &args[2] else { unreachable!() };
        for i in 0..70 * 40 {
            assert_eq!(total.memory.get(i * 4, Dtype::F32), Ok(200f32.to_bits()), "seed {seed}, element {i}");
        }
    }
}

mod planted {
    use super::*;
    use std::sync::Arc;
    use tile_ir::ir::{Dtype, Target};
    use tile_ir::lowered::visit::each_list_mut;
    use tile_ir::lowered::{Op, OpKind, Program};
    use tile_ir::sim::checked::{CheckedOptions, run};
    use tile_ir::sim::{Argument, Memory, TensorArgument};

    fn reports(program: &Program) -> String {
        let tensor = |shape: [i64; 2], dtype: Dtype| {
            let memory = Arc::new(Memory::zeros((shape[0] * shape[1]) as usize * dtype.bytes() as usize));
            let strides = vec![shape[1], 1];
            Argument::Tensor(TensorArgument { dtype, memory, offset: 0, shape: shape.to_vec(), strides })
        };
        let args = [tensor([64, 256], Dtype::F16), tensor([64, 256], Dtype::F16), tensor([64, 64], Dtype::F32)];
        let mut all = String::new();
        for seed in 0..4 {
            let report = run(program, &args, &CheckedOptions { seed, ..CheckedOptions::default() }).unwrap();
            all.extend(report.diagnostics.iter().map(|d| format!("{}: {}\n", d.code, d.message)));
        }
        all
    }

    fn without(program: &Program, mistaken: impl Fn(&Op) -> bool) -> String {
        let (mut program, mut removed) = (program.clone(), 0);
        let mut body = std::mem::take(&mut program.body);
        each_list_mut(&mut body, &mut |ops| {
            let before = ops.len();
            ops.retain(|op| !mistaken(op));
            removed += before - ops.len();
        });
        program.body = body;
        assert_eq!(removed, 1, "one thing is taken out");
        reports(&program)
    }

    #[test]
    fn mistakes_of_an_exchange_are_found() {
        let kernel = exchanged::<1>::definition().kernel().unwrap();
        let instance = kernel.instances.iter().find(|i| i.consts == [4]).unwrap();
        let program = tile_ir::lower::lower(kernel, instance, Target::Sm90a).unwrap();
        let reports = |program: &Program| {
            let tensor = |shape: &[i64]| {
                let memory = Arc::new(Memory::zeros(shape.iter().product::<i64>() as usize * 4));
                let strides = (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect();
                let (dtype, shape) = (Dtype::F32, shape.to_vec());
                Argument::Tensor(TensorArgument { dtype, memory, offset: 0, shape, strides })
            };
            let mut all = String::new();
            for seed in 0..6 {
                let args = [tensor(&[8, 40]), tensor(&[8]), tensor(&[8])];
                let report = run(program, &args, &CheckedOptions { seed, ..CheckedOptions::default() }).unwrap();
                all.extend(report.diagnostics.iter().map(|d| format!("{}: {}\n", d.code, d.message)));
            }
            all
        };
        let without = |mistaken: &dyn Fn(&OpKind) -> bool| {
            let mut program = program.clone();
            let mut body = std::mem::take(&mut program.body);
            let mut removed = 0;
            each_list_mut(&mut body, &mut |ops| {
                let before = ops.len();
                ops.retain(|op| !mistaken(&op.kind));
                removed += before - ops.len();
            });
            program.body = body;
            assert!(removed > 0);
            reports(&program)
        };
        assert_eq!(reports(&program), "");
        // Who has not met the cluster may send to a block that has not begun.
        let found = without(&|op| matches!(op, OpKind::ClusterWait));
        assert!(found.contains("TK0402") && found.contains("before the cluster has met"), "{found}");
        // Who does not wait reads what is not there, and ends while others send.
        let found = without(&|op| matches!(op, OpKind::BarrierWait { .. }));
        assert!(found.contains("`theirs`"), "{found}");
        // Without bytes to expect it waits for ever.
        let found = without(&|op| matches!(op, OpKind::BarrierExpect { .. }));
        assert!(found.contains("TK0404"), "{found}");
        // What is sent before it is written; the other barrier is of what is received.
        let nth = |n: usize| {
            let before = std::cell::Cell::new(0);
            without(&|op| *op == OpKind::Barrier && before.replace(before.get() + 1) == n)
        };
        let found: String = (0..2).map(nth).collect();
        assert!(found.contains("`mine`"), "{found}");
    }

    #[test]
    fn mistakes_are_found() {
        let kernel = cluster_k::<64, 64, 2>::definition().kernel().unwrap();
        let instance = kernel.instances.iter().find(|i| i.consts == [64, 64, 2]).unwrap();
        let program = tile_ir::lower::lower(kernel, instance, Target::Sm90a).unwrap();
        assert_eq!(reports(&program), "");

        // Who has not met the cluster may send to a block that has not begun.
        let found = without(&program, |op| matches!(op.kind, OpKind::ClusterBarrier { .. }));
        assert!(found.contains("TK0402") && found.contains("before the cluster has met"), "{found}");

        // Without its wait the first block reads what is not there, and others store into a block that has ended.
        let inbox = program.barriers.iter().find(|(_, b)| b.name == "acc_arrived").unwrap().0;
        let waits = |op: &Op| matches!(op.kind, OpKind::BarrierWait { barrier, .. } if barrier.array == inbox);
        let found = without(&program, waits);
        assert!(found.contains("`acc_inbox`"), "{found}");
        assert!(found.contains("TK0402") && found.contains("after it ended"), "{found}");

        // Meeting once more keeps the block alive until all is sent, but not until all is there.
        let mut met = program.clone();
        met.body.push(Op { kind: OpKind::ClusterBarrier { relaxed: false }, span: program.body[0].span });
        assert_eq!(reports(&met), "");
        let found = without(&met, waits);
        assert!(found.contains("TK0403") && found.contains("a block may end while another block"), "{found}");

        // Without bytes to expect it waits for ever.
        let found =
            without(&program, |op| matches!(op.kind, OpKind::BarrierExpect { barrier, .. } if barrier.array == inbox));
        assert!(found.contains("TK0404"), "{found}");

        // A barrier that nobody made visible to the cluster.
        let found = without(&program, |op| matches!(op.kind, OpKind::FenceBarrierInit));
        assert!(found.contains("TK0402"), "{found}");

        // Half of the bytes: the wait is over too early.
        let mut hasty = program.clone();
        let mut body = std::mem::take(&mut hasty.body);
        each_list_mut(&mut body, &mut |ops| {
            for op in ops {
                if let OpKind::BarrierExpect { barrier, bytes } = &op.kind
                    && barrier.array == inbox
                {
                    let half = hasty.values.push(tile_ir::lowered::Value {
                        kind: tile_ir::lowered::ValueKind::Int(64 * 64 * 4 / 2),
                        ty: hasty.values[*bytes].ty,
                        span: op.span,
                    });
                    op.kind = OpKind::BarrierExpect { barrier: *barrier, bytes: half };
                }
            }
        });
        hasty.body = body;
        let found = reports(&hasty);
        assert!(found.contains("TK040"), "{found}");
    }
}
