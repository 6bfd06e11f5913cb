//! `instances(..)`: every declared combination of dtypes and constants, in order.
//!
//! Dtypes vary slowest, then the lists in the order written, the last one fastest. Values and `where` are evaluated
//! once a combination, since they may use `T::BITS`.

use super::Parser;
use super::attribute::Entries;
use super::range::Range;
use std::collections::HashSet;
use syn::{BinOp, Expr, Lit, UnOp};
use tile_ir::diag::{Code, Diagnostic};
use tile_ir::ir::{Class, ConstKind, Dtype, Instance, LARGEST_LITERAL};

/// More declared instances than this are a mistake: each is checked at expansion.
const MOST_INSTANCES: usize = 4096;

/// The value of a constant expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Int(i64),
    Bool(bool),
}

/// A constant expression that has no value: where, why, and what to write.
struct NoValue {
    at: Range,
    why: String,
}

impl NoValue {
    fn new(at: impl Into<Range>, why: impl Into<String>) -> NoValue {
        NoValue { at: at.into(), why: why.into() }
    }
}

/// What names mean in one combination.
struct Names {
    /// The bits of each dtype parameter.
    bits: Vec<(String, i64)>,
    /// Each const parameter given so far.
    consts: Vec<(String, Value)>,
}

impl Parser {
    /// Expands the lists into `Kernel::instances`.
    pub(super) fn instances(&mut self, entries: &Entries) {
        if self.check_lists(entries).is_none() {
            return;
        }
        let mut instances = vec![];
        for dtypes in self.dtype_combinations() {
            let params = self.kernel.type_params.values();
            let bits = params.zip(&dtypes).map(|(p, d)| (p.name.clone(), i64::from(d.bits()))).collect();
            let mut names = Names { bits, consts: vec![] };
            if self.combine(entries, 0, &dtypes, &mut names, &mut instances).is_none() {
                return;
            }
        }
        let at = entries.instances_at;
        if instances.is_empty()
            && let Some(at) = at
        {
            let diagnostic = Diagnostic::new(Code::ATTRIBUTE, at, "`where` excludes every combination");
            return self.error(diagnostic.help("widen a list or the condition"));
        }
        let mut seen = HashSet::new();
        if let Some(twice) = instances.iter().find(|i| !seen.insert(*i))
            && let Some(at) = at
        {
            let shown: Vec<String> = twice.consts.iter().map(i64::to_string).collect();
            let message = format!("the combination ({}) is listed twice", shown.join(", "));
            return self.error(Diagnostic::new(Code::ATTRIBUTE, at, message).help("remove one of the two"));
        }
        self.kernel.instances = instances;
    }

    /// Each name is a const parameter, each const parameter is named once.
    fn check_lists(&mut self, entries: &Entries) -> Option<()> {
        let mut named: Vec<String> = vec![];
        let mut sound = !entries.instances_damaged;
        for name in entries.groups.iter().flat_map(|group| &group.names) {
            let text = name.to_string();
            let problem = if named.contains(&text) {
                Some((format!("the values of `{text}` are given twice"), "remove one of the lists".to_owned()))
            } else if self.kernel.consts.values().all(|c| c.name != text) {
                let known: Vec<String> = self.kernel.consts.values().map(|c| format!("`{}`", c.name)).collect();
                let help = match known.as_slice() {
                    [] => format!("declare it: `const {text}: usize`"),
                    known => format!("the const parameters are {}", known.join(", ")),
                };
                Some((format!("`{text}` is not a const parameter of `{}`", self.kernel.name), help))
            } else {
                None
            };
            if let Some((message, help)) = problem {
                sound = false;
                let at = self.mark(name.span());
                self.error(Diagnostic::new(Code::ATTRIBUTE, at, message).help(help));
            }
            named.push(text);
        }
        if entries.instances_damaged {
            return None;
        }
        let missing = self.kernel.consts.iter().filter(|(_, c)| !named.contains(&c.name));
        let missing: Vec<_> =
            missing.filter(|(id, _)| !self.unfit_consts.contains(id)).map(|(_, c)| c.clone()).collect();
        sound &= self.unfit_consts.is_empty();
        for missing in missing {
            sound = false;
            let (name, value) =
                (&missing.name, if missing.kind == ConstKind::Bool { "[false, true]" } else { "[1, 2]" });
            let message = format!("const parameter `{name}` has no declared values");
            let help = format!("add `instances({name} in {value})` to #[tile_kernel(..)]");
            self.error(Diagnostic::new(Code::ATTRIBUTE, missing.span, message).help(help));
        }
        sound.then_some(())
    }

    fn dtype_combinations(&self) -> Vec<Vec<Dtype>> {
        let mut all = vec![vec![]];
        for param in self.kernel.type_params.values() {
            let extend = |row: &Vec<Dtype>| {
                let row = row.clone();
                param.allowed.iter().map(move |&dtype| row.iter().copied().chain([dtype]).collect())
            };
            all = all.iter().flat_map(extend).collect();
        }
        all
    }

    /// Adds the combinations of the lists from `group` on. `None` once something was reported.
    fn combine(
        &mut self,
        entries: &Entries,
        group: usize,
        dtypes: &[Dtype],
        names: &mut Names,
        instances: &mut Vec<Instance>,
    ) -> Option<()> {
        let Some(list) = entries.groups.get(group) else {
            return self.declare(entries, dtypes, names, instances);
        };
        let given = names.consts.len();
        for row in &list.rows {
            for (name, expr) in list.names.iter().zip(row) {
                let value = self.value(expr, names)?;
                names.consts.push((name.to_string(), value));
                self.check_kind(&name.to_string(), expr, value)?;
            }
            self.combine(entries, group + 1, dtypes, names, instances)?;
            names.consts.truncate(given);
        }
        Some(())
    }

    fn declare(
        &mut self,
        entries: &Entries,
        dtypes: &[Dtype],
        names: &Names,
        instances: &mut Vec<Instance>,
    ) -> Option<()> {
        for filter in &entries.filters {
            match self.value(filter, names)? {
                Value::Bool(true) => {}
                Value::Bool(false) => return Some(()),
                Value::Int(_) => {
                    let at = self.mark(filter);
                    let diagnostic =
                        Diagnostic::new(Code::ATTRIBUTE, at, "`where` takes a condition, this is a number");
                    self.error(diagnostic.help("compare it: `where BM * BN <= 16384`"));
                    return None;
                }
            }
        }
        if instances.len() >= MOST_INSTANCES {
            let at = entries.instances_at?;
            let message = format!("more than {MOST_INSTANCES} instances are declared");
            self.error(
                Diagnostic::new(Code::ATTRIBUTE, at, message).help("list tuples: (BM, BN) in [(64, 64), (64, 128)]"),
            );
            return None;
        }
        let value = |name: &str| names.consts.iter().find(|(n, _)| n == name).map(|&(_, value)| value);
        let consts = self.kernel.consts.values().map(|c| match value(&c.name) {
            Some(Value::Int(value)) => value,
            Some(Value::Bool(value)) => i64::from(value),
            None => 0,
        });
        instances.push(Instance {
            dtypes: dtypes.to_vec(),
            consts: consts.collect(),
            dims: vec![],
            absent: vec![],
            class: Class::WIDEST,
        });
        Some(())
    }

    fn check_kind(&mut self, name: &str, expr: &Expr, value: Value) -> Option<()> {
        let kind = self.kernel.consts.values().find(|c| c.name == name)?.kind;
        let (message, help) = match (kind, value) {
            (ConstKind::Usize, Value::Int(0..=LARGEST_LITERAL)) | (ConstKind::Bool, Value::Bool(_)) => return Some(()),
            (ConstKind::Usize, Value::Int(value)) if value > LARGEST_LITERAL => {
                let message = format!("`{name}` is too large: at most 2^53, {LARGEST_LITERAL}");
                (message, "write a lesser value")
            }
            (ConstKind::Usize, Value::Int(value)) => {
                (format!("`{name}` is a usize and cannot be {value}"), "write a value from 0")
            }
            (ConstKind::Usize, Value::Bool(value)) => {
                (format!("`{name}` is a usize and cannot be {value}"), "write an integer")
            }
            (ConstKind::Bool, Value::Int(value)) => {
                (format!("`{name}` is a bool and cannot be {value}"), "write `true` or `false`")
            }
        };
        let at = self.mark(expr);
        self.error(Diagnostic::new(Code::ATTRIBUTE, at, message).help(help));
        None
    }

    fn value(&mut self, expr: &Expr, names: &Names) -> Option<Value> {
        match evaluate(expr, names, 0) {
            Ok(value) => Some(value),
            Err(reason) => {
                let at = self.mark(reason.at);
                let help = "values are made of integers, bools, other const parameters and `T::BITS`";
                self.error(Diagnostic::new(Code::ATTRIBUTE, at, reason.why).help(help));
                None
            }
        }
    }
}

fn evaluate(expr: &Expr, names: &Names, depth: u32) -> Result<Value, NoValue> {
    if depth > super::expr::DEEPEST {
        return Err(NoValue::new(expr, "this value is nested too deeply"));
    }
    let value = |expr: &Expr| evaluate(expr, names, depth + 1);
    let int = |expr: &Expr| match value(expr)? {
        Value::Int(value) => Ok(value),
        Value::Bool(_) => Err(NoValue::new(expr, "this is a bool where a number is needed")),
    };
    match expr {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(int) => match int.base10_parse::<i64>() {
                Ok(value) => Ok(Value::Int(value)),
                Err(_) => Err(NoValue::new(expr, "this integer is too large")),
            },
            Lit::Bool(bool) => Ok(Value::Bool(bool.value)),
            _ => Err(NoValue::new(expr, "this is neither an integer nor a bool")),
        },
        Expr::Paren(inner) => value(&inner.expr),
        Expr::Group(inner) => value(&inner.expr),
        Expr::Path(path) if path.qself.is_none() => {
            let segments: Vec<String> = path.path.segments.iter().map(|s| s.ident.to_string()).collect();
            match segments.as_slice() {
                [name] => match names.consts.iter().find(|(n, _)| n == name) {
                    Some(&(_, value)) => Ok(value),
                    None => Err(NoValue::new(expr, format!("`{name}` has no value here"))),
                },
                [param, bits] if bits == "BITS" => {
                    let param_bits = names.bits.iter().find(|(n, _)| n == param).map(|&(_, bits)| bits);
                    let bits = param_bits.or_else(|| Dtype::from_name(param).map(|d| i64::from(d.bits())));
                    bits.map(Value::Int).ok_or_else(|| NoValue::new(expr, format!("`{param}` is not a dtype")))
                }
                _ => Err(NoValue::new(expr, "this path has no value here")),
            }
        }
        Expr::Unary(unary) => match (unary.op, value(&unary.expr)?) {
            (UnOp::Not(_), Value::Bool(value)) => Ok(Value::Bool(!value)),
            (UnOp::Neg(_), Value::Int(value)) => {
                value.checked_neg().map(Value::Int).ok_or_else(|| NoValue::new(expr, "this value overflows"))
            }
            _ => Err(NoValue::new(expr, "this operator does not fit its operand")),
        },
        Expr::Binary(binary) => match binary.op {
            BinOp::And(_) | BinOp::Or(_) => {
                let and = matches!(binary.op, BinOp::And(_));
                match value(&binary.left)? {
                    Value::Bool(left) if left != and => Ok(Value::Bool(left)),
                    Value::Bool(_) => match value(&binary.right)? {
                        Value::Bool(right) => Ok(Value::Bool(right)),
                        Value::Int(_) => Err(NoValue::new(&*binary.right, "this is a number where a bool is needed")),
                    },
                    Value::Int(_) => Err(NoValue::new(&*binary.left, "this is a number where a bool is needed")),
                }
            }
            _ => match (value(&binary.left)?, value(&binary.right)?) {
                (Value::Int(a), Value::Int(b)) => arithmetic(expr, &binary.op, a, b),
                (Value::Bool(a), Value::Bool(b)) => match binary.op {
                    BinOp::Eq(_) => Ok(Value::Bool(a == b)),
                    BinOp::Ne(_) => Ok(Value::Bool(a != b)),
                    _ => Err(NoValue::new(expr, "this operator does not fit bools")),
                },
                _ => Err(NoValue::new(expr, "a number and a bool cannot be combined")),
            },
        },
        Expr::Call(call) => {
            let name = match &*call.func {
                Expr::Path(path) => path.path.segments.last().map(|s| s.ident.to_string()).unwrap_or_default(),
                _ => String::new(),
            };
            let arguments: Vec<&Expr> = call.args.iter().collect();
            match (name.as_str(), arguments.as_slice()) {
                ("min", [a, b]) => Ok(Value::Int(int(a)?.min(int(b)?))),
                ("max", [a, b]) => Ok(Value::Int(int(a)?.max(int(b)?))),
                ("ceil_div", [a, b]) => match (int(a)?, int(b)?) {
                    (a, b @ 1..) if a >= 0 => Ok(Value::Int(a / b + i64::from(a % b != 0))),
                    _ => Err(NoValue::new(expr, "ceil_div needs a divisor above 0")),
                },
                _ => Err(NoValue::new(expr, "this call has no value here")),
            }
        }
        _ => Err(NoValue::new(expr, "this has no value here")),
    }
}

fn arithmetic(expr: &Expr, op: &BinOp, a: i64, b: i64) -> Result<Value, NoValue> {
    let shift = u32::try_from(b).ok();
    let value = match op {
        BinOp::Add(_) => a.checked_add(b),
        BinOp::Sub(_) => a.checked_sub(b),
        BinOp::Mul(_) => a.checked_mul(b),
        BinOp::Div(_) if b == 0 => return Err(NoValue::new(expr, "this divides by zero")),
        BinOp::Rem(_) if b == 0 => return Err(NoValue::new(expr, "this divides by zero")),
        BinOp::Div(_) => a.checked_div(b),
        BinOp::Rem(_) => a.checked_rem(b),
        BinOp::BitAnd(_) => Some(a & b),
        BinOp::BitOr(_) => Some(a | b),
        BinOp::BitXor(_) => Some(a ^ b),
        BinOp::Shl(_) => shift.filter(|&s| s < 62).and_then(|s| a.checked_mul(1 << s)),
        BinOp::Shr(_) => shift.and_then(|s| a.checked_shr(s)),
        BinOp::Lt(_) => return Ok(Value::Bool(a < b)),
        BinOp::Le(_) => return Ok(Value::Bool(a <= b)),
        BinOp::Gt(_) => return Ok(Value::Bool(a > b)),
        BinOp::Ge(_) => return Ok(Value::Bool(a >= b)),
        BinOp::Eq(_) => return Ok(Value::Bool(a == b)),
        BinOp::Ne(_) => return Ok(Value::Bool(a != b)),
        _ => return Err(NoValue::new(expr, "this operator has no value here")),
    };
    value.map(Value::Int).ok_or_else(|| NoValue::new(expr, "this value overflows"))
}
