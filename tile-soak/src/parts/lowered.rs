//! R1 below the author's level: programs with one synchronising operation dropped or changed, which only the checked simulator
//! can notice. It measures the simulator: what the compiler may get wrong, it must see.

use super::mutants::corpus::originals;
use super::shapes::kernels;
use crate::kernels::launch::{Launch, first, schedules};
use crate::part::{Case, Outcome, Part};
use rand::Rng;
use rand::seq::IndexedRandom;
use tile_ir::lowered::visit::{each, each_list_mut};
use tile_ir::lowered::{Op, OpKind};
use tile_ir::sim::SimError;

/// The part.
pub struct Lowered;

/// What is done to an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Drop,
    /// A wait for one group less.
    Later,
    /// A barrier of one arrival more, or of 32 threads more.
    More,
}

/// Whether an operation synchronises, its name in tables, and what may be done to it.
fn changes(op: &OpKind) -> Option<(&'static str, &'static [Change])> {
    use Change::{Drop, Later, More};
    Some(match op {
        OpKind::AsyncCommit => ("cp.async commit", &[Drop]),
        OpKind::AsyncWait { .. } => ("cp.async wait", &[Drop, Later]),
        OpKind::AsyncArrive { .. } => ("cp.async arrive", &[Drop]),
        OpKind::Barrier => ("block barrier", &[Drop]),
        OpKind::WarpBarrier => ("warp barrier", &[Drop]),
        OpKind::Wait => ("wait for the previous kernel", &[Drop]),
        OpKind::BarrierInit { .. } => ("mbarrier init", &[Drop, More]),
        OpKind::FenceBarrierInit => ("fence of mbarrier inits", &[Drop]),
        OpKind::BarrierArrive { .. } => ("mbarrier arrive", &[Drop]),
        OpKind::BarrierExpect { .. } => ("mbarrier expect", &[Drop]),
        OpKind::BarrierWait { .. } => ("mbarrier wait", &[Drop]),
        OpKind::BulkCommit => ("bulk commit", &[Drop]),
        OpKind::BulkWait { .. } => ("bulk wait", &[Drop, Later]),
        OpKind::FenceProxyAsync => ("proxy fence", &[Drop]),
        OpKind::NamedBarrier { .. } => ("named barrier", &[Drop, More]),
        OpKind::ClusterBarrier { .. } => ("cluster barrier", &[Drop]),
        OpKind::WgmmaFence => ("wgmma fence", &[Drop]),
        OpKind::WgmmaCommit => ("wgmma commit", &[Drop]),
        OpKind::WgmmaWait { .. } => ("wgmma wait", &[Drop, Later]),
        _ => return None,
    })
}

/// Changes the operation of this number among those that synchronise, in order of the program.
fn change(body: &mut Vec<Op>, number: usize, change: Change) {
    let mut seen = 0;
    each_list_mut(body, &mut |list| {
        let mut at = 0;
        while at < list.len() {
            if changes(&list[at].kind).is_some() {
                seen += 1;
                if seen - 1 == number {
                    match (&mut list[at].kind, change) {
                        (OpKind::AsyncWait { pending } | OpKind::BulkWait { pending, .. }, Change::Later) => {
                            *pending += 1
                        }
                        (OpKind::WgmmaWait { pending }, Change::Later) => *pending += 1,
                        (OpKind::BarrierInit { arrivals, .. }, Change::More) => *arrivals += 1,
                        (OpKind::NamedBarrier { threads, .. }, Change::More) => *threads += 32,
                        _ => drop(list.remove(at)),
                    }
                    return;
                }
            }
            at += 1;
        }
    });
}

/// The operations that synchronise, in the order that [`change`] counts them.
fn synchronising(body: &[Op]) -> Vec<(&'static str, &'static [Change])> {
    // Lists are visited as `each_list_mut` visits them, so that numbers agree.
    let mut all = vec![];
    let mut copy = body.to_vec();
    each_list_mut(&mut copy, &mut |list| all.extend(list.iter().filter_map(|op| changes(&op.kind))));
    debug_assert_eq!(all.len(), {
        let mut count = 0;
        each(body, &mut |op| count += usize::from(changes(&op.kind).is_some()));
        count
    });
    all
}

impl Part for Lowered {
    fn name(&self) -> &'static str {
        "lowered"
    }

    fn about(&self) -> &'static str {
        "lowered programs with one barrier, fence, wait or commit dropped or changed: found by the checked simulator, or without \
         effect. A failure is other results and no report"
    }

    fn size(&self) -> u64 {
        3000
    }

    fn sample(&self) -> u64 {
        16
    }

    fn run(&self, case: Case) -> Outcome {
        let mut rng = case.rng();
        for _ in 0..100 {
            if let Some(outcome) = one(&mut rng) {
                return outcome;
            }
        }
        Outcome::failed("none", "no program synchronises")
    }
}

/// One program with one change; none where nothing in it synchronises.
fn one(rng: &mut impl Rng) -> Option<Outcome> {
    let original = originals().choose(rng)?;
    let (_, kernel) = kernels().iter().find(|(source, _)| source.id == original.source.id)?;
    let setup = original.setups().ok()?.choose(rng)?;
    let solved = setup.problems.choose(rng)?;
    let (target, _) = solved.programs.choose(rng)?;
    let mut launch = Launch::new(kernel, &kernel.instances[setup.instance], *target, &solved.problem).ok()?;
    let operations = synchronising(&launch.program.body);
    let number = rng.random_range(0..operations.len().max(1));
    let (name, possible) = operations.get(number)?;
    let chosen = *possible.choose(rng)?;
    change(&mut launch.program.body, number, chosen);
    let class = match chosen {
        Change::Drop => format!("{name} dropped"),
        Change::Later => format!("{name} of one group less"),
        Change::More => format!("{name} of more arrivals"),
    };
    let limit = solved.steps.saturating_mul(30).saturating_add(1_000_000);
    let mut said = None;
    for options in schedules(solved.problem.data, limit) {
        match launch.checked(&solved.problem, &options) {
            Err(SimError::Malformed(_)) => return Some(Outcome::passed(class, "malformed")),
            Err(error) => return Some(Outcome::failed(class, error.to_string())),
            Ok((report, _)) if !report.is_clean() => return Some(Outcome::passed(class, "checked")),
            Ok((report, results)) if results != solved.results => said = Some(first(&report.diagnostics)),
            Ok(_) => {}
        }
    }
    let (id, problem) = (&original.source.id, &solved.problem);
    Some(match said {
        Some(_) => Outcome::failed(
            class,
            format!(
                "{id} on {target}, instance {}, operation {number}: other results, and no report; {problem:?}",
                setup.instance
            ),
        ),
        None => Outcome::passed(class, "no effect"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tile_ir::ir::{EntityRef, SpanId};

    fn op(kind: OpKind) -> Op {
        Op { kind, span: SpanId::new(0) }
    }

    #[test]
    fn changes_hit_the_operation_that_was_counted() {
        let body = vec![op(OpKind::Barrier), op(OpKind::AsyncWait { pending: 1 }), op(OpKind::AsyncCommit)];
        let names: Vec<&str> = synchronising(&body).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["block barrier", "cp.async wait", "cp.async commit"]);
        let mut later = body.clone();
        change(&mut later, 1, Change::Later);
        assert_eq!(later[1].kind, OpKind::AsyncWait { pending: 2 });
        let mut dropped = body;
        change(&mut dropped, 0, Change::Drop);
        assert_eq!(dropped.len(), 2);
    }
}
