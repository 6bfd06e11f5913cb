//! Slow-memory traffic of a GEMM `C[M, N] = A[M, K] B[K, N]`, in **elements**: multiply by the element size for bytes.
//!
//! The model of the course's lab "Tiled GEMM and the Memory-Traffic Model" (seed 003). It counts loads of `A` and `B`
//! from slow memory and neither caches nor the stores of `C`. An output tile of `tile_m x tile_n` streams its rows of
//! `A` and columns of `B` once:
//!
//! ```text
//! naive = M N 2K
//! tiled = M K ceil(N / tile_n) + K N ceil(M / tile_m)
//! reuse = naive / tiled  ->  2 / (1 / tile_m + 1 / tile_n), the harmonic mean, where the tiles divide the shape
//! ```

/// A GEMM's extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gemm {
    /// Rows of `A` and `C`.
    pub m: u64,
    /// Columns of `B` and `C`.
    pub n: u64,
    /// Columns of `A`, rows of `B`.
    pub k: u64,
}

/// The extents of an output tile; 0 is taken as 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Rows of `C`.
    pub m: u64,
    /// Columns of `C`.
    pub n: u64,
}

impl Gemm {
    /// Floating-point operations, a multiply-add being two: `2 M N K`.
    pub fn flops(self) -> u128 {
        2 * u128::from(self.m) * u128::from(self.n) * u128::from(self.k)
    }

    /// Elements loaded where every element of `C` streams its row of `A` and its column of `B`: `M N 2K`.
    pub fn naive_traffic(self) -> u128 {
        self.flops()
    }

    /// Elements loaded where a tile's rows and columns are staged in fast memory. Edge tiles are partial: they stream
    /// what exists of their rows and columns.
    pub fn tiled_traffic(self, tile: Tile) -> u128 {
        let [m, n, k] = [self.m, self.n, self.k].map(u128::from);
        let across = u128::from(self.n.div_ceil(tile.n.max(1)));
        let down = u128::from(self.m.div_ceil(tile.m.max(1)));
        m * k * across + k * n * down
    }

    /// How often a loaded element is used compared with the naive order: naive over tiled traffic. 1 for an empty GEMM.
    pub fn reuse(self, tile: Tile) -> f64 {
        match self.tiled_traffic(tile) {
            0 => 1.0,
            tiled => self.naive_traffic() as f64 / tiled as f64,
        }
    }

    /// FLOPs per byte if every operand crossed the memory bus once, for elements of `element_bytes` bytes:
    /// `2MNK / ((MK + KN + MN) element_bytes)` (seed 000, section 1). 0 for an empty GEMM.
    pub fn intensity(self, element_bytes: u32) -> f64 {
        let [m, n, k] = [self.m, self.n, self.k].map(|e| e as f64);
        let bytes = (m * k + k * n + m * n) * f64::from(element_bytes);
        if bytes > 0.0 { self.flops() as f64 / bytes } else { 0.0 }
    }
}

impl Tile {
    /// The reuse of a tile that divides its GEMM: `2 / (1 / m + 1 / n)`, the harmonic mean of its extents.
    pub fn reuse(self) -> f64 {
        2.0 / (1.0 / self.m.max(1) as f64 + 1.0 / self.n.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUBE: Gemm = Gemm { m: 1024, n: 1024, k: 1024 };

    #[test]
    fn the_seeds_traffic_formulas_in_elements() {
        // "1024^3 with 128^2 tiles moves 16 MB-equivalents instead of 2 GB-equivalents": mebi- and gibi-elements.
        assert_eq!(CUBE.naive_traffic(), 2 << 30);
        assert_eq!(CUBE.tiled_traffic(Tile { m: 128, n: 128 }), 16 << 20);
        assert_eq!(CUBE.tiled_traffic(Tile { m: 1, n: 1 }), CUBE.naive_traffic(), "tiles of 1 are the naive loop");
    }

    #[test]
    fn bigger_tiles_mean_less_traffic() {
        let traffic: Vec<u128> = [1, 16, 64, 128, 256].map(|t| CUBE.tiled_traffic(Tile { m: t, n: t })).into();
        assert!(traffic.windows(2).all(|pair| pair[1] < pair[0]), "{traffic:?}");
    }

    #[test]
    fn reuse_is_the_harmonic_mean_of_the_tile() {
        let square = Tile { m: 128, n: 128 };
        assert_eq!((CUBE.reuse(square), square.reuse()), (128.0, 128.0));
        // "256 x 16 tiles reuse like ~30": 2 / (1/256 + 1/16) = 512/17.
        let skewed = Tile { m: 256, n: 16 };
        assert!((skewed.reuse() - 512.0 / 17.0).abs() < 1e-12);
        assert!((CUBE.reuse(skewed) - skewed.reuse()).abs() < 1e-9);
    }

    #[test]
    fn a_decode_shape_has_no_reuse_to_harvest() {
        let decode = Gemm { m: 1, n: 4096, k: 4096 };
        for n in [1, 16, 256, 4096] {
            assert!(decode.reuse(Tile { m: 128, n }) <= 2.0);
            assert!(Tile { m: 1, n }.reuse() <= 2.0);
        }
        // GEMV in f16: about one FLOP a byte.
        assert!((decode.intensity(2) - 1.0).abs() < 1e-3);
    }

    #[test]
    fn ragged_edges_count_whole_passes() {
        // The seed's 37 x 23 x 19 (M x K x N) with tiles of 8: 5 tiles down, 3 across.
        let ragged = Gemm { m: 37, n: 19, k: 23 };
        assert_eq!(ragged.tiled_traffic(Tile { m: 8, n: 8 }), 37 * 23 * 3 + 23 * 19 * 5);
        assert_eq!(Gemm { m: 0, n: 0, k: 0 }.reuse(Tile { m: 0, n: 0 }), 1.0);
    }
}
