//! The printed text means the tree it was printed from: random values are printed, read again by C's rules of precedence,
//! and compared. What the simulators run is the tree; what runs on a GPU is the text.

use super::emit;
use super::value::value;
use crate::ir::{BinaryOp, Dtype, SpanId, UnaryOp};
use crate::lower::lower_bound;
use crate::lowered::{Op, OpKind, Program, Reg, RegId, Unroll, Value, ValueId, ValueKind, ValueType};
use crate::testing::parsed;
use cranelift_entity::EntityRef;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// A program with four index registers and nothing else.
fn program() -> Program {
    let kernel = parsed("kernel empty() {}");
    let mut program = lower_bound(&crate::testing::bound(&kernel), crate::ir::Target::Sm90a).unwrap();
    program.regs = Default::default();
    program.values.clear();
    program.body.clear();
    for name in NAMES {
        program.regs.push(Reg { name: name.into(), ty: ValueType::Index, mutable: false });
    }
    program
}

struct Trees<'a> {
    program: &'a mut Program,
    state: u64,
}

impl Trees<'_> {
    fn below(&mut self, n: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % n
    }

    fn push(&mut self, kind: ValueKind, ty: ValueType) -> ValueId {
        self.program.values.push(Value { kind, ty, span: SpanId::new(0) })
    }

    /// An index of so many levels; `wide`: of 64 bits.
    fn index(&mut self, depth: u32, wide: bool) -> ValueId {
        use BinaryOp::*;
        const OPS: [BinaryOp; 13] = [Add, Sub, Mul, Div, Rem, CeilDiv, Min, Max, BitAnd, BitOr, BitXor, Shl, Shr];
        let ty = if wide { ValueType::Wide } else { ValueType::Index };
        if wide && self.below(4) == 0 {
            let narrow = self.index(depth, false);
            return self.push(ValueKind::Cast(narrow), ty);
        }
        if depth == 0 {
            return match self.below(6) {
                0 => self.push(ValueKind::Int(-7), ty),
                1 => self.push(ValueKind::Int(5), ty),
                _ => {
                    let reg = RegId::new(self.below(4) as usize);
                    let reg = self.push(ValueKind::Reg(reg), ValueType::Index);
                    if wide { self.push(ValueKind::Cast(reg), ty) } else { reg }
                }
            };
        }
        match self.below(16) {
            0 => {
                let [c, a, b] = [self.truth(depth - 1), self.index(depth - 1, wide), self.index(depth - 1, wide)];
                self.push(ValueKind::Select(c, a, b), ty)
            }
            1 => {
                let x = self.index(depth - 1, wide);
                self.push(ValueKind::Unary(UnaryOp::Neg, x), ty)
            }
            2 => {
                let x = self.index(depth - 1, wide);
                self.push(ValueKind::Cast(x), ty)
            }
            _ => {
                let op = OPS[self.below(OPS.len() as u64) as usize];
                let [a, b] = [self.index(depth - 1, wide), self.index(depth - 1, wide)];
                self.push(ValueKind::Binary(op, a, b), ty)
            }
        }
    }

    /// A `bool`.
    fn truth(&mut self, depth: u32) -> ValueId {
        use BinaryOp::*;
        let ty = ValueType::BOOL;
        if depth == 0 || self.below(3) == 0 {
            let op = [Lt, Le, Gt, Ge, Eq, Ne][self.below(6) as usize];
            let depth = depth.saturating_sub(1);
            let [a, b] = [self.index(depth, false), self.index(depth, false)];
            return self.push(ValueKind::Binary(op, a, b), ty);
        }
        match self.below(6) {
            0 => {
                let x = self.truth(depth - 1);
                self.push(ValueKind::Unary(UnaryOp::Not, x), ty)
            }
            1 => {
                let x = self.index(depth - 1, false);
                self.push(ValueKind::Cast(x), ty)
            }
            2 => {
                let [c, a, b] = [self.truth(depth - 1), self.truth(depth - 1), self.truth(depth - 1)];
                self.push(ValueKind::Select(c, a, b), ty)
            }
            kind => {
                let op = [And, Or, BitAnd, BitXor, Eq, Ne][(kind + self.below(4)) as usize % 6];
                let [a, b] = [self.truth(depth - 1), self.truth(depth - 1)];
                self.push(ValueKind::Binary(op, a, b), ty)
            }
        }
    }
}

/// The tree with every operation in parentheses.
fn full(program: &Program, id: ValueId) -> String {
    let node = &program.values[id];
    let of = |v: ValueId| full(program, v);
    match &node.kind {
        ValueKind::Int(n) if node.ty == ValueType::Wide && *n < 0 => format!("(-{}ll)", -n),
        ValueKind::Int(n) if *n < 0 => format!("(-{})", -n),
        ValueKind::Int(n) if node.ty == ValueType::Wide => format!("{n}ll"),
        ValueKind::Int(n) => n.to_string(),
        ValueKind::Reg(reg) => program.regs[*reg].name.clone(),
        ValueKind::Unary(UnaryOp::Neg, x) => format!("(-{})", of(*x)),
        ValueKind::Unary(UnaryOp::Not, x) => format!("(!{})", of(*x)),
        ValueKind::Cast(x) if program.values[*x].ty == node.ty => of(*x),
        ValueKind::Cast(x) if node.ty == ValueType::BOOL => format!("({}!=0)", of(*x)),
        ValueKind::Cast(x) if node.ty == ValueType::Wide => format!("((longlong){})", of(*x)),
        ValueKind::Cast(x) => format!("((int){})", of(*x)),
        ValueKind::Select(c, a, b) => format!("({}?{}:{})", of(*c), of(*a), of(*b)),
        ValueKind::Binary(op @ (BinaryOp::CeilDiv | BinaryOp::Min | BinaryOp::Max), a, b) => {
            format!("{}({},{})", op.symbol(), of(*a), of(*b))
        }
        ValueKind::Binary(op @ (BinaryOp::Shl | BinaryOp::Shr), a, b)
            if !matches!(program.values[*b].kind, ValueKind::Int(0..=31)) =>
        {
            format!("({}{}({}&31))", of(*a), op.symbol(), of(*b))
        }
        ValueKind::Binary(op, a, b) => joined(&of(*a), op.symbol(), &of(*b)),
        other => panic!("not drawn: {other:?}"),
    }
}

/// Two operands and their operator. Sums, `&&` and `||` associate and become lists: of sums the printed order of evaluation is
/// not the tree's, for the others it is.
fn joined(left: &str, op: &str, right: &str) -> String {
    let (list, sign) = match op {
        "&&" | "||" => (op, ""),
        "+" | "-" => ("sum", op),
        _ => return format!("({left}{op}{right})"),
    };
    let items = |side: &str, sign: &str| match side.strip_prefix(&format!("{list}{{")).and_then(|r| r.strip_suffix('}'))
    {
        Some(items) if sign != "-" => items.to_owned(),
        _ => format!("{sign}{side}"),
    };
    let first = if list == "sum" { "+" } else { "" };
    format!("{list}{{{};{}}}", items(left, first), items(right, sign))
}

/// A reader of C expressions: what [`full`] prints, from any text.
struct Reader<'a> {
    tokens: Vec<&'a str>,
    at: usize,
}

fn read(text: &str) -> String {
    let mut tokens = vec![];
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let word = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let two = ["<<", ">>", "<=", ">=", "==", "!=", "&&", "||"].iter().any(|op| rest.starts_with(op));
        let length = if word > 0 { word } else { 1 + usize::from(two) };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    let mut reader = Reader { tokens, at: 0 };
    let read = reader.conditional();
    assert_eq!(reader.at, reader.tokens.len(), "{text}: read {read}");
    read
}

impl<'a> Reader<'a> {
    fn peek(&self) -> &'a str {
        self.tokens.get(self.at).copied().unwrap_or("")
    }

    fn take(&mut self) -> &'a str {
        self.at += 1;
        self.tokens.get(self.at - 1).copied().unwrap_or("")
    }

    fn expect(&mut self, token: &str) {
        assert_eq!(self.take(), token, "{:?} at {}", self.tokens, self.at - 1);
    }

    fn conditional(&mut self) -> String {
        let condition = self.binary(0);
        if self.peek() != "?" {
            return condition;
        }
        self.take();
        let then = self.conditional();
        self.expect(":");
        let otherwise = self.conditional();
        format!("({condition}?{then}:{otherwise})")
    }

    /// Source of the levels: ISO C, 6.5.
    fn binary(&mut self, least: u32) -> String {
        let level = |token: &str| match token {
            "||" => Some(1),
            "&&" => Some(2),
            "|" => Some(3),
            "^" => Some(4),
            "&" => Some(5),
            "==" | "!=" => Some(6),
            "<" | "<=" | ">" | ">=" => Some(7),
            "<<" | ">>" => Some(8),
            "+" | "-" => Some(9),
            "*" | "/" | "%" => Some(10),
            _ => None,
        };
        let mut left = self.prefix();
        while let Some(own) = level(self.peek()).filter(|own| *own >= least) {
            let op = self.take();
            let right = self.binary(own + 1);
            left = joined(&left, op, &right);
        }
        left
    }

    fn prefix(&mut self) -> String {
        match self.take() {
            op @ ("-" | "!" | "~") => format!("({op}{})", self.prefix()),
            "(" if matches!(self.peek(), "int" | "long") => {
                let mut ty = String::new();
                while self.peek() != ")" {
                    ty.push_str(self.take());
                }
                self.take();
                format!("(({ty}){})", self.prefix())
            }
            "(" => {
                let inner = self.conditional();
                self.expect(")");
                inner
            }
            word if self.peek() == "(" => {
                self.take();
                let mut arguments = vec![self.conditional()];
                while self.peek() == "," {
                    self.take();
                    arguments.push(self.conditional());
                }
                self.expect(")");
                format!("{word}({})", arguments.join(","))
            }
            word => word.to_owned(),
        }
    }
}

#[test]
fn printed_values_read_as_their_trees() {
    let mut program = program();
    for seed in 0..4000 {
        program.values.clear();
        let mut trees = Trees { program: &mut program, state: seed };
        let depth = 1 + trees.below(4) as u32;
        let wide = trees.below(3) == 0;
        let id = if trees.below(3) == 0 { trees.truth(depth) } else { trees.index(depth, wide) };
        let text = value(&program, id);
        assert_eq!(read(&text), full(&program, id), "seed {seed}: {text}");
    }
}

/// A loop's end stands right of `<`: unparenthesised, `i < c ? a : b` never ends.
#[test]
fn loop_ends_read_as_their_trees() {
    for seed in 0..1000 {
        let mut program = program();
        let mut trees = Trees { program: &mut program, state: seed };
        let depth = trees.below(4) as u32;
        let [start, end, step] = [0; 3].map(|_| trees.index(depth, false));
        let reg = program.regs.push(Reg { name: "i".into(), ty: ValueType::Index, mutable: true });
        let kind = OpKind::For { reg, start, end, step, unroll: Unroll::Auto, body: vec![] };
        program.body.push(Op { kind, span: SpanId::new(0) });
        let text = emit(&program);
        let head = text.lines().find_map(|line| line.trim().strip_prefix("for (int i = ")).unwrap();
        let parts: Vec<&str> = head.trim_end_matches(") {").split(';').collect();
        let [from, condition, advance] = parts[..] else { panic!("{head}") };
        assert_eq!(read(from), full(&program, start), "seed {seed}: {head}");
        assert_eq!(read(condition), format!("(i<{})", full(&program, end)), "seed {seed}: {head}");
        let advance = advance.trim().strip_prefix("i += ").map_or("1".to_owned(), read);
        assert_eq!(advance, full(&program, step).replace("++i", "1"), "seed {seed}: {head}");
    }
}

#[test]
fn a_negative_number_keeps_apart_from_a_minus() {
    let mut program = program();
    let ty = ValueType::Element(Dtype::F32);
    let mut push = |kind| program.values.push(Value { kind, ty, span: SpanId::new(0) });
    let number = push(ValueKind::Float(-1.0));
    let negated = push(ValueKind::Unary(UnaryOp::Neg, number));
    assert_eq!(value(&program, negated), "-(-1.0f)");
}

/// What is loaded past L1 is the same either way: where the loads are ordered, by an instruction that may not move and not through the
/// read-only path.
#[test]
fn ordered_loads_differ_in_their_order_alone() {
    let with = |mark: &str| -> Vec<(String, String)> {
        let parts = super::PRELUDE.split("//@ ").filter_map(|part| part.split_once('\n'));
        parts.filter_map(|(head, code)| Some((head.strip_prefix(mark)?.to_owned(), code.to_owned()))).collect()
    };
    let (unordered, ordered) = (with(super::UNORDERED), with(super::ORDERED));
    assert!(!unordered.is_empty());
    let reordered = |(head, code): (String, String)| {
        assert!(code.contains("asm(\"") && code.contains("ld.global.nc."), "{code}");
        (head, code.replace("asm(", "asm volatile(").replace("ld.global.nc.", "ld.global."))
    };
    assert_eq!(unordered.into_iter().map(reordered).collect::<Vec<_>>(), ordered);
}
