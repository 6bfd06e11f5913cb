//! Names as printed: the author's, with a number where another of the same name is in scope.

use crate::ir::{BufferId, Kernel, SecondaryMap, VarId};
use std::collections::BTreeMap;

/// The names in scope.
#[derive(Default)]
pub(super) struct Names {
    vars: SecondaryMap<VarId, Option<String>>,
    buffers: SecondaryMap<BufferId, Option<String>>,
    /// How many of a name are in scope.
    live: BTreeMap<String, u32>,
    /// What each open scope declared.
    scopes: Vec<Vec<String>>,
}

impl Names {
    /// The author's names of all variables and arrays, whatever is in scope.
    pub(super) fn of_author(kernel: &Kernel) -> Names {
        let mut names = Names::default();
        kernel.vars.iter().for_each(|(var, data)| names.vars[var] = Some(data.name.clone()));
        kernel.buffers.iter().for_each(|(buffer, data)| names.buffers[buffer] = Some(data.name.clone()));
        names
    }

    pub(super) fn open(&mut self) {
        self.scopes.push(Vec::new());
    }

    pub(super) fn close(&mut self) {
        for name in self.scopes.pop().unwrap_or_default() {
            if let Some(count) = self.live.get_mut(&name) {
                *count -= 1;
            }
        }
    }

    /// A name that is taken until the scope closes.
    pub(super) fn reserve(&mut self, name: &str) -> String {
        let mut printed = name.to_owned();
        let mut number = 1;
        while self.live.get(&printed).is_some_and(|count| *count > 0) {
            number += 1;
            printed = format!("{name}_{number}");
        }
        *self.live.entry(printed.clone()).or_default() += 1;
        if let Some(scope) = self.scopes.last_mut() {
            scope.push(printed.clone());
        }
        printed
    }

    /// Declares a variable; an empty name becomes its id.
    pub(super) fn declare(&mut self, var: VarId, name: &str) -> String {
        let printed = if name.is_empty() { self.reserve(&var.to_string()) } else { self.reserve(name) };
        self.vars[var] = Some(printed.clone());
        printed
    }

    pub(super) fn declare_buffer(&mut self, buffer: BufferId, name: &str) -> String {
        let printed = if name.is_empty() { self.reserve(&buffer.to_string()) } else { self.reserve(name) };
        self.buffers[buffer] = Some(printed.clone());
        printed
    }

    /// A variable's name, if it was declared.
    pub(super) fn var(&self, var: VarId) -> Option<&str> {
        self.vars[var].as_deref()
    }

    pub(super) fn buffer(&self, buffer: BufferId) -> Option<&str> {
        self.buffers[buffer].as_deref()
    }
}
