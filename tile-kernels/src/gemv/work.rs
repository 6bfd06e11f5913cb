//! What a launch of an instance loads and executes: an instance's geometry and a problem to [`Work`].

use super::candidates::Problem;
use super::model::{Path, Work};

/// `a / b`, rounded up; 0 of nothing.
pub(super) fn up(a: i64, b: i64) -> i64 {
    let b = b.max(1);
    a.max(0) / b + i64::from(a.max(0) % b != 0)
}

/// Instructions for an element of x and its products with `rows` rows: elements of 16 bits are converted first.
fn products(p: &Problem, rows: usize) -> f64 {
    let rows = rows as f64;
    if p.element() == 2 { 1.0 + 2.0 * rows } else { rows }
}

/// Lines of 128 bytes that a warp's load of neighbouring vectors takes.
fn transfers(p: &Problem, vec: usize) -> f64 {
    ((32 * vec as i64 * p.element()) as f64 / 128.0).max(1.0)
}

/// A kernel whose threads load to registers.
pub(super) struct Loop {
    /// Threads of a row, in each of `parts` blocks.
    pub lanes: usize,
    pub rows: usize,
    pub groups: usize,
    pub unroll: usize,
    pub stages: usize,
    pub parts: usize,
    pub vec: usize,
    /// Whether it is compiled for K: its loads are as many as K takes, shared out evenly among its steps.
    pub exact: bool,
}

impl Loop {
    pub fn work(&self, p: &Problem) -> Work {
        let Loop { lanes, rows, groups, unroll, stages, parts, vec, exact } = *self;
        let threads = lanes * groups;
        let block_rows = rows * groups;
        let share = up(p.k, (lanes * vec * parts) as i64).max(1);
        let steps = up(share, unroll as i64);
        let unrolled = if exact { up(share, steps) } else { unroll as i64 };
        let in_flight = share.min(unrolled * stages as i64);
        let row_bytes = (p.k * p.element()) as f64;
        let block_bytes = block_rows as f64 * row_bytes / parts as f64;
        let thread_bytes = (in_flight * rows as i64) as f64 * (vec as i64 * p.element()) as f64;
        let blocks = up(p.n, block_rows as i64) * parts as i64;
        let taken = (steps * unrolled) as f64;
        // A register holds 4 bytes, or one narrower element.
        let held = (unrolled * (rows * stages) as i64) as f64 * ((vec as i64 * p.element()) as f64 / 4.0).max(1.0);
        let shuffles = 5.0f64.min((lanes as f64).log2()) + if lanes > 32 { 3.0 } else { 0.0 };
        Work {
            path: if parts > 1 { Path::Cluster } else { Path::Registers },
            blocks: blocks as f64,
            threads: threads as f64,
            at_work: (threads as f64 / 32.0).ceil(),
            row_warps: (lanes as f64 / 32.0).max(1.0),
            registers: (24.0 + held).max(32.0),
            shared: if lanes > 32 { (rows * threads / 8) as f64 } else { 0.0 },
            block_bytes,
            bytes: p.n as f64 * row_bytes,
            // Threads beyond a short row ask for nothing.
            asked: (threads as f64 * thread_bytes).min(block_bytes),
            steps: steps as f64,
            chain: [taken, shuffles],
            transfers: taken * (rows as f64 + 1.0) * transfers(p, vec),
            instructions: taken * (rows as f64 + 1.0 + vec as f64 * products(p, rows)) + 2.0 * rows as f64 * shuffles,
        }
    }

    /// The work of a loop over rows whose ends are read by elements, as x is.
    pub fn by_lines(&self, p: &Problem) -> Work {
        let work = self.work(p);
        let Loop { rows, groups, vec, .. } = *self;
        // Rows that are `vec` apart belong together.
        let blocks = up(up(p.n, (vec * rows) as i64) * vec as i64, groups as i64) as f64;
        let [taken, shuffles] = work.chain;
        let of_x = taken * vec as f64;
        Work {
            path: Path::Lines,
            blocks,
            registers: work.registers + (2 * rows) as f64,
            chain: [of_x, shuffles],
            // An element of x a lane, 16 bytes apart: four lines.
            transfers: taken * rows as f64 * transfers(p, vec) + of_x * 4.0,
            instructions: work.instructions + of_x + (2 * rows + 2) as f64,
            ..work
        }
    }
}

/// A kernel with a ring in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Ring {
    pub warps: usize,
    pub span: usize,
    pub stages: usize,
    /// Rows of a block.
    pub rows: usize,
    /// Rows whose sums there is room for.
    pub most: usize,
}

impl Ring {
    /// Loads of a row that a thread makes.
    pub fn loads(&self, p: &Problem) -> i64 {
        up(p.k, (32 * self.warps * p.vector()) as i64).max(1)
    }

    pub fn work(&self, p: &Problem) -> Work {
        let Ring { warps, span, stages, rows, most } = *self;
        let row_bytes = (p.k * p.element()) as f64;
        let slot = (self.loads(p) * (32 * warps * span * 16) as i64) as f64;
        let steps = up(rows as i64, span as i64);
        let in_turn = (steps * self.loads(p)) as f64;
        Work {
            path: Path::Ring,
            blocks: up(p.n, rows as i64) as f64,
            threads: (32 * (warps + 1)) as f64,
            at_work: warps as f64,
            row_warps: warps as f64,
            registers: 40.0 + (self.loads(p) * p.vector() as i64) as f64,
            shared: stages as f64 * slot + ((most + span) * warps * 4) as f64 + 256.0,
            block_bytes: rows as f64 * row_bytes,
            bytes: p.n as f64 * row_bytes,
            asked: (stages * span).min(rows.next_multiple_of(span)) as f64 * row_bytes,
            steps: steps as f64,
            // The rows of a stage do not wait for each other.
            chain: [in_turn, steps as f64 * 5.0],
            transfers: in_turn * span as f64 * transfers(p, p.vector()),
            instructions: in_turn * (span as f64 + p.vector() as f64 * products(p, span))
                + 10.0 * (steps * span as i64) as f64,
        }
    }
}
