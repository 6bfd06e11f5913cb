//! `#[tile_kernel]`.

#[allow(dead_code, reason = "the expansion uses all of it")]
mod parse;
