//! Kernels that try to leave their tensors: indices that wrap, are negative or come from data, guards that no longer hold, empty
//! tensors, ragged clusters, offsets that no tensor has, blocks that store to one element. Each says at which moment it is refused or reported; where it is neither,
//! the two simulators agree on its results. None leaves a tensor, also where the compiler's guards are taken away and nothing but the
//! checked simulator's own look at each access is left.

#[path = "helps/run.rs"]
#[allow(dead_code)]
mod run;

use run::{Arg, Values, arguments, f32s, read, tensor};
use std::collections::BTreeSet;
use tile_ir::ir::{Dtype, EntityRef, Instance, Kernel, ParamKind, Target};
use tile_ir::lowered::Program;
use tile_ir::lowered::visit::each_list_mut;
use tile_ir::sim::checked::{CheckedOptions, Copies, Schedule};
use tile_ir::sim::{Argument, checked, fast};

struct Case {
    /// What is said, by the moment it is said at: see [`end`].
    end: &'static str,
    kernel: &'static str,
    args: fn() -> Vec<Arg>,
}

/// A launch of the first instance: why it is refused, or the program in the widest alignment class that its checks allow.
fn launch(kernel: &Kernel, instance: &Instance, target: Target, args: &[Argument]) -> Result<Program, String> {
    let mut instance = instance.clone();
    loop {
        let program = tile_ir::lower::lower(kernel, &instance, target).map_err(|all| all[0].code.to_string())?;
        let values = Values(kernel, args);
        let unheld = program.launch.checks.iter().find(|c| c.holds.evaluate(&values).is_none_or(|v| v == 0));
        let Some(check) = unheld else { return Ok(program) };
        match check.request.and_then(|side| instance.class.lesser(side)) {
            Some(class) => instance.class = class,
            None => return Err("refused".to_owned()),
        }
    }
}

/// Every tensor that the kernel may write, as bits.
fn outputs(kernel: &Kernel, args: &[Argument]) -> Vec<Vec<u32>> {
    let one = |argument: &Argument| match argument {
        Argument::Tensor(tensor) => {
            let (count, size) = (tensor.shape.iter().product::<i64>() as usize, tensor.dtype.bytes() as usize);
            (0..count).map(|at| tensor.memory.get(at * size, tensor.dtype).expect("inside")).collect()
        }
        Argument::Scalar(_) | Argument::Absent => vec![],
    };
    let written = kernel.params.iter().filter(|(_, p)| matches!(p.kind, ParamKind::Tensor { mutable: true, .. }));
    written.map(|(id, _)| one(&args[id.index()])).collect()
}

/// The codes that the checked simulator reports under four schedules, and its results under the last.
fn checked_codes(kernel: &Kernel, program: &Program, args: &[Arg]) -> (BTreeSet<String>, Vec<Vec<u32>>) {
    let (mut codes, mut results) = (BTreeSet::new(), vec![]);
    for (seed, copies) in [(1, Copies::Early), (2, Copies::Late), (3, Copies::Seeded), (4, Copies::Seeded)] {
        let schedule = Schedule::Seeded { resident_blocks: seed as u32 };
        let options = CheckedOptions { seed, copies, schedule, step_limit: 4_000_000, ..CheckedOptions::default() };
        let given = arguments(args);
        match checked::run(program, &given, &options) {
            Ok(report) => codes.extend(report.diagnostics.iter().map(|d| d.code.to_string())),
            Err(_) => _ = codes.insert("refused".to_owned()),
        }
        results = outputs(kernel, &given);
    }
    (codes, results)
}

/// What becomes of a launch: `typing TK..` where it is refused while it is typed; else the lints, then `launch` where the launch
/// refuses it, or the codes that each simulator reports, or `agree`.
fn end(case: &Case) -> String {
    let read = read(case.kernel);
    let (lints, wrong): (Vec<_>, Vec<_>) = read.said.iter().partition(|said| said.code.starts_with("TK06"));
    if let Some(first) = wrong.first() {
        return format!("typing {}", first.code);
    }
    let kernel = &read.kernel;
    let instance = &kernel.instances[0];
    let mut parts: BTreeSet<String> = lints.iter().map(|said| said.code.clone()).collect();
    let given = arguments(&(case.args)());
    let bound = tile_ir::lower::bind(kernel, instance).expect("it binds");
    let by_fast = match fast::run(&bound, &given) {
        Ok(_) => outputs(kernel, &given),
        Err(error) => {
            let text = error.to_string();
            let code = text.split(['[', ']']).find(|part| part.starts_with("TK")).unwrap_or("refused").to_owned();
            parts.insert(format!("fast {code}"));
            vec![]
        }
    };
    for target in kernel.targets.iter() {
        let given = arguments(&(case.args)());
        match launch(kernel, instance, *target, &given) {
            Err(why) => _ = parts.insert(format!("launch {why}")),
            Ok(program) => {
                let (codes, results) = checked_codes(kernel, &program, &(case.args)());
                distrusted(case, kernel, program, &codes);
                let end = match codes.is_empty() {
                    false => format!("checked {}", codes.into_iter().collect::<Vec<_>>().join(" ")),
                    true if results == by_fast => "agree".to_owned(),
                    true => format!("{results:?} is not {by_fast:?}"),
                };
                parts.insert(end);
            }
        }
    }
    parts.into_iter().collect::<Vec<_>>().join(", ")
}

/// Without any guard, whether it was the author's mask or the compiler's: what the guard kept inside is reported, access by access, and
/// nothing but reports comes of it.
fn distrusted(case: &Case, kernel: &Kernel, mut program: Program, with_guards: &BTreeSet<String>) {
    each_list_mut(&mut program.body, &mut |ops| {
        ops.iter_mut().flat_map(|op| op.kind.memories_mut()).for_each(|memory| memory.guard = None);
    });
    let (codes, _) = checked_codes(kernel, &program, &(case.args)());
    if with_guards.contains("TK0302") {
        assert!(codes.contains("TK0301") || codes.contains("TK0303"), "{codes:?} without guards:\n{}", case.kernel);
    }
}

fn numbers(count: i64) -> Arg {
    f32s([count], |i| i as f32)
}

/// A matrix of 16-bit numbers whose products are exact.
fn halves(shape: [i64; 2]) -> Arg {
    tensor(Dtype::F16, shape, |i| (i % 5) as f32 - 2.0)
}

fn zeros(count: i64) -> Arg {
    f32s([count], |_| 0.0)
}

/// `-5`, 2, 3 and the least `i32`.
fn signed() -> Arg {
    tensor(Dtype::I32, [4], |i| [-5.0, 2.0, 3.0, -2_147_483_648.0][i as usize])
}

/// Offsets of packed rows: beyond the tensor, decreasing, equal.
fn offsets() -> Arg {
    tensor(Dtype::I32, [6], |i| [7.0, 2_000_000_000.0, 2.0, 2.0, 9.0, -3.0][i as usize])
}

/// Numbers that a conversion to `usize` saturates.
fn floats() -> Arg {
    f32s([4], |i| [1e30, -1e30, 2_147_483_648.0, 9e18][i as usize])
}

const CASES: &[Case] = &[
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y))]
fn shift_guard(y: &mut Tensor<f32, (N,)>, s: usize) {
    blocks([1]);
    let [t] = threads([32]);
    let i = 1 << t;
    if i < N { y[i] = 1.0; }
}"#,
        args: || vec![zeros(64), Arg::Index(31)],
    },
    Case {
        end: "launch refused",
        kernel: r#"#[tile_kernel(partial(y))]
fn product_wraps(y: &mut Tensor<f32, (N,)>, s: usize) {
    let [b] = blocks([64]);
    let [t] = threads([32]);
    let i = (b * 32 + t) * s * s;
    if i < N { y[i] = 1.0; }
}"#,
        args: || vec![zeros(64), Arg::Index(4_294_967)],
    },
    Case {
        end: "TK0605, checked TK0303, fast TK0303",
        kernel: r#"#[tile_kernel(partial(y))]
fn negative_data(p: &Tensor<i32, (M,)>, y: &mut Tensor<f32, (N,)>) {
    blocks([1]);
    let [t] = threads([4]);
    let i = p.masked([t]) as usize;
    if i < N { y[i] = 1.0; }
}"#,
        args: || vec![signed(), zeros(64)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y))]
fn negative_tile(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, s: usize) {
    blocks([1]);
    let [t] = threads([32]);
    let mut a = alloc_shared::<f32>([32]);
    copy(x.at([10 - s]), &mut a);
    copy(&a, y.at_mut([32 - s]));
}"#,
        args: || vec![numbers(64), zeros(64), Arg::Index(70)],
    },
    Case {
        end: "launch refused",
        kernel: r#"#[tile_kernel(partial(y))]
fn huge_tile_start(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, s: usize) {
    blocks([1]);
    let [t] = threads([32]);
    let mut a = alloc_shared::<f32>([32]);
    copy(x.at([s * 2]), &mut a);
    copy(&a, y.at_mut([s * 2]));
}"#,
        args: || vec![numbers(64), zeros(64), Arg::Index(4_294_967_290)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel]
fn zero_extent(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let i = b * 32 + t;
    if i < N { y[i] = x[i % N] / 2.0; }
}"#,
        args: || vec![numbers(0), zeros(0)],
    },
    Case {
        end: "TK0605, checked TK0303, fast TK0303",
        kernel: r#"#[tile_kernel]
fn last_of_empty(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>) {
    let [b] = blocks([M]);
    let [t] = threads([32]);
    if t == 0 { y[b] = x[[b, N - 1]]; }
}"#,
        args: || vec![f32s([5, 0], |_| 0.0), zeros(5)],
    },
    Case {
        end: "TK0604, checked TK0303, fast TK0303",
        kernel: r#"#[tile_kernel]
fn rem_of_sub(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    blocks([1]);
    let [t] = threads([64]);
    let i = (t - 40) % 64;
    if t < N { y[t] = x[i]; }
}"#,
        args: || vec![numbers(64), zeros(64)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel]
fn div_of_sub(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    blocks([1]);
    let [t] = threads([64]);
    let i = (t - 40) / 2;
    if t < N { y[t] = x.masked([i]); }
}"#,
        args: || vec![numbers(64), zeros(64)],
    },
    Case {
        end: "checked TK0303, fast TK0303",
        kernel: r#"#[tile_kernel]
fn div_by_zero(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, s: usize) {
    blocks([1]);
    let [t] = threads([64]);
    let i = t / s;
    if t < N { y[t] = x.masked([i]); }
}"#,
        args: || vec![numbers(64), zeros(64), Arg::Index(0)],
    },
    Case {
        end: "typing TK0402",
        kernel: r#"#[tile_kernel]
fn shfl_in_data_if(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, s: usize) {
    blocks([1]);
    let [t] = threads([64]);
    let mut v = x.masked([t]);
    if x.masked([t / 16]) > 1.0 { let w = shfl_xor(v, 1); v = w; }
    *y.masked_mut([t]) = v;
}"#,
        args: || vec![numbers(64), zeros(64), Arg::Index(3)],
    },
    Case {
        end: "typing TK0402",
        kernel: r#"#[tile_kernel]
fn shfl_after_break(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, s: usize) {
    blocks([1]);
    let [t] = threads([64]);
    let mut v = x.masked([t]);
    for k in 0..s {
        if v > 40.0 { break; }
        let w = shfl_xor(v, 1);
        v = w + 1.0;
    }
    *y.masked_mut([t]) = v;
}"#,
        args: || vec![numbers(64), zeros(64), Arg::Index(3)],
    },
    Case {
        end: "fast TK0303, launch refused",
        kernel: r#"#[tile_kernel(partial(y))]
fn step_zero(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, s: usize) {
    blocks([1]);
    let [t] = threads([32]);
    let mut v = 0.0f32;
    for i in (0..N).step_by(s) { v += x.masked([i]); }
    *y.masked_mut([t]) = v;
}"#,
        args: || vec![numbers(64), zeros(64), Arg::Index(0)],
    },
    Case {
        end: "launch refused",
        kernel: r#"#[tile_kernel(partial(y))]
fn step_wraps(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, s: usize) {
    blocks([1]);
    let [t] = threads([32]);
    let mut v = 0.0f32;
    for i in (t..N).step_by(s) { v += x.masked([i]); }
    *y.masked_mut([t]) = v;
}"#,
        args: || vec![numbers(64), zeros(64), Arg::Index(2_147_483_647)],
    },
    Case {
        end: "TK0604, checked TK0302",
        kernel: r#"#[tile_kernel(partial(y))]
fn guard_then_moves(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    blocks([1]);
    let [t] = threads([64]);
    let mut i = t;
    if i < N { i += 25; y[i] = 1.0; }
}"#,
        args: || vec![numbers(40), zeros(40)],
    },
    Case {
        end: "TK0604, checked TK0302",
        kernel: r#"#[tile_kernel(partial(y))]
fn bool_guard_stale(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    blocks([1]);
    let [t] = threads([64]);
    let mut i = t;
    let ok = i < N;
    i += 25;
    if ok { y[i] = 1.0; }
}"#,
        args: || vec![numbers(40), zeros(40)],
    },
    Case {
        end: "TK0604, checked TK0302",
        kernel: r#"#[tile_kernel(partial(y))]
fn or_guard(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    blocks([1]);
    let [t] = threads([64]);
    if t < N || t > 50 { y[t] = 1.0; }
}"#,
        args: || vec![numbers(40), zeros(40)],
    },
    Case {
        end: "typing TK0301",
        kernel: r#"#[tile_kernel(partial(y))]
fn not_guard(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    blocks([1]);
    let [t] = threads([64]);
    if !(t < N) { y[t] = 1.0; }
}"#,
        args: || vec![numbers(40), zeros(40)],
    },
    Case {
        end: "TK0604, checked TK0302",
        kernel: r#"#[tile_kernel(partial(y))]
fn while_below_then_after(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    blocks([1]);
    let [t] = threads([32]);
    let mut i = t;
    while i < N { i += 32; }
    y[i] = 1.0;
}"#,
        args: || vec![numbers(40), zeros(40)],
    },
    Case {
        end: "TK0604, checked TK0303, fast TK0303",
        kernel: r#"#[tile_kernel(partial(y))]
fn count_down(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    blocks([1]);
    let [t] = threads([32]);
    let mut i = N;
    while i > 0 { i -= 32; if t == 0 { y[i] = 1.0; } }
}"#,
        args: || vec![numbers(40), zeros(40)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y))]
fn as_u32_of_negative(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    blocks([1]);
    let [t] = threads([32]);
    let i = ((t - 5) as u32) as usize;
    if i < N { y[i] = 1.0; }
}"#,
        args: || vec![numbers(40), zeros(40)],
    },
    Case {
        end: "TK0605, checked TK0303, fast TK0303",
        kernel: r#"#[tile_kernel(partial(y))]
fn i32_wraps(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([20]);
    let [t] = threads([32]);
    let i = (((b * 32 + t) as i32) * 100000000) as usize;
    if i < N { y[i] = 1.0; }
}"#,
        args: || vec![numbers(40), zeros(40)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y))]
fn float_tile(x: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N, K)>, p: &Tensor<f32, (M,)>) {
    let [b] = blocks([4]);
    let [t] = threads([32]);
    let i = p.masked([b]) as usize;
    let mut a = alloc_shared::<f32>([4, 4]);
    copy(x.at([i, i]), &mut a);
    copy(&a, y.at_mut([i, i]));
}"#,
        args: || vec![f32s([8, 5], |i| i as f32), f32s([8, 5], |_| 0.0), floats()],
    },
    Case {
        end: "TK0604, checked TK0302, fast TK0301",
        kernel: r#"#[tile_kernel(partial(y))]
fn local_by_data(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, p: &Tensor<f32, (M,)>) {
    let [b] = blocks([1]);
    let [t] = threads([32]);
    let mut l = alloc_local::<f32>([8]);
    clear(&mut l);
    let i = p.masked([t]) as usize;
    l[i] = 5.0;
    *y.masked_mut([t]) = l[3];
}"#,
        args: || vec![numbers(40), zeros(40), floats()],
    },
    Case {
        end: "TK0604, checked TK0302, fast TK0301",
        kernel: r#"#[tile_kernel(partial(y))]
fn shared_by_data(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, p: &Tensor<f32, (M,)>) {
    let [b] = blocks([1]);
    let [t] = threads([32]);
    let mut l = alloc_shared::<f32>([8]);
    clear(&mut l);
    let i = p.masked([t]) as usize;
    atomic_add(&mut l[i], 5.0);
    sync_threads();
    *y.masked_mut([t]) = l[3];
}"#,
        args: || vec![numbers(40), zeros(40), floats()],
    },
    Case {
        end: "checked refused, fast refused",
        kernel: r#"#[tile_kernel(partial(y))]
fn negative_grid(x: &Tensor<f32, (M,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([M - 5]);
    let [t] = threads([32]);
    *y.masked_mut([b * 32 + t]) = 1.0;
}"#,
        args: || vec![zeros(3), zeros(96)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y))]
fn cluster_ragged(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, n: &mut Tensor<u32, (Fixed<2>,)>) {
    let [b] = blocks([ceil_div(N, 32) + 1]);
    let [t] = threads([32]);
    cluster([2]);
    atomic_add(&mut n[0], 1);
    *y.masked_mut([t + b * 32 - 64]) = 1.0;
    if last_arriver(&mut n[1], ceil_div(N, 32) + 1) { *y.masked_mut([t]) = 9.0; }
}"#,
        args: || vec![numbers(40), zeros(40), tensor(Dtype::U32, [2], |_| 0.0)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(targets(sm_90a))]
fn cluster_reduce_ragged(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (N,)>) {
    let [bx, bk] = blocks([ceil_div(N, 64), 2]);
    threads([128]);
    cluster([1, 2]);
    let mut f = alloc_fragment::<f32>([64, 64]);
    let mut r = alloc_fragment::<f32>([64]);
    copy(x.at([bk * 64, bx * 64]), &mut f);
    cluster_reduce(Sum, &mut f);
    reduce(Sum, &f, &mut r, 0);
    if bk == 0 { for [i] in parallel([64]) { *y.masked_mut([bx * 64 + i]) = r[i]; } }
}"#,
        args: || vec![f32s([130, 70], |i| (i % 7) as f32), zeros(70)],
    },
    Case {
        end: "typing TK0205",
        kernel: r#"#[tile_kernel(targets(sm_90a))]
fn cluster_reduce_ragged3(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (N,)>) {
    let [bx, bk] = blocks([ceil_div(N, 64), 3]);
    threads([128]);
    cluster([1, 2]);
    let mut f = alloc_fragment::<f32>([64, 64]);
    let mut r = alloc_fragment::<f32>([64]);
    copy(x.at([bk * 64, bx * 64]), &mut f);
    cluster_reduce(Sum, &mut f);
    reduce(Sum, &f, &mut r, 0);
    if bk == 0 { for [i] in parallel([64]) { *y.masked_mut([bx * 64 + i]) = r[i]; } }
}"#,
        args: || vec![f32s([130, 70], |i| (i % 7) as f32), zeros(70)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(targets(sm_90a))]
fn exchange_parts(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>) {
    let [part, b] = blocks([4, ceil_div(M, 4)]);
    let [t] = threads([32]);
    cluster([4, 1]);
    let mut mine = alloc_shared::<f32>([4, 2]);
    let mut theirs = alloc_shared::<f32>([4, 2]);
    if t < 8 { mine[[t / 2, t % 2]] = x.masked([b * 4 + t / 2, part * 2 + t % 2]); }
    cluster_exchange(&mine, &mut theirs);
    if t == 0 && b * 4 + part < M {
        let mut sum = 0.0;
        for s in 0..4 { sum += theirs[[s, 0]] + theirs[[s, 1]]; }
        y[b * 4 + part] = sum;
    }
}"#,
        args: || vec![f32s([10, 8], |i| (i % 7) as f32), zeros(10)],
    },
    Case {
        end: "typing TK0102",
        kernel: r#"#[tile_kernel(targets(sm_90a))]
fn exchange_of_other_extents(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>) {
    let [part, b] = blocks([4, ceil_div(M, 4)]);
    let [t] = threads([32]);
    cluster([4, 1]);
    let mut mine = alloc_shared::<f32>([4, 2]);
    let mut theirs = alloc_shared::<f32>([8, 2]);
    if t < 8 { mine[[t / 2, t % 2]] = x.masked([b * 4 + t / 2, part * 2 + t % 2]); }
    cluster_exchange(&mine, &mut theirs);
    if t == 0 && b * 4 + part < M {
        let mut sum = 0.0;
        for s in 0..4 { sum += theirs[[s, 0]] + theirs[[s, 1]]; }
        y[b * 4 + part] = sum;
    }
}"#,
        args: || vec![f32s([10, 8], |i| (i % 7) as f32), zeros(10)],
    },
    Case {
        end: "typing TK0102",
        kernel: r#"#[tile_kernel(targets(sm_90a))]
fn exchange_without_a_part_for_each(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>) {
    let [part, b] = blocks([4, ceil_div(M, 4)]);
    let [t] = threads([32]);
    cluster([4, 1]);
    let mut mine = alloc_shared::<f32>([8, 2]);
    let mut theirs = alloc_shared::<f32>([8, 2]);
    if t < 8 { mine[[t / 2, t % 2]] = x.masked([b * 4 + t / 2, part * 2 + t % 2]); }
    cluster_exchange(&mine, &mut theirs);
    if t == 0 && b * 4 + part < M {
        let mut sum = 0.0;
        for s in 0..4 { sum += theirs[[s, 0]] + theirs[[s, 1]]; }
        y[b * 4 + part] = sum;
    }
}"#,
        args: || vec![f32s([10, 8], |i| (i % 7) as f32), zeros(10)],
    },
    Case {
        end: "typing TK0804",
        kernel: r#"#[tile_kernel(targets(sm_90a))]
fn exchange_in_a_loop(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>) {
    let [part, b] = blocks([4, ceil_div(M, 4)]);
    let [t] = threads([32]);
    cluster([4, 1]);
    let mut mine = alloc_shared::<f32>([4, 2]);
    let mut theirs = alloc_shared::<f32>([4, 2]);
    if t < 8 { mine[[t / 2, t % 2]] = x.masked([b * 4 + t / 2, part * 2 + t % 2]); }
    for _ in 0..1 { cluster_exchange(&mine, &mut theirs); }
    if t == 0 && b * 4 + part < M {
        let mut sum = 0.0;
        for s in 0..4 { sum += theirs[[s, 0]] + theirs[[s, 1]]; }
        y[b * 4 + part] = sum;
    }
}"#,
        args: || vec![f32s([10, 8], |i| (i % 7) as f32), zeros(10)],
    },
    Case {
        end: "typing TK0804",
        kernel: r#"#[tile_kernel(targets(sm_90a))]
fn exchange_into_what_is_used(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>) {
    let [part, b] = blocks([4, ceil_div(M, 4)]);
    let [t] = threads([32]);
    cluster([4, 1]);
    let mut mine = alloc_shared::<f32>([4, 2]);
    let mut theirs = alloc_shared::<f32>([4, 2]);
    if t < 8 { mine[[t / 2, t % 2]] = x.masked([b * 4 + t / 2, part * 2 + t % 2]); }
    if t < 8 { theirs[[t / 2, t % 2]] = 0.0; }
    cluster_exchange(&mine, &mut theirs);
    if t == 0 && b * 4 + part < M {
        let mut sum = 0.0;
        for s in 0..4 { sum += theirs[[s, 0]] + theirs[[s, 1]]; }
        y[b * 4 + part] = sum;
    }
}"#,
        args: || vec![f32s([10, 8], |i| (i % 7) as f32), zeros(10)],
    },
    Case {
        end: "typing TK0804",
        kernel: r#"#[tile_kernel(targets(sm_90a))]
fn exchange_twice(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>) {
    let [part, b] = blocks([4, ceil_div(M, 4)]);
    let [t] = threads([32]);
    cluster([4, 1]);
    let mut mine = alloc_shared::<f32>([4, 2]);
    let mut theirs = alloc_shared::<f32>([4, 2]);
    if t < 8 { mine[[t / 2, t % 2]] = x.masked([b * 4 + t / 2, part * 2 + t % 2]); }
    cluster_exchange(&mine, &mut theirs);
    cluster_exchange(&mine, &mut theirs);
    if t == 0 && b * 4 + part < M {
        let mut sum = 0.0;
        for s in 0..4 { sum += theirs[[s, 0]] + theirs[[s, 1]]; }
        y[b * 4 + part] = sum;
    }
}"#,
        args: || vec![f32s([10, 8], |i| (i % 7) as f32), zeros(10)],
    },
    Case {
        end: "typing TK0803",
        kernel: r#"#[tile_kernel(targets(sm_90a))]
fn exchange_with_itself(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>) {
    let [part, b] = blocks([4, ceil_div(M, 4)]);
    let [t] = threads([32]);
    cluster([4, 1]);
    let mut mine = alloc_shared::<f32>([4, 2]);
    let mut theirs = alloc_shared::<f32>([4, 2]);
    if t < 8 { mine[[t / 2, t % 2]] = x.masked([b * 4 + t / 2, part * 2 + t % 2]); }
    cluster_exchange(&theirs, &mut theirs);
    if t == 0 && b * 4 + part < M {
        let mut sum = 0.0;
        for s in 0..4 { sum += theirs[[s, 0]] + theirs[[s, 1]]; }
        y[b * 4 + part] = sum;
    }
}"#,
        args: || vec![f32s([10, 8], |i| (i % 7) as f32), zeros(10)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(targets(sm_90a))]
fn exchange_of_a_swizzled_array(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>) {
    let [part, b] = blocks([4, ceil_div(M, 4)]);
    let [t] = threads([64]);
    cluster([4, 1]);
    let mut mine = alloc_shared::<f32>([4, 8]).swizzle(B32);
    let mut theirs = alloc_shared::<f32>([4, 8]);
    if t < 32 { mine[[t / 8, t % 8]] = x.masked([b * 4 + t / 8, part * 8 + t % 8]); }
    cluster_exchange(&mine, &mut theirs);
    if t == 0 && b * 4 + part < M {
        let mut sum = 0.0;
        for s in 0..4 { for i in 0..8 { sum += theirs[[s, i]]; } }
        y[b * 4 + part] = sum;
    }
}"#,
        args: || vec![f32s([10, 32], |i| (i % 7) as f32), zeros(10)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(targets(sm_90a))]
fn exchange_into_a_swizzled_array(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>) {
    let [part, b] = blocks([4, ceil_div(M, 4)]);
    let [t] = threads([64]);
    cluster([4, 1]);
    let mut mine = alloc_shared::<f32>([4, 8]);
    let mut theirs = alloc_shared::<f32>([4, 8]).swizzle(B32);
    if t < 32 { mine[[t / 8, t % 8]] = x.masked([b * 4 + t / 8, part * 8 + t % 8]); }
    cluster_exchange(&mine, &mut theirs);
    if t == 0 && b * 4 + part < M {
        let mut sum = 0.0;
        for s in 0..4 { for i in 0..8 { sum += theirs[[s, i]]; } }
        y[b * 4 + part] = sum;
    }
}"#,
        args: || vec![f32s([10, 32], |i| (i % 7) as f32), zeros(10)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(targets(sm_90a))]
fn exchange_of_swizzled_arrays(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>) {
    let [part, b] = blocks([4, ceil_div(M, 4)]);
    let [t] = threads([64]);
    cluster([4, 1]);
    let mut mine = alloc_shared::<f32>([4, 8]).swizzle(B32);
    let mut theirs = alloc_shared::<f32>([4, 8]).swizzle(B32);
    if t < 32 { mine[[t / 8, t % 8]] = x.masked([b * 4 + t / 8, part * 8 + t % 8]); }
    cluster_exchange(&mine, &mut theirs);
    if t == 0 && b * 4 + part < M {
        let mut sum = 0.0;
        for s in 0..4 { for i in 0..8 { sum += theirs[[s, i]]; } }
        y[b * 4 + part] = sum;
    }
}"#,
        args: || vec![f32s([10, 32], |i| (i % 7) as f32), zeros(10)],
    },
    Case {
        end: "typing TK0205",
        kernel: r#"#[tile_kernel(targets(sm_90a))]
fn exchange_over_two_axes(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>) {
    let [part, b] = blocks([2, 2]);
    let [t] = threads([64]);
    cluster([2, 2]);
    let mut mine = alloc_shared::<f32>([4, 8]);
    let mut theirs = alloc_shared::<f32>([4, 8]);
    if t < 32 { mine[[t / 8, t % 8]] = x.masked([b * 4 + t / 8, part * 8 + t % 8]); }
    cluster_exchange(&mine, &mut theirs);
    if t == 0 && b * 4 + part < M {
        let mut sum = 0.0;
        for s in 0..4 { for i in 0..8 { sum += theirs[[s, i]]; } }
        y[b * 4 + part] = sum;
    }
}"#,
        args: || vec![f32s([10, 32], |i| (i % 7) as f32), zeros(10)],
    },
    Case {
        end: "typing TK0103",
        kernel: r#"#[tile_kernel(targets(sm_90a))]
fn exchange_of_halves(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>) {
    let [part, b] = blocks([4, ceil_div(M, 4)]);
    let [t] = threads([64]);
    cluster([4, 1]);
    let mut mine = alloc_shared::<f16>([4, 8]);
    let mut theirs = alloc_shared::<f16>([4, 8]);
    if t < 32 { mine[[t / 8, t % 8]] = x.masked([b * 4 + t / 8, part * 8 + t % 8]).cast::<f16>(); }
    cluster_exchange(&mine, &mut theirs);
    if t == 0 && b * 4 + part < M {
        let mut sum = 0.0;
        for s in 0..4 { for i in 0..8 { sum += theirs[[s, i]].cast::<f32>(); } }
        y[b * 4 + part] = sum;
    }
}"#,
        args: || vec![f32s([10, 32], |i| (i % 7) as f32), zeros(10)],
    },
    Case {
        end: "typing TK0401",
        kernel: r#"#[tile_kernel(partial(z))]
fn optional_mut_race(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, z: Option<&mut Tensor<f32, (N,)>>) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let i = b * 32 + t;
    if let Some(w) = z { *w.masked_mut([i / 2]) = 2.0; }
    if i < N { y[i] = x[i];  }
}"#,
        args: || vec![numbers(40), zeros(40), zeros(40)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y))]
fn loop_near_the_end(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, s: usize) {
    blocks([1]);
    let [t] = threads([32]);
    let mut v = 0.0f32;
    for i in (0..2147483647).step_by(1000000000) { v += 1.0 + x.masked([i]); }
    for i in serial(0..2147483647).step_by(1000000000).unroll(2) { v += 1.0 + x.masked([i]); }
    for i in (t..2147483647).step_by(s) { v += 1.0 + x.masked([i]); }
    *y.masked_mut([t]) = v;
}"#,
        args: || vec![numbers(64), zeros(64), Arg::Index(1_000_000_000)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y), targets(sm_80, sm_90a))]
fn panel(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, s: usize) {
    let [bx, by] = blocks([2, 3]);
    let [t] = threads([8]);
    use_swizzle(s);
    *y.masked_mut([(by * 2 + bx) * 8 + t]) = 1.0;
}"#,
        args: || vec![numbers(64), zeros(64), Arg::Index(2_000_000_000)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y))]
fn persistent_none(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    threads([32]);
    let mut a = alloc_shared::<f32>([16, 16]);
    for [i, j] in persistent([ceil_div(M, 16), ceil_div(N, 16)]) {
        copy(x.at([i * 16, j * 16]), &mut a);
        copy(&a, y.at_mut([i * 16, j * 16]));
    }
}"#,
        args: || vec![f32s([0, 5], |_| 0.0), f32s([0, 5], |_| 0.0)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y))]
fn persistent_atomics(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>, c: &mut Tensor<u32, (Fixed<1>,)>) {
    let [t] = threads([32]);
    cluster([2, 1]);
    let mut a = alloc_shared::<f32>([16, 16]);
    for [i, j] in persistent([ceil_div(M, 16), ceil_div(N, 16)]) {
        copy(x.at([i * 16, j * 16]), &mut a);
        copy(&a, y.at_mut([i * 16, j * 16]));
        if t == 0 { atomic_add(&mut c[0], 1); }
    }
}"#,
        args: || vec![f32s([40, 50], |i| i as f32), f32s([40, 50], |_| 0.0), tensor(Dtype::U32, [1], |_| 0.0)],
    },
    Case {
        end: "launch refused",
        kernel: r#"#[tile_kernel(partial(y))]
fn parallel_far(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, s: usize) {
    let [b] = blocks([2]);
    threads([32]);
    for [i] in parallel([64]) { *y.masked_mut([i * s + b]) = x.masked([i * s + b]) + 1.0; }
}"#,
        args: || vec![numbers(64), zeros(64), Arg::Index(1_073_741_824)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y))]
fn tile_dynamic(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, s: usize) {
    let [b] = blocks([2]);
    threads([32]);
    let mut a = alloc_shared::<f32>([32]);
    copy(x.tile([b * 32 - s..b * 32 - s + 32]), &mut a);
    copy(&a, y.tile_mut([b * 32 + s..b * 32 + s + 32]));
}"#,
        args: || vec![numbers(64), zeros(64), Arg::Index(3)],
    },
    Case {
        end: "checked TK0401 TK0402",
        kernel: r#"#[tile_kernel(partial(y))]
fn barrier_by_shared(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, s: usize) {
    let [b] = blocks([1]);
    let [t] = threads([64]);
    let mut a = alloc_shared::<f32>([64]);
    a[t] = x.masked([t]);
    sync_threads();
    if a[3] < 5.0 { a[t] = 9.0; sync_threads(); }
    *y.masked_mut([t]) = a[63 - t];
}"#,
        args: || vec![numbers(64), zeros(64), Arg::Index(3)],
    },
    Case {
        end: "checked TK0401",
        kernel: r#"#[tile_kernel]
fn parallel_meets(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, s: usize) {
    blocks([1]);
    threads([32]);
    for [i] in parallel([64]) { *y.masked_mut([i / s]) = x.masked([i]); }
}"#,
        args: || vec![numbers(64), zeros(64), Arg::Index(2)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel]
fn rings_of_two_depths(a: &Tensor<f16, (M, K)>, u: &Tensor<f16, (M, R)>, c: &mut Tensor<f32, (M, M)>) {
    let [j, i] = blocks([ceil_div(M, 32), ceil_div(M, 32)]);
    threads([32]);
    let mut a_s = alloc_shared::<f16>([32, 32]);
    let mut b_s = alloc_shared::<f16>([32, 32]);
    let mut acc = alloc_fragment::<f32>([32, 32]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, 32), 4) {
        copy(a.at([i * 32, k * 32]), &mut a_s);
        copy(a.at([j * 32, k * 32]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    for k in pipelined(0..ceil_div(R, 32), 2) {
        copy(u.at([i * 32, k * 32]), &mut a_s);
        copy(u.at([j * 32, k * 32]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    copy(&acc, c.at_mut([i * 32, j * 32]));
}"#,
        args: || vec![halves([40, 168]), halves([40, 72]), f32s([40, 40], |_| 0.0)],
    },
    Case {
        end: "typing TK0804",
        kernel: r#"#[tile_kernel]
fn read_by_another_ring(a: &Tensor<f16, (M, K)>, u: &Tensor<f16, (M, R)>, c: &mut Tensor<f32, (M, M)>) {
    let [j, i] = blocks([ceil_div(M, 32), ceil_div(M, 32)]);
    threads([32]);
    let mut a_s = alloc_shared::<f16>([32, 32]);
    let mut b_s = alloc_shared::<f16>([32, 32]);
    let mut acc = alloc_fragment::<f32>([32, 32]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, 32), 3) {
        copy(a.at([i * 32, k * 32]), &mut a_s);
        copy(a.at([j * 32, k * 32]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    for k in pipelined(0..ceil_div(R, 32), 3) {
        copy(u.at([j * 32, k * 32]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    copy(&acc, c.at_mut([i * 32, j * 32]));
}"#,
        args: || vec![],
    },
    Case {
        end: "typing TK0804",
        kernel: r#"#[tile_kernel]
fn left_by_the_round_before(a: &Tensor<f16, (M, K)>, c: &mut Tensor<f32, (M, M)>) {
    let [j, i] = blocks([ceil_div(M, 32), ceil_div(M, 32)]);
    threads([32]);
    let mut a_s = alloc_shared::<f16>([32, 32]);
    let mut acc = alloc_fragment::<f32>([32, 32]);
    clear(&mut acc);
    clear(&mut a_s);
    for r in 0..3 {
        gemm(&a_s, a_s.t(), &mut acc);
        for k in pipelined(0..ceil_div(K, 32), 2) {
            copy(a.at([i * 32 + r, k * 32]), &mut a_s);
            gemm(&a_s, a_s.t(), &mut acc);
        }
    }
    copy(&acc, c.at_mut([i * 32, j * 32]));
}"#,
        args: || vec![],
    },
    Case {
        end: "typing TK0804",
        kernel: r#"#[tile_kernel]
fn loaded_in_even_rounds(x: &Tensor<f32, (M, K)>, y: &mut Tensor<f32, (M,)>) {
    let [i] = blocks([M]);
    let [t] = threads([32]);
    let mut s = alloc_shared::<f32>([32]);
    let mut acc = 0.0;
    for r in 0..3 {
        let odd = (r % 2) as i32;
        for k in pipelined(0..ceil_div(K, 32), 2) {
            if odd == 0 { s[t] = x.masked([i, k * 32 + t]); }
            acc += s[31 - t];
        }
    }
    let sum = warp_reduce(Sum, acc);
    if t == 0 { y[i] = sum; }
}"#,
        args: || vec![],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y))]
fn table_pages_signed(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, p: &Tensor<i32, (M,)>) {
    let [b] = blocks([1]);
    let [t] = threads([32]);
    let mut s = alloc_shared::<f32>([8]);
    let mut v = 0.0f32;
    for k in pipelined(0..M, 2) {
        let page = p[k] as usize;
        copy(x.at([page * 8 + 3]), &mut s);
        v += s[t % 8];
    }
    *y.masked_mut([t]) = v;
}"#,
        args: || vec![numbers(40), zeros(40), signed()],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y))]
fn packed_offsets(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, p: &Tensor<i32, (M,)>) {
    let [b] = blocks([M - 1]);
    let [t] = threads([32]);
    let mut s = alloc_shared::<f32>([16]);
    let start = p[b] as usize;
    let end = min(p[b + 1] as usize, N);
    let mut sum = 0.0f32;
    for k in serial(0..ceil_div(max(end - start, 0), 16)) {
        copy(x.at([start + k * 16]), &mut s);
        for i in 0..16 {
            if start + k * 16 + i < end {
                sum += s[i];
            }
        }
    }
    if t == 0 && b < N {
        y[b] = sum;
    }
}"#,
        args: || vec![numbers(40), zeros(40), offsets()],
    },
    Case {
        end: "TK0604, checked TK0302",
        kernel: r#"#[tile_kernel(partial(y), require(s < N))]
fn lying_require(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, s: usize) {
    blocks([1]);
    let [t] = threads([32]);
    y[t * 2 + s] = x[s];
}"#,
        args: || vec![numbers(40), zeros(40), Arg::Index(39)],
    },
    Case {
        end: "TK0604, launch refused",
        kernel: r#"#[tile_kernel(partial(y), require(s * s < N))]
fn require_of_a_square(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, s: usize) {
    blocks([1]);
    let [t] = threads([1]);
    y[s * s + t] = x[s];
}"#,
        args: || vec![numbers(40), zeros(40), Arg::Index(2_147_483_647)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y))]
fn rank_four(x: &Tensor<f32, (A, B, C, D)>, y: &mut Tensor<f32, (A, B, C, D)>, s: usize) {
    let [d, c, b] = blocks([D, C, B]);
    let [t] = threads([4]);
    *y.masked_mut([t - s, b, c, d]) = x.masked([t, b, c, d + s]);
}"#,
        args: || vec![f32s([3, 2, 2, 3], |i| i as f32), f32s([3, 2, 2, 3], |_| 0.0), Arg::Index(1)],
    },
    Case {
        end: "typing TK0405",
        kernel: r#"#[tile_kernel(partial(y))]
fn rank_four_last_axis_forgotten(x: &Tensor<f32, (A, B, C, D)>, y: &mut Tensor<f32, (A, B, C, D)>) {
    let [d, c, b] = blocks([D, C, B]);
    let [t] = threads([4]);
    *y.masked_mut([t, b, c, 0]) = x.masked([t, b, c, d]);
}"#,
        args: || vec![f32s([3, 2, 2, 3], |i| i as f32), f32s([3, 2, 2, 3], |_| 0.0)],
    },
    Case {
        end: "launch refused",
        kernel: r#"#[tile_kernel(partial(y))]
fn at_two_to_the_31(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, s: usize) {
    blocks([1]);
    let [t] = threads([32]);
    let i = s + 1 + t;
    if i - 2147483647 < N && i >= 2147483647 { y[i - 2147483647] = x.masked([t]); }
}"#,
        args: || vec![numbers(40), zeros(40), Arg::Index(2_147_483_646)],
    },
    Case {
        end: "launch refused",
        kernel: r#"#[tile_kernel(partial(y))]
fn at_two_to_the_32(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, s: usize) {
    blocks([1]);
    let [t] = threads([32]);
    let far = s * 2 + t;
    if far % 4294967296 < N { y[far % 4294967296] = x.masked([t]); }
}"#,
        args: || vec![numbers(40), zeros(40), Arg::Index(2_147_483_647)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y))]
fn through_u32(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, s: usize) {
    blocks([1]);
    let [t] = threads([32]);
    let i = (t - s) as u32 as usize;
    if i < N { y[i] = x.masked([t]); }
}"#,
        args: || vec![numbers(40), zeros(40), Arg::Index(5)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y))]
fn through_i32_and_back(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, s: usize) {
    blocks([1]);
    let [t] = threads([32]);
    let i = ((t + s) as i32 * 2) as usize;
    *y.masked_mut([i]) = x.masked([t]);
}"#,
        args: || vec![numbers(40), zeros(40), Arg::Index(1_073_741_824)],
    },
    Case {
        end: "TK0605, checked TK0303, fast TK0303",
        kernel: r#"#[tile_kernel(partial(y))]
fn min_of_negative(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, s: usize) {
    blocks([1]);
    let [t] = threads([1]);
    y[min(t - s, N - 1)] = x.masked([t]);
}"#,
        args: || vec![numbers(40), zeros(40), Arg::Index(3)],
    },
    Case {
        end: "TK0604, checked TK0302",
        kernel: r#"#[tile_kernel(partial(y))]
fn clamp_of_an_empty_tensor(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    blocks([1]);
    let [t] = threads([1]);
    y[max(min(t, N - 1), 0)] = 1.0 + x.masked([t]);
}"#,
        args: || vec![zeros(0), zeros(0)],
    },
    Case {
        end: "TK0605, launch refused",
        kernel: r#"#[tile_kernel(partial(y))]
fn blocks_clamp(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (M,)>) {
    let [b] = blocks([N]);
    let [t] = threads([1]);
    y[min(b, M - 1) + t] = x[b];
}"#,
        args: || vec![numbers(9), zeros(4)],
    },
    Case {
        end: "checked TK0405",
        kernel: r#"#[tile_kernel(partial(y))]
fn blocks_fold(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (M,)>) {
    let [b] = blocks([N]);
    let [t] = threads([32]);
    if t == 0 && M > 0 { *y.masked_mut([b % M]) = x[b]; }
}"#,
        args: || vec![numbers(9), zeros(4)],
    },
    Case {
        end: "typing TK0405",
        kernel: r#"#[tile_kernel(partial(y))]
fn every_block_a_flag(y: &mut Tensor<u32, (N,)>, n: usize) {
    let [b] = blocks([n]);
    let [t] = threads([32]);
    if t == 0 { *y.masked_mut([0]) = 1; }
}"#,
        args: || vec![tensor(Dtype::U32, [3], |_| 0.0), Arg::Index(2)],
    },
    Case {
        end: "launch refused",
        kernel: r#"#[tile_kernel(partial(y))]
fn one_mode_for_one_block(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, parts: usize, whole: usize) {
    let [b] = blocks([parts]);
    let [t] = threads([32]);
    if whole == 1 { *y.masked_mut([t]) = x.masked([t]); } else { *y.masked_mut([b * 32 + t]) = x.masked([b * 32 + t]); }
}"#,
        args: || vec![numbers(70), zeros(70), Arg::Index(2), Arg::Index(1)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y))]
fn one_mode_for_one_block_kept(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, parts: usize, whole: usize) {
    let [b] = blocks([parts]);
    let [t] = threads([32]);
    if whole == 1 { *y.masked_mut([t]) = x.masked([t]); } else { *y.masked_mut([b * 32 + t]) = x.masked([b * 32 + t]); }
}"#,
        args: || vec![numbers(70), zeros(70), Arg::Index(1), Arg::Index(1)],
    },
    Case {
        end: "checked TK0405",
        kernel: r#"#[tile_kernel(partial(y))]
fn cleared_then_added(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (Fixed<1>,)>) {
    let [b] = blocks([N]);
    let [t] = threads([32]);
    if b == 0 { if t == 0 { y[0] = 0.0; } }
    sync_threads();
    if t == 0 { atomic_add(&mut y[0], x[b]); }
}"#,
        args: || vec![numbers(5), zeros(1)],
    },
    Case {
        end: "checked TK0405",
        kernel: r#"#[tile_kernel(partial(y))]
fn added_then_read(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, c: &mut Tensor<f32, (Fixed<1>,)>) {
    let [b] = blocks([N]);
    let [t] = threads([32]);
    if t == 0 { atomic_add(&mut c[0], x[b]); y[b] = c[0]; }
}"#,
        args: || vec![numbers(5), zeros(5), zeros(1)],
    },
    Case {
        end: "typing TK0401",
        kernel: r#"#[tile_kernel(partial(y))]
fn workspace_read_before_the_arrival(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (Fixed<1>,)>, p: &mut Workspace<f32, (N,)>, c: &mut Workspace<u32, (Fixed<1>,)>) {
    let [b] = blocks([N]);
    let [t] = threads([32]);
    if t == 0 { p[b] = x[b]; }
    let mut sum = 0.0f32;
    for i in 0..N { sum += p[i]; }
    if last_arriver(&mut c[0], N) { if t == 0 { y[0] = sum; } }
}"#,
        args: || vec![numbers(5), zeros(1), zeros(5), tensor(Dtype::U32, [1], |_| 0.0)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y))]
fn workspace_right(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (Fixed<1>,)>, p: &mut Workspace<f32, (N,)>, c: &mut Workspace<u32, (Fixed<1>,)>) {
    let [b] = blocks([N]);
    let [t] = threads([32]);
    if t == 0 { p[b] = x[b]; }
    if last_arriver(&mut c[0], N) {
        let mut sum = 0.0f32;
        for i in 0..N { sum += p[i]; }
        if t == 0 { y[0] = sum; }
    }
}"#,
        args: || vec![numbers(5), zeros(1), zeros(5), tensor(Dtype::U32, [1], |_| 0.0)],
    },
    Case {
        end: "typing TK0405",
        kernel: r#"#[tile_kernel(partial(y))]
fn workspace_at_one_place(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (Fixed<1>,)>, p: &mut Workspace<f32, (N,)>, c: &mut Workspace<u32, (Fixed<1>,)>) {
    let [b] = blocks([N]);
    let [t] = threads([32]);
    if t == 0 { p[0] = x[b]; }
    if last_arriver(&mut c[0], N) { if t == 0 { y[0] = p[0]; } }
}"#,
        args: || vec![numbers(5), zeros(1), zeros(5), tensor(Dtype::U32, [1], |_| 0.0)],
    },
    Case {
        end: "typing TK0405",
        kernel: r#"#[tile_kernel(partial(y))]
fn counted_tiles_at_one_place(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>, next: &mut Workspace<u32, (Fixed<1>,)>) {
    threads([32]);
    let mut a = alloc_shared::<f32>([16, 16]);
    for [i, j] in persistent([ceil_div(M, 16), ceil_div(N, 16)]).counter(&mut next[0]) {
        copy(x.at([i * 16, j * 16]), &mut a);
        copy(&a, y.at_mut([i * 16, 0]));
    }
}"#,
        args: || vec![f32s([40, 50], |i| i as f32), f32s([40, 50], |_| 0.0), tensor(Dtype::U32, [1], |_| 0.0)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y))]
fn counted_tiles_shifted(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>, next: &mut Workspace<u32, (Fixed<1>,)>) {
    threads([32]);
    let mut a = alloc_shared::<f32>([16, 16]);
    for [i, j] in persistent([ceil_div(M, 16), ceil_div(N, 16)]).counter(&mut next[0]) {
        copy(x.at([i * 16 - 7, j * 16 - 9]), &mut a);
        copy(&a, y.at_mut([i * 16 - 7, j * 16 - 9]));
    }
}"#,
        args: || vec![f32s([40, 50], |i| i as f32), f32s([40, 50], |_| 0.0), tensor(Dtype::U32, [1], |_| 0.0)],
    },
    Case {
        end: "typing TK0405",
        kernel: r#"#[tile_kernel(partial(y), targets(sm_90a))]
fn cluster_stores_alike(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b, c] = blocks([ceil_div(N, 32), 2]);
    cluster([1, 2]);
    let [t] = threads([32]);
    *y.masked_mut([b * 32 + t]) = x.masked([b * 32 + t]);
}"#,
        args: || vec![numbers(40), zeros(40)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y), targets(sm_90a))]
fn cluster_of_one(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b, c] = blocks([ceil_div(N, 32), 1]);
    cluster([2, 1]);
    let [t] = threads([32]);
    *y.masked_mut([b * 32 + t]) = x.masked([b * 32 + t]);
}"#,
        args: || vec![numbers(40), zeros(40)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y))]
fn wild_pages(x: &Tensor<f32, (P, Fixed<16>)>, y: &mut Tensor<f32, (M, Fixed<16>)>, p: &Tensor<i32, (M,)>) {
    let [b] = blocks([M]);
    threads([32]);
    let mut s = alloc_shared::<f32>([1, 16]);
    copy(x.at([p[b] as usize, 0]), &mut s);
    copy(&s, y.at_mut([b, 0]));
}"#,
        args: || vec![f32s([3, 16], |i| i as f32), f32s([6, 16], |_| 0.0), offsets()],
    },
    Case {
        end: "checked TK0405",
        kernel: r#"#[tile_kernel(partial(y))]
fn scattered_pages(x: &Tensor<f32, (M, Fixed<16>)>, y: &mut Tensor<f32, (P, Fixed<16>)>, p: &Tensor<i32, (M,)>) {
    let [b] = blocks([M]);
    threads([32]);
    let mut s = alloc_shared::<f32>([1, 16]);
    copy(x.at([b, 0]), &mut s);
    copy(&s, y.at_mut([p[b] as usize, 0]));
}"#,
        args: || vec![f32s([6, 16], |i| i as f32), f32s([8, 16], |_| 0.0), offsets()],
    },
    Case {
        end: "typing TK0305",
        kernel: r#"#[tile_kernel(partial(y))]
fn pages_of_pages(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, p: &Tensor<i32, (M,)>) {
    blocks([1]);
    let [t] = threads([4]);
    let i = p.masked([p.masked([t]) as usize]) as usize;
    *y.masked_mut([t]) = x.masked([i * i * i]);
}"#,
        args: || vec![numbers(40), zeros(40), signed()],
    },
    Case {
        end: "TK0604, checked TK0302 TK0303, fast TK0303",
        kernel: r#"#[tile_kernel(partial(y))]
fn atomics_by_wild_bins(p: &Tensor<i32, (M,)>, y: &mut Tensor<u32, (N,)>) {
    blocks([1]);
    let [t] = threads([8]);
    if t < M { atomic_add(&mut y[p[t] as usize], 1); }
}"#,
        args: || vec![offsets(), tensor(Dtype::U32, [8], |_| 0.0)],
    },
    Case {
        end: "typing TK0402",
        kernel: r#"#[tile_kernel(partial(y))]
fn break_before_a_barrier(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    blocks([1]);
    let [t] = threads([64]);
    let mut s = alloc_shared::<f32>([64]);
    s[t] = 0.0;
    for i in 0..8 {
        if x.masked([t]) > 3.0 { break; }
        sync_threads();
        s[t] += 1.0;
    }
    *y.masked_mut([t]) = s[t];
}"#,
        args: || vec![numbers(40), zeros(40)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y))]
fn break_for_the_whole_block(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    blocks([1]);
    let [t] = threads([64]);
    let mut s = alloc_shared::<f32>([64]);
    s[t] = 0.0;
    for i in 0..8 {
        if x.masked([i]) > 3.0 { break; }
        sync_threads();
        s[t] += s[t];
        sync_threads();
    }
    *y.masked_mut([t]) = s[t];
}"#,
        args: || vec![numbers(40), zeros(40)],
    },
    Case {
        end: "checked TK0405",
        kernel: r#"#[tile_kernel(partial(y))]
fn store_after_a_break(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([N]);
    let [t] = threads([1]);
    for i in 0..N {
        if i == b { break; }
        y[t] = x[i];
    }
}"#,
        args: || vec![numbers(5), zeros(5)],
    },
    Case {
        end: "launch refused",
        kernel: r#"#[tile_kernel(partial(y))]
fn no_blocks_by_a_scalar(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, s: usize) {
    let [b] = blocks([s]);
    let [t] = threads([32]);
    *y.masked_mut([b * 32 + t]) = x.masked([N / s + t]);
}"#,
        args: || vec![numbers(40), zeros(40), Arg::Index(0)],
    },
    Case {
        end: "typing TK0104",
        kernel: r#"#[tile_kernel(partial(y))]
fn optional_input_absent_extent(x: Option<&Tensor<f32, (N,)>>, y: &mut Tensor<f32, (M,)>) {
    let [b] = blocks([ceil_div(M, 32)]);
    let [t] = threads([32]);
    let i = b * 32 + t;
    if let Some(v) = x { *y.masked_mut([i]) = v.masked([i + N]); }
}"#,
        args: || vec![numbers(40), zeros(50)],
    },
    Case {
        end: "typing TK0405",
        kernel: r#"#[tile_kernel(partial(y, z))]
fn optional_output_alike(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, z: Option<&mut Tensor<f32, (N,)>>) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let i = b * 32 + t;
    if let Some(w) = z { *w.masked_mut([t]) = 2.0; }
    *y.masked_mut([i]) = x.masked([i]);
}"#,
        args: || vec![numbers(40), zeros(40), zeros(40)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y))]
fn swizzled_past_the_grid(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, s: usize) {
    let [bx, by] = blocks([5, 3]);
    let [t] = threads([2]);
    use_swizzle(s);
    *y.masked_mut([(by * 5 + bx) * 2 + t]) = x.masked([(by * 5 + bx) * 2 + t]);
}"#,
        args: || vec![numbers(40), zeros(40), Arg::Index(0)],
    },
    Case {
        end: "typing TK0405",
        kernel: r#"#[tile_kernel(partial(y))]
fn swizzled_and_one_axis_forgotten(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, s: usize) {
    let [bx, by] = blocks([5, 3]);
    let [t] = threads([2]);
    use_swizzle(s);
    *y.masked_mut([bx * 2 + t]) = x.masked([by * 2 + t]);
}"#,
        args: || vec![numbers(40), zeros(40), Arg::Index(2)],
    },
    Case {
        end: "typing TK0201",
        kernel: r#"#[tile_kernel(partial(y), require(N % 4 == 0))]
fn vectors_beside_a_lying_shift(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, s: usize) {
    blocks([1]);
    let [t] = threads([8]);
    let mut v = alloc_local::<f32>([4]);
    for i in vectorized(0..4) { v[i] = x.masked([t * 4 + s + i]); }
    for i in vectorized(0..4) { *y.masked_mut([t * 4 + i]) = v[i]; }
}"#,
        args: || vec![numbers(40), zeros(40), Arg::Index(1)],
    },
    Case {
        end: "checked TK0401",
        kernel: r#"#[tile_kernel(partial(y))]
fn a_store_by_every_round(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    blocks([1]);
    let [t] = threads([32]);
    for k in 0..4 {
        for [j] in parallel([32]) { *y.masked_mut([j / 2 + k * 0]) = x.masked([j]); }
    }
    *y.masked_mut([t + 32]) = 0.0;
}"#,
        args: || vec![numbers(40), zeros(40)],
    },
    Case {
        end: "typing TK0405",
        kernel: r#"#[tile_kernel(partial(y))]
fn a_loop_over_blocks_of_others(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    for i in (t..N).step_by(32) { y[i] = x[i]; }
}"#,
        args: || vec![numbers(70), zeros(70)],
    },
    Case {
        end: "launch refused",
        kernel: r#"#[tile_kernel(partial(y))]
fn squares_of_far_indices(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, s: usize) {
    let [b] = blocks([2]);
    let [t] = threads([2]);
    let i = (b * 2 + t) * s;
    let j = i * i;
    *y.masked_mut([j % 40]) = x.masked([i]);
}"#,
        args: || vec![numbers(40), zeros(40), Arg::Index(46_341)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y))]
fn shifted_right_of_negative(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, s: usize) {
    blocks([1]);
    let [t] = threads([4]);
    *y.masked_mut([((t - s) >> 1) + 8 * t]) = x.masked([t]);
}"#,
        args: || vec![numbers(40), zeros(40), Arg::Index(3)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y))]
fn a_tile_wider_than_its_tensor(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let [b] = blocks([ceil_div(M, 8)]);
    threads([32]);
    let mut s = alloc_shared::<f32>([8, 64]);
    copy(x.at([b * 8 - 3, 0 - 5]), &mut s);
    copy(&s, y.at_mut([b * 8 - 3, 0 - 5]));
}"#,
        args: || vec![f32s([9, 3], |i| i as f32), f32s([9, 3], |_| 0.0)],
    },
    // Rows whose numbers come from shared memory, of which some are far beyond the tensor: they are zeros.
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel]
fn rows_by_a_table_in_shared_memory(x: &Tensor<f32, (P, Fixed<32>)>, places: &Tensor<u32, (Fixed<64>,)>, y: &mut Tensor<f32, (Fixed<64>,)>) {
    blocks([1]);
    let [t] = threads([64]);
    let mut table = alloc_shared::<u32>([64]);
    let mut s = alloc_shared::<f32>([1, 32]);
    table[t] = places[t];
    sync_threads();
    let mut sum = 0.0f32;
    for c in pipelined(0..64, 3).schedule(Rolled) {
        let place = table[c] as usize;
        copy(x.at([place, 0]), &mut s);
        sum += s[[0, t % 32]];
    }
    y[t] = sum;
}"#,
        args: || {
            vec![
                f32s([5, 32], |i| i as f32),
                tensor(Dtype::U32, [64], |i| if i % 3 == 0 { 4_294_967_295.0 } else { (i % 9) as f32 }),
                f32s([64], |_| 0.0),
            ]
        },
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y))]
fn blocks_of_a_product_of_dims(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let [b] = blocks([M * N]);
    let [t] = threads([1]);
    y[[b / N, b % N + t]] = x[[b / N, b % N]];
}"#,
        args: || vec![f32s([3, 5], |i| i as f32), f32s([3, 5], |_| 0.0)],
    },
    Case {
        end: "typing TK0405",
        kernel: r#"#[tile_kernel(partial(y))]
fn blocks_of_a_product_folded(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let [b] = blocks([M * N]);
    let [t] = threads([1]);
    y[[b / N, 0 + t]] = x[[b / N, b % N]];
}"#,
        args: || vec![f32s([3, 5], |i| i as f32), f32s([3, 5], |_| 0.0)],
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y), require(0 < slots), require(ceil_div(N, 8) * ceil_div(M, 8) * slots <= 16))]
fn as_many_parts_as_places(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>, slots: usize, p: &mut Workspace<f32, (Fixed<16>, Fixed<8>, Fixed<8>)>, c: &mut Workspace<u32, (Fixed<16>,)>) {
    let [bx, by, part] = blocks([ceil_div(N, 8), ceil_div(M, 8), slots]);
    threads([32]);
    let tile = min(by * ceil_div(N, 8) + bx, 15);
    let mut acc = alloc_fragment::<f32>([8, 8]);
    copy(x.at([by * 8, bx * 8]), &mut acc);
    if slots > 1 {
        let place = min(tile * slots + part, 15);
        for [i, j] in parallel([8, 8]) { p[[place, i, j]] = acc[[i, j]]; }
    }
    if last_arriver(&mut c[tile], slots) { copy(&acc, y.at_mut([by * 8, bx * 8])); }
}"#,
        args: || {
            vec![
                f32s([32, 16], |i| i as f32),
                f32s([32, 16], |_| 0.0),
                Arg::Index(2),
                f32s([16, 8, 8], |_| 0.0),
                tensor(Dtype::U32, [16], |_| 0.0),
            ]
        },
    },
    Case {
        end: "launch refused",
        kernel: r#"#[tile_kernel(partial(y), require(0 < slots), require(ceil_div(N, 8) * ceil_div(M, 8) * slots <= 16))]
fn more_parts_than_places(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>, slots: usize, p: &mut Workspace<f32, (Fixed<16>, Fixed<8>, Fixed<8>)>, c: &mut Workspace<u32, (Fixed<16>,)>) {
    let [bx, by, part] = blocks([ceil_div(N, 8), ceil_div(M, 8) + 1, slots]);
    threads([32]);
    let tile = min(by * ceil_div(N, 8) + bx, 15);
    let mut acc = alloc_fragment::<f32>([8, 8]);
    copy(x.at([by * 8, bx * 8]), &mut acc);
    if slots > 1 {
        let place = min(tile * slots + part, 15);
        for [i, j] in parallel([8, 8]) { p[[place, i, j]] = acc[[i, j]]; }
    }
    if last_arriver(&mut c[tile], slots) { copy(&acc, y.at_mut([by * 8, bx * 8])); }
}"#,
        args: || {
            vec![
                f32s([32, 16], |i| i as f32),
                f32s([32, 16], |_| 0.0),
                Arg::Index(2),
                f32s([16, 8, 8], |_| 0.0),
                tensor(Dtype::U32, [16], |_| 0.0),
            ]
        },
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y), require(0 < slots), require(ceil_div(N, 8) * ceil_div(M, 8) * slots <= 16))]
fn more_rows_with_room(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>, slots: usize, p: &mut Workspace<f32, (Fixed<16>, Fixed<8>, Fixed<8>)>, c: &mut Workspace<u32, (Fixed<16>,)>) {
    let [bx, by, part] = blocks([ceil_div(N, 8), ceil_div(M, 8) + 1, slots]);
    threads([32]);
    let tile = min(by * ceil_div(N, 8) + bx, 15);
    let mut acc = alloc_fragment::<f32>([8, 8]);
    copy(x.at([by * 8, bx * 8]), &mut acc);
    if slots > 1 {
        let place = min(tile * slots + part, 15);
        for [i, j] in parallel([8, 8]) { p[[place, i, j]] = acc[[i, j]]; }
    }
    if last_arriver(&mut c[tile], slots) { copy(&acc, y.at_mut([by * 8, bx * 8])); }
}"#,
        args: || {
            vec![
                f32s([24, 16], |i| i as f32),
                f32s([24, 16], |_| 0.0),
                Arg::Index(2),
                f32s([16, 8, 8], |_| 0.0),
                tensor(Dtype::U32, [16], |_| 0.0),
            ]
        },
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y), require(0 < slots), require(ceil_div(N, 8) * ceil_div(M, 8) * slots <= 16))]
fn as_many_tiles_as_counters(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>, slots: usize, p: &mut Workspace<f32, (Fixed<16>, Fixed<8>, Fixed<8>)>, c: &mut Workspace<u32, (Fixed<16>,)>) {
    let [bx, by, part] = blocks([ceil_div(N, 8), ceil_div(M, 8), slots]);
    threads([32]);
    let tile = min(by * ceil_div(N, 8) + bx, 15);
    let mut acc = alloc_fragment::<f32>([8, 8]);
    copy(x.at([by * 8, bx * 8]), &mut acc);
    if slots > 1 {
        let place = min(tile * slots + part, 15);
        for [i, j] in parallel([8, 8]) { p[[place, i, j]] = acc[[i, j]]; }
    }
    if last_arriver(&mut c[tile], slots) { copy(&acc, y.at_mut([by * 8, bx * 8])); }
}"#,
        args: || {
            vec![
                f32s([64, 16], |i| i as f32),
                f32s([64, 16], |_| 0.0),
                Arg::Index(1),
                f32s([16, 8, 8], |_| 0.0),
                tensor(Dtype::U32, [16], |_| 0.0),
            ]
        },
    },
    Case {
        end: "launch refused",
        kernel: r#"#[tile_kernel(partial(y), require(0 < slots), require(ceil_div(N, 8) * ceil_div(M, 8) * slots <= 16))]
fn more_tiles_than_counters(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>, slots: usize, p: &mut Workspace<f32, (Fixed<16>, Fixed<8>, Fixed<8>)>, c: &mut Workspace<u32, (Fixed<16>,)>) {
    let [bx, by, part] = blocks([ceil_div(N, 8), ceil_div(M, 8) + 1, slots]);
    threads([32]);
    let tile = min(by * ceil_div(N, 8) + bx, 15);
    let mut acc = alloc_fragment::<f32>([8, 8]);
    copy(x.at([by * 8, bx * 8]), &mut acc);
    if slots > 1 {
        let place = min(tile * slots + part, 15);
        for [i, j] in parallel([8, 8]) { p[[place, i, j]] = acc[[i, j]]; }
    }
    if last_arriver(&mut c[tile], slots) { copy(&acc, y.at_mut([by * 8, bx * 8])); }
}"#,
        args: || {
            vec![
                f32s([64, 16], |i| i as f32),
                f32s([64, 16], |_| 0.0),
                Arg::Index(1),
                f32s([16, 8, 8], |_| 0.0),
                tensor(Dtype::U32, [16], |_| 0.0),
            ]
        },
    },
    Case {
        end: "agree",
        kernel: r#"#[tile_kernel(partial(y), require(0 < slots), require(ceil_div(N, 8) * ceil_div(M, 8) * slots <= 16))]
fn more_tiles_with_room(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>, slots: usize, p: &mut Workspace<f32, (Fixed<16>, Fixed<8>, Fixed<8>)>, c: &mut Workspace<u32, (Fixed<16>,)>) {
    let [bx, by, part] = blocks([ceil_div(N, 8), ceil_div(M, 8) + 1, slots]);
    threads([32]);
    let tile = min(by * ceil_div(N, 8) + bx, 15);
    let mut acc = alloc_fragment::<f32>([8, 8]);
    copy(x.at([by * 8, bx * 8]), &mut acc);
    if slots > 1 {
        let place = min(tile * slots + part, 15);
        for [i, j] in parallel([8, 8]) { p[[place, i, j]] = acc[[i, j]]; }
    }
    if last_arriver(&mut c[tile], slots) { copy(&acc, y.at_mut([by * 8, bx * 8])); }
}"#,
        args: || {
            vec![
                f32s([56, 16], |i| i as f32),
                f32s([56, 16], |_| 0.0),
                Arg::Index(1),
                f32s([16, 8, 8], |_| 0.0),
                tensor(Dtype::U32, [16], |_| 0.0),
            ]
        },
    },
];

#[test]
fn nothing_leaves_its_tensors() {
    let mut wrong = String::new();
    for case in CASES {
        let found = end(case);
        if found != case.end {
            wrong += &format!("{found}, not {}:\n{}\n\n", case.end, case.kernel);
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
