//! fast == checked == GPU: every rung of the ladder and the bundled GEMV, on every committed shape, bit by bit.
//!
//! The GPU's results are in `tests/hashes/*.json`, with the device, driver and NVRTC that made them
//! (`tests/gpu` writes them); this test recomputes every one on both simulators.

use std::collections::BTreeMap;
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

fn ladder<T: LadderElement>() {
    let committed = committed();
    let devices = [("fast", Device::simulator()), ("checked", Device::checked_simulator())];
    let mut compared = 0;
    for rung in T::rungs() {
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
            if let Some(committed) = &committed {
                let gpu = committed.results.get(&name).unwrap_or_else(|| panic!("{name}: no result of the GPU"));
                assert_eq!(gpu, &hashes[0], "{name}: {} and the simulators differ", committed.device);
                compared += 1;
            }
        }
    }
    println!("{}: {compared} results compared with the GPU's", T::DTYPE);
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
