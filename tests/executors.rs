//! fast == checked == GPU: every rung of the ladder and the bundled GEMV, on every committed shape, bit by bit.
//!
//! The GPU's results are in `tests/hashes/*.json`, with the device, driver and NVRTC that made them
//! (`tests/gpu` writes them); this test recomputes every one on both simulators. A rung that the committed run did not know
//! yet is compared on the two simulators only, and the test says so; one that it knew must have a hash for every shape.

use std::collections::BTreeMap;
use std::io::Write;
use tile_kernel_examples::data::hash;
use tile_kernel_examples::ladder::{LadderElement, shapes};
use tile_runtime::prelude::*;

/// One committed result: `rung/dtype/NxK` to the hash of `y`.
#[derive(serde::Deserialize)]
struct Committed {
    device: String,
    results: BTreeMap<String, String>,
}

fn committed() -> Option<Committed> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hashes/gemv_ladder.json");
    let text = std::fs::read_to_string(path).ok()?;
    Some(serde_json::from_str(&text).expect("tests/hashes/gemv_ladder.json is what tests/gpu writes"))
}

/// Past the test harness, which keeps what a passing test prints to itself.
fn say(line: &str) {
    writeln!(std::io::stderr(), "executors: {line}").expect("the test can write to its standard error");
}

fn ladder<T: LadderElement>() {
    let committed = committed();
    let devices = [("fast", Device::simulator()), ("checked", Device::checked_simulator())];
    let mut compared = 0;
    let mut without_gpu = Vec::new();
    for rung in T::rungs() {
        // The whole rung, in every dtype: a single missing shape or dtype is a hole in the file, not a new rung.
        let prefix = format!("{}/", rung.name);
        let gpu_ran = committed.as_ref().filter(|c| c.results.keys().any(|key| key.starts_with(&prefix)));
        if gpu_ran.is_none() {
            without_gpu.push(rung.name);
        }
        for (n, k) in shapes() {
            if !k.is_multiple_of(rung.k_multiple) {
                continue;
            }
            let (w, x) = rung.data((n * 31 + k) as u64, n, k);
            let name = format!("{}/{}/{n}x{k}", rung.name, T::DTYPE);
            let mut hashes = Vec::new();
            for (executor, device) in &devices {
                let stream = device.stream().unwrap();
                let poison = vec![T::from_f32(f32::NAN); n];
                let mut y = device.tensor(&poison, [n]).unwrap();
                let (w, x) = (device.tensor(&w, [n, k]).unwrap(), device.tensor(&x, [k]).unwrap());
                (rung.launch)(&stream, &x, &w, &mut y).unwrap_or_else(|e| panic!("{name} on {executor}: {e}"));
                hashes.push(format!("{:016x}", hash(&y.to_vec().unwrap())));
            }
            assert_eq!(hashes[0], hashes[1], "{name}: fast and checked differ");
            if let Some(committed) = gpu_ran {
                let gpu = committed.results.get(&name).unwrap_or_else(|| panic!("{name}: no result of the GPU"));
                assert_eq!(gpu, &hashes[0], "{name}: {} and the simulators differ", committed.device);
                compared += 1;
            }
        }
    }
    assert!(committed.is_none() || compared > 0, "{}: no rung has results of the GPU", T::DTYPE);
    say(&format!("{}: {compared} results compared with the GPU's", T::DTYPE));
    if !without_gpu.is_empty() {
        let rungs = without_gpu.join(", ");
        say(&format!("{}: no GPU has run {rungs} yet: only fast == checked was compared there", T::DTYPE));
    }
}

#[test]
fn the_ladder_agrees_in_f16() {
    ladder::<f16>();
}

#[test]
fn the_ladder_agrees_in_bf16() {
    ladder::<bf16>();
}

#[test]
fn the_ladder_agrees_in_f32() {
    ladder::<f32>();
}

#[test]
fn there_are_enough_shapes() {
    assert!(shapes().len() >= 100);
}
