//! Which tile multiplies f32 operands as they are ([`Precision::Full`](super::Precision)): by multiply-adds, on every device.
//!
//! A thread has 16 x 8 elements of the largest tile, 8 x 8 of others, or 8 x 4 of the small ones, and reads what it multiplies
//! 16 bytes at a time, however operands are stored. Tiles are large where there are many of them, because they read less for what they multiply, and small where a device would else
//! have multiprocessors without any.

use super::Tile;
use super::model::{MULTIPROCESSORS, up};

/// A tile, and what is known of its speed.
struct Cost {
    tile: Tile,
    /// The part of its instructions that are multiply-adds.
    share: f64,
    /// Blocks that fit on a multiprocessor, by their registers.
    blocks: i64,
    /// The part of their time that multiprocessors multiply with one warp a scheduler; each further warp fills the same part of
    /// what the others leave.
    one_warp: f64,
}

/// The tiles, the largest first.
const TILES: [Cost; 5] = [
    Cost { tile: (128, 128, 8, 4, 128, 1, 1), share: 0.87, blocks: 2, one_warp: 0.85 },
    Cost { tile: (128, 64, 8, 4, 128, 1, 1), share: 0.80, blocks: 4, one_warp: 0.55 },
    Cost { tile: (64, 128, 8, 4, 128, 1, 1), share: 0.80, blocks: 4, one_warp: 0.55 },
    Cost { tile: (64, 64, 16, 4, 128, 1, 1), share: 0.72, blocks: 4, one_warp: 0.55 },
    Cost { tile: (32, 64, 16, 4, 64, 1, 1), share: 0.67, blocks: 8, one_warp: 0.55 },
];

/// The tile for a result of `m` x `n`, whichever way operands are stored. What is summed over is as long for all of them.
pub fn tile_for(m: i64, n: i64) -> Tile {
    cheapest(TILES.iter(), m, n)
}

fn cheapest<'a>(tiles: impl Iterator<Item = &'a Cost>, m: i64, n: i64) -> Tile {
    let cheapest = tiles.min_by(|a, b| cost(a, m, n).total_cmp(&cost(b, m, n)));
    cheapest.map_or(TILES[0].tile, |cost| cost.tile)
}

/// Every tile that there is, for benchmarks and tests: each is an instance for operands that are stored in any layout.
pub fn tiles() -> impl Iterator<Item = Tile> {
    TILES.iter().map(|cost| cost.tile)
}

/// How long a step along K takes, in multiply-adds of a multiprocessor that does nothing else.
fn cost(Cost { tile, share, blocks, one_warp }: &Cost, m: i64, n: i64) -> f64 {
    let (bm, bn, _, _, threads, ..) = *tile;
    let tiles = up(m, bm).saturating_mul(up(n, bn)).max(1);
    // Tiles of the multiprocessor that has most, and its warps a scheduler.
    let most = up(tiles, MULTIPROCESSORS);
    let warps = (most.min(*blocks) * threads as i64) as f64 / 128.0;
    let busy = 1.0 - (1.0 - one_warp).powf(warps);
    (most * bm * bn) as f64 / (busy * share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::{Choice, kernel};
    use tile_runtime::kernel::Dtype;

    /// Every tile is an instance, in every layout, with and without an epilogue.
    #[test]
    fn tiles_are_instances() {
        let kernel = kernel::gemm::<f32, f32>::definition().kernel().unwrap();
        for flags in 0..8 {
            let [a_transposed, b_transposed, epilogue] = [flags & 1, flags >> 1 & 1, flags >> 2].map(|flag| flag == 1);
            for tile in tiles() {
                let choice = Choice { tile, ..Choice::default() };
                let consts = choice.consts([a_transposed, b_transposed], epilogue);
                let found = kernel.instances.iter().any(|i| i.consts == consts && i.dtypes == [Dtype::F32; 2]);
                assert!(found, "{consts:?}");
            }
        }
    }

    #[test]
    fn a_device_is_filled() {
        let size = |m, n| (tile_for(m, n).0, tile_for(m, n).1);
        assert_eq!(size(4096, 4096), (128, 128));
        assert_eq!(size(8192, 8192), (128, 128));
        // 64 tiles of 128 x 128 would leave half of the multiprocessors idle.
        assert_eq!(size(1024, 1024), (64, 64));
        // Nothing to do is done at once.
        tile_for(0, 0);
    }

    /// Few rows take no tile that is mostly beyond them.
    #[test]
    fn few_rows_take_few_rows() {
        assert_eq!(tile_for(16, 16_384).0, 32);
        assert!(tile_for(64, 16_384).0 <= 64);
    }
}
