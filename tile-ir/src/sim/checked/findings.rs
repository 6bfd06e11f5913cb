//! What each finding says: what is wrong, the numbers, the witness, what to do.

use super::AccessKind;
use super::bytecode::{Instr, Site};
use super::flight::Pilot;
use super::report::Who;
use super::schedule::Machine;
use super::shadow::Access;
use crate::advice::{self, Gap};
use crate::diag::{Code, Diagnostic};
use crate::ir::{BinaryOp, EntityRef, SpanId};
use crate::lowered::{LocalId, RegId, Space};

impl Machine<'_> {
    pub(super) fn out_of_bounds(&mut self, who: Who, site: &Site, lane: usize, offset: i64) {
        // An index that went wrong was reported where it did.
        if offset < 0 && self.reporter.has(Code::INDEX_OVERFLOW) {
            return;
        }
        let key = (Code::OUT_OF_BOUNDS, site.span, None);
        if self.reporter.is_known(key, 0) {
            return;
        }
        let (name, thread) = (self.name(site.space), self.thread_name(who.thread(lane)));
        let (space, verb) = (space_word(site.space), verb(site.kind));
        let text = format!("{thread} {verb} element {offset}; `{name}` has {}", self.extents(site.space));
        let message = format!("{space}index out of bounds of `{name}`");
        let diagnostic = Diagnostic::new(Code::OUT_OF_BOUNDS, site.span, message).at(text).note(self.witness(who));
        self.reporter.describe(key, 0, diagnostic);
    }

    /// A local array's element, accessed by a vector operation of which `site` is the other side.
    pub(super) fn local_out_of_bounds(&mut self, who: Who, site: &Site, local: u32, lane: usize, element: i64) {
        let key = (Code::OUT_OF_BOUNDS, site.span, None);
        if self.reporter.is_known(key, 0) {
            return;
        }
        let array = &self.program.locals[LocalId::new(local as usize)];
        let text = format!(
            "{} reaches element {element}; `{}` has {} elements",
            self.thread_name(who.thread(lane)),
            array.name,
            array.len
        );
        let message = format!("index out of bounds of `{}`", array.name);
        let diagnostic = Diagnostic::new(Code::OUT_OF_BOUNDS, site.span, message).at(text).note(self.witness(who));
        self.reporter.describe(key, 0, diagnostic);
    }

    /// An effect in the work on a tile beyond the author's grid: the program does what its author did not write.
    pub(super) fn outside_the_grid(
        &mut self,
        who: Who,
        span: SpanId,
        lane: usize,
        (verb, space): (&str, Option<Space>),
        (index, at, extent): (&str, i64, i64),
    ) {
        let key = (Code::OUTSIDE_THE_GRID, span, None);
        if self.reporter.is_known(key, 0) {
            return;
        }
        let what = space.map_or(String::new(), |space| format!(" `{}`", self.name(space)));
        let text = format!(
            "{} {verb}{what} where `{index}` is {at}; the grid has {extent} there",
            self.thread_name(who.thread(lane))
        );
        let message = "an effect outside of the kernel's grid: the compiler added it";
        let diagnostic = Diagnostic::new(Code::OUTSIDE_THE_GRID, span, message)
            .at(text)
            .note(self.witness(who))
            .help("this is a bug of the compiler, not of the kernel: please report it with the kernel and its shapes");
        self.reporter.describe(key, 0, diagnostic);
    }

    pub(super) fn guard_fired(&mut self, who: Who, site: &Site, lane: usize, offset: Option<i64>) {
        let key = (Code::GUARD_FIRED, site.span, None);
        if self.reporter.is_known(key, 0) {
            return;
        }
        let (name, thread) = (self.name(site.space), self.thread_name(who.thread(lane)));
        let verb = verb(site.kind);
        let text = match offset {
            Some(offset) => format!("{thread} {verb} element {offset}; `{name}` has {}", self.extents(site.space)),
            None => format!("{thread} {verb} outside it; `{name}` has {}", self.extents(site.space)),
        };
        let message = format!("`{name}` is accessed out of bounds; only the guard the compiler added prevents it");
        let diagnostic = Diagnostic::new(Code::GUARD_FIRED, site.span, message)
            .at(text)
            .note(self.witness(who))
            .help(self.guard_help(site));
        self.reporter.describe(key, 0, diagnostic);
    }

    /// What to do about an access that only its guard keeps inside the tensor: first what may be wrong, then how to say that it is meant.
    fn guard_help(&self, site: &Site) -> String {
        let extents = self.extents(site.space);
        let several = extents.starts_with("the extents");
        let order = if several { format!("compare the order of the indices with {extents}; ") } else { String::new() };
        order + &self.mask_help(site)
    }

    /// A guard, or the form of the access that needs none.
    fn mask_help(&self, site: &Site) -> String {
        let source = &self.program.source;
        let span = self.program.spans.get(site.span).copied().unwrap_or_default();
        let is_read = site.kind == AccessKind::Read;
        let masked = match is_read {
            true => advice::masked_load(source, span).map(|m| format!("`{m}`, which reads 0 outside")),
            false => advice::masked_store(source, span).map(|m| format!("`{m}`, which stores nothing outside")),
        };
        match masked {
            Some(masked) => format!("guard the access with an `if` on its indices, or write {masked}"),
            None => "guard the access with an `if` on its indices".to_owned(),
        }
    }

    pub(super) fn misaligned(&mut self, who: Who, site: &Site, lanes: u32, active: u32, first: (usize, i64)) {
        let global = matches!(site.space, Space::Global(_));
        let code = if global { Code::VECTOR_ALIGNMENT } else { Code::SHARED_ALIGNMENT };
        let key = (code, site.span, None);
        if self.reporter.is_known(key, 0) {
            return;
        }
        let (name, (lane, byte)) = (self.name(site.space), first);
        let bytes = site.width * site.dtype.bytes();
        let message = format!(
            "{bytes}-byte vector access to `{name}` is misaligned for {} of {} threads of a warp",
            lanes.count_ones(),
            active.count_ones()
        );
        let thread = self.thread_name(who.thread(lane));
        let text = format!("{thread} starts at byte {byte}; {byte} % {bytes} = {}", byte.rem_euclid(i64::from(bytes)));
        let diagnostic = Diagnostic::new(code, site.span, message).at(text).note(self.witness(who));
        self.reporter.describe(key, 0, diagnostic);
    }

    pub(super) fn uninitialised(&mut self, who: Who, site: &Site, lane: usize, offset: i64) {
        let key = (Code::UNINITIALISED, site.span, None);
        if self.reporter.is_known(key, 0) {
            return;
        }
        let (element, thread) = (self.element_name(site, offset), self.thread_name(who.thread(lane)));
        let diagnostic =
            Diagnostic::new(Code::UNINITIALISED, site.span, format!("{element} is read before it is written"))
                .at(format!("{thread} reads it"))
                .note(self.witness(who))
                .help(self.fill_help(site));
        self.reporter.describe(key, 0, diagnostic);
    }

    /// How an array gets its first value.
    fn fill_help(&self, site: &Site) -> String {
        let name = self.name(site.space);
        match advice::allocation(&self.program.source, name) {
            Some(line) => {
                format!("write every element of `{name}` that is read, or put `clear(&mut {name});` after line {line}")
            }
            None => format!("write every element of `{name}` that is read, or `fill` it first"),
        }
    }

    pub(super) fn uninitialised_register(&mut self, who: Who, span: SpanId, reg: RegId, lane: usize) {
        let key = (Code::UNINITIALISED, span, None);
        if self.reporter.is_known(key, 0) {
            return;
        }
        let name = &self.program.regs[reg].name;
        let diagnostic = Diagnostic::new(Code::UNINITIALISED, span, format!("`{name}` is read before it is assigned"))
            .at(format!("{} reads it", self.thread_name(who.thread(lane))))
            .note(self.witness(who))
            .help(format!("give `{name}` a value where it is declared"));
        self.reporter.describe(key, 0, diagnostic);
    }

    pub(super) fn bad_index(&mut self, who: Who, span: SpanId, lane: usize, text: String) {
        let key = (Code::INDEX_OVERFLOW, span, None);
        if self.reporter.is_known(key, 0) {
            return;
        }
        let diagnostic = Diagnostic::new(Code::INDEX_OVERFLOW, span, text)
            .at(format!("in {}", self.thread_name(who.thread(lane))))
            .note(self.witness(who));
        self.reporter.describe(key, 0, diagnostic);
    }

    /// A plain access at a negative index; the guard that the compiler added prevents it.
    pub(super) fn negative_index(&mut self, who: Who, site: &Site, span: SpanId, lane: usize, index: i64) {
        let key = (Code::INDEX_OVERFLOW, span, None);
        if self.reporter.is_known(key, 0) {
            return;
        }
        let (name, thread) = (self.name(site.space), self.thread_name(who.thread(lane)));
        let text = self.program.spans.get(span).and_then(|span| advice::text(&self.program.source, *span));
        let index = text.map_or(index.to_string(), |text| format!("`{text}` = {index}"));
        let diagnostic = Diagnostic::new(Code::INDEX_OVERFLOW, site.span, format!("index is negative: {index}"))
            .at(format!("{thread} {} `{name}` there", verb(site.kind)))
            .note(self.witness(who))
            .help(self.mask_help(site));
        self.reporter.describe(key, 0, diagnostic);
    }

    pub(super) fn race(
        &mut self,
        who: Who,
        site: &Site,
        lane: usize,
        offset: i64,
        (earlier, kind): (Access, AccessKind),
    ) {
        let first = &self.code.sites[earlier.site as usize];
        if self.launch.clocks.agent_of(earlier).is_some() {
            let thread = who.thread(lane) as u16;
            let now = Access { block: who.linear, clock: 0, thread, site: 0 };
            return self.agent_race(who, site, offset, now, (earlier, kind));
        }
        let between_blocks = earlier.block != who.linear;
        let code = if between_blocks { Code::GLOBAL_RACE } else { Code::RACE };
        // The two accesses are met in either order.
        let (low, high) = if first.span < site.span { (first.span, site.span) } else { (site.span, first.span) };
        // A race within a warp may be met first where warps race too; the barrier for those helps both.
        let rank = u8::from(between_blocks || earlier.warp() != who.warp);
        let key = (code, low, Some(high));
        if self.reporter.is_known(key, rank) {
            return;
        }
        let name = self.name(site.space).to_string();
        let element = self.element_name(site, offset);
        let (now, then) = (self.thread_name(who.thread(lane)), self.thread_name(u32::from(earlier.thread)));
        let (line, first_line) = (self.line(site.span), self.line(first.span));
        // Arrays that share memory, or two tensors that do, have two names.
        let other = self.name(first.space);
        let first_element = if first.space == site.space { element.clone() } else { format!("`{other}` there") };
        let (verb_now, verb_then) = (verb(site.kind), verb(kind));

        let same_thread = !between_blocks && u32::from(earlier.thread) == who.thread(lane);
        let diagnostic = if same_thread {
            let text = format!(
                "{now} {verb_then} {first_element} (line {first_line}) for one element of the `parallel` loop, and \
                 {verb_now} {element} (line {line}) for another"
            );
            let message = format!("two elements of a `parallel` loop meet in `{name}`");
            Diagnostic::new(code, site.span, message).at(text).help(
                "elements are done in no order, each by any thread: let each touch memory of its own, or use `atomic_add`",
            )
        } else if between_blocks {
            let earlier_block = self.block_name(self.block_at(earlier.block));
            let text = format!(
                "{now} of {} {verb_now} {element} (line {line}), {then} of {earlier_block} {verb_then} {first_element} \
                 (line {first_line}); blocks are not ordered",
                self.block_name(who.block)
            );
            let help = match self.atomic_form(first.span, site) {
                Some(atomic) => format!("let each block touch its own elements, or make the update atomic: `{atomic}`"),
                None => {
                    "let each block touch its own elements, or make every one of these accesses atomic (`atomic_add`)"
                        .into()
                }
            };
            Diagnostic::new(code, site.span, format!("data race between blocks on `{name}`")).at(text).help(help)
        } else {
            let space = space_word(site.space);
            let text = format!(
                "{then} {verb_then} {first_element} (line {first_line}), {now} {verb_now} {element} (line {line}), \
                 no barrier between"
            );
            let same_warp = earlier.warp() == who.warp;
            let sync = if same_warp { "sync_warp" } else { "sync_threads" };
            let help = if let Some(atomic) = self.atomic_form(first.span, site) {
                format!("make the update atomic: `{atomic}`")
            } else if std::ptr::eq(first, site) && site.kind != AccessKind::Read {
                "let each thread write an element of its own, or one thread write for all, in an `if`; sums are for `atomic_add`"
                    .to_string()
            } else {
                let again = self.has_barrier_between(first, site, same_warp);
                self.barrier_help((first.span, site.span), &format!("{sync}();"), again)
            };
            Diagnostic::new(code, site.span, format!("data race on {space}`{name}`")).at(text).help(help)
        };
        let mut diagnostic = diagnostic.note(self.witness(who));
        if first.span != site.span {
            diagnostic = diagnostic.label(first.span, format!("{then} {verb_then} it here"));
        }
        self.reporter.describe(key, rank, diagnostic);
    }

    /// The atomic form of the update whose own accesses race with those of another thread.
    fn atomic_form(&self, first: SpanId, site: &Site) -> Option<String> {
        let (first, second) = (*self.program.spans.get(first)?, *self.program.spans.get(site.span)?);
        advice::atomic_update(&self.program.source, site.dtype, first, second)
    }

    /// Where a barrier between two accesses helps. Where they have one between them already, the next iteration of a loop meets this one.
    fn barrier_help(&self, (first, second): (SpanId, SpanId), sync: &str, again: bool) -> String {
        let source = &self.program.source;
        let span = |id| self.program.spans.get(id).copied().unwrap_or_default();
        let (first, second) = (span(first), span(second));
        let threads = if sync.contains("warp") { "all threads of the warp" } else { "all threads" };
        match advice::barrier(source, first, second, again) {
            Some(Gap::Before(line)) => format!("insert `{sync}` before line {line}"),
            Some(Gap::LoopEnd(line)) => format!("insert `{sync}` at the end of the loop of line {line}"),
            Some(Gap::Within) => match advice::split(source, first, second, sync) {
                Some(split) => format!("let every thread read before any writes: write `{split}`"),
                None => format!("read into a variable first, then let {threads} meet at a barrier, then write"),
            },
            Some(Gap::Outside) => {
                format!("let {threads} meet at a barrier between the two, outside of the `if` around them")
            }
            None => format!("let {threads} meet at a barrier between the two: `{sync}`"),
        }
    }

    /// An access to bytes that an asynchronous copy is writing.
    pub(super) fn in_flight(&mut self, who: Who, site: &Site, lane: usize, offset: i64, pilot: Pilot) {
        let key = (Code::IN_FLIGHT, site.span, None);
        if self.reporter.is_known(key, 0) {
            return;
        }
        let name = self.name(site.space).to_string();
        let (element, copy) = (self.element_name(site, offset), &self.code.sites[usize::from(pilot.site)]);
        let (now, then) = (self.thread_name(who.thread(lane)), self.thread_name(u32::from(pilot.thread) - 1));
        let message = match site.kind {
            AccessKind::Read => format!("`{name}` is read before its copy has finished"),
            AccessKind::Write | AccessKind::Atomic => format!("`{name}` is written while a copy into it is in flight"),
        };
        let text = format!(
            "{now} {} {element}; the copy that {then} issued (line {}) has not been waited for",
            verb(site.kind),
            self.line(copy.span)
        );
        let mut diagnostic = Diagnostic::new(Code::IN_FLIGHT, site.span, message).at(text).note(self.witness(who));
        if copy.span != site.span {
            diagnostic = diagnostic.label(copy.span, "the copy");
        }
        self.reporter.describe(key, 0, diagnostic);
    }

    /// A thread that ends before a copy of its own is known to be complete.
    pub(super) fn exit_in_flight(&mut self, who: Who, site: &Site, lane: usize) {
        let key = (Code::IN_FLIGHT, site.span, None);
        if self.reporter.is_known(key, 0) {
            return;
        }
        let message = format!("a copy into `{}` is still in flight when its thread ends", self.name(site.space));
        let text = format!("{} issued it and did not wait for it", self.thread_name(who.thread(lane)));
        let diagnostic = Diagnostic::new(Code::IN_FLIGHT, site.span, message).at(text).note(self.witness(who));
        self.reporter.describe(key, 0, diagnostic);
    }

    /// Whether there is a barrier in the program's text between two accesses.
    fn has_barrier_between(&self, a: &Site, b: &Site, within_warp: bool) -> bool {
        let (from, to) = (a.pc.min(b.pc) as usize, a.pc.max(b.pc) as usize);
        self.code.instrs[from..to].iter().any(|instr| match instr {
            Instr::Barrier => true,
            Instr::WarpBarrier => within_warp,
            _ => false,
        })
    }

    /// A barrier that `arrived` of the block's threads reach; `missing` is one that does not.
    pub(super) fn divergent_barrier(&mut self, who: Who, span: SpanId, arrived: u32, missing: Option<u32>) {
        let key = (Code::DIVERGENT_BARRIER, span, None);
        if self.reporter.is_known(key, 0) {
            return;
        }
        let total = self.launch.thread_count();
        let missing = missing.map_or(String::new(), |t| format!("; {} does not", self.thread_name(t)));
        let diagnostic = Diagnostic::new(Code::DIVERGENT_BARRIER, span, "barrier not reached by every thread")
            .at(format!("{arrived} of {total} threads arrive{missing}"))
            .note(self.witness(who))
            .help("move `sync_threads();` to where every thread of the block runs it equally often");
        self.reporter.describe(key, 0, diagnostic);
    }

    /// A shuffle, vote or warp barrier that only the lanes `active` of `full` reach.
    pub(super) fn divergent_warp(&mut self, who: Who, span: SpanId, what: &str, active: u32, full: u32) {
        let key = (Code::DIVERGENT_BARRIER, span, None);
        if self.reporter.is_known(key, 0) {
            return;
        }
        let missing = (full & !active).trailing_zeros() as usize;
        let text = format!(
            "{} of {} threads of warp {} arrive; {} does not",
            active.count_ones(),
            full.count_ones(),
            who.warp,
            self.thread_name(who.thread(missing))
        );
        let message = format!("{what} not reached by every thread of the warp");
        let diagnostic = Diagnostic::new(Code::DIVERGENT_BARRIER, span, message)
            .at(text)
            .note(self.witness(who))
            .help("move it to where all threads of the warp run it together");
        self.reporter.describe(key, 0, diagnostic);
    }

    /// A lane that reads from a lane without a thread.
    pub(super) fn absent_lane(&mut self, who: Who, span: SpanId, lane: usize, source: i64, threads: u32) {
        let key = (Code::DIVERGENT_BARRIER, span, None);
        if self.reporter.is_known(key, 0) {
            return;
        }
        let text = format!(
            "{} reads lane {source}; warp {} has {threads} threads",
            self.thread_name(who.thread(lane)),
            who.warp
        );
        let diagnostic =
            Diagnostic::new(Code::DIVERGENT_BARRIER, span, "shuffle reads from a thread that does not exist")
                .at(text)
                .note(self.witness(who))
                .help("use a multiple of 32 threads, or a mask or delta within the warp's threads");
        self.reporter.describe(key, 0, diagnostic);
    }

    /// A shuffle whose mask or distance is none of a warp's.
    pub(super) fn far_lane(&mut self, who: Who, span: SpanId, lane: usize, operand: i64) {
        let key = (Code::ILLEGAL_OPERATION, span, None);
        if self.reporter.is_known(key, 0) {
            return;
        }
        let text = format!("{} exchanges by {operand}; a warp has 32 lanes", self.thread_name(who.thread(lane)));
        let diagnostic = Diagnostic::new(Code::ILLEGAL_OPERATION, span, "shuffle by more lanes than a warp has")
            .at(text)
            .note(self.witness(who))
            .help("keep masks and distances below 32: the hardware looks at five bits of them alone");
        self.reporter.describe(key, 0, diagnostic);
    }

    /// A counter that the launch leaves behind.
    pub(super) fn counter_left(&mut self, who: Who, site: u32, left: u32) {
        let code = self.code;
        let site = &code.sites[site as usize];
        let key = (Code::ARRIVALS, site.span, None);
        if self.reporter.is_known(key, 0) {
            return;
        }
        let name = self.name(site.space);
        let message = format!("a counter of `last_arriver` in `{name}` is {left} when the launch ends");
        let diagnostic = Diagnostic::new(Code::ARRIVALS, site.span, message)
            .at("it is 0 again only once as many blocks have come as the count says")
            .note(self.witness(who))
            .help("make the count the number of blocks that come to this counter; the next launch begins with what is left");
        self.reporter.describe(key, 0, diagnostic);
    }

    /// An access, before the wait for the previous kernel, to what that kernel may write or read.
    pub(super) fn early_access(&mut self, who: Who, site: &Site, lane: usize) {
        let key = (Code::GLOBAL_RACE, site.span, None);
        if self.reporter.is_known(key, 0) {
            return;
        }
        let (name, thread) = (self.name(site.space), self.thread_name(who.thread(lane)));
        let message = format!("data race with the previous kernel on `{name}`");
        let diagnostic = Diagnostic::new(Code::GLOBAL_RACE, site.span, message)
            .at(format!("{thread} {} it before it has waited for the previous kernel", verb(site.kind)))
            .note(self.witness(who))
            .help(format!("wait first; only tensors that are `independent` may be read before, and `{name}` is not"));
        self.reporter.describe(key, 0, diagnostic);
    }

    /// Dependents that are let go before the thread has waited itself.
    pub(super) fn early_launch(&mut self, who: Who, span: SpanId, lane: usize) {
        let text = "lets the next kernel start before it has waited for the previous one";
        self.unordered(who, span, lane, text);
    }

    /// A thread that ends without having waited.
    pub(super) fn never_waited(&mut self, who: Who, span: SpanId, lane: usize) {
        self.unordered(who, span, lane, "ends without having waited for the previous kernel");
    }

    fn unordered(&mut self, who: Who, span: SpanId, lane: usize, what: &str) {
        let key = (Code::GLOBAL_RACE, span, None);
        if self.reporter.is_known(key, 0) {
            return;
        }
        let message = "the next kernel may run beside the kernel before this one";
        let diagnostic = Diagnostic::new(Code::GLOBAL_RACE, span, message)
            .at(format!("{} {what}", self.thread_name(who.thread(lane))))
            .note(self.witness(who))
            .help("wait for the previous kernel on every path, before dependents are launched");
        self.reporter.describe(key, 0, diagnostic);
    }

    pub(super) fn stuck(&mut self, who: Who, span: SpanId, text: String) {
        let key = (Code::DEADLOCK, span, None);
        if self.reporter.is_known(key, 0) {
            return;
        }
        let diagnostic = Diagnostic::new(Code::DEADLOCK, span, text)
            .at(format!("warp {} of {} is here", who.warp, self.block_name(who.block)))
            .note(self.witness(who));
        self.reporter.describe(key, 0, diagnostic);
    }

    pub(super) fn assertion(&mut self, who: Who, span: SpanId, lane: usize, message: &str) {
        let key = (Code::ASSERT, span, None);
        if self.reporter.is_known(key, 0) {
            return;
        }
        let diagnostic = Diagnostic::new(Code::ASSERT, span, format!("assertion failed: {message}"))
            .at(format!("in {}", self.thread_name(who.thread(lane))))
            .note(self.witness(who));
        self.reporter.describe(key, 0, diagnostic);
    }
}

/// What went wrong in `a op b`, which gives `value` if it has one.
pub(super) fn index_text(op: BinaryOp, a: i64, b: i64, value: Option<i64>, wide: bool) -> String {
    let call = matches!(op, BinaryOp::CeilDiv | BinaryOp::Min | BinaryOp::Max);
    let text = if call { format!("{}({a}, {b})", op.symbol()) } else { format!("{a} {} {b}", op.symbol()) };
    match value {
        Some(value) => format!("index overflows 32 bits: {text} = {value}"),
        None if b == 0 && matches!(op, BinaryOp::Div | BinaryOp::Rem | BinaryOp::CeilDiv) => {
            format!("division by zero: {text}")
        }
        None => format!("index overflows {} bits: {text}", if wide { 64 } else { 32 }),
    }
}

pub(super) fn verb(kind: AccessKind) -> &'static str {
    match kind {
        AccessKind::Read => "reads",
        AccessKind::Write => "writes",
        AccessKind::Atomic => "atomically updates",
    }
}

pub(super) fn space_word(space: Space) -> &'static str {
    if matches!(space, Space::Shared(_)) { "shared " } else { "" }
}
