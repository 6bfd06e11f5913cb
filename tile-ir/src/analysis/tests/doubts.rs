//! TK0604 and TK0605: which accesses are doubted. Of `t / 32 * 32 + 31 - t % 32` no single inequality says where it is, and a
//! correct kernel is not to be warned of.

use super::*;

/// The code of what is said of `body`'s access, or `silent`.
fn doubt(require: &str, parameters: &str, body: &str) -> String {
    let analysis = run(&format!("{require} kernel k({parameters}) {{ {body} }}"));
    let said = analysis.diagnostics.iter().chain(&analysis.lints).next();
    said.map_or("silent".into(), |said| said.code.to_string())
}

/// An element of 128 in shared memory, at an index computed from the 128 threads `t`.
fn shared(index: &str) -> String {
    let body = format!(
        "let [b] = blocks([D]); let [t] = threads([128]); let mut s = alloc_shared::<f32>([128]); \
         for i in 0..8 {{ for j in 0..i + 1 {{ let v: f32 = s[{index}]; }} }}"
    );
    doubt("", "n_: &Tensor<f32, (D,)>", &body)
}

#[test]
fn indices_of_threads_and_counters_are_looked_at_one_by_one() {
    for index in [
        "t % 9 / 5",
        "t / 32 * 32 + 31 - t % 32",
        "t / 32 * 32 + (31 - t % 32)",
        "(t / 32 * 32 + 31 - t % 32) / 2",
        "127 - (t / 32 * 32 + 31 - t % 32)",
        "t / 2 * 2 + 1 - t % 2",
        "t % 100 ^ 1",
        "t / 8 * 8 + (t % 8 ^ t / 8 % 8)",
        "t % 12 * t % 12",
        // A triangle: 36 elements.
        "i * (i + 1) / 2 + j",
        "t * t / 127 - t % 2 * (t / 127)",
    ] {
        assert_eq!(shared(index), "silent", "{index}");
    }
    // One more in each is outside, or below zero, somewhere.
    for index in ["t / 32 * 32 + 32 - t % 32", "126 - (t / 32 * 32 + 31 - t % 32)", "(t ^ 1) + t / 126"] {
        assert_eq!(shared(index), "TK0301", "{index}: reached by a thread");
    }
}

/// Nothing says how many blocks there are.
#[test]
fn quotients_and_remainders_of_what_has_no_range() {
    let block = |index: &str| {
        let body = format!("let [b] = blocks([D]); let [t] = threads([1]); let v: f32 = y[{index}];");
        doubt("", "n_: &Tensor<f32, (D,)>, y: &Tensor<f32, (Fixed<4>,)>", &body)
    };
    for index in ["b % 20 / 5", "b % 9 / 3", "b % 9 / 5 + b % 2", "b / 3 % 12 / 3", "3 - b % 20 / 5", "b % 8 / 2"] {
        assert_eq!(block(index), "silent", "{index}");
    }
    for index in ["b % 21 / 5", "b % 9 / 2", "b % 9 / 5 + b % 4", "b / 3 % 13 / 3"] {
        assert_eq!(block(index), "TK0604", "{index}");
    }
    assert_eq!(block("2 - b % 20 / 5"), "TK0605");
}

/// Groups of 32, each in reverse.
#[test]
fn a_permutation_of_a_group_stays_in_its_group() {
    let reversed = |require: &str, index: &str| {
        let body = format!("let [b] = blocks([N]); let [t] = threads([1]); let v: f32 = y[{index}];");
        doubt(require, "y: &Tensor<f32, (N,)>", &body)
    };
    let exact = "#[require(N % 32 == 0)]";
    assert_eq!(reversed(exact, "b / 32 * 32 + 31 - b % 32"), "silent");
    assert_eq!(reversed(exact, "b / 16 * 16 + 15 - b % 16"), "silent");
    assert_eq!(reversed("", "b / 32 * 32 + 31 - b % 32"), "TK0604");
    assert_eq!(reversed(exact, "b / 64 * 64 + 63 - b % 64"), "TK0604");
    let threads = |require: &str, index: &str| {
        let body = format!("let [b] = blocks([N / 128]); let [t] = threads([128]); let v: f32 = y[{index}];");
        doubt(require, "y: &Tensor<f32, (N,)>", &body)
    };
    assert_eq!(threads("#[require(N % 128 == 0)]", "b * 128 + t / 32 * 32 + 31 - t % 32"), "silent");
    assert_eq!(threads("#[require(N % 128 == 0)]", "b * 128 + (t ^ 5)"), "silent");
    assert_eq!(threads("#[require(N % 128 == 0)]", "b * 128 + (t ^ 128)"), "TK0604");
}

/// What stands under a condition is looked at where the condition holds.
#[test]
fn conditions_leave_points_out() {
    let guarded = |condition: &str, index: &str| {
        let body = format!(
            "let [t] = threads([128]); let mut s = alloc_shared::<f32>([64]); if {condition} {{ s[{index}] = 1.0f32; }}"
        );
        doubt("", "", &body)
    };
    assert_eq!(guarded("t < 63", "t / 2 * 2 + 1 - t % 2"), "silent");
    assert_eq!(guarded("t < 64", "t ^ 63"), "silent");
    assert_eq!(guarded("t % 2 == 0 && t < 120", "t / 2 + t % 2 * 100"), "silent");
}

/// What the lint knows is no fact for the code: the guard stays.
#[test]
fn the_compiler_guards_what_only_the_lint_knows() {
    let kernel = "kernel k() { let [t] = threads([128]); let mut s = alloc_shared::<f32>([128]); \
                  s[t / 32 * 32 + 31 - t % 32] = 1.0f32; }";
    assert_eq!(clean(kernel).bounds[&AccessId::from_u32(0)], [Bound::Unproven]);
}
