//! Statements as the text of a `#[tile_fn]`, and of its call.

use super::{Lines, Printer, Source, is_about};
use crate::programs::tree::*;

/// Visits the outlined statements of a body: they hold no others.
pub fn each<'a>(body: &'a [Stmt], f: &mut dyn FnMut(&'a str, &'a [Stmt])) {
    for stmt in body {
        match stmt {
            Stmt::Outlined { name, body } => f(name, body),
            other => other.bodies().into_iter().for_each(|inner| each(inner, f)),
        }
    }
}

/// What statements are made of and do not declare.
#[derive(Default)]
pub struct Free {
    /// Tensors and arrays, and whether they are written.
    pub arrays: Vec<(String, bool)>,
    /// Names of values.
    pub values: Vec<(String, Ty)>,
    /// The functions that they call.
    calls: Vec<String>,
    /// The optional tensors that they ask for.
    asked: Vec<String>,
    /// What they declare.
    declared: Vec<String>,
    /// Whether there is something that a function of its own cannot hold.
    pub is_bound: bool,
}

impl Free {
    /// What is free in these statements.
    pub fn of(body: &[Stmt]) -> Free {
        let mut free = Free::default();
        free.statements(body);
        free
    }

    fn array(&mut self, name: &str, written: bool) {
        match self.arrays.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known |= written,
            None => self.arrays.push((name.into(), written)),
        }
    }

    fn value(&mut self, value: &Expr) {
        value.visit(&mut |e| match e {
            Expr::Load { array, .. } => self.array(array, false),
            Expr::Name(name, ty)
                if !self.declared.contains(name) && !self.values.iter().any(|(known, _)| known == name) =>
            {
                self.values.push((name.clone(), *ty));
            }
            Expr::Apply { function, .. } if !self.calls.contains(function) => self.calls.push(function.clone()),
            _ => {}
        });
    }

    fn tile(&mut self, tile: &Tile, written: bool) {
        match tile {
            Tile::Whole(name) | Tile::Transposed(name) => self.array(name, written),
            Tile::At(name, at) => {
                self.array(name, written);
                at.iter().for_each(|e| self.value(e));
            }
            Tile::Span(name, spans) => {
                self.array(name, written);
                spans.iter().flat_map(|(a, b)| [a, b]).for_each(|e| self.value(e));
            }
        }
    }

    fn statements(&mut self, body: &[Stmt]) {
        for stmt in body {
            match stmt {
                Stmt::Let { name, value, .. } => {
                    self.value(value);
                    self.declared.push(name.clone());
                }
                Stmt::Assign { name, value, .. } => {
                    self.is_bound |= !self.declared.contains(name);
                    self.value(value);
                }
                Stmt::Store { array, at, value, .. } => {
                    at.iter().for_each(|e| self.value(e));
                    self.value(value);
                    self.array(array, true);
                }
                Stmt::If { cond, .. } => self.value(cond),
                Stmt::IfGiven { tensor, .. } => {
                    self.array(tensor, false);
                    self.asked.push(tensor.clone());
                }
                Stmt::For { var, from, to, kind, .. } => {
                    // What a function is given is no constant.
                    let is_const = matches!(from, Expr::Int(_)) && matches!(to, Expr::Int(_));
                    self.is_bound |= match kind {
                        Loop::Pipelined { .. } => true,
                        Loop::Unroll | Loop::Vectorized => !is_const,
                        Loop::Plain | Loop::Partly(_) => false,
                    };
                    [from, to].into_iter().for_each(|e| self.value(e));
                    self.declared.push(var.clone());
                }
                Stmt::Parallel { vars, .. } => self.declared.extend(vars.iter().cloned()),
                Stmt::Copy { from, to, .. } => {
                    self.tile(from, false);
                    self.tile(to, true);
                }
                Stmt::Fill { array, value } => {
                    value.iter().for_each(|e| self.value(e));
                    self.array(array, true);
                }
                Stmt::Reduce { from, to, .. } => {
                    self.array(from, false);
                    self.array(to, true);
                }
                Stmt::Gemm { a, b, acc, .. } => {
                    self.array(&a.0, false);
                    self.array(&b.0, false);
                    self.array(acc, true);
                }
                _ => self.is_bound = true,
            }
            stmt.bodies().into_iter().for_each(|inner| self.statements(inner));
        }
    }

    /// Whether the type is of something that these statements are made of.
    fn is_about(&self, program: &Program, body: &[Stmt], ty: Ty) -> bool {
        let is_it = |name: &str| array(program, name).is_some_and(|a| a.ty == ty);
        let mut found = self.arrays.iter().any(|(name, _)| is_it(name)) || self.values.iter().any(|(_, t)| *t == ty);
        found |= program.functions.iter().any(|f| self.calls.contains(&f.name) && is_about(f, ty));
        let mut body = body.to_vec();
        crate::shrink::program::each_expression(&mut body, &mut |e| found |= e.ty() == ty);
        found
    }
}

fn array<'p>(program: &'p Program, name: &str) -> Option<&'p Array> {
    program.tensors.iter().chain(&program.arrays).find(|a| a.name == name)
}

/// The dims that the tensors among the parameters bring along.
fn known(program: &Program, free: &Free) -> Vec<String> {
    let tensors = free.arrays.iter().filter_map(|(name, _)| array(program, name));
    let extents = tensors.flat_map(|t| t.extents.clone());
    extents.filter_map(|e| if let Extent::Dim(name) = e { Some(name) } else { None }).collect()
}

/// The values that are parameters.
fn values(program: &Program, free: &Free) -> Vec<(String, Ty)> {
    let known = known(program, free);
    free.values.iter().filter(|(name, _)| !known.contains(name)).cloned().collect()
}

/// `g0(&mut f, y, i);`
pub fn call(program: &Program, name: &str, body: &[Stmt]) -> String {
    let free = Free::of(body);
    let argument = |(name, written): &(String, bool)| match array(program, name).map(|a| &a.kind) {
        Some(Kind::Tensor { .. } | Kind::Workspace) => name.clone(),
        _ if *written => format!("&mut {name}"),
        _ => format!("&{name}"),
    };
    let mut args: Vec<String> = free.arrays.iter().map(argument).collect();
    args.extend(values(program, &free).into_iter().map(|(name, _)| name));
    let generic = program.generic.filter(|ty| free.is_about(program, body, *ty)).map_or("", |_| "::<T>");
    format!("{name}{generic}({});", args.join(", "))
}

/// The function.
pub fn function(program: &Program, name: &str, body: &[Stmt]) -> Source {
    let free = Free::of(body);
    // The kernel's constants have no names here.
    let inner = Program { consts: Vec::new(), specialized: Vec::new(), ..program.clone() };
    let printer = Printer { program: &inner };
    let mut extents = 0;
    let mut param = |(name, written): &(String, bool)| {
        let Some(array) = array(program, name) else { return format!("{name}: usize") };
        let mutable = if *written { "mut " } else { "" };
        let kind = match array.kind {
            Kind::Tensor { .. } | Kind::Workspace => {
                let ty = format!("&{mutable}Tensor<{}>", printer.tensor_type(array));
                return if free.asked.contains(name) {
                    format!("{name}: Option<{ty}>")
                } else {
                    format!("{name}: {ty}")
                };
            }
            Kind::Shared { .. } => "SharedArray",
            Kind::Local => "LocalArray",
            Kind::Fragment => "Fragment",
        };
        let names: Vec<String> = array.extents.iter().enumerate().map(|(i, _)| format!("D{}", extents + i)).collect();
        extents += names.len();
        let comma = if names.len() == 1 { "," } else { "" };
        format!("{name}: &{mutable}{kind}<{}, ({}{comma})>", printer.ty(array.ty), names.join(", "))
    };
    let mut params: Vec<String> = free.arrays.iter().map(&mut param).collect();
    params.extend(values(program, &free).iter().map(|(name, ty)| format!("{name}: {}", printer.ty(*ty))));
    let generic = program.generic.filter(|ty| free.is_about(program, body, *ty));
    let called = || inner.functions.iter().filter(|f| free.calls.contains(&f.name));
    let names: Vec<&str> = called().map(|f| f.name.as_str()).collect();
    let mut options: Vec<String> = generic.iter().map(|ty| format!("dtypes(T in [{}])", ty.name())).collect();
    if !names.is_empty() {
        options.push(format!("uses({})", names.join(", ")));
    }
    let (generics, attribute) = (generic.map_or("", |_| "<T: Float>"), options.join(", "));
    let text = format!("fn {name}{generics}({}) {{\n", params.join(", "));
    let mut lines = Lines { printer: &printer, text, depth: 1, is_function: true };
    lines.statements(body);
    lines.text.push_str("}\n");
    let functions = called().map(|f| (f.name.clone(), printer.function(f))).collect();
    Source { attribute, item: lines.text, functions }
}
