//! What every layout is checked against: the hardware as `sim::hw` has it.

mod columns;
mod crossings;
mod padded;
mod parts;
mod pieces;
mod tf32;
