//! The row kernels of a model in f64: what `tile_kernels::{norm, softmax, swiglu, embedding, rope, sampling}` are compared with.

/// RMSNorm of rows of `weight.len()` elements.
pub fn rms_norm(x: &[f64], weight: &[f64], epsilon: f64) -> Vec<f64> {
    let n = weight.len().max(1);
    let row = |row: &[f64]| {
        let scale = 1.0 / (row.iter().map(|v| v * v).sum::<f64>() / n as f64 + epsilon).sqrt();
        row.iter().zip(weight).map(|(v, w)| v * scale * w).collect::<Vec<f64>>()
    };
    x.chunks(n).flat_map(row).collect()
}

/// LayerNorm of rows of `weight.len()` elements.
pub fn layer_norm(x: &[f64], weight: &[f64], bias: &[f64], epsilon: f64) -> Vec<f64> {
    let n = weight.len().max(1);
    let row = |row: &[f64]| {
        let mean = row.iter().sum::<f64>() / n as f64;
        let variance = row.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n as f64;
        let scale = 1.0 / (variance + epsilon).sqrt();
        row.iter().zip(weight.iter().zip(bias)).map(|(v, (w, b))| (v - mean) * scale * w + b).collect::<Vec<f64>>()
    };
    x.chunks(n).flat_map(row).collect()
}

/// Softmax of rows of `n` elements.
pub fn softmax(x: &[f64], n: usize) -> Vec<f64> {
    let row = |row: &[f64]| {
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = row.iter().map(|value| (value - largest).exp()).collect();
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(move |weight| weight / sum).collect::<Vec<f64>>()
    };
    x.chunks(n.max(1)).flat_map(row).collect()
}

/// `silu(gate) * up` of rows of `2 i` elements.
pub fn swiglu(gate_up: &[f64], i: usize) -> Vec<f64> {
    let row = |row: &[f64]| {
        let (gate, up) = row.split_at(i);
        gate.iter().zip(up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect::<Vec<f64>>()
    };
    gate_up.chunks(2 * i.max(1)).flat_map(row).collect()
}

/// Rows of `n` elements of `table`; zeros for a token that is not in it.
pub fn embedding(table: &[f64], tokens: &[u32], n: usize) -> Vec<f64> {
    let row = |token: &u32| {
        let start = *token as usize * n;
        table.get(start..start + n).map_or_else(|| vec![0.0; n], <[f64]>::to_vec)
    };
    tokens.iter().flat_map(row).collect()
}

/// A head normed, where there are weights, and rotated by halves.
pub fn rotate_head(head: &[f64], weight: Option<&[f64]>, epsilon: f64, cosines: &[f64], sines: &[f64]) -> Vec<f64> {
    let normed = weight.map_or_else(|| head.to_vec(), |weight| rms_norm(head, weight, epsilon));
    let half = cosines.len();
    let element = |i: usize| {
        let (other, sign) = if i < half { (normed[i + half], -1.0) } else { (normed[i - half], 1.0) };
        normed[i] * cosines[i % half] + sign * other * sines[i % half]
    };
    (0..2 * half).map(element).collect()
}

/// Cosines and sines of `position * base^(-i / half)`, of shape `[positions, half]`.
pub fn rope_tables(positions: usize, half: usize, base: f64) -> (Vec<f32>, Vec<f32>) {
    let angle = |at: usize| (at / half) as f64 * base.powf(-((at % half) as f64) / half as f64);
    let angles = (0..positions * half).map(angle);
    (angles.clone().map(|a| a.cos() as f32).collect(), angles.map(|a| a.sin() as f32).collect())
}

/// The place of the first of the largest elements of each row of `n`; `u32::MAX` where there is no number.
pub fn argmax(x: &[f64], n: usize) -> Vec<u32> {
    let place = |row: &[f64]| {
        let best = row
            .iter()
            .copied()
            .filter(|v| !v.is_nan())
            .fold(None, |best: Option<f64>, v| Some(best.map_or(v, |best| best.max(v))));
        row.iter().position(|v| Some(*v) == best).map_or(u32::MAX, |at| at as u32)
    };
    x.chunks(n.max(1)).map(place).collect()
}
