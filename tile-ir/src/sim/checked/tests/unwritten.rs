//! Outputs that a launch does not write whole.

use super::build::*;
use super::{clean, finds};
use crate::ir::*;
use crate::lowered::*;
use crate::sim::Argument;
use crate::sim::checked::{CheckedOptions, run};
use expect_test::expect;

/// `y[bx * pitch + tx] = 1` where it is below the extent of `y`, in blocks of 32 threads.
fn program(blocks: i64, pitch: i64, extent: i64, output: bool) -> Program {
    let mut b = Build::threads(32).blocks(blocks);
    let y = b.tensor("y", Dtype::F32, 1, true);
    let (tx, bx, pitch, one, end) = (b.tx(), b.bx(), b.int(pitch), b.float(1.0), b.int(extent));
    let base = b.mul(bx, pitch);
    let element = b.add(base, tx);
    let inside = b.less(element, end);
    b.if_(inside, |b| b.store(y, element, one));
    let mut program = b.finish();
    program.tensors[0].output = output;
    program
}

fn y(extent: i64) -> impl Fn() -> Vec<Argument> {
    move || vec![floats(&[extent], |_| 0.0)]
}

#[test]
fn a_tail_that_no_block_covers() {
    clean(&program(2, 32, 50, true), &y(50));
    finds(
        &program(1, 32, 50, true),
        &y(50),
        &[307],
        expect![[r#"
        TK0307 line 2: 18 of the 50 elements of `y` were not written | no store reached y[32]; after the launch it holds what it held before | the grid has [1, 1, 1] blocks of [32, 1, 1] threads | help: let blocks and threads cover `y`; where the rest is meant to stay as it is, write `partial(y)` in `#[tile_kernel(..)]`
    "#]],
    );
    // Tensors that are not outputs, and launches that ask for nothing.
    clean(&program(1, 32, 50, false), &y(50));
    let options = CheckedOptions { whole_outputs: false, ..CheckedOptions::default() };
    assert!(run(&program(1, 32, 50, true), &y(50)(), &options).unwrap().is_clean());
}

#[test]
fn a_grid_without_blocks() {
    finds(
        &program(0, 32, 50, true),
        &y(50),
        &[307],
        expect![[r#"
        TK0307 line 2: no thread wrote to `y` | no store reached y[0]; after the launch it holds what it held before | the grid has [0, 1, 1] blocks of [32, 1, 1] threads | help: let blocks and threads cover `y`; where the rest is meant to stay as it is, write `partial(y)` in `#[tile_kernel(..)]`
    "#]],
    );
    clean(&program(0, 32, 0, true), &y(0));
    clean(&program(0, 32, 50, false), &y(50));
}

#[test]
fn a_hole_between_blocks() {
    finds(
        &program(2, 33, 65, true),
        &y(65),
        &[307],
        expect![[r#"
        TK0307 line 2: 1 of the 65 elements of `y` were not written | no store reached y[32]; after the launch it holds what it held before | the grid has [2, 1, 1] blocks of [32, 1, 1] threads | help: let blocks and threads cover `y`; where the rest is meant to stay as it is, write `partial(y)` in `#[tile_kernel(..)]`
    "#]],
    );
}

#[test]
fn what_is_left_out_after_a_mistake_is_its_consequence() {
    // The second block begins a hole behind the first and leaves the tensor: of the hole nothing is said.
    finds(
        &program(2, 33, 65, true),
        &y(50),
        &[301],
        expect![[r#"
        TK0301 line 2: index out of bounds of `y` | thread 17 writes element 50; `y` has 50 elements | in block 1, barrier interval 0; replay with seed 0 | seen 15 times in this run
    "#]],
    );
}

#[test]
fn a_view_is_what_its_strides_say() {
    let pitched = || {
        let Argument::Tensor(mut t) = floats(&[64], |_| 0.0) else { unreachable!() };
        (t.shape, t.strides) = (vec![4, 8], vec![16, 1]);
        vec![Argument::Tensor(t)]
    };
    let rows = |count: i64| {
        let mut b = Build::threads(32);
        let y = b.tensor("y", Dtype::F32, 2, true);
        let (tx, eight, sixteen, one, count) = (b.tx(), b.int(8), b.int(16), b.float(1.0), b.int(count));
        let row = b.binary(BinaryOp::Div, tx, eight);
        let column = b.binary(BinaryOp::Rem, tx, eight);
        let start = b.mul(row, sixteen);
        let element = b.add(start, column);
        let inside = b.less(row, count);
        b.if_(inside, |b| b.store(y, element, one));
        let mut program = b.finish();
        program.tensors[0].output = true;
        program
    };
    clean(&rows(4), &pitched);
    let report = run(&rows(3), &pitched(), &CheckedOptions::default()).unwrap();
    assert!(report.render(&rows(3)).contains("no store reached y[[3, 0]]"), "{}", report.render(&rows(3)));
}
