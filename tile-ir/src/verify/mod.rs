//! The rules a kernel obeys.
//!
//! [`structure`] is what every pass relies on, so that it may index and recurse freely. It is checked when a kernel is
//! decoded; the parser never builds anything else, except where rustc itself rejects the program.
//!
//! - every id points into its table; every span exists
//! - tensors have rank 1 to 4, arrays 1 to 3, accesses and tiles theirs, and as many indices as axes; at most 3 grid and thread axes,
//!   bound to variables of that kind
//! - instances have one allowed dtype a type parameter and one value a const parameter
//! - expressions are acyclic, at most 256 deep, and bounded in size when shared parts are written out; so are immutable
//!   variables replaced by their values
//! - every statement stands in at most one place; bodies are at most 64 deep, where 256 `else if`s
//!   count for nothing
//! - only variables that may be assigned are; only `&mut` tensors are written; only tensors are streamed or independent
//! - a specialised dim is a tensor's extent, is listed once, and at least one variant is kept
//! - functions have their arity; literals are within 2^53
//!
//! [`kernel`] is the language's rules that no instance is needed for; each is reported on the author's line.
//!
//! - there is at least one instance, one thread axis and one target (`extents`)
//! - grid extents, those of `persistent`, `require`s and panels are made of dims, constants and scalar parameters, and are computed of integers and conditions
//!   (`extents`)
//! - thread, array, `Fixed` and unrolling extents are made of constants and specialised dims (`extents`)
//! - shared arrays are allocated outside of loops and of conditionals that are not constant (`placement`)
//! - a `parallel` body has no barrier, collective, tile operation, allocation or further `parallel`, and assigns only
//!   its own variables (`placement`)
//! - the axis of a reduction is a thread binding; its operand is a number (`operands`)
//! - atomics are on shared or global elements of a dtype that has them (`operands`)
//! - a `copy` touches an array of the kernel, and converts numbers only to numbers (`operands`)
//! - the loads of a pipelined loop lead its body, and fill the same elements in every iteration (`pipeline`)
//! - nothing else touches the arrays that they fill, or, where products are computed and the loads fill them whole, they are
//!   filled again before they are read after the loop (`slots`)
//! - a fragment's elements are touched in `parallel` loops at the loop's own indices; it is copied whole; a `gemm` sums
//!   into one; `persistent` is alone and last; `cluster` and `use_swizzle` fit the grid (`tiles`)
//! - `device_print` has an argument for each `{}` (`operands`)
//!
//! `program` (with the feature `sim`) is what holds in every lowered program, whatever the kernel: what it refuses is a mistake of the compiler.

mod extents;
mod operands;
mod pipeline;
mod placement;
#[cfg(any(test, feature = "sim"))]
pub mod program;
mod slots;
mod structure;
mod tiles;

pub use structure::structure;

use crate::diag::Diagnostic;
use crate::ir::Kernel;

/// Checks the rules that need no instance. The kernel must be well-formed, see [`structure`].
pub fn kernel(kernel: &Kernel) -> Vec<Diagnostic> {
    let mut all = Vec::new();
    extents::check(kernel, &mut all);
    placement::check(kernel, &mut all);
    operands::check(kernel, &mut all);
    pipeline::check(kernel, &mut all);
    slots::check(kernel, &mut all);
    tiles::check(kernel, &mut all);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::report;
    use crate::ir::*;
    use crate::testing::parsed;
    use expect_test::{Expect, expect};

    fn check(kernel: &str, expected: Expect) {
        expected.assert_eq(&report(&super::kernel(&parsed(kernel))));
    }

    const SMALL: &str = "
        kernel k(x: &mut Tensor<f32, (N,)>) {
            let [bx] = blocks([N]);
            let [t] = threads([32]);
            let mut s = alloc_shared::<f32>([32]);
            s[t] = 1.0f32;
            if t < N {
                x[t] = s[t];
            }
        }";

    #[test]
    fn a_kernel_that_keeps_the_rules() {
        check(SMALL, expect![[""]]);
    }

    #[test]
    fn structure_finds_what_passes_rely_on() {
        let wrong = |change: fn(&mut Kernel)| {
            let mut kernel = parsed(SMALL);
            change(&mut kernel);
            structure(&kernel).unwrap_err()
        };
        let found = [
            wrong(|k| k.exprs[ExprId::from_u32(0)].kind = ExprKind::Var(VarId::from_u32(99))),
            wrong(|k| k.exprs[ExprId::from_u32(0)].kind = ExprKind::Unary(UnaryOp::Not, ExprId::from_u32(0))),
            wrong(|k| k.exprs[ExprId::from_u32(0)].kind = ExprKind::Math(MathFn::Fma, vec![])),
            wrong(|k| k.exprs[ExprId::from_u32(0)].kind = ExprKind::Int(i64::MIN)),
            wrong(|k| k.exprs[ExprId::from_u32(0)].span = SpanId::from_u32(9999)),
            wrong(|k| k.accesses[AccessId::from_u32(0)].indices.clear()),
            wrong(|k| k.body.push(k.body[0])),
            wrong(|k| {
                let own = *k.body.last().unwrap();
                k.stmts[own].kind = StmtKind::If { cond: ExprId::from_u32(0), then: vec![own], otherwise: vec![] };
            }),
            wrong(|k| {
                k.instances.push(Instance {
                    dtypes: vec![Dtype::F16],
                    consts: vec![],
                    dims: vec![],
                    absent: vec![],
                    class: crate::ir::Class::WIDEST,
                })
            }),
            wrong(|k| k.threads.push(k.threads[0].clone())),
            wrong(|k| {
                let ParamKind::Tensor { mutable, .. } = &mut k.params[ParamId::from_u32(0)].kind else { return };
                *mutable = false;
            }),
        ];
        expect![[r#"
            [
                "v99 does not exist",
                "e0 contains itself",
                "fma with 0 operands",
                "e0 is a literal out of range",
                "sp9999 does not exist",
                "a0 has 0 indices for 1 axes",
                "s0 stands in two places",
                "s3 stands in two places",
                "an instance has the wrong number of parameters",
                "v1 is not bound to its axis",
                "p0 is written but is not `&mut`",
            ]
        "#]]
        .assert_debug_eq(&found);
    }

    #[test]
    fn shared_parts_may_not_grow_without_bound() {
        let mut kernel = parsed(SMALL);
        let span = SpanId::from_u32(0);
        let mut e = kernel.exprs.push(Expr { kind: ExprKind::Int(1), ty: Type::Index, span });
        for _ in 0..40 {
            e = kernel.exprs.push(Expr { kind: ExprKind::Binary(BinaryOp::Add, e, e), ty: Type::Index, span });
        }
        assert!(structure(&kernel).unwrap_err().contains("too large"));
        // And through variables, which passes look through.
        let doubled: String = (0..40).map(|i| format!("let a{} = a{i} + a{i};\n", i + 1)).collect();
        let text = format!("kernel k() {{ let [t] = threads([32]); let a0 = 1;\n{doubled} }}");
        assert!(crate::text::parse_kernel(&text).unwrap_err().message.contains("too large"));
    }

    /// Damaged bytes decode to an error or to a kernel that every pass here takes without a panic.
    #[test]
    fn damaged_bytes_never_panic() {
        let bytes = crate::codec::encode(&parsed(SMALL));
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as usize
        };
        let mut accepted = 0;
        for round in 0..4000 {
            let mut damaged = bytes.clone();
            for _ in 0..1 + round % 3 {
                let at = 5 + random() % (damaged.len() - 5);
                damaged[at] = if random() % 2 == 0 { random() as u8 } else { damaged[at].wrapping_add(1) };
            }
            if let Ok(kernel) = crate::codec::decode(&damaged) {
                accepted += 1;
                crate::analysis::check(&kernel);
                for instance in &kernel.instances {
                    if let Ok(bound) = crate::lower::bind(&kernel, instance) {
                        crate::analysis::analyse(&bound, Target::Sm90a);
                    }
                }
            }
        }
        assert!(accepted > 100, "{accepted}");
    }

    #[test]
    fn extents_and_contracts() {
        check(
            r"
            kernel k() {
                let [t] = threads([32]);
                let [bx] = blocks([t]);
            }
        ",
            expect![[r#"
                [TK0806] a grid extent is made of dims, constants and scalar parameters only
                  at: this is not known before the launch
            "#]],
        );
        check(
            r"
            kernel k(
                x: &mut Tensor<f32, (N,)>,
            ) {
                let [bx] = blocks([N]);
                let [t] = threads([32]);
                let mut s = alloc_shared::<f32>([N]);
                s[t] = 1.0f32;
                if t < N {
                    x[t] = s[t];
                }
            }
        ",
            expect![[r#"
                [TK0806] an extent of `s` must be a constant
                  at: `N` is a dynamic dim, known at launch only
                  help: use literals, const parameters, `T::BITS` and immutable `let`s of these
            "#]],
        );
        check(
            r"
            kernel k(
                n_: &Tensor<f32, (N,)>,
            ) {
                let [bx] = blocks([N]);
                let [] = threads([]);
            }
        ",
            expect![[r#"
                [TK0502] the kernel binds no threads
                  help: begin the body with `let [tx] = threads([128]);`
            "#]],
        );
    }

    #[test]
    fn placement_of_shared_arrays() {
        check(
            r"
            kernel k(
                x: &mut Tensor<f32, (N,)>,
            ) {
                let [bx] = blocks([N]);
                let [t] = threads([32]);
                let mut s = alloc_shared::<f32>([32]);
                s[t] = 1.0f32;
                if t < N {
                    x[t] = s[t];
                }
                for k in 0..N {
                    let mut late = alloc_shared::<f32>([4]);
                }
            }
        ",
            expect![[r#"
                [TK0804] the shared array `late` is allocated once for the block
                  label: but it stands in this loop
                  help: allocate it before the loop or conditional
            "#]],
        );
        // A condition that every instance decides is none.
        check(
            r"
            kernel k(
                x: &mut Tensor<f32, (N,)>,
            ) {
                let [bx] = blocks([N]);
                let [t] = threads([32]);
                let mut s = alloc_shared::<f32>([32]);
                s[t] = 1.0f32;
                if t < N {
                    x[t] = s[t];
                }
                if true {
                    let mut late = alloc_shared::<f32>([4]);
                }
            }
        ",
            expect![[""]],
        );
    }

    #[test]
    fn parallel_bodies() {
        check(
            r"
            kernel k(
                x: &mut Tensor<f32, (N,)>,
            ) {
                let [bx] = blocks([N]);
                let [t] = threads([32]);
                let mut s = alloc_shared::<f32>([32]);
                s[t] = 1.0f32;
                if t < N {
                    x[t] = s[t];
                }
                let mut sum: f32 = 0.0f32;
                for [i] in parallel([64]) {
                    sum = 1.0f32;
                    sync_threads();
                }
            }
        ",
            expect![[r#"
                [TK0804] `sum` is declared outside of the `parallel` loop and assigned inside
                  label: the loop
                  help: its elements run on different threads: store to an array, or reduce afterwards
                [TK0804] a barrier cannot stand in a `parallel` loop
                  label: the loop
                  help: its elements run on different threads, not all at the same time: move it out of the loop
            "#]],
        );
    }

    #[test]
    fn operands_of_reductions_atomics_and_prints() {
        check(
            r#"
            kernel k(
                x: &mut Tensor<f32, (N,)>,
                h: &mut Tensor<f16, (N,)>,
            ) {
                let [bx] = blocks([N]);
                let [t] = threads([32]);
                let mut s = alloc_shared::<f32>([32]);
                s[t] = 1.0f32;
                if t < N {
                    x[t] = s[t];
                }
                let row: usize = 0;
                let sum: f32 = thread_allreduce(Sum, 1.0f32, row);
                atomic_add(&mut h[0], 1.0f16);
                let mut l = alloc_local::<i32>([1]);
                atomic_max(&mut l[0], 1i32);
                device_print("{} and {}", 1i32);
            }
        "#,
            expect![[r#"
                [TK0804] `row` is not a thread index
                  label: bound here
                  help: the axis is one of the names bound by `let [..] = threads([..]);`
                [TK0103] `atomic_add` does not exist for f16
                  help: use an element of i32, u32, f32
                [TK0804] `l` is a local array: no other thread sees it
                  help: use a plain assignment
                [TK0803] device_print: 2 `{}` and 1 arguments
                  help: give one argument for each `{}`
            "#]],
        );
    }

    #[test]
    fn transposes_of_anything_but_a_stored_fragment() {
        check(
            r"
            kernel k(
                x: &mut Tensor<f32, (N,)>,
                a: &Tensor<f32, (N,)>,
            ) {
                let [bx] = blocks([N]);
                let [t] = threads([32]);
                let mut s = alloc_shared::<f32>([32]);
                s[t] = 1.0f32;
                if t < N {
                    x[t] = s[t];
                }
                let mut s2 = alloc_shared::<f32>([8]);
                copy(a.t(), &mut s2);
            }
        ",
            expect![[r#"
                [TK0804] copy: only a fragment that goes to a tensor is transposed
                  help: store the fragment, or multiply the transpose of a shared array: `gemm(a_s.t(), &b_s, &mut acc)`
            "#]],
        );
    }

    #[test]
    fn copies_between_tensors() {
        check(
            r"
            kernel k(
                x: &mut Tensor<f32, (N,)>,
                a: &Tensor<f32, (N,)>,
                b: &mut Tensor<f32, (N,)>,
            ) {
                let [bx] = blocks([N]);
                let [t] = threads([32]);
                let mut s = alloc_shared::<f32>([32]);
                s[t] = 1.0f32;
                if t < N {
                    x[t] = s[t];
                }
                copy(a.at([0]), b.at_mut([0]));
            }
        ",
            expect![[r#"
                [TK0804] copy: from one tensor to another, every thread would copy the whole tile
                  help: copy through a shared or local array, or use `parallel`
            "#]],
        );
    }
}
