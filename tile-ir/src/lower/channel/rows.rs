//! Rows by bulk copies: one thread asks for bytes that lie together, a row a copy, which complete the slot's barrier.
//!
//! Rows and columns outside of the tensor are not copied: the slot keeps what an earlier iteration left there, and a read of it is clipped
//! ([`Lowering::clipped_read`]).

use super::super::tile::CopySide;
use super::super::*;
use super::load::Target;
use super::{Load, Rows};

/// Rows of a slot up to which their copies are written out.
const FEW: u32 = 4;

impl Lowering<'_> {
    /// Of a load of rows: how many rows of its tile are inside the tensor, and the bytes of one.
    pub(super) fn inside(&mut self, load: &Load) -> Option<[ValueId; 2]> {
        let tile = load.rows()?;
        let rank = self.rank(Place::Tensor(load.tensor));
        let mut counts = [tile.rows, tile.columns].map(|n| self.int(i64::from(n)));
        for (back, count) in [(2, 0), (1, 1)] {
            let Some(axis) = rank.checked_sub(back) else { continue };
            if !tile.open.iter().any(|open| open.axis == axis) {
                continue;
            }
            let extent = self.extent(Place::Tensor(load.tensor), axis);
            let start = self.first_coordinate(load.src.start.get(axis).copied());
            // An index is never negative, also where the tile begins past the end.
            let end = self.binary(BinaryOp::Add, start, counts[count]);
            let [end, start] = [end, start].map(|at| self.binary(BinaryOp::Min, at, extent));
            let name = if count == 0 { "rows_inside" } else { "columns_inside" };
            counts[count] = self.once(name, end - start);
        }
        let size = i64::from(load.dtype.bytes());
        let bytes = match self.program.values[counts[1]].kind.as_int() {
            Some(columns) => self.int(columns * size),
            None => self.eval(counts[1] * size),
        };
        Some([counts[0], bytes])
    }

    /// One copy a row; one copy in all, where the rows are whole and lie one behind the other.
    pub(super) fn load_rows(&mut self, load: &Load, tile: &Rows, [rows, bytes]: [ValueId; 2], to: Target) {
        let Target { shared, base, barrier } = to;
        let rank = self.rank(Place::Tensor(load.tensor));
        let row = |l: &mut Self, row: ValueId, bytes: ValueId| {
            let zero = l.int(0);
            let Memory { space, offset, guard, span } =
                l.tile_memory(&CopySide::inside(&load.src).clipped(tile.open.clone()), &[row, zero]);
            let to = l.eval(base + row * tile.columns);
            let memory = Memory { space, offset, guard: None, span };
            let copy = OpKind::BulkLoad { memory, shared, offset: to, bytes, barrier, evict: load.evict };
            match guard {
                None => l.op(copy),
                Some(guard) => l.when(guard.cond, |l| l.op(copy)),
            }
        };
        let zero = self.int(0);
        if tile.rows == 1 {
            return row(self, zero, bytes);
        }
        let each = |l: &mut Self| {
            let unroll = if tile.rows <= FEW { Unroll::Full } else { Unroll::By(1) };
            l.stepped("row_in_slot", [0, tile.rows, 1], unroll, |l, index| row(l, index, bytes));
        };
        let clipped = rank.checked_sub(1).is_some_and(|last| tile.open.iter().any(|open| open.axis == last));
        if clipped {
            return each(self);
        }
        let stride = self.param(ParameterKind::Stride(load.tensor, rank.saturating_sub(2) as u8));
        let cond = self.binary(BinaryOp::Eq, stride, tile.columns);
        let together = |l: &mut Self| {
            let (first, all) = (l.int(0), l.eval(rows * bytes));
            row(l, first, all);
        };
        self.either(cond, together, each);
    }

    /// What else a read of a slot's element depends on: whether the tensor has it.
    pub(in crate::lower) fn clipped_read(
        &mut self,
        place: Place,
        indices: &[ValueId],
        guard: Option<Guard>,
    ) -> Option<Guard> {
        let Some(roles) = self.roles.clone() else { return guard };
        let load = roles.loads().find(|load| Place::Buffer(load.buffer) == place);
        let Some((load, tile)) = load.and_then(|load| Some((load, load.clipped()?))) else { return guard };
        let inside = self.tile_memory(&CopySide::inside(&load.src).clipped(tile.open.clone()), indices).guard?;
        Some(match guard {
            None => inside,
            // Clipping is no mistake, so this guard is none that reports one.
            Some(own) => Guard { cond: self.binary(BinaryOp::And, own.cond, inside.cond), ..inside },
        })
    }
}
