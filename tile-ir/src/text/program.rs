//! A lowered program as text: interface, launch, memory, body. [`crate::text::parse_program`] reads it.

use super::{Lines, commas, tuple};
use crate::ir::{Class, DimId, EntityRef, ParamId, Side, Trigger, Width};
use crate::lowered::{
    BarrierId, Check, CheckKind, HostExpr, LocalId, MapId, MessageKind, OperandKind, ParameterKind, Program, RegId,
    RolesRegisters, SharedId, Space, ValueType,
};
use std::fmt;

impl fmt::Display for Program {
    /// Everything about the program but spans, source, and what is there for `explain` (arrivals, remarks), with the author's
    /// names; ends with a line break.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print(self, true))
    }
}

/// The program's text with numbers for the author's names, the symbol excepted: what a cache key is made of. Programs
/// that differ only in names, spans, source, arrivals or remarks have the same text; programs that differ in anything else do
/// not.
pub fn canonical(program: &Program) -> String {
    print(program, false)
}

fn print(program: &Program, names: bool) -> String {
    let mut printer = ProgramPrinter { program, names, lines: Lines::default() };
    printer.program();
    printer.lines.text
}

pub(super) struct ProgramPrinter<'p> {
    pub(super) program: &'p Program,
    names: bool,
    pub(super) lines: Lines,
}

impl ProgramPrinter<'_> {
    fn program(&mut self) {
        let program = self.program;
        self.lines.line(format!("program {} for {}", word(&program.name), program.target));
        if !program.dims.is_empty() {
            let dims = commas((0..program.dims.len()).map(|d| self.dim(DimId::new(d))));
            self.lines.line(format!("dims {dims}"));
        }
        self.section("parameters", Self::parameters);
        self.section("tensors", Self::tensors);
        self.section("launch", Self::launch);
        if !program.tensor_maps.is_empty() {
            self.section("tensor maps", Self::tensor_maps);
        }
        if program.shared_bytes > 0 || !program.shared.is_empty() || !program.barriers.is_empty() {
            self.section(&format!("shared: {} bytes", program.shared_bytes), Self::shared_memory);
        }
        if !program.messages.is_empty() {
            self.section("messages", Self::messages);
        }
        if !program.tiles.is_empty() {
            self.section("tiles", |p| {
                for tile in &program.tiles {
                    let inside = tile.inside.map_or_else(String::new, |inside| format!(", inside {}", p.reg(inside)));
                    p.lines.line(format!("{} of {}{inside}", p.reg(tile.index), p.host(&tile.extent)));
                }
            });
        }
        self.section("body", |p| p.operations(&program.body));
    }

    fn parameters(&mut self) {
        for (position, parameter) in self.program.params.iter().enumerate() {
            let what = match parameter.kind {
                ParameterKind::Pointer(tensor) => format!("address of {}", self.tensor(tensor)),
                ParameterKind::Dim(dim) => format!("dim {}", self.dim(dim)),
                ParameterKind::Stride(tensor, axis) => format!("stride of {} on axis {axis}", self.tensor(tensor)),
                ParameterKind::Scalar(param) => format!("argument {}", param.index()),
                ParameterKind::TensorMap(map) => format!("tensor map {}", self.map(map)),
                ParameterKind::Log => "device log".to_owned(),
                ParameterKind::LogFunction => "device log function".to_owned(),
                ParameterKind::Ahead(slots) => format!("{slots} where it may begin early, else 0"),
                ParameterKind::Computed(place) => match self.program.launch.computed.get(place as usize) {
                    Some(number) => format!("computed {}", self.host(number)),
                    None => format!("computed number {place}, which is none"),
                },
            };
            self.lines.line(format!("{}: {} = {what}", self.parameter(position as u32), type_name(parameter.ty)));
        }
    }

    fn tensors(&mut self) {
        for tensor in &self.program.tensors {
            let mutable = if tensor.mutable { "mut " } else { "" };
            let shape = tuple(tensor.shape.iter().map(|e| self.host(e)));
            let stream = match (tensor.stream, tensor.mutable) {
                (false, _) => "",
                (true, false) => ", read once",
                (true, true) => ", not kept in L2",
            };
            let output = if tensor.output { ", output" } else { "" };
            let independent = if tensor.independent { ", independent" } else { "" };
            let ordered = if tensor.ordered { ", ordered" } else { "" };
            let (name, dtype, argument) = (self.tensor(tensor.param), tensor.dtype, tensor.param.index());
            let what = format!("{mutable}{dtype} {shape} of argument {argument}");
            self.lines.line(format!("{name}: {what}{stream}{output}{independent}{ordered}"));
        }
    }

    fn launch(&mut self) {
        let launch = &self.program.launch;
        let [x, y, z] = &launch.grid;
        self.lines.line(format!("blocks [{}, {}, {}]", self.host(x), self.host(y), self.host(z)));
        let [x, y, z] = launch.threads;
        let stated = if launch.states_threads { ", as stated to nvcc" } else { "" };
        self.lines.line(format!("threads [{x}, {y}, {z}]{stated}"));
        if let Some(blocks) = launch.min_blocks {
            self.lines.line(format!("at least {blocks} blocks a multiprocessor"));
        }
        if launch.cluster != [1, 1, 1] {
            let [x, y, z] = launch.cluster;
            self.lines.line(format!("clusters [{x}, {y}, {z}]"));
        }
        if let Some(RolesRegisters { launch, producer, consumer }) = launch.registers {
            self.lines.line(format!("registers {launch} at launch, {producer} a producer, {consumer} a consumer"));
        }
        match launch.dependent {
            None => {}
            Some(Trigger::AfterWait) => self.lines.line("may start before the previous kernel is done"),
            Some(Trigger::AtStart) => {
                self.lines.line("may start before the previous kernel is done, and lets the next one start beside both")
            }
        }
        if !launch.class.is_widest() {
            let Class { reads, writes } = launch.class;
            self.lines.line(format!("class reads {}, writes {}", width_name(reads), width_name(writes)));
        }
        for check in &launch.checks {
            self.check(check);
        }
    }

    fn check(&mut self, check: &Check) {
        let kind = match &check.kind {
            CheckKind::Specialized { dim, value } => format!("specialize {} = {value}", self.dim(*dim)),
            CheckKind::Require { text } if self.names => format!("require {text:?}"),
            // What is required is in `holds`; the text is the author's.
            CheckKind::Require { .. } => "require".to_owned(),
            CheckKind::Alignment { tensor, bytes } => format!("{} aligned to {bytes} bytes", self.tensor(*tensor)),
            CheckKind::StrideMultiple { tensor, axis, multiple } => {
                format!("stride of {} on axis {axis} a multiple of {multiple}", self.tensor(*tensor))
            }
            CheckKind::Operand { kind: OperandKind::Step, value } => format!("step of a loop {}", self.host(value)),
            CheckKind::Operand { kind: OperandKind::Shift, value } => format!("shift of an index {}", self.host(value)),
            CheckKind::IndexRange { bound } => format!("index at most {}", self.host(bound)),
        };
        let request = match check.request {
            None => "",
            Some(Side::Reads) => ", requested of reads",
            Some(Side::Writes) => ", requested of writes",
        };
        self.lines.line(format!("check {} ({kind}){request}", self.host(&check.holds)));
    }

    fn tensor_maps(&mut self) {
        for (id, map) in self.program.tensor_maps.iter() {
            let extents = commas(map.box_extents.iter().map(u32::to_string));
            let (name, tensor) = (self.map(id), self.tensor(map.tensor));
            let how = format!("swizzle {}, promotion {:?}", map.swizzle.name(), map.promotion);
            let direction = if map.stores { "to" } else { "of" };
            self.lines.line(format!("{name}: boxes [{extents}] {direction} {tensor}, {how}"));
        }
    }

    fn shared_memory(&mut self) {
        for (id, array) in self.program.shared.iter() {
            let scratch = if array.scratch { ", scratch" } else { "" };
            let (name, dtype, len) = (self.shared(id), array.dtype, array.len);
            let slots = if array.slots == 1 { String::new() } else { format!(" in {} slots", array.slots) };
            let beyond =
                if array.beyond == 0 { String::new() } else { format!(", read {} bytes beyond", array.beyond) };
            let place = format!("at byte {}, aligned to {}{slots}{scratch}{beyond}", array.offset, array.align);
            self.lines.line(format!("{name}: {dtype}[{len}] {place}"));
        }
        for (id, array) in self.program.barriers.iter() {
            self.lines.line(format!("{}: barrier[{}] at byte {}", self.barriers(id), array.len, array.offset));
        }
    }

    fn messages(&mut self) {
        for (id, message) in self.program.messages.iter() {
            let kind = match message.kind {
                MessageKind::Print => "print",
                MessageKind::Assert => "assert",
            };
            let args = commas(message.args.iter().map(|ty| type_name(*ty).to_owned()));
            self.lines.line(format!("{id}: {kind} {:?} ({args})", message.text));
        }
    }

    fn section(&mut self, title: &str, print: impl FnOnce(&mut Self)) {
        self.lines.line(title);
        self.lines.depth += 1;
        print(self);
        self.lines.depth -= 1;
    }

    fn host(&self, expr: &HostExpr) -> String {
        let dims: Vec<String> = (0..self.program.dims.len()).map(|d| self.dim(DimId::new(d))).collect();
        expr.display(&dims, &|param| self.tensor(param))
    }

    fn pick(&self, name: Option<&String>, id: String) -> String {
        match name {
            Some(name) if self.names => word(name),
            Some(_) => id,
            None => format!("?{id}"),
        }
    }

    fn dim(&self, dim: DimId) -> String {
        self.pick(self.program.dims.get(dim.index()), dim.to_string())
    }

    /// A tensor's name; a scalar's is that of its C parameter.
    pub(super) fn tensor(&self, param: ParamId) -> String {
        let tensor = self.program.tensor(Space::Global(param)).map(|t| &t.name);
        let scalar = || self.program.params.iter().find(|p| p.kind == ParameterKind::Scalar(param)).map(|p| &p.name);
        self.pick(tensor.or_else(scalar), param.to_string())
    }

    pub(super) fn parameter(&self, position: u32) -> String {
        self.pick(self.program.params.get(position as usize).map(|p| &p.name), format!("arg{position}"))
    }

    pub(super) fn reg(&self, reg: RegId) -> String {
        self.pick(self.program.regs.get(reg).map(|r| &r.name), reg.to_string())
    }

    pub(super) fn local(&self, local: LocalId) -> String {
        self.pick(self.program.locals.get(local).map(|l| &l.name), local.to_string())
    }

    pub(super) fn shared(&self, shared: SharedId) -> String {
        self.pick(self.program.shared.get(shared).map(|s| &s.name), shared.to_string())
    }

    pub(super) fn map(&self, map: MapId) -> String {
        self.pick(self.program.tensor_maps.get(map).map(|m| &m.name), map.to_string())
    }

    pub(super) fn barriers(&self, array: BarrierId) -> String {
        self.pick(self.program.barriers.get(array).map(|b| &b.name), array.to_string())
    }

    pub(super) fn space(&self, space: Space) -> String {
        match space {
            Space::Global(param) => self.tensor(param),
            Space::Shared(shared) => self.shared(shared),
            Space::Local(local) => self.local(local),
        }
    }
}

/// A name, in quotation marks where it is not one word: that of a dim may be a formula.
fn word(name: &str) -> String {
    let first = name.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_');
    if first && name.chars().all(|c| c.is_alphanumeric() || c == '_') { name.to_owned() } else { format!("{name:?}") }
}

/// The bytes that rows are moved in.
fn width_name(width: Width) -> &'static str {
    match width {
        Width::Sixteen => "16",
        Width::Eight => "8",
        Width::Four => "4",
        Width::Element => "element",
    }
}

/// A value type's name.
pub(super) fn type_name(ty: ValueType) -> &'static str {
    match ty {
        ValueType::Index => "index",
        ValueType::Wide => "wide",
        ValueType::Element(dtype) => dtype.name(),
    }
}

/// The items of a call.
pub(super) fn call(name: &str, args: impl IntoIterator<Item = String>) -> String {
    format!("{name}({})", commas(args))
}
