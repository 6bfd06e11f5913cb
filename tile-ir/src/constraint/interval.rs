//! Intervals of integers: what an operation on `usize` makes of the ranges of its operands.
//!
//! `usize` is a mathematical integer, so an interval is one of integers, and it is exact about sizes: whether a result
//! fits 32 or 64 bits is read off it. Bounds are held in 128 bits and saturate far outside of 64.

use crate::ir::BinaryOp;

/// All integers from `lo` to `hi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The least.
    pub lo: i128,
    /// The greatest.
    pub hi: i128,
}

/// Where bounds saturate: beyond every 64-bit number, and products of two of them are still numbers.
const FAR: i128 = 1 << 120;

impl Interval {
    /// Every value that a 32-bit signed index holds; the least `int` is left out, so that each has its negative.
    pub const NARROW: Interval = Interval { lo: -(i32::MAX as i128), hi: i32::MAX as i128 };
    /// Every value that a 64-bit signed index holds, likewise.
    pub const WIDE: Interval = Interval { lo: -(i64::MAX as i128), hi: i64::MAX as i128 };
    /// Nothing is known.
    pub const ALL: Interval = Interval { lo: -FAR, hi: FAR };

    /// From `lo` to `hi`, saturated.
    pub fn new(lo: i128, hi: i128) -> Interval {
        Interval { lo: lo.clamp(-FAR, FAR), hi: hi.clamp(-FAR, FAR) }
    }

    /// One value.
    pub fn of(value: i64) -> Interval {
        Interval::new(value.into(), value.into())
    }

    /// Bounds that may be missing.
    pub fn from_bounds((lo, hi): (Option<i64>, Option<i64>)) -> Interval {
        Interval::new(lo.map_or(-FAR, i128::from), hi.map_or(FAR, i128::from))
    }

    /// The values of a type with these bounds.
    pub fn of_type((lo, hi): (i64, i64)) -> Interval {
        Interval::new(lo.into(), hi.into())
    }

    /// As bounds of 64 bits; missing where they are beyond.
    pub fn bounds(self) -> (Option<i64>, Option<i64>) {
        (i64::try_from(self.lo).ok(), i64::try_from(self.hi).ok())
    }

    /// Whether all of it is in `other`.
    pub fn fits(self, other: Interval) -> bool {
        self.lo >= other.lo && self.hi <= other.hi
    }

    /// Whether a value is in it.
    pub fn contains(self, value: i128) -> bool {
        (self.lo..=self.hi).contains(&value)
    }

    /// What is in both. Two facts about one value always meet; where they do not, nothing gets here, and the first stays.
    pub fn meet(self, other: Interval) -> Interval {
        let both = Interval { lo: self.lo.max(other.lo), hi: self.hi.min(other.hi) };
        if both.lo <= both.hi { both } else { self }
    }

    /// The least interval with both.
    pub fn join(self, other: Interval) -> Interval {
        Interval { lo: self.lo.min(other.lo), hi: self.hi.max(other.hi) }
    }

    fn corners(self, other: Interval, f: impl Fn(i128, i128) -> i128) -> Interval {
        let all = [f(self.lo, other.lo), f(self.lo, other.hi), f(self.hi, other.lo), f(self.hi, other.hi)];
        let [first, rest @ ..] = all;
        let (lo, hi) = rest.iter().fold((first, first), |(lo, hi), v| (lo.min(*v), hi.max(*v)));
        Interval::new(lo, hi)
    }

    /// The greatest absolute value.
    fn most(self) -> i128 {
        self.lo.abs().max(self.hi.abs())
    }

    /// Where `op(a, b)` is. Division by zero, which is a mistake, counts as division by one, which is what the emitted
    /// code makes of it; the number of a shift is one of `0..=31`.
    pub fn apply(op: BinaryOp, a: Interval, b: Interval) -> Interval {
        use BinaryOp::*;
        let multiply = |x: i128, y: i128| x.checked_mul(y).unwrap_or(if (x < 0) == (y < 0) { FAR } else { -FAR });
        match op {
            Add => Interval::new(a.lo + b.lo, a.hi + b.hi),
            Sub => Interval::new(a.lo - b.hi, a.hi - b.lo),
            Mul => a.corners(b, multiply),
            Min => Interval::new(a.lo.min(b.lo), a.hi.min(b.hi)),
            Max => Interval::new(a.lo.max(b.lo), a.hi.max(b.hi)),
            Div | CeilDiv if b.lo >= 1 => {
                let up = |x: i128, y: i128| x.div_euclid(y) + i128::from(x.rem_euclid(y) != 0);
                a.corners(b, |x, y| if op == Div { x / y } else { up(x, y) })
            }
            Div | CeilDiv => Interval::new(-a.most(), a.most()).meet(if a.lo >= 0 && b.lo >= 0 {
                Interval::new(0, FAR)
            } else {
                Interval::ALL
            }),
            Rem => {
                let below = (b.most() - 1).max(0);
                let hi = if a.hi <= 0 { 0 } else { a.hi.min(below) };
                let lo = if a.lo >= 0 { 0 } else { a.lo.max(-below) };
                Interval::new(lo, hi)
            }
            BitAnd if a.lo >= 0 && b.lo >= 0 => Interval::new(0, a.hi.min(b.hi)),
            BitAnd if a.lo >= 0 => Interval::new(0, a.hi),
            BitAnd if b.lo >= 0 => Interval::new(0, b.hi),
            BitAnd | BitOr | BitXor => {
                // All bits that either has.
                let bits = |v: i128| (v ^ (v >> 127)) as u128;
                let most = [a.lo, a.hi, b.lo, b.hi].into_iter().map(bits).max().unwrap_or(0);
                let ones = most.checked_next_power_of_two().map_or(FAR, |p| {
                    let p = if p == most { p.saturating_mul(2) } else { p };
                    i128::try_from(p).unwrap_or(FAR) - 1
                });
                let nonneg = a.lo >= 0 && b.lo >= 0;
                Interval::new(if nonneg { 0 } else { -ones - 1 }, ones)
            }
            Shl => a.corners(b.shift(), |x, y| multiply(x, 1 << y)),
            Shr => a.corners(b.shift(), |x, y| x >> y),
            Lt | Le | Gt | Ge | Eq | Ne | And | Or => Interval::new(0, 1),
        }
    }

    /// Where `op(a, b)` is in a type whose arithmetic wraps around to stay in `all`; `None` where it may wrap. The number
    /// of a shift counts modulo 32, and a quotient by zero may be anything.
    pub fn apply_within(op: BinaryOp, a: Interval, b: Interval, all: Interval) -> Option<Interval> {
        use BinaryOp::*;
        const SHIFTS: Interval = Interval { lo: 0, hi: 31 };
        let b = match op {
            Div | Rem | CeilDiv if b.lo < 1 => return None,
            Shl | Shr if !b.fits(SHIFTS) => SHIFTS,
            _ => b,
        };
        Some(Interval::apply(op, a, b)).filter(|result| result.fits(all))
    }

    fn shift(self) -> Interval {
        Interval { lo: self.lo.clamp(0, 31), hi: self.hi.clamp(0, 31) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Dtype;
    use crate::sim::numeric::{index_binary, int_binary};

    /// Every pair of values in small intervals at the ends of both types and around zero, under every operator: no result
    /// that is said to stay in the type wraps.
    #[test]
    fn an_operation_of_a_type_wraps_or_stays_in_its_interval() {
        use BinaryOp::*;
        let mut stayed = 0;
        for (dtype, all) in [(Dtype::U32, (0, i64::from(u32::MAX))), (Dtype::I32, (i32::MIN.into(), i32::MAX.into()))] {
            let near = [0i64, 1, 2, 3, 4, 7, 30, 31, 32, 33, 65_535, 65_536, 1 << 30, 1 << 31];
            let mut ends: Vec<i64> = near.iter().flat_map(|n| [*n, -n, all.0 + n, all.1 - n]).collect();
            ends.retain(|end| (all.0..=all.1).contains(end));
            ends.sort_unstable();
            ends.dedup();
            let intervals: Vec<(i64, i64)> =
                ends.windows(3).flat_map(|e| [(e[0], e[0]), (e[0], e[1]), (e[0], e[2])]).collect();
            for op in [Add, Sub, Mul, Div, Rem, Min, Max, BitAnd, BitOr, BitXor, Shl, Shr] {
                for (a, b) in intervals.iter().flat_map(|a| intervals.iter().map(move |b| (*a, *b))) {
                    let [x, y] = [a, b].map(Interval::of_type);
                    let Some(result) = Interval::apply_within(op, x, y, Interval::of_type(all)) else { continue };
                    stayed += 1;
                    let points = |(lo, hi): (i64, i64)| [lo, lo + (hi - lo) / 3, hi];
                    for (p, q) in points(a).into_iter().flat_map(|p| points(b).into_iter().map(move |q| (p, q))) {
                        let bits = int_binary(op, dtype, p as u32, q as u32).unwrap();
                        let value = if dtype == Dtype::I32 { i64::from(bits as i32) } else { i64::from(bits) };
                        assert!(result.contains(value.into()), "{p} {op:?} {q} = {value}: {x:?} {y:?} {result:?}");
                    }
                }
            }
        }
        assert!(stayed > 20_000, "{stayed}");
    }

    /// Every pair of values in small intervals around zero, under every operator.
    #[test]
    fn an_operation_stays_in_its_interval() {
        use BinaryOp::*;
        let ends = [-9i64, -4, -1, 0, 1, 2, 3, 7, 8];
        let intervals: Vec<(i64, i64)> =
            ends.iter().flat_map(|lo| ends.iter().filter(move |hi| lo <= hi).map(move |hi| (*lo, *hi))).collect();
        for op in [Add, Sub, Mul, Div, Rem, CeilDiv, Min, Max, BitAnd, BitOr, BitXor, Shl, Shr] {
            for (a, b) in intervals.iter().flat_map(|a| intervals.iter().map(move |b| (*a, *b))) {
                let [x, y] = [a, b].map(|(lo, hi)| Interval::new(lo.into(), hi.into()));
                let result = Interval::apply(op, x, y);
                for (p, q) in (a.0..=a.1).flat_map(|p| (b.0..=b.1).map(move |q| (p, q))) {
                    if matches!(op, Shl | Shr) && !(0..32).contains(&q) {
                        continue;
                    }
                    let q = if matches!(op, Div | Rem | CeilDiv) && q == 0 { 1 } else { q };
                    let value = index_binary(op, p, q).unwrap();
                    assert!(result.contains(value.into()), "{p} {op:?} {q} = {value}: {x:?} {y:?} {result:?}");
                }
            }
        }
    }

    /// Numbers around powers of two, alone and from zero on: what has one bit more is not missed.
    #[test]
    fn bits_around_powers_of_two() {
        use BinaryOp::*;
        let around = |k: u32| [-1, 0, 1].map(|d| (1i64 << k) + d);
        let ends: Vec<i64> = [1, 2, 6, 30, 31, 32, 61].into_iter().flat_map(around).flat_map(|v| [v, -v]).collect();
        let from = |v: &i64| [(*v, *v), (0.min(*v), 0.max(*v))];
        let intervals: Vec<(i64, i64)> = ends.iter().flat_map(from).collect();
        for op in [BitAnd, BitOr, BitXor] {
            for (a, b) in intervals.iter().flat_map(|a| intervals.iter().map(move |b| (*a, *b))) {
                let [x, y] = [a, b].map(|(lo, hi)| Interval::new(lo.into(), hi.into()));
                let result = Interval::apply(op, x, y);
                let inside = |(lo, hi): (i64, i64)| [lo, hi, lo / 2, hi / 2].map(|v| v.clamp(lo, hi));
                for (p, q) in inside(a).into_iter().flat_map(|p| inside(b).map(|q| (p, q))) {
                    let value = index_binary(op, p, q).unwrap();
                    assert!(result.contains(value.into()), "{p} {op:?} {q} = {value}: {x:?} {y:?} {result:?}");
                }
            }
        }
    }
}
