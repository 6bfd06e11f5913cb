//! The tile-kernel language as data, and everything computable from it.
//!
//! ```text
//!  Kernel (ir)  ── verify ──▶ well formed
//!     │ bind (instance, target)
//!     ▼
//!  Kernel (bound: dtypes and constants known)
//!     ├─ analysis ──▶ diagnostics on the author's lines, facts for the lowering
//!     ├─ sim::fast ─▶ results
//!     │ lower
//!     ▼
//!  Program (lowered) ──┬─ emit::cuda ──▶ CUDA C
//!                      └─ sim::checked ▶ results, races, guards, barriers: lane by lane
//! ```
//!
//! This crate knows nothing of `syn`, of CUDA drivers or of files: it takes data and returns data. The one module
//! that describes hardware independently of the compiler is `sim`, and it imports no address formula from `layout`.
//!
//! | module | what it is |
//! |---|---|
//! | [`ir`] | the tile IR: what the author wrote, resolved and typed |
//! | [`advice`] | help texts that quote the author's own lines |
//! | [`diag`] | diagnostics: code, span, labels, notes, help, and their text |
//! | [`codec`] | the IR as compact, versioned bytes; decoding is total |
//! | [`record`] | the kernels of a crate as one file, for `cargo tile` |
//! | [`text`] | the IR and the lowered program as readable text |
//! | [`verify`] | the rules a kernel obeys whatever its instance |
//! | [`constraint`] | what is known about symbols; prove, refute or postpone |
//! | [`analysis`] | bounds, alignment, races, uniformity, resources of a bound kernel |
//! | [`layout`] | address formulas |
//! | [`lower`] | the passes from a bound kernel to a [`lowered`] program |
//! | [`lowered`] | the lowered program: what the emitter prints and the checked simulator executes |
//! | [`emit`] | CUDA C |
//! | [`explain`] | what a launch costs and what bounds it, read off the lowered program |
//! | [`sim`] | the simulators, `fast` and `checked` |
#![deny(missing_docs)]

pub mod advice;
pub mod analysis;
pub mod codec;
pub mod constraint;
pub mod diag;
pub mod emit;
pub mod explain;
pub mod ir;
pub mod layout;
pub mod lower;
pub mod lowered;
pub mod record;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod testing;
pub mod text;
pub mod verify;
