//! Helps that help: code that a message offers is put into the kernel that provoked it, by rule, and the kernel is then read again,
//! clean, and right on both simulators.
//!
//! Every text of a help that shows code is found in the sources (`offers`). Each is applied here: in a case with a result to compare
//! with (`cases`), or in a kernel of `tests/ui`, whose help makes its valid neighbour or at least a kernel without a mistake. What is no
//! text to paste stands in `helps/forms.txt`, under the reason. A new help with code is in none of these, and fails.

#[path = "helps/apply.rs"]
mod apply;
#[path = "helps/cases.rs"]
mod cases;
#[path = "helps/offers.rs"]
mod offers;
#[path = "helps/run.rs"]
mod run;

use apply::{apply, edits};
use cases::{CASES, Case, EXPRESSIONS, one_to_seven, vectors, with_expression};
use offers::offers;
use run::{Said, read, results, said_while_running};
use std::collections::BTreeSet;
use std::fs;

/// What the compiler says of a kernel first, while it is typed or else when it runs.
fn first_said(case: &Case, text: &str) -> Option<Said> {
    let read = read(text);
    match read.said.first() {
        Some(said) => Some(said.clone()),
        None => said_while_running(&read.kernel, &(case.args)()),
    }
}

/// The helps of the cases, applied. Gives the helps.
fn applied_in_cases() -> Vec<String> {
    let mut helps = vec![];
    let mut wrong = String::new();
    for case in CASES {
        let Some(said) = first_said(case, case.kernel) else {
            wrong += &format!("{}: nothing is said\n", case.name);
            continue;
        };
        let all = edits(&said.help);
        if all.is_empty() || said.code != case.code {
            wrong += &format!("{}: no {} with code to apply:\n{}\n", case.name, case.code, said.text);
            continue;
        }
        for edit in all {
            let mended = apply(case.kernel, &said, &edit);
            if let Some(said) = first_said(case, &mended) {
                wrong += &format!("{}: {edit:?} of `{}` leaves\n{}\n{mended}\n", case.name, said.help, said.text);
                continue;
            }
            let kernel = read(&mended).kernel;
            let right = (case.right)();
            for (executor, found) in results(&kernel, &(case.args)()) {
                if found != right {
                    wrong += &format!("{}: {edit:?} on {executor}: {found:?}, not {right:?}\n", case.name);
                }
            }
        }
        helps.push(said.help);
    }
    for (expression, right) in EXPRESSIONS {
        let text = with_expression(expression);
        let Some(said) = read(&text).said.first().cloned() else {
            wrong += &format!("{expression}: nothing is said\n");
            continue;
        };
        let Some(edit) = edits(&said.help).first().cloned() else {
            wrong += &format!("{expression}: no code to apply:\n{}\n", said.text);
            continue;
        };
        let mended = apply(&text, &said, &edit);
        let read = read(&mended);
        if let Some(said) = read.said.first() {
            wrong += &format!("{expression}: {edit:?} leaves\n{}\n", said.text);
            continue;
        }
        for (executor, found) in results(&read.kernel, &vectors()) {
            let wanted = (0..100).map(|i| right(one_to_seven(i)));
            if let Some((found, wanted)) =
                found.iter().zip(wanted).find(|(a, b)| (*a - b).abs() > 1e-5 * b.abs().max(1.0))
            {
                wrong += &format!("{expression}: {edit:?} on {executor}: {found}, not {wanted}\n");
            }
        }
        helps.push(said.help);
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    helps
}

/// The helps of `tests/ui` that make a kernel without a mistake by every one of their edits.
fn applied_in_ui() -> Vec<String> {
    let mut helps = vec![];
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/ui");
    for entry in fs::read_dir(folder).expect("tests/ui") {
        let path = entry.expect("an entry").path();
        let text = match path.extension().is_some_and(|e| e == "rs") {
            true => fs::read_to_string(&path).expect("a case"),
            false => continue,
        };
        // One kernel, without functions: what follows it is its launch.
        let Some(at) = text.find("#[tile_kernel").filter(|_| text.matches("#[tile_").count() == 1) else { continue };
        let end = text[at..].find("\n}\n").map_or(text.len(), |end| at + end + 3);
        let kernel = &text[at..end].replace(" //~", "");
        let Some(said) = read(kernel).said.first().cloned() else { continue };
        let all = edits(&said.help);
        let mends = |edit| {
            let left = read(&apply(kernel, &said, edit)).said;
            if let Some(left) = left.first() {
                println!("{}: {edit:?} leaves {}", path.display(), left.text.lines().next().unwrap_or_default());
            }
            left.is_empty()
        };
        if !all.is_empty() && all.iter().filter(|edit| !mends(edit)).count() == 0 {
            helps.push(said.help);
        }
    }
    helps
}

#[test]
fn every_help_that_shows_code_is_applied_or_says_why_not() {
    let mut helps = applied_in_cases();
    helps.extend(applied_in_ui());
    let forms = include_str!("helps/forms.txt");
    let forms: BTreeSet<&str> = forms.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let offers = offers();
    let is_applied = |text: &str| helps.iter().any(|help| offers::is_in(text, help));
    let open: Vec<&String> = offers.iter().filter(|text| !is_applied(text) && !forms.contains(text.as_str())).collect();
    let open: String = open.iter().map(|text| format!("{text}\n")).collect();
    assert!(open.is_empty(), "no case applies these helps; add one to helps/cases.rs:\n{open}");
    let stale: Vec<&&str> = forms.iter().filter(|form| !offers.contains(**form)).collect();
    assert!(stale.is_empty(), "helps/forms.txt has texts that are no longer in the sources: {stale:#?}");
    let done: Vec<&&str> = forms.iter().filter(|form| is_applied(form)).collect();
    assert!(done.is_empty(), "helps/forms.txt has texts that are applied: {done:#?}");
}
