//! Warp specialisation for Hopper: a kernel whose tile products are fed by pipelined copies becomes two programs in one.
//!
//! Contract. In: a bound kernel with one pipelined loop of `copy`s from tensors into shared arrays, perhaps with some
//! right before it, whose other
//! statements are tile products, reductions of fragments and work on them ([`plan`] says whether it is one, and if not, why). Out: operations
//! in which one thread of a producer warpgroup keeps a ring of shared-memory slots filled by the tensor memory
//! accelerator, and consumer warpgroups multiply from it.
//!
//! Each role re-executes the scalar control flow: loops over tiles, index variables, block-uniform conditionals. What
//! orders them is a pair of barriers a slot: `full` completes when the slot's bytes have arrived, `empty` when every
//! consumer has read them. A role carries the slot it is at and the parity of the phase it waits for.
//!
//! | file | what it lowers |
//! |---|---|
//! | [`plan`] | what qualifies, layouts of the slots, warpgroups, registers |
//! | [`fragments`] | layouts of fragments that no product decides on |
//! | [`operand`] | left operands in registers: packed from a sum, or loaded by `ldmatrix` |
//! | [`resident`] | tiles that are loaded once and stay while the ring turns |
//! | [`roles`] | set-up of the barriers, the split into producer and consumers |
//! | [`ring`] | both sides of the pipelined loop |
//! | [`ahead`] | what a producer fills before it waits for the previous kernel |
//! | [`turns`] | two warpgroups on two tiles, one multiplying while the other stores |
//! | [`store`] | fragments to a tensor, by sub-tiles through shared memory |

mod ahead;
mod fragments;
mod operand;
mod plan;
mod resident;
mod ring;
mod roles;
mod store;
mod turns;

pub(super) use plan::{Plan, Reason, plan};
pub(super) use roles::Roles;

#[cfg(test)]
mod tests;
