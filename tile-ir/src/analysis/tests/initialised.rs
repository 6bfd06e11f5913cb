//! Elements that are read before anything was written to them.

use super::*;

fn said(kernel: &str) -> String {
    let analysis = analyse(&crate::testing::bound(&parsed(kernel)), Target::Sm90a);
    report(&analysis.diagnostics)
}

fn silent(kernel: &str) {
    assert_eq!(said(kernel), "");
}

fn reported(kernel: &str, expected: Expect) {
    expected.assert_eq(&said(kernel));
}

#[test]
fn every_element_is_written_before_it_is_read() {
    silent(
        r"
            kernel k() {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([128]);
                s[t] = 0.0f32;
                sync_threads();
                let value: f32 = s[-t + 127];
            }
        ",
    );
    reported(
        r"
            kernel k() {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([128]);
                sync_threads();
                let value: f32 = s[-t + 127];
            }
        ",
        expect![[r#"
            [TK0304] `s` is read before anything is written to it
              at: nothing writes `s`
              label: what it holds is not defined
              help: put `clear(&mut s);` after line 4
        "#]],
    );
}

#[test]
fn a_condition_on_threads_leaves_elements_out() {
    reported(
        r"
            kernel k() {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([128]);
                if t < 64 {
                    s[t] = 0.0f32;
                }
                sync_threads();
                let value: f32 = s[-t + 127];
            }
        ",
        expect![[r#"
            [TK0304] s[127] is read before it is written
              at: thread 0 reads it here, and no thread writes it before
              label: what it holds is not defined
              help: write every element of `s` that is read, or put `clear(&mut s);` after line 4
        "#]],
    );
    silent(
        r"
            kernel k() {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([128]);
                if t < 128 {
                    s[t] = 0.0f32;
                }
                sync_threads();
                let value: f32 = s[-t + 127];
            }
        ",
    );
    // Some launches write all of it, and so may this one.
    silent(
        r"
            kernel k(
                n_: &Tensor<f32, (N,)>,
            ) {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([128]);
                if t < N {
                    s[t] = 0.0f32;
                }
                sync_threads();
                let value: f32 = s[-t + 127];
            }
        ",
    );
    silent(
        r"
            kernel k() {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([128]);
                if t < 64 {
                    s[t] = 0.0f32;
                }
                if t >= 64 {
                    s[t] = 0.0f32;
                }
                sync_threads();
                let value: f32 = s[-t + 127];
            }
        ",
    );
    reported(
        r"
            kernel k() {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([128]);
                if t < 64 {
                    s[t] = 0.0f32;
                }
                if t >= 65 {
                    s[t] = 0.0f32;
                }
                sync_threads();
                let value: f32 = s[-t + 127];
            }
        ",
        expect![[r#"
            [TK0304] s[64] is read before it is written
              at: thread 63 reads it here, and no thread writes it before
              label: what it holds is not defined
              help: write every element of `s` that is read, or put `clear(&mut s);` after line 4
        "#]],
    );
}

#[test]
fn elements_that_come_from_memory_may_be_any() {
    silent(
        r"
            kernel k(
                x: &Tensor<i32, (N,)>,
            ) {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([128]);
                s[x.masked([t]).cast::<usize>()] = 0.0f32;
                sync_threads();
                let value: f32 = s[-t + 127];
            }
        ",
    );
}

#[test]
fn loops_write_what_their_iterations_do() {
    silent(
        r"
            kernel k() {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([128]);
                for i in 0..8 {
                    if t < 16 {
                        s[16 * i + t] = 0.0f32;
                    }
                }
                sync_threads();
                let value: f32 = s[-t + 127];
            }
        ",
    );
    assert!(
        said(
            r"
            kernel k() {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([128]);
                for i in 0..7 {
                    if t < 16 {
                        s[16 * i + t] = 0.0f32;
                    }
                }
                sync_threads();
                let value: f32 = s[-t + 127];
            }
        "
        )
        .contains("s[127] is read")
    );
    assert!(
        said(
            r"
            kernel k() {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([128]);
                for i in 0..8 {
                    if t < 16 {
                        s[15 * i + t] = 0.0f32;
                    }
                }
                sync_threads();
                let value: f32 = s[-t + 127];
            }
        "
        )
        .contains("s[127] is read")
    );
}

#[test]
fn an_accumulator_begins_with_a_value() {
    silent(
        r"
            kernel k(
                k_: &Tensor<f32, (K,)>,
            ) {
                let [t] = threads([32]);
                let mut acc = alloc_local::<f32>([4]);
                fill(&mut acc, 0.0f32);
                for k in 0..K {
                    for i in 0..4 {
                        acc[i] = acc[i] + 1.0f32;
                    }
                }
            }
        ",
    );
    silent(
        r"
            kernel k(
                k_: &Tensor<f32, (K,)>,
            ) {
                let [t] = threads([32]);
                let mut acc = alloc_local::<f32>([4]);
                for k in 0..K {
                    if k == 0 {
                        fill(&mut acc, 0.0f32);
                    } else {
                        for i in 0..4 {
                            acc[i] = acc[i] + 1.0f32;
                        }
                    }
                }
            }
        ",
    );
    reported(
        r"
            kernel k(
                k_: &Tensor<f32, (K,)>,
            ) {
                let [t] = threads([32]);
                let mut acc = alloc_local::<f32>([4]);
                for k in 0..K {
                    for i in 0..4 {
                        acc[i] = acc[i] + 1.0f32;
                    }
                }
            }
        ",
        expect![[r#"
            [TK0304] `acc` is read before anything is written to it
              at: nothing has given `acc` a value yet
              label: what it holds is not defined
              help: put `clear(&mut acc);` before the loop of line 7
        "#]],
    );
}

#[test]
fn an_atomic_reads_what_it_adds_to() {
    silent(
        r"
            kernel k(
                x: &Tensor<i32, (N,)>,
            ) {
                let [t] = threads([32]);
                let mut counts = alloc_shared::<i32>([16]);
                fill(&mut counts, 0i32);
                atomic_add(&mut counts[x.masked([t]).cast::<usize>()], 1i32);
            }
        ",
    );
    assert!(
        said(
            r"
            kernel k(
                x: &Tensor<i32, (N,)>,
            ) {
                let [t] = threads([32]);
                let mut counts = alloc_shared::<i32>([16]);
                atomic_add(&mut counts[x.masked([t]).cast::<usize>()], 1i32);
            }
        "
        )
        .contains("`counts` is read before anything is written")
    );
}

#[test]
fn a_value_of_the_last_iteration_is_there_from_the_second_on() {
    silent(
        r"
            kernel k(
                k_: &Tensor<f32, (K,)>,
            ) {
                let [t] = threads([32]);
                let mut s = alloc_local::<f32>([1]);
                for k in 0..K {
                    if k > 0 {
                        let value: f32 = s[0];
                    }
                    s[0] = 0.0f32;
                }
            }
        ",
    );
    assert!(
        said(
            r"
            kernel k(
                k_: &Tensor<f32, (K,)>,
            ) {
                let [t] = threads([32]);
                let mut s = alloc_local::<f32>([1]);
                for k in 0..K {
                    let value: f32 = s[0];
                    s[0] = 0.0f32;
                }
            }
        "
        )
        .contains("s[0] is read before it is written")
    );
}

#[test]
fn a_tile_that_is_copied_whole_is_filled_whole() {
    silent(
        r"
            kernel k(
                y: &mut Tensor<f32, (M, N)>,
            ) {
                let [t] = threads([32]);
                let mut s = alloc_shared::<f32>([8, 32]);
                for r in 0..8 {
                    s[[r, t]] = 0.0f32;
                }
                copy(&s, y.at_mut([0, 0]));
            }
        ",
    );
    assert!(
        said(
            r"
            kernel k(
                y: &mut Tensor<f32, (M, N)>,
            ) {
                let [t] = threads([32]);
                let mut s = alloc_shared::<f32>([8, 32]);
                for r in 0..7 {
                    s[[r, t]] = 0.0f32;
                }
                copy(&s, y.at_mut([0, 0]));
            }
        "
        )
        .contains("s[[7, 0]] is read before it is written")
    );
}
