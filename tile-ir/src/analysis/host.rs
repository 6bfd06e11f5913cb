//! What the launcher evaluates: polynomials of dims and scalar parameters, written out.
//!
//! The launcher computes in integers of 64 bits and divides towards zero; a check that it cannot evaluate does not hold.
//! What it evaluates is what the kernel computes: quotients are rounded down, and values of `i32` and `u32` wrap.

use super::walk::Walk;
use crate::constraint::{Definition, Interval, Monomial, Poly, Sym};
use crate::ir::BinaryOp;
use crate::lowered::HostExpr;

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
                // The launcher divides towards zero. Rounded up, where the divisor less one was added, and where the
                // numerator may be negative: the quotient is the same, whatever the sign.
                let was_added = d.minus(n).is_some_and(|p| p.offset() == 1);
                if was_added || !self.cx.proves(n) {
                    return both(BinaryOp::CeilDiv, &n.minus(d)?.plus_constant(1)?, d);
                }
                both(BinaryOp::Div, n, d)
            }
            Definition::Min(a, b) => both(BinaryOp::Min, a, b),
            Definition::Max(a, b) => both(BinaryOp::Max, a, b),
            Definition::Opaque(op, a, b, None) => both(*op, a, b),
            Definition::Opaque(op, a, b, Some(range)) => {
                let [x, y] = [a, b].map(|p| Interval::from_bounds(self.cx.range(p)));
                let whole = both(*op, a, b)?;
                let (lo, hi) = *range;
                let fits = Interval::apply(*op, x, y).fits(Interval::new(lo.into(), hi.into()));
                Some(if fits { whole } else { wrapped(whole, lo, hi) })
            }
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

/// What a type whose values are `lo..=hi`, as many as a power of two, makes of a value. The launcher does not wrap.
fn wrapped(value: HostExpr, lo: i64, hi: i64) -> HostExpr {
    let bits = |value| HostExpr::binary(BinaryOp::BitAnd, value, HostExpr::Int(hi - lo));
    if lo == 0 {
        return bits(value);
    }
    let least = || HostExpr::Int(-lo);
    HostExpr::binary(BinaryOp::Sub, bits(HostExpr::binary(BinaryOp::Add, value, least())), least())
}

fn by_value(by: &HostExpr) -> i64 {
    if let HostExpr::Int(value) = by { *value } else { 1 }
}

fn divides(by: &HostExpr, size: i64) -> bool {
    matches!(by, HostExpr::Int(value) if *value > 1 && size % value == 0)
}
