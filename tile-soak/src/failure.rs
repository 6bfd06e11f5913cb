//! A failing case as a file that can be replayed.

use crate::part::{Case, Failure, Outcome, Part, Shrunk};
use crate::{parts, runner};
use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// What `failures/<part>-<case>.json` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureFile {
    /// The part.
    pub part: String,
    /// The case's number.
    pub case: u64,
    /// The run's seed.
    pub seed: u64,
    /// The commit that it failed on.
    pub commit: String,
    /// The case's class.
    pub class: String,
    /// What went wrong, line by line.
    pub message: Vec<String>,
    /// What the part replays, made as small as the part can, line by line; none where the number is all it takes.
    pub input: Option<Vec<String>>,
    /// The small case's kernel, a file beside this one: `cargo xtask opt failures/<part>-<case>.tile`.
    #[serde(skip)]
    pub tile: Option<String>,
}

impl FailureFile {
    /// A failure of a part's case, shrunk.
    pub fn new(part: &dyn Part, case: Case, class: &str, failure: &Failure, commit: &str) -> FailureFile {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        // A shrinker that panics leaves the case as it is.
        let as_it_is = || Shrunk { input: failure.input.clone(), tile: None };
        let shrunk = runner::guarded(|| part.shrink(case, failure)).unwrap_or_else(|_| as_it_is());
        FailureFile {
            part: part.name().into(),
            case: case.number,
            seed: case.seed,
            commit: commit.into(),
            class: class.into(),
            message: lines(&failure.message),
            input: shrunk.input.as_deref().map(lines),
            // A program that is refused may have left no whole kernel.
            tile: shrunk.tile.filter(|text| tile_ir::text::parse_kernel(text).is_ok()),
        }
    }

    /// Writes it into a folder, under a name made of its part and number, and its kernel beside it.
    ///
    /// # Errors
    /// The folder or the file cannot be written.
    pub fn save(&self, folder: &Path) -> Result<PathBuf> {
        let path = folder.join(format!("{}-{}.json", self.part, self.case));
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, format!("{:#}\n", serde_json::json!(self))))
            .with_context(|| format!("could not write {}", path.display()))?;
        if let Some(tile) = &self.tile {
            let path = path.with_extension("tile");
            fs::write(&path, tile).with_context(|| format!("could not write {}", path.display()))?;
        }
        Ok(path)
    }

    /// Reads one.
    ///
    /// # Errors
    /// It cannot be read, or is no such file.
    pub fn load(path: &Path) -> Result<FailureFile> {
        let text = fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is no failure of the soak", path.display()))
    }

    /// Runs it again.
    ///
    /// # Errors
    /// There is no such part.
    pub fn replay(&self) -> Result<Outcome> {
        let part = parts::named(&self.part).ok_or_else(|| anyhow!("no part is called `{}`", self.part))?;
        let case = Case { number: self.case, seed: self.seed };
        let input = self.input.as_ref().map(|lines| lines.join("\n"));
        Ok(runner::guarded(|| part.replay(case, input.as_deref()))
            .unwrap_or_else(|panic| Outcome::failed(self.class.clone(), panic)))
    }
}
