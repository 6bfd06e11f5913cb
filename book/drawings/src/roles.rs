//! Warp specialisation over time: one multiprocessor with every warp doing everything, with roles, and with roles that take
//! turns (ping-pong). What the tensor cores do is the union of the products above it.

use crate::canvas::Canvas;
use crate::timeline::{Axis, HIGH};

/// Length of a tile's loads before the first product, of its products along K, and of storing the result.
const LOAD: f64 = 1.6;
const PRODUCTS: f64 = 4.0;
const STORE: f64 = 2.0;
/// Tiles that are shown, and where the picture ends.
const TILES: usize = 4;
const END: f64 = 22.0;

/// Intervals of a row: from, to, what.
type Row = Vec<(f64, f64, &'static str)>;

struct Schedule {
    title: &'static str,
    rows: Vec<(&'static str, Row)>,
}

/// Every warp loads, waits, multiplies, stores.
fn alike() -> Schedule {
    let mut row = Row::new();
    let mut now = 0.0;
    for _ in 0..TILES {
        for (length, what) in [(LOAD, "load"), (PRODUCTS, "multiply"), (STORE, "store")] {
            row.push((now, now + length, what));
            now += length;
        }
    }
    Schedule { title: "A block a tile, all warps alike", rows: vec![("all warps", row)] }
}

/// A producer warp loads ahead; two warpgroups share each tile.
fn cooperative() -> Schedule {
    let (mut producer, mut consumer) = (Row::new(), Row::new());
    let mut now = LOAD;
    for tile in 0..TILES {
        let begin = now;
        // The ring holds part of the next tile, so its loads run on while this one is stored.
        producer.push((if tile == 0 { 0.0 } else { begin - STORE }, begin + PRODUCTS - 0.6, "TMA"));
        consumer.push((begin, begin + PRODUCTS, "multiply"));
        consumer.push((begin + PRODUCTS, begin + PRODUCTS + STORE, "store"));
        now = begin + PRODUCTS + STORE;
    }
    let rows = vec![("producer warp", producer), ("warpgroup 0", consumer.clone()), ("warpgroup 1", consumer)];
    Schedule { title: "Warp specialisation, cooperative: two warpgroups share a tile", rows }
}

/// A producer warp loads ahead; two warpgroups take whole tiles in turns.
fn ping_pong() -> Schedule {
    let mut groups = [Row::new(), Row::new()];
    let mut now = LOAD;
    for tile in 0..2 * TILES + 4 {
        let row = &mut groups[tile % 2];
        // A warpgroup alone has half of the tensor cores' work in flight, on a tile half as large: the same time a tile.
        row.push((now, now + PRODUCTS / 2.0, "multiply"));
        row.push((now + PRODUCTS / 2.0, now + PRODUCTS / 2.0 + STORE * 0.8, "store"));
        now += PRODUCTS / 2.0;
    }
    let [zero, one] = groups;
    let producer = vec![(0.0, END, "TMA")];
    let rows = vec![("producer warp", producer), ("warpgroup 0", zero), ("warpgroup 1", one)];
    Schedule { title: "Warp specialisation, ping-pong: warpgroups take tiles in turns", rows }
}

/// The time in which something is multiplied.
fn products(schedule: &Schedule) -> Row {
    let mut found: Row =
        schedule.rows.iter().flat_map(|(_, row)| row).filter(|span| span.2 == "multiply").copied().collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found.dedup();
    found
}

/// The drawing.
pub fn draw() -> Canvas {
    let description = "Three timelines of one multiprocessor. With all warps alike the tensor cores idle while a tile is loaded and while it is stored. \
        With a producer warp that loads ahead by TMA and two warpgroups that share a tile they idle only while it is \
        stored. With ping-pong one warpgroup multiplies while the other stores, and they never idle.";
    let mut c = Canvas::new(414.0, "Warp specialisation and ping-pong over time", description);
    let axis = Axis { left: 112.0, scale: 26.6 };
    let mut y = 26.0;
    for schedule in [alike(), cooperative(), ping_pong()] {
        c.left(16.0, y, "strong", schedule.title);
        y += 10.0;
        for (name, row) in &schedule.rows {
            spans(&mut c, axis, y, name, row, "a");
            y += HIGH + 3.0;
        }
        spans(&mut c, axis, y, "tensor cores", &products(&schedule), "c");
        y += HIGH + 26.0;
    }
    axis.arrow(&mut c, y - 10.0, END);
    c
}

fn spans(c: &mut Canvas, axis: Axis, y: f64, name: &str, row: &Row, multiply: &str) {
    axis.name(c, y, name);
    c.line([axis.left, y + HIGH], [axis.x(END), y + HIGH], "thin");
    for &(from, to, what) in row.iter().filter(|span| span.0 < END) {
        let class = match what {
            "load" | "TMA" => "e",
            "store" => "d",
            _ => multiply,
        };
        axis.span(c, y, [from, to.min(END)], class, what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_warpgroup_multiplies_at_a_time_in_ping_pong() {
        let spans = products(&ping_pong());
        for pair in spans.windows(2) {
            assert!((pair[0].1 - pair[1].0).abs() < 1e-9, "{pair:?}");
        }
        // A warpgroup stores within the other's turn.
        const { assert!(STORE * 0.8 <= PRODUCTS / 2.0) };
    }
}
