//! Each place by an example, and all of them against every order in which a kernel's statements can be executed.

use super::pending::{Walk, needs_barrier};
use super::*;
use crate::analysis::analyse;
use crate::analysis::testing::barriers;
use crate::ir::*;
use crate::testing::parsed;

/// A kernel of 128 threads with a tensor, two arrays of 128 elements and a sum.
fn kernel(body: &str) -> String {
    format!(
        "kernel k(x: &Tensor<f32, (K,)>) {{
            let [block] = blocks([4]);
            let [t] = threads([128]);
            let mut a_s = alloc_shared::<f32>([128]);
            let mut b_s = alloc_shared::<f32>([128]);
            let mut acc = 0.0f32;
            {body}
        }}"
    )
}

/// The lines before which barriers are placed.
fn placed(body: &str) -> Vec<String> {
    barriers(&kernel(body))
}

#[test]
fn what_was_copied_before_a_loop_is_waited_for_before_the_loop() {
    let found = placed(
        "copy(x.at([0]), &mut a_s);
        for k in 0..128 {
            acc = acc + a_s[k];
        }",
    );
    assert_eq!(found, ["for k in 0..128 {"]);
}

/// The loops of the GEMM ladder's rung `tiled`: two barriers an iteration of the loop over K, none in those inside it.
#[test]
fn a_tile_that_every_iteration_copies_is_waited_for_in_that_loop_only() {
    let found = placed(
        "for step in 0..K {
            copy(x.at([0]), &mut a_s);
            copy(x.at([0]), &mut b_s);
            for k in 0..16 {
                for i in unroll(0..4) {
                    acc = acc + a_s[i];
                }
                for i in unroll(0..4) {
                    acc = acc + b_s[i];
                }
            }
        }",
    );
    assert_eq!(found, ["copy(x.at([0]), &mut a_s);", "for k in 0..16 {"]);
}

#[test]
fn a_barrier_leaves_conditionals_with_the_loops_around_them() {
    let found = placed(
        "copy(x.at([0]), &mut a_s);
        for k in 0..4 {
            // Threads disagree on this one.
            if t < 64 {
                acc = acc + a_s[k];
            }
        }",
    );
    assert_eq!(found, ["for k in 0..4 {"]);
    // Outside of a loop a conditional keeps its barrier: blocks that do not enter it need none.
    let found = placed(
        "copy(x.at([0]), &mut a_s);
        if block < 1 {
            acc = acc + a_s[t];
        }",
    );
    assert_eq!(found, ["acc = acc + a_s[t];"]);
}

#[test]
fn what_the_loop_makes_anew_keeps_its_barrier_in_the_loop() {
    let found = placed(
        "copy(x.at([0]), &mut a_s);
        for k in 0..4 {
            acc = acc + a_s[t];
            copy(x.at([0]), &mut a_s);
        }",
    );
    assert_eq!(found, ["acc = acc + a_s[t];", "copy(x.at([0]), &mut a_s);"]);
}

/// In the loop, one barrier orders both; moved before it, the array that the loop fills needs another behind the loop.
#[test]
fn two_barriers_around_a_loop_are_fewer_than_one_in_it() {
    let found = placed(
        "copy(x.at([0]), &mut a_s);
        for k in 0..16 {
            b_s[t] = 1.0f32;
            acc = acc + a_s[k];
        }
        copy(x.at([0]), &mut b_s);",
    );
    assert_eq!(found, ["for k in 0..16 {", "copy(x.at([0]), &mut b_s);"]);
}

#[test]
fn work_is_bounded() {
    let once = "copy(x.at([0]), &mut a_s); for k in 0..4 { acc = acc + a_s[k]; }\n";
    let kernel = crate::testing::bound(&parsed(&kernel(&once.repeat(300))));
    let (uniform, arrays) = (kernel.stmts.keys().collect(), shared(&kernel));
    let mut walk = Walk::new(&kernel, &uniform, &arrays);
    walk.insert();
    let nests = Nests::of(&kernel);
    walk.steps = 0;
    while nests.improve(&mut walk) {}
    assert!(walk.steps < STEPS, "{} statements were visited", walk.steps);
    assert_eq!(nests.cost(&walk.barriers), 599);
}

/// A random body of copies, loops over tiles, element accesses, loops and conditionals.
fn random_body(next: &mut dyn FnMut(u64) -> u64, depth: u32) -> String {
    let arrays = ["a_s", "b_s"];
    let mut body = String::new();
    for _ in 0..1 + next(4) {
        let s = arrays[next(2) as usize];
        body += &match next(if depth > 0 { 10 } else { 6 }) {
            0 | 1 => format!("copy(x.at([0]), &mut {s});\n"),
            2 | 3 => format!("acc = acc + {s}[t];\n"),
            4 => format!("{s}[t] = 1.0f32;\n"),
            5 if next(3) == 0 => "sync_threads();\n".to_owned(),
            5 => {
                let to = arrays[next(2) as usize];
                format!("for [e] in parallel([128]) {{ {to}[e] = {s}[e]; }}\n")
            }
            // Statements that every thread must reach may stand under a condition that all share only.
            6 if next(2) == 0 => format!("if block < 1 {{\n{}}}\n", random_body(next, depth - 1)),
            6 => format!("if t < 64 {{ acc = acc + {s}[t]; }}\n"),
            _ => format!("for k in 0..{} {{\n{}}}\n", 1 + next(3), random_body(next, depth - 1)),
        };
    }
    body
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
                    let accesses = pending::accesses(&crate::testing::bound(self.kernel), stmt);
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
        let kernel = crate::testing::bound(&parsed(&kernel(&random_body(&mut next, 3))));
        let (uniform, arrays) = (analyse(&kernel, Target::Sm90a).block_uniform, shared(&kernel));
        let mut walk = Walk::new(&kernel, &uniform, &arrays);
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
