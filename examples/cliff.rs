//! What a step away from the plain GEMM costs: kernels that a first author plausibly writes around a product of tiles, each raced against
//! the plain product in one process.
//!
//! ```console
//! $ cargo run --release --example cliff -- 4096 4096 4096
//! ```
//!
//! The ratio is the plain product's time over the kernel's, for as many multiply-adds: `low_rank` and `swiglu` do more of them, and count so.
//! Results are compared with the plain product's where they are the same product; `tests/cliff.rs` has the references of the others.

use anyhow::{Result, ensure};
use std::time::Instant;
use tile_kernel_examples::cliff::kernels::*;
use tile_runtime::prelude::*;

/// Calls of one measurement, back to back.
const BURST: usize = 40;
const ROUNDS: usize = 9;

fn main() -> Result<()> {
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => {
            println!("nothing to measure without a GPU: {error}");
            return Ok(());
        }
    };
    let given: Vec<usize> = std::env::args().skip(1).map(|n| n.parse()).collect::<Result<_, _>>()?;
    let [m, n, k] = given[..] else {
        return measure(&device, [4096, 4096, 4096]);
    };
    measure(&device, [m, n, k])
}

/// Whether two products of the same operands differ by no more than bf16 and the order of sums explain; a NaN never is near.
fn is_near(found: f32, wanted: f32) -> bool {
    (found - wanted).abs() <= 0.02 * wanted.abs() + 0.5
}

fn measure(device: &Device, [m, n, k]: [usize; 3]) -> Result<()> {
    println!("{device}, bf16, {m} x {n} x {k}");
    let random = |count: usize, by: f32| -> Vec<bf16> {
        let mut state = 0x9e37_79b9_u32;
        (0..count)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                bf16::from_f32(((state >> 8) as f32 / (1 << 23) as f32 - 1.0) * by)
            })
            .collect()
    };
    let a = device.tensor(&random(m * k, 1.0), [m, k])?;
    let b = device.tensor(&random(n * k, 1.0), [n, k])?;
    let up = device.tensor(&random(n * k, 0.5), [n, k])?;
    let rank = 64;
    let (u, v) = (device.tensor(&random(m * rank, 1.0), [m, rank])?, device.tensor(&random(n * rank, 1.0), [n, rank])?);
    let hidden = device.tensor(&random(128 * k, 1.0), [128, k])?;
    let second = device.tensor(&random(n * 128, 1.0), [n, 128])?;
    let bias = device.tensor(&vec![0.0f32; n], [n])?;
    let scales = device.tensor(&vec![1.0f32; k.div_ceil(64) * m], [k.div_ceil(64), m])?;
    let floats: Vec<f32> = b.to_vec()?.iter().map(|v| v.to_f32()).collect();
    let wide_b = device.tensor(&floats, [n, k])?;
    let poison = vec![bf16::NAN; m * n];
    let mut c = device.tensor(&poison, [m, n])?;
    let mut square = device.tensor(&vec![bf16::NAN; m * m], [m, m])?;
    let mut sum = device.zeros::<f32, 2>([m, n])?;
    let mut sums = device.zeros::<f32, 2>([m, n.div_ceil(128)])?;
    reference::<bf16, 128, 128, 64, 4, 256>::launch(device, &a, &b, &mut c)?;
    let wanted: Vec<f32> = c.to_vec()?.iter().map(|v| v.to_f32()).collect();
    let tile = [m as f64 * n as f64 * k as f64, 1.0];
    println!("{:>16} {:>10} {:>9} {:>7}", "kernel", "us", "TFLOP/s", "ratio");
    // Races a kernel with the plain product, alternating; `$more`: its multiply-adds over those of the plain one.
    macro_rules! race {
        ($name:literal, $more:expr, $same:expr, $call:expr) => {{
            if $same {
                c.write(&poison)?;
                $call;
                device.synchronize()?;
                let found: Vec<f32> = c.to_vec()?.iter().map(|v| v.to_f32()).collect();
                let off = found.iter().zip(&wanted).filter(|(a, b)| !is_near(**a, **b)).count();
                ensure!(off == 0, "{}: {off} elements differ from the plain product's", $name);
            }
            let mut times: [Vec<f64>; 2] = Default::default();
            for round in 0..=ROUNDS {
                let start = Instant::now();
                for _ in 0..BURST {
                    reference::<bf16, 128, 128, 64, 4, 256>::launch(device, &a, &b, &mut c)?;
                }
                device.synchronize()?;
                let plain = start.elapsed().as_secs_f64();
                let start = Instant::now();
                for _ in 0..BURST {
                    $call;
                }
                device.synchronize()?;
                let other = start.elapsed().as_secs_f64();
                if round > 0 {
                    times[0].push(plain / BURST as f64);
                    times[1].push(other / BURST as f64);
                }
            }
            times.iter_mut().for_each(|t| t.sort_by(f64::total_cmp));
            let [plain, other] = [times[0][ROUNDS / 2], times[1][ROUNDS / 2]];
            let more: f64 = $more;
            let flops = 2.0 * tile[0] * more / other * 1e-12;
            println!("{:>16} {:>10.2} {:>9.0} {:>7.3}", $name, other * 1e6, flops, plain * more / other);
        }};
    }
    race!("reference", 1.0, true, reference::<bf16, 128, 128, 64, 4, 256>::launch(device, &a, &b, &mut c)?);
    race!("plain", 1.0, true, plain::<bf16, 128, 128, 64, 256>::launch(device, &a, &b, &mut c)?);
    let more = (k + rank) as f64 / k as f64;
    race!("low_rank", more, false, low_rank::<bf16, 128, 128, 64, 4, 256>::launch(device, &a, &b, &u, &v, &mut c)?);
    race!("shared_bias", 1.0, true, shared_bias::<bf16, 128, 128, 64, 4, 256>::launch(device, &a, &b, &bias, &mut c)?);
    race!(
        "shared_scales",
        1.0,
        true,
        shared_scales::<bf16, 128, 128, 64, 4, 256>::launch(device, &a, &b, &scales, &mut c)?
    );
    race!(
        "global_scales",
        1.0,
        true,
        global_scales::<bf16, 128, 128, 64, 4, 256>::launch(device, &a, &b, &scales, &mut c)?
    );
    race!("windowed", 1.0, true, windowed::<bf16, 128, 128, 64, 4, 256>::launch(device, &a, &b, &mut c, u32::MAX)?);
    race!("shared_result", 1.0, true, shared_result::<bf16, 128, 128, 64, 4, 256>::launch(device, &a, &b, &mut c)?);
    race!("converted", 1.0, true, converted::<bf16, 128, 128, 64, 4, 256>::launch(device, &a, &wide_b, &mut c)?);
    race!("row_sums", 1.0, true, row_sums::<bf16, 128, 128, 64, 4, 256>::launch(device, &a, &b, &mut c, &mut sums)?);
    race!("wide", 1.0, true, wide::<bf16, 192, 128, 64, 4, 256>::launch(device, &a, &b, &mut c)?);
    let more = (n / 128) as f64 * (k + 128) as f64 * 128.0 / (n as f64 * k as f64);
    race!(
        "fused_mlp",
        more,
        false,
        fused_mlp::<bf16, 128, 128, 64, 3, 256>::launch(device, &a, &hidden, &second, &mut c)?
    );
    race!("atomic_split", 1.0, false, atomic_split::<bf16, 128, 128, 64, 4, 256, 2>::launch(device, &a, &b, &mut sum)?);
    let more = m as f64 / n as f64;
    race!("gram", more, false, gram::<bf16, 128, 128, 64, 4, 256>::launch(device, &a, &mut square)?);
    race!("swiglu", 2.0, false, swiglu::<bf16, 128, 128, 64, 3, 256>::launch(device, &a, &b, &up, &mut c)?);
    Ok(())
}
