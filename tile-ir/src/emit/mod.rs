//! Printers of the lowered program in other languages. They decide nothing.

pub mod cuda;
