//! The method.
//!
//! 1. A contender's result is checked before it is timed, and checked again as its graph computes it.
//! 2. Its time is that of a CUDA graph of one call a buffer set. The sets take 0.8 GB together, several times any L2 to
//!    date, so that no call finds its operands there; with a few hundred megabytes leftovers flatter by 2 to 3%.
//! 3. Every configuration is screened in a few short rounds; only the best of each group and what it takes by itself
//!    go on to the final.
//! 4. In a round everybody runs once, in a new random order: in a fixed order whoever follows a power-hungry neighbour
//!    looks slower, by up to 6%. The baseline takes part twice; how far the two are apart is the noise.
//! 5. A burst block takes some milliseconds after a short idle moment; a sustained one half a second, after which the
//!    clock has settled to what the power limit allows.

use crate::BenchError;
use crate::problem::{Contender, Problem};
use crate::report::{Entry, Row, Sustained};
use crate::sensors::Sensors;
use crate::statistics::Statistics;
use rand::seq::SliceRandom;
use rand::{SeedableRng, rngs::StdRng};
use std::time::Duration;
use tile_runtime::{Device, Error, Graph, Stream};

/// How thoroughly to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rounds of the final.
    pub rounds: usize,
    /// How long a block of replays takes, about.
    pub block: Duration,
    /// The pause before a block.
    pub idle: Duration,
    /// Rounds and block length of the screening.
    pub screening: (usize, Duration),
    /// How many of a group's configurations go on to the final.
    pub keep: usize,
    /// Rounds and block length of sustained runs of each group's best, where they are wanted.
    pub sustained: Option<(usize, Duration)>,
    /// Bytes that the buffer sets take together, at least.
    pub rotate: u64,
    /// Seed of the order.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            rounds: 15,
            block: Duration::from_millis(5),
            idle: Duration::from_millis(2),
            screening: (3, Duration::from_millis(1)),
            keep: 5,
            sustained: None,
            rotate: 800_000_000,
            seed: 0,
        }
    }
}

impl Options {
    /// With sustained runs: three half-second blocks of each group's best.
    #[must_use]
    pub fn with_sustained(mut self) -> Self {
        self.sustained = Some((3, Duration::from_millis(500)));
        self
    }

    /// How many sets of `bytes` a graph rotates over: at least two, at most 512.
    pub fn sets(&self, bytes: u64) -> usize {
        usize::try_from(self.rotate.div_ceil(bytes.max(1))).unwrap_or(512).clamp(2, 512)
    }
}

/// The order in which `entries` take their turns in each of `rounds`, the same for the same seed.
pub fn orders(rounds: usize, entries: usize, seed: u64) -> Vec<Vec<usize>> {
    let mut rng = StdRng::seed_from_u64(seed);
    let shuffled = |_| {
        let mut order: Vec<usize> = (0..entries).collect();
        order.shuffle(&mut rng);
        order
    };
    (0..rounds).map(shuffled).collect()
}

/// A contender that computes the right result.
struct Admitted {
    group: String,
    name: String,
    chosen: bool,
    error: f64,
    graph: Graph,
    /// The fastest round of the screening, in microseconds a call.
    screened: f64,
}

/// Measures every contender on a problem. On a simulator the times are the host's and say nothing about a GPU.
///
/// # Errors
/// The buffers do not fit; nobody computes the right result; the device fails. A contender that is wrong or refuses to
/// launch is no error: the row says so.
pub fn race<P: Problem>(
    device: &Device,
    problem: &P,
    contenders: Vec<Contender<'_, P::Buffers>>,
    options: &Options,
) -> Result<Row, BenchError> {
    let mut sets = allocate(device, problem, options)?;
    let runner = Runner { stream: device.stream()?, calls: sets.len(), idle: options.idle };
    let (mut admitted, mut refused) = (Vec::new(), Vec::new());
    for contender in contenders {
        let name = format!("{} {}", contender.group, contender.name);
        match admit(device, &runner.stream, problem, &mut sets, contender) {
            Ok(entry) => admitted.push(entry),
            Err(reason) => {
                // A device that has failed answers nothing any more: the end, not one contender's row.
                device.synchronize()?;
                refused.push((name, reason));
            }
        }
    }
    if admitted.is_empty() {
        let reasons = refused.iter().map(|(name, reason)| format!("{name}: {reason}")).collect::<Vec<_>>().join("; ");
        return Err(BenchError::Nobody { problem: problem.title().to_string(), reasons });
    }

    let (rounds, block) = options.screening;
    let graphs: Vec<&Graph> = admitted.iter().map(|e| &e.graph).collect();
    let screened = runner.rounds(&graphs, rounds.max(1), block, options.seed ^ 1)?;
    for (entry, times) in admitted.iter_mut().zip(screened) {
        entry.screened = times.fastest;
    }
    let finalists = finalists(admitted, options.keep);
    let others = finalists.iter().position(|e| e.group != OURS);
    let baseline = others.unwrap_or(0);

    // The baseline's second entry comes last.
    let graphs: Vec<&Graph> = finalists.iter().chain([&finalists[baseline]]).map(|e| &e.graph).collect();
    let mut burst = runner.rounds(&graphs, options.rounds.max(1), options.block, options.seed)?;
    let baseline_again = burst.pop().unwrap_or(Statistics { median: f64::NAN, fastest: f64::NAN, slowest: f64::NAN });
    let sustained = sustained(&runner, &finalists, options)?;

    let title = |e: &Admitted| format!("{} {}", e.group, e.name);
    let baseline = title(&finalists[baseline]);
    let rows = finalists.into_iter().zip(burst).zip(sustained);
    let mut entries: Vec<Entry> = rows
        .map(|((e, burst_us), sustained)| {
            let Admitted { group, name, chosen, error, .. } = e;
            Entry { group, name, chosen, error, burst_us, sustained }
        })
        .collect();
    entries.sort_by(|a, b| a.burst_us.median.total_cmp(&b.burst_us.median));
    Ok(Row {
        title: problem.title(),
        bytes: problem.bytes(),
        flops: problem.flops(),
        sets: sets.len(),
        rounds: options.rounds.max(1),
        entries,
        baseline,
        baseline_again,
        refused,
    })
}

/// The group that is compared with all others.
pub const OURS: &str = "ours";

fn allocate<P: Problem>(device: &Device, problem: &P, options: &Options) -> Result<Vec<P::Buffers>, BenchError> {
    let (bytes, sets) = (problem.bytes(), options.sets(problem.bytes()));
    if let Some((free, _)) = device.memory()?
        && (sets as u64).saturating_mul(bytes) > free
    {
        return Err(BenchError::Memory { sets, bytes, free });
    }
    Ok((0..sets).map(|_| problem.buffers(device)).collect::<Result<_, Error>>()?)
}

/// Runs a contender on the first and the last set, checks both, captures it over all sets and checks a replay; or says
/// why it takes no part.
fn admit<P: Problem>(
    device: &Device,
    stream: &Stream,
    problem: &P,
    sets: &mut [P::Buffers],
    contender: Contender<'_, P::Buffers>,
) -> Result<Admitted, String> {
    let Contender { group, name, chosen, mut call } = contender;
    let text = |e: Error| e.to_string();
    let ends = [0, sets.len() - 1];
    let check = |sets: &[P::Buffers], what: &str| -> Result<f64, String> {
        device.synchronize().map_err(text)?;
        let mut worst = 0.0f64;
        for end in ends {
            let error = problem.error(&sets[end]).map_err(text)?;
            if error.is_nan() || error > 1.0 {
                return Err(format!("wrong: {what} is {error:.3} times its error bound away from f64"));
            }
            worst = worst.max(error);
        }
        Ok(worst)
    };
    for end in ends {
        problem.poison(&mut sets[end]).map_err(text)?;
        // The first launch compiles and loads, which a capture must not.
        call(stream, &mut sets[end]).map_err(|e| e.to_string())?;
    }
    let first = check(sets, "its result")?;
    for end in ends {
        problem.poison(&mut sets[end]).map_err(text)?;
    }
    let mut captured = |stream: &Stream, set: &mut P::Buffers| {
        call(stream, set).map_err(|e| match e {
            BenchError::Runtime(error) => error,
            other => Error::Capture { device: device.label().into(), problem: other.to_string() },
        })
    };
    let graph = device.capture(|on| sets.iter_mut().try_for_each(|set| captured(on, set))).map_err(text)?;
    device.synchronize().map_err(text)?;
    graph.launch_on(stream).map_err(text)?;
    let replayed = check(sets, "what its graph computes")?;
    Ok(Admitted { group, name, chosen, error: first.max(replayed), graph, screened: f64::NAN })
}

/// The `keep` fastest of each group and what each takes by itself, fastest first.
fn finalists(mut admitted: Vec<Admitted>, keep: usize) -> Vec<Admitted> {
    admitted.sort_by(|a, b| a.screened.total_cmp(&b.screened));
    let mut seen: Vec<(String, usize)> = Vec::new();
    admitted.retain(|entry| {
        let index = seen.iter().position(|(group, _)| *group == entry.group).unwrap_or_else(|| {
            seen.push((entry.group.clone(), 0));
            seen.len() - 1
        });
        seen[index].1 += 1;
        seen[index].1 <= keep.max(1) || entry.chosen
    });
    admitted
}

/// Long blocks of the best of each group and of what each takes by itself, where they are asked for.
fn sustained(runner: &Runner, finalists: &[Admitted], options: &Options) -> Result<Vec<Option<Sustained>>, BenchError> {
    let mut found = vec![None; finalists.len()];
    let Some((rounds, block)) = options.sustained else { return Ok(found) };
    let is_first = |i: usize| finalists[..i].iter().all(|e| e.group != finalists[i].group);
    let entered: Vec<usize> = (0..finalists.len()).filter(|&i| finalists[i].chosen || is_first(i)).collect();
    let sensors = Sensors::open(0);
    let mut times = vec![Vec::new(); entered.len()];
    let mut readings = vec![Default::default(); entered.len()];
    for order in orders(rounds.max(1), entered.len(), options.seed ^ 2) {
        for place in order {
            let graph = &finalists[entered[place]].graph;
            let replays = runner.replays(graph, block)?;
            let reading = &mut readings[place];
            times[place].push(runner.block(graph, replays, || {
                // Near the end of the block: the launches are queued, and afterwards the GPU is idle.
                std::thread::sleep(block.mul_f64(0.8));
                *reading = sensors.read();
            })?);
        }
    }
    for (place, &entry) in entered.iter().enumerate() {
        found[entry] = Statistics::of(&times[place]).map(|us| Sustained { us, reading: readings[place] });
    }
    Ok(found)
}

/// Replays graphs and takes the time.
struct Runner {
    stream: Stream,
    /// Calls in a graph.
    calls: usize,
    idle: Duration,
}

impl Runner {
    /// Each graph's times over `rounds` in random order.
    fn rounds(
        &self,
        graphs: &[&Graph],
        rounds: usize,
        block: Duration,
        seed: u64,
    ) -> Result<Vec<Statistics>, BenchError> {
        let replays: Vec<usize> = graphs.iter().map(|graph| self.replays(graph, block)).collect::<Result<_, _>>()?;
        let mut times = vec![Vec::new(); graphs.len()];
        for order in orders(rounds, graphs.len(), seed) {
            for entry in order {
                std::thread::sleep(self.idle);
                times[entry].push(self.block(graphs[entry], replays[entry], || {})?);
            }
        }
        let nothing = Statistics { median: f64::NAN, fastest: f64::NAN, slowest: f64::NAN };
        Ok(times.iter().map(|times| Statistics::of(times).unwrap_or(nothing)).collect())
    }

    /// Microseconds a call over some replays; `meanwhile` runs while they do.
    fn block(&self, graph: &Graph, replays: usize, meanwhile: impl FnOnce()) -> Result<f64, BenchError> {
        let start = self.stream.record()?;
        for _ in 0..replays {
            graph.launch_on(&self.stream)?;
        }
        let end = self.stream.record()?;
        meanwhile();
        Ok(end.since(&start)?.as_secs_f64() * 1e6 / (replays * self.calls) as f64)
    }

    /// How many replays take about this long: at least one.
    fn replays(&self, graph: &Graph, block: Duration) -> Result<usize, BenchError> {
        let one = self.block(graph, 1, || {})? * self.calls as f64;
        Ok(((block.as_secs_f64() * 1e6 / one.max(0.1)).round() as usize).clamp(1, 100_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Title;
    use tile_runtime::prelude::*;

    /// `y = x` by copying, which runs anywhere.
    struct Copying {
        values: Vec<f32>,
    }

    impl Problem for Copying {
        type Buffers = (Tensor<f32, 1>, Tensor<f32, 1>);

        fn title(&self) -> Title {
            let shape = vec![("n".to_string(), self.values.len() as u64)];
            Title { op: "copy".into(), dtype: "f32".into(), shape }
        }
        fn bytes(&self) -> u64 {
            8 * self.values.len() as u64
        }
        fn flops(&self) -> u64 {
            0
        }
        fn buffers(&self, device: &Device) -> Result<Self::Buffers, Error> {
            let n = self.values.len();
            Ok((device.tensor(&self.values, [n])?, device.zeros([n])?))
        }
        fn poison(&self, (_, y): &mut Self::Buffers) -> Result<(), Error> {
            y.write(&vec![f32::NAN; self.values.len()])
        }
        fn error(&self, (_, y): &Self::Buffers) -> Result<f64, Error> {
            let distances = y.to_vec()?.into_iter().zip(&self.values).map(|(y, x)| f64::from((y - x).abs()));
            Ok(distances.fold(0.0, |worst, d| if d.is_nan() || d > worst { d } else { worst }))
        }
    }

    #[tile_kernel(instances(BLOCK = 64))]
    fn copy_kernel<const BLOCK: usize>(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, factor: f32) {
        let [block] = blocks([ceil_div(N, BLOCK)]);
        let [thread] = threads([BLOCK]);
        let i = block * BLOCK + thread;
        if i < N {
            y[i] = factor * x[i];
        }
    }

    type Buffers = <Copying as Problem>::Buffers;

    fn times<'a>(group: &str, name: &str, factor: f32) -> Contender<'a, Buffers> {
        Contender::new(group, name, move |stream, (x, y): &mut Buffers| {
            Ok(copy_kernel::<64>::launch(stream, &*x, y, factor)?)
        })
    }

    fn quick() -> Options {
        let zero = Duration::ZERO;
        Options {
            rounds: 3,
            block: zero,
            idle: zero,
            screening: (1, zero),
            rotate: 4096,
            keep: 1,
            ..Options::default()
        }
    }

    #[test]
    fn the_wrong_are_refused_and_the_baseline_runs_twice() {
        let device = Device::simulator();
        let problem = Copying { values: (0..100).map(|i| 10.0 + i as f32).collect() };
        let contenders = vec![
            times("ours", "a", 1.0).chosen(),
            times("ours", "b", 1.0).chosen(),
            times("ours", "doubled", 2.0),
            Contender::new("lazy", "nothing", |_, _| Ok(())),
            times("theirs", "c", 1.0),
        ];
        let options = Options { sustained: Some((1, Duration::ZERO)), ..quick() };
        let row = race(&device, &problem, contenders, &options).unwrap();
        assert_eq!((row.sets, row.rounds), (6, 3), "4096 bytes in sets of 800");
        let mut names: Vec<String> = row.entries.iter().map(Entry::full_name).collect();
        names.sort();
        assert_eq!(names, ["ours a", "ours b", "theirs c"], "both defaults are in the final although one is kept");
        assert_eq!(row.baseline, "theirs c");
        assert!(row.baseline_again.median > 0.0 && row.spread().is_some());
        assert!(row.entries.iter().all(|e| e.burst_us.median > 0.0 && e.error == 0.0 && e.sustained.is_some()));
        let refused: Vec<&str> = row.refused.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(refused, ["ours doubled", "lazy nothing"]);
        assert!(row.refused.iter().all(|(_, reason)| reason.starts_with("wrong: its result")), "{:?}", row.refused);
    }

    #[test]
    fn a_graph_that_computes_nothing_is_refused() {
        let device = Device::simulator();
        let problem = Copying { values: vec![1.0; 8] };
        let mut calls = 0;
        let cheat = Contender::new("cheat", "first only", |stream: &Stream, (x, y): &mut Buffers| {
            calls += 1;
            if calls <= 2 { Ok(copy_kernel::<64>::launch(stream, &*x, y, 1.0)?) } else { Ok(()) }
        });
        let error = race(&device, &problem, vec![cheat], &quick()).unwrap_err().to_string();
        assert!(error.contains("what its graph computes"), "{error}");
    }

    #[test]
    fn the_order_is_random_complete_and_repeatable() {
        let orders = orders(20, 6, 1);
        assert_eq!(orders, super::orders(20, 6, 1));
        assert_ne!(orders, super::orders(20, 6, 2));
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4, 5], "everybody runs once a round");
        }
        assert!(orders.windows(2).any(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn rotation_takes_enough_memory() {
        let options = Options::default();
        for bytes in [1, 2 << 20, 235_000_000, 799_999_999, 800_000_000, 3 << 30] {
            let sets = options.sets(bytes);
            assert!((2..=512).contains(&sets));
            assert!(sets == 512 || sets as u64 * bytes >= 800_000_000, "{sets} sets of {bytes}");
            assert!(sets == 2 || (sets as u64 - 1) * bytes < 800_000_000, "{sets} sets of {bytes}");
        }
    }

    #[test]
    fn the_final_keeps_the_best_of_each_group() {
        let device = Device::simulator();
        let entry = |group: &str, name: &str, screened: f64, chosen: bool| {
            let graph = device.capture(|_| Ok(())).unwrap();
            Admitted { group: group.into(), name: name.into(), chosen, error: 0.0, graph, screened }
        };
        let all = vec![
            entry("a", "slow default", 9.0, true),
            entry("a", "third", 3.0, false),
            entry("b", "only", 5.0, false),
            entry("a", "first", 1.0, false),
            entry("a", "second", 2.0, false),
        ];
        let names: Vec<String> = finalists(all, 2).into_iter().map(|e| e.name).collect();
        assert_eq!(names, ["first", "second", "only", "slow default"]);
    }
}
