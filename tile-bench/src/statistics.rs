//! The numbers that rounds are summed up by.

use serde::{Deserialize, Serialize};

/// Microseconds a call, over the rounds of a race.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// The median: half of the rounds were faster.
    pub median: f64,
    /// The fastest round.
    pub fastest: f64,
    /// The slowest round.
    pub slowest: f64,
}

impl Statistics {
    /// The statistics of these times; `None` without any, or where one is not a number.
    pub fn of(times: &[f64]) -> Option<Statistics> {
        if times.iter().any(|t| t.is_nan()) {
            return None;
        }
        let mut ordered = times.to_vec();
        ordered.sort_by(f64::total_cmp);
        Some(Statistics { median: median(&ordered)?, fastest: *ordered.first()?, slowest: *ordered.last()? })
    }
}

/// The median of ascending values: the mean of the middle two where their number is even.
fn median(ascending: &[f64]) -> Option<f64> {
    let upper = *ascending.get(ascending.len() / 2)?;
    let lower = *ascending.get((ascending.len() - 1) / 2)?;
    Some((lower + upper) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_in_any_order() {
        let of = |times: &[f64]| Statistics::of(times).map(|s| (s.median, s.fastest, s.slowest));
        assert_eq!(of(&[3.0, 1.0, 2.0]), Some((2.0, 1.0, 3.0)));
        assert_eq!(of(&[4.0, 1.0, 2.0, 9.0]), Some((3.0, 1.0, 9.0)));
        assert_eq!(of(&[5.0]), Some((5.0, 5.0, 5.0)));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[1.0, f64::NAN]), None, "a time that is no number hides nothing");
    }
}
