//! Split-K by `last_arriver`: the blocks of a tile put their partial sums aside, and the last one adds them in the order of
//! their slots, so that the result has the same bits whichever block is last.

use tile_kernel_examples::devices::devices;
use tile_runtime::prelude::*;

/// `c = a b^T`, K cut into `S` parts, each a block's.
#[tile_kernel(instances(S in [1, 3, 4]), require(ceil_div(M, 32) <= TM), require(ceil_div(N, 32) <= TN))]
pub fn split_k<const S: usize>(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    c: &mut Tensor<f32, (M, N)>,
    partial: &mut Tensor<f32, (S, M, N)>,
    arrived: &mut Tensor<u32, (TM, TN)>,
) {
    let [bx, by, slot] = blocks([ceil_div(N, 32), ceil_div(M, 32), S]);
    let [t] = threads([64]);
    let mut a_s = alloc_shared::<f16>([32, 32]);
    let mut b_s = alloc_shared::<f16>([32, 32]);
    let mut acc = alloc_fragment::<f32>([32, 32]);
    clear(&mut acc);
    let steps = ceil_div(K, 32);
    let share = ceil_div(steps, S);
    for step in 0..share {
        let k = (slot * share + step) * 32;
        copy(a.at([by * 32, k]), &mut a_s);
        copy(b.at([bx * 32, k]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    for [i, j] in parallel([32, 32]) {
        *partial.masked_mut([slot, by * 32 + i, bx * 32 + j]) = acc[[i, j]] * 0.1;
    }
    if last_arriver(&mut arrived[[by, bx]], S) {
        for e in 0..16 {
            let i = by * 32 + (e * 64 + t) / 32;
            let j = bx * 32 + t % 32;
            if i < M && j < N {
                let mut sum = 0.0f32;
                for s in 0..S {
                    sum += partial[[s, i, j]];
                }
                c[[i, j]] = sum;
            }
        }
    }
}

/// Split K with memory that the launcher allocates: nobody sees the partial sums or the counters.
#[tile_kernel(instances(S in [3, 4]), require(ceil_div(M, 32) <= 8), require(ceil_div(N, 32) <= 8))]
pub fn split_k_alone<const S: usize>(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    c: &mut Tensor<f32, (M, N)>,
    partial: &mut Workspace<f32, (S, M, N)>,
    arrived: &mut Workspace<u32, (Fixed<8>, Fixed<8>)>,
) {
    let [bx, by, slot] = blocks([ceil_div(N, 32), ceil_div(M, 32), S]);
    let [t] = threads([64]);
    let mut a_s = alloc_shared::<f16>([32, 32]);
    let mut b_s = alloc_shared::<f16>([32, 32]);
    let mut acc = alloc_fragment::<f32>([32, 32]);
    clear(&mut acc);
    let share = ceil_div(ceil_div(K, 32), S);
    for step in 0..share {
        let k = (slot * share + step) * 32;
        copy(a.at([by * 32, k]), &mut a_s);
        copy(b.at([bx * 32, k]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    for [i, j] in parallel([32, 32]) {
        *partial.masked_mut([slot, by * 32 + i, bx * 32 + j]) = acc[[i, j]] * 0.1;
    }
    if last_arriver(&mut arrived[[by, bx]], S) {
        for e in 0..16 {
            let i = by * 32 + (e * 64 + t) / 32;
            let j = bx * 32 + t % 32;
            if i < M && j < N {
                let mut sum = 0.0f32;
                for s in 0..S {
                    sum += partial[[s, i, j]];
                }
                c[[i, j]] = sum;
            }
        }
    }
}

/// Reads what the other blocks wrote without waiting for them.
#[tile_kernel]
pub fn too_early(parts: &mut Tensor<f32, (B,)>, sum: &mut Tensor<f32, (B,)>, arrived: &mut Tensor<u32, (Fixed<1>,)>) {
    let [b] = blocks([B]);
    let [t] = threads([32]);
    if t == 0 {
        parts[b] = b as f32;
        let mut total = 0.0f32;
        for i in 0..B {
            total += parts[i];
        }
        sum[b] = total;
    }
    if last_arriver(&mut arrived[0], B) {
        if t == 0 {
            sum[0] = 1.0;
        }
    }
}

fn noise(count: usize, by: usize) -> Vec<f16> {
    (0..count).map(|i| f16::from_f32((i * by % 11) as f32 - 5.0)).collect()
}

fn expected(a: &[f16], b: &[f16], [m, n, k]: [usize; 3], splits: usize) -> Vec<f32> {
    let share = k.div_ceil(32).div_ceil(splits) * 32;
    let element = |i: usize, j: usize| {
        let part = |s: usize| -> f32 {
            (s * share..k.min(s * share + share)).map(|x| a[i * k + x].to_f32() * b[j * k + x].to_f32()).sum::<f32>()
                * 0.1
        };
        (0..splits).fold(0.0f32, |sum, s| sum + part(s))
    };
    (0..m * n).map(|e| element(e / n, e % n)).collect()
}

#[test]
fn the_last_block_adds_in_the_order_of_the_slots() {
    let (m, n, k) = (40, 70, 200);
    let (a, b) = (noise(m * k, 7), noise(n * k, 13));
    for device in devices() {
        let (x, y) = (device.tensor(&a, [m, k]).unwrap(), device.tensor(&b, [n, k]).unwrap());
        let mut arrived = device.zeros::<u32, 2>([2, 3]).unwrap();
        for splits in [1, 3, 4] {
            let mut c = device.zeros::<f32, 2>([m, n]).unwrap();
            let mut partial = device.tensor(&vec![f32::NAN; splits * m * n], [splits, m, n]).unwrap();
            for _ in 0..3 {
                let (x, y, z, p, s) = (&x, &y, &mut c, &mut partial, &mut arrived);
                match splits {
                    1 => split_k::<1>::launch(&device, x, y, z, p, s).unwrap(),
                    3 => split_k::<3>::launch(&device, x, y, z, p, s).unwrap(),
                    _ => split_k::<4>::launch(&device, x, y, z, p, s).unwrap(),
                }
                let bits = |v: Vec<f32>| v.into_iter().map(f32::to_bits).collect::<Vec<_>>();
                assert_eq!(bits(c.to_vec().unwrap()), bits(expected(&a, &b, [m, n, k], splits)), "{splits} splits");
                assert_eq!(arrived.to_vec().unwrap(), [0; 6], "the counters are back at 0");
            }
        }
    }
}

#[test]
fn a_workspace_is_no_argument() {
    let (m, n, k) = (40, 70, 200);
    let (a, b) = (noise(m * k, 7), noise(n * k, 13));
    for device in devices() {
        let (x, y) = (device.tensor(&a, [m, k]).unwrap(), device.tensor(&b, [n, k]).unwrap());
        let mut c = device.zeros::<f32, 2>([m, n]).unwrap();
        let wanted = |splits: usize| expected(&a, &b, [m, n, k], splits);
        for _ in 0..2 {
            split_k_alone::<3>::launch(&device, &x, &y, &mut c).unwrap();
            assert_eq!(c.to_vec().unwrap(), wanted(3));
            split_k_alone::<4>::launch(&device, &x, &y, &mut c).unwrap();
            assert_eq!(c.to_vec().unwrap(), wanted(4));
        }
        let again = split_k_alone::<3>::prepare(&device, &x, &y, &mut c).unwrap();
        for _ in 0..2 {
            again.launch().unwrap();
            assert_eq!(c.to_vec().unwrap(), wanted(3));
        }
    }
}

#[test]
fn reading_before_the_others_have_arrived_is_a_race() {
    let device = Device::checked_simulator();
    let mut parts = device.zeros::<f32, 1>([3]).unwrap();
    let mut sum = device.zeros::<f32, 1>([3]).unwrap();
    let mut arrived = device.zeros::<u32, 1>([1]).unwrap();
    let report = match too_early::launch(&device, &mut parts, &mut sum, &mut arrived) {
        Ok(()) => device.synchronize().map(|()| String::new()).unwrap_or_else(|e| e.to_string()),
        Err(error) => error.to_string(),
    };
    assert!(report.contains("TK0405") && report.contains("`parts`"), "{report}");
}

/// The addition that does not release and acquire is found, and so is a missing barrier before it.
#[test]
fn a_planted_mistake_is_found() {
    use tile_ir::ir::Dtype;
    use tile_ir::lowered::visit::each_list_mut;
    use tile_ir::lowered::{OpKind, Program};
    use tile_ir::sim::checked::{CheckedOptions, run};
    use tile_ir::sim::{Argument, Memory, TensorArgument};

    let kernel = split_k::<3>::definition().kernel().unwrap();
    let instance = kernel.instances.iter().find(|i| i.consts == [3]).unwrap();
    let program = tile_ir::lower::lower(kernel, instance, tile_ir::ir::Target::Sm80).unwrap();
    let reports = |program: &Program| -> String {
        let tensor = |shape: &[i64], dtype: Dtype| {
            let count: i64 = shape.iter().product();
            let strides = (0..shape.len()).map(|a| shape[a + 1..].iter().product()).collect();
            let memory = std::sync::Arc::new(Memory::zeros(count as usize * dtype.bytes() as usize));
            Argument::Tensor(TensorArgument { dtype, memory, offset: 0, shape: shape.to_vec(), strides })
        };
        let args = [
            tensor(&[32, 96], Dtype::F16),
            tensor(&[32, 96], Dtype::F16),
            tensor(&[32, 32], Dtype::F32),
            tensor(&[3, 32, 32], Dtype::F32),
            tensor(&[1, 1], Dtype::U32),
        ];
        let report = run(program, &args, &CheckedOptions::default()).unwrap();
        report.diagnostics.iter().map(|d| format!("{}: {}\n", d.code, d.message)).collect()
    };
    assert_eq!(reports(&program), "");

    let mut relaxed = program.clone();
    each_list_mut(&mut relaxed.body, &mut |ops| {
        for op in ops {
            if let OpKind::Atomic { ordered, .. } = &mut op.kind {
                *ordered = false;
            }
        }
    });
    assert!(reports(&relaxed).contains("TK0405"), "{}", reports(&relaxed));

    let mut unbarred = program.clone();
    each_list_mut(&mut unbarred.body, &mut |ops| {
        let arrival = ops.iter().position(|op| match &op.kind {
            OpKind::If { then, .. } => then.iter().any(|op| matches!(op.kind, OpKind::Atomic { ordered: true, .. })),
            _ => false,
        });
        if let Some(at) = arrival {
            assert!(matches!(ops[at - 1].kind, OpKind::Barrier) || matches!(ops[at - 2].kind, OpKind::Barrier));
            let barrier = ops[..at].iter().rposition(|op| matches!(op.kind, OpKind::Barrier)).unwrap();
            ops.remove(barrier);
        }
    });
    assert!(reports(&unbarred).contains("TK0405"), "{}", reports(&unbarred));
}

/// What one block of `S` does is counted once for all of them, as by hand.
#[test]
fn explain_counts_what_the_last_block_does_once() {
    use tile_ir::explain::{Machine, Shape, explain};
    use tile_ir::ir::Target;

    let kernel = split_k::<4>::definition().kernel().unwrap();
    let instance = kernel.instances.iter().find(|i| i.consts == [4]).unwrap();
    let [m, n, k, splits] = [64.0, 96.0, 256.0, 4.0];
    let tiles = m / 32.0 * n / 32.0;
    for target in [Target::Sm80, Target::Sm90a] {
        let program = tile_ir::lower::lower(kernel, instance, target).unwrap();
        let values = [("M", m), ("N", n), ("K", k), ("TM", m / 32.0), ("TN", n / 32.0)];
        let shape = Shape::dense(&program, &values).unwrap();
        let report = explain(&program, &shape, &Machine::H200, None).unwrap();
        let traffic = |name| report.tensors.iter().find(|t| t.name == name).map(|t| (t.reads, t.writes));
        assert_eq!(traffic("a"), Some((m * k * 2.0 * n / 32.0, 0.0)), "{target}\n{report}");
        assert_eq!(traffic("partial"), Some((splits * m * n * 4.0, splits * m * n * 4.0)), "{target}\n{report}");
        assert_eq!(traffic("c"), Some((0.0, m * n * 4.0)), "{target}\n{report}");
        // Every block counts itself, the last one sets the counter back.
        let counted = (splits * tiles + tiles) * 4.0;
        assert_eq!(traffic("arrived"), Some((counted, counted)), "{target}\n{report}");
        // A multiplication before the sums are put aside, an addition for each of them.
        assert_eq!(report.roofline.flops, 2.0 * m * n * k + 2.0 * splits * m * n, "{target}\n{report}");
        assert!(report.undecided.is_empty(), "{target}\n{report}");
    }
}
