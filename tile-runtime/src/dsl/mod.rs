//! What a kernel's body is written in.
//!
//! `#[tile_kernel]` reads a body and compiles it for the GPU and the simulators; it also gives the same tokens to
//! rustc as a function that is never called, type-checked against this module. So the types, the completion and
//! the documentation that an editor shows inside a kernel come from here, and **nothing here ever runs**: every
//! function says what the kernel does with it.
//!
//! Inside a kernel everything here is in scope. Outside, [`crate::prelude`] exports what a kernel's signature needs.
//!
//! | to do | write |
//! |---|---|
//! | the shape of the launch | [`blocks`] or [`persistent`], [`threads`], [`cluster`], [`use_swizzle`] |
//! | memory | [`alloc_shared`], [`alloc_local`], [`alloc_fragment`], [`Tensor`], [`copy`], [`fill`], [`clear`] |
//! | loops | `a..b`, [`serial`], [`unroll`], [`vectorized`], [`pipelined`], [`parallel`] |
//! | products of tiles | [`gemm`] |
//! | the threads of a block together | [`sync_threads`], [`thread_allreduce`], [`thread_argmax`], [`thread_argmin`], [`reduce`] |
//! | the lanes of a warp together | [`sync_warp`], [`warp_reduce`], [`warp_argmax`], [`warp_argmin`], [`shfl`], [`shfl_xor`], [`shfl_up`], [`shfl_down`], [`ballot`], [`any`], [`all`] |
//! | several threads, one element | [`atomic_add`], [`atomic_max`], [`atomic_min`] |
//! | several blocks, one result | [`last_arriver`], [`cluster_reduce`], [`cluster_exchange`] |
//! | arithmetic | operators, [`Cast::cast`], [`exp`], [`max`], [`fma`], [`select`], ..., and [`fast`] |
//! | looking inside | [`device_print`], [`device_assert`] |

mod array;
mod atomic;
mod collective;
mod debug;
mod element;
pub mod fast;
mod gemm;
mod grid;
mod loops;
mod math;
mod tensor;
mod tile;

pub use array::{
    Array, ArrayIndex, B32, B64, B128, Extents, Fragment, FragmentExtents, LocalArray, SharedArray, SwizzleBytes,
    SwizzleName, alloc_fragment, alloc_local, alloc_shared,
};
pub use atomic::{AtomicElement, atomic_add, atomic_max, atomic_min, last_arriver};
pub use collective::{
    BlockArray, Max, MaxOperator, Min, MinOperator, ReduceOperator, Reducible, Sum, SumOperator, all, any, ballot,
    cluster_exchange, cluster_reduce, reduce, shfl, shfl_down, shfl_up, shfl_xor, sync_threads, sync_warp,
    thread_allreduce, thread_argmax, thread_argmin, warp_argmax, warp_argmin, warp_reduce,
};
pub use debug::{device_assert, device_print};
pub use element::{Cast, Float, Half, Integer, Number, Value, bf16, f16, lit};
pub use gemm::{FullCol, FullRow, GemmRequest, LeftMatrix, RightMatrix, Square, Transposed, WarpPolicyName, gemm};
pub use grid::{blocks, cluster, threads, use_swizzle};
pub use loops::{
    Auto, AutoChoice, Cooperative, LoopIndices, LoopRange, PersistentTiles, PingPong, PipelinedLoop, Rolled,
    ScheduleChoice, ScheduleName, SerialLoop, parallel, persistent, pipelined, serial, unroll, vectorized,
};
pub use math::{
    Ordered, abs, ceil, ceil_div, cos, count_ones, exp, exp2, floor, fma, is_nan, leading_zeros, log, max, min, mul_hi,
    pow, round, round_ties_even, rsqrt, select, sin, sqrt, tanh, to_bits, trailing_zeros, trunc,
};
pub use tensor::{GlobalTensor, Tensor, Workspace, lend};
pub use tile::*;

#[doc(hidden)]
pub use debug::printed;

/// The body of everything here: a kernel's shadow is type-checked and never called.
#[cold]
fn shadow() -> ! {
    unreachable!("the shadow of a kernel is never called")
}
