//! Tiles that fill up a cluster beyond the author's grid have no effects, whatever their block does: stores, atomic
//! operations, prints. Clusters of two along an axis with an odd number of tiles, in roles.

use tile_kernel_examples::data::integers;
use tile_kernel_examples::devices::devices;
use tile_runtime::prelude::*;

/// Rows of a product, and what their sums are, stored with nothing that would clip them: the grid alone bounds `by`.
#[tile_kernel(instances(PERSISTENT in [true, false]), targets(sm_90a))]
pub fn row_sums<const PERSISTENT: bool>(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (K, N)>,
    c: &mut Tensor<f32, (M, N)>,
    sums: &mut Tensor<f32, (TM, Fixed<64>)>,
    visits: &mut Tensor<i32, (TM, Fixed<64>)>,
) {
    cluster([1, 2]);
    threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 64]);
    let mut b_s = alloc_shared::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    let mut sum = alloc_fragment::<f32>([64]);
    for [bx, by] in persistent([ceil_div(N, 64), TM]) {
        clear(&mut acc);
        for k in pipelined(0..ceil_div(K, 64), 2) {
            copy(a.at([by * 64, k * 64]), &mut a_s);
            copy(b.at([k * 64, bx * 64]), &mut b_s);
            gemm(&a_s, &b_s, &mut acc);
        }
        reduce(Sum, &acc, &mut sum, 1);
        for [i] in parallel([64]) {
            if bx == 0 {
                if PERSISTENT {
                    *sums.masked_mut([by, i]) = sum[i];
                } else {
                    sums[[by, i]] = sum[i];
                }
            }
            atomic_add(&mut visits[[by, i]], 1);
        }
        copy(&acc, c.at_mut([by * 64, bx * 64]));
    }
}

/// The first `n` rows of tiles of `c`, added to what is there: rows past them stay as they are.
#[tile_kernel(targets(sm_90a), partial(c))]
pub fn first_rows(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (K, N)>,
    c: &mut Tensor<f32, (M, N)>,
    d: &mut Tensor<f32, (M, N)>,
    n: usize,
) {
    let [bx, by] = blocks([ceil_div(N, 64), n]);
    cluster([1, 2]);
    threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 64]);
    let mut b_s = alloc_shared::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, 64), 2) {
        copy(a.at([by * 64, k * 64]), &mut a_s);
        copy(b.at([k * 64, bx * 64]), &mut b_s);
        gemm(&a_s, &b_s, &mut acc);
    }
    for [i, j] in parallel([64, 64]) {
        if by * 64 + i < M && bx * 64 + j < N {
            let old = d[[by * 64 + i, bx * 64 + j]];
            d[[by * 64 + i, bx * 64 + j]] = old + acc[[i, j]];
        }
    }
    copy(&acc, c.at_mut([by * 64, bx * 64]));
}

const K: usize = 128;

fn operands(device: &Device, m: usize, n: usize) -> (Tensor<f16, 2>, Tensor<f16, 2>, Vec<f32>) {
    let (a, b) = (integers::<f16>(1, m * K, 3), integers::<f16>(2, K * n, 3));
    let product = (0..m * n).map(|e| (0..K).map(|k| a[e / n * K + k].to_f32() * b[k * n + e % n].to_f32()).sum());
    let product = product.collect();
    (device.tensor(&a, [m, K]).unwrap(), device.tensor(&b, [K, n]).unwrap(), product)
}

#[test]
fn a_padding_tile_stores_nothing_and_counts_nothing() {
    let (m, n) = (192, 128);
    for device in devices() {
        for persistent in [true, false] {
            let (a, b, product) = operands(&device, m, n);
            let mut c = device.zeros::<f32, 2>([m, n]).unwrap();
            // A row more than the view has: what lies behind it stays.
            let mut all = device.tensor(&vec![-1.0f32; 4 * 64], [4, 64]).unwrap();
            let mut visits = device.zeros::<i32, 2>([3, 64]).unwrap();
            let mut view = all.slice_mut([0..3, 0..64]).unwrap();
            if persistent {
                row_sums::<true>::launch(&device, &a, &b, &mut c, &mut view, &mut visits).unwrap();
            } else {
                row_sums::<false>::launch(&device, &a, &b, &mut c, &mut view, &mut visits).unwrap();
            }
            assert_eq!(c.to_vec().unwrap(), product, "{device:?}");
            assert_eq!(all.to_vec().unwrap()[3 * 64..], [-1.0; 64], "{device:?}");
            assert_eq!(visits.to_vec().unwrap(), [2; 3 * 64], "{device:?}");
        }
    }
}

#[test]
fn rows_past_the_grid_stay_as_they_are() {
    let (m, n) = (256, 128);
    for device in devices() {
        let (a, b, product) = operands(&device, m, n);
        let mut c = device.tensor(&vec![-1.0f32; m * n], [m, n]).unwrap();
        let mut d = device.tensor(&vec![1.0f32; m * n], [m, n]).unwrap();
        first_rows::launch(&device, &a, &b, &mut c, &mut d, 3).unwrap();
        let (c, d) = (c.to_vec().unwrap(), d.to_vec().unwrap());
        let written = 192 * n;
        assert_eq!(c[..written], product[..written], "{device:?}");
        assert_eq!(c[written..], vec![-1.0; 64 * n], "{device:?}");
        assert!(d[..written].iter().zip(&product).all(|(d, p)| *d == p + 1.0), "{device:?}");
        assert_eq!(d[written..], vec![1.0; 64 * n], "{device:?}");
    }
}

/// The checked simulator reports a program whose padding tiles have effects, whatever the lowering believes.
#[test]
fn a_program_without_the_predicate_is_reported() {
    use std::sync::Arc;
    use tile_ir::ir::{Dtype, Target};
    use tile_ir::lowered::visit::each_list_mut;
    use tile_ir::lowered::{OpKind, Program, ValueKind};
    use tile_ir::sim::checked::{CheckedOptions, run};
    use tile_ir::sim::{Argument, Memory, ScalarValue, TensorArgument};

    let kernel = first_rows::definition().kernel().unwrap();
    let program = tile_ir::lower::lower(kernel, &kernel.instances[0], Target::Sm90a).unwrap();
    let reports = |program: &Program| -> String {
        let tensor = |shape: [i64; 2], dtype: Dtype| {
            let memory = Arc::new(Memory::zeros((shape[0] * shape[1]) as usize * dtype.bytes() as usize));
            Argument::Tensor(TensorArgument {
                dtype,
                memory,
                offset: 0,
                shape: shape.into(),
                strides: vec![shape[1], 1],
            })
        };
        let args = [
            tensor([256, 64], Dtype::F16),
            tensor([64, 64], Dtype::F16),
            tensor([256, 64], Dtype::F32),
            tensor([256, 64], Dtype::F32),
            Argument::Scalar(ScalarValue::Index(3)),
        ];
        let report = run(program, &args, &CheckedOptions::default()).unwrap();
        report.diagnostics.iter().map(|d| format!("{}: {}\n", d.code, d.message)).collect()
    };
    assert_eq!(reports(&program), "");

    let inside = program.regs.iter().find(|(_, reg)| reg.name == "inside").map(|(reg, _)| reg).unwrap();
    for by_copy_engine in [true, false] {
        let mut broken = program.clone();
        let mut dropped = 0;
        each_list_mut(&mut broken.body, &mut |ops| {
            for op in ops {
                if let OpKind::If { cond, then, .. } = &op.kind
                    && program.values[*cond].kind == ValueKind::Reg(inside)
                    && matches!(then[0].kind, OpKind::TensorStore { .. }) == by_copy_engine
                {
                    *op = then[0].clone();
                    dropped += 1;
                }
            }
        });
        assert!(dropped > 0);
        assert!(reports(&broken).contains("TK0406"), "{by_copy_engine}: {}", reports(&broken));
    }
}

/// A GEMM whose padding tiles lie outside of what they are copied to is what it was: nothing is predicated.
#[test]
fn a_plain_gemm_predicates_nothing() {
    use tile_ir::ir::{Dtype, Target};
    let kernel =
        tile_kernels::gemm::kernel::gemm::<bf16, bf16, 128, 256, 64, 4, 256, 1, 1, false, false, false>::definition()
            .kernel()
            .unwrap();
    for instance in kernel.instances.iter().filter(|i| i.dtypes == [Dtype::Bf16; 2]) {
        let program = tile_ir::lower::lower(kernel, instance, Target::Sm90a).unwrap();
        assert!(program.regs.values().all(|reg| reg.name != "inside"), "{instance:?}");
    }
}
