//! The invariants of ARCHITECTURE.md that can be read off the sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tile_ir::diag::Code;

/// The repository's root, also where this program was built somewhere else and is run there.
fn root() -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR"));
    if built.join("ARCHITECTURE.md").is_file() { built.to_owned() } else { PathBuf::from(".") }
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The Rust files below a folder, each with its path from the root and its text; without tests, which may look further
/// than what they test.
fn sources(place: &str) -> Vec<(String, String)> {
    fn walk(path: &Path, found: &mut Vec<PathBuf>) {
        if path.ends_with("tests") || path.ends_with("tests.rs") {
            return;
        }
        if path.is_dir() {
            fs::read_dir(path).unwrap().for_each(|entry| walk(&entry.unwrap().path(), found));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path.to_owned());
        }
    }
    let mut found = Vec::new();
    walk(&root().join(place), &mut found);
    found.sort();
    assert!(!found.is_empty(), "no sources in {place}");
    let named = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
        (path.strip_prefix(root()).unwrap_or(&path).display().to_string(), text)
    };
    found.into_iter().map(named).collect()
}

/// Lines of code, without comments, that satisfy `is_wrong`, each as `file:line: text`.
fn lines_where(place: &str, is_wrong: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let mut wrong = Vec::new();
    for (file, text) in sources(place) {
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if is_wrong(&file, code) {
                wrong.push(format!("{file}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    wrong
}

/// The names a manifest lists under a heading.
fn dependencies(manifest: &str, heading: &str) -> BTreeSet<String> {
    let text = read(manifest);
    let lines = text.lines().skip_while(|line| line.trim() != heading).skip(1);
    let entries = lines.take_while(|line| !line.starts_with('[')).filter(|line| !line.trim_start().starts_with('#'));
    let names = entries.filter_map(|line| line.split(['.', ' ', '=']).next()).filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

#[test]
fn tile_ir_knows_neither_syn_nor_cuda() {
    let allowed = ["cranelift-entity", "half", "postcard", "rayon", "serde", "smallvec", "thiserror"];
    let found = dependencies("tile-ir/Cargo.toml", "[dependencies]");
    assert!(found.contains("cranelift-entity"), "{found:?}");
    let unexpected: Vec<_> = found.iter().filter(|name| !allowed.contains(&name.as_str())).collect();
    assert!(unexpected.is_empty(), "tile-ir is data and computation; it may not depend on {unexpected:?}");
    let wrong = lines_where("tile-ir/src", |_, code| {
        ["std::fs", "std::process", "std::net", "std::env::"].iter().any(|module| code.contains(module))
    });
    assert!(wrong.is_empty(), "tile-ir does no I/O:\n{}", wrong.join("\n"));
}

#[test]
fn tile_macros_lowers_nothing() {
    for package in ["tile-macros", "tile-syntax"] {
        let found = dependencies(&format!("{package}/Cargo.toml"), "[dependencies]");
        for name in ["cudarc", "tile-runtime", "libloading"] {
            assert!(!found.contains(name), "{package} may not depend on {name}");
        }
    }
    let wrong = lines_where("tile-syntax/src", |_, code| {
        ["lower::", "lowered::", "emit::", "sim::"].iter().any(|module| code.contains(module))
    });
    assert!(wrong.is_empty(), "tile-syntax parses, checks and expands:\n{}", wrong.join("\n"));
}

#[test]
fn tile_runtime_knows_no_kernel() {
    assert!(!dependencies("tile-runtime/Cargo.toml", "[dependencies]").contains("tile-kernels"));
    let wrong = lines_where("tile-runtime/src", |_, code| code.contains("gemv"));
    assert!(wrong.is_empty(), "tile-runtime serves every kernel alike:\n{}", wrong.join("\n"));
}

#[test]
fn the_simulator_shares_no_address_formula() {
    let wrong = lines_where("tile-ir/src/sim", |_, code| {
        ["layout::", "crate::layout", "lower::", "crate::lower}"].iter().any(|module| code.contains(module))
    });
    assert!(wrong.is_empty(), "sim has its own model of addresses:\n{}", wrong.join("\n"));
}

#[test]
fn cudarc_is_public_only_in_interop() {
    let mut wrong = Vec::new();
    for (file, text) in sources("tile-runtime/src").into_iter().filter(|(file, _)| !file.contains("interop")) {
        let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
        // From each public item's first line to the end of its signature, or of itself where it has no body.
        for start in (0..code.len()).filter(|&i| code[i].trim_start().starts_with("pub ")) {
            let is_field = !code[start].contains(" fn ");
            let ends = |i: &usize| code[*i].contains(['{', ';']) || (is_field && code[*i].trim_end().ends_with(','));
            let end = (start..code.len()).find(ends);
            let signature = code[start..=end.unwrap_or(start)].join(" ");
            if ["cudarc", "CudaSlice", "CudaContext", "CudaStream"].iter().any(|name| signature.contains(name)) {
                wrong.push(format!("{file}:{}: {}", start + 1, signature.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "cudarc shows in the public API:\n{}", wrong.join("\n"));
}

/// The feature is asked for where a folder begins, so that code for both builds is read, and checked, as one.
#[test]
fn cuda_is_gated_at_two_doors() {
    let doors = ["tile-runtime/src/cuda/mod.rs", "tile-runtime/src/interop/mod.rs"];
    let wrong =
        lines_where("tile-runtime/src", |file, code| code.contains("feature = \"cud") && !doors.contains(&file));
    assert!(
        wrong.is_empty(),
        "the features `cuda` and `cudarc` are asked for in {doors:?} only:\n{}",
        wrong.join("\n")
    );
    let wrong = lines_where("tile-runtime/src", |file, code| {
        code.contains("cudarc::") && !["cuda/", "interop/"].iter().any(|folder| file.contains(folder))
    });
    assert!(wrong.is_empty(), "cudarc is used in those folders only:\n{}", wrong.join("\n"));
}

/// The crates that a package depends on with these options, a line each: `name version .. [features]`; not those of tests.
fn tree(package: &str, options: &[&str]) -> Vec<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root()).args(["tree", "--offline", "--locked", "--prefix", "none", "-e", "normal,build"]);
    let output = cargo.args(["-f", "{p} [{f}]", "-p", package]).args(options).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn features_choose_cudarc_and_its_version() {
    let find = |tree: &[String], name: &str| tree.iter().find(|line| line.split(' ').next() == Some(name)).cloned();
    for package in ["tile-runtime", "tile-kernels"] {
        let default = find(&tree(package, &[]), "cudarc").unwrap_or_default();
        assert!(default.contains("cuda-13000"), "{package} cannot be built with nothing installed: {default}");
        let own =
            find(&tree(package, &["--no-default-features", "--features", "cudarc"]), "cudarc").unwrap_or_default();
        assert!(own.contains("driver") && !own.contains("cuda-"), "{package} chooses a version of CUDA: {own}");
        let none = tree(package, &["--no-default-features"]);
        assert!(find(&none, "tile-ir").is_some(), "{none:?}");
        let cuda = none.iter().find(|line| line.split(' ').next().is_some_and(|name| name.contains("cu")));
        assert!(cuda.is_none(), "{package} without default features depends on {cuda:?}");
    }
}

/// Our crates use syn 3. A second syn, which costs whoever builds them seconds, has one user among what they depend on:
/// zerocopy-derive, which `half` brings. The workspace has more of them by `tokenizers`, which `tile-llm` needs; it is not published.
#[test]
fn syn_2_is_brought_by_half_alone() {
    let of_half = BTreeSet::from(["zerocopy-derive".to_owned()]);
    for package in ["tile-runtime", "tile-kernels", "cargo-tile"] {
        let users = tree(package, &["--invert", "syn@2", "--depth", "1"]);
        let users: BTreeSet<String> =
            users.iter().skip(1).filter_map(|l| l.split(' ').next().map(str::to_owned)).collect();
        assert_eq!(users, of_half, "what {package} depends on uses syn 2");
    }
    let of_tokenizers =
        ["darling_core", "darling_macro", "derive_builder_core", "derive_builder_macro", "monostate-impl"];
    let all: BTreeSet<String> = of_half.into_iter().chain(of_tokenizers.map(str::to_owned)).collect();
    let lock = read("Cargo.lock");
    let locked = lock.split("[[package]]").filter(|package| package.contains("\n \"syn 2."));
    let name = |package: &str| {
        package.lines().find_map(|l| Some(l.strip_prefix("name = \"")?.trim_end_matches('"').to_owned()))
    };
    assert_eq!(locked.filter_map(name).collect::<BTreeSet<_>>(), all, "what Cargo.lock has uses syn 2");
}

/// The packages of the workspace in a folder, as cargo describes them.
fn packages(folder: &str) -> Vec<serde_json::Value> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root().join(folder)).args(["metadata", "--no-deps", "--format-version", "1", "--offline"]);
    let mut metadata: serde_json::Value = serde_json::from_slice(&cargo.output().unwrap().stdout).unwrap();
    serde_json::from_value(metadata["packages"].take()).unwrap()
}

/// A program that has candle has candle's choice of CUDA's version, or that of whoever builds it; what cargo resolves is looked
/// at by `cargo xtask candle`.
#[test]
fn tile_candle_leaves_cuda_to_candle() {
    let packages = packages("tile-candle");
    let [package] = &packages[..] else { panic!("{packages:?}") };
    assert_eq!(package["features"]["default"], serde_json::Value::Null, "CUDA is asked for by those who want it");
    let asked: Vec<&str> = package["features"]["cuda"].as_array().unwrap().iter().filter_map(|f| f.as_str()).collect();
    assert_eq!(asked, ["candle-core/cuda", "tile-runtime/cudarc", "tile-kernels/cudarc"]);
    let dependencies = package["dependencies"].as_array().unwrap();
    assert!(dependencies.iter().all(|dependency| dependency["name"] != "cudarc"), "cudarc comes with candle");
    for dependency in dependencies.iter().filter(|dependency| dependency["path"].is_string()) {
        assert_eq!(dependency["uses_default_features"], false, "{} chooses a version of CUDA", dependency["name"]);
        assert_eq!(dependency["features"], serde_json::json!([]), "{}", dependency["name"]);
    }
}

#[test]
fn what_is_published_is_complete() {
    let published =
        ["tile-candle", "tile-ir", "tile-syntax", "tile-macros", "tile-runtime", "tile-kernels", "cargo-tile"];
    let packages: Vec<serde_json::Value> = [".", "tile-candle"].into_iter().flat_map(packages).collect();
    let name = |package: &serde_json::Value| package["name"].as_str().unwrap_or_default().to_owned();
    // `publish = false` is an empty list of registries.
    let may_be = packages.iter().filter(|package| package["publish"].as_array().is_none_or(|list| !list.is_empty()));
    let found: BTreeSet<String> = may_be.clone().map(name).collect();
    assert_eq!(found, BTreeSet::from(published.map(str::to_owned)), "`publish = false` is on all others");
    for package in may_be {
        let (name, folder) = (name(package), name(package));
        for field in ["description", "license", "repository", "documentation", "readme", "rust_version"] {
            assert!(package[field].as_str().is_some_and(|text| !text.is_empty()), "{name} has no {field}");
        }
        for (field, most) in [("keywords", 5), ("categories", 5)] {
            let count = package[field].as_array().map_or(0, Vec::len);
            assert!((1..=most).contains(&count), "{name} has {count} {field}; 1 to {most} are allowed");
        }
        assert!(!package["metadata"]["docs"]["rs"].is_null(), "{name} does not say what docs.rs builds");
        for file in ["README.md", "LICENSE-APACHE", "LICENSE-MIT"] {
            assert!(!read(format!("{folder}/{file}")).is_empty(), "{name} has an empty {file}");
        }
        // What is depended on in this workspace is published too, at a version.
        for dependency in package["dependencies"].as_array().unwrap().iter().filter(|d| d["kind"].is_null()) {
            let (path, version) = (&dependency["path"], dependency["req"].as_str().unwrap_or("*"));
            assert!(path.is_null() || version != "*", "{name} depends on {} without a version", dependency["name"]);
        }
    }
}

#[test]
fn the_emitter_sees_only_the_lowered_program() {
    let wrong = lines_where("tile-ir/src/emit", |_, code| {
        ["crate::analysis", "crate::constraint", "ir::Kernel", "crate::verify"].iter().any(|name| code.contains(name))
    });
    assert!(wrong.is_empty(), "the emitter prints, it decides nothing:\n{}", wrong.join("\n"));
}

#[test]
fn the_tables_of_effects_and_parts_have_no_default() {
    let tables = [("ir/parts.rs", "StmtKind::SyncThreads =>"), ("lowered/parts.rs", "OpKind::WarpBarrier =>")];
    for (file, entry) in tables {
        let text = read(format!("tile-ir/src/{file}"));
        assert!(text.contains(entry), "the table of {file} has moved: change this test");
        let default = text.lines().find(|line| line.trim_start().starts_with("_ =>"));
        assert_eq!(default, None, "every statement and every operation has its own entry");
    }
}

#[test]
fn every_code_has_a_page() {
    let pages = root().join("book/src/diagnostics");
    let names = fs::read_dir(&pages).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let found: BTreeSet<String> = names.filter(|name| name.starts_with("TK")).collect();
    let wanted: BTreeSet<String> = Code::ALL.iter().map(|(code, _)| format!("{code}.md")).collect();
    assert_eq!(found, wanted, "book/src/diagnostics has one page a code");

    let index = read("book/src/diagnostics/index.md");
    for (code, _) in Code::ALL {
        let text = read(format!("book/src/diagnostics/{code}.md"));
        assert!(text.starts_with(&format!("# {code}: ")), "{code}.md begins with its code");
        for heading in ["## Why", "## Fix"] {
            assert!(text.contains(heading), "{code}.md has no `{heading}`");
        }
        assert!(index.contains(&format!("({code}.md)")), "the index does not list {code}");
    }
}

/// What the parser, the rules and the analysis report, an author meets while typing: `diag` says so of these codes, and of
/// no others. `tests/ui.rs` asks for a case of each.
#[test]
fn codes_that_appear_while_typing_are_marked() {
    let text = read("tile-ir/src/diag.rs");
    let table = text.split("codes! {").last().and_then(|table| table.split("\n}").next()).expect("the table of codes");
    let mut names = std::collections::BTreeMap::new();
    for line in table.lines().map(str::trim).filter(|line| line.ends_with(';')) {
        let (name, rest) = line.split_once(" = ").expect("a code");
        let number = rest.split([' ', ';']).next().and_then(|number| number.parse().ok()).expect("a number");
        names.insert(name.to_owned(), Code(number));
    }
    assert_eq!(names.len(), Code::ALL.len(), "every code stands in the table on a line of its own");
    let places = ["tile-ir/src/analysis", "tile-ir/src/verify", "tile-ir/src/lower", "tile-syntax/src"];
    let mut reported = BTreeSet::new();
    // What an execution of a lowered program finds is said when it is compiled.
    let is_typing = |(file, _): &(String, String)| !file.contains("verify/program");
    for (_, text) in places.iter().flat_map(|place| sources(place)).filter(is_typing) {
        for after in text.split("Code::").skip(1) {
            let name: String = after.chars().take_while(|c| c.is_ascii_uppercase() || *c == '_').collect();
            reported.extend(names.get(&name));
        }
    }
    let marked: BTreeSet<&Code> = names.values().filter(|code| code.appears_while_typing()).collect();
    assert_eq!(marked, reported, "left: marked `while typing` in diag.rs, right: reported by {places:?}");
}

/// ARCHITECTURE.md names a test as "Test: `file` `function`".
#[test]
fn the_table_of_passes_is_the_list_in_the_code() {
    let text = read("ARCHITECTURE.md");
    let section =
        text.split("\n## ").find(|section| section.starts_with("The pipeline")).expect("there is a section on it");
    let rows = section.lines().skip_while(|line| !line.starts_with("| pass |")).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|')).map(|row| row.split('`').collect::<Vec<_>>());
    let (named, places): (Vec<_>, Vec<_>) = rows.map(|parts| (parts[1].to_owned(), parts[3].to_owned())).unzip();
    // `lower` stands for the passes before it.
    let passes = tile_ir::text::filetest::Pass::ALL.iter().map(|pass| pass.name()).filter(|name| *name != "lower");
    assert_eq!(named, passes.collect::<Vec<_>>());
    for place in places {
        assert!(root().join(&place).exists(), "there is no {place}");
    }
    // `lower_bound`, and what it consists of, read in the same order.
    let code = read("tile-ir/src/lower/mod.rs");
    let body = |function: &str| {
        let start = code.find(&format!("fn {function}(")).unwrap_or_else(|| panic!("there is no {function}"));
        code[start..].split_once("\n}\n").map_or("", |(body, _)| body).to_owned()
    };
    let all = ["lower_bound", "planned", "walk_analysed", "lower_analysed"].map(body).concat();
    let calls = [
        "facts(",
        "schedule(",
        "converting(",
        "walk::walk(",
        "padding(program)",
        "dependent(program)",
        "place(program)",
    ];
    let places: Vec<_> = calls.iter().map(|call| all.find(call).unwrap_or_else(|| panic!("no {call}"))).collect();
    assert!(places.is_sorted(), "{calls:?} stand at {places:?}");
}

#[test]
fn every_invariant_names_a_test_that_exists() {
    let text = read("ARCHITECTURE.md");
    let named: Vec<Vec<&str>> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Test: "))
        .map(|rest| rest.split('`').filter(|part| !part.trim().is_empty()).collect())
        .collect();
    assert!(named.len() >= 9, "{named:?}");
    for parts in named {
        let [file, function] = parts[..] else { panic!("`Test:` lines name a file and a function: {parts:?}") };
        assert!(read(file).contains(&format!("fn {function}(")), "{file} has no test {function}");
    }
}
