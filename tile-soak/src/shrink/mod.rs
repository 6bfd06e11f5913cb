//! Makes failing cases smaller, while they fail in the same way.
//!
//! | module | what is made smaller |
//! |---|---|
//! | [`text`] | a kernel's source, whoever wrote it: bundled kernels, mutants |
//! | [`program`] | a generated program, whose reference goes with it |
//!
//! Both are greedy: the first smaller form that still fails is taken, until none does.

pub mod program;
pub mod text;
