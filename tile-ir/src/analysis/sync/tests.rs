//! Each place by an example, and all of them against every order in which a kernel's statements can be executed.

use super::pending::{Walk, needs_barrier};
use super::*;
use crate::analysis::testing::Build;
use crate::analysis::{analyse, testing::report};
use crate::ir::*;

/// `copy(x.at([0]), &mut s)`
fn copy_in(b: &mut Build, from: Place, to: Place) -> StmtId {
    let zero = b.int(0);
    let (src, dst) = (b.tile(from, &[zero]), b.tile(to, &[]));
    b.stmt(StmtKind::Copy { src, dst, width: None, tma: true, evict: None })
}

/// `acc += s[i]`
fn add(b: &mut Build, acc: VarId, s: Place, i: VarId) -> StmtId {
    let at = b.var(i);
    let (value, old) = (b.load(s, &[at]), b.var(acc));
    let sum = b.add(old, value);
    b.stmt(StmtKind::Assign { var: acc, value: sum })
}

fn placed(b: Build) -> BTreeSet<StmtId> {
    let analysis = analyse(&b.done(), Target::Sm90a);
    assert_eq!(report(&analysis.diagnostics), "");
    analysis.barriers_before
}

/// A kernel of 128 threads with a tensor, two arrays of 128 elements and a sum.
fn begin() -> (Build, Place, [Place; 2], VarId, VarId) {
    let mut b = Build::new();
    let x = b.tensor("x", Dtype::F32, &["K"], false);
    let t = b.threads("t", 128);
    let arrays = ["a_s", "b_s"].map(|name| b.shared(name, Dtype::F32, &[128]));
    let zero = b.float(0.0);
    let acc = b.let_mut("acc", zero);
    (b, x, arrays, acc, t)
}

#[test]
fn what_was_copied_before_a_loop_is_waited_for_before_the_loop() {
    let (mut b, x, [s, _], acc, _) = begin();
    copy_in(&mut b, x, s);
    let end = b.int(128);
    let reads = b.serial("k", end, |b, k| {
        add(b, acc, s, k);
    });
    assert_eq!(placed(b), [reads].into_iter().collect());
}

/// The loops of the GEMM ladder's rung `tiled`: two barriers an iteration of the loop over K, none in those inside it.
#[test]
fn a_tile_that_every_iteration_copies_is_waited_for_in_that_loop_only() {
    let (mut b, x, [a_s, b_s], acc, _) = begin();
    let steps = b.dim("K");
    let mut wanted = BTreeSet::new();
    b.serial("step", steps, |b, _| {
        wanted.insert(copy_in(b, x, a_s));
        copy_in(b, x, b_s);
        let depth = b.int(16);
        wanted.insert(b.serial("k", depth, |b, _| {
            for s in [a_s, b_s] {
                let (zero, four) = (b.int(0), b.int(4));
                b.for_("i", zero, four, LoopKind::Unroll, |b, i| {
                    add(b, acc, s, i);
                });
            }
        }));
    });
    assert_eq!(placed(b), wanted);
}

#[test]
fn a_barrier_leaves_conditionals_with_the_loops_around_them() {
    let (mut b, x, [s, _], acc, t) = begin();
    copy_in(&mut b, x, s);
    let end = b.int(4);
    let reads = b.serial("k", end, |b, k| {
        // Threads disagree on this one.
        let (t_, limit) = (b.var(t), b.int(64));
        let cond = b.lt(t_, limit);
        b.if_(cond, |b| {
            add(b, acc, s, k);
        });
    });
    assert_eq!(placed(b), [reads].into_iter().collect());
    // Outside of a loop a conditional keeps its barrier: blocks that do not enter it need none.
    let (mut b, x, [s, _], acc, t) = begin();
    let blocks = b.int(4);
    let block = b.blocks("block", blocks);
    copy_in(&mut b, x, s);
    let (block, first) = (b.var(block), b.int(1));
    let cond = b.lt(block, first);
    let mut read = None;
    b.if_(cond, |b| {
        read = Some(add(b, acc, s, t));
    });
    assert_eq!(placed(b), read.into_iter().collect());
}

#[test]
fn what_the_loop_makes_anew_keeps_its_barrier_in_the_loop() {
    let (mut b, x, [s, _], acc, t) = begin();
    copy_in(&mut b, x, s);
    let end = b.int(4);
    let mut wanted = BTreeSet::new();
    b.serial("k", end, |b, _| {
        wanted.insert(add(b, acc, s, t));
        wanted.insert(copy_in(b, x, s));
    });
    assert_eq!(placed(b), wanted);
}

/// In the loop, one barrier orders both; moved before it, the array that the loop fills needs another behind the loop.
#[test]
fn two_barriers_around_a_loop_are_fewer_than_one_in_it() {
    let (mut b, x, [a_s, b_s], acc, t) = begin();
    copy_in(&mut b, x, a_s);
    let end = b.int(16);
    let around = b.serial("k", end, |b, k| {
        let (at, value) = (b.var(t), b.float(1.0));
        b.store(b_s, &[at], value);
        add(b, acc, a_s, k);
    });
    let behind = copy_in(&mut b, x, b_s);
    assert_eq!(placed(b), [around, behind].into_iter().collect());
}

#[test]
fn work_is_bounded() {
    let (mut b, x, [s, _], acc, _) = begin();
    for _ in 0..300 {
        let end = b.int(4);
        copy_in(&mut b, x, s);
        b.serial("k", end, |b, k| {
            add(b, acc, s, k);
        });
    }
    let kernel = b.done();
    let uniform = kernel.stmts.keys().collect();
    let mut walk = Walk::new(&kernel, &uniform);
    walk.insert();
    let nests = Nests::of(&kernel);
    walk.steps = 0;
    while nests.improve(&mut walk) {}
    assert!(walk.steps < STEPS, "{} statements were visited", walk.steps);
    assert_eq!(nests.cost(&walk.barriers), 599);
}

/// A random kernel of copies, loops over tiles, element accesses, loops and conditionals.
fn random_body(
    b: &mut Build,
    next: &mut dyn FnMut(u64) -> u64,
    context: (Place, [Place; 2], VarId, [VarId; 2]),
    depth: u32,
) {
    let (x, arrays, acc, [block, t]) = context;
    for _ in 0..1 + next(4) {
        let s = arrays[next(2) as usize];
        match next(if depth > 0 { 10 } else { 6 }) {
            0 | 1 => {
                copy_in(b, x, s);
            }
            2 | 3 => {
                add(b, acc, s, t);
            }
            4 => {
                let (at, value) = (b.var(t), b.float(1.0));
                b.store(s, &[at], value);
            }
            5 if next(3) == 0 => {
                b.sync();
            }
            5 => {
                let to = arrays[next(2) as usize];
                b.parallel("e", 128, |b, e| {
                    let (from, at) = (b.var(e), b.var(e));
                    let value = b.load(s, &[from]);
                    b.store(to, &[at], value);
                });
            }
            6 => {
                let (var, limit) = if next(2) == 0 { (block, 1) } else { (t, 64) };
                let (value, limit) = (b.var(var), b.int(limit));
                let cond = b.lt(value, limit);
                // Statements that every thread must reach may stand under a condition that all share only.
                let under = |b: &mut Build, next: &mut dyn FnMut(u64) -> u64| match var == block {
                    true => random_body(b, next, context, depth - 1),
                    false => {
                        add(b, acc, s, t);
                    }
                };
                b.if_(cond, |b| under(b, next));
            }
            _ => {
                let end = b.int(1 + next(3) as i64);
                b.serial("k", end, |b, _| random_body(b, next, context, depth - 1));
            }
        }
    }
}

/// Executes statements as `choose` says, and checks that every access is ordered. How many barriers are met.
struct Execution<'e> {
    kernel: &'e Kernel,
    barriers: &'e BTreeSet<StmtId>,
    /// Since the last barrier.
    seen: Vec<(BufferId, u8)>,
    waits: u64,
}

impl Execution<'_> {
    fn block(&mut self, body: &[StmtId], choose: &mut dyn FnMut(u64) -> u64) {
        for &stmt in body {
            if self.barriers.contains(&stmt) {
                self.barrier();
            }
            match &self.kernel.stmts[stmt].kind {
                StmtKind::If { then, .. } => {
                    if choose(2) == 1 {
                        self.block(then, choose);
                    }
                }
                StmtKind::For { end, body, .. } => {
                    let end = self.kernel.const_index(*end).unwrap_or(1) as u64;
                    for _ in 0..choose(end + 1) {
                        self.block(body, choose);
                    }
                }
                StmtKind::SyncThreads => self.barrier(),
                _ => {
                    let accesses = pending::accesses(self.kernel, stmt);
                    // A statement's own accesses are one operation.
                    for &(buffer, bits) in &accesses {
                        for &(other, before) in &self.seen {
                            assert!(other != buffer || !needs_barrier(before, bits), "{stmt:?} is not ordered");
                        }
                    }
                    self.seen.extend(accesses);
                }
            }
        }
    }

    fn barrier(&mut self) {
        self.seen.clear();
        self.waits += 1;
    }
}

#[test]
fn every_order_of_execution_is_ordered_and_none_waits_more_often() {
    let mut state = 7u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut moved = 0;
    for _ in 0..400 {
        let (mut b, x, arrays, acc, t) = begin();
        let blocks = b.int(4);
        let block = b.blocks("block", blocks);
        random_body(&mut b, &mut next, (x, arrays, acc, [block, t]), 3);
        let kernel = b.done();
        let uniform = analyse(&kernel, Target::Sm90a).block_uniform;
        let mut walk = Walk::new(&kernel, &uniform);
        walk.insert();
        let (nearest, placed) = (walk.barriers, place(&kernel, &uniform));
        moved += usize::from(nearest != placed);
        let run = |barriers: &BTreeSet<StmtId>, choose: &mut dyn FnMut(u64) -> u64| {
            let mut execution = Execution { kernel: &kernel, barriers, seen: vec![], waits: 0 };
            execution.block(&kernel.body, choose);
            execution.waits
        };
        // Every loop runs in full, every conditional is taken.
        let whole = |barriers: &BTreeSet<StmtId>| run(barriers, &mut |below| below - 1);
        let (before, after) = (whole(&nearest), whole(&placed));
        assert!(after <= before, "{after} barriers, {before} before");
        for _ in 0..20 {
            run(&placed, &mut next);
        }
    }
    assert!(moved > 40, "{moved} kernels have a barrier that moved");
}
