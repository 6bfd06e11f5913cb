//! Whether a kernel's text is the kernel: what is read back from it prints, binds and lowers as the kernel itself does.

use crate::diag::Diagnostic;
use crate::ir::{Instance, Kernel, Target};
use crate::lower::{bind, lower_bound};
use crate::text::{canonical, parse_kernel};

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
                same(kernel, "the errors of binding", &messages(&ours), &messages(&theirs))?;
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
            Ok(()) => reread(&bound)?,
            Err(_) => bound.clone(),
        };
        for target in Target::ALL {
            let ours = lowered(&bound, target);
            same(kernel, &format!("the program for {target}"), &ours, &lowered(&other, target))?;
            same(kernel, &format!("the bound kernel's program for {target}"), &ours, &lowered(&reread, target))?;
        }
    }
    Ok(())
}

/// What is read of a kernel's text, if that prints as the kernel does.
fn reread(kernel: &Kernel) -> Result<Kernel, String> {
    let text = kernel.to_string();
    let parsed = parse_kernel(&text).map_err(|error| format!("{}: {error}\n{text}", kernel.name))?;
    same(kernel, "the text", &text, &parsed.to_string())?;
    Ok(parsed)
}

/// The program without its names, or why there is none.
fn lowered(bound: &Kernel, target: Target) -> String {
    match lower_bound(bound, target) {
        Ok(program) => canonical(&program),
        Err(diagnostics) => messages(&diagnostics),
    }
}

fn messages(diagnostics: &[Diagnostic]) -> String {
    diagnostics.iter().map(|d| format!("{} {}\n", d.code, d.message)).collect()
}

fn same(kernel: &Kernel, what: &str, ours: &str, theirs: &str) -> Result<(), String> {
    if ours == theirs {
        return Ok(());
    }
    let mut lines = ours.lines().zip(theirs.lines()).enumerate().filter(|(_, (a, b))| a != b);
    let first = lines.next().map_or_else(String::new, |(at, (a, b))| format!("line {}:\n  {a}\n  {b}\n", at + 1));
    Err(format!("{}: {what} is another once it is read; {first}of:\n{ours}", kernel.name))
}
