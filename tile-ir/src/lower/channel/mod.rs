//! Channels: how tiles get from tensors into the slots of shared arrays while threads work on others, and how everyone learns of it.
//!
//! A channel's slots are filled some iterations of a loop ahead. What fills them, its *transport*, differs in who may issue it and in
//! what tells that the data are there:
//!
//! | transport | who issues it | the data are there | the slot is free again | file |
//! |---|---|---|---|---|
//! | TMA | one thread of a producer | an mbarrier has counted the bytes | consumers arrive on a second mbarrier | [`tma`], [`slots`] |
//! | bulk copies of rows | one thread of a producer | as for TMA | as for TMA | [`rows`], [`slots`] |
//! | `cp.async` of rows, beside TMA | a warp of a producer | its lanes arrive on that mbarrier | each warp of the consumers arrives on the second one | `hopper/copied` |
//! | `cp.async` | every thread its part | the thread's group is complete, then a barrier of the block | the barrier of the next iteration | [`async_copy`], [`pipelined`] |
//! | registers | every thread its part | stored at the end of the iteration before, then a barrier | the same barrier | [`registers`], [`pipelined`] |
//!
//! The first three need a producer beside the threads that compute: `hopper` splits a kernel so, and [`load`] has the producer's side of a slot.
//! The other two are issued by the threads that compute, between two iterations of the loop.
//!
//! [`sharing`]: what blocks of a cluster fetch for each other by TMA.
//!
//! [`loops`]: the loops whose loads a producer can issue. [`slice`]: what a producer executes of the kernel to find its loads.

mod async_copy;
mod load;
mod loops;
mod own_rows;
mod pipelined;
mod registers;
mod rows;
mod sharing;
mod slice;
mod slots;
mod tma;

pub(super) use load::{Channel, Load, Rows, Transport};
pub(super) use loops::{Loop, loops};
pub(super) use sharing::{Sharing, sharers};
pub(super) use slice::{Slice, assigns, holds};
pub(super) use slots::Slots;
