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

/// `while cond { body }`.
fn while_(cond: &str, body: &str) -> String {
    format!("for turn in 0..2147483647 {{ if {cond} {{ {body} }} else {{ turn = 2147483646; }} }}")
}

#[test]
fn what_a_condition_bounds_may_be_doubled() {
    // The steps of a bitonic sort, the distances of a scan, and the middle of what is searched.
    let halved = while_("j > 0", "let o = t ^ j; j = j / 2;");
    let sort = while_("k <= 256", &format!("let mut j = k / 2; {halved} k = k * 2;"));
    let half = "let mid = (lo + hi) / 2; if t < mid { hi = mid; } else { lo = mid + 1; }";
    for body in [
        format!("let mut k = 2; {sort}"),
        format!("let mut d = 1; {}", while_("d < 1024", "d = d << 1;")),
        "let mut d = 1; for i in 0..K { if d < 32 { d = d * 2; } else { d = 1; } }".to_owned(),
        "let mut d = 1; for i in 0..K { if d >= 32 || d >= K { d = 1; } else { d = d * 2; } }".to_owned(),
        format!("let mut lo = 0; let mut hi = N; {}", while_("lo < hi", half)),
    ] {
        assert_eq!(checked(&body), "", "{body}");
    }
}

#[test]
fn a_condition_bounds_nothing_once_its_variable_has_changed() {
    for body in [
        format!("let mut k = 2; {}", while_("k <= 256", "k = k * 2; k = k * k; k = k * k; k = k * k;")),
        format!("let mut k = 2; let mut n = 1; {}", while_("n <= 256", "n = n * 2; k = k * n;")),
        "let mut k = 2; for i in 0..K { if k < 256 { for j in 0..N { k = k * 2; } } }".to_owned(),
        "let mut k = 2; for i in 0..K { if k > 256 { k = k * 2; } else { k = k + 1; } }".to_owned(),
    ] {
        let kernel = parsed(&format!(
            "kernel k(x: &Tensor<f32, (K, N)>) {{ let [b] = blocks([K]); let [t] = threads([32]); {body} }}"
        ));
        let found = analyse(&crate::testing::bound(&kernel), Target::Sm90a).diagnostics;
        assert!(found.iter().any(|d| d.code == crate::diag::Code::INDEX_WIDTH), "{body}: {}", report(&found));
    }
}
