//! Forms that any program may have: attributes, functions, optional tensors, clusters and persistent grids around a body that
//! knows nothing of them.
//!
//! All but optional tensors leave the results as they are, so the program without them is a variant of the one with them.

use super::Draw;
use crate::programs::text::outlined;
use crate::programs::tree::*;

/// The program in some further forms.
pub fn vary(draw: &mut Draw, program: Program) -> Program {
    let mut varied = program.clone();
    for _ in 0..draw.pick(&[0, 0, 1, 1, 2, 3]) {
        match draw.range(0, 13) {
            0..=2 => function(draw, &mut varied),
            3 => specialise(draw, &mut varied),
            4 => attributes(draw, &mut varied),
            5 => cluster(draw, &mut varied),
            6 => persistent(draw, &mut varied),
            7 => panel(draw, &mut varied),
            8 => swizzle(draw, &mut varied),
            9..=11 => outline(draw, &mut varied),
            _ => optional(draw, &mut varied),
        }
    }
    if !varied.optional.is_empty() {
        // Other results: the variants would need the tensor too.
        varied.variants.clear();
    } else if varied != program {
        varied.variants.push(Program { variants: Vec::new(), ..program });
    }
    varied
}

/// Visits every statement but those of vectorised loops, which hold loads and stores alone.
fn each_statement(body: &mut [Stmt], f: &mut dyn FnMut(&mut Stmt)) {
    for stmt in body {
        f(stmt);
        if !matches!(stmt, Stmt::For { kind: Loop::Vectorized, .. }) {
            stmt.bodies_mut().into_iter().for_each(|body| each_statement(body, f));
        }
    }
}

/// Each statement but those of pipelined loops, which begin with statements that only load.
fn each_computing(body: &mut [Stmt], f: &mut dyn FnMut(&mut Stmt)) {
    for stmt in body {
        f(stmt);
        if !matches!(stmt, Stmt::For { kind: Loop::Vectorized | Loop::Pipelined { .. }, .. }) {
            stmt.bodies_mut().into_iter().for_each(|body| each_computing(body, f));
        }
    }
}

/// The value that a statement computes, where a function may compute it.
fn value_of(stmt: &mut Stmt) -> Option<&mut Expr> {
    match stmt {
        Stmt::Let { value, .. } | Stmt::Assign { value, op: None, .. } | Stmt::Store { value, op: None, .. } => {
            Some(value)
        }
        _ => None,
    }
}

/// A value becomes a `#[tile_fn]`'s: the names and elements that it is made of are arguments.
fn function(draw: &mut Draw, program: &mut Program) {
    let mut count = 0;
    each_statement(&mut program.body, &mut |stmt| count += i64::from(value_of(stmt).is_some_and(|e| is_movable(e))));
    if count == 0 {
        return;
    }
    let chosen = draw.range(0, count - 1);
    let name = format!("f{}", program.functions.len());
    let mut made = None;
    let mut next = 0;
    each_statement(&mut program.body, &mut |stmt| {
        let Some(value) = value_of(stmt).filter(|e| is_movable(e)) else { return };
        if next == chosen {
            let (mut params, mut args) = (Vec::<(String, Ty)>::new(), Vec::new());
            let mut inner = value.clone();
            take_leaves(&mut inner, &mut |leaf| {
                let at = args.iter().position(|a| a == leaf).unwrap_or_else(|| {
                    params.push((format!("a{}", args.len()), leaf.ty()));
                    args.push(leaf.clone());
                    args.len() - 1
                });
                *leaf = Expr::Name(params[at].0.clone(), params[at].1);
            });
            let ty = value.ty();
            *value = Expr::Apply { function: name.clone(), ty, args };
            made = Some((params, inner));
        }
        next += 1;
    });
    if let Some((params, value)) = made {
        let has_statement = draw.percent(40);
        program.functions.push(Function { name, params, value, has_statement });
    }
}

/// Replaces names and elements, outermost first.
fn take_leaves(expr: &mut Expr, f: &mut dyn FnMut(&mut Expr)) {
    match expr {
        Expr::Name(..) | Expr::Load { .. } => f(expr),
        Expr::Call(_, all) | Expr::Apply { args: all, .. } => all.iter_mut().for_each(|e| take_leaves(e, f)),
        Expr::Bin(_, a, b) => [a, b].into_iter().for_each(|e| take_leaves(e, f)),
        Expr::Neg(x) | Expr::Not(x) | Expr::Cast(_, x) => take_leaves(x, f),
        Expr::Choose { c, a, b, .. } => [c, a, b].into_iter().for_each(|e| take_leaves(e, f)),
        Expr::Int(_) | Expr::Lit(..) => {}
    }
}

/// Whether a value has an operator and an argument, and nothing in it is read only where a condition allows it: arguments are
/// computed in any case.
fn is_movable(value: &Expr) -> bool {
    let (mut leaves, mut is_guarded, mut applies) = (0, false, false);
    value.visit(&mut |e| {
        leaves += usize::from(matches!(e, Expr::Name(..) | Expr::Load { .. }));
        applies |= matches!(e, Expr::Apply { .. });
        let lazy: Vec<&Expr> = match e {
            Expr::Choose { lazy: true, a, b, .. } => vec![a, b],
            Expr::Bin(Op::And | Op::Or, _, b) => vec![b],
            _ => Vec::new(),
        };
        for part in lazy {
            part.visit(&mut |e| is_guarded |= matches!(e, Expr::Load { masked: false, .. }));
        }
    });
    let is_leaf = matches!(value, Expr::Name(..) | Expr::Load { .. } | Expr::Int(_) | Expr::Lit(..));
    leaves > 0 && leaves <= 12 && !is_leaf && !is_guarded && !applies
}

/// A dim of the tensors becomes a constant of the launch.
fn specialise(draw: &mut Draw, program: &mut Program) {
    let known = |name: &String| {
        let is_it = |e: &Extent| *e == Extent::Dim(name.clone());
        program.tensors.iter().any(|t| t.kind != Kind::Workspace && t.extents.iter().any(is_it))
    };
    let dims: Vec<String> = program.dims.iter().map(|(name, _)| name.clone()).filter(known).collect();
    if !dims.is_empty() && program.optional.is_empty() {
        let dim = draw.pick(&dims);
        if !program.specialized.contains(&dim) {
            program.specialized.push(dim);
        }
    }
}

/// `pdl`, `stream` and `min_blocks`.
fn attributes(draw: &mut Draw, program: &mut Program) {
    let read: Vec<String> = program
        .tensors
        .iter()
        .filter(|t| t.kind == (Kind::Tensor { mutable: false }))
        .map(|t| t.name.clone())
        .collect();
    let kind = draw.pick(&["pdl(independent = [", "stream("]);
    if !read.is_empty() && !program.options.iter().any(|o| o.starts_with(kind)) {
        let name = draw.pick(&read);
        program.options.push(format!("{kind}{name}{}", if kind == "stream(" { ")" } else { "])" }));
    }
}

/// Whether any statement is one of these.
fn has(program: &mut Program, is_it: impl Fn(&Stmt) -> bool) -> bool {
    let mut found = false;
    each_statement(&mut program.body, &mut |stmt| found |= is_it(stmt));
    found
}

/// Blocks in clusters that know nothing of each other, and whose number need not divide the grid.
fn cluster(draw: &mut Draw, program: &mut Program) {
    if program.cluster.is_empty() && !program.blocks.is_empty() {
        program.cluster = match program.blocks.len() {
            1 => draw.pick(&[vec![2], vec![4]]),
            2 => draw.pick(&[vec![2, 1], vec![1, 2], vec![2, 2]]),
            _ => draw.pick(&[vec![2, 1, 1], vec![1, 2, 1], vec![1, 1, 2]]),
        };
        program.hopper = true;
    }
}

/// The grid as tiles that the blocks of the device take one after the other.
fn persistent(draw: &mut Draw, program: &mut Program) {
    let is_fixed = |s: &Stmt| s.joins_cluster() || matches!(s, Stmt::Persistent { .. } | Stmt::LastArriver { .. });
    if program.blocks.is_empty() || has(program, is_fixed) {
        return;
    }
    let grid = std::mem::take(&mut program.blocks);
    let names = grid.iter().enumerate().map(|(axis, (name, _))| match name.as_str() {
        "_" => format!("p{axis}"),
        name => name.to_owned(),
    });
    let call = draw.pick(&["", "", ".contiguous()", ".per_sm(1)", ".per_sm(2)"]);
    let vars = names.collect();
    let extents = grid.into_iter().map(|(_, extent)| extent).collect();
    // Results in shared memory no longer take the place of operands: more than sm_80 may have.
    let shared = program.arrays.iter().filter(|a| matches!(a.kind, Kind::Shared { .. }));
    let bytes: i64 = shared.map(|a| program.shape(a).iter().product::<i64>() * a.ty.bytes() as i64).sum();
    program.hopper |= bytes > 40_000;
    let body = std::mem::take(&mut program.body);
    program.body = vec![Stmt::Persistent { vars, extents, call, body }];
}

/// Tiles of a grid of two axes in groups.
fn panel(draw: &mut Draw, program: &mut Program) {
    if program.panel.is_none() && program.blocks.len() == 2 {
        let panel = draw.pick(&[1, 2, 3, 4]);
        program.panel = Some(panel);
        if draw.percent(40) {
            program.scalars.push(("panel".into(), Ty::Index, panel as f64));
        }
    }
}

/// A shared array of two axes in another layout.
fn swizzle(draw: &mut Draw, program: &mut Program) {
    let fits = |a: &&mut Array| a.kind == (Kind::Shared { swizzle: None }) && a.extents.len() == 2;
    let count = program.arrays.iter_mut().filter(fits).count();
    if count > 0 {
        let chosen = draw.range(0, count as i64 - 1) as usize;
        let any = draw.pick(&["Auto", "None"]);
        let widest = draw.percent(50);
        if let Some(array) = program.arrays.iter_mut().filter(fits).nth(chosen) {
            // A row is whole spans of the layout; where it is several, rows come in groups of eight.
            let (rows, row) = match array.extents[..] {
                [Extent::Fixed(rows), Extent::Fixed(columns)] => (rows, columns * array.ty.bytes() as i64),
                _ => (0, 0),
            };
            let spans = [("B128", 128), ("B64", 64), ("B32", 32)];
            let fits = |span: i64| row > 0 && row % span == 0 && (row == span || rows % 8 == 0);
            let named = spans.iter().find(|(_, span)| widest && fits(*span));
            array.kind = Kind::Shared { swizzle: Some(named.map_or(any, |(name, _)| *name)) };
        }
    }
}

/// A statement becomes a `#[tile_fn]`'s, whose parameters are the tensors, arrays and values that it is made of.
fn outline(draw: &mut Draw, program: &mut Program) {
    let (mut count, mut known) = (0, 0);
    each_outlinable(&mut program.body, false, &mut |_| count += 1);
    outlined::each(&program.body, &mut |_, _| known += 1);
    if count == 0 {
        return;
    }
    let (chosen, name) = (draw.range(0, count - 1), format!("g{known}"));
    let mut next = 0;
    each_outlinable(&mut program.body, false, &mut |stmt| {
        if next == chosen {
            *stmt = Stmt::Outlined { name: name.clone(), body: vec![stmt.clone()] };
        }
        next += 1;
    });
}

/// Visits the statements that may be a function's: not the loads of a pipeline, nor what is in a vectorised loop.
fn each_outlinable(body: &mut [Stmt], is_pipelined: bool, f: &mut dyn FnMut(&mut Stmt)) {
    for stmt in body {
        let may_be = match stmt {
            Stmt::Outlined { .. } | Stmt::For { kind: Loop::Vectorized, .. } => continue,
            Stmt::Copy { .. } | Stmt::Fill { .. } | Stmt::For { .. } => !is_pipelined,
            Stmt::Parallel { .. } | Stmt::Store { .. } | Stmt::Reduce { .. } | Stmt::Gemm { .. } => true,
            _ => false,
        };
        let is_pipelined = is_pipelined || matches!(stmt, Stmt::For { kind: Loop::Pipelined { .. }, .. });
        stmt.bodies_mut().into_iter().for_each(|body| each_outlinable(body, is_pipelined, f));
        if may_be && !outlined::Free::of(std::slice::from_ref(stmt)).is_bound {
            f(stmt);
        }
    }
}

/// What a statement stores is the larger one of it and an element of a tensor, where the launch gives it.
fn optional(draw: &mut Draw, program: &mut Program) {
    // A kernel has either optional tensors or specialised dims (TK0805).
    if !program.optional.is_empty() || !program.specialized.is_empty() {
        return;
    }
    let takes_it = |stmt: &Stmt| match stmt {
        Stmt::Store { at, op: None, value, .. } => {
            value.ty() != Ty::Bool && at.first().is_some_and(|e| e.ty() == Ty::Index)
        }
        _ => false,
    };
    let mut count = 0;
    each_computing(&mut program.body, &mut |stmt| count += i64::from(takes_it(stmt)));
    let axes = program.tensors.iter().filter(|t| t.kind != Kind::Workspace).flat_map(|t| t.extents.clone());
    let dims: Vec<String> = axes.filter_map(|e| if let Extent::Dim(name) = e { Some(name) } else { None }).collect();
    if count == 0 || dims.is_empty() {
        return;
    }
    let (chosen, dim, how) = (draw.range(0, count - 1), draw.pick(&dims), draw.pick(&[Op::Max, Op::Min]));
    let mut next = 0;
    let mut ty = None;
    each_computing(&mut program.body, &mut |stmt| {
        if !takes_it(stmt) {
            return;
        }
        if next == chosen
            && let Stmt::Store { array, at, op, value, masked } = stmt
        {
            ty = Some(value.ty());
            let extra = Array::new("extra", Kind::Tensor { mutable: false }, value.ty(), &[]);
            let other = Expr::masked(&extra, vec![at[0].clone()]);
            let with = Stmt::Store {
                array: array.clone(),
                at: at.clone(),
                op: *op,
                value: Expr::bin(how, value.clone(), other),
                masked: *masked,
            };
            *stmt = Stmt::IfGiven { tensor: "extra".into(), then: vec![with], els: vec![stmt.clone()] };
            // Neither of its arms is the one that was chosen.
            next = i64::MIN;
        }
        next += 1;
    });
    if let Some(ty) = ty {
        program.tensor("extra", false, ty, &[&dim], Data::Integers(1));
        program.optional.push(("extra".into(), draw.percent(50)));
    }
}
