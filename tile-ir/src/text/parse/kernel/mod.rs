//! The parser of a kernel's text, which reads exactly what `Display` prints: `head` up to the body, `statement` and `tile` the body,
//! `expr` what it computes.
//!
//! The types of `let`s may be left out, and `else if` may be written as it is in Rust. Names are looked up by scope, as in Rust:
//! the printer has numbered those that would hide one another. Types are checked where the parser combines expressions, so that
//! a kernel is as well typed as one that rustc has seen.

mod expr;
mod head;
mod statement;
mod tile;

use super::cursor::{Cursor, Parsed};
use crate::ir::*;

/// Reads a kernel, as its `Display` prints one. It is well-formed, see [`crate::verify::structure`]; [`crate::verify::kernel`] has
/// the language's further rules. The kernel's source is the text, so diagnostics show its lines.
///
/// # Errors
/// What is not as expected, with its line and column.
pub fn parse_kernel(text: &str) -> Parsed<Kernel> {
    let mut parser =
        Parser { cursor: Cursor::new(text)?, kernel: Kernel::default(), names: Vec::new(), loops: Vec::new() };
    let start = parser.cursor.place();
    parser.span(start);
    parser.whole()?;
    let mut kernel = parser.kernel;
    let lines = text.lines().map(str::to_owned).collect();
    kernel.source = Source { first_line: 1, lines, ..Source::default() };
    crate::verify::structure(&kernel).map_err(|message| parser.cursor.error_at(start, message))?;
    Ok(kernel)
}

/// What a name stands for.
#[derive(Clone, Copy)]
enum Named {
    Dim(DimId),
    Const(ConstId),
    Param(ParamId),
    Var(VarId),
    Buffer(BufferId),
}

struct Parser<'t> {
    cursor: Cursor<'t>,
    kernel: Kernel,
    /// What is in scope, innermost last; a later one hides an earlier one of its name.
    names: Vec<(&'t str, Named)>,
    /// The serial loops around a statement, innermost last: index and end. `None` for loops that nothing leaves.
    loops: Vec<Option<(VarId, ExprId)>>,
}

impl<'t> Parser<'t> {
    fn span(&mut self, place: usize) -> SpanId {
        let span = self.cursor.since(place);
        self.kernel.spans.push(span)
    }

    fn named(&self, name: &str) -> Option<Named> {
        self.names.iter().rev().find(|(known, _)| *known == name).map(|(_, named)| *named)
    }

    fn push(&mut self, place: usize, kind: ExprKind, ty: Type) -> ExprId {
        let span = self.span(place);
        self.kernel.exprs.push(Expr { kind, ty, span })
    }

    /// Declares a variable from here to the end of the scope.
    fn declare(&mut self, place: usize, name: &'t str, ty: Type, kind: VarKind) -> VarId {
        let span = self.span(place);
        let var = self.kernel.vars.push(Var { name: name.to_owned(), ty, kind, span });
        self.names.push((name, Named::Var(var)));
        var
    }

    fn ty_of(&self, expr: ExprId) -> Type {
        self.kernel.exprs[expr].ty
    }

    /// The text of a type, for messages.
    fn shown(&self, ty: Type) -> String {
        match ty {
            Type::Index => "usize".to_owned(),
            Type::Value(DtypeRef::Is(dtype)) => dtype.name().to_owned(),
            Type::Value(DtypeRef::Param(param)) => self.kernel.type_params[param].name.clone(),
        }
    }

    /// An error where an expression that begins at `place` has another type.
    fn typed(&self, place: usize, expr: ExprId, ty: Type) -> Parsed<()> {
        let found = self.ty_of(expr);
        if found == ty {
            return Ok(());
        }
        let message = format!("this is of type {}, where {} is needed", self.shown(found), self.shown(ty));
        Err(self.cursor.error_at(place, message))
    }

    /// An expression of a type.
    fn expr_of(&mut self, ty: Type) -> Parsed<ExprId> {
        let place = self.cursor.place();
        let expr = self.expr()?;
        self.typed(place, expr, ty)?;
        Ok(expr)
    }

    fn index(&mut self) -> Parsed<ExprId> {
        self.expr_of(Type::Index)
    }

    /// `[a, b]` of indices.
    fn indices(&mut self) -> Parsed<Vec<ExprId>> {
        self.cursor.expect("[")?;
        let mut all = Vec::new();
        while !self.cursor.eat("]") {
            all.push(self.index()?);
            self.cursor.separator("]")?;
        }
        Ok(all)
    }

    /// `(a)` of one index.
    fn one_index(&mut self) -> Parsed<ExprId> {
        self.cursor.expect("(")?;
        let index = self.index()?;
        self.cursor.expect(")")?;
        Ok(index)
    }

    /// `[a, b]` of new names, with their places.
    fn new_names(&mut self) -> Parsed<Vec<(usize, &'t str)>> {
        self.cursor.expect("[")?;
        let mut all = Vec::new();
        while !self.cursor.eat("]") {
            all.push((self.cursor.place(), self.cursor.name()?));
            self.cursor.separator("]")?;
        }
        Ok(all)
    }

    fn dtype(&mut self) -> Parsed<DtypeRef> {
        let place = self.cursor.place();
        let name = self.cursor.name()?;
        self.dtype_named(name).ok_or_else(|| self.cursor.error_at(place, format!("`{name}` is no dtype")))
    }

    fn dtype_named(&self, name: &str) -> Option<DtypeRef> {
        let param = self.kernel.type_params.iter().find(|(_, param)| param.name == name);
        param.map(|(id, _)| DtypeRef::Param(id)).or_else(|| Dtype::from_name(name).map(DtypeRef::Is))
    }

    fn ty(&mut self) -> Parsed<Type> {
        if self.cursor.eat_word("usize") { Ok(Type::Index) } else { Ok(Type::Value(self.dtype()?)) }
    }

    /// What a name that is read stands for, with its name.
    fn known(&mut self) -> Parsed<(&'t str, Named)> {
        let place = self.cursor.place();
        let name = self.cursor.name()?;
        match self.named(name) {
            Some(named) => Ok((name, named)),
            None => Err(self.cursor.error_at(place, format!("there is no `{name}` here"))),
        }
    }

    /// A tensor or an array, by its name.
    fn place(&mut self) -> Parsed<Place> {
        let place = self.cursor.place();
        match self.known()? {
            (_, Named::Buffer(buffer)) => Ok(Place::Buffer(buffer)),
            (_, Named::Param(param)) if matches!(self.kernel.params[param].kind, ParamKind::Tensor { .. }) => {
                Ok(Place::Tensor(param))
            }
            (name, _) => Err(self.cursor.error_at(place, format!("`{name}` is no tensor and no array"))),
        }
    }

    /// An array, by its name.
    fn buffer(&mut self) -> Parsed<BufferId> {
        let place = self.cursor.place();
        match self.known()? {
            (_, Named::Buffer(buffer)) => Ok(buffer),
            (name, _) => Err(self.cursor.error_at(place, format!("`{name}` is no array of the kernel"))),
        }
    }

    /// One of the words that a `match` of the printer writes.
    fn one_of<T: Copy>(&mut self, what: &str, words: &[(&str, T)]) -> Parsed<T> {
        for (word, value) in words {
            if self.cursor.eat_word(word) {
                return Ok(*value);
            }
        }
        let words: Vec<_> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
        Err(self.cursor.expected(&format!("{what}: {}", words.join(" or "))))
    }
}

#[cfg(test)]
mod tests;
