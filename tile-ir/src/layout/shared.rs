//! A tile in shared memory.
//!
//! A tile is stored as column panels, each as wide as the swizzle's span and as tall as the tile, one after another:
//! the image that TMA leaves when it fetches one box a panel (a box may not be wider than its swizzle). Nothing is
//! padded, so that a tile of `rows x cols` takes exactly `rows * cols * size_of(element)` bytes, unless it is asked to be
//! ([`SharedLayout::padded`]).
//!
//! ```text
//! 64 x 128 bf16, B128 (64 columns a panel):   panel 0: 64 rows x 128 B | panel 1: 64 rows x 128 B
//! ```
//!
//! A tile may also be stored column after column ([`SharedLayout::column_major`]), whose columns are 16 bytes further apart
//! than they are long.

use super::{Index, LayoutError, Permutation, Swizzle};
use crate::ir::Dtype;

/// A tile of `rows x cols` in shared memory: (row, column) <-> byte offset from its start, which is aligned to
/// [`SharedLayout::alignment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SharedLayout {
    rows: u32,
    cols: u32,
    dtype: Dtype,
    swizzle: Swizzle,
    /// Bytes of a row within one panel.
    panel: u32,
    order: Order,
}

/// What follows what in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Order {
    /// The columns of a row, in panels.
    Rows,
    /// The rows of a column; columns are so many bytes apart.
    Columns { pitch: u32 },
    /// The columns of a row, without panels; rows are so many bytes apart. This is how the transpose of a tile lies that is stored column after
    /// column.
    Turned { pitch: u32 },
}

/// How the offset changes from one element to another a fixed number of rows and columns away; see
/// [`SharedLayout::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// XORed onto the offset first,
    pub xor: u32,
    /// then this is added, in bytes.
    pub add: u32,
}

impl Step {
    /// The offset (or address, of a tile aligned to 128 bytes) after the step from `offset`.
    pub fn apply<I: Index>(self, offset: I) -> I {
        let turned = if self.xor == 0 { offset } else { offset.xor(I::constant(self.xor)) };
        turned.plus(self.add)
    }
}

impl SharedLayout {
    /// A tile in panels as wide as the span of `swizzle`. With [`Swizzle::None`] the panels are 16 bytes wide: the
    /// "core matrices" of 8 x 16 bytes that `wgmma` reads without a swizzle.
    ///
    /// # Errors
    /// An extent of 0; a row that is not whole spans; several panels of rows that are not whole atoms.
    pub fn new(rows: u32, cols: u32, dtype: Dtype, swizzle: Swizzle) -> Result<SharedLayout, LayoutError> {
        let bytes = row_bytes(rows, cols, dtype)?;
        let panel = swizzle.span();
        if !bytes.is_multiple_of(panel) {
            return Err(LayoutError::Span { bytes, span: panel, swizzle });
        }
        let panels = bytes / panel;
        let multiple = super::swizzle::ATOM_ROWS;
        if panels > 1 && !rows.is_multiple_of(multiple) {
            return Err(LayoutError::PanelRows { rows, multiple, panels });
        }
        Ok(SharedLayout { rows, cols, dtype, swizzle, panel, order: Order::Rows })
    }

    /// A tile in panels as wide as the span of `swizzle`, of which the last one is wider than what is left of the tile's columns where
    /// they are no whole spans. A load by TMA fills its rest with the tensor's next columns; nobody reads them.
    ///
    /// # Errors
    /// As [`SharedLayout::new`] of the columns with those of the padding.
    pub fn padded(rows: u32, cols: u32, dtype: Dtype, swizzle: Swizzle) -> Result<SharedLayout, LayoutError> {
        let whole = row_bytes(rows, cols, dtype)?.next_multiple_of(swizzle.span()) / dtype.bytes();
        Ok(SharedLayout { cols, ..SharedLayout::new(rows, whole, dtype, swizzle)? })
    }

    /// A tile with the widest swizzle that its row allows; row after row where none does.
    ///
    /// # Errors
    /// As [`SharedLayout::new`].
    pub fn automatic(rows: u32, cols: u32, dtype: Dtype) -> Result<SharedLayout, LayoutError> {
        match Swizzle::widest(row_bytes(rows, cols, dtype)?) {
            Swizzle::None => SharedLayout::row_major(rows, cols, dtype),
            swizzle => SharedLayout::new(rows, cols, dtype, swizzle),
        }
    }

    /// A tile row after row, without a swizzle.
    ///
    /// # Errors
    /// An extent of 0.
    pub fn row_major(rows: u32, cols: u32, dtype: Dtype) -> Result<SharedLayout, LayoutError> {
        let panel = row_bytes(rows, cols, dtype)?;
        Ok(SharedLayout { rows, cols, dtype, swizzle: Swizzle::None, panel, order: Order::Rows })
    }

    /// A tile column after column, without a swizzle, its columns 16 bytes further apart than they are long: 32 elements of
    /// 4 bytes that 32 neighbouring lanes write, 8 along a row of 4 rows below one another, are in 32 banks where a column is
    /// a multiple of 128 bytes.
    ///
    /// # Errors
    /// An extent of 0.
    pub fn column_major(rows: u32, cols: u32, dtype: Dtype) -> Result<SharedLayout, LayoutError> {
        let pitch = u64::from(rows) * u64::from(dtype.bytes()) + u64::from(super::swizzle::CHUNK);
        let bytes = pitch * u64::from(cols);
        let panel = row_bytes(rows, cols, dtype)?;
        match (u32::try_from(bytes), u32::try_from(pitch)) {
            (Ok(_), Ok(pitch)) => {
                let order = Order::Columns { pitch };
                Ok(SharedLayout { rows, cols, dtype, swizzle: Swizzle::None, panel, order })
            }
            _ => Err(LayoutError::TooLarge { what: "bytes of a tile", extent: bytes, most: u32::MAX.into() }),
        }
    }

    /// The layout of the transposed matrix, whose element (column, row) is where this tile's element (row, column) is. Only a tile that is
    /// stored column after column has one; `None` of a tile that is stored row after row.
    pub fn turned(&self) -> Option<SharedLayout> {
        let Order::Columns { pitch } = self.order else { return None };
        let panel = self.rows * self.dtype.bytes();
        Some(SharedLayout { rows: self.cols, cols: self.rows, panel, order: Order::Turned { pitch }, ..*self })
    }

    /// Whether this is the layout of a transposed matrix, as [`SharedLayout::turned`] makes it.
    pub const fn is_turned(&self) -> bool {
        matches!(self.order, Order::Turned { .. })
    }

    /// Whether the tile is stored column after column.
    pub const fn is_column_major(&self) -> bool {
        matches!(self.order, Order::Columns { .. })
    }

    /// Rows of the tile.
    pub const fn rows(&self) -> u32 {
        self.rows
    }

    /// Columns of the tile; they are contiguous within a chunk of 16 bytes, unless it is stored column after column.
    pub const fn cols(&self) -> u32 {
        self.cols
    }

    /// Its element type.
    pub const fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Its swizzle.
    pub const fn swizzle(&self) -> Swizzle {
        self.swizzle
    }

    /// Bytes from one row of a panel to the next: the panel's width.
    pub const fn panel(&self) -> u32 {
        self.panel
    }

    /// Columns of one panel.
    pub const fn panel_cols(&self) -> u32 {
        self.panel / self.dtype.bytes()
    }

    /// Panels side by side.
    pub const fn panels(&self) -> u32 {
        self.cols.div_ceil(self.panel_cols())
    }

    /// Bytes from one panel to the next.
    pub const fn panel_stride(&self) -> u32 {
        self.rows * self.panel
    }

    /// Bytes of the tile with its padding.
    pub const fn bytes(&self) -> u32 {
        match self.order {
            Order::Rows => self.panels() * self.panel_stride(),
            Order::Columns { pitch } => self.cols * pitch,
            Order::Turned { pitch } => self.rows * pitch,
        }
    }

    /// What the tile's address must be a multiple of, in bytes.
    pub fn alignment(&self) -> u32 {
        self.swizzle.alignment()
    }

    /// Elements that are contiguous from any column that is a multiple of this: the widest vector that one access may
    /// use is this long, and 16 bytes at most.
    pub const fn contiguous(&self) -> u32 {
        match (self.order, self.swizzle) {
            (Order::Columns { .. }, _) => 1,
            (Order::Rows | Order::Turned { .. }, Swizzle::None) => self.panel_cols(),
            (Order::Rows | Order::Turned { .. }, Swizzle::B32 | Swizzle::B64 | Swizzle::B128) => {
                super::swizzle::CHUNK / self.dtype.bytes()
            }
        }
    }

    /// Byte offset of an element from the start of the tile.
    pub fn offset<I: Index>(&self, row: I, col: I) -> I {
        let size = self.dtype.bytes();
        match self.order {
            Order::Rows => {}
            Order::Columns { pitch } => return col.times(pitch).add(row.times(size)),
            Order::Turned { pitch } => return row.times(pitch).add(col.times(size)),
        }
        if self.panels() == 1 {
            return self.within(row, col.times(size));
        }
        let panel = col.clone().over(self.panel_cols());
        let byte = col.modulo(self.panel_cols()).times(size);
        panel.times(self.panel_stride()).add(self.within(row, byte))
    }

    /// Where an element is, counted in elements from the start of the tile.
    pub fn place<I: Index>(&self, row: I, col: I) -> I {
        let size = self.dtype.bytes();
        match self.order {
            Order::Rows => self.offset(row, col).over(size),
            // Sums of constants then remain such.
            Order::Columns { pitch } => col.times(pitch / size).add(row),
            Order::Turned { pitch } => row.times(pitch / size).add(col),
        }
    }

    /// Where the element `rows` rows below the one at `place` is, both counted in elements from the start of the tile: for rows that have none of the bits of
    /// `rows % 8` in their number.
    pub fn below<I: Index>(&self, place: I, rows: I) -> I {
        let size = self.dtype.bytes();
        match self.order {
            Order::Rows if self.swizzle == Swizzle::None => place.add(rows.times(self.panel / size)),
            Order::Rows => {
                let turned = place.xor(self.swizzle.turn(rows.clone()).over(size));
                turned.add(rows.times(self.panel / size))
            }
            Order::Columns { .. } => place.add(rows),
            Order::Turned { pitch } => place.add(rows.times(pitch / size)),
        }
    }

    /// Byte offset within a panel.
    fn within<I: Index>(&self, row: I, byte: I) -> I {
        match self.swizzle {
            Swizzle::None => row.times(self.panel).add(byte),
            swizzle => swizzle.place(row, byte),
        }
    }

    /// The element whose first byte is at `offset`, the inverse of [`SharedLayout::offset`]: `None` beyond the tile
    /// or inside an element, and in the padding.
    pub fn element(&self, offset: u32) -> Option<(u32, u32)> {
        if offset >= self.bytes() || !offset.is_multiple_of(self.dtype.bytes()) {
            return None;
        }
        if let Order::Columns { pitch } | Order::Turned { pitch } = self.order {
            let (line, within) = (offset / pitch, offset % pitch / self.dtype.bytes());
            let (row, col) = if self.is_column_major() { (within, line) } else { (line, within) };
            return (row < self.rows && col < self.cols).then_some((row, col));
        }
        let (panel, rest) = (offset / self.panel_stride(), offset % self.panel_stride());
        let plain = self.swizzle.apply(rest);
        let col = panel * self.panel_cols() + plain % self.panel / self.dtype.bytes();
        (col < self.cols).then_some((plain / self.panel, col))
    }

    /// How an offset changes `rows` down and `cols` to the right of an element, whatever the element, as long as
    /// - `rows` is a multiple of 8, or the element's row has none of the bits of `rows % 8`, and
    /// - either `cols` is whole panels, or the element's column within its panel is less than `grain` and `cols` a
    ///   multiple of it, `grain` being the lowest bit of `cols`, and both stay within a panel.
    ///
    /// With it an address is computed once a lane and turned with one XOR a step. `None` where `cols` would cross panels
    /// part of the way.
    pub fn step(&self, rows: u32, cols: u32) -> Option<Step> {
        let size = self.dtype.bytes();
        match self.order {
            Order::Rows => {}
            Order::Columns { pitch } => return Some(Step { xor: 0, add: cols * pitch + rows * size }),
            Order::Turned { pitch } => return Some(Step { xor: 0, add: rows * pitch + cols * size }),
        }
        let (panels, inside) = (cols / self.panel_cols(), cols % self.panel_cols() * size);
        let add = panels * self.panel_stride() + rows * self.panel;
        match self.swizzle {
            Swizzle::None => Some(Step { xor: 0, add: add + inside }),
            Swizzle::B32 | Swizzle::B64 | Swizzle::B128 if inside.is_multiple_of(super::swizzle::CHUNK) => {
                // The rows within an atom turn the chunks of a row as their own number says.
                let turned = self.swizzle.turn(rows);
                Some(Step { xor: inside ^ turned, add })
            }
            Swizzle::B32 | Swizzle::B64 | Swizzle::B128 => None,
        }
    }
}

/// Bytes of a row of a tile that is not empty.
fn row_bytes(rows: u32, cols: u32, dtype: Dtype) -> Result<u32, LayoutError> {
    match (rows, cols) {
        (0, _) => Err(LayoutError::Empty { what: "rows" }),
        (_, 0) => Err(LayoutError::Empty { what: "columns" }),
        _ => {
            let bytes = u64::from(rows) * u64::from(cols) * u64::from(dtype.bytes());
            match u32::try_from(bytes) {
                Ok(_) => Ok(cols * dtype.bytes()),
                Err(_) => Err(LayoutError::TooLarge { what: "bytes of a tile", extent: bytes, most: u32::MAX.into() }),
            }
        }
    }
}
