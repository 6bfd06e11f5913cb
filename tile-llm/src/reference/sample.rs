//! How a token is chosen from logits.

use crate::backend::Sampling;

/// The token at `position` of its sequence, chosen from `logits`, which must not be empty.
///
/// The tokens are sorted by their probability at the temperature (of equals the lower first), cut to the first `top_k`, then
/// to the shortest beginning whose probabilities, summing to 1 after the first cut, reach `top_p`.
pub fn sample(logits: &[f64], sampling: &Sampling, position: usize) -> u32 {
    let mut order: Vec<u32> = (0..logits.len() as u32).collect();
    order.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b)));
    let Some(&best) = order.first() else { return 0 };
    if sampling.temperature <= 0.0 {
        return best;
    }
    if sampling.top_k > 0 {
        order.truncate(sampling.top_k as usize);
    }
    let temperature = f64::from(sampling.temperature);
    let weight = |&token: &u32| ((logits[token as usize] - logits[best as usize]) / temperature).exp();
    let weights: Vec<f64> = order.iter().map(weight).collect();
    let mut left = f64::from(sampling.top_p) * weights.iter().sum::<f64>();
    let kept = weights.iter().position(|weight| {
        left -= weight;
        left <= 0.0
    });
    let kept = &weights[..=kept.unwrap_or(weights.len() - 1)];
    let mut draw = uniform(sampling.seed, position as u64) * kept.iter().sum::<f64>();
    let chosen = kept.iter().position(|weight| {
        draw -= weight;
        draw < 0.0
    });
    order[chosen.unwrap_or(kept.len() - 1)]
}

/// A number of `0..1` by counter: SplitMix64's finaliser over both.
fn uniform(seed: u64, counter: u64) -> f64 {
    let mix = |value: u64| {
        let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    (mix(mix(seed) ^ counter) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(logits: &[f64], sampling: Sampling) -> Vec<usize> {
        let mut counts = vec![0; logits.len()];
        for position in 0..10_000 {
            counts[sample(logits, &sampling, position) as usize] += 1;
        }
        counts
    }

    #[test]
    fn frequencies_are_those_of_the_distribution() {
        let logits: Vec<f64> = [0.1f64, 0.4, 0.2, 0.3].iter().map(|p| p.ln()).collect();
        let all = Sampling { temperature: 1.0, top_k: 0, top_p: 1.0, seed: 3 };
        let near = |counts: Vec<usize>, expected: [f64; 4]| {
            let off = counts.iter().zip(expected).map(|(&count, p)| (count as f64 / 1e4 - p).abs());
            assert!(off.fold(0.0, f64::max) < 0.02, "{counts:?} of {expected:?}");
        };
        near(drawn(&logits, all), [0.1, 0.4, 0.2, 0.3]);
        near(drawn(&logits, Sampling { top_k: 2, ..all }), [0.0, 4.0 / 7.0, 0.0, 3.0 / 7.0]);
        near(drawn(&logits, Sampling { top_p: 0.71, ..all }), [0.0, 4.0 / 9.0, 2.0 / 9.0, 3.0 / 9.0]);
        // At temperature 1/2 the probabilities are squared.
        near(drawn(&logits, Sampling { temperature: 0.5, ..all }), [1.0 / 30.0, 16.0 / 30.0, 4.0 / 30.0, 9.0 / 30.0]);
        near(drawn(&logits, Sampling { top_p: 1e-9, ..all }), [0.0, 1.0, 0.0, 0.0]);
        assert_eq!(sample(&[1.0, 2.0, 2.0], &Sampling::GREEDY, 0), 1);
    }
}
