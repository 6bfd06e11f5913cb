//! Products of a block without roles: what they are made of, and what they compute.

use crate::emit::cuda::emit;
use crate::ir::*;
use crate::lower::lower_bound;
use crate::lowered::visit::count;
use crate::lowered::{LocalId, MmaAtom, Op, OpKind, Program, RemarkKind, Space, Value, ValueKind, ValueType};
use crate::sim::checked::{CheckedOptions, run as run_checked};
use crate::sim::fast::run as run_fast;
use crate::sim::{Argument, Memory, TensorArgument, numeric};
use crate::testing::parsed;
use std::sync::Arc;

mod tf32;

/// What a test varies of a GEMM.
#[derive(Clone, Copy, Debug)]
struct Gemm {
    tile: [i64; 3],
    stages: i64,
    threads: i64,
    /// Whether a, b are stored transposed: `[K, M]`, `[N, K]`.
    stored: [bool; 2],
    dtype: Dtype,
    out: Dtype,
    policy: WarpPolicy,
    swizzle: SwizzleRequest,
    /// Whether extents are known to be multiples of 8.
    aligned: bool,
    class: Class,
    persistent: bool,
    panel: Option<i64>,
    cluster: bool,
    /// Whether a bias is added and the sum clamped on the way out.
    epilogue: bool,
    /// Whether the sum leaves through shared memory.
    through: bool,
    /// What is multiplied of f32.
    precision: Precision,
}

const BASE: Gemm = Gemm {
    tile: [128, 128, 32],
    stages: 3,
    threads: 256,
    stored: [false, true],
    dtype: Dtype::Bf16,
    out: Dtype::Bf16,
    policy: WarpPolicy::Square,
    swizzle: SwizzleRequest::Auto,
    aligned: true,
    class: Class::WIDEST,
    persistent: false,
    panel: Some(8),
    cluster: false,
    epilogue: false,
    through: false,
    precision: Precision::Full,
};

/// A small one, for the simulators.
const SMALL: Gemm = Gemm { tile: [32, 32, 32], threads: 64, stages: 2, ..BASE };

const LAYOUTS: [[bool; 2]; 4] = [[false, true], [false, false], [true, true], [true, false]];

fn gemm(g: &Gemm) -> Kernel {
    let [bm, bn, bk] = g.tile;
    let Gemm { dtype, out, threads, stages, class, .. } = g;
    let pick = |first: bool, a: &'static str, b: &'static str| if first { a } else { b };
    let [a_t, b_t] = g.stored;
    let (a_shape, a_at) = (pick(a_t, "K, M", "M, K"), pick(a_t, "depth, row", "row, depth"));
    let (b_shape, b_at) = (pick(b_t, "N, K", "K, N"), pick(b_t, "col, depth", "depth, col"));
    let (a_tile, a_operand) = if a_t { ([bk, bm], "a_s.t()") } else { ([bm, bk], "&a_s") };
    let (b_tile, b_operand) = if b_t { ([bn, bk], "b_s.t()") } else { ([bk, bn], "&b_s") };
    let swizzle = match g.swizzle {
        SwizzleRequest::Auto => String::new(),
        SwizzleRequest::Exactly(swizzle) => format!(".swizzle({})", swizzle.name()),
    };
    let policy = match g.policy {
        WarpPolicy::Square => "",
        WarpPolicy::FullRow => ".policy(FullRow)",
        WarpPolicy::FullCol => ".policy(FullCol)",
    };
    let width = |width: Width| if width == Width::Element { "element".to_owned() } else { width.bytes().to_string() };
    let attributes = [
        pick(g.aligned, "#[require(M % 8 == 0)] #[require(N % 8 == 0)] #[require(K % 8 == 0)]", "").to_owned(),
        format!("#[aligned(reads = {}, writes = {})]", width(class.reads), width(class.writes)),
    ]
    .concat();
    let bias = if g.epilogue { format!("bias: &Tensor<{dtype}, (N,)>,") } else { String::new() };
    let epilogue = format!(
        "let mut extra = alloc_fragment::<f32>([{bm}, {bn}]);
        for [i, j] in parallel([{bm}, {bn}]) {{ extra[[i, j]] = bias.masked([bx * {bn} + j]).cast::<f32>(); }}
        for [i, j] in parallel([{bm}, {bn}]) {{ acc[[i, j]] = acc[[i, j]] + extra[[i, j]]; }}"
    );
    let store = match g.through {
        false => format!("copy(&acc, c.at_mut([by * {bm}, bx * {bn}]));"),
        true => format!(
            "let mut c_s = alloc_shared::<{out}>([{bm}, {bn}]);
            copy(&acc, &mut c_s);
            copy(&c_s, c.tile_mut([by * {bm}..by * {bm} + {bm}, bx * {bn}..bx * {bn} + {bn}]));"
        ),
    };
    let grid = format!("[ceil_div(N, {bn}), ceil_div(M, {bm})]");
    let (tiles, close) = match g.persistent {
        true => (format!("for [bx, by] in persistent({grid}) {{"), "}"),
        false => (format!("let [bx, by] = blocks({grid});"), ""),
    };
    parsed(&format!(
        "{attributes}
        kernel gemm(
            a: &Tensor<{dtype}, ({a_shape})>,
            b: &Tensor<{dtype}, ({b_shape})>,
            {bias}
            c: &mut Tensor<{out}, (M, N)>,
        ) {{
            let [t] = threads([{threads}]);
            {cluster}
            {panel}
            {tiles}
                let mut a_s = alloc_shared::<{dtype}>({a_tile:?}){swizzle};
                let mut b_s = alloc_shared::<{dtype}>({b_tile:?}){swizzle};
                let mut acc = alloc_fragment::<f32>([{bm}, {bn}]);
                fill(&mut acc, 0.0f32);
                for k in pipelined(0..ceil_div(K, {bk}), {stages}) {{
                    copy(a.at([{a_at}]), &mut a_s);
                    copy(b.at([{b_at}]), &mut b_s);
                    gemm({a_operand}, {b_operand}, &mut acc){policy}{precision};
                }}
                {epilogue}
                {store}
            {close}
        }}",
        cluster = pick(g.cluster, "cluster([2, 1]);", ""),
        a_at = a_at.replace("row", &format!("by * {bm}")).replace("depth", &format!("k * {bk}")),
        b_at = b_at.replace("col", &format!("bx * {bn}")).replace("depth", &format!("k * {bk}")),
        panel = g.panel.map(|panel| format!("use_swizzle({panel});")).unwrap_or_default(),
        precision = pick(g.precision == Precision::Tf32, ".tf32()", ""),
        epilogue = if g.epilogue { epilogue.as_str() } else { "" },
    ))
}

fn lowered(g: &Gemm) -> Program {
    lower_bound(&crate::testing::bound(&gemm(g)), Target::Sm80).unwrap_or_else(|all| panic!("{g:?}: {all:#?}"))
}

#[test]
fn a_product_is_made_of_matrices_loaded_by_sixteen_bytes() {
    let program = lowered(&BASE);
    // Three iterations are written out, each of two steps: 4 times 16 rows of a, 2 times 16 columns of b.
    assert_eq!(count(&program.body, &|op| matches!(op, OpKind::LoadMatrix { count: 4, transposed: false, .. })), 36);
    assert_eq!(count(&program.body, &|op| matches!(op, OpKind::Mma { .. })), 6);
    let copy = |width: u32| move |op: &OpKind| matches!(op, OpKind::AsyncCopy { width: w, .. } if *w == width);
    // Two are issued before the loop and three in it.
    assert_eq!(count(&program.body, &copy(8)), 10);
    assert_eq!(count(&program.body, &|op| matches!(op, OpKind::VectorStore { width: 2, .. })), 1);
    assert!(program.remarks.iter().all(|r| r.kind != RemarkKind::Fallback), "{:#?}", program.remarks);
}

#[test]
fn operands_along_mn_are_transposed_by_the_load() {
    let program = lowered(&Gemm { stored: [true, false], ..BASE });
    assert_eq!(count(&program.body, &|op| matches!(op, OpKind::LoadMatrix { transposed: true, .. })), 36);
}

/// Small integers, whose products and sums are exact.
fn element(seed: usize, i: usize) -> f32 {
    ((i * 7 + i / 13 + seed * 3) % 5) as f32 - 2.0
}

fn tensor(dtype: Dtype, shape: &[i64], f: impl Fn(usize) -> f32) -> Argument {
    let elements = shape.iter().product::<i64>() as usize;
    let memory = Memory::zeros(elements * dtype.bytes() as usize);
    for i in 0..elements {
        memory.store(i * dtype.bytes() as usize, dtype, numeric::encode(dtype, f(i)));
    }
    let strides = (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect();
    Argument::Tensor(TensorArgument { dtype, shape: shape.to_vec(), strides, memory: Arc::new(memory), offset: 0 })
}

fn bits(argument: &Argument) -> Vec<u32> {
    let Argument::Tensor(t) = argument else { panic!("a tensor") };
    let elements = t.shape.iter().product::<i64>() as usize;
    (0..elements).map(|i| t.memory.load(i * t.dtype.bytes() as usize, t.dtype)).collect()
}

fn arguments(g: &Gemm, [m, n, k]: [i64; 3]) -> Vec<Argument> {
    let mut all = vec![
        tensor(g.dtype, &if g.stored[0] { [k, m] } else { [m, k] }, |i| element(0, i)),
        tensor(g.dtype, &if g.stored[1] { [n, k] } else { [k, n] }, |i| element(1, i)),
    ];
    if g.epilogue {
        all.push(tensor(g.dtype, &[n], |i| element(2, i)));
    }
    all.push(tensor(g.out, &[m, n], |_| f32::NAN));
    all
}

fn expected(g: &Gemm, [m, n, k]: [i64; 3]) -> Vec<u32> {
    let (m, n, k) = (m as usize, n as usize, k as usize);
    let a = |i: usize, l: usize| element(0, if g.stored[0] { l * m + i } else { i * k + l });
    let b = |l: usize, j: usize| element(1, if g.stored[1] { j * k + l } else { l * n + j });
    let mut all = Vec::new();
    for i in 0..m {
        for j in 0..n {
            let sum: f32 = (0..k).map(|l| a(i, l) * b(l, j)).sum();
            let sum = if g.epilogue { sum + element(2, j) } else { sum };
            all.push(numeric::encode(g.out, sum));
        }
    }
    all
}

/// Both simulators compute the product, bit for bit.
fn is_right(g: &Gemm, shape: [i64; 3]) {
    let bound = gemm(g);
    let program =
        lower_bound(&crate::testing::bound(&bound), Target::Sm80).unwrap_or_else(|all| panic!("{g:?}: {all:#?}"));
    let expected = expected(g, shape);
    let fast = arguments(g, shape);
    run_fast(&crate::testing::bound(&bound), &fast).unwrap_or_else(|e| panic!("{g:?} {shape:?}: {e}"));
    let c = fast.len() - 1;
    assert!(bits(&fast[c]) == expected, "fast, {g:?} {shape:?}");
    let checked = arguments(g, shape);
    let options = CheckedOptions { clusters: 2, step_limit: 5_000_000, ..CheckedOptions::default() };
    let report = run_checked(&program, &checked, &options).unwrap_or_else(|e| panic!("{g:?} {shape:?}: {e}"));
    assert!(report.is_clean(), "{g:?} {shape:?}\n{}", report.render(&program));
    let wrong = bits(&checked[c]).iter().zip(&expected).position(|(a, b)| a != b);
    assert_eq!(wrong, None, "checked, {g:?} {shape:?}");
}

#[test]
fn every_layout_and_number_of_stages_is_right() {
    for (i, stored) in LAYOUTS.into_iter().enumerate() {
        for stages in [1, 2, 3] {
            let dtype = if i % 2 == 0 { Dtype::Bf16 } else { Dtype::F16 };
            is_right(&Gemm { stored, stages, dtype, ..SMALL }, [40, 48, 72]);
        }
    }
}

#[test]
fn tiles_of_any_shape_are_right() {
    for (tile, threads) in [([64, 16, 16], 128), ([16, 64, 64], 64), ([32, 24, 32], 32), ([64, 48, 128], 64)] {
        for stored in [[false, true], [true, false]] {
            is_right(&Gemm { tile, threads, stored, ..SMALL }, [72, 56, 136]);
        }
    }
    for swizzle in [Swizzle::None, Swizzle::B32, Swizzle::B64].map(SwizzleRequest::Exactly) {
        is_right(&Gemm { swizzle, ..SMALL }, [40, 40, 40]);
    }
    for policy in [WarpPolicy::FullRow, WarpPolicy::FullCol] {
        is_right(&Gemm { policy, ..SMALL }, [40, 40, 40]);
    }
}

#[test]
fn f32_is_multiplied_exactly() {
    for stored in LAYOUTS {
        let g = Gemm { stored, dtype: Dtype::F32, out: Dtype::F32, ..SMALL };
        is_right(&g, [40, 48, 72]);
        is_right(&Gemm { aligned: false, class: read(Width::Four), stages: 1, ..g }, [37, 19, 23]);
    }
}

/// The class in which rows are read by this.
fn read(reads: Width) -> Class {
    Class { reads, ..Class::WIDEST }
}

/// Rows of every alignment, and the extents that have it.
const CLASSES: [(Width, [i64; 3]); 4] = [
    (Width::Sixteen, [40, 24, 72]),
    (Width::Eight, [36, 20, 76]),
    (Width::Four, [38, 22, 74]),
    (Width::Element, [37, 19, 71]),
];

#[test]
fn every_class_of_alignment_is_right() {
    for stored in LAYOUTS {
        for (width, shape) in CLASSES {
            for stages in [1, 2, 5] {
                let g = Gemm { stored, aligned: false, class: read(width), stages, ..SMALL };
                is_right(&g, shape);
                is_right(&Gemm { persistent: true, epilogue: true, cluster: true, ..g }, shape);
            }
        }
    }
    // More elements a thread than are held in registers, and threads that do not divide them.
    let g = Gemm { aligned: false, class: read(Width::Element), ..SMALL };
    is_right(&Gemm { tile: [64, 64, 64], threads: 32, ..g }, [37, 19, 71]);
    is_right(&Gemm { tile: [48, 24, 16], threads: 96, ..g }, [37, 19, 71]);
}

#[test]
fn a_class_says_how_rows_are_read() {
    for (width, _) in CLASSES {
        let program = lowered(&Gemm { aligned: false, class: read(width), stages: 6, ..BASE });
        let copies = |op: &OpKind| matches!(op, OpKind::AsyncCopy { width: w, .. } if w * 2 == width.bytes());
        let any = |op: &OpKind| matches!(op, OpKind::AsyncCopy { .. });
        assert_eq!(count(&program.body, &copies), count(&program.body, &any), "{width}");
        assert_eq!(count(&program.body, &any) > 0, width != Width::Element, "{width}");
        // The slots that a loop of every thread has.
        let slots = program.shared.values().next().map(|array| array.slots);
        let wanted = match width {
            Width::Sixteen => 6,
            Width::Eight | Width::Four => 4,
            Width::Element => 2,
        };
        assert_eq!(slots, Some(wanted), "{width}");
        // What is only requested is marked: address, pitch and length of the rows of both operands.
        let requests = program.launch.checks.iter().filter(|check| check.request == Some(Side::Reads)).count();
        assert_eq!(requests, if width == Width::Element { 0 } else { 5 }, "{width}");
        assert_eq!(program.launch.class, read(width));
        let says = program.remarks.iter().any(|r| r.text.contains("a lesser alignment class"));
        assert_eq!(says, width != Width::Sixteen);
    }
}

/// A mistake that the classes could make: a program whose copies are wider than the rows allow.
#[test]
fn a_class_that_is_too_wide_is_found() {
    for (wide, narrow) in [(Width::Sixteen, 1), (Width::Eight, 2), (Width::Four, 3)] {
        let g = Gemm { aligned: false, class: read(wide), ..SMALL };
        let report = run_checked(&lowered(&g), &arguments(&g, CLASSES[narrow].1), &CheckedOptions::default()).unwrap();
        assert!(!report.is_clean(), "{wide}");
    }
}

#[test]
fn grids_of_every_kind_are_right() {
    is_right(&Gemm { persistent: true, ..SMALL }, [136, 72, 40]);
    is_right(&Gemm { persistent: true, panel: None, cluster: true, stages: 1, ..SMALL }, [72, 136, 40]);
    is_right(&Gemm { panel: Some(2), cluster: true, ..SMALL }, [136, 72, 40]);
    is_right(&Gemm { panel: None, ..SMALL }, [72, 72, 40]);
}

#[test]
fn epilogues_are_right() {
    is_right(&Gemm { epilogue: true, ..SMALL }, [40, 48, 40]);
    is_right(&Gemm { through: true, out: Dtype::F32, ..SMALL }, [40, 48, 40]);
    is_right(&Gemm { through: true, persistent: true, epilogue: true, ..SMALL }, [72, 72, 40]);
}

#[test]
fn warps_of_eight_rows_exchange_operands() {
    for (tile, threads) in [([8, 32, 16], 64), ([8, 16, 64], 32), ([24, 48, 32], 96), ([8, 128, 32], 128)] {
        for stored in LAYOUTS {
            for (stages, dtype) in [(1, Dtype::Bf16), (3, Dtype::F16)] {
                let g = Gemm { tile, threads, stored, stages, dtype, ..SMALL };
                is_right(&g, [24, 40, 72]);
                let said =
                    |r: &crate::lowered::Remark| r.text.starts_with("multiplied with mma.sync, operands exchanged");
                assert!(lowered(&g).remarks.iter().any(said), "{g:?}");
            }
        }
    }
}

#[test]
fn tiles_that_no_warp_divides_are_multiplied_element_by_element() {
    let g = Gemm { tile: [8, 24, 16], threads: 64, ..SMALL };
    is_right(&g, [24, 40, 40]);
    let program = lowered(&g);
    let fallback = program.remarks.iter().find(|r| r.kind == RemarkKind::Fallback).unwrap();
    assert!(fallback.text.contains("cannot divide a tile of 8 x 24"), "{}", fallback.text);
}

#[test]
fn without_its_barriers_a_product_is_no_longer_right() {
    fn strip(ops: &mut Vec<Op>) {
        ops.retain(|op| op.kind != OpKind::Barrier);
        for op in ops {
            match &mut op.kind {
                OpKind::If { then, otherwise, .. } => [then, otherwise].into_iter().for_each(strip),
                OpKind::For { body, .. } => strip(body),
                _ => {}
            }
        }
    }
    for (width, stages) in
        [(Width::Sixteen, 1), (Width::Sixteen, 2), (Width::Sixteen, 3), (Width::Element, 1), (Width::Element, 2)]
    {
        let class = read(width);
        let g = Gemm { class, stages, ..SMALL };
        let mut program = lowered(&g);
        strip(&mut program.body);
        let options = CheckedOptions { step_limit: 5_000_000, ..CheckedOptions::default() };
        let report = run_checked(&program, &arguments(&g, [32, 32, 128]), &options).unwrap();
        assert!(!report.is_clean(), "{class}, {stages}");
    }
}

#[test]
fn where_roles_have_no_use_for_a_kernel_hopper_multiplies_the_same_way() {
    let g = Gemm { cluster: true, ..SMALL };
    let program =
        lower_bound(&crate::testing::bound(&gemm(&g)), Target::Sm90a).unwrap_or_else(|all| panic!("{all:#?}"));
    assert!(count(&program.body, &|op| matches!(op, OpKind::Mma { .. })) > 0);
    assert_eq!(program.launch.cluster, [1, 1, 1]);
    let fallbacks: Vec<&str> =
        program.remarks.iter().filter(|r| r.kind == RemarkKind::Fallback).map(|r| r.text.as_str()).collect();
    assert!(fallbacks.iter().any(|t| t.contains("64 threads are not whole warpgroups")), "{fallbacks:?}");
    assert!(fallbacks.iter().any(|t| t.contains("no cluster")), "{fallbacks:?}");
}

/// Two fragments of one shape, each the sum of a product of its own policy, and a loop in which they meet.
fn meeting(policies: [&str; 2], one_accumulator: bool) -> Kernel {
    let [first, second] = policies;
    let (sum, sums) = match one_accumulator {
        true => ("first", ""),
        false => ("second", "for [i, j] in parallel([64, 64]) { first[[i, j]] = first[[i, j]] + second[[i, j]]; }"),
    };
    parsed(&format!(
        "kernel meeting(y: &mut Tensor<f32, (Fixed<64>, Fixed<64>)>) {{
            let [t] = threads([128]);
            let mut a_s = alloc_shared::<f16>([64, 64]);
            let mut b_s = alloc_shared::<f16>([64, 64]);
            let mut first = alloc_fragment::<f32>([64, 64]);
            let mut second = alloc_fragment::<f32>([64, 64]);
            fill(&mut a_s, 0.0f16);
            fill(&mut b_s, 0.0f16);
            gemm(&a_s, &b_s, &mut first){first}.clear();
            gemm(&a_s, &b_s, &mut {sum}){second}.clear();
            {sums}
            copy(&first, y.at_mut([0, 0]));
        }}"
    ))
}

#[test]
fn layouts_that_disagree_are_errors_that_name_both_uses() {
    let text = |policies, one| match lower_bound(&crate::testing::bound(&meeting(policies, one)), Target::Sm80) {
        Ok(_) => String::new(),
        Err(all) => all.iter().map(|d| format!("{} {} {:?}", d.code, d.message, d.labels)).collect(),
    };
    assert_eq!(text([""; 2], false), "");
    let apart = text([".policy(FullRow)", ".policy(FullCol)"], false);
    assert!(apart.contains("`first` and `second` meet here, but lie differently"), "{apart}");
    assert!(apart.contains("this decides how `first` lies") && apart.contains("how `second` lies"), "{apart}");
    let one = text([".policy(FullRow)", ".policy(FullCol)"], true);
    assert!(one.contains("two products want `first` in different layouts"), "{one}");
}

/// Fragments and shared arrays without products: from a tensor through both, doubled.
#[test]
fn fragments_are_copied_from_and_to_every_memory() {
    let bound = parsed(
        r"
            kernel through(
                x: &Tensor<bf16, (M, N)>,
                y: &mut Tensor<f32, (M, N)>,
            ) {
                let [t] = threads([64]);
                let mut first = alloc_fragment::<f32>([16, 24]);
                let mut second = alloc_fragment::<f32>([16, 24]);
                let mut middle = alloc_shared::<f32>([16, 24]).swizzle(B32);
                copy(x.at([0, 0]), &mut first);
                copy(&first, &mut middle);
                copy(&middle, &mut second);
                for [i, j] in parallel([16, 24]) {
                    second[[i, j]] = second[[i, j]] + middle[[i, j]];
                }
                copy(&second, y.at_mut([0, 0]));
            }
        ",
    );
    let program = lower_bound(&crate::testing::bound(&bound), Target::Sm80).unwrap_or_else(|all| panic!("{all:#?}"));
    for shape in [[16, 24], [13, 21]] {
        let args = || vec![tensor(Dtype::Bf16, &shape, |i| element(0, i)), tensor(Dtype::F32, &shape, |_| f32::NAN)];
        let expected: Vec<u32> = (0..(shape[0] * shape[1]) as usize).map(|i| (2.0 * element(0, i)).to_bits()).collect();
        let fast = args();
        run_fast(&crate::testing::bound(&bound), &fast).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(bits(&fast[1]), expected);
        let checked = args();
        let report = run_checked(&program, &checked, &CheckedOptions::default()).unwrap();
        assert!(report.is_clean(), "{}", report.render(&program));
        assert_eq!(bits(&checked[1]), expected);
    }
}

/// What stands after (or before) a pipelined loop may use its arrays too: they are ordered.
#[test]
fn arrays_of_a_pipelined_loop_may_be_used_around_it() {
    for stages in [1, 2, 3] {
        for again in [false, true] {
            reused(stages, again);
        }
    }
}

fn reused(stages: i64, again: bool) {
    let products = format!(
        "for k in pipelined(0..ceil_div(K, 32), {stages}) {{
            copy(a.at([0, k * 32]), &mut a_s);
            gemm(&a_s, a_s.t(), &mut acc);
        }}\n"
    );
    let bound = parsed(&format!(
        "kernel reused(a: &Tensor<bf16, (Fixed<32>, K)>, c: &mut Tensor<bf16, (Fixed<32>, Fixed<32>)>) {{
            let [t] = threads([64]);
            let mut a_s = alloc_shared::<bf16>([32, 32]);
            let mut acc = alloc_fragment::<f32>([32, 32]);
            fill(&mut acc, 0.0f32);
            {}
            copy(&acc, &mut a_s);
            copy(&a_s, c.tile_mut([0..32, 0..32]));
        }}",
        products.repeat(if again { 2 } else { 1 })
    ));
    let program = lower_bound(&crate::testing::bound(&bound), Target::Sm80).unwrap_or_else(|all| panic!("{all:#?}"));
    let args = || vec![tensor(Dtype::Bf16, &[32, 80], |i| element(0, i)), tensor(Dtype::Bf16, &[32, 32], |_| f32::NAN)];
    let (fast, checked) = (args(), args());
    run_fast(&crate::testing::bound(&bound), &fast).unwrap_or_else(|e| panic!("{e}"));
    let report = run_checked(&program, &checked, &CheckedOptions::default()).unwrap();
    assert!(report.is_clean(), "{stages} {again} {}", report.render(&program));
    assert_eq!(bits(&fast[1]), bits(&checked[1]), "{stages} {again}");
}

/// Writes the CUDA C of variants to a folder, to be compiled by hand:
/// `TILE_VARIANTS=DIR cargo test -p tile-ir --lib -- --ignored mma::tests::variants`.
#[test]
#[ignore = "writes files"]
fn variants() {
    let Ok(folder) = std::env::var("TILE_VARIANTS") else { return };
    let mut list = Vec::new();
    for stored in LAYOUTS {
        for dtype in [Dtype::Bf16, Dtype::F16, Dtype::F32] {
            let out = dtype;
            for (tile, stages, threads) in
                [([128, 128, 32], 4, 256), ([128, 128, 32], 3, 128), ([128, 256, 32], 3, 256), ([64, 64, 64], 2, 128)]
            {
                if dtype == Dtype::F32 && tile == [128, 256, 32] {
                    continue;
                }
                list.push(Gemm { stored, dtype, out, tile, stages, threads, ..BASE });
            }
        }
    }
    list.push(Gemm { persistent: true, epilogue: true, ..BASE });
    list.push(Gemm { through: true, stages: 1, ..BASE });
    for g in list {
        let program = lowered(&g);
        let [bm, bn, bk] = g.tile;
        let stored = g.stored.map(|t| if t { "t" } else { "n" }).concat();
        let (p, e, t) = (g.persistent as u8, g.epilogue as u8, g.through as u8);
        let name = format!("{}_{stored}_{bm}x{bn}x{bk}_s{}_t{}_{p}{e}{t}", g.dtype, g.stages, g.threads);
        std::fs::write(format!("{folder}/{name}.cu"), emit(&program)).unwrap();
    }
}
