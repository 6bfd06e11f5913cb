//! `last_arriver`: the blocks that work on one thing count themselves, and the last one finishes it.
//!
//! A barrier gathers what the block has written under its first thread, whose addition to the counter releases that and
//! acquires what the blocks before it released; a second barrier hands the answer, and what was acquired, to all threads.

use super::*;

impl Lowering<'_> {
    pub(super) fn last_arriver(&mut self, access: AccessId, count: ExprId, dst: VarId) {
        let (span, word) = (self.span, ValueType::Element(Dtype::U32));
        let count = self.value(count);
        let flag = self.shared_array("last", Dtype::U32, 1, true);
        self.block_barrier();
        let thread = self.linear_thread();
        let then = self.nested(|l| {
            let memory = l.memory(access);
            let [zero, one] = [0, 1].map(|n| l.push(ValueKind::Int(n), word));
            let old = l.reg("arrived", word, false);
            l.op(OpKind::Atomic { op: AtomicOp::Add, memory, value: one, old: Some(old), ordered: true });
            let count = l.push(ValueKind::Cast(count), word);
            let last = l.binary(BinaryOp::Eq, old + one, count);
            l.program.arrivals.push(Arrival { last, of: count });
            let value = l.push(ValueKind::Select(last, one, zero), word);
            l.put(flag, 0, value);
            let memory = l.memory(access);
            let reset = OpKind::Atomic { op: AtomicOp::Min, memory, value: zero, old: None, ordered: false };
            l.when(last, |l| l.op(reset));
        });
        self.span = span;
        self.guarded(thread.equals(0), then);
        self.block_barrier();
        let value = self.get(flag, 0);
        let zero = self.push(ValueKind::Int(0), word);
        let value = self.binary(BinaryOp::Ne, value, zero);
        self.program.arrivals.push(Arrival { last: value, of: count });
        let reg = self.variable_reg(dst);
        self.define(reg, value);
        self.barrier_in_a_loop();
    }
}
