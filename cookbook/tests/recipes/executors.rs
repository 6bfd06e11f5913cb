//! The devices that a recipe runs on, and what their results must have in common.

use std::io::Write;
use std::sync::OnceLock;
use tile_runtime::prelude::*;

/// How far results of different executors agree.
#[derive(Clone, Copy, PartialEq)]
pub enum Bits {
    /// Bit by bit on all of them: nothing in the kernel is approximate, and every sum has an order.
    Everywhere,
    /// Bit by bit on the simulators; the GPU's `exp`, `rsqrt` and the like differ in the last places.
    OnSimulators,
    /// The order of sums in tensor cores is not defined.
    Nowhere,
}

/// The GPU, if there is one; says aloud, once, that there is none.
fn gpu() -> Option<&'static Device> {
    static GPU: OnceLock<Option<Device>> = OnceLock::new();
    let find = || match Device::cuda(0) {
        Ok(device) => Some(device),
        Err(error) => {
            // Past the test harness, which keeps what a passing test prints to itself.
            writeln!(std::io::stderr(), "SKIPPED on a GPU, there is none: {error}").ok();
            None
        }
    };
    GPU.get_or_init(find).as_ref()
}

/// Runs a recipe on both simulators, and on the GPU if there is one; each result must be right, and they must agree as
/// `bits` says. The checked simulator fails a launch that it has anything to report about.
pub fn everywhere<T: Element + Copy>(
    bits: Bits,
    run: impl Fn(&Device) -> Result<Vec<T>, tile_runtime::Error>,
    right: impl Fn(&[T]),
) {
    let simulators = [Device::simulator(), Device::checked_simulator()];
    let devices = simulators.iter().map(|device| (device, bits != Bits::Nowhere));
    let mut first: Option<Vec<u32>> = None;
    for (device, must_agree) in devices.chain(gpu().map(|device| (device, bits == Bits::Everywhere))) {
        let found = run(device).unwrap_or_else(|error| panic!("on {}: {error}", device.label()));
        right(&found);
        let found: Vec<u32> = found.iter().map(|value| value.to_bits()).collect();
        let first = first.get_or_insert_with(|| found.clone());
        let differs = first.iter().zip(&found).position(|(a, b)| a != b);
        assert!(!must_agree || differs.is_none(), "{} differs at {differs:?}", device.label());
    }
}
