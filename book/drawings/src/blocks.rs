//! Blocks and threads over a vector whose length is no multiple of a block's.

use crate::canvas::{Canvas, WIDTH};

/// Elements of the vector, and threads of a block: those of the book's first kernel.
const N: u32 = 1000;
const THREADS: u32 = 256;

/// The drawing.
pub fn draw() -> Canvas {
    let blocks = N.div_ceil(THREADS);
    let live = N - (blocks - 1) * THREADS;
    let description = format!(
        "A vector of {N} elements is cut into {blocks} blocks of {THREADS} threads, a thread an element. In the last block {live} \
         threads have an element and {} do not; `if i < N` keeps those from doing anything. Each block is {} warps of 32 \
         threads.",
        blocks * THREADS - N,
        THREADS / 32
    );
    let mut c = Canvas::new(270.0, "Blocks and threads over a vector with a ragged end", &description);
    let (left, width) = (20.0, WIDTH - 40.0);
    let scale = width / f64::from(blocks * THREADS);
    let x = |i: u32| left + f64::from(i) * scale;

    c.left(left, 26.0, "", "y, in global memory");
    c.rect(x(0), 34.0, x(N) - x(0), 22.0, "a");
    c.middle(x(N / 2), 50.0, "small", &format!("N = {N} elements"));
    for block in 0..blocks {
        let (first, end) = (block * THREADS, (block + 1) * THREADS);
        let alive = end.min(N);
        c.line([x(first), 62.0], [x(first), 84.0], "dash");
        c.rect(x(first) + 1.5, 84.0, x(end) - x(first) - 3.0, 40.0, "f");
        c.rect(x(first) + 1.5, 84.0, x(alive) - x(first) - 3.0, 40.0, "b");
        c.middle(x(first + THREADS / 2) - 4.0, 101.0, "strong", &format!("block {block}"));
        c.middle(x(first + THREADS / 2) - 4.0, 117.0, "small", &format!("i = {first} to {}", end - 1));
    }
    c.text(
        x(blocks * THREADS),
        142.0,
        crate::canvas::Anchor::End,
        "small",
        &format!("grey: {} threads with i >= N", blocks * THREADS - N),
    );
    c.left(
        left,
        142.0,
        "small",
        "let [b] = blocks([ceil_div(N, 256)]);   let [t] = threads([256]);   let i = b * 256 + t;",
    );

    // One block, as its warps.
    let warps = THREADS / 32;
    c.line([x(0) + 1.5, 156.0], [left, 190.0], "dash");
    c.line([x(THREADS) - 1.5, 156.0], [left + width, 190.0], "dash");
    c.middle(WIDTH / 2.0, 182.0, "", "block 0");
    let wide = width / f64::from(warps);
    for warp in 0..warps {
        let at = left + f64::from(warp) * wide;
        c.label([at + 1.5, 192.0, wide - 3.0, 30.0], "b", "small", &format!("warp {warp}"));
        c.middle(at + wide / 2.0, 238.0, "small faint", &format!("t {}-{}", warp * 32, warp * 32 + 31));
    }
    c.left(
        left,
        258.0,
        "small",
        "The 32 threads of a warp execute together; one load instruction is one request of all of them.",
    );
    c
}
