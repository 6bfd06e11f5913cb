//! What the book's page "Your own crate" has its reader write, compiled here too. `cargo xtask own-crate` does what that page
//! says, word for word, in an empty folder.

// ANCHOR: crate
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_normalised() -> Result<(), tile_runtime::Error> {
        for device in [Device::simulator(), Device::checked_simulator()] {
            for [n, k] in [[1, 1], [3, 100], [4, 257]] {
                let data: Vec<f32> = (0..n * k).map(|i| (i % 13) as f32 - 6.0).collect();
                let x = device.tensor(&data, [n, k])?;
                let weight = device.tensor(&vec![2.0; k], [k])?;
                let mut y = device.zeros::<f32, 2>([n, k])?;
                rms_norm::launch_named(&device, RmsNormArgs { x: &x, weight: &weight, y: &mut y, epsilon: 1e-6 })?;
                for (row, found) in data.chunks(k).zip(y.to_vec()?.chunks(k)) {
                    let mean = row.iter().map(|v| v * v).sum::<f32>() / k as f32;
                    for (value, found) in row.iter().zip(found) {
                        let expected = 2.0 * value / (mean + 1e-6).sqrt();
                        assert!((found - expected).abs() <= 1e-5 * expected.abs(), "{found}, not {expected}");
                    }
                }
            }
        }
        Ok(())
    }
}
// ANCHOR_END: crate
