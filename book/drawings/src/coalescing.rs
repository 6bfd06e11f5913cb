//! Which sectors of 32 bytes a warp's load touches, in three arrangements of the same threads; counted by
//! `tile_ir::explain::sectors`.

use crate::canvas::{Anchor, Canvas};
use std::collections::BTreeSet;
use tile_ir::explain::{SECTOR, sectors};

/// Columns of the matrix of f16.
const K: u64 = 4096;

struct Case {
    title: &'static str,
    code: &'static str,
    /// Bytes a lane loads.
    width: u64,
    /// The byte at which a lane's load begins.
    start: fn(u64) -> u64,
}

const CASES: [Case; 3] = [
    Case { title: "A row a thread, an element at a time", code: "w[[t, k]]", width: 2, start: |t| t * K * 2 },
    Case { title: "Neighbouring threads, neighbouring elements", code: "w[[row, k + t]]", width: 2, start: |t| t * 2 },
    Case {
        title: "Eight elements a thread: vectorized(0..8)",
        code: "w[[row, k + t * 8 + v]]",
        width: 16,
        start: |t| t * 16,
    },
];

/// The drawing.
pub fn draw() -> Canvas {
    let costs = CASES.each_ref().map(|case| sectors(&starts(case), case.width));
    let said = |i: usize| format!("{} of {}", costs[i].found, costs[i].ideal);
    let description = format!(
        "A warp loads from a matrix of f16 with {K} columns. Where each thread reads its own row, it touches {} sectors of 32 \
         bytes, sectors found of sectors needed; where neighbouring threads read neighbouring elements, {}; with 16 bytes a thread, {}.",
        said(0),
        said(1),
        said(2)
    );
    let mut c = Canvas::new(352.0, "Coalescing: the sectors that a warp's load touches", &description);
    c.left(
        20.0,
        26.0,
        "",
        "A small box is a sector of 32 bytes; its filled part is what was asked for. Ideal: as few sectors as hold it.",
    );
    let mut y = 54.0;
    for (case, cost) in CASES.iter().zip(costs) {
        c.left(20.0, y, "strong", case.title);
        let useful = 32 * case.width;
        c.text(
            700.0,
            y,
            Anchor::End,
            if cost.found > cost.ideal { "strong bad" } else { "strong" },
            &format!("{} sectors of {} needed", cost.found, cost.ideal),
        );
        y = memory(&mut c, case, y + 10.0);
        let moved = cost.found * SECTOR;
        c.left(72.0, y + 15.0, "mono", case.code);
        c.text(
            700.0,
            y + 14.0,
            Anchor::End,
            "small faint",
            &format!(
                "{useful} bytes asked for, {moved} bytes moved: {:.0}% used",
                100.0 * useful as f64 / moved as f64
            ),
        );
        y += 52.0;
    }
    c
}

fn starts(case: &Case) -> Vec<u64> {
    (0..32).map(case.start).collect()
}

/// The memory that a case touches, 20 sectors a line from the start of each row; where it ends.
fn memory(c: &mut Canvas, case: &Case, mut y: f64) -> f64 {
    let (left, wide, high, shown) = (72.0, 31.0, 17.0, 20);
    let starts = starts(case);
    let rows: BTreeSet<u64> = starts.iter().map(|start| start / (K * 2)).collect();
    let listed = rows.iter().take(if rows.len() > 4 { 3 } else { 4 });
    for row in listed {
        c.text(left - 8.0, y + 13.0, Anchor::End, "small faint", &format!("row {row}"));
        for sector in 0..shown {
            let from = row * K * 2 + sector * SECTOR;
            let x = left + sector as f64 * wide;
            c.rect(x, y, wide, high, "empty");
            let asked: u64 =
                starts.iter().filter(|start| (from..from + SECTOR).contains(start)).map(|_| case.width).sum();
            if asked > 0 {
                // What is fetched and not asked for is wasted.
                c.rect(x, y, wide, high, "warn");
                c.rect(x, y, wide * asked as f64 / SECTOR as f64, high, "a");
            }
        }
        y += high + 3.0;
    }
    if rows.len() > 4 {
        c.text(left - 8.0, y + 11.0, Anchor::End, "small faint", "..");
        c.left(
            left,
            y + 11.0,
            "small faint",
            &format!("and so on to row {}: rows are {} bytes apart", rows.len() - 1, K * 2),
        );
        y += 16.0;
    }
    y
}
