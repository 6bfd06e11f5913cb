//! The drawings of the book and of README, as SVG text.
//!
//! A drawing is computed from what it shows wherever that is possible: layouts of fragments and swizzles from
//! `tile_ir::layout`, sectors and wavefronts from `tile_ir::explain`, codes from `tile_ir::diag`, figures from
//! `bench/results`, messages from `tests/ui`. Timelines are small simulations of the protocol that they explain, in units
//! of their own; raster orders repeat the formula of `tile_ir::lower`. `cargo xtask book` writes the files to
//! `book/src/drawings`, and a test here fails while they differ.
//!
//! | module | what it draws |
//! |---|---|
//! | [`editor`] | an error in the editor |
//! | [`blocks`] | blocks and threads over a vector with a ragged end |
//! | [`fragment`] | a tile spread over warps, threads and registers |
//! | [`coalescing`] | the 32-byte sectors that a warp's load touches |
//! | [`banks`] | banks of shared memory, with and without a swizzle |
//! | [`stages`] | the stages of a pipelined loop over time, with their mbarriers |
//! | [`roles`] | warp specialisation and ping-pong over time |
//! | [`dependent`] | programmatic dependent launch |
//! | [`raster`] | the order in which blocks take tiles |
//! | [`roofline`] | the roofline of an H200 with the bundled kernels on it |
//! | [`ratios`] | each peer's time beside ours |
//! | [`random`] | products of random shapes: the best peer's time beside ours, over the size |
//! | [`path`] | the way of a kernel from Rust to machine code |
//! | [`checks`] | when each mistake is found |

pub mod banks;
pub mod blocks;
mod canvas;
pub mod checks;
pub mod coalescing;
pub mod dependent;
pub mod editor;
pub mod fragment;
pub mod path;
pub mod random;
pub mod raster;
pub mod ratios;
pub mod results;
pub mod roles;
pub mod roofline;
pub mod stages;
mod timeline;

use anyhow::Result;
use std::path::{Path, PathBuf};

/// A drawing: its file's name and its text.
pub struct Drawing {
    /// The name of its file in [`folder`].
    pub name: &'static str,
    /// The file's text.
    pub svg: String,
}

/// Every drawing, computed from the repository at `root`.
///
/// # Errors
/// A file that a drawing is made from is missing, or is not what it was.
pub fn all(root: &Path) -> Result<Vec<Drawing>> {
    let of = |name, canvas: canvas::Canvas| Drawing { name, svg: canvas.finish() };
    Ok(vec![
        of("editor.svg", editor::draw(root)?),
        of("blocks.svg", blocks::draw()),
        of("fragment.svg", fragment::draw()?),
        of("coalescing.svg", coalescing::draw()),
        of("banks.svg", banks::draw()?),
        of("stages.svg", stages::draw()),
        of("roles.svg", roles::draw()),
        of("dependent.svg", dependent::draw()),
        of("raster.svg", raster::draw()),
        of("roofline.svg", roofline::draw(root)?),
        of("gemv.svg", ratios::gemv(root)?),
        of("gemm.svg", ratios::gemm(root)?),
        of("random.svg", random::draw(root)?),
        of("path.svg", path::draw()),
        of("checks.svg", checks::draw()),
    ])
}

/// Where the drawings are kept.
pub fn folder(root: &Path) -> PathBuf {
    root.join("book/src/drawings")
}

/// The repository's root: two folders above this package.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
