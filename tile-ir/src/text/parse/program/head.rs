//! Up to the body: interface, launch, memory; and the names that the body declares.

use super::{Parser, Scalar};
use crate::ir::*;
use crate::lowered::*;
use crate::text::Tightness;
use crate::text::parse::cursor::Parsed;
use crate::text::parse::lex::TokenKind;
use crate::text::parse::{CALLS, INFIX};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A parameter whose tensor or tensor map is declared below it: its position, and where the name stands.
type Late = (usize, usize);

impl<'t> Parser<'t> {
    pub(super) fn whole(&mut self) -> Parsed<()> {
        self.margin = self.cursor.column();
        self.cursor.expect_word("program")?;
        self.program.name = self.identifier()?.into_owned();
        self.cursor.expect_word("for")?;
        self.program.target = self.one_of("a target", &Target::ALL.map(|target| (target.name(), target)))?;
        self.end_of_line()?;
        self.dims()?;
        let late = self.parameters()?;
        self.tensors()?;
        self.launch()?;
        if self.cursor.eat_words(&["tensor", "maps"]) {
            self.items(Self::tensor_map)?;
        }
        for (position, place) in late {
            self.late(position, place)?;
        }
        if self.cursor.eat_word("shared") {
            self.cursor.expect(":")?;
            self.program.shared_bytes = self.cursor.integer_of()?;
            self.cursor.expect_word("bytes")?;
            self.items(Self::shared_array)?;
        }
        if self.cursor.eat_word("messages") {
            self.items(Self::said)?;
        }
        self.declarations()?;
        if self.cursor.eat_word("tiles") {
            self.items(|p| {
                let index = p.known_register()?;
                p.cursor.expect_word("of")?;
                let extent = p.host()?;
                let mut inside = None;
                if p.cursor.eat(",") {
                    p.cursor.expect_word("inside")?;
                    inside = Some(p.known_register()?);
                }
                p.program.tiles.push(TileIndex { index, extent, inside });
                Ok(())
            })?;
        }
        self.cursor.expect_word("body")?;
        self.end_of_line()?;
        self.program.body = self.body()?;
        Ok(())
    }

    /// The lines of a section, whose title has been read.
    fn items(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<()>) -> Parsed<()> {
        self.end_of_line()?;
        while self.has_item() {
            item(self)?;
            self.end_of_line()?;
        }
        Ok(())
    }

    /// A new name with the colon behind it, and its place.
    fn titled(&mut self) -> Parsed<(usize, Cow<'t, str>)> {
        let place = self.cursor.place();
        let name = self.identifier()?;
        self.cursor.expect(":")?;
        Ok((place, name))
    }

    /// Puts a name into a table where it is new.
    fn declare<T>(
        &mut self,
        (place, name): (usize, Cow<'t, str>),
        what: T,
        table: impl for<'n> Fn(&'n mut super::Names<'t>) -> &'n mut BTreeMap<Cow<'t, str>, T>,
    ) -> Parsed<()> {
        if table(&mut self.names).contains_key(&name) {
            return Err(self.cursor.error_at(place, format!("`{name}` is declared twice")));
        }
        table(&mut self.names).insert(name, what);
        Ok(())
    }

    fn dims(&mut self) -> Parsed<()> {
        if !self.cursor.eat_word("dims") {
            return Ok(());
        }
        while self.has_item() {
            let (place, name) = (self.cursor.place(), self.identifier()?);
            let dim = DimId::new(self.program.dims.len());
            self.program.dims.push(name.clone().into_owned());
            self.declare((place, name), dim, |names| &mut names.dims)?;
            if !self.cursor.eat(",") {
                break;
            }
        }
        self.end_of_line()
    }

    fn parameters(&mut self) -> Parsed<Vec<Late>> {
        let mut late = Vec::new();
        self.cursor.expect_word("parameters")?;
        self.items(|p| {
            let named = p.titled()?;
            let ty = p.value_type()?;
            p.cursor.expect("=")?;
            let position = p.program.params.len();
            let mut name_follows = |p: &mut Self| {
                late.push((position, p.cursor.place()));
                p.identifier()
            };
            // What a name stands for is filled in when it is declared.
            let kind = if p.cursor.eat_words(&["address", "of"]) {
                name_follows(p)?;
                ParameterKind::Pointer(ParamId::new(0))
            } else if p.cursor.eat_words(&["stride", "of"]) {
                name_follows(p)?;
                ParameterKind::Stride(ParamId::new(0), p.on_axis()?)
            } else if p.cursor.eat_words(&["tensor", "map"]) {
                name_follows(p)?;
                ParameterKind::TensorMap(MapId::new(0))
            } else if p.cursor.eat_word("dim") {
                ParameterKind::Dim(p.known("dim", |names| &names.dims)?)
            } else if p.cursor.is_word("argument") {
                ParameterKind::Scalar(p.argument()?)
            } else if p.cursor.eat_word("computed") {
                let number = p.host()?;
                p.program.launch.computed.push(number);
                ParameterKind::Computed(p.program.launch.computed.len() as u32 - 1)
            } else if p.cursor.eat_words(&["device", "log", "function"]) {
                ParameterKind::LogFunction
            } else if p.cursor.eat_words(&["device", "log"]) {
                ParameterKind::Log
            } else {
                let slots = p.cursor.integer_of()?;
                p.cursor.expect_words(&["where", "it", "may", "begin", "early"])?;
                p.cursor.expect(",")?;
                p.cursor.expect_word("else")?;
                match p.cursor.integer()? {
                    0 => ParameterKind::Ahead(slots),
                    _ => return Err(p.cursor.error("it is 0 where the kernel may not begin early")),
                }
            };
            let name = named.1.clone().into_owned();
            p.program.params.push(Parameter { name, ty, kind });
            p.declare(named, Scalar::Param(position as u32), |names| &mut names.values)
        })?;
        Ok(late)
    }

    /// Fills in what is declared below a parameter: the name stands at `place`.
    fn late(&mut self, position: usize, place: usize) -> Parsed<()> {
        let back = self.cursor.place();
        self.cursor.seek(place);
        let kind = match self.program.params[position].kind {
            ParameterKind::Pointer(_) => ParameterKind::Pointer(self.tensor()?),
            ParameterKind::Stride(_, axis) => ParameterKind::Stride(self.tensor()?, axis),
            ParameterKind::TensorMap(_) => ParameterKind::TensorMap(self.map()?),
            kind => kind,
        };
        self.program.params[position].kind = kind;
        self.cursor.seek(back);
        Ok(())
    }

    fn on_axis(&mut self) -> Parsed<u8> {
        self.cursor.expect_words(&["on", "axis"])?;
        self.cursor.integer_of()
    }

    /// `argument 3`: which of the kernel's parameters, as a launch counts them.
    fn argument(&mut self) -> Parsed<ParamId> {
        self.cursor.expect_word("argument")?;
        Ok(ParamId::from_u32(u32::from(self.cursor.integer_of::<u16>()?)))
    }

    fn tensors(&mut self) -> Parsed<()> {
        self.cursor.expect_word("tensors")?;
        self.items(|p| {
            let named = p.titled()?;
            let mutable = p.cursor.eat_word("mut");
            let dtype = p.dtype()?;
            p.cursor.expect("(")?;
            let mut shape = Vec::new();
            while !p.cursor.eat(")") {
                shape.push(p.host()?);
                p.cursor.separator(")")?;
            }
            p.cursor.expect_word("of")?;
            let param = p.argument()?;
            let [mut stream, mut output, mut independent, mut ordered] = [false; 4];
            while p.cursor.eat(",") {
                let streamed: &[&str] = if mutable { &["not", "kept", "in", "L2"] } else { &["read", "once"] };
                let flags = [
                    (streamed, &mut stream),
                    (&["output"], &mut output),
                    (&["independent"], &mut independent),
                    (&["ordered"], &mut ordered),
                ];
                match flags.into_iter().find(|(words, _)| p.cursor.eat_words(words)) {
                    Some((_, flag)) => *flag = true,
                    None => return Err(p.cursor.expected("what else is known of the tensor")),
                }
            }
            if p.program.tensors.iter().any(|tensor| tensor.param == param) {
                return Err(p.cursor.error_at(named.0, format!("two tensors are argument {}", param.index())));
            }
            let name = named.1.clone().into_owned();
            let info = TensorInfo { param, name, dtype, shape, mutable, stream, output, independent, ordered };
            p.program.tensors.push(info);
            p.declare(named, Space::Global(param), |names| &mut names.spaces)
        })
    }

    /// `[1, 2, 3]` of the three axes.
    fn axes(&mut self) -> Parsed<[u32; 3]> {
        let place = self.cursor.place();
        let all = self.numbers()?;
        <[u32; 3]>::try_from(all).map_err(|_| self.cursor.error_at(place, "expected three numbers: of x, y and z"))
    }

    fn launch(&mut self) -> Parsed<()> {
        self.cursor.expect_word("launch")?;
        self.items(|p| {
            if p.cursor.eat_word("blocks") {
                p.cursor.expect("[")?;
                for axis in 0..3 {
                    p.program.launch.grid[axis] = p.host()?;
                    p.cursor.expect(if axis == 2 { "]" } else { "," })?;
                }
            } else if p.cursor.eat_word("threads") {
                p.program.launch.threads = p.axes()?;
                p.program.launch.states_threads = p.cursor.eat(",");
                if p.program.launch.states_threads {
                    p.cursor.expect_words(&["as", "stated", "to", "nvcc"])?;
                }
            } else if p.cursor.eat_words(&["at", "least"]) {
                p.program.launch.min_blocks = Some(p.cursor.integer_of()?);
                p.cursor.expect_words(&["blocks", "a", "multiprocessor"])?;
            } else if p.cursor.eat_word("clusters") {
                p.program.launch.cluster = p.axes()?;
            } else if p.cursor.eat_word("registers") {
                p.program.launch.registers = Some(p.registers()?);
            } else if p.cursor.eat_word("may") {
                p.cursor.expect_words(&["start", "before", "the", "previous", "kernel", "is", "done"])?;
                let at_start = p.cursor.eat(",");
                if at_start {
                    let words = ["and", "lets", "the", "next", "one", "start", "beside", "both"];
                    p.cursor.expect_words(&words)?;
                }
                p.program.launch.dependent = Some(if at_start { Trigger::AtStart } else { Trigger::AfterWait });
            } else if p.cursor.eat_word("class") {
                p.cursor.expect_word("reads")?;
                let reads = p.width()?;
                p.cursor.expect(",")?;
                p.cursor.expect_word("writes")?;
                p.program.launch.class = Class { reads, writes: p.width()? };
            } else {
                let check = p.check()?;
                p.program.launch.checks.push(check);
            }
            Ok(())
        })
    }

    fn registers(&mut self) -> Parsed<RolesRegisters> {
        let launch = self.cursor.integer_of()?;
        self.cursor.expect_words(&["at", "launch"])?;
        self.cursor.expect(",")?;
        let producer = self.cursor.integer_of()?;
        self.cursor.expect_words(&["a", "producer"])?;
        self.cursor.expect(",")?;
        let consumer = self.cursor.integer_of()?;
        self.cursor.expect_words(&["a", "consumer"])?;
        Ok(RolesRegisters { launch, producer, consumer })
    }

    fn width(&mut self) -> Parsed<Width> {
        let width = match *self.cursor.peek() {
            TokenKind::Int(16, "") => Width::Sixteen,
            TokenKind::Int(8, "") => Width::Eight,
            TokenKind::Int(4, "") => Width::Four,
            TokenKind::Name("element") => Width::Element,
            _ => return Err(self.cursor.expected("16, 8, 4 or `element`")),
        };
        self.cursor.next();
        Ok(width)
    }

    fn check(&mut self) -> Parsed<Check> {
        let place = self.cursor.place();
        self.cursor.expect_word("check")?;
        let holds = self.host()?;
        self.cursor.expect("(")?;
        let kind = if self.cursor.eat_word("specialize") {
            let dim = self.known("dim", |names| &names.dims)?;
            self.cursor.expect("=")?;
            CheckKind::Specialized { dim, value: self.cursor.integer()? }
        } else if self.cursor.eat_word("require") {
            CheckKind::Require { text: self.cursor.text()? }
        } else if self.cursor.eat_words(&["stride", "of"]) {
            let (tensor, axis) = (self.tensor()?, self.on_axis()?);
            self.cursor.expect_words(&["a", "multiple", "of"])?;
            CheckKind::StrideMultiple { tensor, axis, multiple: self.cursor.integer_of()? }
        } else if self.cursor.eat_words(&["step", "of", "a", "loop"]) {
            CheckKind::Operand { kind: OperandKind::Step, value: self.host()? }
        } else if self.cursor.eat_words(&["shift", "of", "an", "index"]) {
            CheckKind::Operand { kind: OperandKind::Shift, value: self.host()? }
        } else if self.cursor.eat_words(&["index", "at", "most"]) {
            CheckKind::IndexRange { bound: self.host()? }
        } else {
            let tensor = self.tensor()?;
            self.cursor.expect_words(&["aligned", "to"])?;
            let bytes = self.cursor.integer_of()?;
            self.cursor.expect_word("bytes")?;
            CheckKind::Alignment { tensor, bytes }
        };
        self.cursor.expect(")")?;
        let request = if self.cursor.eat(",") {
            self.cursor.expect_words(&["requested", "of"])?;
            Some(self.one_of("what is requested", &[("reads", Side::Reads), ("writes", Side::Writes)])?)
        } else {
            None
        };
        Ok(Check { holds, kind, request, span: self.span(place) })
    }

    fn tensor_map(&mut self) -> Parsed<()> {
        let named = self.titled()?;
        self.cursor.expect_word("boxes")?;
        let box_extents = self.numbers()?;
        let stores = self.one_of("what the boxes are", &[("of", false), ("to", true)])?;
        let tensor = self.tensor()?;
        self.cursor.expect(",")?;
        self.cursor.expect_word("swizzle")?;
        let swizzle = self.one_of("a swizzle", &Swizzle::ALL.map(|swizzle| (swizzle.name(), swizzle)))?;
        self.cursor.expect(",")?;
        self.cursor.expect_word("promotion")?;
        let promotions =
            [("None", Promotion::None), ("B64", Promotion::B64), ("B128", Promotion::B128), ("B256", Promotion::B256)];
        let promotion = self.one_of("a promotion", &promotions)?;
        let name = named.1.clone().into_owned();
        let map = self.program.tensor_maps.push(TensorMap { name, tensor, box_extents, swizzle, promotion, stores });
        self.declare(named, map, |names| &mut names.maps)
    }

    fn known_register(&mut self) -> Parsed<RegId> {
        let place = self.cursor.place();
        match self.known("register", |names| &names.values)? {
            Scalar::Reg(reg) => Ok(reg),
            Scalar::Param(_) => Err(self.cursor.error_at(place, "this is no register")),
        }
    }

    fn shared_array(&mut self) -> Parsed<()> {
        let named = self.titled()?;
        let name = named.1.clone().into_owned();
        let is_barriers = self.cursor.eat_word("barrier");
        let dtype = if is_barriers { None } else { Some(self.dtype()?) };
        self.cursor.expect("[")?;
        let len = self.cursor.integer_of()?;
        self.cursor.expect("]")?;
        self.cursor.expect_words(&["at", "byte"])?;
        let offset = self.cursor.integer_of()?;
        let Some(dtype) = dtype else {
            let array = self.program.barriers.push(BarrierArray { name, len, offset });
            return self.declare(named, array, |names| &mut names.barriers);
        };
        self.cursor.expect(",")?;
        self.cursor.expect_words(&["aligned", "to"])?;
        let align = self.cursor.integer_of()?;
        let mut slots = 1;
        if self.cursor.eat_word("in") {
            slots = self.cursor.integer_of()?;
            self.cursor.expect_word("slots")?;
        }
        let (mut scratch, mut beyond) = (false, 0);
        while self.cursor.eat(",") {
            if self.cursor.eat_word("read") {
                beyond = self.cursor.integer_of()?;
                self.cursor.expect_words(&["bytes", "beyond"])?;
            } else {
                self.cursor.expect_word("scratch")?;
                scratch = true;
            }
        }
        let array = SharedArray { name, dtype, len, slots, offset, align, scratch, beyond };
        let shared = self.program.shared.push(array);
        self.declare(named, Space::Shared(shared), |names| &mut names.spaces)
    }

    /// A line of the section `messages`.
    fn said(&mut self) -> Parsed<()> {
        let (place, name) = self.titled()?;
        let next = self.program.messages.len();
        if name != format!("msg{next}") {
            return Err(self.cursor.error_at(place, format!("expected `msg{next}`: messages are numbered in order")));
        }
        let kind = self.one_of("a message", &[("print", MessageKind::Print), ("assert", MessageKind::Assert)])?;
        let text = self.cursor.text()?;
        self.cursor.expect("(")?;
        let mut args = Vec::new();
        while !self.cursor.eat(")") {
            args.push(self.value_type()?);
            self.cursor.separator(")")?;
        }
        let span = self.span(place);
        self.program.messages.push(Message { kind, text, args, span });
        Ok(())
    }

    /// The registers and per-thread arrays of the body, in the order of the lines that declare them; nothing is stepped over.
    fn declarations(&mut self) -> Parsed<()> {
        let start = self.cursor.place();
        while !self.cursor.is_end() {
            let line = self.cursor.place();
            let mutable = usize::from(self.cursor.is_word_at(1, "mut"));
            let declares =
                self.cursor.starts_line() && self.is_name(1 + mutable) && self.cursor.is_at(2 + mutable, ":");
            if declares && (self.cursor.is_word("let") || self.cursor.is_word("for")) {
                self.cursor.seek(line + 1 + mutable);
                let (place, name) = self.titled()?;
                let reg = Reg { name: name.clone().into_owned(), ty: self.value_type()?, mutable: mutable == 1 };
                self.declare_reg(place, name, reg)?;
            } else if declares && mutable == 0 && self.cursor.is_word("local") {
                self.cursor.seek(line + 1);
                let (place, name) = self.titled()?;
                let (name_text, dtype) = (name.clone().into_owned(), self.dtype()?);
                self.cursor.expect("[")?;
                let array = LocalArray { name: name_text, dtype, len: self.cursor.integer_of()? };
                self.declare_local(place, name, array)?;
            }
            self.cursor.seek(line + 1);
        }
        self.cursor.seek(start);
        Ok(())
    }

    fn declare_reg(&mut self, place: usize, name: Cow<'t, str>, reg: Reg) -> Parsed<()> {
        match self.names.values.get(&name) {
            Some(Scalar::Reg(known)) if self.program.regs[*known] == reg => Ok(()),
            Some(_) => Err(self.cursor.error_at(place, format!("`{name}` is declared as something else, too"))),
            None => {
                let reg = self.program.regs.push(reg);
                self.names.values.insert(name, Scalar::Reg(reg));
                Ok(())
            }
        }
    }

    fn declare_local(&mut self, place: usize, name: Cow<'t, str>, array: LocalArray) -> Parsed<()> {
        match self.names.spaces.get(&name) {
            Some(Space::Local(known)) if self.program.locals[*known] == array => Ok(()),
            Some(_) => Err(self.cursor.error_at(place, format!("`{name}` is declared as something else, too"))),
            None => {
                let local = self.program.locals.push(array);
                self.names.spaces.insert(name, Space::Local(local));
                Ok(())
            }
        }
    }

    // ---- expressions of the launch ----

    fn host(&mut self) -> Parsed<HostExpr> {
        self.host_at_least(Tightness::LOOSEST)
    }

    fn host_at_least(&mut self, least: Tightness) -> Parsed<HostExpr> {
        self.cursor.enter()?;
        let mut left = self.host_atom()?;
        let mut operators = 0u32;
        while let TokenKind::Mark(mark) = *self.cursor.peek()
            && let Some(op) = INFIX.into_iter().find(|op| op.symbol() == mark && Tightness::of(*op) >= least)
        {
            // A chain nests without brackets.
            self.cursor.enter()?;
            operators += 1;
            self.cursor.next();
            let right = self.host_at_least(Tightness::of(op).next())?;
            left = HostExpr::binary(op, left, right);
        }
        (0..=operators).for_each(|_| self.cursor.leave());
        Ok(left)
    }

    fn host_atom(&mut self) -> Parsed<HostExpr> {
        let negative = self.cursor.is("-") && matches!(self.cursor.peek_at(1), TokenKind::Int(..));
        if negative || matches!(self.cursor.peek(), TokenKind::Int(..)) {
            return Ok(HostExpr::Int(self.cursor.integer()?));
        }
        if self.cursor.eat("!") {
            return Ok(HostExpr::Not(Box::new(self.host_in_brackets()?)));
        }
        if self.cursor.is("(") {
            return self.host_in_brackets();
        }
        if self.cursor.is_word("if") {
            self.cursor.next();
            let c = self.host()?;
            let a = self.host_in_braces()?;
            self.cursor.expect_word("else")?;
            return Ok(HostExpr::Choose(Box::new([c, a, self.host_in_braces()?])));
        }
        if self.cursor.eat_words(&["blocks", "at", "once"]) {
            return Ok(HostExpr::Capacity);
        }
        if self.cursor.is_word("address") && self.cursor.is_word_at(1, "of") {
            self.cursor.expect_words(&["address", "of"])?;
            return Ok(HostExpr::Address(self.tensor()?));
        }
        let place = self.cursor.place();
        // Behind a name may stand the brackets of what is checked.
        if let TokenKind::Name(name) = *self.cursor.peek()
            && self.cursor.is_at(1, "(")
            && let Some(op) = CALLS.into_iter().find(|op| op.symbol() == name)
        {
            self.cursor.next();
            self.cursor.expect("(")?;
            let a = self.host()?;
            self.cursor.expect(",")?;
            let b = self.host()?;
            self.cursor.expect(")")?;
            return Ok(HostExpr::binary(op, a, b));
        }
        if !self.is_name(0) {
            return Err(self.cursor.expected("an expression of the launch"));
        }
        if self.cursor.is_at(1, ".") {
            let tensor = self.tensor()?;
            self.cursor.expect(".")?;
            self.cursor.expect_word("stride")?;
            self.cursor.expect("(")?;
            let axis = self.cursor.integer_of()?;
            self.cursor.expect(")")?;
            return Ok(HostExpr::Stride(tensor, axis));
        }
        let name = self.identifier()?;
        if let Some(dim) = self.names.dims.get(&name) {
            return Ok(HostExpr::Dim(*dim));
        }
        let param = self.names.values.get(&name).and_then(|scalar| match scalar {
            Scalar::Param(position) => self.program.params.get(*position as usize),
            Scalar::Reg(_) => None,
        });
        match param.map(|p| p.kind) {
            Some(ParameterKind::Scalar(param)) => Ok(HostExpr::Scalar(param)),
            _ => Err(self.cursor.error_at(place, format!("`{name}` is no dim and no scalar of the launch"))),
        }
    }

    fn host_in_braces(&mut self) -> Parsed<HostExpr> {
        self.cursor.expect("{")?;
        let inner = self.host()?;
        self.cursor.expect("}")?;
        Ok(inner)
    }

    fn host_in_brackets(&mut self) -> Parsed<HostExpr> {
        self.cursor.expect("(")?;
        let inner = self.host()?;
        self.cursor.expect(")")?;
        Ok(inner)
    }
}
