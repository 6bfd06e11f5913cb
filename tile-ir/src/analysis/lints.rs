//! Performance lints, computed only where the author turned them on.
//!
//! TK0601: the lanes of the first warp, at the first value of every loop around, meet in a bank of shared memory.

use super::point::Point;
use super::walk::Walk;
use crate::analysis::assignment::Assignment;
use crate::constraint::Poly;
use crate::diag::{Code, Diagnostic};
use crate::ir::{AccessId, Kernel, Place, Scope};
use std::collections::{BTreeMap, BTreeSet};

/// Banks of shared memory, each 4 bytes wide.
/// Source: CUDA C++ Programming Guide, compute capability 8.0, shared memory.
const BANKS: i64 = 32;

/// Whether the author turned a lint on.
pub(super) fn enabled(kernel: &Kernel, code: Code) -> bool {
    let code = code.to_string();
    kernel.attributes.lints.iter().rev().find(|(name, _)| *name == code).is_some_and(|(_, level)| level != "off")
}

/// Reports an element access whose lanes meet in a bank.
pub(super) fn banks(walk: &mut Walk<'_>, access: AccessId, indices: &[Poly], extents: &[Poly]) {
    let kernel = walk.kernel;
    let data = &kernel.accesses[access];
    let Place::Buffer(buffer) = data.place else { return };
    if kernel.buffers[buffer].scope != Scope::Shared || walk.vector.is_some() {
        return;
    }
    let (mut offset, mut pitch) = (Some(Poly::default()), 1i64);
    for (index, extent) in indices.iter().zip(extents).rev() {
        offset = offset.and_then(|o| o.combine(1, index, pitch));
        pitch = pitch.saturating_mul(extent.as_constant().unwrap_or(1));
    }
    let Some(offset) = offset else { return };
    let element = i64::from(kernel.buffer_dtype(buffer).bytes());
    let mut banks: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
    let mut first = BTreeMap::new();
    for (lane, point) in lanes(walk).iter().enumerate() {
        let Some(byte) = point.eval(&walk.cx, &offset).and_then(|o| o.checked_mul(element)) else { return };
        let word = byte.div_euclid(4);
        let bank = word.rem_euclid(BANKS);
        banks.entry(bank).or_default().insert(word);
        first.entry(word).or_insert(lane);
    }
    let Some((bank, words)) = banks.iter().max_by_key(|(bank, words)| (words.len(), -**bank)) else { return };
    if words.len() < 2 {
        return;
    }
    let ways = words.len();
    let met: Vec<String> = words.iter().take(2).filter_map(|w| first.get(w)).map(usize::to_string).collect();
    let name = kernel.place_name(data.place);
    let diagnostic = Diagnostic::new(
        Code::BANK_CONFLICT,
        data.span,
        format!("{ways}-way bank conflict on `{name}`: {ways} wavefronts, ideal 1"),
    )
    .at(format!("lanes {} are in different words of bank {bank}", met.join(" and ")));
    let columns = extents.last().and_then(Poly::as_constant).unwrap_or(1);
    let diagnostic = if extents.len() > 1 {
        diagnostic.help(format!("pad the rows of `{name}` to {} elements", columns + (4 / element).max(1)))
    } else {
        diagnostic.help("let neighbouring threads use neighbouring elements")
    };
    walk.analysis.lints.push(diagnostic);
}

/// The points of the first warp's lanes, every other ranged symbol at its first value.
fn lanes(walk: &Walk<'_>) -> Vec<Point> {
    let extents = walk.kernel.thread_extents();
    let count = walk.kernel.thread_count().min(32);
    (0..count)
        .map(|lane| {
            let mut point = Point::default();
            for range in &walk.ranged {
                let axis = walk.kernel.threads.iter().position(|a| a.var == range.var);
                match axis {
                    Some(axis) => {
                        let stride: u32 = extents[..axis.min(3)].iter().product();
                        point.set(range.sym, i64::from(lane / stride.max(1) % extents[axis.min(2)].max(1)));
                    }
                    None => point.set(range.sym, range.lo.as_constant().unwrap_or(0)),
                }
            }
            point
        })
        .collect()
}
