//! Every recipe through NVRTC, in every instance of f16 and f32, for every target it declares: it compiles, and nothing
//! spills. Where no NVRTC is found the test says so. bf16 differs from f16 in the names of instructions.

use tile_ir::ir::{Dtype, Kernel, Target};
use tile_runtime::nvrtc::{Nvrtc, Output, Resources, options};

/// The values of specialised dims: of a row that vectors divide and fill unevenly.
fn dims(kernel: &Kernel) -> Vec<(tile_ir::ir::DimId, i64)> {
    kernel.specialized().iter().map(|dim| (*dim, 5000)).collect()
}

/// Bytes spilled, for a message; registers are printed.
fn spilled(nvrtc: &Nvrtc, kernel: &Kernel, instance: &tile_ir::ir::Instance, target: Target) -> u32 {
    let program = tile_ir::lower::lower(kernel, instance, target).unwrap_or_else(|error| panic!("{error:?}"));
    let source = tile_ir::emit::cuda::emit(&program);
    let compiled = nvrtc
        .compile(&program.name, &source, &options(target.name(), false), Output::Cubin)
        .unwrap_or_else(|error| panic!("{} {target}: {error}\n{source}", program.name));
    assert!(!compiled.log.contains("Performance Loss"), "{} {target}: {}", program.name, compiled.log);
    let used = Resources::of(&program, &compiled.log).unwrap();
    println!("{} {target}: {} registers, {} bytes shared", program.name, used.registers, used.shared_bytes());
    program.remarks.iter().for_each(|remark| println!("  {remark:?}"));
    used.spill_stores + used.spill_loads
}

#[test]
fn every_recipe_compiles_without_spills() {
    let nvrtc = match Nvrtc::get() {
        Ok(nvrtc) => nvrtc,
        Err(error) => return eprintln!("SKIPPED, no NVRTC: {error}"),
    };
    let mut compiled = 0;
    for definition in tile_cookbook::definitions() {
        let kernel = definition.kernel().unwrap();
        for instance in kernel.instances.iter().filter(|instance| !instance.dtypes.contains(&Dtype::Bf16)) {
            let instance = instance.with_dims(dims(kernel));
            for &target in &kernel.targets {
                let bytes = spilled(nvrtc, kernel, &instance, target);
                assert_eq!(bytes, 0, "{} {:?} {target} spills", kernel.name, instance.consts);
                compiled += 1;
            }
        }
    }
    assert!(compiled >= 2 * tile_cookbook::definitions().len(), "{compiled} programs");
}

/// A recipe is read in one go: the text of its kernels has at most 60 lines each, the chapter's promise.
#[test]
fn kernels_have_at_most_sixty_lines() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let mut kernels = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let listing = text
            .lines()
            .skip_while(|line| *line != "// ANCHOR: kernel")
            .take_while(|line| *line != "// ANCHOR_END: kernel");
        let listing: Vec<&str> = listing.collect();
        // A kernel reaches from its attribute to the brace that closes its body, both in the first column.
        for start in (0..listing.len()).filter(|at| listing[*at].starts_with("#[tile_kernel")) {
            let lines = listing[start..].iter().position(|line| *line == "}").unwrap() + 1;
            assert!(lines <= 60, "{}: a kernel of {lines} lines", path.display());
            kernels += 1;
        }
    }
    assert_eq!(kernels, tile_cookbook::definitions().len());
}
