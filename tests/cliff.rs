//! Kernels a step away from the plain GEMM keep TMA and `wgmma` on sm_90a, and are right wherever they run.
//!
//! Operands are small integers: every sum is exact, so every device gives the same bits.

use tile_ir::ir::{Class, Instance, Kernel, Target, Width};
use tile_ir::lowered::visit::each;
use tile_ir::lowered::{OpKind, Program, RemarkKind};
use tile_kernel_examples::cliff::kernels::*;
use tile_kernel_examples::devices::devices;
use tile_runtime::prelude::*;

fn program(kernel: &Kernel, instance: usize, target: Target) -> Program {
    match tile_ir::lower::lower(kernel, &kernel.instances[instance], target) {
        Ok(program) => program,
        Err(diagnostics) => panic!("{}: {diagnostics:?}", kernel.name),
    }
}

/// Products by `wgmma`, loads by TMA, and why a kernel has neither.
fn fast_path(kernel: &Kernel) -> (usize, usize, Option<String>) {
    let program = program(kernel, 0, Target::Sm90a);
    let (mut products, mut loads) = (0, 0);
    each(&program.body, &mut |op| match &op.kind {
        OpKind::Wgmma { .. } => products += 1,
        OpKind::TensorLoad { .. } => loads += 1,
        _ => {}
    });
    let said = program.remarks.iter().find(|r| r.kind == RemarkKind::Fallback && r.text.contains("not specialised"));
    (products, loads, said.map(|remark| remark.text.clone()))
}

#[test]
fn plausible_kernels_keep_tma_and_wgmma() {
    let mut slow = Vec::new();
    for definition in tile_kernel_examples::cliff::definitions() {
        let kernel = definition.kernel().unwrap();
        match fast_path(kernel) {
            (products, loads, None) if products > 0 && loads > 0 => {}
            found => slow.push(format!("{}: {found:?}", kernel.name)),
        }
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}

/// TMA converts nothing: the tile is loaded as it is, and consumers convert it. It takes twice the slots' memory, so that fewer fit.
#[test]
fn a_converting_load_is_a_load_and_a_conversion() {
    let definition = converted::<f16, 128, 128, 64, 4, 256>::definition();
    let program = program(definition.kernel().unwrap(), 0, Target::Sm90a);
    let said = program.remarks.iter().find(|r| r.text.contains("is loaded as it is in memory"));
    let said = said.map(|remark| remark.text.as_str());
    assert_eq!(
        said,
        Some(
            "`b` is loaded as it is in memory, f32, into 3 slots, as the 4 asked for do not fit, and converted into `b_s` by the \
             threads that multiply"
        )
    );
}

/// How many operations of a kernel's program are such.
fn count(program: &Program, is: impl Fn(&OpKind) -> bool) -> usize {
    let mut found = 0;
    each(&program.body, &mut |op| found += usize::from(is(&op.kind)));
    found
}

/// Elements of a tile that are added one by one would be 16 million atomics of 4 bytes; TMA adds lines.
#[test]
fn a_tile_is_added_by_tma() {
    let definition = atomic_split::<f16, 128, 128, 64, 4, 256, 2>::definition();
    let kernel = definition.kernel().unwrap();
    let fast = program(kernel, 0, Target::Sm90a);
    assert_eq!(count(&fast, |op| matches!(op, OpKind::Atomic { .. })), 0);
    assert_eq!(count(&fast, |op| matches!(op, OpKind::TensorStore { adds: true, .. })), 1, "in a loop over sub-tiles");
    assert!(fast.remarks.iter().any(|r| r.text == "added to `sum` by TMA, a tile at once"), "{:?}", fast.remarks);
    // Where rows are not made of 16 bytes, and where there is no TMA, elements are added one by one.
    let narrow = Class { writes: Width::Four, ..kernel.instances[0].class };
    let narrow = Instance { class: narrow, ..kernel.instances[0].clone() };
    let narrow = tile_ir::lower::lower(kernel, &narrow, Target::Sm90a).unwrap();
    for program in [narrow, program(kernel, 0, Target::Sm80)] {
        assert_eq!(count(&program, |op| matches!(op, OpKind::TensorStore { adds: true, .. })), 0);
        assert!(count(&program, |op| matches!(op, OpKind::Atomic { .. })) > 0);
    }
}

/// While threads scale a product, the next one is in flight, and the scales of a thread's rows have been loaded while it ran.
#[test]
fn work_on_a_product_overlaps_with_the_next_one() {
    let all = [
        shared_scales::<f16, 128, 128, 64, 4, 256>::definition(),
        global_scales::<f16, 128, 128, 64, 4, 256>::definition(),
    ];
    for definition in all {
        let kernel = definition.kernel().unwrap();
        let program = program(kernel, 0, Target::Sm90a);
        let waits = |of: u32| count(&program, |op| matches!(op, OpKind::WgmmaWait { pending } if *pending == of));
        // Two iterations in the loop; behind it the last two, or the last one.
        assert_eq!([waits(1), waits(0)], [3, 2], "{}", kernel.name);
        let held: Vec<&str> = program.locals.values().map(|l| &l.name[..]).filter(|n| n.contains("_held")).collect();
        assert_eq!(held.len(), 2, "{}: {held:?}", kernel.name);
        assert!(program.locals.values().filter(|l| l.name.contains("_held")).all(|l| l.len == 2), "a scale a row");
        // TMA brings what is in shared arrays of the author's; what threads read of memory, a warp of the producer copies.
        let copied = count(&program, |op| matches!(op, OpKind::AsyncArrive { .. }));
        assert_eq!(copied, usize::from(kernel.name == "global_scales"), "{}", kernel.name);
        let said = program.remarks.iter().any(|r| r.text.starts_with("software pipelined: this product of the next"));
        assert!(said, "{}: {:?}", kernel.name, program.remarks);
    }
}

fn small(count: usize, by: usize) -> Vec<f32> {
    (0..count).map(|i| (i * by % 5) as f32 - 2.0).collect()
}

fn half(values: &[f32]) -> Vec<f16> {
    values.iter().map(|v| f16::from_f32(*v)).collect()
}

/// `a b^T`, of `[m, k]` and `[n, k]`.
fn product(a: &[f32], b: &[f32], [m, n, k]: [usize; 3]) -> Vec<f32> {
    let dot = |i: usize, j: usize| a[i * k..][..k].iter().zip(&b[j * k..][..k]).map(|(a, b)| a * b).sum();
    (0..m * n).map(|e| dot(e / n, e % n)).collect()
}

fn rounded(values: &[f32]) -> Vec<f32> {
    values.iter().map(|v| f16::from_f32(*v).to_f32()).collect()
}

const SHAPES: [[usize; 3]; 4] = [[128, 128, 64], [200, 136, 328], [3, 264, 72], [300, 8, 520]];

struct Case {
    device: Device,
    shape: [usize; 3],
    a: Vec<f32>,
    b: Vec<f32>,
    x: Tensor<f16, 2>,
    w: Tensor<f16, 2>,
    c: Tensor<f16, 2>,
}

impl Case {
    /// The product of the operands.
    fn product(&self) -> Vec<f32> {
        product(&self.a, &self.b, self.shape)
    }

    #[track_caller]
    fn is(&self, wanted: &[f32]) {
        let found: Vec<f32> = self.c.to_vec().unwrap().iter().map(|v| v.to_f32()).collect();
        let wanted = rounded(wanted);
        let wrong = found.iter().zip(&wanted).position(|(a, b)| a != b);
        assert!(wrong.is_none(), "{} {:?}: element {wrong:?} of {found:?}", self.device, self.shape);
    }
}

fn each_case(mut f: impl FnMut(&mut Case)) {
    for device in devices() {
        for shape @ [m, n, k] in SHAPES {
            let (a, b) = (small(m * k, 7), small(n * k, 3));
            let x = device.tensor(&half(&a), [m, k]).unwrap();
            let w = device.tensor(&half(&b), [n, k]).unwrap();
            let c = device.tensor(&vec![f16::NAN; m * n], [m, n]).unwrap();
            f(&mut Case { device: device.clone(), shape, a, b, x, w, c });
        }
    }
}

#[test]
fn a_plain_loop() {
    each_case(|case| {
        plain::<f16, 128, 128, 64, 256>::launch(&case.device, &case.x, &case.w, &mut case.c).unwrap();
        case.is(&case.product());
    });
}

#[test]
fn two_loops_into_one_accumulator() {
    each_case(|case| {
        let [m, n, _] = case.shape;
        let rank = 24;
        let (u, v) = (small(m * rank, 11), small(n * rank, 13));
        let (left, right) =
            (case.device.tensor(&half(&u), [m, rank]).unwrap(), case.device.tensor(&half(&v), [n, rank]).unwrap());
        low_rank::<f16, 128, 128, 64, 4, 256>::launch(&case.device, &case.x, &case.w, &left, &right, &mut case.c)
            .unwrap();
        let second = product(&u, &v, [m, n, rank]);
        let wanted: Vec<f32> = case.product().iter().zip(second).map(|(a, b)| a + b).collect();
        case.is(&wanted);
    });
}

#[test]
fn a_bias_in_shared_memory() {
    each_case(|case| {
        let [_, n, _] = case.shape;
        let bias = small(n, 3);
        let row = case.device.tensor(&bias, [n]).unwrap();
        shared_bias::<f16, 128, 128, 64, 4, 256>::launch(&case.device, &case.x, &case.w, &row, &mut case.c).unwrap();
        let wanted: Vec<f32> = case.product().iter().enumerate().map(|(e, v)| v + bias[e % n]).collect();
        case.is(&wanted);
    });
}

/// `a b^T` step by step, each with its scale of a row.
fn scaled(case: &Case, scales: &[f32]) -> Vec<f32> {
    let [m, n, k] = case.shape;
    let mut sum = vec![0.0; m * n];
    for (step, from) in (0..k).step_by(64).enumerate() {
        for (e, sum) in sum.iter_mut().enumerate() {
            let (i, j) = (e / n, e % n);
            let part: f32 = (from..k.min(from + 64)).map(|x| case.a[i * k + x] * case.b[j * k + x]).sum();
            *sum += part * scales[step * m + i];
        }
    }
    sum
}

#[test]
fn scales_of_blocks() {
    each_case(|case| {
        let [m, _, k] = case.shape;
        // Rows of scales are padded to what TMA takes.
        let (steps, pitch) = (k.div_ceil(64), m.next_multiple_of(4));
        let scales: Vec<f32> = (0..steps * m).map(|i| [0.5, 1.0, 2.0][i % 3]).collect();
        let padded: Vec<f32> =
            (0..steps * pitch).map(|e| if e % pitch < m { scales[e / pitch * m + e % pitch] } else { 9.0 }).collect();
        let tensor = case.device.tensor(&padded, [steps, pitch]).unwrap();
        let view = tensor.slice([0..steps, 0..m]).unwrap();
        let wanted = scaled(case, &scales);
        shared_scales::<f16, 128, 128, 64, 4, 256>::launch(&case.device, &case.x, &case.w, view, &mut case.c).unwrap();
        case.is(&wanted);
        global_scales::<f16, 128, 128, 64, 4, 256>::launch(&case.device, &case.x, &case.w, view, &mut case.c).unwrap();
        case.is(&wanted);
    });
}

#[test]
fn a_product_under_a_condition() {
    each_case(|case| {
        let [m, n, k] = case.shape;
        for window in [0, 1, 3, 100] {
            windowed::<f16, 128, 128, 64, 4, 256>::launch(&case.device, &case.x, &case.w, &mut case.c, window).unwrap();
            let most = k.min(window as usize * 64);
            let dot = |i: usize, j: usize| (0..most).map(|x| case.a[i * k + x] * case.b[j * k + x]).sum();
            let wanted: Vec<f32> = (0..m * n).map(|e| dot(e / n, e % n)).collect();
            case.is(&wanted);
        }
    });
}

#[test]
fn a_result_through_shared_memory() {
    each_case(|case| {
        shared_result::<f16, 128, 128, 64, 4, 256>::launch(&case.device, &case.x, &case.w, &mut case.c).unwrap();
        case.is(&case.product());
    });
}

#[test]
fn a_converting_load() {
    each_case(|case| {
        let [_, n, k] = case.shape;
        let w = case.device.tensor(&case.b, [n, k]).unwrap();
        converted::<f16, 128, 128, 64, 4, 256>::launch(&case.device, &case.x, &w, &mut case.c).unwrap();
        case.is(&case.product());
    });
}

#[test]
fn sums_of_rows_through_shared_memory() {
    each_case(|case| {
        let [m, n, _] = case.shape;
        let tiles = n.div_ceil(128);
        let mut sums = case.device.tensor(&vec![f32::NAN; m * tiles], [m, tiles]).unwrap();
        row_sums::<f16, 128, 128, 64, 4, 256>::launch(&case.device, &case.x, &case.w, &mut case.c, &mut sums).unwrap();
        let wanted = case.product();
        case.is(&wanted);
        let sum = |i: usize, t: usize| wanted[i * n + t * 128..i * n + n.min((t + 1) * 128)].iter().sum::<f32>();
        let sums_wanted: Vec<f32> = (0..m * tiles).map(|e| sum(e / tiles, e % tiles)).collect();
        assert_eq!(sums.to_vec().unwrap(), sums_wanted, "{}", case.device);
    });
}

#[test]
fn tiles_of_192_rows() {
    each_case(|case| {
        wide::<f16, 192, 128, 64, 4, 256>::launch(&case.device, &case.x, &case.w, &mut case.c).unwrap();
        case.is(&case.product());
    });
}

#[test]
fn a_second_product_after_the_loop() {
    each_case(|case| {
        let [m, n, k] = case.shape;
        let b: Vec<f32> = small(128 * k, 3).iter().map(|v| v * 0.25).collect();
        let second: Vec<f32> = small(n * 128, 11);
        let hidden = case.device.tensor(&half(&b), [128, k]).unwrap();
        let w = case.device.tensor(&half(&second), [n, 128]).unwrap();
        fused_mlp::<f16, 128, 128, 64, 3, 256>::launch(&case.device, &case.x, &hidden, &w, &mut case.c).unwrap();
        let middle: Vec<f32> = product(&case.a, &b, [m, 128, k]).iter().map(|v| v.max(0.0)).collect();
        case.is(&product(&rounded(&middle), &second, [m, n, 128]));
    });
}

#[test]
fn parts_of_k_by_atomics() {
    each_case(|case| {
        let [m, n, _] = case.shape;
        let mut sum = case.device.zeros::<f32, 2>([m, n]).unwrap();
        atomic_split::<f16, 128, 128, 64, 4, 256, 2>::launch(&case.device, &case.x, &case.w, &mut sum).unwrap();
        assert_eq!(sum.to_vec().unwrap(), case.product(), "{}", case.device);
    });
}

#[test]
fn one_tensor_twice() {
    each_case(|case| {
        let [m, _, k] = case.shape;
        let mut c = case.device.tensor(&vec![f16::NAN; m * m], [m, m]).unwrap();
        gram::<f16, 128, 128, 64, 4, 256>::launch(&case.device, &case.x, &mut c).unwrap();
        let found: Vec<f32> = c.to_vec().unwrap().iter().map(|v| v.to_f32()).collect();
        assert_eq!(found, rounded(&product(&case.a, &case.a, [m, m, k])), "{}", case.device);
    });
}

#[test]
fn two_products_of_one_operand() {
    each_case(|case| {
        let [m, n, k] = case.shape;
        // Products that f16 holds.
        case.a.iter_mut().for_each(|v| *v /= 64.0);
        case.x = case.device.tensor(&half(&case.a), [m, k]).unwrap();
        let up = small(n * k, 11);
        let w = case.device.tensor(&half(&up), [n, k]).unwrap();
        swiglu::<f16, 128, 128, 64, 3, 256>::launch(&case.device, &case.x, &case.w, &w, &mut case.c).unwrap();
        let ups = product(&case.a, &up, case.shape);
        let found = case.c.to_vec().unwrap();
        for ((g, u), found) in case.product().into_iter().zip(ups).zip(found) {
            let wanted = g / (1.0 + (-g).exp()) * u;
            let most = 2e-3 * wanted.abs() + 1e-3;
            assert!((wanted - found.to_f32()).abs() <= most, "{}: {wanted} is {found}", case.device);
        }
    });
}
