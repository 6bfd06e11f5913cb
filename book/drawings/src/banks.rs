//! Banks of shared memory: eight rows of a tile as they lie with and without the 128-byte swizzle, and what reading a column of
//! them costs; places from `tile_ir::layout::SharedLayout`, costs from `tile_ir::explain::wavefronts`.

use crate::canvas::{Anchor, Canvas};
use anyhow::Result;
use tile_ir::explain::wavefronts;
use tile_ir::ir::Dtype;
use tile_ir::layout::{SharedLayout, Swizzle};

/// Rows of a swizzle's atom, and the 16-byte chunks of a row of 128 bytes.
const ROWS: u32 = 8;
const CHUNKS: u32 = 8;
/// f16 elements of a chunk.
const ELEMENTS: u32 = 8;
/// The column of chunks that is read.
const READ: u32 = 2;

/// The drawing.
///
/// # Errors
/// The layout refuses the tile.
pub fn draw() -> Result<Canvas> {
    let plain = SharedLayout::row_major(ROWS, CHUNKS * ELEMENTS, Dtype::F16)?;
    let swizzled = SharedLayout::new(ROWS, CHUNKS * ELEMENTS, Dtype::F16, Swizzle::B128)?;
    // `ldmatrix` reads a matrix of 8 rows of 16 bytes: 8 lanes' addresses.
    let cost = |layout: &SharedLayout| {
        let starts: Vec<Option<u64>> = (0..ROWS).map(|row| Some(layout.offset(row, READ * ELEMENTS).into())).collect();
        wavefronts(&starts, 16)
    };
    let (before, after) = (cost(&plain), cost(&swizzled));
    let description = format!(
        "Eight rows of 64 f16 in shared memory, each row 128 bytes, all 32 banks. Row after row, chunk {READ} of every row lies in \
         the same four banks: reading it takes {} wavefronts. With the 128-byte swizzle chunk c of row r lies at place c XOR \
         r, so the eight chunks lie in different banks: {} wavefront.",
        before.found, after.found
    );
    let mut c = Canvas::new(346.0, "Banks of shared memory, and the swizzle", &description);
    c.left(
        20.0,
        26.0,
        "",
        &format!("8 rows of 64 f16, in chunks of 16 bytes. Orange: chunk {READ} of each row, for one `ldmatrix`."),
    );
    side(&mut c, 52.0, "row after row", &plain, before.found);
    side(&mut c, 402.0, "128-byte swizzle", &swizzled, after.found);
    c.left(
        20.0,
        330.0,
        "small",
        "The compiler swizzles tiles by itself, and addresses them accordingly; TMA and wgmma know the same pattern.",
    );
    Ok(c)
}

fn side(c: &mut Canvas, left: f64, title: &str, layout: &SharedLayout, found: u64) {
    let (top, wide, high) = (98.0, 36.0, 23.0);
    c.left(left, 56.0, "strong", title);
    for place in 0..CHUNKS {
        let x = left + f64::from(place) * wide + wide / 2.0;
        c.middle(x, 88.0, "cell faint", &format!("{}-{}", place * 4, place * 4 + 3));
    }
    c.left(left, 73.0, "small faint", "banks (4 bytes each)");
    for row in 0..ROWS {
        c.text(left - 7.0, top + f64::from(row) * high + 16.0, Anchor::End, "small faint", &row.to_string());
        for chunk in 0..CHUNKS {
            let offset = layout.offset(row, chunk * ELEMENTS);
            let (at, place) = (offset / 128, offset % 128 / 16);
            let class = if chunk == READ { "b" } else { "f" };
            let area = [left + f64::from(place) * wide, top + f64::from(at) * high, wide, high];
            c.label(area, class, if chunk == READ { "small strong" } else { "small" }, &chunk.to_string());
        }
    }
    let (class, said) = match found {
        1 => ("strong", "1 wavefront: no conflict".to_owned()),
        n => ("strong bad", format!("{n} wavefronts: all in the same banks")),
    };
    c.left(left, top + 8.0 * high + 20.0, class, &said);
}
