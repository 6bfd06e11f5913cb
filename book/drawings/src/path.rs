//! The way of a kernel: from Rust to results on a CPU, and to machine code.

use crate::canvas::Canvas;

/// The drawing.
pub fn draw() -> Canvas {
    let description = "A Rust function with #[tile_kernel] is read by the macro into tile IR, data that is checked while you type; mistakes appear in \
        the editor. For an instance the IR is bound to types and constants: the fast simulator runs that on a CPU. Lowering places guards, vectors, \
        barriers, TMA and warp roles: the checked simulator runs the lowered program lane by lane. Emission prints CUDA C, NVRTC \
        compiles it to a cubin, which a disk cache keeps, and the driver launches it on a GPU.";
    let mut c = Canvas::new(360.0, "From Rust to machine code", description);
    let (w, h) = (150.0, 52.0);
    let mut stage = |x: f64, y: f64, class: &str, first: &str, second: &str| {
        c.rect(x, y, w, h, class);
        c.middle(x + w / 2.0, y + 22.0, "strong", first);
        c.middle(x + w / 2.0, y + 40.0, "small", second);
    };
    let columns = [16.0, 196.0, 376.0, 556.0];
    let (upper, lower, last) = (52.0, 154.0, 256.0);
    stage(columns[0], upper, "e", "Rust", "fn with #[tile_kernel]");
    stage(columns[1], upper, "a", "tile IR", "the kernel as data");
    stage(columns[2], upper, "a", "an instance", "types, constants bound");
    stage(columns[3], upper, "c", "fast simulator", "results, on the CPU");
    stage(columns[1], lower, "warn", "checks", "on your own lines");
    stage(columns[2], lower, "a", "lowered program", "guards, TMA, barriers");
    stage(columns[3], lower, "c", "checked simulator", "races, bounds, waits");
    stage(columns[0], last, "c", "GPU", "typed launch");
    stage(columns[1], last, "b", "cubin", "machine code, cached");
    stage(columns[2], last, "b", "CUDA C", "that you can read");

    let middle = |y: f64| y + h / 2.0;
    let across = |c: &mut Canvas, from: usize, to: usize, y: f64, text: &str| {
        let (a, b) = if from < to { (columns[from] + w, columns[to]) } else { (columns[from], columns[to] + w) };
        c.arrow(&[[a, middle(y)], [b, middle(y)]]);
        c.middle((a + b) / 2.0, middle(y) - 38.0, "small faint", text);
    };
    across(&mut c, 0, 1, upper, "macro");
    across(&mut c, 1, 2, upper, "launch");
    across(&mut c, 2, 3, upper, "");
    across(&mut c, 2, 3, lower, "");
    across(&mut c, 2, 1, last, "NVRTC");
    across(&mut c, 1, 0, last, "driver");
    for (column, from, to, text) in
        [(1, upper, lower, "while you type"), (2, upper, lower, "lower"), (2, lower, last, "emit")]
    {
        let x = columns[column] + w / 2.0;
        c.arrow(&[[x, from + h], [x, to]]);
        c.left(x + 8.0, (from + h + to) / 2.0 + 4.0, "small faint", text);
    }
    c.left(
        16.0,
        338.0,
        "small",
        "green: runs your kernel.  --show tile | lowered | cuda | ptx | sass prints each form.",
    );
    c
}
