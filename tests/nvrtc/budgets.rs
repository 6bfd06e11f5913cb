//! What programs use, and what they may use.

use crate::root;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Registers a thread that a device gives out together: 256 a warp. Within one such unit a program holds no more of a multiprocessor.
/// Source: CUDA C++ Best Practices Guide, "Calculating Occupancy". ptxas itself is not steady: one f32 product took 106 registers by
/// itself, and 107 and 109 among a thousand other programs of its process; another one 111 and 115.
const REGISTER_UNIT: u32 = 8;

/// One program, as one version of NVRTC compiled it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Kernel, instance and target: `gemv f16 ROWS=8 sm_90a`.
    pub program: String,
    /// What stands for all that its machine code is made of.
    pub text: String,
    /// What it uses.
    pub uses: Uses,
    /// Bytes spilled, stores and loads.
    pub spilled: u32,
    /// 16-byte loads from global memory in the lowered program.
    pub wide_loads: usize,
    /// 128-bit loads from global memory in the machine code.
    pub wide_load_instructions: usize,
    /// Lines of the log that speak of lost performance.
    pub complaints: Vec<String>,
}

/// What a program uses: what is budgeted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uses {
    /// Registers a thread.
    pub registers: u32,
    /// Bytes of stack a thread.
    pub stack_bytes: u32,
    /// Bytes of shared memory a block.
    pub shared_bytes: u32,
}

impl Uses {
    /// What is over `budget`, as (what, used, allowed): registers in the units that a device gives out.
    fn over(&self, budget: &Uses) -> Vec<(&'static str, u32, u32)> {
        let compared = [
            ("registers", self.registers, budget.registers, REGISTER_UNIT),
            ("bytes of stack", self.stack_bytes, budget.stack_bytes, 1),
            ("bytes of shared memory", self.shared_bytes, budget.shared_bytes, 1),
        ];
        let over =
            compared.into_iter().filter(|(_, used, allowed, unit)| used.div_ceil(*unit) > allowed.div_ceil(*unit));
        over.map(|(what, used, allowed, _)| (what, used, allowed)).collect()
    }
}

impl Measured {
    /// What is wrong with it, whatever its budget.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.spilled > 0 {
            problems.push(format!("{} spills {} bytes", self.program, self.spilled));
        }
        if self.wide_loads > 0 && self.wide_load_instructions == 0 {
            problems.push(format!(
                "{} has {} 16-byte loads from global memory, its machine code none of 128 bits",
                self.program, self.wide_loads
            ));
        }
        problems.extend(self.complaints.iter().map(|line| format!("{}: {line}", self.program)));
        problems
    }
}

/// A program's line in the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    /// What it may use.
    #[serde(flatten)]
    uses: Uses,
    /// What stands for all that the machine code was made of that this was measured on.
    text: String,
}

/// The table: a line a program.
#[derive(Debug, Serialize, Deserialize)]
pub struct Budgets(BTreeMap<String, Row>);

impl Budgets {
    /// The most that each program uses under any version.
    pub fn of(measured: &[Measured]) -> Budgets {
        let mut table: BTreeMap<String, Row> = BTreeMap::new();
        for Measured { program, uses, text, .. } in measured {
            let row = table.entry(program.clone()).or_insert(Row { uses: *uses, text: text.clone() });
            row.uses.registers = row.uses.registers.max(uses.registers);
            row.uses.stack_bytes = row.uses.stack_bytes.max(uses.stack_bytes);
            row.uses.shared_bytes = row.uses.shared_bytes.max(uses.shared_bytes);
        }
        Budgets(table)
    }

    fn path() -> PathBuf {
        root().join("tests/nvrtc/budgets.json")
    }

    /// The committed table.
    pub fn committed() -> Budgets {
        let path = Budgets::path();
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Writes it, a line a program, so that a diff reads well.
    pub fn commit(&self) {
        let rows =
            self.0.iter().map(|(program, row)| format!("  {program:?}: {}", serde_json::to_string(row).unwrap()));
        let text = format!("{{\n{}\n}}\n", rows.collect::<Vec<_>>().join(",\n"));
        let path = Budgets::path();
        std::fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// [`Measured::text`] of what a program's budget was measured on, where it has one.
    pub fn text(&self, program: &str) -> Option<&str> {
        self.0.get(program).map(|row| row.text.as_str())
    }

    /// This table with what was measured anew, of the programs that there are. What has a problem keeps the line that it had, or none: it
    /// is not what was measured then, so that it is compiled until it has none.
    pub fn updated(mut self, measured: &[Measured], programs: &BTreeSet<String>) -> Budgets {
        let wrong = |program: &String| measured.iter().any(|one| one.program == *program && !one.problems().is_empty());
        self.0.extend(Budgets::of(measured).0.into_iter().filter(|(program, _)| !wrong(program)));
        self.0.retain(|program, _| programs.contains(program));
        self
    }

    /// Whether a program uses more than its budget, where it has one.
    pub fn is_exceeded_by(&self, one: &Measured) -> bool {
        self.0.get(&one.program).is_some_and(|budget| !one.uses.over(&budget.uses).is_empty())
    }

    /// What in `found` is over these budgets or has none, and what here is none of these programs.
    pub fn exceeded_by(&self, found: &Budgets, programs: &BTreeSet<String>) -> Vec<String> {
        const UPDATE: &str = "if that is meant, UPDATE_BUDGETS=changed";
        let mut problems = Vec::new();
        for (program, row) in &found.0 {
            let Some(budget) = self.0.get(program) else {
                problems.push(format!("{program} has no budget; {UPDATE}"));
                continue;
            };
            for (what, used, allowed) in row.uses.over(&budget.uses) {
                problems.push(format!("{program} uses {used} {what}, its budget is {allowed}; {UPDATE}"));
            }
        }
        let gone = self.0.keys().filter(|program| !programs.contains(*program));
        problems.extend(gone.map(|program| format!("{program} has a budget and does not exist; {UPDATE}")));
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(program: &str, registers: u32) -> Measured {
        let uses = Uses { registers, stack_bytes: 0, shared_bytes: 1024 };
        let (text, complaints) = (format!("text of {program}"), Vec::new());
        let program = program.into();
        Measured { program, text, uses, spilled: 0, wide_loads: 1, wide_load_instructions: 1, complaints }
    }

    fn programs(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn more_than_the_budget_a_new_program_and_a_lost_one_are_problems() {
        let budgets = Budgets::of(&[measured("a", 30), measured("a", 32), measured("b", 1)]);
        let found = Budgets::of(&[measured("a", 33), measured("new", 1)]);
        let problems = budgets.exceeded_by(&found, &programs(&["a", "new"])).join("\n");
        for part in ["a uses 33 registers, its budget is 32", "new has no budget", "b has a budget and does not exist"]
        {
            assert!(problems.contains(part), "{problems}");
        }
        let all = programs(&["a", "b"]);
        let exceeded = |measured: &[Measured]| budgets.exceeded_by(&Budgets::of(measured), &all).len();
        assert_eq!(exceeded(&[measured("a", 31)]), 0, "what was not compiled keeps its budget");
        assert_eq!(exceeded(&[measured("a", 32), measured("b", 8)]), 0, "one unit");
        assert_eq!(exceeded(&[measured("a", 32), measured("b", 9)]), 1);
    }

    #[test]
    fn an_update_keeps_what_was_not_measured_and_forgets_what_is_gone() {
        let budgets = Budgets::of(&[measured("a", 30), measured("b", 1), measured("gone", 2), measured("spilling", 4)]);
        assert_eq!((budgets.text("a"), budgets.text("new")), (Some("text of a"), None));
        let anew = |program: &str, spilled| Measured { spilled, text: "anew".into(), ..measured(program, 9) };
        let all = programs(&["a", "b", "new", "spilling", "spilling and new"]);
        // By two versions, of which one spills.
        let found =
            [anew("b", 0), anew("new", 0), anew("spilling", 8), anew("spilling", 0), anew("spilling and new", 8)];
        let updated = budgets.updated(&found, &all);
        let expected = Budgets::of(&[measured("a", 30), anew("b", 0), anew("new", 0), measured("spilling", 4)]);
        assert_eq!(updated.0, expected.0);
    }

    #[test]
    fn spills_narrow_loads_and_complaints_are_problems() {
        assert!(measured("a", 1).problems().is_empty());
        let bad = Measured {
            spilled: 8,
            wide_load_instructions: 0,
            complaints: vec!["Potential Performance Loss: x".into()],
            ..measured("a", 1)
        };
        assert_eq!(bad.problems().len(), 3);
    }
}
