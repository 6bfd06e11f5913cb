//! Which parameters of the [model](super::model) hold on a device.
//!
//! Devices of one architecture have the same multiprocessors, and differ in memory and in what the second-level cache keeps of it: the rate
//! of memory, which the driver tells, says which of those that were measured a device is like.

use super::model::Parameters;
use std::str::FromStr;
use tile_runtime::Device;

/// A device that parameters were fitted on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// An H100 (SXM) with 80 GB.
    H100,
    /// An H200; also of simulators, and of devices that do not say how fast their memory is.
    #[default]
    H200,
}

/// Bytes a second of memory from which on a device is taken for an H200: half way between an H100's 3.35e12 and its 4.9e12.
const FAST: u64 = 4_100_000_000_000;

impl Policy {
    /// That of the device which is most like this one.
    pub fn of(device: &Device) -> Policy {
        Policy::of_rate(device.memory_rate())
    }

    /// That of a device whose memory gives so many bytes a second.
    pub fn of_rate(rate: Option<u64>) -> Policy {
        match rate {
            Some(rate) if rate < FAST => Policy::H100,
            Some(_) | None => Policy::H200,
        }
    }

    /// The parameters.
    pub fn parameters(self) -> &'static Parameters {
        match self {
            Policy::H100 => &H100,
            Policy::H200 => &H200,
        }
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(name: &str) -> Result<Policy, String> {
        match name {
            "h100" => Ok(Policy::H100),
            "h200" => Ok(Policy::H200),
            _ => Err(format!("`{name}` is no device that was measured: there are h100 and h200")),
        }
    }
}

/// Fitted to 204 shapes in bf16 on an H100 (`bench/results/gemm-choice-fit-h100.json`): 108 of the book in every layout, and 96 of two seeds. The
/// choice takes 1.1% longer than the best one in geometric mean over them, 9.8% at most; on 50 shapes of other seeds
/// (`bench/results/gemm-choice-heldout-h100.json`) 2.7%, 21% at most. `early` is where launches before the previous one's end cease to gain.
const H100: Parameters = Parameters {
    fixed: 2.579,
    gather: 0.01436,
    products: [6.576e6, 6.467e6, 6.684e6],
    step: [0.0992, 0.1716],
    agree: 0.05569,
    port: 0.3768e6,
    shared: 1.409e6,
    cache: 14.55e6,
    lines: [0.1314, 0.6796],
    sectors: [2.328, 0.863],
    merged: 0.1784,
    fresh: 58.42e6,
    thin: 0.3724,
    across: [0.003281, 0.002384],
    turn: 0.2405,
    store: 51910.0,
    last: 0.8493,
    memory: 3.054e6,
    under_way: 70790.0,
    kept: 62.45e6,
    again: 1.296,
    ramp: 3.213,
    arrive: 2.497,
    adds: 66310.0,
    shares: 42870.0,
    powers: [4.9, 3.465],
    pace: [
        0.936, 1.060, 1.022, 0.943, 1.069, 0.991, 1.162, 1.109, 0.998, 0.799, 1.137, 0.718, 1.029, 0.760, 0.823, 0.794,
        1.189, 1.113, 0.901, 1.073, 1.205, 1.242, 1.061, 1.187, 1.147, 0.813, 0.777, 1.008, 0.981, 0.890, 1.000, 1.069,
        1.072, 1.081, 1.048, 0.951, 0.878, 0.872, 0.856, 0.943, 0.826, 0.874, 0.936, 1.057, 0.677, 0.837, 0.841, 0.855,
        0.894, 0.980, 0.942, 1.028, 1.014, 0.956, 0.966, 1.003, 0.983, 0.981, 1.170, 1.134, 1.124, 1.375, 1.325, 1.358,
        1.505, 1.412, 1.138, 1.081, 1.092, 0.713, 1.163,
    ],
    reach: [
        1.236, 1.065, 0.846, 1.103, 0.875, 1.197, 1.028, 1.076, 0.807, 0.999, 0.703, 0.746, 0.993, 0.783, 1.020, 0.808,
        1.002, 1.001, 1.139, 0.869, 1.044, 1.051, 1.020, 1.058, 1.119, 0.895, 0.944, 0.908, 1.103, 1.234, 0.924, 1.066,
        1.149, 1.151, 1.128, 0.784, 0.949, 0.895, 0.942, 0.739, 1.018, 0.990, 0.934, 1.172, 1.146, 1.066, 1.093, 1.121,
        1.107, 1.108, 1.214, 1.013, 0.959, 1.094, 1.345, 1.110, 1.076, 0.967, 1.083, 1.067, 1.081, 1.284, 1.058, 1.060,
        1.075, 1.023, 1.069, 1.136, 1.210, 1.024, 1.210,
    ],
    early: 22.0,
};

/// Fitted to 338 shapes of operands of 16 bits that TMA fetches, on an H200: 190 of three seeds, 29 of the book
/// (`bench/results/gemm-random-fit-h200.json`), 64 more, of which 27 had been slow as called (`bench/results/gemm-split-fit-h200.json`), and
/// 55 for clusters of two axes, of which 23 had been slow (`bench/results/gemm-cluster-fit-h200.json`). The choice takes 2.1% longer than the
/// best one in geometric mean over them. They were measured with lower panels for clusters than the kernel has now.
const H200: Parameters = Parameters {
    fixed: 2.402,
    gather: 0.1371,
    products: [7.52e6, 7.788e6, 6.11e6],
    step: [0.04617, 0.05582],
    agree: 0.06603,
    port: 0.804e6,
    shared: 2.638e6,
    cache: 27.83e6,
    lines: [1.875, 0.6885],
    sectors: [2.408, 1.455],
    merged: 0.07751,
    fresh: 90.54e6,
    thin: 0.4113,
    across: [0.00227, 0.01542],
    turn: 0.2378,
    store: 39180.0,
    last: 1.0,
    memory: 4.042e6,
    under_way: 3.946e6,
    kept: 17.07e6,
    again: 0.5107,
    ramp: 4.757,
    arrive: 3.255,
    adds: 57840.0,
    shares: 40600.0,
    powers: [2.059, 3.592],
    pace: [
        0.876, 1.043, 0.879, 1.096, 1.164, 1.260, 1.166, 1.331, 0.847, 1.067, 1.178, 1.133, 1.182, 1.163, 1.125, 1.145,
        1.091, 1.144, 1.202, 1.245, 1.349, 1.320, 1.134, 1.225, 1.215, 1.133, 1.355, 0.775, 0.900, 0.916, 0.837, 0.903,
        0.890, 0.831, 0.860, 0.877, 0.859, 0.833, 0.767, 0.674, 0.765, 0.723, 0.758, 0.909, 0.677, 0.761, 0.722, 0.768,
        0.812, 0.835, 0.753, 0.814, 0.778, 0.785, 0.798, 0.826, 1.316, 1.342, 1.264, 1.295, 1.083, 1.017, 1.342, 1.371,
        1.266, 1.378, 1.011, 1.218, 0.984, 0.860, 0.923,
    ],
    reach: [
        0.931, 0.948, 0.961, 1.103, 0.854, 1.031, 1.093, 1.115, 1.211, 0.933, 0.801, 0.894, 0.775, 1.015, 0.985, 0.919,
        0.960, 0.924, 1.086, 1.053, 0.826, 0.858, 1.041, 1.170, 1.034, 0.854, 0.839, 1.151, 1.199, 1.055, 0.934, 1.175,
        1.155, 1.094, 1.145, 0.854, 0.856, 0.902, 0.875, 1.013, 0.986, 1.066, 0.972, 1.104, 1.034, 0.957, 0.870, 0.994,
        0.978, 1.175, 0.981, 0.787, 1.001, 0.870, 0.996, 0.875, 0.730, 0.854, 0.983, 1.089, 1.153, 0.850, 1.088, 0.969,
        0.676, 0.676, 1.077, 1.061, 1.573, 0.745, 1.518,
    ],
    early: 22.0,
};

#[cfg(test)]
mod tests {
    use super::*;

    /// By the rates that drivers tell of an H100, an H100 NVL, an H200 and of nothing.
    #[test]
    fn devices_by_their_memory() {
        for (rate, policy) in [
            (Some(3_352_320_000_000), Policy::H100),
            (Some(3_938_000_000_000), Policy::H100),
            (Some(4_916_736_000_000), Policy::H200),
            (None, Policy::H200),
        ] {
            assert_eq!(Policy::of_rate(rate), policy, "{rate:?}");
        }
        assert_eq!(Policy::of(&Device::simulator()), Policy::default());
        assert_eq!(["h100", "h200"].map(str::parse), [Ok(Policy::H100), Ok(Policy::H200)]);
        assert!("a100".parse::<Policy>().is_err());
    }

    /// A fit that changes nothing leaves the parameters as they are: none is outside of what can be meant.
    #[test]
    fn parameters_are_within_bounds() {
        for policy in [Policy::H100, Policy::H200] {
            let parameters = policy.parameters();
            assert_eq!(Parameters::from_array(parameters.to_array()), *parameters, "{policy:?}");
            assert!(parameters.to_array().iter().all(|value| value.is_finite() && *value > 0.0), "{policy:?}");
        }
    }
}
