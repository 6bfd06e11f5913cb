//! A Python wheel as a source of native files: fetched by pip with its hash pinned, unpacked without installing it.
//!
//! A wheel counts as present when every file its own `RECORD` lists has the size listed there, so an interrupted or
//! damaged unpacking is noticed and repaired. pip compares the archive's SHA-256 before anything is unpacked.

use crate::process::{output, say, spell};
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One wheel on the Python package index.
pub struct Wheel {
    /// The distribution's name.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// SHA-256 of its archives, one a platform: x86-64 and aarch64 Linux.
    pub sha256: [&'static str; 2],
    /// A file it must contain, relative to its root.
    pub contains: &'static str,
}

impl Wheel {
    /// Makes `folder` hold this wheel's files, writable by nobody else, and returns the path of [`Wheel::contains`] in it.
    /// Touches no network where they are already there, or in `earlier`. `scratch` is a folder on the same file system for
    /// what is unfinished.
    pub fn provide(&self, folder: &Path, earlier: Option<&Path>, scratch: &Path) -> Result<PathBuf> {
        let wanted = folder.join(self.contains);
        match self.check(folder) {
            Ok(()) => return close(folder).map(|()| wanted),
            Err(problem) if folder.exists() => {
                say(format!("{} {}: {problem}; fetching again", self.name, self.version))
            }
            Err(_) => {}
        }
        let scratch = scratch.join(format!("{}-{}-{}", self.name, self.version, std::process::id()));
        let unpacked = scratch.join("unpacked");
        let got = match earlier.filter(|earlier| *earlier != folder && self.check(earlier).is_ok()) {
            Some(earlier) => copy(earlier, &unpacked),
            None => self.fetch(&scratch, &unpacked),
        };
        let placed = got.and_then(|()| close(&unpacked)).and_then(|()| self.place(&unpacked, folder));
        fs::remove_dir_all(&scratch).ok();
        placed?;
        self.check(folder).with_context(|| format!("{} {} was unpacked, yet", self.name, self.version))?;
        Ok(wanted)
    }

    /// Whether `folder` holds every file with its size.
    fn check(&self, folder: &Path) -> Result<()> {
        let info = format!("{}-{}.dist-info", self.name.replace('-', "_"), self.version);
        let record = folder.join(info).join("RECORD");
        let record = fs::read_to_string(&record).with_context(|| format!("{} is missing", record.display()))?;
        for (path, size) in recorded_files(&record) {
            let actual = fs::metadata(folder.join(path)).with_context(|| format!("{path} is missing"))?.len();
            if actual != size {
                bail!("{path} has {actual} bytes, not {size}");
            }
        }
        if !folder.join(self.contains).is_file() {
            bail!("{} is missing", self.contains);
        }
        Ok(())
    }

    fn fetch(&self, scratch: &Path, unpacked: &Path) -> Result<()> {
        let python = python()?;
        let download = scratch.join("download");
        for created in [&*download, unpacked] {
            fs::create_dir_all(created).with_context(|| format!("could not create {}", created.display()))?;
        }
        let hashes: String = self.sha256.iter().map(|hash| format!(" --hash=sha256:{hash}")).collect();
        let requirements = scratch.join("requirements.txt");
        fs::write(&requirements, format!("{}=={}{hashes}\n", self.name, self.version))?;

        say(format!("fetching {} {} from the Python package index (once)", self.name, self.version));
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "download", "--disable-pip-version-check", "--no-deps"]);
        // 105 MB: pip's own bar of progress, on a terminal.
        if !std::io::stdout().is_terminal() {
            pip.arg("--quiet");
        }
        pip.args(["--only-binary=:all:", "--require-hashes", "--dest"]).arg(&download).arg("-r").arg(&requirements);
        let status = pip.status().with_context(|| format!("could not start `{}`", spell(&pip)))?;
        if !status.success() {
            bail!(
                "pip could not fetch {} {} ({status}; its own message is above).\n\
                 It needs the Python package index (or a mirror of it) and a Linux machine, x86-64 or aarch64.\n\
                 To use a library that is already on this machine, set TILE_NVRTC to it.",
                self.name,
                self.version
            );
        }
        let archive = fs::read_dir(&download)?.filter_map(|entry| Some(entry.ok()?.path()));
        let archive = archive.into_iter().find(|path| path.extension().is_some_and(|e| e == "whl"));
        let archive = archive.with_context(|| format!("pip left no wheel in {}", download.display()))?;
        output(Command::new(&python).args(["-m", "zipfile", "-e"]).arg(&archive).arg(unpacked))?;
        make_executable(&unpacked.join(self.contains))
    }

    /// Moves what is unpacked into its place.
    fn place(&self, unpacked: &Path, folder: &Path) -> Result<()> {
        if let Some(parent) = folder.parent() {
            fs::create_dir_all(parent).with_context(|| format!("could not create {}", parent.display()))?;
        }
        fs::remove_dir_all(folder).ok();
        // Another run may have published the same wheel meanwhile; what counts is that a good one is there.
        match fs::rename(unpacked, folder) {
            Err(_) if self.check(folder).is_ok() => Ok(()),
            moved => moved.with_context(|| format!("could not move the unpacked wheel to {}", folder.display())),
        }
    }
}

/// The files a wheel's `RECORD` lists with a size, as (path, bytes). The path may be quoted; RECORD itself has no size.
fn recorded_files(record: &str) -> impl Iterator<Item = (&str, u64)> {
    record.lines().filter_map(|line| {
        let (rest, size) = line.rsplit_once(',')?;
        let (path, _hash) = rest.rsplit_once(',')?;
        Some((path.trim_matches('"'), size.trim().parse().ok()?))
    })
}

/// A Python that has pip: `$PYTHON`, `python3` or `python`.
fn python() -> Result<String> {
    let chosen = std::env::var("PYTHON").ok();
    let candidates: Vec<&str> = chosen.as_deref().into_iter().chain(["python3", "python"]).collect();
    let answers = |program: &str, args: &[&str]| {
        let status = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let Some(found) = candidates.iter().find(|program| answers(program, &["--version"])) else {
        bail!(
            "no Python found (tried {}): it is needed once, to fetch NVRTC.\n\
             Install it (Debian, Ubuntu: `apt install python3 python3-pip`) or set PYTHON to one.",
            candidates.join(", ")
        );
    };
    let with_pip = candidates.iter().find(|program| answers(program, &["-m", "pip", "--version"]));
    let Some(python) = with_pip else {
        bail!(
            "{found} has no pip: it is needed once, to fetch NVRTC.\n\
             Install it (Debian, Ubuntu: `apt install python3-pip`; elsewhere: `{found} -m ensurepip`), or set PYTHON \
             to a Python that has it."
        );
    };
    Ok(python.to_string())
}

/// Copies a folder and what is in it, links as what they point to.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("could not create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("could not read {}", from.display()))? {
        let entry = entry?.path();
        let Some(name) = entry.file_name() else { continue };
        if entry.is_dir() {
            copy(&entry, &to.join(name))?;
        } else {
            fs::copy(&entry, to.join(name)).with_context(|| format!("could not copy {}", entry.display()))?;
        }
    }
    Ok(())
}

/// Takes the right to write from all but the owner, in a folder and all that is in it, whatever the umask was.
fn close(folder: &Path) -> Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let metadata = fs::symlink_metadata(folder).with_context(|| folder.display().to_string())?;
        if metadata.file_type().is_symlink() {
            return Ok(());
        }
        let mode = metadata.permissions().mode();
        if mode & 0o022 != 0 {
            fs::set_permissions(folder, fs::Permissions::from_mode(mode & !0o022))
                .with_context(|| format!("could not close {} to others", folder.display()))?;
        }
        if metadata.is_dir() {
            for entry in fs::read_dir(folder)? {
                close(&entry?.path())?;
            }
        }
    }
    Ok(())
}

/// Unpacking loses the mode of programs.
fn make_executable(path: &Path) -> Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))
            .with_context(|| format!("the wheel holds no {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHEEL: Wheel = Wheel { name: "a-b", version: "1.2", sha256: ["", ""], contains: "lib/x.so" };

    fn unpacked(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("xtask-wheel-{name}-{}", std::process::id()));
        fs::remove_dir_all(&folder).ok();
        fs::create_dir_all(folder.join("lib")).unwrap();
        fs::create_dir_all(folder.join("a_b-1.2.dist-info")).unwrap();
        fs::write(folder.join("lib/x.so"), "12345").unwrap();
        let record = "lib/x.so,sha256=abc,5\na_b-1.2.dist-info/RECORD,,\n";
        fs::write(folder.join("a_b-1.2.dist-info/RECORD"), record).unwrap();
        folder
    }

    #[test]
    fn a_complete_wheel_is_used_without_the_network() {
        let folder = unpacked("complete");
        let nowhere = Path::new("/nonexistent");
        assert_eq!(WHEEL.provide(&folder, None, nowhere).unwrap(), folder.join("lib/x.so"));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_wheel_of_an_earlier_setup_is_copied_and_closed_to_others() {
        use std::os::unix::fs::PermissionsExt;
        let (earlier, folder) =
            (unpacked("earlier"), std::env::temp_dir().join(format!("xtask-own-{}", std::process::id())));
        for open in ["lib", "lib/x.so"] {
            fs::set_permissions(earlier.join(open), fs::Permissions::from_mode(0o777)).unwrap();
        }
        let wheel = folder.join("wheel");
        assert_eq!(WHEEL.provide(&wheel, Some(&earlier), &folder.join("scratch")).unwrap(), wheel.join("lib/x.so"));
        for path in ["lib", "lib/x.so"] {
            let mode = fs::metadata(wheel.join(path)).unwrap().permissions().mode();
            assert_eq!(mode & 0o022, 0, "{path} {mode:o}");
        }
        assert!(earlier.join("lib/x.so").is_file(), "it stays: other checkouts may use it");
        fs::remove_dir_all(folder).unwrap();
        fs::remove_dir_all(earlier).unwrap();
    }

    #[test]
    fn a_truncated_or_missing_file_is_noticed() {
        let folder = unpacked("truncated");
        fs::write(folder.join("lib/x.so"), "123").unwrap();
        assert_eq!(WHEEL.check(&folder).unwrap_err().to_string(), "lib/x.so has 3 bytes, not 5");
        fs::remove_file(folder.join("lib/x.so")).unwrap();
        assert_eq!(WHEEL.check(&folder).unwrap_err().to_string(), "lib/x.so is missing");
        fs::remove_dir_all(folder).unwrap();
    }
}
