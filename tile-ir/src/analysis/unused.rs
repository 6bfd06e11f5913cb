//! Memory that a kernel names and does not use: tensors that it may write and nothing writes, arrays that are filled and
//! nothing reads. It is read from the table of effects over the whole kernel, so what one instance uses is used.
//!
//! Of parameters and variables that no expression names rustc warns.

use crate::diag::{Code, Diagnostic};
use crate::ir::{Effect, ExprKind, Kernel, ParamKind, Place, StmtKind, effects};
use std::collections::HashSet;

/// The lint, for every tensor and array that it speaks of.
pub(super) fn find(kernel: &Kernel) -> Vec<Diagnostic> {
    let (mut read, mut written) = (HashSet::new(), HashSet::new());
    read.extend(kernel.exprs.values().filter_map(|expr| match expr.kind {
        ExprKind::Load(access) => Some(kernel.accesses[access].place),
        _ => None,
    }));
    for (stmt, data) in kernel.stmts.iter() {
        let all = effects(kernel, stmt);
        for effect in &all {
            match *effect {
                Effect::Write(place) => drop(written.insert(place)),
                // What accumulates is read to be written: nobody sees it yet.
                Effect::Read(place) if !all.contains(&Effect::Write(place)) => drop(read.insert(place)),
                Effect::Atomic(place) => {
                    written.insert(place);
                    if !matches!(data.kind, StmtKind::Atomic { dst: None, .. }) {
                        read.insert(place);
                    }
                }
                _ => {}
            }
        }
    }
    let tensors = kernel.params.iter().filter_map(|(id, param)| match param.kind {
        ParamKind::Tensor { mutable: true, .. } if !written.contains(&Place::Tensor(id)) => {
            let name = &param.name;
            let wrong = Diagnostic::new(Code::UNUSED, param.span, format!("nothing writes `{name}`, which is `&mut`"));
            let wrong = wrong.at("a launch leaves it as it was");
            Some(wrong.help(format!("store to `{name}`, or take it as `&Tensor<..>`")))
        }
        _ => None,
    });
    let arrays = kernel.buffers.iter().filter_map(|(id, buffer)| {
        let (name, place) = (&buffer.name, Place::Buffer(id));
        (written.contains(&place) && !read.contains(&place)).then(|| {
            let wrong =
                Diagnostic::new(Code::UNUSED, buffer.span, format!("`{name}` is written, and nothing reads it"));
            let wrong = wrong.at("what is computed into it is lost");
            wrong.help(format!("use `{name}`, or remove it with what fills it"))
        })
    });
    tensors.chain(arrays).collect()
}
