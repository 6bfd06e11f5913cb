//! What a launch costs on the host beyond the driver's own call, and what a dependent chain costs on the device.
//!
//! Host: the bare `cuLaunchKernelEx` and `cuGraphLaunch` of a kernel and of the graph of it alone, and ours, alternating
//! in one process, medians. Device: 64 products, each of the previous one's result, in a graph, with and without
//! dependent launch.
//!
//! ```console
//! $ cargo run --release --example launch_overhead
//! ```

use anyhow::{Result, anyhow, ensure};
use cudarc::driver::{result, sys};
use std::ffi::c_void;
use std::time::Instant;
use tile_ir::emit::cuda::emit;
use tile_ir::ir::Target;
use tile_kernels::gemv::specialized::gemv_specialized;
use tile_kernels::gemv::{Gemv, definition, gemv, kernel};
use tile_runtime::interop::address_of;
use tile_runtime::nvrtc::{Nvrtc, Output, options};
use tile_runtime::prelude::*;

const N: usize = 1024;
const BURST: usize = 200;
const ROUNDS: usize = 101;
/// Products in a chain.
const LINKS: usize = 64;

fn main() -> Result<()> {
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => {
            println!("nothing to measure without a GPU: {error}");
            return Ok(());
        }
    };
    println!("{device}");
    host(&device)?;
    for n in [1024, 4096] {
        chain(&device, n)?;
    }
    Ok(())
}

fn host(device: &Device) -> Result<()> {
    let w = device.zeros::<f16, 2>([N, N])?;
    let x = device.zeros::<f16, 1>([N])?;
    let mut y = device.zeros::<f16, 1>([N])?;
    let mut bare = Bare::new([address_of(&w).0, address_of(&x).0, address_of(&y).0])?;
    let prepared = kernel::gemv::<f16, 1, 1, 4, 4, 1, 8>::prepare(device, &w, &x, &mut y, 1.0, 0.0)?;
    let graph = prepared.graph()?;
    // Each is used once before it is timed, and the bare graph is made.
    bare.launch()?;
    bare.capture()?;
    let mut times: [Vec<f64>; 7] = Default::default();
    for round in 0..ROUNDS + 1 {
        let us = [
            burst(device, || bare.launch())?,
            burst(device, || Ok(kernel::gemv::<f16, 1, 1, 4, 4, 1, 8>::launch(device, &w, &x, &mut y, 1.0, 0.0)?))?,
            burst(device, || Ok(gemv_specialized::<f16, 1, 1, 4, 4, 1, 8>::launch(device, &w, &x, &mut y, 1.0, 0.0)?))?,
            burst(device, || Ok(gemv(device, &w, &x, &mut y, Gemv::default())?))?,
            burst(device, || Ok(prepared.launch()?))?,
            burst(device, || bare.launch_graph())?,
            burst(device, || Ok(graph.launch()?))?,
        ];
        if round > 0 {
            times.iter_mut().zip(us).for_each(|(times, us)| times.push(us));
        }
    }
    let [bare_us, launch, special, chosen, prepared_us, bare_graph, graph_us] = times.map(median);
    let beyond = |what: &str, us: f64, bare: f64| {
        println!("{what:<28}{us:.3} us, {:+.3} beyond it, {:.2}x", us - bare, us / bare);
    };
    println!("cuLaunchKernelEx            {bare_us:.3} us");
    beyond("kernel::launch", launch, bare_us);
    // A specialised kernel looks the value of K up.
    beyond("launch, specialize(K)", special, bare_us);
    beyond("tile_kernels::gemv::gemv", chosen, bare_us);
    beyond("PreparedLaunch::launch", prepared_us, bare_us);
    println!("cuGraphLaunch, one kernel   {bare_graph:.3} us");
    beyond("Graph::launch, one kernel", graph_us, bare_graph);
    Ok(())
}

/// Device time a product of a chain of dependent products, each with weights of its own.
fn chain(device: &Device, n: usize) -> Result<()> {
    let weights: Vec<_> = (0..LINKS).map(|_| device.zeros::<f16, 2>([n, n])).collect::<Result<_, _>>()?;
    let mut vectors: Vec<_> = (0..=LINKS).map(|_| device.zeros::<f16, 1>([n])).collect::<Result<_, _>>()?;
    let stream = device.stream()?;
    // The first launch compiles, which a capture must not.
    let (before, after) = vectors.split_at_mut(1);
    gemv(device, &weights[0], &before[0], &mut after[0], Gemv::default())?;
    let mut capture = |early: bool| -> Result<_> {
        device.set_dependent_launch(early);
        let graph = device.capture(|stream| {
            for (link, w) in weights.iter().enumerate() {
                let (before, after) = vectors.split_at_mut(link + 1);
                gemv(stream, w, &before[link], &mut after[0], Gemv::default())?;
            }
            Ok(())
        });
        device.set_dependent_launch(true);
        Ok(graph?)
    };
    let graphs = [capture(false)?, capture(true)?];
    let mut times: [Vec<f64>; 2] = Default::default();
    for round in 0..32 {
        for (graph, times) in graphs.iter().zip(&mut times) {
            let start = stream.record()?;
            for _ in 0..5 {
                graph.launch_on(&stream)?;
            }
            let end = stream.record()?;
            end.synchronize()?;
            if round > 0 {
                times.push(end.since(&start)?.as_secs_f64() * 1e6 / (5 * LINKS) as f64);
            }
        }
    }
    let [plain, early] = times.map(median);
    println!(
        "chain of {LINKS} products {n} x {n}, us a product: {plain:.3}, dependent launch {early:.3}, {:.3}x",
        plain / early
    );
    Ok(())
}

/// Microseconds a call on the host, over a burst short enough not to fill the driver's queue.
fn burst(device: &Device, mut call: impl FnMut() -> Result<()>) -> Result<f64> {
    device.synchronize()?;
    let start = Instant::now();
    for _ in 0..BURST {
        call()?;
    }
    let time = start.elapsed().as_secs_f64() * 1e6 / BURST as f64;
    device.synchronize()?;
    Ok(time)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The measured kernel, launched through the driver alone.
struct Bare {
    function: sys::CUfunction,
    stream: sys::CUstream,
    pointers: [u64; 3],
    graph: sys::CUgraphExec,
}

impl Bare {
    fn new(pointers: [u64; 3]) -> Result<Bare> {
        let kernel = definition().kernel()?;
        let wanted = |i: &tile_ir::ir::Instance| i.dtypes[0].name() == "f16" && i.consts == [1, 1, 4, 4, 1, 8];
        let instance = kernel.instances.iter().find(|i| wanted(i)).ok_or_else(|| anyhow!("no such instance"))?;
        let program =
            tile_ir::lower::lower(kernel, instance, Target::Sm90a).map_err(|d| anyhow!("{}", d[0].message))?;
        let compiled =
            Nvrtc::get()?.compile(&program.name, &emit(&program), &options("sm_90a", false), Output::Cubin)?;
        let name = std::ffi::CString::new(tile_ir::emit::cuda::symbol(&program))?;
        // SAFETY: the driver is initialised and its library present, since a device is open; the image is a cubin.
        unsafe {
            let context = result::primary_ctx::retain(result::device::get(0)?)?;
            result::ctx::set_current(context)?;
            let module = result::module::load_data(compiled.code.as_ptr().cast())?;
            let function = result::module::get_function(module, name)?;
            let stream = result::stream::create(result::stream::StreamKind::NonBlocking)?;
            Ok(Bare { function, stream, pointers, graph: std::ptr::null_mut() })
        }
    }

    /// Makes the graph of one launch.
    fn capture(&mut self) -> Result<()> {
        let mut graph = std::ptr::null_mut();
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: a valid stream that is not being captured.
        unsafe { sys::cuStreamBeginCapture_v2(self.stream, mode).result()? };
        self.launch()?;
        // SAFETY: the stream is being captured; the graph is valid until the end of the process.
        unsafe {
            sys::cuStreamEndCapture(self.stream, &mut graph).result()?;
            sys::cuGraphInstantiateWithFlags(&mut self.graph, graph, 0).result()?;
        }
        Ok(())
    }

    fn launch_graph(&self) -> Result<()> {
        // SAFETY: made by `capture`.
        unsafe { sys::cuGraphLaunch(self.graph, self.stream).result()? };
        Ok(())
    }

    fn launch(&self) -> Result<()> {
        let (mut n, mut k, mut stride, mut alpha, mut beta) = (N as i32, N as i32, N as i32, 1f32, 0f32);
        let [mut w, mut x, mut y] = self.pointers;
        let mut params: [*mut c_void; 8] = [
            (&raw mut w).cast(),
            (&raw mut x).cast(),
            (&raw mut y).cast(),
            (&raw mut n).cast(),
            (&raw mut k).cast(),
            (&raw mut stride).cast(),
            (&raw mut alpha).cast(),
            (&raw mut beta).cast(),
        ];
        // SAFETY: an all-zero launch configuration is valid, and every field that must not be zero is set below.
        let mut config: sys::CUlaunchConfig = unsafe { std::mem::zeroed() };
        (config.gridDimX, config.gridDimY, config.gridDimZ) = (N as u32 / 4, 1, 1);
        (config.blockDimX, config.blockDimY, config.blockDimZ) = (32, 4, 1);
        config.hStream = self.stream;
        // SAFETY: the parameters are those of the kernel's signature, in order, and outlive the call.
        let status =
            unsafe { sys::cuLaunchKernelEx(&config, self.function, params.as_mut_ptr(), std::ptr::null_mut()) };
        ensure!(status == sys::CUresult::CUDA_SUCCESS, "cuLaunchKernelEx: {status:?}");
        Ok(())
    }
}
