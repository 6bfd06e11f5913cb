//! The ladder on the GPU: right, repeatable, and equal bit by bit to the simulator.

use crate::{gpu, results_folder};
use std::collections::BTreeMap;
use tile_kernel_examples::data::hash;
use tile_kernel_examples::gemv::{reference, worst_error};
use tile_kernel_examples::ladder::{LadderElement, shapes};
use tile_runtime::prelude::*;

fn results<T: LadderElement>(device: &Device, results: &mut BTreeMap<String, String>) {
    let simulator = Device::simulator();
    let (stream, simulated) = (device.stream().unwrap(), simulator.stream().unwrap());
    for rung in T::rungs() {
        for (n, k) in shapes() {
            if !k.is_multiple_of(rung.k_multiple) {
                continue;
            }
            let name = format!("{}/{}/{n}x{k}", rung.name, T::DTYPE);
            let (w, x) = rung.data((n * 31 + k) as u64, n, k);
            let run = |device: &Device, stream: &Stream| -> Vec<T> {
                let poison = vec![T::from_f32(f32::NAN); n];
                let mut y = device.tensor(&poison, [n]).unwrap();
                let (w, x) = (device.tensor(&w, [n, k]).unwrap(), device.tensor(&x, [k]).unwrap());
                (rung.launch)(stream, &x, &w, &mut y).unwrap_or_else(|e| panic!("{name}: {e}"));
                y.to_vec().unwrap()
            };
            let y = run(device, &stream);
            let error = worst_error(&y, &reference(&w, &x, n, k), k);
            assert!(error <= 1.0, "{name}: {error} times the error bound away from f64");
            assert_eq!(hash(&y), hash(&run(device, &stream)), "{name}: a second launch gave other bits");
            assert_eq!(hash(&y), hash(&run(&simulator, &simulated)), "{name}: GPU and simulator differ");
            results.insert(name, format!("{:016x}", hash(&y)));
        }
    }
}

#[test]
fn every_rung_equals_the_simulator() {
    let Some(device) = gpu() else { return };
    let mut all = BTreeMap::new();
    results::<f16>(&device, &mut all);
    results::<bf16>(&device, &mut all);
    results::<f32>(&device, &mut all);
    println!("{} results equal to the simulator's", all.len());
    if let Some(folder) = results_folder() {
        let (major, minor) = Device::driver_version().unwrap();
        let nvrtc = tile_runtime::nvrtc::Nvrtc::get().map(|n| n.version()).unwrap_or_default();
        let file = serde_json::json!({
            "device": device.to_string(),
            "driver": format!("CUDA {major}.{minor}"),
            "nvrtc": nvrtc,
            "results": all,
        });
        std::fs::write(folder.join("gemv_ladder.json"), serde_json::to_string_pretty(&file).unwrap()).unwrap();
    }
}
