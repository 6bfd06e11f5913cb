//! The crate that the book's pages "cargo tile" and "Shipping without NVRTC" use; `cargo-tile/tests/whole` makes it in an empty
//! folder.

// ANCHOR: kernels
use tile_runtime::prelude::*;

/// y = a x + y.
#[tile_kernel(instances(THREADS in [64, 128]))]
pub fn scaled_add<T: Float, const THREADS: usize>(a: f32, x: &Tensor<T, (N,)>, y: &mut Tensor<T, (N,)>) {
    let [block] = blocks([ceil_div(N, THREADS)]);
    let [thread] = threads([THREADS]);
    let i = block * THREADS + thread;
    if i < N {
        y[i] = (a * x[i].cast::<f32>() + y[i].cast::<f32>()).cast::<T>();
    }
}

/// y[m] = the largest of row m of x, compiled for each K.
#[tile_kernel(specialize(K), require(K % 8 == 0))]
fn row_max(x: &Tensor<f32, (M, K)>, y: &mut Tensor<f32, (M,)>) {
    let [row] = blocks([M]);
    let [lane] = threads([32]);
    let mut most = f32::NEG_INFINITY;
    for step in 0..ceil_div(K, 32) {
        let k = step * 32 + lane;
        if k < K {
            most = max(most, x[[row, k]]);
        }
    }
    let most = warp_reduce(Max, most);
    if lane == 0 {
        y[row] = most;
    }
}
// ANCHOR_END: kernels

/// The largest element of each row, on any device: the kernel itself is private.
pub fn row_maxima(device: &Device, x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>) -> Result<(), LaunchError> {
    row_max::launch(device, x, y)
}

// ANCHOR: check
tile_runtime::check! {
    scaled_add<f32> == scaled_add_reference,
    row_max == row_max_reference,
}

#[cfg(test)]
use tile_runtime::check::{Case, CheckError};

#[cfg(test)]
fn scaled_add_reference(case: &mut Case) -> Result<(), CheckError> {
    let (a, x, y) = (case.scalar("a")?, case.tensor("x")?, case.tensor("y")?);
    case.expect("y", x.iter().zip(&y).map(|(x, y)| a * x + y).collect())
}

#[cfg(test)]
fn row_max_reference(case: &mut Case) -> Result<(), CheckError> {
    let (x, k) = (case.tensor("x")?, case.dim("K")?);
    case.expect("y", x.chunks(k).map(|row| row.iter().copied().fold(f64::NEG_INFINITY, f64::max)).collect())
}
// ANCHOR_END: check

// ANCHOR: look
/// The CUDA C of one instance, by its types.
pub fn scaled_add_cuda() -> Result<String, tile_runtime::Error> {
    use tile_runtime::kernel::{Format, Target};
    scaled_add::<f16, 128>::show(Target::Sm90a, Format::Cuda, &[])
}
// ANCHOR_END: look

#[test]
fn an_instance_is_shown_by_its_types() {
    let cuda = scaled_add_cuda().unwrap();
    assert!(cuda.contains("scaled_add_f16_128") && cuda.contains("for sm_90a"), "{cuda}");
    let (h200, target) = (tile_runtime::kernel::Machine::H200, tile_runtime::kernel::Target::Sm90a);
    let report = scaled_add::<f16, 128>::explain(target, &h200, &[("N", 4096.0)]).unwrap();
    assert!(report.to_string().contains("32 blocks of 128 threads"), "{report}");
}
