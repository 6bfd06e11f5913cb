//! The candidates: the declared instances of the given dtypes, and what is known of each before anything is compiled.

use super::compile::in_parallel;
use super::report::{Status, Trial};
use crate::cuda::CudaDevice;
use crate::device::{Backend, Device};
use crate::error::Error;
use crate::kernel::{Argument, Definition, Dtype, instance_text, plan_for, target_for};
use crate::launch_error::Problem;
use tile_ir::explain::{Machine, Shape, explain};
use tile_ir::ir::{DimId, EntityRef, Extent, Instance, Kernel, ParamKind, Target};
use tile_ir::lowered::Program;

/// A candidate that leaves this fraction of the multiprocessors that the best one uses without a block is pruned.
const IDLE: f64 = 1.0 / 8.0;
/// A candidate that moves this many times the least sectors is pruned.
const SECTORS: f64 = 8.0;

/// The candidates for a call.
pub(super) struct Space {
    /// A record each, in order of declaration; those to be tried are [`Status::Untried`].
    pub trials: Vec<Trial>,
    /// The dims' values.
    pub dims: Vec<(String, i64)>,
    /// Why the first was refused, where its launch contract does not hold.
    pub refusal: Option<Box<Problem>>,
}

/// What the static model says of one candidate.
struct Model {
    waves: f64,
    /// Multiprocessors with a block.
    busy: f64,
    /// Bytes of the sectors its accesses to tensors touch.
    sectors: f64,
}

enum Judged {
    Candidate { shared: u32, dims: Vec<(String, i64)>, model: Option<Model> },
    Out { status: Status, detail: String, shared: u32, refusal: Option<Box<Problem>> },
}

/// The candidates of `definition` for these dtypes and arguments.
pub(super) fn candidates(
    definition: &'static Definition,
    dtypes: &[Dtype],
    device: &Device,
    args: &[Argument<'_>],
    threads: usize,
) -> Result<Space, Error> {
    let kernel = definition.kernel()?;
    let target = target_for(kernel, device)?;
    let all: Vec<usize> = (0..kernel.instances.len()).filter(|i| kernel.instances[*i].dtypes == dtypes).collect();
    let values = specialized(kernel, args);
    let judge = |i: &usize| judge(kernel, &kernel.instances[*i].with_dims(values.clone()), target, device, args);
    let judged = in_parallel(&all, threads, || false, judge);

    let models = || {
        judged.iter().flatten().filter_map(|j| match j {
            Judged::Candidate { model, .. } => model.as_ref(),
            Judged::Out { .. } => None,
        })
    };
    let most_busy = models().map(|m| m.busy).fold(0.0, f64::max);
    let least_sectors = models().map(|m| m.sectors).fold(f64::MAX, f64::min);
    let (mut trials, mut dims, mut refusal) = (Vec::new(), Vec::new(), None);
    for (instance, judged) in all.into_iter().zip(judged) {
        let values = &kernel.instances[instance];
        let names = kernel.consts.values().map(|c| c.name.clone());
        let mut trial = Trial {
            instance,
            parameters: instance_text(kernel, values),
            consts: names.zip(values.consts.iter().copied()).collect(),
            ..Trial::default()
        };
        match judged {
            Some(Judged::Candidate { shared, dims: found, model }) => {
                trial.shared_bytes = shared;
                dims = found;
                if let Some(model) = model {
                    trial.waves = Some(model.waves);
                    if let Some(why) = prune(&model, most_busy, least_sectors) {
                        (trial.status, trial.detail) = (Status::Pruned, why);
                    }
                }
            }
            Some(Judged::Out { status, detail, shared, refusal: problem }) => {
                (trial.status, trial.detail, trial.shared_bytes) = (status, detail, shared);
                refusal = refusal.or(problem);
            }
            None => {}
        }
        trials.push(trial);
    }
    Ok(Space { trials, dims, refusal })
}

/// The values of the dims that the kernel is specialised by, from the first tensor that has each.
pub(super) fn specialized(kernel: &Kernel, args: &[Argument<'_>]) -> Vec<(DimId, i64)> {
    let value = |dim: &DimId| {
        kernel.params.values().zip(args).find_map(|(param, arg)| match (&param.kind, arg) {
            (ParamKind::Tensor { shape, .. }, Argument::Tensor(tensor)) => {
                let axis = shape.iter().position(|extent| *extent == Extent::Dim(*dim))?;
                Some((*dim, *tensor.shape().get(axis)?))
            }
            _ => None,
        })
    };
    kernel.specialized().iter().filter_map(value).collect()
}

/// Why a candidate cannot be among the fast ones, if so. The best by either measure is never pruned by it.
fn prune(model: &Model, most_busy: f64, least_sectors: f64) -> Option<String> {
    if model.busy < most_busy * IDLE {
        return Some(format!("it keeps {:.0} multiprocessors busy, another {most_busy:.0}", model.busy));
    }
    let times = model.sectors / least_sectors;
    (times > SECTORS).then(|| format!("it moves {times:.1} times the sectors of another"))
}

fn judge(kernel: &Kernel, instance: &Instance, target: Target, device: &Device, args: &[Argument<'_>]) -> Judged {
    let plan = match plan_for(kernel, instance, target, device.state, args) {
        Ok(plan) => plan,
        Err(problem) => {
            let detail = problem.to_string();
            let refusal = (!matches!(*problem, Problem::Prepare(_))).then_some(problem);
            return Judged::Out { status: Status::Refused, detail, shared: 0, refusal };
        }
    };
    let shared = plan.program.shared_bytes;
    let dims: Vec<(String, i64)> = plan.program.dims.iter().cloned().zip(plan.dims(args)).collect();
    let Backend::Cuda(cuda) = &device.state.backend else {
        return Judged::Candidate { shared, dims, model: None };
    };
    if shared > cuda.max_shared {
        let detail = format!("{shared} bytes of shared memory, the device allows {}", cuda.max_shared);
        return Judged::Out { status: Status::OverBudget, detail, shared, refusal: None };
    }
    let model = model(&plan.program, cuda, target, &dims, args);
    if model.as_ref().is_some_and(|m| m.waves.is_infinite()) {
        let detail = "not one block fits a multiprocessor".into();
        return Judged::Out { status: Status::OverBudget, detail, shared, refusal: None };
    }
    Judged::Candidate { shared, dims, model }
}

/// The static model of one launch; `None` where it has none, which prunes nothing.
fn model(
    program: &Program,
    cuda: &CudaDevice,
    target: Target,
    dims: &[(String, i64)],
    args: &[Argument<'_>],
) -> Option<Model> {
    let machine = Machine::named(&cuda.name).unwrap_or(Machine::of(target));
    let machine = Machine { sms: cuda.multiprocessors, ..machine };
    let values: Vec<(&str, f64)> = dims.iter().map(|(name, value)| (name.as_str(), *value as f64)).collect();
    let mut shape = Shape::dense(program, &values).ok()?;
    for tensor in &program.tensors {
        if let Some(Argument::Tensor(found)) = args.get(tensor.param.index()) {
            for (axis, stride) in found.strides().iter().enumerate() {
                shape = shape.with_stride(tensor.param, axis as u8, *stride);
            }
            shape = shape.with_address(tensor.param, found.address());
        }
    }
    let report = explain(program, &shape, &machine, None).ok()?;
    let global = report.accesses.iter().filter(|a| a.global && !a.unknown);
    Some(Model {
        waves: report.waves(),
        busy: (report.blocks() as f64).min(f64::from(machine.sms)),
        sectors: global.map(|a| a.requests * a.found).sum::<f64>().max(1.0),
    })
}
