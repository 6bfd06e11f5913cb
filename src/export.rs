//! Kernels for other harnesses: cubins, and a launch record for each shape.

use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use tile_ir::emit::cuda::{STATIC_SHARED_LIMIT, emit};
use tile_ir::ir::{DimId, EntityRef, Kernel, ParamId, Target};
use tile_ir::lower::lower;
use tile_ir::lowered::{HostValues, ParameterKind, Program};
use tile_kernels::gemv::Choice;
use tile_kernels::gemv::specialized::gemv_specialized;
use tile_runtime::f16;
use tile_runtime::nvrtc::{Nvrtc, Output, options};

/// The shapes (N, K) of the GEMV benchmark.
pub const GEMV_SHAPES: [(i64, i64); 6] =
    [(1024, 1024), (4096, 4096), (7168, 16384), (18432, 7168), (28672, 8192), (57344, 7168)];

/// Dense operands of a GEMV.
struct Dense<'a> {
    program: &'a Program,
    n: i64,
    k: i64,
}

impl HostValues for Dense<'_> {
    fn dim(&self, dim: DimId) -> i64 {
        match self.program.dims.get(dim.index()).map(String::as_str) {
            Some("N") => self.n,
            _ => self.k,
        }
    }

    fn stride(&self, _tensor: ParamId, _axis: u8) -> i64 {
        self.k
    }

    fn scalar(&self, _param: ParamId) -> i64 {
        0
    }

    fn address(&self, _tensor: ParamId) -> u64 {
        0
    }
}

/// Writes every vectorised 16-bit instance of the bundled GEMVs for sm_90a into `folder`, a specialised one once for each
/// K of the shapes, and `launches.json`.
pub fn gemv(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let nvrtc = Nvrtc::get()?;
    let mut launches = Vec::new();
    for definition in [tile_kernels::gemv::definition(), gemv_specialized::<f16>::definition()] {
        let kernel = definition.kernel()?;
        for instance in kernel.instances.iter().filter(|i| i.dtypes[0].is_half() && i.consts.last() != Some(&1)) {
            for (dims, shapes) in variants(kernel) {
                let instance = instance.with_dims(dims);
                let program = lower(kernel, &instance, Target::Sm90a).map_err(|d| anyhow!("{}", d[0].message))?;
                let source = emit(&program);
                let compiled = nvrtc.compile(&program.name, &source, &options("sm_90a", false), Output::Cubin)?;
                let cubin = format!("{}.cubin", program.name);
                std::fs::write(folder.join(&cubin), &compiled.code)?;
                for (n, k) in shapes {
                    let Choice { shape: (w, r, g, u), stages, .. } = Choice::for_shape(n, k, instance.dtypes[0]);
                    let mut pairs = [w, r, g, u, stages].into_iter().zip(&instance.consts);
                    let chosen = instance.dims.is_empty() && pairs.all(|(a, b)| a as i64 == *b);
                    let launch = record(&kernel.name, &program, &cubin, n, k, chosen);
                    launches.push(launch.with_context(|| format!("{n} x {k}"))?);
                }
            }
        }
    }
    std::fs::write(folder.join("launches.json"), serde_json::to_string_pretty(&launches)?)?;
    println!("{} launches in {}", launches.len(), folder.display());
    Ok(())
}

/// The values of the kernel's specialised dims among the shapes, each with its shapes; one without dims, of all shapes,
/// for a kernel that has none.
fn variants(kernel: &Kernel) -> BTreeMap<Vec<(DimId, i64)>, Vec<(i64, i64)>> {
    let mut variants: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (n, k) in GEMV_SHAPES {
        let value = |dim: &DimId| (*dim, if kernel.dims[*dim].name == "N" { n } else { k });
        variants.entry(kernel.specialized().iter().map(value).collect()).or_default().push((n, k));
    }
    variants
}

fn record(kernel: &str, program: &Program, cubin: &str, n: i64, k: i64, chosen: bool) -> Result<Value> {
    let values = Dense { program, n, k };
    let grid: Option<Vec<i64>> = program.launch.grid.iter().map(|e| e.evaluate(&values)).collect();
    let params: Vec<Value> = program
        .params
        .iter()
        .map(|p| match p.kind {
            ParameterKind::Pointer(_) => json!({ "pointer": p.name }),
            ParameterKind::Dim(dim) => json!({ "i32": values.dim(dim) }),
            ParameterKind::Stride(..) => json!({ "i32": k }),
            ParameterKind::Scalar(_) => json!({ "f32": if p.name == "alpha" { 1.0 } else { 0.0 } }),
        })
        .collect();
    let dtype = program.tensors.first().map(|t| t.dtype.name());
    let dynamic = if program.shared_bytes > STATIC_SHARED_LIMIT { program.shared_bytes } else { 0 };
    Ok(json!({
        "op": "gemv", "kernel": kernel, "instance": program.name, "symbol": program.name, "cubin": cubin, "dtype": dtype,
        "n": n, "k": k, "chosen": chosen, "grid": grid.context("the grid has no value")?, "threads": program.launch.threads,
        "dynamic_shared": dynamic, "params": params, "pdl": program.launch.dependent,
    }))
}
