//! Blocks that store to the same element.

use super::*;
use crate::lowered::HostValues;

/// A launch's dims.
struct Dims([i64; 2]);

impl HostValues for Dims {
    fn dim(&self, dim: DimId) -> i64 {
        self.0[dim.as_u32() as usize]
    }

    fn stride(&self, _: ParamId, _: u8) -> i64 {
        0
    }

    fn scalar(&self, _: ParamId) -> i64 {
        0
    }

    fn address(&self, _: ParamId) -> u64 {
        0
    }

    fn capacity(&self) -> i64 {
        1
    }
}

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

/// A store that ignores an index of the grid, beside an axis whose extent is a scalar parameter.
#[test]
fn a_tile_that_ignores_an_axis() {
    let kernel = |column: &str, around: &str| {
        format!(
            r"
            #[require(0 < parts && parts <= 8)]
            kernel k(
                y: &mut Tensor<f32, (Fixed<8>, M, N)>,
                parts: usize,
                mode: usize,
            ) {{
                let [bx, by, part] = blocks([ceil_div(N, 64), ceil_div(M, 64), parts]);
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([64, 64]);
                fill(&mut s, 0.0f32);
                if {around} {{
                    copy(&s, y.at_mut([part, 64 * by, {column}]));
                }}
            }}
        "
        )
    };
    clean(&kernel("64 * bx", "0 < 1"));
    fails(
        &kernel("0", "0 < 1"),
        expect![[r#"
            [TK0405] blocks race on `y`: every block along `bx` stores the same elements
              at: neither the index nor a condition around it depends on `bx`
              help: index `y` by `bx`, put `if bx == 0 { .. }` around the store, or use an atomic
        "#]],
    );
    // One block of the axis stores.
    clean(&kernel("0", "bx < 1"));
    // There is but one block along the axis.
    clean(&kernel("0", "ceil_div(N, 64) < 2"));
    // The launch knows what is stored.
    let analysis = clean(&kernel("0", "mode == 0"));
    let needs: Vec<String> = analysis.block_needs.iter().map(|n| n.text.clone()).collect();
    assert_eq!(needs, ["no two blocks along `bx` store the same elements of `y`"]);
}

/// Where places are clamped to a last one, the launch checks that they are as many as there is room for.
#[test]
fn clamped_places() {
    let kernel = |rows: &str| {
        format!(
            r"
            #[require(ceil_div(N, 64) * ceil_div(M, 64) <= 32)]
            kernel k(
                x: &Tensor<f32, (M, N)>,
                y: &mut Tensor<f32, (Fixed<32>, Fixed<64>)>,
            ) {{
                let [bx, by] = blocks([ceil_div(N, 64), {rows}]);
                let [t] = threads([64]);
                let place: usize = min(by * ceil_div(N, 64) + bx, 31);
                y[[place, t]] = x.masked([64 * by, 64 * bx + t]);
            }}
        "
        )
    };
    // The contract says that there is room.
    assert_eq!(clean(&kernel("ceil_div(M, 64)")).block_needs, []);
    // One row of blocks more than there is room for.
    let analysis = clean(&kernel("ceil_div(M, 64) + 1"));
    let needs: Vec<&str> = analysis.block_needs.iter().map(|n| n.text.as_str()).collect();
    // One column of blocks: the last two rows meet. Several columns: so do the last two of a row.
    assert_eq!(needs, ["bx", "by"].map(|axis| format!("no two blocks along `{axis}` store the same elements of `y`")));
    // M, then N: by the order in which the parameters name them.
    let holds = |rows: i64, columns: i64| {
        let values = Dims([64 * rows, 64 * columns]);
        analysis.block_needs.iter().all(|need| need.holds.evaluate(&values) == Some(1))
    };
    assert_eq!([holds(1, 1), holds(31, 1), holds(32, 1)], [true, true, false]);
    assert_eq!([holds(15, 2), holds(16, 2), holds(7, 4), holds(8, 4)], [true, false, true, false]);
}

/// The last arriver at each of several counters.
#[test]
fn last_arrivers_of_several_counters() {
    let kernel = |column: &str| {
        format!(
            r"
            kernel k(
                y: &mut Tensor<f32, (M, N)>,
                arrived: &mut Tensor<u32, (M, N)>,
            ) {{
                let [bx, by, part] = blocks([N, M, 4]);
                let [t] = threads([32]);
                let last: bool = last_arriver(&mut arrived[[by, bx]], 4);
                if last {{
                    if t < 1 {{
                        y[[by, {column}]] = 0.0f32;
                    }}
                }}
            }}
        "
        )
    };
    clean(&kernel("bx"));
    assert!(report(&run(&kernel("0")).diagnostics).contains("every block along `bx` stores the same elements"));
}
