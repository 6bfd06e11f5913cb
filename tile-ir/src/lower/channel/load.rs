//! What fills a slot, and the producer's side of it, which is one for all transports: when a slot has been given back, the producer says how
//! many bytes will come, and asks for them.

use super::super::uses::depends;
use super::super::value::OpenAxis;
use super::super::*;
use super::{Sharing, Slots};
use crate::layout::{SharedLayout, TmaPlan};

/// Arrays that are filled together.
#[derive(Clone, Debug)]
pub(in crate::lower) struct Channel {
    pub(in crate::lower) buffers: Vec<BufferId>,
    /// Iterations whose tiles it holds.
    pub(in crate::lower) slots: u32,
    /// Whether every iteration has a slot of its own: none is filled twice, and iteration i is in slot i.
    pub(in crate::lower) once: bool,
    /// Bytes of a slot.
    pub(in crate::lower) bytes: u32,
    /// Which blocks of a cluster fill each other's slots: each way of sharing that a load has, once.
    pub(in crate::lower) shared: Vec<Sharing>,
}

/// One copy that a producer issues: into a slot of a channel, or into the array of a tile that stays.
#[derive(Clone, Debug)]
pub(in crate::lower) struct Load {
    /// The copy.
    pub(in crate::lower) stmt: StmtId,
    pub(in crate::lower) tensor: ParamId,
    pub(in crate::lower) buffer: BufferId,
    pub(in crate::lower) dtype: Dtype,
    /// Elements of a slot, with those that its layout pads it by.
    pub(in crate::lower) elements: u32,
    /// The tile in the tensor.
    pub(in crate::lower) src: TileRef,
    pub(in crate::lower) transport: Transport,
    /// Whether the previous kernel of the stream does not write the tensor (`pdl`).
    pub(in crate::lower) independent: bool,
    pub(in crate::lower) evict: Option<Evict>,
    pub(in crate::lower) span: SpanId,
}

/// How a producer's copy gets its bytes into shared memory.
#[derive(Clone, Debug)]
pub(in crate::lower) enum Transport {
    /// TMA: boxes, which arrive in the layout of the array. Elements outside of the tensor arrive as zeros.
    Boxes {
        layout: SharedLayout,
        boxes: TmaPlan,
        /// Which blocks of the cluster need the same tile, if any: each fetches a part and sends it to all.
        shared: Option<Sharing>,
    },
    /// Bulk copies: a row each, of bytes that lie together. Elements outside of the tensor do not arrive; reads of them are clipped.
    Rows(Rows),
}

/// A tile as rows.
#[derive(Clone, Debug)]
pub(in crate::lower) struct Rows {
    /// Rows, and elements of one.
    pub(in crate::lower) rows: u32,
    pub(in crate::lower) columns: u32,
    /// The axes of the tensor on which the tile may leave it, past its end.
    pub(in crate::lower) open: Vec<OpenAxis>,
}

/// Where the bytes of a load go: an array from an element on, and the barrier that counts them.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub(super) shared: SharedId,
    pub(super) base: ValueId,
    pub(super) barrier: BarrierRef,
}

impl Load {
    /// The variables that its coordinates are made of.
    pub(in crate::lower) fn vars(&self, kernel: &BoundKernel) -> Vec<VarId> {
        self.src.start.iter().flat_map(|e| depends(kernel, *e)).collect()
    }

    /// Bytes of a slot.
    pub(in crate::lower) fn bytes(&self) -> u32 {
        self.elements.saturating_mul(self.dtype.bytes())
    }

    /// The layout of a slot, where it is not row after row.
    pub(in crate::lower) fn layout(&self) -> Option<&SharedLayout> {
        if let Transport::Boxes { layout, .. } = &self.transport { Some(layout) } else { None }
    }

    /// Which blocks of the cluster fetch the tile together.
    pub(in crate::lower) fn sharing(&self) -> Option<Sharing> {
        if let Transport::Boxes { shared, .. } = &self.transport { *shared } else { None }
    }

    /// The tile as rows, where bulk copies bring it.
    pub(in crate::lower) fn rows(&self) -> Option<&Rows> {
        if let Transport::Rows(rows) = &self.transport { Some(rows) } else { None }
    }

    /// The tile as rows, where reads of it are clipped.
    pub(in crate::lower) fn clipped(&self) -> Option<&Rows> {
        self.rows().filter(|rows| !rows.open.is_empty())
    }
}

impl Lowering<'_> {
    /// Declares the slots of a load's array, and its tensor map.
    pub(in crate::lower) fn declare_slots(&mut self, load: &Load, slots: u32) {
        if self.shared[load.buffer].is_none() {
            let align = load.layout().map_or(128, SharedLayout::alignment);
            self.declare_shared(load.buffer, load.dtype, load.elements, (slots, align));
        }
        self.map_of(load);
    }

    /// The tensor map of a load by TMA.
    pub(in crate::lower) fn map_of(&mut self, load: &Load) -> Option<MapId> {
        let Transport::Boxes { boxes, .. } = &load.transport else { return None };
        Some(self.tensor_map(load.tensor, boxes, false))
    }

    /// The bytes of all these loads will come into a slot. Those of them that `which` takes are asked for at once.
    pub(in crate::lower) fn request(
        &mut self,
        slots: &Slots,
        slot: ValueId,
        loads: &[&Load],
        which: impl Fn(&Load) -> bool,
    ) {
        let inside: Vec<_> = loads.iter().map(|load| self.inside(load)).collect();
        // TMA writes zeros for what is outside of the tensor, and counts their bytes.
        let known: u32 = loads.iter().filter_map(|load| load.layout()).map(SharedLayout::bytes).sum();
        let mut all = (known > 0).then(|| self.int(i64::from(known)));
        for [rows, row] in inside.iter().flatten() {
            all = Some(self.joined(BinaryOp::Add, all, *rows * *row));
        }
        let Some(all) = all else { return self.bug("a slot without loads") };
        // `arrive.expect_tx`
        self.op(OpKind::BarrierExpect { barrier: slots.full(slot), bytes: all });
        for (load, inside) in loads.iter().zip(inside).filter(|(load, _)| which(load)) {
            self.ask_for(slots, slot, load, inside);
        }
    }

    /// Asks for the bytes of a load that were promised before.
    pub(in crate::lower) fn request_promised(&mut self, slots: &Slots, slot: ValueId, load: &Load) {
        let inside = self.inside(load);
        self.ask_for(slots, slot, load, inside);
    }

    /// Asks for the bytes of a load; of rows, those `inside` the tensor.
    fn ask_for(&mut self, slots: &Slots, slot: ValueId, load: &Load, inside: Option<[ValueId; 2]>) {
        self.span = load.span;
        let Some(shared) = self.shared[load.buffer] else { return self.bug("a load has no slots") };
        let base = match self.program.values[slot].kind {
            // The only slot of a tile that stays.
            ValueKind::Int(0) => slot,
            _ => self.binary(BinaryOp::Mul, slot, load.elements),
        };
        let to = Target { shared, base, barrier: slots.full(slot) };
        match (&load.transport, inside) {
            (Transport::Boxes { boxes, shared: sharing, .. }, _) => self.load_boxes(load, (boxes, *sharing), to),
            (Transport::Rows(rows), Some(inside)) => self.load_rows(load, rows, inside, to),
            (Transport::Rows(_), None) => self.bug("rows of which nobody knows how many are inside their tensor"),
        }
    }
}
