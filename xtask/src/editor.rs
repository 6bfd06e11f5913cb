//! `cargo xtask editor`: what an editor gives inside a kernel, asked of rust-analyzer as an editor asks it.
//!
//! 1. Makes a crate in `target/editor` that depends on `tile-runtime` and has the README's kernel.
//! 2. Starts rust-analyzer's language server in it and opens the file.
//! 3. Asks for completions, hovers and definitions in the kernel, and puts a mistake into the buffer, not into the file.
//!
//! Where rust-analyzer cannot be had this is skipped, and said.

use crate::lsp::{Server, uri};
use crate::process::{cargo, output, run as run_command, say};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Marks the cursor in a text.
const CURSOR: char = '‸';

/// A part of the kernel, what is typed in its place up to the cursor, and some of what is offered there.
const COMPLETIONS: [(&str, &str, &[&str]); 6] = [
    ("x.masked([bk * 32 * vec + tk * vec + v]);", "x.‸", &["at", "masked", "tile"]),
    ("x.masked([bk * 32 * vec + tk * vec + v]);", "x.ma‸;", &["at", "masked", "tile"]),
    ("xs[v].cast::<f32>()", "xs[v].ca‸", &["cast"]),
    ("thread_allreduce(Sum, acc, tk)", "thread_all‸", &["thread_allreduce", "acc", "tk"]),
    ("let sum =", "sync‸\n    let sum =", &["sync_threads", "sync_warp", "row"]),
    ("alloc_local::<T>([vec])", "allo‸::<T>([vec])", &["alloc_local", "alloc_shared", "vec"]),
];

/// A place in the kernel, and some of what is shown there.
const HOVERS: [(&str, &[&str]); 6] = [
    ("‸acc +=", &["let mut acc: f32"]),
    ("‸x.masked([bk", &["x: &GlobalTensor<T, 1>"]),
    ("x.‸masked([bk", &["pub fn masked", "The element at `index`, or 0 where"]),
    ("‸thread_allreduce(", &["pub fn thread_allreduce", "Combines `value` over the threads"]),
    ("x: &‸Tensor<", &["A tensor parameter inside a kernel"]),
    ("fn ‸gemv", &["pub struct gemv", "y = W x: a warp per row"]),
];

/// A place in the kernel, and the line that it is defined on.
const DEFINITIONS: [(&str, &str); 8] = [
    ("‸acc +=", "    let mut acc = 0.0f32;"),
    ("row < ‸N ", "    w: &Tensor<T, (N, K)>,"),
    ("x.‸masked([bk", "    pub fn masked(&self, index: [usize; R]) -> T"),
    ("‸thread_allreduce(", "pub fn thread_allreduce<"),
    ("x: &‸Tensor<", "pub type Tensor<"),
    ("gemv<‸T: Float", "pub fn gemv<"),
    ("fn ‸gemv", "pub fn gemv<"),
    ("let _ = ‸gemv::", "pub fn gemv<"),
];

/// Host code below the kernel.
const HOST: &str = "\npub fn host() {\n    let _ = gemv::<f16, 8>::definition();\n}\n";

/// Asks everything.
pub fn run(root: &Path) -> Result<()> {
    let Some(version) = server_version(root) else {
        say(
            "skipped: what rust-analyzer gives in a kernel (there is no rust-analyzer with a standard library that it can \
             read, nor can rustup install it)",
        );
        return Ok(());
    };
    say(format!("with {version}"));
    let start = Instant::now();
    let folder = make_crate(root)?;
    let file = folder.join("src/lib.rs");
    let text = fs::read_to_string(&file)?;
    // What the server builds for itself, built here to be seen.
    run_command(cargo(&folder).args(["check", "--quiet", "--offline"]).env("CARGO_TARGET_DIR", target(root)))?;
    say(format!("the crate was built after {:.0} s", start.elapsed().as_secs_f64()));

    let mut command = Command::new("rust-analyzer");
    command.env("CARGO_TARGET_DIR", target(root));
    let options = json!({ "checkOnSave": false, "cachePriming": { "enable": false } });
    let mut editor = Editor { server: Server::start(&mut command, &folder, &options)?, file, text, version: 0 };
    editor.open()?;
    editor.server.wait_until_idle(Duration::from_secs(300))?;
    say(format!("the server was ready after {:.0} s", start.elapsed().as_secs_f64()));

    for (part, typed, offered) in COMPLETIONS {
        editor.completes(part, typed, offered)?;
    }
    for (place, shown) in HOVERS {
        editor.hovers(place, shown)?;
    }
    for (place, line) in DEFINITIONS {
        editor.defines(place, line)?;
    }
    editor.reports()?;
    say(format!("completion, hover, definition and live errors, in {:.0} s", start.elapsed().as_secs_f64()));
    Ok(())
}

/// What `rust-analyzer --version` says, installed if it can be; none where there is none, or where it cannot read the
/// standard library, without which it knows no operator: `xs[v]` has no type.
fn server_version(root: &Path) -> Option<String> {
    let ask = || {
        let mut command = Command::new("rust-analyzer");
        let answer = command.current_dir(root).arg("--version").stderr(Stdio::null()).output().ok()?;
        answer.status.success().then(|| String::from_utf8_lossy(&answer.stdout).trim().to_owned())
    };
    if ask().is_none() || !reads_standard_library(root) {
        let mut install = Command::new("rustup");
        run_command(install.current_dir(root).args(["component", "add", "rust-analyzer", "rust-src"])).ok();
    }
    ask().filter(|_| reads_standard_library(root))
}

/// Whether the standard library's source is there and so are the crates that its manifests name, which rust-analyzer asks
/// cargo for: they are fetched where they are not.
fn reads_standard_library(root: &Path) -> bool {
    let Ok(sysroot) = output(Command::new("rustc").current_dir(root).args(["--print", "sysroot"])) else {
        return false;
    };
    let manifest = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/sysroot/Cargo.toml");
    let mut metadata = cargo(root);
    metadata.args(["metadata", "--locked", "--quiet", "--format-version", "1", "--manifest-path"]).arg(&manifest);
    // The standard library's manifests use what is not stable.
    metadata.env("RUSTC_BOOTSTRAP", "1");
    manifest.is_file() && output(&mut metadata).is_ok()
}

/// The folder that `cargo-tile/tests/whole` builds in, too: both build the same dependencies for a crate of one's own.
fn target(root: &Path) -> PathBuf {
    root.join("target/tmp/whole")
}

/// Writes the crate: the README's first listing of Rust, which is a kernel, and host code.
fn make_crate(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/editor/crate");
    fs::create_dir_all(folder.join("src"))?;
    let runtime = root.join("tile-runtime");
    let manifest = format!(
        "[package]\nname = \"in-the-editor\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n\
         tile-runtime = {{ path = {:?}, default-features = false }}\n",
        runtime.display().to_string()
    );
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let readme = fs::read_to_string(root.join("README.md"))?;
    let listing = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    fs::write(folder.join("src/lib.rs"), listing.context("the README has no listing of Rust")?.to_owned() + HOST)?;
    Ok(folder)
}

/// A file that is open in an editor.
struct Editor {
    server: Server,
    file: PathBuf,
    /// What the file holds.
    text: String,
    /// Of the buffer.
    version: i32,
}

impl Editor {
    fn open(&mut self) -> Result<()> {
        let document = json!({ "uri": uri(&self.file), "languageId": "rust", "version": 0, "text": self.text });
        self.server.notify("textDocument/didOpen", json!({ "textDocument": document }))
    }

    /// Puts a text into the buffer; the file stays as it is.
    fn write(&mut self, text: &str) -> Result<()> {
        self.version += 1;
        let document = json!({ "uri": uri(&self.file), "version": self.version });
        let change = json!({ "textDocument": document, "contentChanges": [{ "text": text }] });
        self.server.notify("textDocument/didChange", change)
    }

    /// Asks about the place that is marked in `text`, which is put into the buffer.
    fn ask(&mut self, method: &str, text: &str) -> Result<Value> {
        let (before, after) = text.split_once(CURSOR).context("no cursor")?;
        self.write(&format!("{before}{after}"))?;
        // Lines and columns from zero; the kernel is ASCII, so that columns are bytes.
        let (line, column) = (before.matches('\n').count(), before.len() - before.rfind('\n').map_or(0, |at| at + 1));
        let place = json!({ "line": line, "character": column });
        self.server.request(method, json!({ "textDocument": { "uri": uri(&self.file) }, "position": place }))
    }

    /// The text with `typed` in the place of `part`.
    fn with(&self, part: &str, typed: &str) -> Result<String> {
        ensure!(self.text.matches(part).count() > 0, "the README's kernel has no `{part}`");
        Ok(self.text.replacen(part, typed, 1))
    }

    /// The text with the cursor in it.
    fn at(&self, place: &str) -> Result<String> {
        self.with(&place.replace(CURSOR, ""), place)
    }

    fn completes(&mut self, part: &str, typed: &str, wanted: &[&str]) -> Result<()> {
        let answer = self.ask("textDocument/completion", &self.with(part, typed)?)?;
        let items = answer["items"].as_array().or(answer.as_array()).cloned().unwrap_or_default();
        // `cast(as Cast)` is `cast`.
        let name = |item: &Value| item["label"].as_str().and_then(|l| l.split('(').next()).map(str::to_owned);
        let offered: Vec<String> = items.iter().filter_map(name).collect();
        for wanted in wanted {
            ensure!(offered.iter().any(|o| o == wanted), "at `{typed}` there is no `{wanted}` among {offered:?}");
        }
        Ok(())
    }

    fn hovers(&mut self, place: &str, wanted: &[&str]) -> Result<()> {
        let answer = self.ask("textDocument/hover", &self.at(place)?)?;
        let shown = answer["contents"]["value"].as_str().unwrap_or_default();
        for wanted in wanted {
            ensure!(shown.contains(wanted), "at `{place}` hover does not show `{wanted}`:\n{shown}");
        }
        // The attributes of what the macro generates are nobody's concern.
        ensure!(!shown.contains("#[allow"), "at `{place}` hover shows an attribute of the expansion:\n{shown}");
        // One thing has at most a listing with its module and one with its declaration.
        ensure!(shown.matches("```rust").count() <= 2, "at `{place}` hover shows more than what is there:\n{shown}");
        Ok(())
    }

    fn defines(&mut self, place: &str, wanted: &str) -> Result<()> {
        let answer = self.ask("textDocument/definition", &self.at(place)?)?;
        let targets = answer.as_array().cloned().unwrap_or_default();
        ensure!(targets.len() == 1, "`{place}` has {} definitions: {answer:#}", targets.len());
        let file = targets[0]["uri"].as_str().and_then(|uri| uri.strip_prefix("file://")).context("no file")?;
        let line = targets[0]["range"]["start"]["line"].as_u64().context("no line")?;
        let text = fs::read_to_string(file)?;
        let found = text.lines().nth(usize::try_from(line)?).unwrap_or_default();
        ensure!(found.starts_with(wanted), "the definition of `{place}` is said to be `{found}` in {file}");
        Ok(())
    }

    /// A mistake in the buffer is an error on its line, and none when it is gone.
    fn reports(&mut self) -> Result<()> {
        const MOST: Duration = Duration::from_secs(30);
        let damaged = self.with("require(K % (128 / T::BITS) == 0)", "require(K % 2 == 0)")?;
        let line = damaged.lines().position(|line| line.contains("w.masked(")).context("no access to w")?;
        self.write(&damaged)?;
        let is_it = |d: &Value| {
            d["severity"] == 1
                && d["range"]["start"]["line"] == line
                && d["message"].as_str().is_some_and(|text| text.starts_with("[TK0201]"))
        };
        let took = self.server.wait_for(MOST, |diagnostics| diagnostics.iter().any(is_it))?;
        ensure!(fs::read_to_string(&self.file)? == self.text, "the file was changed, not only the buffer");
        say(format!("TK0201 at its line {:.1} s after the edit", took.as_secs_f64()));
        // A name that is not finished is one mistake, reported once.
        self.write(&self.with("x.masked(", "x.mask(")?)?;
        let unfinished =
            |ds: &[Value]| ds.len() == 1 && ds[0]["message"].as_str().is_some_and(|m| m.contains("[TK0801]"));
        self.server.wait_for(MOST, unfinished)?;
        self.write(&self.text.clone())?;
        self.server.wait_for(MOST, |diagnostics| diagnostics.is_empty())?;
        Ok(())
    }
}
