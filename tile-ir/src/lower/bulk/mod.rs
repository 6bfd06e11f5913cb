//! A ring of bulk copies: a producer warp keeps slots of shared memory filled with rows of tensors, the author's threads
//! compute from them.
//!
//! Contract. In: a bound kernel with one pipelined loop, wherever it stands, whose loads are copies of long rows into shared arrays,
//! which the rest of the loop reads by elements ([`plan`] says whether it is one, and if not, why). What each thread loads for itself
//! stays the thread's. Out: operations in which one
//! thread of an added warp asks TMA for the rows of an iteration as soon as its slot is free, and the author's
//! threads wait for a slot only when they come to it.
//!
//! `hopper` does the same for tiles that tensor cores multiply. Here a row is one copy of bytes that lie together, so
//! there is no tensor map and no swizzle, and reading a slot is reading an array. Slots and the slice of the kernel that the producer
//! executes are `channel`'s, as they are for `hopper`.
//!
//! Ragged edges: rows and columns outside a tensor are not copied, and what stands in their place in a slot is from an
//! earlier iteration. A read of such an element is clipped instead: it gives the 0 that `copy` promises.
//!
//! The block's barriers become barriers of the author's threads. The weights of the first iterations are asked for before
//! the wait for a previous kernel, where the launch is dependent and they are independent: `dependent` puts the producer's
//! wait after its loop.
//!
//! | file | what it lowers |
//! |---|---|
//! | [`plan`] | what qualifies, and the loads |
//! | [`ring`] | the roles, both sides of the loop |

mod plan;
mod ring;
#[cfg(test)]
mod tests;

pub(super) use plan::{Load, Plan, plan};
pub(super) use ring::Ring;
