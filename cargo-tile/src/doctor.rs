//! What this machine has for tile kernels, how to get what is missing, and what to do next: `cargo tile doctor`, and in the
//! repository the example `doctor`.

use std::io::{Write, stdout};
use std::time::{Duration, Instant};
use tile_runtime::cache::{Cache, ReadOnly};
use tile_runtime::library::find_nvdisasm;
use tile_runtime::nvrtc::{self, Nvrtc, Output, Resources};
use tile_runtime::{Device, Error};

/// A kernel small enough that compiling it measures NVRTC itself.
const PROBE: &str = r#"extern "C" __global__ void probe(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}"#;

/// Prints it. `command` is what fetches NVRTC by `setup`: `cargo tile`.
pub fn run(command: &str) {
    let driver = driver();
    let compiler = compiler();
    disassembler();
    cache();
    environment();
    println!();
    let device = Device::auto();
    match &device {
        Ok(device) => println!("Kernels run on {device}: {}.", device.why()),
        Err(error) => println!("TILE_DEVICE names a device that cannot be used: {error}"),
    }
    let too_new = driver.zip(compiler).filter(|(driver, compiler)| compiler > driver);
    if let Some(((driver_major, driver_minor), (major, minor))) = too_new {
        println!(
            "NVRTC {major}.{minor} is newer than the driver's CUDA {driver_major}.{driver_minor}: the driver may refuse its code."
        );
    }
    let there_is_a_gpu = driver.is_some() && Device::cuda_count().is_ok_and(|count| count > 0);
    let next = match &device {
        Err(_) => "unset TILE_DEVICE, or set it to cuda:0, sim or sim-checked".to_owned(),
        Ok(_) if too_new.is_some() => {
            "update the driver, or take the matching nvidia-cuda-nvrtc and set TILE_NVRTC to it".to_owned()
        }
        Ok(_) if compiler.is_none() => match there_is_a_gpu {
            true => format!("fetch NVRTC, so that kernels can be compiled: {command} setup"),
            false => format!(
                "nothing, to run kernels on the simulators; to see PTX and machine code, and to export, fetch NVRTC: \
                 {command} setup"
            ),
        },
        Ok(device) if device.is_simulator() && there_is_a_gpu => {
            "nothing; to use the GPU, unset TILE_DEVICE".to_owned()
        }
        Ok(device) if device.is_simulator() => {
            "nothing, to run kernels on the simulators; a GPU needs compute capability 8.0 and a driver for CUDA 13"
                .to_owned()
        }
        Ok(_) => "nothing: this machine compiles and runs kernels".to_owned(),
    };
    println!("Next: {next}.");
}

/// Prints a heading's start, so that a wait that follows says what it is for.
fn begin(what: &str) {
    print!("{what:<12}");
    stdout().flush().ok();
}

/// Prints what follows the first line under it.
fn indented(text: &str) {
    let mut lines = text.lines();
    println!("{}", lines.next().unwrap_or_default());
    lines.for_each(|line| println!("{:12}{line}", ""));
}

fn driver() -> Option<(u32, u32)> {
    begin("driver");
    let (major, minor) = match Device::driver_version() {
        Ok(version) => version,
        Err(error) => {
            indented(&error.to_string());
            return None;
        }
    };
    println!("CUDA {major}.{minor}");
    let count = Device::cuda_count().unwrap_or(0);
    if count == 0 {
        begin("device");
        println!("the driver sees none");
    }
    for ordinal in 0..count {
        begin("device");
        print!("opening cuda:{ordinal}, about 0.2 s .. ");
        stdout().flush().ok();
        let start = Instant::now();
        let outcome = Device::cuda(ordinal).and_then(|device| Ok((device.memory()?, device)));
        match outcome {
            Ok((memory, device)) => {
                println!("{device}, {:.0} ms", milliseconds(start.elapsed()));
                if let Some((free, total)) = memory {
                    println!("{:12}{} of {} MiB free", "", free >> 20, total >> 20);
                }
            }
            Err(error) => indented(&error.to_string()),
        }
    }
    Some((major, minor))
}

fn compiler() -> Option<(u32, u32)> {
    begin("NVRTC");
    let nvrtc = match Nvrtc::get() {
        Ok(nvrtc) => nvrtc,
        Err(error) => {
            indented(&format!("{error}\nKernels in the cache still run; others need it. The simulators do not."));
            return None;
        }
    };
    println!("{} at {}", nvrtc.version(), nvrtc.path().display());
    begin("");
    print!("compiling a small kernel, well under a second .. ");
    stdout().flush().ok();
    let start = Instant::now();
    let compiled = nvrtc.compile("probe", PROBE, &nvrtc::options("sm_90a", false), Output::Cubin);
    match compiled.map(|compiled| Resources::parse(&compiled.log, "probe")) {
        Ok(Some(resources)) => println!("{:.0} ms for sm_90a: {resources}", milliseconds(start.elapsed())),
        Ok(None) => println!("compiled, but its log says nothing of registers"),
        Err(error @ Error::Nvrtc { .. }) => indented(&format!("it cannot compile for sm_90a:\n{error}")),
        Err(error) => indented(&error.to_string()),
    }
    let version = nvrtc.version();
    let mut numbers = version.split('.').filter_map(|n| n.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

fn disassembler() {
    begin("nvdisasm");
    match find_nvdisasm() {
        Ok(path) => println!("{}", path.display()),
        Err(error) => println!("not found; only `show --format sass` needs it\n{:12}help: {}", "", error.help),
    }
}

fn cache() {
    begin("cache");
    match Cache::process() {
        Err(problem) => println!("not used: {problem}"),
        Ok(cache) => {
            let usage = cache.usage();
            let (kib, cap) = (usage.bytes.div_ceil(1024), usage.cap >> 20);
            let (count, plural) = (usage.entries, if usage.entries == 1 { "" } else { "s" });
            println!("{count} kernel{plural}, {kib} KiB of at most {cap} MiB, in {}", cache.root().display());
        }
    }
    if let Ok(only) = ReadOnly::process() {
        println!("{:12}and, only read, {}", "", only.root().display());
    }
}

/// Values of `TILE_*` variables that mean nothing, and names that are nearly those of some.
fn environment() {
    for problem in tile_runtime::settings::problems() {
        begin("environment");
        println!("{problem}");
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
