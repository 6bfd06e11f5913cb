//! Layouts and products of a block whose threads all run the same operations.
//!
//! Products decide: an accumulator lies as `mma.sync` leaves it, over the grid of warps that the policy asks for, and
//! operands lie in shared memory with the widest swizzle of their rows; those of multiply-adds so that elements along M (or N) are
//! neighbours, rows as they are or column after column. A fragment that meets another in a `parallel`
//! loop takes its layout, since a thread must hold the same elements of both. What remains is spread over the threads
//! in vectors.

use super::class;
use super::schedule::Layouts;
use super::uses::{accesses, allocated, statements, touches};
use crate::diag::{Code, Diagnostic};
use crate::ir::*;
use crate::layout::{Fragment, LayoutError, Major, MmaInput, Operand, SharedLayout, WarpGrid};
use crate::lowered::MmaAtom;
use std::collections::{BTreeMap, BTreeSet};

/// Threads of a warp.
pub(super) const WARP: u32 = 32;
/// Rows and columns of an accumulator's atom.
pub(super) const ATOM: (u32, u32) = (16, 8);
/// Rows and columns of an accumulator's atom where `mma.sync` has its operands exchanged.
pub(super) const EXCHANGED_ATOM: (u32, u32) = (8, 16);

/// What is known of a block before it is lowered.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    pub(super) layouts: Layouts,
    /// Products by their statements.
    pub(super) products: BTreeMap<StmtId, Product>,
    /// What was met by a lesser form, and where.
    pub(super) fallbacks: Vec<(SpanId, String)>,
}

/// One `gemm`.
#[derive(Clone, Debug)]
pub(super) struct Product {
    pub(super) a: (BufferId, Operand),
    pub(super) b: (BufferId, Operand),
    pub(super) acc: BufferId,
    pub(super) clear: bool,
    /// Groups of rows of the sum that each have a right operand of their own, one below the other in its array.
    pub(super) groups: u32,
    /// Rows of the sum. A left operand that has fewer is multiplied once for each group.
    pub(super) rows: u32,
    pub(super) form: Form,
}

/// How a product is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// By `mma.sync`; the accumulator is divided over these warps.
    Mma(WarpGrid),
    /// By multiply-adds of f32, the accumulator being divided over these warps and blocked in the threads' registers
    /// ([`Fragment::crossings`]).
    Blocked(WarpGrid),
    /// By multiply-adds of f32; the accumulator is divided over these warps as `mma.sync` has it.
    Fma(WarpGrid),
    /// By multiply-adds, the accumulator being spread over the threads in vectors.
    Elements,
}

impl Block {
    /// The products and what they are computed by as text.
    pub(super) fn lines(&self, kernel: &BoundKernel) -> Vec<String> {
        let name = |buffer: BufferId| format!("`{}`", kernel.buffers[buffer].name);
        let products = self.products.values().map(|product| {
            let by = match product.form {
                Form::Mma(grid) => format!("mma.sync, warps {} x {}", grid.rows, grid.cols),
                Form::Blocked(grid) => {
                    format!("multiply-adds blocked in registers, warps {} x {}", grid.rows, grid.cols)
                }
                Form::Fma(grid) => format!("multiply-adds, warps {} x {}", grid.rows, grid.cols),
                Form::Elements => "multiply-adds of vectors of the accumulator".to_owned(),
            };
            let to = if product.clear { "=" } else { "+=" };
            format!("product: {} {to} {} {} by {by}", name(product.acc), name(product.a.0), name(product.b.0))
        });
        products.chain(self.fallbacks.iter().map(|(_, text)| text.clone())).collect()
    }
}

/// Infers.
pub(super) fn infer(kernel: &BoundKernel) -> Result<Block, Vec<Diagnostic>> {
    let (mut this, statements) = Inference::new(kernel, Block::default());
    (this.blocks, this.turned) = lane_blocks(kernel, &statements);
    for (buffer, declared) in kernel.buffers.iter() {
        if declared.scope == Scope::Shared && declared.swizzle.is_of_rows() {
            this.tile(buffer);
        }
    }
    for &stmt in &statements {
        if let StmtKind::Tile(TileOp::Gemm { a, b, acc, policy, clear, precision, grouped }) = &kernel.stmts[stmt].kind
        {
            this.product(stmt, [a, b], *acc, *policy, (*clear, *precision, *grouped));
        }
    }
    this.kept(&statements);
    this.meetings(&statements);
    this.rest();
    // A fragment of one axis takes the layout of the tile that it is used with.
    this.meetings(&statements);
    this.lonely();
    match this.all.is_empty() {
        true => Ok(this.block),
        false => Err(this.all),
    }
}

/// Gives each fragment that is used with others in a loop or `reduce` the layout that is known for one of them, and finds which
/// fragments of one axis are rows and which are columns of a tile.
pub(super) fn meet(kernel: &BoundKernel, layouts: &mut Layouts) -> Result<(), Vec<Diagnostic>> {
    let block = Block { layouts: std::mem::take(layouts), ..Block::default() };
    let (mut this, statements) = Inference::new(kernel, block);
    this.kept(&statements);
    this.meetings(&statements);
    *layouts = this.block.layouts;
    if this.all.is_empty() { Ok(()) } else { Err(this.all) }
}

struct Inference<'k> {
    kernel: &'k BoundKernel,
    block: Block,
    /// Who gave a fragment its layout.
    sources: BTreeMap<BufferId, SpanId>,
    all: Vec<Diagnostic>,
    /// How accumulators of multiply-adds are blocked in registers; `None` where they lie as those of tensor cores do.
    blocks: Option<[u32; 2]>,
    /// Arrays that are stored column after column: operands of those products whose rows run along K.
    turned: BTreeSet<BufferId>,
}

impl<'k> Inference<'k> {
    /// What is known so far, and all statements.
    fn new(kernel: &'k BoundKernel, block: Block) -> (Inference<'k>, Vec<StmtId>) {
        let (sources, turned) = (BTreeMap::new(), BTreeSet::new());
        let this = Inference { kernel, block, sources, all: Vec::new(), blocks: None, turned };
        (this, statements(kernel, &kernel.body))
    }

    fn warps(&self) -> u32 {
        self.kernel.thread_count() / WARP
    }

    fn product(
        &mut self,
        stmt: StmtId,
        [a, b]: [&MatrixRef; 2],
        acc: BufferId,
        policy: WarpPolicy,
        (clear, precision, grouped): (bool, Precision, bool),
    ) {
        let kernel = self.kernel;
        let span = kernel.stmts[stmt].span;
        // A product that is given no plan here is a mistake of the compiler, which `mma` reports.
        let [rows, cols] = kernel.buffer_extents(acc)[..] else { return };
        // A left operand in registers: every warp has whole rows of it, and so of the sum.
        let held = kernel.buffers[a.buffer].scope == Scope::Fragment;
        let matrix = a;
        // Rows of a group likewise, of one group only.
        let policy = match (held, policy) {
            _ if grouped => WarpPolicy::FullRow,
            (true, WarpPolicy::Square) => WarpPolicy::FullRow,
            (_, policy) => policy,
        };
        if self.blocks.is_some() {
            // Read along its rows, 16 bytes a lane side by side, an array has no conflicts of banks that a swizzle would solve,
            // and without one its addresses differ by constants.
            for (matrix, along_k) in [(a, !a.transposed), (b, b.transposed)] {
                if !along_k {
                    self.plain_tile(matrix.buffer);
                }
            }
        }
        let left = if held { self.row_major(a) } else { self.tile(a.buffer) };
        let (Some(left), Some(right)) = (left, self.tile(b.buffer)) else { return };
        let operand = |tile: SharedLayout, k_is_last: bool| match (k_is_last, tile.turned()) {
            (true, Some(tile)) => Operand { tile, major: Major::Mn },
            (true, None) => Operand { tile, major: Major::K },
            (false, _) => Operand { tile, major: Major::Mn },
        };
        let a = (a.buffer, operand(left, !a.transposed));
        let b = (b.buffer, operand(right, b.transposed));
        let groups = match (grouped, b.1.major) {
            (false, _) => 1,
            (true, Major::K) => b.1.mn() / cols.max(1),
            (true, Major::Mn) => b.1.k() / a.1.k().max(1),
        };
        let threads = kernel.thread_count();
        // Where a warp has 8 rows, these are the columns of the instruction.
        let exchange = || {
            let grid = policy.grid(rows, cols, self.warps(), EXCHANGED_ATOM).ok()?;
            let multiplies = held || tensor_cores([a.1, b.1], [rows, cols], (grid, true), precision).is_ok();
            (a.1.tile.dtype().is_half() && multiplies).then_some(grid)
        };
        let (grid, exchanged) = match policy.grid(rows, cols, self.warps(), ATOM) {
            _ if !threads.is_multiple_of(WARP) => {
                (Err(format!("{threads} threads are not whole warps of {WARP}")), false)
            }
            Ok(grid) => (Ok(grid), false),
            Err(error) => match exchange() {
                Some(grid) => (Ok(grid), true),
                None => (Err(error.to_string()), false),
            },
        };
        let grid = grid.and_then(|grid| match grid.rows.is_multiple_of(groups.max(1)) {
            true => Ok(grid),
            false => Err(format!("{} warps have rows of {groups} groups: a warp multiplies one matrix", grid.rows)),
        });
        let blocked = match (&grid, self.blocks) {
            (Ok(grid), Some(block)) => Fragment::crossings(rows, cols, *grid, block).ok(),
            _ => None,
        };
        let layout = match (&grid, blocked) {
            (Ok(_), Some(layout)) => Ok(layout),
            (Ok(grid), None) => accumulator(exchanged, rows, cols, *grid).map_err(|e| e.to_string()),
            (Err(text), _) => self.blocked(rows, cols).map_err(|_| text.clone()),
        };
        let layout = match layout {
            Ok(layout) => layout,
            Err(text) => {
                let name = &kernel.buffers[acc].name;
                let message = format!("gemm: the accumulator `{name}` cannot be divided among the threads");
                let help = "choose tile extents that are multiples of 16 x 8, or of f16 and bf16 8 x 16, for every warp, or other `threads`";
                let diagnostic = Diagnostic::new(Code::TILE_SHAPE, span, message).at(text).help(help);
                self.all.push(diagnostic);
                return;
            }
        };
        let texts = ["this product wants its accumulator in one layout", "this one in another"];
        if !self.wants(acc, layout, span, texts) {
            return;
        }
        if held && !self.held_left(matrix, b, ([rows, cols], &grid, exchanged), span) {
            return;
        }
        let form = match grid {
            Ok(grid) => match tensor_cores([a.1, b.1], [rows, cols], (grid, exchanged), precision) {
                Ok(()) => Form::Mma(grid),
                // Said by `held_left`.
                Err(_) if held => Form::Mma(grid),
                Err(text) if precision == Precision::Tf32 => return self.refuse_tf32(span, text),
                Err(text) => {
                    // Exact products of f32 are what the author asked for.
                    if a.1.tile.dtype() != Dtype::F32 {
                        self.block.fallbacks.push((span, format!("multiplied without tensor cores: {text}")));
                    }
                    if blocked.is_some() { Form::Blocked(grid) } else { Form::Fma(grid) }
                }
            },
            Err(text) if precision == Precision::Tf32 => return self.refuse_tf32(span, text),
            Err(text) => {
                self.block.fallbacks.push((span, format!("multiplied without tensor cores: {text}")));
                Form::Elements
            }
        };
        self.block.products.insert(stmt, Product { a, b, acc, clear, groups, rows, form });
    }

    /// `.tf32()` is a demand.
    fn refuse_tf32(&mut self, span: SpanId, text: String) {
        let message = "gemm: `.tf32()` of tiles that tensor cores cannot multiply";
        let help =
            "choose tile extents that are multiples of 16 x 8 for every warp and of 8 along K, or drop `.tf32()`";
        self.all.push(Diagnostic::new(Code::ILLEGAL_OPERATION, span, message).at(text).help(help));
    }

    /// The shape of a left operand in registers.
    fn row_major(&mut self, a: &MatrixRef) -> Option<SharedLayout> {
        let [rows, cols] = self.kernel.buffer_extents(a.buffer)[..] else { return None };
        let layout = SharedLayout::row_major(rows, cols, self.kernel.buffer_dtype(a.buffer));
        match layout {
            Ok(layout) => Some(layout),
            Err(error) => {
                self.refuse_left(a, error.to_string());
                None
            }
        }
    }

    /// Gives a left operand in registers the layout that `mma.sync` takes it in: that of a sum as wide as it. Whether it can
    /// be multiplied.
    fn held_left(
        &mut self,
        a: &MatrixRef,
        b: (BufferId, Operand),
        ([rows, cols], grid, exchanged): ([u32; 2], &Result<WarpGrid, String>, bool),
        span: SpanId,
    ) -> bool {
        let dtype = self.kernel.buffer_dtype(a.buffer);
        let [_, depth] = self.kernel.buffer_extents(a.buffer)[..] else { return false };
        let input = MmaInput::Half;
        let layout = match grid {
            Err(text) => Err(text.clone()),
            Ok(_) if !dtype.is_half() => Err(format!("mma.sync takes f16 and bf16 from registers, not {dtype}")),
            Ok(_) if !depth.is_multiple_of(input.k()) => {
                Err(format!("{depth} along K are not a multiple of {}, the depth of mma.sync", input.k()))
            }
            Ok(grid) if grid.cols != 1 => Err("a warp must have whole rows of the sum".to_owned()),
            Ok(grid) => {
                let text = |error: LayoutError| error.to_string();
                let [_, right] = operands(exchanged, input, [rows, cols], *grid);
                let right = right.and_then(|(right, words)| b.1.load_matrix(&right, 0, words).map(|_| ()));
                right.and_then(|()| accumulator(exchanged, rows, depth, *grid)).map_err(text)
            }
        };
        match layout {
            Err(text) => {
                self.refuse_left(a, text);
                false
            }
            Ok(layout) => {
                let texts = ["this decides how it lies", "this product takes it by whole rows a warp"];
                self.wants(a.buffer, layout, span, texts)
            }
        }
    }

    fn refuse_left(&mut self, a: &MatrixRef, text: String) {
        let name = &self.kernel.buffers[a.buffer].name;
        let message = format!("gemm: the fragment `{name}` cannot be the left operand");
        let help = format!("copy `{name}` to an array from `alloc_shared`, and multiply that");
        self.all.push(Diagnostic::new(Code::ILLEGAL_OPERATION, a.span, message).at(text).help(help));
    }

    /// Gives an array rows without a swizzle, unless its author asked for one or another product did.
    fn plain_tile(&mut self, buffer: BufferId) {
        let declared = &self.kernel.buffers[buffer];
        let [rows, cols] = self.kernel.buffer_extents(buffer)[..] else { return };
        if declared.swizzle == SwizzleRequest::Auto
            && let Ok(layout) = SharedLayout::row_major(rows, cols, self.kernel.buffer_dtype(buffer))
        {
            self.block.layouts.shared.entry(buffer).or_insert(layout);
        }
    }

    /// The layout of a slot: the widest swizzle of its rows, unless the author asked for one.
    fn tile(&mut self, buffer: BufferId) -> Option<SharedLayout> {
        if let Some(known) = self.block.layouts.shared.get(&buffer) {
            return Some(*known);
        }
        let kernel = self.kernel;
        let declared = &kernel.buffers[buffer];
        let [rows, cols] = kernel.buffer_extents(buffer)[..] else {
            let message = format!("`{}` is not a matrix: only arrays of rank 2 are swizzled", declared.name);
            self.all.push(Diagnostic::new(Code::SHAPE, declared.span, message));
            return None;
        };
        let dtype = kernel.buffer_dtype(buffer);
        let layout = match declared.swizzle {
            // Panels need rows that are whole atoms.
            SwizzleRequest::Auto if self.turned.contains(&buffer) => SharedLayout::column_major(rows, cols, dtype),
            SwizzleRequest::Auto => {
                SharedLayout::automatic(rows, cols, dtype).or_else(|_| SharedLayout::row_major(rows, cols, dtype))
            }
            SwizzleRequest::Exactly(Swizzle::None) => SharedLayout::row_major(rows, cols, dtype),
            SwizzleRequest::Exactly(swizzle) => SharedLayout::new(rows, cols, dtype, swizzle),
        };
        match layout {
            Ok(layout) => {
                self.block.layouts.shared.insert(buffer, layout);
                Some(layout)
            }
            Err(error) => {
                let message = format!("`{}` cannot have this swizzle", declared.name);
                let diagnostic = Diagnostic::new(Code::ILLEGAL_OPERATION, declared.span, message).at(error.to_string());
                self.all.push(match declared.swizzle {
                    SwizzleRequest::Auto => diagnostic,
                    SwizzleRequest::Exactly(swizzle) => {
                        diagnostic.help(format!("drop `.swizzle({})`: the compiler chooses one", swizzle.name()))
                    }
                });
                None
            }
        }
    }

    /// Finds whether each fragment of one axis is the rows or the columns of the tiles that it is used with.
    fn kept(&mut self, statements: &[StmtId]) {
        let kernel = self.kernel;
        let mut found: BTreeMap<BufferId, (u8, SpanId)> = BTreeMap::new();
        // What a reduction makes of its result.
        let mut reduced: BTreeMap<BufferId, u8> = BTreeMap::new();
        let mut meet = |this: &mut Self, buffer: BufferId, axis: u8, span: SpanId, by_reduction: bool| {
            let Buffer { name, scope, extents, .. } = &kernel.buffers[buffer];
            if *scope != Scope::Fragment || extents.len() != 1 {
                return;
            }
            let (known, first) = *found.entry(buffer).or_insert((axis, span));
            if by_reduction {
                reduced.entry(buffer).or_insert(axis);
            }
            if known != axis {
                let what = |axis: u8| if axis == 0 { "the rows" } else { "the columns" };
                let message = format!("`{name}` is {} of a tile here, and {} elsewhere", what(axis), what(known));
                let diagnostic = Diagnostic::new(Code::TILE_SHAPE, span, message);
                let diagnostic = diagnostic.label(first, format!("{} here", what(known)));
                let help = match reduced.get(&buffer) {
                    Some(&kept) => format!(
                        "reduce along axis {kept}, which leaves {} of the tile, or index `{name}` by the loop's other variable",
                        what(1 - kept)
                    ),
                    None => "use two fragments, and pass the values through a shared array".to_owned(),
                };
                this.all.push(diagnostic.help(help));
            }
        };
        for &stmt in statements {
            let span = kernel.stmts[stmt].span;
            if let StmtKind::Tile(TileOp::ReduceTile { dst, axis, .. }) = &kernel.stmts[stmt].kind {
                meet(self, *dst, 1 - *axis, span, true);
            }
            let StmtKind::Parallel { vars, body, .. } = &kernel.stmts[stmt].kind else { continue };
            if vars.len() != 2 {
                continue;
            }
            for access in accesses(kernel, body) {
                let access = &kernel.accesses[access];
                if let (Place::Buffer(buffer), [index]) = (access.place, &access.indices[..])
                    && let ExprKind::Var(var) = kernel.exprs[*index].kind
                    && let Some(axis) = vars.iter().position(|v| *v == var)
                {
                    meet(self, buffer, axis as u8, access.span, false);
                }
            }
        }
        // In a loop over one axis, a fragment that is known to be rows (columns) makes the others rows (columns).
        loop {
            let before = found.len();
            for (_, members) in groups(kernel, statements) {
                let known = members.iter().find_map(|b| found.get(b).copied());
                let single = members.iter().all(|b| kernel.buffers[*b].extents.len() == 1);
                if let (Some(known), true) = (known, single) {
                    members.iter().for_each(|b| {
                        found.entry(*b).or_insert(known);
                    });
                }
            }
            if found.len() == before {
                break;
            }
        }
        self.block.layouts.kept = found.into_iter().map(|(buffer, (axis, _))| (buffer, axis)).collect();
    }

    /// Reports fragments of one axis that are used with no tile, so that nothing gives them a layout.
    fn lonely(&mut self) {
        for (buffer, declared) in self.kernel.buffers.iter() {
            let known = self.block.layouts.fragments.contains_key(&buffer);
            if declared.scope == Scope::Fragment && declared.extents.len() == 1 && !known && self.all.is_empty() {
                let message = format!("the fragment `{}` of one axis never meets a tile", declared.name);
                let diagnostic = Diagnostic::new(Code::TILE_SHAPE, declared.span, message)
                    .at("it lies as the rows or columns of a tile do")
                    .help("reduce a tile into it or use it in a loop over one, or allocate it by `alloc_shared`");
                self.all.push(diagnostic);
            }
        }
    }

    /// Whether two fragments that are used together have one layout: of all elements, or of the rows or columns that one of
    /// them is.
    fn alike(&self, a: (BufferId, Fragment), b: (BufferId, Fragment)) -> bool {
        let axis = |buffer| self.block.layouts.kept.get(&buffer).copied();
        match (axis(a.0), axis(b.0)) {
            (None, None) => a.1 == b.1,
            (Some(axis), _) | (_, Some(axis)) => a.1.agrees(&b.1, axis),
        }
    }

    /// Whether a layout known for one fragment can be another's.
    fn passes(&self, layout: &Fragment, to: BufferId) -> bool {
        match self.kernel.buffer_extents(to)[..] {
            [rows, cols] => (layout.rows(), layout.cols()) == (rows, cols),
            _ => self.block.layouts.kept.contains_key(&to),
        }
    }

    /// Gives the parts of rows that are added up the layout that goes with the rows.
    fn parts(&mut self, statements: &[StmtId]) {
        for &stmt in statements {
            let Stmt { kind, span } = &self.kernel.stmts[stmt];
            if let StmtKind::Tile(TileOp::ReduceTile { src, dst, .. }) = kind
                && self.kernel.buffers[*dst].extents.len() == 2
                && let Some(layout) = self.block.layouts.fragments.get(src).and_then(Fragment::parts)
            {
                self.lies(*dst, layout, *span);
            }
        }
    }

    /// Gives fragments that are used together one layout, and reports those that have two.
    fn meetings(&mut self, statements: &[StmtId]) {
        let kernel = self.kernel;
        self.parts(statements);
        let groups = groups(kernel, statements);
        // A fragment may get its layout from one that gets it from another.
        loop {
            let before = self.block.layouts.fragments.len();
            for (span, members) in &groups {
                // A whole tile says more than its rows.
                let tiles = members.iter().filter(|b| kernel.buffers[**b].extents.len() == 2);
                let known = tiles.chain(members).find_map(|b| Some((*b, *self.block.layouts.fragments.get(b)?)));
                let Some((first, layout)) = known else { continue };
                for &member in members {
                    match self.block.layouts.fragments.get(&member).copied() {
                        None if !self.passes(&layout, member) => {}
                        None => {
                            self.lies(member, layout, *span);
                        }
                        Some(other) if !self.alike((first, layout), (member, other)) => {
                            let names @ [one, other] = [first, member].map(|b| &kernel.buffers[b].name);
                            let message = format!(
                                "`{one}` and `{other}` meet here, but lie differently in the threads' registers"
                            );
                            let mut diagnostic = Diagnostic::new(Code::TILE_SHAPE, *span, message);
                            for (buffer, name) in [first, member].into_iter().zip(names) {
                                if let Some(source) = self.sources.get(&buffer) {
                                    diagnostic = diagnostic.label(*source, format!("this decides how `{name}` lies"));
                                }
                            }
                            let help =
                                "give both products one `.policy(..)`, or copy one fragment through a shared array";
                            self.all.push(diagnostic.help(help));
                            return;
                        }
                        Some(_) => {}
                    }
                }
            }
            if self.block.layouts.fragments.len() == before {
                return;
            }
        }
    }

    /// Fragments that nothing has decided on.
    fn rest(&mut self) {
        let kernel = self.kernel;
        for buffer in allocated(kernel, Scope::Fragment) {
            let Buffer { name, span, extents, .. } = &kernel.buffers[buffer];
            if extents.len() == 1 || self.block.layouts.fragments.contains_key(&buffer) {
                continue;
            }
            // Products that were refused have said so.
            if !self.all.is_empty() {
                return;
            }
            let [rows, cols] = kernel.buffer_extents(buffer)[..] else {
                let message = format!("the fragment `{name}` is not a matrix");
                self.all.push(Diagnostic::new(Code::SHAPE, *span, message));
                continue;
            };
            match self.blocked(rows, cols) {
                Ok(layout) => self.lies(buffer, layout, *span),
                Err(error) => {
                    let message = format!("the fragment `{name}` cannot be divided among the threads");
                    let help = "choose extents whose product is a multiple of the number of threads";
                    self.all.push(Diagnostic::new(Code::TILE_SHAPE, *span, message).at(error.to_string()).help(help));
                }
            }
        }
    }

    /// A fragment's layout, and who gave it that.
    fn lies(&mut self, buffer: BufferId, layout: Fragment, source: SpanId) {
        self.block.layouts.fragments.insert(buffer, layout);
        self.sources.insert(buffer, source);
    }

    fn blocked(&self, rows: u32, cols: u32) -> Result<Fragment, LayoutError> {
        let threads = self.kernel.thread_count();
        let made = [4, 2].into_iter().find_map(|vector| Fragment::blocked(rows, cols, threads, vector).ok());
        made.map_or_else(|| Fragment::blocked(rows, cols, threads, 1), Ok)
    }

    /// Gives a fragment the layout that a product wants it in. False where another one has decided otherwise, which is said with a text
    /// for each of the two.
    fn wants(&mut self, fragment: BufferId, layout: Fragment, span: SpanId, [first, second]: [&str; 2]) -> bool {
        let source = *self.sources.entry(fragment).or_insert(span);
        if *self.block.layouts.fragments.entry(fragment).or_insert(layout) == layout {
            return true;
        }
        let message = format!("two products want `{}` in different layouts", self.kernel.buffers[fragment].name);
        let diagnostic = Diagnostic::new(Code::TILE_SHAPE, span, message).at(second).label(source, first);
        self.all.push(diagnostic.help("give both products one `.policy(..)`"));
        false
    }
}

/// How many rows and columns the blocks have in which threads hold the accumulators of products of f32 by multiply-adds,
/// so that operands are read 16 bytes at a time: 4 neighbours along M (or N) of an operand that lies along it, and 1 of
/// one that lies along K, of which 4 elements lie together. And the arrays that are stored column after column, whose rows run
/// along K: they lie along M (or N) then.
///
/// All accumulators of a kernel have the same, as its first product wants it, since they may meet. `None`, for accumulators
/// as those of tensor cores, where some product is another one, where a row has no multiple of 4 elements, or where tiles are
/// reduced: the four lanes that have a row there combine it by shuffles.
fn lane_blocks(kernel: &BoundKernel, statements: &[StmtId]) -> (Option<[u32; 2]>, BTreeSet<BufferId>) {
    let mut products = Vec::new();
    for &stmt in statements {
        let kind = &kernel.stmts[stmt].kind;
        if let StmtKind::Tile(TileOp::Gemm { a, b, acc, policy, precision, grouped, .. }) = kind {
            let fits = |matrix: &MatrixRef| {
                kernel.buffers[matrix.buffer].scope == Scope::Shared
                    && kernel.buffer_dtype(matrix.buffer) == Dtype::F32
                    && kernel.buffer_extents(matrix.buffer).last().is_some_and(|row| row.is_multiple_of(4))
            };
            if *precision != Precision::Full || *grouped || ![a, b].into_iter().all(fits) {
                return (None, BTreeSet::new());
            }
            products.push(([(a.buffer, !a.transposed), (b.buffer, b.transposed)], *acc, *policy));
        } else if matches!(kind, StmtKind::Tile(TileOp::ReduceTile { .. })) {
            return (None, BTreeSet::new());
        }
    }
    let block = |turned: &BTreeSet<BufferId>| {
        let first = products.first()?;
        Some(first.0.map(|(buffer, along_k)| if along_k && !turned.contains(&buffer) { 1 } else { 4 }))
    };
    let operands = || products.iter().flat_map(|product| product.0);
    let mut turned: BTreeSet<BufferId> = operands().filter(|(_, along_k)| *along_k).map(|(buffer, _)| buffer).collect();
    turned.retain(|buffer| {
        operands().all(|(other, along_k)| other != *buffer || along_k) && only_multiplied(kernel, statements, *buffer)
    });
    let threads = kernel.thread_count();
    let divides = |block| {
        products.iter().all(|(_, acc, policy)| {
            let [rows, cols] = kernel.buffer_extents(*acc)[..] else { return false };
            let grid = policy.grid(rows, cols, threads / WARP, ATOM);
            threads.is_multiple_of(WARP) && grid.is_ok_and(|grid| Fragment::crossings(rows, cols, grid, block).is_ok())
        })
    };
    // The padding of columns is no part of what the analysis has counted.
    let padding: u64 = turned.iter().map(|buffer| padding(kernel, *buffer)).sum();
    let fits = crate::analysis::shared_bytes(kernel).saturating_add(padding) <= MOST_WITH_PADDING;
    if turned.is_empty() || !fits || !block(&turned).is_some_and(divides) {
        turned.clear();
    }
    (block(&turned), turned)
}

/// Most bytes of shared memory of a kernel that has arrays stored column after column: what every target has.
const MOST_WITH_PADDING: u64 = 163 << 10;

/// Bytes that an array takes more where it is stored column after column, in all of its slots.
fn padding(kernel: &BoundKernel, buffer: BufferId) -> u64 {
    let [rows, cols] = kernel.buffer_extents(buffer)[..] else { return 0 };
    let bytes =
        SharedLayout::column_major(rows, cols, kernel.buffer_dtype(buffer)).map_or(u32::MAX, |tile| tile.bytes());
    let slots = class::stages(kernel).get(&buffer).copied().unwrap_or(1);
    (u64::from(bytes) - kernel.buffer_bytes(buffer)).saturating_mul(u64::from(slots))
}

/// Whether all that is done with an array is to copy tiles of tensors to it and to multiply it: then nothing else knows how it lies.
fn only_multiplied(kernel: &BoundKernel, statements: &[StmtId], array: BufferId) -> bool {
    let knows = |stmt: &StmtId| {
        let kind = &kernel.stmts[*stmt].kind;
        if let StmtKind::Tile(TileOp::Copy { src, dst, .. }) = kind {
            let fills = dst.place == Place::Buffer(array) && !dst.transposed && matches!(src.place, Place::Tensor(_));
            return !fills && touches(kernel, *stmt, array);
        }
        // What a loop touches, its statements touch.
        let is_plain = matches!(
            kind,
            StmtKind::Tile(TileOp::Gemm { .. }) | StmtKind::Alloc { .. } | StmtKind::For { .. } | StmtKind::If { .. }
        );
        !is_plain && touches(kernel, *stmt, array)
    };
    kernel.buffers[array].swizzle == SwizzleRequest::Auto && !statements.iter().any(knows)
}

/// The fragments that are used together, in each `parallel` loop and `reduce`.
fn groups(kernel: &BoundKernel, statements: &[StmtId]) -> Vec<(SpanId, Vec<BufferId>)> {
    let mut groups: Vec<(SpanId, Vec<BufferId>)> = Vec::new();
    for &stmt in statements {
        let kind = &kernel.stmts[stmt].kind;
        let buffers: Vec<BufferId> = if let StmtKind::Parallel { body, .. } = kind {
            accesses(kernel, body).into_iter().filter_map(|access| kernel.accesses[access].place.buffer()).collect()
        } else if let StmtKind::Tile(TileOp::ReduceTile { src, dst, .. }) = kind
            && kernel.buffers[*dst].extents.len() == 1
        {
            vec![*src, *dst]
        } else {
            continue;
        };
        let mut members: Vec<BufferId> =
            buffers.into_iter().filter(|b| kernel.buffers[*b].scope == Scope::Fragment).collect();
        members.sort();
        members.dedup();
        if members.len() > 1 {
            groups.push((kernel.stmts[stmt].span, members));
        }
    }
    groups
}

/// The sum of a product by `mma.sync`, whose operands may be exchanged.
fn accumulator(exchanged: bool, rows: u32, cols: u32, grid: WarpGrid) -> Result<Fragment, LayoutError> {
    match exchanged {
        false => Fragment::mma_accumulator(rows, cols, grid),
        true => Fragment::mma_exchanged(rows, cols, grid),
    }
}

/// The operands of a warp's product by `mma.sync`, left and right, of one step along K, and the words of an atom of each.
pub(super) fn operands(
    exchanged: bool,
    input: MmaInput,
    [rows, cols]: [u32; 2],
    grid: WarpGrid,
) -> [Result<(Fragment, u32), LayoutError>; 2] {
    let first = |extent| Fragment::mma_a(input, extent, input.k()).map(|fragment| (fragment, MmaAtom::A));
    let second = |extent| Fragment::mma_b(input, extent, input.k()).map(|fragment| (fragment, MmaAtom::B));
    let (rows, cols) = (rows / grid.rows, cols / grid.cols);
    if exchanged { [second(rows), first(cols)] } else { [first(rows), second(cols)] }
}

/// Whether `mma.sync` multiplies these operands, exchanged or not, the right one's matrices having so many columns, read by `ldmatrix` or word by
/// word; else why not.
fn tensor_cores(
    [a, b]: [Operand; 2],
    extents: [u32; 2],
    (grid, exchanged): (WarpGrid, bool),
    precision: Precision,
) -> Result<(), String> {
    let input = match (MmaInput::of(a.tile.dtype()), precision) {
        (Some(input @ MmaInput::Half), _) | (Some(input @ MmaInput::Tf32), Precision::Tf32) => input,
        (Some(MmaInput::Tf32), Precision::Full) | (None, _) => {
            return Err(format!("mma.sync multiplies f16 and bf16, not {}", a.tile.dtype()));
        }
    };
    if !a.k().is_multiple_of(input.k()) {
        return Err(format!("{} along K are not a multiple of {}, the depth of mma.sync", a.k(), input.k()));
    }
    let text = |error: LayoutError| error.to_string();
    for (operand, lies) in [a, b].into_iter().zip(operands(exchanged, input, extents, grid)) {
        let (fragment, words) = lies.map_err(text)?;
        if !operand.by_words() {
            operand.load_matrix(&fragment, 0, words).map_err(text)?;
        }
    }
    Ok(())
}
