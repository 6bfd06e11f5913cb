//! The runtime's use of the CUDA driver, against a driver that writes down what it is asked (`fake_driver/driver.c`).
//!
//! | module | what |
//! |---|---|
//! | `captures` | other streams, finished captures and graphs in graphs |
//! | `histories` | random histories of several threads, and `trace`, which reads what a driver was asked and finds uses that nothing orders |
//! | `borrowed` | memory of cudarc on streams of ours |
//! | `dlpack` | tensors of other libraries |
//! | `embedded` | kernels that are built into the program, where there is no NVRTC |
//! | `lent` | borrowed streams, and memory on them |
//! | `scratch` | scratch memory of host functions |
//!
//! Each scenario runs in a process of its own: this test program again, with the driver in its library path. A machine
//! without a C compiler or NVRTC skips, aloud.

mod borrowed;
mod captures;
mod dlpack;
mod embedded;
mod histories;
mod lent;
mod scratch;
mod trace;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use tile_ir::ir::Target;
use tile_runtime::kernel::{Variant, compile};
use tile_runtime::prelude::*;
use tile_runtime::{Error, Problem};

/// The system's allocator, which counts.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// How often this thread has allocated.
pub fn allocations() -> usize {
    ALLOCATIONS.get()
}

// SAFETY: the system's allocator does everything; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.try_with(|count| count.set(count.get() + 1)).ok();
        // SAFETY: as the caller of this says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller of this says.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// y = alpha x, a block a row.
#[tile_kernel]
pub fn scale(x: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N, K)>, alpha: f32) {
    let [b] = blocks([N]);
    let [t] = threads([32]);
    for k in (0..K).step_by(32) {
        if k + t < K {
            y[[b, k + t]] = alpha * x[[b, k + t]];
        }
    }
}

/// A copy that is compiled for each K, of which one is kept.
#[tile_kernel(specialize(K, max = 1))]
pub fn special(x: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N, K)>) {
    let [b] = blocks([N]);
    let [t] = threads([32]);
    for k in unroll(0..ceil_div(K, 32)) {
        *y.masked_mut([b, k * 32 + t]) = x.masked([b, k * 32 + t]);
    }
}

/// Both: compiled for each K, and may start early.
#[tile_kernel(specialize(K, max = 1), pdl(independent = [x]))]
pub fn special_early(x: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N, K)>) {
    let [b] = blocks([N]);
    let [t] = threads([32]);
    for k in unroll(0..ceil_div(K, 32)) {
        *y.masked_mut([b, k * 32 + t]) = x.masked([b, k * 32 + t]);
    }
}

/// A kernel that may start before the previous one is done, and then reads x.
#[tile_kernel(pdl(independent = [x]))]
pub fn early(x: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N, K)>, alpha: f32) {
    let [b] = blocks([N]);
    let [t] = threads([32]);
    for k in (0..K).step_by(32) {
        if k + t < K {
            y[[b, k + t]] = alpha * x[[b, k + t]];
        }
    }
}

/// Three tensors; compiled for each K, so that the driver does nothing.
#[tile_kernel(specialize(K))]
pub fn three(a: &Tensor<f32, (N, K)>, b: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N, K)>) {
    let [n] = blocks([N]);
    let [t] = threads([32]);
    for k in unroll(0..ceil_div(K, 32)) {
        *y.masked_mut([n, k * 32 + t]) = a.masked([n, k * 32 + t]) + b.masked([n, k * 32 + t]);
    }
}

/// Through a workspace; compiled for each K, so that the driver does nothing.
#[tile_kernel(specialize(K))]
pub fn sums(x: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (Fixed<1>,)>, ws: &mut Workspace<f32, (N,)>) {
    let [b] = blocks([N]);
    let [t] = threads([32]);
    if t == 0 {
        let mut sum = 0.0;
        for k in unroll(0..K) {
            sum += x[[b, k]];
        }
        ws[b] = sum;
        if b == 0 {
            y[0] = ws[b];
        }
    }
}

/// Compiles the driver once for each set of compiler options; `None` where there is no C compiler.
fn driver(name: &str, options: &[&str]) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let source = folder.join("driver.c");
    fs::write(&source, include_str!("driver.c")).unwrap();
    let library = folder.join("libcuda.so.1");
    if library.exists() {
        return Some(folder);
    }
    let temporary = folder.join("building.so");
    let compiled =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&temporary).arg(source).args(options).output();
    match compiled {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            eprintln!("SKIPPED: cc: {error}");
            return None;
        }
    }
    fs::rename(temporary, library).unwrap();
    Some(folder)
}

fn good_driver() -> Option<&'static PathBuf> {
    static DRIVER: OnceLock<Option<PathBuf>> = OnceLock::new();
    DRIVER.get_or_init(|| driver("fake", &[])).as_ref()
}

/// Runs the ignored test `name` of this program under a driver. Its output and the driver's log.
fn child(driver: &Path, name: &str, settings: &[(&str, &str)]) -> (Output, String) {
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.log", std::process::id()));
    fs::remove_file(&log).ok();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", name]).env("LD_LIBRARY_PATH", driver).env("FAKE_LOG", &log);
    command.env("TILE_CACHE_DIR", cache(driver)).env_remove("TILE_DEVICE").envs(settings.iter().copied());
    let output = command.output().unwrap();
    (output, fs::read_to_string(&log).unwrap_or_default())
}

/// Runs a scenario and expects it to pass. The driver's log; `None` where it was skipped.
fn scenario(name: &str, settings: &[(&str, &str)]) -> Option<String> {
    let driver = good_driver()?;
    // NVRTC looks for a driver too and would call what this one does not have, so a process without it fills the cache.
    static COMPILED: OnceLock<bool> = OnceLock::new();
    let compiled = COMPILED.get_or_init(|| {
        let (output, _) =
            child(Path::new("/"), "child_compile", &[("TILE_CACHE_DIR", cache(driver).to_str().unwrap())]);
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().filter(|line| line.contains("SKIPPED")).for_each(|line| eprintln!("{line}"));
        assert!(output.status.success(), "{text}");
        !text.contains("SKIPPED")
    });
    if !compiled {
        return None;
    }
    let (output, log) = child(driver, name, settings);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}\n{log}");
    Some(log)
}

fn cache(driver: &Path) -> PathBuf {
    driver.join("cache")
}

#[test]
#[ignore = "run by the scenarios"]
fn child_compile() {
    let mut all = vec![(scale::definition(), None), (early::definition(), None)];
    all.extend([1, 2, 3].map(|k| (special::definition(), Some(k))));
    all.push((three::definition(), Some(1)));
    all.extend([1, 2].map(|k| (sums::definition(), Some(k))));
    all.extend([1, 2].map(|k| (special_early::definition(), Some(k))));
    for (definition, k) in all {
        let dims = k.map(|k| ("K", k));
        if let Err(error) =
            compile(definition, Variant { instance: 0, dims: dims.as_slice(), ..Variant::default() }, Target::Sm90a)
        {
            assert!(matches!(error, Error::Library(_)), "{error}");
            println!("SKIPPED: {error}");
        }
    }
}

fn lines<'a>(log: &'a str, start: &str) -> Vec<&'a str> {
    log.lines().filter(|line| line.starts_with(start)).collect()
}

const X: [f32; 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];

#[test]
fn parameters_arrive_and_one_stream_needs_no_events() {
    let Some(log) = scenario("child_launches", &[]) else { return };
    assert_eq!(lines(&log, "launch"), ["launch on 1 grid 2 1 1 block 32 1 1 shared 0"; 2]);
    assert_eq!(lines(&log, "record").len() + lines(&log, "wait").len(), 0, "{log}");
    assert_eq!(lines(&log, "free").len(), lines(&log, "alloc").len(), "{log}");
    assert_eq!(lines(&log, "function").len(), 1, "compiled and loaded once");
}

#[test]
#[ignore = "run by parameters_arrive_and_one_stream_needs_no_events"]
fn child_launches() {
    let device = Device::auto().unwrap();
    assert_eq!((device.label(), device.why()), ("cuda:0", "the first CUDA device"));
    assert!(device.to_string().starts_with("Fake 0 (cuda:0, compute capability 9.0, 4 multiprocessors"), "{device}");
    let x = device.tensor(&X, [2, 3]).unwrap();
    let mut y = device.zeros::<f32, 2>([2, 3]).unwrap();
    scale::launch(&device, &x, &mut y, 2.0).unwrap();
    assert_eq!(y.to_vec().unwrap(), X.map(|v| 2.0 * v));
    let mut wide = device.zeros::<f32, 2>([3, 5]).unwrap();
    scale::launch(&device, &x, wide.slice_mut([1..3, 1..4]).unwrap(), -1.0).unwrap();
    assert_eq!(wide.slice([1..3, 1..4]).unwrap().to_vec().unwrap(), X.map(|v| -v));
    wide.slice_mut([0..2, 0..3]).unwrap().write(&X).unwrap();
    let mut narrow = device.zeros::<f32, 2>([2, 3]).unwrap();
    narrow.copy_from(wide.slice([0..2, 0..3]).unwrap()).unwrap();
    assert_eq!(narrow.to_vec().unwrap(), X);
    let mut same = device.zeros::<f32, 2>([2, 3]).unwrap();
    same.copy_from(&narrow).unwrap();
    assert_eq!(same.to_vec().unwrap(), X);
    let empty = device.zeros::<f32, 2>([0, 3]).unwrap();
    let mut nothing = device.zeros::<f32, 2>([0, 3]).unwrap();
    scale::launch(&device, &empty, &mut nothing, 1.0).unwrap();
    assert_eq!(nothing.to_vec().unwrap(), [0.0; 0]);
}

#[test]
fn streams_wait_for_each_other_where_a_tensor_needs_it() {
    let Some(log) = scenario("child_streams", &[]) else { return };
    let start = log.find("stream 3").expect(&log);
    let trace: Vec<&str> =
        log[start..].lines().filter(|l| !l.starts_with("function") && !l.starts_with("context")).collect();
    // Streams 1 (default, event 2), 3 (event 4) and 5 (event 6).
    let expected = [
        "stream 3",
        "stream 5",
        // x and y were written on 1: the first use on 3 waits for it, once a tensor.
        "record 2 on 1",
        "wait 3 for 2",
        "record 2 on 1",
        "wait 3 for 2",
        "launch on 3 grid 2 1 1 block 32 1 1 shared 0",
        // Again on 3: nothing to wait for.
        "launch on 3 grid 2 1 1 block 32 1 1 shared 0",
        // y is read on 5, which waits for 3; z was made on 1.
        "record 4 on 3",
        "wait 5 for 4",
        "record 2 on 1",
        "wait 5 for 2",
        "launch on 5 grid 2 1 1 block 32 1 1 shared 0",
        // y is written on 1: after its writer 3 and its reader 5. x is read on 1, its writer.
        "record 4 on 3",
        "wait 1 for 4",
        "record 6 on 5",
        "wait 1 for 6",
        "launch on 1 grid 2 1 1 block 32 1 1 shared 0",
        // Two parts of y, written on 1 and 3 through one split; the whole is read on 5, after both.
        "record 2 on 1",
        "wait 3 for 2",
        "launch on 3 grid 1 1 1 block 32 1 1 shared 0",
        "record 4 on 3",
        "wait 1 for 4",
        "launch on 1 grid 1 1 1 block 32 1 1 shared 0",
        // The launch on 1 has waited for 3: 1 stands for both.
        "record 2 on 1",
        "wait 5 for 2",
        "launch on 5 grid 2 1 1 block 32 1 1 shared 0",
        // z is freed on 5, its writer; x on 1, after its reader 3.
        "free on 5",
        "record 4 on 3",
        "wait 1 for 4",
        "free on 1",
        // y on 1, its writer, after its reader.
        "record 6 on 5",
        "wait 1 for 6",
        "free on 1",
    ];
    assert_eq!(trace, expected, "{log}");
}

#[test]
#[ignore = "run by streams_wait_for_each_other_where_a_tensor_needs_it"]
fn child_streams() {
    let device = Device::cuda(0).unwrap();
    let x = device.tensor(&X, [2, 3]).unwrap();
    let mut y = device.zeros::<f32, 2>([2, 3]).unwrap();
    let mut z = device.zeros::<f32, 2>([2, 3]).unwrap();
    let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
    scale::launch(&a, &x, &mut y, 2.0).unwrap();
    scale::launch(&a, &x, &mut y, 2.0).unwrap();
    scale::launch(&b, &y, &mut z, 2.0).unwrap();
    scale::launch(&device, &x, &mut y, 2.0).unwrap();
    let (top, bottom) = y.view_mut().split_rows(1).unwrap();
    scale::launch(&a, x.rows(0..1).unwrap(), top, 2.0).unwrap();
    scale::launch(&device, x.rows(1..2).unwrap(), bottom, 2.0).unwrap();
    scale::launch(&b, &y, &mut z, 2.0).unwrap();
    drop(z);
    drop(x);
    drop(y);
}

#[test]
fn a_dropped_variant_is_unloaded_when_nothing_launches_it() {
    let Some(log) = scenario("child_variants", &[]) else { return };
    let start = log.find("function tile_special_K1").expect(&log);
    let kept = ["function", "launch", "synchronize", "unload", "graph", "destroy graph"];
    let trace: Vec<&str> = log[start..].lines().filter(|l| kept.iter().any(|start| l.starts_with(start))).collect();
    let trace: Vec<&str> = trace.into_iter().map(|l| l.split(" on ").next().unwrap_or(l)).collect();
    let expected = [
        "function tile_special_K1",
        "launch",
        "launch",
        // 2 takes the place of 1, which is unloaded once what was launched is done.
        "function tile_special_K2",
        "synchronize 1",
        "unload",
        "launch",
        // 3 takes the place of 2, which the graph keeps.
        "function tile_special_K3",
        "launch",
        "graph",
        "destroy graph",
        "synchronize 1",
        "unload",
    ];
    assert_eq!(trace[..expected.len()], expected, "{log}");
}

#[test]
#[ignore = "run by a_dropped_variant_is_unloaded_when_nothing_launches_it"]
fn child_variants() {
    let device = Device::cuda(0).unwrap();
    let tensors = |k: usize| (device.zeros::<f32, 2>([2, k]).unwrap(), device.zeros::<f32, 2>([2, k]).unwrap());
    let ((x1, mut y1), (x2, mut y2), (x3, mut y3)) = (tensors(1), tensors(2), tensors(3));
    special::launch(&device, &x1, &mut y1).unwrap();
    special::launch(&device, &x1, &mut y1).unwrap();
    let graph = device
        .capture(|stream| {
            special::launch(stream, &x2, &mut y2)?;
            Ok(())
        })
        .unwrap();
    special::launch(&device, &x3, &mut y3).unwrap();
    graph.launch().unwrap();
    drop(graph);
}

#[test]
fn a_prepared_launch_of_a_variant_keeps_it_and_may_start_early() {
    let Some(log) = scenario("child_prepared_variant", &[]) else { return };
    let start = log.find("function tile_special_early_K1").expect(&log);
    let kept = ["function", "launch", "synchronize", "unload", "graph", "destroy graph"];
    let trace: Vec<&str> = log[start..].lines().filter(|l| kept.iter().any(|start| l.starts_with(start))).collect();
    let captured = log.lines().find_map(|line| line.strip_prefix("begin ")?.split(' ').next()).expect(&log);
    assert_ne!(captured, "1", "a capture has a stream of its own: {log}");
    let captured = format!("launch on {captured}");
    let expected = [
        "function tile_special_early_K1",
        // The first of its stream; the next, after a kernel that did not write x.
        "launch on 1",
        "launch on 1 early",
        // 2 takes the place of 1, which the prepared launch keeps.
        "function tile_special_early_K2",
        "launch on 1 early",
        "launch on 1 early",
        // In a capture of its own, whose graph keeps it when the prepared launch is gone.
        captured.as_str(),
        "graph on 1",
        "launch on 1",
        "destroy graph",
        "synchronize 1",
        "unload",
    ];
    assert_eq!(trace[..expected.len()], expected, "{log}");
}

#[test]
#[ignore = "run by a_prepared_launch_of_a_variant_keeps_it_and_may_start_early"]
fn child_prepared_variant() {
    let device = Device::cuda(0).unwrap();
    let tensors = |k: usize| (device.zeros::<f32, 2>([2, k]).unwrap(), device.zeros::<f32, 2>([2, k]).unwrap());
    let ((x1, mut y1), (x2, mut y2)) = (tensors(1), tensors(2));
    let prepared = special_early::prepare(&device, &x1, &mut y1).unwrap();
    prepared.launch().unwrap();
    prepared.launch().unwrap();
    special_early::launch(&device, &x2, &mut y2).unwrap();
    prepared.launch().unwrap();
    let graph = prepared.graph().unwrap();
    drop(prepared);
    graph.launch().unwrap();
    special_early::launch(&device, &x2, &mut y2).unwrap();
    drop(graph);
}

#[test]
fn a_graph_keeps_its_memory_and_is_ordered_at_each_launch() {
    let Some(log) = scenario("child_graph", &[]) else { return };
    let begin = log.find("begin").expect(&log);
    let after = &log[begin..];
    assert!(lines(after, "record").len() == lines(after, "wait").len(), "{log}");
    let end = after.find("end 3").expect(&log);
    assert_eq!(lines(&after[..end], "wait").len(), 0, "a capture waits for nothing outside: {log}");
    assert_eq!(lines(&after[end..], "graph on").len(), 2);
    let freed = log.find("free on").expect(&log);
    assert!(freed > log.find("destroy graph").expect(&log), "memory outlives the graph: {log}");
    assert_eq!(lines(&log, "free").len(), 2);
}

#[test]
#[ignore = "run by a_graph_keeps_its_memory_and_is_ordered_at_each_launch"]
fn child_graph() {
    let device = Device::cuda(0).unwrap();
    let x = device.tensor(&X, [2, 3]).unwrap();
    let mut y = device.zeros::<f32, 2>([2, 3]).unwrap();
    let mut leaked = None;
    let graph = device
        .capture(|stream| {
            leaked = Some(stream.clone());
            scale::launch(stream, &x, &mut y, 2.0)?;
            // The default stream is not captured.
            assert_eq!(x.to_vec()?, X);
            Ok(())
        })
        .unwrap();
    let over = scale::launch(&leaked.unwrap(), &x, &mut y, 2.0).unwrap_err();
    assert!(matches!(over.problem(), Problem::StreamOver), "{over}");
    drop((x, y));
    graph.launch().unwrap();
    graph.launch_on(&device.stream().unwrap()).unwrap();
    drop(graph);
    // A panic or an error inside ends the capture.
    let failed = device.capture(|_| Err(Error::DeviceName { value: "x".into() }));
    assert!(matches!(failed, Err(Error::DeviceName { .. })));
    let panicked = std::panic::catch_unwind(|| device.capture(|_| panic!("on purpose")));
    assert!(panicked.is_err());
    device.capture(|_| Ok(())).unwrap();
}

/// Which launches carried the attribute.
fn early_launches(log: &str) -> Vec<bool> {
    lines(log, "launch").iter().map(|line| line.ends_with("early")).collect()
}

#[test]
fn a_kernel_starts_early_only_after_a_kernel_that_wrote_no_independent_tensor() {
    let Some(log) = scenario("child_dependent", &[]) else { return };
    let expected = [
        (false, "without the attribute: w"),
        (false, "without the attribute: v"),
        (false, "without the attribute: z"),
        (false, "without the attribute: a"),
        (true, "A writes w, after a kernel of ours"),
        (true, "B is unrelated"),
        (true, "C reads w early: A is done"),
        (false, "D reads z, which C wrote"),
        (false, "a kernel without the attribute"),
        (true, "after it"),
        (false, "after a copy"),
        (true, "again"),
        (false, "after an event is recorded"),
        (false, "after an event is waited for"),
        (true, "again"),
        (false, "on another stream, which waits for this one"),
        (true, "again there"),
        (false, "here, after what the other stream waits for"),
        (false, "the first of a capture"),
        (true, "the second, apart from the first"),
        (false, "the third, which reads what the second wrote"),
        (false, "after a graph"),
        (false, "switched off"),
        (true, "switched on"),
        (true, "prepared"),
        (false, "a graph of the prepared launch"),
        (false, "prepared, after that graph"),
        (true, "prepared, again"),
        (false, "without the attribute: b"),
        (false, "after b is freed"),
        (false, "prepared, after a copy to the host"),
    ];
    let found = early_launches(&log);
    let named: Vec<_> = found.iter().zip(expected).map(|(early, (_, what))| (*early, what)).collect();
    assert_eq!(named, expected, "{log}");
    assert_eq!(found.len(), expected.len());
    let Some(log) = scenario("child_dependent", &[("TILE_PDL", "off")]) else { return };
    let switched_on_inside = [false, true, true, false, false, true, false, false, false];
    let found = early_launches(&log);
    assert!(!found[..22].contains(&true), "{log}");
    assert_eq!(found[22..], switched_on_inside, "{log}");
}

#[test]
#[ignore = "run by a_kernel_starts_early_only_after_a_kernel_that_wrote_no_independent_tensor"]
fn child_dependent() {
    let device = Device::cuda(0).unwrap();
    let x = device.tensor(&X, [2, 3]).unwrap();
    let make = || device.zeros::<f32, 2>([2, 3]).unwrap();
    let (mut w, mut v, mut z, mut a, mut b) = (make(), make(), make(), make(), make());
    let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
    for y in [&mut w, &mut v, &mut z, &mut a] {
        scale::launch(&stream, &x, y, 1.0).unwrap();
    }
    early::launch(&stream, &x, &mut w, 2.0).unwrap();
    early::launch(&stream, &x, &mut v, 3.0).unwrap();
    early::launch(&stream, &w, &mut z, 1.0).unwrap();
    early::launch(&stream, &z, &mut v, 1.0).unwrap();
    scale::launch(&stream, &x, &mut v, 1.0).unwrap();
    let mut w_to_z = || early::launch(&stream, &w, &mut z, 1.0).unwrap();
    w_to_z();
    a.copy_from(&x).unwrap();
    w_to_z();
    w_to_z();
    let event = stream.record().unwrap();
    w_to_z();
    stream.wait(&event).unwrap();
    w_to_z();
    w_to_z();
    early::launch(&other, &w, &mut a, 1.0).unwrap();
    early::launch(&other, &w, &mut a, 1.0).unwrap();
    w_to_z();
    let graph = device
        .capture(|on| {
            early::launch(on, &w, &mut z, 1.0)?;
            early::launch(on, &x, &mut v, 1.0)?;
            Ok(early::launch(on, &v, &mut z, 1.0)?)
        })
        .unwrap();
    graph.launch_on(&stream).unwrap();
    let mut w_to_z = || early::launch(&stream, &w, &mut z, 1.0).unwrap();
    w_to_z();
    device.set_dependent_launch(false);
    w_to_z();
    device.set_dependent_launch(true);
    w_to_z();
    let prepared = early::prepare(&stream, &w, &mut z, 1.0).unwrap();
    prepared.launch().unwrap();
    let graph = prepared.graph().unwrap();
    graph.launch_on(&stream).unwrap();
    prepared.launch().unwrap();
    prepared.launch().unwrap();
    scale::launch(&stream, &x, &mut b, 1.0).unwrap();
    drop(b);
    early::launch(&stream, &w, &mut v, 1.0).unwrap();
    // A prepared launch keeps its memory: z is still there to be written.
    assert_eq!(z.to_vec().unwrap(), X.map(|x| 2.0 * x));
    drop((w, v, z));
    prepared.launch().unwrap();
}

#[test]
fn a_fault_is_reported_once_with_kernel_and_call_site_and_then_fast() {
    let Some(log) = scenario("child_fault", &[("FAKE_FAULT_AFTER", "1")]) else { return };
    assert_eq!(lines(&log, "launch").len(), 1, "nothing is launched afterwards: {log}");
    assert_eq!(lines(&log, "free").len(), 0, "nothing is freed afterwards: {log}");
}

#[test]
#[ignore = "run by a_fault_is_reported_once_with_kernel_and_call_site_and_then_fast"]
fn child_fault() {
    let device = Device::cuda(0).unwrap();
    let x = device.tensor(&X, [2, 3]).unwrap();
    let mut y = device.zeros::<f32, 2>([2, 3]).unwrap();
    let (stream, event) = (device.stream().unwrap(), device.stream().unwrap().record().unwrap());
    let prepared = scale::prepare(&device, &x, &mut y, 2.0).unwrap();
    let graph = device.capture(|_| Ok(())).unwrap();
    let line = line!() + 1;
    scale::launch(&device, &x, &mut y, 2.0).unwrap();
    let first = y.to_vec().unwrap_err();
    let text = first.to_string();
    assert!(matches!(first, Error::Fault(_)), "{text}");
    assert!(text.contains("CUDA_ERROR_ILLEGAL_ADDRESS (700)"), "{text}");
    assert!(text.contains(&format!("The kernel under way was `scale` at {}:{line}.", file!())), "{text}");
    assert!(text.contains("cannot be used any more"), "{text}");
    for again in [
        scale::launch(&device, &x, &mut y, 2.0).unwrap_err().to_string(),
        device.synchronize().unwrap_err().to_string(),
        device.zeros::<f32, 1>([4]).unwrap_err().to_string(),
        x.to_vec().unwrap_err().to_string(),
        device.stream().unwrap_err().to_string(),
        device.capture(|_| Ok(())).unwrap_err().to_string(),
        device.memory().unwrap_err().to_string(),
        prepared.launch().unwrap_err().to_string(),
        prepared.launch_on(&stream).unwrap_err().to_string(),
        prepared.graph().unwrap_err().to_string(),
        graph.launch_on(&stream).unwrap_err().to_string(),
        stream.synchronize().unwrap_err().to_string(),
        stream.record().map(drop).unwrap_err().to_string(),
        stream.wait(&event).unwrap_err().to_string(),
        event.synchronize().unwrap_err().to_string(),
        event.is_done().unwrap_err().to_string(),
        y.write(&X).unwrap_err().to_string(),
        y.copy_from(&x).unwrap_err().to_string(),
        special::launch(&device, &x, &mut y).unwrap_err().to_string(),
    ] {
        assert!(again.contains(&text), "the first error is repeated: {again}");
    }
    let calls = 1000;
    let start = std::time::Instant::now();
    (0..calls).for_each(|_| assert!(prepared.launch().is_err()));
    let each = start.elapsed() / calls;
    assert!(each < std::time::Duration::from_millis(1), "later calls fail fast: {each:?}");
    // What is left is dropped here, which nothing may panic at.
    drop((graph, prepared, event, stream, x, y));
}

#[test]
fn failures_of_the_driver_are_typed() {
    let Some(_) = scenario("child_failures", &[("FAKE_LAUNCH", "701")]) else { return };
}

#[test]
#[ignore = "run by failures_of_the_driver_are_typed"]
fn child_failures() {
    let device = Device::cuda(1).unwrap();
    let error = device.zeros::<f32, 1>([1 << 20]).unwrap_err();
    let expected = "cuda:1 is out of memory: 4096 KiB were requested, 1024 KiB of 4096 KiB are free";
    assert_eq!(error.to_string(), expected);
    assert!(matches!(Device::cuda(2), Err(Error::NoDevice { asked: 2, count: 2 })));
    let x = device.tensor(&X, [2, 3]).unwrap();
    let mut y = device.zeros::<f32, 2>([2, 3]).unwrap();
    let error = scale::launch(&device, &x, &mut y, 2.0).unwrap_err();
    assert!(matches!(error.problem(), Problem::Driver(Error::Driver(e)) if e.code == 701), "{error}");
    let elsewhere = Device::cuda(0).unwrap().tensor(&X, [2, 3]).unwrap();
    let error = scale::launch(&device, &elsewhere, &mut y, 2.0).unwrap_err();
    assert!(error.to_string().contains("`x` is on cuda:0, the launch is on cuda:1. Nothing was launched."), "{error}");
    let simulated = Device::simulator().tensor(&X, [2, 3]).unwrap();
    assert!(scale::launch(&device, &simulated, &mut y, 2.0).is_err());
    // All streams but the default one, and no more.
    let streams: Vec<Stream> = (0..63).map(|_| device.stream().unwrap()).collect();
    assert!(matches!(device.stream(), Err(Error::Streams { most: 64, .. })));
    drop(streams);
    device.stream().unwrap();
}

#[test]
fn machines_that_cannot_run_kernels_say_why() {
    let Some(good) = good_driver() else { return };
    let Some(old) = driver("old", &["-DOLD"]) else { return };
    for (driver, settings, words) in [
        (old.as_path(), vec![], "has no symbol cuGetErrorString: the driver is too old"),
        (good, vec![("FAKE_INIT", "100")], "cuInit failed: CUDA_ERROR_NO_DEVICE (100)"),
        (good, vec![("FAKE_NO_DEVICE", "1")], "there is no CUDA device 0: this machine has 0"),
        (good, vec![("FAKE_MAJOR", "7")], "Fake 0 has compute capability 7.0; kernels need 8.0"),
    ] {
        let (output, _) = child(driver, "child_unusable", &settings);
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
        assert!(text.contains(words), "{words} in\n{text}");
        assert!(text.contains("kernels are simulated on the CPU"), "the choice is said: {text}");
    }
}

#[test]
#[ignore = "run by machines_that_cannot_run_kernels_say_why"]
fn child_unusable() {
    println!("{}", Device::cuda(0).unwrap_err());
    let device = Device::auto().unwrap();
    assert!(device.is_simulator());
    let x = device.tensor(&X, [2, 3]).unwrap();
    let mut y = device.zeros::<f32, 2>([2, 3]).unwrap();
    scale::launch(&device, &x, &mut y, 2.0).unwrap();
    assert_eq!(y.to_vec().unwrap(), X.map(|v| 2.0 * v));
}
