//! Threads, shared memory and registers, and the targets that allow them.

use super::*;

#[test]
fn budgets() {
    clean(
        r"
            kernel k() {
                let [t] = threads([1024]);
                let mut a_s = alloc_shared::<f16>([116000]);
                let mut b_s = alloc_shared::<f16>([16]);
                let mut xs = alloc_local::<f32>([255]);
            }
        ",
    );
    fails(
        r"
            kernel k() {
                let [t] = threads([128]);
                let mut a_s = alloc_shared::<f16>([131072]);
                let mut b_s = alloc_shared::<f16>([16]);
                let mut xs = alloc_local::<f32>([4]);
            }
        ",
        expect![[r#"
            [TK0501] kernel needs 262,176 bytes of shared memory; sm_90 allows 232,448
              at: a_s f16[131072]: 262,144; b_s f16[16]: 32
              help: shrink `a_s` by 29,728 bytes
        "#]],
    );
    fails(
        r"
            kernel k() {
                let [t] = threads([2048]);
                let mut a_s = alloc_shared::<f16>([16]);
                let mut b_s = alloc_shared::<f16>([16]);
                let mut xs = alloc_local::<f32>([4]);
            }
        ",
        expect![[r#"
            [TK0502] a block has at most 1024 threads on axis 0, not 2048
        "#]],
    );
    fails(
        r"
            kernel k() {
                let [t] = threads([0]);
                let mut a_s = alloc_shared::<f16>([16]);
                let mut b_s = alloc_shared::<f16>([16]);
                let mut xs = alloc_local::<f32>([4]);
            }
        ",
        expect![[r#"
            [TK0502] a thread axis needs at least 1 thread, not 0
        "#]],
    );
    fails(
        r"
            kernel k() {
                let [t] = threads([128]);
                let mut a_s = alloc_shared::<f16>([16]);
                let mut b_s = alloc_shared::<f16>([16]);
                let mut xs = alloc_local::<f32>([256]);
            }
        ",
        expect![[r#"
            [TK0503] a thread's local arrays need 1,024 bytes of registers; a thread has 1020
              at: xs f32[256]: 1,024
              help: use smaller arrays, more threads, or shared memory
        "#]],
    );
    fails(
        r"
            kernel k() {
                let [tx, ty] = threads([512, 4]);
            }
        ",
        expect![[r#"
            [TK0502] a block has at most 1024 threads, not 512 * 4 = 2048
        "#]],
    );
}

#[test]
fn targets_differ_in_shared_memory_only() {
    let kernel = parsed(
        "#[targets(sm_80, sm_90a)] kernel k() {
            let [t] = threads([128]);
            let mut s = alloc_shared::<f32>([50000]);
        }",
    );
    assert_eq!(analyse(&crate::testing::bound(&kernel), Target::Sm80).diagnostics.len(), 1);
    assert_eq!(analyse(&crate::testing::bound(&kernel), Target::Sm90a).diagnostics.len(), 0);
    // A lint where it runs on another declared target, an error where on none.
    expect![[r#"
        [TK0504] this kernel cannot be launched on sm_80, a declared target
          at: kernel needs 200,000 bytes of shared memory; sm_80 allows 166,912
          note: s f32[50000]: 200,000
          note: shrink `s` by 33,088 bytes
          help: declare where it runs: `targets(sm_90a)`
    "#]]
    .assert_eq(&report(&check(&kernel)));
    let only = |target| check(&Kernel { targets: vec![target], ..kernel.clone() });
    assert_eq!(only(Target::Sm80).iter().map(|d| d.code).collect::<Vec<_>>(), [crate::diag::Code::SHARED_BUDGET]);
    assert_eq!(only(Target::Sm90a), []);
}
