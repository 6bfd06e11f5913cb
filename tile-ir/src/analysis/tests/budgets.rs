//! Threads, shared memory and registers, and the targets that allow them.

use super::*;

#[test]
fn budgets() {
    let kernel = |threads: i64, shared: i64, local: i64| {
        let mut b = Build::new();
        b.threads("t", threads);
        b.shared("a_s", Dtype::F16, &[shared]);
        b.shared("b_s", Dtype::F16, &[16]);
        b.local("xs", Dtype::F32, &[local]);
        b
    };
    clean(kernel(1024, 116_000, 255));
    fails(
        kernel(128, 131_072, 4),
        expect![[r#"
            [TK0501] kernel needs 262,176 bytes of shared memory; sm_90 allows 232,448
              at: a_s f16[131072]: 262,144; b_s f16[16]: 32
              help: shrink `a_s` by 29,728 bytes
        "#]],
    );
    fails(
        kernel(2048, 16, 4),
        expect![[r#"
            [TK0502] a block has at most 1024 threads on axis 0, not 2048
        "#]],
    );
    fails(
        kernel(0, 16, 4),
        expect![[r#"
            [TK0502] a thread axis needs at least 1 thread, not 0
        "#]],
    );
    fails(
        kernel(128, 16, 256),
        expect![[r#"
            [TK0503] a thread's local arrays need 1,024 bytes of registers; a thread has 1020
              at: xs f32[256]: 1,024
              help: use smaller arrays, more threads, or shared memory
        "#]],
    );
    let mut b = Build::new();
    b.threads("tx", 512);
    b.threads("ty", 4);
    fails(
        b,
        expect![[r#"
            [TK0502] a block has at most 1024 threads, not 512 * 4 = 2048
        "#]],
    );
}

#[test]
fn targets_differ_in_shared_memory_only() {
    let mut b = Build::new();
    b.threads("t", 128);
    b.shared("s", Dtype::F32, &[50_000]);
    let kernel = b.done();
    assert_eq!(analyse(&kernel, Target::Sm80).diagnostics.len(), 1);
    assert_eq!(analyse(&kernel, Target::Sm90a).diagnostics.len(), 0);
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
