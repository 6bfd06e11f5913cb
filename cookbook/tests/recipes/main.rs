//! Every recipe on shapes that are multiples of nothing: on the fast simulator, on the checked one, which reports
//! whatever is wrong with a kernel, and on a GPU where there is one. Without one each test says so and passes on the
//! simulators.
//!
//! This program runs on a GPU machine without Rust: `cargo test --release -p tile-cookbook --test recipes --no-run`.

mod attention;
mod elementwise;
mod executors;
mod image;
mod norms;
mod places;
mod sums;
mod words;

use executors::{Bits, everywhere};
use tile_runtime::prelude::*;

/// A float type with its rounding.
trait Rounded: Float + Element {
    /// Half the distance of 1 and the next number.
    const EPSILON: f64;
    fn of(x: f32) -> Self;
    fn up(self) -> f64;
}

macro_rules! rounded {
    ($($ty:ident: $epsilon:expr),*) => {$(
        impl Rounded for $ty {
            const EPSILON: f64 = $epsilon;
            fn of(x: f32) -> $ty {
                $ty::from_f32(x)
            }
            fn up(self) -> f64 {
                self.to_f64()
            }
        }
    )*};
}
rounded!(f16: 1.0 / 2048.0, bf16: 1.0 / 256.0);

impl Rounded for f32 {
    const EPSILON: f64 = 1.0 / 16_777_216.0;
    fn of(x: f32) -> f32 {
        x
    }
    fn up(self) -> f64 {
        f64::from(self)
    }
}

/// `count` numbers between -2 and 2, as `T` has them.
fn noise<T: Rounded>(count: usize, seed: usize) -> Vec<T> {
    let number = |i: usize| (((i + seed) * 7919 % 100_003) as f32 * 0.37).sin() * 2.0;
    (0..count).map(|i| T::of(number(i))).collect()
}

/// The numbers in f64.
fn wide<T: Rounded>(values: &[T]) -> Vec<f64> {
    values.iter().map(|value| value.up()).collect()
}

/// Panics where a result is further from the reference than `absolute`, or `relative` of the reference. NaN is wrong.
fn close<T: Rounded>(found: &[T], wanted: &[f64], relative: f64, absolute: f64) {
    assert_eq!(found.len(), wanted.len());
    for (at, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        let (found, bound) = (found.up(), relative * wanted.abs() + absolute);
        assert!((found - wanted).abs() <= bound, "element {at}: {found}, not {wanted} within {bound}");
    }
}
