//! What the launcher checks of index expressions: bounds of what it knows, never of what it does not.

use super::*;

/// The checked values of a kernel over `B` blocks, from what `build` does in the block `b`.
fn checked(build: impl FnOnce(&mut Build, VarId)) -> String {
    let mut b = Build::new();
    let blocks = b.dim("B");
    let block = b.blocks("b", blocks);
    b.threads("t", 32);
    build(&mut b, block);
    let kernel = b.done();
    let analysis = analyse(&kernel, Target::Sm90a);
    assert_eq!(report(&analysis.diagnostics), "");
    let dims: Vec<String> = kernel.dims.values().map(|d| d.name.clone()).collect();
    let ranges = analysis.index_ranges.iter().map(|r| r.bound.display(&dims, &|_| String::new()));
    ranges.collect::<Vec<_>>().join("\n")
}

/// `for i in start..end { let x = i * 32 }`
fn scaled_in(b: &mut Build, start: E, end: E, stages: Option<i64>) {
    let kind = match stages {
        Some(stages) => LoopKind::Pipelined { stages: b.int(stages), schedule: Schedule::Auto },
        None => LoopKind::Serial { unroll: None },
    };
    b.for_("i", start, end, kind, |b, i| {
        let x = b.affine(32, i, 0);
        b.let_("x", x);
    });
}

#[test]
fn the_end_of_a_share_is_the_lesser_of_two() {
    let bounds = checked(|b, block| {
        let (k, step) = (b.dim("K"), b.int(32));
        let steps = b.bin(BinaryOp::CeilDiv, k, step);
        let steps = b.let_("steps", steps);
        let (start, next) = (b.affine(7, block, 0), b.affine(7, block, 7));
        let last = b.var(steps);
        let end = b.bin(BinaryOp::Min, next, last);
        scaled_in(b, start, end, Some(3));
    });
    expect![[r#"
        K + 31
        B * 7"#]]
    .assert_eq(&bounds);
}

#[test]
fn the_greater_of_two_and_one_of_two() {
    let bounds = checked(|b, block| {
        let (at, k) = (b.affine(32, block, 0), b.dim("K"));
        let end = b.bin(BinaryOp::Max, at, k);
        let zero = b.int(0);
        scaled_in(b, zero, end, None);
        let (i, n) = (b.var(block), b.dim("N"));
        let first = b.lt(i, n);
        let (some, all) = (b.var(block), b.dim("L"));
        let end = b.expr(ExprKind::If(first, some, all), Type::Index);
        let zero = b.int(0);
        scaled_in(b, zero, end, None);
    });
    expect![[r#"
        (B * 32) - 32
        ((max((B * 32) - 32, K)) * 32) - 32
        ((max(B - 1, L)) * 32) - 32"#]]
    .assert_eq(&bounds);
}

#[test]
fn quotients_of_an_index() {
    let bounds = checked(|b, block| {
        let (i, eight) = (b.var(block), b.int(8));
        let group = b.bin(BinaryOp::Div, i, eight);
        let by = b.int(100);
        let x = b.mul(group, by);
        b.let_("x", x);
        let (h, one) = (b.dim("H"), b.int(1));
        let heads = b.bin(BinaryOp::Max, h, one);
        let i = b.var(block);
        let batch = b.bin(BinaryOp::Div, i, heads);
        let by = b.int(100);
        let y = b.mul(batch, by);
        b.let_("y", y);
    });
    expect![[r#"
        ((ceil_div(B, 8)) * 100) - 100
        (ceil_div(B - (max(H, 1)), max(H, 1))) * 100"#]]
    .assert_eq(&bounds);
}

#[test]
fn what_memory_says_is_not_checked() {
    let bounds = checked(|b, block| {
        let ends = b.tensor("ends", Dtype::U32, &["B"], false);
        let end = |b: &mut Build| {
            let at = b.var(block);
            let loaded = b.load(ends, &[at]);
            let end = b.expr(ExprKind::Cast(Type::Index, loaded), Type::Index);
            let zero = b.int(0);
            b.bin(BinaryOp::Max, end, zero)
        };
        let (start, k) = (end(b), b.dim("K"));
        scaled_in(b, start, k, Some(2));
        let (zero, end) = (b.int(0), end(b));
        scaled_in(b, zero, end, Some(2));
    });
    expect![[r#"
        (K * 32) - 32
        K + 1"#]]
    .assert_eq(&bounds);
}
