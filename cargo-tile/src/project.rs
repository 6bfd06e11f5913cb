//! The package that is meant, its targets, and the cargo that checks it.

use crate::cli::Where;
use crate::process::{output, spell};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A package.
pub struct Project {
    /// Its name.
    pub name: String,
    manifest: PathBuf,
    /// Cargo's target folder.
    pub target_folder: PathBuf,
    /// The targets that are meant.
    pub targets: Vec<Target>,
    features: Vec<String>,
}

/// One of its targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub name: String,
}

/// What a target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A library.
    Lib,
    /// A binary.
    Bin,
    /// An example.
    Example,
    /// An integration test.
    Test,
}

impl Target {
    /// The arguments that choose it.
    pub fn arguments(&self) -> Vec<String> {
        match self.kind {
            Kind::Lib => vec!["--lib".into()],
            Kind::Bin => vec!["--bin".into(), self.name.clone()],
            Kind::Example => vec!["--example".into(), self.name.clone()],
            Kind::Test => vec!["--test".into(), self.name.clone()],
        }
    }

    /// Its crate's name, as rustc has it.
    pub fn crate_name(&self) -> String {
        self.name.replace('-', "_")
    }

    /// In words.
    pub fn words(&self) -> String {
        match self.kind {
            Kind::Lib => "library".into(),
            Kind::Bin => format!("binary {}", self.name),
            Kind::Example => format!("example {}", self.name),
            Kind::Test => format!("test {}", self.name),
        }
    }
}

/// Cargo, as the user runs it.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

impl Project {
    /// The project of a command line.
    pub fn find(place: &Where) -> Result<Project> {
        let mut metadata = cargo();
        metadata.args(["metadata", "--no-deps", "--format-version", "1"]);
        if let Some(path) = &place.manifest_path {
            metadata.arg("--manifest-path").arg(path);
        }
        let metadata: Value = serde_json::from_str(&output(&mut metadata)?).context("cargo metadata")?;
        let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
        let package = match &place.package {
            Some(name) => packages.iter().find(|package| package["name"] == **name).with_context(|| {
                let names: Vec<&str> = packages.iter().filter_map(|p| p["name"].as_str()).collect();
                format!("there is no package `{name}`; this workspace has {}", names.join(", "))
            })?,
            None => own(place, packages)?,
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut features = Vec::new();
        for (given, flag) in
            [(place.all_features, "--all-features"), (place.no_default_features, "--no-default-features")]
        {
            if given {
                features.push(flag.to_owned());
            }
        }
        features.extend(place.features.iter().flat_map(|feature| ["--features".to_owned(), feature.clone()]));
        Ok(Project {
            name: text(&package["name"]),
            manifest: PathBuf::from(text(&package["manifest_path"])),
            target_folder: PathBuf::from(text(&metadata["target_directory"])),
            targets: targets(place, package)?,
            features,
        })
    }

    /// A name for it among all packages that use one target folder.
    pub fn id(&self) -> String {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        self.manifest.hash(&mut hasher);
        format!("{}-{:016x}", self.name, hasher.finish())
    }

    /// The folder of its `Cargo.toml`.
    pub fn folder(&self) -> &Path {
        self.manifest.parent().unwrap_or(Path::new("."))
    }

    /// A command of cargo for one of its targets.
    pub fn cargo(&self, command: &str, target: &Target) -> Command {
        let mut cargo = cargo();
        cargo.arg(command).arg("--manifest-path").arg(&self.manifest).args(["--package", &self.name]);
        cargo.args(target.arguments()).args(&self.features);
        cargo
    }

    /// Checks a target, with its expansions told to write kernels to `folder`, and says whether rustc had to run. What it reports is
    /// shown. `mark` tells this check apart from the author's own, which write nothing.
    pub fn record(&self, target: &Target, folder: &Path, mark: &str) -> Result<bool> {
        let mut command = self.cargo("rustc", target);
        // The harness of an integration test is made by `--test`, which a check of it alone does not pass.
        command.args(["--profile", if target.kind == Kind::Test { "test" } else { "check" }]);
        command
            .args(["--message-format", "json-render-diagnostics", "--", "--cfg"])
            .arg(format!("tile_record=\"{mark}\""));
        command.env("CARGO_TILE_RECORD", folder).stderr(Stdio::inherit());
        let spelled = spell(&command);
        let output = command.output().with_context(|| format!("could not start `{spelled}`"))?;
        if !output.status.success() {
            bail!("{} of {} does not compile; cargo's messages are above", target.words(), self.name);
        }
        let messages = String::from_utf8_lossy(&output.stdout);
        let artifact =
            |line: &str| serde_json::from_str::<Value>(line).ok().filter(|m| m["reason"] == "compiler-artifact");
        let mut own = messages.lines().filter_map(artifact).filter(|artifact| {
            let kinds = artifact["target"]["kind"].as_array().into_iter().flatten().filter_map(Value::as_str);
            artifact["target"]["name"] == *target.name && kinds.filter_map(kind).any(|kind| kind == target.kind)
        });
        Ok(!own.any(|artifact| artifact["fresh"] == true))
    }
}

/// The package of the current folder.
fn own<'m>(place: &Where, packages: &'m [Value]) -> Result<&'m Value> {
    let mut locate = cargo();
    locate.args(["locate-project", "--message-format", "plain"]);
    if let Some(path) = &place.manifest_path {
        locate.arg("--manifest-path").arg(path);
    }
    let manifest = output(&mut locate)?;
    let found = packages.iter().find(|package| package["manifest_path"] == *manifest.trim());
    found.with_context(|| {
        let names: Vec<&str> = packages.iter().filter_map(|p| p["name"].as_str()).collect();
        format!("{} is a workspace: choose one of its packages by -p: {}", manifest.trim(), names.join(", "))
    })
}

fn kind(text: &str) -> Option<Kind> {
    match text {
        "lib" | "rlib" | "dylib" | "cdylib" | "staticlib" => Some(Kind::Lib),
        "bin" => Some(Kind::Bin),
        "example" => Some(Kind::Example),
        "test" => Some(Kind::Test),
        _ => None,
    }
}

/// The targets that a command line means: those it names, else library and binaries, with `--all-targets` all.
fn targets(place: &Where, package: &Value) -> Result<Vec<Target>> {
    let all: Vec<(Target, bool)> = package["targets"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|target| {
            let kind = target["kind"].as_array()?.iter().filter_map(Value::as_str).find_map(kind)?;
            let name = target["name"].as_str()?.to_owned();
            // A target that waits for a feature is only checked where it is named.
            let waits = target["required-features"].as_array().is_some_and(|features| !features.is_empty());
            Some((Target { kind, name }, waits && !place.all_features))
        })
        .collect();
    let named = [(Kind::Bin, &place.bin), (Kind::Example, &place.example), (Kind::Test, &place.test)];
    let mut chosen = Vec::new();
    if place.lib {
        let lib = all.iter().find(|(target, _)| target.kind == Kind::Lib);
        chosen.push(lib.context("this package has no library")?.0.clone());
    }
    for (kind, names) in named {
        for name in names {
            let target = Target { kind, name: name.clone() };
            if !all.iter().any(|(found, _)| *found == target) {
                let there = all.iter().filter(|(t, _)| t.kind == kind).map(|(t, _)| t.name.as_str());
                let there = there.collect::<Vec<_>>().join(", ");
                bail!("there is no {}; there is {}", target.words(), if there.is_empty() { "none" } else { &there });
            }
            chosen.push(target);
        }
    }
    if chosen.is_empty() {
        let usual = |target: &Target| place.all_targets || matches!(target.kind, Kind::Lib | Kind::Bin);
        chosen = all.into_iter().filter(|(t, waits)| usual(t) && !waits).map(|(target, _)| target).collect();
    }
    Ok(chosen)
}
