//! R8: what must not get slower, in seconds of processor time, with bounds that a slow machine keeps.

use crate::kernels::launch::{Launch, schedules};
use crate::kernels::problem::Problem;
use crate::kernels::source::library;
use crate::part::{Case, Outcome, Part};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use tile_ir::ir::Target;

/// The part.
pub struct Times;

/// A product of `extent`^3 by a rung of the GEMM ladder, on one simulator, in at most so many seconds on two cores.
const PRODUCTS: [(&str, i64, bool, f64); 3] =
    [("checked 256^3", 256, true, 1.0), ("checked 1024^3", 1024, true, 15.0), ("fast 1024^3", 1024, false, 3.0)];

/// The rung.
const RUNG: &str = "src/gemm_ladder/kernels.rs::mma";

/// Seconds of an expansion.
const EXPANSION: f64 = 0.1;

/// How much slower a machine may be than the one that the bounds are of.
const SLACK: f64 = 3.0;

impl Part for Times {
    fn name(&self) -> &'static str {
        "times"
    }

    fn about(&self) -> &'static str {
        "every kernel is checked while typing within 100 ms; a product of 256^3 on the checked simulator takes 1 s, one of \
         1024^3 15 s, 3 s on the fast one (processor time of two cores, times 3)"
    }

    fn size(&self) -> u64 {
        (PRODUCTS.len() + library().kernels.len()) as u64
    }

    /// Nothing: tests run unoptimised, beside others.
    fn sample(&self) -> u64 {
        0
    }

    fn is_parallel(&self) -> bool {
        false
    }

    fn run(&self, case: Case) -> Outcome {
        let number = case.number as usize;
        match PRODUCTS.get(number) {
            Some((name, extent, checked, seconds)) => {
                judge(name.to_string(), 2.0 * seconds, || product(*extent, *checked))
            }
            None => {
                let source = &library().kernels[number - PRODUCTS.len()];
                // What is read of the file is no part of it.
                judge("expansion".into(), EXPANSION, || {
                    library().check(source).map(drop).ok_or(format!("{} is no kernel", source.id))
                })
            }
        }
    }
}

/// The bound is of processor seconds.
fn judge(class: String, bound: f64, work: impl FnOnce() -> Result<(), String>) -> Outcome {
    let start = processor_seconds();
    if let Err(error) = work() {
        return Outcome::failed(class, error);
    }
    let took = processor_seconds() - start;
    match took <= bound * SLACK {
        true => Outcome::passed(class, "in time"),
        false => Outcome::failed(class, format!("{took:.2} s of processor time, where {bound} s were expected")),
    }
}

fn product(extent: i64, checked: bool) -> Result<(), String> {
    let source = library().kernel(RUNG).ok_or(format!("{RUNG} is gone"))?;
    let kernel = library().check(source).ok_or("not a kernel")?.kernel;
    let dims: BTreeMap<String, i64> = ["M", "N", "K"].map(|dim| (dim.to_owned(), extent)).into();
    let problem = Problem { dims, scalars: BTreeMap::new(), absent: BTreeSet::new(), data: 1, tables: BTreeMap::new() };
    let instance = kernel.instances.first().ok_or("no instance")?;
    let launch = Launch::new(&kernel, instance, Target::Sm80, &problem).map_err(|refusal| format!("{refusal:?}"))?;
    if !checked {
        return launch.fast(&problem).map(drop).map_err(|error| error.to_string());
    }
    let [_, options, _] = schedules(0, u64::MAX);
    let (report, _) = launch.checked(&problem, &options).map_err(|error| error.to_string())?;
    if report.is_clean() { Ok(()) } else { Err("the rung is flagged".into()) }
}

/// Of this process, all threads; from the system's own account, whose ticks are of 10 ms.
fn processor_seconds() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name, in parentheses, may have blanks; user and system time are the 12th and 13th field after it.
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}
