//! A launch explained: `tile_ir`'s report with what NVRTC's assembler says about registers and spills.

use super::definition::Definition;
use super::prepared::lowered;
use super::show::compile;
use super::which::Variant;
use crate::error::Error;
use tile_ir::explain::{Machine, Report, Resources, Shape};
use tile_ir::ir::{Class, Target};

/// A [`Report`], and whether the assembler was there to be asked.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The report.
    pub report: Report,
    /// Why the report has no registers, where it has none.
    pub no_resources: Option<String>,
}

impl std::fmt::Display for Explanation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.report)?;
        self.no_resources.iter().try_for_each(|why| writeln!(f, "\nno registers: {why}"))
    }
}

/// What a launch of instance number `instance` costs on `machine`, and what bounds it. `values` are the kernel's dims
/// by name (specialised ones too), and those scalars whose value decides what is executed; tensors are dense. Needs no device: without NVRTC,
/// the report leaves registers out and says why.
///
/// # Errors
/// The instance cannot be lowered for this target; a dim has no value; a name is no dim and no scalar.
pub fn explain(
    def: &'static Definition,
    instance: usize,
    target: Target,
    machine: &Machine,
    values: &[(&str, f64)],
) -> Result<Explanation, Error> {
    explain_class(def, (instance, Class::WIDEST), target, machine, values)
}

/// [`explain`] in an alignment class.
///
/// # Errors
/// As [`explain`].
pub fn explain_class(
    def: &'static Definition,
    (instance, class): (usize, Class),
    target: Target,
    machine: &Machine,
    values: &[(&str, f64)],
) -> Result<Explanation, Error> {
    let kernel = def.kernel()?;
    let specialized = kernel.specialized().iter().map(|dim| kernel.dims[*dim].name.as_str());
    let value = |name| values.iter().find(|(given, _)| *given == name).map(|(_, value)| (name, *value as i64));
    let dims: Vec<(&str, i64)> = specialized.filter_map(value).collect();
    let which = Variant { instance, dims: &dims, class, ..Variant::default() };
    let (_, program) = lowered(kernel, &which.instance(def)?.1, target)?;
    let shape = Shape::dense(&program, values)?;
    let (resources, no_resources) = match compile(def, which, target).map(|binary| binary.resources) {
        Ok(Some(r)) => {
            let (registers, spill_stores, spill_loads) = (r.registers, r.spill_stores, r.spill_loads);
            (Some(Resources { registers, spill_stores, spill_loads }), None)
        }
        Ok(None) => (None, Some("the assembler's log does not say".into())),
        Err(error) => (None, Some(error.to_string())),
    };
    let report = tile_ir::explain::explain(&program, &shape, machine, resources)?;
    Ok(Explanation { report, no_resources })
}
