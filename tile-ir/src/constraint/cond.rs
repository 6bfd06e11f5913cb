//! Conditions over polynomials.

use super::{Answer, Context, Poly, Varies};

/// A condition in negation normal form, with the values its variables had where it was evaluated.
#[derive(Clone, Debug, PartialEq)]
pub enum Cond {
    /// Always.
    True,
    /// Never.
    False,
    /// The polynomial is not negative.
    NonNeg(Poly),
    /// The polynomial is zero.
    Zero(Poly),
    /// The polynomial is not zero.
    NonZero(Poly),
    /// Both.
    And(Box<Cond>, Box<Cond>),
    /// Either.
    Or(Box<Cond>, Box<Cond>),
    /// Something about values that are not known, which may differ like this.
    Unknown(Varies),
}

impl Cond {
    /// `a < b`.
    pub fn less(a: &Poly, b: &Poly) -> Cond {
        match b.minus(a).and_then(|p| p.plus_constant(-1)) {
            Some(p) => Cond::NonNeg(p).simplified(),
            None => Cond::Unknown(Varies::ALL),
        }
    }

    /// `a == b`.
    pub fn equal(a: &Poly, b: &Poly) -> Cond {
        a.minus(b).map_or(Cond::Unknown(Varies::ALL), |p| Cond::Zero(p).simplified())
    }

    fn simplified(self) -> Cond {
        let value = match &self {
            Cond::NonNeg(p) => p.as_constant().map(|c| c >= 0),
            Cond::Zero(p) => p.as_constant().map(|c| c == 0),
            Cond::NonZero(p) => p.as_constant().map(|c| c != 0),
            _ => None,
        };
        match value {
            Some(true) => Cond::True,
            Some(false) => Cond::False,
            None => self,
        }
    }

    /// Both hold.
    pub fn and(self, other: Cond) -> Cond {
        match (self, other) {
            (Cond::False, _) | (_, Cond::False) => Cond::False,
            (Cond::True, c) | (c, Cond::True) => c,
            (a, b) => Cond::And(Box::new(a), Box::new(b)),
        }
    }

    /// Either holds.
    pub fn or(self, other: Cond) -> Cond {
        match (self, other) {
            (Cond::True, _) | (_, Cond::True) => Cond::True,
            (Cond::False, c) | (c, Cond::False) => c,
            (a, b) => Cond::Or(Box::new(a), Box::new(b)),
        }
    }

    /// The condition does not hold.
    pub fn negated(&self) -> Cond {
        match self {
            Cond::True => Cond::False,
            Cond::False => Cond::True,
            Cond::NonNeg(p) => match p.scaled(-1).and_then(|p| p.plus_constant(-1)) {
                Some(p) => Cond::NonNeg(p),
                None => Cond::Unknown(Varies::ALL),
            },
            Cond::Zero(p) => Cond::NonZero(p.clone()),
            Cond::NonZero(p) => Cond::Zero(p.clone()),
            Cond::And(a, b) => a.negated().or(b.negated()),
            Cond::Or(a, b) => a.negated().and(b.negated()),
            Cond::Unknown(v) => Cond::Unknown(*v),
        }
    }

    /// Where the condition may differ.
    pub fn varies(&self, cx: &Context) -> Varies {
        match self {
            Cond::True | Cond::False => Varies::default(),
            Cond::NonNeg(p) | Cond::Zero(p) | Cond::NonZero(p) => cx.varies(p),
            Cond::And(a, b) | Cond::Or(a, b) => a.varies(cx).or(b.varies(cx)),
            Cond::Unknown(v) => *v,
        }
    }
}

impl Context {
    /// Whether a condition holds here.
    pub fn decide(&self, cond: &Cond) -> Answer {
        use Answer::*;
        match cond {
            Cond::True => Proven,
            Cond::False => Refuted,
            Cond::NonNeg(p) => self.nonneg(p),
            Cond::Zero(p) => self.decide_zero(p),
            Cond::NonZero(p) => match self.decide_zero(p) {
                Proven => Refuted,
                Refuted => Proven,
                Unknown => Unknown,
            },
            Cond::And(a, b) => match (self.decide(a), self.decide(b)) {
                (Refuted, _) | (_, Refuted) => Refuted,
                (Proven, Proven) => Proven,
                _ => Unknown,
            },
            Cond::Or(a, b) => match (self.decide(a), self.decide(b)) {
                (Proven, _) | (_, Proven) => Proven,
                (Refuted, Refuted) => Refuted,
                _ => Unknown,
            },
            Cond::Unknown(_) => Unknown,
        }
    }

    fn decide_zero(&self, p: &Poly) -> Answer {
        let content = p.content();
        if content > 0 && !p.offset().unsigned_abs().is_multiple_of(content) {
            return Answer::Refuted;
        }
        let (at_least, at_most) = (self.nonneg(p), p.scaled(-1).map_or(Answer::Unknown, |p| self.nonneg(&p)));
        match (at_least, at_most) {
            (Answer::Refuted, _) | (_, Answer::Refuted) => Answer::Refuted,
            (Answer::Proven, Answer::Proven) => Answer::Proven,
            _ => Answer::Unknown,
        }
    }

    /// Assumes that a condition holds. Of `a || b` something follows only where one is refuted.
    pub fn assume(&mut self, cond: &Cond) {
        match cond {
            Cond::NonNeg(p) => self.assume_nonneg(p.clone()),
            Cond::Zero(p) => self.assume_zero(p.clone()),
            Cond::And(a, b) => {
                self.assume(a);
                self.assume(b);
            }
            Cond::Or(a, b) => {
                if self.decide(a) == Answer::Refuted {
                    self.assume(b);
                } else if self.decide(b) == Answer::Refuted {
                    self.assume(a);
                }
            }
            Cond::NonZero(p) => {
                // Not zero, and on one side of it.
                if self.proves(p) {
                    if let Some(p) = p.plus_constant(-1) {
                        self.assume_nonneg(p);
                    }
                } else if let Some(negated) = p.scaled(-1)
                    && self.proves(&negated)
                    && let Some(p) = negated.plus_constant(-1)
                {
                    self.assume_nonneg(p);
                }
            }
            Cond::True | Cond::False | Cond::Unknown(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_decide_and_teach() {
        let mut cx = Context::default();
        let t = Poly::sym(cx.fresh("t", Some(0), Some(31), Varies::default()));
        let first = Cond::equal(&t, &Poly::constant(0));
        assert_eq!(cx.decide(&first), Answer::Unknown);
        assert_eq!(cx.decide(&Cond::less(&t, &Poly::constant(32))), Answer::Proven);
        assert_eq!(cx.decide(&Cond::less(&t, &Poly::constant(0))), Answer::Refuted);
        let mark = cx.mark();
        cx.assume(&first.negated());
        assert_eq!(cx.decide(&Cond::less(&Poly::constant(0), &t)), Answer::Proven);
        cx.reset(mark);
        cx.assume(&first);
        assert_eq!(cx.decide(&Cond::less(&t, &Poly::constant(1))), Answer::Proven);
        // 2 t = 5 has no solution.
        let odd = Cond::equal(&t.scaled(2).unwrap(), &Poly::constant(5));
        assert_eq!(cx.decide(&odd), Answer::Refuted);
    }
}
