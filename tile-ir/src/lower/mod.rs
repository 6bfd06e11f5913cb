//! From a kernel to a lowered program.
//!
//! [`lower`] is [`bind`] and [`lower_bound`], which is a list of passes. Each is a function with an in and an out, named in the first
//! column; `cargo xtask opt` runs them one by one.
//!
//! | pass | from | to |
//! |---|---|---|
//! | [`bind`] | a kernel and an instance | a bound kernel: constants, dtypes, no static `if`; `a * b + c` contracted; sums of rows in parts where loops add them up |
//! | `analysis` | a bound kernel | facts about it, and its last errors |
//! | `converting` | a bound kernel | one whose converting loads are a load and a conversion, where that lets it be specialised |
//! | `schedule` | facts | who does what: a producer and consumers, or a whole block, with the layouts of fragments and operands |
//! | `walk` | facts and a schedule | a program: operations, with guards on what was not proven, and barriers where tile operations meet other accesses; C parameters, grid and launch checks (`launch`) |
//! | `padding` | a program | one in which tiles that fill up a cluster have no effects |
//! | `dependent` | a program | one that waits for the previous kernel where it starts early; `prefetch`: what is loaded above that wait |
//! | `peel` | a program | one whose loops of products have their masked steps in a loop of their own |
//! | `place` | a program | one whose shared arrays have offsets |
//!
//! | of the walk | what it lowers |
//! |---|---|
//! | `statement`, `value`, `vector`, `tile` | statements; expressions; vectorised loops; `copy`, `fill` and `parallel` |
//! | `reduce`, `reduce_tile` | reductions over threads, and over the axis of a tile |
//! | `fragment`, `elementwise`, `lines`, `mma` | tiles in registers, loops over their elements, what those load once a row or column, products by `mma.sync` |
//! | `channel` | slots of shared arrays and what fills them: TMA, bulk copies, `cp.async`, registers; software pipelining |
//! | `hopper` | a producer and consumers: TMA and `wgmma`, or bulk copies and threads that read long rows by elements |
//! | `cluster`, `arrive` | what blocks do together |
//! | `raster` | which tile a block works on |
//! | `class` | what differs where rows of tensors are not aligned |
//! | `builder`, `term` | what the walk and the passes over programs write with; formulas of values |

mod alike;
mod arrive;
mod bind;
mod block;
mod builder;
mod channel;
mod class;
mod cluster;
mod converting;
mod dependent;
mod elementwise;
mod formula;
mod fragment;
mod hopper;
mod launch;
mod lines;
mod mma;
mod padding;
mod peel;
mod place;
mod prefetch;
mod raster;
mod reduce;
mod reduce_tile;
mod schedule;
mod staged;
mod statement;
mod term;
mod tile;
mod uses;
mod value;
mod vector;
mod walk;

pub use bind::bind;
pub(crate) use bind::bind_ahead;
pub use dependent::dependent;
pub use padding::padding;
pub use peel::peel;
pub use place::place;

use crate::analysis::{Analysis, IndexRange, analyse};
use crate::diag::Diagnostic;
use crate::ir::*;
use crate::lowered::*;
use schedule::{Partitions, schedule};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use term::{Compare, Term};
use walk::{Binding, Element, Lowering};

/// Lowers one instance of a verified kernel for a target.
///
/// Fails only with diagnostics that name the author's line: what the analysis refutes, and resources.
pub fn lower(kernel: &Kernel, instance: &Instance, target: Target) -> Result<Program, Vec<Diagnostic>> {
    let bound = bind(kernel, instance)?;
    lower_bound(&bound, target)
}

/// Whether a kernel's grid is the lowering's to choose, so that [`interface`] differs from what [`lower_bound`] launches.
pub fn chooses_grid(bound: &BoundKernel) -> bool {
    bound.swizzle.is_some()
        || bound
            .stmts
            .values()
            .any(|s| matches!(s.kind, StmtKind::Tile(TileOp::Gemm { .. }) | StmtKind::Persistent { .. }))
}

/// What a launch needs to know of a bound kernel: parameters, grid, checks. The program has no body, and a block a tile.
///
/// # Errors
/// The errors of [`lower_bound`].
pub fn interface(bound: &BoundKernel, target: Target) -> Result<Program, Vec<Diagnostic>> {
    let Scheduled { kernel, facts, .. } = planned(bound, facts(bound, target)?, target)?;
    walk::interface(&kernel, &facts, target)
}

/// Lowers a bound kernel: a line a pass.
///
/// # Errors
/// What the analysis refutes, resources, and mistakes of the compiler.
pub fn lower_bound(bound: &BoundKernel, target: Target) -> Result<Program, Vec<Diagnostic>> {
    lower_analysed(bound, facts(bound, target)?, target)
}

/// [`lower_bound`] of a kernel whose analysis is known: a line a pass.
fn lower_analysed(bound: &BoundKernel, facts: Analysis, target: Target) -> Result<Program, Vec<Diagnostic>> {
    let program = walk_analysed(bound, facts, target)?;
    let program = padding(program)?;
    let program = dependent(program)?;
    let program = peel(program)?;
    let program = place(program);
    place::fits(bound, &program)?;
    verified(program)
}

/// The passes over a kernel: its program before the passes over programs.
///
/// # Errors
/// What the analysis refutes, and mistakes of the compiler.
pub fn walked(bound: &BoundKernel, target: Target) -> Result<Program, Vec<Diagnostic>> {
    walk_analysed(bound, facts(bound, target)?, target)
}

fn walk_analysed(bound: &BoundKernel, facts: Analysis, target: Target) -> Result<Program, Vec<Diagnostic>> {
    let Scheduled { kernel, facts, partitions, remarks } = planned(bound, facts, target)?;
    walk::walk(&kernel, &facts, partitions, &remarks, target)
}

/// A kernel of which it is known who does what.
struct Scheduled<'b> {
    /// The kernel, with its converting loads in two steps where that lets it be specialised.
    kernel: Cow<'b, BoundKernel>,
    facts: Analysis,
    partitions: Partitions,
    /// What was done to the kernel, and where.
    remarks: Vec<(SpanId, String)>,
}

/// The passes from facts to partitions.
fn planned(bound: &BoundKernel, own: Analysis, target: Target) -> Result<Scheduled<'_>, Vec<Diagnostic>> {
    let partitions = schedule(bound, &own, target)?;
    let sums = bind::sums::remarks(bound);
    if matches!(partitions, Partitions::Block(_)) && target.info().wgmma {
        for converting::Converting { kernel, remarks } in converting::converting(bound) {
            let Ok(facts) = facts(&kernel, target) else { continue };
            if let Ok(partitions @ Partitions::Specialised(_)) = schedule(&kernel, &facts, target) {
                let remarks = [remarks, sums].concat();
                return Ok(Scheduled { kernel: Cow::Owned(kernel), facts, partitions, remarks });
            }
        }
    }
    // TMA clips rows of any length; where threads copy, the launch checks that rows have a multiple of the elements of a transaction.
    let facts = match partitions {
        Partitions::Specialised(_) => own,
        Partitions::Block(_) => own.widened(bound),
    };
    Ok(Scheduled { kernel: Cow::Borrowed(bound), facts, partitions, remarks: sums })
}

/// The schedule of a bound kernel as text: who does what, the channels between them and the layouts of what they hold, and how rows are added
/// up in loops.
///
/// # Errors
/// What the analysis refutes, and layouts that do not fit.
pub fn scheduled(bound: &BoundKernel, target: Target) -> Result<String, Vec<Diagnostic>> {
    let Scheduled { kernel, partitions, .. } = planned(bound, facts(bound, target)?, target)?;
    let sums = bind::sums::remarks(bound).into_iter().map(|(_, text)| format!("    {text}\n"));
    Ok(partitions.text(&kernel) + &sums.collect::<String>())
}

/// The program, whose structure is verified in debug builds. Whoever compiles it verifies it as a whole.
fn verified(program: Program) -> Result<Program, Vec<Diagnostic>> {
    #[cfg(any(test, feature = "sim"))]
    if cfg!(debug_assertions) {
        crate::verify::program::structure(&program).map_err(|bug| vec![bug.diagnostic()])?;
    }
    Ok(program)
}

/// The facts of a bound kernel.
fn facts(bound: &BoundKernel, target: Target) -> Result<Analysis, Vec<Diagnostic>> {
    let facts = analyse(bound, target);
    match facts.diagnostics.is_empty() {
        true => Ok(facts),
        false => Err(bind::for_values(bound, facts.diagnostics)),
    }
}

/// What is wrong with an analysed kernel on a target beyond what its analysis says: layouts of tiles that nothing divides or
/// that disagree, swizzles that do not fit, and shared memory that only lowering adds.
///
/// Layouts are inferred alone, which is quick; the whole kernel is lowered only where its arrays, with what is added, fit only if some share bytes.
pub(crate) fn refusals(bound: &BoundKernel, analysis: &Analysis, target: Target) -> Vec<Diagnostic> {
    let lies = |buffer: &Buffer| {
        buffer.scope == Scope::Fragment || buffer.scope == Scope::Shared && buffer.swizzle.is_of_rows()
    };
    let is_deep = |stmt: &Stmt| {
        matches!(stmt.kind, StmtKind::For { kind: LoopKind::Pipelined { stages, .. }, .. }
            if i64::from(class::depth(bound, stages)) > bind::MOST_STAGES)
    };
    let limit = u64::from(target.max_shared_bytes());
    let own = crate::analysis::shared_bytes(bound);
    if own <= limit && !bound.buffers.values().any(lies) && !bound.stmts.values().any(is_deep) {
        return vec![];
    }
    let partitions = match schedule(bound, analysis, target) {
        Ok(partitions) => partitions,
        Err(diagnostics) => return diagnostics,
    };
    // At most what a tile that is reduced goes through shared memory in, and what its result does; what the other blocks of a
    // cluster send.
    let blocks = bound.cluster.iter().filter_map(|extent| bound.const_index(*extent)).product::<i64>().unsigned_abs();
    let added = |stmt: &Stmt| {
        if let StmtKind::Tile(TileOp::ReduceTile { src, axis, .. }) = stmt.kind {
            let layout = partitions.layouts().fragments.get(&src);
            let is_shuffled = layout.is_some_and(|layout| reduce_tile::is_within_warps(layout, axis));
            return if is_shuffled { 0 } else { bound.buffer_len(src).saturating_mul(8) };
        }
        let StmtKind::Tile(TileOp::ClusterReduce { tile, .. }) = stmt.kind else { return 0 };
        bound.buffer_len(tile).saturating_mul(4).saturating_mul(blocks.saturating_add(1))
    };
    let added = bound.stmts.values().map(added).fold(0, u64::saturating_add);
    match own.saturating_add(added) > limit {
        true => lower_analysed(bound, analysis.clone(), target).err().unwrap_or_default(),
        false => vec![],
    }
}
