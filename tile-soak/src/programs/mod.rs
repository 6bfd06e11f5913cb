//! Random valid programs: source text by construction correct, run by every executor, which must agree.
//!
//! | file | what |
//! |---|---|
//! | `tree` | a program as data; what generators build |
//! | `generate` | the families |
//! | `text` | the program as an author writes it |
//! | `value`, `reference` | the program evaluated sequentially, without the compiler |
//! | `data` | arguments, results, agreement |
//! | `execute`, `compile` | parser, simulators, NVRTC |
//! | `device` | a device of the runtime: a GPU |
//! | `found` | programs that failed once |
//! | `reread` | what is read of a kernel's text is the kernel |

pub mod compile;
pub mod data;
pub mod device;
pub mod execute;
#[cfg(test)]
mod found;
pub mod generate;
pub mod reference;
#[cfg(test)]
mod reread;
pub mod text;
pub mod tree;
pub mod value;
