//! Which ways to make a call a tuning tries.

/// Of what may be chosen, those that are expected to take no longer than so many times the first are tried, and no more than so many.
const NEARLY: f64 = 1.5;
const MOST: usize = 16;

/// Of so many, both forms of the launch are tried.
const BOTH: usize = 4;

/// What is tried of `ranked`, which are choices with the us expected of each, the one that a call takes first; with whether its launch may
/// start before the previous one is done. The call's own way is the first; where launches `may` not start early, none does.
pub(crate) fn ways<C: Copy>(ranked: &[(C, f64)], may: bool, is_early: impl Fn(&C, f64) -> bool) -> Vec<(C, bool)> {
    let limit = ranked.first().map_or(0.0, |(_, us)| us * NEARLY);
    let tried = || ranked.iter().take(MOST).filter(|(_, us)| *us <= limit).map(|(c, us)| (*c, may && is_early(c, *us)));
    let others = tried().take(BOTH).filter(|_| may).map(|(choice, early)| (choice, !early));
    tried().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_own_way_is_the_first() {
        let ranked: Vec<(usize, f64)> = (0..40).map(|i| (i, 10.0 + i as f64)).collect();
        let found = ways(&ranked, true, |_, us| us < 12.0);
        // Up to 15 us: 6 of them, and the other form of four.
        let plain: Vec<_> = (0..6).map(|i| (i, i < 2)).collect();
        assert_eq!(found[..6], plain);
        assert_eq!(found[6..], [(0, false), (1, false), (2, true), (3, true)]);
        assert_eq!(ways(&ranked, false, |_, _| true), (0..6).map(|i| (i, false)).collect::<Vec<_>>());
        let alike: Vec<(usize, f64)> = (0..40).map(|i| (i, 10.0)).collect();
        assert_eq!(ways(&alike, false, |_, _| true).len(), MOST);
        assert_eq!(ways::<usize>(&[], true, |_, _| true), []);
    }
}
