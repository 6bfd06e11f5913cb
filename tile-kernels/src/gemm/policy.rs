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
/// choice takes 1.0% longer than the best one in geometric mean over them, 15% at most; on 50 shapes of other seeds
/// (`bench/results/gemm-choice-heldout-h100.json`) 2.6%, 19% at most. Paces and reaches are held near an H200's, and what is fastest there of
/// the products of models, which an H100 was not asked for, counted too. `early` is where launches before the previous one's end cease to gain.
const H100: Parameters = Parameters {
    fixed: 2.451,
    gather: 0.02661,
    products: [6.351e6, 6.675e6, 6.419e6],
    step: [0.07555, 0.1118],
    agree: 0.03913,
    port: 0.4392e6,
    shared: 1.606e6,
    cache: 17.38e6,
    lines: [0.1618, 0.9189],
    sectors: [2.934, 1.391],
    merged: 0.1554,
    fresh: 39.25e6,
    thin: 0.4075,
    across: [0.002649, 0.001747],
    turn: 0.3098,
    store: 62900.0,
    last: 1.0,
    memory: 3.289e6,
    under_way: 52640.0,
    kept: 39.51e6,
    again: 1.223,
    ramp: 2.812,
    arrive: 2.163,
    adds: 59850.0,
    shares: 34390.0,
    powers: [3.843, 2.307],
    pace: [
        0.904, 1.018, 0.964, 0.907, 1.155, 0.999, 1.103, 1.170, 0.954, 0.943, 1.129, 0.845, 1.083, 0.814, 1.051, 0.908,
        0.874, 0.995, 0.880, 1.173, 1.045, 1.121, 1.004, 1.098, 0.985, 0.832, 0.839, 0.954, 0.996, 0.926, 0.978, 1.027,
        1.009, 1.001, 0.942, 0.933, 0.888, 0.875, 0.908, 1.005, 0.907, 0.882, 0.835, 1.064, 0.967, 0.989, 0.928, 0.853,
        0.921, 0.959, 0.931, 0.985, 0.954, 0.937, 1.074, 0.973, 1.123, 1.073, 1.176, 1.116, 0.993, 1.131, 1.203, 1.168,
        1.060, 1.143, 1.065, 0.971, 1.004, 0.719, 1.046,
    ],
    reach: [
        1.079, 1.102, 0.900, 1.042, 0.850, 0.998, 0.998, 0.953, 0.939, 0.976, 0.718, 1.007, 0.746, 0.897, 0.830, 1.017,
        0.967, 0.962, 1.095, 0.914, 1.074, 1.038, 1.056, 0.965, 1.021, 0.883, 0.957, 0.920, 1.056, 0.999, 0.993, 1.016,
        1.065, 1.016, 1.024, 0.923, 0.954, 0.983, 0.995, 1.016, 0.943, 0.969, 1.060, 1.007, 1.022, 0.854, 0.993, 1.098,
        1.038, 1.010, 1.036, 0.871, 0.978, 0.999, 1.041, 1.041, 0.794, 0.823, 0.914, 1.105, 1.090, 1.147, 0.971, 1.123,
        1.112, 1.079, 1.100, 1.174, 1.237, 1.042, 1.245,
    ],
    early: 22.0,
};

/// Fitted to 276 shapes in bf16 on an H200 (`bench/results/gemm-choice-fit2-h200.json`): those of an H100, and 72 products of models with few
/// rows. The choice takes 1.0% longer than the best one in geometric mean over them, 15% at most; over the products of models 0.7%, 4.6% at
/// most. Paces and reaches are held near 1, more where fewer shapes were seen: an instance that was measured on few of them was once taken
/// for faster than it is on others. 309 older shapes of fewer instances, with lower panels for clusters than the kernel has now, counted
/// less (`gemm-random-fit-h200.json`, `gemm-split-fit-h200.json` and `gemm-cluster-fit-h200.json`).
const H200: Parameters = Parameters {
    fixed: 2.647,
    gather: 0.06347,
    products: [6.434e6, 6.993e6, 6.622e6],
    step: [0.06276, 0.08356],
    agree: 0.02108,
    port: 0.7429e6,
    shared: 2.789e6,
    cache: 53.74e6,
    lines: [0.2085, 3.01],
    sectors: [4.287, 3.145],
    merged: 0.02073,
    fresh: 22.88e6,
    thin: 0.2951,
    across: [0.00296, 0.001436],
    turn: 0.5027,
    store: 51740.0,
    last: 1.0,
    memory: 4.7e6,
    under_way: 45970.0,
    kept: 36.65e6,
    again: 1.766,
    ramp: 4.453,
    arrive: 2.775,
    adds: 66870.0,
    shares: 32270.0,
    powers: [2.552, 2.302],
    pace: [
        0.908, 0.958, 0.945, 0.926, 1.119, 1.018, 1.118, 1.115, 1.053, 0.932, 1.012, 0.869, 0.948, 0.858, 1.019, 0.924,
        0.881, 1.048, 0.963, 1.132, 0.996, 1.121, 1.051, 1.059, 1.039, 0.812, 0.871, 0.935, 0.992, 0.977, 0.983, 0.999,
        0.960, 1.003, 1.015, 0.945, 0.913, 0.927, 1.002, 1.024, 0.888, 0.896, 0.863, 1.066, 0.982, 0.951, 0.954, 0.913,
        0.930, 0.972, 0.951, 0.951, 0.949, 0.967, 1.089, 0.988, 0.979, 1.133, 1.164, 1.219, 1.037, 1.109, 1.155, 1.230,
        1.044, 1.155, 1.095, 1.092, 1.024, 0.760, 1.098,
    ],
    reach: [
        1.032, 1.107, 0.935, 1.095, 0.934, 1.039, 0.954, 1.113, 1.031, 0.983, 0.800, 0.995, 0.840, 1.022, 0.934, 1.041,
        0.978, 0.950, 1.186, 0.981, 1.116, 0.990, 1.067, 1.079, 1.030, 0.846, 0.892, 0.959, 1.063, 1.001, 1.003, 0.990,
        1.040, 1.001, 1.007, 0.937, 0.948, 1.010, 0.890, 1.018, 0.957, 0.964, 1.071, 1.016, 1.040, 0.884, 0.998, 1.015,
        1.003, 0.982, 1.008, 0.870, 0.990, 0.994, 1.016, 1.016, 0.856, 0.895, 1.022, 1.089, 1.139, 1.042, 1.099, 1.198,
        1.093, 1.096, 1.043, 1.202, 1.246, 1.046, 1.218,
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
