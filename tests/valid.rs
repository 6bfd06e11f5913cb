//! The nearest valid neighbour of every kernel in `tests/ui` that must not compile: all of these must.
#![deny(warnings)]
#![allow(dead_code)]

#[path = "ui/valid/gemv.rs"]
mod gemv;
