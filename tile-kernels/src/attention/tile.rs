//! Which tile [`forward`](super::forward) takes: the one of which the least time is expected, by a model of blocks that take tile after tile.

use super::MULTIPROCESSORS;

/// A tile of [`forward`](super::forward)'s kernels, and its times on an H200 in microseconds, which decide where heads of one length have several tiles.
/// `bench/attention_tiles.py --fit` fits the times. An H100 was not measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tile {
    /// Queries, 64 of each warpgroup.
    pub rows: usize,
    /// Keys of a step.
    pub keys: usize,
    /// What a step takes.
    step: f64,
    /// What a tile takes beside its steps, without a mask.
    around: f64,
    /// What a tile takes beside its steps under a causal mask, which some of the steps apply.
    around_causal: f64,
}

/// A tile of heads for which there is no other, so that nobody asks what it takes.
const fn only(rows: usize, keys: usize) -> [Tile; 1] {
    [Tile { rows, keys, step: 1.0, around: 1.0, around_causal: 1.0 }]
}

const OF_64: [Tile; 2] = [
    Tile { rows: 128, keys: 128, step: 1.265, around: 0.66, around_causal: 0.97 },
    Tile { rows: 192, keys: 128, step: 1.407, around: 1.60, around_causal: 2.63 },
];
const OF_128: [Tile; 2] = [
    Tile { rows: 128, keys: 128, step: 1.369, around: 2.00, around_causal: 3.08 },
    Tile { rows: 192, keys: 80, step: 1.196, around: 2.78, around_causal: 4.36 },
];
const OF_96: [Tile; 1] = only(128, 128);
const OF_192: [Tile; 1] = only(128, 112);
const OF_256: [Tile; 1] = only(128, 64);

impl Tile {
    /// The tiles for heads of `d` elements with values of `dv`; none where such heads are not taken.
    pub fn of(d: usize, dv: usize) -> &'static [Tile] {
        match (d, dv) {
            (64, 64) => &OF_64,
            (96, 96) => &OF_96,
            (128, 128) => &OF_128,
            (192, 128) => &OF_192,
            (256, 256) => &OF_256,
            _ => &[],
        }
    }

    /// Three warpgroups have the registers that they need where a warpgroup's can be set.
    pub fn needs_hopper(&self) -> bool {
        self.rows > 128
    }
}

/// What a launch computes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Work {
    /// Heads of all sequences.
    pub heads: usize,
    /// Heads whose queries are the rows of a tile together.
    pub of_tile: usize,
    /// Queries of a sequence.
    pub queries: usize,
    /// Keys of a sequence.
    pub keys: usize,
    /// Whether sequences differ in length, of which `queries` and `keys` are the means: then each has half a tile more in the mean than its part of one.
    pub ragged: bool,
    /// Whether a query sees the keys up to its own: the longest tiles come first, each to the block that is done first.
    pub causal: bool,
}

/// Numbers of tiles of a block, after the first one, that are looked at one by one for the block that is done last.
const WAVES: usize = 8;

impl Work {
    /// The work where each `group` heads, which share keys, are one head with the queries of all, in any order.
    pub fn merged(self, group: usize) -> Work {
        Work { heads: self.heads / group.max(1), queries: self.queries.saturating_mul(group), ..self }
    }

    /// Tiles of all heads.
    pub fn tiles(&self, tile: Tile) -> usize {
        let (rows, heads) = self.of(tile);
        if self.ragged {
            let twice = self.queries.saturating_mul(2).saturating_add(rows);
            heads.saturating_mul(twice).div_ceil(2 * rows)
        } else {
            heads.saturating_mul(self.queries.div_ceil(rows).max(1))
        }
    }

    /// Queries of a tile, and how many heads, or groups of heads, have tiles of their own.
    fn of(&self, tile: Tile) -> (usize, usize) {
        let of_tile = self.of_tile.max(1);
        ((tile.rows / of_tile).max(1), (self.heads / of_tile).max(1))
    }

    /// Microseconds that are expected of it by a tile.
    ///
    /// Some block computes at least `n + 1` of the longest `n MULTIPROCESSORS + 1` tiles, of which none is shorter than the last one; and no device is done before its share
    /// of all. The largest of these bounds is what longest-first takes, but for a part of a short tile.
    pub fn expected(&self, tile: Tile) -> f64 {
        let (rows, heads) = self.of(tile);
        let (in_head, tiles) = (self.queries.div_ceil(rows).max(1), self.tiles(tile));
        let past = self.keys.saturating_sub(self.queries);
        // Of the tile that has `longer` tiles before it.
        let time = |longer: usize| {
            let (seen, around) = if self.causal {
                let last = in_head - (longer / heads).min(in_head - 1);
                (self.keys.min(past.saturating_add(last.saturating_mul(rows))), tile.around_causal)
            } else {
                (self.keys, tile.around)
            };
            around + tile.step * seen.div_ceil(tile.keys) as f64
        };
        let waves = tiles.div_ceil(MULTIPROCESSORS);
        let of_block = |before: usize| (before + 1) as f64 * time(before.saturating_mul(MULTIPROCESSORS));
        let last = (0..waves.min(WAVES)).chain([waves - 1]).map(of_block).fold(0.0, f64::max);
        let share = tiles as f64 / MULTIPROCESSORS as f64 * (time(0) + time(tiles - 1)) / 2.0;
        last.max(share)
    }
}

/// The tile, and the way to see a launch's work, of which the least time is expected: the first of equals.
pub(super) fn fastest(tiles: impl Iterator<Item = Tile>, works: [Option<Work>; 2]) -> Option<(Tile, Work)> {
    let all = tiles.flat_map(|tile| works.into_iter().flatten().map(move |work| (tile, work)));
    let timed = all.map(|(tile, work)| (work.expected(tile), tile, work));
    timed.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, tile, work)| (tile, work))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(d: usize, heads: usize, [queries, keys]: [usize; 2], causal: bool) -> usize {
        let work = Work { heads, of_tile: 1, queries, keys, ragged: false, causal };
        fastest(Tile::of(d, d).iter().copied(), [Some(work), None]).expect("a tile").0.rows
    }

    /// Tiles of 192 rows where they fill the device, of 128 where one of 192 would be waited for. The times of both were measured on an H200.
    #[test]
    fn the_device_is_filled() {
        assert_eq!(rows(64, 512, [1024; 2], false), 192, "342 us by 128 rows, 300 by 192");
        assert_eq!(rows(64, 512, [1024; 2], true), 128, "199 us by 128 rows, 224 by 192");
        assert_eq!(rows(64, 2, [13_000; 2], false), 128, "250 us by 128 rows, 281 by 192");
        assert_eq!(rows(64, 2, [30_000; 2], true), 192, "513 us by 128 rows, 430 by 192");
        assert_eq!(rows(128, 2, [17_689; 2], true), 128, "224 us by 128 rows, 288 by 192");
        assert_eq!(rows(128, 16, [1300; 2], false), 192, "36 us by 128 rows, 26 by 192");
        assert_eq!(rows(128, 16, [300, 6000], true), 128, "64 us by 128 rows, 88 by 192");
        assert_eq!(rows(128, 32, [8192; 2], false), 192, "1609 us by 128 rows, 1550 by 192");
    }

    /// Heads that share keys have their queries in one tile where that leaves fewer steps than the device would compute one after the other, and only there.
    #[test]
    fn heads_are_together_where_tiles_are_filled() {
        let fastest_of = |apart: Work, together: Work| {
            fastest(Tile::of(64, 64).iter().copied(), [Some(apart), Some(together)])
                .is_some_and(|(_, work)| work == together)
        };
        let merged = |heads: usize, group: usize, [queries, keys]: [usize; 2]| {
            let apart = Work { heads, of_tile: 1, queries, keys, ragged: false, causal: false };
            fastest_of(apart, apart.merged(group))
        };
        assert!(merged(1024, 4, [55, 8000]));
        assert!(merged(134, 67, [2, 8000]));
        assert!(!merged(64, 4, [55, 8000]), "64 blocks do not wait for each other");
        let causal = |heads: usize, of_tile: usize, [queries, keys]: [usize; 2]| {
            let apart = Work { heads, of_tile: 1, queries, keys, ragged: false, causal: true };
            fastest_of(apart, Work { of_tile, ..apart })
        };
        assert!(causal(1024, 4, [55, 8000]));
        assert!(causal(512, 2, [278, 2359]), "226 us apart");
        assert!(!causal(64, 4, [55, 8000]), "64 blocks do not wait for each other");
    }

    /// Sequences of 256, 255, 170 and 40 queries have more tiles than four of as many: of 192 rows, 48 queries of four heads, not two for each multiprocessor, but three.
    #[test]
    fn sequences_of_different_length_have_more_tiles() {
        let work = Work { heads: 256, of_tile: 4, queries: 181, keys: 4590, ragged: true, causal: true };
        let rows = |work: Work| fastest(Tile::of(128, 128).iter().copied(), [Some(work), None]).expect("a tile").0.rows;
        assert_eq!(work.tiles(Tile::of(128, 128)[1]), 274, "272 there are");
        assert_eq!((rows(work), rows(Work { ragged: false, ..work })), (128, 192), "220 us by 192 rows");
    }

    /// No shape is too large to be asked about, and none too small.
    #[test]
    fn extremes_have_a_tile() {
        for extent in [0, 1, 1 << 30, usize::MAX] {
            for causal in [false, true] {
                let work =
                    Work { heads: extent, of_tile: extent, queries: extent, keys: extent, ragged: causal, causal };
                for (tile, work) in Tile::of(128, 128).iter().flat_map(|tile| [(tile, work), (tile, work.merged(1))]) {
                    assert!(work.expected(*tile).is_finite(), "{work:?}");
                }
            }
        }
        assert!(Tile::of(72, 72).is_empty());
    }
}
