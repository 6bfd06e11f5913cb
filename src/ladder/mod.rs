//! The GEMV ladder: the same product, rung by rung faster. `examples/gemv_ladder.rs` climbs it; the tests compare every
//! rung on every executor.

pub mod kernels;

use crate::data::{Real, integers, normal};
use tile_runtime::kernel::Definition;
use tile_runtime::prelude::*;

/// Launches a rung: `x`, `W`, `y`.
pub type Launch<T> = fn(&Stream, &Tensor<T, 1>, &Tensor<T, 2>, &mut Tensor<T, 1>) -> Result<(), LaunchError>;

/// One rung for one element type.
pub struct Rung<T: Real> {
    /// Its name.
    pub name: &'static str,
    /// What it adds to the one before.
    pub idea: &'static str,
    /// The row of TileLang's benchmark table it corresponds to, with the latency given there in milliseconds
    /// (N = K = 1024, H100).
    pub original: Option<(&'static str, f64)>,
    /// Whether the order of summation is undefined (atomics), so that only exact data compares bit by bit.
    pub unordered: bool,
    /// What K must be a multiple of.
    pub k_multiple: usize,
    /// `y = W x`.
    pub launch: Launch<T>,
}

impl<T: Real> Rung<T> {
    /// Data this rung computes bit by bit alike everywhere: `W`, then `x`.
    pub fn data(&self, seed: u64, n: usize, k: usize) -> (Vec<T>, Vec<T>) {
        if self.unordered {
            // Products up to 16 and sums below 2^24 are exact in f32; the stored result rounds an exact sum.
            (integers(seed, n * k, 4), integers(seed + 1, k, 4))
        } else {
            (normal(seed, n * k), normal(seed + 1, k))
        }
    }
}

/// Element types the ladder is instantiated for.
pub trait LadderElement: Real {
    /// Every rung, slowest first.
    fn rungs() -> Vec<Rung<Self>>;
}

macro_rules! ladder {
    ($($ty:ty)*) => {$(
        impl LadderElement for $ty {
            fn rungs() -> Vec<Rung<$ty>> {
                type T = $ty;
                let vector = 16 / size_of::<T>();
                vec![
                    Rung {
                        name: "naive",
                        idea: "through shared memory, a thread a row",
                        original: Some(("naive_gemv", 0.16607)),
                        unordered: false,
                        k_multiple: 1,
                        launch: |on, x, w, y| kernels::naive::<T, 128, 128>::launch(on, x, w, y),
                    },
                    Rung {
                        name: "splitk_atomic",
                        idea: "threads along K, atomics in shared memory",
                        original: None,
                        unordered: true,
                        k_multiple: 1,
                        launch: |on, x, w, y| kernels::splitk_atomic::<T, 16, 32>::launch(on, x, w, y),
                    },
                    Rung {
                        name: "splitk",
                        idea: "several neighbouring elements a thread",
                        original: Some(("splitk_gemv", 0.02419)),
                        unordered: true,
                        k_multiple: 1,
                        launch: |on, x, w, y| kernels::splitk::<T, 16, 32, 4>::launch(on, x, w, y),
                    },
                    Rung {
                        name: "vectorized",
                        idea: "16-byte loads",
                        original: Some(("splitk_gemv_vectorized", 0.00809)),
                        unordered: true,
                        k_multiple: vector,
                        launch: |on, x, w, y| kernels::vectorized_loads::<T, 2, 32>::launch(on, x, w, y),
                    },
                    Rung {
                        name: "allreduce",
                        idea: "a thread allreduce instead of atomics",
                        original: Some(("splitk_gemv_vectorized_tvm", 0.00675)),
                        unordered: false,
                        k_multiple: vector,
                        launch: |on, x, w, y| kernels::allreduce::<T, 2, 32>::launch(on, x, w, y),
                    },
                    Rung {
                        name: "coalesced",
                        idea: "the threads of a warp share a row",
                        original: None,
                        unordered: false,
                        k_multiple: vector,
                        launch: |on, x, w, y| kernels::coalesced::<T, 2>::launch(on, x, w, y),
                    },
                    Rung {
                        name: "shared_x",
                        idea: "x through shared memory",
                        original: None,
                        unordered: false,
                        k_multiple: vector,
                        launch: |on, x, w, y| kernels::shared_x::<T, 8>::launch(on, x, w, y),
                    },
                    Rung {
                        name: "cp_async_1",
                        idea: "W through shared memory by cp.async, one stage: no overlap",
                        original: None,
                        unordered: false,
                        k_multiple: vector,
                        launch: |on, x, w, y| kernels::cp_async::<T, 2, 1>::launch(on, x, w, y),
                    },
                    Rung {
                        name: "cp_async_2",
                        idea: "a step of W under way while another is used",
                        original: None,
                        unordered: false,
                        k_multiple: vector,
                        launch: |on, x, w, y| kernels::cp_async::<T, 2, 2>::launch(on, x, w, y),
                    },
                    Rung {
                        name: "cp_async_3",
                        idea: "two steps under way",
                        original: None,
                        unordered: false,
                        k_multiple: vector,
                        launch: |on, x, w, y| kernels::cp_async::<T, 2, 3>::launch(on, x, w, y),
                    },
                ]
            }
        }
    )*};
}

ladder! { f16 bf16 f32 }

/// Every kernel of the ladder.
pub fn definitions() -> Vec<&'static Definition> {
    use kernels::*;
    vec![
        naive::<f32>::definition(),
        splitk_atomic::<f32>::definition(),
        splitk::<f32>::definition(),
        vectorized_loads::<f32>::definition(),
        allreduce::<f32>::definition(),
        coalesced::<f32>::definition(),
        shared_x::<f32>::definition(),
        cp_async::<f32>::definition(),
    ]
}

/// The shapes (N, K) every executor is compared on: ones, primes, tiles and their neighbours, with N K <= 2^18.
pub fn shapes() -> Vec<(usize, usize)> {
    let rows = [1, 2, 3, 7, 13, 15, 16, 17, 31, 33, 61, 127, 128, 129, 257];
    let columns = [1, 2, 5, 8, 31, 32, 33, 64, 97, 127, 128, 129, 248, 256, 264, 509, 512, 1016, 1024, 2053];
    let all = rows.iter().flat_map(|&n| columns.iter().map(move |&k| (n, k)));
    all.filter(|(n, k)| n * k <= 1 << 18).collect()
}
