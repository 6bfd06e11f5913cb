//! What the book's page "Kernels in candle" has its reader write, compiled here too. `cargo xtask own-crate --candle` does what
//! that page says, word for word, in an empty folder.

// ANCHOR: crate
use candle_core::{Result, Tensor};
use tile_candle::Op2;

mod kernels {
    use tile_runtime::prelude::*;

    /// Each row of `x`, divided by its root mean square, times `weight`. A block a row.
    #[tile_kernel]
    pub fn rms_norm(x: &Tensor<f32, (N, K)>, weight: &Tensor<f32, (K,)>, y: &mut Tensor<f32, (N, K)>, epsilon: f32) {
        let [row] = blocks([N]);
        let [t] = threads([128]);
        let mut squares = 0.0f32;
        for step in 0..ceil_div(K, 128) {
            let value = x.masked([row, step * 128 + t]); // 0 past the end of the row
            squares += value * value;
        }
        let sum = thread_allreduce(Sum, squares, t); // over the 128 threads of the block
        let scale = rsqrt(sum / K as f32 + epsilon);
        for step in 0..ceil_div(K, 128) {
            let k = step * 128 + t;
            if k < K {
                y[[row, k]] = x[[row, k]] * scale * weight[k];
            }
        }
    }
}

/// RMSNorm: `x` of shape `[N, K]`, `weight` of `[K]`.
pub fn rms_norm(x: &Tensor, weight: &Tensor, epsilon: f32) -> Result<Tensor> {
    let op = Op2::new(
        "rms_norm",
        |x: [usize; 2], _: [usize; 1]| Ok(x),
        |on, x, weight, y| kernels::rms_norm::launch(on, x, weight, y, epsilon),
    );
    x.apply_op2_no_bwd(weight, &op)
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{D, Device};

    #[test]
    fn it_gives_what_candle_gives() -> Result<()> {
        let device = Device::cuda_if_available(0)?; // the CPU, without the feature `cuda`
        for (n, k) in [(1, 1), (3, 100), (4, 257)] {
            let x = Tensor::randn(0f32, 1.0, (n, k), &device)?;
            let weight = Tensor::randn(0f32, 1.0, k, &device)?;
            let mean = x.sqr()?.mean_keepdim(D::Minus1)?;
            let expected = x.broadcast_div(&(mean + 1e-6)?.sqrt()?)?.broadcast_mul(&weight)?;
            let difference = (rms_norm(&x, &weight, 1e-6)? - expected)?.abs()?;
            let largest = difference.flatten_all()?.max(0)?.to_scalar::<f32>()?;
            assert!(largest <= 1e-5, "{largest}");
        }
        Ok(())
    }
}
// ANCHOR_END: crate
