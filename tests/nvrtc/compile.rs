//! The worker: compiles everything with this process's NVRTC and reports what it found.

use crate::budgets::{Budgets, Measured, Uses};
use crate::kernels::{classes, constant, dims, kernels, values};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::process::Command;
use tile_ir::ir::{Instance, Kernel, Target, Width};
use tile_ir::lowered::visit::{any, count, each};
use tile_ir::lowered::{OpKind, Program, Space};
use tile_runtime::library::find_nvdisasm;
use tile_runtime::nvrtc::{Nvrtc, Output, Resources, options};

/// The variable that names the file to report to.
pub const REPORT: &str = "TILE_NVRTC_REPORT";
/// The variable that restricts a worker to programs whose name contains its value.
pub const ONLY: &str = "TILE_NVRTC_ONLY";

/// Which of the drawn programs are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those that are not what the committed budgets were measured on, and a sample of the others.
    ChangedAndSample,
    /// Those that are not what the committed budgets were measured on.
    Changed,
    /// All.
    All,
}

impl Which {
    /// What `UPDATE_BUDGETS` asks for.
    pub fn asked() -> Which {
        match std::env::var("UPDATE_BUDGETS").as_deref() {
            Err(_) => Which::ChangedAndSample,
            Ok("changed") => Which::Changed,
            Ok("all") => Which::All,
            Ok(other) => panic!("UPDATE_BUDGETS is {other:?}: it is `changed` or `all`"),
        }
    }
}

/// What a worker found.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    /// The names of all drawn programs.
    pub programs: BTreeSet<String>,
    /// Those that were compiled.
    pub measured: Vec<Measured>,
}

/// One program to compile.
struct Job {
    name: String,
    program: Program,
    /// Its CUDA C.
    source: String,
    /// What stands for all that its machine code is made of; see [`text`].
    text: String,
    /// `wgmma` instructions that a tile of the bundled GEMM needs for a step along K.
    products: Option<usize>,
}

#[test]
#[ignore = "started by every_kernel_compiles_within_its_budget, once a version of NVRTC"]
fn everything() {
    let Some(report) = std::env::var_os(REPORT) else { panic!("{REPORT} is not set: run the other test") };
    let only = std::env::var(ONLY).unwrap_or_default();
    let which = if only.is_empty() { Which::asked() } else { Which::All };
    // A newer version than the one that is measured with says little that the first does not, and takes as long.
    let is_newer = std::env::var("TILE_NVRTC").is_ok_and(|folder| !folder.contains(crate::DEFAULT_VERSION));
    let is_rarer = is_newer && which == Which::ChangedAndSample;
    let mut jobs = jobs(&|name| if only.is_empty() { is_drawn(name, is_rarer) } else { name.contains(&only) });
    let programs = jobs.iter().map(|job| job.name.clone()).collect();
    keep_due(&mut jobs, which);
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get()).min(8);
    let measured: Vec<Measured> = std::thread::scope(|scope| {
        let part = |of: usize| jobs.iter().skip(of).step_by(threads).map(compile).collect::<Vec<_>>();
        let workers: Vec<_> = (0..threads).map(|of| scope.spawn(move || part(of))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    std::fs::write(report, serde_json::to_string(&Report { programs, measured }).unwrap()).unwrap();
}

/// Keeps the programs that are to be compiled. One version of NVRTC makes the same machine code of a text each time, but for the few
/// registers that `budgets.rs` speaks of: what was measured of a text holds as long as it is the kernel's.
fn keep_due(jobs: &mut Vec<Job>, which: Which) {
    if which == Which::All {
        return;
    }
    let budgets = Budgets::committed();
    let mut seen = BTreeSet::new();
    jobs.retain(|job| {
        let kernel = job.name.split(' ').next().unwrap_or_default().to_owned();
        let is_first = seen.insert((kernel, job.program.target.name()));
        let is_sampled = which == Which::ChangedAndSample && (is_first || hash(&job.name).is_multiple_of(SAMPLED));
        is_sampled || budgets.text(&job.name) != Some(job.text.as_str())
    });
}

/// Writes the CUDA C of every program into a folder, a file each: what two versions of the compiler print is then compared with `diff -r`.
#[test]
#[ignore = "started by hand, to compare two versions of the compiler"]
fn listing() {
    let Some(folder) = std::env::var_os(REPORT) else { panic!("{REPORT} is not set: it is the folder to write to") };
    std::fs::create_dir_all(&folder).unwrap();
    for Job { name, source, .. } in jobs(&|_| true) {
        let file = std::path::Path::new(&folder).join(name.replace(' ', "_") + ".cu");
        std::fs::write(file, source).unwrap();
    }
}

/// The kernels, in every instance, for every target that they declare, whose program's name is chosen.
fn jobs(is_chosen: &dyn Fn(&str) -> bool) -> Vec<Job> {
    let mut names = BTreeSet::new();
    let mut jobs = Vec::new();
    for definition in kernels() {
        let kernel = definition.kernel().unwrap_or_else(|error| panic!("{error}"));
        for (instance, values) in kernel.instances.iter().flat_map(|i| values(kernel).iter().map(move |v| (i, v))) {
            assert!(!kernel.targets.is_empty(), "{} declares no target", kernel.name);
            let instance = &instance.with_dims(dims(kernel, values));
            let classes = |target| classes(kernel, instance, target).into_iter().map(move |class| (target, class));
            for (target, class) in kernel.targets.iter().copied().flat_map(classes) {
                let instance = &Instance { class, ..instance.clone() };
                let name = name(kernel, instance, target);
                assert!(names.insert(name.clone()), "two kernels are called {name}");
                if !is_chosen(&name) {
                    continue;
                }
                let program = tile_ir::lower::lower(kernel, instance, target).unwrap_or_else(|diagnostics| {
                    let reports: Vec<_> = diagnostics.iter().map(|d| d.render(&kernel.source, &kernel.spans)).collect();
                    panic!("{name} cannot be lowered:\n{}", reports.join("\n\n"))
                });
                let has_roles = !program.tensor_maps.is_empty();
                let products = products(kernel, instance).filter(|_| has_roles);
                let source = tile_ir::emit::cuda::emit(&program);
                let text = text(target, &source);
                jobs.push(Job { name, program, source, text, products });
            }
        }
    }
    jobs
}

/// Whether a program is one of those that have a budget. Many differ from another one little: in f16 for bf16, in how wide their copies
/// are, or as the program for `sm_80` of a kernel that has one for `sm_90a`. Rarer draws are some of the others.
fn is_drawn(name: &str, is_rarer: bool) -> bool {
    let is_like_another = [" f16", " reads ", " writes ", " sm_80"].iter().any(|part| name.contains(part));
    let every = match (is_rarer, is_like_another) {
        (true, _) => 18,
        (false, true) => 6,
        (false, false) => 1,
    };
    hash(name).is_multiple_of(every)
}

/// One of so many programs whose text is as it was measured is compiled again, and the first of every kernel for every target.
const SAMPLED: u64 = 8;

/// What stands in `budgets.json` for all that a program's machine code is made of: the version of NVRTC, its options, the CUDA C.
fn text(target: Target, source: &str) -> String {
    let options = options(target.name(), false).join(" ");
    format!("{:016x}", hash(&format!("{} {options}\n{source}", crate::DEFAULT_VERSION)))
}

/// FNV-1a. Of a program's name it is a number that the name alone decides, so that a new program changes nothing about which others are
/// drawn.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// How many products of 64 rows by 16 along K (8 of tf32) a warpgroup has in a step of the bundled GEMM, computed from its
/// tile: one `wgmma` each, whatever its width.
fn products(kernel: &Kernel, instance: &Instance) -> Option<usize> {
    let constant = |name| constant(kernel, instance, name);
    // Counted in elements of 16 bits: 32 of tf32 are as many bytes as 64 of those.
    let depth = match kernel.name.as_str() {
        "gemm" | "gemm_batch" => constant("BK").unwrap_or(64),
        "gemm_tf32" => 64,
        _ => return None,
    };
    // Of tf32 with B across K, columns are the rows of an instruction.
    let rows = if kernel.name == "gemm_tf32" && constant("B_T")? == 0 { "BN" } else { "BM" };
    let (rows, threads) = (constant(rows)?, constant("THREADS")?);
    // Narrower tiles are multiplied with their operands swapped.
    // Of fewer than there are warpgroups each has some columns.
    (rows % 64 == 0).then_some(((rows / 64 * 128 / threads).max(1) * depth / 16) as usize)
}

/// `gemv f16 ROWS=8 sm_90a`
fn name(kernel: &Kernel, instance: &Instance, target: Target) -> String {
    let mut words = vec![kernel.name.clone()];
    words.extend(instance.dtypes.iter().map(ToString::to_string));
    words.extend(kernel.consts.values().zip(&instance.consts).map(|(c, value)| format!("{}={value}", c.name)));
    words.extend(instance.dims.iter().map(|(dim, value)| format!("{}={value}", kernel.dims[*dim].name)));
    words.extend((instance.class.reads != Width::Sixteen).then(|| format!("reads {}", instance.class.reads)));
    words.extend((instance.class.writes != Width::Sixteen).then(|| format!("writes {}", instance.class.writes)));
    words.push(target.to_string());
    words.join(" ")
}

fn compile(job: &Job) -> Measured {
    let Job { name, program, source, text, products } = job;
    let nvrtc = Nvrtc::get().unwrap_or_else(|error| panic!("{error}"));
    let options = options(program.target.name(), false);
    let compiled = nvrtc
        .compile(&program.name, source, &options, Output::Cubin)
        .unwrap_or_else(|error| panic!("{name}: {error}\n{source}"));
    let used = Resources::of(program, &compiled.log)
        .unwrap_or_else(|| panic!("{name}: the log says nothing about it:\n{}", compiled.log));
    let complaints = compiled.log.lines().filter(|line| line.contains("Performance Loss") || line.contains("warning"));
    let mut complaints: Vec<String> = complaints.map(str::to_owned).collect();
    let wide_loads = wide_loads(program);
    let machine = match wide_loads > 0 || products.is_some() {
        true => machine_code(name, &compiled.code),
        false => Machine::default(),
    };
    if let Some(products) = *products {
        let Machine { products: found, local, device_fences, .. } = machine;
        if found != products {
            complaints.push(format!("{found} HGMMA instructions, {products} products in a step along K"));
        }
        if local + device_fences > 0 {
            complaints.push(format!(
                "{local} accesses to local memory, {device_fences} fences of the device's scope among the products"
            ));
        }
    }
    // Where a role of its own asks for the independent loads, the machine code of the other may stand first.
    let in_bulk = any(&program.body, &|op| matches!(op, OpKind::BulkLoad { .. }));
    let has_roles = in_bulk || !program.tensor_maps.is_empty();
    let waits_first = match has_wide_load_above_wait(program) {
        true => machine.waits_before_wide,
        false => machine.waits_first,
    };
    if program.tensors.iter().any(|t| t.independent) && waits_first && !has_roles {
        complaints
            .push("the machine code waits for the previous kernel before the loads that stand above the wait".into());
    }
    if in_bulk && !machine.copies_in_bulk {
        complaints.push("the machine code has no bulk copy".into());
    }
    Measured {
        program: name.clone(),
        text: text.clone(),
        uses: Uses { registers: used.registers, stack_bytes: used.stack_bytes, shared_bytes: used.shared_bytes() },
        spilled: used.spill_stores + used.spill_loads,
        wide_loads,
        wide_load_instructions: machine.wide_loads,
        complaints,
    }
}

/// How many operations load 16 bytes from global memory at once.
fn wide_loads(program: &Program) -> usize {
    count(&program.body, &|op| is_wide_load(program, op))
}

fn is_wide_load(program: &Program, op: &OpKind) -> bool {
    match op {
        OpKind::VectorLoad { local, memory, width, .. } => {
            program.locals[*local].dtype.bytes() * width == 16 && matches!(memory.space, Space::Global(_))
        }
        _ => false,
    }
}

/// Whether one of them stands above the wait for the previous kernel.
fn has_wide_load_above_wait(program: &Program) -> bool {
    let (mut waited, mut found) = (false, false);
    each(&program.body, &mut |op| {
        waited |= matches!(op.kind, OpKind::Wait);
        found |= !waited && is_wide_load(program, &op.kind);
    });
    found
}

/// What the machine code of a cubin shows.
#[derive(Default)]
struct Machine {
    /// How many instructions load 128 bits from global memory: `LDG.E.128` and its variants.
    wide_loads: usize,
    /// Whether the first wait for the previous kernel (`ACQBULK`) stands before the first of them.
    waits_before_wide: bool,
    /// Whether it stands before the first load of any width from global memory.
    waits_first: bool,
    /// Whether it has a bulk copy (`UBLKCP`).
    copies_in_bulk: bool,
    /// How many instructions multiply on tensor cores by warpgroups: `HGMMA`. The loop along K is not unrolled.
    products: usize,
    /// How many load from or store to local memory: `LDL`, `STL`.
    local: usize,
    /// How many order memory for the whole device in the loop along K: `MEMBAR` at GPU or system scope, `ERRBAR`, `CCTL`.
    device_fences: usize,
}

/// The line of the branch that goes back from after `last` to before `first`; `last` where there is none.
fn end_of_loop(lines: &[&str], first: usize, last: usize) -> usize {
    let goes_back = |line: &&str| {
        let label = line.split_once("BRA ").and_then(|(_, rest)| rest.split(['(', ')']).nth(1));
        let is_label = |l: &&str| label.is_some_and(|label| l.trim() == format!("{label}:"));
        lines[..first].iter().any(is_label)
    };
    lines[last..].iter().position(goes_back).map_or(last, |after| last + after)
}

fn machine_code(name: &str, cubin: &[u8]) -> Machine {
    let tool = find_nvdisasm().unwrap_or_else(|error| panic!("{error}"));
    let file =
        std::env::temp_dir().join(format!("tile-{}-{}.cubin", name.replace([' ', '='], "-"), std::process::id()));
    std::fs::write(&file, cubin).unwrap();
    let output = Command::new(&tool).arg("-c").arg(&file).output().unwrap();
    std::fs::remove_file(&file).ok();
    assert!(output.status.success(), "nvdisasm on {name}: {}", String::from_utf8_lossy(&output.stderr));
    let listing = String::from_utf8_lossy(&output.stdout);
    let is_wide = |line: &&str| line.split_whitespace().any(|word| word.starts_with("LDG.") && word.contains(".128"));
    let operation = |line: &str, names: &[&str]| {
        line.split_whitespace().any(|word| names.iter().any(|n| word == *n || word.starts_with(&format!("{n}."))))
    };
    let waits_before = |is_load: &dyn Fn(&&str) -> bool| {
        listing.lines().take_while(|line| !is_load(line)).any(|line| line.contains("ACQBULK"))
    };
    let lines: Vec<&str> = listing.lines().collect();
    let products: Vec<usize> = (0..lines.len()).filter(|i| operation(lines[*i], &["HGMMA"])).collect();
    let among = match products[..] {
        [first, .., last] => &lines[first..=end_of_loop(&lines, first, last)],
        _ => &[],
    };
    let fences =
        |line: &&&str| operation(line, &["ERRBAR", "CCTL"]) || operation(line, &["MEMBAR"]) && !line.contains(".CTA");
    Machine {
        products: products.len(),
        local: lines.iter().filter(|line| operation(line, &["LDL", "STL"])).count(),
        device_fences: among.iter().filter(fences).count(),
        wide_loads: listing.lines().filter(is_wide).count(),
        waits_before_wide: waits_before(&is_wide),
        waits_first: waits_before(&|line| operation(line, &["LDG"])),
        copies_in_bulk: listing.contains("UBLKCP"),
    }
}
