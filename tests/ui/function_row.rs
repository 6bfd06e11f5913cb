//! A part of a tensor as an argument of a function: rows are, columns and tiles are not.

use tile_runtime::prelude::*;

#[tile_fn]
fn first(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    y[0] = x[0];
}

#[tile_kernel(uses(first), require(N > 0 && M > 0))]
fn columns(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    blocks([1]);
    threads([32]);
    first(x.column(0), y.row_mut(0));
}

#[tile_kernel(uses(first), require(N > 0))]
fn too_many(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    blocks([1]);
    threads([32]);
    first(x.row(0), y);
}

#[tile_fn]
fn whole(x: &Tensor<f32, (Fixed<32>,)>, s: &mut SharedArray<f32, (N,)>) {
    copy(x, s);
}

#[tile_kernel(uses(whole))]
fn copied(x: &Tensor<f32, (M, Fixed<32>)>, y: &mut Tensor<f32, (Fixed<32>,)>) {
    blocks([1]);
    threads([32]);
    let mut s = alloc_shared::<f32>([32]);
    whole(x.row(0), &mut s);
    sync_threads();
    copy(&s, y.at_mut([0]));
}

fn main() {}
