//! Resources: threads, shared memory, registers; and extents that make sense.

use crate::diag::{Code, Diagnostic};
use crate::ir::effects::mentions;
use crate::ir::parts::statements;
use crate::ir::pipeline::{SharedLoads, shared_loads, stages};
use crate::ir::{BoundKernel, BufferId, ReduceSource, ReduceStep, Reduction, Scope, StmtId, StmtKind, Target, TileOp};

/// Most bytes of registers a thread has: 255 of 4 bytes.
/// Source: CUDA C++ Programming Guide, compute capabilities.
const REGISTER_BYTES: u64 = 255 * 4;
/// Most threads a block has, and most on each axis.
/// Source: CUDA C++ Programming Guide, compute capabilities.
const THREADS: u64 = 1024;
const AXIS_THREADS: [i64; 3] = [1024, 1024, 64];

/// What is wrong whatever the target.
pub(super) fn everywhere(kernel: &BoundKernel) -> Vec<Diagnostic> {
    let mut all = threads(kernel);
    all.extend(extents(kernel));
    if !all.is_empty() {
        return all;
    }
    let (total, arrays) = sized(kernel, Scope::Local);
    if total > REGISTER_BYTES
        && let Some((buffer, _)) = arrays.first()
    {
        let message = format!(
            "a thread's local arrays need {} bytes of registers; a thread has {REGISTER_BYTES}",
            grouped(total)
        );
        let diagnostic = Diagnostic::new(Code::REGISTER_BUDGET, kernel.buffers[*buffer].span, message)
            .at(listed(kernel, &arrays))
            .help("use smaller arrays, more threads, or shared memory");
        all.push(diagnostic);
    }
    let (total, fragments) = sized(kernel, Scope::Fragment);
    let threads = u64::from(kernel.thread_count().max(1));
    if total.div_ceil(threads) > REGISTER_BYTES
        && let Some((buffer, _)) = fragments.first()
    {
        let message = format!(
            "the fragments need {} bytes of registers in each of {threads} threads; a thread has {REGISTER_BYTES}",
            grouped(total.div_ceil(threads))
        );
        let diagnostic = Diagnostic::new(Code::REGISTER_BUDGET, kernel.buffers[*buffer].span, message)
            .at(listed(kernel, &fragments))
            .help("use a smaller tile or more threads");
        all.push(diagnostic);
    }
    all.extend(super::tiles::cluster(kernel));
    all.extend(super::tiles::raster(kernel));
    all
}

/// What is wrong on one target.
pub(super) fn on_target(kernel: &BoundKernel, target: Target) -> Vec<Diagnostic> {
    if !target.info().clusters
        && let Some((size, name, span)) = super::tiles::joined(kernel)
    {
        let message = format!("{name} over {size} blocks; {target} has no clusters");
        let help = "declare `targets(sm_90a)`, or put the parts aside and let `last_arriver` add them";
        return vec![Diagnostic::new(Code::ILLEGAL_OPERATION, span, message).help(help)];
    }
    let (arrays_total, arrays) = sized(kernel, Scope::Shared);
    let scratch = scratch(kernel);
    let total = arrays_total.saturating_add(scratch);
    let most = u64::from(target.max_shared_bytes());
    let Some((buffer, _)) = arrays.first().filter(|_| total > most) else { return vec![] };
    // Whether arrays that are used one after the other may share bytes, the pass `place` finds out.
    if at_once(kernel, &arrays).saturating_add(scratch) <= most {
        return vec![];
    }
    let message = format!(
        "kernel needs {} bytes of shared memory; {} allows {}",
        grouped(total),
        target.info().capability_name,
        grouped(most)
    );
    let mut parts = listed(kernel, &arrays);
    if scratch > 0 {
        parts += &format!("; reductions: {}", grouped(scratch));
    }
    let mut diagnostic = Diagnostic::new(Code::SHARED_BUDGET, kernel.buffers[*buffer].span, message).at(parts);
    // What one stage takes, and the loop that takes most.
    let per_stage = |l: &SharedLoads| -> u64 {
        let of = |(b, bytes): &(BufferId, u64)| l.buffers.contains(b).then(|| bytes / u64::from(l.stages));
        arrays.iter().filter_map(of).sum()
    };
    let loops = shared_loads(kernel);
    let Some((l, stage)) = loops.iter().map(|l| (l, per_stage(l))).max_by_key(|(l, s)| s * u64::from(l.stages)) else {
        let (name, over) = (&kernel.buffers[*buffer].name, grouped(total - most));
        return vec![diagnostic.help(format!("shrink `{name}` by {over} bytes"))];
    };
    let text = format!("{} stages of {} bytes each", l.stages, grouped(stage));
    diagnostic = diagnostic.label(kernel.stmts[l.stmt].span, text);
    let others = total - stage * u64::from(l.stages);
    let fit = most.checked_sub(others).map_or(0, |room| room / stage.max(1));
    vec![diagnostic.help(match fit {
        0 => format!("shrink the arrays of the loop: one stage of {} bytes is too much", grouped(stage)),
        1 => "use 1 stage, or smaller arrays".to_owned(),
        fit => format!("use {fit} stages, or smaller arrays"),
    })]
}

/// The arrays that exist in this instance: those whose allocation is reached.
fn allocated(kernel: &BoundKernel) -> Vec<BufferId> {
    statements(kernel, &kernel.body).into_iter().filter_map(|stmt| kernel.stmts[stmt].kind.allocates()).collect()
}

/// Bytes of shared memory that reductions across warps and blocks need.
fn scratch(kernel: &BoundKernel) -> u64 {
    let threads = u64::from(kernel.thread_count());
    let mut total = 0u64;
    let others = super::tiles::joined(kernel).map_or(0, |(blocks, ..)| blocks as u64 - 1);
    for stmt in statements(kernel, &kernel.body) {
        let stmt = &kernel.stmts[stmt].kind;
        if let StmtKind::Tile(TileOp::ClusterReduce { tile, .. }) = stmt {
            let bytes = kernel.buffer_bytes(*tile);
            total = total.saturating_add(bytes.saturating_mul(others));
        }
        let StmtKind::Reduce { op, src, dst, axis: Some(axis) } = stmt else { continue };
        let Some(at) = kernel.threads.iter().position(|a| a.var == *axis) else { continue };
        let extents = kernel.thread_extents();
        let stride = extents[..at.min(3)].iter().product();
        let Some(&extent) = extents.get(at) else { continue };
        let (dtype, count) = match src {
            ReduceSource::Local(b) => (Some(kernel.buffer_dtype(*b)), kernel.buffer_len(*b)),
            ReduceSource::Value(_) => (dst.and_then(|v| kernel.vars[v].ty.dtype()), 1),
        };
        for step in (Reduction { op: *op, extent, stride }).plan().steps {
            if let ReduceStep::Ascending { parts, .. } = step {
                let slots = threads / u64::from(extent.max(1)) * u64::from(parts);
                let bytes = slots.saturating_mul(count).saturating_mul(u64::from(dtype.map_or(4, |d| d.bytes())));
                total = total.saturating_add(bytes.next_multiple_of(16));
            }
        }
    }
    total
}

/// Bytes of shared memory that a kernel's arrays and its reductions across warps need, before anything is lowered.
pub(crate) fn shared_bytes(kernel: &BoundKernel) -> u64 {
    sized(kernel, Scope::Shared).0.saturating_add(scratch(kernel))
}

/// The bytes of a scope's arrays, each aligned to 16 in shared memory, largest first; all stages of those that a
/// pipelined loop loads ahead.
fn sized(kernel: &BoundKernel, scope: Scope) -> (u64, Vec<(BufferId, u64)>) {
    let stages = stages(kernel);
    let bytes = |id: BufferId| {
        let once = kernel.buffer_bytes(id);
        match stages.get(&id) {
            // Every slot is aligned.
            Some(&stages) => once.checked_next_multiple_of(16).unwrap_or(once).saturating_mul(u64::from(stages)),
            None => once,
        }
    };
    let of = |id: BufferId| (kernel.buffers[id].scope == scope).then(|| (id, bytes(id)));
    let mut arrays: Vec<_> = allocated(kernel).into_iter().filter_map(of).collect();
    let align = if scope == Scope::Shared { 16 } else { 1 };
    let total =
        arrays.iter().fold(0u64, |sum, a| sum.saturating_add(a.1.checked_next_multiple_of(align).unwrap_or(a.1)));
    arrays.sort_by_key(|a| std::cmp::Reverse(a.1));
    (total, arrays)
}

/// The most bytes of shared arrays that are in use at once, as far as the kernel's outermost statements tell uses apart.
fn at_once(kernel: &BoundKernel, arrays: &[(BufferId, u64)]) -> u64 {
    let life = |&(buffer, bytes): &(BufferId, u64)| {
        let declares = |stmt: &StmtId| kernel.stmts[*stmt].kind.allocates() == Some(buffer);
        let is_used =
            |stmt: &StmtId| statements(kernel, &[*stmt]).iter().any(declares) || mentions(kernel, *stmt, buffer);
        let first = kernel.body.iter().position(is_used)?;
        Some((first..=kernel.body.iter().rposition(is_used)?, bytes))
    };
    let lives: Vec<_> = arrays.iter().filter_map(life).collect();
    let at = |position: usize| lives.iter().filter(|(life, _)| life.contains(&position)).map(|(_, bytes)| *bytes).sum();
    (0..kernel.body.len()).map(at).max().unwrap_or(0)
}

fn listed(kernel: &BoundKernel, arrays: &[(BufferId, u64)]) -> String {
    let stages = stages(kernel);
    let each = |(id, bytes): &(BufferId, u64)| {
        let buffer = &kernel.buffers[*id];
        let extents: Vec<String> = kernel.buffer_extents(*id).iter().map(u32::to_string).collect();
        let times = stages.get(id).map(|s| format!(" x {s} stages")).unwrap_or_default();
        format!("{} {}[{}]{times}: {}", buffer.name, kernel.buffer_dtype(*id), extents.join(", "), grouped(*bytes))
    };
    arrays.iter().map(each).collect::<Vec<_>>().join("; ")
}

fn threads(kernel: &BoundKernel) -> Vec<Diagnostic> {
    let mut all = Vec::new();
    let mut count = 1u64;
    for (axis, binding) in kernel.threads.iter().enumerate().take(3) {
        let Some(extent) = kernel.const_index(binding.extent) else {
            let message = "the number of threads must be a constant";
            all.push(Diagnostic::new(Code::NOT_CONSTANT, binding.span, message));
            continue;
        };
        if extent <= 0 {
            let message = format!("a thread axis needs at least 1 thread, not {extent}");
            all.push(Diagnostic::new(Code::THREAD_COUNT, binding.span, message));
        } else if extent > AXIS_THREADS[axis] {
            let message = format!("a block has at most {} threads on axis {axis}, not {extent}", AXIS_THREADS[axis]);
            all.push(Diagnostic::new(Code::THREAD_COUNT, binding.span, message));
        }
        count = count.saturating_mul(extent.max(0) as u64);
    }
    if all.is_empty() && count > THREADS {
        let extents: Vec<String> =
            kernel.threads.iter().filter_map(|a| kernel.const_index(a.extent)).map(|e| e.to_string()).collect();
        let message = format!("a block has at most {THREADS} threads, not {} = {count}", extents.join(" * "));
        // The last axis is where the author would cut.
        if let Some(axis) = kernel.threads.last() {
            all.push(Diagnostic::new(Code::THREAD_COUNT, axis.span, message));
        }
    }
    all
}

fn extents(kernel: &BoundKernel) -> Vec<Diagnostic> {
    let mut all = Vec::new();
    for buffer in allocated(kernel).into_iter().map(|b| &kernel.buffers[b]) {
        for &extent in &buffer.extents {
            let span = kernel.exprs[extent].span;
            let name = &buffer.name;
            match kernel.const_index(extent) {
                None => {
                    let message = format!("the extents of `{name}` must be constants");
                    all.push(Diagnostic::new(Code::NOT_CONSTANT, span, message));
                }
                Some(value) if value <= 0 || value > i64::from(i32::MAX) => {
                    let message = format!("an extent of `{name}` is {value}");
                    let help = "extents are at least 1 and below 2^31";
                    all.push(Diagnostic::new(Code::SHAPE, span, message).help(help));
                }
                Some(_) => {}
            }
        }
    }
    all
}

/// A number with its thousands apart.
fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
