//! Index expressions are 32-bit in the emitted code: their largest values, as the launcher can compute them.

use super::IndexRange;
use super::walk::Walk;
use crate::constraint::{Definition, Monomial, Poly, Sym};
use crate::ir::{BinaryOp, SpanId};
use crate::lowered::HostExpr;
use std::collections::HashMap;

/// Records that an index expression has this value, in both directions, where its range is not known to fit.
pub(super) fn note(walk: &mut Walk<'_>, poly: &Poly, span: SpanId) {
    let most = i64::from(i32::MAX);
    let (lo, hi) = walk.cx.range(poly);
    let mut most_of = |poly: &Poly| {
        let bound = Greatest { walk: &mut *walk, known: HashMap::new() }.of(poly);
        walk.ranges.extend(bound.map(|bound| (bound, span.as_u32())));
    };
    if hi.is_none_or(|hi| hi > most) {
        most_of(poly);
    }
    if lo.is_none_or(|lo| lo < -most) {
        poly.scaled(-1).iter().for_each(most_of);
    }
}

/// Greatest values as polynomials of what the launcher knows; upper bounds of them where they have no closed form.
struct Greatest<'w, 'k> {
    walk: &'w mut Walk<'k>,
    /// Those of symbols, so that a definition that is used again and again is looked at once.
    known: HashMap<Sym, Option<Poly>>,
}

impl Greatest<'_, '_> {
    fn of(&mut self, poly: &Poly) -> Option<Poly> {
        let mut poly = poly.clone();
        // Every step removes the latest symbol that is not the launcher's; new ones are earlier or the launcher's.
        for _ in 0..64 {
            let Some(sym) = poly.syms().filter(|s| !self.walk.is_launch(&Poly::sym(*s))).max() else {
                return Some(poly);
            };
            let mut next = Poly::default();
            for (m, c) in poly.terms() {
                let term = match m.power(sym) {
                    0 => Poly::constant(*c).times_term(m, 1)?,
                    _ => {
                        // The other factors must not be negative for a bound of one to bound the product.
                        if m.factors().any(|s| self.walk.cx.symbol(s).lo.is_none_or(|lo| lo < 0)) {
                            return None;
                        }
                        let bound =
                            if *c > 0 { self.upper(sym)? } else { Poly::constant(self.walk.cx.symbol(sym).lo?) };
                        let mut term = Poly::constant(*c);
                        for factor in m.factors() {
                            let value = if factor == sym { bound.clone() } else { Poly::sym(factor) };
                            term = term.times(&value)?;
                        }
                        term
                    }
                };
                next = next.plus(&term)?;
            }
            poly = next;
        }
        None
    }

    /// An upper bound of a symbol in earlier symbols or the launcher's.
    fn upper(&mut self, sym: Sym) -> Option<Poly> {
        if let Some(range) = self.walk.ranged.iter().rev().find(|r| r.sym == sym) {
            return Some(range.hi.clone());
        }
        if let Some(known) = self.known.get(&sym) {
            return known.clone();
        }
        // What a symbol is made of says more than a constant: that of a dim is 2^31, so that a check against it always
        // fails. Neither is there anything to check where the constant is only that of the type.
        let made_of = self.made_of(sym);
        let constant = || self.walk.cx.symbol(sym).hi.filter(|hi| *hi < i64::from(i32::MAX)).map(Poly::constant);
        let bound = made_of.or_else(constant);
        self.known.insert(sym, bound.clone());
        bound
    }

    /// An upper bound of a symbol from its definition, of what the launcher knows.
    fn made_of(&mut self, sym: Sym) -> Option<Poly> {
        match self.walk.cx.symbol(sym).definition.clone() {
            Definition::Floor(n, d) => {
                let n = self.of(&n)?;
                // At least 1, whatever it is.
                if self.walk.is_launch(&d) { self.walk.cx.floor_div(&n, &d) } else { Some(n) }
            }
            Definition::Min(a, b) => match (self.of(&a), self.of(&b)) {
                (Some(a), Some(b)) => Some(self.walk.cx.min(&a, &b)),
                (a, b) => a.or(b),
            },
            Definition::Max(a, b) => self.greatest_of(&[a, b]),
            Definition::OneOf(cases) => self.greatest_of(&cases),
            Definition::Free(_) | Definition::Opaque(..) => None,
        }
    }

    fn greatest_of(&mut self, cases: &[Poly]) -> Option<Poly> {
        let bounds = cases.iter().map(|case| self.of(case)).collect::<Option<Vec<Poly>>>()?;
        bounds.into_iter().reduce(|a, b| self.walk.cx.max(&a, &b))
    }
}

/// The launch checks: what is not known to hold, without those that others imply.
pub(super) fn finish(walk: &mut Walk<'_>) {
    let all: Vec<_> = std::mem::take(&mut walk.ranges).into_iter().collect();
    let mut kept: Vec<(Poly, u32)> = Vec::new();
    for (poly, span) in all {
        if walk.cx.range(&poly).1.is_some_and(|hi| hi <= i64::from(i32::MAX)) {
            continue;
        }
        let implied = |cx: &crate::constraint::Context, a: &Poly, b: &Poly| b.minus(a).is_some_and(|p| cx.proves(&p));
        if kept.iter().any(|(other, _)| implied(&walk.cx, &poly, other)) {
            continue;
        }
        kept.retain(|(other, _)| !implied(&walk.cx, other, &poly));
        kept.push((poly, span));
    }
    for (poly, span) in kept {
        if let Some(bound) = walk.host(&poly) {
            walk.analysis.index_ranges.push(IndexRange { bound, span: SpanId::from_u32(span) });
        }
    }
}

/// Most operations of what the launcher evaluates for one check.
const HOST_SIZE: u32 = 2_000;

impl Walk<'_> {
    /// A polynomial as the launcher evaluates it; none where that is too much to write out.
    pub fn host(&self, poly: &Poly) -> Option<HostExpr> {
        if self.cx.size(poly) > HOST_SIZE {
            return None;
        }
        let mut sum: Option<HostExpr> = None;
        // Positive terms first, so that the text reads as an author's would.
        let (negative, positive): (Vec<_>, Vec<_>) = poly.terms().iter().rev().copied().partition(|t| t.1 < 0);
        for (m, c) in positive.into_iter().chain(negative) {
            let mut product: Option<HostExpr> = None;
            let mut size = c.checked_abs()?;
            for sym in m.factors() {
                let factor = match self.hosts.get(&sym) {
                    // A dim that `require` makes a multiple: 8 * (K / 8) is K.
                    Some(HostExpr::Binary(BinaryOp::Div, whole, by)) if divides(by, size) => {
                        size /= by_value(by);
                        (**whole).clone()
                    }
                    _ => self.host_sym(sym)?,
                };
                product = Some(match product {
                    Some(p) => HostExpr::binary(BinaryOp::Mul, p, factor),
                    None => factor,
                });
            }
            let size = HostExpr::Int(size);
            let product = match product {
                Some(p) if size == HostExpr::Int(1) => p,
                Some(p) => HostExpr::binary(BinaryOp::Mul, p, size),
                None => size,
            };
            sum = Some(match sum {
                Some(s) => HostExpr::binary(if c < 0 { BinaryOp::Sub } else { BinaryOp::Add }, s, product),
                None if c < 0 && m == Monomial::ONE => HostExpr::Int(c),
                None if c < 0 => HostExpr::binary(BinaryOp::Sub, HostExpr::Int(0), product),
                None => product,
            });
        }
        Some(sum.unwrap_or(HostExpr::Int(0)))
    }

    fn host_sym(&self, sym: Sym) -> Option<HostExpr> {
        if let Some(host) = self.hosts.get(&sym) {
            return Some(host.clone());
        }
        let both = |op, a: &Poly, b: &Poly| Some(HostExpr::binary(op, self.host(a)?, self.host(b)?));
        match &self.cx.symbol(sym).definition {
            Definition::Floor(n, d) => {
                // Rounded up, where the divisor less one was added.
                let up = d.minus(n).map(|p| p.offset() == 1).unwrap_or(false).then(|| {
                    let n = n.minus(d)?.plus_constant(1)?;
                    both(BinaryOp::CeilDiv, &n, d)
                });
                match up {
                    Some(host) => host,
                    None => both(BinaryOp::Div, n, d),
                }
            }
            Definition::Min(a, b) => both(BinaryOp::Min, a, b),
            Definition::Max(a, b) => both(BinaryOp::Max, a, b),
            Definition::Opaque(op, a, b, _) => both(*op, a, b),
            Definition::Free(_) | Definition::OneOf(_) => None,
        }
    }

    /// A polynomial of what the launcher knows, as an author would write it.
    pub fn show(&self, poly: &Poly) -> Option<String> {
        let dims: Vec<String> = self.kernel.dims.values().map(|d| d.name.clone()).collect();
        let params = |p| self.kernel.params[p].name.clone();
        let text = self.host(poly)?.display(&dims, &params);
        Some(text)
    }
}

fn by_value(by: &HostExpr) -> i64 {
    if let HostExpr::Int(value) = by { *value } else { 1 }
}

fn divides(by: &HostExpr, size: i64) -> bool {
    matches!(by, HostExpr::Int(value) if *value > 1 && size % value == 0)
}
