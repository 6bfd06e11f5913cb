//! Values as C expressions, with the parentheses that C's precedence needs and `-Wparentheses` would ask for.

use super::type_name;
use crate::ir::{BinaryOp, DtypeClass, FloatFormat, IntFormat, MathFn, UnaryOp};
use crate::lowered::{
    LocalArray, Memory, Parameter, ParameterKind, Program, Space, Special, ValueId, ValueKind, ValueType,
};

/// The value as an expression, parenthesised where an operand needs it.
pub(super) fn value(program: &Program, id: ValueId) -> String {
    let node = &program.values[id];
    match &node.kind {
        ValueKind::Int(number) => integer(*number, node.ty),
        ValueKind::Float(number) => float(*number, node.ty),
        ValueKind::Param(index) => match program.params.get(*index as usize) {
            Some(Parameter { name, kind: ParameterKind::Pointer(_), .. }) => format!("(long long){name}"),
            Some(Parameter { name, .. }) => name.clone(),
            None => String::new(),
        },
        ValueKind::Thread(axis) => format!("(int)threadIdx.{}", axis_name(*axis)),
        ValueKind::Block(axis) => format!("(int)blockIdx.{}", axis_name(*axis)),
        ValueKind::Reg(reg) => program.regs[*reg].name.clone(),
        ValueKind::Unary(op, x) => unary(program, *op, *x, node.ty),
        ValueKind::Binary(op, a, b) => binary(program, *op, *a, *b, node.ty),
        ValueKind::Math(function, args) => math(program, *function, args, node.ty),
        ValueKind::Select(c, a, b) | ValueKind::Choose(c, a, b) => {
            let side = |v: ValueId| bound(program, v, 2);
            format!("{} ? {} : {}", side(*c), side(*a), side(*b))
        }
        ValueKind::Cast(x) => cast(program, *x, node.ty),
        ValueKind::Divisor(x) => format!("tile_divisor({})", value(program, *x)),
        ValueKind::Quotient(x, d, r) => {
            let [x, d, r] = [x, d, r].map(|operand| value(program, *operand));
            format!("tile_quotient({x}, {d}, {r})")
        }
        ValueKind::Load(memory) => load(program, memory, node.ty),
        ValueKind::Special(special) => match special {
            Special::Warp => "tile_warp".into(),
            Special::Lane => "tile_lane".into(),
            Special::ClusterRank => "tile_cluster_rank".into(),
            Special::Grid(axis) => format!("(int)gridDim.{}", axis_name(*axis)),
            Special::Elected => "tile_elected()".into(),
        },
        ValueKind::Pack(dtype, low, high) => {
            let how = if program.values[*low].ty == ValueType::Element(*dtype) { "join" } else { "pack" };
            format!("tile_{how}_{dtype}({}, {})", value(program, *low), value(program, *high))
        }
        ValueKind::Unpack(dtype, word, high) => {
            let how = if node.ty == ValueType::Element(*dtype) { "half" } else { "unpack" };
            format!("tile_{how}_{dtype}({}, {high})", value(program, *word))
        }
        ValueKind::Descriptor { shared, bits } => {
            format!("tile_descriptor({}, {bits:#x}ull)", program.shared[*shared].name)
        }
    }
}

/// What memory holds; where it is guarded and the guard does not hold, 0.
fn load(program: &Program, memory: &Memory, ty: ValueType) -> String {
    let streams = is_stream(program, memory.space) && ty != ValueType::BOOL;
    match (memory.guard, streams) {
        (None, false) => place(program, memory),
        (None, true) => format!("load_stream({})", address(program, memory)),
        (Some(guard), true) => format!("load_stream_if({}, {})", value(program, guard.cond), address(program, memory)),
        (Some(guard), false) => {
            format!("{} ? {} : {}", bound(program, guard.cond, 2), place(program, memory), zero(ty))
        }
    }
}

/// A place as an lvalue: `w[offset]`.
pub(super) fn place(program: &Program, memory: &Memory) -> String {
    format!("{}[{}]", space_name(program, memory.space), value(program, memory.offset))
}

/// A place's address.
pub(super) fn address(program: &Program, memory: &Memory) -> String {
    format!("&{}", place(program, memory))
}

/// Whether it is a tensor that is only read, and once.
pub(super) fn is_stream(program: &Program, space: Space) -> bool {
    program.tensor(space).is_some_and(|t| t.stream && !t.mutable)
}

/// Whether it is a tensor whose stores are not to stay in the caches.
pub(super) fn is_stored_past(program: &Program, space: Space) -> bool {
    program.tensor(space).is_some_and(|t| t.stream && t.mutable)
}

fn space_name(program: &Program, space: Space) -> String {
    match space {
        Space::Global(_) => program.tensor(space).map_or_else(String::new, |t| t.name.clone()),
        Space::Shared(shared) => program.shared[shared].name.clone(),
        Space::Local(local) => program.locals[local].name.clone(),
    }
}

fn axis_name(axis: u8) -> char {
    match axis {
        0 => 'x',
        1 => 'y',
        _ => 'z',
    }
}

/// How tightly a sum binds: what may stand beside a comparison without parentheses.
pub(super) const ADDITIVE: u8 = 12;

/// How tightly a printed value binds; larger binds tighter. C's levels, as far as the emitter uses them.
fn binding(program: &Program, id: ValueId) -> u8 {
    const ATOM: u8 = 15;
    const PREFIX: u8 = 14;
    let node = &program.values[id];
    match &node.kind {
        ValueKind::Int(number) if *number < 0 => PREFIX,
        ValueKind::Float(number) if number.is_sign_negative() => PREFIX,
        ValueKind::Load(memory) if is_stream(program, memory.space) && node.ty != ValueType::BOOL => ATOM,
        ValueKind::Load(memory) if memory.guard.is_some() => 1,
        ValueKind::Select(..) | ValueKind::Choose(..) => 1,
        ValueKind::Unary(..) | ValueKind::Thread(_) | ValueKind::Block(_) => PREFIX,
        ValueKind::Special(Special::Grid(_)) => PREFIX,
        // Between like types nothing is printed, and a conversion to `bool` is a comparison.
        ValueKind::Cast(x) if program.values[*x].ty == node.ty => binding(program, *x),
        ValueKind::Cast(_) if node.ty == ValueType::BOOL => level(BinaryOp::Ne),
        ValueKind::Cast(_) => PREFIX,
        ValueKind::Binary(op, a, _) => {
            let operands = program.values[*a].ty;
            let call = matches!(op, BinaryOp::CeilDiv | BinaryOp::Min | BinaryOp::Max)
                || (is_signed(operands) && matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul))
                || matches!(operands, ValueType::Element(d) if d.is_half() && !op.is_comparison());
            if call { ATOM } else { level(*op) }
        }
        ValueKind::Int(_) | ValueKind::Float(_) | ValueKind::Param(_) | ValueKind::Reg(_) | ValueKind::Math(..) => ATOM,
        ValueKind::Divisor(_) | ValueKind::Quotient(..) | ValueKind::Load(_) | ValueKind::Special(_) => ATOM,
        ValueKind::Pack(..) | ValueKind::Unpack(..) | ValueKind::Descriptor { .. } => ATOM,
    }
}

fn level(op: BinaryOp) -> u8 {
    use BinaryOp::*;
    match op {
        Mul | Div | Rem => 13,
        Add | Sub => 12,
        Shl | Shr => 11,
        Lt | Le | Gt | Ge => 10,
        Eq | Ne => 9,
        BitAnd => 8,
        BitXor => 7,
        BitOr => 6,
        And => 5,
        Or => 4,
        CeilDiv | Min | Max => 15,
    }
}

/// An operand that binds at least as tightly as `least`, by itself or in parentheses.
pub(super) fn bound(program: &Program, id: ValueId, least: u8) -> String {
    let text = value(program, id);
    if binding(program, id) >= least || is_call(&text) { text } else { format!("({text})") }
}

/// An operand of a prefix operator or a conversion.
fn operand(program: &Program, id: ValueId) -> String {
    bound(program, id, 15)
}

/// Whether the text is one call: a name and one pair of parentheses around the rest.
fn is_call(text: &str) -> bool {
    let Some(open) = text.find('(') else { return false };
    if open == 0 || !text[..open].bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return false;
    }
    let mut depth = 0;
    for (i, b) in text.bytes().enumerate().skip(open) {
        match b {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i + 1 == text.len();
        }
    }
    false
}

fn integer(number: i64, ty: ValueType) -> String {
    let int = || match number {
        // The smallest int has no literal of its own.
        _ if number == i64::from(i32::MIN) => "(-2147483647 - 1)".into(),
        _ => number.to_string(),
    };
    let dtype = match ty {
        ValueType::Index => return int(),
        ValueType::Wide => return format!("{number}ll"),
        ValueType::Element(dtype) => dtype,
    };
    match dtype.class() {
        DtypeClass::Bool => (number != 0).to_string(),
        DtypeClass::Int(IntFormat { signed: true, bits: 32 }) => int(),
        DtypeClass::Int(IntFormat { signed: false, bits: 32 }) => format!("{}u", number as u32),
        // C has no literals of narrower types.
        DtypeClass::Int(_) => format!("(({}){number})", type_name(ty)),
        // Not built by lowering, which rounds floats to `ValueKind::Float`.
        DtypeClass::Float(_) => float(number as f64, ty),
    }
}

fn float(number: f64, ty: ValueType) -> String {
    let single = number as f32;
    let text = if single.is_nan() {
        "__int_as_float(0x7fffffff)".into()
    } else if single.is_infinite() {
        let bits = single.to_bits();
        format!("__int_as_float({bits:#x})")
    } else {
        format!("{single:?}f")
    };
    narrowed(text, ty)
}

fn zero(ty: ValueType) -> &'static str {
    match ty {
        ValueType::Element(dtype) => dtype.info().c_zero,
        ValueType::Index | ValueType::Wide => "0",
    }
}

/// A value as f32, for arithmetic on 16-bit floats.
///
/// A bf16 of a thread's array is taken out of the register that it shares with its neighbour by one shift or mask; as an
/// element, ptxas extracts the 16 bits first.
pub(super) fn widened(program: &Program, id: ValueId) -> String {
    if let ValueKind::Load(Memory { space: Space::Local(local), offset, guard: None, .. }) = program.values[id].kind
        && let LocalArray { name, dtype, len, .. } = &program.locals[local]
        && dtype.class() == DtypeClass::Float(FloatFormat::Bfloat16)
        && len % 2 == 0
    {
        return format!("packed_to_f32({name}, {})", value(program, offset));
    }
    match program.values[id].ty {
        ValueType::Element(dtype) if dtype.is_half() => format!("to_f32({})", value(program, id)),
        _ => operand(program, id),
    }
}

/// An f32 expression rounded to `ty`, if that is a 16-bit float.
fn narrowed(text: String, ty: ValueType) -> String {
    match ty {
        ValueType::Element(dtype) => match dtype.class() {
            DtypeClass::Float(FloatFormat::Binary16) => format!("to_f16({text})"),
            DtypeClass::Float(FloatFormat::Bfloat16) => format!("to_bf16({text})"),
            DtypeClass::Float(FloatFormat::Binary32) | DtypeClass::Bool | DtypeClass::Int(_) => text,
        },
        ValueType::Index | ValueType::Wide => text,
    }
}

fn unary(program: &Program, op: UnaryOp, x: ValueId, ty: ValueType) -> String {
    match (op, ty) {
        (UnaryOp::Neg, _) if is_signed(ty) => format!("wrapping_sub(0, {})", value(program, x)),
        (UnaryOp::Neg, _) => narrowed(format!("-{}", widened(program, x)), ty),
        (UnaryOp::Not, ValueType::BOOL) => format!("!{}", operand(program, x)),
        (UnaryOp::Not, _) => format!("~{}", operand(program, x)),
    }
}

fn binary(program: &Program, op: BinaryOp, a: ValueId, b: ValueId, ty: ValueType) -> String {
    let operands = program.values[a].ty;
    let half = matches!(operands, ValueType::Element(d) if d.is_half());
    let side = |v: ValueId, least: u8| if half { widened(program, v) } else { bound(program, v, least) };
    // Shifts, bit operations and mixed comparisons keep their parentheses: few readers know those levels.
    let own = level(op);
    let (least_left, least_right) = match op {
        BinaryOp::Add | BinaryOp::And | BinaryOp::Or => (own, own),
        BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem => (own, own + 1),
        BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge | BinaryOp::Eq | BinaryOp::Ne => (12, 12),
        _ => (14, 14),
    };
    // Floating-point addition does not associate: a right operand of the same level stays apart. So does one that may add something
    // negative: that `a + b` of `a + (b - c)` fits was not proven. Other sums of indices are printed without parentheses: no part of
    // them exceeds the whole, and with parentheses kernels spill (`tests/nvrtc`).
    let float = matches!(operands, ValueType::Element(d) if d.is_float());
    let apart = op == BinaryOp::Add && (float || program.is_apart(b));
    let least_right = if apart { own + 1 } else { least_right };
    // `a && b || c` is read wrongly often enough.
    let (least_left, least_right) = if op == BinaryOp::Or { (9, 9) } else { (least_left, least_right) };
    let (left, right) = (side(a, least_left), side(b, least_right));
    let signed = is_signed(operands);
    let text = match op {
        BinaryOp::CeilDiv => format!("ceil_div({}, {})", value(program, a), value(program, b)),
        BinaryOp::Min if float => format!("fminf({left}, {right})"),
        BinaryOp::Max if float => format!("fmaxf({left}, {right})"),
        BinaryOp::Min => format!("min({left}, {right})"),
        BinaryOp::Max => format!("max({left}, {right})"),
        BinaryOp::Rem if float => format!("fmodf({left}, {right})"),
        BinaryOp::Add if signed => format!("wrapping_add({left}, {right})"),
        BinaryOp::Sub if signed => format!("wrapping_sub({left}, {right})"),
        BinaryOp::Mul if signed => format!("wrapping_mul({left}, {right})"),
        BinaryOp::Shl | BinaryOp::Shr if matches!(program.values[b].kind, ValueKind::Int(0..=31)) => {
            format!("{left} {} {right}", op.symbol())
        }
        // Shift counts are taken modulo the width, as C's own operator is not defined beyond it.
        BinaryOp::Shl | BinaryOp::Shr => format!("{left} {} ({right} & 31)", op.symbol()),
        _ => format!("{left} {} {right}", op.symbol()),
    };
    if op.is_comparison() { text } else { narrowed(text, ty) }
}

fn math(program: &Program, function: MathFn, args: &[ValueId], ty: ValueType) -> String {
    let arguments: Vec<String> = args.iter().map(|&a| widened(program, a)).collect();
    let integer = matches!(ty, ValueType::Element(d) if d.is_int()) || ty == ValueType::Index;
    let name = match function {
        MathFn::Exp => "expf",
        MathFn::Exp2 => "exp2f",
        MathFn::Log => "logf",
        MathFn::Sqrt => "sqrtf",
        MathFn::Rsqrt => "rsqrtf",
        MathFn::Tanh => "tanhf",
        MathFn::Abs if integer => "abs",
        MathFn::Abs => "fabsf",
        MathFn::Fma if integer => return format!("({} * {} + {})", arguments[0], arguments[1], arguments[2]),
        MathFn::Fma => "fmaf",
        MathFn::FastExp => return narrowed(format!("fast_exp2({} * 1.44269504f)", arguments[0]), ty),
        MathFn::FastExp2 => "fast_exp2",
        MathFn::FastLog => "__logf",
        MathFn::FastTanh => "fast_tanh",
        MathFn::FastRecip => "fast_recip",
        MathFn::Sin => "sinf",
        MathFn::Cos => "cosf",
        MathFn::Pow => "powf",
        MathFn::FastSin => "__sinf",
        MathFn::FastCos => "__cosf",
        MathFn::Floor => "floorf",
        MathFn::Ceil => "ceilf",
        MathFn::Trunc => "truncf",
        MathFn::Round => "roundf",
        MathFn::RoundTiesEven => "rintf",
        MathFn::MulHi if is_signed(ty) => "__mulhi",
        MathFn::MulHi => "__umulhi",
        // These give an `int` of either operand.
        MathFn::CountOnes => return format!("{}(__popc({}))", type_name(ty), arguments[0]),
        MathFn::LeadingZeros => return format!("{}(__clz({}))", type_name(ty), arguments[0]),
        // Of no bits, 32: what is before the first one of the reverse.
        MathFn::TrailingZeros => return format!("{}(__clz(__brev({})))", type_name(ty), arguments[0]),
        MathFn::ToBits => "__float_as_uint",
    };
    narrowed(format!("{name}({})", arguments.join(", ")), ty)
}

fn cast(program: &Program, x: ValueId, to: ValueType) -> String {
    let from = program.values[x].ty;
    let from_float = matches!(from, ValueType::Element(d) if d.is_float());
    let converted = || format!("({}){}", type_name(to), operand(program, x));
    let dtype = match to {
        _ if from == to => return value(program, x),
        ValueType::Index if from_float => return format!("(int)tile_float_to_index({})", widened(program, x)),
        ValueType::Wide if from_float => return format!("tile_float_to_index({})", widened(program, x)),
        ValueType::Index | ValueType::Wide => return converted(),
        ValueType::Element(dtype) => dtype,
    };
    match dtype.class() {
        DtypeClass::Bool => format!("{} != 0", widened(program, x)),
        // Between floats through f32; from a whole number to 16 bits too.
        DtypeClass::Float(FloatFormat::Binary16 | FloatFormat::Bfloat16) if !from_float => {
            narrowed(format!("(float){}", operand(program, x)), to)
        }
        DtypeClass::Float(FloatFormat::Binary16 | FloatFormat::Bfloat16) => narrowed(strip(widened(program, x)), to),
        DtypeClass::Float(FloatFormat::Binary32) if from_float => widened(program, x),
        // Conversions from floats to integers saturate and turn NaN into 0, as Rust's `as` does.
        DtypeClass::Int(format) if from_float => {
            let (signed, unsigned) = ("__float2int_rz", "__float2uint_rz");
            let text = format!("{}({})", if format.signed { signed } else { unsigned }, widened(program, x));
            match (format.bits, format.signed, format.range()) {
                (32, _, _) => text,
                (_, true, (least, most)) => format!("({})max(min({text}, {most}), {least})", type_name(to)),
                (_, false, (_, most)) => format!("({})min({text}, {most}u)", type_name(to)),
            }
        }
        DtypeClass::Float(FloatFormat::Binary32) | DtypeClass::Int(_) => converted(),
    }
}

/// Whether values of the type are whole elements with a sign. An index is not meant: its sums do not wrap.
fn is_signed(ty: ValueType) -> bool {
    matches!(ty, ValueType::Element(dtype) if dtype.is_signed())
}

/// The text without parentheses around the whole of it.
fn strip(text: String) -> String {
    match text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) {
        Some(inner) if is_call(&format!("f({inner})")) => inner.to_string(),
        _ => text,
    }
}
