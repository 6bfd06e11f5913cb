//! Tensor cores, barriers in memory and TMA: from operations to instructions and the tables beside them.

use super::{Compiler, malformed};
use crate::ir::{Dtype, DtypeClass, EntityRef, FloatFormat, SpanId};
use crate::lowered::visit::any;
use crate::lowered::{
    BarrierRef, LocalId, MapId, Memory, MmaAtom, OpKind, Program, SharedId, Space, ValueId, ValueType, WgmmaOperand,
};
use crate::sim::SimError;
use crate::sim::checked::AccessKind;
use crate::sim::checked::bytecode::{
    BarrierPlace, BoxCopy, BulkCopy, ClusterStore, GroupOperand, GroupProduct, Instr, LocalPart, Site, Slot,
    WarpProduct,
};

/// More barriers than this are not a program a lowering makes.
const MAX_BARRIERS: u64 = 1024;

/// Refuses launches that no device has.
pub(super) fn check(program: &Program) -> Result<(), SimError> {
    let cluster = program.launch.cluster;
    let size = cluster.iter().try_fold(1u32, |n, &e| n.checked_mul(e)).filter(|n| matches!(n, 1 | 2 | 4 | 8));
    if size.is_none() {
        return malformed(format!("clusters of {cluster:?} blocks"));
    }
    if program.barriers.values().map(|b| u64::from(b.len)).sum::<u64>() > MAX_BARRIERS {
        return malformed(format!("more than {MAX_BARRIERS} barriers"));
    }
    for map in program.tensor_maps.values() {
        let rank = program.tensors.iter().find(|t| t.param == map.tensor).map(|t| t.shape.len());
        if rank != Some(map.box_extents.len()) {
            return malformed(format!("the tensor map `{}` has another rank than its tensor", map.name));
        }
    }
    Ok(())
}

/// Whether anything happens beside the threads.
pub(super) fn has_agents(program: &Program) -> bool {
    !program.barriers.is_empty()
        || any(&program.body, &|op| matches!(op, OpKind::Wgmma { .. } | OpKind::TensorStore { .. }))
}

impl Compiler<'_> {
    /// The slot of an index.
    pub(super) fn index(&mut self, id: ValueId) -> Result<Slot, SimError> {
        let index = |ty| matches!(ty, ValueType::Index | ValueType::Wide | ValueType::Element(Dtype::U32 | Dtype::I32));
        if !self.program.values.get(id).is_some_and(|v| index(v.ty)) {
            return malformed(format!("{id} is not an index"));
        }
        self.value(id)
    }

    pub(super) fn barrier(&mut self, barrier: BarrierRef) -> Result<BarrierPlace, SimError> {
        if self.program.barriers.get(barrier.array).is_none() {
            return malformed(format!("{} is not an array of barriers", barrier.array));
        }
        Ok(BarrierPlace { array: barrier.array, index: self.index(barrier.index)? })
    }

    /// A part of a per-thread array of one of these types.
    fn part(
        &mut self,
        (local, start): (LocalId, ValueId),
        dtypes: &[Dtype],
        span: SpanId,
        kind: AccessKind,
    ) -> Result<LocalPart, SimError> {
        let slot = self.local(local)?;
        let dtype = self.program.locals[local].dtype;
        if !dtypes.contains(&dtype) {
            return malformed(format!("{local} holds {dtype}, not {dtypes:?}"));
        }
        let site = self.own_site(Space::Local(local), dtype, kind, span)?;
        Ok(LocalPart { local: slot, start: self.index(start)?, site })
    }

    /// Whether an access must come after the wait for the previous kernel.
    pub(super) fn depends(&self, space: Space, kind: AccessKind) -> bool {
        let Some(tensor) = self.program.tensor(space) else { return false };
        self.program.launch.dependent.is_some() && !(tensor.independent && kind == AccessKind::Read)
    }

    /// A site without an address in the program's text.
    fn own_site(&mut self, space: Space, dtype: Dtype, kind: AccessKind, span: SpanId) -> Result<u32, SimError> {
        let pc = self.here();
        let dependent = self.depends(space, kind);
        let scope = self.scope();
        self.code.sites.push(Site { space, dtype, kind, width: 1, guard: None, dependent, scope, span, pc });
        match u16::try_from(self.code.sites.len()) {
            Ok(len) => Ok(u32::from(len) - 1),
            Err(_) => malformed("more than 65535 memory accesses"),
        }
    }

    pub(super) fn matrices(
        &mut self,
        kind: AccessKind,
        memory: &Memory,
        words: (LocalId, ValueId),
        count: u32,
        transposed: bool,
    ) -> Result<(), SimError> {
        let Space::Shared(_) = memory.space else { return malformed("matrices that are not in shared memory") };
        if memory.guard.is_some() || !matches!(count, 1 | 2 | 4) {
            return malformed(format!("{count} matrices, or a guard on them"));
        }
        let Some(dtype) = self.program.dtype(memory.space) else {
            return malformed(format!("{:?} does not exist", memory.space));
        };
        let site = self.site(memory, kind, 16 / dtype.bytes())?;
        let other = if kind == AccessKind::Read { AccessKind::Write } else { AccessKind::Read };
        let part = self.part(words, &[Dtype::U32], memory.span, other)?;
        let offset = self.value(memory.offset)?;
        self.emit(Instr::Matrices { site, offset, part, count, transposed }, memory.span);
        Ok(())
    }

    pub(super) fn warp_product(
        &mut self,
        atom: MmaAtom,
        [acc, a, b]: [(LocalId, ValueId); 3],
        span: SpanId,
    ) -> Result<(), SimError> {
        let format = match (atom, atom.operand().class()) {
            (MmaAtom::M16n8k16 { .. }, DtypeClass::Float(f @ (FloatFormat::Binary16 | FloatFormat::Bfloat16))) => f,
            (MmaAtom::M16n8k8Tf32, _) => FloatFormat::Binary32,
            (MmaAtom::M16n8k16 { dtype }, _) => return malformed(format!("a product of a warp on {dtype}")),
        };
        let words: &[Dtype] = match atom {
            MmaAtom::M16n8k16 { .. } => &[Dtype::U32],
            MmaAtom::M16n8k8Tf32 => &[Dtype::U32, Dtype::F32],
        };
        let product = WarpProduct {
            format,
            acc: self.part(acc, &[Dtype::F32], span, AccessKind::Write)?,
            a: self.part(a, words, span, AccessKind::Read)?,
            b: self.part(b, words, span, AccessKind::Read)?,
        };
        self.code.mmas.push(product);
        let product = self.code.mmas.len() as u32 - 1;
        self.emit(Instr::Mma { product }, span);
        Ok(())
    }

    pub(super) fn group_product(
        &mut self,
        acc: (LocalId, ValueId),
        (n, rows, dtype, transposed): (u32, u32, Dtype, [bool; 2]),
        (a, b): (&WgmmaOperand, ValueId),
        accumulate: ValueId,
        span: SpanId,
    ) -> Result<(), SimError> {
        let format = match dtype.class() {
            DtypeClass::Float(format) if (8..=256).contains(&n) && n.is_multiple_of(8) => format,
            DtypeClass::Float(_) | DtypeClass::Int(_) | DtypeClass::Bool => {
                return malformed(format!("a product of a warpgroup with {n} columns of {dtype}"));
            }
        };
        if !(8..=64).contains(&rows) || !rows.is_multiple_of(8) {
            return malformed(format!("a product of a warpgroup with {rows} rows"));
        }
        if dtype == Dtype::F32 && transposed != [false, false] {
            return malformed("a product of a warpgroup on transposed tf32");
        }
        let wide = |v: ValueId| self.program.values.get(v).is_some_and(|v| v.ty == ValueType::Wide);
        let is_bool = |v: ValueId| self.program.values.get(v).is_some_and(|v| v.ty == ValueType::BOOL);
        if !wide(b) || !is_bool(accumulate) || matches!(a, WgmmaOperand::Descriptor(a) if !wide(*a)) {
            return malformed("a product of a warpgroup whose descriptors or flag have another type");
        }
        let site = |c: &mut Self, descriptor: ValueId| {
            let shared = c.described(descriptor).unwrap_or_else(|| SharedId::new(0));
            let space = Space::Shared(shared);
            match c.program.dtype(space) {
                Some(dtype) => c.own_site(space, dtype, AccessKind::Read, span),
                None => malformed("a matrix descriptor without shared memory"),
            }
        };
        let sites = match a {
            WgmmaOperand::Descriptor(a) => [site(self, *a)?, site(self, b)?],
            WgmmaOperand::Registers(..) => [site(self, b)?; 2],
        };
        let product = GroupProduct {
            acc: self.part(acc, &[Dtype::F32], span, AccessKind::Write)?,
            n,
            rows,
            dtype,
            format,
            a: match a {
                WgmmaOperand::Descriptor(a) => GroupOperand::Descriptor(self.value(*a)?),
                WgmmaOperand::Registers(local, start) => {
                    let word = if dtype == Dtype::F32 { Dtype::F32 } else { Dtype::U32 };
                    GroupOperand::Registers(self.part((*local, *start), &[word], span, AccessKind::Read)?)
                }
            },
            b: self.value(b)?,
            accumulate: self.value(accumulate)?,
            transposed,
            sites,
        };
        self.code.products.push(product);
        let product = self.code.products.len() as u32 - 1;
        self.emit(Instr::Wgmma { product }, span);
        Ok(())
    }

    pub(super) fn box_copy(
        &mut self,
        map: MapId,
        coordinates: &[ValueId],
        (shared, offset): (SharedId, ValueId),
        (barrier, multicast): (Option<BarrierPlace>, Option<Slot>),
        adds: bool,
        span: SpanId,
    ) -> Result<(), SimError> {
        let Some(described) = self.program.tensor_maps.get(map) else {
            return malformed(format!("{map} is not a tensor map"));
        };
        let global = Space::Global(described.tensor);
        let (Some(dtype), Some(other)) = (self.program.dtype(global), self.program.dtype(Space::Shared(shared))) else {
            return malformed(format!("{map} or {shared} has no type"));
        };
        if dtype.bytes() != other.bytes() || described.box_extents.len() != coordinates.len() {
            return malformed(format!("a box of {} axes of {dtype} in an array of {other}", coordinates.len()));
        }
        if adds && [dtype, other] != [Dtype::F32; 2] {
            return malformed(format!("a box of {dtype} is added to {other}"));
        }
        let (outer, inner) = match barrier {
            Some(_) => (AccessKind::Read, AccessKind::Write),
            None if adds => (AccessKind::Atomic, AccessKind::Read),
            None => (AccessKind::Write, AccessKind::Read),
        };
        let sites =
            [self.own_site(global, dtype, outer, span)?, self.own_site(Space::Shared(shared), other, inner, span)?];
        let coordinates = coordinates.iter().map(|c| self.index(*c)).collect::<Result<_, _>>()?;
        let copy = BoxCopy { map, coordinates, shared, offset: self.index(offset)?, barrier, multicast, sites };
        self.code.boxes.push(copy);
        let copy = self.code.boxes.len() as u32 - 1;
        self.emit(Instr::BoxCopy { copy }, span);
        Ok(())
    }

    pub(super) fn bulk_copy(
        &mut self,
        memory: &Memory,
        (shared, offset): (SharedId, ValueId),
        bytes: ValueId,
        barrier: BarrierRef,
    ) -> Result<(), SimError> {
        let (Some(dtype), Some(other)) = (self.program.dtype(memory.space), self.program.dtype(Space::Shared(shared)))
        else {
            return malformed("a bulk copy between arrays that do not exist");
        };
        if !matches!(memory.space, Space::Global(_)) || memory.guard.is_some() || dtype != other {
            return malformed(format!("a bulk copy of {dtype} to {other}, or with a guard"));
        }
        let from_site = self.site(memory, AccessKind::Read, 1)?;
        let to_site = self.own_site(Space::Shared(shared), other, AccessKind::Write, memory.span)?;
        let barrier = self.barrier(barrier)?;
        let (from, offset, bytes) = (self.value(memory.offset)?, self.index(offset)?, self.index(bytes)?);
        self.code.bulks.push(BulkCopy { from, shared, offset, bytes, barrier, sites: [from_site, to_site] });
        let copy = self.code.bulks.len() as u32 - 1;
        self.emit(Instr::BulkCopy { copy }, memory.span);
        Ok(())
    }

    pub(super) fn cluster_store(
        &mut self,
        memory: &Memory,
        block: ValueId,
        from: (LocalId, ValueId),
        width: u32,
        barrier: BarrierRef,
    ) -> Result<(), SimError> {
        let (Space::Shared(shared), Some(dtype)) = (memory.space, self.program.dtype(memory.space)) else {
            return malformed("a store into a cluster that is not to shared memory");
        };
        if memory.guard.is_some() || dtype.bytes() != 4 || !matches!(width, 1 | 2 | 4) {
            return malformed(format!("a store of {width} {dtype} into a cluster, or a guard on it"));
        }
        let site = self.site(memory, AccessKind::Write, width)?;
        let store = ClusterStore {
            shared,
            offset: self.value(memory.offset)?,
            block: self.index(block)?,
            from: self.part(from, &[dtype], memory.span, AccessKind::Read)?,
            width,
            barrier: self.barrier(barrier)?,
            site,
        };
        self.code.cluster_stores.push(store);
        let store = self.code.cluster_stores.len() as u32 - 1;
        self.emit(Instr::ClusterStore { store }, memory.span);
        Ok(())
    }

    /// The array that a matrix descriptor points into, as far as the program's text shows it.
    pub(super) fn described(&self, id: ValueId) -> Option<SharedId> {
        self.program.described(id, &|reg| self.described.get(&reg).copied())
    }
}
