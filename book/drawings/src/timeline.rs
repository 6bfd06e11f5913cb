//! Rows of intervals over a common axis of time.

use crate::canvas::{Anchor, Canvas};

/// An axis of time: where 0 is, and pixels a unit.
#[derive(Clone, Copy)]
pub struct Axis {
    pub left: f64,
    pub scale: f64,
}

/// Height of a row.
pub const HIGH: f64 = 24.0;

impl Axis {
    /// The place of a moment.
    pub fn x(&self, time: f64) -> f64 {
        self.left + time * self.scale
    }

    /// The name of the row at `y`, left of the axis.
    pub fn name(&self, c: &mut Canvas, y: f64, text: &str) {
        c.text(self.left - 8.0, y + HIGH / 2.0 + 4.0, Anchor::End, "small", text);
    }

    /// What happens in a row from one moment to another, with a text where there is room for it.
    pub fn span(&self, c: &mut Canvas, y: f64, [from, to]: [f64; 2], class: &str, text: &str) {
        let (x, w) = (self.x(from), (to - from) * self.scale);
        if w < 0.5 {
            return;
        }
        c.rect(x, y, w, HIGH, class);
        if w >= 6.1 * text.chars().count() as f64 + 4.0 {
            c.middle(x + w / 2.0, y + HIGH / 2.0 + 4.0, "cell", text);
        }
    }

    /// The arrow below everything that says which way time goes.
    pub fn arrow(&self, c: &mut Canvas, y: f64, until: f64) {
        c.arrow(&[[self.left, y], [self.x(until), y]]);
        c.text(self.x(until), y + 16.0, Anchor::End, "small faint", "time, not to scale");
    }
}
