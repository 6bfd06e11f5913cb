//! How many bits an index is computed in.
//!
//! `usize` is a mathematical integer in the language, and what is proven of it holds for the emitted code because the
//! emitted code computes that integer: no operation on an index wraps. The rule, for every value that the walk meets:
//!
//! 1. A value that fits 32 bits by what is known before the launch is an `int`.
//! 2. One that the launcher can bound is an `int`, too, and the launch checks the bound ([`IndexRange`]). A launch may
//!    be refused by such a check only because of what it is launched with: where constants alone use up more than half
//!    of the 32 bits, there is no check.
//! 3. Any other is a `long long` ([`Analysis::wide`](super::Analysis::wide)), if it fits 64 bits.
//! 4. What cannot be shown to fit 64 bits is refused ([`Code::INDEX_WIDTH`]).
//!
//! Sums are printed without parentheses, so that `a + (b + c)` is computed from the left. That no operation wraps is known of
//! it as it is written; of `a + b` only where neither `b` nor `c` is negative. Other sums
//! ([`Analysis::signed_sums`](super::Analysis::signed_sums)) keep their parentheses.
//!
//! No check is dropped: `fits` says that there is one only after it has been recorded, in terms of what the launcher
//! evaluates. Steps of loops and numbers of shifts have ranges of their own, proven, checked by the launch, or refused
//! ([`Code::OPERAND_RANGE`]); a divisor that may be 0 counts as 1 on the device, so that a quotient stays in its range.
//! `testing::indices` compares all of this with integers of any size, expression by expression.

use super::walk::Walk;
use super::{IndexRange, OperandKind, OperandRange};
use crate::constraint::{Context, Definition, Interval, Poly, Sym};
use crate::diag::{Code, Diagnostic};
use crate::ir::{BinaryOp, ExprId, SpanId};
use crate::lowered::HostExpr;
use crate::text::written;
use std::collections::HashMap;

/// Every `int`, the least included: what a conversion gives. Results of arithmetic leave that one out, since it has no
/// negative.
pub(super) const INT: Interval = Interval { lo: i32::MIN as i128, hi: i32::MAX as i128 };

impl Walk<'_> {
    /// Where a value is, whatever the launch, as far as that is known: launch checks are known to hold.
    pub fn interval(&self, poly: &Poly) -> Interval {
        let range = Interval::from_bounds(self.cx.range(poly));
        self.known.get(poly).map_or(range, |known| range.meet(*known))
    }

    /// Decides how an operation on indices is computed, given where its result is.
    pub(super) fn hold(&mut self, expr: ExprId, op: BinaryOp, [a, b]: [&Poly; 2], value: &Poly) {
        let (left, right) = (self.interval(a), self.interval(b));
        self.learn(value, Interval::apply(op, left, right));
        if !self.in_kernel {
            return;
        }
        let span = self.kernel.exprs[expr].span;
        let may_be_negative = |part: &Poly, known: Interval| known.lo < 0 && !self.cx.proves(part);
        if op == BinaryOp::Add && (may_be_negative(a, left) || may_be_negative(b, right)) {
            self.analysis.signed_sums.insert(expr);
        }
        let narrow = match op {
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Shl => self.fits(value, span),
            // Computed without signs, the divisor less one added first; a divisor of 0 counts as 1.
            BinaryOp::CeilDiv => {
                let top = a.plus(b).and_then(|p| p.plus_constant(-1));
                let signs = left.lo >= 0 && right.lo >= 0;
                signs && top.is_some_and(|top| self.fits(&top, span)) && (self.is_positive(b) || self.fits(a, span))
            }
            // The least `int` by -1.
            BinaryOp::Div | BinaryOp::Rem => {
                self.interval(value).fits(INT) && (left.lo >= Interval::NARROW.lo || right.lo >= 0)
            }
            _ => self.interval(value).fits(INT),
        };
        self.choose_width(expr, value, narrow);
        if matches!(op, BinaryOp::Div | BinaryOp::Rem | BinaryOp::CeilDiv) && right.contains(0) && !self.is_positive(b)
        {
            self.analysis.open_divisors.insert(expr);
        }
    }

    /// Decides how a value that no operation may wrap is held: a conversion, a choice, a constant.
    pub(super) fn hold_value(&mut self, expr: ExprId, value: &Poly) {
        let narrow = self.interval(value).fits(INT);
        self.choose_width(expr, value, narrow);
    }

    fn choose_width(&mut self, expr: ExprId, value: &Poly, narrow: bool) {
        if !self.in_kernel {
            return;
        }
        if narrow {
            self.analysis.narrow.insert(expr);
            return;
        }
        self.analysis.wide.insert(expr);
        if !self.interval(value).fits(Interval::WIDE) {
            let span = self.kernel.exprs[expr].span;
            self.too_wide(span);
            // One mistake is one report: what is computed from it is not asked again.
            self.learn(value, Interval::NARROW);
        }
    }

    pub(super) fn too_wide(&mut self, span: SpanId) {
        let Interval { hi: most, .. } = Interval::NARROW;
        let diagnostic = Diagnostic::new(Code::INDEX_WIDTH, span, "this index may not fit 64 bits")
            .at(format!(
                "nothing bounds it: a product of {most} and a 64-bit number is possible, and the device would wrap it"
            ))
            .help("bound an operand first, as in `min(i, N)` or `i % N`; to wrap on purpose compute in `u32`");
        self.analysis.diagnostics.push(diagnostic);
    }

    /// Whether a value fits an `int`: it is known to, or the launch checks that it does.
    pub(super) fn fits(&mut self, value: &Poly, span: SpanId) -> bool {
        let known = self.interval(value);
        let (above, below) = (known.hi > Interval::NARROW.hi, known.lo < Interval::NARROW.lo);
        let mut checks = Vec::new();
        for (needed, poly) in [(above, Some(value.clone())), (below, value.scaled(-1))] {
            if needed {
                match poly.and_then(|poly| self.checkable(&poly)) {
                    Some(bound) => checks.push(bound),
                    None => return false,
                }
            }
        }
        self.ranges.extend(checks.into_iter().map(|bound| (bound, span.as_u32())));
        self.learn(value, Interval::NARROW);
        true
    }

    /// The greatest value of a polynomial, where the launcher can compute it and a launch may pass the check.
    fn checkable(&mut self, poly: &Poly) -> Option<Poly> {
        let most = i64::from(i32::MAX);
        let bound = Greatest { walk: &mut *self, known: HashMap::new() }.of(poly)?;
        match bound.as_constant() {
            Some(bound) if bound > most => return None,
            Some(_) => return Some(bound),
            None => {}
        }
        let least = self.cx.range(&bound).0;
        if least.is_some_and(|least| least > most / 2) {
            return None;
        }
        self.host(&bound).map(|_| bound)
    }

    /// Whether a value is at least 1.
    pub(super) fn is_positive(&self, poly: &Poly) -> bool {
        poly.plus_constant(-1).is_some_and(|p| self.cx.proves(&p))
    }

    /// The number of a shift is one of `0..=31`: known, checked by the launch, or refused.
    pub(super) fn check_shift(&mut self, count: ExprId, value: &Poly) {
        let known = self.interval(value);
        let proven = |walk: &Self| {
            let room = Poly::constant(31).minus(value);
            walk.cx.proves(value) && room.is_some_and(|room| walk.cx.proves(&room))
        };
        if known.fits(Interval::new(0, 31)) || proven(self) {
            return;
        }
        let span = self.kernel.exprs[count].span;
        let certain = known.hi < 0 || known.lo > 31;
        if let Some(host) = self.launch_value(value).filter(|_| !certain) {
            self.need_operand(OperandRange { kind: OperandKind::Shift, value: host, span });
            return;
        }
        let message = match value.as_constant() {
            Some(count) => format!("an index is shifted by {count}: only 0 to 31 are possible"),
            None => "a shift of an index by a number that is not known to be one of 0 to 31".to_owned(),
        };
        let diagnostic = Diagnostic::new(Code::OPERAND_RANGE, span, message);
        let count = written(self.kernel, count);
        let diagnostic = diagnostic
            .help(format!("write `min({count}, 31)`, or where the lowest five bits are meant `(({count}) % 32)`"));
        self.analysis.diagnostics.push(diagnostic);
    }

    /// A loop's step is at least 1: known, checked by the launch, or refused. A constant one has been looked at.
    pub(super) fn check_step(&mut self, step: ExprId, value: &Poly) -> bool {
        if self.is_positive(value) {
            return true;
        }
        let span = self.kernel.exprs[step].span;
        if let Some(host) = self.launch_value(value) {
            self.need_operand(OperandRange { kind: OperandKind::Step, value: host, span });
            return true;
        }
        let message = "a loop's step must be at least 1, and this one is not known to be";
        let help = format!("write `max({}, 1)`", written(self.kernel, step));
        let diagnostic = Diagnostic::new(Code::OPERAND_RANGE, span, message).help(help);
        self.analysis.diagnostics.push(diagnostic);
        false
    }

    /// A value that the launcher knows.
    fn launch_value(&self, value: &Poly) -> Option<HostExpr> {
        if self.is_launch(value) { self.host(value) } else { None }
    }

    fn need_operand(&mut self, need: OperandRange) {
        if self.in_kernel && !self.analysis.operand_ranges.contains(&need) {
            self.analysis.operand_ranges.push(need);
        }
    }
}

/// A loop's index, `start + step * sym`, below its end.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    pub sym: Sym,
    pub step: i64,
    pub start: Poly,
    /// The greatest value, `end - 1`.
    pub last: Poly,
}

/// Greatest values as polynomials of what the launcher knows; upper bounds of them where they have no closed form.
struct Greatest<'w, 'k> {
    walk: &'w mut Walk<'k>,
    /// The greatest values of symbols, so that a definition that is used again and again is looked at once.
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
            if let Some(next) = self.whole(&poly, sym) {
                poly = next;
                continue;
            }
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

    /// The polynomial bounded by what the symbol is part of, a loop's index or a remainder: `start + step * sym` and
    /// `n - d * sym` have bounds that are better than those of their parts.
    fn whole(&mut self, poly: &Poly, sym: Sym) -> Option<Poly> {
        let (mut times, mut rest) = (Poly::default(), Poly::default());
        for (m, c) in poly.terms() {
            match m.power(sym) {
                0 => rest = rest.plus(&Poly::constant(*c).times_term(m, 1)?)?,
                1 => times = times.plus(&Poly::constant(*c).times_term(&m.without(sym), 1)?)?,
                _ => return None,
            }
        }
        if let Some(counted) = self.walk.counted.iter().rev().find(|c| c.sym == sym).cloned() {
            let times = divided(&times, counted.step)?;
            if !self.is_nonneg(&times) {
                return None;
            }
            return times.times(&counted.last)?.plus(&rest)?.minus(&times.times(&counted.start)?);
        }
        let Definition::Floor(n, d) = self.walk.cx.symbol(sym).definition.clone() else { return None };
        let times = divided_by(&times.scaled(-1)?, &d)?;
        if !self.is_nonneg(&times) {
            return None;
        }
        let parts = times.times(&n)?;
        let others = rest.minus(&parts)?;
        if others.terms().len() + parts.terms().len() > rest.terms().len() {
            return None;
        }
        let most = self.of(&d)?.plus_constant(-1)?;
        let most = match self.of(&n) {
            Some(whole) if most.as_constant().is_none() => self.walk.cx.min(&whole, &most),
            _ => most,
        };
        times.times(&most)?.plus(&others)
    }

    /// Whether no term is negative.
    fn is_nonneg(&self, poly: &Poly) -> bool {
        let cx = &self.walk.cx;
        poly.terms().iter().all(|(m, c)| *c > 0 && m.factors().all(|s| cx.symbol(s).lo.is_some_and(|lo| lo >= 0)))
    }

    /// An upper bound of a symbol in earlier symbols or the launcher's.
    fn upper(&mut self, sym: Sym) -> Option<Poly> {
        if let Some(range) = self.walk.ranged.iter().rev().find(|r| r.sym == sym) {
            return Some(range.hi.clone());
        }
        if let Some(counted) = self.walk.counted.iter().rev().find(|c| c.sym == sym).cloned() {
            let distance = counted.last.minus(&counted.start)?;
            return self.walk.cx.floor_div(&distance, &Poly::constant(counted.step));
        }
        if let Some(known) = self.known.get(&sym) {
            return known.clone();
        }
        // What a symbol is made of says more than a constant: that of a dim is 2^31, so that a check against it always
        // fails. Neither is there anything to check where the constant is only that of the type.
        let made_of = self.made_of(sym);
        let constant = || {
            let hi = self.walk.interval(&Poly::sym(sym)).bounds().1;
            hi.filter(|hi| *hi < i64::from(i32::MAX)).map(Poly::constant)
        };
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
            Definition::Opaque(op, a, b, wraps) => self.operation(op, &a, &b, wraps.is_some()),
            Definition::Free(_) => None,
        }
    }

    /// An upper bound of an operation without a closed form on values that are not negative.
    fn operation(&mut self, op: BinaryOp, a: &Poly, b: &Poly, wraps: bool) -> Option<Poly> {
        if !self.walk.cx.proves(a) || !self.walk.cx.proves(b) {
            return None;
        }
        match op {
            BinaryOp::BitAnd => match (self.of(a), self.of(b)) {
                (Some(a), Some(b)) => Some(self.walk.cx.min(&a, &b)),
                (a, b) => a.or(b),
            },
            // At most all bits of both.
            BinaryOp::BitOr | BinaryOp::BitXor => self.of(a)?.plus(&self.of(b)?),
            BinaryOp::Shr | BinaryOp::Div | BinaryOp::CeilDiv => self.of(a),
            // A divisor of 0 counts as 1, whose remainder is 0.
            BinaryOp::Rem => {
                let below =
                    self.of(b).and_then(|b| b.plus_constant(-1)).map(|b| self.walk.cx.max(&b, &Poly::default()));
                match (self.of(a), below) {
                    (Some(a), Some(b)) => Some(self.walk.cx.min(&a, &b)),
                    (a, b) => a.or(b),
                }
            }
            BinaryOp::Mul if !wraps => {
                let (a, b) = (self.of(a)?, self.of(b)?);
                Some(match a.times(&b) {
                    Some(product) => product,
                    None => Poly::sym(self.walk.cx.define(Definition::Opaque(op, a, b, None))),
                })
            }
            _ => None,
        }
    }

    fn greatest_of(&mut self, cases: &[Poly]) -> Option<Poly> {
        let bounds = cases.iter().map(|case| self.of(case)).collect::<Option<Vec<Poly>>>()?;
        bounds.into_iter().reduce(|a, b| self.walk.cx.max(&a, &b))
    }
}

/// The quotient by a number that divides every coefficient.
fn divided(poly: &Poly, by: i64) -> Option<Poly> {
    let mut quotient = Poly::default();
    for (m, c) in poly.terms() {
        if by == 0 || c % by != 0 {
            return None;
        }
        quotient = quotient.plus(&Poly::constant(c / by).times_term(m, 1)?)?;
    }
    Some(quotient)
}

/// The quotient by one term that divides every term.
fn divided_by(poly: &Poly, by: &Poly) -> Option<Poly> {
    let [(monomial, coefficient)] = by.terms() else { return None };
    let mut quotient = divided(poly, *coefficient)?;
    for factor in monomial.factors() {
        let mut next = Poly::default();
        for (m, c) in quotient.terms() {
            if m.power(factor) == 0 {
                return None;
            }
            next = next.plus(&Poly::constant(*c).times_term(&m.without(factor), 1)?)?;
        }
        quotient = next;
    }
    Some(quotient)
}

/// The launch checks: what is not known to hold, without those that others imply.
pub(super) fn finish(walk: &mut Walk<'_>) {
    let all: Vec<_> = std::mem::take(&mut walk.ranges).into_iter().collect();
    let mut kept: Vec<(Poly, u32)> = Vec::new();
    for (poly, span) in all {
        if walk.cx.range(&poly).1.is_some_and(|hi| hi <= i64::from(i32::MAX)) {
            continue;
        }
        let implied = |cx: &Context, a: &Poly, b: &Poly| b.minus(a).is_some_and(|p| cx.proves(&p));
        if kept.iter().any(|(other, _)| implied(&walk.cx, &poly, other)) {
            continue;
        }
        kept.retain(|(other, _)| !implied(&walk.cx, other, &poly));
        kept.push((poly, span));
    }
    for (poly, span) in kept {
        // Every bound was found to be the launcher's when it was recorded.
        let bound = walk.host(&poly).unwrap_or(HostExpr::Int(i64::MAX));
        walk.analysis.index_ranges.push(IndexRange { bound, span: SpanId::from_u32(span) });
    }
}
