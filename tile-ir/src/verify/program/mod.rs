//! What holds in every lowered program. A program that breaks one of these rules is a mistake of the compiler: it is refused before
//! CUDA C is printed, with the author's line, instead of being a kernel that hangs or reads the wrong stage.
//!
//! The structure is read off the program:
//!
//! - every id points into its table; values are made of earlier ones; every tensor, parameter and axis exists
//! - registers and per-thread arrays are declared in a list of operations around where they are used; registers are declared once in a
//!   list, and assigned only where they may be
//! - conditions are `bool`, offsets, coordinates, counts and parities indices; what is stored or assigned has the type of where it goes
//! - vectors, asynchronous copies, boxes, products, named barriers and register counts are such as the hardware has; constant parts
//!   of arrays are inside them; shared arrays and mbarriers are aligned and inside the block's shared memory
//! - every mbarrier is initialised, and a fence makes that visible to TMA
//! - a tensor map is used for what it is made for: loads or stores; what TMA adds to a tensor is f32, as the tensor is
//! - on every path, a product's registers have a fence between the thread's own accesses to them and the product
//! - where a wait for the previous kernel divides a program, loads of every tensor are ordered with it
//!
//! The protocol is executed: the slice of the program that decides what it synchronises runs on the checked simulator, in small launches
//! that satisfy every check:
//!
//! - bytes expected at an mbarrier are the bytes that its loads bring; arrivals are as many as were declared; each parity is waited
//!   for once a phase; a phase completes only after an arrival that everyone comes before who waits for the phase before; somebody can always
//!   go on
//! - a stage is written only after its release, and read only after a wait for the phase that fills it
//! - accumulators and operands in registers are touched only after a wait for their products; products have their commit and
//!   their wait; what threads wrote has a proxy fence before TMA or tensor cores read it
//! - asynchronous copies and bulk groups are committed and waited for before what they bring is used, and before the block ends
//! - every thread waits for the previous kernel before it touches what that kernel writes

mod fences;
mod launches;
mod skeleton;
mod structure;

pub use crate::diag::Bug;
use crate::diag::{Code, Diagnostic};
use crate::ir::SpanId;
use crate::lowered::Program;
use crate::sim::checked::{CheckedOptions, Copies, Schedule, run};
#[cfg(not(any(test, feature = "testing")))]
use launches::Contents;
#[cfg(any(test, feature = "testing"))]
pub use launches::{Contents, Shape, small_launch};
use launches::{Wanted, arguments, barriers, extents};
use skeleton::skeleton;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What was found out about a program that breaks no rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Whether it synchronises anything, so that there is something to execute.
    pub synchronises: bool,
    /// Launches whose synchronisation was executed, each with its extents and what was left out of account of it.
    pub launches: Vec<String>,
    /// Phases of mbarriers that these completed.
    pub phases: u64,
    /// Instructions of warps that these executed.
    pub steps: u64,
}

/// How much is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// One launch, and findings that no kernel's author can have caused: before every compilation.
    Compilation,
    /// Several launches and orders, and data races of threads too, of which the kernel's author may be the cause.
    Test,
}

/// How long a launch before a compilation may take: NVRTC takes ten times as long.
const MOST_TIME: Duration = Duration::from_millis(100);

impl Effort {
    /// Most instructions of warps in one launch: what was executed of a longer one is all that is known of it.
    fn most_steps(self) -> u64 {
        match self {
            Effort::Compilation => 20_000,
            Effort::Test => 1_500_000,
        }
    }
}

/// Checks every rule.
///
/// # Errors
/// The first broken rule.
pub fn program(program: &Program, effort: Effort) -> Result<Verified, Bug> {
    structure::check(program)?;
    protocol(program, effort)
}

/// Checks the rules that can be read off a program.
///
/// # Errors
/// The first broken rule.
pub fn structure(program: &Program) -> Result<(), Bug> {
    structure::check(program)
}

/// Checks what can be read off a program between passes: all of [`structure`] but shared memory's places and the waits for the previous
/// kernel.
///
/// # Errors
/// The first broken rule.
pub(crate) fn unfinished(program: &Program) -> Result<(), Bug> {
    structure::unfinished(program)
}

/// Executes what a program synchronises.
fn protocol(program: &Program, effort: Effort) -> Result<Verified, Bug> {
    let skeleton = skeleton(program);
    let synchronises = skeleton.synchronises();
    let mut verified = Verified { synchronises, launches: Vec::new(), phases: 0, steps: 0 };
    if !synchronises {
        return Ok(verified);
    }
    let contents: &[Contents] = match (skeleton.reads_tensors, effort) {
        (false, _) => &[Contents::Same(0)],
        // What is counted or looked up: nothing, enough to go around, and where sequences of some length begin.
        (true, Effort::Compilation) => &[Contents::Same(300)],
        (true, Effort::Test) => {
            // And sequences so long that each of many blocks that share one goes around its stages.
            &[
                Contents::Same(0),
                Contents::Same(300),
                Contents::Ascending(600),
                Contents::Random(1),
                Contents::Tables(9000),
            ]
        }
    };
    let orders: &[(Schedule, Copies)] = match effort {
        Effort::Compilation => &[(Schedule::InOrder, Copies::Late)],
        Effort::Test => &[(Schedule::InOrder, Copies::Late), (Schedule::Seeded { resident_blocks: 2 }, Copies::Seeded)],
    };
    // Longer until every stage has been filled again; shorter where one that long does not come to its end.
    // In a build that is not optimised, less is executed.
    let deadline = (effort == Effort::Compilation).then(|| Instant::now() + MOST_TIME);
    let clusters = if effort == Effort::Test { 2 } else { 1 };
    let mut lengths = match effort {
        Effort::Compilation => VecDeque::from([512]),
        Effort::Test => VecDeque::from([512, 2048, 8192]),
    };
    let mut was_stopped = false;
    // Once more with tiles that leave their tensors, and an odd number of them: 264 is in 3 tiles of 128, 5 of 64, 9 of 32. And a ring once where
    // its loops have hardly a step.
    let mut others = match effort {
        Effort::Compilation => VecDeque::new(),
        Effort::Test if barriers(program) == 0 => VecDeque::from([(264, true)]),
        Effort::Test => VecDeque::from([(264, true), (64, false)]),
    };
    let (mut is_ragged, mut square) = (false, false);
    loop {
        let steps = match lengths.pop_front() {
            Some(steps) => steps,
            None => {
                let Some((steps, ragged)) = others.pop_front() else { break };
                (is_ragged, square) = (ragged, true);
                steps
            }
        };
        let wanted = Wanted { clusters, steps, ragged: is_ragged, is_filled: skeleton.reads_tensors, square };
        let Some(extents) = extents(program, wanted) else { continue };
        // Phases of each mbarrier, in the launch that completed fewest.
        let mut rounds = u64::MAX;
        for (contents, (schedule, copies)) in contents.iter().flat_map(|c| orders.iter().map(move |o| (*c, *o))) {
            let Some(arguments) = arguments(program, &extents, contents) else { continue };
            let options = CheckedOptions {
                schedule,
                copies,
                clusters,
                step_limit: effort.most_steps(),
                whole_outputs: false,
                products: skeleton.needs_products,
                most_clusters: Some(clusters),
                deadline,
                ..CheckedOptions::default()
            };
            let report = run(&skeleton.program, &arguments, &options)
                .map_err(|error| Bug::new(first_span(program), error.to_string()))?;
            verified.phases += report.counters.phases;
            rounds = rounds.min(report.counters.phases / (barriers(program) * report.counters.blocks).max(1));
            verified.steps += report.counters.steps;
            // A launch whose tables were made up may leave its tensors: what follows from that is not looked at.
            let outside = report.diagnostics.iter().find(|d| skeleton.reads_tensors && leaves_a_tensor(program, d));
            let astray = outside.map_or(String::new(), |d| format!(", astray: {}", d.message));
            was_stopped |= report.stopped.is_some();
            let stopped = if report.stopped.is_some() { ", stopped" } else { "" };
            let steps = report.counters.steps;
            verified.launches.push(format!("{}: {contents:?}, {steps} steps{stopped}{astray}", extents.text(program)));
            let found = report.diagnostics.iter().find(|d| is_broken(program, d, effort, report.stopped.is_some()));
            if let Some(found) = found.filter(|_| outside.is_none()) {
                return Err(bug(found));
            }
        }
        if std::mem::take(&mut was_stopped) && effort == Effort::Test {
            lengths = if steps > 32 { VecDeque::from([steps / 4]) } else { VecDeque::new() };
        } else if rounds >= 3 || barriers(program) == 0 {
            lengths.clear();
        }
    }
    Ok(verified)
}

/// Whether an access leaves a tensor: what a launch on made up tables may be the cause of.
fn leaves_a_tensor(program: &Program, found: &Diagnostic) -> bool {
    let is_outside = matches!(found.code, Code::OUT_OF_BOUNDS | Code::GUARD_FIRED | Code::INDEX_OVERFLOW);
    is_outside && program.tensors.iter().any(|tensor| names(found, &tensor.name))
}

fn names(found: &Diagnostic, name: &str) -> bool {
    found.message.contains(&format!("`{name}`")) || found.at.contains(&format!("`{name}`"))
}

/// Whether it is said of an mbarrier of an array of this name, or of the array.
fn names_barrier(found: &Diagnostic, name: &str) -> bool {
    names(found, name) || found.message.starts_with(&format!("barrier `{name}["))
}

/// Whether what an execution found is a broken rule.
fn is_broken(program: &Program, found: &Diagnostic, effort: Effort, was_stopped: bool) -> bool {
    let certain = [Code::IN_FLIGHT, Code::REGISTER_BUDGET, Code::OUTSIDE_THE_GRID];
    // No author's index is that of an mbarrier, and no author's operation uses one.
    let is_of_mbarrier = || program.barriers.values().any(|array| names_barrier(found, &array.name));
    // No author writes a proxy fence, a TMA copy, a product's descriptor, or an arrival in another block. Shuffles are an author's, and so are
    // coordinates that a tensor's numbers are.
    let is_of_copies = || found.message.ends_with("with no proxy fence");
    let is_refused =
        || found.message.starts_with("the hardware refuses this: ") && !found.message.contains("coordinate");
    match found.code {
        // Where it was stopped, nobody waited for anybody.
        Code::DEADLOCK => !was_stopped,
        Code::DIVERGENT_BARRIER | Code::OUT_OF_BOUNDS => effort == Effort::Test || is_of_mbarrier(),
        Code::RACE => effort == Effort::Test || is_of_copies(),
        Code::ILLEGAL_OPERATION => effort == Effort::Test || is_refused(),
        Code::GLOBAL_RACE => effort == Effort::Test,
        code => certain.contains(&code),
    }
}

fn bug(found: &Diagnostic) -> Bug {
    Bug::new(found.primary, format!("{}: {} ({})", found.code, found.message, found.at))
}

fn first_span(program: &Program) -> SpanId {
    program.body.first().map_or(SpanId::from_u32(0), |op| op.span)
}
