//! A lowered program as text: interface, launch, memory, body.

use super::{Lines, commas, tuple};
use crate::ir::{DimId, EntityRef, ParamId, Trigger};
use crate::lowered::{
    BarrierId, CheckKind, HostExpr, LocalId, MapId, ParameterKind, Program, RegId, SharedId, Space, ValueType,
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
        self.lines.line(format!("program {} for {}", program.name, program.target));
        self.section("parameters", |p| {
            for (position, parameter) in program.params.iter().enumerate() {
                let what = match parameter.kind {
                    ParameterKind::Pointer(tensor) => format!("address of {}", p.tensor(tensor)),
                    ParameterKind::Dim(dim) => format!("dim {}", p.dim(dim)),
                    ParameterKind::Stride(tensor, axis) => format!("stride of {} on axis {axis}", p.tensor(tensor)),
                    ParameterKind::Scalar(param) => format!("scalar {}", p.tensor(param)),
                    ParameterKind::TensorMap(map) => format!("tensor map {}", p.map(map)),
                    ParameterKind::Log => "the device's log".to_owned(),
                    ParameterKind::LogFunction => "which function of the log's".to_owned(),
                    ParameterKind::Ahead(slots) => format!("{slots} where it may begin early, else 0"),
                };
                let text = format!("{}: {} = {what}", p.parameter(position as u32), type_name(parameter.ty));
                p.lines.line(text);
            }
        });
        self.section("tensors", |p| {
            for tensor in &program.tensors {
                let mutable = if tensor.mutable { "mut " } else { "" };
                let shape = tuple(tensor.shape.iter().map(|e| p.host(e)));
                let stream = match (tensor.stream, tensor.mutable) {
                    (false, _) => "",
                    (true, false) => ", read once",
                    (true, true) => ", not kept in L2",
                };
                let independent = if tensor.independent { ", independent" } else { "" };
                let text =
                    format!("{}: {mutable}{} {shape}{stream}{independent}", p.tensor(tensor.param), tensor.dtype);
                p.lines.line(text);
            }
        });
        self.section("launch", |p| {
            let [x, y, z] = &program.launch.grid;
            let grid = format!("blocks [{}, {}, {}]", p.host(x), p.host(y), p.host(z));
            p.lines.line(grid);
            let [x, y, z] = program.launch.threads;
            p.lines.line(format!("threads [{x}, {y}, {z}]"));
            if let Some(blocks) = program.launch.min_blocks {
                p.lines.line(format!("at least {blocks} blocks a multiprocessor"));
            }
            if program.launch.cluster != [1, 1, 1] {
                let [x, y, z] = program.launch.cluster;
                p.lines.line(format!("clusters [{x}, {y}, {z}]"));
            }
            if let Some(registers) = &program.launch.registers {
                let (launch, producer, consumer) = (registers.launch, registers.producer, registers.consumer);
                p.lines.line(format!("registers {launch} at launch, {producer} a producer, {consumer} a consumer"));
            }
            match program.launch.dependent {
                None => {}
                Some(Trigger::AfterWait) => p.lines.line("may start before the previous kernel is done"),
                Some(Trigger::AtStart) => p
                    .lines
                    .line("may start before the previous kernel is done, and lets the next one start beside both"),
            }
            for check in &program.launch.checks {
                let kind = match &check.kind {
                    CheckKind::Specialized { .. } => "specialize".to_owned(),
                    CheckKind::Require { .. } => "require".to_owned(),
                    CheckKind::Alignment { tensor, bytes } => format!("{} aligned to {bytes} bytes", p.tensor(*tensor)),
                    CheckKind::StrideMultiple { tensor, axis, multiple } => {
                        format!("stride of {} on axis {axis} a multiple of {multiple}", p.tensor(*tensor))
                    }
                    CheckKind::Operand { kind, .. } => kind.must_be().to_owned(),
                    CheckKind::IndexRange { bound } => format!("index at most {}", p.host(bound)),
                };
                let text = format!("check {} ({kind})", p.host(&check.holds));
                p.lines.line(text);
            }
        });
        if !program.tensor_maps.is_empty() {
            self.section("tensor maps", |p| {
                for (id, map) in program.tensor_maps.iter() {
                    let extents = commas(map.box_extents.iter().map(u32::to_string));
                    let (name, tensor) = (p.map(id), p.tensor(map.tensor));
                    let how = format!("swizzle {}, promotion {:?}", map.swizzle.name(), map.promotion);
                    let direction = if map.stores { "to" } else { "of" };
                    p.lines.line(format!("{name}: boxes [{extents}] {direction} {tensor}, {how}"));
                }
            });
        }
        if program.shared_bytes > 0 || !program.shared.is_empty() {
            self.section(&format!("shared: {} bytes", program.shared_bytes), |p| {
                for (id, array) in program.shared.iter() {
                    let scratch = if array.scratch { ", scratch" } else { "" };
                    let (name, dtype, len) = (p.shared(id), array.dtype, array.len);
                    let slots = if array.slots == 1 { String::new() } else { format!(" in {} slots", array.slots) };
                    let place = format!("at byte {}, aligned to {}{slots}{scratch}", array.offset, array.align);
                    p.lines.line(format!("{name}: {dtype}[{len}] {place}"));
                }
                for (id, array) in program.barriers.iter() {
                    let text = format!("{}: barrier[{}] at byte {}", p.barriers(id), array.len, array.offset);
                    p.lines.line(text);
                }
            });
        }
        self.section("body", |p| p.operations(&program.body));
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
            Some(name) if self.names => name.clone(),
            Some(_) => id,
            None => format!("?{id}"),
        }
    }

    fn dim(&self, dim: DimId) -> String {
        self.pick(self.program.dims.get(dim.index()), dim.to_string())
    }

    /// A tensor's name; a scalar's is that of its C parameter.
    pub(super) fn tensor(&self, param: ParamId) -> String {
        let tensor = self.program.tensors.iter().find(|t| t.param == param).map(|t| &t.name);
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
