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
/// 55 for clusters of two axes, of which 23 had been slow (`bench/results/gemm-cluster-fit-h200.json`). The choice takes 2.4% longer than the
/// best one in geometric mean over them. They were measured with lower panels for clusters than the kernel has now. On shapes of the book, instances
/// that were not timed there counted as they do on an H100, relative to the best; paces were held near those of an H100, and the rate of
/// memory at 4.6 TB/s.
const H200: Parameters = Parameters {
    fixed: 2.786,
    gather: 0.1132,
    products: [6.801e6, 7.256e6, 7.103e6],
    step: [0.09049, 0.1783],
    agree: 0.0186,
    port: 0.4676e6,
    shared: 2.09e6,
    cache: 48.21e6,
    lines: [1.352, 1.52],
    sectors: [1.708, 2.755],
    merged: 0.02724,
    fresh: 38.68e6,
    thin: 0.3864,
    across: [0.003232, 0.002939],
    turn: 0.2976,
    store: 45790.0,
    last: 0.8506,
    memory: 4.6e6,
    under_way: 0.2258e6,
    kept: 28.45e6,
    again: 1.175,
    ramp: 3.967,
    arrive: 3.364,
    adds: 53580.0,
    shares: 43070.0,
    powers: [2.327, 2.414],
    pace: [
        0.984, 1.036, 0.993, 1.033, 1.086, 1.184, 1.119, 1.208, 0.999, 0.802, 0.995, 0.731, 0.983, 0.788, 0.880, 0.892,
        1.129, 1.103, 0.956, 1.062, 1.236, 1.260, 1.158, 1.152, 1.178, 0.845, 0.949, 0.947, 0.955, 0.937, 1.011, 1.052,
        1.049, 1.005, 1.033, 0.912, 0.877, 0.835, 0.867, 0.902, 0.791, 0.844, 0.867, 1.140, 0.732, 0.826, 0.815, 0.864,
        0.884, 0.978, 0.926, 0.981, 0.890, 0.939, 0.971, 0.995, 0.986, 1.052, 1.134, 1.189, 1.149, 1.170, 1.319, 1.294,
        1.312, 1.315, 1.139, 1.135, 1.168, 0.681, 1.186,
    ],
    reach: [
        1.018, 1.031, 1.013, 1.053, 0.949, 1.104, 1.139, 1.058, 1.021, 1.008, 0.840, 1.023, 0.884, 1.060, 1.028, 1.001,
        0.983, 0.979, 1.065, 1.041, 0.995, 0.925, 0.967, 1.089, 1.012, 0.970, 1.013, 1.000, 0.980, 1.029, 0.999, 1.012,
        1.007, 1.002, 1.004, 0.949, 0.971, 0.997, 0.992, 0.997, 0.992, 1.005, 0.955, 1.020, 1.013, 0.979, 0.977, 1.017,
        0.997, 1.003, 0.999, 0.914, 0.978, 0.992, 0.998, 0.982, 0.884, 0.958, 1.038, 1.085, 1.043, 0.998, 1.000, 0.981,
        0.970, 0.918, 0.991, 1.020, 1.222, 0.923, 1.083,
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
