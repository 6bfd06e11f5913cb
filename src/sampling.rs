//! The choice of the next token in f64: what `tile_kernels::sampling::sample` is compared with.

/// What a row's choice depends on.
#[derive(Clone, Debug)]
pub struct Row {
    /// The logits; NaN and -inf are never chosen.
    pub logits: Vec<f64>,
    /// What they are divided by; where it is not above 0, the first of the largest is chosen.
    pub temperature: f32,
    /// How many of the largest are kept, and what equals the least of them; 0 keeps all.
    pub top_k: u32,
    /// The part of the probability that the largest of those have which are kept.
    pub top_p: f32,
    /// Low word, high word.
    pub seed: [u32; 2],
    /// The token's position.
    pub position: u32,
}

impl Row {
    /// The probability of each element; all 0 where there is no number above -inf.
    pub fn probabilities(&self) -> Vec<f64> {
        let mut sorted: Vec<f64> = self.logits.iter().copied().filter(|x| *x > f64::NEG_INFINITY).collect();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let Some(&largest) = sorted.first() else { return vec![0.0; self.logits.len()] };
        let weight = |x: f64| if x == largest { 1.0 } else { ((x - largest) / f64::from(self.temperature)).exp() };
        if self.top_k > 0
            && let Some(&least) = sorted.get(self.top_k as usize - 1)
        {
            sorted.retain(|x| *x >= least);
        }
        let goal = f64::from(self.top_p) * sorted.iter().map(|x| weight(*x)).sum::<f64>();
        let mut sum = 0.0;
        let reached = sorted.iter().find(|x| {
            sum += weight(**x);
            sum >= goal
        });
        let last = sorted.last().copied().unwrap_or(largest);
        let least = if self.top_p < 1.0 { reached.copied().unwrap_or(last) } else { last };
        let kept = |x: &f64| if *x >= least { weight(*x) } else { 0.0 };
        let total: f64 = self.logits.iter().map(kept).sum();
        self.logits.iter().map(|x| kept(x) / total).collect()
    }

    /// The token, and by how much the winner of the race is ahead of the next one.
    pub fn sample(&self) -> (u32, f64) {
        let probabilities = self.probabilities();
        let greedy = crate::rows::argmax(&self.logits, self.logits.len()).first().copied().unwrap_or(u32::MAX);
        if self.temperature.partial_cmp(&0.0) != Some(std::cmp::Ordering::Greater)
            || probabilities.iter().all(|p| *p == 0.0)
        {
            return (greedy, f64::INFINITY);
        }
        let score = |(at, p): (usize, &f64)| {
            let word = philox([at as u32 / 4, self.position, 0, 0], self.seed)[at % 4];
            let time = -(-(f64::from(word) + 0.5) / 4294967296.0).ln_1p();
            (p.ln() - time.ln(), at as u32)
        };
        let mut scores: Vec<(f64, u32)> =
            probabilities.iter().enumerate().filter(|(_, p)| **p > 0.0).map(score).collect();
        scores.sort_by(|a, b| b.0.total_cmp(&a.0));
        (scores[0].1, scores.get(1).map_or(f64::INFINITY, |second| scores[0].0 - second.0))
    }
}

/// Philox 4x32-10 as its authors define it.
pub fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let product = |factor: u32, word: u32| u64::from(factor) * u64::from(word);
        let (a, b) = (product(0xd251_1f53, counter[0]), product(0xcd9e_8d57, counter[2]));
        let high = |product: u64| (product >> 32) as u32;
        counter = [high(b) ^ counter[1] ^ key[0], b as u32, high(a) ^ counter[3] ^ key[1], a as u32];
        key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
    }
    counter
}
