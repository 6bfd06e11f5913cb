//! The stages of a pipelined loop over time: what lies in each slot of the ring, and when its mbarriers change phase.
//!
//! A small simulation of the protocol: the producer waits for `empty[slot]`, asks TMA for the tile, whose bytes complete
//! `full[slot]`; the consumers wait for `full[slot]`, multiply, and arrive on `empty[slot]`.

use crate::canvas::Canvas;
use crate::timeline::{Axis, HIGH};

/// Slots of the ring: `pipelined(0..N, 3)`.
const STAGES: usize = 3;
/// Iterations of the loop.
const STEPS: usize = 8;
/// How long a tile is under way, how long it is multiplied, and how long the producer takes to ask for it.
const FLIGHT: f64 = 3.1;
const PRODUCT: f64 = 1.9;
const ASK: f64 = 0.35;

/// The moments of one iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    /// The tile is asked for; it has arrived; its product begins and ends.
    pub ask: f64,
    pub full: f64,
    pub begin: f64,
    pub end: f64,
}

/// The moments of all iterations.
pub(crate) fn steps() -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for i in 0..STEPS {
        let asked = i.checked_sub(1).map_or(0.0, |before| steps[before].ask + ASK);
        // The slot is free when the product that read it has ended.
        let free = i.checked_sub(STAGES).map_or(0.0, |before| steps[before].end);
        let ask = asked.max(free);
        let full = ask + FLIGHT;
        let begin = i.checked_sub(1).map_or(full, |before| steps[before].end.max(full));
        steps.push(Step { ask, full, begin, end: begin + PRODUCT });
    }
    steps
}

/// The drawing.
pub fn draw() -> Canvas {
    let steps = steps();
    let description = format!(
        "A ring of {STAGES} slots in shared memory over time. A producer warp asks TMA for tile 0, 1 and 2 at once; each slot is \
         being filled, then full, then read by the product, then empty again, when tile {STAGES} is asked for. The end of \
         filling completes a phase of the slot's barrier full, the end of reading one of its barrier empty. After the first fill the tensor \
         cores are hardly ever idle."
    );
    let mut c = Canvas::new(384.0, "The stages of a pipelined loop, with their mbarriers", &description);
    let axis = Axis { left: 118.0, scale: 29.0 };
    c.left(16.0, 26.0, "strong", "for k in pipelined(0..8, 3): a ring of 3 slots");

    let top = 46.0;
    axis.name(&mut c, top, "producer warp");
    for (i, step) in steps.iter().enumerate() {
        axis.span(&mut c, top, [step.ask, step.ask + ASK], "e", "");
        c.middle(axis.x(step.ask + ASK / 2.0), top - 4.0, "cell", &i.to_string());
    }
    for slot in 0..STAGES {
        let y = top + 44.0 + slot as f64 * 62.0;
        axis.name(&mut c, y, &format!("slot {slot}"));
        axis.name(&mut c, y + 25.0, "full / empty");
        let uses: Vec<(usize, &Step)> = steps.iter().enumerate().skip(slot).step_by(STAGES).collect();
        for &(i, step) in &uses {
            axis.span(&mut c, y, [step.ask, step.full], "e", &format!("fill {i}"));
            axis.span(&mut c, y, [step.full, step.begin], "f", "full");
            axis.span(&mut c, y, [step.begin, step.end], "a", &format!("read {i}"));
        }
        for (turn, &(_, step)) in uses.iter().enumerate() {
            let barrier = y + HIGH + 5.0;
            marker(&mut c, axis.x(step.full), barrier, "dot-c", &format!("phase {turn}"));
            marker(&mut c, axis.x(step.end), barrier, "dot-b", "");
        }
    }
    let y = top + 44.0 + STAGES as f64 * 62.0 + 4.0;
    axis.name(&mut c, y, "wgmma");
    for (i, step) in steps.iter().enumerate() {
        axis.span(&mut c, y, [step.begin, step.end], "a", &format!("k = {i}"));
    }
    axis.arrow(&mut c, y + 38.0, 19.6);

    let legend = y + 78.0;
    c.rect(16.0, legend - 11.0, 14.0, 14.0, "e");
    c.left(36.0, legend, "small", "TMA fills the slot");
    c.rect(158.0, legend - 11.0, 14.0, 14.0, "a");
    c.left(178.0, legend, "small", "wgmma reads it");
    marker(&mut c, 290.0, legend - 9.0, "dot-c", "");
    c.left(302.0, legend, "small", "full[slot]: all bytes arrived");
    marker(&mut c, 496.0, legend - 9.0, "dot-b", "");
    c.left(508.0, legend, "small", "empty[slot]: consumers done");
    c
}

/// A small triangle that points up to the row above, with a text beside it.
fn marker(c: &mut Canvas, x: f64, y: f64, class: &str, text: &str) {
    c.polygon(&[[x, y], [x - 4.5, y + 9.0], [x + 4.5, y + 9.0]], class);
    if !text.is_empty() {
        c.left(x + 7.0, y + 9.0, "cell faint", text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_filled_only_when_it_was_read() {
        let steps = steps();
        for i in STAGES..STEPS {
            assert!(steps[i].ask >= steps[i - STAGES].end, "{i}: {steps:?}");
        }
        for i in 1..STEPS {
            assert!(steps[i].begin >= steps[i - 1].end && steps[i].begin >= steps[i].full, "{i}: {steps:?}");
        }
    }
}
