//! Products of f32 as tf32.

use super::*;

const TF32: Gemm = Gemm { tile: [32, 32, 16], dtype: Dtype::F32, out: Dtype::F32, precision: Precision::Tf32, ..SMALL };

/// The integers of [`element`], with bits below those of tf32 that must not count.
fn cluttered(seed: usize, i: usize) -> f32 {
    f32::from_bits(element(seed, i).to_bits() | (i as u32).wrapping_mul(2_654_435_761) >> 19)
}

fn cluttered_arguments(g: &Gemm, shape: [i64; 3]) -> Vec<Argument> {
    let [m, n, k] = shape;
    let mut all = arguments(g, shape);
    all[0] = tensor(Dtype::F32, &if g.stored[0] { [k, m] } else { [m, k] }, |i| cluttered(0, i));
    all[1] = tensor(Dtype::F32, &if g.stored[1] { [n, k] } else { [k, n] }, |i| cluttered(1, i));
    all
}

/// Both simulators drop the bits below tf32, and compute the product of the integers bit for bit.
fn drops_the_rest(g: &Gemm, shape: [i64; 3], target: Target) {
    let bound = gemm(g);
    let program = lower_bound(&crate::testing::bound(&bound), target).unwrap_or_else(|all| panic!("{g:?}: {all:#?}"));
    let multiplies = |op: &OpKind| {
        matches!(op, OpKind::Mma { atom: MmaAtom::M16n8k8Tf32, .. } | OpKind::Wgmma { dtype: Dtype::F32, .. })
    };
    assert!(count(&program.body, &multiplies) > 0);
    let expected = expected(g, shape);
    let fast = cluttered_arguments(g, shape);
    run_fast(&crate::testing::bound(&bound), &fast).unwrap_or_else(|e| panic!("{g:?} {shape:?}: {e}"));
    let c = fast.len() - 1;
    assert!(bits(&fast[c]) == expected, "fast, {g:?} {shape:?}");
    let checked = cluttered_arguments(g, shape);
    let options = CheckedOptions { clusters: 2, step_limit: 5_000_000, ..CheckedOptions::default() };
    let report = run_checked(&program, &checked, &options).unwrap_or_else(|e| panic!("{g:?} {shape:?}: {e}"));
    assert!(report.is_clean(), "{g:?} {shape:?}\n{}", report.render(&program));
    let wrong = bits(&checked[c]).iter().zip(&expected).position(|(a, b)| a != b);
    assert_eq!(wrong, None, "checked, {g:?} {shape:?}");
}

#[test]
fn every_layout_and_number_of_stages_is_right() {
    for stored in LAYOUTS {
        for stages in [1, 3] {
            drops_the_rest(&Gemm { stored, stages, ..TF32 }, [40, 48, 40], Target::Sm80);
        }
        drops_the_rest(&Gemm { stored, aligned: false, class: read(Width::Four), ..TF32 }, [37, 19, 23], Target::Sm80);
    }
}

#[test]
fn tiles_of_any_shape_are_right() {
    for (tile, threads) in [([64, 16, 8], 128), ([16, 64, 32], 64), ([32, 24, 24], 32), ([64, 48, 64], 64)] {
        for stored in LAYOUTS {
            drops_the_rest(&Gemm { tile, threads, stored, ..TF32 }, [72, 56, 72], Target::Sm80);
        }
    }
    for swizzle in [Swizzle::None, Swizzle::B32, Swizzle::B64].map(SwizzleRequest::Exactly) {
        for stored in LAYOUTS {
            drops_the_rest(&Gemm { swizzle, stored, ..TF32 }, [40, 40, 24], Target::Sm80);
        }
    }
}

/// A right operand of tf32 that is not K-major falls back to `mma.sync`, with a remark.
#[test]
fn right_operands_along_n_fall_back_on_hopper() {
    for stored in LAYOUTS.into_iter().filter(|[_, b_transposed]| !b_transposed) {
        let g = Gemm { stored, threads: 128, tile: [64, 64, 32], ..TF32 };
        drops_the_rest(&g, [72, 72, 40], Target::Sm90a);
        let program = lower_bound(&crate::testing::bound(&gemm(&g)), Target::Sm90a).unwrap();
        let fallback = program.remarks.iter().find(|r| r.kind == RemarkKind::Fallback).unwrap();
        assert!(fallback.text.contains("mma.sync") && fallback.text.contains("wgmma"), "{}", fallback.text);
    }
}

/// A left operand of tf32 that is not K-major is loaded word by word and multiplied by `wgmma`: by one warpgroup and by two, which share the
/// rows of a tile or its columns, one and two blocks of 64 rows each.
#[test]
fn left_operands_along_m_are_loaded_on_hopper() {
    for (tile, threads) in [([64, 64, 32], 128), ([128, 32, 8], 128), ([128, 64, 16], 256), ([64, 128, 32], 256)] {
        let g = Gemm { stored: [true, true], threads, tile, ..TF32 };
        drops_the_rest(&g, [72, 136, 40], Target::Sm90a);
        let program = lower_bound(&crate::testing::bound(&gemm(&g)), Target::Sm90a).unwrap();
        let from_registers =
            |op: &OpKind| matches!(op, OpKind::Wgmma { a: crate::lowered::WgmmaOperand::Registers(..), .. });
        assert!(count(&program.body, &from_registers) > 0, "{tile:?}");
        assert!(program.remarks.iter().any(|r| r.text.contains("loaded word by word")), "{tile:?}");
    }
}

/// Operands along K by `ldmatrix`, others word by word.
#[test]
fn words_are_loaded_where_matrices_cannot_be_transposed() {
    let big = Gemm { tile: [128, 128, 16], threads: 256, stages: 1, ..TF32 };
    let loads = |stored| {
        let program = lowered(&Gemm { stored, ..big });
        let matrices = count(&program.body, &|op| matches!(op, OpKind::LoadMatrix { transposed: false, .. }));
        let word = |local: &LocalId| {
            program.locals[*local].dtype == Dtype::F32 && program.locals[*local].name.ends_with("_words")
        };
        let words = |op: &OpKind| matches!(op, OpKind::Store { memory: crate::lowered::Memory { space: Space::Local(local), .. }, .. } if word(local));
        (matrices, count(&program.body, &words))
    };
    // Two steps of 8 along K, of 2 x 16 rows of a and 8 x 8 columns of b a warp: 2 + 4 loads of four words, 8 + 16 words.
    assert_eq!(loads([false, true]), (12, 0));
    assert_eq!(loads([true, false]), (0, 48));
    assert_eq!(loads([false, false]), (4, 32));
    assert_eq!(loads([true, true]), (8, 16));
}

/// A planted mistake: a product that takes its words from elsewhere is not the product.
#[test]
fn a_word_of_the_wrong_element_is_found() {
    fn shift(program: &mut Program, ops: &mut Vec<Op>, done: &mut bool) {
        for op in ops {
            match &mut op.kind {
                OpKind::LoadMatrix { memory, .. } if !*done => {
                    // 16 bytes further along K.
                    let span = memory.span;
                    let four = program.values.push(Value { kind: ValueKind::Int(4), ty: ValueType::Index, span });
                    let kind = ValueKind::Binary(BinaryOp::BitXor, memory.offset, four);
                    memory.offset = program.values.push(Value { kind, ty: ValueType::Index, span });
                    *done = true;
                }
                OpKind::If { then, otherwise, .. } => {
                    shift(program, then, done);
                    shift(program, otherwise, done);
                }
                OpKind::For { body, .. } => shift(program, body, done),
                _ => {}
            }
        }
    }
    let g = Gemm { stages: 1, ..TF32 };
    let mut program = lowered(&g);
    let (mut body, mut done) = (std::mem::take(&mut program.body), false);
    shift(&mut program, &mut body, &mut done);
    program.body = body;
    assert!(done);
    let args = cluttered_arguments(&g, [32, 32, 16]);
    let report = run_checked(&program, &args, &CheckedOptions::default()).unwrap();
    assert!(report.is_clean(), "{}", report.render(&program));
    assert!(bits(args.last().unwrap()) != expected(&g, [32, 32, 16]));
}

#[test]
fn what_tensor_cores_cannot_multiply_is_refused() {
    let text = |g: &Gemm| match lower_bound(&crate::testing::bound(&gemm(g)), Target::Sm80) {
        Ok(_) => String::new(),
        Err(all) => all.iter().map(|d| format!("{} {} {} {:?}", d.code, d.message, d.at, d.help)).collect(),
    };
    assert_eq!(text(&TF32), "");
    let half = text(&Gemm { dtype: Dtype::F16, ..TF32 });
    assert!(half.starts_with("TK0103 gemm: `.tf32()` of f16 operands"), "{half}");
    let depth = text(&Gemm { tile: [32, 32, 12], ..TF32 });
    assert!(depth.starts_with("TK0205 gemm: `.tf32()` of 12 along K") && depth.contains("tiles of 16"), "{depth}");
    let rows = text(&Gemm { tile: [8, 32, 16], ..TF32 });
    assert!(rows.contains("TK0205") && rows.contains("tile of 8 x 32"), "{rows}");
}
