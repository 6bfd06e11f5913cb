//! Kernels with one bug each that cannot be seen before they run: the checked simulator finds every one, names the
//! line, and does not flag the corrected kernel beside it. (The bugs that can be seen are in `tests/ui`.)

use tile_runtime::prelude::*;

const THREADS: usize = 128;

/// Runs a kernel on the checked simulator and returns the codes it reports.
macro_rules! codes {
    ($launch:expr) => {{
        let result: Result<(), LaunchError> = $launch;
        match result {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        }
    }};
}

fn device() -> Device {
    Device::checked_simulator()
}

fn vector(n: usize) -> (Tensor<f32, 1>, Tensor<f32, 1>) {
    let host: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let device = device();
    (device.tensor(&host, [n]).unwrap(), device.zeros::<f32, 1>([n]).unwrap())
}

mod kernels {
    use super::*;

    /// No barrier between a thread's store and its neighbour's load; the distance is known at launch.
    #[tile_kernel(instances(SYNC in [true, false]))]
    pub fn shared_race<const SYNC: bool>(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, shift: usize) {
        let [b] = blocks([ceil_div(N, 128)]);
        let [t] = threads([128]);
        let i = b * 128 + t;
        let mut s = alloc_shared::<f32>([128]);
        s[t] = x.masked([i]);
        if SYNC {
            sync_threads();
        }
        if i < N {
            y[i] = s[(t + shift) % 128];
        }
    }

    /// The next iteration overwrites what slower threads still read.
    #[tile_kernel(instances(SYNC in [true, false]), partial(y))]
    pub fn loop_race<const SYNC: bool>(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, shift: usize) {
        blocks([1]);
        let [t] = threads([128]);
        let mut s = alloc_shared::<f32>([128]);
        let mut sum = 0.0f32;
        for step in 0..ceil_div(N, 128) {
            s[t] = x.masked([step * 128 + t]);
            sync_threads();
            sum += s[(t + shift) % 128];
            if SYNC {
                sync_threads();
            }
        }
        if t < N {
            y[t] = sum;
        }
    }

    /// Two threads store different values to one shared element.
    #[tile_kernel]
    pub fn write_write(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, group: usize) {
        let [b] = blocks([ceil_div(N, 128)]);
        let [t] = threads([128]);
        let mut s = alloc_shared::<f32>([128]);
        s[t / group] = x.masked([b * 128 + t]);
        sync_threads();
        if b * 128 + t < N {
            y[b * 128 + t] = s[t / group];
        }
    }

    /// The last block leaves the tensor.
    #[tile_kernel(instances(GUARD in [true, false]), lints(TK0604 = "off"))]
    pub fn no_guard<const GUARD: bool>(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
        let [b] = blocks([ceil_div(N, 128)]);
        let [t] = threads([128]);
        let i = b * 128 + t;
        if GUARD {
            if i < N {
                y[i] = x[i];
            }
        } else {
            y[i] = x[i];
        }
    }

    /// `<=` where `<` is meant.
    #[tile_kernel(lints(TK0604 = "off"))]
    pub fn off_by_one(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
        let [b] = blocks([ceil_div(N + 1, 128)]);
        let [t] = threads([128]);
        let i = b * 128 + t;
        if i <= N {
            y[i] = x.masked([i]);
        }
    }

    /// Rows and columns swapped.
    #[tile_kernel(instances(SWAP in [true, false]), lints(TK0604 = "off"))]
    pub fn swapped<const SWAP: bool>(w: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N,)>) {
        let [b] = blocks([ceil_div(N, 128)]);
        let [t] = threads([128]);
        let row = b * 128 + t;
        let mut sum = 0.0f32;
        if row < N {
            for k in 0..K {
                if SWAP {
                    sum += w[[k, row]];
                } else {
                    sum += w[[row, k]];
                }
            }
            y[row] = sum;
        }
    }

    /// An index below zero.
    #[tile_kernel(lints(TK0605 = "off"))]
    pub fn negative(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, shift: usize) {
        let [b] = blocks([ceil_div(N, 128)]);
        let [t] = threads([128]);
        let i = b * 128 + t;
        if i < N {
            y[i] = x[i - shift];
        }
    }

    /// Half of the shared array is never written.
    #[tile_kernel]
    pub fn uninitialised_shared(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, count: usize) {
        let [b] = blocks([ceil_div(N, 128)]);
        let [t] = threads([128]);
        let mut s = alloc_shared::<f32>([128]);
        if t < count {
            s[t] = x.masked([b * 128 + t]);
        }
        sync_threads();
        if b * 128 + t < N {
            y[b * 128 + t] = s[127 - t];
        }
    }

    /// An accumulator that is not cleared at every launch.
    #[tile_kernel]
    pub fn uninitialised_local(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, from: usize) {
        let [b] = blocks([ceil_div(N, 128)]);
        let [t] = threads([128]);
        let i = b * 128 + t;
        let mut acc = alloc_local::<f32>([2]);
        if from == 0 {
            clear(&mut acc);
        }
        for step in 0..4 {
            acc[step % 2] += x.masked([i]);
        }
        if i < N {
            y[i] = acc[0] + acc[1];
        }
    }

    /// Every block writes the same rows.
    #[tile_kernel]
    pub fn block_race(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, stride: usize) {
        let [b] = blocks([ceil_div(N, 128)]);
        let [t] = threads([128]);
        let i = b * stride + t;
        if i < N {
            y[i] = x.masked([b * 128 + t]);
        }
    }

    /// Every thread of the block writes the block's one result.
    #[tile_kernel]
    pub fn global_race(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, width: usize) {
        let [b] = blocks([ceil_div(N, 128)]);
        let [t] = threads([128]);
        let i = (b * 128 + t) / width;
        if i < N {
            y[i] = x.masked([b * 128 + t]);
        }
    }

    /// A reduction tree that reads past the half that holds data.
    #[tile_kernel(lints(TK0604 = "off"), partial(y))]
    pub fn tree(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, first: usize) {
        blocks([1]);
        let [t] = threads([128]);
        let mut s = alloc_shared::<f32>([128]);
        s[t] = x.masked([t]);
        sync_threads();
        let mut half = first;
        for _step in 0..7 {
            if t < half {
                s[t] += s[t + half];
            }
            sync_threads();
            half = half / 2;
        }
        if t == 0 && N > 0 {
            y[0] = s[0];
        }
    }

    /// A claim about the data that does not hold.
    #[tile_kernel]
    pub fn assertion(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
        let [b] = blocks([ceil_div(N, 128)]);
        let [t] = threads([128]);
        let i = b * 128 + t;
        if i < N {
            device_assert(x[i] < 100.0, "x is a small number");
            y[i] = x[i];
        }
    }

    /// Lanes of a warp exchange through shared memory without `sync_warp`.
    #[tile_kernel(instances(SYNC in [true, false]))]
    pub fn warp_race<const SYNC: bool>(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, shift: usize) {
        let [b] = blocks([ceil_div(N, 32)]);
        let [t] = threads([32]);
        let mut s = alloc_shared::<f32>([32]);
        s[t] = x.masked([b * 32 + t]);
        if SYNC {
            sync_warp();
        }
        if b * 32 + t < N {
            y[b * 32 + t] = s[(t + shift) % 32];
        }
    }
}

/// Asserts that the report has the code and names the line that holds `marker` text of the kernel.
fn assert_caught(report: &str, code: &str, words: &str) {
    assert!(report.contains(code), "expected {code}, got: {report}");
    assert!(report.contains(words), "expected the report to show `{words}`, got: {report}");
}

#[test]
fn a_missing_barrier_is_a_race() {
    let (x, mut y) = vector(300);
    assert_caught(
        &codes!(kernels::shared_race::<false>::launch(&device(), &x, &mut y, 1)),
        "TK0401",
        "s[(t + shift) % 128]",
    );
    assert_eq!(codes!(kernels::shared_race::<true>::launch(&device(), &x, &mut y, 1)), "");
    assert_eq!(
        codes!(kernels::shared_race::<false>::launch(&device(), &x, &mut y, 0)),
        "",
        "its own element is no race"
    );
}

#[test]
fn a_loop_without_its_second_barrier_is_a_race() {
    let (x, mut y) = vector(300);
    assert_caught(&codes!(kernels::loop_race::<false>::launch(&device(), &x, &mut y, 1)), "TK0401", "s[");
    assert_eq!(codes!(kernels::loop_race::<true>::launch(&device(), &x, &mut y, 1)), "");
}

#[test]
fn two_writers_of_one_element_race() {
    let (x, mut y) = vector(300);
    assert_caught(&codes!(kernels::write_write::launch(&device(), &x, &mut y, 2)), "TK0401", "s[t / group]");
    assert_eq!(codes!(kernels::write_write::launch(&device(), &x, &mut y, 1)), "");
}

#[test]
fn a_missing_guard_fires_only_where_it_is_needed() {
    let (x, mut y) = vector(300);
    assert_caught(&codes!(kernels::no_guard::<false>::launch(&device(), &x, &mut y)), "TK0302", "y[i] = x[i]");
    assert_eq!(codes!(kernels::no_guard::<true>::launch(&device(), &x, &mut y)), "");
    let (x, mut y) = vector(2 * THREADS);
    assert_eq!(codes!(kernels::no_guard::<false>::launch(&device(), &x, &mut y)), "", "whole blocks stay inside");
}

#[test]
fn an_off_by_one_guard_lets_one_element_out() {
    let (x, mut y) = vector(300);
    assert_caught(&codes!(kernels::off_by_one::launch(&device(), &x, &mut y)), "TK0302", "y[i]");
}

#[test]
fn swapped_indices_leave_the_tensor() {
    let w = device().zeros::<f32, 2>([60, 7]).unwrap();
    let mut y = device().zeros::<f32, 1>([60]).unwrap();
    assert_caught(&codes!(kernels::swapped::<true>::launch(&device(), &w, &mut y)), "TK0302", "w[[k, row]]");
    assert_eq!(codes!(kernels::swapped::<false>::launch(&device(), &w, &mut y)), "");
}

#[test]
fn an_index_below_zero_is_reported() {
    let (x, mut y) = vector(300);
    assert_caught(&codes!(kernels::negative::launch(&device(), &x, &mut y, 1)), "TK0303", "i - shift");
    assert_eq!(codes!(kernels::negative::launch(&device(), &x, &mut y, 0)), "");
}

#[test]
fn uninitialised_elements_are_not_read_silently() {
    let (x, mut y) = vector(300);
    assert_caught(&codes!(kernels::uninitialised_shared::launch(&device(), &x, &mut y, 64)), "TK0304", "s[127 - t]");
    assert_eq!(codes!(kernels::uninitialised_shared::launch(&device(), &x, &mut y, 128)), "");
    assert_caught(&codes!(kernels::uninitialised_local::launch(&device(), &x, &mut y, 1)), "TK0304", "acc[");
    assert_eq!(codes!(kernels::uninitialised_local::launch(&device(), &x, &mut y, 0)), "");
}

#[test]
fn blocks_that_write_the_same_rows_race() {
    let (x, mut y) = vector(300);
    assert_caught(&codes!(kernels::block_race::launch(&device(), &x, &mut y, 0)), "TK0405", "y[i]");
    assert_eq!(codes!(kernels::block_race::launch(&device(), &x, &mut y, 128)), "");
}

#[test]
fn threads_that_write_one_result_race() {
    let (x, mut y) = vector(300);
    assert_caught(&codes!(kernels::global_race::launch(&device(), &x, &mut y, 128)), "TK0401", "y[i]");
    assert_eq!(codes!(kernels::global_race::launch(&device(), &x, &mut y, 1)), "");
}

#[test]
fn a_tree_one_level_too_tall_leaves_its_array() {
    let (x, mut y) = vector(300);
    assert_caught(&codes!(kernels::tree::launch(&device(), &x, &mut y, 128)), "TK030", "s[t + half]");
    assert_eq!(codes!(kernels::tree::launch(&device(), &x, &mut y, 64)), "");
}

#[test]
fn a_failed_assertion_names_its_text() {
    let (x, mut y) = vector(300);
    assert_caught(&codes!(kernels::assertion::launch(&device(), &x, &mut y)), "TK0901", "x is a small number");
    let (x, mut y) = vector(50);
    assert_eq!(codes!(kernels::assertion::launch(&device(), &x, &mut y)), "");
}

#[test]
fn lanes_of_a_warp_race_without_sync_warp() {
    let (x, mut y) = vector(300);
    assert_caught(
        &codes!(kernels::warp_race::<false>::launch(&device(), &x, &mut y, 1)),
        "TK0401",
        "s[(t + shift) % 32]",
    );
    assert_eq!(codes!(kernels::warp_race::<true>::launch(&device(), &x, &mut y, 1)), "");
}
