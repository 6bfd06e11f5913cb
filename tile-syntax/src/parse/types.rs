//! Types: what the author writes, and the inference of what is left unsaid.
//!
//! A literal without a suffix takes its type from where it is used, as in Rust; one used nowhere in particular is
//! `usize` (an integer that is negated, or that lanes exchange: `i32`) or `f32`.

use super::range::generic_types;
use super::{Binding, Parser};
use tile_ir::diag::{Code, Diagnostic};
use tile_ir::ir::{Dtype, DtypeClass, DtypeRef, SpanId, Type};

/// The type of an expression, known or to be inferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ty {
    Is(Type),
    Slot(u32),
}

impl From<Type> for Ty {
    fn from(ty: Type) -> Self {
        Ty::Is(ty)
    }
}

/// What is known about a type to be inferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// The type of another value.
    Same(Ty),
    /// Anything: a variable declared without a value.
    Free,
    /// An integer literal.
    Int(Integer),
    /// A float literal.
    Float,
    /// `lit(..)`: any number of an element type.
    Lit,
}

/// What an integer literal may be, from the most to the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Integer {
    /// `usize` or a dtype of whole numbers.
    Any,
    /// A dtype of whole numbers: collectives take it.
    Element,
    /// A signed one: it is negated.
    Negated,
}

/// What operations a type has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Index,
    Int,
    Float,
    Bool,
    /// Numbers without arithmetic, or a parameter that ranges over some: they are loaded, stored, compared and cast.
    Storage,
    /// A parameter that ranges over floats and others.
    Mixed,
    Unknown,
}

impl Parser {
    pub(super) fn fresh(&mut self, slot: Slot) -> Ty {
        self.slots.push(slot);
        Ty::Slot(self.slots.len() as u32 - 1)
    }

    /// Follows what is already inferred.
    pub(super) fn resolve(&self, mut ty: Ty) -> Ty {
        while let Ty::Slot(slot) = ty {
            match self.slots[slot as usize] {
                Slot::Same(other) => ty = other,
                _ => break,
            }
        }
        ty
    }

    fn slot(&self, ty: Ty) -> Slot {
        match self.resolve(ty) {
            Ty::Slot(slot) => self.slots[slot as usize],
            known => Slot::Same(known),
        }
    }

    /// Makes two types one; false where they differ.
    pub(super) fn unify(&mut self, a: Ty, b: Ty) -> bool {
        let (a, b) = (self.resolve(a), self.resolve(b));
        match (a, b) {
            _ if a == b => true,
            (Ty::Is(_), Ty::Is(_)) => false,
            (Ty::Slot(slot), Ty::Is(ty)) | (Ty::Is(ty), Ty::Slot(slot)) => {
                let fits = match self.slots[slot as usize] {
                    Slot::Free | Slot::Same(_) => true,
                    Slot::Int(least) => match ty {
                        Type::Index => least <= Integer::Any,
                        Type::Value(DtypeRef::Is(dtype)) if dtype.is_whole() => {
                            dtype.is_signed() || least <= Integer::Element
                        }
                        Type::Value(_) => false,
                    },
                    Slot::Float => ty == Type::F32,
                    Slot::Lit => matches!(self.class(Ty::Is(ty)), Class::Float | Class::Int | Class::Mixed),
                };
                if fits {
                    self.slots[slot as usize] = Slot::Same(Ty::Is(ty));
                }
                fits
            }
            (Ty::Slot(x), Ty::Slot(y)) => {
                let both = match (self.slots[x as usize], self.slots[y as usize]) {
                    (Slot::Free, other) | (other, Slot::Free) => other,
                    (Slot::Int(m), Slot::Int(n)) => Slot::Int(m.max(n)),
                    (Slot::Lit, Slot::Lit) => Slot::Lit,
                    (Slot::Float | Slot::Lit, Slot::Float | Slot::Lit) => Slot::Float,
                    _ => return false,
                };
                self.slots[x as usize] = both;
                self.slots[y as usize] = Slot::Same(a);
                true
            }
        }
    }

    /// Demands that two types are one; what differs is rustc's to report.
    pub(super) fn same_type(&mut self, found: Ty, wanted: Ty, span: SpanId) -> Option<()> {
        if self.unify(found, wanted) {
            return Some(());
        }
        let message = format!("mismatched types: expected {}, found {}", self.ty_name(wanted), self.ty_name(found));
        self.rustc(Diagnostic::new(Code::TYPE, span, message));
        None
    }

    /// A negated integer literal is not a `usize`.
    pub(super) fn negate(&mut self, ty: Ty) -> bool {
        match (self.resolve(ty), self.slot(ty)) {
            (Ty::Slot(slot), Slot::Int(_)) => {
                self.slots[slot as usize] = Slot::Int(Integer::Negated);
                true
            }
            (Ty::Is(Type::Index), _) => false,
            (Ty::Is(Type::Value(DtypeRef::Is(dtype))), _) => !dtype.is_whole() || dtype.is_signed(),
            (Ty::Is(Type::Value(DtypeRef::Param(_))) | Ty::Slot(_), _) => true,
        }
    }

    /// What lanes exchange is of an element type: an integer literal is not a `usize`.
    pub(super) fn exchanged(&mut self, ty: Ty) {
        if let (Ty::Slot(slot), Slot::Int(integer)) = (self.resolve(ty), self.slot(ty)) {
            self.slots[slot as usize] = Slot::Int(integer.max(Integer::Element));
        }
    }

    pub(super) fn class(&self, ty: Ty) -> Class {
        match self.slot(ty) {
            Slot::Free => Class::Unknown,
            Slot::Int(_) => Class::Int,
            Slot::Float | Slot::Lit => Class::Float,
            Slot::Same(Ty::Is(Type::Index)) => Class::Index,
            Slot::Same(Ty::Is(Type::Value(dtype))) => self.dtype_class(dtype),
            Slot::Same(Ty::Slot(_)) => Class::Unknown,
        }
    }

    fn dtype_class(&self, dtype: DtypeRef) -> Class {
        let class = |d: Dtype| match d.class() {
            DtypeClass::Bool => Class::Bool,
            DtypeClass::Int(_) | DtypeClass::Float(_) if !d.has_arithmetic() => Class::Storage,
            DtypeClass::Int(_) => Class::Int,
            DtypeClass::Float(_) => Class::Float,
        };
        match dtype {
            DtypeRef::Is(dtype) => class(dtype),
            DtypeRef::Param(param) => {
                let mut classes = self.kernel.type_params[param].allowed.iter().map(|&d| class(d));
                // A parameter without dtypes was reported where it is declared.
                let Some(first) = classes.next() else { return Class::Float };
                let others: Vec<Class> = classes.filter(|c| *c != first).collect();
                if others.is_empty() {
                    first
                } else if first == Class::Storage || others.contains(&Class::Storage) {
                    Class::Storage
                } else {
                    Class::Mixed
                }
            }
        }
    }

    pub(super) fn dtype_name(&self, dtype: DtypeRef) -> String {
        match dtype {
            DtypeRef::Is(dtype) => dtype.name().to_owned(),
            DtypeRef::Param(param) => self.kernel.type_params[param].name.clone(),
        }
    }

    pub(super) fn ty_name(&self, ty: Ty) -> String {
        match self.slot(ty) {
            Slot::Same(Ty::Is(Type::Index)) => "`usize`".to_owned(),
            Slot::Same(Ty::Is(Type::Value(dtype))) => format!("`{}`", self.dtype_name(dtype)),
            Slot::Int(_) => "an integer".to_owned(),
            Slot::Float | Slot::Lit => "a float".to_owned(),
            Slot::Free | Slot::Same(Ty::Slot(_)) => "an unknown type".to_owned(),
        }
    }

    /// The dtypes a reference stands for.
    pub(super) fn dtypes(&self, dtype: DtypeRef) -> Vec<Dtype> {
        match dtype {
            DtypeRef::Is(dtype) => vec![dtype],
            DtypeRef::Param(param) => self.kernel.type_params[param].allowed.clone(),
        }
    }

    /// The final type; what stays unknown is rustc's to report.
    pub(super) fn settle(&mut self, ty: Ty, span: SpanId) -> Type {
        match self.slot(ty) {
            Slot::Same(Ty::Is(ty)) => ty,
            Slot::Int(Integer::Any) => Type::Index,
            Slot::Int(Integer::Element | Integer::Negated) => Type::from(Dtype::I32),
            Slot::Float => Type::F32,
            Slot::Free | Slot::Lit | Slot::Same(Ty::Slot(_)) => {
                // Said once a type: the slot is settled with it.
                if let Ty::Slot(slot) = self.resolve(ty) {
                    self.slots[slot as usize] = Slot::Same(Ty::Is(Type::F32));
                }
                self.rustc(Diagnostic::new(Code::TYPE, span, "type annotations needed"));
                Type::F32
            }
        }
    }

    /// Loop indices count in `usize`, which rustc does not demand.
    pub(super) fn check_indices(&mut self) {
        for index in std::mem::take(&mut self.indices) {
            let ty = self.vars[index.as_u32() as usize].ty;
            if !self.unify(ty, Ty::Is(Type::Index)) {
                let (name, found) = (self.kernel.vars[index].name.clone(), self.ty_name(ty));
                let message = format!("loop index `{name}` is {found}: a loop of a kernel counts in `usize`");
                let diagnostic = Diagnostic::new(Code::TYPE, self.kernel.vars[index].span, message);
                self.error(diagnostic.help(format!("convert where it is used: `{name} as i32`")));
            }
        }
    }

    /// A type of the language: `usize`, a dtype, a dtype parameter.
    pub(super) fn scalar_type(&mut self, ty: &syn::Type) -> Option<Type> {
        if let syn::Type::Path(path) = peel(ty)
            && path.qself.is_none()
            && path.path.segments.last().is_some_and(|s| s.ident == "usize" && s.arguments.is_none())
        {
            return Some(Type::Index);
        }
        self.dtype_type(ty).map(Type::Value)
    }

    /// An element type: a dtype or a dtype parameter.
    pub(super) fn dtype_type(&mut self, ty: &syn::Type) -> Option<DtypeRef> {
        let path = match peel(ty) {
            syn::Type::Path(path) if path.qself.is_none() => &path.path,
            syn::Type::Infer(_) => {
                self.syntax(ty, "the element type is left out", "write it: `f32`, `f16`, or a dtype parameter");
                return None;
            }
            _ => {
                self.syntax(ty, "this is not an element type", &format!("use {}", or_parameter()));
                return None;
            }
        };
        let segment = path.segments.last()?;
        let name = segment.ident.to_string();
        if path.segments.len() == 1
            && let Some(dtype) = self.dtype_param(&name)
        {
            return Some(dtype);
        }
        if let Some(dtype) = Dtype::from_name(&name) {
            return Some(DtypeRef::Is(dtype));
        }
        let span = self.mark(path);
        // Number types of Rust: those that are dtypes were found above.
        const LATER: [&str; 9] = ["f64", "i8", "i64", "u64", "i16", "u16", "i128", "u128", "isize"];
        if LATER.contains(&name.as_str()) || name == "usize" {
            let message = format!("`{name}` is not an element type in this version of the language");
            let diagnostic = Diagnostic::new(Code::DTYPE, span, message);
            self.unsupported(diagnostic.help(format!("use {}", element_types())));
        } else if matches!(self.lookup(&name), Some(Binding::Const(_) | Binding::Dim(_) | Binding::Value(_)))
            || !generic_types(&segment.arguments).is_empty()
        {
            let diagnostic = Diagnostic::new(Code::DTYPE, span, format!("`{name}` is not an element type"));
            self.unsupported(diagnostic.help(format!("use {}", or_parameter())));
        } else {
            // An alias would be resolved by rustc, but not here.
            let message = format!("`{name}` is not an element type of this kernel: aliases are not followed");
            let diagnostic = Diagnostic::new(Code::DTYPE, span, message);
            self.unsupported(diagnostic.help(format!("use {}", or_parameter())));
        }
        None
    }
}

/// `bool, i32 or f32`: the element types.
pub(super) fn element_types() -> String {
    let [first @ .., last] = Dtype::ALL.map(Dtype::name);
    format!("{} or {last}", first.join(", "))
}

/// `bool, i32, f32 or a parameter `T``
fn or_parameter() -> String {
    format!("{} or a parameter `T`", Dtype::ALL.map(Dtype::name).join(", "))
}

/// A type without the parentheses and invisible groups around it.
pub(super) fn peel(mut ty: &syn::Type) -> &syn::Type {
    loop {
        match ty {
            syn::Type::Paren(paren) => ty = &paren.elem,
            syn::Type::Group(group) => ty = &group.elem,
            _ => return ty,
        }
    }
}
