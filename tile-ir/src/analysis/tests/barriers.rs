//! Barriers and collectives of the author: every thread reaches them.

use super::*;

#[test]
fn barriers_under_conditions() {
    clean(
        r"
            kernel k(
                n_: &Tensor<f32, (N,)>,
            ) {
                let [bx] = blocks([N]);
                let [t] = threads([128]);
                if bx < 4 {
                    sync_threads();
                }
            }
        ",
    );
    // The same for all, though it mentions the thread.
    clean(
        r"
            kernel k(
                n_: &Tensor<f32, (N,)>,
            ) {
                let [bx] = blocks([N]);
                let [t] = threads([128]);
                if t < 128 {
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
                let [bx] = blocks([N]);
                let [t] = threads([128]);
                if t < 48 {
                    sync_threads();
                }
            }
        ",
        expect![[r#"
            [TK0402] barrier not reached by every thread
              at: 48 of 128 threads arrive
              label: threads may disagree on this condition
              help: move it out of the `if`, so that all threads reach it
        "#]],
    );
}

#[test]
fn warp_collectives_need_whole_warps() {
    clean(
        r"
            kernel k() {
                let [t] = threads([128]);
                if t < 64 {
                    let any: bool = any(true);
                }
            }
        ",
    );
    fails(
        r"
            kernel k() {
                let [t] = threads([128]);
                if t < 48 {
                    let any: bool = any(true);
                }
            }
        ",
        expect![[r#"
            [TK0402] vote not reached by every thread of the warp
              at: 16 of 32 threads of warp 1 arrive
              label: threads may disagree on this condition
              help: move it out of the `if`, so that all threads reach it
        "#]],
    );
}

#[test]
fn loops_with_barriers_need_a_shared_trip_count() {
    clean(
        r"
            kernel k(
                n_: &Tensor<f32, (N,)>,
            ) {
                let [t] = threads([32]);
                for k in 0..N {
                    sync_threads();
                }
            }
        ",
    );
    fails(
        r"
            kernel k() {
                let [t] = threads([32]);
                for k in 0..t {
                    sync_threads();
                }
            }
        ",
        expect![[r#"
            [TK0402] barrier not reached by every thread
              at: how many threads arrive is not known here
              label: threads may disagree on the number of iterations
              help: give every thread the same number of iterations, and guard the work inside with an `if`
        "#]],
    );
}
