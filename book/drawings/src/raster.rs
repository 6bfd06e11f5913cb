//! The order in which blocks take the tiles of a result: row after row, and in panels (`use_swizzle`). The formula is that of
//! `tile_ir::lower` (`raster.rs`, `tile_of`) without clusters.

use crate::canvas::Canvas;
use std::collections::BTreeSet;

/// Tiles of the result, rows and columns; blocks at once, a wave; rows of a panel.
const HIGH: usize = 12;
const WIDE: usize = 12;
const WAVE: usize = 32;
const PANEL: usize = 4;

/// The row and column of the tile that is taken as number `t`.
fn tile(t: usize, panel: Option<usize>) -> (usize, usize) {
    let Some(panel) = panel else { return (t / WIDE, t % WIDE) };
    let group = t / (panel * WIDE);
    let rows = panel.min(HIGH - group * panel);
    let within = t - group * panel * WIDE;
    (group * panel + within % rows, within / rows)
}

/// The drawing.
pub fn draw() -> Canvas {
    let read = |panel| {
        let tiles: Vec<_> = (0..WAVE).map(|t| tile(t, panel)).collect();
        let rows: BTreeSet<usize> = tiles.iter().map(|t| t.0).collect();
        let columns: BTreeSet<usize> = tiles.iter().map(|t| t.1).collect();
        (rows.len(), columns.len())
    };
    let (plain, panels) = (read(None), read(Some(PANEL)));
    let description = format!(
        "{HIGH} x {WIDE} tiles of C, numbered in the order in which blocks take them; the first wave of {WAVE} is coloured. Row after row \
         it needs {} rows of tiles of A and {} columns of tiles of B; in panels of {PANEL} rows {} and {}.",
        plain.0, plain.1, panels.0, panels.1
    );
    let mut c = Canvas::new(410.0, "The order in which blocks take tiles", &description);
    side(&mut c, 34.0, "persistent(..): row after row", None, plain);
    side(&mut c, 392.0, "use_swizzle(4): panels of 4 rows", Some(PANEL), panels);
    c
}

fn side(c: &mut Canvas, left: f64, title: &str, panel: Option<usize>, (rows, columns): (usize, usize)) {
    let (top, cell) = (62.0, 24.0);
    c.left(left, 28.0, "strong", title);
    c.left(left, 48.0, "small faint", &format!("coloured: the first {WAVE} tiles, a wave; green: the next"));
    for t in 0..HIGH * WIDE {
        let (row, col) = tile(t, panel);
        let class = ["a", "c"].get(t / WAVE).copied().unwrap_or("empty");
        c.label([left + col as f64 * cell, top + row as f64 * cell, cell, cell], class, "cell", &t.to_string());
    }
    let below = top + HIGH as f64 * cell + 24.0;
    c.left(left, below, "", &format!("the wave reads {rows} rows of A's tiles,"));
    c.left(left, below + 19.0, "", &format!("{columns} columns of B's: {} tiles for each step of K", rows + columns));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tile_is_taken_once() {
        for panel in [None, Some(PANEL), Some(5)] {
            let taken: BTreeSet<_> = (0..HIGH * WIDE).map(|t| tile(t, panel)).collect();
            assert_eq!(taken.len(), HIGH * WIDE, "{panel:?}");
            assert!(taken.iter().all(|t| t.0 < HIGH && t.1 < WIDE), "{panel:?}");
        }
    }
}
