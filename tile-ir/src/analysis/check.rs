//! Everything reported at expansion, over all declared instances.

use super::{Analysis, anywhere, budget, lints, unused};
use crate::diag::{Code, Diagnostic};
use crate::ir::{BoundKernel, Dtype, Instance, Kernel, ParamId, ParamKind, SpanId, Target};
use std::collections::{BTreeMap, BTreeSet};

/// Combinations of instances and targets analysed; of the rest, those that differ in a constant from all analysed.
const COMBINATIONS: usize = 40;

/// Everything reported at expansion: the verifier's rules, then the analysis of every declared instance on every
/// declared target. One diagnostic a mistake; where instances differ, it names the first that fails. What is illegal on
/// some targets only is not an error here: such an instance is not offered there.
/// A declared target that no instance can be launched on is a lint.
///
/// Instances whose dtypes have the same size and kind are analysed once. Of more than 40 combinations, the first 40
/// and those with a constant not seen before are analysed, and a diagnostic says so.
pub fn check(kernel: &Kernel) -> Vec<Diagnostic> {
    let mut all = crate::verify::kernel(kernel);
    if !all.is_empty() {
        return all;
    }
    let targets: &[Target] = if kernel.targets.is_empty() { &Target::ALL } else { &kernel.targets };
    let chosen = chosen(kernel, targets.len());
    let skipped = kernel.instances.len() - chosen.iter().map(|c| c.1).sum::<usize>();
    // By what is wrong and where: the first failing instance, and how many fail.
    let mut found: BTreeMap<(SpanId, Code), (usize, Diagnostic, String)> = BTreeMap::new();
    // Declared instances have every optional tensor; each is looked at without any of them too.
    let optional: Vec<ParamId> = kernel
        .params
        .iter()
        .filter(|(_, p)| matches!(p.kind, ParamKind::Tensor { optional: true, .. }))
        .map(|(id, _)| id)
        .collect();
    let without = |instance: &Instance| Instance { absent: optional.clone(), ..instance.clone() };
    let bare: Vec<(Instance, usize)> = match optional.is_empty() {
        true => Vec::new(),
        false => chosen.iter().map(|(instance, _)| (without(instance), 0)).collect(),
    };
    let mut refused = Refused::default();
    for (instance, alike) in chosen.iter().map(|(i, n)| (*i, n)).chain(bare.iter().map(|(i, n)| (i, n))) {
        let diagnostics = match crate::lower::bind_ahead(kernel, instance) {
            Err(diagnostics) => diagnostics,
            // Checked when its dims have values: see `lower`.
            Ok(None) => vec![],
            Ok(Some(bound)) => {
                let mut analysis = anywhere(&bound);
                let mut diagnostics = std::mem::take(&mut analysis.diagnostics);
                let lints = std::mem::take(&mut analysis.lints);
                if diagnostics.is_empty() {
                    let each: Vec<_> = targets.iter().map(|t| on_target(&bound, &analysis, *t)).collect();
                    if each.iter().all(|d| !d.is_empty()) {
                        // The target that allows most: what does not fit there fits nowhere.
                        diagnostics.extend(each.into_iter().last().unwrap_or_default());
                    } else {
                        refused.add(targets, each);
                    }
                }
                // What is wrong first: a guard that is missing may be a mistake's other face.
                if diagnostics.is_empty() {
                    diagnostics.extend(lints);
                }
                diagnostics
            }
        };
        for diagnostic in diagnostics {
            let known = found
                .entry((diagnostic.primary, diagnostic.code))
                .or_insert_with(|| (0, diagnostic, named(kernel, instance)));
            known.0 += alike;
        }
    }
    if found.is_empty() {
        all.extend(refused.lints(kernel, chosen.len() + bare.len()));
    }
    // What is wrong first: a store that is refused may be the missing one.
    if found.values().all(|(_, diagnostic, _)| diagnostic.code.is_lint()) {
        all.extend(unused::find(kernel));
    }
    let total = kernel.instances.len();
    for (fails, mut diagnostic, instance) in found.into_values() {
        if !instance.is_empty() {
            let others = if fails > 1 { format!(" ({fails} of {total} instances fail here)") } else { String::new() };
            diagnostic = diagnostic.note(format!("for {instance}{others}"));
        }
        if skipped > 0 {
            diagnostic = diagnostic.note(format!("{skipped} of {total} instances were not checked here"));
        }
        all.push(diagnostic);
    }
    all.sort_by_key(|d| kernel.spans.get(d.primary).map(|s| (s.line, s.column)));
    all
}

/// What is wrong with an instance on one target: what it uses, how its tiles lie, what lowering adds.
fn on_target(bound: &BoundKernel, analysis: &Analysis, target: Target) -> Vec<Diagnostic> {
    let diagnostics = budget::on_target(bound, target);
    if diagnostics.is_empty() { crate::lower::refusals(bound, analysis, target) } else { diagnostics }
}

/// The targets that instances cannot be launched on, though on others they can.
#[derive(Default)]
struct Refused(BTreeMap<usize, (Target, usize, Diagnostic)>);

impl Refused {
    fn add(&mut self, targets: &[Target], each: Vec<Vec<Diagnostic>>) {
        for (at, (target, diagnostics)) in targets.iter().zip(each).enumerate() {
            if let Some(diagnostic) = diagnostics.into_iter().next() {
                self.0.entry(at).or_insert((*target, 0, diagnostic)).1 += 1;
            }
        }
    }

    /// A target on which none of `all` instances can be launched is declared for nothing. Where only some cannot, which is
    /// what instances are for, the author is told who asks.
    fn lints(self, kernel: &Kernel, all: usize) -> Vec<Diagnostic> {
        let asked = lints::enabled(kernel, Code::TARGET_REFUSED);
        let told = self.0.into_values().filter(|(_, count, _)| *count == all || asked);
        let lint = |(target, count, wrong): (Target, usize, Diagnostic)| {
            let who = match (count == all, all) {
                (true, 1) => "this kernel".to_owned(),
                (true, _) => "no instance of this kernel".to_owned(),
                (false, _) => format!("{count} of {all} instances"),
            };
            let can = if count == all && all > 1 { "can" } else { "cannot" };
            let message = format!("{who} {can} be launched on {target}, a declared target");
            let others: Vec<&str> = Target::ALL.iter().filter(|t| **t != target).map(|t| t.name()).collect();
            let mut lint = Diagnostic::new(Code::TARGET_REFUSED, wrong.primary, message);
            lint.at = wrong.message;
            lint.labels = wrong.labels;
            if !wrong.at.is_empty() {
                lint.notes.push(wrong.at);
            }
            lint.notes.extend(wrong.notes);
            if let Some(help) = wrong.help {
                lint.notes.push(help);
            }
            lint.help(format!("declare where it runs: `targets({})`", others.join(", ")))
        };
        told.map(lint).collect()
    }
}

/// The instances to analyse, each with how many it stands for.
fn chosen(kernel: &Kernel, targets: usize) -> Vec<(&Instance, usize)> {
    let mut classes: Vec<(&Instance, usize)> = Vec::new();
    let mut seen: BTreeMap<_, usize> = BTreeMap::new();
    for instance in &kernel.instances {
        let class = (instance.dtypes.iter().map(|d| class(*d)).collect::<Vec<_>>(), instance.consts.as_slice());
        match seen.get(&class) {
            Some(&at) => classes[at].1 += 1,
            None => {
                seen.insert(class, classes.len());
                classes.push((instance, 1));
            }
        }
    }
    let most = COMBINATIONS / targets.max(1);
    let mut values: BTreeSet<(usize, i64)> = BTreeSet::new();
    classes
        .into_iter()
        .enumerate()
        .filter(|(at, (instance, _))| {
            // Inserts all of them: no short circuit.
            let new = instance.consts.iter().enumerate().filter(|(i, c)| values.insert((*i, **c))).count();
            *at < most || new > 0
        })
        .map(|(_, class)| class)
        .collect()
}

/// What checks see of a dtype: its size and kind, the range of whole numbers, and whether it has arithmetic. Floats of one size are
/// alike.
fn class(dtype: Dtype) -> (u32, bool, Option<(i64, i64)>, bool) {
    (dtype.bytes(), dtype.is_number(), dtype.range(), dtype.has_arithmetic())
}

/// `T = f32, ROWS = 16`.
fn named(kernel: &Kernel, instance: &Instance) -> String {
    let dtypes = kernel.type_params.values().zip(&instance.dtypes).map(|(p, d)| format!("{} = {d}", p.name));
    let consts = kernel.consts.values().zip(&instance.consts).map(|(p, c)| match p.kind {
        crate::ir::ConstKind::Usize => format!("{} = {c}", p.name),
        crate::ir::ConstKind::Bool => format!("{} = {}", p.name, *c != 0),
    });
    dtypes.chain(consts).collect::<Vec<_>>().join(", ")
}
