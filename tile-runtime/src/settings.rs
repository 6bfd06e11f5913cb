//! Every environment variable of this library, in one table: what it takes, what holds without it, what it is for.
//!
//! A value that means nothing is said on standard error, once, and what holds without the variable is used. Two are errors
//! where they are used, because there is no telling what was meant: a `TILE_DEVICE` that names no device, and paths where
//! nothing is. `tests/settings.rs` compares the book's table with this one, and this one with the sources.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;

/// An environment variable.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// What values mean.
    pub kind: Kind,
    /// The values, for a reader; a path's or a text's in words.
    pub values: &'static str,
    /// What holds without it, for a reader.
    pub default: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// Who reads it.
    pub reader: Reader,
}

/// What values of a variable mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// On or off: `1`, `on`, `true`, `yes` and `0`, `off`, `false`, `no`, in any case.
    Switch,
    /// A whole number.
    Number,
    /// Bytes: `1000000`, `512M`, `4G`.
    Size,
    /// `cuda:N`, `sim` or `sim-checked`.
    Device,
    /// A file or folder.
    Path,
    /// Any text: whoever reads it says what is wrong with it.
    Text,
}

/// Who reads a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Programs with kernels.
    Runtime,
    /// The benchmarks of this repository.
    Benchmarks,
    /// The tests of this repository.
    Tests,
}

const fn setting(
    name: &'static str,
    kind: Kind,
    values: &'static str,
    default: &'static str,
    about: &'static str,
    reader: Reader,
) -> Setting {
    Setting { name, kind, values, default, about, reader }
}

const SWITCH: &str = "`on`, `off`";

/// The variables.
pub const SETTINGS: &[Setting] = {
    use Kind::*;
    use Reader::*;
    &[
        setting(
            "TILE_DEVICE",
            Device,
            "`cuda:0` (or another number), `sim`, `sim-checked`",
            "the first CUDA device, else `sim`",
            "where `Device::auto` runs kernels; another value is an error",
            Runtime,
        ),
        setting(
            "TILE_NVRTC",
            Path,
            "a library or a folder",
            "searched for",
            "NVRTC; set means used, or an error",
            Runtime,
        ),
        setting(
            "TILE_NVDISASM",
            Path,
            "a program or its folder",
            "searched for",
            "the disassembler that `--show sass` needs",
            Runtime,
        ),
        setting("TILE_CACHE", Switch, SWITCH, "`on`", "whether compiled kernels are kept between runs", Runtime),
        setting(
            "TILE_CACHE_DIR",
            Path,
            "a folder",
            "`tile-kernels` in `XDG_CACHE_HOME` or `~/.cache`",
            "where they are kept",
            Runtime,
        ),
        setting(
            "TILE_CACHE_READONLY_DIR",
            Path,
            "a folder",
            "none",
            "where they are looked for besides, and never written: this user's or root's, writable by nobody else",
            Runtime,
        ),
        setting(
            "TILE_CACHE_SIZE",
            Size,
            "`512M`, `4G`, bytes",
            "`2G`",
            "how large the cache may grow before what was used longest ago goes",
            Runtime,
        ),
        setting(
            "TILE_LINEINFO",
            Switch,
            SWITCH,
            "`off`",
            "compiled kernels name the author's Rust lines, for profilers",
            Runtime,
        ),
        setting(
            "TILE_LAUNCH_BLOCKING",
            Switch,
            SWITCH,
            "`off`",
            "wait for each launch, so that a fault names its kernel",
            Runtime,
        ),
        setting(
            "TILE_PDL",
            Switch,
            SWITCH,
            "`on`",
            "whether kernels with `pdl` may start before the previous one is done",
            Runtime,
        ),
        setting("TILE_SEED", Number, "a whole number", "0", "the schedule of the checked simulator", Runtime),
        setting(
            "TILE_STEP_LIMIT",
            Number,
            "a whole number",
            "2000000000",
            "after how many steps a simulated launch is stopped",
            Runtime,
        ),
        setting(
            "TILE_TUNE_REPORT",
            Text,
            "`1`, a file or a folder; `0` is none",
            "none",
            "show what the tuner measured, or write it as JSON",
            Runtime,
        ),
        setting("TILE_CUBLAS", Path, "a folder", "searched for", "cuBLAS and cuBLASLt", Benchmarks),
        setting("TILE_INSTANCES", Text, "part of an instance's name", "all", "which instances `tests/gpu` runs", Tests),
        setting("TILE_SHARD", Text, "`i/n`", "all", "which part of them", Tests),
        setting("TILE_RESULTS", Path, "a file", "none", "where `tests/gpu` writes what it measured", Tests),
        setting(
            "TILE_NVRTC_ONLY",
            Text,
            "part of a kernel's name",
            "all",
            "which kernels `tests/nvrtc` compiles",
            Tests,
        ),
        setting(
            "TILE_NVRTC_REPORT",
            Path,
            "a file",
            "none",
            "where a run of `tests/nvrtc` reports to the one that started it",
            Tests,
        ),
        setting(
            "TILE_VARIANTS",
            Path,
            "a folder",
            "none",
            "where tests of `tile-ir` write the CUDA C of products",
            Tests,
        ),
        setting("TILE_SASS", Path, "a folder", "none", "where `tests/language_nvrtc.rs` writes machine code", Tests),
        setting(
            "TILE_SOAK",
            Number,
            "a whole number",
            "1",
            "how many times as many histories of streams are tried",
            Tests,
        ),
        setting(
            "TILE_SOAK_COMMIT",
            Text,
            "a commit",
            "git's",
            "the commit that `cargo xtask soak` records where there is no git",
            Tests,
        ),
        setting("TILE_TEST_ALONE", Text, "`1`", "none", "that a process of `tests/gpu` runs one test alone", Tests),
    ]
};

/// The setting called `name`.
pub fn named(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

impl Setting {
    /// Whether a value means something; what is wrong with it, in words, where it does not.
    ///
    /// # Errors
    /// `TILE_SEED is `banana`, not a whole number; without it: 0`.
    pub fn check(&self, value: &OsStr) -> Result<(), String> {
        let text = value.to_str();
        let (good, wanted) = match self.kind {
            Kind::Switch => (text.and_then(switch).is_some(), "neither on nor off".to_owned()),
            Kind::Number => (text.and_then(number).is_some(), "not a whole number".to_owned()),
            Kind::Size => (text.and_then(size).is_some(), "not a size such as 512M or 4G".to_owned()),
            Kind::Device => (
                text.is_some_and(crate::Device::is_name),
                "not cuda:0 (or another number), sim or sim-checked".to_owned(),
            ),
            Kind::Path | Kind::Text => (true, String::new()),
        };
        let shown = value.to_string_lossy();
        good.then_some(())
            .ok_or_else(|| format!("{} is `{shown}`, {wanted}; without it: {}", self.name, self.plain_default()))
    }

    fn plain_default(&self) -> String {
        self.default.replace('`', "")
    }
}

fn switch(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "on" | "true" | "yes" => Some(true),
        "0" | "off" | "false" | "no" => Some(false),
        _ => None,
    }
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// A size such as `512M`, `4G` or `1000000`, in bytes.
fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, shift) = match text.to_ascii_uppercase().chars().last()? {
        'K' => (&text[..text.len() - 1], 10),
        'M' => (&text[..text.len() - 1], 20),
        'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// The variable's value, if it is set to anything.
fn value(name: &str) -> Option<std::ffi::OsString> {
    debug_assert!(named(name).is_some(), "{name} is not in the table");
    env::var_os(name).filter(|value| !value.is_empty())
}

/// What a variable's value means to `read`; said and `None` where it means nothing.
fn read<T>(name: &str, read: fn(&str) -> Option<T>) -> Option<T> {
    let value = value(name)?;
    let meant = value.to_str().and_then(read);
    if meant.is_none()
        && let Some(Err(problem)) = named(name).map(|setting| setting.check(&value))
    {
        say_once(problem);
    }
    meant
}

fn say_once(problem: String) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if crate::lock::lock(&SAID).insert(problem.clone()) {
        eprintln!("tile: warning: {problem}");
    }
}

/// A switch's position; `default` where it is not set or means nothing.
pub(crate) fn is_on(name: &str, default: bool) -> bool {
    read(name, switch).unwrap_or(default)
}

/// A number, if one is set.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    read(name, number)
}

/// A number of bytes, if one is set.
pub(crate) fn size_of(name: &str) -> Option<u64> {
    read(name, size)
}

/// A path or a text, if one is set.
pub(crate) fn path(name: &str) -> Option<PathBuf> {
    value(name).map(PathBuf::from)
}

/// What is wrong with the environment: values that mean nothing, and variables that are nearly called like one of these.
pub fn problems() -> Vec<String> {
    problems_of(env::vars_os().map(|(name, value)| (name.to_string_lossy().into_owned(), value)))
}

fn problems_of(variables: impl Iterator<Item = (String, std::ffi::OsString)>) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, value) in variables {
        match named(&name) {
            Some(setting) if !value.is_empty() => problems.extend(setting.check(&value).err()),
            Some(_) => {}
            None if name.to_ascii_uppercase().starts_with("TILE") => {
                let distance = |s: &&Setting| strsim::damerau_levenshtein(s.name, &name.to_ascii_uppercase());
                let near = SETTINGS.iter().min_by_key(distance).filter(|s| distance(s) <= 2);
                problems
                    .extend(near.map(|s| format!("{name} is no variable of this library; did you mean {}?", s.name)));
            }
            None => {}
        }
    }
    problems.sort();
    problems
}

/// The table as Markdown, one a reader.
pub fn table() -> String {
    let mut text = String::new();
    for (reader, heading) in [
        (Reader::Runtime, "Programs with kernels"),
        (Reader::Benchmarks, "Benchmarks of this repository"),
        (Reader::Tests, "Tests of this repository"),
    ] {
        let _ =
            writeln!(text, "## {heading}\n\n| variable | values | without it | what it is for |\n|---|---|---|---|");
        for Setting { name, values, default, about, .. } in SETTINGS.iter().filter(|s| s.reader == reader) {
            let _ = writeln!(text, "| `{name}` | {values} | {default} | {about} |");
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, value: &str) -> Result<(), String> {
        named(name).unwrap().check(OsStr::new(value))
    }

    #[test]
    fn what_means_nothing_is_said() {
        for (name, value, words) in [
            ("TILE_SEED", "banana", "not a whole number; without it: 0"),
            ("TILE_SEED", "-1", "not a whole number"),
            ("TILE_PDL", "garbage", "neither on nor off; without it: on"),
            ("TILE_CACHE", "nope", "neither on nor off"),
            ("TILE_LAUNCH_BLOCKING", "2", "neither on nor off; without it: off"),
            ("TILE_CACHE_SIZE", "1T1", "not a size such as 512M or 4G; without it: 2G"),
            ("TILE_DEVICE", "gpu", "sim-checked"),
        ] {
            let problem = check(name, value).unwrap_err();
            assert!(problem.starts_with(&format!("{name} is `{value}`, ")) && problem.contains(words), "{problem}");
        }
        for (name, value) in [("TILE_PDL", "OFF"), ("TILE_PDL", "0"), ("TILE_LINEINFO", "True"), ("TILE_SEED", " 7 ")] {
            assert_eq!(check(name, value), Ok(()));
        }
        #[cfg(unix)]
        {
            use std::os::unix::ffi::OsStrExt;
            assert!(named("TILE_SEED").unwrap().check(OsStr::from_bytes(b"\xff")).is_err());
        }
    }

    #[test]
    fn positions_of_switches() {
        assert_eq!(["1", "ON", "true", " yes "].map(switch), [Some(true); 4]);
        assert_eq!(["0", "OFF", "False", "no"].map(switch), [Some(false); 4]);
        assert_eq!(["", "2", "onn"].map(switch), [None; 3]);
    }

    #[test]
    fn sizes_are_read() {
        assert_eq!(size("512M"), Some(512 << 20));
        assert_eq!(size(" 4g "), Some(4 << 30));
        assert_eq!(size("1000"), Some(1000));
        for wrong in ["", "G", "-1", "1.5G", "1T1", "ß"] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn nearly_right_names_are_mentioned() {
        let set = |name: &str, value: &str| (name.to_owned(), std::ffi::OsString::from(value));
        let found = problems_of(
            [
                set("TILE_CAHCE", "off"),
                set("tile_device", "sim"),
                set("TILE_PDL", "maybe"),
                set("TILE_SEED", ""),
                set("TILESET", "x"),
                set("TILE_OF_ANOTHER_PROGRAM", "x"),
                set("PATH", "x"),
            ]
            .into_iter(),
        );
        assert_eq!(
            found,
            [
                "TILE_CAHCE is no variable of this library; did you mean TILE_CACHE?",
                "TILE_PDL is `maybe`, neither on nor off; without it: on",
                "tile_device is no variable of this library; did you mean TILE_DEVICE?",
            ]
        );
    }
}
