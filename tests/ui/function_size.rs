//! Functions that call the next one twice are written out in twice as many copies each.
use tile_runtime::prelude::*;

#[tile_fn]
fn level_0(x: f32) -> f32 {
    x * 0.5 + 1.0
}

#[tile_fn(uses(level_0))]
fn level_1(x: f32) -> f32 {
    level_0(x) + level_0(-x)
}

#[tile_fn(uses(level_1))]
fn level_2(x: f32) -> f32 {
    level_1(x) + level_1(-x)
}

#[tile_fn(uses(level_2))]
fn level_3(x: f32) -> f32 {
    level_2(x) + level_2(-x)
}

#[tile_fn(uses(level_3))]
fn level_4(x: f32) -> f32 {
    level_3(x) + level_3(-x)
}

#[tile_fn(uses(level_4))]
fn level_5(x: f32) -> f32 {
    level_4(x) + level_4(-x)
}

#[tile_fn(uses(level_5))]
fn level_6(x: f32) -> f32 {
    level_5(x) + level_5(-x)
}

#[tile_fn(uses(level_6))]
fn level_7(x: f32) -> f32 {
    level_6(x) + level_6(-x)
}

#[tile_fn(uses(level_7))]
fn level_8(x: f32) -> f32 {
    level_7(x) + level_7(-x)
}

#[tile_fn(uses(level_8))]
fn level_9(x: f32) -> f32 {
    level_8(x) + level_8(-x)
}

#[tile_fn(uses(level_9))]
fn level_10(x: f32) -> f32 {
    level_9(x) + level_9(-x)
}

#[tile_fn(uses(level_10))]
fn level_11(x: f32) -> f32 {
    level_10(x) + level_10(-x) //~
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
