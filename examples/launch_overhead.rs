//! What a launch costs on the host beyond the driver's own call: ours and the bare `cuLaunchKernelEx` of the same kernel,
//! alternating in one process, medians.
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

fn main() -> Result<()> {
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => {
            println!("nothing to measure without a GPU: {error}");
            return Ok(());
        }
    };
    println!("{device}");
    let w = device.zeros::<f16, 2>([N, N])?;
    let x = device.zeros::<f16, 1>([N])?;
    let mut y = device.zeros::<f16, 1>([N])?;

    let bare = Bare::new([address_of(&w).0, address_of(&x).0, address_of(&y).0])?;
    let mut ours = || -> Result<()> {
        kernel::gemv::<f16, 1, 1, 4, 4, 1, 8>::launch(&device, &w, &x, &mut y, 1.0, 0.0)?;
        Ok(())
    };
    ours()?;
    bare.launch()?;
    device.synchronize()?;
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        times[0].push(burst(&device, || bare.launch())?);
        times[1].push(burst(&device, &mut ours)?);
    }
    let [bare_us, ours_us] = times.map(median);
    let mut y = device.zeros::<f16, 1>([N])?;
    let chosen_us = median(
        (0..ROUNDS)
            .map(|_| burst(&device, || Ok(gemv(&device, &w, &x, &mut y, Gemv::default())?)))
            .collect::<Result<Vec<_>>>()?,
    );
    // A specialised kernel looks the value of K up.
    let special_us = median(
        (0..ROUNDS)
            .map(|_| {
                let launch =
                    || Ok(gemv_specialized::<f16, 1, 1, 4, 4, 1, 8>::launch(&device, &w, &x, &mut y, 1.0, 0.0)?);
                burst(&device, launch)
            })
            .collect::<Result<Vec<_>>>()?,
    );
    println!("cuLaunchKernelEx            {bare_us:.3} us");
    println!("kernel::launch              {ours_us:.3} us, {:+.3} beyond it", ours_us - bare_us);
    println!("launch, specialize(K)       {special_us:.3} us, {:+.3} beyond it", special_us - bare_us);
    println!("tile_kernels::gemv::gemv    {chosen_us:.3} us, {:+.3} beyond it", chosen_us - bare_us);
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

/// The same kernel, launched through the driver alone.
struct Bare {
    function: sys::CUfunction,
    stream: sys::CUstream,
    pointers: [u64; 3],
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
        let name = std::ffi::CString::new(program.name)?;
        // SAFETY: the driver is initialised and its library present, since a device is open; the image is a cubin.
        unsafe {
            let context = result::primary_ctx::retain(result::device::get(0)?)?;
            result::ctx::set_current(context)?;
            let module = result::module::load_data(compiled.code.as_ptr().cast())?;
            let function = result::module::get_function(module, name)?;
            let stream = result::stream::create(result::stream::StreamKind::NonBlocking)?;
            Ok(Bare { function, stream, pointers })
        }
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
