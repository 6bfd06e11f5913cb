//! C[M, N] = A[M, K] B[N, K]^T in bf16 as a specialised kernel for Hopper, by hand: a producer warp that fills a ring
//! through TMA, consumer warpgroups that multiply out of it, an epilogue through shared memory. Every part
//! of the protocol can be got wrong on purpose.

use super::build::Build;
use crate::ir::*;
use crate::lowered::*;

/// What is built.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Columns of a tile, a multiple of 64.
    pub bn: u32,
    /// Slots of the ring.
    pub stages: u32,
    /// Consumer warpgroups, of 64 rows each.
    pub consumers: u32,
    /// Blocks of a cluster, which share the columns of B.
    pub cluster: u32,
    /// Groups of products a consumer leaves unfinished.
    pub pending: u32,
    /// What is wrong with it.
    pub mistake: Mistake,
}

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Mistake {
    None,
    /// The producer expects this many bytes too many (or too few).
    Bytes(i64),
    /// The consumers wait for the other parity.
    FullParity,
    /// The producer waits for the other parity.
    EmptyParity,
    /// `empty` counts this many arrivals more (or fewer).
    Arrivals(i32),
    NoProxyFence,
    NoEmptyWait,
    NoWgmmaFence,
    /// The release does not wait for the products that read the slot.
    WaitCount,
    /// The products read the slot after the one that was waited for.
    SwappedSlot,
    /// The accumulator is stored before the last products are finished.
    NoLastWait,
    /// The staging buffer is filled while TMA may still read it.
    NoBulkWait,
    NoFenceInit,
    NoTailWait,
    /// The consumers take more registers than there are.
    Registers,
    /// The named barrier counts other threads.
    NamedCount,
}

pub const BK: u32 = 64;

impl Config {
    pub const SMALL: Config =
        Config { bn: 64, stages: 2, consumers: 1, cluster: 1, pending: 1, mistake: Mistake::None };

    /// Rows of a block's tile.
    pub fn bm(&self) -> u32 {
        64 * self.consumers
    }

    fn is(&self, mistake: Mistake) -> bool {
        self.mistake == mistake
    }

    /// `SWIZZLE_128B`, 1024 bytes from one group of 8 rows to the next.
    fn descriptor(b: &mut Build, shared: SharedId) -> ValueId {
        b.value(ValueKind::Descriptor { shared, bits: 1 << 62 | 64 << 32 | 1 << 16 }, ValueType::Wide)
    }

    /// The program. Its arguments are a[M, K], b[N, K], c[M, N]; M is a multiple of nothing in particular.
    pub fn build(self) -> Program {
        let Config { bn, stages, consumers, cluster, .. } = self;
        let bm = self.bm();
        let mut b = Build::threads(128 * (consumers + 1));
        let (ta, tb, tc) = (
            b.tensor("a", Dtype::Bf16, 2, false),
            b.tensor("b", Dtype::Bf16, 2, false),
            b.tensor("c", Dtype::Bf16, 2, true),
        );
        let a_map = b.map("a_map", ta, &[BK, bm], Swizzle::B128);
        let b_map = b.map("b_map", tb, &[BK, bn / cluster], Swizzle::B128);
        let c_map = b.map("c_map", tc, &[64, 64], Swizzle::B128);
        let a_s = b.swizzled("a_s", Dtype::Bf16, stages * bm * BK);
        let b_s = b.swizzled("b_s", Dtype::Bf16, stages * bn * BK);
        let c_s = b.swizzled("c_s", Dtype::Bf16, consumers * 64 * 64);
        let (full, empty) = (b.barriers("full", stages), b.barriers("empty", stages));
        b.program.launch.min_blocks = Some(1);
        b.program.launch.cluster = [cluster, 1, 1];
        let dims = |d: usize| HostExpr::Dim(DimId::new(d));
        let tiles = |d, by: u32| HostExpr::binary(BinaryOp::CeilDiv, dims(d), HostExpr::Int(by.into()));
        // Rows of cluster tiles times columns; one cluster each, up to what the device holds.
        let all = HostExpr::binary(BinaryOp::Mul, tiles(0, bm * cluster), tiles(2, bn));
        let blocks = HostExpr::binary(BinaryOp::Mul, all, HostExpr::Int(cluster.into()));
        b.program.launch.grid[0] = HostExpr::binary(BinaryOp::Min, blocks, HostExpr::Capacity);
        let launch = 65536 / (128 * (consumers + 1)) / 8 * 8;
        let consumer = if consumers == 1 { 232 } else { 232 - 72 * (consumers - 2) }
            + if self.is(Mistake::Registers) { 24 } else { 0 };
        b.program.launch.registers = Some(RolesRegisters { launch: launch.min(255) & !7, producer: 40, consumer });

        let (m, n, k) = (b.dim("A0"), b.dim("B0"), b.dim("A1"));
        let warp = b.special(Special::Warp);
        let zero = b.int(0);
        let first = b.equal(warp, zero);
        let elected = b.special(Special::Elected);
        let one_thread = b.binary(BinaryOp::And, first, elected);
        b.if_(one_thread, |b| {
            for map in [a_map, b_map, c_map] {
                b.op(OpKind::PrefetchMap { map });
            }
            let arrivals =
                (consumers * cluster) as i32 + if let Mistake::Arrivals(more) = self.mistake { more } else { 0 };
            for slot in 0..i64::from(stages) {
                let barrier = b.barrier_at(full, slot);
                b.op(OpKind::BarrierInit { barrier, arrivals: 1 });
                let barrier = b.barrier_at(empty, slot);
                b.op(OpKind::BarrierInit { barrier, arrivals: arrivals as u32 });
            }
            if !self.is(Mistake::NoFenceInit) {
                b.op(OpKind::FenceBarrierInit);
            }
        });
        if cluster > 1 {
            b.op(OpKind::ClusterBarrier { relaxed: true });
        }
        b.barrier();

        let constant = |b: &mut Build, name: &str, value| {
            let reg = b.let_(name, value);
            b.get(reg)
        };
        let (rows, columns, depth) = (b.int((bm * cluster).into()), b.int(bn.into()), b.int(BK.into()));
        let (m_tiles, n_tiles) = (b.binary(BinaryOp::CeilDiv, m, rows), b.binary(BinaryOp::CeilDiv, n, columns));
        let tiles = b.mul(m_tiles, n_tiles);
        let tiles = constant(&mut b, "tiles", tiles);
        let n_tiles = constant(&mut b, "n_tiles", n_tiles);
        let k_blocks = b.binary(BinaryOp::CeilDiv, k, depth);
        let k_blocks = constant(&mut b, "k_blocks", k_blocks);
        let (size, grid, block) = (b.int(cluster.into()), b.special(Special::Grid(0)), b.bx());
        let start = b.div(block, size);
        let start = constant(&mut b, "start", start);
        let step = b.div(grid, size);
        let step = constant(&mut b, "step", step);
        let rank = if cluster > 1 { b.special(Special::ClusterRank) } else { zero };
        let four = b.int(4);
        let group = b.div(warp, four);
        let group = constant(&mut b, "group", group);
        let producer = b.equal(group, zero);
        // Where a tile is: its first row for this block, and its first column.
        let place = |b: &mut Build, tile: RegId| {
            let tile = b.get(tile);
            let (row, column) = (b.div(tile, n_tiles), b.rem(tile, n_tiles));
            let (by, own) = (b.int((bm * cluster).into()), b.int(bm.into()));
            let (row, own) = (b.mul(row, by), b.mul(rank, own));
            let row = b.add(row, own);
            let by = b.int(bn.into());
            let column = b.mul(column, by);
            (constant(b, "row", row), constant(b, "column", column))
        };
        let ring = |b: &mut Build, name: &str, parity: i64| {
            let (slot, parity) = (b.int(0), b.int(parity));
            (b.let_(&format!("{name}_slot"), slot), b.let_(&format!("{name}_parity"), parity))
        };
        let advance = |b: &mut Build, slot: RegId, parity: RegId| {
            let (value, one, end) = (b.get(slot), b.int(1), b.int(stages.into()));
            let next = b.add(value, one);
            b.set(slot, next);
            let value = b.get(slot);
            let wraps = b.equal(value, end);
            b.if_(wraps, |b| {
                let zero = b.int(0);
                b.set(slot, zero);
                let (value, one) = (b.get(parity), b.int(1));
                let flipped = b.sub(one, value);
                b.set(parity, flipped);
            });
        };

        b.if_else(
            producer,
            |b| {
                b.op(OpKind::SetRegisters { count: 40, increase: false });
                b.if_(one_thread, |b| {
                    let (slot, parity) = ring(b, "fill", i64::from(!self.is(Mistake::EmptyParity)));
                    for_from(b, "tile", start, tiles, step, |b, tile| {
                        let (row, column) = place(b, tile);
                        for_from(b, "kb", zero, k_blocks, 1, |b, kb| {
                            let (at, phase) = (b.get(slot), b.get(parity));
                            if !self.is(Mistake::NoEmptyWait) {
                                b.op(OpKind::BarrierWait {
                                    barrier: BarrierRef { array: empty, index: at },
                                    parity: phase,
                                });
                            }
                            let more = if let Mistake::Bytes(more) = self.mistake { more } else { 0 };
                            let bytes = b.int(i64::from((bm + bn) * BK * 2) + more);
                            let barrier = BarrierRef { array: full, index: at };
                            b.op(OpKind::BarrierExpect { barrier, bytes });
                            let (kb, depth) = (b.get(kb), b.int(BK.into()));
                            let depth = b.mul(kb, depth);
                            let stage = b.int((bm * BK).into());
                            let offset = b.mul(at, stage);
                            b.op(OpKind::TensorLoad {
                                map: a_map,
                                coordinates: vec![depth, row],
                                shared: a_s,
                                offset,
                                barrier,
                                multicast: None,
                                evict: Some(Evict::Normal),
                            });
                            let stage = b.int((bn * BK).into());
                            let offset = b.mul(at, stage);
                            let (part, mine) = (b.int((bn / cluster * BK).into()), b.int((bn / cluster).into()));
                            let (part, mine) = (b.mul(rank, part), b.mul(rank, mine));
                            let (offset, from) = (b.add(offset, part), b.add(column, mine));
                            let multicast = (cluster > 1).then(|| b.int((1 << cluster) - 1));
                            b.op(OpKind::TensorLoad {
                                map: b_map,
                                coordinates: vec![depth, from],
                                shared: b_s,
                                offset,
                                barrier,
                                multicast,
                                evict: None,
                            });
                            advance(b, slot, parity);
                        });
                    });
                    if cluster > 1 && !self.is(Mistake::NoTailWait) {
                        let (zero, end) = (b.int(0), b.int(stages.into()));
                        for_from(b, "tail", zero, end, 1, |b, _| {
                            let (at, phase) = (b.get(slot), b.get(parity));
                            b.op(OpKind::BarrierWait {
                                barrier: BarrierRef { array: empty, index: at },
                                parity: phase,
                            });
                            advance(b, slot, parity);
                        });
                    }
                });
            },
            |b| {
                self.consumer(
                    b,
                    Places { a_s, b_s, c_s, c_map, full, empty, group, start, tiles, step, k_blocks },
                    place,
                    ring,
                    advance,
                )
            },
        );
        b.finish()
    }

    fn consumer(
        &self,
        b: &mut Build,
        p: Places,
        place: impl Fn(&mut Build, RegId) -> (ValueId, ValueId),
        ring: impl Fn(&mut Build, &str, i64) -> (RegId, RegId),
        advance: impl Fn(&mut Build, RegId, RegId),
    ) {
        let Config { bn, stages, consumers, cluster, pending, .. } = *self;
        let count = b.program.launch.registers.expect("roles").consumer;
        b.op(OpKind::SetRegisters { count, increase: true });
        let acc = b.local("acc", Dtype::F32, bn / 2);
        let (slot, parity) = ring(b, "use", i64::from(self.is(Mistake::FullParity)));
        let zero = b.int(0);
        let before = b.let_("before", zero);
        let one = b.int(1);
        let own = b.sub(p.group, one);
        let own = b.let_("own", own);
        let wide = ValueType::Wide;
        let release = |b: &mut Build, slot: ValueId| {
            let (tx, threads) = (b.tx(), b.int(128));
            let thread = b.rem(tx, threads);
            let last = b.int(cluster.into());
            let releases = b.less(thread, last);
            b.if_(releases, |b| {
                let cta = (cluster > 1).then_some(thread);
                b.op(OpKind::BarrierArrive { barrier: BarrierRef { array: p.empty, index: slot }, cta });
            });
        };
        for_from(b, "tile", p.start, p.tiles, p.step, |b, tile| {
            let (row, column) = place(b, tile);
            let zero = b.int(0);
            for_from(b, "kb", zero, p.k_blocks, 1, |b, kb| {
                let (at, phase) = (b.get(slot), b.get(parity));
                b.op(OpKind::BarrierWait { barrier: BarrierRef { array: p.full, index: at }, parity: phase });
                b.op(OpKind::Pin { local: acc });
                if !self.is(Mistake::NoWgmmaFence) {
                    b.op(OpKind::WgmmaFence);
                }
                let used = if self.is(Mistake::SwappedSlot) {
                    let (one, all) = (b.int(1), b.int(stages.into()));
                    let next = b.add(at, one);
                    b.rem(next, all)
                } else {
                    at
                };
                for kk in 0..i64::from(BK / 16) {
                    let operand = |b: &mut Build, shared, stage: u32, own: Option<ValueId>| {
                        let base = Config::descriptor(b, shared);
                        let stage = b.int((stage * BK * 2 / 16).into());
                        let mut offset = b.mul(used, stage);
                        if let Some(own) = own {
                            offset = b.add(offset, own);
                        }
                        let step = b.int(2 * kk);
                        let offset = b.add(offset, step);
                        let offset = b.cast(offset, wide);
                        b.add(base, offset)
                    };
                    let (index, rows) = (b.get(own), b.int(64 * 128 / 16));
                    let rows = b.mul(index, rows);
                    let a = operand(b, p.a_s, self.bm(), Some(rows));
                    let right = operand(b, p.b_s, bn, None);
                    let accumulate = if kk == 0 {
                        let (kb, zero) = (b.get(kb), b.int(0));
                        b.binary(BinaryOp::Gt, kb, zero)
                    } else {
                        b.bool(true)
                    };
                    let start = b.int(0);
                    b.op(OpKind::Wgmma {
                        acc,
                        start,
                        n: bn,
                        rows: 64,
                        dtype: Dtype::Bf16,
                        a: WgmmaOperand::Descriptor(a),
                        b: right,
                        accumulate,
                        transposed: [false, false],
                    });
                }
                b.op(OpKind::WgmmaCommit);
                b.op(OpKind::Pin { local: acc });
                b.op(OpKind::WgmmaWait { pending: pending + u32::from(self.is(Mistake::WaitCount)) });
                if pending == 0 {
                    release(b, at);
                } else {
                    let (kb, zero) = (b.get(kb), b.int(0));
                    let later = b.binary(BinaryOp::Gt, kb, zero);
                    b.if_(later, |b| {
                        let before = b.get(before);
                        release(b, before);
                    });
                    let at = b.get(slot);
                    b.set(before, at);
                }
                advance(b, slot, parity);
            });
            if !self.is(Mistake::NoLastWait) {
                b.op(OpKind::WgmmaWait { pending: 0 });
            }
            if pending > 0 {
                let before = b.get(before);
                release(b, before);
            }
            b.op(OpKind::Pin { local: acc });
            self.epilogue(b, &p, acc, own, (row, column));
        });
        let (tx, threads, zero) = (b.tx(), b.int(128), b.int(0));
        let thread = b.rem(tx, threads);
        let first = b.equal(thread, zero);
        b.if_(first, |b| b.op(OpKind::BulkWait { pending: 0, read: false }));
        let _ = consumers;
    }

    /// The accumulator in parts of 64 columns: rounded, into the staging buffer, to the tensor.
    fn epilogue(&self, b: &mut Build, p: &Places, acc: LocalId, own: RegId, (row, column): (ValueId, ValueId)) {
        let (tx, threads, zero) = (b.tx(), b.int(128), b.int(0));
        let thread = b.rem(tx, threads);
        let first = b.equal(thread, zero);
        let barrier = |b: &mut Build| {
            for id in 0..self.consumers {
                let (index, which) = (b.get(own), b.int(id.into()));
                let mine = b.equal(index, which);
                let threads = if self.is(Mistake::NamedCount) { 160 } else { 128 };
                b.if_(mine, |b| b.op(OpKind::NamedBarrier { id: id + 1, threads, arrive: false }));
            }
        };
        let index = b.get(own);
        let part = b.int(64 * 64);
        let staging = b.mul(index, part);
        let words = b.local("words", Dtype::U32, 4);
        for j in 0..self.bn / 64 {
            if !self.is(Mistake::NoBulkWait) {
                b.if_(first, |b| b.op(OpKind::BulkWait { pending: 0, read: true }));
            }
            barrier(b);
            for i in 0..4 {
                for word in 0..4 {
                    let at = |b: &mut Build, half: u32| {
                        let offset = b.int((j * 32 + i * 8 + word * 2 + half).into());
                        b.load(Space::Local(acc), offset)
                    };
                    let (low, high) = (at(b, 0), at(b, 1));
                    let packed = ValueType::Element(Dtype::U32);
                    let value = b.value(ValueKind::Pack(Dtype::Bf16, low, high), packed);
                    let offset = b.int(word.into());
                    b.store(Space::Local(words), offset, value);
                }
                // Lanes 0 to 15 give rows 0 to 15 of the first 8 columns, the others of the next 8.
                let (lane, warp) = (b.special(Special::Lane), b.special(Special::Warp));
                let (half, four, sixteen) = (b.int(16), b.int(4), b.int(16));
                let (low, high) = (b.rem(lane, half), b.div(lane, half));
                let warp = b.rem(warp, four);
                let warp = b.mul(warp, sixteen);
                let line = b.add(warp, low);
                let (first_chunk, eight, eight_again) = (b.int((2 * i).into()), b.int(8), b.int(8));
                let chunk = b.add(first_chunk, high);
                let swizzle = b.rem(line, eight);
                let u32 = ValueType::Element(Dtype::U32);
                let (chunk, swizzle) = (b.cast(chunk, u32), b.cast(swizzle, u32));
                let chunk = b.binary(BinaryOp::BitXor, chunk, swizzle);
                let chunk = b.cast(chunk, ValueType::Index);
                let pitch = b.int(64);
                let (line, chunk) = (b.mul(line, pitch), b.mul(chunk, eight_again));
                let offset = b.add(line, chunk);
                let offset = b.add(staging, offset);
                let memory = b.at(Space::Shared(p.c_s), offset);
                let start = b.int(0);
                b.op(OpKind::StoreMatrix { memory, local: words, start, count: 4, transposed: false });
            }
            if !self.is(Mistake::NoProxyFence) {
                b.op(OpKind::FenceProxyAsync);
            }
            barrier(b);
            b.if_(first, |b| {
                let (rows, index) = (b.int(64), b.get(own));
                let rows = b.mul(rows, index);
                let (columns, row) = (b.int((j * 64).into()), b.add(row, rows));
                let column = b.add(column, columns);
                b.op(OpKind::TensorStore {
                    map: p.c_map,
                    coordinates: vec![column, row],
                    shared: p.c_s,
                    offset: staging,
                    adds: false,
                    evict: None,
                });
                b.op(OpKind::BulkCommit);
            });
        }
    }
}

/// What the roles share.
struct Places {
    a_s: SharedId,
    b_s: SharedId,
    c_s: SharedId,
    c_map: MapId,
    full: BarrierId,
    empty: BarrierId,
    group: ValueId,
    start: ValueId,
    tiles: ValueId,
    step: ValueId,
    k_blocks: ValueId,
}

/// `for name in start..end step`, where the step is a number or a value.
fn for_from(
    b: &mut Build,
    name: &str,
    start: ValueId,
    end: ValueId,
    step: impl Into<Step>,
    body: impl FnOnce(&mut Build, RegId),
) {
    let step = match step.into() {
        Step::Number(number) => b.int(number),
        Step::Value(value) => value,
    };
    b.for_between(name, [start, end, step], body);
}

enum Step {
    Number(i64),
    Value(ValueId),
}

impl From<i64> for Step {
    fn from(number: i64) -> Step {
        Step::Number(number)
    }
}

impl From<ValueId> for Step {
    fn from(value: ValueId) -> Step {
        Step::Value(value)
    }
}
