//! The committed summary of the last soak, and the table that the book shows of it.

use crate::part::Part;
use crate::progress::Progress;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Where the summary is, from the repository's root.
pub const JSON: &str = "bench/soak.json";

/// The page with the table.
pub const PAGE: &str = "book/src/soak.md";

const BEGIN: &str = "<!-- made by `cargo xtask soak --record` -->";
const END: &str = "<!-- end -->";

/// The last recorded run of each part, by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Summary {
    /// By the part's name.
    pub parts: BTreeMap<String, Progress>,
}

impl Summary {
    /// The committed one; an empty one where there is none yet.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn load(root: &Path) -> Result<Summary> {
        let path = root.join(JSON);
        if !path.exists() {
            return Ok(Summary::default());
        }
        let text = fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is not the soak's summary", path.display()))
    }

    /// Writes it, and the book's table.
    ///
    /// # Errors
    /// A file cannot be written, or the page has no place for the table.
    pub fn save(&self, root: &Path, parts: &[&dyn Part]) -> Result<()> {
        let page = fs::read_to_string(root.join(PAGE)).with_context(|| format!("could not read {PAGE}"))?;
        let page = self.placed(&page, parts).with_context(|| format!("{PAGE} has no `{BEGIN}` .. `{END}`"))?;
        fs::write(root.join(JSON), format!("{}\n", serde_json::to_string_pretty(self)?))
            .with_context(|| format!("could not write {JSON}"))?;
        fs::write(root.join(PAGE), page).with_context(|| format!("could not write {PAGE}"))
    }

    /// The page with this summary's tables in the place for them; `None` where it has no such place.
    pub fn placed(&self, page: &str, parts: &[&dyn Part]) -> Option<String> {
        let (before, rest) = page.split_once(BEGIN)?;
        let (_, after) = rest.split_once(END)?;
        Some(format!("{before}{BEGIN}\n\n{}\n{END}{after}", self.tables(parts)))
    }

    /// A table of the parts that were recorded, and one of classes for each part that has several.
    fn tables(&self, parts: &[&dyn Part]) -> String {
        let mut text =
            String::from("| part | what | cases | failed | seconds | commit | day |\n|---|---|---|---|---|---|---|\n");
        for part in parts {
            let (name, about) = (part.name(), part.about());
            let Some(run) = self.parts.get(name) else { continue };
            let (commit, date) = (&run.stamp.commit, &run.stamp.date);
            let (cases, failed) = (run.cases, run.failed);
            text += &format!("| `{name}` | {about} | {cases} | {failed} | {:.0} | {commit} | {date} |\n", run.seconds);
        }
        for part in parts {
            let run = self.parts.get(part.name()).filter(|run| run.classes.len() > 1);
            text += &run
                .map(|run| format!("\n**{}**, cases by class and end:\n\n{}", part.name(), classes(run)))
                .unwrap_or_default();
        }
        text
    }
}

/// A row a class, a column an end.
pub fn classes(run: &Progress) -> String {
    let ends = run.ends();
    let row = |name: &str, counts: &dyn Fn(&str) -> u64| {
        let all: u64 = ends.keys().map(|end| counts(end)).sum();
        let cells: String = ends.keys().map(|end| format!(" {} |", counts(end))).collect();
        format!("| {name} | {all} |{cells}\n")
    };
    let heads: String = ends.keys().map(|end| format!(" {end} |")).collect();
    let mut text = format!("| class | cases |{heads}\n|---|---|{}\n", "---|".repeat(ends.len()));
    for (class, counts) in &run.classes {
        text += &row(class, &|end| counts.get(end).copied().unwrap_or(0));
    }
    if run.classes.len() > 1 {
        text += &row("**all**", &|end| ends.get(end).copied().unwrap_or(0));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Outcome;
    use crate::stamp::Stamp;

    #[test]
    fn classes_are_rows_and_ends_are_columns() {
        let mut run = Progress::new("p", Stamp::default(), 0);
        run.count(0, &Outcome::passed("guards", "typing"), 0.1);
        run.count(1, &Outcome::passed("guards", "checked"), 0.3);
        run.count(2, &Outcome::failed("barriers", "no\nmore"), 0.2);
        let expected = "| class | cases | checked | failed | typing |\n|---|---|---|---|---|\n\
            | barriers | 1 | 0 | 1 | 0 |\n| guards | 2 | 1 | 0 | 1 |\n| **all** | 3 | 1 | 1 | 1 |\n";
        assert_eq!(classes(&run), expected);
        assert_eq!((run.slowest.case, run.failures[0].message.as_str()), (1, "no"));
    }
}
