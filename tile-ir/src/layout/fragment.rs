//! A tile in the registers of threads: (thread, register) <-> (row, column).
//!
//! A fragment is an atom, the piece that one instruction holds in one warp, repeated within a warp's part of the tile
//! and over the warps. "Register" counts the elements a thread holds: 16-bit elements share a 32-bit register two by
//! two, the even one in the low half ([`Fragment::packing`]).
//!
//! Operand fragments have the same orientation for both operands: rows are M (or N), columns are K.
//!
//! Source: PTX ISA, "Matrix Fragments for mma.m16n8k16 / mma.m16n8k8", "Register Fragments for wgmma.mma_async". With
//! `g = lane / 4` and `t = lane % 4` each is rows `g` and `g + 8`, and columns from `2t` (16 bit, accumulators) or `t`
//! (tf32).

use super::{Index, LayoutError, WarpGrid};
use crate::ir::reduction::PARTS;
use crate::ir::{Dtype, DtypeClass, FloatFormat};

/// What the tensor cores multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MmaInput {
    /// f16 or bf16: 16 of K an instruction.
    Half,
    /// f32 read as tf32 (the low 13 bits are ignored): 8 of K an instruction.
    Tf32,
}

impl MmaInput {
    /// What a tile of `dtype` is multiplied as.
    pub const fn of(dtype: Dtype) -> Option<MmaInput> {
        match dtype.class() {
            DtypeClass::Float(FloatFormat::Binary16 | FloatFormat::Bfloat16) => Some(MmaInput::Half),
            DtypeClass::Float(FloatFormat::Binary32) => Some(MmaInput::Tf32),
            DtypeClass::Bool | DtypeClass::Int(_) => None,
        }
    }

    /// K of one instruction: 32 bytes of either.
    pub const fn k(self) -> u32 {
        match self {
            MmaInput::Half => 16,
            MmaInput::Tf32 => 8,
        }
    }

    /// Elements in one 32-bit register.
    pub const fn packing(self) -> u32 {
        match self {
            MmaInput::Half => 2,
            MmaInput::Tf32 => 1,
        }
    }
}

/// Lanes of a warp.
const LANES: u32 = 32;

/// The piece of a tile that one instruction holds in one warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Atom {
    /// 16 x 8 accumulator, f32; `exchanged`: of a product whose operands are, the transposed one, 8 x 16.
    Accumulator { exchanged: bool },
    /// 16 rows of four parts of a sum, one in each of the four lanes that share a row of an accumulator; `exchanged`: 8 rows, each part in two of
    /// the eight lanes that share a row.
    Parts { exchanged: bool },
    /// 16 (M) x k of A.
    A(MmaInput),
    /// 8 (N) x k of B.
    B(MmaInput),
    /// A block of `block` rows and columns a lane, `down` lanes below one another and 32 / `down` side by side.
    Lanes { down: u32, block: [u32; 2] },
    /// A row of `vector` elements a lane, lane after lane along rows of `cols` lanes.
    Vectors { vector: u32 },
}

impl Atom {
    fn rows(self) -> u32 {
        match self {
            Atom::Accumulator { exchanged: true } | Atom::Parts { exchanged: true } | Atom::B(_) => 8,
            Atom::Accumulator { .. } | Atom::Parts { .. } | Atom::A(_) => 16,
            Atom::Lanes { down, block: [rows, _] } => down * rows,
            Atom::Vectors { .. } => 1,
        }
    }

    fn cols(self) -> u32 {
        match self {
            Atom::Accumulator { exchanged } => {
                if exchanged {
                    16
                } else {
                    8
                }
            }
            Atom::Parts { .. } => PARTS,
            Atom::A(input) | Atom::B(input) => input.k(),
            Atom::Lanes { down, block: [_, cols] } => LANES / down * cols,
            Atom::Vectors { vector } => vector,
        }
    }

    fn registers(self) -> u32 {
        match self {
            Atom::Accumulator { .. } => 4,
            Atom::Parts { .. } => 2,
            Atom::A(input) => 4 * input.packing(),
            Atom::B(input) => 2 * input.packing(),
            Atom::Lanes { block: [rows, cols], .. } => rows * cols,
            Atom::Vectors { vector } => vector,
        }
    }

    fn packing(self) -> u32 {
        match self {
            Atom::A(input) | Atom::B(input) => input.packing(),
            Atom::Accumulator { .. } | Atom::Parts { .. } | Atom::Lanes { .. } | Atom::Vectors { .. } => 1,
        }
    }

    /// Rows and columns of what a lane holds of an atom: of an accumulator two rows, 8 apart, of two neighbours each.
    fn block(self) -> [u32; 2] {
        match self {
            Atom::Lanes { block, .. } => block,
            Atom::Accumulator { .. } | Atom::A(_) | Atom::B(_) => [2, 2],
            Atom::Parts { .. } => [2, 1],
            Atom::Vectors { vector } => [1, vector],
        }
    }

    /// Where register `register` of lane `lane` is.
    fn position<I: Index>(self, lane: I, register: I) -> (I, I) {
        let (group, thread) = (lane.clone().shr(2), lane.clone().and(3));
        match self {
            Atom::Accumulator { exchanged } => {
                let (pair, half) = (register.clone().over(2), register.modulo(2));
                let (down, across) = (group.add(pair.times(8)), thread.times(2).add(half));
                if exchanged { (across, down) } else { (down, across) }
            }
            Atom::Parts { exchanged: false } => (group.add(register.times(8)), thread),
            Atom::Parts { exchanged: true } => (thread.times(2).add(register), group.shr(1)),
            Atom::A(input) => {
                let (word, half) = (register.clone().over(input.packing()), register.modulo(input.packing()));
                let col = thread.times(input.packing()).add(half).add(word.clone().over(2).times(input.k() / 2));
                (group.add(word.modulo(2).times(8)), col)
            }
            Atom::B(input) => {
                let (word, half) = (register.clone().over(input.packing()), register.modulo(input.packing()));
                (group, thread.times(input.packing()).add(half).add(word.times(input.k() / 2)))
            }
            Atom::Lanes { down, block: [rows, cols] } => {
                let across = LANES / down;
                // The lowest bit of a lane is one of its row, the next ones are of its column, what is left is of its row:
                // of every four lanes two have a row and two a column in common, and shared memory serves both at once.
                let high = if down > 2 { lane.clone().over(2 * across).times(2) } else { I::constant(0) };
                let (row, col) = (high.add(lane.clone().and(1)), lane.over(2).and(across - 1));
                let (below, beside) = (register.clone().over(cols), register.modulo(cols));
                (row.times(rows).add(below), col.times(cols).add(beside))
            }
            Atom::Vectors { .. } => (I::constant(0), register),
        }
    }

    /// The lane and register that hold an element: the inverse.
    fn holder(self, row: u32, col: u32) -> (u32, u32) {
        let group = row % 8 * 4;
        match self {
            Atom::Accumulator { exchanged: false } => (group + col / 2, row / 8 * 2 + col % 2),
            Atom::Accumulator { exchanged: true } => (col % 8 * 4 + row / 2, col / 8 * 2 + row % 2),
            Atom::Parts { exchanged: false } => (group + col, row / 8),
            Atom::Parts { exchanged: true } => (col * 8 + row / 2, row % 2),
            Atom::A(input) | Atom::B(input) => {
                let (packing, half_k) = (input.packing(), input.k() / 2);
                let word = match self {
                    Atom::A(_) => row / 8 + 2 * (col / half_k),
                    _ => col / half_k,
                };
                (group + col % half_k / packing, word * packing + col % packing)
            }
            Atom::Lanes { down, block: [rows, cols] } => {
                let (lane_row, lane_col) = (row / rows, col / cols);
                let lane = lane_row % 2 + lane_col * 2 + lane_row / 2 * (2 * LANES / down);
                (lane, row % rows * cols + col % cols)
            }
            Atom::Vectors { .. } => (0, col),
        }
    }
}

/// A tile in registers. Threads are counted from the first that takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fragment {
    rows: u32,
    /// Rows that the registers have, of which the tile's are the first.
    window: u32,
    cols: u32,
    atom: Atom,
    shape: Shape,
}

/// How atoms fill the tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Shape {
    /// `grid` of warps (`quad` false) or warpgroups (true), each with its contiguous part of the tile. A warpgroup's
    /// four warps are below one another: 64 rows of `wgmma`, of which its part may have several.
    Warps { grid: WarpGrid, quad: bool },
    /// Vectors side by side over all threads, row after row, then again from where the last thread ended.
    Blocked { threads: u32 },
}

impl Fragment {
    /// The A operand of one warp, `rows x depth` of M x K: 16-row atoms, each with K steps of [`MmaInput::k`].
    /// Registers are counted step by step along K within 16 rows.
    ///
    /// # Errors
    /// `rows` not a multiple of 16 or `depth` not one of [`MmaInput::k`].
    pub fn mma_a(input: MmaInput, rows: u32, depth: u32) -> Result<Fragment, LayoutError> {
        Fragment::warps(rows, depth, Atom::A(input), WarpGrid { rows: 1, cols: 1 }, false)
    }

    /// The B operand of one warp, `cols x depth` of N x K, in atoms of 8 x [`MmaInput::k`].
    ///
    /// # Errors
    /// `cols` not a multiple of 8 or `depth` not one of [`MmaInput::k`].
    pub fn mma_b(input: MmaInput, cols: u32, depth: u32) -> Result<Fragment, LayoutError> {
        Fragment::warps(cols, depth, Atom::B(input), WarpGrid { rows: 1, cols: 1 }, false)
    }

    /// The f32 accumulator of `mma.sync`, `rows x cols` over a grid of warps. A warp's registers are
    /// `[16-row atom][8-column atom][4]`.
    ///
    /// # Errors
    /// A warp's part that is not whole 16 x 8 atoms.
    pub fn mma_accumulator(rows: u32, cols: u32, grid: WarpGrid) -> Result<Fragment, LayoutError> {
        Fragment::warps(rows, cols, Atom::Accumulator { exchanged: false }, grid, false)
    }

    /// The f32 accumulator of `mma.sync` with exchanged operands, `rows x cols` over a grid of warps: the instruction's 16 rows are columns of
    /// the tile, so that a warp may have 8 rows. A warp's registers are `[8-row atom][16-column atom][4]`.
    ///
    /// # Errors
    /// A warp's part that is not whole 8 x 16 atoms.
    pub fn mma_exchanged(rows: u32, cols: u32, grid: WarpGrid) -> Result<Fragment, LayoutError> {
        Fragment::warps(rows, cols, Atom::Accumulator { exchanged: true }, grid, false)
    }

    /// The accumulator of multiply-adds, `rows x cols` over a grid of warps. A thread's elements are the crossings of some
    /// rows with some columns, which it has in blocks of `block` rows and columns; the lanes of a warp are arranged so that
    /// these are as many rows as columns, or nearly so, which reads the fewest elements of the operands. A thread's
    /// registers are `[block of rows][block of columns][row][column]`.
    ///
    /// # Errors
    /// A warp's part that is not whole blocks for an arrangement of 32 lanes, two at least each way.
    pub fn crossings(rows: u32, cols: u32, grid: WarpGrid, block: [u32; 2]) -> Result<Fragment, LayoutError> {
        let arranged = |down: u32| Fragment::warps(rows, cols, Atom::Lanes { down, block }, grid, false);
        // Of two that are equally square, that with more lanes along the columns, which stores longer pieces of a row.
        let lines = |fragment: &Fragment| fragment.slots(0) + fragment.slots(1);
        let best = [4, 8, 2, 16].into_iter().filter_map(|down| arranged(down).ok()).min_by_key(lines);
        best.map_or_else(|| arranged(4), Ok)
    }

    /// The f32 accumulator of `wgmma`, `rows x cols` over a grid of warpgroups of 128 threads. A thread's registers
    /// are `[64-row block][n / 2]`, the second as the instruction numbers them.
    ///
    /// # Errors
    /// A warpgroup's part that is not whole 64 x 8 pieces, or wider than 256, the most that one instruction has.
    pub fn wgmma_accumulator(rows: u32, cols: u32, grid: WarpGrid) -> Result<Fragment, LayoutError> {
        let fragment = Fragment::warps(rows, cols, Atom::Accumulator { exchanged: false }, grid, true)?;
        let n = cols / grid.cols;
        if n > 256 {
            return Err(LayoutError::TooLarge { what: "n of wgmma", extent: n.into(), most: 256 });
        }
        Ok(fragment)
    }

    /// The f32 accumulator of `wgmma` for a tile of fewer rows than the instruction's 64, over one warpgroup: registers as
    /// [`Fragment::wgmma_accumulator`] has them for 64, of which those of further rows hold no element.
    ///
    /// # Errors
    /// `rows` other than 8 and the multiples of 16 below 64; columns as [`Fragment::wgmma_accumulator`].
    pub fn wgmma_narrow(rows: u32, cols: u32) -> Result<Fragment, LayoutError> {
        if rows != 8 && (rows == 0 || !rows.is_multiple_of(16)) {
            return Err(LayoutError::Multiple { what: "rows of a narrow tile of wgmma", extent: rows, multiple: 16 });
        }
        if rows >= 64 {
            return Err(LayoutError::TooLarge { what: "rows of a narrow tile", extent: rows.into(), most: 48 });
        }
        let whole = Fragment::wgmma_accumulator(64, cols, WarpGrid { rows: 1, cols: 1 })?;
        Ok(Fragment { rows, ..whole })
    }

    /// The A operand of `wgmma` from registers: `rows x depth` of M x K over one warpgroup, `rows` a multiple of 64.
    /// A thread's registers are `[64-row block][K step][4 words]`.
    ///
    /// # Errors
    /// `rows` not a multiple of 64 or `depth` not one of [`MmaInput::k`].
    pub fn wgmma_a(input: MmaInput, rows: u32, depth: u32) -> Result<Fragment, LayoutError> {
        Fragment::warps(rows, depth, Atom::A(input), WarpGrid { rows: 1, cols: 1 }, true)
    }

    /// For elementwise work: `vector` neighbouring columns a thread, threads side by side over the rows, as often as
    /// the tile needs.
    ///
    /// # Errors
    /// A row that is not whole vectors, or a tile that is not whole vectors for every thread.
    pub fn blocked(rows: u32, cols: u32, threads: u32, vector: u32) -> Result<Fragment, LayoutError> {
        if vector == 0 || !cols.is_multiple_of(vector) || cols == 0 {
            return Err(LayoutError::Multiple { what: "columns of a tile", extent: cols, multiple: vector });
        }
        let (elements, turn) = (u64::from(rows) * u64::from(cols), u64::from(threads) * u64::from(vector));
        if elements == 0 || turn == 0 || elements % turn != 0 || elements > u32::MAX.into() {
            let what = "elements of a tile, for every thread's vector";
            let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
            return Err(LayoutError::Multiple { what, extent: narrow(elements), multiple: narrow(turn) });
        }
        Ok(Fragment { rows, window: rows, cols, atom: Atom::Vectors { vector }, shape: Shape::Blocked { threads } })
    }

    fn warps(rows: u32, cols: u32, atom: Atom, grid: WarpGrid, quad: bool) -> Result<Fragment, LayoutError> {
        let piece = (atom.rows() * if quad { 4 } else { 1 }, atom.cols());
        grid.divide(rows, cols, piece)?;
        Ok(Fragment { rows, window: rows, cols, atom, shape: Shape::Warps { grid, quad } })
    }

    /// Rows of the tile.
    pub const fn rows(&self) -> u32 {
        self.rows
    }

    /// Whether every register of every thread holds an element of the tile. Else [`Fragment::holders`] and
    /// [`Fragment::held`] say which do.
    pub const fn is_whole(&self) -> bool {
        self.rows == self.window
    }

    /// Threads that hold any element of the tile: the first ones.
    pub const fn holders(&self) -> u32 {
        // A narrow tile's warps have 16 rows each, one below the other.
        if self.is_whole() { self.threads() } else { self.rows.div_ceil(16) * 32 }
    }

    /// Elements of the tile that each of the [`Fragment::holders`] has.
    pub fn held_registers(&self) -> u32 {
        if self.has_half_atoms() { self.registers() / 2 } else { self.registers() }
    }

    /// The register of a holder's element number `index`. Elements `2 n` and `2 n + 1` are neighbours of a row.
    pub fn held<I: Index>(&self, index: I) -> I {
        if !self.has_half_atoms() {
            return index;
        }
        // The first two registers of an atom's four are of its first eight rows.
        index.clone().over(2).times(4).add(index.modulo(2))
    }

    /// Whether only the first eight rows of each atom are the tile's.
    const fn has_half_atoms(&self) -> bool {
        !self.is_whole() && self.rows == 8
    }

    /// Columns of the tile.
    pub const fn cols(&self) -> u32 {
        self.cols
    }

    /// Threads that hold it.
    pub const fn threads(&self) -> u32 {
        match self.shape {
            Shape::Warps { grid, quad } => grid.rows * grid.cols * if quad { 128 } else { 32 },
            Shape::Blocked { threads } => threads,
        }
    }

    /// Elements a thread holds.
    pub fn registers(&self) -> u32 {
        match self.shape {
            Shape::Warps { grid, quad } => {
                let rows = self.atom.rows() * if quad { 4 } else { 1 };
                self.window / grid.rows / rows * self.across() * self.atom.registers()
            }
            Shape::Blocked { threads } => self.window * self.cols / threads,
        }
    }

    /// Elements in one 32-bit register of an operand of the tensor cores: 2 of 16 bit, else 1.
    pub fn packing(&self) -> u32 {
        self.atom.packing()
    }

    /// Neighbouring elements of a row that lie in registers following one another, from any register that is a
    /// multiple of this.
    pub fn vector(&self) -> u32 {
        match self.atom {
            Atom::Accumulator { exchanged: false } => 2,
            Atom::Accumulator { exchanged: true } | Atom::Parts { .. } => 1,
            Atom::A(input) | Atom::B(input) => input.packing(),
            Atom::Lanes { block: [_, cols], .. } => cols,
            Atom::Vectors { vector } => vector,
        }
    }

    /// Elements a thread holds of one atom: registers `n * atom_registers ..` are atom `n`.
    pub fn atom_registers(&self) -> u32 {
        self.atom.registers()
    }

    /// Row and column of register `register` of `thread`.
    pub fn position<I: Index>(&self, thread: I, register: I) -> (I, I) {
        match self.shape {
            Shape::Warps { .. } => {
                let (top, left) = self.warp_origin(thread.clone().shr(5));
                let (down, right) = self.atom_origin(register.clone().over(self.atom.registers()));
                let (row, col) = self.atom.position(thread.and(31), register.modulo(self.atom.registers()));
                (top.add(row).add(down), left.add(col).add(right))
            }
            Shape::Blocked { threads } => {
                let Atom::Vectors { vector } = self.atom else { return (I::constant(0), I::constant(0)) };
                let per_row = self.cols / vector;
                let index = thread.add(register.clone().over(vector).times(threads));
                (index.clone().over(per_row), index.modulo(per_row).times(vector).add(register.modulo(vector)))
            }
        }
    }

    /// The thread and the register that hold an element of the tile: the inverse of [`Fragment::position`].
    pub fn holder(&self, row: u32, col: u32) -> (u32, u32) {
        let atom = self.atom;
        match self.shape {
            Shape::Warps { grid, quad } => {
                let (part_rows, part_cols) = (self.window / grid.rows, self.cols / grid.cols);
                let group = row / part_rows * grid.cols + col / part_cols;
                let (row, col) = (row % part_rows, col % part_cols);
                // Atoms of a warpgroup below one another belong to its four warps in turn.
                let warps = if quad { 4 } else { 1 };
                let (down, across) = (row / atom.rows(), col / atom.cols());
                let warp = group * warps + down % warps;
                let number = down / warps * (part_cols / atom.cols()) + across;
                let (lane, register) = atom.holder(row % atom.rows(), col % atom.cols());
                (warp * 32 + lane, number * atom.registers() + register)
            }
            Shape::Blocked { threads } => {
                let index = row * (self.cols / atom.cols()) + col / atom.cols();
                (index % threads, index / threads * atom.cols() + col % atom.cols())
            }
        }
    }

    /// Row and column where the part of a warp begins. (0, 0) of a blocked fragment, which has no such parts.
    pub fn warp_origin<I: Index>(&self, warp: I) -> (I, I) {
        let Shape::Warps { grid, quad } = self.shape else { return (I::constant(0), I::constant(0)) };
        let group = if quad { warp.clone().shr(2) } else { warp.clone() };
        // A grid of one row or column has no division to do.
        let (top, left) = match grid {
            WarpGrid { rows: 1, cols: 1 } => (I::constant(0), I::constant(0)),
            WarpGrid { rows: 1, .. } => (I::constant(0), group),
            WarpGrid { cols: 1, .. } => (group, I::constant(0)),
            WarpGrid { cols, .. } => (group.clone().over(cols), group.modulo(cols)),
        };
        let (top, left) = (top.times(self.window / grid.rows), left.times(self.cols / grid.cols));
        let inside = if quad { warp.and(3).times(self.atom.rows()) } else { I::constant(0) };
        (top.add(inside), left)
    }

    /// Row and column of atom number `atom` of a thread, from [`Fragment::warp_origin`].
    pub fn atom_origin<I: Index>(&self, atom: I) -> (I, I) {
        let Shape::Warps { grid, quad } = self.shape else { return (I::constant(0), I::constant(0)) };
        let across = self.cols / grid.cols / self.atom.cols();
        let rows = self.atom.rows() * if quad { 4 } else { 1 };
        (atom.clone().over(across).times(rows), atom.modulo(across).times(self.atom.cols()))
    }

    /// Rows and columns of a block of [`Fragment::crossings`]; `None` of any other fragment.
    pub fn lane_block(&self) -> Option<[u32; 2]> {
        match self.atom {
            Atom::Lanes { block, .. } => Some(block),
            Atom::Accumulator { .. } | Atom::Parts { .. } | Atom::A(_) | Atom::B(_) | Atom::Vectors { .. } => None,
        }
    }

    /// How many rows (`axis` 0) or columns (1) a thread holds elements of, as [`Fragment::slot`] counts them. Of a blocked
    /// fragment some may be the same.
    pub fn slots(&self, axis: u8) -> u32 {
        match (self.atom, axis) {
            (Atom::Vectors { vector }, 0) => self.registers() / vector,
            (Atom::Vectors { .. }, _) => self.registers(),
            (_, 0) => self.registers() / self.atom.registers() / self.across() * self.atom.block()[0],
            _ => self.across() * self.atom.block()[1],
        }
    }

    /// Which of the thread's rows or columns its element `register` is in.
    pub fn slot<I: Index>(&self, axis: u8, register: I) -> I {
        if let Atom::Vectors { vector } = self.atom {
            return if axis == 0 { register.over(vector) } else { register };
        }
        let [rows, cols] = self.atom.block();
        let (atom, within) = (register.clone().over(rows * cols), register.modulo(rows * cols));
        let (row, col) = match self.is_exchanged() {
            false => (within.clone().over(cols), within.modulo(cols)),
            true => (within.clone().modulo(rows), within.over(rows)),
        };
        match axis {
            0 => atom.over(self.across()).times(rows).add(row),
            _ => atom.modulo(self.across()).times(cols).add(col),
        }
    }

    /// The first element of the thread's row or column `slot`: `slot(representative(s)) == s`. Of an accumulator, the element
    /// where row `i` and column `j` cross is `representative(0, i) + representative(1, j)`.
    pub fn representative<I: Index>(&self, axis: u8, slot: I) -> I {
        if let Atom::Vectors { vector } = self.atom {
            return if axis == 0 { slot.times(vector) } else { slot };
        }
        let [rows, cols] = self.atom.block();
        // By how much the registers of neighbouring rows, and of neighbouring columns, differ.
        let (down, right) = if self.is_exchanged() { (1, rows) } else { (cols, 1) };
        match axis {
            0 => {
                let (atom, within) = (slot.clone().over(rows), slot.modulo(rows));
                atom.times(self.across() * rows * cols).add(within.times(down))
            }
            _ => {
                let (atom, within) = (slot.clone().over(cols), slot.modulo(cols));
                atom.times(rows * cols).add(within.times(right))
            }
        }
    }

    /// A thread's atoms, below one another and side by side. `None` of a blocked fragment, and where a part of each atom is not the tile's.
    pub fn atoms(&self) -> Option<[u32; 2]> {
        let Shape::Warps { .. } = self.shape else { return None };
        let down = self.registers() / self.atom.registers() / self.across();
        (!self.has_half_atoms()).then_some([down, self.across()])
    }

    /// The tile of so many of a thread's atoms below one another and side by side, divisors of [`Fragment::atoms`]: what [`Fragment::slot`],
    /// [`Fragment::slots`] and [`Fragment::representative`] say of it holds of each such piece of this tile.
    pub fn piece(&self, [down, across]: [u32; 2]) -> Fragment {
        let (of, side_by_side) = (self.atoms().unwrap_or([down, across]), self.across());
        let window = self.window / of[0] * down;
        Fragment { rows: self.rows.min(window), window, cols: self.cols / side_by_side * across, ..*self }
    }

    /// The first register of piece number `number`. Pieces are counted along the rows.
    pub fn piece_origin<I: Index>(&self, piece: &Fragment, number: I) -> I {
        let (all, across) = (self.across(), piece.across());
        if all == across || piece.registers() == across * self.atom.registers() {
            return number.times(piece.registers());
        }
        if piece.window == self.window {
            return number.times(across * self.atom.registers());
        }
        let (below, beside) = (number.clone().over(all / across), number.modulo(all / across));
        let registers = self.atom.registers();
        below.times(piece.registers() / across * all).add(beside.times(across * registers))
    }

    /// By how much the register of element `index` of a piece differs from that of its first one.
    pub fn in_piece<I: Index>(&self, piece: &Fragment, index: I) -> I {
        let (all, across, registers) = (self.across(), piece.across(), self.atom.registers());
        if all == across || piece.registers() == across * registers {
            return index;
        }
        let (atom, within) = (index.clone().over(registers), index.modulo(registers));
        let below = atom.clone().over(across).times(all * registers);
        below.add(atom.modulo(across).times(registers)).add(within)
    }

    /// Whether the threads' rows (`axis` 0) or columns (1) are the same in both, slot by slot.
    pub fn agrees(&self, other: &Fragment, axis: u8) -> bool {
        let extent = |f: &Fragment| if axis == 0 { f.rows } else { f.cols };
        match (self.shape, other.shape) {
            (Shape::Warps { grid: a, quad: p }, Shape::Warps { grid: b, quad: q }) => {
                let alike = match (self.atom, other.atom) {
                    (
                        Atom::Accumulator { exchanged } | Atom::Parts { exchanged },
                        Atom::Accumulator { exchanged: too } | Atom::Parts { exchanged: too },
                    ) => self.atom == other.atom || axis == 0 && exchanged == too,
                    (Atom::Lanes { .. }, _) => self.atom == other.atom,
                    (
                        Atom::Accumulator { .. } | Atom::Parts { .. } | Atom::A(_) | Atom::B(_) | Atom::Vectors { .. },
                        _,
                    ) => false,
                };
                self == other || alike && a == b && p == q && extent(self) == extent(other)
            }
            _ => self == other,
        }
    }

    /// Of an accumulator of tensor cores whose rows are one warp's each: where the four parts of a row's sum lie, `rows` x 4. The lane that
    /// adds up a part has it. `None` of any other fragment.
    pub fn parts(&self) -> Option<Fragment> {
        let is_whole = self.is_whole() && self.accumulator_columns() == Some(1);
        let atom = Atom::Parts { exchanged: self.is_exchanged() };
        is_whole.then_some(Fragment { cols: PARTS, atom, ..*self })
    }

    /// Whether it is the [`Fragment::parts`] of another.
    pub fn is_parts(&self) -> bool {
        matches!(self.atom, Atom::Parts { .. })
    }

    /// Whether it is the accumulator of a product with exchanged operands ([`Fragment::mma_exchanged`]), or the parts of its rows.
    pub fn is_exchanged(&self) -> bool {
        matches!(self.atom, Atom::Accumulator { exchanged: true } | Atom::Parts { exchanged: true })
    }

    /// Of an accumulator of tensor cores: the warps (or warpgroups) that share a row. `None` of any other fragment.
    pub fn accumulator_columns(&self) -> Option<u32> {
        match (self.atom, self.shape) {
            (Atom::Accumulator { .. }, Shape::Warps { grid, .. }) => Some(grid.cols),
            _ => None,
        }
    }

    /// Atoms side by side in a warp's part; 1 of a blocked fragment.
    pub fn across(&self) -> u32 {
        match self.shape {
            Shape::Warps { grid, .. } => self.cols / grid.cols / self.atom.cols(),
            Shape::Blocked { .. } => 1,
        }
    }

    /// 32-bit words a thread has of it: as [`Fragment::word_origin`] counts them.
    pub fn words(&self) -> u32 {
        self.registers() / self.per_word()
    }

    /// Registers of one word.
    fn per_word(&self) -> u32 {
        match self.atom {
            Atom::Accumulator { exchanged: false } => 2,
            Atom::A(input) | Atom::B(input) => input.packing(),
            Atom::Accumulator { exchanged: true } | Atom::Parts { .. } | Atom::Lanes { .. } | Atom::Vectors { .. } => 1,
        }
    }

    /// Of one warp's words (32-bit registers, or pairs of accumulators that are converted to 16 bit), the 8 rows x 16
    /// bytes that word number `word` of all lanes makes up, as `ldmatrix` and `stmatrix` move them: its first row and
    /// column, from [`Fragment::warp_origin`]. `None` of a fragment that no such instruction moves.
    pub fn word_origin(&self, word: u32) -> Option<(u32, u32)> {
        let is_moved = match self.atom {
            Atom::Accumulator { exchanged } => !exchanged,
            Atom::A(_) | Atom::B(_) => true,
            Atom::Parts { .. } | Atom::Lanes { .. } | Atom::Vectors { .. } => false,
        };
        if !is_moved {
            return None;
        }
        let register = word * self.per_word();
        let (down, right) = self.atom_origin(register / self.atom.registers());
        let (row, col) = self.atom.position(0u32, register % self.atom.registers());
        Some((down + row, right + col))
    }
}
