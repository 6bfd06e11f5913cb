//! The commit and the day of a run.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// When a run began, and of what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// The commit, with a `+` where tracked files were changed; `unknown` outside of a repository.
    pub commit: String,
    /// The day, UTC: `2026-11-22`.
    pub date: String,
}

impl Stamp {
    /// This repository's state now. `TILE_SOAK_COMMIT` names the commit where there is no git.
    pub fn now() -> Stamp {
        Stamp { commit: commit(&root()).unwrap_or_else(|| "unknown".into()), date: today() }
    }
}

/// The repository's root, also where this program was built somewhere else and is run there.
pub fn root() -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    if built.join("ARCHITECTURE.md").is_file() { built.to_owned() } else { PathBuf::from(".") }
}

fn commit(root: &Path) -> Option<String> {
    if let Ok(named) = std::env::var("TILE_SOAK_COMMIT") {
        return Some(named);
    }
    let git = |args: &[&str]| {
        let output = Command::new("git").current_dir(root).args(args).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let head = git(&["rev-parse", "--short=10", "HEAD"])?;
    // What the soak itself writes is no change of what it runs.
    let changed = git(&["status", "--porcelain", "-uno", "--", ".", ":!bench/soak.json", ":!book/src/soak.md"])?;
    Some(if changed.is_empty() { head } else { format!("{head}+") })
}

fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    date(seconds / 86_400)
}

/// The day this many days after 1970-01-01, by counting years and months.
fn date(mut days: u64) -> String {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        for (days, expected) in [(0, "1970-01-01"), (59, "1970-03-01"), (19_782, "2024-02-29"), (20_779, "2026-11-22")]
        {
            assert_eq!(date(days), expected);
        }
    }
}
