//! Operations of the lowered program.

use super::program::{ProgramPrinter, type_name};
use crate::ir::{AtomicOp, ShuffleKind, VoteKind};
use crate::lowered::{Op, OpKind, RegId, Unroll};

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
            OpKind::AsyncCommit => "async commit".to_owned(),
            OpKind::AsyncWait { pending } => format!("async wait, {pending} pending"),
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
                let head = format!("for {}: {ty} in {range}{unroll} {{", self.reg(*reg));
                self.lines.line(head);
                self.nested(body);
                "}".to_owned()
            }
            OpKind::Barrier => "barrier".to_owned(),
            OpKind::WarpBarrier => "warp barrier".to_owned(),
            OpKind::Wait => "wait for the previous kernel".to_owned(),
            OpKind::LaunchDependents => "launch dependents".to_owned(),
            OpKind::Shuffle { reg, kind, value, lane } => {
                let name = match kind {
                    ShuffleKind::Xor => "shfl_xor",
                    ShuffleKind::Down => "shfl_down",
                };
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
            OpKind::Atomic { op, memory, value, old } => {
                let name = match op {
                    AtomicOp::Add => "atomic_add",
                    AtomicOp::Max => "atomic_max",
                    AtomicOp::Min => "atomic_min",
                };
                let old = old.map(|r| format!("{} = ", self.declaration(r))).unwrap_or_default();
                format!("{old}{name}({}, {})", self.memory(memory, None), self.value(*value))
            }
            OpKind::Print { format, args } => {
                let args: String = args.iter().map(|a| format!(", {}", self.value(*a))).collect();
                format!("print({format:?}{args})")
            }
            OpKind::Assert { cond, message } => format!("assert({}, {message:?})", self.value(*cond)),
        };
        self.lines.line(text);
    }

    /// `let r: ty`, `let mut r: ty`.
    fn declaration(&self, reg: RegId) -> String {
        let declared = self.program.regs.get(reg);
        let mutable = if declared.is_some_and(|r| r.mutable) { "mut " } else { "" };
        format!("let {mutable}{}: {}", self.reg(reg), declared.map_or("?", |r| type_name(r.ty)))
    }
}
