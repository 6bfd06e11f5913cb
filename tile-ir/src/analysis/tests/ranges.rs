//! What the launcher checks of index expressions: bounds of what it knows, never of what it does not.

use super::*;

/// The checked values of a kernel over `B` blocks, from what `body` does in the block `b`.
fn checked(body: &str) -> String {
    let kernel = parsed(&format!(
        "kernel k(x: &Tensor<f32, (B, K, N, L)>, y: &Tensor<f32, (H,)>, ends: &Tensor<u32, (B,)>) {{
            let [b] = blocks([B]);
            let [t] = threads([32]);
            {body}
        }}"
    ));
    let analysis = analyse(&crate::testing::bound(&kernel), Target::Sm90a);
    assert_eq!(report(&analysis.diagnostics), "");
    let dims: Vec<String> = kernel.dims.values().map(|d| d.name.clone()).collect();
    let ranges = analysis.index_ranges.iter().map(|r| r.bound.display(&dims, &|_| String::new()));
    ranges.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_end_of_a_share_is_the_lesser_of_two() {
    let bounds = checked(
        "let steps = ceil_div(K, 32);
        for i in pipelined(7 * b..min(7 * b + 7, steps), 3) { let x = 32 * i; }",
    );
    expect![[r#"
        K + 31
        B * 7"#]]
    .assert_eq(&bounds);
}

#[test]
fn the_greater_of_two_and_one_of_two() {
    let bounds = checked(
        "for i in 0..max(32 * b, K) { let x = 32 * i; }
        for i in 0..if b < N { b } else { L } { let x = 32 * i; }",
    );
    expect![[r#"
        (B * 32) - 32
        ((max((B * 32) - 32, K)) * 32) - 32
        ((max(B - 1, L)) * 32) - 32"#]]
    .assert_eq(&bounds);
}

#[test]
fn quotients_of_an_index() {
    let bounds = checked("let x = b / 8 * 100; let y = b / max(H, 1) * 100;");
    expect![[r#"
        ((ceil_div(B, 8)) * 100) - 100
        (ceil_div(B - (max(H, 1)), max(H, 1))) * 100"#]]
    .assert_eq(&bounds);
}

#[test]
fn what_memory_says_is_not_checked() {
    let bounds = checked(
        "for i in pipelined(max(ends[b].cast::<usize>(), 0)..K, 2) { let x = 32 * i; }
        for i in pipelined(0..max(ends[b].cast::<usize>(), 0), 2) { let x = 32 * i; }",
    );
    expect![[r#"
        (K * 32) - 32
        K + 1"#]]
    .assert_eq(&bounds);
}
