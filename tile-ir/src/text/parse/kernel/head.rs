//! The head of a kernel: attributes, generic parameters, parameters.
//!
//! Attributes stand before the names that they mention, so they are stepped over first and read once those are known.

use super::{Named, Parser};
use crate::ir::*;
use crate::text::parse::cursor::Parsed;
use crate::text::parse::lex::TokenKind;

impl<'t> Parser<'t> {
    /// A whole text: one kernel.
    pub(super) fn whole(&mut self) -> Parsed<()> {
        let attributes = self.cursor.place();
        while self.cursor.eat("#") {
            match self.cursor.closing() {
                Some(end) if self.cursor.is("[") => self.cursor.seek(end + 1),
                _ => return Err(self.cursor.expected("an attribute in brackets")),
            }
        }
        self.cursor.expect_word("kernel")?;
        self.kernel.name = self.cursor.name()?.to_owned();
        if self.cursor.eat("<") {
            self.generics()?;
        }
        self.cursor.expect("(")?;
        while !self.cursor.eat(")") {
            self.param()?;
            self.cursor.separator(")")?;
        }
        let body = self.cursor.place();
        self.kernel.instances = vec![Instance::default()];
        self.cursor.seek(attributes);
        while self.cursor.eat("#") {
            self.cursor.expect("[")?;
            self.attribute()?;
            self.cursor.expect("]")?;
        }
        let generic = !self.kernel.type_params.is_empty() || !self.kernel.consts.is_empty();
        if generic && self.kernel.instances == [Instance::default()] {
            return Err(self.cursor.error("a generic kernel names its instances: `#[instances((N,) in [(32,)])]`"));
        }
        self.cursor.seek(body);
        self.kernel.body = self.body()?;
        if self.cursor.is_end() { Ok(()) } else { Err(self.cursor.expected("the end of the text")) }
    }

    /// `T: f16 | bf16, const ROWS: usize>`
    fn generics(&mut self) -> Parsed<()> {
        while !self.cursor.is(">") {
            let place = self.cursor.place();
            if self.cursor.is_word("const") && !self.cursor.is_at(1, ":") {
                self.cursor.next();
                let name = self.new_name()?;
                self.cursor.expect(":")?;
                let kinds = [("usize", ConstKind::Usize), ("bool", ConstKind::Bool)];
                let kind = self.one_of("the type of a const parameter", &kinds)?;
                let span = self.span(place);
                let id = self.kernel.consts.push(ConstParam { name: name.to_owned(), kind, span });
                self.names.push((name, Named::Const(id)));
            } else {
                let name = self.cursor.name()?;
                if self.dtype_named(name).is_some() {
                    return Err(self.cursor.error_at(place, format!("there is a dtype `{name}` already")));
                }
                self.cursor.expect(":")?;
                let mut allowed = vec![self.concrete()?];
                while self.cursor.eat("|") {
                    allowed.push(self.concrete()?);
                }
                let span = self.span(place);
                self.kernel.type_params.push(TypeParam { name: name.to_owned(), allowed, span });
            }
            self.cursor.separator(">")?;
        }
        self.cursor.expect(">")
    }

    fn concrete(&mut self) -> Parsed<Dtype> {
        let place = self.cursor.place();
        match self.dtype()? {
            DtypeRef::Is(dtype) => Ok(dtype),
            DtypeRef::Param(_) => Err(self.cursor.error_at(place, "this must be a dtype, not a parameter")),
        }
    }

    /// A name that nothing else has yet.
    fn new_name(&mut self) -> Parsed<&'t str> {
        let place = self.cursor.place();
        let name = self.cursor.name()?;
        match self.named(name) {
            None => Ok(name),
            Some(_) => Err(self.cursor.error_at(place, format!("there is a `{name}` already"))),
        }
    }

    /// `x: &Tensor<f32, (N,)>`, `alpha: f32`, `bias: absent`.
    fn param(&mut self) -> Parsed<()> {
        let place = self.cursor.place();
        let name = self.new_name()?;
        self.cursor.expect(":")?;
        let kind = if self.cursor.eat_word("absent") {
            ParamKind::Absent
        } else if self.cursor.is_word("Option") && self.cursor.is_at(1, "<") {
            self.cursor.next();
            self.cursor.expect("<")?;
            let kind = self.tensor(true)?;
            self.cursor.expect(">")?;
            kind
        } else if self.cursor.is("&") {
            self.tensor(false)?
        } else {
            ParamKind::Scalar { ty: self.ty()? }
        };
        let span = self.span(place);
        let param = self.kernel.params.push(Param { name: name.to_owned(), kind, span });
        self.names.push((name, Named::Param(param)));
        Ok(())
    }

    /// `&mut Tensor<f32, (N, Fixed<16>)>`
    fn tensor(&mut self, optional: bool) -> Parsed<ParamKind> {
        self.cursor.expect("&")?;
        let mutable = self.cursor.eat_word("mut");
        self.cursor.expect_word("Tensor")?;
        self.cursor.expect("<")?;
        let dtype = self.dtype()?;
        self.cursor.expect(",")?;
        self.cursor.expect("(")?;
        let mut shape = Vec::new();
        while !self.cursor.eat(")") {
            shape.push(self.extent()?);
            self.cursor.separator(")")?;
        }
        self.cursor.expect(">")?;
        Ok(ParamKind::Tensor { dtype, shape, mutable, optional })
    }

    /// A dim, known or new, `Fixed<16>` or `Extent<{ 2 * K }>`.
    fn extent(&mut self) -> Parsed<Extent> {
        if self.cursor.is_at(1, "<") {
            if self.cursor.is_word("Extent") {
                return Ok(Extent::Dim(self.derived_dim()?));
            }
            self.cursor.expect_word("Fixed")?;
            self.cursor.expect("<")?;
            let braces = self.cursor.eat("{");
            let place = self.cursor.place();
            // Without braces the first `>` ends it.
            let value = if braces { self.expr()? } else { self.expr_at_least(crate::text::Tightness::ATOM)? };
            self.typed(place, value, Type::Index)?;
            if braces {
                self.cursor.expect("}")?;
            }
            self.cursor.expect(">")?;
            return Ok(Extent::Fixed(value));
        }
        let place = self.cursor.place();
        let name = self.cursor.name()?;
        match self.named(name) {
            Some(Named::Dim(dim)) => Ok(Extent::Dim(dim)),
            Some(_) => Err(self.cursor.error_at(place, format!("`{name}` is no dim: write `Fixed<{name}>`"))),
            None => {
                let span = self.span(place);
                let dim = self.kernel.dims.push(Dim { name: name.to_owned(), span, value: None });
                self.names.push((name, Named::Dim(dim)));
                Ok(Extent::Dim(dim))
            }
        }
    }

    /// `Extent<{ 2 * K }>`: the dim of this name, known or new. What it is equal to is a `require`.
    pub(super) fn derived_dim(&mut self) -> Parsed<DimId> {
        let place = self.cursor.place();
        self.cursor.expect_word("Extent")?;
        self.cursor.expect("<")?;
        let Some(end) = self.cursor.closing().filter(|_| self.cursor.is("{")) else {
            return Err(self.cursor.expected("an extent in braces"));
        };
        let name = self.cursor.slice(self.cursor.place() + 1, end);
        self.cursor.seek(end + 1);
        self.cursor.expect(">")?;
        if let Some((dim, _)) = self.kernel.dims.iter().find(|(_, dim)| dim.name == name) {
            return Ok(dim);
        }
        let span = self.span(place);
        Ok(self.kernel.dims.push(Dim { name: name.to_owned(), span, value: None }))
    }

    fn attribute(&mut self) -> Parsed<()> {
        let place = self.cursor.place();
        let name = self.cursor.name()?;
        self.cursor.expect("(")?;
        match name {
            "instances" => self.instances()?,
            "require" => {
                let from = self.cursor.place();
                let cond = self.expr_of(Type::BOOL)?;
                let text = self.cursor.slice(from, self.cursor.place()).to_owned();
                let span = self.span(from);
                self.kernel.requires.push(Require { cond, text, span });
            }
            "targets" => loop {
                let target = Target::ALL.map(|target| (target.name(), target));
                let target = self.one_of("a target", &target)?;
                self.kernel.targets.push(target);
                if !self.cursor.eat(",") {
                    break;
                }
            },
            "aligned" => {
                self.cursor.expect_word("reads")?;
                self.cursor.expect("=")?;
                self.kernel.class.reads = self.width()?;
                self.cursor.expect(",")?;
                self.cursor.expect_word("writes")?;
                self.cursor.expect("=")?;
                self.kernel.class.writes = self.width()?;
            }
            "min_blocks" => self.kernel.attributes.min_blocks = Some(self.cursor.integer_of()?),
            "stream" => self.kernel.attributes.stream = self.tensors(")")?,
            "partial" => self.kernel.attributes.partial = self.tensors(")")?,
            "workspaces" => self.kernel.attributes.workspaces = self.tensors(")")?,
            "specialize" => self.specialize()?,
            "pdl" => {
                self.cursor.expect_word("independent")?;
                self.cursor.expect("=")?;
                self.cursor.expect("[")?;
                let independent = self.tensors("]")?;
                self.cursor.expect("]")?;
                let mut trigger = Trigger::AfterWait;
                if self.cursor.eat(",") {
                    self.cursor.expect_word("trigger")?;
                    self.cursor.expect("=")?;
                    trigger = self.one_of("when the next kernel may start", &[("AtStart", Trigger::AtStart)])?;
                }
                self.kernel.attributes.dependent = Some(Dependent { independent, trigger });
            }
            "lints" => {
                let code = self.cursor.name()?.to_owned();
                self.cursor.expect("=")?;
                let level = self.cursor.text()?;
                self.kernel.attributes.lints.push((code, level));
            }
            _ => return Err(self.cursor.error_at(place, format!("there is no attribute `{name}`"))),
        }
        self.cursor.expect(")")
    }

    /// The bytes that rows are moved in: `16`, or `element`.
    fn width(&mut self) -> Parsed<Width> {
        if self.cursor.eat_word("element") {
            return Ok(Width::Element);
        }
        let widths = [(16, Width::Sixteen), (8, Width::Eight), (4, Width::Four)];
        let found = match *self.cursor.peek() {
            TokenKind::Int(value, "") => widths.into_iter().find(|(bytes, _)| *bytes == value),
            _ => None,
        };
        let Some((_, width)) = found else { return Err(self.cursor.expected("16, 8, 4 or `element`")) };
        self.cursor.next();
        Ok(width)
    }

    /// `(T, ROWS) in [(f16, 8), (bf16, 16)]`
    fn instances(&mut self) -> Parsed<()> {
        let params = self.kernel.type_params.values().map(|p| p.name.clone());
        let params: Vec<String> = params.chain(self.kernel.consts.values().map(|c| c.name.clone())).collect();
        self.cursor.expect("(")?;
        for param in &params {
            self.cursor.expect_word(param)?;
            self.cursor.separator(")")?;
        }
        self.cursor.expect(")")?;
        self.cursor.expect_word("in")?;
        self.cursor.expect("[")?;
        self.kernel.instances.clear();
        while !self.cursor.eat("]") {
            let instance = self.instance()?;
            self.kernel.instances.push(instance);
            self.cursor.separator("]")?;
        }
        Ok(())
    }

    /// `(f16, 8, true)`
    fn instance(&mut self) -> Parsed<Instance> {
        let mut instance = Instance::default();
        self.cursor.expect("(")?;
        for _ in 0..self.kernel.type_params.len() {
            let dtype = self.concrete()?;
            instance.dtypes.push(dtype);
            self.cursor.separator(")")?;
        }
        let kinds: Vec<ConstKind> = self.kernel.consts.values().map(|c| c.kind).collect();
        for kind in kinds {
            let value = match kind {
                ConstKind::Usize => self.cursor.integer()?,
                ConstKind::Bool => self.one_of("a bool", &[("false", 0), ("true", 1)])?,
            };
            instance.consts.push(value);
            self.cursor.separator(")")?;
        }
        self.cursor.expect(")")?;
        Ok(instance)
    }

    /// Names of parameters until `close`, which is left.
    fn tensors(&mut self, close: &'static str) -> Parsed<Vec<ParamId>> {
        let mut all = Vec::new();
        while !self.cursor.is(close) {
            let place = self.cursor.place();
            match self.known()? {
                (_, Named::Param(param)) => all.push(param),
                (name, _) => return Err(self.cursor.error_at(place, format!("`{name}` is no parameter"))),
            }
            self.cursor.separator(close)?;
        }
        Ok(all)
    }

    /// `K, N = 8, max = 32`: dims, with their values in a bound kernel, and how many variants are kept.
    fn specialize(&mut self) -> Parsed<()> {
        let start = self.cursor.place();
        let mut dims = Vec::new();
        loop {
            let last = self.cursor.is_word("max") && self.cursor.is_at(1, "=") && self.cursor.is_at(3, ")");
            let place = self.cursor.place();
            if last {
                self.cursor.next();
                self.cursor.expect("=")?;
                let max = self.cursor.integer_of()?;
                let span = self.span(start);
                self.kernel.attributes.specialize = Some(Specialize { dims, max, span });
                return Ok(());
            }
            let dim = match self.known()? {
                (_, Named::Dim(dim)) => dim,
                (name, _) => return Err(self.cursor.error_at(place, format!("`{name}` is no dim"))),
            };
            if self.cursor.eat("=") {
                self.kernel.dims[dim].value = Some(self.cursor.integer()?);
            }
            dims.push(dim);
            self.cursor.expect(",")?;
        }
    }
}
