//! Races between threads and between blocks.

use super::*;

#[test]
fn races_between_neighbours() {
    clean(
        r"
            kernel k() {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([256]);
                s[t] = 0.0f32;
                sync_threads();
                let value: f32 = s[t + 1];
            }
        ",
    );
    clean(
        r"
            kernel k() {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([256]);
                s[t] = 0.0f32;
                let value: f32 = s[t];
            }
        ",
    );
    clean(
        r"
            kernel k() {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([256]);
                s[t] = 0.0f32;
                let value: f32 = s[t + 128];
            }
        ",
    );
    fails(
        r"
            kernel k() {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([256]);
                s[t] = 0.0f32;
                let value: f32 = s[t + 1];
            }
        ",
        expect![[r#"
            [TK0401] data race on shared `s`
              at: thread 1 writes s[1] (line 5), thread 0 reads s[1] (line 6), no barrier between
              label: thread 1 writes it here
              help: insert `sync_threads();` before line 6
        "#]],
    );
}

#[test]
fn races_of_one_store() {
    clean(
        r"
            kernel k() {
                let [tk, tn] = threads([32, 4]);
                let mut s = alloc_shared::<f32>([4]);
                if tk == 0 {
                    s[tn] = 0.0f32;
                }
            }
        ",
    );
    fails(
        r"
            kernel k() {
                let [tk, tn] = threads([32, 4]);
                let mut s = alloc_shared::<f32>([4]);
                s[tn] = 0.0f32;
            }
        ",
        expect![[r#"
            [TK0401] data race on shared `s`
              at: threads 0 and 1 both write s[0]
              note: writes of the same value by several threads are a race too
              help: let one thread write it: put `if tk == 0 { .. }` around line 5
        "#]],
    );
}

#[test]
fn races_round_a_loop() {
    clean(
        r"
            kernel k(
                n_: &Tensor<f32, (N,)>,
            ) {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([128]);
                for k in 0..N {
                    s[t] = 0.0f32;
                    sync_threads();
                    let value: f32 = s[127 - t];
                    sync_threads();
                }
            }
        ",
    );
    fails(
        r"
            kernel k(
                n_: &Tensor<f32, (N,)>,
            ) {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([128]);
                for k in 0..N {
                    s[t] = 0.0f32;
                    sync_threads();
                    let value: f32 = s[127 - t];
                }
            }
        ",
        expect![[r#"
            [TK0401] data race on shared `s`
              at: thread 127 reads s[0] (line 10), thread 0 writes s[0] (line 8), no barrier between
              label: thread 127 reads it here
              note: the second access is in a later iteration of the loop
              help: insert `sync_threads();` at the end of the loop of line 7
        "#]],
    );
}

#[test]
fn a_tree_reduction_needs_a_barrier_a_level() {
    clean(
        r"
            kernel k() {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([128]);
                for level in unroll(0..7) {
                    let half: usize = 64 >> level;
                    if t < half {
                        s[t] = s[t] + s[t + half];
                    }
                    sync_threads();
                }
            }
        ",
    );
    fails(
        r"
            kernel k() {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([128]);
                for level in unroll(0..7) {
                    let half: usize = 64 >> level;
                    if t < half {
                        s[t] = s[t] + s[t + half];
                    }
                }
            }
        ",
        expect![[r#"
            [TK0401] data race on shared `s`
              at: thread 32 writes s[32] (line 8), thread 0 reads s[32] (line 8), no barrier between
              label: thread 32 writes it here
              note: the second access is in a later iteration of the loop
              help: insert `sync_threads();` at the end of the loop of line 5
        "#]],
    );
}

#[test]
fn sync_warp_orders_a_warp_only() {
    clean(
        r"
            kernel k() {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([128]);
                s[t] = 0.0f32;
                sync_warp();
                let value: f32 = s[t ^ 16];
            }
        ",
    );
    assert_eq!(
        run(r"
            kernel k() {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([128]);
                s[t] = 0.0f32;
                sync_warp();
                let value: f32 = s[t ^ 32];
            }
        ")
        .diagnostics
        .len(),
        1
    );
}

#[test]
fn races_in_global_memory() {
    clean(
        r"
            kernel k(
                y: &mut Tensor<f32, (N,)>,
            ) {
                let [bx] = blocks([N]);
                let [t] = threads([32]);
                if t == 0 {
                    y[bx] = 0.0f32;
                }
            }
        ",
    );
    fails(
        r"
            kernel k(
                y: &mut Tensor<f32, (N,)>,
            ) {
                let [bx] = blocks([N]);
                let [t] = threads([32]);
                if true {
                    y[bx] = 0.0f32;
                }
            }
        ",
        expect![[r#"
            [TK0401] data race on global `y`
              at: threads 0 and 1 both write y[0]
              note: writes of the same value by several threads are a race too
              help: let one thread write it: put `if t == 0 { .. }` around line 8
        "#]],
    );
    fails(
        r"
            kernel k(
                y: &mut Tensor<f32, (N,)>,
            ) {
                let [bx] = blocks([N]);
                let [t] = threads([32]);
                if t == 0 {
                    y[0] = 0.0f32;
                }
            }
        ",
        expect![[r#"
            [TK0405] blocks race on `y`: every block along `bx` stores the same elements
              at: neither the index nor a condition around it depends on `bx`
              help: index `y` by `bx`, put `if bx == 0 { .. }` around the store, or use an atomic
        "#]],
    );
}
