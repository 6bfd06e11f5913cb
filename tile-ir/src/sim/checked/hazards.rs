//! Findings about agents beside the threads: copies, products, barriers in memory, roles.

use super::AccessKind;
use super::bytecode::Site;
use super::findings::{space_word, verb};
use super::report::Who;
use super::schedule::Machine;
use super::shadow::{Access, Agent};
use super::warp::{Block, Held};
use crate::diag::{Code, Diagnostic};
use crate::ir::{EntityRef, SpanId};
use crate::lowered::{BarrierId, LocalId};

impl Machine<'_> {
    fn report(&mut self, code: Code, span: SpanId, who: Who, describe: impl FnOnce(&Self) -> (String, String)) {
        let key = (code, span, None);
        if self.reporter.is_known(key, 0) {
            return;
        }
        let (message, at) = describe(self);
        let diagnostic = Diagnostic::new(code, span, message).at(at).note(self.witness(who));
        self.reporter.describe(key, 0, diagnostic);
    }

    /// Who an access is by, and what orders others after it.
    fn agent_name(&self, access: Access) -> (String, String) {
        match self.launch.clocks.agent_of(access) {
            Some(Agent::Load(barrier)) => {
                let name = self.barrier_name(barrier);
                ("TMA".into(), format!("a wait for phase {} of `{name}`", access.clock - 1))
            }
            Some(Agent::StoreRead(warp)) => {
                (format!("TMA, for warp {warp},"), "a wait until its bulk groups are read".into())
            }
            Some(Agent::StoreWrite(warp)) => (format!("TMA, for warp {warp},"), "a wait for its bulk groups".into()),
            Some(Agent::Product(group)) => {
                (format!("a product of warpgroup {group}"), "a wait for that product".into())
            }
            None => (self.thread_name(u32::from(access.thread)), "a barrier".into()),
        }
    }

    /// Two accesses to the same bytes, at least one by an agent, that nothing orders.
    pub(super) fn agent_race(
        &mut self,
        who: Who,
        site: &Site,
        offset: i64,
        now: Access,
        (earlier, kind): (Access, AccessKind),
    ) {
        let first = &self.code.sites[earlier.site as usize];
        let (low, high) = if first.span < site.span { (first.span, site.span) } else { (site.span, first.span) };
        let key = (Code::IN_FLIGHT, low, Some(high));
        if self.reporter.is_known(key, 0) {
            return;
        }
        let element = self.element_name(site, offset);
        let ((now_name, _), (then, order)) = (self.agent_name(now), self.agent_name(earlier));
        let name = self.name(site.space);
        let message = match (kind, site.kind) {
            (AccessKind::Read, _) => format!("{}`{name}` is overwritten while it is read", space_word(site.space)),
            (_, AccessKind::Read) => format!("{}`{name}` is read before it is complete", space_word(site.space)),
            _ => format!("{}`{name}` is written twice at once", space_word(site.space)),
        };
        let text = format!(
            "{then} {} {element} (line {}), {now_name} {} it (line {}); {order} does not come between",
            verb(kind),
            self.line(first.span),
            verb(site.kind),
            self.line(site.span)
        );
        let mut diagnostic = Diagnostic::new(Code::IN_FLIGHT, site.span, message).at(text).note(self.witness(who));
        if first.span != site.span {
            diagnostic = diagnostic.label(first.span, format!("{then} {} it here", verb(kind)));
        }
        self.reporter.describe(key, 0, diagnostic);
    }

    /// An agent reads what a thread wrote and did not make visible to it.
    pub(super) fn missing_fence(&mut self, who: Who, site: &Site, _lane: usize, offset: i64, write: Access) {
        let first = self.code.sites[write.site as usize].span;
        self.report(Code::RACE, site.span, who, |m| {
            let element = m.element_name(site, offset);
            let writer = m.thread_name(u32::from(write.thread));
            let message = format!("`{}` is read by TMA or tensor cores with no proxy fence", m.name(site.space));
            let at = format!("{writer} writes {element} (line {}) and has no proxy fence after it", m.line(first));
            (message, at)
        });
    }

    pub(super) fn barrier_outside(&mut self, who: Who, span: SpanId, lane: usize, array: BarrierId, index: i64) {
        self.report(Code::OUT_OF_BOUNDS, span, who, |m| {
            let info = &m.program.barriers[array];
            let thread = m.thread_name(who.thread(lane));
            let at = format!("{thread} uses barrier {index}; `{}` has {}", info.name, info.len);
            (format!("index out of bounds of `{}`", info.name), at)
        });
    }

    pub(super) fn barrier_misuse(&mut self, who: Who, span: SpanId, lane: usize, number: u32, text: &str) {
        self.report(Code::DIVERGENT_BARRIER, span, who, |m| {
            let at = format!("by {} of {}", m.thread_name(who.thread(lane)), m.block_name(who.block));
            (format!("barrier `{}` {text}", m.barrier_name(number)), at)
        });
    }

    pub(super) fn named_barrier_misuse(&mut self, who: Who, span: SpanId, id: u32, text: String) {
        self.report(Code::DIVERGENT_BARRIER, span, who, |_| {
            (format!("the threads of barrier {id} do not agree"), format!("warp {} arrives here: {text}", who.warp))
        });
    }

    /// What the hardware refuses.
    pub(super) fn refused(&mut self, who: Who, span: SpanId, lane: usize, text: &str) {
        self.report(Code::ILLEGAL_OPERATION, span, who, |m| {
            (format!("the hardware refuses this: {text}"), format!("in {}", m.thread_name(who.thread(lane))))
        });
    }

    /// A register that belongs to a product.
    pub(super) fn held_register(
        &mut self,
        who: Who,
        site: &Site,
        array: usize,
        element: usize,
        lane: usize,
        held: Held,
    ) {
        self.report(Code::IN_FLIGHT, site.span, who, |m| {
            let name = &m.program.locals[LocalId::new(array)].name;
            let what = match (site.kind, held.written != 0) {
                (AccessKind::Read, _) => "read before its product has been waited for",
                (_, true) => "written while a product writes it",
                (_, false) => "written while a product reads it",
            };
            let thread = m.thread_name(who.thread(lane));
            let group = held.written.max(held.read) - 1;
            let at = format!("{thread} {} {name}[{element}]; group {group} of products is unfinished", verb(site.kind));
            (format!("`{name}` is {what}"), at)
        });
    }

    pub(super) fn missing_register_fence(&mut self, who: Who, span: SpanId, local: u32) {
        self.report(Code::IN_FLIGHT, span, who, |m| {
            let name = &m.program.locals[LocalId::new(local as usize)].name;
            let at = format!("warp {} has no `wgmma` fence between its accesses to `{name}` and this", who.warp);
            (format!("a product takes the registers of `{name}` with no fence before it"), at)
        });
    }

    /// Threads of a warpgroup that give other operands than its first.
    pub(super) fn uneven_product(&mut self, who: Who, span: SpanId, thread: u32) {
        self.report(Code::DIVERGENT_BARRIER, span, who, |m| {
            let at = format!("{} gives others than {}", m.thread_name(thread), m.thread_name(who.thread(0)));
            ("the operands of a product differ between threads of its warpgroup".into(), at)
        });
    }

    pub(super) fn exit_while_read(&mut self, who: Who, span: SpanId) {
        self.report(Code::IN_FLIGHT, span, who, |_| {
            let at = format!("warp {} ends and has not waited until its bulk groups are read", who.warp);
            ("a block may end while TMA reads its shared memory".into(), at)
        });
    }

    pub(super) fn exit_in_product(&mut self, who: Who, span: SpanId) {
        self.report(Code::IN_FLIGHT, span, who, |_| {
            ("a warp ends before its products are finished".into(), format!("warp {} ends here", who.warp))
        });
    }

    /// A block may end before a copy into its shared memory has arrived.
    pub(super) fn exit_in_copy(&mut self, who: Who, span: SpanId, number: u32) {
        self.report(Code::IN_FLIGHT, span, who, |m| {
            let message = "a block may end while a copy into its shared memory is in flight".to_owned();
            (message, format!("nobody waits for the bytes that `{}` counts last", m.barrier_name(number)))
        });
    }

    /// A block may end before another block's arrival at its barrier.
    pub(super) fn arrival_after_exit(&mut self, block: &Block, number: u32, from: u32) {
        let who = Who::of(block.index, block.linear, &block.warps[0]);
        let span = self.code.spans.last().copied().unwrap_or(SpanId::from_u32(0));
        self.report(Code::IN_FLIGHT, span, who, |m| {
            let message = format!(
                "a block may end before another block of its cluster arrives at its `{}`",
                m.barrier_name(number)
            );
            let at = format!(
                "{} has not waited for the last arrivals of block {from} of its cluster",
                m.block_name(who.block)
            );
            (message, at)
        });
    }

    /// A block may end before another block's stores into its shared memory have arrived.
    pub(super) fn store_after_exit(&mut self, block: &Block, number: u32) {
        let who = Who::of(block.index, block.linear, &block.warps[0]);
        let span = self.code.spans.last().copied().unwrap_or(SpanId::from_u32(0));
        self.report(Code::IN_FLIGHT, span, who, |m| {
            let message = "a block may end while another block of its cluster stores into its shared memory".to_owned();
            let (block, barrier) = (m.block_name(who.block), m.barrier_name(number));
            (message, format!("{block} has not waited for the stores that `{barrier}` counts"))
        });
    }

    pub(super) fn hangs(&mut self, who: Who, span: SpanId, waits: Vec<String>, registers: bool) {
        let code = if registers { Code::REGISTER_BUDGET } else { Code::DEADLOCK };
        self.report(code, span, who, |m| {
            let mut waits = waits;
            let more = waits.len().saturating_sub(8);
            waits.truncate(8);
            if more > 0 {
                waits.push(format!("and {more} more"));
            }
            (format!("no warp of {} can go on", m.block_name(who.block)), waits.join("; "))
        });
    }
}
