//! Findings: collected once a place and kind, in the author's words, each with a witness.

use super::bytecode::Site;
use super::schedule::Machine;
use super::warp::Warp;
use crate::diag::{Code, Diagnostic};
use crate::ir::{EntityRef, SpanId};
use crate::lowered::Space;
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
    pub(super) fn is_known(&mut self, key: Key, rank: u8) -> bool {
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

    /// Whether there is no finding.
    pub(super) fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Whether there is a finding with this code.
    pub(super) fn has(&self, code: Code) -> bool {
        self.found.iter().any(|f| f.key.0 == code)
    }

    /// Describes a finding that is not known.
    pub(super) fn describe(&mut self, key: Key, rank: u8, diagnostic: Diagnostic) {
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
#[derive(Clone, Copy, Debug)]
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

    pub(super) fn block_at(&self, linear: u32) -> [u32; 3] {
        self.launch.block_at(linear)
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
    pub(super) fn element_name(&self, site: &Site, offset: i64) -> String {
        let name = self.name(site.space);
        if let Space::Global(param) = site.space
            && let Some(view) = self.launch.views.get(param.index()).and_then(Option::as_ref)
            && view.contains(offset)
        {
            let mut rest = offset;
            let mut coordinates = vec!["0".to_owned(); view.shape.len()];
            for &axis in &view.by_stride {
                coordinates[axis] = (rest / view.strides[axis]).to_string();
                rest %= view.strides[axis];
            }
            return format!("{name}[{}]", coordinates.join(", "));
        }
        let span = self.program.spans.get(site.span).copied().unwrap_or_default();
        let line = self.program.source.line_of(span).unwrap_or("");
        let columns = span.end_column.saturating_sub(span.column) as usize;
        let mut text = line.chars().skip(span.column.saturating_sub(1) as usize).take(columns);
        if text.any(|c| c == ',') { format!("element {offset} of `{name}`") } else { format!("{name}[{offset}]") }
    }

    /// `4096 elements`, or `the extents [16, 256]`.
    pub(super) fn extents(&self, space: Space) -> String {
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

    pub(super) fn line(&self, span: SpanId) -> u32 {
        self.program.spans.get(span).map_or(0, |s| s.line)
    }

    pub(super) fn witness(&self, who: Who) -> String {
        format!(
            "in {}, barrier interval {}; replay with seed {}",
            self.block_name(who.block),
            who.interval,
            self.options.seed
        )
    }
}
