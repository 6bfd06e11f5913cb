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
use crate::ir::{BinaryOp, MathFn, SpanId};
use crate::lowered::visit::any;
use crate::lowered::{
    GuardReason, MapId, Memory, Op, OpKind, Program, RegId, SharedId, Space, ValueId, ValueKind, ValueType, WGMMA_M,
    WgmmaOperand, wgmma_k,
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
    /// Those of the tensor cores.
    pub tensor_flops: f64,
    /// The array that a register's matrix descriptor points into.
    pub descriptors: BTreeMap<RegId, SharedId>,
    /// Those among them that are a function: `exp`, `sqrt`.
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
        match &op.kind {
            OpKind::Let { reg, value: Some(value) } | OpKind::Set { reg, value } => {
                self.value(*value, weights);
                if let Some(shared) = self.described(*value) {
                    self.descriptors.insert(*reg, shared);
                }
                let values: Vec<_> = (0..weights.len()).map(|t| self.block.value(*value, t)).collect();
                self.set(*reg, weights, |t| values[t]);
            }
            OpKind::Let { reg, value: None } => self.set(*reg, weights, |_| None),
            OpKind::Store { memory, value } => {
                self.value(*value, weights);
                self.access(memory, AccessKind::Store, 1, weights);
            }
            OpKind::VectorLoad { memory, width, .. } => self.access(memory, AccessKind::Load, *width, weights),
            OpKind::VectorStore { memory, width, .. } => self.access(memory, AccessKind::Store, *width, weights),
            OpKind::AsyncCopy { to, from, width } => {
                self.access(from, AccessKind::Load, *width, weights);
                self.access(to, AccessKind::Store, *width, weights);
            }
            OpKind::Atomic { memory, value, old, .. } => {
                self.value(*value, weights);
                self.access(memory, AccessKind::Atomic, 1, weights);
                if let Some(old) = old {
                    self.set(*old, weights, |_| None);
                }
            }
            OpKind::If { cond, then, otherwise } => {
                self.value(*cond, weights);
                let (yes, no, undecided) = self.split(*cond, weights);
                self.ops(then, &yes);
                self.ops(otherwise, &no);
                if undecided.contains(&true) {
                    self.undecided(op.span);
                }
                // What either side leaves in a register is known only where all blocks take the same one.
                let both: Vec<usize> = (0..weights.len()).filter(|t| yes[*t] > 0.0 && no[*t] > 0.0).collect();
                if !both.is_empty() {
                    for reg in assigned(then).into_iter().chain(assigned(otherwise)) {
                        both.iter().for_each(|t| self.block.set(reg, *t, None));
                    }
                }
            }
            OpKind::For { reg, start, end, step, body, .. } => {
                let range = |t: usize| {
                    let bound = |value: ValueId| self.block.int(value, t);
                    let (start, end, step) = (bound(*start)?, bound(*end)?, bound(*step)?.max(1));
                    Some((start, step, (end.saturating_sub(start).max(0) as u64).div_ceil(step as u64)))
                };
                // Where a loop ends early its length is not known.
                let is_left = assigned(body).contains(reg);
                let range = |t: usize| range(t).filter(|_| !is_left);
                let ranges: Vec<_> = (0..weights.len()).map(range).collect();
                if ranges.iter().zip(weights).any(|(range, w)| range.is_none() && *w > 0.0) {
                    self.undecided(op.span);
                }
                for sample in [Sample::First, Sample::Middle, Sample::Last] {
                    let mut inner = vec![0.0; weights.len()];
                    for (t, range) in ranges.iter().enumerate() {
                        // A loop whose length data decide counts once.
                        let (start, step, trips) = range.map_or((None, 1, 1), |(s, step, n)| (Some(s), step, n));
                        let Some((index, times)) = sample.of(trips) else { continue };
                        inner[t] = weights[t] * times as f64;
                        let value = start.and_then(|s| i64::try_from(index).ok()?.checked_mul(step)?.checked_add(s));
                        self.block.set(*reg, t, value.map(Known::Int));
                    }
                    self.ops(body, &inner);
                }
            }
            OpKind::Shuffle { reg, value, .. } => {
                self.value(*value, weights);
                self.set(*reg, weights, |_| None);
            }
            OpKind::Vote { reg, pred, .. } => {
                self.value(*pred, weights);
                self.set(*reg, weights, |_| None);
            }
            OpKind::LoadMatrix { memory, count, .. } => self.matrices(memory, AccessKind::Load, *count, weights),
            OpKind::StoreMatrix { memory, count, .. } => self.matrices(memory, AccessKind::Store, *count, weights),
            OpKind::Mma { atom, .. } => {
                let [m, n, k] = atom.shape();
                self.tensor_flops += f64::from(2 * m * n * k / WARP) * weights.iter().sum::<f64>();
            }
            OpKind::Wgmma { n, dtype, a, b, accumulate, .. } => {
                self.value(*accumulate, weights);
                let threads = f64::from(4 * WARP);
                let times = weights.iter().sum::<f64>() / threads;
                self.tensor_flops += f64::from(2 * WGMMA_M * n * wgmma_k(*dtype)) * times;
                // Either operand has 32 bytes a row.
                if let WgmmaOperand::Descriptor(a) = a {
                    self.operand(*a, WGMMA_M * 32, times, op.span);
                }
                self.operand(*b, n * 32, times, op.span);
            }
            OpKind::TensorLoad { map, shared, .. } => {
                self.boxes(*map, *shared, AccessKind::Load, weights, op.span);
            }
            OpKind::TensorStore { map, shared, .. } => {
                self.boxes(*map, *shared, AccessKind::Store, weights, op.span);
            }
            OpKind::BulkLoad { memory, shared, bytes, .. } => {
                for (thread, weight) in weights.iter().enumerate().filter(|(_, w)| **w > 0.0) {
                    let known = self.block.int(*bytes, thread).and_then(|b| u32::try_from(b).ok());
                    self.bulk(memory.space, AccessKind::Load, known.unwrap_or(0), known.is_none(), *weight, op.span);
                    self.bulk(
                        Space::Shared(*shared),
                        AccessKind::Store,
                        known.unwrap_or(0),
                        known.is_none(),
                        *weight,
                        op.span,
                    );
                }
            }
            // Another block's memory, which is reached over its ports: its banks are the ones that count.
            OpKind::ClusterStore { memory, width, .. } => self.access(memory, AccessKind::Store, *width, weights),
            OpKind::Local { .. } | OpKind::Shared { .. } | OpKind::Barrier | OpKind::WarpBarrier => {}
            // They order what the others do.
            OpKind::BarrierInit { .. }
            | OpKind::FenceBarrierInit
            | OpKind::BarrierArrive { .. }
            | OpKind::BarrierExpect { .. }
            | OpKind::BarrierWait { .. }
            | OpKind::BulkCommit
            | OpKind::BulkWait { .. }
            | OpKind::FenceProxyAsync
            | OpKind::PrefetchMap { .. }
            | OpKind::NamedBarrier { .. }
            | OpKind::ClusterBarrier { .. }
            | OpKind::SetRegisters { .. }
            | OpKind::WgmmaFence
            | OpKind::WgmmaCommit
            | OpKind::WgmmaWait { .. }
            | OpKind::Pin { .. }
            | OpKind::Elements(_)
            | OpKind::Order
            | OpKind::AsyncCommit
            | OpKind::AsyncWait { .. } => {}
            OpKind::Wait | OpKind::LaunchDependents => {}
            // Simulators only.
            OpKind::Print { .. } | OpKind::Assert { .. } => {}
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
        match &value.kind {
            ValueKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                self.value(*a, weights);
                let (yes, no, _) = self.split(*a, weights);
                self.value(*b, if *op == BinaryOp::And { &yes } else { &no });
            }
            ValueKind::Binary(_, a, b) => {
                if is_float {
                    self.flops += total();
                }
                self.value(*a, weights);
                self.value(*b, weights);
            }
            ValueKind::Math(function, args) => {
                match function {
                    MathFn::Fma => self.flops += 2.0 * total(),
                    function if function.is_approximate() || *function == MathFn::Sqrt => {
                        self.flops += total();
                        self.functions += total();
                    }
                    // Conversions and integer arithmetic: no transcendental unit.
                    _ => {}
                }
                args.iter().for_each(|arg| self.value(*arg, weights));
            }
            ValueKind::Choose(cond, a, b) => {
                self.value(*cond, weights);
                let (yes, no, undecided) = self.split(*cond, weights);
                if undecided.contains(&true) {
                    self.undecided(value.span);
                }
                self.value(*a, &yes);
                self.value(*b, &no);
            }
            ValueKind::Select(cond, a, b) => [cond, a, b].into_iter().for_each(|v| self.value(*v, weights)),
            ValueKind::Unary(_, a) | ValueKind::Cast(a) | ValueKind::Divisor(a) => self.value(*a, weights),
            ValueKind::Load(memory) => self.access(memory, AccessKind::Load, 1, weights),
            ValueKind::Pack(_, a, b) => [a, b].into_iter().for_each(|v| self.value(*v, weights)),
            ValueKind::Unpack(_, word, _) => self.value(*word, weights),
            ValueKind::Special(_) | ValueKind::Descriptor { .. } => {}
            ValueKind::Int(_)
            | ValueKind::Float(_)
            | ValueKind::Param(_)
            | ValueKind::Thread(_)
            | ValueKind::Block(_)
            | ValueKind::Reg(_) => {}
        }
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
        match &self.program.values.get(value)?.kind {
            ValueKind::Descriptor { shared, .. } => Some(*shared),
            ValueKind::Reg(reg) => self.descriptors.get(reg).copied(),
            ValueKind::Binary(_, a, b) => self.described(*a).or_else(|| self.described(*b)),
            ValueKind::Cast(a) => self.described(*a),
            _ => None,
        }
    }

    /// Counts the copy engine's boxes between a tensor and an array. Parts outside the tensor are counted too.
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
            Space::Global(param) => self.program.tensors.iter().find(|t| t.param == param).map(|t| t.dtype.bytes()),
            Space::Shared(shared) => self.program.shared.get(shared).map(|s| s.dtype.bytes()),
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
    for op in ops {
        match &op.kind {
            OpKind::Let { reg, .. }
            | OpKind::Set { reg, .. }
            | OpKind::Shuffle { reg, .. }
            | OpKind::Vote { reg, .. }
            | OpKind::Atomic { old: Some(reg), .. } => found.push(*reg),
            OpKind::If { then, otherwise, .. } => found.extend(assigned(then).into_iter().chain(assigned(otherwise))),
            OpKind::For { body, .. } => found.extend(assigned(body)),
            _ => {}
        }
    }
    found
}
