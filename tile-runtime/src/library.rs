//! Finding NVIDIA's libraries and tools.
//!
//! The lookup is ours, not the binding crate's, because it must never panic and because it owes its caller every path
//! it tried. The order for NVRTC:
//!
//! 1. `TILE_NVRTC`, a library or a folder: set means used, or an error;
//! 2. `CUDA_HOME`, `CUDA_PATH`;
//! 3. `/usr/local/cuda`, then `/usr/local/cuda-*`, newest first;
//! 4. the user's own folder, where `cargo xtask setup` unpacks it ([`own_folder`]): only if nobody else can have written
//!    there, by the table in `trust.rs`;
//! 5. the `nvidia-cuda-nvrtc` wheel in the `site-packages` of an active environment (`VIRTUAL_ENV`, `CONDA_PREFIX`), of
//!    `~/.local`, of the `python3` in `PATH` or of the system, or in `PYTHONPATH`;
//! 6. plain names, as the dynamic linker resolves them.
//!
//! A library is code that runs as whoever runs the program. So nothing is looked for in the folder that a program happens
//! to be started in, or above it, and relative parts of `PATH` and `PYTHONPATH` are passed over.

mod elf;

use crate::trust::{self, Owner};
use libloading::Library;
use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A library or tool that could not be used: what was tried, and what to do.
#[derive(Clone, Debug, Error)]
pub struct LibraryError {
    /// What was looked for, as one says it: `NVRTC`, `the CUDA driver`, `nvdisasm`.
    pub what: &'static str,
    /// Each path tried and why it did not do.
    pub tried: Vec<Attempt>,
    /// How to get it.
    pub help: &'static str,
}

/// One path that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The path, or the pattern of a folder that held nothing.
    pub path: PathBuf,
    /// Why it did not do.
    pub problem: String,
}

impl fmt::Display for LibraryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What was there and did not do has another cure than what is missing.
        let missing = self.tried.iter().all(|attempt| attempt.problem.contains("o such file"));
        let problem = if missing { "was not found" } else { "cannot be used" };
        if self.tried.is_empty() {
            return write!(f, "{} is not there\nhelp: {}", self.what, self.help);
        }
        write!(f, "{} {problem}; tried:", self.what)?;
        for attempt in &self.tried {
            write!(f, "\n  {}: {}", attempt.path.display(), attempt.problem)?;
        }
        write!(f, "\nhelp: {}", self.help)
    }
}

/// How to get NVRTC, in words that can be pasted.
pub const NVRTC_HELP: &str = "pip install nvidia-cuda-nvrtc==13.0.88, or `cargo xtask setup` in this repository, \
     or set TILE_NVRTC to libnvrtc.so.13 or its folder";
/// How to get the driver.
pub const DRIVER_HELP: &str =
    "install the NVIDIA driver (580 or newer); without one, TILE_DEVICE=sim runs every kernel on the CPU";
/// How to get the disassembler.
pub const NVDISASM_HELP: &str = "pip install nvidia-cuda-nvdisasm, or `cargo xtask setup` in this repository, \
     or set TILE_NVDISASM to the program";

/// A library that is open, and where it was found.
pub(crate) struct Found {
    pub library: Library,
    pub path: PathBuf,
}

/// A step of a lookup: a folder to list, or a name for the dynamic linker.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Folder(PathBuf),
    /// A folder of what `cargo xtask setup` has fetched, below the user's own: what is in it has to be trusted too.
    Own {
        own: PathBuf,
        folder: PathBuf,
    },
    /// Where something was that is not even looked at.
    Refused(Attempt),
    File(PathBuf),
    Name(&'static str),
}

/// What a lookup reads of the process: replaced in tests.
pub(crate) struct Surroundings<'a> {
    pub variable: &'a dyn Fn(&str) -> Option<PathBuf>,
    pub root: PathBuf,
}

impl Surroundings<'_> {
    /// Runs `f` with this process's surroundings.
    pub fn with_process<R>(f: impl FnOnce(&Surroundings<'_>) -> R) -> R {
        let variable = |name: &str| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        f(&Surroundings { variable: &variable, root: PathBuf::from("/") })
    }

    /// The user's own folder for what `cargo xtask setup` fetches.
    fn own_folder(&self) -> Option<PathBuf> {
        let data = (self.variable)("XDG_DATA_HOME").filter(|d| d.is_absolute());
        let data = data.or_else(|| (self.variable)("HOME").filter(|h| h.is_absolute()).map(|h| h.join(".local/share")));
        data.map(|data| data.join("tile-kernels"))
    }

    /// Roots of unpacked wheels below the user's own folder, oldest version first, because code made by an older compiler runs
    /// on more drivers; or why the folder is not looked at. Nothing where there is no such folder.
    fn own_wheels(&self, kind: &str) -> Result<Vec<PathBuf>, Attempt> {
        let Some(folder) = self.own_folder().filter(|folder| std::fs::symlink_metadata(folder).is_ok()) else {
            return Ok(Vec::new());
        };
        let refused = |path: &Path, problem: String| Attempt { path: path.to_path_buf(), problem };
        let own = trust::existing(&folder, Owner::Us).map_err(|problem| refused(&folder, problem))?;
        let mut versions: Vec<_> = list(&own.join(kind)).into_iter().filter(|p| p.join("nvidia").is_dir()).collect();
        versions.sort_by_key(|p| version_of(p));
        Ok(versions)
    }

    /// The absolute folders of a variable that lists some.
    fn folders_of(&self, variable: &str) -> Vec<PathBuf> {
        let listed = (self.variable)(variable).unwrap_or_default();
        env::split_paths(&listed).filter(|folder| folder.is_absolute()).collect()
    }

    /// Python's package folders that can be reached without starting Python.
    fn site_packages(&self) -> Vec<PathBuf> {
        let mut prefixes: Vec<PathBuf> =
            ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(|name| (self.variable)(name)).collect();
        if let Some(home) = (self.variable)("HOME") {
            prefixes.push(home.join(".local"));
        }
        for folder in self.folders_of("PATH") {
            if let Ok(python) = folder.join("python3").canonicalize() {
                prefixes.extend(python.parent().and_then(Path::parent).map(Path::to_path_buf));
            }
        }
        prefixes.extend([self.root.join("usr/local"), self.root.join("usr")]);
        let mut found = Vec::new();
        for prefix in prefixes {
            for python in list(&prefix.join("lib")) {
                if python.file_name().and_then(OsStr::to_str).is_some_and(|n| n.starts_with("python3")) {
                    for packages in ["site-packages", "dist-packages"].map(|name| python.join(name)) {
                        if packages.is_dir() && !found.contains(&packages) {
                            found.push(packages);
                        }
                    }
                }
            }
        }
        found.extend(self.folders_of("PYTHONPATH"));
        found
    }
}

/// Folders inside a wheel or `site-packages` that hold NVRTC.
const WHEEL_LIBRARIES: [&str; 3] = ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib", "nvidia/cu12/lib"];
/// Folders inside a CUDA toolkit that hold libraries.
const TOOLKIT_LIBRARIES: [&str; 4] = ["lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"];

fn nvrtc_steps(around: &Surroundings<'_>) -> Vec<Step> {
    if let Some(explicit) = (around.variable)("TILE_NVRTC") {
        return explicit_steps(&explicit);
    }
    let mut toolkits: Vec<PathBuf> =
        ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(|name| (around.variable)(name)).collect();
    toolkits.extend(system_toolkits(&around.root));
    let in_toolkits = toolkits.iter().flat_map(|t| TOOLKIT_LIBRARIES.map(|lib| t.join(lib)));
    let inside = |wheels: Vec<PathBuf>| {
        let folders = wheels.into_iter().flat_map(|w| WHEEL_LIBRARIES.map(|lib| w.join(lib)));
        folders.filter(|folder| folder.is_dir())
    };
    let mut steps: Vec<Step> = in_toolkits.filter(|folder| folder.is_dir()).map(Step::Folder).collect();
    match (around.own_folder(), around.own_wheels("nvrtc")) {
        (Some(own), Ok(wheels)) => {
            steps.extend(inside(wheels).map(|folder| Step::Own { own: own.clone(), folder }));
        }
        (_, Err(refused)) => steps.push(Step::Refused(refused)),
        (None, Ok(_)) => {}
    }
    steps.extend(inside(around.site_packages()).map(Step::Folder));
    steps.extend(["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"].map(Step::Name));
    steps
}

fn explicit_steps(path: &Path) -> Vec<Step> {
    if path.is_dir() {
        let inside = WHEEL_LIBRARIES.iter().chain(&TOOLKIT_LIBRARIES).map(|lib| path.join(lib)).filter(|p| p.is_dir());
        std::iter::once(path.to_path_buf()).chain(inside).map(Step::Folder).collect()
    } else {
        vec![Step::File(path.to_path_buf())]
    }
}

/// `/usr/local/cuda` and its versioned neighbours, newest first.
fn system_toolkits(root: &Path) -> Vec<PathBuf> {
    let local = root.join("usr/local");
    let named = |p: &PathBuf| p.file_name().and_then(OsStr::to_str).is_some_and(|n| n.starts_with("cuda-"));
    let mut versions: Vec<PathBuf> = list(&local).into_iter().filter(named).collect();
    versions.sort_by_key(|p| std::cmp::Reverse(version_of(p)));
    std::iter::once(local.join("cuda")).filter(|p| p.is_dir()).chain(versions).collect()
}

/// The numbers in a file name, for ordering: `libnvrtc.so.13.0.88` is `[13, 0, 88]`.
fn version_of(path: &Path) -> Vec<u64> {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect()
}

/// Where NVIDIA's library `lib<stem>.so` may be, best first, in the order in which NVRTC is looked for: what the
/// environment variable `variable` names, a file or a folder, and nothing else; without it CUDA toolkits, Python wheels,
/// and plain names for the dynamic linker.
pub fn candidates(stem: &str, variable: &str) -> Vec<PathBuf> {
    Surroundings::with_process(|around| candidates_in(around, stem, variable))
}

fn candidates_in(around: &Surroundings<'_>, stem: &str, variable: &str) -> Vec<PathBuf> {
    let start = format!("lib{stem}.so");
    let files_of = |folder: PathBuf| {
        let named = |p: &PathBuf| p.file_name().and_then(OsStr::to_str).is_some_and(|n| n.starts_with(&start));
        let mut files: Vec<PathBuf> = list(&folder).into_iter().filter(named).collect();
        files.sort_by_key(|p| std::cmp::Reverse(version_of(p)));
        files
    };
    if let Some(explicit) = (around.variable)(variable) {
        let steps = explicit_steps(&explicit).into_iter();
        return steps
            .flat_map(|step| match step {
                Step::Folder(folder) | Step::Own { folder, .. } => files_of(folder),
                Step::File(file) => vec![file],
                Step::Name(name) => vec![PathBuf::from(name)],
                Step::Refused(_) => Vec::new(),
            })
            .collect();
    }
    let variables = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(|name| (around.variable)(name));
    let toolkits =
        variables.chain(system_toolkits(&around.root)).flat_map(|t| TOOLKIT_LIBRARIES.map(|lib| t.join(lib)));
    let in_wheels = around.site_packages().into_iter().flat_map(|w| WHEEL_LIBRARIES.map(|lib| w.join(lib)));
    let mut files: Vec<PathBuf> = toolkits.chain(in_wheels).flat_map(files_of).collect();
    files.extend(["13", "12"].map(|major| PathBuf::from(format!("{start}.{major}"))));
    files
}

/// A folder's entries, sorted by name; none where it cannot be read.
fn list(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().filter_map(|e| Some(e.ok()?.path())).collect();
    entries.sort();
    entries
}

/// The NVRTC libraries of a folder, newest first, links to one file once.
fn nvrtc_files(folder: &Path) -> Vec<PathBuf> {
    let named = |p: &PathBuf| p.file_name().and_then(OsStr::to_str).is_some_and(|n| n.starts_with("libnvrtc.so"));
    let mut files: Vec<PathBuf> =
        list(folder).into_iter().filter(named).map(|p| p.canonicalize().unwrap_or(p)).collect();
    files.sort_by_key(|p| std::cmp::Reverse(version_of(p)));
    files.dedup();
    files
}

/// Opens NVRTC. `usable` looks at an open library and says why it does not do.
pub(crate) fn open_nvrtc(
    around: &Surroundings<'_>,
    mut usable: impl FnMut(&Library) -> Result<(), String>,
) -> Result<Found, LibraryError> {
    let mut tried = Vec::new();
    for step in nvrtc_steps(around) {
        let own = match &step {
            Step::Own { own, .. } => Some(own.clone()),
            _ => None,
        };
        let files = match step {
            Step::Folder(folder) | Step::Own { folder, .. } => {
                let files = nvrtc_files(&folder);
                if files.is_empty() {
                    tried.push(Attempt { path: folder.join("libnvrtc.so*"), problem: "no such file".into() });
                }
                files
            }
            Step::File(file) => vec![file],
            Step::Name(name) => vec![PathBuf::from(name)],
            Step::Refused(attempt) => {
                tried.push(attempt);
                continue;
            }
        };
        for path in files {
            // The builtins beside it are opened by the compiler itself.
            if let Some(own) = &own
                && let Some(problem) = distrusted(own, &path)
            {
                tried.push(Attempt { path, problem });
                continue;
            }
            // The compiler opens its builtins by plain name, which fails unless they are open already.
            let builtins = path.parent().filter(|p| !p.as_os_str().is_empty()).map(open_builtins).unwrap_or_default();
            match open(&path).and_then(|library| usable(&library).map(|()| library)) {
                Ok(library) => {
                    builtins.into_iter().for_each(std::mem::forget);
                    return Ok(Found { library, path });
                }
                Err(problem) => tried.push(Attempt { path, problem }),
            }
        }
    }
    Err(LibraryError { what: "NVRTC", tried, help: NVRTC_HELP })
}

/// Why a library of the user's own folder is not opened: somebody else may have written it, or a library beside it.
fn distrusted(own: &Path, library: &Path) -> Option<String> {
    let beside = library.parent().map(list).unwrap_or_default();
    let libraries =
        beside.iter().filter(|p| p.file_name().and_then(OsStr::to_str).is_some_and(|n| n.starts_with("lib")));
    let real = |path: &Path| path.canonicalize().map_err(|e| e.to_string());
    libraries
        .map(PathBuf::as_path)
        .chain([library])
        .find_map(|path| real(path).and_then(|path| trust::inside(&real(own)?, &path, Owner::Us)).err())
}

fn open_builtins(folder: &Path) -> Vec<Library> {
    let named =
        |p: &PathBuf| p.file_name().and_then(OsStr::to_str).is_some_and(|n| n.starts_with("libnvrtc-builtins.so"));
    list(folder).into_iter().filter(named).filter_map(|p| open(&p.canonicalize().unwrap_or(p)).ok()).collect()
}

pub(crate) fn open(path: &Path) -> Result<Library, String> {
    elf::refuse_truncated(path)?;
    // SAFETY: NVIDIA's libraries have initialisers that are safe to run at any time; nothing else is opened here
    // unless the user names it in an environment variable.
    unsafe { Library::new(path) }.map_err(|e| {
        // The linker's message starts with the path, which the report already shows.
        let text = std::error::Error::source(&e).map_or_else(|| e.to_string(), ToString::to_string);
        text.strip_prefix(&format!("{}: ", path.display())).map_or(text.clone(), str::to_string)
    })
}

/// The folder of what `cargo xtask setup` fetches: `tile-kernels` in `XDG_DATA_HOME` or `~/.local/share`. None where neither
/// is known.
///
/// ```text
/// nvrtc/<version>/nvidia/cu13/lib/libnvrtc.so.13
/// nvdisasm/<version>/nvidia/cu13/bin/nvdisasm
/// ```
pub fn own_folder() -> Option<PathBuf> {
    Surroundings::with_process(|around| around.own_folder())
}

/// Makes a folder for what programs run, that nobody but this user can write to or replace, and returns where it is.
///
/// # Errors
/// In words: it is a link, belongs to another user, can be written or replaced by others, or cannot be made.
pub fn prepare_folder(folder: &Path) -> Result<PathBuf, String> {
    trust::prepare(folder)
}

/// The program that disassembles cubins: `TILE_NVDISASM`, `PATH`, the CUDA toolkits, the user's own folder, wheels.
pub fn find_nvdisasm() -> Result<PathBuf, LibraryError> {
    Surroundings::with_process(find_nvdisasm_in)
}

pub(crate) fn find_nvdisasm_in(around: &Surroundings<'_>) -> Result<PathBuf, LibraryError> {
    let mut candidates = Vec::new();
    if let Some(explicit) = (around.variable)("TILE_NVDISASM") {
        candidates.push(if explicit.is_dir() { explicit.join("nvdisasm") } else { explicit });
    } else {
        candidates.extend(around.folders_of("PATH").into_iter().map(|p| p.join("nvdisasm")));
        let toolkits = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(|name| (around.variable)(name));
        candidates.extend(toolkits.chain(system_toolkits(&around.root)).map(|t| t.join("bin/nvdisasm")));
    }
    let mut tried = Vec::new();
    let mut first = |candidates: Vec<PathBuf>, own: Option<&Path>| {
        candidates.into_iter().find(|path| {
            let problem = match own {
                _ if !path.is_file() => Some("no such file".into()),
                Some(own) => distrusted(own, path),
                None => None,
            };
            tried.extend(problem.clone().map(|problem| Attempt { path: path.clone(), problem }));
            problem.is_none()
        })
    };
    let tool = |wheel: PathBuf| wheel.join("nvidia/cu13/bin/nvdisasm");
    let mut found = first(candidates, None);
    if found.is_none() && (around.variable)("TILE_NVDISASM").is_none() {
        let mut refused = None;
        match (around.own_folder(), around.own_wheels("nvdisasm")) {
            (Some(own), Ok(wheels)) => found = first(wheels.into_iter().rev().map(tool).collect(), Some(&own)),
            (_, Err(attempt)) => refused = Some(attempt),
            (None, Ok(_)) => {}
        }
        found = found.or_else(|| first(around.site_packages().into_iter().map(tool).collect(), None));
        tried.extend(refused);
    }
    found.ok_or(LibraryError { what: "nvdisasm", tried, help: NVDISASM_HELP })
}

/// What identifies a library's build: its GNU build id, else its size. NVRTC reports `13.0` for every patch release,
/// and a patch release can generate different code.
pub(crate) fn build_identity(path: &Path) -> String {
    use std::io::Read;
    // The note stands right after the program headers, in the first page.
    let mut head = [0u8; 4096];
    let read = std::fs::File::open(path).and_then(|mut f| f.read(&mut head)).unwrap_or(0);
    const NOTE: [u8; 12] = [20, 0, 0, 0, 3, 0, 0, 0, b'G', b'N', b'U', 0];
    if let Some(at) = head[..read].windows(NOTE.len()).position(|w| w == NOTE)
        && let Some(id) = head[..read].get(at + NOTE.len()..at + NOTE.len() + 20)
    {
        return id.iter().map(|b| format!("{b:02x}")).collect();
    }
    std::fs::metadata(path).map_or_else(|_| "unknown".into(), |m| format!("size {}", m.len()))
}

/// The version a wheel's `dist-info` beside the library gives, such as `13.0.88`; the file's own suffix otherwise.
pub(crate) fn patch_version(library: &Path) -> Option<String> {
    for root in library.ancestors().skip(1).take(5) {
        for entry in list(root) {
            let name = entry.file_name().and_then(OsStr::to_str).unwrap_or_default();
            if let Some(rest) = name.strip_prefix("nvidia_cuda_nvrtc") {
                let version = rest.strip_suffix(".dist-info")?.rsplit('-').next()?;
                return Some(version.to_string());
            }
        }
    }
    let name = library.file_name()?.to_str()?.strip_prefix("libnvrtc.so.")?;
    (name.matches('.').count() == 2).then(|| name.to_string())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::fs;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = env::temp_dir().join(format!("tile-library-{name}-{}", std::process::id()));
            fs::remove_dir_all(&path).ok();
            fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }

        fn file(&self, path: &str) -> PathBuf {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, b"not a library").unwrap();
            path
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    fn around<R>(scratch: &Scratch, variables: &[(&str, PathBuf)], f: impl FnOnce(&Surroundings<'_>) -> R) -> R {
        let variables: HashMap<String, PathBuf> =
            variables.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
        let variable = |name: &str| variables.get(name).cloned();
        f(&Surroundings { variable: &variable, root: scratch.0.clone() })
    }

    fn tried(scratch: &Scratch, variables: &[(&str, PathBuf)]) -> Vec<PathBuf> {
        let refuse = |_: &Library| Err("refused by the test".to_string());
        let error = around(scratch, variables, |a| open_nvrtc(a, refuse).map(|f| f.path).unwrap_err());
        assert!(error.to_string().contains("pip install nvidia-cuda-nvrtc"), "{error}");
        error.tried.iter().for_each(|t| assert!(error.to_string().contains(t.path.to_str().unwrap()), "{error}"));
        error.tried.into_iter().map(|t| t.path).collect()
    }

    #[test]
    fn the_explicit_variable_excludes_everything_else() {
        let scratch = Scratch::new("explicit");
        scratch.file("usr/local/cuda/lib64/libnvrtc.so.13");
        let missing = scratch.0.join("nowhere/libnvrtc.so.13");
        assert_eq!(tried(&scratch, &[("TILE_NVRTC", missing.clone())]), [missing]);
        let folder = scratch.file("mine/libnvrtc.so.12");
        assert_eq!(tried(&scratch, &[("TILE_NVRTC", scratch.0.join("mine"))]), [folder]);
    }

    #[test]
    fn the_order_is_the_documented_one() {
        let scratch = Scratch::new("order");
        let expected = [
            scratch.file("home/targets/x86_64-linux/lib/libnvrtc.so.12"),
            scratch.file("usr/local/cuda/lib64/libnvrtc.so.13"),
            scratch.file("usr/local/cuda-13.1/lib64/libnvrtc.so.13.1.80"),
            scratch.file("usr/local/cuda-12.9/lib64/libnvrtc.so.12"),
            scratch.file("data/tile-kernels/nvrtc/13.0.88/nvidia/cu13/lib/libnvrtc.so.13"),
            scratch.file("data/tile-kernels/nvrtc/13.5.37/nvidia/cu13/lib/libnvrtc.so.13"),
            scratch.file("venv/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13"),
            scratch.file("usr/local/lib/python3.11/dist-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12"),
        ];
        let variables = [
            ("CUDA_HOME", scratch.0.join("home")),
            ("VIRTUAL_ENV", scratch.0.join("venv")),
            ("XDG_DATA_HOME", scratch.0.join("data")),
        ];
        let tried = tried(&scratch, &variables);
        assert_eq!(tried[..expected.len()], expected);
        assert_eq!(tried[expected.len()..], ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"].map(PathBuf::from));
    }

    #[test]
    fn a_tool_that_is_missing_lists_what_was_tried() {
        let scratch = Scratch::new("nvdisasm");
        let variables = [("PATH", scratch.0.join("bin")), ("HOME", scratch.0.join("home"))];
        let error = around(&scratch, &variables, find_nvdisasm_in).unwrap_err();
        assert_eq!(error.tried[0].path, scratch.0.join("bin/nvdisasm"));
        let tool = scratch.file("home/.local/share/tile-kernels/nvdisasm/13.5.37/nvidia/cu13/bin/nvdisasm");
        assert_eq!(around(&scratch, &variables, find_nvdisasm_in).unwrap(), tool);
        mode(&tool, 0o777);
        let error = around(&scratch, &variables, find_nvdisasm_in).unwrap_err();
        assert!(error.to_string().contains("nvdisasm cannot be used"), "{error}");
        assert!(error.tried.iter().any(|t| t.path == tool && t.problem.contains("only this user writes")), "{error}");
    }

    fn mode(path: &Path, mode: u32) {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// What others could have put into the user's own folder, or into the folder's place, is not opened.
    #[test]
    fn the_own_folder_is_trusted_or_not_looked_at() {
        let scratch = Scratch::new("own");
        let library = scratch.file("data/tile-kernels/nvrtc/13.0.88/nvidia/cu13/lib/libnvrtc.so.13");
        let own = scratch.0.join("data/tile-kernels");
        let variables = [("XDG_DATA_HOME", scratch.0.join("data"))];
        let problem = || {
            // The file is no library: it was opened where the linker says so.
            let refuse = |_: &Library| Err("refused by the test".to_string());
            let error = around(&scratch, &variables, |a| open_nvrtc(a, refuse).map(|f| f.path).unwrap_err());
            let of_ours = |t: &&Attempt| t.path.starts_with(&own);
            error.tried.iter().find(of_ours).map(|t| t.problem.clone()).unwrap_or_default()
        };
        let opened = |problem: &str| problem.contains("file too short") || problem.contains("ELF");
        assert!(opened(&problem()), "{}", problem());
        for (path, shared) in [
            (own.clone(), 0o777),
            (own.clone(), 0o775),
            (own.join("nvrtc"), 0o777),
            (own.join("nvrtc/13.0.88/nvidia"), 0o722),
            (library.parent().unwrap().to_path_buf(), 0o777),
            (library.clone(), 0o666),
            (scratch.0.join("data"), 0o777),
        ] {
            mode(&path, shared);
            assert!(!opened(&problem()) && !problem().is_empty(), "{}: {}", path.display(), problem());
            mode(&path, if path == library { 0o644 } else { 0o755 });
            assert!(opened(&problem()), "{}", path.display());
        }
        let beside = scratch.file("data/tile-kernels/nvrtc/13.0.88/nvidia/cu13/lib/libnvrtc-builtins.so.13.0");
        mode(&beside, 0o666);
        assert!(!opened(&problem()), "{}", problem());
        fs::remove_file(beside).unwrap();
        fs::rename(&own, scratch.0.join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(scratch.0.join("elsewhere"), &own).unwrap();
        assert!(problem().contains("symbolic link"), "{}", problem());
    }

    /// CWE-427: what somebody planted in the folder that a program is started in, or above it.
    #[test]
    fn nothing_is_looked_for_around_the_current_folder() {
        let scratch = Scratch::new("planted");
        let planted = [
            scratch.file("target/nvrtc/13.0.88/nvidia/cu13/lib/libnvrtc.so.13"),
            scratch.file("target/nvdisasm/13.0.88/nvidia/cu13/bin/nvdisasm"),
            scratch.file(".venv/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13"),
            scratch.file("venv/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13"),
            scratch.file("data/nvdisasm"),
            scratch.file("data/nvidia/cu13/lib/libnvrtc.so.13"),
            scratch.file("data/tile-kernels/nvrtc/13.0.88/nvidia/cu13/lib/libnvrtc.so.13"),
        ];
        let folder = scratch.0.join("data");
        let program = env::current_exe().unwrap();
        let mut child = std::process::Command::new(program);
        child
            .args(["--exact", "--ignored", "library::tests::prints_what_is_tried", "--nocapture"])
            .current_dir(&folder);
        for gone in ["TILE_NVRTC", "TILE_NVDISASM", "VIRTUAL_ENV", "CONDA_PREFIX", "HOME", "CUDA_HOME", "CUDA_PATH"] {
            child.env_remove(gone);
        }
        // Relative: the current folder.
        let output = child.env("PATH", ".:").env("PYTHONPATH", ".:").env("XDG_DATA_HOME", ".").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("tried libnvrtc.so.13"), "{text}");
        for path in planted {
            assert!(!text.contains(path.to_str().unwrap()), "{}:\n{text}", path.display());
        }
        let relative =
            |line: &str| line.starts_with("tried ./") || line.starts_with("tried nv") || line.contains("tried tile");
        assert!(!text.lines().any(relative), "{text}");
    }

    #[test]
    #[ignore = "run by nothing_is_looked_for_around_the_current_folder"]
    fn prints_what_is_tried() {
        let nvrtc = Surroundings::with_process(|a| open_nvrtc(a, |_| Err("refused by the test".into())).map(|_| ()));
        let tried = nvrtc.unwrap_err().tried.into_iter().map(|t| t.path);
        let disassembler = find_nvdisasm().map_or_else(|e| e.tried.into_iter().map(|t| t.path).collect(), |p| vec![p]);
        tried.chain(disassembler).for_each(|path| println!("tried {}", path.display()));
    }

    #[test]
    fn what_was_there_is_not_said_to_be_missing() {
        let error = |problem: &str| LibraryError {
            what: "the CUDA driver",
            tried: vec![Attempt { path: "libcuda.so.1".into(), problem: problem.into() }],
            help: DRIVER_HELP,
        };
        let missing = error("cannot open shared object file: No such file or directory").to_string();
        assert!(missing.starts_with("the CUDA driver was not found"), "{missing}");
        let failing =
            error("cuInit failed: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected").to_string();
        assert!(failing.starts_with("the CUDA driver cannot be used"), "{failing}");
    }

    #[test]
    fn names_of_files_give_versions() {
        assert_eq!(version_of(Path::new("/x/libnvrtc.so.13.0.88")), [13, 0, 88]);
        assert_eq!(patch_version(Path::new("/usr/lib/libnvrtc.so.12.9.86")).as_deref(), Some("12.9.86"));
        assert_eq!(patch_version(Path::new("/nowhere/at/all/here/libnvrtc.so.13")), None);
    }
}
