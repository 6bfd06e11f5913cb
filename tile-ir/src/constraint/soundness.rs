//! Everything proven is true: random contexts, checked at every point of a small box.

use super::*;
use crate::ir::BinaryOp;
use crate::sim::numeric::index_binary;

/// A small generator of numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    fn between(&mut self, lo: i64, hi: i64) -> i64 {
        lo + self.below((hi - lo + 1) as u64) as i64
    }
}

/// Operations without a closed form.
const OPAQUE: [BinaryOp; 8] = [
    BinaryOp::BitAnd,
    BinaryOp::BitOr,
    BinaryOp::BitOr,
    BinaryOp::BitXor,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::Rem,
    BinaryOp::CeilDiv,
];

/// A polynomial in `n` symbols (and products of two), as a value and as a function.
fn poly(random: &mut Random, syms: &[Poly]) -> Poly {
    let mut sum = Poly::constant(random.between(-9, 9));
    for _ in 0..random.between(1, 3) {
        let at = |r: &mut Random| syms[r.below(syms.len() as u64) as usize].clone();
        let mut term = at(random);
        if random.below(4) == 0 {
            term = term.times(&at(random)).unwrap_or(term);
        }
        sum = sum.combine(1, &term, random.between(-4, 8)).unwrap();
    }
    sum
}

/// A polynomial's value where symbol `i` has the value `point[i]`, definitions evaluated.
fn value(cx: &Context, p: &Poly, point: &[i64]) -> i64 {
    p.terms().iter().map(|(m, c)| c * m.factors().map(|s| symbol(cx, s, point)).product::<i64>()).sum()
}

fn symbol(cx: &Context, sym: Sym, point: &[i64]) -> i64 {
    match &cx.symbol(sym).definition {
        Definition::Free(_) => point[sym.index()],
        Definition::Floor(n, d) => value(cx, n, point).div_euclid(value(cx, d, point)),
        Definition::Min(a, b) => value(cx, a, point).min(value(cx, b, point)),
        Definition::Max(a, b) => value(cx, a, point).max(value(cx, b, point)),
        Definition::Opaque(op, a, b, _) => {
            let (a, b) = (value(cx, a, point), value(cx, b, point));
            // As on the device.
            let b = if b == 0 && matches!(op, BinaryOp::Div | BinaryOp::Rem | BinaryOp::CeilDiv) { 1 } else { b };
            index_binary(*op, a, b).unwrap()
        }
        Definition::OneOf(_) => unreachable!("not generated here"),
    }
}

#[test]
fn what_is_proven_holds_at_every_point() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let (mut proven, mut refuted, mut multiples, mut patiently, mut witnessed) = (0, 0, 0, 0, 0);
    for _ in 0..3000 {
        let mut cx = Context::default();
        // The first three symbols are free, in 0..=bound; the rest is defined by them.
        let bounds: Vec<i64> = (0..3).map(|_| random.between(0, 7)).collect();
        let mut syms: Vec<Poly> = bounds
            .iter()
            .map(|hi| {
                let hi = (random.below(3) > 0).then_some(*hi);
                Poly::sym(cx.fresh("x", Some(0), hi, Varies::default()))
            })
            .collect();
        let mut facts = Vec::new();
        // A quotient by a symbol that is positive here, of what is below a multiple of it.
        if random.below(3) == 0 {
            let [n, d, r] = [0, 1, 2].map(|at| syms[at].clone());
            let below = r.times(&d).and_then(|p| p.minus(&n)?.plus_constant(-1)).unwrap();
            for fact in [d.plus_constant(-1).unwrap(), below] {
                cx.assume(&Cond::NonNeg(fact.clone()));
                facts.push(Cond::NonNeg(fact));
            }
            syms.extend(cx.floor_div(&n, &d));
        }
        for _ in 0..random.below(3) {
            let (a, b) = (poly(&mut random, &syms), poly(&mut random, &syms));
            let d = Poly::constant(random.between(1, 8));
            let made = match random.below(6) {
                0 if cx.proves(&a) => cx.floor_div(&a, &d),
                1 if cx.proves(&a) => cx.floor_rem(&a, &d),
                2 => Some(cx.min(&a, &b)),
                3 => Some(cx.max(&a, &b)),
                _ => {
                    let op = OPAQUE[random.below(OPAQUE.len() as u64) as usize];
                    Some(Poly::sym(cx.define(Definition::Opaque(op, a, b, None))))
                }
            };
            syms.extend(made);
        }
        for _ in 0..random.below(4) {
            let fact = poly(&mut random, &syms);
            let cond = match random.below(4) {
                0 => Cond::Zero(fact.clone()),
                1 => Cond::NonNeg(fact.clone()).negated(),
                2 => {
                    let rem = cx.floor_rem(&syms[0].clone(), &Poly::constant(random.between(2, 4)));
                    Cond::Zero(rem.unwrap())
                }
                _ => Cond::NonNeg(fact.clone()),
            };
            cx.assume(&cond);
            facts.push(cond);
        }
        let holds = |cond: &Cond, point: &[i64]| match cond {
            Cond::NonNeg(p) => value(&cx, p, point) >= 0,
            Cond::Zero(p) => value(&cx, p, point) == 0,
            _ => true,
        };
        let mut points = Vec::new();
        for x in 0..=bounds[0] {
            for y in 0..=bounds[1] {
                for z in 0..=bounds[2] {
                    let point = [x, y, z];
                    if facts.iter().all(|f| holds(f, &point)) {
                        points.push(point);
                    }
                }
            }
        }
        for _ in 0..6 {
            let query = poly(&mut random, &syms);
            let answer = cx.nonneg(&query);
            proven += u32::from(answer == Answer::Proven && !points.is_empty());
            refuted += u32::from(answer == Answer::Refuted && !points.is_empty());
            let patient = cx.proves_patiently(&query);
            patiently += u32::from(patient && answer != Answer::Proven && !points.is_empty());
            // A search for a proof finds none of what is negative somewhere.
            let witness = cx.witnesses.refute(&query);
            witnessed += u32::from(witness);
            assert!(!witness || !cx.search(&query), "{query:?} given {facts:?}");
            let modulus = random.between(2, 6);
            let multiple = cx.divisible(&query, modulus);
            multiples += u32::from(multiple != Answer::Unknown && !points.is_empty());
            let (lo, hi) = cx.range(&query);
            for point in &points {
                let v = value(&cx, &query, point);
                assert!(answer != Answer::Proven || v >= 0, "{query:?} at {point:?} given {facts:?}");
                assert!(answer != Answer::Refuted || v < 0, "{query:?} at {point:?} given {facts:?}");
                assert!(!patient || v >= 0, "{query:?} at {point:?} given {facts:?}");
                assert!(multiple != Answer::Proven || v.rem_euclid(modulus) == 0, "{query:?} % {modulus}");
                assert!(multiple != Answer::Refuted || v.rem_euclid(modulus) != 0, "{query:?} % {modulus}");
                assert!(lo.is_none_or(|lo| lo <= v) && hi.is_none_or(|hi| hi >= v), "{query:?} at {point:?}");
            }
        }
    }
    // The test is about something.
    assert!(proven > 1000 && refuted > 300 && multiples > 100, "{proven} {refuted} {multiples}");
    assert!(patiently >= 5 && witnessed > 1000, "{patiently} {witnessed}");
}
