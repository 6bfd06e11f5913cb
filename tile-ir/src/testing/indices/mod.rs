//! The oracle of index arithmetic: random kernels, and what they compute three times.
//!
//! A case is a kernel drawn from a seed: nested index expressions over dims, scalars, threads, blocks, loops with steps,
//! assigned variables and data of `u32`, `i32` (and what arithmetic that wraps makes of them) and `f32`, which index tensors,
//! guard accesses and are stored. It is evaluated
//!
//! 1. exactly: the bound kernel, in integers of 128 bits (`exact`);
//! 2. as the emitted program is: the lowered program, with `int` where it says `int` and `long long` where it says
//!    that. A wrap is a failure even where the result is right, and so is a conversion that changes an index, an access
//!    outside a tensor, a step below 1, and a shift by more than 31 (`device`);
//! 3. by the analysis: what is proven in bounds, or not negative, must be so wherever it is evaluated.
//!
//! Both evaluations must make the same accesses, in the same order, and store the same values. Threads and blocks are
//! drawn, the first and the last among them. Launches are drawn too, up to the limits of 32 bits, and only those run whose
//! checks hold.

mod build;
mod device;
mod exact;
#[cfg(test)]
mod found;
mod generate;
mod launch;

use crate::analysis::{Analysis, Bound, analyse};
use crate::ir::{Instance, Kernel, Target};
use crate::lower::{bind, lower_bound};
use crate::lowered::Program;
use launch::Launch;

/// What became of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Refused while typing, with this code.
    Typing(u16),
    /// No launch was drawn that passes the checks of the launch.
    Refused,
    /// It ran in 32 bits.
    Narrow,
    /// It ran, some of it in 64 bits.
    Wide,
}

impl Class {
    /// Its name.
    pub fn name(self) -> String {
        match self {
            Class::Typing(code) => format!("typing TK{code:04}"),
            Class::Refused => "refused at the launch".to_owned(),
            Class::Narrow => "32 bits".to_owned(),
            Class::Wide => "64 bits".to_owned(),
        }
    }
}

/// A case that the compiler gets wrong.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What is wrong, the launch, the kernel and the lowered program.
    pub message: String,
}

/// One access or stored value, as both evaluations see it.
#[derive(Clone, Debug, PartialEq)]
enum Event {
    /// An element of a parameter is read.
    Load(u32, i128),
    /// One is written, with the bits of the value.
    Store(u32, i128, u32),
}

/// Launches drawn a kernel, and points a launch.
const LAUNCHES: u32 = 6;
const POINTS: u32 = 4;

/// Runs the case of a seed.
///
/// # Errors
/// A wrong kernel, with everything that shows it.
pub fn case(seed: u64) -> Result<Class, Failure> {
    let mut random = Random(seed);
    let kernel = generate::kernel(&mut random);
    let bound = match bind(&kernel, &Instance::default()) {
        Ok(bound) => bound,
        Err(diagnostics) => return Ok(Class::Typing(diagnostics.first().map_or(0, |d| d.code.0))),
    };
    let analysis = analyse(&bound, Target::Sm90a);
    if let Some(first) = analysis.diagnostics.first() {
        return Ok(Class::Typing(first.code.0));
    }
    let program = match lower_bound(&bound, Target::Sm90a) {
        Ok(program) => program,
        Err(diagnostics) => return Ok(Class::Typing(diagnostics.first().map_or(0, |d| d.code.0))),
    };
    let mut class = Class::Refused;
    for _ in 0..LAUNCHES {
        let launch = Launch::draw(&bound, &mut random);
        let holds = |check: &crate::lowered::Check| matches!(check.holds.evaluate(&launch), Some(n) if n != 0);
        if !program.launch.checks.iter().all(holds) {
            continue;
        }
        for _ in 0..POINTS {
            let Some(point) = launch.point(&bound, &mut random) else { break };
            if let Err(text) = compare(&bound, &analysis, &program, &launch, point) {
                return Err(failure(seed, &text, &bound, &program, &launch, point));
            }
        }
        let wide = !analysis.wide.is_empty() || !analysis.wide_vars.is_empty();
        class = if wide { Class::Wide } else { Class::Narrow };
    }
    Ok(class)
}

/// A thread of a launch: its block and itself.
type Point = (i64, i64);

fn compare(
    kernel: &Kernel,
    analysis: &Analysis,
    program: &Program,
    launch: &Launch,
    point: Point,
) -> Result<(), String> {
    let exact = exact::run(kernel, launch, point)?;
    if exact.cut {
        return Ok(());
    }
    for (access, axis, index, extent) in &exact.indices {
        let proven = analysis.bounds.get(access).and_then(|axes| axes.get(*axis));
        let inside = (0..*extent).contains(index);
        if proven == Some(&Bound::Proven) && !inside {
            return Err(format!("{access} axis {axis} is proven in bounds, and is {index} of {extent}"));
        }
        if analysis.axis_nonnegative(*access, *axis) && *index < 0 {
            return Err(format!("{access} axis {axis} is proven not negative, and is {index}"));
        }
    }
    let device = device::run(program, launch, point)?;
    if exact.events != device {
        let at = exact.events.iter().zip(&device).take_while(|(a, b)| a == b).count();
        let [a, b] = [exact.events.get(at), device.get(at)];
        return Err(format!("access {at} is {a:?} exactly and {b:?} on the device"));
    }
    Ok(())
}

fn failure(seed: u64, text: &str, kernel: &Kernel, program: &Program, launch: &Launch, point: Point) -> Failure {
    let message = format!(
        "seed {seed}: {text}\nblock {}, thread {}; {launch:?}\n{}\n{}",
        point.0,
        point.1,
        kernel,
        crate::emit::cuda::emit(program)
    );
    Failure { message }
}

/// Numbers from a seed (SplitMix64).
pub(super) struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Less than `n`.
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    /// One of these.
    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// Once in `n` times.
    fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The bits that an element of a parameter holds, whatever is stored there: numbers at the edges of what types hold.
fn datum(parameter: u32, index: i128, dtype: crate::ir::Dtype) -> u32 {
    let drawn = mix((index as u64).wrapping_mul(31).wrapping_add(u64::from(parameter) << 40));
    let edges =
        [0, 1, 2, 7, 31, 32, 63, 1000, 0x7fff_ffff, 0x7fff_fffe, 0x8000_0000, 0xffff_ffff, 0xffff_fff0, 1 << 30];
    let integer = if drawn & 1 == 0 { edges[(drawn >> 8) as usize % edges.len()] } else { (drawn >> 20) as u32 & 0xff };
    use crate::ir::{DtypeClass, FloatFormat};
    match dtype.class() {
        DtypeClass::Float(FloatFormat::Binary32) => {
            let edges =
                [0.0, 1.5, -1.0, 31.9, 3e9, 1e12, 1e19, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 2147483648.0];
            edges[(drawn >> 8) as usize % edges.len()].to_bits()
        }
        // Any bits will do: no generated program computes with these floats.
        DtypeClass::Float(FloatFormat::Binary16 | FloatFormat::Bfloat16) | DtypeClass::Bool | DtypeClass::Int(_) => {
            integer
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Writes the CUDA C of the first cases into the folder `INDICES_CUDA`, for NVRTC.
    #[test]
    #[ignore = "writes files"]
    fn emitted() {
        let folder = std::path::PathBuf::from(std::env::var("INDICES_CUDA").expect("INDICES_CUDA is a folder"));
        for seed in 0..400 {
            let Ok(bound) = bind(&generate::kernel(&mut Random(seed)), &Instance::default()) else { continue };
            if let Ok(program) = lower_bound(&bound, Target::Sm90a) {
                std::fs::write(folder.join(format!("{seed}.cu")), crate::emit::cuda::emit(&program)).expect("written");
            }
        }
    }

    /// What is drawn shares expressions, which are read once for each place where they stand; so the launch's checks come in another
    /// order. What is read of a text shares none.
    #[test]
    fn texts_read_back() {
        for seed in 0..400 {
            let text = generate::kernel(&mut Random(seed)).to_string();
            let read = crate::testing::parsed(&text);
            assert_eq!(read.to_string(), text, "{seed}");
            if let Err(difference) = crate::testing::text::round_trip(&read, &[Instance::default()]) {
                panic!("{seed}: {difference}");
            }
        }
    }

    /// The sample of `cargo test`; the soak runs a million.
    #[test]
    fn what_is_computed_is_what_is_meant() {
        let mut classes: BTreeMap<Class, u32> = BTreeMap::new();
        for seed in 0..4_000 {
            match case(seed) {
                Ok(class) => *classes.entry(class).or_default() += 1,
                Err(failure) => panic!("{}", failure.message),
            }
        }
        // The test is about something.
        let count = |class| classes.get(&class).copied().unwrap_or(0);
        assert!(count(Class::Narrow) > 400 && count(Class::Wide) > 400, "{classes:?}");
        assert!(count(Class::Refused) < 1_500 && count(Class::Typing(305)) > 20, "{classes:?}");
    }
}
