//! Programs that failed once, made small: each for a mistake that was mended.

use super::execute::examine;
use super::tree::*;

/// `y[i] = x[i]`, or the larger one of it and an optional tensor's element.
fn with_optional(is_given: bool, options: &[&str]) -> Program {
    let mut program = Program::new("optional", "found");
    program.dims.push(("N".into(), 40));
    program.blocks.push(("b".into(), Expr::ceil_div(Expr::index("N"), 32)));
    program.threads.push(("t".into(), 32));
    let x = program.tensor("x", false, Ty::F32, &["N"], Data::Integers(3));
    program.tensor("y", true, Ty::F32, &["N"], Data::Poison);
    let extra = program.tensor("extra", false, Ty::F32, &["N"], Data::Integers(3));
    program.optional.push(("extra".into(), is_given));
    program.options = options.iter().map(|o| (*o).to_owned()).collect();
    let i = || vec![Expr::index("b").times(32).plus(Expr::index("t"))];
    let store = |value: Expr| Stmt::Store { array: "y".into(), at: i(), op: None, value, masked: true };
    let own = || Expr::masked(&x, i());
    let larger = Expr::bin(Op::Max, own(), Expr::masked(&extra, i()));
    program.body = vec![Stmt::IfGiven { tensor: "extra".into(), then: vec![store(larger)], els: vec![store(own())] }];
    program
}

#[test]
fn a_tensor_that_is_left_out_may_be_streamed_and_independent() {
    for options in
        [&["stream(extra)"][..], &["pdl(independent = [extra])"], &["stream(extra)", "pdl(independent = [x])"]]
    {
        for is_given in [true, false] {
            let program = with_optional(is_given, options);
            let agreed = examine(&program, 7, 2).unwrap_or_else(|e| panic!("{options:?}, {is_given}: {}", e.detail));
            assert_eq!(agreed.lowered.len(), 2, "both targets");
        }
    }
}
