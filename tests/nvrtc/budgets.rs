//! What programs use, and what they may use.

use crate::compile::is_drawn;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Registers a thread that a device gives out together: 256 a warp. Within one such unit a program holds no more of a multiprocessor.
/// Source: CUDA C++ Best Practices Guide, "Calculating Occupancy". ptxas itself is not steady: one f32 product took 106 registers by
/// itself, and 107 and 109 among a thousand other programs of its process; another one 111 and 115.
const REGISTER_UNIT: u32 = 8;

/// One program, as one version of NVRTC compiled it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Kernel, instance and target: `gemv f16 ROWS=8 sm_90a`.
    pub program: String,
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

/// The table: a line a program.
#[derive(Debug, Serialize, Deserialize)]
pub struct Budgets(BTreeMap<String, Uses>);

impl Budgets {
    /// The most that each program uses under any version.
    pub fn of(measured: &[Measured]) -> Budgets {
        let mut table: BTreeMap<String, Uses> = BTreeMap::new();
        for Measured { program, uses, .. } in measured {
            let entry = table.entry(program.clone()).or_insert(*uses);
            entry.registers = entry.registers.max(uses.registers);
            entry.stack_bytes = entry.stack_bytes.max(uses.stack_bytes);
            entry.shared_bytes = entry.shared_bytes.max(uses.shared_bytes);
        }
        Budgets(table)
    }

    /// Reads the committed table.
    pub fn read(path: &Path) -> Budgets {
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Writes it, a line a program, so that a diff reads well.
    pub fn write(&self, path: &Path) {
        let rows =
            self.0.iter().map(|(program, uses)| format!("  {program:?}: {}", serde_json::to_string(uses).unwrap()));
        let text = format!("{{\n{}\n}}\n", rows.collect::<Vec<_>>().join(",\n"));
        std::fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// Whether a program uses more than its budget, where it has one.
    pub fn is_exceeded_by(&self, one: &Measured) -> bool {
        self.0.get(&one.program).is_some_and(|budget| !one.uses.over(budget).is_empty())
    }

    /// What in `found` is over these budgets or has none, and what here is no longer there.
    pub fn exceeded_by(&self, found: &Budgets) -> Vec<String> {
        const UPDATE: &str = "if that is meant, UPDATE_BUDGETS=1";
        let mut problems = Vec::new();
        for (program, uses) in &found.0 {
            let Some(budget) = self.0.get(program) else {
                problems.push(format!("{program} has no budget; {UPDATE}"));
                continue;
            };
            for (what, used, allowed) in uses.over(budget) {
                problems.push(format!("{program} uses {used} {what}, its budget is {allowed}; {UPDATE}"));
            }
        }
        let gone = self.0.keys().filter(|program| is_drawn(program, false) && !found.0.contains_key(*program));
        problems.extend(gone.map(|program| format!("{program} has a budget and does not exist; {UPDATE}")));
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(program: &str, registers: u32) -> Measured {
        let uses = Uses { registers, stack_bytes: 0, shared_bytes: 1024 };
        let complaints = Vec::new();
        Measured { program: program.into(), uses, spilled: 0, wide_loads: 1, wide_load_instructions: 1, complaints }
    }

    #[test]
    fn more_than_the_budget_a_new_program_and_a_lost_one_are_problems() {
        let budgets = Budgets::of(&[measured("a", 30), measured("a", 32), measured("lost", 1)]);
        let found = Budgets::of(&[measured("a", 33), measured("new", 1)]);
        let problems = budgets.exceeded_by(&found).join("\n");
        for part in
            ["a uses 33 registers, its budget is 32", "new has no budget", "lost has a budget and does not exist"]
        {
            assert!(problems.contains(part), "{problems}");
        }
        assert!(budgets.exceeded_by(&Budgets::of(&[measured("a", 31), measured("lost", 1)])).is_empty());
        assert!(budgets.exceeded_by(&Budgets::of(&[measured("a", 32), measured("lost", 8)])).is_empty(), "one unit");
        assert_eq!(budgets.exceeded_by(&Budgets::of(&[measured("a", 32), measured("lost", 9)])).len(), 1);
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
