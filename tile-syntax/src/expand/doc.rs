//! The documentation of a kernel: its signature as written, its dims, its demands and its instances.

use super::signature::{ParamKind, Signature};
use crate::parse::Parsed;
use quote::ToTokens;
use tile_ir::ir::{ConstKind, Kernel};

/// Below this many rows a table of instances is shown unfolded.
const FOLDED: usize = 8;

/// What is added to the author's documentation of a kernel, whose instances are known or not.
pub(super) fn of_kernel(signature: &Signature<'_>, parsed: &Parsed, complete: bool) -> String {
    let name = signature.name;
    let mut text = String::new();
    if signature.attributes(&["doc"]).is_empty() {
        text += &format!("The kernel `{name}`.\n");
    }
    text += &format!("\nA tile kernel: `{name}::launch(&device, ..)` runs it.");
    if !complete {
        return text;
    }
    text += &format!("\n\n```text\n{}\n```\n", written(signature));
    let dims: Vec<String> = signature.dims.iter().map(|dim| format!("`{dim}`")).collect();
    if !dims.is_empty() {
        text += &format!("\nDims, numbers that come with each launch: {}.\n", dims.join(", "));
    }
    if !parsed.attribute.requires.is_empty() {
        let demands = parsed.attribute.requires.iter().map(|demand| format!("`{}`", plain(demand)));
        text += &format!("\nEach launch has to satisfy {}.\n", demands.collect::<Vec<_>>().join(" and "));
    }
    text + &instances(&parsed.kernel)
}

/// The signature as its author writes it, a parameter a line.
fn written(signature: &Signature<'_>) -> String {
    let types = signature.types.iter().map(plain);
    let consts =
        signature.consts.iter().map(|c| format!("const {}: {}", c.name, if c.is_bool { "bool" } else { "usize" }));
    let generics: Vec<String> = types.chain(consts).collect();
    let generics = if generics.is_empty() { String::new() } else { format!("<{}>", generics.join(", ")) };
    let params: Vec<String> =
        signature.params.iter().map(|p| format!("    {}: {},\n", p.name, of_param(&p.kind))).collect();
    format!("fn {}{generics}(\n{})", signature.name, params.concat())
}

/// A parameter's type as its author writes it.
pub(super) fn of_param(kind: &ParamKind<'_>) -> String {
    match kind {
        ParamKind::Tensor { written, option: Some(_), .. } => format!("Option<{}>", plain(written)),
        ParamKind::Tensor { written, .. } => plain(written),
        ParamKind::Scalar { ty } => plain(ty),
    }
}

/// Tokens without the spaces that their text has around punctuation.
fn plain(tokens: impl ToTokens) -> String {
    let text = tokens.to_token_stream().to_string();
    let tight = [
        (" :: ", "::"),
        (" ::", "::"),
        (":: ", "::"),
        (" : ", ": "),
        ("& ", "&"),
        ("( ", "("),
        (" )", ")"),
        (" ,", ","),
    ];
    let text = tight.iter().fold(text, |text, (from, to)| text.replace(from, to));
    // Of a type, not of a comparison.
    match text.contains("Tensor") || text.contains("Workspace") {
        true => [(" <", "<"), ("< ", "<"), (" >", ">")].iter().fold(text, |text, (from, to)| text.replace(from, to)),
        false => text,
    }
}

/// The declared instances as a table: a column for each parameter. Where every value of one goes with every value of the others
/// it is one row.
fn instances(kernel: &Kernel) -> String {
    let types = kernel.type_params.values().map(|p| p.name.as_str());
    let columns: Vec<&str> = types.chain(kernel.consts.values().map(|c| c.name.as_str())).collect();
    if columns.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = kernel
        .instances
        .iter()
        .map(|instance| {
            let dtypes = instance.dtypes.iter().map(ToString::to_string);
            let consts = kernel.consts.values().zip(&instance.consts).map(|(c, value)| match c.kind {
                ConstKind::Usize => value.to_string(),
                ConstKind::Bool => (*value != 0).to_string(),
            });
            dtypes.chain(consts).collect()
        })
        .collect();
    let rows = together(rows, columns.len(), kernel.type_params.len());
    let count = kernel.instances.len();
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head: Vec<String> = columns.iter().map(|name| format!("`{name}`")).collect();
    let table = format!(
        "{}|{}\n{}",
        line(&head),
        "---|".repeat(columns.len()),
        rows.iter().map(|r| line(r)).collect::<String>()
    );
    match rows.len() <= FOLDED {
        true => format!("\nIts instances, {count} in all:\n\n{table}"),
        false => format!("\n<details><summary>Its {count} instances</summary>\n\n{table}\n</details>\n"),
    }
}

/// Rows that differ in one column as one: in every column where all combinations are there, else in the first `first` columns.
fn together(rows: Vec<Vec<String>>, columns: usize, first: usize) -> Vec<Vec<String>> {
    let column = |index: usize| {
        let mut values: Vec<&String> = vec![];
        for value in rows.iter().filter_map(|row| row.get(index)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values
    };
    let listed = |values: Vec<&String>| values.into_iter().cloned().collect::<Vec<_>>().join(", ");
    let all: Vec<Vec<&String>> = (0..columns).map(column).collect();
    if all.iter().map(Vec::len).product::<usize>() == rows.len() {
        return vec![all.into_iter().map(listed).collect()];
    }
    let mut merged: Vec<(Vec<Vec<String>>, &[String])> = vec![];
    for row in &rows {
        let (dtypes, consts) = row.split_at(first.min(row.len()));
        match merged.iter_mut().find(|(_, known)| *known == consts) {
            Some((known, _)) => known.push(dtypes.to_vec()),
            None => merged.push((vec![dtypes.to_vec()], consts)),
        }
    }
    merged
        .into_iter()
        .flat_map(|(dtypes, consts)| match first {
            1 => vec![vec![dtypes.concat().join(", ")].into_iter().chain(consts.iter().cloned()).collect()],
            _ => dtypes.into_iter().map(|d| d.into_iter().chain(consts.iter().cloned()).collect()).collect::<Vec<_>>(),
        })
        .collect()
}
