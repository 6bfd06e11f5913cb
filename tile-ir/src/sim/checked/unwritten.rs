//! Elements of outputs that no thread wrote: looked for when everything has run, in the shadow that every write leaves.

use super::AccessKind;
use super::launch::View;
use super::schedule::Machine;
use crate::diag::{Code, Diagnostic};
use crate::ir::{EntityRef, SpanId};
use crate::lowered::{Space, TensorInfo};

impl Machine<'_> {
    /// Reports outputs that are not written whole. After any other mistake, what was left out is its consequence.
    pub(super) fn unwritten(&mut self) {
        if !self.options.whole_outputs || self.stopped.is_some() || !self.reporter.is_empty() {
            return;
        }
        for info in self.program.tensors.iter().filter(|t| t.output) {
            let space = Space::Global(info.param);
            let store = self.code.sites.iter().find(|s| s.space == space && s.kind == AccessKind::Write);
            let view = self.launch.views.get(info.param.index()).and_then(Option::as_ref);
            if let (Some(store), Some(view)) = (store, view) {
                self.unwritten_elements(info, view, store.span);
            }
        }
    }

    fn unwritten_elements(&mut self, info: &TensorInfo, view: &View, span: SpanId) {
        let shadow = &self.globals[view.allocation];
        let (grain, bytes) = (self.launch.allocations[view.allocation].grain as usize, view.dtype.bytes() as usize);
        let count = view.shape.iter().map(|e| *e as u64).product::<u64>();
        let mut index = vec![0i64; view.shape.len()];
        let (mut left_out, mut first) = (0u64, None);
        for _ in 0..count {
            let offset = index.iter().zip(&view.strides).map(|(i, stride)| i * stride).sum();
            let byte = view.byte(offset);
            if !(byte / grain..(byte + bytes) / grain).all(|cell| shadow.is_written(cell)) {
                left_out += 1;
                first.get_or_insert_with(|| index.clone());
            }
            for (i, extent) in index.iter_mut().zip(&view.shape).rev() {
                *i += 1;
                if *i < *extent {
                    break;
                }
                *i = 0;
            }
        }
        let (Some(first), name) = (first, &info.name) else { return };
        let key = (Code::UNWRITTEN, span, None);
        if self.reporter.is_known(key, 0) {
            return;
        }
        let shown: Vec<String> = first.iter().map(i64::to_string).collect();
        let element = match shown.as_slice() {
            [one] => format!("{name}[{one}]"),
            all => format!("{name}[[{}]]", all.join(", ")),
        };
        let message = match left_out {
            n if n == count => format!("no thread wrote to `{name}`"),
            n => format!("{n} of the {count} elements of `{name}` were not written"),
        };
        let diagnostic = Diagnostic::new(Code::UNWRITTEN, span, message)
            .at(format!("no store reached {element}; after the launch it holds what it held before"))
            .note(format!("the grid has {:?} blocks of {:?} threads", self.launch.grid, self.launch.threads))
            .help(format!(
                "let blocks and threads cover `{name}`; where the rest is meant to stay as it is, write `partial({name})` in \
                 `#[tile_kernel(..)]`"
            ));
        self.reporter.describe(key, 0, diagnostic);
    }
}
