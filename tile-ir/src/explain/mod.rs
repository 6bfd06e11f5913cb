//! What a launch costs and what bounds it, read off the lowered program: the numbers a tuner works with, before
//! anything runs.
//!
//! ```text
//! Program + Shape (dims, strides, scalars) + Machine (figures of the device) + Resources (registers, if known)
//!    │ walk one block: trip counts, guards and addresses evaluated for every thread
//!    ▼
//! Report: roofline, traffic, sectors and wavefronts an access, guards that remain, waves, occupancy
//! ```
//!
//! What is modelled, and what is not:
//! - Work is counted on block 0 and multiplied by the grid, so the last block of a ragged grid counts as a full one.
//! - Caches are not modelled. Unique bytes are the least that must move; requested bytes are what lanes ask for; what
//!   the device moves lies between.
//! - Sectors and wavefronts are those of the instruction, with every lane that comes by, guards or not.
//! - Where data decide a condition, both sides are counted, and the report says so. What `last_arriver` lets one block of
//!   several do is counted for that share of the blocks.

mod block;
mod display;
mod machine;
mod occupancy;
mod pattern;
mod report;
mod shape;
mod walk;

#[cfg(test)]
mod tests;

pub use machine::{Limits, Machine};
pub use occupancy::{Limit, Occupancy};
pub use pattern::{BANKS, Cost, SECTOR, atomic_wavefronts, sectors, wavefronts};
pub use report::{AccessReport, Class, Note, Report, Resources, Roofline, TensorTraffic};
pub use shape::{ExplainError, Shape};
pub use walk::AccessKind;

use crate::ir::{Dtype, EntityRef, SpanId};
use crate::lowered::{Check, CheckKind, HostExpr, HostValues, ParameterKind, Program, Space};
use block::Block;
use std::collections::BTreeMap;
use walk::Walker;

/// Explains one launch of `program`. `resources` is what the assembler says; without it, occupancy leaves registers out.
///
/// # Errors
/// The shape has no grid; the program has more threads than a block may.
pub fn explain(
    program: &Program,
    shape: &Shape,
    machine: &Machine,
    resources: Option<Resources>,
) -> Result<Report, ExplainError> {
    let threads = program.launch.threads.iter().fold(1u32, |n, t| n.saturating_mul(*t));
    let occupancy = Occupancy::of(&machine.limits, threads, resources.map(|r| r.registers), program.shared_bytes);
    let at_once = (occupancy.blocks.max(1) * machine.sms) / program.launch.cluster_size().max(1);
    let fitted = shape.clone().with_capacity(i64::from(at_once.max(1) * program.launch.cluster_size().max(1)));
    let shape = if shape.has_capacity() { shape } else { &fitted };
    let grid = grid(program, shape)?;
    let blocks = grid.iter().map(|e| *e as f64).product::<f64>();
    if threads == 0 || threads > 1024 {
        let problem = format!("{threads} threads a block");
        return Err(ExplainError::Malformed { kernel: program.name.clone(), problem });
    }

    let base = |space: Space| match space {
        Space::Global(param) => shape.address(param) % 256,
        Space::Shared(shared) => program.shared.get(shared).map_or(0, |s| u64::from(s.offset)),
        Space::Local(_) => 0,
    };
    let mut walker = Walker {
        program,
        block: Block::new(program, shape, threads as usize),
        base: &base,
        flops: 0.0,
        tensor_flops: 0.0,
        descriptors: BTreeMap::new(),
        functions: 0.0,
        sites: Vec::new(),
        undecided: Vec::new(),
    };
    // Where blocks of a cluster do different things, each stands for its share of them.
    let ranks = if walk::differs_by_rank(&program.body) { program.launch.cluster_size().max(1) } else { 1 };
    for rank in 0..ranks {
        walker.block.rank = rank;
        walker.ops(&program.body, &vec![1.0 / f64::from(ranks); threads as usize]);
    }

    let judged = |wanted| move |check: &Check| judge(check, shape) == wanted;
    let mut tensors: Vec<TensorTraffic> = Vec::new();
    for tensor in &program.tensors {
        let elements = tensor.shape.iter().map(|e| e.evaluate(shape).unwrap_or(0).max(0) as f64).product::<f64>();
        let mut traffic = TensorTraffic {
            name: tensor.name.clone(),
            bytes: elements * f64::from(tensor.dtype.bytes()),
            reads: 0.0,
            writes: 0.0,
        };
        for site in walker.sites.iter().filter(|s| s.space == Space::Global(tensor.param)) {
            let bytes = site.lanes * f64::from(site.width) * blocks;
            traffic.reads += if site.kind == AccessKind::Store { 0.0 } else { bytes };
            traffic.writes += if site.kind == AccessKind::Load { 0.0 } else { bytes };
        }
        tensors.push(traffic);
    }
    let accesses = walker.sites.iter().map(|site| AccessReport {
        place: place(program, site.space),
        global: matches!(site.space, Space::Global(_)),
        kind: site.kind,
        width: site.width,
        requests: site.requests * blocks,
        found: site.found / site.requests,
        ideal: site.ideal / site.requests,
        guard: site.guard,
        unknown: site.unknown,
        at: Note { line: line(program, site.span), text: written(program, site.span) },
    });
    let note = |span: SpanId, text: String| Note { line: line(program, span), text };
    Ok(Report {
        program: program.name.clone(),
        machine: *machine,
        dims: program.dims.iter().enumerate().map(|(i, d)| (d.clone(), shape.dim(EntityRef::new(i)))).collect(),
        grid,
        threads: program.launch.threads,
        roofline: roofline(program, &walker, &tensors, machine, blocks),
        accesses: accesses.collect(),
        tensors,
        remarks: program.remarks.iter().map(|r| note(r.span, r.text.clone())).collect(),
        refused: checks(program, judged(Judged::Refused)),
        unchecked: checks(program, judged(Judged::Unchecked)),
        undecided: walker.undecided.iter().map(|s| note(*s, first_line(&written(program, *s)))).collect(),
        shared_bytes: program.shared_bytes,
        resources,
        occupancy,
    })
}

fn grid(program: &Program, shape: &Shape) -> Result<[u64; 3], ExplainError> {
    let mut grid = [0; 3];
    for (axis, (blocks, extent)) in grid.iter_mut().zip(&program.launch.grid).enumerate() {
        let found = extent.evaluate(shape);
        *blocks = found.and_then(|n| u64::try_from(n).ok()).ok_or_else(|| ExplainError::Grid {
            kernel: program.name.clone(),
            axis,
            found: found.map_or("no value for".into(), |n| n.to_string()),
        })?;
    }
    Ok(grid)
}

/// What becomes of a launch check.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Judged {
    Holds,
    Refused,
    /// It is about a scalar that has no value.
    Unchecked,
}

fn judge(check: &Check, shape: &Shape) -> Judged {
    let mut known = true;
    check.holds.each_leaf(&mut |leaf| {
        known &= !matches!(leaf, HostExpr::Scalar(param) if shape.given_scalar(*param).is_none());
    });
    match (known, check.holds.evaluate(shape)) {
        (false, _) => Judged::Unchecked,
        (true, Some(n)) if n != 0 => Judged::Holds,
        (true, _) => Judged::Refused,
    }
}

/// The words of some of the launch checks.
fn checks(program: &Program, which: impl Fn(&Check) -> bool) -> Vec<Note> {
    let words = |check: &Check| match &check.kind {
        CheckKind::Specialized { dim, value } => {
            let name = program.dims.get(dim.index()).map_or("", String::as_str);
            format!("the program is compiled for {name} = {value}")
        }
        CheckKind::Require { text } => format!("require({text})"),
        CheckKind::Alignment { tensor, bytes } => {
            format!("`{}` must be aligned to {bytes} bytes", place(program, Space::Global(*tensor)))
        }
        CheckKind::StrideMultiple { tensor, axis, multiple } => {
            let name = place(program, Space::Global(*tensor));
            format!("the stride of `{name}` on axis {axis} must be a multiple of {multiple}")
        }
        CheckKind::IndexRange { bound } => {
            let scalar = |param| program.params.iter().find(|p| p.kind == ParameterKind::Scalar(param));
            let names = |param| match scalar(param) {
                Some(scalar) => scalar.name.clone(),
                None => place(program, Space::Global(param)),
            };
            format!("the index {} must stay below 2^31", bound.display(&program.dims, &names))
        }
        CheckKind::Operand { kind, .. } => kind.must_be().to_owned(),
    };
    let checks = program.launch.checks.iter().filter(|check| which(check));
    checks.map(|check| Note { line: line(program, check.span), text: words(check) }).collect()
}

fn roofline(
    program: &Program,
    walker: &Walker<'_>,
    tensors: &[TensorTraffic],
    machine: &Machine,
    blocks: f64,
) -> Roofline {
    let largest = tensors.iter().zip(&program.tensors).max_by(|a, b| a.0.bytes.total_cmp(&b.0.bytes));
    let dtype = largest.map_or(Dtype::F32, |(_, info)| info.dtype);
    let unique_bytes = tensors.iter().map(|t| t.unique_reads() + t.unique_writes()).sum::<f64>();
    let (flops, tensor_flops) = (walker.flops * blocks, walker.tensor_flops * blocks);
    // What runs on the tensor cores sets the peak of a kernel that uses them.
    let dense_flops = machine.dense_flops(dtype);
    let used_flops = if tensor_flops > 0.0 { dense_flops } else { machine.f32_flops };
    Roofline {
        flops: flops + tensor_flops,
        functions: walker.functions * blocks,
        unique_bytes,
        requested_bytes: tensors.iter().map(|t| t.reads + t.writes).sum(),
        dtype,
        dense_flops,
        used_flops,
        memory_time: unique_bytes / machine.bandwidth,
        compute_time: (flops / machine.f32_flops).max(tensor_flops / dense_flops),
    }
}

/// The name of what is accessed.
fn place(program: &Program, space: Space) -> String {
    let name = match space {
        Space::Global(_) => program.tensor(space).map(|t| t.name.clone()),
        Space::Shared(shared) => program.shared.get(shared).map(|s| s.name.clone()),
        Space::Local(local) => program.locals.get(local).map(|l| l.name.clone()),
    };
    name.unwrap_or_default()
}

fn line(program: &Program, span: SpanId) -> u32 {
    program.spans.get(span).map_or(0, |s| s.line)
}

/// The source text of a span, up to the end of its first line; empty where there is none.
fn written(program: &Program, span: SpanId) -> String {
    let Some(span) = program.spans.get(span) else { return String::new() };
    let Some(line) = program.source.line_of(*span) else { return String::new() };
    let start = span.column.saturating_sub(1) as usize;
    let columns = if span.end_line == span.line { span.end_column.saturating_sub(span.column) } else { u32::MAX };
    line.chars().skip(start).take(columns as usize).collect::<String>().trim_end().to_owned()
}

fn first_line(text: &str) -> String {
    text.trim_end_matches('{').trim_end().to_owned()
}
