//! Names are the author's: a kernel, a parameter, a variable or an array may be called what C, CUDA or the emitter's own
//! helpers call something else. Where no NVRTC is found the parts that need one say so.

// `NULL` is one of the names.
#![allow(non_snake_case, clippy::upper_case_acronyms)]

use std::collections::BTreeSet;
use std::path::Path;
use tile_ir::emit::cuda::{KEYWORDS, emit, is_reserved};
use tile_ir::ir::{Kernel, Target};
use tile_ir::lower::lower;
use tile_runtime::kernel::Definition;
use tile_runtime::nvrtc::{Nvrtc, Output, Resources, options};
use tile_runtime::prelude::*;

/// A kernel by each name, and one that has it as a tensor, a scalar, a variable, an array and a loop's index in turn, all
/// through the macro and rustc. Bodies call functions of the language.
macro_rules! named {
    ($($name:ident)*) => {
        mod of_kernel {
            $(pub mod $name {
                use tile_runtime::prelude::*;
                #[tile_kernel]
                pub fn $name(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
                    let [b] = blocks([ceil_div(N, 32)]);
                    let [t] = threads([32]);
                    let i = b * 32 + t;
                    if i < N {
                        y[i] = x[i] + 1.0;
                    }
                }
            })*
        }
        mod of_tensor {
            $(pub mod $name {
                use tile_runtime::prelude::*;
                #[tile_kernel]
                pub fn kernel($name: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
                    let [b] = blocks([ceil_div(N, 32)]);
                    let [t] = threads([32]);
                    let i = b * 32 + t;
                    if i < N {
                        y[i] = log($name[i]);
                    }
                }
            })*
        }
        mod of_scalar {
            $(pub mod $name {
                use tile_runtime::prelude::*;
                #[tile_kernel]
                pub fn kernel($name: f32, x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
                    let [b] = blocks([ceil_div(N, 32)]);
                    let [t] = threads([32]);
                    let i = b * 32 + t;
                    if i < N {
                        y[i] = x[i] + $name;
                    }
                }
            })*
        }
        mod of_variables {
            $(pub mod $name {
                use tile_runtime::prelude::*;
                #[tile_kernel]
                pub fn kernel(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
                    let [b] = blocks([ceil_div(N, 32)]);
                    let [t] = threads([32]);
                    let mut array = alloc_shared::<f32>([32]);
                    array[t] = x.masked([b * 32 + t]);
                    sync_threads();
                    let mut sum = 0.0;
                    for $name in 0..32 {
                        sum += array[$name];
                    }
                    let $name = sum;
                    *y.masked_mut([b * 32 + t]) = $name;
                }
            })*
        }
        mod of_array {
            $(pub mod $name {
                use tile_runtime::prelude::*;
                #[tile_kernel]
                pub fn kernel(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
                    let [b] = blocks([ceil_div(N, 32)]);
                    let [t] = threads([32]);
                    let mut $name = alloc_shared::<f32>([32]);
                    $name[t] = x.masked([b * 32 + t]);
                    sync_threads();
                    *y.masked_mut([b * 32 + t]) = $name[31 - t];
                }
            })*
        }
        /// By position: the kernel's own name, a tensor, a scalar, variables, an array.
        fn definitions() -> [Vec<&'static Definition>; 5] {
            [
                vec![$(of_kernel::$name::$name::definition()),*],
                vec![$(of_tensor::$name::kernel::definition()),*],
                vec![$(of_scalar::$name::kernel::definition()),*],
                vec![$(of_variables::$name::kernel::definition()),*],
                vec![$(of_array::$name::kernel::definition()),*],
            ]
        }
    };
}
// What the audit tried, and what the prelude, the emitter and C are made of. Rust's own keywords are no names.
named! {
    double float int short long char auto and or xor not new delete signed unsigned register template namespace operator
    union volatile switch asm goto sqrt expf printf assert main NULL threadIdx größe norm exp max min tanh abs fma
    wrapping_add __shared__ __global__ load16_if shared_at tile_shared shared elected f16 bool warpSize y_stride i_end
}

/// A function whose parameters are called as functions of the language are.
#[tile_fn]
fn larger(min: f32, max: f32) -> f32 {
    if min < max { max } else { min }
}

#[tile_kernel(uses(larger))]
pub fn exp(max: f32, x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let i = min(b * 32 + t, N - 1);
    if i < N {
        // The kernel's own name is the language's function.
        y[i] = larger(exp(x[i]), max);
    }
}

/// NVRTC, or a word that there is none.
fn nvrtc() -> Option<&'static Nvrtc> {
    Nvrtc::get().inspect_err(|error| eprintln!("names: not compiled: {error}")).ok()
}

/// What NVRTC says about kernels of different names, compiled together for a target.
fn compile(nvrtc: &Nvrtc, kernels: &[Kernel], target: Target) {
    for kernels in kernels.chunks(64) {
        let emitted = kernels.iter().enumerate().map(|(i, kernel)| {
            let program = lower(kernel, &kernel.instances[0], target);
            let program = program.unwrap_or_else(|d| panic!("{}: {}", kernel.name, d[0].message));
            // Each has helpers of its own.
            format!("namespace n{i} {{\n{}}}\n", emit(&program))
        });
        let source: String = emitted.collect();
        let compiled = nvrtc.compile("names", &source, &options(target.name(), false), Output::Ptx);
        compiled.unwrap_or_else(|error| panic!("{error}\n{source}"));
    }
}

#[test]
fn names_of_c_are_names_of_kernels_parameters_and_variables() {
    let Some(nvrtc) = nvrtc() else { return };
    let kernel = |definition: &'static Definition| definition.kernel().unwrap().clone();
    for (position, definitions) in definitions().into_iter().enumerate() {
        let mut kernels: Vec<Kernel> = definitions.into_iter().map(kernel).collect();
        for (i, kernel) in kernels.iter_mut().enumerate().filter(|_| position > 0) {
            kernel.name = format!("kernel_{i}");
        }
        compile(nvrtc, &kernels, Target::Sm90a);
        if position == 0 {
            compile(nvrtc, &kernels, Target::Sm80);
            compile(nvrtc, &[kernel(exp::definition())], Target::Sm80);
            // By itself, as a launch compiles it.
            let program = lower(&kernels[0], &kernels[0].instances[0], Target::Sm90a).unwrap();
            let cubin =
                nvrtc.compile(&program.name, &emit(&program), &options("sm_90a", false), Output::Cubin).unwrap();
            let used = Resources::of(&program, &cubin.log).expect("the log names the kernel by its symbol");
            assert!(used.registers > 0);
        }
    }
}

/// Every word of the prelude and every keyword that Rust does not have too, as a kernel's name and as a tensor's, a
/// scalar's, an array's and a variable's in turn.
#[test]
fn no_word_of_the_prelude_or_of_c_is_taken() {
    let Some(nvrtc) = nvrtc() else { return };
    let prelude = include_str!("../tile-ir/src/emit/cuda/prelude.cuh");
    let code = prelude.split('"').step_by(2);
    let words = code.flat_map(|code| code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    let words = words.chain(KEYWORDS).filter(|word| syn::parse_str::<syn::Ident>(word).is_ok());
    let words: BTreeSet<&str> = words.collect();
    assert!(words.len() > 200, "{}", words.len());
    let mut kernels = Vec::new();
    for (i, word) in words.iter().enumerate() {
        let mut names = ["x0", "a0", "s0", "v0"];
        // Where Rust has a variable, it has no function.
        if !["ceil_div", "exp"].contains(word) {
            names[i % 4] = word;
        }
        let [x, a, s, v] = names;
        let text = format!(
            "fn {word}({a}: f32, {x}: &Tensor<f32, (N,)>, y0: &mut Tensor<f32, (N,)>) {{
                let [b0] = blocks([ceil_div(N, 32)]);
                let [t0] = threads([32]);
                let mut {s} = alloc_shared::<f32>([32]);
                {s}[t0] = {x}.masked([b0 * 32 + t0]);
                sync_threads();
                let {v} = {s}[31 - t0] * {a};
                *y0.masked_mut([b0 * 32 + t0]) = exp({v}) + {v};
            }}"
        );
        let checked = tile_syntax::check_kernel(Default::default(), text.parse().unwrap());
        let said: Vec<_> = checked.diagnostics.iter().chain(&checked.deferred).map(|d| &d.message).collect();
        assert!(said.is_empty(), "{word}: {said:?}");
        kernels.push(checked.kernel);
    }
    compile(nvrtc, &kernels, Target::Sm90a);
}

/// The macros of this NVRTC, found by asking it about every word in its files, are those that the emitter avoids.
#[test]
fn the_macros_of_nvrtc_are_known() {
    let Some(nvrtc) = nvrtc() else { return };
    let folder = nvrtc.path().parent().unwrap_or(Path::new("."));
    let mut words = BTreeSet::new();
    for file in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if !file.file_name().to_string_lossy().starts_with("libnvrtc") {
            continue;
        }
        let bytes = std::fs::read(file.path()).unwrap();
        for word in bytes.split(|b| !b.is_ascii_alphanumeric() && *b != b'_') {
            if (2..=60).contains(&word.len()) && !word[0].is_ascii_digit() {
                words.insert(String::from_utf8_lossy(word).into_owned());
            }
        }
    }
    if words.is_empty() {
        return eprintln!("names: macros not looked for: {} has no libnvrtc", folder.display());
    }
    words.retain(|word| !is_reserved(word));
    let words: Vec<String> = words.into_iter().collect();
    assert!(words.len() > 10_000, "{} words in {}", words.len(), folder.display());
    // A macro is seen by a function that exists only where there is one.
    let ask = |(i, word): (usize, &String)| {
        format!("#ifdef {word}\nextern \"C\" __global__ void defined_{i}() {{}}\n#endif\n")
    };
    let source: String = words.iter().enumerate().map(ask).collect();
    let control =
        "#define tile_control\n#ifdef tile_control\nextern \"C\" __global__ void defined_control() {}\n#endif\n";
    let compiled = nvrtc.compile("macros", &(source + control), &options("sm_90a", false), Output::Ptx).unwrap();
    let text = String::from_utf8_lossy(&compiled.code).into_owned();
    let found = text.split(".entry defined_").skip(1).map(|rest| rest.split('(').next().unwrap_or_default());
    let found: Vec<&str> = found.map(|i| i.parse::<usize>().map_or("the control", |i| words[i].as_str())).collect();
    assert_eq!(found, ["the control"], "macros that `emit/cuda/names.rs` does not know");
}
