//! Definite initialisation: an element of a shared array, a per-thread array or a fragment is read although nothing
//! before can have written it.
//!
//! Writes are taken for more than they may be (a condition that is not known holds, an index that is not known is every
//! element), reads for less: the thread and the iteration of a report are those of an execution that exists, for every
//! launch that comes to the line. Of loops around a read that also write the array, the first iteration is looked at:
//! what stands behind the read has not happened then.

use super::points::{self, Values};
use super::{Kind, LoopForm, Region, Touch};
use crate::analysis::assignment::Assignment;
use crate::analysis::walk::{Ranged, Walk};
use crate::constraint::{Answer, Cond, Poly, Sym};
use crate::diag::{Code, Diagnostic};
use crate::ir::{BufferId, Place, Scope};
use std::ops::ControlFlow;

/// Points looked at of one access.
const POINTS: u64 = 2048;
/// Points looked at in a kernel; what is beyond is left to the checked simulator.
const BUDGET: u64 = 24_000;
/// Elements of an array that are told apart.
const ELEMENTS: u64 = 1 << 16;

/// The arrays that are certainly read before they are written, one report each.
pub(super) fn check(walk: &Walk<'_>) -> Vec<Diagnostic> {
    let mut left = BUDGET;
    let mut found = Vec::new();
    for (&buffer, &declared) in &walk.regions.declared {
        let place = Place::Buffer(buffer);
        let touches: Vec<(usize, &Touch)> =
            walk.regions.touches.iter().enumerate().filter(|(_, t)| t.place == place).collect();
        let array = Array { walk, buffer, declared, touches };
        for &(at, read) in array.touches.iter().filter(|(_, t)| t.kind != Kind::Write) {
            if let Some(diagnostic) = array.read(at, read, &mut left) {
                found.push(diagnostic);
                break;
            }
        }
    }
    found
}

/// An array and all that touches it, in program order.
struct Array<'w, 'k> {
    walk: &'w Walk<'k>,
    buffer: BufferId,
    declared: Option<usize>,
    touches: Vec<(usize, &'w Touch)>,
}

/// The elements that may be written before a read.
enum Written {
    All,
    These(Vec<bool>),
}

impl Array<'_, '_> {
    /// A read of the array, where it certainly meets an element that was not written.
    fn read(&self, at: usize, read: &Touch, left: &mut u64) -> Option<Diagnostic> {
        let regions = &self.walk.regions;
        let inner = regions.within(read.around, self.declared);
        // Loops around the read that write the array too: their later iterations see what earlier ones wrote.
        let repeated = |w: &Touch| {
            let others = regions.within(w.around, self.declared);
            inner.iter().zip(&others).take_while(|(a, b)| a == b).map(|(a, _)| *a).collect::<Vec<_>>()
        };
        let (mut shared, mut sources, mut later) = (Vec::new(), false, false);
        let mut before = Vec::new();
        for &(of_write, write) in self.touches.iter().filter(|(_, t)| t.kind != Kind::Read) {
            let common = repeated(write);
            if common.iter().any(|l| regions.loops[*l].kind == LoopForm::Parallel) {
                return None; // indices in no order
            }
            if of_write < at {
                before.push(write);
            }
            let again = !common.is_empty();
            later |= again && of_write > at;
            sources |= (of_write < at || again) && write.kind == Kind::Write && !write.reads_itself;
            if common.len() > shared.len() {
                shared = common;
            }
        }
        if !sources {
            return Some(self.never(read, &inner));
        }
        if before.iter().any(|w| w.region == Region::Whole) {
            return None;
        }
        let mut values = Values::none(self.walk.cx.symbols());
        let first = |values: &mut Values, ranged: &[Ranged]| ranged.iter().for_each(|r| values.set(r.sym, 0));
        let (blocks, threads): (Vec<&Ranged>, Vec<&Ranged>) =
            self.walk.ranged.iter().partition(|r| self.walk.kernel.grid.iter().any(|a| a.var == r.var));
        blocks.iter().for_each(|r| values.set(r.sym, 0));
        for outer in regions.within(self.declared, None) {
            first(&mut values, &regions.loops[outer].ranged);
        }
        for loop_ in &shared {
            first(&mut values, &regions.loops[*loop_].ranged);
        }
        let mut free: Vec<&Ranged> = Vec::new();
        for loop_ in inner.iter().filter(|l| !shared.contains(l)) {
            let Around { kind, ranged } = around(self.walk, *loop_);
            match kind {
                LoopForm::Persistent => first(&mut values, ranged),
                _ if ranged.iter().any(|r| r.hi.as_constant().is_none()) => first(&mut values, ranged),
                _ => free.extend(ranged),
            }
        }
        // Each thread has a per-thread array for itself: a few threads stand for all. Others are everybody's.
        let own = self.walk.kernel.buffers[self.buffer].scope == Scope::Local;
        let samples: &[bool] = if own { &[false, true] } else { &[false] };
        for last in samples {
            if own {
                threads.iter().for_each(|r| {
                    let value = if *last { r.hi.as_constant() } else { r.lo.as_constant() };
                    values.set(r.sym, value.unwrap_or(0));
                });
            }
            let writers: &[&Ranged] = if own { &[] } else { &threads };
            let Written::These(written) = self.written(&before, &mut values, writers, left) else { return None };
            let readers = writers.iter().copied().chain(free.iter().copied());
            if let Some((element, thread)) = self.missed(read, &written, &mut values, readers, later, left) {
                return Some(self.partly(read, &element, thread));
            }
        }
        None
    }

    /// What may have been written before.
    fn written(&self, before: &[&Touch], values: &mut Values, threads: &[&Ranged], left: &mut u64) -> Written {
        let (walk, regions) = (self.walk, &self.walk.regions);
        let extents = walk.kernel.buffer_extents(self.buffer);
        let count = extents.iter().fold(1u64, |n, e| n.saturating_mul(u64::from(*e)));
        if count > ELEMENTS {
            return Written::All;
        }
        let mut written = vec![false; count as usize];
        for write in before {
            let leaves = points::leaves(walk, write);
            let loops = regions.within(write.around, self.declared);
            let free = threads.iter().copied().chain(loops.iter().flat_map(|l| &regions.loops[*l].ranged));
            let unknown: Vec<Sym> = leaves.iter().copied().filter(|s| !values.known(*s)).collect();
            let Some(ranges) = points::ranges(free, &unknown, POINTS.min(*left)) else { return Written::All };
            let mut known = true;
            let mut scratch = values.clone();
            let _: ControlFlow<()> = scratch.each(&ranges, &mut |point| {
                *left = left.saturating_sub(1);
                if point.reaches(&walk.cx, write) != Some(false) {
                    known &= self.elements(point, write, extents, &mut |element| {
                        written[element] = true;
                        ControlFlow::Continue(())
                    }) != Some(false);
                }
                if known { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            if !known {
                return Written::All;
            }
        }
        if written.iter().all(|w| *w) { Written::All } else { Written::These(written) }
    }

    /// The first element that a read certainly meets and that is not among `written`, with the thread, where it matters.
    fn missed<'r>(
        &self,
        read: &Touch,
        written: &[bool],
        values: &mut Values,
        readers: impl Iterator<Item = &'r Ranged>,
        later: bool,
        left: &mut u64,
    ) -> Option<(Vec<i64>, Option<u32>)> {
        let walk = self.walk;
        let extents = walk.kernel.buffer_extents(self.buffer);
        let leaves: Vec<Sym> = points::leaves(walk, read).into_iter().filter(|s| !values.known(*s)).collect();
        let ranges = points::ranges(readers, &leaves, POINTS.min(*left))?;
        // All threads do what touches a tile: then it does not matter which condition they meet it under, unless
        // something behind it has happened by then.
        let together = !matches!(read.region, Region::Element(_)) && !later;
        let mut scratch = values.clone();
        let found = scratch.each(&ranges, &mut |point| {
            *left = left.saturating_sub(1);
            let mut missed = None;
            let _ = self.elements(point, read, extents, &mut |element| {
                if written[element] {
                    return ControlFlow::Continue(());
                }
                missed = Some(element);
                ControlFlow::Break(())
            });
            match missed {
                Some(element) if together && point.reaches(&walk.cx, read) != Some(false) => {
                    ControlFlow::Break((element, None))
                }
                Some(element) if certain(walk, point, &read.path) => {
                    let thread =
                        matches!(read.region, Region::Element(_)).then(|| super::thread_at(walk, point)).flatten();
                    ControlFlow::Break((element, thread))
                }
                _ => ControlFlow::Continue(()),
            }
        });
        let ControlFlow::Break((mut element, thread)) = found else { return None };
        let mut index = vec![0; extents.len()];
        for (slot, extent) in index.iter_mut().zip(extents).rev() {
            *slot = (element % (*extent).max(1) as usize) as i64;
            element /= (*extent).max(1) as usize;
        }
        Some((index, thread))
    }

    /// Calls `f` with the linear index of every element of a touch at a point, as long as it continues; whether it did,
    /// `Some(false)` where the elements are not known. What is outside is left out.
    fn elements(
        &self,
        point: &Values,
        touch: &Touch,
        extents: &[u32],
        f: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Option<bool> {
        let cx = &self.walk.cx;
        let at = |indices: &[Poly]| indices.iter().map(|p| point.eval(cx, p)).collect::<Option<Vec<i64>>>();
        let (start, sizes) = match &touch.region {
            Region::Whole => (vec![0; extents.len()], extents.iter().map(|e| i64::from(*e)).collect()),
            Region::Element(indices) => match at(indices) {
                Some(start) => {
                    let sizes = vec![1; start.len()];
                    (start, sizes)
                }
                None => return Some(false),
            },
            Region::Tile(start, sizes) => match at(start) {
                Some(start) => (start, sizes.clone()),
                None => return Some(false),
            },
        };
        let clipped: Vec<(i64, i64)> = start
            .iter()
            .zip(&sizes)
            .zip(extents)
            .map(|((start, size), extent)| ((*start).max(0), start.saturating_add(*size).min(i64::from(*extent))))
            .collect();
        box_elements(&clipped, extents, 0, f);
        None
    }

    fn never(&self, read: &Touch, inner: &[usize]) -> Diagnostic {
        let kernel = self.walk.kernel;
        let array = &kernel.buffers[self.buffer];
        let name = &array.name;
        let line = |span| kernel.spans.get(span).map(|s| s.line).filter(|l| *l > 0);
        // A loop over tiles is the whole of the kernel: nothing is computed before it.
        let outermost = inner.iter().map(|l| &self.walk.regions.loops[*l]).find(|l| l.kind == LoopForm::Serial);
        let place = match outermost.and_then(|l| line(l.span)) {
            Some(line) => format!("before the loop of line {line}"),
            None => self.declared(),
        };
        let read_only = self.touches.iter().all(|(_, t)| t.kind == Kind::Read);
        let at = match (read.kind, read_only) {
            (_, true) => format!("nothing writes `{name}`"),
            (Kind::Update, _) => format!("this adds to what `{name}` holds, and nothing has given it a value yet"),
            _ => format!("nothing has given `{name}` a value yet"),
        };
        Diagnostic::new(Code::UNINITIALISED, read.span, format!("`{name}` is read before anything is written to it"))
            .at(at)
            .label(array.span, "what it holds is not defined")
            .help(format!("put `clear(&mut {name});` {place}"))
    }

    fn partly(&self, read: &Touch, element: &[i64], thread: Option<u32>) -> Diagnostic {
        let array = &self.walk.kernel.buffers[self.buffer];
        let name = &array.name;
        let shown: Vec<String> = element.iter().map(i64::to_string).collect();
        let element = match shown.as_slice() {
            [one] => format!("{name}[{one}]"),
            all => format!("{name}[[{}]]", all.join(", ")),
        };
        let who = thread.map(|t| format!("thread {t} reads it here, and ")).unwrap_or_default();
        Diagnostic::new(Code::UNINITIALISED, read.span, format!("{element} is read before it is written"))
            .at(format!("{who}no thread writes it before"))
            .label(array.span, "what it holds is not defined")
            .help(format!(
                "write every element of `{name}` that is read, or put `clear(&mut {name});` {}",
                self.declared()
            ))
    }

    /// Where an array gets its first value, at the latest: behind its declaration.
    fn declared(&self) -> String {
        let kernel = self.walk.kernel;
        let span = kernel.spans.get(kernel.buffers[self.buffer].span);
        match span.map(|span| span.line).filter(|line| *line > 0) {
            Some(line) => format!("after line {line}"),
            None => "before the first write".to_owned(),
        }
    }
}

/// A loop, taken apart.
struct Around<'w> {
    kind: LoopForm,
    ranged: &'w [Ranged],
}

fn around<'w>(walk: &'w Walk<'_>, loop_: usize) -> Around<'w> {
    let found = &walk.regions.loops[loop_];
    Around { kind: found.kind, ranged: &found.ranged }
}

/// The linear indices of a box.
fn box_elements(
    sides: &[(i64, i64)],
    extents: &[u32],
    before: usize,
    f: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> bool {
    let (Some((&(lo, hi), rest)), Some((extent, extents))) = (sides.split_first(), extents.split_first()) else {
        return f(before).is_continue();
    };
    (lo..hi).all(|i| box_elements(rest, extents, before * *extent as usize + i as usize, f))
}

/// Whether conditions hold at a point, at least of some launch.
fn certain(walk: &Walk<'_>, point: &Values, path: &[Cond]) -> bool {
    path.iter().all(|cond| possible(walk, point, cond))
}

fn possible(walk: &Walk<'_>, point: &Values, cond: &Cond) -> bool {
    match point.holds(&walk.cx, cond) {
        Some(holds) => return holds,
        None if matches!(cond, Cond::Unknown(_)) => return false,
        None => {}
    }
    // What is left is about the launch.
    let rest = |p: &Poly| {
        let mut p = p.clone();
        for sym in p.clone().syms() {
            if let Some(value) = point.eval(&walk.cx, &Poly::sym(sym)) {
                p = p.substitute(sym, &Poly::constant(value))?;
            }
        }
        walk.is_launch(&p).then_some(p)
    };
    let admits = |cond: Option<Cond>| cond.is_some_and(|c| walk.cx.decide(&c) != Answer::Refuted);
    match cond {
        Cond::NonNeg(p) => admits(rest(p).map(Cond::NonNeg)),
        Cond::Zero(p) => admits(rest(p).map(Cond::Zero)),
        Cond::NonZero(p) => admits(rest(p).map(Cond::NonZero)),
        Cond::And(a, b) => possible(walk, point, a) && possible(walk, point, b),
        Cond::Or(a, b) => possible(walk, point, a) || possible(walk, point, b),
        Cond::True => true,
        Cond::False | Cond::Unknown(_) => false,
    }
}
