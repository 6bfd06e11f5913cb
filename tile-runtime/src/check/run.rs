//! The runs of a check.

use super::case::Case;
use super::fit::encode;
use super::{CheckError, CheckOptions, Reference, shapes};
use crate::device::Device;
use crate::error::Error;
use crate::kernel::{Definition, Loaded, Variant, instance_text, unlisted};
use crate::launch_error::Problem;
use crate::tuner::{Random, gate_bound, is_exact, same_bits, within};
use std::fmt;
use tile_ir::ir::{DimId, Dtype, Extent, Instance, Kernel, ParamKind};

/// No shape with more elements than this in all tensors is chosen here: the checked simulator executes lane by lane.
const MOST_ELEMENTS: i64 = 1 << 18;

/// What was run without a mistake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Instances.
    pub instances: usize,
    /// Shapes, over all instances.
    pub runs: usize,
    /// Shapes that the launch contract refuses.
    pub refused: usize,
    /// Whether results were compared with a reference.
    pub reference: bool,
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CheckReport { instances, runs, refused, reference } = self;
        let beside = if *reference { "beside the reference" } else { "without a reference" };
        let plural = |n: &usize| if *n == 1 { "" } else { "s" };
        write!(
            f,
            "{instances} instance{}, {runs} launch{} on both simulators {beside}",
            plural(instances),
            if *runs == 1 { "" } else { "es" }
        )?;
        match refused {
            0 => Ok(()),
            n => write!(f, " ({n} shape{} refused by the launch contract)", plural(n)),
        }
    }
}

/// A mistake of a kernel, and the call that shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The kernel.
    pub kernel: String,
    /// The instance.
    pub instance: String,
    /// The dims: `M = 5, K = 64`.
    pub dims: String,
    /// What is wrong.
    pub problem: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel `{}` {} at {}: {}", self.kernel, self.instance, self.dims, self.problem)
    }
}

/// Runs a kernel on both simulators, over instances and shapes; `say` takes a line an instance.
///
/// # Errors
/// [`CheckError::Mistake`] at the first mistake; the kernel could not be checked.
pub fn run(
    def: &'static Definition,
    reference: Option<Reference>,
    options: &CheckOptions,
    say: &mut dyn FnMut(&str),
) -> Result<CheckReport, CheckError> {
    let kernel = def.kernel()?;
    known(kernel, options)?;
    let all = 0..kernel.instances.len();
    let chosen: Vec<usize> = match options.instance {
        Some(instance) => vec![def.instance(instance).map(|_| instance)?],
        None => all.collect(),
    };
    let mut report = CheckReport { reference: reference.is_some(), ..CheckReport::default() };
    for index in chosen {
        let found = instance(def, index, reference, options)?;
        say(&format!(
            "{} {}: {} launches, dims up to {}",
            def.name(),
            instance_text(kernel, &kernel.instances[index]),
            found.runs,
            found.largest
        ));
        report.instances += 1;
        report.runs += found.runs;
        report.refused += found.refused;
    }
    Ok(report)
}

/// Refuses options that name what the kernel does not have.
fn known(kernel: &Kernel, options: &CheckOptions) -> Result<(), CheckError> {
    let scalars = kernel.params.values().filter(|p| matches!(p.kind, ParamKind::Scalar { .. })).map(|p| &p.name);
    let names: Vec<&String> = kernel.dims.values().map(|dim| &dim.name).chain(scalars).collect();
    match options.values.iter().find(|(asked, _)| !names.contains(&asked)) {
        None => Ok(()),
        Some((asked, _)) => Err(CheckError::Name {
            kernel: kernel.name.clone(),
            what: "dim or scalar",
            asked: asked.clone(),
            there: names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
        }),
    }
}

struct Runs {
    runs: usize,
    refused: usize,
    largest: i64,
}

/// An instance that is checked.
struct Subject<'a> {
    def: &'static Definition,
    kernel: &'static Kernel,
    index: usize,
    scalars: Vec<(String, f64)>,
    reference: Option<Reference>,
    options: &'a CheckOptions,
}

/// One call of it.
struct Call {
    case: Case,
    dims: Vec<(String, i64)>,
    absent: Vec<String>,
}

/// Runs one instance.
fn instance(
    def: &'static Definition,
    index: usize,
    reference: Option<Reference>,
    options: &CheckOptions,
) -> Result<Runs, CheckError> {
    let (kernel, declared) = def.instance(index)?;
    let given = |name: &String| options.values.iter().find(|(asked, _)| asked == name).map(|(_, values)| values);
    let values = kernel.dims.iter().map(|(id, dim)| {
        let values = given(&dim.name).map(|values| values.iter().map(|value| *value as i64).collect());
        (dim.name.clone(), values.unwrap_or_else(|| shapes::boundary(kernel, declared, id)))
    });
    let values: Vec<(String, Vec<i64>)> = values.collect();
    let scalars = kernel.params.values().filter_map(|p| Some((p.name.clone(), *given(&p.name)?.first()?)));
    let subject = Subject { def, kernel, index, scalars: scalars.collect(), reference, options };
    let optional = kernel.params.values().filter(|p| matches!(p.kind, ParamKind::Tensor { optional: true, .. }));
    let optional: Vec<String> = optional.map(|param| param.name.clone()).collect();

    let mut candidates = shapes::shapes(&values);
    let all_given = kernel.dims.values().all(|dim| given(&dim.name).is_some());
    if !all_given {
        candidates.retain(|shape| elements(kernel, declared, shape) <= MOST_ELEMENTS);
        // Some will be refused.
        candidates = shapes::spread(candidates, 8 * options.shapes);
    }
    let tried = candidates.len();
    let (mut accepted, mut last) = (Vec::new(), String::from("no shape is small enough"));
    for shape in candidates {
        match subject.contract(&shape)? {
            Ok(()) => accepted.push(shape),
            Err(why) => last = why,
        }
    }
    if accepted.is_empty() {
        let instance = instance_text(kernel, declared);
        return Err(CheckError::NoShape { kernel: kernel.name.clone(), instance, tried, why: last });
    }
    let refused = tried - accepted.len();
    let accepted = if all_given { accepted } else { shapes::spread(accepted, options.shapes) };
    let mut found = Runs { runs: 0, refused, largest: 0 };
    for shape in &accepted {
        // With the optional tensors and without.
        let variants = if optional.is_empty() { vec![Vec::new()] } else { vec![Vec::new(), optional.clone()] };
        for absent in variants {
            subject.run(subject.call(shape, absent)?)?;
            found.runs += 1;
        }
        found.largest = found.largest.max(shape.iter().map(|(_, value)| *value).max().unwrap_or(0));
    }
    Ok(found)
}

/// The elements of all tensors at a shape.
fn elements(kernel: &Kernel, instance: &Instance, shape: &[(String, i64)]) -> i64 {
    let value = |dim: &DimId| shape.iter().find(|(name, _)| *name == kernel.dims[*dim].name).map(|(_, value)| *value);
    let of = |kind: &ParamKind| match kind {
        ParamKind::Tensor { shape, .. } => {
            let extents = shape.iter().map(|extent| match extent {
                Extent::Dim(dim) => value(dim),
                Extent::Fixed(expr) => shapes::constant(kernel, instance, *expr),
            });
            extents.fold(1, |product: i64, extent| product.saturating_mul(extent.unwrap_or(1)))
        }
        _ => 0,
    };
    kernel.params.values().map(|param| of(&param.kind)).fold(0, i64::saturating_add)
}

impl Subject<'_> {
    /// The call at a shape, without these optional tensors.
    fn call(&self, shape: &[(String, i64)], absent: Vec<String>) -> Result<Call, CheckError> {
        let Subject { kernel, .. } = self;
        let specialized = kernel.specialized().iter().map(|dim| &kernel.dims[*dim].name);
        let value = |name: &String| shape.iter().find(|(given, _)| given == name).map_or(0, |(_, value)| *value);
        let dims: Vec<(String, i64)> = specialized.map(|name| (name.clone(), value(name))).collect();
        let (names, values) = names(&absent, &dims);
        let (_, instance) = self.variant(&names, &values).instance(self.def)?;
        let hash = shape.iter().fold(0u64, |hash, (_, value)| hash.wrapping_mul(31) ^ *value as u64);
        let mut random = Random(self.options.seed ^ hash);
        let made = Case::new(kernel, &instance, shape, &self.scalars, &mut || random.unit());
        let case = made.ok_or_else(|| CheckError::Extent(kernel.name.clone()))?;
        Ok(Call { case, dims, absent })
    }

    fn variant<'v>(&self, absent: &'v [&'v str], dims: &'v [(&'v str, i64)]) -> Variant<'v> {
        Variant { instance: self.index, dims, absent, ..Variant::default() }
    }

    fn load(&self, call: &Call, device: &Device) -> Result<Loaded, Error> {
        let (absent, dims) = names(&call.absent, &call.dims);
        unlisted(self.def, self.variant(&absent, &dims), device)
    }

    /// Whether the kernel may be launched at a shape; `Ok(Err)` says why not.
    fn contract(&self, shape: &[(String, i64)]) -> Result<Result<(), String>, CheckError> {
        let call = self.call(shape, Vec::new())?;
        let device = Device::simulator();
        let loaded = match self.load(&call, &device) {
            Ok(loaded) => loaded,
            // A specialised dim has a value that the kernel cannot have.
            Err(Error::Lower { report, .. }) if !call.dims.is_empty() => return Ok(Err(report)),
            Err(error) => return Err(error.into()),
        };
        let tensors = call.case.tensors(&device)?;
        match loaded.check_call(&tensors.arguments(&call.case)) {
            Ok(()) => Ok(Ok(())),
            Err(problem) => match *problem {
                Problem::Prepare(error) => Err(error.into()),
                problem => Ok(Err(problem.to_string())),
            },
        }
    }

    /// Runs a call on both simulators and compares.
    fn run(&self, call: Call) -> Result<(), CheckError> {
        let Subject { kernel, index, options, .. } = self;
        let without: String = call.absent.iter().map(|name| format!(", without {name}")).collect();
        let dims = call.case.dims_text() + &without;
        let mistake = |problem: String| {
            let instance = instance_text(kernel, &kernel.instances[*index]);
            CheckError::Mistake(Box::new(Mistake {
                kernel: kernel.name.clone(),
                instance,
                dims: dims.clone(),
                problem,
            }))
        };
        let results = [Device::simulator(), Device::checked_simulator()].map(|device| {
            let loaded = self.load(&call, &device)?;
            let tensors = call.case.tensors(&device)?;
            let launched = loaded.launch(&mut tensors.arguments(&call.case));
            launched.map_err(|error| match error.problem() {
                Problem::Simulator(report) => mistake(format!("on {device}\n{report}")),
                _ => mistake(format!("on {device}: {error}")),
            })?;
            tensors.written(&call.case).map_err(CheckError::from)
        });
        let [fast, checked] = results;
        let (fast, checked) = (fast?, checked?);
        let bound = |dtype: Dtype| options.tolerance.unwrap_or_else(|| gate_bound(dtype));
        for ((name, dtype, fast), (_, _, checked)) in fast.iter().zip(&checked) {
            let same = match is_exact(kernel) {
                true => same_bits(*dtype, checked, fast),
                false => within(*dtype, checked, fast, bound(*dtype)),
            };
            let differs = |words| mistake(format!("the checked simulator's `{name}` is not the fast one's: {words}"));
            same.map_err(differs)?;
        }
        let Some(reference) = self.reference else { return Ok(()) };
        let mut case = call.case.clone();
        reference(&mut case)?;
        for (name, dtype, found) in &fast {
            let expected = case.expected(name).ok_or_else(|| CheckError::NoExpectation(name.clone()))?;
            let expected: Vec<u8> = expected.iter().flat_map(|value| encode(*dtype, *value)).collect();
            within(*dtype, found, &expected, bound(*dtype))
                .map_err(|words| mistake(format!("`{name}` is not the reference's: {words}")))?;
        }
        Ok(())
    }
}

/// As a [`Variant`] takes them.
fn names<'n>(absent: &'n [String], dims: &'n [(String, i64)]) -> (Vec<&'n str>, Vec<(&'n str, i64)>) {
    let absent = absent.iter().map(String::as_str).collect();
    (absent, dims.iter().map(|(name, value)| (name.as_str(), *value)).collect())
}
