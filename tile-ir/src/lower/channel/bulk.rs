//! Rows by bulk copies: one thread asks for bytes that lie together, a row a copy, which complete the slot's barrier.
//!
//! Rows and columns outside of the tensor are not copied: the slot keeps what an earlier iteration left there, and a read of it is clipped
//! (`bulk`).

use super::super::bulk::Load;
use super::super::*;
use super::Slots;

/// Rows of a slot up to which their copies are written out.
const FEW: u32 = 4;

impl Lowering<'_> {
    /// Asks for the rows of all loads of a slot, and says how many bytes they are.
    pub(in crate::lower) fn load_rows_of(&mut self, slots: &Slots, all_loads: &[Load], slot: ValueId) {
        let mut all = None;
        let mut parts = Vec::new();
        for load in all_loads {
            let (rows, bytes) = self.inside(load);
            let sum = self.binary(BinaryOp::Mul, rows, bytes);
            all = Some(match all {
                None => sum,
                Some(all) => self.binary(BinaryOp::Add, all, sum),
            });
            parts.push((rows, bytes));
        }
        let Some(bytes) = all else { return self.bug("a slot without loads") };
        self.expect(slots, slot, bytes);
        for (load, (rows, bytes)) in all_loads.iter().zip(parts) {
            self.span = load.span;
            self.load_rows(load, slot, (rows, bytes), slots.full(slot));
        }
    }

    /// Rows of a tile that are inside the tensor, and bytes of one.
    fn inside(&mut self, load: &Load) -> (ValueId, ValueId) {
        let rank = self.axes(load.tensor);
        let mut counts = [load.rows, load.columns].map(|n| self.int(i64::from(n)));
        for (back, count) in [(2, 0), (1, 1)] {
            let Some(axis) = rank.checked_sub(back) else { continue };
            if !load.open.iter().any(|open| open.axis == axis) {
                continue;
            }
            let extent = self.extent(Place::Tensor(load.tensor), axis);
            let start = self.coordinate(load, axis);
            // An index is never negative, also where the tile begins past the end.
            let end = self.binary(BinaryOp::Add, start, counts[count]);
            let [end, start] = [end, start].map(|at| self.binary(BinaryOp::Min, at, extent));
            let inside = self.binary(BinaryOp::Sub, end, start);
            let name = if count == 0 { "rows_inside" } else { "columns_inside" };
            counts[count] = self.once(name, inside);
        }
        let size = i64::from(load.dtype.bytes());
        let bytes = if let Some(columns) = self.program.values[counts[1]].kind.as_int() {
            self.int(columns * size)
        } else {
            let size = self.int(size);
            self.binary(BinaryOp::Mul, counts[1], size)
        };
        (counts[0], bytes)
    }

    fn axes(&self, tensor: ParamId) -> usize {
        match &self.kernel.params[tensor].kind {
            ParamKind::Tensor { shape, .. } => shape.len(),
            ParamKind::Scalar { .. } | ParamKind::Absent => 0,
        }
    }

    /// The tile's first coordinate on an axis.
    fn coordinate(&mut self, load: &Load, axis: usize) -> ValueId {
        match load.src.start.get(axis) {
            Some(&start) => self.narrow_value(start),
            None => self.int(0),
        }
    }

    /// One copy a row; one copy in all, where the rows are whole and lie one behind the other.
    fn load_rows(&mut self, load: &Load, slot: ValueId, (rows, bytes): (ValueId, ValueId), barrier: BarrierRef) {
        let Some(shared) = self.shared[load.buffer] else { return self.bug("a load has no stages") };
        let rank = self.axes(load.tensor);
        let elements = self.int(i64::from(load.elements()));
        let base = self.binary(BinaryOp::Mul, slot, elements);
        let row = |l: &mut Self, row: ValueId, bytes: ValueId| {
            let zero = l.int(0);
            let Memory { space, offset, guard, span } = l.tile_memory(&load.src, &[row, zero], &load.open);
            let columns = l.int(i64::from(load.columns));
            let within = l.binary(BinaryOp::Mul, row, columns);
            let to = l.binary(BinaryOp::Add, base, within);
            let memory = Memory { space, offset, guard: None, span };
            let copy = OpKind::BulkLoad { memory, shared, offset: to, bytes, barrier, evict: load.evict };
            match guard {
                None => l.op(copy),
                Some(guard) => {
                    let then = l.nested(|l| l.op(copy));
                    l.op(OpKind::If { cond: guard.cond, then, otherwise: Vec::new() });
                }
            }
        };
        let zero = self.int(0);
        if load.rows == 1 {
            return row(self, zero, bytes);
        }
        let each = |l: &mut Self| {
            let reg = l.reg("row_in_slot", ValueType::Index, false);
            let bounds = [l.int(0), l.int(i64::from(load.rows)), l.int(1)];
            let unroll = if load.rows <= FEW { Unroll::Full } else { Unroll::By(1) };
            l.loop_over(reg, bounds, unroll, |l| {
                let index = l.read(reg);
                row(l, index, bytes);
            });
        };
        let clipped = rank.checked_sub(1).is_some_and(|last| load.open.iter().any(|open| open.axis == last));
        if clipped {
            return each(self);
        }
        let stride = self.param(ParameterKind::Stride(load.tensor, rank.saturating_sub(2) as u8));
        let columns = self.int(i64::from(load.columns));
        let cond = self.binary(BinaryOp::Eq, stride, columns);
        let then = self.nested(|l| {
            let all = l.binary(BinaryOp::Mul, rows, bytes);
            let zero = l.int(0);
            row(l, zero, all);
        });
        let otherwise = self.nested(each);
        self.op(OpKind::If { cond, then, otherwise });
    }
}

impl Load {
    /// Elements of a slot.
    pub(in crate::lower) fn elements(&self) -> u32 {
        self.rows.saturating_mul(self.columns)
    }

    /// Bytes of a slot.
    pub(in crate::lower) fn bytes(&self) -> u32 {
        self.elements().saturating_mul(self.dtype.bytes())
    }
}
