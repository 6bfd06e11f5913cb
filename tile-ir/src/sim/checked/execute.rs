//! One warp, some instructions.

use super::access::Running;
use super::bytecode::{Instr, Slot};
use super::findings::index_text;
use super::lanes::{self, Lanes, each, float, from_float, holds, map1, map2};
use super::report::Who;
use super::schedule::Machine;
use super::warp::{Block, Frame, Meeting, PROXY_FENCES, State, Wait};
use super::{Print, warp::Warp};
use crate::ir::{BinaryOp, EntityRef, ShuffleKind, SpanId, Trigger, VoteKind};
use crate::lowered::{GuardReason, ValueType};
use crate::sim::hw::matrix::movmatrix;
use crate::sim::numeric;

/// Lanes of a warp.
const LANES: i64 = 32;

/// What a warp asks of its block.
pub(super) enum Asked {
    Named { id: u32, threads: u32, arrive: bool },
    Registers { count: u32 },
}

impl Machine<'_> {
    /// Runs a warp until it waits or ends, for at most `quantum` instructions.
    pub(super) fn run_warp(&mut self, block: &mut Block, warp: usize, quantum: u32) {
        let who = Who::of(block.index, block.linear, &block.warps[warp]);
        let mut run = Running { warp: &mut block.warps[warp], shared: &mut block.shared, who };
        for _ in 0..quantum {
            self.counters.steps += 1;
            self.step(&mut run);
            // What reaches beyond the warp happens once it is out of the way.
            if run.warp.state != State::Runnable || self.asked.is_some() || !self.outbox.is_empty() {
                break;
            }
        }
        match self.asked.take() {
            None => {}
            Some(Asked::Named { id, threads, arrive }) => self.named_barrier(block, warp, id, threads, arrive),
            Some(Asked::Registers { count }) => {
                let enough = Self::has_registers(block, warp, count, self.launch.registers);
                let warp = &mut block.warps[warp];
                if enough {
                    warp.registers = count;
                } else {
                    warp.pc -= 1;
                    warp.state = State::Waiting(Wait::Registers { count });
                }
            }
        }
    }

    fn step(&mut self, run: &mut Running<'_>) {
        let code = self.code;
        let (pc, active) = (run.warp.pc as usize, run.warp.active);
        run.warp.pc += 1;
        let slots = &mut run.warp.slots;
        match code.instrs[pc] {
            Instr::IndexBinary { op, wide, quiet, dst, a, b } => {
                if let Some(lane) = index_binary(slots, active, op, wide, [dst, a, b])
                    && !quiet
                {
                    self.report_index(run, code.spans[pc], lane, op, wide, [a, b]);
                }
            }
            Instr::IndexCompare { op, dst, a, b } => {
                map2(slots, active, dst, a, b, |x, y| i64::from(numeric::compare(op, x, y)));
            }
            Instr::FloatBinary { op, dtype, dst, a, b } => lanes::float_binary(slots, active, op, dtype, [dst, a, b]),
            Instr::FloatCompare { op, dst, a, b } => {
                map2(slots, active, dst, a, b, |x, y| i64::from(numeric::compare(op, float(x), float(y))));
            }
            Instr::IntBinary { op, dtype, dst, a, b } => {
                let divides = matches!(op, BinaryOp::Div | BinaryOp::Rem | BinaryOp::CeilDiv);
                let zero = if divides { active & !holds(slots, active, b) } else { 0 };
                if zero != 0 {
                    let lane = zero.trailing_zeros() as usize;
                    let text = format!("division by zero: {} {} 0", slots[a as usize][lane] as u32 as i32, op.symbol());
                    self.bad_index(run.who, code.spans[pc], lane, text);
                }
                map2(&mut run.warp.slots, active, dst, a, b, |x, y| {
                    i64::from(numeric::int_binary(op, dtype, x as u32, y as u32).unwrap_or(0))
                });
            }
            Instr::IntCompare { op, dtype, dst, a, b } => {
                map2(slots, active, dst, a, b, |x, y| i64::from(numeric::int_compare(op, dtype, x as u32, y as u32)));
            }
            Instr::Unary { op, dtype, dst, a } => map1(slots, active, dst, a, |x| lanes::unary(op, dtype, x)),
            Instr::Math { function, dtype, dst, args } => {
                let [a, b, c] = args.map(|slot| slots[slot as usize]);
                let dst = &mut slots[dst as usize];
                if dtype.is_float() {
                    each(active, |i| {
                        dst[i] =
                            from_float(numeric::float_math(function, dtype, float(a[i]), float(b[i]), float(c[i])));
                    });
                } else {
                    each(active, |i| {
                        dst[i] = i64::from(numeric::int_math(function, dtype, a[i] as u32, b[i] as u32, c[i] as u32));
                    });
                }
            }
            Instr::Select { dst, cond, a, b } => {
                let (cond, a, b) = (slots[cond as usize], slots[a as usize], slots[b as usize]);
                let dst = &mut slots[dst as usize];
                each(active, |i| dst[i] = if cond[i] != 0 { a[i] } else { b[i] });
            }
            Instr::Cast { from, to, quiet, dst, a } => {
                map1(slots, active, dst, a, |x| lanes::cast(from, to, x));
                if !quiet && matches!(to, ValueType::Index | ValueType::Wide) {
                    self.check_cast(run, code.spans[pc], from, to, [dst, a]);
                }
            }
            Instr::Copy { dst, src } => map1(slots, active, dst, src, |x| x),
            Instr::CheckReg { reg } => {
                let missing = active & !run.warp.init[reg.index()];
                if missing != 0 {
                    let lane = missing.trailing_zeros() as usize;
                    self.uninitialised_register(run.who, code.spans[pc], reg, lane);
                    // Reported once; the lanes go on with what is there.
                    run.warp.init[reg.index()] |= missing;
                }
            }
            Instr::Assign { reg, src } => {
                let value = slots[src as usize];
                run.warp.set(reg.index(), active, &value);
            }
            Instr::Declare { reg } => {
                run.warp.init[reg.index()] &= !active;
                each(active, |i| run.warp.slots[reg.index()][i] = 0);
            }
            Instr::DeclareLocal { local } => {
                let memory = &mut run.warp.locals[local as usize];
                for (data, init) in memory.data.iter_mut().zip(&mut memory.init) {
                    *init &= !active;
                    each(active, |i| data[i] = 0);
                }
            }
            Instr::Elements { begins } => run.warp.elements(begins),
            Instr::Element { number } => {
                let lane = active.trailing_zeros() as usize % 32;
                let number = number.map(|slot| run.warp.slots[slot as usize][lane]);
                run.warp.element(number);
            }
            Instr::DeclareShared { shared } => run.warp.generations[shared.index()] += 1,

            Instr::Load { site, offset, dst } => self.load(run, site, offset, dst),
            Instr::Store { site, offset, value } => self.store(run, site, offset, value),
            Instr::VectorLoad { site, offset, local, start } => self.vector_load(run, site, offset, local, start),
            Instr::VectorStore { site, offset, local, start } => self.vector_store(run, site, offset, local, start),
            Instr::VectorZero { site, local, start } => self.vector_zero(run, site, local, start),
            Instr::Atomic { op, ordered, site, offset, value, old } => {
                self.atomic(run, (op, ordered), site, [offset, value, old]);
            }
            Instr::AsyncCopy { to, from } => self.async_copy(run, to, from),
            Instr::AsyncCommit => self.async_commit(run.warp),
            Instr::AsyncWait { pending } => self.async_wait(run, pending),
            Instr::AsyncArrive { at } => self.async_arrive(run, at, code.spans[pc]),
            Instr::GuardFired { site, offset, below } => self.guard_fired_at(run, site, offset, below),

            Instr::If { cond, target } => {
                let taken = holds(slots, active, cond);
                run.warp.branch(taken, target);
            }
            Instr::Guard { cond, site, target } => {
                let taken = holds(slots, active, cond);
                self.counters.guards_evaluated += u64::from(active.count_ones());
                if code.sites[site as usize].guard == Some(GuardReason::Masked) {
                    self.counters.guards_masked += u64::from((active & !taken).count_ones());
                }
                run.warp.branch(taken, target);
            }
            Instr::Else { end } => {
                run.warp.active = match run.warp.stack.last_mut() {
                    Some(frame) => std::mem::take(&mut frame.pending),
                    None => 0,
                };
                if run.warp.active == 0 {
                    run.warp.pc = end;
                }
            }
            Instr::EndIf | Instr::LoopExit => {
                if let Some(frame) = run.warp.stack.pop() {
                    run.warp.active = frame.saved;
                }
            }
            Instr::LoopEnter { step } => {
                let mut endless = 0u32;
                let steps = &slots[step as usize];
                each(active, |i| endless |= u32::from(steps[i] < 1) << i);
                run.warp.stack.push(Frame { saved: active, pending: 0 });
                if endless != 0 {
                    let step = steps[endless.trailing_zeros() as usize];
                    self.stuck(run.who, code.spans[pc], format!("the loop never ends: its step is {step}"));
                    // Those lanes skip it.
                    run.warp.active &= !endless;
                }
            }
            Instr::LoopTest { index, end, exit } => {
                let (index, end) = (&slots[index.index()], &slots[end as usize]);
                let mut inside = 0u32;
                each(active, |i| inside |= u32::from(index[i] < end[i]) << i);
                run.warp.active = inside;
                if inside == 0 {
                    run.warp.pc = exit;
                }
            }
            Instr::LoopNext { index, step, wide, test } => {
                let reg = index.as_u32();
                run.warp.pc = test;
                if let Some(lane) = index_binary(slots, active, BinaryOp::Add, wide, [reg, reg, step]) {
                    let at = run.warp.slots[reg as usize][lane];
                    self.bad_index(
                        run.who,
                        code.spans[pc],
                        lane,
                        format!("the loop's index overflows: {at} is beyond its range"),
                    );
                }
            }
            Instr::End => {
                let never = run.warp.full & !run.warp.waited;
                if self.program.launch.dependent.is_some() && never != 0 {
                    self.never_waited(run.who, code.spans[pc], never.trailing_zeros() as usize);
                }
                run.warp.pc -= 1;
                run.warp.state = State::Done;
                self.end_of_flight(run);
                self.end_of_stores(run, code.spans[pc]);
                self.end_of_products(run, code.spans[pc]);
            }

            Instr::Elected { dst } => {
                self.collective(run, code.spans[pc], "election");
                let first = active.trailing_zeros() as usize;
                each(active, |i| run.warp.slots[dst as usize][i] = i64::from(i == first));
            }
            Instr::Pack { dtype, dst, low, high } => {
                map2(slots, active, dst, low, high, |a, b| Self::pack(dtype, a, b))
            }
            Instr::Unpack { dtype, dst, word, high } => {
                map1(slots, active, dst, word, |x| Self::unpack(dtype, x, high))
            }
            Instr::Matrices { site, offset, part, count, transposed } => {
                self.matrices(run, (site, offset), part, count, transposed, code.spans[pc]);
            }
            Instr::Mma { product } => self.warp_product(run, product, code.spans[pc]),
            Instr::WgmmaFence => {
                self.collective(run, code.spans[pc], "`wgmma` fence");
                run.warp.fences += 1;
            }
            Instr::Wgmma { .. } => {
                run.warp.pc -= 1;
                run.warp.state = State::Waiting(Wait::Product);
            }
            Instr::WgmmaCommit => run.warp.groups += 1,
            Instr::WgmmaWait { pending } => run.warp.state = State::Waiting(Wait::Products { pending }),

            Instr::BarrierInit { at, arrivals } => self.barrier_init(run, at, arrivals, code.spans[pc]),
            Instr::FenceBarrierInit => self.fence_barrier_init(run),
            Instr::BarrierArrive { at, bytes, cta } => self.barrier_arrive(run, at, (bytes, cta), code.spans[pc]),
            Instr::BarrierWait { at, parity } => self.barrier_wait(run, at, parity, code.spans[pc]),
            Instr::BoxCopy { copy } => self.box_copy(run, copy, code.spans[pc]),
            Instr::BulkCopy { copy } => self.bulk_copy(run, copy, code.spans[pc]),
            Instr::ClusterStore { store } => self.cluster_store(run, store, code.spans[pc]),
            Instr::BulkCommit => each(active, |lane| run.warp.bulk_groups[lane] += 1),
            Instr::BulkWait { pending, read } => run.warp.state = State::Waiting(Wait::Bulk { pending, read }),
            Instr::FenceProxy => {
                let clock = run.warp.clock;
                each(active, |lane| {
                    let Some(fences) = run.warp.proxy_fences.get_mut(lane) else { return };
                    fences.rotate_left(1);
                    fences[PROXY_FENCES - 1] = clock;
                });
                // What follows is not covered.
                run.warp.clock += 1;
            }
            Instr::NamedBarrier { id, threads, arrive } => {
                self.collective(run, code.spans[pc], "named barrier");
                self.asked = Some(Asked::Named { id, threads, arrive });
            }
            Instr::ClusterBarrier { .. } => {
                self.collective(run, code.spans[pc], "cluster barrier");
                run.warp.meeting = Meeting::Arrived;
                run.warp.state = State::Waiting(Wait::Cluster);
            }
            Instr::ClusterArrive => {
                self.collective(run, code.spans[pc], "cluster arrive");
                run.warp.meeting = Meeting::Arrived;
            }
            Instr::ClusterWait => {
                self.collective(run, code.spans[pc], "cluster wait");
                match run.warp.meeting {
                    Meeting::Complete => (run.warp.meeting, run.warp.met) = (Meeting::Away, true),
                    // Who has not arrived waits for ever.
                    Meeting::Arrived | Meeting::Away => run.warp.state = State::Waiting(Wait::Cluster),
                }
            }
            Instr::SetRegisters { count, increase } => {
                self.collective(run, code.spans[pc], "`setmaxnreg`");
                if increase {
                    self.asked = Some(Asked::Registers { count });
                } else {
                    run.warp.registers = count;
                }
            }

            Instr::Barrier => {
                run.warp.pc -= 1;
                run.warp.state = State::AtBarrier;
            }
            Instr::WarpBarrier => {
                self.collective(run, code.spans[pc], "`sync_warp`");
                self.counters.warp_barriers += 1;
                run.warp.synchronise();
            }
            Instr::Wait => run.warp.waited |= active,
            Instr::LaunchDependents => {
                let early = active & !run.warp.waited;
                if early != 0 && self.program.launch.dependent != Some(Trigger::AtStart) {
                    self.early_launch(run.who, code.spans[pc], early.trailing_zeros() as usize);
                }
            }
            Instr::Shuffle { reg, kind, value, lane } => {
                self.shuffle(run, code.spans[pc], reg.index(), kind, value, lane)
            }
            Instr::TransposeMatrix { reg, value } => {
                self.collective(run, code.spans[pc], "`movmatrix`");
                let words = run.warp.slots[value as usize].map(|word| word as u32);
                run.warp.set(reg.index(), active, &movmatrix(words).map(i64::from));
            }
            Instr::Vote { reg, kind, pred } => {
                self.collective(run, code.spans[pc], "vote");
                let votes = holds(&run.warp.slots, active, pred);
                let result = match kind {
                    VoteKind::Ballot => i64::from(votes),
                    VoteKind::Any => i64::from(votes != 0),
                    VoteKind::All => i64::from(votes == active),
                };
                run.warp.set(reg.index(), active, &[result; 32]);
            }
            Instr::Print { format } => self.print(run, code.spans[pc], format),
            Instr::Assert { cond, message } => {
                let failed = active & !holds(slots, active, cond);
                if failed != 0 {
                    let lane = failed.trailing_zeros() as usize;
                    self.assertion(run.who, code.spans[pc], lane, &code.messages[message as usize]);
                }
            }
        }
    }

    fn report_index(
        &mut self,
        run: &Running<'_>,
        at: SpanId,
        lane: usize,
        op: BinaryOp,
        wide: bool,
        [a, b]: [Slot; 2],
    ) {
        let (x, y) = (run.warp.slots[a as usize][lane], run.warp.slots[b as usize][lane]);
        // What came in wrong was reported where it arose.
        let wrong = |slot: Slot, value: i64| !self.code.is_preset(slot) && !in_range(value, wide);
        if !wrong(a, x) && !wrong(b, y) {
            let text = index_text(op, x, y, numeric::index_binary(op, x, y), wide);
            self.bad_index(run.who, at, lane, text);
        }
    }

    fn check_cast(&mut self, run: &mut Running<'_>, at: SpanId, from: ValueType, to: ValueType, [dst, a]: [Slot; 2]) {
        let wide = to == ValueType::Wide;
        let result = &run.warp.slots[dst as usize];
        let mut wrong = 0u32;
        each(run.warp.active, |i| wrong |= u32::from(!in_range(result[i], wide)) << i);
        let lane = wrong.trailing_zeros() as usize;
        let from_index = matches!(from, ValueType::Index | ValueType::Wide);
        if wrong != 0 && (!from_index || in_range(run.warp.slots[a as usize][lane], true)) {
            self.bad_index(run.who, at, lane, format!("index overflows 32 bits: {}", result[lane]));
        }
    }

    /// Reports a warp operation that not all threads of the warp reach.
    pub(super) fn collective(&mut self, run: &Running<'_>, at: SpanId, what: &str) {
        let Warp { active, full, .. } = *run.warp;
        if active != full {
            self.divergent_warp(run.who, at, what, active, full);
        }
    }

    fn shuffle(
        &mut self,
        run: &mut Running<'_>,
        at: SpanId,
        reg: usize,
        kind: ShuffleKind,
        value: Slot,
        operand: Slot,
    ) {
        self.collective(run, at, "shuffle");
        let Warp { active, full, .. } = *run.warp;
        let (values, operands) = (run.warp.slots[value as usize], run.warp.slots[operand as usize]);
        let mut result: Lanes = values;
        let (mut absent, mut far) = (None, None);
        each(active, |lane| {
            let operand = i64::from(operands[lane] as u32);
            if operand >= LANES {
                far = far.or(Some((lane, operand)));
            }
            if let Some(from) = kind.source(lane as u32, operands[lane] as u32) {
                if full >> from & 1 == 0 {
                    absent = absent.or(Some((lane, i64::from(from))));
                } else if active >> from & 1 == 1 {
                    result[lane] = values[from as usize];
                }
            }
        });
        if let Some((lane, operand)) = far {
            self.far_lane(run.who, at, lane, operand);
        }
        if let Some((lane, source)) = absent {
            self.absent_lane(run.who, at, lane, source, full.count_ones());
        }
        run.warp.set(reg, active, &result);
    }

    fn print(&mut self, run: &Running<'_>, span: SpanId, format: u32) {
        let code = self.code;
        let format = &code.formats[format as usize];
        let [x, y, _] = self.launch.threads;
        each(run.warp.active, |lane| {
            if format.scope != 0 {
                self.check_tile(run, format.scope, lane, span, ("prints", None));
            }
            if self.prints.len() >= self.options.max_prints {
                self.prints_dropped += 1;
                return;
            }
            let mut args = format.args.iter().map(|&(slot, ty)| lanes::show(ty, run.warp.slots[slot as usize][lane]));
            let mut text = String::new();
            for (i, part) in format.text.split("{}").enumerate() {
                if i > 0 {
                    text += &args.next().unwrap_or_else(|| "{}".into());
                }
                text += part;
            }
            let thread = run.who.thread(lane);
            let thread = [thread % x, thread / x % y, thread / x / y];
            self.prints.push((run.who.linear, Print { block: run.who.block, thread, text, span }));
        });
    }
}

impl Warp {
    /// Keeps the lanes `taken` for the first arm, the others for `Else`.
    fn branch(&mut self, taken: u32, target: u32) {
        self.stack.push(Frame { saved: self.active, pending: self.active & !taken });
        self.active = taken;
        if taken == 0 {
            self.pc = target;
        }
    }
}

/// Whether the device holds a value: in 32 bits unless it is a wide one. A negative one is a value like any other.
#[inline(always)]
fn in_range(value: i64, wide: bool) -> bool {
    wide || i32::try_from(value).is_ok()
}

/// `dst = op(a, b)`; gives the first lane whose result is no index. Such lanes keep the mathematical value, or 0.
fn index_binary(slots: &mut [Lanes], mask: u32, op: BinaryOp, wide: bool, [dst, a, b]: [Slot; 3]) -> Option<usize> {
    let (a, b) = (slots[a as usize], slots[b as usize]);
    let dst = &mut slots[dst as usize];
    // The common case, as loops that vectorise: every lane active, operands below 2^31, and so is the result.
    let small = |lanes: &Lanes| lanes.iter().fold(0, |all, lane| all | lane) >> 31 == 0;
    if mask == u32::MAX && matches!(op, BinaryOp::Add | BinaryOp::Mul) && small(&a) && small(&b) {
        let result: Lanes = match op {
            BinaryOp::Add => std::array::from_fn(|i| a[i] + b[i]),
            // Products of 32-bit factors, which have an instruction.
            _ => std::array::from_fn(|i| (i64::from(a[i] as u32)) * (i64::from(b[i] as u32))),
        };
        if wide || small(&result) {
            *dst = result;
            return None;
        }
    }
    let mut wrong = 0u32;
    let mut put = |i: usize, value: Option<i64>| {
        let ok = value.is_some_and(|v| in_range(v, wide));
        dst[i] = value.unwrap_or(0);
        wrong |= u32::from(!ok) << i;
    };
    each(mask, |i| put(i, numeric::index_binary(op, a[i], b[i])));
    (wrong != 0).then(|| wrong.trailing_zeros() as usize)
}
