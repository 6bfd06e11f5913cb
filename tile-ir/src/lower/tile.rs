//! Tile operations: `parallel`, `copy`, `fill`, spread over the block's threads in linear order, so that neighbouring
//! threads touch neighbouring elements.

use super::uses::statements;
use super::value::OpenAxis;
use super::*;
use crate::analysis::{Bound, CopyFacts};

/// Most bytes of a transaction.
const CHUNK: u32 = 16;

impl Lowering<'_> {
    /// The linear thread index: x varies fastest.
    pub(super) fn linear_thread(&mut self) -> ValueId {
        if let Some(thread) = self.thread {
            return self.read(thread);
        }
        let [x, y, _] = self.program.launch.threads;
        let count = self.kernel.threads.len();
        let mut linear = self.push(ValueKind::Thread(0), ValueType::Index);
        for (axis, stride) in [(1u8, x), (2, x * y)] {
            if count > usize::from(axis) {
                let index = self.push(ValueKind::Thread(axis), ValueType::Index);
                linear = self.binary(BinaryOp::Add, linear, index * stride);
            }
        }
        linear
    }

    /// The author's threads.
    pub(super) fn thread_total(&self) -> u32 {
        self.kernel.thread_count()
    }

    /// Every element of `extents` once, spread over the block; `f` gets the index tuple.
    pub(super) fn spread(
        &mut self,
        name: &str,
        extents: &[impl Into<Term> + Copy],
        f: impl FnOnce(&mut Self, Vec<ValueId>),
    ) {
        let extents: Vec<ValueId> = extents.iter().map(|extent| self.eval(*extent)).collect();
        self.spread_in(ValueType::Index, name, &extents, f);
    }

    /// Visits every element of `extents` once, spread over the block, with the element number computed in `ty`.
    fn spread_in(&mut self, ty: ValueType, name: &str, extents: &[ValueId], f: impl FnOnce(&mut Self, Vec<ValueId>)) {
        let first = extents.first().copied().unwrap_or_else(|| self.int(1));
        let mut total = if ty == ValueType::Wide { self.fit(first, ty) } else { first };
        for &extent in extents.iter().skip(1) {
            total = self.product(total, extent);
        }
        let reg = self.reg(name, ty, false);
        let all = i64::from(self.thread_total());
        let bounds = [self.linear_thread(), total, self.int(all)];
        self.loop_over(reg, bounds, Unroll::Auto, |l| {
            let element = l.read(reg);
            let indices = l.split(element, extents);
            f(l, indices);
        });
    }

    fn product(&mut self, a: ValueId, b: ValueId) -> ValueId {
        match (&self.program.values[a].kind, &self.program.values[b].kind) {
            (&ValueKind::Int(x), &ValueKind::Int(y)) => {
                let ty = self.program.values[a].ty;
                self.push(ValueKind::Int(x.saturating_mul(y)), ty)
            }
            _ => self.binary(BinaryOp::Mul, a, b),
        }
    }

    /// The index tuple of a linear element, last axis fastest.
    pub(super) fn split(&mut self, element: ValueId, extents: &[impl Into<Term> + Copy]) -> Vec<ValueId> {
        let mut indices = vec![element; extents.len()];
        let mut rest = element;
        for axis in (0..extents.len()).rev() {
            if axis == 0 {
                indices[0] = rest;
            } else {
                indices[axis] = self.binary(BinaryOp::Rem, rest, extents[axis]);
                rest = self.binary(BinaryOp::Div, rest, extents[axis]);
            }
        }
        indices
    }

    /// A row and a column as registers: they are named in several places each.
    pub(super) fn named(&mut self, indices: Vec<ValueId>) -> Vec<ValueId> {
        match indices[..] {
            [row, col] => vec![self.once("row", row), self.once("col", col)],
            _ => indices,
        }
    }

    pub(super) fn parallel(&mut self, stmt: StmtId, vars: &[VarId], extents: &[ExprId], body: &[StmtId]) {
        let extents: Vec<ValueId> = extents.iter().map(|&e| self.value(e)).collect();
        let ty = if self.analysis.wide_counts.contains(&stmt) { ValueType::Wide } else { ValueType::Index };
        let marked = self.stores_beyond_registers(body);
        self.mark(marked, Elements::Begin);
        self.spread_in(ty, "element", &extents, |l, indices| {
            l.mark(marked, Elements::Next);
            for (&var, index) in vars.iter().zip(indices) {
                let reg = l.variable_reg(var);
                l.define(reg, index);
            }
            l.block(body);
        });
        self.mark(marked, Elements::End);
    }

    /// Whether a `parallel` body stores where another of its elements may: then the elements are marked.
    pub(super) fn stores_beyond_registers(&self, body: &[StmtId]) -> bool {
        let kernel = self.kernel;
        let is_others =
            |access: AccessId| matches!(kernel.scope_of(kernel.accesses[access].place), None | Some(Scope::Shared));
        statements(kernel, body).into_iter().any(|stmt| {
            matches!(kernel.stmts[stmt].kind,
                StmtKind::Store { access, .. } | StmtKind::Atomic { access, .. } if is_others(access))
        })
    }

    /// Says where a `parallel` loop stands, if its elements are marked.
    pub(super) fn mark(&mut self, marked: bool, place: Elements) {
        if marked {
            self.op(OpKind::Elements(place));
        }
    }

    pub(super) fn fill(&mut self, buffer: BufferId, value: ExprId) {
        let kernel = self.kernel;
        let space = self.space(Place::Buffer(buffer));
        let len = kernel.buffer_len(buffer) as u32;
        let value = self.value(value);
        let store = |l: &mut Self, offset: ValueId| l.put(space, offset, value);
        match kernel.buffers[buffer].scope {
            Scope::Local => self.unrolled("i", len, store),
            Scope::Fragment => self.fill_fragment(buffer, value),
            Scope::Shared => {
                // Whatever the layout, it has no gaps.
                self.spread("element", &[len], |l, indices| {
                    let offset = l.in_slot(buffer, indices[0]);
                    store(l, offset);
                });
            }
        }
    }

    pub(super) fn copy(&mut self, stmt: StmtId, src: &TileRef, dst: &TileRef) {
        let Some(facts) = self.analysis.copies.get(&stmt) else { return self.bug("nothing is known of a copy") };
        let [from, to] = [CopySide::src(facts, src), CopySide::dst(facts, dst)];
        let extents = &facts.extents[..];
        if let Some(fragment) = self.fragment_at(src.place) {
            let mut paired = facts.transaction.is_some_and(|width| width >= 2);
            // In a warp-specialised kernel pairs of 16-bit results may ask for even rows: TMA, which stores most of them, asks for more.
            let by_warpgroups = self.roles.as_ref().is_some_and(|roles| roles.are_warpgroups());
            if let (false, true, true, Place::Tensor(tensor)) = (paired, facts.even, by_warpgroups, dst.place)
                && self.dtype_of(dst.place).bytes() == 2
                && self.kernel.class.writes.bytes() >= 4
            {
                self.stores_pieces(tensor, 2);
                paired = true;
            }
            return self.store_fragment(fragment, src, &to, paired);
        }
        if let Some(fragment) = self.fragment_at(dst.place) {
            return self.load_fragment(fragment, &from);
        }
        // A per-thread array is copied by its thread; anything else by the block together.
        let cooperative = ![src, dst].iter().any(|tile| self.kernel.scope_of(tile.place) == Some(Scope::Local));
        if let Some(width) = self.asynchronous_width(stmt) {
            return self.asynchronous_tile(&from, &to, extents, width);
        }
        if let Some(piece) = self.piece(src, dst, extents) {
            return self.copy_in_pieces(src, dst, extents, piece);
        }
        let body = |l: &mut Self, indices: &[ValueId]| {
            let [from, to] = [&from, &to].map(|side| l.tile_memory(side, indices));
            l.carry(from, to);
        };
        if cooperative {
            self.spread("element", extents, |l, indices| body(l, &indices));
        } else {
            self.unrolled("i", extents.iter().product(), |l, element| {
                let indices = l.split(element, extents);
                body(l, &indices);
            });
        }
    }

    /// Elements that a thread copies at once from one whole shared array to another: 16 bytes of the smaller type. Rows of both are made
    /// of 16-byte chunks that lie together, whatever the swizzle.
    fn piece(&self, src: &TileRef, dst: &TileRef, extents: &[u32]) -> Option<u32> {
        let whole = |tile: &TileRef| {
            let Place::Buffer(buffer) = tile.place else { return false };
            let chunked = self
                .layouts
                .shared
                .get(&buffer)
                .is_none_or(|layout| layout.contiguous() * layout.dtype().bytes() >= CHUNK);
            self.kernel.buffers[buffer].scope == Scope::Shared && tile.start.is_empty() && !tile.transposed && chunked
        };
        let [from, to] = [src, dst].map(|tile| self.dtype_of(tile.place));
        let piece = CHUNK / from.bytes().min(to.bytes());
        let rows = extents.last().is_some_and(|columns| columns.is_multiple_of(piece));
        (whole(src) && whole(dst) && rows && extents.len() == 2).then_some(piece)
    }

    /// Copies one whole shared array to another, `piece` elements of a row at a time, by transactions of 16 bytes at most.
    fn copy_in_pieces(&mut self, src: &TileRef, dst: &TileRef, extents: &[u32], piece: u32) {
        let [from, to] = [src, dst].map(|tile| self.dtype_of(tile.place));
        let [most_from, most_to] = [from, to].map(|dtype| (CHUNK / dtype.bytes()).min(piece));
        let loaded = self.local("loaded", from, piece);
        let stored = match from == to {
            true => loaded,
            false => self.local("converted", to, piece),
        };
        self.spread("piece", &[extents[0], extents[1] / piece], |l, indices| {
            let row = l.once("row", indices[0]);
            let column = l.once("col", indices[1] * piece);
            let place = |l: &mut Self, tile: &TileRef, at: u32| {
                let column = l.binary(BinaryOp::Add, column, at);
                l.tile_memory(&CopySide::inside(tile), &[row, column])
            };
            for at in (0..piece).step_by(most_from as usize) {
                let memory = place(l, src, at);
                l.vector_load(loaded, at, memory, most_from);
            }
            if from != to {
                for at in 0..piece {
                    let (from, to) = (l.at(loaded, at), l.at(stored, at));
                    l.carry(from, to);
                }
            }
            for at in (0..piece).step_by(most_to as usize) {
                let memory = place(l, dst, at);
                l.vector_store(memory, stored, at, most_to);
            }
        });
    }

    /// The address of a tile's element at `indices`, clipped on the axes that are open. Axes are matched from the innermost:
    /// a place of lower rank ignores the tile's leading axes, whose extent is 1, and a place of higher rank has its
    /// leading coordinates from the start alone.
    pub(super) fn tile_memory(&mut self, side: &CopySide<'_>, indices: &[ValueId]) -> Memory {
        let CopySide { tile, open, rows } = side;
        let split;
        let indices = match *indices {
            [row, column] if !rows.is_empty() => {
                let mut all = self.split(row, rows);
                all.push(column);
                split = all;
                &split[..]
            }
            _ => indices,
        };
        let rank = self.rank(tile.place);
        let coordinate = |axis: usize| {
            let position = (axis + indices.len()).checked_sub(rank);
            let index = position.and_then(|position| indices.get(position)).copied().unwrap_or_else(|| self.int(0));
            let Some(&start) = tile.start.get(axis) else { return index };
            let start = self.value(start);
            self.binary(BinaryOp::Add, start, index)
        };
        let coordinates: Vec<ValueId> = (0..rank).map(coordinate).collect();
        let guard = self.guard(tile.place, &coordinates, open, GuardReason::Masked);
        Memory { space: self.space(tile.place), offset: self.offset(tile.place, &coordinates), guard, span: tile.span }
    }

    pub(super) fn rank(&self, place: Place) -> usize {
        match place {
            Place::Buffer(buffer) => self.kernel.buffers[buffer].extents.len(),
            Place::Tensor(param) => match &self.kernel.params[param].kind {
                ParamKind::Tensor { shape, .. } => shape.len(),
                ParamKind::Scalar { .. } | ParamKind::Absent => 0,
            },
        }
    }

    /// The fragment that a place is.
    pub(super) fn fragment_at(&self, place: Place) -> Option<BufferId> {
        place.buffer().filter(|buffer| self.kernel.buffers[*buffer].scope == Scope::Fragment)
    }
}

/// One side of a copy.
#[derive(Clone)]
pub(super) struct CopySide<'t> {
    pub(super) tile: &'t TileRef,
    /// The axes on which the tile may leave its tensor.
    pub(super) open: Vec<OpenAxis>,
    /// Where the tile's rows are of several axes: their extents. A row's number is split into indices along them.
    pub(super) rows: &'t [u32],
}

impl<'t> CopySide<'t> {
    pub(super) fn src(facts: &'t CopyFacts, tile: &'t TileRef) -> CopySide<'t> {
        CopySide { tile, open: open_axes(&facts.src, &facts.src_nonnegative), rows: &facts.rows[0] }
    }

    pub(super) fn dst(facts: &'t CopyFacts, tile: &'t TileRef) -> CopySide<'t> {
        CopySide { tile, open: open_axes(&facts.dst, &facts.dst_nonnegative), rows: &facts.rows[1] }
    }

    /// A tile of rows and columns that is nowhere outside.
    pub(super) fn inside(tile: &'t TileRef) -> CopySide<'t> {
        CopySide { tile, open: Vec::new(), rows: &[] }
    }

    /// The side where its tile may leave the tensor on `open` alone.
    pub(super) fn clipped(&self, open: Vec<OpenAxis>) -> CopySide<'t> {
        CopySide { open, ..self.clone() }
    }
}

fn open_axes(bounds: &[Bound], nonnegative: &[bool]) -> Vec<OpenAxis> {
    let open = bounds.iter().enumerate().filter(|(_, bound)| **bound != Bound::Proven);
    open.map(|(axis, _)| OpenAxis { axis, below: nonnegative.get(axis) != Some(&true) }).collect()
}
