//! The uses of a kernel with a mistake are no mistakes.

use tile_runtime::prelude::*;

/// Scales a vector.
#[tile_kernel(instances(ROWS in [32, 64]))]
pub fn scale<T: Float, const ROWS: usize>(alpha: T, x: &Tensor<T, (N,)>, y: &mut Tensor<T, (N,)>) {
    let [b] = blocks([ceil_div(N, ROWS)]);
    let [t] = threads([ROWS]);
    let mut s = alloc_shared::<T>([ROWS]);
    s[t] = alpha * x.masked([b * ROWS + t]);
    *y.masked_mut([b * ROWS + t]) = s[ROWS - 1 - t]; //~
}

/// Launches it in every way.
pub fn run(device: &Device, stream: &Stream, x: &Tensor<f16, 1>, y: &mut Tensor<f16, 1>) -> Result<(), Error> {
    scale::<f16, 32>::launch(device, f16::ONE, x, &mut *y)?;
    scale::<f16, 64>::launch(stream, f16::ONE, x.view(), y.view_mut())?;
    let chosen: ScaleKernel<f16> = scale::<f16>::instance(device, ScaleParams { ROWS: 64 })?;
    chosen.launch(f16::ONE, x, &mut *y)?;
    chosen.launch_on(stream, f16::ONE, x, y)?;
    println!("{:?} {}", scale::<f16>::definition(), chosen.index());
    Ok(())
}

fn main() {}
