//! The kernel of [`sample`](fn@super::sample): a block a row, which is read a few times, from a cache after the first.

use super::argmax::greedy;
use super::random::{exponential, philox};
use super::select::{distance, ordered, threshold};
use tile_runtime::prelude::*;

/// The next token of each row, chosen at random among the logits that are kept, or the largest one.
#[tile_kernel(
    instances(VEC in [8, 4, 1], where VEC * T::BITS == 128 || VEC == 1),
    require(V % VEC == 0),
    require(V <= 262144),
    pdl(independent = []),
    uses(greedy, distance, exponential, ordered, philox, threshold)
)]
pub fn sample_rows<T: Float, const VEC: usize>(
    logits: &Tensor<T, (S, V)>,
    temperature: &Tensor<f32, (S,)>,
    top_k: &Tensor<u32, (S,)>,
    top_p: &Tensor<f32, (S,)>,
    seeds: &Tensor<u32, (S, Fixed<2>)>,
    positions: &Tensor<u32, (S,)>,
    tokens: &mut Tensor<u32, (S,)>,
) {
    let per = max(VEC, 4); // elements of a thread that lie together: four have the words of one counter
    let [row] = blocks([S]);
    let [t] = threads([1024]);
    let heat = temperature[row];
    let kept = top_k[row];
    let part = top_p[row];
    let mut low = alloc_shared::<u32>([2048]);
    let mut high = alloc_shared::<u32>([2048]);
    let mut parts = alloc_shared::<u32>([3, 32]);
    let mut values = alloc_local::<T>([per]);

    let mut token = greedy::<T, VEC>(logits, row, t);
    let mut largest = f32::NEG_INFINITY;
    if (token as usize) < V {
        largest = logits[[row, token as usize]].cast::<f32>();
    }
    if heat > 0.0 && largest > f32::NEG_INFINITY {
        let mut lower = 0x00800000u32; // the word of the least number above -inf
        if kept > 0 && (kept as usize) < V {
            lower = threshold::<T, VEC, false>(
                logits,
                row,
                t,
                lower,
                kept.cast::<f32>(),
                largest,
                heat,
                &mut low,
                &mut high,
                &mut parts,
            );
        }
        if part < 1.0 {
            lower =
                threshold::<T, VEC, true>(logits, row, t, lower, part, largest, heat, &mut low, &mut high, &mut parts);
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
                    words[1] = positions[row];
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
    if t == 0 {
        tokens[row] = token;
    }
}
