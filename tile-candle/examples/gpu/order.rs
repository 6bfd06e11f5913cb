//! What must give the same bits however often it is done: calls, streams, graphs.

use crate::data::{bits, distance, normal, poison, poison_pool};
use crate::times::failed;
use crate::{Failures, REPEATS};
use candle_core::cuda_backend::cudarc::driver::sys;
use candle_core::{DType, Device, Result, Tensor};
use tile_candle::{Activation, GemmOptions, Gemv, gemm, gemm_into, gemv, gemv_into};

const DTYPE: DType = DType::BF16;

/// A gemv and a gemm with an epilogue, and results to write to.
struct Work {
    a: Tensor,
    w: Tensor,
    bias: Tensor,
    x: Tensor,
    c: Tensor,
    y: Tensor,
}

impl Work {
    fn new(device: &Device, (m, n, k): (usize, usize, usize)) -> Result<Work> {
        Ok(Work {
            a: normal((m, k), DTYPE, device)?,
            w: normal((n, k), DTYPE, device)?,
            bias: normal(n, DTYPE, device)?,
            x: normal(k, DTYPE, device)?,
            c: Tensor::zeros((m, n), DTYPE, device)?,
            y: Tensor::zeros(n, DTYPE, device)?,
        })
    }

    fn options() -> GemmOptions {
        GemmOptions { activation: Activation::Relu, ..GemmOptions::default() }
    }

    /// Into the results that are there.
    fn launch(&self) -> Result<()> {
        gemv_into(&self.y, &self.w, &self.x, Gemv::default())?;
        gemm_into(&self.c, &self.a, &self.w.t()?, Some(&self.bias), Self::options())
    }

    fn poison(&self) -> Result<()> {
        poison(&self.y)?;
        poison(&self.c)
    }

    fn bits(&self) -> Result<[Vec<u32>; 2]> {
        Ok([bits(&self.y)?, bits(&self.c)?])
    }

    /// That the results are candle's.
    fn check(&self, what: &str, failures: &mut Failures) -> Result<()> {
        let k = self.x.elem_count();
        let y = self.w.matmul(&self.x.unsqueeze(1)?)?.squeeze(1)?;
        let sum = self.a.to_dtype(DType::F32)?.matmul(&self.w.to_dtype(DType::F32)?.t()?)?;
        let c = sum.broadcast_add(&self.bias.to_dtype(DType::F32)?)?.relu()?.to_dtype(DTYPE)?;
        for (name, found, expected) in [("gemv", &self.y, &y), ("gemm", &self.c, &c)] {
            let far = distance(found, expected, k, 2.0)?;
            failures.check(far <= 1.0, || format!("{what}: {name} is {far} times what is allowed from candle's"));
        }
        Ok(())
    }
}

/// Whether any bits differ.
fn others(first: &[Vec<u32>; 2], found: &[Vec<u32>; 2]) -> bool {
    first.iter().zip(found).any(|(first, found)| first != found)
}

pub fn repeats(device: &Device, failures: &mut Failures) -> Result<()> {
    let work = Work::new(device, (192, 1024, 2048))?;
    work.launch()?;
    work.check("repeats", failures)?;
    let first = work.bits()?;
    let (mut into, mut new) = (0, 0);
    for _ in 0..REPEATS {
        work.poison()?;
        work.launch()?;
        into += usize::from(others(&first, &work.bits()?));
        poison_pool(1024, DTYPE, device)?;
        let y = gemv(&work.w, &work.x)?;
        poison_pool((192, 1024), DTYPE, device)?;
        let c = gemm(&work.a, &work.w.t()?, Some(&work.bias), Work::options())?;
        new += usize::from(others(&first, &[bits(&y)?, bits(&c)?]));
    }
    println!(
        "{REPEATS} calls of gemv and gemm into tensors that are there, {into} with other bits; into new ones, {new}"
    );
    failures.check(into + new == 0, || format!("repeats: {into} and {new} of {REPEATS} with other bits"));
    Ok(())
}

/// Two devices of candle, each with a stream of its own; then two threads, each on its own default stream.
pub fn streams(_: &Device, failures: &mut Failures) -> Result<()> {
    let devices = [Device::new_cuda_with_stream(0)?, Device::new_cuda_with_stream(0)?];
    let works = [Work::new(&devices[0], (64, 1024, 2048))?, Work::new(&devices[1], (128, 512, 4096))?];
    let mut first = Vec::new();
    for work in &works {
        work.launch()?;
        work.check("streams", failures)?;
        first.push(work.bits()?);
    }
    let mut wrong = 0;
    for round in 0..REPEATS {
        for work in &works {
            work.poison()?;
            work.launch()?;
        }
        if round % 10 == 0 || round + 1 == REPEATS {
            for (work, first) in works.iter().zip(&first) {
                wrong += usize::from(others(first, &work.bits()?));
            }
        }
    }
    println!("{REPEATS} rounds on two streams: {wrong} with other bits");
    failures.check(wrong == 0, || format!("streams: {wrong} with other bits"));

    let thread = |shape: (usize, usize, usize)| -> Result<usize> {
        let work = Work::new(&Device::new_cuda(0)?, shape)?;
        work.launch()?;
        let first = work.bits()?;
        let mut wrong = 0;
        for round in 0..REPEATS {
            work.poison()?;
            work.launch()?;
            if round % 10 == 0 || round + 1 == REPEATS {
                wrong += usize::from(others(&first, &work.bits()?));
            }
        }
        Ok(wrong)
    };
    let wrong = std::thread::scope(|scope| {
        let other = scope.spawn(|| thread((64, 1024, 2048)));
        let here = thread((128, 512, 4096));
        [here, other.join().unwrap_or_else(|_| Err(candle_core::Error::msg("the thread panicked")))]
    });
    let wrong = wrong.into_iter().sum::<Result<usize>>()?;
    println!("{REPEATS} rounds on the default streams of two threads: {wrong} with other bits");
    failures.check(wrong == 0, || format!("two threads: {wrong} with other bits"));
    Ok(())
}

/// Launches that candle's stream captures, replayed with other inputs.
pub fn graph(_: &Device, failures: &mut Failures) -> Result<()> {
    let device = Device::new_cuda_with_stream(0)?;
    let cuda = device.as_cuda_device()?;
    // Events of other streams cannot be captured.
    // SAFETY: all of this device's tensors are used on its one stream.
    unsafe { cuda.disable_event_tracking() };
    let stream = cuda.cuda_stream();
    let work = Work::new(&device, (64, 1024, 2048))?;
    let inputs: Vec<Tensor> = (0..8).map(|_| normal(2048, DTYPE, &device)).collect::<Result<_>>()?;
    let mut expected = Vec::new();
    for x in &inputs {
        work.x.slice_set(x, 0, 0)?;
        work.poison()?;
        // Compiled, and workspaces made, before the capture.
        work.launch()?;
        work.check("graph, before it", failures)?;
        expected.push(work.bits()?);
    }
    stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).map_err(failed)?;
    let launched = work.launch();
    let graph = stream.end_capture(sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    launched?;
    let graph = graph.map_err(failed)?.ok_or_else(|| candle_core::Error::msg("nothing was captured"))?;
    let mut wrong = 0;
    for round in 0..REPEATS {
        let at = round % inputs.len();
        work.x.slice_set(&inputs[at], 0, 0)?;
        work.poison()?;
        graph.launch().map_err(failed)?;
        wrong += usize::from(others(&expected[at], &work.bits()?));
    }
    println!(
        "{REPEATS} launches of a graph of candle's stream, of {} inputs in turns: {wrong} with other bits",
        inputs.len()
    );
    failures.check(wrong == 0, || format!("graph: {wrong} of {REPEATS} with other bits"));
    Ok(())
}
