//! What qualifies for specialisation (`search`), and what it is given: layouts of the slots and what fills them (`load`),
//! warpgroups, registers.

mod load;
mod search;

pub(super) use load::Load;

use super::super::infer::Layouts;
use super::super::uses::{accesses, depends_on, each};
use super::operand::Left;
use super::resident::Resident;
use crate::analysis::Analysis;
use crate::ir::*;
use crate::layout::{Fragment, LayoutError, Major, MmaInput, Operand, WarpGrid, WgmmaOperand as MatrixOperand};
use crate::lowered::RolesRegisters;
use std::collections::{BTreeMap, BTreeSet};

/// Threads of a warpgroup.
pub(crate) const WARPGROUP: u32 = 128;
/// Rows of one product of a warpgroup.
pub(crate) const BLOCK_ROWS: u32 = 64;
/// Elements of a tile from which on one warpgroup alone is too slow to store it: 128 x 128 (`docs/hopper.md`, "Rates that constants
/// were fitted to").
const TURNS_FROM: u32 = 128 * 128;
/// Most f32 of accumulators a thread may hold beside what else it needs of 232 registers.
const MOST_ACCUMULATORS: u32 = 192;

/// How a kernel is specialised.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The pipelined loop whose loads the producer issues.
    pub(super) ring: StmtId,
    /// Slots of the ring.
    pub(super) stages: u32,
    /// What fills a slot, in order.
    pub(super) loads: Vec<Load>,
    /// Resident tiles: loaded once, they stay through all iterations.
    pub(super) residents: Vec<Resident>,
    /// Arrays that fragments are loaded from: threads read them, not only tensor cores.
    pub(super) unpacked: BTreeSet<BufferId>,
    /// The tile products of the loop.
    pub(super) products: BTreeMap<StmtId, Product>,
    /// Warpgroups that compute a tile together.
    pub(super) consumers: u32,
    /// Tiles that are computed at once, each by its own warpgroups: 2 with ping-pong, so that one stores while the other
    /// multiplies; else 1.
    pub(super) groups: u32,
    /// How registers are shared out; none where the launch gives everyone enough.
    pub(super) registers: Option<RolesRegisters>,
    /// Fills with zero of accumulators that the first products overwrite instead.
    pub(super) folded: BTreeMap<StmtId, BufferId>,
    /// Layouts of fragments and slots.
    pub(in super::super) layouts: Layouts,
}

/// One tile product of the consumers.
#[derive(Clone, Debug)]
pub(super) struct Product {
    pub(super) a: (BufferId, Left),
    pub(super) b: (BufferId, MatrixOperand),
    pub(super) acc: BufferId,
    pub(super) dtype: Dtype,
    /// 64-row blocks a warpgroup has.
    pub(super) blocks: u32,
    /// Columns of an instruction.
    pub(super) n: u32,
    /// Rows of an instruction that are the tile's: 64, or all of a narrow tile's.
    pub(super) rows: u32,
    pub(super) clear: bool,
}

/// Why a kernel is not specialised, and where.
#[derive(Clone, Debug)]
pub(crate) struct Reason {
    pub(crate) text: String,
    pub(crate) span: SpanId,
}

/// The plan for a bound kernel on a target with `wgmma` and TMA, or why there is none.
pub(crate) fn plan(kernel: &BoundKernel, analysis: &Analysis, target: Target) -> Result<Plan, Reason> {
    let ring = search::ring(kernel)?;
    Planner { kernel, analysis, target, ring, cluster: cluster(kernel) }.plan()
}

/// Blocks of a cluster along x, y and z.
fn cluster(kernel: &BoundKernel) -> [u32; 3] {
    let axis = |axis: usize| {
        let extent = kernel.cluster.get(axis).and_then(|e| kernel.const_index(*e));
        extent.and_then(|n| u32::try_from(n).ok()).unwrap_or(1)
    };
    [axis(0), axis(1), axis(2)]
}

pub(super) struct Planner<'k> {
    pub(super) kernel: &'k BoundKernel,
    analysis: &'k Analysis,
    target: Target,
    pub(super) ring: StmtId,
    cluster: [u32; 3],
}

impl Planner<'_> {
    fn plan(&self) -> Result<Plan, Reason> {
        let kernel = self.kernel;
        let span = kernel.stmts[self.ring].span;
        let StmtKind::For { var, start, end, step, kind: LoopKind::Pipelined { stages, schedule }, body } =
            &kernel.stmts[self.ring].kind
        else {
            return Err(Reason { text: "its pipelined loop is none".into(), span });
        };
        if self.analysis.wide_vars.contains(var) {
            return Err(Reason { text: "its pipelined loop counts in 64 bits".into(), span });
        }
        let stages = kernel.const_index(*stages).and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
        let threads = kernel.thread_count();
        if !threads.is_multiple_of(WARPGROUP) || threads == 0 {
            let text = format!("its {threads} threads are not whole warpgroups of {WARPGROUP}");
            return Err(Reason { text, span });
        }
        let consumers = threads / WARPGROUP;
        let groups = match schedule {
            Schedule::Cooperative => 1,
            Schedule::PingPong => self.turns(consumers, [*start, *end, *step], span)?,
            // Ping-pong where one warpgroup has a tile so large that storing it takes a while.
            Schedule::Auto if self.largest_fragment() >= TURNS_FROM => {
                self.turns(consumers, [*start, *end, *step], span).unwrap_or(1)
            }
            Schedule::Auto => 1,
        };
        let mut products = BTreeMap::new();
        let mut operands: BTreeMap<BufferId, Operand> = BTreeMap::new();
        let mut fragments: BTreeMap<BufferId, Fragment> = BTreeMap::new();
        let mut found = Ok(());
        each(kernel, body, &mut |stmt| {
            if found.is_ok() && matches!(kernel.stmts[stmt].kind, StmtKind::Tile(TileOp::Gemm { .. })) {
                found = self.product(stmt, consumers, &mut operands, &mut fragments).map(|product| {
                    products.insert(stmt, product);
                });
            }
        });
        found?;
        if products.is_empty() {
            return Err(Reason { text: "its pipelined loop has no `gemm`".into(), span });
        }
        let unpacked = self.loaded_fragments(&mut operands)?;
        let mut loads = Vec::new();
        for &stmt in body {
            if let StmtKind::Tile(TileOp::Copy { src, dst, tma, evict, .. }) = &kernel.stmts[stmt].kind
                && let (Place::Tensor(tensor), Place::Buffer(buffer)) = (src.place, dst.place)
                && kernel.buffers[buffer].scope == Scope::Shared
            {
                let evict = evict.as_ref().and_then(Eviction::hint);
                loads.push(self.load(stmt, tensor, buffer, src, *tma, evict, &operands)?);
            }
        }
        let filled: Vec<BufferId> = loads.iter().map(|load| load.buffer).collect();
        let residents = self.residents(&filled, &operands)?;
        if let Some(stray) =
            operands.keys().find(|b| !filled.contains(b) && !residents.iter().any(|r| r.load.buffer == **b))
        {
            return Err(Reason { text: format!("nothing loads `{}`", kernel.buffers[*stray].name), span });
        }
        let mut layouts = self.fragments(consumers, fragments, span)?;
        let held = self.held(&layouts);
        if held > MOST_ACCUMULATORS {
            let text = format!("its fragments take {held} registers a thread, of {MOST_ACCUMULATORS} at most");
            return Err(Reason { text, span });
        }
        layouts.shared = operands.iter().map(|(buffer, operand)| (*buffer, operand.tile)).collect();
        self.fits(&layouts, stages, &filled, consumers * groups, span)?;
        let registers = registers(consumers * groups, held);
        let mut folded = BTreeMap::new();
        self.fold(&kernel.body, &products, &mut folded);
        Ok(Plan {
            ring: self.ring,
            stages,
            loads,
            residents,
            unpacked,
            products,
            consumers,
            groups,
            registers,
            folded,
            layouts,
        })
    }

    fn largest_fragment(&self) -> u32 {
        let fragments = self.kernel.buffers.iter().filter(|(_, b)| b.scope == Scope::Fragment);
        fragments.map(|(buffer, _)| self.kernel.buffer_len(buffer) as u32).max().unwrap_or(0)
    }

    /// Tiles at once with ping-pong, 2, or why it is impossible: it needs a `persistent` loop over tiles whose pipelined loops
    /// are equally long, and one warpgroup a tile.
    fn turns(&self, consumers: u32, bounds: [ExprId; 3], span: SpanId) -> Result<u32, Reason> {
        let kernel = self.kernel;
        let no = |text: &str| Err(Reason { text: text.to_owned(), span });
        let persistent = kernel.persistent().map(|tiles| (tiles.vars, tiles.contiguous));
        let meets =
            |s: &Stmt| matches!(s.kind, StmtKind::LastArriver { .. } | StmtKind::Tile(TileOp::ClusterReduce { .. }));
        if kernel.stmts.values().any(meets) {
            return no(
                "ping-pong has no moment at which all that compute are at one tile, which other blocks wait for",
            );
        }
        match persistent {
            _ if !self.resident_copies().is_empty() => {
                no("ping-pong has no slots for tiles that stay in shared memory")
            }
            _ if self.spilled() > 0 => no("ping-pong has no barrier for a reduction over the rows of a tile"),
            None => no("ping-pong takes turns over the tiles of a `persistent` loop, and there is none"),
            Some((_, true)) => no("ping-pong takes tiles in turn, not contiguous ones"),
            Some(_) if consumers != 1 => no("ping-pong has one warpgroup of 128 threads a tile"),
            Some((vars, _)) if bounds.iter().any(|e| depends_on(kernel, *e, vars)) => {
                no("ping-pong needs pipelined loops of one length for all tiles")
            }
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
        let no = |text: String| Reason { text, span };
        let StmtKind::Tile(TileOp::Gemm { a, b, acc, clear, precision, grouped, .. }) = &kernel.stmts[stmt].kind else {
            return Err(no("a product that is none".into()));
        };
        if *grouped {
            return Err(no("a warpgroup multiplies one matrix: a grouped product is the warps'".into()));
        }
        let (rows, cols) = match kernel.buffer_extents(*acc)[..] {
            [rows, cols] => (rows, cols),
            _ => return Err(no("its accumulator is not a matrix".into())),
        };
        let dtype = kernel.buffer_dtype(a.buffer);
        match (MmaInput::of(dtype), precision) {
            (Some(MmaInput::Half), _) | (Some(MmaInput::Tf32), Precision::Tf32) => {}
            (Some(MmaInput::Tf32), Precision::Full) => return Err(no("wgmma multiplies f32 only as tf32".into())),
            (None, _) => return Err(no(format!("wgmma multiplies f16 and bf16 here, not {dtype}"))),
        }
        let fragment = accumulator(rows, cols, consumers).map_err(|e| no(e.to_string()))?;
        if !fragment.is_whole() && a.transposed {
            return Err(no(format!("the rows of a tile of {rows} are contiguous: wgmma reads 64 of them")));
        }
        if *fragments.entry(*acc).or_insert(fragment) != fragment {
            return Err(no("two products want their accumulator in different layouts".into()));
        }
        let mut operand = |matrix: &MatrixRef, k_is_last: bool| -> Result<MatrixOperand, Reason> {
            let scope = kernel.buffers[matrix.buffer].scope;
            if scope != Scope::Shared {
                return Err(no("an operand is neither in shared memory nor a fragment".into()));
            }
            let major = if k_is_last { Major::K } else { Major::Mn };
            let tile = self.tile(matrix.buffer).map_err(no)?;
            let operand = Operand { tile, major };
            if *operands.entry(matrix.buffer).or_insert(operand) != operand {
                return Err(no("an operand is used both as it is and transposed".into()));
            }
            operand.wgmma().map_err(|e| no(e.to_string()))
        };
        let left = match kernel.buffers[a.buffer].scope {
            Scope::Fragment => {
                let layout = self.left_fragment(a, consumers).map_err(no)?;
                if *fragments.entry(a.buffer).or_insert(layout) != layout {
                    return Err(no("a fragment is multiplied in different layouts".into()));
                }
                Left::Registers
            }
            Scope::Shared | Scope::Local => Left::Shared(operand(a, !a.transposed)?),
        };
        let right = operand(b, b.transposed)?;
        let blocks = (rows / consumers / BLOCK_ROWS).max(1);
        let rows = rows.min(BLOCK_ROWS);
        Ok(Product {
            a: (a.buffer, left),
            b: (b.buffer, right),
            acc: *acc,
            dtype,
            blocks,
            n: cols,
            rows,
            clear: *clear,
        })
    }

    /// Finds fills with zero that stand right before the ring, with nothing between them that mentions the fragment:
    /// the first product of the loop overwrites the accumulator instead of adding to it.
    fn fold(&self, body: &[StmtId], products: &BTreeMap<StmtId, Product>, folded: &mut BTreeMap<StmtId, BufferId>) {
        let kernel = self.kernel;
        let mut zeroed: BTreeMap<BufferId, StmtId> = BTreeMap::new();
        for &stmt in body {
            let kind = &kernel.stmts[stmt].kind;
            if stmt == self.ring {
                let accumulators = products.values().map(|product| product.acc);
                let accumulators = accumulators.filter(|acc| self.begins_with_product(*acc));
                folded.extend(accumulators.filter_map(|acc| Some((*zeroed.get(&acc)?, acc))));
                return;
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

    /// Whether the first statement of the ring that mentions an accumulator is a product into it.
    fn begins_with_product(&self, acc: BufferId) -> bool {
        let kernel = self.kernel;
        let StmtKind::For { body, .. } = &kernel.stmts[self.ring].kind else { return false };
        let first = body.iter().find(|stmt| mentions(kernel, **stmt, acc));
        first.is_some_and(
            |stmt| matches!(kernel.stmts[*stmt].kind, StmtKind::Tile(TileOp::Gemm { acc: of, .. }) if of == acc),
        )
    }

    /// Whether reductions through shared memory leave room for the slots.
    fn fits(
        &self,
        layouts: &Layouts,
        stages: u32,
        filled: &[BufferId],
        warpgroups: u32,
        span: SpanId,
    ) -> Result<(), Reason> {
        let spilled = self.spilled();
        let slots = |buffer| if filled.contains(buffer) { stages } else { 1 };
        let tiles: u64 = layouts.shared.iter().map(|(b, tile)| u64::from(tile.bytes()) * u64::from(slots(b))).sum();
        // Two staging buffers a warpgroup, and what alignment and barriers take.
        let others = u64::from(warpgroups) * 2 * 64 * 128 + 2048;
        let most = u64::from(self.target.max_shared_bytes());
        if spilled == 0 || tiles + spilled + others <= most {
            return Ok(());
        }
        let text = format!(
            "its reductions over rows take {spilled} bytes of shared memory beside {tiles} of tiles, of {most}"
        );
        Err(Reason { text, span })
    }
}

/// Whether a statement, or one in it, reads or writes a buffer.
fn mentions(kernel: &BoundKernel, stmt: StmtId, buffer: BufferId) -> bool {
    let place = Place::Buffer(buffer);
    let mut found = accesses(kernel, &[stmt]).iter().any(|access| kernel.accesses[*access].place == place);
    each(kernel, &[stmt], &mut |s| {
        let touched = effects(kernel, s);
        found |=
            touched.iter().any(|e| matches!(e, Effect::Read(p) | Effect::Write(p) | Effect::Atomic(p) if *p == place));
    });
    found
}

/// The layout of a tile in the consumers' registers: a warpgroup has whole rows, and the columns of one instruction are at
/// most 256. A tile of fewer rows than an instruction's is narrow.
pub(super) fn accumulator(rows: u32, cols: u32, consumers: u32) -> Result<Fragment, LayoutError> {
    if rows < BLOCK_ROWS && consumers == 1 {
        return Fragment::wgmma_narrow(rows, cols);
    }
    Fragment::wgmma_accumulator(rows, cols, WarpGrid { rows: consumers, cols: 1 })
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

impl Plan {
    /// Warpgroups that compute.
    pub(super) fn warpgroups(&self) -> u32 {
        self.consumers * self.groups
    }
}
