//! What every layout is checked against: the hardware as `sim::hw` has it.

mod columns;
mod crossings;
mod parts;
mod pieces;
mod tf32;
