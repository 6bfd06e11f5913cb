//! Kernels for other harnesses: cubins, and a launch record for each shape.

use crate::progress::Steps;
use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use tile_ir::diag::Code;
use tile_ir::emit::cuda::{dynamic_shared, emit, symbol};
use tile_ir::ir::{DimId, EntityRef, Instance, Kernel, ParamId, Target};
use tile_ir::lower::lower;
use tile_ir::lowered::{HostValues, MapId, Parameter, ParameterKind, Program, TensorMap, ValueType};
use tile_kernels::gemm::Choice;
use tile_kernels::gemm::policy::Policy;
use tile_kernels::gemm::split::{Adds, Split};
use tile_kernels::gemm::tf32;
use tile_kernels::gemv;
use tile_kernels::gemv::bulk::gemv_bulk;
use tile_kernels::gemv::ring::gemv_ring;
use tile_kernels::gemv::specialized::gemv_specialized;
use tile_kernels::gemv::split::gemv_split;
use tile_kernels::gemv::{Problem, candidates};
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
    /// Rows of a block, of the kernel whose launch says how many.
    rows: i64,
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
        self.rows
    }

    fn address(&self, _tensor: ParamId) -> u64 {
        0
    }

    fn capacity(&self) -> i64 {
        1
    }
}

/// Writes every vectorised 16-bit instance of the bundled GEMVs for sm_90a into `folder`, a specialised one once for each
/// K of the shapes, and `launches.json`.
pub fn gemv(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let nvrtc = Nvrtc::get()?;
    let steps = Steps::counting();
    let mut launches = Vec::new();
    let definitions = [
        tile_kernels::gemv::definition(),
        gemv_specialized::<f16>::definition(),
        gemv_bulk::<f16>::definition(),
        gemv_split::<f16>::definition(),
        gemv_ring::<f16>::definition(),
    ];
    for definition in definitions {
        let kernel = definition.kernel()?;
        let bulk = kernel.name == "gemv_bulk";
        // Those are for some shapes alone.
        let some = ["gemv_split", "gemv_ring"].contains(&kernel.name.as_str());
        for instance in kernel.instances.iter().filter(|i| i.dtypes[0].is_half() && i.consts.last() != Some(&1)) {
            for (dims, mut shapes) in variants(kernel) {
                let instance = instance.with_dims(dims);
                if bulk {
                    // Its rows of a block are for shapes that make a wave or a few of blocks.
                    shapes.retain(|(n, _)| {
                        (96..=1100).contains(&(n + instance.consts[3] - 1).div_euclid(instance.consts[3]))
                    });
                    if shapes.is_empty() {
                        continue;
                    }
                }
                let choices = |n: i64, k: i64| -> Vec<gemv::Choice> {
                    let all = candidates(Problem::dense(n, k, instance.dtypes[0])).map(|candidate| candidate.choice);
                    all.filter(|c| c.kernel() == kernel.name && c.consts() == instance.consts).collect()
                };
                if some {
                    shapes.retain(|(n, k)| !choices(*n, *k).is_empty());
                    if shapes.is_empty() {
                        continue;
                    }
                }
                let program = match lower(kernel, &instance, Target::Sm90a) {
                    Ok(program) => program,
                    // Rows of some K are too long for some of its slots.
                    Err(mistakes) if bulk && mistakes[0].code == Code::SHARED_BUDGET => continue,
                    Err(mistakes) => return Err(anyhow!("{}", mistakes[0].message)),
                };
                steps.begin(&program.name);
                let source = emit(&program);
                let compiled = nvrtc.compile(&program.name, &source, &options("sm_90a", false), Output::Cubin)?;
                steps.end();
                let cubin = format!("{}.cubin", program.name);
                std::fs::write(folder.join(&cubin), &compiled.code)?;
                for (n, k) in shapes {
                    // What `gemv` launches for aligned operands.
                    let choice = gemv::Choice::for_shape(n, k, instance.dtypes[0]);
                    let chosen = choice.kernel() == kernel.name && choice.consts() == instance.consts;
                    let rows = choices(n, k).into_iter().map(|choice| match choice {
                        gemv::Choice::Ring(_, rows) => rows as i64,
                        _ => 0,
                    });
                    let rows: Vec<i64> = if some { rows.collect() } else { vec![0] };
                    // What should be launched where every launch depends on the one before.
                    let chosen_dependent = match gemv::Choice::bulk(n, k, instance.dtypes[0]) {
                        Some((w, s, t, r)) => bulk && instance.consts[..4] == [w, s, t, r].map(|v| v as i64),
                        None => chosen,
                    };
                    for rows in rows {
                        let chosen = chosen && (rows == 0 || choice == of_rows(choice, rows));
                        let mut launch = record(&kernel.name, &program, &cubin, [n, k, rows], chosen)
                            .with_context(|| format!("{n} x {k}"))?;
                        launch["chosen_dependent"] = json!(chosen_dependent);
                        launches.push(launch);
                    }
                }
            }
        }
    }
    std::fs::write(folder.join("launches.json"), serde_json::to_string_pretty(&launches)?)?;
    steps.print(format!("{} launches in {}", launches.len(), folder.display()));
    Ok(())
}

/// A value for each specialised dim of a kernel.
type SpecializedDims = Vec<(DimId, i64)>;

/// The values of the kernel's specialised dims among the shapes, each with its shapes; one without dims, of all shapes,
/// for a kernel that has none.
fn variants(kernel: &Kernel) -> BTreeMap<SpecializedDims, Vec<(i64, i64)>> {
    let mut variants: BTreeMap<SpecializedDims, Vec<(i64, i64)>> = BTreeMap::new();
    for (n, k) in GEMV_SHAPES {
        let value = |dim: &DimId| (*dim, if kernel.dims[*dim].name == "N" { n } else { k });
        variants.entry(kernel.specialized().iter().map(value).collect()).or_default().push((n, k));
    }
    variants
}

/// The choice with so many rows a block, where it has such a number.
fn of_rows(choice: gemv::Choice, rows: i64) -> gemv::Choice {
    match choice {
        gemv::Choice::Ring(params, _) => gemv::Choice::Ring(params, rows as usize),
        _ => choice,
    }
}

fn record(kernel: &str, program: &Program, cubin: &str, [n, k, rows]: [i64; 3], chosen: bool) -> Result<Value> {
    let values = Dense { program, n, k, rows };
    let grid: Option<Vec<i64>> = program.launch.grid.iter().map(|e| e.evaluate(&values)).collect();
    let params: Vec<Value> = program
        .params
        .iter()
        .map(|p| match p.kind {
            ParameterKind::Pointer(_) => json!({ "pointer": p.name }),
            ParameterKind::TensorMap(map) => map_record(program, map),
            ParameterKind::Dim(dim) => json!({ "i32": values.dim(dim) }),
            ParameterKind::Stride(..) => json!({ "i32": k }),
            ParameterKind::Scalar(_) if p.name == "rows" => json!({ "i32": rows }),
            ParameterKind::Scalar(_) => json!({ "f32": if p.name == "alpha" { 1.0 } else { 0.0 } }),
            ParameterKind::Ahead(slots) => json!({ "ahead": slots }),
            ParameterKind::Computed(place) => {
                json!({ "i32": program.launch.computed[place as usize].evaluate(&values) })
            }
            // The exported kernels say nothing.
            ParameterKind::Log | ParameterKind::LogFunction => json!(null),
        })
        .collect();
    let dtype = program.tensors.first().map(|t| t.dtype.name());
    Ok(json!({
        "op": "gemv", "kernel": kernel, "instance": program.name, "symbol": symbol(program), "cubin": cubin, "dtype": dtype,
        "n": n, "k": k, "chosen": chosen, "grid": grid.context("the grid has no value")?, "threads": program.launch.threads,
        "dynamic_shared": dynamic_shared(program), "params": params, "pdl": program.launch.dependent.is_some(),
    }))
}

/// How TMA sees a tensor, for `cuTensorMapEncodeTiled`.
fn map_record(program: &Program, map: MapId) -> Value {
    let TensorMap { tensor, box_extents, swizzle, promotion, .. } = &program.tensor_maps[map];
    let name = program.tensors.iter().find(|t| t.param == *tensor).map(|t| t.name.as_str());
    let promotion = format!("{promotion:?}");
    json!({ "map": { "tensor": name, "box": box_extents, "swizzle": swizzle.name(), "promotion": promotion } })
}

/// The shapes (M, N, K) of the GEMM benchmark.
pub const GEMM_SHAPES: [(i64, i64, i64); 22] = [
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (16384, 16384, 16384),
    (4096, 14336, 4096),
    (4096, 7168, 16384),
    (8192, 28672, 8192),
    (16, 7168, 16384),
    (64, 18432, 7168),
    (128, 4096, 7168),
    (512, 7168, 2048),
    (1, 7168, 16384),
    (4, 7168, 16384),
    (8, 4096, 4096),
    (16, 4096, 14336),
    (32, 4096, 7168),
    (32, 18432, 7168),
    (48, 7168, 7168),
    (64, 4096, 7168),
    (64, 7168, 2048),
    (128, 7168, 2048),
];

/// Blocks that an H200 holds at once, one a multiprocessor; in pairs as many.
const H200_BLOCKS: i64 = 132;

/// Rows and columns of the counters of `gemm_slots`.
const ARRIVED: i64 = 128;

/// Shapes of few tiles and a long K, which are split as well as those above.
const SPLIT_SHAPES: [(i64, i64, i64); 5] =
    [(64, 64, 16_384), (128, 128, 65_536), (256, 256, 16_384), (128, 512, 16_384), (96, 4096, 7168)];

/// Dense operands of a GEMM.
struct Matrices<'a> {
    program: &'a Program,
    shape: Shape,
    stored: [bool; 2],
    /// Parts of K: the only scalar that a grid depends on.
    slots: i64,
}

impl HostValues for Matrices<'_> {
    fn dim(&self, dim: DimId) -> i64 {
        let ((m, n, k), [a_t, b_t]) = (self.shape, self.stored);
        match self.program.dims.get(dim.index()).map(String::as_str) {
            Some("A0") => [m, k][usize::from(a_t)],
            Some("A1") => [k, m][usize::from(a_t)],
            Some("K") => k,
            Some("B0") => [k, n][usize::from(b_t)],
            Some("B1") => [n, k][usize::from(b_t)],
            Some("M") => m,
            _ => n,
        }
    }

    fn stride(&self, tensor: ParamId, axis: u8) -> i64 {
        let ((m, n, k), [a_t, b_t]) = (self.shape, self.stored);
        match self.program.tensors.iter().find(|t| t.param == tensor).map(|t| t.name.as_str()) {
            Some("a") => [k, m][usize::from(a_t)],
            Some("b") => [n, k][usize::from(b_t)],
            Some("partial") if axis == 0 => m * n,
            Some("arrived") => ARRIVED,
            _ => n,
        }
    }

    fn scalar(&self, _param: ParamId) -> i64 {
        self.slots
    }

    fn address(&self, _tensor: ParamId) -> u64 {
        0
    }

    fn capacity(&self) -> i64 {
        H200_BLOCKS
    }
}

/// A shape (M, N, K).
type Shape = (i64, i64, i64);

/// Launch records of kernels of the GEMM, whose cubins are written into a folder as they come.
struct GemmRecords<'a> {
    folder: &'a Path,
    nvrtc: &'static Nvrtc,
    launches: Vec<Value>,
    steps: Steps,
}

impl GemmRecords<'_> {
    fn new(folder: &Path) -> Result<GemmRecords<'_>> {
        std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        Ok(GemmRecords { folder, nvrtc: Nvrtc::get()?, launches: Vec::new(), steps: Steps::counting() })
    }

    /// An instance without a bias: its source and cubin, and a record for each of these shapes, and parts of K, with what `more` says of it and its grid;
    /// none where that is nothing.
    fn add(
        &mut self,
        kernel: &Kernel,
        instance: &Instance,
        dtype: &str,
        stored: [bool; 2],
        shapes: impl IntoIterator<Item = (Shape, usize)>,
        more: impl Fn(Shape, usize) -> Value,
    ) -> Result<()> {
        let bias = kernel.params.iter().find(|(_, p)| p.name == "bias").map(|(id, _)| id);
        let instance = Instance { absent: bias.into_iter().collect(), ..instance.clone() };
        let program = lower(kernel, &instance, Target::Sm90a).map_err(|d| anyhow!("{}", d[0].message))?;
        self.steps.begin(&program.name);
        let source = emit(&program);
        std::fs::write(self.folder.join(format!("{}.cu", program.name)), &source)?;
        let compiled = self.nvrtc.compile(&program.name, &source, &options("sm_90a", false), Output::Cubin)?;
        self.steps.end();
        let cubin = format!("{}.cubin", program.name);
        std::fs::write(self.folder.join(&cubin), &compiled.code)?;
        let layout: String = stored.iter().map(|t| if *t { 't' } else { 'n' }).collect();
        for (shape, slots) in shapes {
            let values = Matrices { program: &program, shape, stored, slots: slots as i64 };
            let grid: Option<Vec<i64>> = program.launch.grid.iter().map(|e| e.evaluate(&values)).collect();
            let grid = grid.context("the grid has no value")?;
            let more = more(shape, slots);
            let params: Vec<Value> = program.params.iter().map(|p| gemm_parameter(&program, &values, p)).collect();
            let (m, n, k) = shape;
            let mut record = json!({
                "kernel": "gemm", "instance": program.name, "symbol": symbol(&program), "cubin": cubin, "dtype": dtype,
                "layout": layout, "m": m, "n": n, "k": k, "grid": grid, "threads": program.launch.threads,
                "cluster": program.launch.cluster, "dynamic_shared": dynamic_shared(&program), "params": params,
                "pdl": program.launch.dependent.is_some(),
            });
            if let (Value::Object(record), Value::Object(more)) = (&mut record, more) {
                record.extend(more);
            }
            self.launches.push(record);
        }
        Ok(())
    }

    /// Writes `launches.json`.
    fn finish(self) -> Result<()> {
        std::fs::write(self.folder.join("launches.json"), serde_json::to_string_pretty(&self.launches)?)?;
        self.steps.print(format!("{} launches in {}", self.launches.len(), self.folder.display()));
        Ok(())
    }
}

/// Writes every instance of the bundled GEMM without an epilogue, its result of the operands' type, for sm_90a into `folder`, and `launches.json`.
/// What is chosen is what a device of this policy takes.
pub fn gemm(folder: &Path, policy: Policy) -> Result<()> {
    let mut records = GemmRecords::new(folder)?;
    let kernel = tile_kernels::gemm::definition().kernel()?;
    // Tiles of smaller steps along K are for where every thread copies, which is elsewhere.
    let plain = |i: &&Instance| i.consts.last() == Some(&0) && i.dtypes[0] == i.dtypes[1] && i.consts[2] >= 64;
    for instance in kernel.instances.iter().filter(plain) {
        let [bm, bn, bk, stages, threads, cx, cy, a_t, b_t, _] = instance.consts[..] else {
            return Err(anyhow!("the instance has other constants"));
        };
        let stored = [a_t == 1, b_t == 1];
        let tile = (bm, bn, bk as usize, stages as usize, threads as usize, cx as usize, cy as usize);
        let shapes = GEMM_SHAPES.into_iter().chain(SPLIT_SHAPES).map(|shape| (shape, 1));
        records.add(kernel, instance, instance.dtypes[0].name(), stored, shapes, |(m, n, k), _| {
            let choice = Choice::on(policy, [m, n, k], stored);
            json!({ "chosen": choice.tile == tile && choice.split.is_none() })
        })?;
    }
    splits(&mut records, policy)?;
    records.finish()
}

/// Exports the GEMM of f32 as tf32, `c = a b^T`: records of `gemm` whose `dtype` is `tf32`.
pub fn gemm_tf32(folder: &Path) -> Result<()> {
    let mut records = GemmRecords::new(folder)?;
    let kernel = tf32::gemm_tf32::<128, 256, 4, 256, 1, 1, false, true, false>::definition().kernel()?;
    for instance in kernel.instances.iter().filter(|i| i.consts[6..] == [0, 1, 0]) {
        let [bm, bn, stages, threads, cx, cy, ..] = instance.consts[..] else {
            return Err(anyhow!("the instance has other constants"));
        };
        let tile = (bm, bn, 32, stages as usize, threads as usize, cx as usize, cy as usize);
        let shapes = GEMM_SHAPES.map(|shape| (shape, 1));
        records.add(
            kernel,
            instance,
            "tf32",
            [false, true],
            shapes,
            |(m, n, k), _| json!({ "chosen": tf32::tile_for(m, n, k) == tile }),
        )?;
    }
    records.finish()
}

/// The kernels that split K, for the shapes that they may be for.
fn splits(records: &mut GemmRecords<'_>, policy: Policy) -> Result<()> {
    let stored = [false, true];
    // An instance serves many shapes: by kernel and constants.
    type Served = BTreeMap<(bool, Vec<i64>), Vec<(Shape, Split)>>;
    let mut served = Served::new();
    for (m, n, k) in GEMM_SHAPES.into_iter().chain(SPLIT_SHAPES) {
        // A record is of one kernel.
        for split in Split::candidates(m, n, k, stored, false).filter(|split| split.adds != Adds::SecondLaunch) {
            let by_slots = split.adds == Adds::LastArriver;
            served.entry((by_slots, split.consts(stored, false))).or_default().push(((m, n, k), split));
        }
    }
    for ((by_slots, consts), shapes) in served {
        let split = shapes[0].1;
        let kernel = split.definition().kernel()?;
        for instance in kernel.instances.iter().filter(|i| i.consts == consts && i.dtypes[0] == i.dtypes[1]) {
            let shapes = shapes.iter().map(|(shape, split)| (*shape, split.slots));
            records.add(kernel, instance, instance.dtypes[0].name(), stored, shapes, |(m, n, k), slots| {
                let chosen = Choice::on(policy, [m, n, k], stored).split == Some(Split { slots, ..split });
                // Zeros before the first launch; the kernel leaves the counters so.
                let workspace = match by_slots {
                    false => json!({}),
                    true => json!({ "partial": split.most() as i64 * m * n, "arrived": ARRIVED * ARRIVED }),
                };
                json!({ "chosen": chosen, "workspace": workspace, "slots": slots })
            })?;
        }
    }
    Ok(())
}

fn gemm_parameter(program: &Program, values: &Matrices<'_>, p: &Parameter) -> Value {
    match p.kind {
        ParameterKind::Pointer(_) => json!({ "pointer": p.name }),
        ParameterKind::TensorMap(map) => map_record(program, map),
        ParameterKind::Dim(dim) => json!({ "i32": values.dim(dim) }),
        ParameterKind::Stride(tensor, axis) => json!({ "i32": values.stride(tensor, axis) }),
        ParameterKind::Scalar(_) if p.name == "activation" => json!({ "i32": 0 }),
        ParameterKind::Scalar(_) if p.name == "slots" && p.ty == ValueType::Index => json!({ "i32": values.slots }),
        ParameterKind::Scalar(_) if p.name == "slots" => json!({ "i64": values.slots }),
        ParameterKind::Scalar(_) => json!({ "f32": if p.name == "alpha" { 1.0 } else { 0.0 } }),
        ParameterKind::Ahead(slots) => json!({ "ahead": slots }),
        ParameterKind::Computed(place) => json!({ "i32": program.launch.computed[place as usize].evaluate(values) }),
        // The exported kernels say nothing.
        ParameterKind::Log | ParameterKind::LogFunction => json!(null),
    }
}
