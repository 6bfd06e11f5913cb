//! The symbols, and the facts about them.

use super::interval::Interval;
use super::poly::{Monomial, Poly, Sym};
use super::query::tighten;
use super::witness::{Eval, Source, Witnesses};
use crate::ir::BinaryOp;
use crate::lowered::fold;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// Symbols and facts. Facts assumed after a [`Mark`] are forgotten by resetting to it; symbols stay.
#[derive(Clone, Debug, Default)]
pub struct Context {
    symbols: Vec<Symbol>,
    defined: HashMap<Definition, Sym>,
    /// Polynomials that are never negative, whatever the path: definitions of symbols.
    pub(super) permanent: Vec<Fact>,
    /// Polynomials that are not negative here.
    pub(super) scoped: Vec<Fact>,
    /// Polynomials that are multiples of a number here.
    pub(super) multiples: Vec<(Poly, i64)>,
    /// Answers under the present facts: the two sides of a bound, and neighbouring accesses, ask the same.
    pub(super) answers: RefCell<HashMap<Poly, bool>>,
    /// Steps that queries have taken so far.
    pub(super) spent: Cell<u32>,
    /// Points where all facts hold.
    pub(super) witnesses: Witnesses,
}

/// A polynomial that is not negative.
#[derive(Clone, Debug)]
pub(super) struct Fact {
    pub(super) poly: Poly,
    /// A bit for each symbol in it, of 64 that symbols share: most facts are about others than the one that is looked for.
    symbols: u64,
}

impl Fact {
    fn new(poly: Poly) -> Self {
        let symbols = poly.syms().fold(0, |all, sym| all | Fact::bit(sym));
        Fact { poly, symbols }
    }

    fn bit(sym: Sym) -> u64 {
        1 << (sym.index() % 64)
    }

    /// False only where the symbol does not occur.
    pub(super) fn may_mention(&self, sym: Sym) -> bool {
        self.symbols & Fact::bit(sym) != 0
    }
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
    /// How many operations it is when it is written out, definitions and all.
    pub size: u32,
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

impl Context {
    /// A value that the launcher knows: a dim, a scalar.
    pub fn fresh_launch(&mut self, name: &str, lo: Option<i64>, hi: Option<i64>) -> Sym {
        let definition = Definition::Free(self.symbols.len() as u32);
        let symbol =
            Symbol { name: name.to_owned(), lo, hi, definition, varies: Varies::default(), data: false, size: 1 };
        self.push(symbol, &Source::Launch)
    }

    /// A symbol of its own.
    pub fn fresh(&mut self, name: &str, lo: Option<i64>, hi: Option<i64>, varies: Varies) -> Sym {
        let definition = Definition::Free(self.symbols.len() as u32);
        let symbol = Symbol { name: name.to_owned(), lo, hi, definition, varies, data: false, size: 1 };
        self.push(symbol, &Source::Any)
    }

    /// A value from memory, with the bounds of its type.
    pub fn fresh_data(&mut self, lo: Option<i64>, hi: Option<i64>, varies: Varies) -> Sym {
        let definition = Definition::Free(self.symbols.len() as u32);
        let symbol = Symbol { name: String::new(), lo, hi, definition, varies, data: true, size: 1 };
        self.push(symbol, &Source::Any)
    }

    /// A value that is one of several, which of them may differ as `varies`.
    pub fn one_of(&mut self, cases: Vec<Poly>, varies: Varies) -> Sym {
        let ranges: Vec<_> = cases.iter().map(|p| self.range(p)).collect();
        let lo = ranges.iter().map(|r| r.0).reduce(|a, b| a.zip(b).map(|(a, b)| a.min(b))).flatten();
        let hi = ranges.iter().map(|r| r.1).reduce(|a, b| a.zip(b).map(|(a, b)| a.max(b))).flatten();
        let varies = cases.iter().fold(varies, |v, p| v.or(self.varies(p)));
        let data = cases.iter().any(|p| self.is_data(p));
        let size = cases.iter().fold(1u32, |size, p| size.saturating_add(self.size(p)));
        let chosen = cases.clone();
        let definition = Definition::OneOf(cases);
        let symbol = Symbol { name: String::new(), lo, hi, definition, varies, data, size };
        self.push(symbol, &Source::Of(&|eval, point| eval(chosen.get(point % chosen.len().max(1))?)))
    }

    /// Says that no launch check can bound a symbol.
    pub fn mark_data(&mut self, sym: Sym) {
        self.symbols[sym.index()].data = true;
    }

    /// A symbol by its index.
    pub fn symbol(&self, sym: Sym) -> &Symbol {
        &self.symbols[sym.index()]
    }

    /// How many symbols there are.
    pub fn symbols(&self) -> usize {
        self.symbols.len()
    }

    fn push(&mut self, symbol: Symbol, source: &Source<'_>) -> Sym {
        let sym = Sym(self.symbols.len() as u32);
        self.witnesses.push(source, symbol.lo, symbol.hi);
        self.symbols.push(symbol);
        sym
    }

    /// The symbol with this definition; the same for equal definitions. `data` as its operands.
    pub fn define(&mut self, definition: Definition) -> Sym {
        if let Some(&sym) = self.defined.get(&definition) {
            self.conditional_facts(sym, &definition);
            return sym;
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
            Definition::Opaque(op, .., wraps) => {
                let [a, b] = [0, 1].map(|at| Interval::from_bounds(ranges[at]));
                let interval = match wraps.map(Interval::of_type) {
                    Some(all) => Interval::apply_within(*op, a, b, all).unwrap_or(all),
                    None => Interval::apply(*op, a, b),
                };
                interval.bounds()
            }
            Definition::Free(_) => (None, None),
        };
        let size = operands.iter().fold(1u32, |size, p| size.saturating_add(self.size(p)));
        let symbol = Symbol { name: String::new(), lo, hi, definition: definition.clone(), varies, data, size };
        let value = |eval: &Eval<'_>, _: usize| match &definition {
            Definition::Floor(n, d) => Some(eval(n)?.div_euclid(eval(d).filter(|d| *d > 0)?)),
            Definition::Min(a, b) => Some(eval(a)?.min(eval(b)?)),
            Definition::Max(a, b) => Some(eval(a)?.max(eval(b)?)),
            Definition::Opaque(op, a, b, range) => {
                let value = fold(*op, eval(a)?, eval(b)?);
                value.filter(|value| range.is_none_or(|(lo, hi)| (lo..=hi).contains(value)))
            }
            Definition::Free(_) | Definition::OneOf(_) => None,
        };
        let sym = self.push(symbol, &Source::Of(&value));
        let x = Poly::sym(sym);
        let mut facts: Vec<Option<Poly>> = Vec::new();
        match &definition {
            Definition::Floor(n, d) if self.range(d).0.is_some_and(|d| d >= 1) => facts.extend(rounded(&x, n, d)),
            Definition::Min(a, b) => facts.extend([a.minus(&x), b.minus(&x)]),
            Definition::Max(a, b) => facts.extend([x.minus(a), x.minus(b)]),
            _ => {}
        }
        for fact in facts.into_iter().flatten() {
            self.witnesses.permanent(&fact);
            self.permanent.push(Fact::new(fact));
        }
        self.answers.get_mut().clear();
        self.conditional_facts(sym, &definition);
        self.defined.insert(definition, sym);
        sym
    }

    /// What a quotient says here that it need not say on another path: with a divisor that is positive here only, what rounding says;
    /// and where its dividend is below `d r` here, that it is below `r`.
    fn conditional_facts(&mut self, sym: Sym, definition: &Definition) {
        let Definition::Floor(n, d) = definition else { return };
        let x = Poly::sym(sym);
        let mut facts: Vec<Option<Poly>> = Vec::new();
        if self.range(d).0.is_none_or(|d| d < 1) {
            facts.extend(rounded(&x, n, d));
        }
        // By a constant, rounding and the bound of the dividend say so together.
        if d.as_constant().is_none()
            && let [(monomial, coefficient)] = d.terms()
        {
            let known = self.scoped.iter().chain(&self.permanent).map(|fact| &fact.poly);
            let above =
                known.filter_map(|fact| fact.plus(n)?.plus_constant(1)?.divided_by_term(monomial, *coefficient));
            facts.extend(above.map(|above| above.minus(&x)?.plus_constant(-1)));
        }
        for fact in facts.into_iter().flatten() {
            if !self.scoped.iter().any(|known| known.poly == fact) {
                self.push_scoped(fact);
            }
        }
    }

    /// Where a polynomial may differ.
    pub fn varies(&self, poly: &Poly) -> Varies {
        poly.syms().fold(Varies::default(), |v, s| v.or(self.symbol(s).varies))
    }

    /// How many operations a polynomial is when it is written out, definitions and all. A definition that is used twice
    /// counts twice, so that this may be exponential in the length of what the author wrote.
    pub fn size(&self, poly: &Poly) -> u32 {
        poly.syms().fold(poly.terms().len() as u32, |size, s| size.saturating_add(self.symbol(s).size))
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
            self.witnesses.reset(mark.scoped);
        }
        self.scoped.truncate(mark.scoped);
        self.multiples.truncate(mark.multiples);
    }

    /// Assumes `poly >= 0`.
    pub fn assume_nonneg(&mut self, poly: Poly) {
        let poly = tighten(poly);
        if poly.as_constant().is_none() {
            self.push_scoped(poly);
        }
    }

    fn push_scoped(&mut self, poly: Poly) {
        self.witnesses.scoped(self.scoped.len(), &poly);
        self.scoped.push(Fact::new(poly));
        self.answers.get_mut().clear();
    }

    /// Assumes that a product of values that are not negative is positive: so is each of them.
    pub fn assume_positive(&mut self, product: &Poly) {
        let [(monomial, coefficient)] = product.terms() else { return };
        let factors: Vec<Poly> = monomial.factors().map(Poly::sym).collect();
        let is_product = *coefficient > 0 && factors.len() > 1;
        if is_product && factors.iter().all(|factor| self.range(factor).0.is_some_and(|lo| lo >= 0)) {
            factors.iter().filter_map(|factor| factor.plus_constant(-1)).for_each(|fact| self.assume_nonneg(fact));
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
            self.push_scoped(negated);
        }
        self.push_scoped(poly);
    }
}

/// `d * x <= n <= d * x + d - 1`, of a quotient `x` that is rounded down.
fn rounded(x: &Poly, n: &Poly, d: &Poly) -> [Option<Poly>; 2] {
    let product = x.times(d);
    let above = product.as_ref().and_then(|p| n.minus(p));
    [above, product.and_then(|p| p.plus(d)?.plus_constant(-1)?.minus(n))]
}
