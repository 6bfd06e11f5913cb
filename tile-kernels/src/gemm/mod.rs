//! WIP
pub mod kernel;
