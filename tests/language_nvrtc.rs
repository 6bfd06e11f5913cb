//! The kernels of the tests of functions, reductions, split-K and products from registers, through NVRTC: they compile for
//! every target and nothing spills. Where no NVRTC is found the test says so; `tests/nvrtc` demands one.

#[path = "attention.rs"]
#[allow(dead_code)]
mod attention;
#[path = "functions.rs"]
#[allow(dead_code)]
mod functions;
#[path = "gemm_fragment.rs"]
#[allow(dead_code)]
mod gemm_fragment;
#[path = "grammar/kernels.rs"]
#[allow(dead_code)]
mod grammar;
#[path = "hopper_registers.rs"]
#[allow(dead_code)]
mod hopper_registers;
#[path = "lanes.rs"]
#[allow(dead_code)]
mod lanes;
#[path = "leaving.rs"]
#[allow(dead_code)]
mod leaving;
#[path = "reduce.rs"]
#[allow(dead_code)]
mod reduce;
#[path = "scalars.rs"]
#[allow(dead_code)]
mod scalars;
#[path = "split_k.rs"]
#[allow(dead_code)]
mod split_k;

#[path = "storage.rs"]
#[allow(dead_code)]
mod storage;
#[path = "tensors.rs"]
#[allow(dead_code)]
mod tensors;
#[path = "transposed_store.rs"]
#[allow(dead_code)]
mod transposed_store;

use std::time::{Duration, Instant};
use tile_runtime::kernel::Definition;
use tile_runtime::library::find_nvdisasm;
use tile_runtime::nvrtc::{Nvrtc, Output, Resources, options};
use tile_runtime::prelude::*;

/// A tile that no grid of warps divides, so that its product is not the tensor cores': once 2 KiB of spills.
#[tile_kernel]
fn by_elements(a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (K, N)>, c: &mut Tensor<f32, (M, N)>) {
    let [bx, by] = blocks([ceil_div(N, 40), ceil_div(M, 64)]);
    threads([256]);
    let mut a_s = alloc_shared::<f16>([64, 32]);
    let mut b_s = alloc_shared::<f16>([32, 40]);
    let mut acc = alloc_fragment::<f32>([64, 40]);
    clear(&mut acc);
    for k in 0..ceil_div(K, 32) {
        copy(a.at([by * 64, k * 32]), &mut a_s);
        copy(b.at([k * 32, bx * 40]), &mut b_s);
        gemm(&a_s, &b_s, &mut acc);
    }
    copy(&acc, c.at_mut([by * 64, bx * 40]));
}

/// f32, which the tensor cores round, with both operands transposed: once 360 bytes of spills.
#[tile_kernel]
fn both_turned(a: &Tensor<f32, (K, M)>, b: &Tensor<f32, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
    let [bx, by] = blocks([ceil_div(N, 128), ceil_div(M, 8)]);
    threads([64]);
    let mut a_s = alloc_shared::<f32>([32, 8]);
    let mut b_s = alloc_shared::<f32>([128, 32]);
    let mut acc = alloc_fragment::<f32>([8, 128]);
    clear(&mut acc);
    for k in 0..ceil_div(K, 32) {
        copy(a.at([k * 32, by * 8]), &mut a_s);
        copy(b.at([bx * 128, k * 32]), &mut b_s);
        gemm(a_s.t(), b_s.t(), &mut acc);
    }
    copy(&acc, c.at_mut([by * 8, bx * 128]));
}

/// How long NVRTC may take for one program, on a loaded machine: it takes seconds, and took 46 where loops were unrolled twice.
const COMPILATION: Duration = Duration::from_secs(60);

fn definitions() -> Vec<&'static Definition> {
    vec![
        functions::called::<f16, 3>::definition(),
        functions::activations::definition(),
        reduce::rows_and_columns::<32>::definition(),
        reduce::softmax::definition(),
        reduce::shared::<5, 7>::definition(),
        reduce::product::<64, true>::definition(),
        split_k::split_k::<3>::definition(),
        gemm_fragment::chained::<f16, 64, 128>::definition(),
        attention::attention::<f16, 64, 64, 64, 128, 2>::definition(),
        hopper_registers::positive::<f16, 64, 64, 128>::definition(),
        hopper_registers::stay::<64, 128, 64, false, 1>::definition(),
        transposed_store::swapped::<f16, f16, 64, 16, 128>::definition(),
        transposed_store::turned::<true>::definition(),
        grammar::numbers::definition(),
        grammar::leaving::definition(),
        leaving::collatz::definition(),
        leaving::halves::definition(),
        leaving::first::definition(),
        leaving::roots::definition(),
        leaving::odd_ends::definition(),
        grammar::axes::definition(),
        tensors::rotated::<f16>::definition(),
        tensors::regrouped::<f16>::definition(),
        tensors::by_head::<f16, 2>::definition(),
        tensors::swiglu::<f16>::definition(),
        scalars::roundings::<f32>::definition(),
        scalars::inexact::<f32>::definition(),
        scalars::bits::definition(),
        scalars::philox::definition(),
        storage::dequantize::<16, 4>::definition(),
        storage::quantize::<f32>::definition(),
        storage::through_shared::definition(),
        storage::sums::definition(),
        storage::casts::<u8>::definition(),
        lanes::exchanged::<f32>::definition(),
        lanes::scanned::definition(),
        lanes::led::definition(),
        lanes::found::<f32, 32, 2>::definition(),
        lanes::by_warp::definition(),
        by_elements::definition(),
        both_turned::definition(),
    ]
}

#[test]
fn they_compile_without_spills() {
    let nvrtc = match Nvrtc::get() {
        Ok(nvrtc) => nvrtc,
        Err(error) => return eprintln!("language_nvrtc: not run: {error}"),
    };
    for definition in definitions() {
        let kernel = definition.kernel().unwrap();
        for instance in &kernel.instances {
            for &target in &kernel.targets {
                let program = tile_ir::lower::lower(kernel, instance, target).unwrap();
                let source = tile_ir::emit::cuda::emit(&program);
                let start = Instant::now();
                let compiled = nvrtc
                    .compile(&program.name, &source, &options(target.name(), false), Output::Cubin)
                    .unwrap_or_else(|error| panic!("{} {instance:?}: {error}\n{source}", kernel.name));
                let took = start.elapsed();
                assert!(took < COMPILATION, "{} {instance:?} {target}: NVRTC took {took:?}", kernel.name);
                let used = Resources::of(&program, &compiled.log).unwrap();
                println!("{} {:?} {target}: {} registers", kernel.name, instance.consts, used.registers);
                let spilled = used.spill_stores + used.spill_loads;
                assert!(spilled == 0, "{} {instance:?} {target}: {spilled} bytes spilled", kernel.name);
                assert!(!compiled.log.contains("Performance Loss"), "{}: {}", kernel.name, compiled.log);
            }
        }
    }
}

/// The shared memory of a product's pipeline is what the launch asks for: the assembler's log has none of it.
#[test]
fn resources_show_the_shared_memory_of_a_launch() {
    let Ok(nvrtc) = Nvrtc::get() else { return eprintln!("language_nvrtc: resources not looked at: no NVRTC") };
    let kernel = hopper_registers::positive::<f16, 64, 64, 128>::definition().kernel().unwrap();
    for &target in &kernel.targets {
        let program = tile_ir::lower::lower(kernel, &kernel.instances[0], target).unwrap();
        let source = tile_ir::emit::cuda::emit(&program);
        let options = options(target.name(), false);
        let compiled = nvrtc.compile(&program.name, &source, &options, Output::Cubin).unwrap();
        let used = Resources::of(&program, &compiled.log).unwrap();
        // Two operands of 64 x 64 f16 at least.
        assert!(used.dynamic_shared >= 16_384, "{target}: {used:?}");
        assert_eq!(used.shared_bytes(), used.static_shared + used.dynamic_shared, "{target}");
        let shown = used.to_string();
        assert!(shown.contains(&format!("{} bytes of shared memory", used.shared_bytes())), "{target}: {shown}");
        assert!(shown.contains("dynamic"), "{target}: {shown}");
    }
}

/// A transposed store is `stmatrix.trans` and TMA: one STSM of four matrices for 16 columns.
#[test]
fn a_transposed_store_is_stmatrix() {
    let program = transposed_store::programs(
        transposed_store::swapped::<f16, f16, 64, 16, 128>::definition(),
        tile_ir::ir::Target::Sm90a,
    );
    let program = program.iter().find(|p| p.name.contains("_128_64_256")).unwrap();
    let Some(listing) = machine_code(program) else { return };
    let stores: Vec<&str> = listing.lines().filter(|l| l.contains("STSM")).collect();
    assert!(stores.len() == 4 && stores.iter().all(|l| l.contains("STSM.16.MT88.4")), "{stores:?}");
    assert!(listing.contains("UTMASTG"), "no store by TMA");
}

/// The machine code of a program, as nvdisasm lists it; none where one of the tools is missing.
fn machine_code(program: &tile_ir::lowered::Program) -> Option<String> {
    let (nvrtc, nvdisasm) = match (Nvrtc::get(), find_nvdisasm()) {
        (Ok(nvrtc), Ok(nvdisasm)) => (nvrtc, nvdisasm),
        _ => {
            eprintln!("language_nvrtc: machine code not looked at: no NVRTC or no nvdisasm");
            return None;
        }
    };
    let source = tile_ir::emit::cuda::emit(program);
    let options = options(program.target.name(), false);
    let cubin = nvrtc.compile(&program.name, &source, &options, Output::Cubin).unwrap();
    let file = std::env::temp_dir().join(format!("tile-{}-{}.cubin", program.name, std::process::id()));
    std::fs::write(&file, &cubin.code).unwrap();
    let output = std::process::Command::new(nvdisasm).arg("-c").arg(&file).output().unwrap();
    std::fs::remove_file(&file).ok();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The second product of attention has its left operand in registers: HGMMA with two registers before its descriptor, one
/// for each step along K. Nothing goes to local memory, and two elements are converted at once. The loop is software-pipelined, and its masked steps
/// are a loop of their own: each product is there three times, in both loops and before or after them, and so is the conversion of the weights.
#[test]
fn attention_multiplies_from_registers() {
    let kernel = attention::attention::<f16, 64, 64, 64, 128, 2>::definition().kernel().unwrap();
    for instance in &kernel.instances {
        let program = tile_ir::lower::lower(kernel, instance, tile_ir::ir::Target::Sm90a).unwrap();
        let Some(listing) = machine_code(&program) else { return };
        let constant = |at: usize| instance.consts[at] as usize;
        let [columns, depth] = [constant(1), constant(2)];
        let operands =
            |line: &str| line.split_once("HGMMA").map(|(_, rest)| rest.split(", ").nth(1).unwrap().to_owned());
        let left: Vec<String> = listing.lines().filter_map(operands).collect();
        let from_registers = left.iter().filter(|operand| operand.starts_with('R')).count();
        let by_descriptor = left.iter().filter(|operand| operand.starts_with("gdesc")).count();
        assert_eq!((from_registers, by_descriptor), (3 * columns / 16, 3 * depth / 16), "{left:?}");
        let count = |name: &str| listing.lines().filter(|l| l.split_whitespace().any(|w| w.starts_with(name))).count();
        assert_eq!(count("LDL") + count("STL"), 0);
        // 64 rows of weights a warpgroup, and of the result, two elements an instruction and thread.
        assert_eq!(count("F2FP"), 64 * (3 * columns + depth) / 128 / 2, "{}", program.name);
        if let Ok(folder) = std::env::var("TILE_SASS") {
            std::fs::write(format!("{folder}/{}.sass", program.name), &listing).unwrap();
            std::fs::write(format!("{folder}/{}.cu", program.name), tile_ir::emit::cuda::emit(&program)).unwrap();
        }
    }
}

/// In attention's loop the exponentials of an iteration are computed while the second product of the iteration before is in flight: they stand between
/// the wait for the scores, which leaves one product unfinished, and the wait for both. ptxas once moved the second wait in front of them. Where two
/// warpgroups share the tensor cores, or heads have 128 elements, attention is faster where it may: weights are packed among the exponentials.
#[test]
fn exponentials_overlap_the_second_product() {
    use tile_ir::ir::{Instance, ParamKind};
    for name in ["forward", "causal"] {
        let definitions = tile_kernels::attention::definitions();
        let mut kernels = definitions.into_iter().map(|definition| definition.kernel().unwrap());
        let kernel = kernels.find(|kernel| kernel.name == name).unwrap();
        let tiles = [[192, 80, 128], [192, 128, 64], [128, 128, 128], [128, 128, 64]];
        let is_of = |instance: &&Instance| tiles.iter().any(|tile| instance.consts[..3] == tile[..]);
        let optional = kernel.params.iter().filter(|(_, p)| matches!(p.kind, ParamKind::Tensor { optional: true, .. }));
        let absent: Vec<_> = optional.map(|(id, _)| id).collect();
        let mut seen = 0;
        for instance in kernel.instances.iter().filter(is_of) {
            let instance = Instance { absent: absent.clone(), ..instance.clone() };
            let program = tile_ir::lower::lower(kernel, &instance, tile_ir::ir::Target::Sm90a).unwrap();
            let Some(listing) = machine_code(&program) else { return };
            let is_wait = |line: &str, pending: &str| line.contains("WARPGROUP.DEPBAR") && line.contains(pending);
            let lines: Vec<&str> = listing.lines().collect();
            let from = lines.iter().position(|line| is_wait(line, ", 0x1")).unwrap();
            let until = from + lines[from..].iter().position(|line| is_wait(line, ", 0x0")).unwrap();
            let between = lines[from..until].iter().filter(|line| line.contains("MUFU.EX2")).count();
            let scores = (instance.consts[0] * instance.consts[1] / instance.consts[4]) as usize;
            let is_held = instance.consts[..3] == [192, 128, 64];
            let found = format!("{}: {between} of {scores} exponentials before the wait", program.name);
            assert_eq!(between >= scores, is_held, "{found}");
            seen += 1;
        }
        assert!(seen >= 2, "{name}: {seen} instances");
    }
}
