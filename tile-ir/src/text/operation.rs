//! Operations of the lowered program.

use super::commas;
use super::program::{ProgramPrinter, call, type_name};
use crate::ir::{AtomicOp, VoteKind};
use crate::lowered::{
    BarrierRef, Elements, LocalId, MmaAtom, Op, OpKind, RegId, Unroll, ValueId, WGMMA_M, WgmmaOperand,
};

impl ProgramPrinter<'_> {
    pub(super) fn operations(&mut self, ops: &[Op]) {
        ops.iter().for_each(|op| self.operation(&op.kind));
    }

    fn nested(&mut self, ops: &[Op]) {
        self.lines.depth += 1;
        self.operations(ops);
        self.lines.depth -= 1;
    }

    fn operation(&mut self, op: &OpKind) {
        let text = match op {
            OpKind::Let { reg, value } => {
                let value = value.map(|v| format!(" = {}", self.value(v))).unwrap_or_default();
                format!("{}{value}", self.declaration(*reg))
            }
            OpKind::Set { reg, value } => format!("{} = {}", self.reg(*reg), self.value(*value)),
            OpKind::Local { local } => match self.program.locals.get(*local) {
                Some(array) => format!("local {}: {}[{}]", self.local(*local), array.dtype, array.len),
                None => format!("local {}", self.local(*local)),
            },
            OpKind::Shared { shared } => format!("shared {}", self.shared(*shared)),
            OpKind::Store { memory, value } => {
                // The guard follows the whole store.
                let text = self.memory(memory, None);
                let value = self.value(*value);
                match memory.guard {
                    None => format!("{text} = {value}"),
                    Some(_) => format!("({text}) = {value}"),
                }
            }
            OpKind::VectorLoad { local, start, memory, width } => {
                let target = format!("{}[{}; {width}]", self.local(*local), self.value(*start));
                format!("{target} = load {}", self.memory(memory, Some(*width)))
            }
            OpKind::VectorStore { memory, local, start, width } => {
                let source = format!("{}[{}; {width}]", self.local(*local), self.value(*start));
                format!("store {source} to {}", self.memory(memory, Some(*width)))
            }
            OpKind::AsyncCopy { to, from, width } => {
                format!("async copy {} to {}", self.memory(from, Some(*width)), self.memory(to, Some(*width)))
            }
            OpKind::AsyncWait { pending } => format!("async wait, {pending} pending"),
            OpKind::AsyncArrive { barrier } => format!("async arrive at {}", self.barrier(*barrier)),
            OpKind::If { cond, then, otherwise } => {
                let head = format!("if {} {{", self.value(*cond));
                self.lines.line(head);
                self.nested(then);
                if !otherwise.is_empty() {
                    self.lines.line("} else {");
                    self.nested(otherwise);
                }
                "}".to_owned()
            }
            OpKind::For { reg, start, end, step, unroll, body } => {
                let unroll = match unroll {
                    Unroll::Auto => String::new(),
                    Unroll::Full => " unroll".to_owned(),
                    Unroll::By(factor) => format!(" unroll by {factor}"),
                };
                let ty = self.program.regs.get(*reg).map_or("?", |r| type_name(r.ty));
                let range = format!("{}..{} step {}", self.value(*start), self.value(*end), self.value(*step));
                let mutable = if self.program.regs.get(*reg).is_some_and(|r| r.mutable) { "mut " } else { "" };
                let head = format!("for {mutable}{}: {ty} in {range}{unroll} {{", self.reg(*reg));
                self.lines.line(head);
                self.nested(body);
                "}".to_owned()
            }
            OpKind::Shuffle { reg, kind, value, lane } => {
                let name = kind.name();
                format!("{} = {name}({}, {})", self.declaration(*reg), self.value(*value), self.value(*lane))
            }
            OpKind::Vote { reg, kind, pred } => {
                let name = match kind {
                    VoteKind::Ballot => "ballot",
                    VoteKind::Any => "any",
                    VoteKind::All => "all",
                };
                format!("{} = {name}({})", self.declaration(*reg), self.value(*pred))
            }
            OpKind::Atomic { op, memory, value, old, ordered } => {
                let name = match op {
                    AtomicOp::Add => "atomic_add",
                    AtomicOp::Max => "atomic_max",
                    AtomicOp::Min => "atomic_min",
                };
                let old = old.map(|r| format!("{} = ", self.declaration(r))).unwrap_or_default();
                let ordered = if *ordered { " acquire release" } else { "" };
                format!("{old}{name}({}, {}){ordered}", self.memory(memory, None), self.value(*value))
            }
            OpKind::LoadMatrix { local, start, memory, count, transposed } => {
                let target = self.part(*local, *start, *count);
                format!("{target} = load matrices{} {}", transposed_text(*transposed), self.memory(memory, None))
            }
            OpKind::StoreMatrix { memory, local, start, count, transposed } => {
                let source = self.part(*local, *start, *count);
                format!("store matrices{} {source} to {}", transposed_text(*transposed), self.memory(memory, None))
            }
            OpKind::TransposeMatrix { reg, value } => {
                format!("{} = transpose_matrix({})", self.declaration(*reg), self.value(*value))
            }
            OpKind::Mma { atom, acc, a, b } => {
                let shape = match atom {
                    MmaAtom::M16n8k16 { dtype } => format!("m16n8k16 {dtype}"),
                    MmaAtom::M16n8k8Tf32 => "m16n8k8 tf32".to_owned(),
                };
                let acc = self.part(acc.0, acc.1, MmaAtom::ACC);
                let (a, b) = (self.part(a.0, a.1, MmaAtom::A), self.part(b.0, b.1, MmaAtom::B));
                format!("{acc} += mma {shape} {a}, {b}")
            }
            OpKind::BarrierInit { barrier, arrivals } => {
                format!("init {} for {arrivals} arrivals", self.barrier(*barrier))
            }
            OpKind::BarrierArrive { barrier, cta } => {
                let cta = cta.map(|cta| format!(" of block {}", self.value(cta))).unwrap_or_default();
                format!("arrive at {}{cta}", self.barrier(*barrier))
            }
            OpKind::BarrierExpect { barrier, bytes } => {
                format!("arrive at {} and expect {} bytes", self.barrier(*barrier), self.value(*bytes))
            }
            OpKind::BarrierWait { barrier, parity } => {
                format!("wait for {} parity {}", self.barrier(*barrier), self.value(*parity))
            }
            OpKind::TensorLoad { map, coordinates, shared, offset, barrier, multicast, evict } => {
                let coordinates = commas(coordinates.iter().map(|c| self.value(*c)));
                let target = format!("{}[{}]", self.shared(*shared), self.value(*offset));
                let to = multicast.map(|mask| format!(", to blocks {}", self.value(mask))).unwrap_or_default();
                let evict = evict.map(|evict| format!(", evict {evict:?}")).unwrap_or_default();
                let barrier = self.barrier(*barrier);
                format!("{target} = tensor load {}[{coordinates}] on {barrier}{to}{evict}", self.map(*map))
            }
            OpKind::TensorStore { map, coordinates, shared, offset, adds, evict } => {
                let coordinates = commas(coordinates.iter().map(|c| self.value(*c)));
                let source = format!("{}[{}]", self.shared(*shared), self.value(*offset));
                let evict = evict.map(|evict| format!(", evict {evict:?}")).unwrap_or_default();
                let what = if *adds { "add" } else { "store" };
                format!("tensor {what} {source} to {}[{coordinates}]{evict}", self.map(*map))
            }
            OpKind::BulkLoad { memory, shared, offset, bytes, barrier, evict } => {
                let target = format!("{}[{}]", self.shared(*shared), self.value(*offset));
                let source = self.memory(memory, None);
                let evict = evict.map(|evict| format!(", evict {evict:?}")).unwrap_or_default();
                let (bytes, barrier) = (self.value(*bytes), self.barrier(*barrier));
                format!("{target} = bulk load {bytes} bytes of {source} on {barrier}{evict}")
            }
            OpKind::ClusterStore { memory, block, local, start, width, barrier } => {
                let (target, source) = (self.memory(memory, None), self.part(*local, *start, *width));
                let (block, barrier) = (self.value(*block), self.barrier(*barrier));
                format!("cluster store {source} to {target} of block {block} on its {barrier}")
            }
            OpKind::BulkWait { pending, read } => {
                format!("bulk wait{} {pending}", if *read { " read" } else { "" })
            }
            OpKind::PrefetchMap { map } => format!("prefetch {}", self.map(*map)),
            OpKind::NamedBarrier { id, threads, arrive } => {
                format!("barrier {id} of {threads} threads{}", if *arrive { ", arrive only" } else { "" })
            }
            OpKind::SetRegisters { count, increase } => {
                format!("{} registers to {count}", if *increase { "raise" } else { "lower" })
            }
            OpKind::Wgmma { acc, start, n, rows, dtype, a, b, accumulate, transposed } => {
                let acc = self.part(*acc, *start, n / 2);
                let a = match a {
                    WgmmaOperand::Descriptor(a) => self.value(*a),
                    WgmmaOperand::Registers(local, start) => format!("registers {}", self.part(*local, *start, 4)),
                };
                let [a_text, b_text] = transposed.map(transposed_text);
                let (b, accumulate) = (self.value(*b), self.value(*accumulate));
                let rows = if *rows == WGMMA_M { String::new() } else { format!(" of {rows} rows") };
                format!("{acc} = wgmma n{n}{rows} {dtype} {a}{a_text}, {b}{b_text}, accumulate if {accumulate}")
            }
            OpKind::WgmmaWait { pending } => format!("wgmma wait {pending}"),
            OpKind::Pin { local } => format!("pin {}", self.local(*local)),
            OpKind::Elements(Elements::At(number)) => format!("elements at {}", self.value(*number)),
            // Without operands the name is all there is.
            OpKind::AsyncCommit
            | OpKind::Barrier
            | OpKind::WarpBarrier
            | OpKind::Wait
            | OpKind::LaunchDependents
            | OpKind::FenceBarrierInit
            | OpKind::BulkCommit
            | OpKind::FenceProxyAsync
            | OpKind::ClusterBarrier { .. }
            | OpKind::ClusterArrive
            | OpKind::ClusterWait
            | OpKind::WgmmaFence
            | OpKind::WgmmaCommit
            | OpKind::Elements(Elements::Begin | Elements::Next | Elements::End)
            | OpKind::Order => op.name().to_owned(),
            OpKind::Print { message, args } => {
                call("print", [message.to_string()].into_iter().chain(args.iter().map(|a| self.value(*a))))
            }
            OpKind::Assert { cond, message } => call("assert", [message.to_string(), self.value(*cond)]),
        };
        self.lines.line(text);
    }

    /// `array[start; count]`
    fn part(&self, local: LocalId, start: ValueId, count: u32) -> String {
        format!("{}[{}; {count}]", self.local(local), self.value(start))
    }

    fn barrier(&self, barrier: BarrierRef) -> String {
        format!("{}[{}]", self.barriers(barrier.array), self.value(barrier.index))
    }

    /// `let r: ty`, `let mut r: ty`.
    fn declaration(&self, reg: RegId) -> String {
        let declared = self.program.regs.get(reg);
        let mutable = if declared.is_some_and(|r| r.mutable) { "mut " } else { "" };
        format!("let {mutable}{}: {}", self.reg(reg), declared.map_or("?", |r| type_name(r.ty)))
    }
}

fn transposed_text(transposed: bool) -> &'static str {
    if transposed { " transposed" } else { "" }
}
