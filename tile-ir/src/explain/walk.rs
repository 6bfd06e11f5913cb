//! Counting a block's work: operations, and what its warps ask of memory.
//!
//! The body is walked once with a *weight* a thread: how often the thread comes by, 0 where it does not. A loop
//! multiplies the weights by its trip count, and is walked for its first, its middle and its last index: the first and
//! the last stand for themselves, the middle for all between. So guards at either end are seen, and a loop of any
//! length costs three walks. What a loop carries from one iteration to the next in a register is only advanced by the
//! iterations that are walked.

use super::block::{Block, Known};
use super::occupancy::WARP;
use super::pattern::{BANKS, Cost, SECTOR, atomic_wavefronts, sectors, wavefronts};
use crate::ir::{AccessMode, BinaryOp, MathFn, SpanId};
use crate::lowered::visit::{any, each};
use crate::lowered::{
    AccessWidth, GuardReason, MapId, Memory, Op, OpKind, Part, Program, RegId, SharedId, Space, ValueId, ValueKind,
    ValueType, WGMMA_M, WgmmaOperand, wgmma_k,
};
use std::collections::BTreeMap;

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// Reads.
    Load,
    /// Writes.
    Store,
    /// Reads and writes.
    Atomic,
}

impl From<AccessMode> for AccessKind {
    fn from(mode: AccessMode) -> AccessKind {
        match mode {
            AccessMode::Read => AccessKind::Load,
            AccessMode::Write => AccessKind::Store,
            AccessMode::Update | AccessMode::Atomic => AccessKind::Atomic,
        }
    }
}

/// One access of the program, over one block.
pub(super) struct Site {
    pub space: Space,
    pub kind: AccessKind,
    pub span: SpanId,
    /// Why it is guarded, if it is.
    pub guard: Option<GuardReason>,
    /// Bytes a lane.
    pub width: u32,
    /// Warps' requests.
    pub requests: f64,
    /// Lanes' requests whose guard is not known to fail.
    pub lanes: f64,
    /// Sectors or wavefronts of all requests; their ideal.
    pub found: f64,
    pub ideal: f64,
    /// Whether some lane's address depends on data.
    pub unknown: bool,
}

/// Whether blocks of a cluster send each other what they have.
pub(super) fn differs_by_rank(ops: &[Op]) -> bool {
    any(ops, &|op| matches!(op, OpKind::ClusterStore { .. }))
}

/// Walks a block.
pub(super) struct Walker<'p> {
    pub program: &'p Program,
    pub block: Block<'p>,
    /// Byte offset, modulo 256, of a tensor's first element.
    pub base: &'p dyn Fn(Space) -> u64,
    /// Floating-point operations of the CUDA cores; a multiply-add is two.
    pub flops: f64,
    /// Floating-point operations of the tensor cores; a multiply-add is two.
    pub tensor_flops: f64,
    /// The array that a register's matrix descriptor points into.
    pub descriptors: BTreeMap<RegId, SharedId>,
    /// Floating-point operations that are a function (`exp`, `sqrt`); part of `flops`.
    pub functions: f64,
    pub sites: Vec<Site>,
    /// Conditions and trip counts that data decide.
    pub undecided: Vec<SpanId>,
}

impl Walker<'_> {
    /// Walks operations with these weights, one a thread.
    pub fn ops(&mut self, ops: &[Op], weights: &[f64]) {
        if weights.iter().all(|w| *w == 0.0) {
            return;
        }
        for op in ops {
            self.op(op, weights);
        }
    }

    fn op(&mut self, op: &Op, weights: &[f64]) {
        if let OpKind::If { cond, then, otherwise } = &op.kind {
            return self.conditional(*cond, then, otherwise, weights, op.span);
        }
        if let OpKind::For { reg, start, end, step, body, .. } = &op.kind {
            return self.counted(*reg, [*start, *end, *step], body, weights, op.span);
        }
        if let OpKind::Let { reg, value: Some(value) } | OpKind::Set { reg, value } = &op.kind {
            self.value(*value, weights);
            if let Some(shared) = self.described(*value) {
                self.descriptors.insert(*reg, shared);
            }
            let values: Vec<_> = (0..weights.len()).map(|t| self.block.value(*value, t)).collect();
            return self.set(*reg, weights, |t| values[t]);
        }
        if let OpKind::Mma { atom, .. } = &op.kind {
            let [m, n, k] = atom.shape();
            self.tensor_flops += f64::from(2 * m * n * k / WARP) * weights.iter().sum::<f64>();
        }
        if let OpKind::Wgmma { n, dtype, a, b, .. } = &op.kind {
            let threads = f64::from(4 * WARP);
            let times = weights.iter().sum::<f64>() / threads;
            self.tensor_flops += f64::from(2 * WGMMA_M * n * wgmma_k(*dtype)) * times;
            // Either operand has 32 bytes a row.
            if let WgmmaOperand::Descriptor(a) = a {
                self.operand(*a, WGMMA_M * 32, times, op.span);
            }
            self.operand(*b, n * 32, times, op.span);
        }
        if let OpKind::TensorLoad { map, shared, .. } | OpKind::TensorStore { map, shared, .. } = &op.kind {
            let loads = matches!(op.kind, OpKind::TensorLoad { .. });
            self.boxes(*map, *shared, if loads { AccessKind::Load } else { AccessKind::Store }, weights, op.span);
        }
        if let OpKind::BulkLoad { memory, shared, bytes, .. } = &op.kind {
            for (thread, weight) in weights.iter().enumerate().filter(|(_, w)| **w > 0.0) {
                let known = self.block.int(*bytes, thread).and_then(|b| u32::try_from(b).ok());
                for (space, kind) in [(memory.space, AccessKind::Load), (Space::Shared(*shared), AccessKind::Store)] {
                    self.bulk(space, kind, known.unwrap_or(0), known.is_none(), *weight, op.span);
                }
            }
        }
        // What is said is left out, and so are the numbers of barriers and copies.
        let computes = op.kind.protocol().is_none() && !matches!(op.kind, OpKind::Print { .. } | OpKind::Assert { .. });
        for part in op.kind.parts() {
            match part {
                Part::Value(value) if computes => self.value(*value, weights),
                Part::Declares(reg) | Part::Sets(reg) => self.set(*reg, weights, |_| None),
                // In another block's memory, which is reached over its ports, its banks are the ones that count.
                Part::Memory(memory, mode, AccessWidth::Elements(width)) => {
                    self.access(memory, mode.into(), width, weights);
                }
                Part::Memory(memory, mode, AccessWidth::Matrices(count)) => {
                    self.matrices(memory, mode.into(), count, weights);
                }
                // Counted above, or nothing that costs.
                Part::Memory(_, _, AccessWidth::Bytes) => {}
                Part::Shared(..) | Part::Map(..) | Part::Body(..) => {}
                Part::Value(_) | Part::Local(..) | Part::Pins(_) | Part::Barrier(_) | Part::Message(_) => {}
                Part::DeclaresLocal(_) | Part::DeclaresShared(_) => {}
            }
        }
    }

    fn conditional(&mut self, cond: ValueId, then: &[Op], otherwise: &[Op], weights: &[f64], span: SpanId) {
        self.value(cond, weights);
        let (yes, no, undecided) = self.split(cond, weights);
        self.ops(then, &yes);
        self.ops(otherwise, &no);
        if undecided.contains(&true) {
            self.undecided(span);
        }
        // What either side leaves in a register is known only where all blocks take the same one.
        let both: Vec<usize> = (0..weights.len()).filter(|t| yes[*t] > 0.0 && no[*t] > 0.0).collect();
        if !both.is_empty() {
            for reg in assigned(then).into_iter().chain(assigned(otherwise)) {
                both.iter().for_each(|t| self.block.set(reg, *t, None));
            }
        }
    }

    fn counted(&mut self, reg: RegId, bounds: [ValueId; 3], body: &[Op], weights: &[f64], span: SpanId) {
        let range = |t: usize| {
            let [start, end, step] = bounds.map(|bound| self.block.int(bound, t));
            let (start, end, step) = (start?, end?, step?.max(1));
            Some((start, step, (end.saturating_sub(start).max(0) as u64).div_ceil(step as u64)))
        };
        // A loop whose last operation gives its index another value takes tiles as they are counted: as many a block as of tiles a grid apart,
        // where blocks take equally long. A loop that gives it one anywhere else ends early, and its length is not known.
        let but_counted = if let [rest @ .., Op { kind: OpKind::Set { reg: last, .. }, .. }] = body
            && *last == reg
        {
            rest
        } else {
            body
        };
        let is_left = assigned(but_counted).contains(&reg);
        let range = |t: usize| range(t).filter(|_| !is_left);
        let ranges: Vec<_> = (0..weights.len()).map(range).collect();
        if ranges.iter().zip(weights).any(|(range, w)| range.is_none() && *w > 0.0) {
            self.undecided(span);
        }
        for sample in [Sample::First, Sample::Middle, Sample::Last] {
            let mut inner = vec![0.0; weights.len()];
            for (t, range) in ranges.iter().enumerate() {
                // A loop whose length data decide counts once.
                let (start, step, trips) = range.map_or((None, 1, 1), |(s, step, n)| (Some(s), step, n));
                let Some((index, times)) = sample.of(trips) else { continue };
                inner[t] = weights[t] * times as f64;
                let value = start.and_then(|s| i64::try_from(index).ok()?.checked_mul(step)?.checked_add(s));
                self.block.set(reg, t, value.map(Known::Int));
            }
            self.ops(body, &inner);
        }
    }

    fn set(&mut self, reg: RegId, weights: &[f64], value: impl Fn(usize) -> Option<Known>) {
        for (t, weight) in weights.iter().enumerate() {
            if *weight > 0.0 {
                self.block.set(reg, t, value(t));
            }
        }
    }

    /// Weights where a condition holds, where it does not, and which threads' data decide: they count on both sides. What
    /// the last block to arrive does counts once for all that arrive.
    fn split(&self, cond: ValueId, weights: &[f64]) -> (Vec<f64>, Vec<f64>, Vec<bool>) {
        let (mut yes, mut no) = (vec![0.0; weights.len()], vec![0.0; weights.len()]);
        let mut undecided = vec![false; weights.len()];
        for (t, weight) in weights.iter().enumerate().filter(|(_, w)| **w > 0.0) {
            let holds = self.block.share(cond, t);
            undecided[t] = holds.is_none();
            yes[t] = holds.unwrap_or(1.0) * weight;
            no[t] = holds.map_or(1.0, |holds| 1.0 - holds) * weight;
        }
        (yes, no, undecided)
    }

    fn undecided(&mut self, span: SpanId) {
        if !self.undecided.contains(&span) {
            self.undecided.push(span);
        }
    }

    /// Counts the operations and loads of a value.
    fn value(&mut self, id: ValueId, weights: &[f64]) {
        let Some(value) = self.program.values.get(id) else { return };
        let is_float = matches!(value.ty, ValueType::Element(dtype) if dtype.is_float());
        let total = || weights.iter().sum::<f64>();
        if let ValueKind::Load(memory) = &value.kind {
            return self.access(memory, AccessKind::Load, 1, weights);
        }
        if let ValueKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) = &value.kind {
            self.value(*a, weights);
            let (yes, no, _) = self.split(*a, weights);
            return self.value(*b, if *op == BinaryOp::And { &yes } else { &no });
        }
        if let ValueKind::Choose(cond, a, b) = &value.kind {
            self.value(*cond, weights);
            let (yes, no, undecided) = self.split(*cond, weights);
            if undecided.contains(&true) {
                self.undecided(value.span);
            }
            self.value(*a, &yes);
            return self.value(*b, &no);
        }
        if matches!(value.kind, ValueKind::Binary(..)) && is_float {
            self.flops += total();
        }
        if let ValueKind::Math(function, _) = &value.kind {
            match function {
                MathFn::Fma => self.flops += 2.0 * total(),
                function if function.is_approximate() || *function == MathFn::Sqrt => {
                    self.flops += total();
                    self.functions += total();
                }
                // Conversions and integer arithmetic: no transcendental unit.
                _ => {}
            }
        }
        value.kind.operands().into_iter().for_each(|operand| self.value(operand, weights));
    }

    /// Counts an access of `elements` elements a lane. Lanes are looked at as if no guard failed: the pattern is that of
    /// a full warp.
    fn access(&mut self, memory: &Memory, kind: AccessKind, elements: u32, weights: &[f64]) {
        let Some(bytes) = self.element_bytes(memory.space) else { return };
        let width = bytes * elements;
        let base = (self.base)(memory.space);
        let mut site = Site {
            space: memory.space,
            kind,
            span: memory.span,
            guard: memory.guard.map(|g| g.reason),
            width,
            requests: 0.0,
            lanes: 0.0,
            found: 0.0,
            ideal: 0.0,
            unknown: false,
        };
        for (warp, weights) in weights.chunks(WARP as usize).enumerate() {
            let times = weights.iter().copied().fold(0.0, f64::max);
            if times == 0.0 {
                continue;
            }
            let mut starts = vec![None; weights.len()];
            for (lane, weight) in weights.iter().enumerate().filter(|(_, w)| **w > 0.0) {
                let thread = warp * WARP as usize + lane;
                let offset = self.block.int(memory.offset, thread);
                site.unknown |= offset.is_none();
                // A negative index wraps here; where it is not guarded, the kernel is wrong anyway.
                let address = |o: i64| base.wrapping_add((o as u64).wrapping_mul(u64::from(bytes))) & (u64::MAX >> 1);
                starts[lane] = offset.map(address);
                let happens = memory.guard.and_then(|g| self.block.share(g.cond, thread)).unwrap_or(1.0);
                site.lanes += happens * weight;
            }
            let cost = match (memory.space, kind) {
                (Space::Global(_), _) => {
                    let starts: Vec<u64> = starts.iter().flatten().copied().collect();
                    sectors(&starts, u64::from(width))
                }
                (_, AccessKind::Atomic) => atomic_wavefronts(&starts),
                _ => wavefronts(&starts, u64::from(width)),
            };
            let Cost { found, ideal } = cost;
            site.requests += times;
            site.found += times * found as f64;
            site.ideal += times * ideal as f64;
        }
        self.add(site);
    }

    /// Counts a warp's load or store of matrices: each of the first `8 * count` lanes has the 16 bytes of a row.
    fn matrices(&mut self, memory: &Memory, kind: AccessKind, count: u32, weights: &[f64]) {
        let Some(bytes) = self.element_bytes(memory.space) else { return };
        let rows =
            |(thread, weight): (usize, &f64)| if thread % (WARP as usize) < 8 * count as usize { *weight } else { 0.0 };
        let weights: Vec<f64> = weights.iter().enumerate().map(rows).collect();
        self.access(memory, kind, 16 / bytes, &weights);
    }

    /// Counts what the tensor cores read of shared memory for one operand of a warpgroup's product. Its swizzle keeps
    /// the banks apart.
    fn operand(&mut self, descriptor: ValueId, bytes: u32, times: f64, span: SpanId) {
        if let Some(shared) = self.described(descriptor) {
            self.bulk(Space::Shared(shared), AccessKind::Load, bytes, false, times, span);
        }
    }

    /// The array a descriptor points into, as far as it is seen.
    fn described(&self, value: ValueId) -> Option<SharedId> {
        self.program.described(value, &|reg| self.descriptors.get(&reg).copied())
    }

    /// Counts TMA's boxes between a tensor and an array. Parts outside the tensor are counted too.
    fn boxes(&mut self, map: MapId, shared: SharedId, kind: AccessKind, weights: &[f64], span: SpanId) {
        let Some(map) = self.program.tensor_maps.get(map) else { return };
        let Some(element) = self.element_bytes(Space::Global(map.tensor)) else { return };
        let bytes = u32::try_from(map.box_elements()).unwrap_or(u32::MAX).saturating_mul(element);
        let times = weights.iter().sum::<f64>();
        let other = if kind == AccessKind::Load { AccessKind::Store } else { AccessKind::Load };
        self.bulk(Space::Global(map.tensor), kind, bytes, false, times, span);
        self.bulk(Space::Shared(shared), other, bytes, false, times, span);
    }

    /// Counts an access by one agent to bytes that lie together.
    fn bulk(&mut self, space: Space, kind: AccessKind, bytes: u32, unknown: bool, times: f64, span: SpanId) {
        if times == 0.0 {
            return;
        }
        let unit = if matches!(space, Space::Global(_)) { SECTOR } else { 4 * BANKS };
        let parts = times * u64::from(bytes).div_ceil(unit) as f64;
        self.add(Site {
            space,
            kind,
            span,
            guard: None,
            width: bytes,
            requests: times,
            lanes: times,
            found: parts,
            ideal: parts,
            unknown,
        });
    }

    /// Adds to what is known of an access.
    fn add(&mut self, site: Site) {
        let same = |s: &&mut Site| (s.space, s.kind, s.span, s.width) == (site.space, site.kind, site.span, site.width);
        match self.sites.iter_mut().find(same) {
            Some(known) => {
                known.requests += site.requests;
                known.lanes += site.lanes;
                known.found += site.found;
                known.ideal += site.ideal;
                known.unknown |= site.unknown;
            }
            None => self.sites.push(site),
        }
    }

    /// The element size where the memory is not the thread's own.
    fn element_bytes(&self, space: Space) -> Option<u32> {
        match space {
            Space::Global(_) | Space::Shared(_) => self.program.dtype(space).map(|dtype| dtype.bytes()),
            Space::Local(_) => None,
        }
    }
}

/// Which iteration of a loop is walked.
#[derive(Clone, Copy)]
enum Sample {
    First,
    Middle,
    Last,
}

impl Sample {
    /// The iteration's number and how many it stands for, in a loop of `trips` iterations.
    fn of(self, trips: u64) -> Option<(u64, u64)> {
        match self {
            Sample::First => (trips >= 1).then_some((0, 1)),
            Sample::Middle => (trips >= 3).then(|| (trips / 2, trips - 2)),
            Sample::Last => (trips >= 2).then(|| (trips - 1, 1)),
        }
    }
}

/// The registers that operations give a value.
fn assigned(ops: &[Op]) -> Vec<RegId> {
    let mut found = Vec::new();
    each(ops, &mut |op| {
        let set = |part| if let Part::Declares(reg) | Part::Sets(reg) = part { Some(*reg) } else { None };
        found.extend(op.kind.parts().into_iter().filter_map(set));
    });
    found
}
