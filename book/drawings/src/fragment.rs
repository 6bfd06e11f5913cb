//! A tile of sums spread over warpgroups, warps, threads and registers: `tile_ir::layout::Fragment`, evaluated.

use crate::canvas::Canvas;
use anyhow::Result;
use tile_ir::layout::{Fragment, WarpGrid};

/// The tile: two warpgroups, one below the other.
const ROWS: u32 = 128;
const COLS: u32 = 64;
/// The piece that is enlarged: rows and columns from the tile's origin.
const PIECE: (u32, u32) = (16, 8);

/// The drawing.
///
/// # Errors
/// The layout refuses the tile.
pub fn draw() -> Result<Canvas> {
    let fragment = Fragment::wgmma_accumulator(ROWS, COLS, WarpGrid { rows: 2, cols: 1 })?;
    let registers = fragment.registers();
    // Thread and register of every element.
    let mut holder = vec![(0, 0); (ROWS * COLS) as usize];
    for thread in 0..fragment.threads() {
        for register in 0..registers {
            let (row, col) = fragment.position(thread, register);
            holder[(row * COLS + col) as usize] = (thread, register);
        }
    }
    let of = |row: u32, col: u32| holder[(row * COLS + col) as usize];

    let description = format!(
        "The accumulator of wgmma, {ROWS} x {COLS} f32, over two warpgroups of 128 threads. Each warp holds 16 whole rows. Within a \
         piece of 16 x 8, lane 0 holds row 0, columns 0 and 1, in its registers 0 and 1, and row 8, columns 0 and 1, in \
         registers 2 and 3; four neighbouring lanes share a row. A thread has {registers} registers of the tile."
    );
    let mut c = Canvas::new(452.0, "A tile of sums over warps, threads and registers", &description);

    // The whole tile: a cell for each 8 rows x 8 columns, coloured by its warp.
    let (left, top, cell) = (40.0, 66.0, 22.0);
    c.left(left, 26.0, "strong", &format!("{ROWS} x {COLS} sums over 8 warps"));
    c.left(left, 44.0, "small faint", "colour: warp; 64 rows a warpgroup");
    let classes = ["a", "b", "c", "d"];
    for row in (0..ROWS).step_by(8) {
        for col in (0..COLS).step_by(8) {
            let warp = of(row, col).0 / 32;
            let (x, y) = (left + f64::from(col / 8) * cell, top + f64::from(row / 8) * cell);
            c.rect(x, y, cell, cell, classes[(warp % 4) as usize]);
        }
    }
    for warp in 0..fragment.threads() / 32 {
        let (row, _) = fragment.position(warp * 32, 0);
        let y = top + f64::from(row / 8) * cell;
        c.middle(left + 4.0 * cell, y + cell + 4.5, "small strong", &format!("warp {warp}"));
        c.text(left - 6.0, y + 11.0, crate::canvas::Anchor::End, "cell faint", &row.to_string());
    }
    for group in 0..2u32 {
        let y = top + f64::from(group * 64 / 8) * cell;
        c.left(left + 8.0 * cell + 8.0, y + 92.0, "small", &format!("warpgroup {group}"));
        c.line([left + 8.0 * cell + 4.0, y + 2.0], [left + 8.0 * cell + 4.0, y + 8.0 * cell - 2.0], "line");
    }

    // The first piece, element by element.
    let (zoom, high, wide) = (330.0, 22.0, 45.0);
    let outline = [left, top, cell * f64::from(PIECE.1 / 8), cell * f64::from(PIECE.0 / 8)];
    c.rect(outline[0], outline[1], outline[2], outline[3], "frame");
    c.arrow(&[[left + cell, top - 8.0], [zoom - 6.0, top - 8.0]]);
    c.left(zoom, 26.0, "strong", "warp 0, rows 0 to 15, columns 0 to 7");
    c.left(zoom, 44.0, "small faint", "T: lane, r: its register; four lanes share a row");
    for row in 0..PIECE.0 {
        for col in 0..PIECE.1 {
            let (thread, register) = of(row, col);
            let at = [zoom + f64::from(col) * wide, top + f64::from(row) * high, wide, high];
            let class = ["a", "b", "c", "d"][(thread % 4) as usize];
            c.label(at, class, "cell", &format!("T{thread} r{register}"));
        }
    }
    let below = top + f64::from(PIECE.0) * high + 18.0;
    c.left(
        left,
        below,
        "small",
        &format!(
            "A thread holds {registers} sums: pairs of neighbours of a row, as `mma.sync` and `wgmma` leave them."
        ),
    );
    Ok(c)
}
