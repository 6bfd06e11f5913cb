//! `list`, `show` and `explain`.

use crate::cli::{Explain, List, Show};
use crate::kernels::Found;
use crate::project::Project;
use crate::{choose, kernels};
use anyhow::Result;
use std::fmt::Write as _;
use std::io::Write as _;
use tile_ir::ir::{Dtype, Extent, Kernel, ParamKind, Type};
use tile_runtime::kernel::{self, Machine, Variant, instance_text};

/// Prints text. A reader that has seen enough, as in `show | head`, is no error.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// `cargo tile list`.
pub fn list(arguments: &List) -> Result<()> {
    let project = Project::find(&arguments.place)?;
    let found = kernels::all(&project)?;
    let mut text = String::new();
    for kernel in &found {
        describe(kernel, arguments.instances, &mut text)?;
    }
    if found.is_empty() {
        let targets: Vec<String> = project.targets.iter().map(|target| target.words()).collect();
        let checked = if targets.is_empty() { "no target".into() } else { targets.join(", ") };
        crate::process::say(format!(
            "no kernels in {} ({checked}). Kernels of examples and tests are listed with --all-targets",
            project.name
        ));
    }
    print(&text)
}

fn describe(found: &Found, instances: bool, text: &mut String) -> Result<()> {
    let kernel = found.definition.kernel()?;
    let count = kernel.instances.len();
    let plural = if count == 1 { "" } else { "s" };
    writeln!(text, "{:<24} {}, {}, {count} instance{plural}", kernel.name, found.place(), found.target.words())?;
    writeln!(text, "    ({})", parameters(kernel))?;
    if let Some(specialize) = &kernel.attributes.specialize {
        let names: Vec<&str> = specialize.dims.iter().map(|dim| kernel.dims[*dim].name.as_str()).collect();
        writeln!(text, "    specialised by {}", names.join(", "))?;
    }
    for require in &kernel.requires {
        writeln!(text, "    requires {}", require.text)?;
    }
    if instances {
        for (number, instance) in kernel.instances.iter().enumerate() {
            writeln!(text, "    #{number:<4} {}", instance_text(kernel, instance))?;
        }
    } else if count > 1 {
        let first = instance_text(kernel, &kernel.instances[0]);
        let last = instance_text(kernel, &kernel.instances[count - 1]);
        writeln!(text, "    {first} .. {last}")?;
    }
    Ok(())
}

/// A kernel's parameters as its author writes them.
fn parameters(kernel: &Kernel) -> String {
    let dtype = |dtype: &tile_ir::ir::DtypeRef| match dtype {
        tile_ir::ir::DtypeRef::Is(dtype) => Dtype::name(*dtype).to_owned(),
        tile_ir::ir::DtypeRef::Param(param) => kernel.type_params[*param].name.clone(),
    };
    let one = |param: &tile_ir::ir::Param| match &param.kind {
        ParamKind::Tensor { dtype: element, shape, mutable, optional } => {
            let extents = shape.iter().map(|extent| match extent {
                Extent::Dim(dim) => kernel.dims[*dim].name.clone(),
                Extent::Fixed(_) => "Fixed".into(),
            });
            let extents: Vec<String> = extents.collect();
            let comma = if extents.len() == 1 { "," } else { "" };
            let reference = if *mutable { "&mut " } else { "&" };
            let tensor = format!("{reference}Tensor<{}, ({}{comma})>", dtype(element), extents.join(", "));
            let tensor = if *optional { format!("Option<{tensor}>") } else { tensor };
            format!("{}: {tensor}", param.name)
        }
        ParamKind::Scalar { ty: Type::Index } => format!("{}: usize", param.name),
        ParamKind::Scalar { ty: Type::Value(element) } => format!("{}: {}", param.name, dtype(element)),
        ParamKind::Absent => param.name.clone(),
    };
    kernel.params.values().map(one).collect::<Vec<_>>().join(", ")
}

/// `cargo tile show`.
pub fn show(arguments: &Show) -> Result<()> {
    let found = kernels::all(&Project::find(&arguments.place)?)?;
    let found = choose::kernel(&found, &arguments.kernel)?;
    let kernel = found.definition.kernel()?;
    let which = &arguments.which;
    let instance = choose::instance(kernel, &which.instance)?;
    let target = choose::target(kernel, which.target)?;
    let dims = choose::dims(kernel, &arguments.values)?;
    let dims: Vec<(&str, i64)> = dims.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let absent: Vec<&str> = which.without.iter().map(String::as_str).collect();
    let class = one_class(&which.class)?;
    let variant = Variant { instance, dims: &dims, class, absent: &absent };
    print(&(kernel::show(found.definition, variant, target, arguments.format)?.trim_end().to_owned() + "\n"))
}

/// `cargo tile explain`.
pub fn explain(arguments: &Explain) -> Result<()> {
    let found = kernels::all(&Project::find(&arguments.place)?)?;
    let found = choose::kernel(&found, &arguments.kernel)?;
    let kernel = found.definition.kernel()?;
    let which = &arguments.which;
    let instance = choose::instance(kernel, &which.instance)?;
    let target = choose::target(kernel, which.target)?;
    if !which.without.is_empty() {
        anyhow::bail!("`explain` is of a launch with all optional tensors; --without is not for it");
    }
    let lists = choose::lists(&arguments.values)?;
    choose::whole(kernel, &lists)?;
    let values = choose::numbers(&arguments.values)?;
    let values: Vec<(&str, f64)> = values.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let machine = arguments.machine.unwrap_or(Machine::of(target));
    let class = one_class(&which.class)?;
    let explanation = kernel::explain_class(found.definition, (instance, class), target, &machine, &values)?;
    print(&format!("{}\n", explanation.to_string().trim_end()))
}

fn one_class(classes: &[kernel::Class]) -> Result<kernel::Class> {
    match classes {
        [] => Ok(kernel::Class::WIDEST),
        [one] => Ok(*one),
        _ => anyhow::bail!("one alignment class at a time"),
    }
}
