//! A matrix product on the CPU, to compare with.

use crate::data::Real;
use rayon::prelude::*;

/// `a b` summed in f32 along K in order: exact where every partial sum is an integer below 2^24. Row-major: `a` is M x K
/// or, where it is stored transposed, K x M; `b` is K x N or N x K; the result is M x N.
pub fn product<T: Real>(a: &[T], b: &[T], [m, n, k]: [usize; 3], [a_t, b_t]: [bool; 2]) -> Vec<f32> {
    let lines = |x: &[T], count: usize, across: bool| -> Vec<f32> {
        let at = |line: usize, l: usize| x[if across { l * count + line } else { line * k + l }].to_f32();
        (0..count).flat_map(|line| (0..k).map(move |l| (line, l))).map(|(line, l)| at(line, l)).collect()
    };
    let (rows, cols) = (lines(a, m, a_t), lines(b, n, !b_t));
    let dot = &|i: usize, j: usize| {
        let (row, col) = (&rows[i * k..(i + 1) * k], &cols[j * k..(j + 1) * k]);
        row.iter().zip(col).map(|(x, y)| x * y).sum::<f32>()
    };
    (0..m).into_par_iter().flat_map_iter(|i| (0..n).map(move |j| dot(i, j))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_is_the_same_product() {
        // 2 x 3 times 3 x 2.
        let (a, b) = ([1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0f32, 0.0, 0.0, 1.0, 2.0, 2.0]);
        let (a_t, b_t) = ([1.0f32, 4.0, 2.0, 5.0, 3.0, 6.0], [1.0f32, 0.0, 2.0, 0.0, 1.0, 2.0]);
        let wanted = vec![7.0, 8.0, 16.0, 17.0];
        assert_eq!(product(&a, &b, [2, 2, 3], [false, false]), wanted);
        assert_eq!(product(&a_t, &b, [2, 2, 3], [true, false]), wanted);
        assert_eq!(product(&a, &b_t, [2, 2, 3], [false, true]), wanted);
        assert_eq!(product(&a_t, &b_t, [2, 2, 3], [true, true]), wanted);
    }
}
