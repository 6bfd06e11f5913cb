//! The kernel of [`sample`](fn@super::sample). A row is read a few times, from a cache after the first: by `PARTS` blocks for its largest
//! logit, then, where its token is drawn at random, by one.

use super::argmax::{first_of_parts, greedy};
use super::random::{exponential, philox};
use super::select::{distance, ordered, threshold};
use crate::reduce::block_argmax;
use tile_runtime::prelude::*;

/// The token of a row of which `greedy` is the place of the largest logit: that one, or one drawn at random among those that are
/// kept; in the first thread. 1,024 threads; `t` is the thread. `greedy` is what the first thread has.
#[tile_fn(uses(distance, exponential, ordered, philox, threshold))]
pub fn drawn<T: Float, const VEC: usize>(
    logits: &Tensor<T, (S, V)>,
    seeds: &Tensor<u32, (S, Fixed<2>)>,
    row: usize,
    t: usize,
    greedy: u32,
    heat: f32,
    kept: u32,
    part: f32,
    position: u32,
    low: &mut SharedArray<u32, (BINS,)>,
    high: &mut SharedArray<u32, (BINS,)>,
    parts: &mut SharedArray<u32, (SUMS, WARPS)>,
) -> u32 {
    let per = max(VEC, 4); // elements of a thread that lie together: four have the words of one counter
    if t == 0 {
        parts[[2, 31]] = greedy;
    }
    sync_threads();
    let mut token = parts[[2, 31]];
    let mut largest = f32::NEG_INFINITY;
    if (token as usize) < V {
        largest = logits[[row, token as usize]].cast::<f32>();
    }
    if heat > 0.0 && largest > f32::NEG_INFINITY {
        let mut values = alloc_local::<T>([per]);
        let mut lower = 0x00800000u32; // the word of the least number above -inf
        if kept > 0 && (kept as usize) < V {
            lower =
                threshold::<T, VEC, false>(logits, row, t, lower, kept.cast::<f32>(), largest, heat, low, high, parts);
        }
        if part < 1.0 {
            lower = threshold::<T, VEC, true>(logits, row, t, lower, part, largest, heat, low, high, parts);
        }
        // The race: a survivor of weight w arrives after an exponentially distributed time of mean 1/w, and the first one wins
        // with the probability w over the sum of all. In logarithms, which is what is called Gumbel-max.
        let mut words = alloc_local::<u32>([4]);
        let mut fastest = f32::NEG_INFINITY;
        let mut winner = 0xffffffffu32;
        for step in 0..ceil_div(V, 1024 * per) {
            let first = (step * 1024 + t) * per;
            for p in unroll(0..per / VEC) {
                for v in vectorized(0..VEC) {
                    values[p * VEC + v] = logits.masked([row, first + p * VEC + v]);
                }
            }
            for four in unroll(0..per / 4) {
                let mut races = false;
                for i in unroll(0..4) {
                    let key = ordered(values[four * 4 + i].cast::<f32>());
                    races = races || first + four * 4 + i < V && key >= lower;
                }
                if races {
                    words[0] = (first / 4 + four) as u32;
                    words[1] = position;
                    words[2] = 0;
                    words[3] = 0;
                    philox(&mut words, seeds[[row, 0]], seeds[[row, 1]]);
                    for i in unroll(0..4) {
                        let at = first + four * 4 + i;
                        let x = values[four * 4 + i].cast::<f32>();
                        let key = ordered(x);
                        if at < V && key >= lower {
                            let score = distance(x, largest, heat) - log(exponential(words[i]));
                            if score > fastest || score == fastest && (at as u32) < winner {
                                fastest = score;
                                winner = at as u32;
                            }
                        }
                    }
                }
            }
        }
        let (_, chosen) = thread_argmax(fastest, winner, t);
        token = chosen;
    }
    token
}

/// The next token of each row, chosen at random among the logits that are kept, or the largest one. `PARTS` blocks look for the
/// largest logit of a row; where they are several, the last to be done does the rest.
#[tile_kernel(
    instances(VEC in [8, 4, 1], PARTS in [1, 4, 32], where VEC * T::BITS == 128 || VEC == 1, where PARTS != 4 || VEC > 1),
    require(V % VEC == 0),
    require(V <= 262144),
    require(PARTS == 1 || S <= 128),
    pdl(independent = []),
    uses(greedy, first_of_parts, drawn, block_argmax, distance, exponential, ordered, philox, threshold)
)]
pub fn sample_rows<T: Float, const VEC: usize, const PARTS: usize>(
    logits: &Tensor<T, (S, V)>,
    temperature: &Tensor<f32, (S,)>,
    top_k: &Tensor<u32, (S,)>,
    top_p: &Tensor<f32, (S,)>,
    seeds: &Tensor<u32, (S, Fixed<2>)>,
    positions: &Tensor<u32, (S,)>,
    tokens: &mut Tensor<u32, (S,)>,
    values: &mut Workspace<f32, (Fixed<128>, Fixed<32>)>,
    places: &mut Workspace<u32, (Fixed<128>, Fixed<32>)>,
    arrived: &mut Workspace<u32, (Fixed<128>,)>,
) {
    let [row, part] = blocks([S, PARTS]);
    let [t] = threads([1024]);
    let heat = temperature[row];
    let kept = top_k[row];
    let mass = top_p[row];
    let position = positions[row];
    let mut low = alloc_shared::<u32>([2048]);
    let mut high = alloc_shared::<u32>([2048]);
    let mut parts = alloc_shared::<u32>([3, 32]);
    let mut most = alloc_local::<f32>([1]);
    let place = greedy::<T, VEC, PARTS>(logits, row, part, t, &mut most);
    if PARTS == 1 {
        let token =
            drawn::<T, VEC>(logits, seeds, row, t, place, heat, kept, mass, position, &mut low, &mut high, &mut parts);
        if t == 0 {
            tokens[row] = token;
        }
    } else {
        if t == 0 {
            values[[row, part]] = most[0];
            places[[row, part]] = place;
        }
        if last_arriver(&mut arrived[row], PARTS) {
            let first = first_of_parts::<PARTS>(values, places, row, t);
            let token = drawn::<T, VEC>(
                logits, seeds, row, t, first, heat, kept, mass, position, &mut low, &mut high, &mut parts,
            );
            if t == 0 {
                tokens[row] = token;
            }
        }
    }
}
