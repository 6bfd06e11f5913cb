//! `#[tile_kernel]`.
