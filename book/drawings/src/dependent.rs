//! Programmatic dependent launch: a kernel that begins while the one before it ends, and waits before it reads what that wrote.

use crate::canvas::Canvas;
use crate::timeline::{Axis, HIGH};

/// Length of a start, of loading weights, of the rest.
const START: f64 = 2.2;
const WEIGHTS: f64 = 4.4;
const REST: f64 = 4.2;

/// The drawing.
pub fn draw() -> Canvas {
    let description = "Two kernels in a chain. In an ordinary launch the second one starts when the first has ended: its start and its first loads follow. In a \
        dependent launch it starts earlier and loads its weights while the first one ends; griddepcontrol.wait holds it \
        until the first one's results are visible.";
    let mut c = Canvas::new(272.0, "Programmatic dependent launch", description);
    let axis = Axis { left: 92.0, scale: 25.5 };
    let whole = START + WEIGHTS + REST;
    let kernel = |c: &mut Canvas, y: f64, name: &str, at: f64, wait: Option<f64>| {
        axis.name(c, y, name);
        axis.span(c, y, [at, at + START], "f", "start");
        let loaded = at + START + WEIGHTS;
        axis.span(c, y, [at + START, loaded], "e", "load weights");
        let from = wait.map_or(loaded, |wait| wait.max(loaded));
        axis.span(c, y, [loaded, from], "empty", "wait");
        axis.span(c, y, [from, from + REST], "a", "read x, store y");
        from + REST
    };
    c.left(16.0, 26.0, "strong", "Ordinary launches of one stream");
    let first = kernel(&mut c, 38.0, "kernel 1", 0.0, None);
    let plain = kernel(&mut c, 38.0 + HIGH + 4.0, "kernel 2", first, None);
    c.left(16.0, 126.0, "strong", "Dependent launch: #[tile_kernel(pdl(independent = [w]))]");
    let early = whole - START - WEIGHTS - 1.3;
    let first = kernel(&mut c, 138.0, "kernel 1", 0.0, None);
    let end = kernel(&mut c, 138.0 + HIGH + 4.0, "kernel 2", early, Some(first));
    let y = 138.0 + 2.0 * HIGH + 4.0;
    c.line([axis.x(first), 132.0], [axis.x(first), y + 8.0], "dash");
    c.left(axis.x(first) + 6.0, y + 18.0, "small", "griddepcontrol.wait returns: y is visible");
    c.arrow(&[[axis.x(plain), 180.0], [axis.x(end), 180.0]]);
    c.middle(axis.x((plain + end) / 2.0), 172.0, "small", "gained");
    axis.arrow(&mut c, 238.0, plain);
    c
}
