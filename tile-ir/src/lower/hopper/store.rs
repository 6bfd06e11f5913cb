//! A fragment to a tensor through shared memory: sub-tiles are converted, stored there and sent by TMA while
//! the next is converted, and while the producer already fills the ring for the next tile. So is a fragment added to a tensor, where a loop of
//! atomics over its elements does nothing else: TMA adds whole lines, which atomics of single elements take several times as long for.
//!
//! TMA writes no row that begins elsewhere than at a multiple of 16 bytes. Rows that do not are stored by the threads of the
//! warpgroup from shared memory, 8 bytes each, 4 or one element, as the rows allow, so that those of a warp are neighbours in a row: straight from the
//! accumulator a warp would store 8 or 16 bytes of each of eight rows at once.

use super::super::tile::CopySide;
use super::super::uses::{accesses, statements};
use super::super::*;
use super::plan::{BLOCK_ROWS, WARPGROUP};
use super::resident::is_in_loop;
use super::roles::Roles;
use crate::analysis::AddedTile;
use crate::layout::{Formula, Fragment, Index, MatrixAccess, MmaInput, SharedLayout, TmaPlan, WarpGrid};

/// Sub-tiles that a warpgroup has in flight.
const BUFFERS: u32 = 2;
/// Widest row of a sub-tile in bytes: that of the widest swizzle, or, where the slots leave no room for such sub-tiles, of the next.
const ROW_BYTES: [u32; 2] = [128, 64];

/// Rows that a thread of a warpgroup reads before it stores the first of them.
const ROWS_AT_ONCE: u32 = 8;

/// The buffers that sub-tiles go through.
#[derive(Clone, Copy)]
pub(super) struct Staging {
    array: SharedId,
    /// Widest row of a sub-tile in bytes.
    row_bytes: u32,
    /// The buffer that the next sub-tile goes through.
    buffer: RegId,
    /// Whether a buffer is written again, so that TMA must have read it before.
    again: bool,
}

/// How a fragment leaves for a tensor.
#[derive(Clone, Copy)]
struct Leaving {
    fragment: BufferId,
    place: Place,
    transposed: bool,
    /// Rows that lie along the axis before the columns, where rows are of that axis and the one before it.
    inner: Option<u32>,
    /// Whether it is added to the tensor.
    adds: bool,
    evict: Option<Evict>,
}

/// A sub-tile: 64 rows of as many columns as one swizzled row has; transposed, they are 64 columns.
struct SubTile {
    tile: SharedLayout,
    fragment: Fragment,
    /// The box that TMA stores; none where threads do.
    boxes: Option<TmaPlan>,
    width: u32,
    transposed: bool,
    /// The tensor's axis of rows, counted from the last one, and how many rows a step along it is.
    rows: (usize, u32),
}

/// The part of a fragment that a warpgroup has: so many of its rows or columns.
struct Part {
    /// The warpgroup's number among those that share the fragment.
    consumer: ValueId,
    by_columns: bool,
    extent: u32,
}

/// How sub-tiles get from the buffers to the tensor.
enum Sender<'t> {
    /// By TMA, whose coordinates, outermost first, are those of the warpgroup's part.
    Tma { map: MapId, origin: Vec<ValueId> },
    /// By the warpgroup's threads. `origin`: the first row and column of the warpgroup's part in the fragment.
    Threads { dst: CopySide<'t>, origin: [ValueId; 2] },
}

/// A sub-tile on its way from an accumulator's registers, from the first of them on, to its place in the buffers.
#[derive(Clone, Copy)]
struct Way<'s> {
    sub: &'s SubTile,
    acc: LocalId,
    from: ValueId,
    staging: SharedId,
    base: ValueId,
}

/// Columns that a warpgroup has.
fn part_cols(layout: &Fragment) -> u32 {
    layout.cols() / layout.accumulator_columns().unwrap_or(1)
}

/// A warpgroup's blocks of 64 rows, and the sub-tiles of so many columns in one.
fn sub_tiles(layout: &Fragment, width: u32, consumers: u32) -> [u32; 2] {
    let cols = part_cols(layout);
    let by_columns = cols < layout.cols();
    [layout.rows() / if by_columns { 1 } else { consumers } / BLOCK_ROWS, cols / width]
}

impl<'a> Lowering<'a> {
    /// Whether some fragment leaves through shared memory; then its buffers are declared.
    pub(super) fn staging(&mut self, roles: &mut Roles) {
        let kernel = self.kernel;
        let mut found = None;
        for row_bytes in ROW_BYTES {
            let mut elements = 0;
            let (mut stores, mut in_loop) = (0, false);
            let mut of: Option<(Dtype, u32)> = None;
            for (stmt, _) in kernel.stmts.iter() {
                if let Some((leaving, sub)) = self.leaving(stmt, row_bytes) {
                    elements = elements.max(BLOCK_ROWS * sub.width);
                    let layout = self.layouts.fragments.get(&leaving.fragment);
                    let [blocks, across] = layout.map_or([0; 2], |l| sub_tiles(l, sub.width, roles.plan.consumers));
                    stores += blocks * across;
                    in_loop |= is_in_loop(kernel, &kernel.body, stmt);
                    of = Some((sub.tile.dtype(), sub.tile.alignment()));
                }
            }
            let Some((dtype, align)) = of else { break };
            let len = roles.plan.warpgroups() * BUFFERS * elements;
            let has_room = self.has_room(len * dtype.bytes(), align);
            // Threads can store from registers, too.
            if has_room || !self.is_by_threads() {
                found = Some((row_bytes, dtype, align, len, in_loop || stores > BUFFERS));
            }
            if has_room {
                break;
            }
        }
        let Some((row_bytes, dtype, align, len, again)) = found else { return };
        let shared = self.shared_array("staging", dtype, len, true);
        self.program.shared[shared].align = align;
        self.op(OpKind::Shared { shared });
        let buffer = self.variable("buffer", ValueType::Index, 0);
        roles.staging = Some(Staging { array: shared, row_bytes, buffer, again });
    }

    /// Whether shared memory has room for so many bytes beside the arrays that are declared.
    pub(in super::super) fn has_room(&self, bytes: u32, align: u32) -> bool {
        let arrays = self.program.shared.values();
        let taken = arrays.fold(0u32, |end, array| end.next_multiple_of(array.align).saturating_add(array.bytes()));
        let barriers: u32 = self.program.barriers.values().map(|array| array.len.saturating_mul(BARRIER_BYTES)).sum();
        let needed = taken.next_multiple_of(align).saturating_add(bytes).saturating_add(barriers);
        needed <= self.program.target.max_shared_bytes()
    }

    /// Whether threads store what leaves through shared memory: rows do not begin at multiples of 16 bytes.
    pub(super) fn is_by_threads(&self) -> bool {
        self.kernel.class.writes != Width::Sixteen
    }

    /// Elements that a thread stores at once.
    fn elements_at_once(&self, dtype: Dtype) -> u32 {
        (self.kernel.class.writes.bytes() / dtype.bytes()).max(1)
    }

    /// What a statement has leave through shared memory, by which sub-tiles of rows of at most so many bytes, if that can be done.
    fn leaving(&self, stmt: StmtId, row_bytes: u32) -> Option<(Leaving, SubTile)> {
        let kernel = self.kernel;
        let leaving = if let StmtKind::Tile(TileOp::Copy { src, dst, tma: true, evict, .. }) = &kernel.stmts[stmt].kind
        {
            let fragment = self.fragment_at(src.place)?;
            let facts = self.analysis.copies.get(&stmt)?;
            if self.kernel.class.writes != Width::Element && !facts.starts_for_tma_stores() {
                return None;
            }
            let inner = match facts.rows[1][..] {
                [] => None,
                [_, inner] => Some(inner),
                _ => return None,
            };
            let evict = evict.as_ref().and_then(Eviction::hint);
            Leaving { fragment, place: dst.place, transposed: src.transposed, inner, adds: false, evict }
        } else {
            let AddedTile { fragment, tensor, .. } = *self.added_tile(stmt)?;
            Leaving { fragment, place: Place::Tensor(tensor), transposed: false, inner: None, adds: true, evict: None }
        };
        Some((leaving, self.sub_tile(&leaving, row_bytes)?))
    }

    /// The tile that a `parallel` loop adds to a tensor which is not accessed otherwise, in 32 bits and nowhere out of bounds.
    fn added_tile(&self, stmt: StmtId) -> Option<&'a AddedTile> {
        let (kernel, analysis) = (self.kernel, self.analysis);
        let tile = analysis.added_tiles.get(&stmt)?;
        let place = Place::Tensor(tile.tensor);
        let access = &kernel.accesses[tile.access];
        let is_inside = access.masked || analysis.in_bounds(tile.access);
        let is_wide = access.indices.iter().chain(tile.start.iter().flatten()).any(|e| analysis.wide.contains(e));
        let mut elements = accesses(kernel, &kernel.body).into_iter();
        let mut parts = statements(kernel, &kernel.body).into_iter().flat_map(|stmt| kernel.stmts[stmt].kind.parts());
        let alone = elements.all(|access| access == tile.access || kernel.accesses[access].place != place)
            && !parts.any(|part| matches!(part, StmtPart::Tile(tile, _) if tile.place == place));
        (is_inside && !is_wide && alone).then_some(tile)
    }

    /// The sub-tile of a store, if TMA or threads can do it: 16-bit floats or f32, whole sub-tiles; transposed by TMA, 16 bit.
    fn sub_tile(&self, leaving: &Leaving, row_bytes: u32) -> Option<SubTile> {
        let Leaving { fragment, place, transposed, inner, adds, .. } = *leaving;
        // A narrow tile's rows are few: they are stored from registers.
        let layout = self.layouts.fragments.get(&fragment).filter(|layout| layout.is_whole())?;
        // What TMA writes becomes visible late: what other blocks wait for is stored by threads.
        if self.is_handed_on(place) {
            return None;
        }
        let dtype = self.dtype_of(place);
        let is_stored = match self.kernel.class.writes {
            Width::Sixteen => MmaInput::of(dtype).is_some() && (dtype.is_half() || !transposed),
            Width::Eight | Width::Four | Width::Element => MmaInput::of(dtype).is_some() && !adds,
        };
        if !is_stored || !matches!(place, Place::Tensor(_)) {
            return None;
        }
        let mut width = row_bytes / dtype.bytes();
        while !part_cols(layout).is_multiple_of(width) {
            width /= 2;
            if width < 16 {
                return None;
            }
        }
        let [rows, cols] = if transposed { [width, BLOCK_ROWS] } else { [BLOCK_ROWS, width] };
        let tile = SharedLayout::automatic(rows, cols, dtype).ok()?;
        let fragment = Fragment::wgmma_accumulator(BLOCK_ROWS, width, WarpGrid { rows: 1, cols: 1 }).ok()?;
        let spanned = match inner {
            None => vec![rows, cols],
            Some(inner) if rows.is_multiple_of(inner) => vec![rows / inner, inner, cols],
            Some(_) => return None,
        };
        let missing = self.rank(place).checked_sub(spanned.len())?;
        let extents: Vec<u32> = std::iter::repeat_n(1, missing).chain(spanned).collect();
        let boxes = match self.is_by_threads() {
            true => None,
            false => Some(TmaPlan::new(&extents, &tile, 1).ok().filter(|plan| plan.boxes.len() == 1)?),
        };
        let rows = inner.map_or((2, 1), |inner| (3, inner));
        Some(SubTile { tile, fragment, boxes, width, transposed, rows })
    }

    /// Whether blocks may read what others of them have put into a tensor.
    fn is_handed_on(&self, place: Place) -> bool {
        let kernel = self.kernel;
        let waits = |s: &Stmt| matches!(s.kind, StmtKind::LastArriver { .. });
        let reads = |expr: &Expr| matches!(expr.kind, ExprKind::Load(access) if kernel.accesses[access].place == place);
        let copies = |s: &Stmt| matches!(&s.kind, StmtKind::Tile(TileOp::Copy { src, .. }) if src.place == place);
        kernel.stmts.values().any(waits) && (kernel.exprs.values().any(reads) || kernel.stmts.values().any(copies))
    }

    /// Stores a fragment by sub-tiles; false where it leaves from registers.
    pub(super) fn store_staged(&mut self, roles: &Roles, stmt: StmtId, dst: &TileRef) -> bool {
        let start: Vec<Option<ExprId>> = dst.start.iter().copied().map(Some).collect();
        let facts = self.analysis.copies.get(&stmt);
        self.leave(roles, stmt, &start, facts.map(|facts| CopySide::dst(facts, dst)))
    }

    /// Adds a fragment to a tensor by sub-tiles; false where TMA cannot.
    pub(super) fn add_by_copy_engine(&mut self, roles: &Roles, stmt: StmtId) -> bool {
        let Some(tile) = self.added_tile(stmt) else { return false };
        let sent = self.leave(roles, stmt, &tile.start, None);
        if sent {
            let (kernel, span) = (self.kernel, self.kernel.stmts[stmt].span);
            let text = format!("added to `{}` by TMA, a tile at once", kernel.params[tile.tensor].name);
            self.remark(RemarkKind::Choice, span, text);
        }
        sent
    }

    /// Sends a fragment to its tensor by sub-tiles, from `start` on, which is where `dst` begins; false where it leaves from registers.
    fn leave(&mut self, roles: &Roles, stmt: StmtId, start: &[Option<ExprId>], dst: Option<CopySide<'_>>) -> bool {
        let Some(Staging { array: staging, row_bytes, buffer, again }) = roles.staging else { return false };
        let Some((leaving, sub)) = self.leaving(stmt, row_bytes) else { return false };
        let (Some(registers), Some((consumer, within))) = (self.fragments[leaving.fragment], roles.consumer) else {
            return false;
        };
        // One array serves all stores.
        if self.program.shared[staging].dtype != sub.tile.dtype() {
            return false;
        }
        // Warpgroups have rows of the tile, or columns of it.
        let cols = part_cols(&registers.layout);
        let by_columns = cols < registers.layout.cols();
        let [blocks, across] = sub_tiles(&registers.layout, sub.width, roles.plan.consumers);
        let part = Part { consumer, by_columns, extent: if by_columns { cols } else { blocks * BLOCK_ROWS } };
        let Some(sender) = self.sender(&leaving, &sub, start, dst, part) else { return false };
        let by_tma = !self.is_by_threads();
        // Who this thread is to the instructions that store: among a warp's, or among the warpgroup's.
        let by_matrices = sub.tile.dtype().is_half();
        let who = if by_matrices { self.once("lane", Special::Lane) } else { within };
        for block in 0..blocks {
            let first = block * cols / 2;
            self.unrolled("j", across, |l, j| {
                if again && by_tma {
                    let leader = l.is_leader(roles);
                    l.when(leader, |l| l.op(OpKind::BulkWait { pending: BUFFERS - 1, read: true }));
                    l.warpgroup_barrier(roles);
                }
                let warpgroup = roles.warpgroup.unwrap_or(consumer);
                let base = l.once("sub_tile", (warpgroup * BUFFERS + buffer) * (BLOCK_ROWS * sub.width));
                let from = l.binary(BinaryOp::Add, first, j * (sub.width / 2));
                let way = Way { sub: &sub, acc: registers.local, from, staging, base };
                if by_matrices {
                    l.store_matrices(way, who)
                } else {
                    l.store_pairs(way, who)
                }
                if by_tma {
                    l.op(OpKind::FenceProxyAsync);
                }
                l.warpgroup_barrier(roles);
                match &sender {
                    Sender::Tma { map, origin } => {
                        let leader = l.is_leader(roles);
                        l.when(leader, |l| l.send_sub_tile(way, &leaving, (*map, origin), (block * BLOCK_ROWS, j)));
                    }
                    // No barrier behind it: the next sub-tile goes through the other buffer, and has one before the next but one is stored here.
                    Sender::Threads { dst, origin } => {
                        l.store_sub_tile(way, within, (dst, *origin), (block * BLOCK_ROWS, j));
                    }
                }
                l.set(buffer, buffer ^ 1);
            });
        }
        true
    }

    /// How the sub-tiles of a warpgroup's part of the fragment get from the buffers to the tensor.
    fn sender<'t>(
        &mut self,
        &Leaving { place, transposed, .. }: &Leaving,
        sub: &SubTile,
        start: &[Option<ExprId>],
        dst: Option<CopySide<'t>>,
        Part { consumer, by_columns, extent }: Part,
    ) -> Option<Sender<'t>> {
        let Place::Tensor(tensor) = place else { return None };
        let Some(boxes) = &sub.boxes else {
            self.stores_pieces(tensor, self.elements_at_once(sub.tile.dtype()));
            let mut origin = [self.int(0); 2];
            origin[usize::from(by_columns)] = self.eval(consumer * extent);
            return Some(Sender::Threads { dst: dst?, origin });
        };
        let map = self.tensor_map(tensor, boxes, true);
        let rank = boxes.rank();
        let first = |axis: usize| self.first_coordinate(start.get(axis).copied().flatten());
        let mut origin: Vec<ValueId> = (0..rank).map(first).collect();
        // The rows of the fragment are those of the tensor's tile, or, transposed, its columns.
        let (axis, step) = if transposed == by_columns { sub.rows } else { (1, 1) };
        if let Some(first) = rank.checked_sub(axis).and_then(|axis| origin.get_mut(axis)) {
            *first = self.binary(BinaryOp::Add, *first, consumer * (extent / step));
        }
        Some(Sender::Tma { map, origin })
    }

    /// Asks TMA for the sub-tile from row `below` on of the warpgroup's part, number `across` in its row of sub-tiles.
    fn send_sub_tile(
        &mut self,
        Way { sub, staging, base, .. }: Way<'_>,
        &Leaving { transposed, adds, evict, .. }: &Leaving,
        (map, origin): (MapId, &[ValueId]),
        (below, across): (u32, ValueId),
    ) {
        let right = self.binary(BinaryOp::Mul, across, sub.width);
        let mut coordinates: Vec<ValueId> = origin.iter().rev().copied().collect();
        let (axis, step) = sub.rows;
        let below = self.int(i64::from(below / step));
        let [along, across] = if transposed { [below, right] } else { [right, below] };
        coordinates[0] = self.binary(BinaryOp::Add, coordinates[0], along);
        coordinates[axis - 1] = self.binary(BinaryOp::Add, coordinates[axis - 1], across);
        self.op(OpKind::TensorStore { map, coordinates, shared: staging, offset: base, adds, evict });
        self.op(OpKind::BulkCommit);
    }

    /// Stores the sub-tile from row `below` on of the warpgroup's part, number `across` in its row of sub-tiles, a piece a thread of the
    /// warpgroup at once.
    fn store_sub_tile(
        &mut self,
        Way { sub, staging, base, .. }: Way<'_>,
        thread: ValueId,
        (dst, origin): (&CopySide<'_>, [ValueId; 2]),
        (below, across): (u32, ValueId),
    ) {
        let mut first = [origin[0] + below, origin[1] + across * sub.width].map(|first| self.eval(first));
        if sub.transposed {
            first.reverse();
        }
        let dtype = sub.tile.dtype();
        let piece = self.elements_at_once(dtype);
        let pieces = sub.tile.cols() / piece;
        let row = self.once("stored_row", thread / pieces);
        let col = self.once("stored_col", thread % pieces * piece);
        let stored = (piece > 1).then(|| self.local("stored", dtype, piece));
        self.stepped("i", [0, sub.tile.rows(), WARPGROUP / pieces], Unroll::By(ROWS_AT_ONCE), |l, i| {
            let row = l.once("row", row + i);
            let [element] = l.formulas([row, col], |[row, col]| [sub.tile.offset(row, col).over(dtype.bytes())]);
            let from = l.at(staging, base + element);
            let place = [first[0] + row, first[1] + col].map(|at| l.eval(at));
            let Some(stored) = stored else {
                let to = l.tile_memory(dst, &place);
                return l.carry(from, to);
            };
            l.vector_load(stored, 0, from, piece);
            l.store_piece(dst, place, (stored, piece));
        });
    }

    /// Has the launch check that rows of a tensor can be stored so many elements at once.
    pub(in crate::lower) fn stores_pieces(&mut self, tensor: ParamId, elements: u32) {
        if elements > 1 {
            let most = self.pieces.entry(tensor).or_insert(elements);
            *most = elements.max(*most);
        }
    }

    /// Stores an array of the consumers' own by TMA, which one thread asks for; whether it is such a copy. The barrier before the copy has
    /// made the array visible to TMA, and the one before its next write is only reached when TMA has read it.
    pub(super) fn store_own(&mut self, roles: &Roles, stmt: StmtId, from: BufferId, dst: &TileRef) -> bool {
        let Some(boxes) = roles.plan.own_stores.get(&stmt) else { return false };
        let (Some(shared), Place::Tensor(tensor)) = (self.shared[from], dst.place) else { return false };
        let StmtKind::Tile(TileOp::Copy { evict, .. }) = &self.kernel.stmts[stmt].kind else { return false };
        let evict = evict.as_ref().and_then(Eviction::hint);
        let map = self.tensor_map(tensor, boxes, true);
        let size = boxes.dtype.bytes();
        let thread = self.compute_thread();
        self.when(thread.equals(0), |l| {
            for piece in &boxes.boxes {
                let coordinates = l.coordinates(&dst.start, piece);
                let offset = l.int(i64::from(piece.offset / size));
                l.op(OpKind::TensorStore { map, coordinates, shared, offset, adds: false, evict });
            }
            l.op(OpKind::BulkCommit);
            l.op(OpKind::BulkWait { pending: 0, read: true });
        });
        true
    }

    /// Converts a sub-tile's accumulators and stores them, four matrices an instruction, each transposed on the way where
    /// the sub-tile is.
    fn store_matrices(&mut self, Way { sub, acc, from, staging, base }: Way<'_>, lane: ValueId) {
        let dtype = sub.tile.dtype();
        let name = format!("{}_words", self.program.locals[acc].name);
        let words = self.local(&name, Dtype::U32, 4);
        let warp = self.eval(Special::Warp);
        // A lane's rows are mostly those of the matrices before.
        let mut named: Option<(Formula, ValueId)> = None;
        for quad in 0..sub.fragment.words() / 4 {
            let Ok(access) = MatrixAccess::new(&sub.fragment, quad * 4, 4, sub.transposed) else {
                self.bug("words that stmatrix does not store");
                continue;
            };
            // The warps of a warpgroup are below one another.
            let group = sub.fragment.warp_origin(Formula::Symbol(0).and(3));
            let (row, col) = access.place(group.0, group.1, Formula::Symbol(1));
            if named.as_ref().is_none_or(|(formula, _)| *formula != row) {
                let value = self.rebuilt(&row, &[warp, lane]);
                named = Some((row, self.once("matrix_row", value)));
            }
            let Some((_, row)) = named else { continue };
            for word in 0..4 {
                let [low, high] = [0, 1].map(|half| self.get(acc, from + ((quad * 4 + word) * 2 + half)));
                let packed = self.push(ValueKind::Pack(dtype, low, high), ValueType::Element(Dtype::U32));
                self.put(words, word, packed);
            }
            let bytes = sub.tile.offset(Formula::Symbol(2), col);
            let bytes = self.rebuilt(&bytes, &[warp, lane, row]);
            let offset = base + bytes / dtype.bytes();
            let (memory, start) = (self.at(staging, offset), self.int(0));
            self.op(OpKind::StoreMatrix { memory, local: words, start, count: 4, transposed: sub.transposed });
        }
    }

    /// Stores a sub-tile's accumulators as they are, two neighbours at once, or, where the sub-tile is transposed, one below the other.
    fn store_pairs(&mut self, Way { sub, acc, from, staging, base }: Way<'_>, thread: ValueId) {
        let place = |l: &mut Self, register: u32| {
            let elements = l.formula([thread], |[thread]| {
                let (row, col) = sub.fragment.position(thread, Formula::constant(register));
                let (row, col) = if sub.transposed { (col, row) } else { (row, col) };
                sub.tile.offset(row, col).over(sub.tile.dtype().bytes())
            });
            l.at(staging, base + elements)
        };
        if sub.transposed {
            for register in 0..sub.fragment.registers() {
                let (own, to) = (self.at(acc, from + register), place(self, register));
                self.carry(own, to);
            }
            return;
        }
        let name = format!("{}_pair", self.program.locals[acc].name);
        let pair = self.local(&name, Dtype::F32, 2);
        for first in (0..sub.fragment.registers()).step_by(2) {
            for half in 0..2 {
                let value = self.get(acc, from + (first + half));
                self.put(pair, half, value);
            }
            let memory = place(self, first);
            self.vector_store(memory, pair, 0, 2);
        }
    }

    /// A barrier of this consumer's warpgroup. Barrier 0 is the block's.
    pub(super) fn warpgroup_barrier(&mut self, roles: &Roles) {
        let Some(consumer) = roles.warpgroup else { return self.bug("a barrier of no warpgroup") };
        let consumers = roles.plan.warpgroups();
        let one = |id: u32| OpKind::NamedBarrier { id, threads: WARPGROUP, arrive: false };
        let span = self.span;
        let mut ops = vec![Op { kind: one(consumers), span }];
        for group in (0..consumers - 1).rev() {
            let cond = self.binary(BinaryOp::Eq, consumer, group);
            let then = vec![Op { kind: one(group + 1), span }];
            ops = vec![Op { kind: OpKind::If { cond, then, otherwise: ops }, span }];
        }
        self.ops.extend(ops);
    }
}
