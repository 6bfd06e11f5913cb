//! Bad launches, each refused before anything is launched, with the argument, the rule and both numbers.

use super::super::argument::{Argument, RawTensor, Scalar};
use super::super::plan::Plan;
use super::super::prepared::lowered;
use super::super::{ScalarInput, TensorInput, launch};
use super::sample::definition;
use super::{inputs, table};
use crate::launch_error::LaunchError;
use crate::{Device, Problem, Tensor, f16};
use std::panic::Location;
use tile_ir::diag::Code;
use tile_ir::ir::{BinaryOp, DimId, EntityRef, ParamId, SpanId, Target};
use tile_ir::lowered::{Check, CheckKind, HostExpr};
use tile_ir::sim::ScalarValue;

/// The tensors of a launch that is right: x f32[4, 16], v f32[16], y f32[4, 16], alpha, n = 4.
struct Good {
    device: Device,
    x: Tensor<f32, 2>,
    v: Tensor<f32, 1>,
    y: Tensor<f32, 2>,
}

impl Good {
    fn new(device: Device) -> Good {
        let (x, v, y) = inputs(&device, 4, 16);
        Good { device, x, v, y }
    }

    fn args(&mut self) -> Vec<Argument<'_>> {
        vec![
            Argument::Tensor(self.x.erased()),
            Argument::Tensor(self.v.erased()),
            Argument::Tensor(self.y.erased()),
            1.0f32.scalar(),
            4usize.scalar(),
        ]
    }
}

#[track_caller]
fn attempt(device: &Device, args: &mut [Argument<'_>]) -> Result<(), LaunchError> {
    launch(definition(), table(), 0, device, args)
}

fn raw(argument: &mut Argument<'_>, change: impl FnOnce(&mut RawTensor<'_>)) {
    if let Argument::Tensor(tensor) = argument {
        *tensor = tensor.with(change);
    }
}

/// A change that makes a launch bad, the code it is refused with, and words of the report.
type Case = (&'static str, Box<dyn Fn(&mut Vec<Argument<'_>>)>, Code, &'static [&'static str]);

fn case(
    name: &'static str,
    change: impl Fn(&mut Vec<Argument<'_>>) + 'static,
    code: Code,
    words: &'static [&'static str],
) -> Case {
    (name, Box::new(change), code, words)
}

fn tensor(i: usize, change: impl Fn(&mut RawTensor<'_>) + 'static) -> impl Fn(&mut Vec<Argument<'_>>) + 'static {
    move |args| raw(&mut args[i], &change)
}

fn index(i: usize, value: i64) -> impl Fn(&mut Vec<Argument<'_>>) + 'static {
    move |args| args[i] = Argument::Scalar(Scalar { value: ScalarValue::Index(value) })
}

/// Another K, in every tensor.
fn every_k(k: i64) -> impl Fn(&mut Vec<Argument<'_>>) + 'static {
    move |args| {
        raw(&mut args[0], |t| t.shape[1] = k);
        raw(&mut args[1], |t| t.shape[0] = k);
        raw(&mut args[2], |t| t.shape[1] = k);
    }
}

fn cases() -> Vec<Case> {
    const BIG: i64 = 1 << 31;
    let (argument, require) = (Code::LAUNCH_ARGUMENT, Code::LAUNCH_REQUIRE);
    let (alignment, limit, alias) = (Code::LAUNCH_ALIGNMENT, Code::LAUNCH_LIMIT, Code::LAUNCH_ALIAS);
    vec![
        // Number and kinds of arguments.
        case("one too few", |a| a.truncate(4), argument, &["5 parameters, 4 arguments"]),
        case("none", |a| a.clear(), argument, &["5 parameters, 0 arguments"]),
        case("one too many", |a| a.push(1usize.scalar()), argument, &["5 parameters, 6 arguments"]),
        case(
            "scalar for x",
            |a| a[0] = 1.0f32.scalar(),
            argument,
            &["`x`", "a tensor of f32 with 2 axes", "a f32 value"],
        ),
        case("scalar for v", |a| a[1] = 3usize.scalar(), argument, &["`v`", "with 1 axes", "a usize value"]),
        case("scalar for y", |a| a[2] = true.scalar(), argument, &["`y`", "a bool value"]),
        case("tensor for alpha", |a| a[3] = a[1], argument, &["`alpha`", "a f32 value", "f32[16]"]),
        case("tensor for n", |a| a[4] = a[1], argument, &["`n`", "a usize value", "f32[16]"]),
        case("usize for alpha", |a| a[3] = 1usize.scalar(), argument, &["`alpha`", "a f32 value", "a usize value"]),
        case("i32 for alpha", |a| a[3] = 1i32.scalar(), argument, &["`alpha`", "a i32 value"]),
        case("f16 for alpha", |a| a[3] = f16::ONE.scalar(), argument, &["`alpha`", "a f16 value"]),
        case("u32 for n", |a| a[4] = 1u32.scalar(), argument, &["`n`", "a u32 value"]),
        // Dtypes and ranks.
        case("f16 x", tensor(0, |t| *t.dtype = tile_ir::ir::Dtype::F16), argument, &["`x` must hold f32", "f16"]),
        case("i32 v", tensor(1, |t| *t.dtype = tile_ir::ir::Dtype::I32), argument, &["`v` must hold f32", "i32"]),
        case("bf16 y", tensor(2, |t| *t.dtype = tile_ir::ir::Dtype::Bf16), argument, &["`y` must hold f32", "bf16"]),
        case("vector for x", |a| a[0] = a[1], argument, &["`x` must have 2 axes, it has 1"]),
        case("matrix for v", |a| a[1] = a[0], argument, &["`v` must have 1 axes, it has 2"]),
        case("vector for y", |a| a[2] = a[1], argument, &["`y` must have 2 axes, it has 1"]),
        // Extents.
        case("v too short", tensor(1, |t| t.shape[0] = 8), argument, &["K = 16 (`x`, axis 1)", "K = 8 (`v`, axis 0)"]),
        case("v too long", tensor(1, |t| t.shape[0] = 24), argument, &["K = 16", "K = 24 (`v`, axis 0)"]),
        case(
            "y has fewer rows",
            tensor(2, |t| t.shape[0] = 3),
            argument,
            &["N = 4 (`x`, axis 0)", "N = 3 (`y`, axis 0)"],
        ),
        case("y is narrower", tensor(2, |t| t.shape[1] = 8), argument, &["K = 8 (`y`, axis 1)"]),
        case("y is transposed", tensor(2, |t| *t.shape = [16, 4, 1, 1]), argument, &["N = 16 (`y`, axis 0)"]),
        case("x negative", tensor(0, |t| t.shape[0] = -1), argument, &["`x` has extent -1 on axis 0"]),
        case("v negative", tensor(1, |t| t.shape[0] = i64::MIN), argument, &["`v` has extent -9223372036854775808"]),
        case(
            "x beyond 32 bits",
            tensor(0, |t| t.shape[0] = BIG),
            limit,
            &["`x` has extent 2147483648 on axis 0", "2147483647"],
        ),
        case("v beyond 32 bits", tensor(1, |t| t.shape[0] = i64::MAX), limit, &["`v` has extent 9223372036854775807"]),
        // Strides.
        case(
            "x inner stride 2",
            tensor(0, |t| t.strides[1] = 2),
            alignment,
            &["`x` has stride 2 on its innermost axis"],
        ),
        case(
            "v inner stride 0",
            tensor(1, |t| t.strides[0] = 0),
            alignment,
            &["`v` has stride 0 on its innermost axis"],
        ),
        case("y inner stride -1", tensor(2, |t| t.strides[1] = -1), alignment, &["`y` has stride -1"]),
        case(
            "x rows overlap",
            tensor(0, |t| t.strides[0] = 15),
            alignment,
            &["`x` has stride 15 on axis 0", "16 elements"],
        ),
        case("x broadcast", tensor(0, |t| t.strides[0] = 0), alignment, &["`x` has stride 0 on axis 0"]),
        case("y rows backwards", tensor(2, |t| t.strides[0] = -16), alignment, &["`y` has stride -16 on axis 0"]),
        case(
            "x stride beyond 32 bits",
            tensor(0, |t| t.strides[0] = BIG),
            limit,
            &["`x` has stride 2147483648 on axis 0"],
        ),
        // Memory.
        case("x needs more", tensor(0, |t| *t.bytes += 4), argument, &["`x` needs 260 bytes of memory, 256 are there"]),
        case("v starts late", tensor(1, |t| *t.offset = 4), argument, &["`v` needs 64 bytes of memory, 60 are there"]),
        case("y starts beyond", tensor(2, |t| *t.offset = 1 << 20), argument, &["`y` needs 256 bytes", "0 are there"]),
        case("y wraps", tensor(2, |t| *t.offset = u64::MAX), argument, &["`y` needs 256 bytes"]),
        // Overlap.
        case("y is x", |a| a[2] = a[0], alias, &["`y`, which is written, overlaps `x`"]),
        // Scalars and requires.
        case("n beyond 32 bits", index(4, BIG), limit, &["`n` = 2147483648", "0 to 2147483647"]),
        case("n wraps", |a| a[4] = usize::MAX.scalar(), limit, &["`n` = 18446744073709551615"]),
        case("n above N", index(4, 5), require, &["breaks `require(n <= N)` (line 3)", "n = 5, N = 4"]),
        case("n far above N", index(4, i64::from(i32::MAX)), require, &["n = 2147483647, N = 4"]),
        case("n the least", index(4, i64::MIN), limit, &["`n` = 9223372036854775808"]),
        case("n the most", index(4, i64::MAX), limit, &["`n` = 9223372036854775807"]),
        case("K not a multiple", every_k(12), require, &["`x` breaks `require(K % 8 == 0)` (line 2): K = 12"]),
        case("K one above", every_k(9), require, &["K = 9"]),
        // More numbers and kinds.
        case(
            "two too many",
            |a| a.extend([1usize.scalar(), 2usize.scalar()]),
            argument,
            &["5 parameters, 7 arguments"],
        ),
        case("tensors alone", |a| a.truncate(3), argument, &["5 parameters, 3 arguments"]),
        case("no x", |a| a[0] = Argument::Absent, argument, &["`x` must be a tensor of f32 with 2 axes", "nothing"]),
        case("no v", |a| a[1] = Argument::Absent, argument, &["`v`", "nothing"]),
        case("no y", |a| a[2] = Argument::Absent, argument, &["`y`", "nothing"]),
        case("no alpha", |a| a[3] = Argument::Absent, argument, &["`alpha` must be a f32 value", "nothing"]),
        case("no n", |a| a[4] = Argument::Absent, argument, &["`n` must be a usize value", "nothing"]),
        case("bool for alpha", |a| a[3] = true.scalar(), argument, &["`alpha`", "a bool value"]),
        case("u32 for alpha", |a| a[3] = 1u32.scalar(), argument, &["`alpha`", "a u32 value"]),
        case("f32 for n", |a| a[4] = 4f32.scalar(), argument, &["`n`", "a f32 value"]),
        case("i32 for n", |a| a[4] = 4i32.scalar(), argument, &["`n`", "a i32 value"]),
        case("x and v swapped", |a| a.swap(0, 1), argument, &["`x` must have 2 axes, it has 1"]),
        case("alpha and n swapped", |a| a.swap(3, 4), argument, &["`alpha`", "a usize value"]),
        case("nothing at all", |a| a.iter_mut().for_each(|b| *b = Argument::Absent), argument, &["`x`", "nothing"]),
        // More dtypes, extents and strides.
        case("u32 x", tensor(0, |t| *t.dtype = tile_ir::ir::Dtype::U32), argument, &["`x` must hold f32", "u32"]),
        case("bool v", tensor(1, |t| *t.dtype = tile_ir::ir::Dtype::Bool), argument, &["`v` must hold f32", "bool"]),
        case("i32 y", tensor(2, |t| *t.dtype = tile_ir::ir::Dtype::I32), argument, &["`y` must hold f32", "i32"]),
        case(
            "x without rows",
            tensor(0, |t| t.shape[0] = 0),
            argument,
            &["N = 0 (`x`, axis 0)", "N = 4 (`y`, axis 0)"],
        ),
        case("v empty", tensor(1, |t| t.shape[0] = 0), argument, &["K = 16", "K = 0 (`v`, axis 0)"]),
        case("y has more rows", tensor(2, |t| t.shape[0] = 5), argument, &["N = 5 (`y`, axis 0)"]),
        case("y is wider", tensor(2, |t| t.shape[1] = 17), argument, &["K = 17 (`y`, axis 1)"]),
        case(
            "x columns beyond 32 bits",
            tensor(0, |t| t.shape[1] = BIG),
            limit,
            &["`x` has extent 2147483648 on axis 1"],
        ),
        case("y columns negative", tensor(2, |t| t.shape[1] = -16), argument, &["`y` has extent -16 on axis 1"]),
        case("v inner stride 2", tensor(1, |t| t.strides[0] = 2), alignment, &["`v` has stride 2"]),
        case("x inner stride 0", tensor(0, |t| t.strides[1] = 0), alignment, &["`x` has stride 0 on its innermost"]),
        case(
            "y rows overlap",
            tensor(2, |t| t.strides[0] = 8),
            alignment,
            &["`y` has stride 8 on axis 0", "16 elements"],
        ),
        case("y broadcast", tensor(2, |t| t.strides[0] = 0), alignment, &["`y` has stride 0 on axis 0"]),
        case("y stride beyond 32 bits", tensor(2, |t| t.strides[0] = BIG), limit, &["`y` has stride 2147483648"]),
        case(
            "x stride the most",
            tensor(0, |t| t.strides[0] = i64::MAX),
            limit,
            &["`x` has stride 9223372036854775807"],
        ),
        case(
            "x stride the least",
            tensor(0, |t| t.strides[0] = i64::MIN),
            alignment,
            &["`x` has stride -92233720368547"],
        ),
        // More memory.
        case(
            "y of all memory",
            tensor(2, |t| *t.bytes = u64::MAX),
            argument,
            &["`y` needs 18446744073709551615 bytes"],
        ),
        case("x starts beyond", tensor(0, |t| *t.offset = 1 << 40), argument, &["`x` needs 256 bytes", "0 are there"]),
        case("v starts at the end", tensor(1, |t| *t.offset = 64), argument, &["`v` needs 64 bytes", "0 are there"]),
        case(
            "y starts late",
            tensor(2, |t| *t.offset = 64),
            argument,
            &["`y` needs 256 bytes of memory, 192 are there"],
        ),
    ]
}

#[test]
fn every_bad_launch_is_refused_with_both_numbers() {
    for device in [Device::simulator(), Device::checked_simulator()] {
        let mut good = Good::new(device);
        let device = good.device.clone();
        let cases = cases();
        assert!(cases.len() >= 60, "{} kinds", cases.len());
        for (name, change, code, words) in &cases {
            let mut args = good.args();
            change(&mut args);
            let here = line!() + 1;
            let error = attempt(&device, &mut args).expect_err(name);
            let text = error.to_string();
            assert_eq!(error.code(), Some(*code), "{name}: {text}");
            for word in *words {
                assert!(text.contains(word), "{name}: `{word}` in\n{text}");
            }
            assert!(text.starts_with(&format!("launch error [{code}] scale at ")), "{name}: {text}");
            assert!(text.contains(&format!("bad_launches.rs:{here}: ")), "{name}: {text}");
            assert!(text.ends_with(". Nothing was launched."), "{name}: {text}");
        }
        assert_eq!(good.y.to_vec().unwrap(), [0.0; 64], "nothing was launched");
        attempt(&device, &mut good.args()).unwrap();
        assert_ne!(good.y.to_vec().unwrap(), [0.0; 64]);
    }
}

#[test]
fn a_broken_require_names_the_argument_the_line_and_the_value() {
    let device = Device::simulator();
    let (x, v, y) = inputs(&device, 2, 12);
    let args = &mut [
        Argument::Tensor(x.erased()),
        Argument::Tensor(v.erased()),
        Argument::Tensor(y.erased()),
        1.0f32.scalar(),
        2usize.scalar(),
    ];
    let error = attempt(&device, args).unwrap_err();
    let Location { .. } = error.location();
    let text = error.to_string();
    let expected = "`x` breaks `require(K % 8 == 0)` (line 2): K = 12. Nothing was launched.";
    assert!(text.ends_with(expected), "{text}");
    assert_eq!(format!("{error:?}"), text, "`unwrap` shows the same text");
    assert_eq!(error.kernel(), "scale");
}

#[test]
fn a_tensor_of_another_device_is_refused() {
    let mut good = Good::new(Device::simulator());
    let elsewhere = Good::new(Device::checked_simulator());
    for (i, name) in ["x", "v", "y"].into_iter().enumerate() {
        let device = good.device.clone();
        let mut args = good.args();
        args[i] = match i {
            0 => Argument::Tensor(elsewhere.x.erased()),
            1 => Argument::Tensor(elsewhere.v.erased()),
            _ => Argument::Tensor(elsewhere.y.erased()),
        };
        let error = attempt(&device, &mut args).unwrap_err();
        assert_eq!(error.code(), Some(Code::LAUNCH_ALIAS));
        let expected = format!("`{name}` is on sim-checked, the launch is on sim. Nothing was launched.");
        assert!(error.to_string().ends_with(&expected), "{error}");
    }
}

#[test]
fn parts_of_one_tensor_overlap_only_where_they_share_elements() {
    let device = Device::simulator();
    let whole = device.zeros::<f32, 2>([8, 32]).unwrap();
    let v = device.zeros::<f32, 1>([8]).unwrap();
    let view = |rows: std::ops::Range<usize>, columns: std::ops::Range<usize>| whole.slice([rows, columns]).unwrap();
    let try_pair = |a: crate::TensorView<'_, f32, 2>, b: crate::TensorView<'_, f32, 2>| {
        let args = &mut [
            TensorInput::<f32, 2>::argument(&a),
            Argument::Tensor(v.erased()),
            TensorInput::<f32, 2>::argument(&b),
            1.0f32.scalar(),
            2usize.scalar(),
        ];
        attempt(&device, args)
    };
    try_pair(view(0..4, 0..8), view(4..8, 0..8)).unwrap();
    try_pair(view(0..4, 0..8), view(0..4, 8..16)).unwrap();
    try_pair(view(0..4, 24..32), view(0..4, 0..8)).unwrap();
    try_pair(view(1..5, 8..16), view(0..4, 16..24)).unwrap();
    for (a, b) in [
        (view(0..4, 0..8), view(3..7, 0..8)),
        (view(0..4, 0..8), view(0..4, 7..15)),
        (view(0..4, 7..15), view(1..5, 0..8)),
        (view(0..4, 0..8), view(0..4, 0..8)),
    ] {
        let error = try_pair(a, b).unwrap_err();
        assert!(matches!(error.problem(), Problem::Overlap { .. }), "{error}");
    }
}

/// Checks that the sample's own program does not have, put into its plan.
#[test]
fn checks_of_the_program_are_evaluated_and_reported() {
    let kernel = definition().kernel().unwrap();
    let (bound, program) = lowered(kernel, &kernel.instances[0], Target::Sm90a).unwrap();
    let (x, k, n) = (ParamId::new(0), HostExpr::Dim(DimId::new(1)), HostExpr::Dim(DimId::new(0)));
    let span = SpanId::new(0);
    let multiple = |value: HostExpr, of: i64| {
        let rest = HostExpr::binary(BinaryOp::Rem, value, HostExpr::Int(of));
        HostExpr::binary(BinaryOp::Eq, rest, HostExpr::Int(0))
    };
    let product = HostExpr::binary(BinaryOp::Mul, k.clone(), HostExpr::Int(1 << 30));
    let divided =
        HostExpr::binary(BinaryOp::Div, HostExpr::Int(1), HostExpr::binary(BinaryOp::Sub, n.clone(), n.clone()));
    let cases: Vec<(HostExpr, CheckKind, Code, &str)> = vec![
        (
            multiple(HostExpr::Address(x), 512),
            CheckKind::Alignment { tensor: x, bytes: 512 },
            Code::LAUNCH_ALIGNMENT,
            "past a multiple of 512; a 512-byte access (line 1) needs such a multiple",
        ),
        (
            multiple(HostExpr::Stride(x, 0), 32),
            CheckKind::StrideMultiple { tensor: x, axis: 0, multiple: 32 },
            Code::LAUNCH_ALIGNMENT,
            "`x` has stride 16 on axis 0; a vector access (line 1) needs a multiple of 32",
        ),
        (
            HostExpr::binary(BinaryOp::Lt, product.clone(), HostExpr::Int(1 << 31)),
            CheckKind::IndexRange { bound: product },
            Code::LAUNCH_LIMIT,
            "index `K * 1073741824` (line 1) reaches 17179869184; at most 2147483647 is possible: K = 16",
        ),
        (
            divided,
            CheckKind::Require { text: "1 / (N - N)".into() },
            Code::LAUNCH_REQUIRE,
            "`x` breaks `require(1 / (N - N))`",
        ),
        (
            HostExpr::Not(Box::new(n.clone())),
            CheckKind::Require { text: "!N".into() },
            Code::LAUNCH_REQUIRE,
            "`x` breaks `require(!N)` (line 1): N = 4",
        ),
    ];
    let mut good = Good::new(Device::simulator());
    // An address that is a multiple of 256 and not of 512.
    while good.x.erased().address().is_multiple_of(512) {
        good.x = good.device.zeros([4, 16]).unwrap();
    }
    let device = good.device.clone();
    for (holds, kind, code, words) in cases {
        let mut program = program.clone();
        program.launch.checks.push(Check { holds, kind, request: None, span });
        let plan = Plan::new(&bound, program).unwrap();
        let args = good.args();
        let Err(problem) = plan.check(device.state, &args) else { panic!("{words}") };
        let error = LaunchError::new("scale", Location::caller(), *problem);
        assert_eq!(error.code(), Some(code), "{error}");
        assert!(error.to_string().contains(words), "{words} in\n{error}");
    }
}

#[test]
fn grids_beyond_the_limits_are_refused() {
    let kernel = definition().kernel().unwrap();
    let (bound, program) = lowered(kernel, &kernel.instances[0], Target::Sm90a).unwrap();
    let mut good = Good::new(Device::simulator());
    let device = good.device.clone();
    let k = || HostExpr::Dim(DimId::new(1));
    let times = |n: i64| HostExpr::binary(BinaryOp::Mul, k(), HostExpr::Int(n));
    for (axis, extent, words) in [
        (0, times(1 << 30), "17179869184 blocks on x (K * 1073741824); at most 2147483647"),
        (1, times(4096), "65536 blocks on y (K * 4096); at most 65535"),
        (2, times(8192), "131072 blocks on z"),
        (0, times(-1), "-16 blocks on x"),
        (1, times(i64::MAX), "more than 64 bits hold blocks on y"),
    ] {
        let mut program = program.clone();
        program.launch.grid[axis] = extent;
        let plan = Plan::new(&bound, program).unwrap();
        let args = good.args();
        let Err(problem) = plan.check(device.state, &args) else { panic!("{words}") };
        assert!(problem.to_string().contains(words), "{problem}");
    }
    // One block less is a launch; no block is none.
    for (extent, grid) in [(HostExpr::Int(65_535), Some([4, 65_535, 1])), (HostExpr::Int(0), None)] {
        let mut program = program.clone();
        program.launch.grid[1] = extent;
        let plan = Plan::new(&bound, program).unwrap();
        assert_eq!(plan.check(device.state, &good.args()).unwrap().1, grid);
    }
}
