//! Kernels that must not compile, each with one mistake: what rustc says about it, word for word.
//!
//! `tests/ui/NAME.rs` marks the offending line with `//~`; `tests/ui/NAME.stderr` is what rustc prints on the pinned
//! toolchain (`TRYBUILD=overwrite cargo test --test ui` writes it anew); `tests/ui/valid/NAME.rs` is the same kernel
//! without the mistake, compiled by `tests/valid.rs`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tile_ir::diag::Code;

/// The toolchain whose words the `.stderr` files are, as `rust-toolchain.toml` pins it.
const PINNED: &str = "1.95.0";

/// Words that belong to the implementation: no author wrote them and none should have to read them.
const INTERNALS: &[&str] = &[
    "__",
    "dsl::",
    "tile_ir",
    "tile_macros",
    "tile_syntax",
    "ExprId",
    "StmtId",
    "SpanId",
    "ExprKind",
    "StmtKind",
    "Diagnostic",
    "shadow",
    "launch_table",
    "INDEX",
    "DEFINITION",
    "ArgumentTable",
    "error: error",
    "panicked",
    "_::",
];

#[test]
fn each_mistake_is_reported_in_these_words() {
    if toolchain() == PINNED {
        trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
    } else {
        println!("this is not rustc {PINNED}: code and line are compared, not the words");
        let crate_dir = write_crate();
        let reports = check_crate(&crate_dir);
        for case in cases() {
            let found: Vec<_> = reports.iter().filter(|r| r.case == case.name).collect();
            let places: Vec<_> = found.iter().map(|r| (r.code.clone(), r.line)).collect();
            assert_eq!(places, [(case.code(), case.marked_line())], "{}", case.name);
        }
    }
}

#[test]
fn a_report_is_one_error_at_the_offending_line() {
    for case in cases() {
        let stderr = case.stderr();
        let errors: Vec<&str> = stderr.lines().filter(|l| l.starts_with("error")).collect();
        assert_eq!(errors.len(), 1, "{}: one mistake, one error, not {errors:#?}", case.name);
        assert!(!stderr.lines().any(|l| l.starts_with("warning")), "{}: a warning beside the error", case.name);
        assert_eq!(case.located_line(), case.marked_line(), "{}: the error is not at the marked line", case.name);
    }
}

#[test]
fn no_report_names_an_internal() {
    for case in cases() {
        // A documented function is named by rustc with its module where its name alone is ambiguous, and its source
        // file is a fact.
        let relevant = |line: &&str| {
            !line.starts_with("note: required by a bound in `tile_runtime::dsl::")
                && !line.trim_start().starts_with("-->")
        };
        for line in case.stderr().lines().filter(relevant) {
            for internal in INTERNALS {
                assert!(!line.contains(internal), "{}: `{internal}` in {line:?}", case.name);
            }
        }
    }
}

#[test]
fn every_mistake_has_a_valid_neighbour() {
    let modules = fs::read_to_string("tests/valid.rs").expect("tests/valid.rs");
    for case in cases() {
        let neighbour = PathBuf::from(format!("tests/ui/valid/{}.rs", case.name));
        assert!(neighbour.exists(), "{} has no {}", case.name, neighbour.display());
        assert!(modules.contains(&format!("mod {};", case.name)), "tests/valid.rs does not compile {}", case.name);
    }
}

/// Helps that name what may be used rather than what to write, so that no neighbour holds their text.
const NAMES_ONLY: [&str; 11] = [
    "constant_extent",
    "constant_threads",
    "constant_unroll",
    "specialize_constant",
    "workspace_dim",
    "dim_type",
    "fragment_copy",
    // Prints by another macro than the neighbour's, and its text is the author's.
    "syntax_macro",
    // A guard is offered for an index that is meant; the neighbour has the index that was meant.
    "guard_missing",
    "guard_data",
    // Code that goes; the neighbour has another in its place.
    "swizzle_span",
];

#[test]
fn the_neighbour_does_what_the_help_says() {
    // Neighbours compile without a warning (`tests/valid.rs`), so a help whose code stands in the neighbour was applied.
    for case in cases().iter().filter(|case| !NAMES_ONLY.contains(&case.name.as_str())) {
        let stderr = case.stderr();
        let Some(help) = stderr.lines().find_map(|line| line.split_once("= help: ")).map(|(_, help)| help) else {
            continue;
        };
        let offered: Vec<&str> = help.split('`').skip(1).step_by(2).collect();
        if offered.is_empty() || !case.code().starts_with("TK") {
            continue;
        }
        let neighbour = fs::read_to_string(format!("tests/ui/valid/{}.rs", case.name)).expect("a neighbour");
        assert!(
            offered.iter().any(|code| stands_in(code, &neighbour)),
            "{}: the help says {offered:?}, and its valid neighbour does none of it",
            case.name
        );
    }
}

/// Whether code stands in a text, whatever the spaces. `..` stands for anything; so do single letters and numbers, which in a help
/// stand for the author's own.
fn stands_in(code: &str, text: &str) -> bool {
    let pieces = |text: &str| -> Vec<String> {
        let mut pieces: Vec<String> = vec![];
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        for word in text.split_whitespace() {
            let mut in_word = false;
            for c in word.chars() {
                match pieces.last_mut() {
                    Some(last) if in_word && is_word(c) => last.push(c),
                    _ => pieces.push(c.into()),
                }
                in_word = is_word(c);
            }
        }
        pieces
    };
    let (text, code) = (pieces(text), pieces(code.trim_end_matches(';')));
    let is_free =
        |piece: &str| piece.len() == 1 && piece.starts_with(char::is_alphabetic) || piece.parse::<f32>().is_ok();
    (0..text.len()).any(|start| {
        let mut at = start;
        let mut wanted = code.iter().peekable();
        while let Some(piece) = wanted.next() {
            if piece == "." && wanted.next_if(|next| *next == ".").is_some() {
                let Some(next) = wanted.peek() else { return true };
                match text[at..].iter().position(|found| found == *next) {
                    Some(skipped) => at += skipped,
                    None => return false,
                }
                continue;
            }
            let Some(found) = text.get(at) else { return false };
            let fits = found == piece || is_free(piece) && found.starts_with(|c: char| c.is_alphanumeric() || c == '_');
            if !fits {
                return false;
            }
            at += 1;
        }
        true
    })
}

#[test]
fn every_code_that_appears_while_typing_has_a_case() {
    let shown: BTreeSet<String> = cases().iter().map(Case::code).collect();
    let typing = Code::ALL.iter().map(|(code, _)| *code).filter(|code| code.appears_while_typing());
    let missing: Vec<String> = typing.map(|code| code.to_string()).filter(|code| !shown.contains(code)).collect();
    assert!(missing.is_empty(), "no case in tests/ui shows {missing:?}");
}

/// One file of `tests/ui`.
struct Case {
    name: String,
    path: PathBuf,
}

impl Case {
    fn stderr(&self) -> String {
        let path = self.path.with_extension("stderr");
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// The line that ends in `//~`, from 1.
    fn marked_line(&self) -> usize {
        let text = fs::read_to_string(&self.path).expect("a readable case");
        let marked: Vec<usize> =
            text.lines().enumerate().filter(|(_, l)| l.ends_with("//~")).map(|(n, _)| n + 1).collect();
        assert_eq!(marked.len(), 1, "{}: one line is marked", self.name);
        marked[0]
    }

    /// The line of the first `-->`.
    fn located_line(&self) -> usize {
        let stderr = self.stderr();
        let place = stderr.lines().find_map(|l| l.trim_start().strip_prefix("--> ")).expect("a place");
        let line = place.strip_prefix(&format!("tests/ui/{}.rs:", self.name)).and_then(|p| p.split(':').next());
        line.and_then(|l| l.parse().ok()).unwrap_or_else(|| panic!("{}: located at {place}", self.name))
    }

    /// `TK0801`, or rustc's own `E0425`.
    fn code(&self) -> String {
        code_of(self.stderr().lines().next().unwrap_or_default())
    }
}

fn cases() -> Vec<Case> {
    let mut cases = vec![];
    for entry in fs::read_dir("tests/ui").expect("tests/ui") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "rs") {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            cases.push(Case { name, path });
        }
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    cases
}

/// The `TK` code in a message, or else rustc's code of `error[E0425]: ..`.
fn code_of(message: &str) -> String {
    let bracketed =
        |text: &str| text.split('[').skip(1).filter_map(|t| t.split(']').next()).map(str::to_owned).collect::<Vec<_>>();
    let codes = bracketed(message);
    codes.iter().find(|c| c.starts_with("TK")).or(codes.first()).cloned().unwrap_or_default()
}

fn toolchain() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().expect("rustc runs");
    String::from_utf8_lossy(&output.stdout).split(' ').nth(1).unwrap_or_default().to_owned()
}

/// What rustc reports about one case.
struct Report {
    case: String,
    code: String,
    line: usize,
}

/// A crate with a binary for each case.
fn write_crate() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ui");
    fs::create_dir_all(&dir).expect("a directory");
    let mut manifest = format!(
        "[package]\nname = \"ui\"\nedition = \"2024\"\n[workspace]\n[dependencies]\ntile-runtime = {{ path = {:?} }}\n\
         tile-kernels = {{ path = {:?} }}\n",
        root.join("tile-runtime"),
        root.join("tile-kernels")
    );
    for case in cases() {
        manifest += &format!("[[bin]]\nname = {:?}\npath = {:?}\n", case.name, root.join(&case.path));
    }
    fs::write(dir.join("Cargo.toml"), manifest).expect("a manifest");
    fs::copy(root.join("Cargo.lock"), dir.join("Cargo.lock")).expect("a lock file");
    dir
}

/// Every error of the crate's binaries.
fn check_crate(dir: &Path) -> Vec<Report> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(dir).args(["check", "--bins", "--keep-going", "--message-format=json"]);
    let output = command.output().expect("cargo runs");
    let mut reports = vec![];
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        let (report, case) = (&message["message"], message["target"]["name"].as_str().unwrap_or_default());
        if report["level"] != "error" {
            continue;
        }
        let primary = report["spans"].as_array().and_then(|spans| spans.iter().find(|s| s["is_primary"] == true));
        let Some(line) = primary.and_then(|s| s["line_start"].as_u64()) else { continue };
        let text = report["rendered"].as_str().unwrap_or_default();
        let code = code_of(text.lines().next().unwrap_or_default());
        reports.push(Report { case: case.to_owned(), code, line: line as usize });
    }
    assert!(!reports.is_empty(), "cargo check reported nothing: {}", String::from_utf8_lossy(&output.stderr));
    reports
}
