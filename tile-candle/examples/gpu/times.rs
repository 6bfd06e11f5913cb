//! Microseconds a call: through candle, and of the same kernel launched by itself.

use crate::Failures;
use crate::data::normal;
use candle_core::cuda_backend::cudarc::driver::CudaSlice;
use candle_core::{CudaDevice, DType, Device, Result, Shape, Tensor};
use half::bf16;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;
use tile_candle::{GemmOptions, Gemv, gemm, gemm_into, gemv, gemv_into};
use tile_kernels::gemm::Gemm;
use tile_runtime::interop::{borrow_cudarc_stream, lend_cudarc, lend_cudarc_mut};
use tile_runtime::kernel::Place;

/// The most that a call through candle may cost beyond a plain launch, in microseconds.
const MOST: f64 = 1.0;
const ROUNDS: usize = 41;

/// One product, computed or allocated for in each of the [`WAYS`], a closure that owns its tensors.
pub struct Contenders {
    pub name: String,
    pub ways: Vec<(&'static str, Box<dyn FnMut() -> Result<()>>)>,
}

/// Names of the ways, in the order of [`Contenders::ways`].
///
/// | way | what it is |
/// |---|---|
/// | plain | A launch on tensors and a stream of ours, in the stream's order, which is what a stream of other code allows. |
/// | early | The same, where the kernel may start before the one in front of it is done (programmatic dependent launch). |
/// | lent | A launch on candle's stream and memory that was lent once: what is left to it is not `tile-candle`'s. |
/// | into | Through candle into a tensor that is there. |
/// | new | Through candle into a new tensor. |
/// | beside | As `lent`, and candle's `Tensor::empty` of the result's shape: what a new tensor costs while kernels are queued. |
/// | matmul | candle's own product into a new tensor. |
pub const WAYS: [&str; 7] = ["plain", "early", "lent", "into", "new", "beside", "matmul"];

pub fn failed(error: impl std::error::Error + Send + Sync + 'static) -> candle_core::Error {
    candle_core::Error::wrap(error)
}

fn host(tensor: &Tensor) -> Result<Vec<bf16>> {
    tensor.to_device(&Device::Cpu)?.flatten_all()?.to_vec1()
}

/// Elements of candle's that are lent as long as the program runs: the contenders own nothing that borrows.
fn lent(cuda: &CudaDevice, values: &[bf16]) -> Result<&'static mut CudaSlice<bf16>> {
    Ok(Box::leak(Box::new(cuda.cuda_stream().clone_htod(values).map_err(failed)?)))
}

/// M x N x K; M = 1 is gemv.
pub fn contenders(device: &Device, (m, n, k): (usize, usize, usize)) -> Result<Contenders> {
    let ours = tile_runtime::Device::cuda(0).map_err(failed)?;
    let stream = ours.stream().map_err(failed)?;
    let w = normal((n, k), DType::BF16, device)?;
    let plain_w = Rc::new(ours.tensor(&host(&w)?, [n, k]).map_err(failed)?);
    let cuda = device.as_cuda_device()?;
    let borrowed = borrow_cudarc_stream(&ours, &cuda.cuda_stream()).map_err(failed)?;
    let lent_w = lend_cudarc::<bf16, 2>(&borrowed, lent(cuda, &host(&w)?)?, [n, k]).map_err(failed)?;
    let mut ways: Vec<(&'static str, Box<dyn FnMut() -> Result<()>>)> = Vec::new();
    let on = device.clone();
    // SAFETY: nobody reads it.
    let empty = move |shape: Shape| unsafe { Tensor::empty(shape, DType::BF16, &on) };
    if m == 1 {
        let x = normal(k, DType::BF16, device)?;
        let plain_x = Rc::new(ours.tensor(&host(&x)?, [k]).map_err(failed)?);
        for way in ["plain", "early"] {
            let (stream, w, x) = (stream.clone(), plain_w.clone(), plain_x.clone());
            let mut y = ours.zeros::<bf16, 1>([n]).map_err(failed)?;
            ways.push((
                way,
                Box::new(move || {
                    let place = Place::of(&stream);
                    let place = if way == "plain" { place.in_order() } else { place };
                    tile_kernels::gemv::gemv(&place, &*w, &*x, &mut y, Gemv::default()).map_err(failed)
                }),
            ));
        }
        let lent_x = lend_cudarc::<bf16, 1>(&borrowed, lent(cuda, &host(&x)?)?, [k]).map_err(failed)?;
        let mut lent_y =
            lend_cudarc_mut::<bf16, 1>(&borrowed, lent(cuda, &vec![bf16::ZERO; n])?, [n]).map_err(failed)?;
        let launch = Rc::new(RefCell::new(move || {
            tile_kernels::gemv::gemv(&borrowed, &lent_w, &lent_x, &mut lent_y, Gemv::default()).map_err(failed)
        }));
        let again = launch.clone();
        ways.push(("lent", Box::new(move || (launch.borrow_mut())())));
        let y = Tensor::zeros(n, DType::BF16, device)?;
        let of = (w.clone(), x.clone());
        ways.push(("into", Box::new(move || gemv_into(&y, &of.0, &of.1, Gemv::default()))));
        let of = (w.clone(), x.clone());
        ways.push(("new", Box::new(move || gemv(&of.0, &of.1).map(drop))));
        ways.push(("beside", Box::new(move || empty(n.into()).and_then(|_| (again.borrow_mut())()))));
        let of = (x.unsqueeze(0)?, w.t()?);
        ways.push(("matmul", Box::new(move || of.0.matmul(&of.1).map(drop))));
    } else {
        let a = normal((m, k), DType::BF16, device)?;
        let plain_a = Rc::new(ours.tensor(&host(&a)?, [m, k]).map_err(failed)?);
        for way in ["plain", "early"] {
            let (stream, w, a) = (stream.clone(), plain_w.clone(), plain_a.clone());
            let mut c = ours.zeros::<bf16, 2>([m, n]).map_err(failed)?;
            ways.push((
                way,
                Box::new(move || {
                    let place = Place::of(&stream);
                    let place = if way == "plain" { place.in_order() } else { place };
                    tile_kernels::gemm::gemm(&place, &*a, &*w, &mut c, &Gemm::nt()).map_err(failed)
                }),
            ));
        }
        let lent_a = lend_cudarc::<bf16, 2>(&borrowed, lent(cuda, &host(&a)?)?, [m, k]).map_err(failed)?;
        let mut lent_c =
            lend_cudarc_mut::<bf16, 2>(&borrowed, lent(cuda, &vec![bf16::ZERO; m * n])?, [m, n]).map_err(failed)?;
        let launch = Rc::new(RefCell::new(move || {
            tile_kernels::gemm::gemm(&borrowed, &lent_a, &lent_w, &mut lent_c, &Gemm::nt()).map_err(failed)
        }));
        let again = launch.clone();
        ways.push(("lent", Box::new(move || (launch.borrow_mut())())));
        let c = Tensor::zeros((m, n), DType::BF16, device)?;
        let of = (a, w.t()?);
        let (into, new, matmul) = (of.clone(), of.clone(), of);
        ways.push(("into", Box::new(move || gemm_into(&c, &into.0, &into.1, None, GemmOptions::default()))));
        ways.push(("new", Box::new(move || gemm(&new.0, &new.1, None, GemmOptions::default()).map(drop))));
        ways.push(("beside", Box::new(move || empty((m, n).into()).and_then(|_| (again.borrow_mut())()))));
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
        let [plain, _, lent, into, new, beside, _] = times[..] else { continue };
        // What is beyond a launch of ours, and for a new tensor beyond candle's making of one too. Device times of long kernels
        // differ by more than a microsecond from run to run.
        let noise = 0.02 * plain.1;
        println!("{:24} lent costs {:.2} / {:.2} us more than plain", "", lent.0 - plain.0, lent.1 - plain.1);
        for (way, time, than, base) in [("into", into, "plain", plain), ("new", new, "beside", beside)] {
            let (host, whole) = (time.0 - base.0, time.1 - base.1);
            println!("{:24} {way} costs {host:.2} / {whole:.2} us more than {than}", "");
            failures.check(host <= MOST && whole <= MOST + noise, || {
                format!("{}: {way} costs {host:.2} / {whole:.2} us more than {than}", contenders.name)
            });
        }
    }
    Ok(())
}
