//! Findings: collected once a place and kind, in the author's words, each with a witness.

use super::AccessKind;
use super::bytecode::{Instr, Site};
use super::schedule::Machine;
use super::shadow::Access;
use super::warp::Warp;
use crate::diag::{Code, Diagnostic};
use crate::ir::{BinaryOp, EntityRef, SpanId};
use crate::lowered::{LocalId, RegId, Space};
use std::collections::HashMap;

/// The findings of a run.
pub(super) struct Reporter {
    found: Vec<Finding>,
    /// Which finding a place and kind has; none where it did not fit.
    index: HashMap<Key, Option<usize>>,
    most: usize,
}

/// What tells findings apart: the code, the place, and for races the other place.
type Key = (Code, SpanId, Option<SpanId>);

struct Finding {
    key: Key,
    diagnostic: Diagnostic,
    /// How well its witness explains the mistake.
    rank: u8,
    times: u64,
}

impl Reporter {
    pub fn new(most: usize) -> Reporter {
        Reporter { found: Vec::new(), index: HashMap::new(), most }
    }

    /// Counts an occurrence of a finding. True where it needs no description: it has one of this rank, or there is no
    /// place for it. Mistakes may occur millions of times, so nothing is formatted before this is asked.
    fn is_known(&mut self, key: Key, rank: u8) -> bool {
        match self.index.get(&key) {
            None if self.found.len() < self.most => false,
            None => {
                self.index.insert(key, None);
                true
            }
            Some(None) => true,
            Some(Some(slot)) => {
                let finding = &mut self.found[*slot];
                finding.times += 1;
                rank <= finding.rank
            }
        }
    }

    /// Describes a finding that is not known.
    fn describe(&mut self, key: Key, rank: u8, diagnostic: Diagnostic) {
        match self.index.get(&key) {
            Some(Some(slot)) => {
                let finding = &mut self.found[*slot];
                (finding.diagnostic, finding.rank) = (diagnostic, rank);
            }
            _ => {
                self.index.insert(key, Some(self.found.len()));
                self.found.push(Finding { key, diagnostic, rank, times: 1 });
            }
        }
    }

    /// The diagnostics, and how many more places had one.
    pub fn finish(self) -> (Vec<Diagnostic>, usize) {
        let suppressed = self.index.values().filter(|slot| slot.is_none()).count();
        let races: Vec<Key> = self.found.iter().map(|f| f.key).filter(|key| key.2.is_some()).collect();
        let raced = |span: SpanId| races.iter().any(|&(_, low, high)| low == span || high == Some(span));
        // An element that is read too early because of a race is one mistake, not two.
        let own = self.found.into_iter().filter(|f| f.key.0 != Code::UNINITIALISED || !raced(f.key.1));
        let diagnostics = own.map(|Finding { diagnostic, times, .. }| match times {
            1 => diagnostic,
            _ => diagnostic.note(format!("seen {times} times in this run")),
        });
        (diagnostics.collect(), suppressed)
    }
}

/// Who does something, for witnesses.
#[derive(Clone, Copy)]
pub(super) struct Who {
    pub block: [u32; 3],
    pub linear: u32,
    pub warp: u32,
    pub interval: u32,
}

impl Who {
    pub fn of(block: [u32; 3], linear: u32, warp: &Warp) -> Who {
        Who { block, linear, warp: warp.index, interval: warp.interval }
    }

    /// The linear thread of a lane.
    pub fn thread(&self, lane: usize) -> u32 {
        self.warp * 32 + lane as u32
    }
}

impl Machine<'_> {
    // ---- names ----

    /// `thread 5`, or `thread (5, 1)`.
    pub(super) fn thread_name(&self, linear: u32) -> String {
        let [x, y, z] = self.launch.threads;
        let (tx, ty, tz) = (linear % x, linear / x % y, linear / x / y);
        match (y, z) {
            (1, 1) => format!("thread {tx}"),
            (_, 1) => format!("thread ({tx}, {ty})"),
            _ => format!("thread ({tx}, {ty}, {tz})"),
        }
    }

    pub(super) fn block_name(&self, [bx, by, bz]: [u32; 3]) -> String {
        match self.launch.grid {
            [_, 1, 1] => format!("block {bx}"),
            [_, _, 1] => format!("block ({bx}, {by})"),
            _ => format!("block ({bx}, {by}, {bz})"),
        }
    }

    fn block_at(&self, linear: u32) -> [u32; 3] {
        let [x, y, _] = self.launch.grid;
        [linear % x, linear / x % y, linear / x / y]
    }

    pub(super) fn name(&self, space: Space) -> &str {
        match space {
            Space::Global(param) => {
                self.launch.views.get(param.index()).and_then(Option::as_ref).map_or("", |v| v.name.as_str())
            }
            Space::Shared(shared) => &self.program.shared[shared].name,
            Space::Local(local) => &self.program.locals[local].name,
        }
    }

    /// `s[5]`: the element as the author would write it, or by its number where that is unknown.
    fn element_name(&self, site: &Site, offset: i64) -> String {
        let name = self.name(site.space);
        if let Space::Global(param) = site.space
            && let Some(view) = self.launch.views.get(param.index()).and_then(Option::as_ref)
            && view.contains(offset)
        {
            let mut rest = offset;
            let coordinates = view.shape.iter().zip(&view.strides).map(|(&extent, &stride)| {
                let index = if extent > 1 { rest / stride } else { 0 };
                rest -= index * stride;
                index.to_string()
            });
            return format!("{name}[{}]", coordinates.collect::<Vec<_>>().join(", "));
        }
        let span = self.program.spans.get(site.span).copied().unwrap_or_default();
        let line = self.program.source.line(span.line).unwrap_or("");
        let columns = span.end_column.saturating_sub(span.column) as usize;
        let mut text = line.chars().skip(span.column.saturating_sub(1) as usize).take(columns);
        if text.any(|c| c == ',') { format!("element {offset} of `{name}`") } else { format!("{name}[{offset}]") }
    }

    /// `4096 elements`, or `the extents [16, 256]`.
    fn extents(&self, space: Space) -> String {
        let elements = |n: i64| if n == 1 { "1 element".to_string() } else { format!("{n} elements") };
        match space {
            Space::Global(param) => match self.launch.views.get(param.index()).and_then(Option::as_ref) {
                Some(view) if view.shape.len() == 1 => elements(view.shape[0]),
                Some(view) => format!("the extents {:?}", view.shape),
                None => elements(0),
            },
            Space::Shared(shared) => elements(i64::from(self.program.shared[shared].len)),
            Space::Local(local) => elements(i64::from(self.program.locals[local].len)),
        }
    }

    fn line(&self, span: SpanId) -> u32 {
        self.program.spans.get(span).map_or(0, |s| s.line)
    }

    fn witness(&self, who: Who) -> String {
        format!(
            "in {}, barrier interval {}; replay with seed {}",
            self.block_name(who.block),
            who.interval,
            self.options.seed
        )
    }

    // ---- findings ----

    pub(super) fn out_of_bounds(&mut self, who: Who, site: &Site, lane: usize, offset: i64) {
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
            .help(format!("guard the access with an `if` on its indices, or write `{name}.masked(..)`"));
        self.reporter.describe(key, 0, diagnostic);
    }

    pub(super) fn misaligned(&mut self, who: Who, site: &Site, lanes: u32, active: u32, first: (usize, i64)) {
        let shared = matches!(site.space, Space::Shared(_));
        let code = if shared { Code::SHARED_ALIGNMENT } else { Code::VECTOR_ALIGNMENT };
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
                .help(format!("write every element of `{}` that is read, or `fill` it first", self.name(site.space)));
        self.reporter.describe(key, 0, diagnostic);
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

    pub(super) fn race(
        &mut self,
        who: Who,
        site: &Site,
        lane: usize,
        offset: i64,
        (earlier, kind): (Access, AccessKind),
    ) {
        let first = &self.code.sites[earlier.site as usize];
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

        let diagnostic = if between_blocks {
            let earlier_block = self.block_name(self.block_at(earlier.block));
            let text = format!(
                "{now} of {} {verb_now} {element} (line {line}), {then} of {earlier_block} {verb_then} {first_element} \
                 (line {first_line}); blocks are not ordered",
                self.block_name(who.block)
            );
            Diagnostic::new(code, site.span, format!("data race between blocks on `{name}`")).at(text).help(
                "let each block touch its own elements, or make every one of these accesses atomic (`atomic_add`)",
            )
        } else {
            let space = space_word(site.space);
            let text = format!(
                "{then} {verb_then} {first_element} (line {first_line}), {now} {verb_now} {element} (line {line}), \
                 no barrier between"
            );
            let same_warp = earlier.warp() == who.warp;
            let sync = if same_warp { "sync_warp" } else { "sync_threads" };
            let help = if std::ptr::eq(first, site) && site.kind != AccessKind::Read {
                "let one thread write it (`if tx == 0 { .. }`), or use `atomic_add`".to_string()
            } else if line == first_line {
                format!("read into a variable, then `{sync}();`, then write")
            } else if self.has_barrier_between(first, site, same_warp) {
                // The next iteration of a loop meets this one.
                format!("insert `{sync}();` after line {}", line.max(first_line))
            } else {
                format!("insert `{sync}();` before line {}", line.max(first_line))
            };
            Diagnostic::new(code, site.span, format!("data race on {space}`{name}`")).at(text).help(help)
        };
        let mut diagnostic = diagnostic.note(self.witness(who));
        if first.span != site.span {
            diagnostic = diagnostic.label(first.span, format!("{then} {verb_then} it here"));
        }
        self.reporter.describe(key, rank, diagnostic);
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
        Some(value) if value < 0 => format!("index is negative: {text} = {value}"),
        Some(value) => format!("index overflows 32 bits: {text} = {value}"),
        None if b == 0 && matches!(op, BinaryOp::Div | BinaryOp::Rem | BinaryOp::CeilDiv) => {
            format!("division by zero: {text}")
        }
        None => format!("index overflows {} bits: {text}", if wide { 64 } else { 32 }),
    }
}

fn verb(kind: AccessKind) -> &'static str {
    match kind {
        AccessKind::Read => "reads",
        AccessKind::Write => "writes",
        AccessKind::Atomic => "atomically updates",
    }
}

fn space_word(space: Space) -> &'static str {
    if matches!(space, Space::Shared(_)) { "shared " } else { "" }
}
