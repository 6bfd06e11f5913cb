//! Where the time of a decode step goes: graphs of all its launches, of those for one purpose, and of all others, each replayed.

use super::forward::{self, Op, Shape};
use super::{Model, ModelElement};
use crate::error::ModelError;
use std::time::{Duration, Instant};
use tile_runtime::{Device, Graph};

/// The time of a decode step.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Of the whole step, inputs and result not counted.
    pub whole: Duration,
    /// What each kind of launch takes.
    pub shares: Vec<Share>,
}

/// What the launches for one purpose take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// What they are for.
    pub op: Op,
    /// A graph of them alone, those of all layers.
    pub alone: Duration,
    /// By how much the step is shorter without them: less than `alone` where their work overlaps what is beside them.
    pub gained: Duration,
}

/// Measures the step of `shape` that was run last: each graph is replayed `repeats` times.
pub(super) fn measure<T: ModelElement>(
    model: &mut Model<T>,
    shape: Shape,
    repeats: usize,
) -> Result<Profile, ModelError> {
    let device = model.device.clone();
    let mut time = |only: &dyn Fn(Op) -> bool| -> Result<Duration, ModelError> {
        let graph = device.capture(|stream| forward::step(model, stream, shape, &[], only))?;
        replay(&device, &graph, repeats.div_ceil(8))?;
        replay(&device, &graph, repeats)
    };
    let whole = time(&|_| true)?;
    let share = |op: Op| {
        let alone = time(&|other| other == op)?;
        let gained = whole.saturating_sub(time(&|other| other != op)?);
        Ok(Share { op, alone, gained })
    };
    Ok(Profile { whole, shares: Op::ALL.into_iter().map(share).collect::<Result<_, ModelError>>()? })
}

/// The time of one of `repeats` launches in a row.
fn replay(device: &Device, graph: &Graph, repeats: usize) -> Result<Duration, ModelError> {
    device.synchronize()?;
    let start = Instant::now();
    for _ in 0..repeats {
        graph.launch()?;
    }
    device.synchronize()?;
    Ok(start.elapsed() / repeats.max(1) as u32)
}
