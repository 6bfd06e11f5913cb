//! What the printers print. `UPDATE_EXPECT=1 cargo test -p tile-ir text` refreshes the expectations.

use super::canonical;
use crate::ir::*;
use crate::lowered::*;
use crate::testing::{self, parsed};
use expect_test::{Expect, expect};

fn check(text: &impl ToString, expected: Expect) {
    expected.assert_eq(&text.to_string());
}

#[test]
fn the_gemv() {
    check(
        &testing::gemv(Dtype::F16, 8),
        expect![[r#"
            #[require(K % 8 == 0)]
            kernel gemv_f16_8(
                x: &Tensor<f16, (K,)>,
                w: &Tensor<f16, (N, K)>,
                y: &mut Tensor<f16, (N,)>,
            ) {
                let [bn] = blocks([ceil_div(N, 8)]);
                let [tk, tn] = threads([32, 8]);
                let row: usize = bn * 8 + tn;
                let mut acc: f32 = 0.0f32;
                let mut xs = alloc_local::<f16>([8]);
                let mut ws = alloc_local::<f16>([8]);
                for bk in 0..ceil_div(K, 256) {
                    for v in vectorized(0..8) {
                        xs[v] = x.masked([bk * 256 + (tk * 8 + v)]);
                        ws[v] = w.masked([row, bk * 256 + (tk * 8 + v)]);
                    }
                    for v in unroll(0..8) {
                        acc = fma(xs[v].cast::<f32>(), ws[v].cast::<f32>(), acc);
                    }
                }
                let sum: f32 = thread_allreduce(Sum, acc, tk);
                if tk == 0 && row < N {
                    y[row] = sum.cast::<f16>();
                }
            }
        "#]],
    );
}

#[test]
fn broken_data_is_printed() {
    let mut built = parsed("kernel broken() { sync_threads(); }");
    built.body.push(StmtId::from_u32(9));
    check(
        &built,
        expect![[r#"
        kernel broken(
        ) {
            let [] = blocks([]);
            let [] = threads([]);
            sync_threads();
            ?s9;
        }
    "#]],
    );
}

/// A program with one of everything; the numbers mean nothing.
fn program() -> Program {
    let span = SpanId::from_u32(0);
    let (tensor, scalar) = (ParamId::from_u32(0), ParamId::from_u32(1));
    let mut p = Program {
        name: "k_f16".into(),
        target: Target::Sm80,
        params: vec![
            Parameter { name: "x".into(), ty: ValueType::Wide, kind: ParameterKind::Pointer(tensor) },
            Parameter { name: "N".into(), ty: ValueType::Index, kind: ParameterKind::Dim(DimId::from_u32(0)) },
            Parameter { name: "x_pitch".into(), ty: ValueType::Index, kind: ParameterKind::Stride(tensor, 0) },
            Parameter { name: "alpha".into(), ty: ValueType::Element(Dtype::F32), kind: ParameterKind::Scalar(scalar) },
            Parameter { name: "reciprocal".into(), ty: ValueType::Index, kind: ParameterKind::Computed(0) },
        ],
        tensors: vec![TensorInfo {
            param: tensor,
            name: "x".into(),
            dtype: Dtype::F16,
            shape: vec![HostExpr::Dim(DimId::from_u32(0)), HostExpr::Int(16)],
            mutable: true,
            stream: false,
            output: false,
            independent: false,
            ordered: false,
        }],
        dims: vec!["N".into()],
        launch: Launch {
            class: Class::WIDEST,
            grid: [HostExpr::Dim(DimId::from_u32(0)), HostExpr::Int(1), HostExpr::Int(1)],
            threads: [64, 1, 1],
            states_threads: true,
            min_blocks: Some(2),
            cluster: [1, 1, 1],
            registers: None,
            dependent: None,
            checks: vec![
                Check {
                    holds: HostExpr::binary(BinaryOp::Lt, HostExpr::Dim(DimId::from_u32(0)), HostExpr::Int(9)),
                    kind: CheckKind::Require { text: "N   < 9".into() },
                    request: None,
                    span,
                },
                Check {
                    holds: HostExpr::Not(Box::new(HostExpr::Address(tensor))),
                    kind: CheckKind::Alignment { tensor, bytes: 16 },
                    request: None,
                    span,
                },
            ],
            computed: vec![HostExpr::binary(BinaryOp::Div, HostExpr::Int(99), HostExpr::Dim(DimId::from_u32(0)))],
        },
        shared_bytes: 256,
        ..Program::empty("", Target::Sm80)
    };
    let dtype = Dtype::F32;
    let s = p.shared.push(SharedArray {
        name: "s".into(),
        dtype,
        len: 64,
        slots: 1,
        offset: 0,
        align: 16,
        scratch: true,
        beyond: 0,
    });
    let l = p.locals.push(LocalArray { name: "h".into(), dtype: Dtype::F16, len: 8 });
    let mut reg = |name: &str, ty, mutable| p.regs.push(Reg { name: name.into(), ty, mutable });
    let row = reg("row", ValueType::Wide, false);
    let acc = reg("acc", ValueType::Element(Dtype::F32), true);
    let i = reg("i", ValueType::Index, true);
    let other = reg("other", ValueType::Element(Dtype::F32), false);
    let values = &mut p.values;
    let mut value = |kind, ty| values.push(Value { kind, ty, span });
    let f32 = ValueType::Element(Dtype::F32);
    let tx = value(ValueKind::Thread(0), ValueType::Index);
    let pitch = value(ValueKind::Param(2), ValueType::Index);
    let wide = value(ValueKind::Cast(tx), ValueType::Wide);
    let start = value(ValueKind::Binary(BinaryOp::Mul, wide, pitch), ValueType::Wide);
    let zero = value(ValueKind::Int(0), ValueType::Index);
    let eight = value(ValueKind::Int(8), ValueType::Index);
    let minus = value(ValueKind::Float(-0.5), f32);
    let row_value = value(ValueKind::Reg(row), ValueType::Wide);
    let cond = value(ValueKind::Binary(BinaryOp::Lt, tx, eight), ValueType::BOOL);
    let guard = Some(Guard { cond, reason: GuardReason::Unproven });
    let global = Memory { space: Space::Global(tensor), offset: row_value, guard, span };
    let masked = Memory { guard: Some(Guard { cond, reason: GuardReason::Masked }), ..global };
    let shared = Memory { space: Space::Shared(s), offset: tx, guard: None, span };
    let loaded = value(ValueKind::Load(global), ValueType::Element(Dtype::F16));
    let loaded = value(ValueKind::Cast(loaded), f32);
    let difference = value(ValueKind::Binary(BinaryOp::Sub, loaded, minus), f32);
    let nested = value(ValueKind::Binary(BinaryOp::Sub, minus, difference), f32);
    let one = value(ValueKind::Int(1), ValueType::Element(Dtype::U32));
    let reciprocal = value(ValueKind::Param(4), ValueType::Index);
    let quotient = value(ValueKind::Quotient(tx, eight, reciprocal), ValueType::Index);
    let op = |kind| Op { kind, span };
    p.body = vec![
        op(OpKind::Let { reg: row, value: Some(start) }),
        op(OpKind::Let { reg: acc, value: None }),
        op(OpKind::Local { local: l }),
        op(OpKind::Shared { shared: s }),
        op(OpKind::For {
            reg: i,
            start: zero,
            end: quotient,
            step: eight,
            unroll: Unroll::By(2),
            body: vec![
                op(OpKind::VectorLoad { local: l, start: zero, memory: masked, width: 8 }),
                op(OpKind::Set { reg: acc, value: nested }),
            ],
        }),
        op(OpKind::Shuffle { reg: other, kind: ShuffleKind::Down, value: loaded, lane: one }),
        op(OpKind::Barrier),
        op(OpKind::If {
            cond,
            then: vec![op(OpKind::Store { memory: shared, value: minus })],
            otherwise: vec![op(OpKind::VectorStore { memory: global, local: l, start: zero, width: 8 })],
        }),
        op(OpKind::Store { memory: masked, value: loaded }),
        op(OpKind::Atomic { op: AtomicOp::Add, memory: shared, value: minus, old: None, ordered: false }),
    ];
    p
}

#[test]
fn a_program() {
    check(
        &program(),
        expect![[r#"
            program k_f16 for sm_80
            dims N
            parameters
                x: wide = address of x
                N: index = dim N
                x_pitch: index = stride of x on axis 0
                alpha: f32 = argument 1
                reciprocal: index = computed 99 / N
            tensors
                x: mut f16 (N, 16) of argument 0
            launch
                blocks [N, 1, 1]
                threads [64, 1, 1], as stated to nvcc
                at least 2 blocks a multiprocessor
                check N < 9 (require "N   < 9")
                check !(address of x) (x aligned to 16 bytes)
            shared: 256 bytes
                s: f32[64] at byte 0, aligned to 16, scratch
            body
                let row: wide = wide(thread.x) * x_pitch
                let mut acc: f32
                local h: f16[8]
                shared s
                for mut i: index in 0..quotient(thread.x, 8, reciprocal) step 8 unroll by 2 {
                    h[0; 8] = load x[row; 8] if thread.x < 8
                    acc = -0.5f32 - (f32((x[row] guarded by thread.x < 8)) - -0.5f32)
                }
                let other: f32 = shfl_down(f32((x[row] guarded by thread.x < 8)), 1u32)
                barrier
                if thread.x < 8 {
                    s[thread.x] = -0.5f32
                } else {
                    store h[0; 8] to x[row; 8] guarded by thread.x < 8
                }
                (x[row] if thread.x < 8) = f32((x[row] guarded by thread.x < 8))
                atomic_add(s[thread.x], -0.5f32)
        "#]],
    );
}

#[test]
fn a_program_without_names() {
    check(
        &canonical(&program()),
        expect![[r#"
            program k_f16 for sm_80
            dims d0
            parameters
                arg0: wide = address of p0
                arg1: index = dim d0
                arg2: index = stride of p0 on axis 0
                arg3: f32 = argument 1
                arg4: index = computed 99 / d0
            tensors
                p0: mut f16 (d0, 16) of argument 0
            launch
                blocks [d0, 1, 1]
                threads [64, 1, 1], as stated to nvcc
                at least 2 blocks a multiprocessor
                check d0 < 9 (require)
                check !(address of p0) (p0 aligned to 16 bytes)
            shared: 256 bytes
                sh0: f32[64] at byte 0, aligned to 16, scratch
            body
                let r0: wide = wide(thread.x) * arg2
                let mut r1: f32
                local l0: f16[8]
                shared sh0
                for mut r2: index in 0..quotient(thread.x, 8, arg4) step 8 unroll by 2 {
                    l0[0; 8] = load p0[r0; 8] if thread.x < 8
                    r1 = -0.5f32 - (f32((p0[r0] guarded by thread.x < 8)) - -0.5f32)
                }
                let r3: f32 = shfl_down(f32((p0[r0] guarded by thread.x < 8)), 1u32)
                barrier
                if thread.x < 8 {
                    sh0[thread.x] = -0.5f32
                } else {
                    store l0[0; 8] to p0[r0; 8] guarded by thread.x < 8
                }
                (p0[r0] if thread.x < 8) = f32((p0[r0] guarded by thread.x < 8))
                atomic_add(sh0[thread.x], -0.5f32)
        "#]],
    );
}

#[test]
fn the_canonical_text_knows_what_matters_and_nothing_else() {
    let same = |change: fn(&mut Program)| {
        let mut changed = program();
        change(&mut changed);
        canonical(&changed) == canonical(&program())
    };
    // Names of the author's, places, remarks.
    assert!(same(|p| p.regs[RegId::from_u32(0)].name = "r".into()));
    assert!(same(|p| p.dims[0] = "rows".into()));
    assert!(same(|p| p.params[2].name = "pitch".into()));
    assert!(same(|p| p.source.file = "elsewhere.rs".into()));
    assert!(same(|p| p.remarks.push(Remark {
        kind: RemarkKind::Choice,
        text: "why".into(),
        span: SpanId::from_u32(0)
    })));
    assert!(same(|p| p.body[0].span = SpanId::from_u32(7)));
    // Everything else.
    assert!(!same(|p| p.name = "k_bf16".into()));
    assert!(!same(|p| p.target = Target::Sm90a));
    assert!(!same(|p| p.params.swap(1, 2)));
    assert!(!same(|p| p.params[3].ty = ValueType::Element(Dtype::I32)));
    assert!(!same(|p| p.tensors[0].mutable = false));
    assert!(!same(|p| p.launch.threads[0] = 32));
    assert!(!same(|p| p.launch.states_threads = false));
    assert!(!same(|p| p.launch.min_blocks = None));
    assert!(!same(|p| p.launch.dependent = Some(Trigger::AtStart)));
    assert!(!same(|p| p.tensors[0].independent = true));
    assert!(!same(|p| p.regs[RegId::from_u32(1)].mutable = false));
    assert!(!same(|p| p.locals[LocalId::from_u32(0)].len = 4));
    assert!(!same(|p| p.shared[SharedId::from_u32(0)].align = 32));
    assert!(!same(|p| p.values[ValueId::from_u32(2)].ty = ValueType::Index));
    assert!(!same(|p| p.values[ValueId::from_u32(4)].kind = ValueKind::Int(-0x8000)));
    assert!(!same(|p| {
        let OpKind::For { unroll, .. } = &mut p.body[4].kind else { unreachable!() };
        *unroll = Unroll::Full;
    }));
    assert!(!same(|p| {
        let OpKind::Store { memory, .. } = &mut p.body[8].kind else { unreachable!() };
        memory.guard = None;
    }));
}
