//! Tile operations: the shapes of copies, and the barriers that the compiler places.

use super::*;
use crate::analysis::testing::barriers;

#[test]
fn copies() {
    let facts = clean(
        r"
            kernel k(
                x: &Tensor<f32, (M, K)>,
            ) {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([16, 64]);
                copy(x.at([0, 0]), &mut s);
            }
        ",
    )
    .copies
    .into_values()
    .next()
    .expect("the copy has facts");
    assert_eq!(facts.extents, [16, 64]);
    assert_eq!((facts.src, facts.dst), (vec![Bound::Unproven; 2], vec![Bound::Proven; 2]));
    fails(
        r"
            kernel k(
                x: &Tensor<f32, (M, K)>,
            ) {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([16, 64]);
                copy(x.at([t, 0]), &mut s);
            }
        ",
        expect![[r#"
            [TK0804] copy: the tile's coordinates differ between threads
              at: a copy to or from a shared array is one operation of the whole block
              help: use coordinates made of block indices, dims and constants, or copy into a local array
        "#]],
    );
    fails(
        r"
            kernel k() {
                let [t] = threads([128]);
                let mut a = alloc_shared::<f16>([128, 64]);
                let mut s = alloc_shared::<f16>([128, 32]);
                copy(&a, &mut s);
            }
        ",
        expect![[r#"
            [TK0102] copy: the tiles differ in shape
              at: f16[128, 64] into f16[128, 32]
              help: give both tiles the same extents
        "#]],
    );
}

#[test]
fn the_compiler_synchronises_tile_operations() {
    assert_eq!(
        barriers(
            r"
            kernel k(
                x: &Tensor<f32, (K,)>,
            ) {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([128]);
                for k in 0..K {
                    copy(x.at([128 * k]), &mut s);
                    // The read stands under a condition that threads do not share: the barrier goes before it.
                    if t < 64 {
                        let value: f32 = s[t + 1];
                    }
                }
            }
        "
        ),
        ["copy(x.at([128 * k]), &mut s);", "if t < 64 {"]
    );
}

#[test]
fn a_parallel_loop_is_one_operation() {
    assert_eq!(
        barriers(
            r"
            kernel k() {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([512]);
                for [i] in parallel([512]) {
                    s[i] = s[i];
                }
                let value: f32 = s[2 * t];
            }
        "
        ),
        ["let value: f32 = s[2 * t];"]
    );
}

#[test]
fn an_allreduce_orders_what_is_on_its_sides() {
    assert_eq!(
        barriers(
            r"
            kernel k() {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([256]);
                s[t] = 0.0f32;
                let sum: f32 = thread_allreduce(Sum, 1.0f32, t);
                let value: f32 = s[t + 1];
            }
        "
        ),
        ["let value: f32 = s[t + 1];"]
    );
}
