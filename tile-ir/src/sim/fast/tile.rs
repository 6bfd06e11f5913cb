//! Tile operations: whole tiles at once. Copies clip at a tensor's edge; outside an array is a fault.

use super::block::Machine;
use super::code::{ArrayInfo, CopyPlan, Kind, Loc, MaskId, Target, TileSide};
use super::state::{Operand, Shared, State};
use crate::diag::{Code as DiagnosticCode, Diagnostic};
use crate::ir::{Dtype, SpanId};
use crate::sim::{Fault, numeric};

/// Most axes of a tile.
const AXES: usize = 8;

impl Machine<'_> {
    /// Fills a shared array: its elements are spread over the threads, and each thread writes its own value.
    pub(super) fn fill_shared(
        &self,
        s: &mut State,
        shared: u32,
        value: Loc,
        mask: MaskId,
        span: SpanId,
    ) -> Result<(), Box<Fault>> {
        self.check_convergence(s, false, mask, span)?;
        let lanes = s.lanes;
        match &mut s.shared[shared as usize] {
            Shared::Floats(all) => spread(all, s.registers.floats.operand(value), lanes),
            Shared::Ints(all) => spread(all, s.registers.ints.operand(value), lanes),
            Shared::Bools(all) => spread(all, s.registers.bools.operand(value), lanes),
        }
        Ok(())
    }

    /// Copies a tile: once for the block, or once for each thread of the mask.
    pub(super) fn copy(&self, s: &mut State, plan: &CopyPlan, mask: MaskId) -> Result<(), Box<Fault>> {
        if plan.per_thread {
            for lane in 0..s.lanes {
                if s.masks[mask.0 as usize].lanes[lane] {
                    self.copy_tile(s, plan, lane)?;
                }
            }
            return Ok(());
        }
        self.check_convergence(s, false, mask, plan.span)?;
        for side in [&plan.src, &plan.dst] {
            for loc in &side.start {
                let start = s.registers.indices.operand(*loc);
                if let Some(lane) = (1..s.lanes).find(|lane| start.at(*lane) != start.at(0)) {
                    let message = "copy: the tile's start differs between the threads of the block";
                    let at = format!("{} in thread 0, {} in thread {lane}", start.at(0), start.at(lane));
                    let diagnostic = Diagnostic::new(DiagnosticCode::DIVERGENT_BARRIER, side.span, message).at(at);
                    return Err(self.fault(s, lane, diagnostic));
                }
            }
        }
        self.copy_tile(s, plan, 0)
    }

    fn copy_tile(&self, s: &mut State, plan: &CopyPlan, lane: usize) -> Result<(), Box<Fault>> {
        let of = |locs: &[Loc]| -> Vec<i64> { locs.iter().map(|e| s.registers.indices.scalar(*e)).collect() };
        let [of_src, of_dst] = [of(&plan.extents[0]), of(&plan.extents[1])];
        if of_src.iter().chain(&of_dst).any(|e| *e <= 0) {
            return Ok(());
        }
        let src = Cursor::new(self, s, &plan.src, lane);
        let dst = Cursor::new(self, s, &plan.dst, lane);
        let count = |extents: &[i64]| extents.iter().try_fold(1i64, |all, extent| all.checked_mul(*extent));
        for (side, cursor, extents) in [(&plan.src, &src, &of_src), (&plan.dst, &dst, &of_dst)] {
            // Axes that the other side lacks have extent 1.
            let extra = extents.len().saturating_sub(cursor.rank);
            let fits = cursor.rank <= AXES && extents.len() <= AXES && extents[..extra].iter().all(|e| *e == 1);
            if !fits || count(&of_src) != count(&of_dst) {
                let message = format!("copy: a tile of {extents:?} does not fit {} axes", cursor.rank);
                return Err(self.fault(s, lane, Diagnostic::new(DiagnosticCode::TILE_SHAPE, side.span, message)));
            }
        }
        let [mut from, mut position] = [&of_src, &of_dst].map(|extents| vec![0i64; extents.len()]);
        loop {
            if plan.src.transposed {
                from.iter_mut().zip(position.iter().rev()).for_each(|(from, at)| *from = *at);
            }
            let bits = match src.element(&from, src.rank) {
                Ok(offset) => self.read(s, &plan.src, offset, lane),
                Err(_) if src.clips => 0,
                Err((axis, index)) => return Err(self.tile_fault(s, &plan.src, axis, index, lane)),
            };
            match dst.element(&position, dst.rank) {
                Ok(offset) => self.write(s, &plan.dst, offset, lane, numeric::cast(src.dtype, dst.dtype, bits)),
                Err(_) if dst.clips => {}
                Err((axis, index)) => return Err(self.tile_fault(s, &plan.dst, axis, index, lane)),
            }
            advance(&mut from, &of_src);
            if !advance(&mut position, &of_dst) {
                return Ok(());
            }
        }
    }

    fn read(&self, s: &State, side: &TileSide, offset: i64, lane: usize) -> u32 {
        match side.target {
            Target::Tensor(index) => {
                let view = self.tensor(index);
                let address = view.offset as i64 + offset * i64::from(view.dtype.bytes());
                view.memory.load(address as usize, view.dtype)
            }
            Target::Shared(index) => {
                s.shared[index as usize].bits(self.code.shared[index as usize].dtype, offset as usize)
            }
            Target::Local(index) => {
                let ArrayInfo { dtype, first, .. } = self.code.locals[index as usize];
                let row = first as usize + offset as usize;
                match Kind::of_dtype(dtype) {
                    Kind::Float => numeric::encode(dtype, s.registers.floats.lanes[row][lane]),
                    Kind::Int | Kind::Index => s.registers.ints.lanes[row][lane],
                    Kind::Bool => u32::from(s.registers.bools.lanes[row][lane]),
                }
            }
        }
    }

    fn write(&self, s: &mut State, side: &TileSide, offset: i64, lane: usize, bits: u32) {
        match side.target {
            Target::Tensor(index) => {
                let view = self.tensor(index);
                let address = view.offset as i64 + offset * i64::from(view.dtype.bytes());
                view.memory.store(address as usize, view.dtype, bits);
            }
            Target::Shared(index) => {
                let dtype = self.code.shared[index as usize].dtype;
                s.shared[index as usize].set_bits(dtype, offset as usize, bits);
            }
            Target::Local(index) => {
                let ArrayInfo { dtype, first, .. } = self.code.locals[index as usize];
                let row = first as usize + offset as usize;
                match Kind::of_dtype(dtype) {
                    Kind::Float => s.registers.floats.lanes[row][lane] = numeric::decode(dtype, bits),
                    Kind::Int | Kind::Index => s.registers.ints.lanes[row][lane] = bits,
                    Kind::Bool => s.registers.bools.lanes[row][lane] = bits != 0,
                }
            }
        }
    }

    fn tile_fault(&self, s: &State, side: &TileSide, axis: usize, index: i64, lane: usize) -> Box<Fault> {
        let info = match side.target {
            Target::Shared(array) => self.code.shared.get(array as usize),
            Target::Local(array) => self.code.locals.get(array as usize),
            Target::Tensor(_) => None,
        };
        let name = info.map_or("", |i| i.name.as_str());
        let extent = info.and_then(|i| i.extents.get(axis)).copied().unwrap_or(0);
        let message = format!("copy: the tile reaches index {index} of axis {axis} of `{name}`");
        let at = format!("`{name}` has extent {extent} on axis {axis}");
        self.fault(s, lane, Diagnostic::new(DiagnosticCode::OUT_OF_BOUNDS, side.span, message).at(at))
    }
}

/// Moves on to the next position of a tile, the last axis fastest; whether there is one.
fn advance(position: &mut [i64], extents: &[i64]) -> bool {
    let Some(axis) = (0..extents.len()).rev().find(|a| position[*a] + 1 < extents[*a]) else { return false };
    position[axis] += 1;
    position[axis + 1..].fill(0);
    true
}

fn spread<T: Copy>(all: &mut [T], value: Operand<'_, T>, lanes: usize) {
    all.iter_mut().enumerate().for_each(|(i, element)| *element = value.at(i % lanes));
}

/// One operand of a copy in progress.
struct Cursor {
    rank: usize,
    start: [i64; AXES],
    shape: [i64; AXES],
    strides: [i64; AXES],
    dtype: Dtype,
    /// A tensor: outside reads 0 and drops writes.
    clips: bool,
}

impl Cursor {
    fn new(machine: &Machine<'_>, s: &State, side: &TileSide, lane: usize) -> Cursor {
        let mut cursor =
            Cursor { rank: 0, start: [0; AXES], shape: [0; AXES], strides: [0; AXES], dtype: Dtype::F32, clips: false };
        for (slot, loc) in cursor.start.iter_mut().zip(&side.start) {
            *slot = s.registers.indices.operand(*loc).at(lane);
        }
        let info = match side.target {
            Target::Tensor(index) => {
                let view = machine.tensor(index);
                cursor.rank = view.shape.len();
                cursor.shape.iter_mut().zip(&view.shape).for_each(|(slot, n)| *slot = *n);
                cursor.strides.iter_mut().zip(&view.strides).for_each(|(slot, n)| *slot = *n);
                cursor.dtype = view.dtype;
                cursor.clips = true;
                return cursor;
            }
            Target::Shared(index) => &machine.code.shared[index as usize],
            Target::Local(index) => &machine.code.locals[index as usize],
        };
        cursor.rank = info.extents.len();
        cursor.dtype = info.dtype;
        let mut stride = 1;
        for axis in (0..info.extents.len().min(AXES)).rev() {
            (cursor.shape[axis], cursor.strides[axis]) = (info.extents[axis], stride);
            stride *= info.extents[axis];
        }
        cursor
    }

    /// The offset of the tile's element at `position`, or the axis and index that leave the place.
    fn element(&self, position: &[i64], rank: usize) -> Result<i64, (usize, i64)> {
        let mut offset = 0;
        for axis in 0..rank {
            // Aligned at the innermost axis.
            let tile_axis = (axis + position.len()).checked_sub(rank);
            let index = self.start[axis].wrapping_add(tile_axis.map_or(0, |a| position[a]));
            if !(0..self.shape[axis]).contains(&index) {
                return Err((axis, index));
            }
            offset += index * self.strides[axis];
        }
        Ok(offset)
    }
}
