//! From a kernel to a program, one pass a file.
//!
//! 1. [`bind`](bind::bind) — instance constants, dtypes, static `if`; contraction of `a * b + c`
//! 2. `analysis` — facts about the bound kernel, and its last errors
//! 3. translate — statements to operations: vectors (`vector`), tile operations (`tile`), reductions (`reduce`),
//!    guards on what was not proven, barriers around what the compiler synchronises
//! 4. `place` — shared-memory offsets
//! 5. `launch` — grid, checks

mod bind;

pub use bind::bind;
