//! Microseconds a call: through candle, and of the same kernel launched by itself.

use crate::Failures;
use crate::data::normal;
use candle_core::{DType, Device, Result, Tensor};
use half::bf16;
use std::time::Instant;
use tile_candle::{GemmOptions, Gemv, gemm, gemm_into, gemv, gemv_into};
use tile_kernels::gemm::Gemm;

/// The most that a call through candle may cost beyond a plain launch, in microseconds.
const MOST: f64 = 1.0;
const ROUNDS: usize = 41;

/// One product, computed or allocated for in the five ways of [`WAYS`], each a closure that owns its tensors.
pub struct Contenders {
    pub name: String,
    pub ways: Vec<(&'static str, Box<dyn FnMut() -> Result<()>>)>,
}

/// Names of the ways: a launch on tensors and a stream of ours; through candle into a tensor that is there; through candle
/// into a new tensor; candle's allocation of such a tensor alone; candle's own product into a new tensor.
pub const WAYS: [&str; 5] = ["plain", "into", "new", "alloc", "matmul"];

pub fn failed(error: impl std::error::Error + Send + Sync + 'static) -> candle_core::Error {
    candle_core::Error::wrap(error)
}

fn host(tensor: &Tensor) -> Result<Vec<bf16>> {
    tensor.to_device(&Device::Cpu)?.flatten_all()?.to_vec1()
}

/// M x N x K; M = 1 is gemv.
pub fn contenders(device: &Device, (m, n, k): (usize, usize, usize)) -> Result<Contenders> {
    let ours = tile_runtime::Device::cuda(0).map_err(failed)?;
    let stream = ours.stream().map_err(failed)?;
    let w = normal((n, k), DType::BF16, device)?;
    let plain_w = ours.tensor(&host(&w)?, [n, k]).map_err(failed)?;
    let cuda = device.as_cuda_device()?.clone();
    let mut ways: Vec<(&'static str, Box<dyn FnMut() -> Result<()>>)> = Vec::new();
    let alloc = Box::new(move || {
        // SAFETY: nobody reads it.
        unsafe { cuda.alloc::<bf16>(m * n) }.map(drop)
    });
    if m == 1 {
        let x = normal(k, DType::BF16, device)?;
        let plain_x = ours.tensor(&host(&x)?, [k]).map_err(failed)?;
        let mut plain_y = ours.zeros::<bf16, 1>([n]).map_err(failed)?;
        ways.push((
            "plain",
            Box::new(move || {
                tile_kernels::gemv::gemv(&stream, &plain_w, &plain_x, &mut plain_y, Gemv::default()).map_err(failed)
            }),
        ));
        let y = Tensor::zeros(n, DType::BF16, device)?;
        let of = (w.clone(), x.clone());
        ways.push(("into", Box::new(move || gemv_into(&y, &of.0, &of.1, Gemv::default()))));
        let of = (w.clone(), x.clone());
        ways.push(("new", Box::new(move || gemv(&of.0, &of.1).map(drop))));
        ways.push(("alloc", alloc));
        let of = (x.unsqueeze(0)?, w.t()?);
        ways.push(("matmul", Box::new(move || of.0.matmul(&of.1).map(drop))));
    } else {
        let a = normal((m, k), DType::BF16, device)?;
        let plain_a = ours.tensor(&host(&a)?, [m, k]).map_err(failed)?;
        let mut plain_c = ours.zeros::<bf16, 2>([m, n]).map_err(failed)?;
        ways.push((
            "plain",
            Box::new(move || {
                tile_kernels::gemm::gemm(&stream, &plain_a, &plain_w, &mut plain_c, &Gemm::nt()).map_err(failed)
            }),
        ));
        let c = Tensor::zeros((m, n), DType::BF16, device)?;
        let of = (a, w.t()?);
        let (into, new, matmul) = (of.clone(), of.clone(), of);
        ways.push(("into", Box::new(move || gemm_into(&c, &into.0, &into.1, None, GemmOptions::default()))));
        ways.push(("new", Box::new(move || gemm(&new.0, &new.1, None, GemmOptions::default()).map(drop))));
        ways.push(("alloc", alloc));
        ways.push(("matmul", Box::new(move || matmul.0.matmul(&matmul.1).map(drop))));
    }
    // Compiled, and workspaces made.
    for (_, way) in &mut ways {
        (0..3).try_for_each(|_| way())?;
    }
    let name = if m == 1 { format!("gemv {n} x {k}") } else { format!("gemm {m} x {n} x {k}") };
    Ok(Contenders { name, ways })
}

fn synchronize(device: &Device) -> Result<()> {
    device.synchronize()?;
    tile_runtime::Device::cuda(0).and_then(|ours| ours.synchronize()).map_err(failed)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Microseconds a call of each way: of the host alone, and with the device. Rounds of the ways in turns; the median.
fn race(device: &Device, contenders: &mut Contenders, calls: usize) -> Result<Vec<(f64, f64)>> {
    let mut times = vec![(Vec::new(), Vec::new()); contenders.ways.len()];
    for _ in 0..ROUNDS {
        for ((_, way), (host, whole)) in contenders.ways.iter_mut().zip(&mut times) {
            synchronize(device)?;
            let start = Instant::now();
            for _ in 0..calls {
                way()?;
            }
            host.push(start.elapsed().as_secs_f64() * 1e6 / calls as f64);
            synchronize(device)?;
            whole.push(start.elapsed().as_secs_f64() * 1e6 / calls as f64);
        }
    }
    Ok(times.into_iter().map(|(host, whole)| (median(host), median(whole))).collect())
}

pub fn run(device: &Device, failures: &mut Failures) -> Result<()> {
    println!("bf16, us a call: until the host has queued it / until the device is done, of {ROUNDS} rounds the median");
    println!("{:24} {}", "", WAYS.map(|way| format!("{way:>15}")).join(" "));
    for (shape, calls) in [
        ((1, 256, 256), 400),
        ((1, 4096, 4096), 400),
        ((1, 14336, 4096), 200),
        ((64, 64, 64), 400),
        ((16, 4096, 4096), 400),
        ((64, 14336, 4096), 200),
        ((512, 4096, 4096), 100),
        ((4096, 4096, 4096), 20),
    ] {
        let mut contenders = contenders(device, shape)?;
        let times = race(device, &mut contenders, calls)?;
        let shown = times.iter().map(|(host, whole)| format!("{host:6.2} / {whole:6.2}"));
        println!("{:24} {}", contenders.name, shown.collect::<Vec<_>>().join(" "));
        let [plain, into, new, alloc, _] = times[..] else { continue };
        // What is beyond a launch of ours, and for a new tensor beyond candle's allocation too. Device times of long kernels
        // differ by more than a microsecond from run to run.
        let noise = 0.02 * plain.1;
        for (way, host, whole) in [
            ("into", into.0 - plain.0, into.1 - plain.1),
            ("new", new.0 - alloc.0 - plain.0, new.1 - alloc.1 - plain.1),
        ] {
            println!("{:24} {way} costs {host:.2} / {whole:.2} us more", "");
            failures.check(host <= MOST && whole <= MOST + noise, || {
                format!("{}: {way} costs {host:.2} / {whole:.2} us more than a plain launch", contenders.name)
            });
        }
    }
    Ok(())
}
