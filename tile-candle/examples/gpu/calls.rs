//! What a call asks of the driver. Counted by a library that stands before the driver (`count.sh`); without it nothing is
//! counted, and that is said.

use crate::Failures;
use crate::times::contenders;
use candle_core::{Device, Result};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};

const CALLS: u64 = 100;

/// The counting library's functions.
struct Counter {
    library: libloading::os::unix::Library,
}

impl Counter {
    /// The library, if it was loaded in the driver's place.
    fn here() -> Option<Counter> {
        let library = libloading::os::unix::Library::this();
        // SAFETY: only asked whether there is such a symbol.
        let found = unsafe { library.get::<*const ()>(b"driver_calls_name\0") }.is_ok();
        found.then_some(Counter { library })
    }

    /// How often each function was called so far.
    fn counts(&self) -> BTreeMap<String, u64> {
        // SAFETY: count.sh declares them so.
        let (name, count) = unsafe {
            let name = self.library.get::<unsafe extern "C" fn(u32) -> *const c_char>(b"driver_calls_name\0");
            let count = self.library.get::<unsafe extern "C" fn(u32) -> u64>(b"driver_calls_count\0");
            match (name, count) {
                (Ok(name), Ok(count)) => (name, count),
                _ => return BTreeMap::new(),
            }
        };
        let mut counts = BTreeMap::new();
        for function in 0.. {
            // SAFETY: null beyond the last function, else a string of the library.
            let (text, count) = unsafe { (name(function), count(function)) };
            if text.is_null() {
                break;
            }
            // SAFETY: a string of the library, ended by zero.
            counts.insert(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(), count);
        }
        counts
    }
}

pub fn run(device: &Device, failures: &mut Failures) -> Result<()> {
    let Some(counter) = Counter::here() else {
        println!("not counted: the driver is the system's (count.sh makes the one that counts)");
        return Ok(());
    };
    for shape in [(1, 4096, 4096), (16, 4096, 4096), (512, 4096, 4096)] {
        let mut contenders = contenders(device, shape)?;
        println!("{}: calls of the driver a call", contenders.name);
        for (way, call) in &mut contenders.ways {
            call()?;
            let before = counter.counts();
            for _ in 0..CALLS {
                call()?;
            }
            let after = counter.counts();
            device.synchronize()?;
            let made = after.iter().map(|(name, count)| (name, (count - before[name]) as f64 / CALLS as f64));
            let made: Vec<(&String, f64)> = made.filter(|(_, a_call)| *a_call > 0.0).collect();
            let shown = made.iter().map(|(name, a_call)| format!("{name} {a_call}"));
            println!("    {way:8} {}", shown.collect::<Vec<_>>().join(", "));
            // Which context is current is asked of the driver's library, not of the device, and TMA descriptors are encoded there.
            let on_host = |name: &str| ["cuCtxGetCurrent", "cuTensorMapEncodeTiled"].contains(&name);
            let asked: f64 = made.iter().filter(|(name, _)| !on_host(name)).map(|(_, a_call)| a_call).sum();
            let launched: f64 =
                made.iter().filter(|(name, _)| name.starts_with("cuLaunch")).map(|(_, a_call)| a_call).sum();
            if ["plain", "early", "lent", "into"].contains(way) {
                failures
                    .check(asked == 1.0 && launched == 1.0, || format!("{}: {way} is {asked} calls", contenders.name));
            }
        }
    }
    Ok(())
}
