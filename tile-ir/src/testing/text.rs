//! Whether a text is what it was printed of: what is read back of a kernel's prints, binds and lowers as the kernel itself does; what is
//! read back of a program's prints and is emitted as the program.

use crate::diag::Diagnostic;
use crate::emit::cuda::emit;
use crate::ir::{BoundKernel, Instance, Kernel, Target};
use crate::lower::{bind, lower_bound};
use crate::lowered::{Op, Program, ValueId, ValueKind};
use crate::text::{canonical, parse_kernel, parse_program};

/// Prints and reads a kernel, then some of its instances once they are bound; what was read is lowered beside what was not.
///
/// # Errors
/// What differs, with the text.
pub fn round_trip(kernel: &Kernel, instances: &[Instance]) -> Result<(), String> {
    let parsed = reread(kernel)?;
    for instance in instances {
        let (ours, theirs) = (bind(kernel, instance), bind(&parsed, instance));
        let (bound, other) = match (ours, theirs) {
            (Ok(bound), Ok(other)) => (bound, other),
            (Err(ours), Err(theirs)) => {
                same(&kernel.name, "the errors of binding", &messages(&ours), &messages(&theirs))?;
                continue;
            }
            (ours, theirs) => {
                let [ours, theirs] = [ours, theirs].map(|r| r.map_or_else(|e| messages(&e), |_| "none".to_owned()));
                return Err(format!("{}: errors of binding: {ours}, once it is read: {theirs}", kernel.name));
            }
        };
        // Their names may differ: what hid another one in the kernel may be alone in an instance.
        // Binding computes constants that no text may have.
        let reread = match crate::verify::structure(&bound) {
            Ok(()) => BoundKernel::new(reread(&bound)?).map_err(|one| messages(&[*one]))?,
            Err(_) => bound.clone(),
        };
        for target in Target::ALL {
            let ours = lowered(&bound, target);
            same(&kernel.name, &format!("the program for {target}"), &ours, &lowered(&other, target))?;
            same(&kernel.name, &format!("the bound kernel's program for {target}"), &ours, &lowered(&reread, target))?;
        }
    }
    Ok(())
}

/// What is read of a kernel's text, if that prints as the kernel does.
fn reread(kernel: &Kernel) -> Result<Kernel, String> {
    let text = kernel.to_string();
    let parsed = parse_kernel(&text).map_err(|error| format!("{}: {error}\n{text}", kernel.name))?;
    same(&kernel.name, "the text", &text, &parsed.to_string())?;
    Ok(parsed)
}

/// The program without its names, or why there is none.
fn lowered(bound: &BoundKernel, target: Target) -> String {
    match lower_bound(bound, target) {
        Ok(program) => canonical(&program),
        Err(diagnostics) => messages(&diagnostics),
    }
}

fn messages(diagnostics: &[Diagnostic]) -> String {
    diagnostics.iter().map(|d| format!("{} {}\n", d.code, d.message)).collect()
}

fn same(name: &str, what: &str, ours: &str, theirs: &str) -> Result<(), String> {
    if ours == theirs {
        return Ok(());
    }
    let mut lines = ours.lines().zip(theirs.lines()).enumerate().filter(|(_, (a, b))| a != b);
    let first = lines.next().map_or_else(String::new, |(at, (a, b))| format!("line {}:\n  {a}\n  {b}\n", at + 1));
    Err(format!("{name}: {what} is another once it is read; {first}of:\n{ours}"))
}

/// Prints and reads a program: what was read prints and is emitted as the program itself, and has its values and their types. Given is
/// what was read, with the program's own spans and source.
///
/// # Errors
/// What differs, with the text.
pub fn program_round_trip(program: &Program) -> Result<Program, String> {
    let (name, text) = (&program.name, program.to_string());
    let mut parsed = parse_program(&text).map_err(|error| format!("{name}: {error}\n{text}"))?;
    same(name, "the program's text", &text, &parsed.to_string())?;
    same(name, "the CUDA C", &emit(program), &emit(&parsed))?;
    let mut body = std::mem::take(&mut parsed.body);
    place_ops(&mut parsed, &mut body, program, &program.body).map_err(|error| format!("{name}: {error}\n{text}"))?;
    parsed.body = body;
    parsed.launch.checks.iter_mut().zip(&program.launch.checks).for_each(|(to, from)| to.span = from.span);
    parsed.messages.values_mut().zip(program.messages.values()).for_each(|(to, from)| to.span = from.span);
    (parsed.spans, parsed.source) = (program.spans.clone(), program.source.clone());
    let interface = |p: &Program| (p.dims.clone(), p.params.clone(), p.tensors.clone(), p.launch.clone());
    let memory = |p: &Program| (p.tensor_maps.clone(), p.shared.clone(), p.barriers.clone(), p.messages.clone());
    if interface(&parsed) != interface(program) || memory(&parsed) != memory(program) {
        return Err(format!("{name}: the interface or the memory is another once it is read\n{text}"));
    }
    Ok(parsed)
}

/// Gives operations the spans of those that they were printed of, or says where they differ.
fn place_ops(parsed: &mut Program, ops: &mut [Op], from: &Program, originals: &[Op]) -> Result<(), String> {
    if ops.len() != originals.len() {
        return Err(format!("{} operations instead of {}", ops.len(), originals.len()));
    }
    for (op, original) in ops.iter_mut().zip(originals) {
        op.span = original.span;
        let memories = op.kind.memories_mut().into_iter().zip(original.kind.memories());
        memories.for_each(|(to, from)| to.span = from.span);
        place_values(parsed, &op.kind.values(), from, &original.kind.values())?;
        for (body, original) in op.kind.bodies_mut().into_iter().zip(original.kind.bodies()) {
            place_ops(parsed, body, from, original)?;
        }
    }
    Ok(())
}

fn place_values(parsed: &mut Program, ids: &[ValueId], from: &Program, originals: &[ValueId]) -> Result<(), String> {
    if ids.len() != originals.len() {
        return Err(format!("{} values instead of {}", ids.len(), originals.len()));
    }
    for (id, original) in ids.iter().zip(originals) {
        let (to, original) = (&mut parsed.values[*id], &from.values[*original]);
        let alike = match (&to.kind, &original.kind) {
            (ValueKind::Float(a), ValueKind::Float(b)) => a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
            (ValueKind::Int(a), ValueKind::Int(b)) => a == b,
            (ValueKind::Param(a), ValueKind::Param(b)) => a == b,
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        };
        if !alike || to.ty != original.ty {
            return Err(format!("{to:?} instead of {original:?}"));
        }
        to.span = original.span;
        if let (ValueKind::Load(to), ValueKind::Load(from)) = (&mut to.kind, &original.kind) {
            to.span = from.span;
        }
        let operands = to.kind.operands();
        place_values(parsed, &operands, from, &original.kind.operands())?;
    }
    Ok(())
}
