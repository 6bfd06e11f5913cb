//! Blocks that store to the same element.

use super::*;

#[test]
fn tiles_that_overlap_their_neighbours() {
    clean(
        r"
            kernel k(
                y: &mut Tensor<f32, (N,)>,
            ) {
                let [b] = blocks([ceil_div(N, 128)]);
                let [t] = threads([128]);
                if 128 * b + t < N {
                    y[128 * b + t] = 0.0f32;
                }
            }
        ",
    );
    clean(
        r"
            kernel k(
                y: &mut Tensor<f32, (N,)>,
            ) {
                let [b] = blocks([ceil_div(N, 128)]);
                let [t] = threads([128]);
                if 129 * b + t < N {
                    y[129 * b + t] = 0.0f32;
                }
            }
        ",
    );
    fails(
        r"
            kernel k(
                y: &mut Tensor<f32, (N,)>,
            ) {
                let [b] = blocks([ceil_div(N, 128)]);
                let [t] = threads([128]);
                if 127 * b + t < N {
                    y[127 * b + t] = 0.0f32;
                }
            }
        ",
        expect![[r#"
            [TK0405] blocks race on `y`: neighbouring blocks store the same elements
              at: thread 127 of the block at b = 0 and thread 0 of the block at b = 1 both store y[127]
              note: at N = 4096, as at every launch with more than one block
              help: let each block have elements of `y` of its own, or use an atomic
        "#]],
    );
    assert!(
        report(
            &run(r"
            kernel k(
                y: &mut Tensor<f32, (N,)>,
            ) {
                let [b] = blocks([ceil_div(N, 128)]);
                let [t] = threads([128]);
                y[64 * b + t] = 0.0f32;
            }
        ")
            .diagnostics
        )
        .contains("both store y[64]")
    );
}

#[test]
fn a_single_block_has_no_neighbour() {
    clean(
        r"
            kernel k(
                y: &mut Tensor<f32, (N,)>,
            ) {
                let [b] = blocks([1]);
                let [t] = threads([128]);
                if 64 * b + t < N {
                    y[64 * b + t] = 0.0f32;
                }
            }
        ",
    );
}

#[test]
fn digits_of_threads_are_told_apart() {
    // Warps of 32 lanes, 4 warps: `b * 128 + (t / 32) * 32 + t % 32`, or with a pitch of 16 between warps.
    clean(
        r"
            kernel k(
                y: &mut Tensor<f32, (N,)>,
            ) {
                let [b] = blocks([ceil_div(N, 128)]);
                let [t] = threads([128]);
                if 128 * b + (t / 32 * 32 + t % 32) < N {
                    y[128 * b + (t / 32 * 32 + t % 32)] = 0.0f32;
                }
            }
        ",
    );
    assert!(
        report(
            &run(r"
            kernel k(
                y: &mut Tensor<f32, (N,)>,
            ) {
                let [b] = blocks([ceil_div(N, 128)]);
                let [t] = threads([128]);
                if 96 * b + (t / 32 * 32 + t % 32) < N {
                    y[96 * b + (t / 32 * 32 + t % 32)] = 0.0f32;
                }
            }
        ")
            .diagnostics
        )
        .contains("TK0405")
    );
    assert!(
        report(
            &run(r"
            kernel k(
                y: &mut Tensor<f32, (N,)>,
            ) {
                let [b] = blocks([ceil_div(N, 128)]);
                let [t] = threads([128]);
                if 128 * b + (t / 32 * 48 + t % 32) < N {
                    y[128 * b + (t / 32 * 48 + t % 32)] = 0.0f32;
                }
            }
        ")
            .diagnostics
        )
        .contains("TK0405")
    );
}

#[test]
fn what_depends_on_a_parameter_waits() {
    clean(
        r"
            kernel k(
                y: &mut Tensor<f32, (N,)>,
                by: usize,
            ) {
                let [b] = blocks([ceil_div(N, 128)]);
                let [t] = threads([128]);
                if 128 * b + t < N {
                    y[128 * b + t] = 0.0f32;
                }
            }
        ",
    );
    // A pitch that the launch chooses.
    clean(
        r"
            kernel k(
                y: &mut Tensor<f32, (N,)>,
                pitch: usize,
            ) {
                let [b] = blocks([ceil_div(N, 128)]);
                let [t] = threads([128]);
                if b * pitch + t < N {
                    y[b * pitch + t] = 0.0f32;
                }
            }
        ",
    );
}

#[test]
fn one_block_that_stores_for_all_is_alone() {
    clean(
        r"
            kernel k(
                y: &mut Tensor<f32, (N,)>,
            ) {
                let [b] = blocks([ceil_div(N, 128)]);
                let [t] = threads([128]);
                if b < 1 {
                    y[t] = 0.0f32;
                }
            }
        ",
    );
    assert!(
        report(
            &run(r"
            kernel k(
                y: &mut Tensor<f32, (N,)>,
            ) {
                let [b] = blocks([ceil_div(N, 128)]);
                let [t] = threads([128]);
                if b < 2 {
                    y[t] = 0.0f32;
                }
            }
        ")
            .diagnostics
        )
        .contains("TK0405")
    );
}

#[test]
fn tiles_of_two_axes() {
    clean(
        r"
            kernel k(
                y: &mut Tensor<f32, (M, N)>,
            ) {
                let [bx, by] = blocks([ceil_div(N, 64), ceil_div(M, 64)]);
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([64, 64]);
                fill(&mut s, 0.0f32);
                copy(&s, y.at_mut([64 * by, 64 * bx]));
            }
        ",
    );
    clean(
        r"
            kernel k(
                y: &mut Tensor<f32, (M, N)>,
            ) {
                let [bx, by] = blocks([ceil_div(N, 64), ceil_div(M, 64)]);
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([64, 64]);
                fill(&mut s, 0.0f32);
                copy(&s, y.at_mut([64 * by, 128 * bx]));
            }
        ",
    );
    fails(
        r"
            kernel k(
                y: &mut Tensor<f32, (M, N)>,
            ) {
                let [bx, by] = blocks([ceil_div(N, 64), ceil_div(M, 64)]);
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([64, 64]);
                fill(&mut s, 0.0f32);
                copy(&s, y.at_mut([64 * by, 32 * bx]));
            }
        ",
        expect![[r#"
            [TK0405] blocks race on `y`: neighbouring blocks store the same elements
              at: the block at bx = 0 and the block at bx = 1 both store y[[0, 32]]
              note: at M = 4096, N = 4096, as at every launch with more than one block
              help: let each block have elements of `y` of its own, or use an atomic
        "#]],
    );
    assert!(
        report(
            &run(r"
            kernel k(
                y: &mut Tensor<f32, (M, N)>,
            ) {
                let [bx, by] = blocks([ceil_div(N, 64), ceil_div(M, 64)]);
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([64, 64]);
                fill(&mut s, 0.0f32);
                copy(&s, y.at_mut([63 * by, 64 * bx]));
            }
        ")
            .diagnostics
        )
        .contains("by = 1")
    );
}
