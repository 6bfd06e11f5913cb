//! Blocks that store to the same element.

use super::*;

/// `y[start(b, t)] = 0` in blocks of 128 threads, `grid` of them, guarded by `start < N` or not.
fn stores(guard: bool, grid: impl FnOnce(&mut Build) -> E, at: impl Fn(&mut Build, VarId, VarId) -> E) -> Build {
    let mut b = Build::new();
    let y = b.tensor("y", Dtype::F32, &["N"], true);
    let extent = grid(&mut b);
    let block = b.blocks("b", extent);
    let t = b.threads("t", 128);
    let store = |b: &mut Build| {
        let (at, zero) = (at(b, block, t), b.float(0.0));
        b.store(y, &[at], zero);
    };
    if guard {
        let (at, n) = (at(&mut b, block, t), b.dim("N"));
        let cond = b.lt(at, n);
        b.if_(cond, store);
    } else {
        store(&mut b);
    }
    b
}

fn ceil(b: &mut Build) -> E {
    let (n, d) = (b.dim("N"), b.int(128));
    b.bin(BinaryOp::CeilDiv, n, d)
}

/// `pitch * b + t`.
fn tiles(pitch: i64) -> impl Fn(&mut Build, VarId, VarId) -> E {
    move |b, block, t| {
        let (start, thread) = (b.affine(pitch, block, 0), b.var(t));
        b.add(start, thread)
    }
}

#[test]
fn tiles_that_overlap_their_neighbours() {
    clean(stores(true, ceil, tiles(128)));
    clean(stores(true, ceil, tiles(129)));
    fails(
        stores(true, ceil, tiles(127)),
        expect![[r#"
            [TK0405] blocks race on `y`: neighbouring blocks store the same elements
              at: thread 127 of the block at b = 0 and thread 0 of the block at b = 1 both store y[127]
              note: at N = 4096, as at every launch with more than one block
              help: let each block have elements of `y` of its own, or use an atomic
        "#]],
    );
    assert!(report(&run(stores(false, ceil, tiles(64))).diagnostics).contains("both store y[64]"));
}

#[test]
fn a_single_block_has_no_neighbour() {
    clean(stores(true, |b| b.int(1), tiles(64)));
}

#[test]
fn digits_of_threads_are_told_apart() {
    // Warps of 32 lanes, 4 warps: `b * 128 + (t / 32) * 32 + t % 32`, or with a pitch of 16 between warps.
    let warps = |pitch: i64, block: i64| {
        stores(true, ceil, move |b, axis, t| {
            let (thread, size) = (b.var(t), b.int(32));
            let warp = b.bin(BinaryOp::Div, thread, size);
            let lane = b.bin(BinaryOp::Rem, thread, size);
            let pitch = b.int(pitch);
            let (rows, start) = (b.mul(warp, pitch), b.affine(block, axis, 0));
            let inner = b.add(rows, lane);
            b.add(start, inner)
        })
    };
    clean(warps(32, 128));
    assert!(report(&run(warps(32, 96)).diagnostics).contains("TK0405"));
    assert!(report(&run(warps(48, 128)).diagnostics).contains("TK0405"));
}

#[test]
fn what_depends_on_a_parameter_waits() {
    let mut b = stores(true, ceil, tiles(128));
    let by = b.scalar("by", Type::Index);
    let _ = by;
    clean(b);
    // A pitch that the launch chooses.
    let mut b = Build::new();
    let y = b.tensor("y", Dtype::F32, &["N"], true);
    let pitch = b.scalar("pitch", Type::Index);
    let extent = ceil(&mut b);
    let block = b.blocks("b", extent);
    let t = b.threads("t", 128);
    let (axis, thread) = (b.var(block), b.var(t));
    let start = b.mul(axis, pitch);
    let at = b.add(start, thread);
    let n = b.dim("N");
    let cond = b.lt(at, n);
    b.if_(cond, |b| {
        let zero = b.float(0.0);
        b.store(y, &[at], zero);
    });
    clean(b);
}

#[test]
fn one_block_that_stores_for_all_is_alone() {
    let only = |first: i64| {
        let mut b = Build::new();
        let y = b.tensor("y", Dtype::F32, &["N"], true);
        let extent = ceil(&mut b);
        let block = b.blocks("b", extent);
        let t = b.threads("t", 128);
        let (axis, bound) = (b.var(block), b.int(first));
        let cond = b.lt(axis, bound);
        b.if_(cond, |b| {
            let (at, zero) = (b.var(t), b.float(0.0));
            b.store(y, &[at], zero);
        });
        b
    };
    clean(only(1));
    assert!(report(&run(only(2)).diagnostics).contains("TK0405"));
}

#[test]
fn tiles_of_two_axes() {
    let copies = |rows: i64, columns: i64| {
        let mut b = Build::new();
        let y = b.tensor("y", Dtype::F32, &["M", "N"], true);
        let (m, n, size) = (b.dim("M"), b.dim("N"), b.int(64));
        let across = b.bin(BinaryOp::CeilDiv, n, size);
        let down = b.bin(BinaryOp::CeilDiv, m, size);
        let (bx, by) = (b.blocks("bx", across), b.blocks("by", down));
        b.threads("t", 128);
        let s = b.shared("s", Dtype::F32, &[64, 64]);
        b.clear(s);
        let (row, column) = (b.affine(rows, by, 0), b.affine(columns, bx, 0));
        let (src, dst) = (b.tile(s, &[]), b.tile(y, &[row, column]));
        b.stmt(StmtKind::Copy { src, dst, width: None, tma: true, evict: None });
        b
    };
    clean(copies(64, 64));
    clean(copies(64, 128));
    fails(
        copies(64, 32),
        expect![[r#"
            [TK0405] blocks race on `y`: neighbouring blocks store the same elements
              at: the block at bx = 0 and the block at bx = 1 both store y[[0, 32]]
              note: at M = 4096, N = 4096, as at every launch with more than one block
              help: let each block have elements of `y` of its own, or use an atomic
        "#]],
    );
    assert!(report(&run(copies(63, 64)).diagnostics).contains("by = 1"));
}
