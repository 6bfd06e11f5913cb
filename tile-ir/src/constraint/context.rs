//! The symbols, the facts about them, and the queries.

use super::poly::{Monomial, Poly, Sym, gcd};
use crate::ir::BinaryOp;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// Symbols and facts. Facts assumed after a [`Mark`] are forgotten by resetting to it; symbols stay.
#[derive(Clone, Debug, Default)]
pub struct Context {
    symbols: Vec<Symbol>,
    defined: HashMap<Definition, Sym>,
    /// Polynomials that are never negative, whatever the path: definitions of symbols.
    permanent: Vec<Poly>,
    /// Polynomials that are not negative here.
    scoped: Vec<Poly>,
    /// Polynomials that are multiples of a number here.
    multiples: Vec<(Poly, i64)>,
    /// Answers under the present facts: the two sides of a bound, and neighbouring accesses, ask the same.
    answers: RefCell<HashMap<Poly, bool>>,
}

/// The answer to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// True in every execution that gets here.
    Proven,
    /// False in every execution that gets here.
    Refuted,
    /// Neither is known.
    Unknown,
}

/// A state of the facts to return to.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    scoped: usize,
    multiples: usize,
}

/// Along which axes of the block and grid a value may differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Varies {
    /// Thread axes, a bit each.
    pub threads: u8,
    /// Grid axes, a bit each.
    pub blocks: u8,
    /// Whether threads of one warp may differ.
    pub warp: bool,
}

impl Varies {
    /// May differ along everything.
    pub const ALL: Varies = Varies { threads: 7, blocks: 7, warp: true };

    /// May differ where either may.
    pub fn or(self, other: Varies) -> Varies {
        Varies {
            threads: self.threads | other.threads,
            blocks: self.blocks | other.blocks,
            warp: self.warp || other.warp,
        }
    }
}

/// A symbol.
#[derive(Clone, Debug)]
pub struct Symbol {
    /// What an author would call it; empty for terms without a name.
    pub name: String,
    /// Its least value, if known.
    pub lo: Option<i64>,
    /// Its greatest value, if known.
    pub hi: Option<i64>,
    /// What it stands for.
    pub definition: Definition,
    /// Where it may differ.
    pub varies: Varies,
    /// Whether it comes from memory, so that no launch check can bound it.
    pub data: bool,
}

/// What a symbol stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Definition {
    /// Itself: a dim, an index, a value from memory. The number tells it from others.
    Free(u32),
    /// The first divided by the second, rounded down; the second is positive.
    Floor(Poly, Poly),
    /// The lesser.
    Min(Poly, Poly),
    /// The greater.
    Max(Poly, Poly),
    /// One of these.
    OneOf(Vec<Poly>),
    /// An operation without a closed form, or one that may wrap: then with the bounds of its type.
    Opaque(BinaryOp, Poly, Poly, Option<(i64, i64)>),
}

/// Steps a query may take.
const FUEL: u32 = 160;
/// Symbols a query may eliminate one after another.
const DEPTH: u32 = 9;

impl Context {
    /// A symbol of its own.
    pub fn fresh(&mut self, name: &str, lo: Option<i64>, hi: Option<i64>, varies: Varies) -> Sym {
        let definition = Definition::Free(self.symbols.len() as u32);
        self.push(Symbol { name: name.to_owned(), lo, hi, definition, varies, data: false })
    }

    /// A value from memory, with the bounds of its type.
    pub fn fresh_data(&mut self, lo: Option<i64>, hi: Option<i64>, varies: Varies) -> Sym {
        let definition = Definition::Free(self.symbols.len() as u32);
        self.push(Symbol { name: String::new(), lo, hi, definition, varies, data: true })
    }

    /// A value that is one of several, which of them may differ as `varies`.
    pub fn one_of(&mut self, cases: Vec<Poly>, varies: Varies) -> Sym {
        let ranges: Vec<_> = cases.iter().map(|p| self.range(p)).collect();
        let lo = ranges.iter().map(|r| r.0).reduce(|a, b| a.zip(b).map(|(a, b)| a.min(b))).flatten();
        let hi = ranges.iter().map(|r| r.1).reduce(|a, b| a.zip(b).map(|(a, b)| a.max(b))).flatten();
        let varies = cases.iter().fold(varies, |v, p| v.or(self.varies(p)));
        let data = cases.iter().any(|p| self.is_data(p));
        self.push(Symbol { name: String::new(), lo, hi, definition: Definition::OneOf(cases), varies, data })
    }

    /// Says that no launch check can bound a symbol.
    pub fn mark_data(&mut self, sym: Sym) {
        self.symbols[sym.index()].data = true;
    }

    /// A symbol by its index.
    pub fn symbol(&self, sym: Sym) -> &Symbol {
        &self.symbols[sym.index()]
    }

    fn push(&mut self, symbol: Symbol) -> Sym {
        let sym = Sym(self.symbols.len() as u32);
        self.symbols.push(symbol);
        sym
    }

    /// The symbol with this definition; the same for equal definitions. `data` as its operands.
    pub fn define(&mut self, definition: Definition) -> Sym {
        if let Some(sym) = self.defined.get(&definition) {
            return *sym;
        }
        let operands: Vec<&Poly> = match &definition {
            Definition::Free(_) => vec![],
            Definition::Floor(a, b) | Definition::Min(a, b) | Definition::Max(a, b) => vec![a, b],
            Definition::Opaque(_, a, b, _) => vec![a, b],
            Definition::OneOf(all) => all.iter().collect(),
        };
        let varies = operands.iter().fold(Varies::default(), |v, p| v.or(self.varies(p)));
        let data = operands.iter().any(|p| self.is_data(p));
        let ranges: Vec<_> = operands.iter().map(|p| self.range(p)).collect();
        let least = |f: fn(i64, i64) -> i64| ranges.iter().map(|r| r.0).reduce(|a, b| Some(f(a?, b?))).flatten();
        let most = |f: fn(i64, i64) -> i64| ranges.iter().map(|r| r.1).reduce(|a, b| Some(f(a?, b?))).flatten();
        let (lo, hi) = match &definition {
            Definition::Floor(_, d) => match d.as_constant() {
                Some(d) => (ranges[0].0.map(|n| n.div_euclid(d)), ranges[0].1.map(|n| n.div_euclid(d))),
                None => (ranges[0].0.filter(|n| *n >= 0).map(|_| 0), ranges[0].1.map(|n| n.max(0))),
            },
            // The lesser is at most either, though only one bound may be known.
            Definition::Min(..) => (least(i64::min), ranges.iter().filter_map(|r| r.1).min()),
            Definition::Max(..) => (ranges.iter().filter_map(|r| r.0).max(), most(i64::max)),
            Definition::OneOf(_) => (least(i64::min), most(i64::max)),
            Definition::Opaque(.., Some((lo, hi))) => (Some(*lo), Some(*hi)),
            Definition::Opaque(op, ..) => opaque_range(*op, &ranges),
            Definition::Free(_) => (None, None),
        };
        let sym = self.push(Symbol { name: String::new(), lo, hi, definition: definition.clone(), varies, data });
        let x = Poly::sym(sym);
        let mut facts: Vec<Option<Poly>> = Vec::new();
        match &definition {
            Definition::Floor(n, d) => {
                // d * x <= n <= d * x + d - 1
                let product = x.times(d);
                facts.push(product.as_ref().and_then(|p| n.minus(p)));
                facts.push(product.and_then(|p| p.plus(d)?.plus_constant(-1)?.minus(n)));
            }
            Definition::Min(a, b) => facts.extend([a.minus(&x), b.minus(&x)]),
            Definition::Max(a, b) => facts.extend([x.minus(a), x.minus(b)]),
            _ => {}
        }
        self.permanent.extend(facts.into_iter().flatten());
        self.answers.get_mut().clear();
        self.defined.insert(definition, sym);
        sym
    }

    /// Where a polynomial may differ.
    pub fn varies(&self, poly: &Poly) -> Varies {
        poly.syms().fold(Varies::default(), |v, s| v.or(self.symbol(s).varies))
    }

    /// Whether a polynomial depends on memory.
    pub fn is_data(&self, poly: &Poly) -> bool {
        poly.syms().any(|s| self.symbol(s).data)
    }

    /// The state of the facts.
    pub fn mark(&self) -> Mark {
        Mark { scoped: self.scoped.len(), multiples: self.multiples.len() }
    }

    /// Forgets the facts assumed since `mark`.
    pub fn reset(&mut self, mark: Mark) {
        if self.scoped.len() != mark.scoped {
            self.answers.get_mut().clear();
        }
        self.scoped.truncate(mark.scoped);
        self.multiples.truncate(mark.multiples);
    }

    /// Assumes `poly >= 0`.
    pub fn assume_nonneg(&mut self, poly: Poly) {
        let poly = tighten(poly);
        if poly.as_constant().is_none() {
            self.scoped.push(poly);
            self.answers.get_mut().clear();
        }
    }

    /// Assumes `poly == 0`. Where that says that a remainder is zero, remembers the multiple.
    pub fn assume_zero(&mut self, poly: Poly) {
        if let Some((m, c)) = poly.leading()
            && let Some(sym) = m.latest().filter(|_| m.rest() == Monomial::ONE)
            && let Definition::Floor(n, d) = &self.symbol(sym).definition
            && let Some(d) = d.as_constant()
            && c.unsigned_abs() == d.unsigned_abs()
        {
            let n = n.clone();
            let remainder = Poly::sym(sym).scaled(d).and_then(|p| n.minus(&p));
            let scaled = if c < 0 { Some(poly.clone()) } else { poly.scaled(-1) };
            if remainder.is_some() && remainder == scaled {
                self.multiples.push((n, d));
            }
        }
        if let Some(negated) = poly.scaled(-1) {
            self.scoped.push(negated);
        }
        self.scoped.push(poly);
        self.answers.get_mut().clear();
    }

    /// Constant bounds of a polynomial, from the bounds of its symbols.
    pub fn range(&self, poly: &Poly) -> (Option<i64>, Option<i64>) {
        let (mut lo, mut hi) = (Some(0i64), Some(0i64));
        for (m, c) in poly.terms() {
            let (a, b) = self.monomial_range(m);
            let (a, b) = if *c >= 0 { (a, b) } else { (b, a) };
            lo = lo.zip(a).and_then(|(sum, x)| sum.checked_add(x.checked_mul(*c)?));
            hi = hi.zip(b).and_then(|(sum, x)| sum.checked_add(x.checked_mul(*c)?));
        }
        (lo, hi)
    }

    fn monomial_range(&self, m: &Monomial) -> (Option<i64>, Option<i64>) {
        let mut range = (Some(1i64), Some(1i64));
        for sym in m.factors() {
            let s = self.symbol(sym);
            range = match (range, (s.lo, s.hi)) {
                ((Some(a), b), (Some(c), d)) if a >= 0 && c >= 0 => {
                    (a.checked_mul(c), b.zip(d).and_then(|(b, d)| b.checked_mul(d)))
                }
                ((Some(a), Some(b)), (Some(c), Some(d))) => {
                    let all = [a.checked_mul(c), a.checked_mul(d), b.checked_mul(c), b.checked_mul(d)];
                    if all.contains(&None) {
                        (None, None)
                    } else {
                        (all.iter().flatten().min().copied(), all.iter().flatten().max().copied())
                    }
                }
                _ => (None, None),
            };
        }
        range
    }

    /// `poly >= 0`?
    pub fn nonneg(&self, poly: &Poly) -> Answer {
        if self.proves(poly) {
            return Answer::Proven;
        }
        match poly.scaled(-1).and_then(|p| p.plus_constant(-1)) {
            Some(negated) if self.proves(&negated) => Answer::Refuted,
            _ => Answer::Unknown,
        }
    }

    /// `a < b`?
    pub fn less(&self, a: &Poly, b: &Poly) -> Answer {
        match b.minus(a).and_then(|p| p.plus_constant(-1)) {
            Some(difference) => self.nonneg(&difference),
            None => Answer::Unknown,
        }
    }

    /// Whether `poly >= 0` follows from the facts.
    pub fn proves(&self, poly: &Poly) -> bool {
        if self.range(poly).0.is_some_and(|lo| lo >= 0) {
            return true;
        }
        if let Some(known) = self.answers.borrow().get(poly) {
            return *known;
        }
        let answer = self.eliminate(poly.clone(), DEPTH, &Cell::new(FUEL));
        self.answers.borrow_mut().insert(poly.clone(), answer);
        answer
    }

    /// `poly % modulus == 0`? Refuted where every value leaves the same remainder.
    pub fn divisible(&self, poly: &Poly, modulus: i64) -> Answer {
        let by = |p: &Poly| p.terms().iter().all(|t| t.1 % modulus == 0);
        if modulus == 1 || by(poly) {
            return Answer::Proven;
        }
        if poly.symbolic().iter().all(|t| t.1 % modulus == 0) {
            return Answer::Refuted;
        }
        for (multiple, of) in &self.multiples {
            let Some((m, c)) = multiple.leading() else { continue };
            let own = poly.coefficient(&m);
            // k * multiple is a multiple of k * of.
            if own % c == 0
                && (own / c).checked_mul(*of).is_some_and(|k| k % modulus == 0)
                && poly.combine(1, multiple, -(own / c)).is_some_and(|rest| by(&rest))
            {
                return Answer::Proven;
            }
        }
        Answer::Unknown
    }

    fn eliminate(&self, poly: Poly, depth: u32, fuel: &Cell<u32>) -> bool {
        let poly = tighten(poly);
        if self.range(&poly).0.is_some_and(|lo| lo >= 0) {
            return true;
        }
        let Some((monomial, coefficient)) = poly.leading() else { return false };
        let Some(sym) = monomial.latest() else { return false };
        if depth == 0 || fuel.get() == 0 {
            return false;
        }
        fuel.set(fuel.get() - 1);
        // A value that is one of several: all of them, where it is to be bounded in the hard direction.
        if let Some(a) = poly.linear_in(sym) {
            let cases = match &self.symbol(sym).definition {
                Definition::Min(x, y) if a > 0 => vec![x, y],
                Definition::Max(x, y) if a < 0 => vec![x, y],
                Definition::OneOf(all) => all.iter().collect(),
                _ => vec![],
            };
            if !cases.is_empty()
                && cases
                    .iter()
                    .all(|case| poly.substitute(sym, case).is_some_and(|p| self.eliminate(p, depth - 1, fuel)))
            {
                return true;
            }
        }
        let step = |fact: &Poly, own: i64| -> bool {
            if own == 0 || (own > 0) != (coefficient > 0) {
                return false;
            }
            let g = gcd(own.unsigned_abs(), coefficient.unsigned_abs()) as i64;
            let reduced = poly.combine((own / g).abs(), fact, -(coefficient / g).abs());
            reduced.is_some_and(|p| self.eliminate(p, depth - 1, fuel))
        };
        let rest = monomial.rest();
        let rest_nonneg = rest == Monomial::ONE || self.monomial_range(&rest).0.is_some_and(|lo| lo >= 0);
        for fact in self.scoped.iter().rev().chain(self.permanent.iter().rev()) {
            if step(fact, fact.coefficient(&monomial)) {
                return true;
            }
            if rest != Monomial::ONE && rest_nonneg {
                let own = fact.coefficient(&Monomial::of(sym));
                if own != 0
                    && let Some(product) = fact.times_term(&rest, 1)
                    && step(&product, own)
                {
                    return true;
                }
            }
        }
        // Constant bounds last: they lose what relates the symbol to others.
        let bound = if coefficient > 0 { self.symbol(sym).lo } else { self.symbol(sym).hi };
        if let Some(bound) = bound.filter(|_| rest_nonneg) {
            let sign = coefficient.signum();
            let fact = bound
                .checked_neg()
                .and_then(|b| Poly::sym(sym).plus_constant(b))
                .and_then(|p| p.times_term(&rest, sign));
            if fact.is_some_and(|fact| step(&fact, sign)) {
                return true;
            }
        }
        false
    }

    /// `a / b` on values that are not negative, `b` positive: rounded down. Exact multiples come out of the quotient.
    pub fn floor_div(&mut self, a: &Poly, b: &Poly) -> Option<Poly> {
        let Some(d) = b.as_constant() else {
            if a == b {
                return Some(Poly::constant(1));
            }
            return Some(Poly::sym(self.define(Definition::Floor(a.clone(), b.clone()))));
        };
        if d <= 0 {
            return None;
        }
        // a = d * whole + part, with 0 <= part wanted, so that the parts are rounded apart.
        let (mut whole, mut part) = (Poly::default(), Poly::default());
        for (m, c) in a.terms() {
            let term = Poly::constant(1).times_term(m, 1)?;
            whole = whole.combine(1, &term, c.div_euclid(d))?;
            part = part.combine(1, &term, c.rem_euclid(d))?;
        }
        // Splitting every coefficient is exact: floor((d w + p) / d) = w + floor(p / d) for integers. But a term is
        // left alone where splitting would only make two terms of one.
        let quotient = if part.symbolic().len() == a.symbolic().len() && self.range(&part).1.is_none_or(|hi| hi >= d) {
            whole = Poly::constant(a.offset().div_euclid(d));
            part = a.combine(1, &whole, d.checked_neg()?)?;
            self.floor_part(part, d)?
        } else {
            self.floor_part(part, d)?
        };
        whole.plus(&quotient)
    }

    fn floor_part(&mut self, part: Poly, d: i64) -> Option<Poly> {
        let top = Poly::constant(d - 1).minus(&part)?;
        if self.proves(&part) && self.proves(&top) {
            return Some(Poly::constant(0));
        }
        // floor((g n + r) / (g d)) = floor((n + floor(r / g)) / d)
        let g = gcd(part.content(), d.unsigned_abs()) as i64;
        let (mut part, mut d) = (part, d);
        if g > 1 {
            let mut reduced = Poly::constant(part.offset().div_euclid(g));
            for (m, c) in part.symbolic() {
                reduced = reduced.combine(1, &Poly::constant(1).times_term(m, 1)?, c / g)?;
            }
            (part, d) = (reduced, d / g);
        }
        if d == 1 {
            return Some(part);
        }
        Some(Poly::sym(self.define(Definition::Floor(part, Poly::constant(d)))))
    }

    /// The remainder of [`Context::floor_div`].
    pub fn floor_rem(&mut self, a: &Poly, b: &Poly) -> Option<Poly> {
        let quotient = self.floor_div(a, b)?;
        a.minus(&quotient.times(b)?)
    }

    /// The lesser, or the one that is proven so.
    pub fn min(&mut self, a: &Poly, b: &Poly) -> Poly {
        if b.minus(a).is_some_and(|p| self.proves(&p)) {
            return a.clone();
        }
        if a.minus(b).is_some_and(|p| self.proves(&p)) {
            return b.clone();
        }
        Poly::sym(self.define(Definition::Min(a.clone(), b.clone())))
    }

    /// The greater, or the one that is proven so.
    pub fn max(&mut self, a: &Poly, b: &Poly) -> Poly {
        if b.minus(a).is_some_and(|p| self.proves(&p)) {
            return b.clone();
        }
        if a.minus(b).is_some_and(|p| self.proves(&p)) {
            return a.clone();
        }
        Poly::sym(self.define(Definition::Max(a.clone(), b.clone())))
    }
}

/// `g * n + c >= 0` is `n + floor(c / g) >= 0` over the integers.
fn tighten(poly: Poly) -> Poly {
    let g = poly.content();
    if g <= 1 || g > i64::MAX as u64 {
        return poly;
    }
    let g = g as i64;
    let mut reduced = Poly::constant(poly.offset().div_euclid(g));
    for (m, c) in poly.symbolic() {
        match Poly::constant(c / g).times_term(m, 1).and_then(|t| reduced.plus(&t)) {
            Some(next) => reduced = next,
            None => return poly,
        }
    }
    reduced
}

/// Constant bounds of an operation without a closed form.
fn opaque_range(op: BinaryOp, ranges: &[(Option<i64>, Option<i64>)]) -> (Option<i64>, Option<i64>) {
    let [(a_lo, a_hi), (b_lo, b_hi)] = ranges else { return (None, None) };
    let nonneg = a_lo.is_some_and(|a| a >= 0) && b_lo.is_some_and(|b| b >= 0);
    if !nonneg {
        return (None, None);
    }
    let ones =
        |v: i64| (v as u64).checked_next_power_of_two().map_or(i64::MAX, |p| (p as i64).saturating_sub(1).max(v));
    match op {
        BinaryOp::BitAnd => (Some(0), [*a_hi, *b_hi].into_iter().flatten().min()),
        BinaryOp::BitOr | BinaryOp::BitXor => (Some(0), a_hi.zip(*b_hi).map(|(a, b)| ones(a.max(b)))),
        BinaryOp::Shr | BinaryOp::Div => (Some(0), *a_hi),
        BinaryOp::Rem => (Some(0), [*a_hi, b_hi.map(|b| b - 1)].into_iter().flatten().min().map(|v| v.max(0))),
        BinaryOp::Shl | BinaryOp::Mul => (Some(0), None),
        _ => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Setup {
        cx: Context,
        n: Poly,
        bn: Poly,
        tn: Poly,
    }

    /// A grid of `ceil_div(n, 16)` blocks of 16 threads.
    fn setup() -> Setup {
        let mut cx = Context::default();
        let n = Poly::sym(cx.fresh("n", Some(0), Some(i64::from(i32::MAX)), Varies::default()));
        let q = cx.floor_div(&n.plus_constant(15).unwrap(), &Poly::constant(16)).unwrap();
        let bn = Poly::sym(cx.fresh("bn", Some(0), None, Varies::default()));
        let tn = Poly::sym(cx.fresh("tn", Some(0), Some(15), Varies::default()));
        cx.assume_nonneg(q.minus(&bn).unwrap().plus_constant(-1).unwrap());
        Setup { cx, n, bn, tn }
    }

    #[test]
    fn rows_of_a_ragged_grid() {
        let Setup { mut cx, n, bn, tn } = setup();
        let row = bn.scaled(16).unwrap().plus(&tn).unwrap();
        assert_eq!(cx.less(&row, &n), Answer::Unknown);
        assert_eq!(cx.less(&row, &n.plus_constant(16).unwrap()), Answer::Proven);
        // The first row of a block exists, or the block would not.
        assert_eq!(cx.less(&bn.scaled(16).unwrap(), &n), Answer::Proven);
        assert_eq!(cx.less(&Poly::constant(0), &n), Answer::Proven);
        let mark = cx.mark();
        cx.assume_nonneg(n.minus(&row).unwrap().plus_constant(-1).unwrap());
        assert_eq!(cx.less(&row, &n), Answer::Proven);
        assert_eq!(cx.less(&row.plus_constant(1).unwrap(), &n), Answer::Unknown);
        cx.reset(mark);
        assert_eq!(cx.less(&row, &n), Answer::Unknown);
        assert_eq!(cx.less(&n, &n), Answer::Refuted);
    }

    #[test]
    fn multiples_make_a_guard_cover_a_whole_vector() {
        let mut cx = Context::default();
        let k8 = Poly::sym(cx.fresh("K / 8", Some(0), None, Varies::default()));
        let k = k8.scaled(8).unwrap();
        let i = Poly::sym(cx.fresh("i", Some(0), None, Varies::default()));
        let start = i.scaled(8).unwrap();
        cx.assume_nonneg(k.minus(&start).unwrap().plus_constant(-1).unwrap());
        assert_eq!(cx.less(&start.plus_constant(7).unwrap(), &k), Answer::Proven);
        assert_eq!(cx.less(&start.plus_constant(8).unwrap(), &k), Answer::Unknown);
        assert_eq!(cx.divisible(&start, 8), Answer::Proven);
        assert_eq!(cx.divisible(&start.plus_constant(4).unwrap(), 8), Answer::Refuted);
        assert_eq!(cx.divisible(&i, 2), Answer::Unknown);
    }

    #[test]
    fn quotients_and_remainders() {
        let mut cx = Context::default();
        let t = Poly::sym(cx.fresh("t", Some(0), Some(127), Varies::default()));
        let c32 = Poly::constant(32);
        let (warp, lane) = (cx.floor_div(&t, &c32).unwrap(), cx.floor_rem(&t, &c32).unwrap());
        assert_eq!(cx.less(&warp, &Poly::constant(4)), Answer::Proven);
        assert_eq!(cx.less(&warp, &Poly::constant(3)), Answer::Unknown);
        assert_eq!(cx.less(&lane, &c32), Answer::Proven);
        assert_eq!(cx.nonneg(&lane), Answer::Proven);
        assert_eq!(warp.scaled(32).unwrap().plus(&lane).unwrap(), t);
        // (32 a + b) / 32 = a where b is less than 32.
        let sum = t.scaled(32).unwrap().plus(&lane).unwrap();
        assert_eq!(cx.floor_div(&sum, &c32).unwrap(), t);
    }

    #[test]
    fn the_lesser_of_two() {
        let mut cx = Context::default();
        let n = Poly::sym(cx.fresh("n", Some(0), None, Varies::default()));
        let b = Poly::sym(cx.fresh("b", Some(0), None, Varies::default()));
        let end = cx.min(&n, &b.plus_constant(64).unwrap());
        let i = Poly::sym(cx.fresh("i", Some(0), None, Varies::default()));
        cx.assume_nonneg(end.minus(&i).unwrap().plus_constant(-1).unwrap());
        assert_eq!(cx.less(&i, &n), Answer::Proven);
        assert_eq!(cx.less(&i, &b.plus_constant(64).unwrap()), Answer::Proven);
        assert_eq!(cx.less(&i, &b), Answer::Unknown);
        assert_eq!(cx.nonneg(&end), Answer::Proven);
    }

    #[test]
    fn a_guarded_remainder_makes_a_multiple() {
        let mut cx = Context::default();
        let i = Poly::sym(cx.fresh("i", Some(0), None, Varies::default()));
        let rem = cx.floor_rem(&i, &Poly::constant(8)).unwrap();
        assert_eq!(cx.divisible(&i, 8), Answer::Unknown);
        cx.assume_zero(rem);
        assert_eq!(cx.divisible(&i, 8), Answer::Proven);
        assert_eq!(cx.divisible(&i.scaled(3).unwrap().plus_constant(16).unwrap(), 8), Answer::Proven);
        assert_eq!(cx.divisible(&i, 16), Answer::Unknown);
    }

    #[test]
    fn products_of_dims() {
        let mut cx = Context::default();
        let k = Poly::sym(cx.fresh("k", Some(0), None, Varies::default()));
        let n = Poly::sym(cx.fresh("n", Some(0), None, Varies::default()));
        let i = Poly::sym(cx.fresh("i", Some(0), None, Varies::default()));
        let j = Poly::sym(cx.fresh("j", Some(0), None, Varies::default()));
        cx.assume_nonneg(n.minus(&i).unwrap().plus_constant(-1).unwrap());
        cx.assume_nonneg(k.minus(&j).unwrap().plus_constant(-1).unwrap());
        // i * k + j < n * k
        let flat = i.times(&k).unwrap().plus(&j).unwrap();
        assert_eq!(cx.less(&flat, &n.times(&k).unwrap()), Answer::Proven);
        assert_eq!(cx.less(&flat.plus_constant(1).unwrap(), &n.times(&k).unwrap()), Answer::Unknown);
    }
}
