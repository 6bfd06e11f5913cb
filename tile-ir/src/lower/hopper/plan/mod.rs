//! What qualifies for specialisation (which loops do: `channel::loops`), and what it is given: what fills slots (`load`), which arrays are whose
//! (`arrays`), warpgroups, registers.
//!
//! Contract. In: a bound, analysed kernel. Out: its partitions, producer and consumers, and the channels between them. A channel
//! is a set of shared arrays that loops fill together, with slots for several iterations; the producer fills it by TMA, the consumers give
//! its slots back. Every statement that is no load of a channel is the consumers'; so is every shared array that is none of a channel's.
//!
//! Kernels that multiply are split into warpgroups. Kernels that read long rows by elements, and multiply nothing, get a producer warp beside
//! the author's threads (`rows`).

mod alternate;
mod arrays;
mod load;
mod rows;
mod shift;
mod text;

pub(super) use alternate::Alternate;
pub(in crate::lower) use rows::plan_rows;
pub(super) use shift::Shift;

use super::super::channel::{Channel, Load, Loop, Slice, Transport, loops};
use super::super::schedule::Layouts;
use super::super::uses::{cluster, depends_on, mentions, statements};
use super::operand::Left;
use super::resident::Once;
use crate::analysis::Analysis;
use crate::ir::*;
use crate::layout::{
    Fragment, LayoutError, Major, MmaInput, Operand, TmaPlan, WarpGrid, WgmmaOperand as MatrixOperand,
};
use crate::lowered::RolesRegisters;
use std::collections::{BTreeMap, BTreeSet};

/// Threads of a warp, and of a warpgroup.
pub(super) const WARP: u32 = 32;
pub(crate) const WARPGROUP: u32 = 128;
/// Rows of one product of a warpgroup.
pub(crate) const BLOCK_ROWS: u32 = 64;
/// Elements of a tile from which on one warpgroup alone is too slow to store it: 128 x 128 (`docs/hopper.md`, "Rates that constants
/// were fitted to").
const TURNS_FROM: u32 = 128 * 128;
/// Most f32 of accumulators a thread may hold beside what else it needs of 232 registers.
const MOST_ACCUMULATORS: u32 = 192;
/// Registers that a software-pipelined loop needs beside its fragments. With these, attention of 192 x 128 tiles and heads of 64, which
/// has 160 registers a thread, does not spill (`tests/nvrtc`).
const SHIFTED_BESIDE: u32 = 24;
/// Slots of a loop whose author asks for no number of them, where they fit: a load takes about as long as three products of
/// 128 x 128 x 64.
const PLAIN_STAGES: u32 = 4;

/// Who loads and who computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::lower) enum Split {
    #[default]
    /// A warpgroup loads, those behind it compute. Each kind begins with the wait for the previous kernel.
    Warpgroups,
    /// The author's threads compute, as many as this; a warp behind them loads. Where they wait for the previous kernel is for `dependent` to
    /// find.
    Threads(u32),
}

/// How a kernel is specialised.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pub(in crate::lower) split: Split,
    /// The loops whose loads the producer issues, in the order of the program.
    pub(super) rings: Vec<Ring>,
    /// What the producer fills.
    pub(super) channels: Vec<Channel>,
    /// Tiles that are loaded once: those that stay through all iterations, then each that is loaded after the first loop.
    pub(super) once: Vec<Once>,
    /// Copies of the consumers' own arrays into tensors that TMA makes.
    pub(super) own_stores: BTreeMap<StmtId, TmaPlan>,
    /// Copies of arrays into fragments by `ldmatrix`.
    pub(super) unpacked: BTreeSet<StmtId>,
    /// Arrays of channels and resident tiles that threads read, not only tensor cores.
    pub(super) read: BTreeSet<BufferId>,
    /// Arrays among `read` whose single elements threads read, not only matrices by `ldmatrix`.
    pub(super) elements: BTreeSet<BufferId>,
    /// Shared arrays that the consumers have to themselves.
    pub(super) own: BTreeSet<BufferId>,
    /// Whether tensor cores or TMA read what consumers have stored.
    pub(super) shows_own: bool,
    /// Statements before which the consumers wait for each other.
    pub(super) barriers: BTreeSet<StmtId>,
    /// The tile products.
    pub(super) products: BTreeMap<StmtId, Product>,
    /// Warpgroups that compute a tile together.
    pub(super) consumers: u32,
    /// Tiles that are computed at once, each by its own warpgroups: 2 with ping-pong, so that one stores while the other
    /// multiplies; else 1.
    pub(super) groups: u32,
    /// Registers of a consumer's fragments.
    pub(super) held: u32,
    /// How registers are shared out; none where the launch gives everyone enough.
    pub(super) registers: Option<RolesRegisters>,
    /// Fills with zero of accumulators that the first product of a loop overwrites instead: the accumulator and the loop.
    pub(super) folded: BTreeMap<StmtId, (BufferId, StmtId)>,
    /// Bytes of shared memory that nothing is planned for.
    pub(super) room: u64,
    /// Layouts of fragments and slots.
    pub(in super::super) layouts: Layouts,
}

/// A loop whose loads the producer issues.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    pub(super) at: Loop,
    /// What an iteration fills: a slot of each of these channels, by these loads.
    pub(super) fills: Vec<(usize, Vec<Load>)>,
    /// Whether the consumers wait for each other once an iteration has its tiles: of what they exchange through arrays of their own
    /// a pipelined loop orders every iteration after the one before.
    pub(super) meets: bool,
    /// How it is software-pipelined across two products.
    pub(super) shift: Option<Shift>,
    /// How its one product and the work on it overlap.
    pub(super) alternate: Option<Alternate>,
    /// The statement of the body after which nothing reads the slots, and where they are given back; none: where the iteration ends.
    pub(super) last_read: Option<StmtId>,
    /// Whether the consumers' side has few enough iterations to be written out.
    pub(super) written_out: bool,
}

impl Ring {
    /// A loop that fills these channels, and nothing more is known of.
    fn new(at: &Loop, fills: Vec<(usize, Vec<Load>)>) -> Ring {
        let at = at.clone();
        Ring { at, fills, meets: false, shift: None, alternate: None, last_read: None, written_out: false }
    }

    pub(super) fn loads(&self) -> impl Iterator<Item = &Load> {
        self.fills.iter().flat_map(|(_, loads)| loads)
    }
}

/// One tile product of the consumers.
#[derive(Clone, Debug)]
pub(super) struct Product {
    pub(super) a: (BufferId, Left),
    pub(super) b: (BufferId, MatrixOperand),
    pub(super) acc: BufferId,
    pub(super) dtype: Dtype,
    /// How the warpgroups of a tile divide it.
    pub(super) grid: WarpGrid,
    /// 64-row blocks a warpgroup has.
    pub(super) blocks: u32,
    /// Columns of an instruction.
    pub(super) n: u32,
    /// Rows of an instruction that are the tile's: 64, or all of a narrow tile's.
    pub(super) rows: u32,
    pub(super) clear: bool,
    /// The index of a loop in whose first iteration it overwrites an accumulator that a fill would have cleared.
    pub(super) begins: Option<VarId>,
}

/// Why a kernel is not specialised, and where.
#[derive(Clone, Debug)]
pub(crate) struct Reason {
    pub(crate) text: String,
    pub(crate) span: SpanId,
}

impl Reason {
    pub(in crate::lower) fn new(text: impl Into<String>, span: SpanId) -> Reason {
        Reason { text: text.into(), span }
    }
}

/// The plan for a bound kernel on a target with `wgmma` and TMA, or why there is none.
pub(crate) fn plan(kernel: &BoundKernel, analysis: &Analysis, target: Target) -> Result<Plan, Reason> {
    let loops = loops(kernel)?;
    Planner { kernel, analysis, target, loops, cluster: cluster(kernel) }.plan()
}

pub(super) struct Planner<'k> {
    pub(super) kernel: &'k BoundKernel,
    analysis: &'k Analysis,
    target: Target,
    pub(super) loops: Vec<Loop>,
    cluster: [u32; 3],
}

impl Planner<'_> {
    /// Where the first loop that loads stands.
    pub(super) fn span(&self) -> SpanId {
        self.loops.first().map_or(SpanId::from_u32(0), |l| self.kernel.stmts[l.stmt].span)
    }

    fn plan(&self) -> Result<Plan, Reason> {
        let kernel = self.kernel;
        let span = self.span();
        if let Some(at) = self.loops.iter().find(|at| self.analysis.wide_vars.contains(&at.var)) {
            return Err(Reason::new("a loop that loads tiles counts in 64 bits", kernel.stmts[at.stmt].span));
        }
        let threads = kernel.thread_count();
        if !threads.is_multiple_of(WARPGROUP) || threads == 0 {
            let text = format!("its {threads} threads are not whole warpgroups of {WARPGROUP}");
            return Err(Reason { text, span });
        }
        let consumers = threads / WARPGROUP;
        let mut products = BTreeMap::new();
        let mut operands: BTreeMap<BufferId, Operand> = BTreeMap::new();
        let mut fragments: BTreeMap<BufferId, Fragment> = BTreeMap::new();
        for stmt in statements(kernel, &kernel.body) {
            if matches!(kernel.stmts[stmt].kind, StmtKind::Tile(TileOp::Gemm { .. })) {
                products.insert(stmt, self.product(stmt, consumers, &mut operands, &mut fragments)?);
            }
        }
        let unpacked = self.loaded_fragments(&mut operands);
        let mut layouts = self.fragments(consumers, fragments, span)?;
        let held = self.held(&layouts);
        if held > MOST_ACCUMULATORS {
            let text = format!("its fragments take {held} registers a thread, of {MOST_ACCUMULATORS} at most");
            return Err(Reason { text, span });
        }
        let shifts: Vec<Option<Shift>> = (0..self.loops.len())
            .map(|at| self.shift(at, &products).filter(|_| held + SHIFTED_BESIDE <= most_registers(consumers)))
            .collect();
        let (mut rings, mut channels) = self.channels(&operands, &shifts)?;
        let filled: BTreeSet<BufferId> = channels.iter().flat_map(|c| c.buffers.iter().copied()).collect();
        let all_once = self.once(&filled, &operands);
        let once: Vec<&Load> = all_once.iter().flat_map(|once| &once.loads).collect();
        let stay: BTreeSet<BufferId> = once.iter().map(|load| load.buffer).collect();
        let [mut read, elements] = self.read_by_threads(&rings, &filled, &stay, &unpacked)?;
        read.extend(products.values().filter(|p| matches!(p.a.1, Left::Loaded(_))).map(|p| p.a.0));
        let own = self.own(&filled, &stay, &mut operands);
        for ring in &mut rings {
            let mut touched = statements(kernel, &ring.at.body).into_iter().flat_map(|stmt| self.touched(stmt));
            ring.meets = touched.any(|(buffer, ..)| own.contains(&buffer));
        }
        let loads = || rings.iter().flat_map(Ring::loads).chain(once.iter().copied());
        let stmts = self.loops.iter().map(|l| l.stmt).collect();
        Slice::new(kernel, stmts, loads().flat_map(|load| load.vars(kernel))).producible(kernel)?;
        let groups = if shifts.iter().any(Option::is_some) { 1 } else { self.groups(consumers, !own.is_empty())? };
        layouts.shared = operands.iter().map(|(buffer, operand)| (*buffer, operand.tile)).collect();
        layouts.shared.extend(loads().filter_map(|load| Some((load.buffer, *load.layout()?))));
        let own_stores = self.own_stores(&own, &mut layouts);
        let others = self.other_bytes(&once, &own, consumers * groups);
        let room = self.fits(&mut channels, others, !own.is_empty(), span)?;
        let mut second = 0;
        for ring in rings.iter_mut().filter(|_| groups == 1) {
            ring.alternate = self.alternate(ring, &channels, &products, &layouts.fragments, (held, consumers));
            if let Some(Alternate::By(product)) = ring.alternate {
                let acc = products.get(&product).and_then(|product| layouts.fragments.get(&product.acc));
                second = acc.map_or(0, Fragment::registers).max(second);
            }
        }
        let registers = registers(consumers * groups, held + second);
        let mut folded = BTreeMap::new();
        self.fold(&kernel.body, &products, &mut folded);
        folded.retain(|_, (_, stmt)| !rings.iter().any(|ring| ring.at.stmt == *stmt && ring.shift.is_some()));
        for (acc, stmt) in folded.values() {
            let StmtKind::For { var, body, .. } = &kernel.stmts[*stmt].kind else { continue };
            let first = body.iter().find(|s| products.get(s).is_some_and(|product| product.acc == *acc));
            if let Some(product) = first.and_then(|s| products.get_mut(s)).filter(|product| !product.clear) {
                product.begins = Some(*var);
            }
        }
        let multiplied = products.values().any(|product| {
            let left = matches!(product.a, (buffer, Left::Shared(_)) if own.contains(&buffer));
            left || own.contains(&product.b.0)
        });
        Ok(Plan {
            split: Split::Warpgroups,
            rings,
            channels,
            once: all_once,
            shows_own: multiplied || !own_stores.is_empty(),
            own_stores,
            unpacked,
            read,
            elements,
            barriers: self.analysis.barriers_among(kernel, &own),
            own,
            products,
            consumers,
            groups,
            held: held + second,
            registers,
            folded,
            room,
            layouts,
        })
    }

    /// Tiles at once: 2 with ping-pong.
    fn groups(&self, consumers: u32, has_own: bool) -> Result<u32, Reason> {
        let [first, others @ ..] = &self.loops[..] else { return Ok(1) };
        let turns = || match others {
            [] => self.turns(first, consumers, has_own),
            [second, ..] => {
                let text = "ping-pong goes round one loop that loads tiles, and here is another";
                Err(Reason::new(text, self.kernel.stmts[second.stmt].span))
            }
        };
        match first.schedule {
            // A producer goes round no rolled loop: `loops` says so.
            Schedule::Cooperative | Schedule::Rolled => Ok(1),
            Schedule::PingPong => turns(),
            // Ping-pong where one warpgroup has a tile so large that storing it takes a while.
            Schedule::Auto if self.largest_fragment() >= TURNS_FROM => Ok(turns().unwrap_or(1)),
            Schedule::Auto => Ok(1),
        }
    }

    fn largest_fragment(&self) -> u32 {
        let fragments = self.kernel.buffers.iter().filter(|(_, b)| b.scope == Scope::Fragment);
        fragments.map(|(buffer, _)| self.kernel.buffer_len(buffer) as u32).max().unwrap_or(0)
    }

    /// Tiles at once with ping-pong, 2, or why it is impossible: it needs a `persistent` loop over tiles whose pipelined loops
    /// are equally long, and one warpgroup a tile.
    fn turns(&self, at: &Loop, consumers: u32, has_own: bool) -> Result<u32, Reason> {
        let kernel = self.kernel;
        let span = kernel.stmts[at.stmt].span;
        let no = |text: &str| Err(Reason::new(text, span));
        if kernel.persistent().is_some_and(|tiles| tiles.counter.is_some()) {
            return no("ping-pong takes tiles in turn, not as they are counted");
        }
        let persistent = kernel.persistent().map(|tiles| (tiles.vars, tiles.contiguous, tiles.body));
        // What the number of iterations is made of.
        let made_of = Slice::new(kernel, vec![at.stmt], std::iter::empty()).vars;
        let names = |body: &[StmtId]| {
            let mut kinds = statements(kernel, body).into_iter().map(|stmt| &kernel.stmts[stmt].kind);
            kinds.any(|kind| kind.binds().into_iter().chain(kind.sets()).any(|var| made_of.contains(&var)))
        };
        let meets = |s: &Stmt| {
            matches!(&s.kind, StmtKind::LastArriver { .. })
                || matches!(&s.kind, StmtKind::Tile(op) if op.joins_cluster())
        };
        if kernel.stmts.values().any(meets) {
            return no(
                "ping-pong has no moment at which all that compute are at one tile, which other blocks wait for",
            );
        }
        let meets = |s: &Stmt| matches!(s.kind, StmtKind::SyncThreads | StmtKind::Reduce { axis: Some(_), .. });
        match persistent {
            _ if !self.resident_copies().is_empty() => {
                no("ping-pong has no slots for tiles that stay in shared memory")
            }
            _ if self.spilled() > 0 => no("ping-pong has no barrier for a reduction over the rows of a tile"),
            _ if has_own || kernel.stmts.values().any(meets) => {
                no("ping-pong has no barrier for shared arrays that the threads of a tile exchange elements through")
            }
            None => no("ping-pong takes turns over the tiles of a `persistent` loop, and there is none"),
            Some((_, true, _)) => no("ping-pong takes tiles in turn, not contiguous ones"),
            Some(_) if consumers != 1 => no("ping-pong has one warpgroup of 128 threads a tile"),
            Some((vars, ..)) if at.range.iter().any(|e| depends_on(kernel, *e, vars)) => {
                no("ping-pong needs pipelined loops of one length for all tiles")
            }
            Some((.., body)) if !body.contains(&at.stmt) => no(
                "ping-pong goes round its pipelined loop once a tile, and this one stands in an `if` or in another loop",
            ),
            Some((.., body)) if names(body) => no(
                "ping-pong needs the length of its pipelined loop before the first tile: name it before the `persistent` loop",
            ),
            Some(_) => Ok(2),
        }
    }

    fn product(
        &self,
        stmt: StmtId,
        consumers: u32,
        operands: &mut BTreeMap<BufferId, Operand>,
        fragments: &mut BTreeMap<BufferId, Fragment>,
    ) -> Result<Product, Reason> {
        let kernel = self.kernel;
        let span = kernel.stmts[stmt].span;
        let no = |text: &str| Reason::new(text, span);
        let StmtKind::Tile(TileOp::Gemm { a, b, acc, clear, precision, grouped, .. }) = &kernel.stmts[stmt].kind else {
            return Err(no("a product that is none"));
        };
        if *grouped {
            return Err(no("a warpgroup multiplies one matrix: a grouped product is the warps'"));
        }
        let [rows, cols] = kernel.buffer_extents(*acc)[..] else {
            return Err(no("its accumulator is not a matrix"));
        };
        let dtype = kernel.buffer_dtype(a.buffer);
        match (MmaInput::of(dtype), precision) {
            (Some(MmaInput::Half), _) | (Some(MmaInput::Tf32), Precision::Tf32) => {}
            (Some(MmaInput::Tf32), Precision::Full) => return Err(no("wgmma multiplies f32 only as tf32")),
            (None, _) => return Err(no(&format!("wgmma multiplies f16 and bf16 here, not {dtype}"))),
        }
        let fragment = accumulator(rows, cols, consumers).map_err(|e| no(&e.to_string()))?;
        let across = fragment.accumulator_columns().unwrap_or(1);
        let grid = WarpGrid { rows: consumers / across, cols: across };
        if !fragment.is_whole() && a.transposed {
            return Err(no(&format!("the rows of a tile of {rows} are contiguous: wgmma reads 64 of them")));
        }
        if *fragments.entry(*acc).or_insert(fragment) != fragment {
            return Err(no("two products want their accumulator in different layouts"));
        }
        let mut placed = |matrix: &MatrixRef, k_is_last: bool| -> Result<Operand, Reason> {
            if kernel.buffers[matrix.buffer].scope != Scope::Shared {
                return Err(no("an operand is neither in shared memory nor a fragment"));
            }
            let major = if k_is_last { Major::K } else { Major::Mn };
            let tile = match major {
                Major::K => self.tile(matrix.buffer),
                Major::Mn => self.tile_across(matrix.buffer),
            };
            let operand = Operand { tile: tile.map_err(|text| no(&text))?, major };
            if *operands.entry(matrix.buffer).or_insert(operand) != operand {
                return Err(no("an operand is used both as it is and transposed"));
            }
            Ok(operand)
        };
        let read = |operand: Operand| operand.wgmma().map_err(|e| no(&e.to_string()));
        let left = match kernel.buffers[a.buffer].scope {
            Scope::Fragment => {
                let layout = self.left_fragment(a, consumers).map_err(|text| no(&text))?;
                if *fragments.entry(a.buffer).or_insert(layout) != layout {
                    return Err(no("a fragment is multiplied in different layouts"));
                }
                Left::Registers
            }
            Scope::Shared | Scope::Local => {
                let operand = placed(a, !a.transposed)?;
                if operand.by_words() { Left::Loaded(operand) } else { Left::Shared(read(operand)?) }
            }
        };
        let right = read(placed(b, b.transposed)?)?;
        if grid.cols > 1 && right.offset(cols / grid.cols, 0).is_err() {
            let text = format!(
                "{consumers} warpgroups share neither the {rows} rows of a tile in blocks of {BLOCK_ROWS}, nor its {cols} columns at \
                 places that a descriptor reaches"
            );
            return Err(no(&text));
        }
        let blocks = (rows / grid.rows / BLOCK_ROWS).max(1);
        let rows = rows.min(BLOCK_ROWS);
        Ok(Product {
            a: (a.buffer, left),
            b: (b.buffer, right),
            acc: *acc,
            dtype,
            grid,
            blocks,
            n: cols / grid.cols,
            rows,
            clear: *clear,
            begins: None,
        })
    }

    /// Finds fills with zero that stand right before a loop that loads, with nothing between them that mentions the fragment:
    /// the first product of the loop overwrites the accumulator instead of adding to it.
    fn fold(
        &self,
        body: &[StmtId],
        products: &BTreeMap<StmtId, Product>,
        folded: &mut BTreeMap<StmtId, (BufferId, StmtId)>,
    ) {
        let kernel = self.kernel;
        let mut zeroed: BTreeMap<BufferId, StmtId> = BTreeMap::new();
        for &stmt in body {
            let kind = &kernel.stmts[stmt].kind;
            if let StmtKind::For { body, .. } = kind
                && self.loops.iter().any(|l| l.stmt == stmt)
            {
                let accumulators = products.values().map(|product| product.acc);
                let accumulators = accumulators.filter(|acc| self.begins_with_product(body, *acc));
                folded.extend(accumulators.filter_map(|acc| Some((*zeroed.get(&acc)?, (acc, stmt)))));
                zeroed.clear();
                continue;
            }
            if let StmtKind::Tile(TileOp::Fill { buffer, value }) = kind {
                zeroed.remove(buffer);
                if matches!(kernel.exprs[*value].kind, ExprKind::Float(value) if value == 0.0) {
                    zeroed.insert(*buffer, stmt);
                }
            } else if !matches!(kind, StmtKind::Let { .. } | StmtKind::Alloc { .. }) {
                zeroed.clear();
                if let StmtKind::Persistent { body, .. } | StmtKind::For { body, .. } = kind {
                    self.fold(body, products, folded);
                }
            }
        }
    }

    /// Whether the first statement of a loop's body that mentions an accumulator is a product into it.
    fn begins_with_product(&self, body: &[StmtId], acc: BufferId) -> bool {
        let kernel = self.kernel;
        let first = body.iter().find(|stmt| mentions(kernel, **stmt, acc));
        first.is_some_and(
            |stmt| matches!(kernel.stmts[*stmt].kind, StmtKind::Tile(TileOp::Gemm { acc: of, .. }) if of == acc),
        )
    }

    /// Bytes of shared memory beside the slots.
    fn other_bytes(&self, once: &[&Load], own: &BTreeSet<BufferId>, warpgroups: u32) -> u64 {
        let kernel = self.kernel;
        let stay: u64 = once.iter().map(|load| u64::from(load.bytes())).sum();
        // Each begins at a swizzle's atom of 1024 bytes; two staging buffers a warpgroup, and what alignment and barriers take.
        let own: u64 = own.iter().map(|b| kernel.buffer_bytes(*b).next_multiple_of(1024)).fold(0, u64::saturating_add);
        stay.saturating_add(own).saturating_add(self.spilled() + u64::from(warpgroups) * 2 * 64 * 128 + 2048)
    }

    /// Gives loops whose authors ask for no number of slots as many as fit. An error where arrays and reductions of the
    /// consumers leave no room for the slots. The bytes that are left.
    fn fits(&self, channels: &mut [Channel], others: u64, has_own: bool, span: SpanId) -> Result<u64, Reason> {
        let most = u64::from(self.target.max_shared_bytes());
        let plain: Vec<usize> = (0..channels.len()).filter(|c| channels[*c].slots == 0).collect();
        let bytes = |channels: &[Channel]| -> u64 {
            channels.iter().map(|c| u64::from(c.bytes) * u64::from(c.slots)).sum::<u64>().saturating_add(others)
        };
        for slots in (1..=PLAIN_STAGES).rev() {
            plain.iter().for_each(|c| channels[*c].slots = slots);
            if plain.is_empty() || bytes(channels) <= most {
                break;
            }
        }
        let total = bytes(channels);
        if total <= most || plain.is_empty() && !has_own && self.spilled() == 0 {
            return Ok(most.saturating_sub(total));
        }
        let text = format!(
            "its slots, its other shared arrays and its reductions over rows take {total} bytes of shared memory, of {most}"
        );
        Err(Reason { text, span })
    }
}

/// The layout of a tile in the consumers' registers: a warpgroup has whole rows, and the columns of one instruction are at
/// most 256. A tile of fewer rows than an instruction's is narrow; one whose rows the warpgroups cannot share out is divided by columns.
pub(super) fn accumulator(rows: u32, cols: u32, consumers: u32) -> Result<Fragment, LayoutError> {
    if rows < BLOCK_ROWS && consumers == 1 {
        return Fragment::wgmma_narrow(rows, cols);
    }
    let by_rows = Fragment::wgmma_accumulator(rows, cols, WarpGrid { rows: consumers, cols: 1 });
    let divisible = rows.is_multiple_of(BLOCK_ROWS) && cols.is_multiple_of(consumers * 8);
    match by_rows {
        Err(_) if divisible => Fragment::wgmma_accumulator(rows, cols, WarpGrid { rows: 1, cols: consumers }),
        by_rows => by_rows,
    }
}

/// How registers are shared out. A block's registers are those that the launch gives its threads; the producer gives
/// back what consumers take, and taking more than there are would wait for ever (`docs/hopper.md`, "Registers of warpgroups").
fn registers(consumers: u32, held: u32) -> Option<RolesRegisters> {
    let threads = (consumers + 1) * WARPGROUP;
    let launch = (65_536 / threads / 8 * 8).min(248);
    // One consumer has what it needs from the launch.
    if consumers == 1 || held <= 64 {
        return None;
    }
    let producer = if consumers == 2 { 40 } else { 32 };
    let consumer = ((launch * (consumers + 1) - producer) / consumers / 8 * 8).min(240);
    (consumer > launch).then_some(RolesRegisters { launch, producer, consumer })
}

/// Registers that a consumer of so many warpgroups can have.
fn most_registers(consumers: u32) -> u32 {
    match registers(consumers, u32::MAX) {
        Some(registers) => registers.consumer,
        None => (65_536 / ((consumers + 1) * WARPGROUP) / 8 * 8).min(248),
    }
}

impl Plan {
    /// Warpgroups that compute.
    pub(super) fn warpgroups(&self) -> u32 {
        self.consumers * self.groups
    }

    /// Threads of a block, and how many of them compute.
    pub(super) fn threads(&self) -> [u32; 2] {
        match self.split {
            Split::Warpgroups => [(self.warpgroups() + 1) * WARPGROUP, self.warpgroups() * WARPGROUP],
            Split::Threads(threads) => [threads + WARP, threads],
        }
    }

    /// Arrivals by which one block gives a slot back: one a warpgroup, or one a warp.
    pub(super) fn readers(&self) -> u32 {
        match self.split {
            Split::Warpgroups => self.consumers,
            Split::Threads(threads) => threads / WARP,
        }
    }

    /// What the producer loads: what fills slots, then the tiles that stay, then those that are loaded late.
    pub(in crate::lower) fn loads(&self) -> impl Iterator<Item = &Load> {
        self.rings.iter().flat_map(Ring::loads).chain(self.once.iter().flat_map(|once| &once.loads))
    }

    /// Whether an array is declared before the partitions diverge: all of what the producer loads, and what consumers have to themselves.
    pub(super) fn declares(&self, buffer: BufferId) -> bool {
        self.own.contains(&buffer) || self.loads().any(|load| load.buffer == buffer)
    }

    /// The loops that load.
    pub(super) fn loops(&self) -> Vec<StmtId> {
        self.rings.iter().map(|ring| ring.at.stmt).collect()
    }

    /// The ring of a loop.
    pub(super) fn ring(&self, stmt: StmtId) -> Option<&Ring> {
        self.rings.iter().find(|ring| ring.at.stmt == stmt)
    }

    /// The ring, where there is one alone.
    pub(super) fn only_ring(&self) -> Option<&Ring> {
        if let [ring] = &self.rings[..] { Some(ring) } else { None }
    }

    /// The channel of an array.
    pub(super) fn channel_of(&self, buffer: BufferId) -> Option<usize> {
        self.channels.iter().position(|channel| channel.buffers.contains(&buffer))
    }
}
