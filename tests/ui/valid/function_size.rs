//! Each function calls the next one once.
use tile_runtime::prelude::*;

#[tile_fn]
fn level_0(x: f32) -> f32 {
    x * 0.5 + 1.0
}

#[tile_fn(uses(level_0))]
fn level_1(x: f32) -> f32 {
    let below = level_0(x);
    below + below * below
}

#[tile_fn(uses(level_1))]
fn level_2(x: f32) -> f32 {
    let below = level_1(x);
    below + below * below
}

#[tile_fn(uses(level_2))]
fn level_3(x: f32) -> f32 {
    let below = level_2(x);
    below + below * below
}

#[tile_fn(uses(level_3))]
fn level_4(x: f32) -> f32 {
    let below = level_3(x);
    below + below * below
}

#[tile_fn(uses(level_4))]
fn level_5(x: f32) -> f32 {
    let below = level_4(x);
    below + below * below
}

#[tile_fn(uses(level_5))]
fn level_6(x: f32) -> f32 {
    let below = level_5(x);
    below + below * below
}

#[tile_fn(uses(level_6))]
fn level_7(x: f32) -> f32 {
    let below = level_6(x);
    below + below * below
}

#[tile_fn(uses(level_7))]
fn level_8(x: f32) -> f32 {
    let below = level_7(x);
    below + below * below
}

#[tile_fn(uses(level_8))]
fn level_9(x: f32) -> f32 {
    let below = level_8(x);
    below + below * below
}

#[tile_fn(uses(level_9))]
fn level_10(x: f32) -> f32 {
    let below = level_9(x);
    below + below * below
}

#[tile_fn(uses(level_10))]
fn level_11(x: f32) -> f32 {
    let below = level_10(x);
    below + below * below
}

#[tile_kernel(uses(level_11))]
pub fn folded(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    if i < N {
        y[i] = level_11(x[i]);
    }
}

fn main() {}
