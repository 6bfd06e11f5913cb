//! What tests of the analysis share: its findings as text.

use crate::analysis::analyse;
use crate::diag::Code;
use crate::ir::{StmtId, Target};
use crate::testing::parsed;

/// The lines of a kernel before which the compiler places a barrier. What it says of elements that nobody wrote is left out: these
/// kernels have only the statements that a barrier is about.
pub(crate) fn barriers(text: &str) -> Vec<String> {
    let kernel = parsed(text);
    let mut analysis = analyse(&crate::testing::bound(&kernel), Target::Sm90a);
    analysis.diagnostics.retain(|d| d.code != Code::UNINITIALISED);
    assert_eq!(report(&analysis.diagnostics), "");
    let place = |stmt: &StmtId| kernel.spans[kernel.stmts[*stmt].span];
    let mut places: Vec<_> = analysis.barriers_before.iter().map(place).collect();
    places.sort_by_key(|span| (span.line, span.column));
    places.into_iter().filter_map(|span| Some(kernel.source.line_of(span)?.trim().to_owned())).collect()
}

/// One line a diagnostic: code, message, what is at the place, help.
pub(crate) fn report(diagnostics: &[crate::diag::Diagnostic]) -> String {
    let mut text = String::new();
    for d in diagnostics {
        text += &format!("[{}] {}\n", d.code, d.message);
        if !d.at.is_empty() {
            text += &format!("  at: {}\n", d.at);
        }
        for (_, label) in &d.labels {
            text += &format!("  label: {label}\n");
        }
        for note in &d.notes {
            text += &format!("  note: {note}\n");
        }
        if let Some(help) = &d.help {
            text += &format!("  help: {help}\n");
        }
    }
    text
}
