//! Tensor cores, counting barriers and TMA as C statements: a helper each.

use super::Emitter;
use super::atoms::{Helper, hint, mma_helper, wgmma};
use super::value::place;
use crate::ir::Dtype;
use crate::ir::Evict;
use crate::lowered::{BarrierRef, LocalId, MapId, Memory, MmaAtom, SharedId, Space, ValueId, WgmmaOperand};

impl Emitter<'_> {
    /// `helper(arguments);`
    pub(super) fn call(&mut self, helper: &str, arguments: &[String]) {
        self.write_line(&format!("{helper}({});", arguments.join(", ")));
    }

    /// `&array[start]`
    fn part(&self, (local, start): (LocalId, ValueId)) -> String {
        format!("&{}[{}]", self.program.locals[local].name, self.value(start))
    }

    /// The 32-bit address of a shared array's element.
    fn shared_at(&self, shared: SharedId, offset: ValueId) -> String {
        format!("shared_at({}, {})", self.program.shared[shared].name, self.value(offset))
    }

    pub(super) fn barrier(&self, barrier: BarrierRef) -> String {
        format!("shared_at({}, {})", self.program.barriers[barrier.array].name, self.value(barrier.index))
    }

    fn map(&self, map: MapId) -> String {
        format!("&{}", self.program.tensor_maps[map].name)
    }

    /// The address of a lane's row.
    fn row(&self, memory: &Memory) -> String {
        match memory.space {
            Space::Shared(shared) => self.shared_at(shared, memory.offset),
            Space::Global(_) | Space::Local(_) => format!("shared_at(&{}, 0)", place(self.program, memory)),
        }
    }

    pub(super) fn load_matrix(&mut self, memory: &Memory, words: (LocalId, ValueId), count: u32, transposed: bool) {
        let arguments = [self.part(words), self.row(memory)];
        self.call(&format!("load_matrix_x{count}{}", suffix(transposed)), &arguments);
    }

    pub(super) fn store_matrix(&mut self, memory: &Memory, words: (LocalId, ValueId), count: u32, transposed: bool) {
        let arguments = [self.row(memory), self.part(words)];
        self.call(&format!("store_matrix_x{count}{}", suffix(transposed)), &arguments);
    }

    pub(super) fn mma(&mut self, atom: MmaAtom, operands: [(LocalId, ValueId); 3]) {
        let arguments = operands.map(|operand| self.part(operand));
        self.call(&mma_helper(atom).name(), &arguments);
    }

    pub(super) fn tensor_load(
        &mut self,
        map: MapId,
        coordinates: &[ValueId],
        (shared, offset): (SharedId, ValueId),
        barrier: BarrierRef,
        multicast: Option<ValueId>,
        evict: Option<Evict>,
    ) {
        let (rank, to_many) = (coordinates.len(), multicast.is_some());
        let helper = Helper::TensorLoad { rank, multicast: to_many, hint: evict.is_some() };
        let mut arguments = vec![self.shared_at(shared, offset), self.map(map), self.barrier(barrier)];
        arguments.extend(coordinates.iter().map(|c| self.value(*c)));
        arguments.extend(multicast.map(|mask| self.value(mask)));
        arguments.extend(evict.map(|evict| hint(evict).to_owned()));
        self.call(&helper.name(), &arguments);
    }

    pub(super) fn tensor_store(
        &mut self,
        map: MapId,
        coordinates: &[ValueId],
        from: (SharedId, ValueId),
        adds: bool,
        evict: Option<Evict>,
    ) {
        let helper = Helper::TensorStore { rank: coordinates.len(), adds, hint: evict.is_some() };
        let mut arguments = vec![self.map(map), self.shared_at(from.0, from.1)];
        arguments.extend(coordinates.iter().map(|c| self.value(*c)));
        arguments.extend(evict.map(|evict| hint(evict).to_owned()));
        self.call(&helper.name(), &arguments);
    }

    pub(super) fn bulk_load(
        &mut self,
        memory: &Memory,
        (shared, offset): (SharedId, ValueId),
        bytes: ValueId,
        barrier: BarrierRef,
        evict: Option<Evict>,
    ) {
        let from = format!("&{}", place(self.program, memory));
        let mut arguments = vec![self.shared_at(shared, offset), from, self.value(bytes), self.barrier(barrier)];
        arguments.extend(evict.map(|evict| hint(evict).to_owned()));
        self.call(if evict.is_some() { "bulk_load_hint" } else { "bulk_load" }, &arguments);
    }

    pub(super) fn cluster_store(
        &mut self,
        memory: &Memory,
        block: ValueId,
        from: (LocalId, ValueId),
        width: u32,
        barrier: BarrierRef,
    ) {
        let bytes = width * self.program.locals[from.0].dtype.bytes();
        let arguments = [self.row(memory), self.value(block), self.part(from), self.barrier(barrier)];
        self.call(&format!("cluster_store{bytes}"), &arguments);
    }

    pub(super) fn wgmma(
        &mut self,
        acc: (LocalId, ValueId),
        (n, dtype, transposed): (u32, Dtype, [bool; 2]),
        (a, b): (&WgmmaOperand, ValueId),
        accumulate: ValueId,
    ) {
        let left = match a {
            WgmmaOperand::Descriptor(a) => self.value(*a),
            WgmmaOperand::Registers(local, start) => self.part((*local, *start)),
        };
        let arguments = [self.part(acc), left, self.value(b), self.value(accumulate)];
        self.call(&wgmma(n, dtype, a, transposed).name(), &arguments);
    }

    pub(super) fn pin(&mut self, local: LocalId) {
        let array = &self.program.locals[local];
        // Registers of the compiler's words are integers.
        let helper = if array.dtype.is_float() { "tile_pin_f" } else { "tile_pin_r" };
        self.call(helper, std::slice::from_ref(&array.name));
    }
}

fn suffix(transposed: bool) -> &'static str {
    if transposed { "_transposed" } else { "" }
}
