//! Warp specialisation for Hopper: a kernel whose shared arrays are filled by copies becomes two programs in one.
//!
//! Contract. In: a bound kernel with loops whose bodies begin with `copy`s from tensors into shared arrays ([`plan`] finds them, and says
//! why where there are none). Out: operations in which one thread of a producer keeps the slots of channels filled, and consumers do
//! everything else, with barriers among themselves where they exchange elements through shared arrays of their own. There are two ways to
//! split a block ([`plan::Split`]):
//!
//! - a producer warpgroup with TMA, and warpgroups that multiply by `wgmma`;
//! - a producer warp with bulk copies of long rows, and the author's threads, which read them by elements. Ragged edges: rows and columns
//!   outside a tensor are not copied, and what stands in their place in a slot is from an earlier iteration. A read of such an element is
//!   clipped instead: it gives the 0 that `copy` promises.
//!
//! Each partition re-executes the scalar control flow: loops over tiles, index variables, block-uniform conditionals. What
//! orders them is a pair of mbarriers a slot: `full` completes when the slot's bytes have arrived, `empty` when every
//! consumer has read them. A partition carries, for each channel, the slot that it is at and the parity of the phase that it waits for.
//!
//! | file | what it lowers |
//! |---|---|
//! | [`plan`] | what qualifies, whose each shared array is, layouts of the slots, warpgroups, registers |
//! | [`fragments`] | layouts of fragments that no product decides on |
//! | [`operand`] | left operands in registers: packed from a sum, or loaded by `ldmatrix` |
//! | [`resident`] | tiles that are loaded once: that stay while loops go round, or are fetched while the loop before goes on |
//! | [`roles`] | set-up of the barriers, the split into producer and consumers |
//! | [`produce`], [`consume`] | both sides of a loop that loads; products of one iteration in flight while the next one's are issued |
//! | [`threads`] | a block whose consumers are the author's threads, not warpgroups |
//! | [`alternating`] | the consumers' side of a loop whose product is issued an iteration ahead of the work on it |
//! | [`held`] | what that work reads of memory, loaded while the product runs |
//! | [`copied`] | rows of tensors among it, which a second warp of the producer copies into the slots of the tiles |
//! | [`shifted`] | the consumers' side of a loop that is software-pipelined across two products |
//! | [`ahead`] | what a producer fills before it waits for the previous kernel |
//! | [`counted`] | the next tile of a block from a counter, and its way to the consumers |
//! | [`turns`] | two warpgroups on two tiles, one multiplying while the other stores |
//! | [`store`] | fragments to a tensor, by sub-tiles through shared memory |

mod ahead;
mod alternating;
mod consume;
mod copied;
mod counted;
mod fragments;
mod held;
mod operand;
mod plan;
mod produce;
mod resident;
mod roles;
mod shifted;
mod store;
mod threads;
mod turns;

pub(super) use counted::Counted;
pub(super) use held::Held;
pub(super) use plan::{Plan, Reason, plan, plan_rows};
pub(super) use roles::Roles;

#[cfg(test)]
mod tests;
