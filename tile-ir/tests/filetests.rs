//! Every `tests/ir/<pass>/*.tile`: a kernel, the passes that it goes through, and below `---` what they make of it
//! (`tile_ir::text::filetest`). `UPDATE_EXPECT=1 cargo test -p tile-ir --features sim --test filetests` writes what is expected anew.

use std::fs;
use std::path::{Path, PathBuf};
use tile_ir::text::filetest::{Case, SEPARATOR};

/// The files, with the names that diagnostics give them.
fn files() -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ir");
    let mut all = Vec::new();
    for folder in fs::read_dir(&root).expect("tests/ir is there") {
        let folder = folder.expect("tests/ir can be read").path();
        for file in fs::read_dir(&folder).expect("a folder of tests/ir can be read") {
            let path = file.expect("a file of tests/ir can be read").path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            assert!(name.ends_with(".tile"), "{} is no test", path.display());
            all.push((name, path));
        }
    }
    all.sort_by(|a, b| a.1.cmp(&b.1));
    all
}

#[test]
fn every_file_says_what_its_passes_make() {
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut wrong = Vec::new();
    let files = files();
    assert!(files.len() >= 20, "only {} files", files.len());
    for (name, path) in files {
        let text = fs::read_to_string(&path).expect("a test is text");
        let found = match Case::read(&text) {
            Ok(case) => (case.input, case.run(&name), case.expected.unwrap_or_default()),
            Err(error) => {
                wrong.push(format!("{}:{error}", path.display()));
                continue;
            }
        };
        let (input, found, expected) = found;
        if found == expected {
            continue;
        }
        if update {
            fs::write(&path, format!("{input}{SEPARATOR}\n{found}")).expect("a test can be written");
            continue;
        }
        let lines = found.lines().zip(expected.lines()).position(|(a, b)| a != b);
        let first = lines.unwrap_or_else(|| found.lines().count().min(expected.lines().count()));
        let line = |text: &str| text.lines().nth(first).unwrap_or("nothing").to_owned();
        let (is, was) = (line(&found), line(expected));
        wrong.push(format!("{}: result line {}\n  expected: {was}\n  found:    {is}", path.display(), first + 1));
    }
    assert!(wrong.is_empty(), "{}\nUPDATE_EXPECT=1 writes them anew", wrong.join("\n"));
}

/// A folder is named after the last pass of its files; `parse` has those that go through none.
#[test]
fn files_lie_with_their_last_pass() {
    for (name, path) in files() {
        let text = fs::read_to_string(&path).expect("a test is text");
        let Ok(case) = Case::read(&text) else { continue };
        let last = case.passes.last().map_or("parse", |pass| pass.name());
        let folder = path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        assert_eq!(folder.as_deref(), Some(last), "{name}");
    }
}
