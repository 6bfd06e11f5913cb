//! The arguments of a program: drawn from its seed, and made into those of the simulators.

use super::reference::Storage;
use super::tree::{Agreement, Array, Data, Kind, Program, Ty};
use super::value::Value;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;
use tile_ir::ir::Dtype;
use tile_ir::sim::{Argument, Memory, ScalarValue, TensorArgument};

/// The dtype of the tile IR.
pub fn dtype(ty: Ty) -> Option<Dtype> {
    Dtype::from_name(ty.name())
}

/// The bits of one tensor, in row-major order, without what lies between rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bits {
    /// Its parameter.
    pub name: String,
    /// Whether the kernel may write it.
    pub written: bool,
    /// Its elements.
    pub bits: Vec<u32>,
}

/// What tensors hold before the launch.
pub fn inputs(program: &Program, seed: u64) -> Vec<Bits> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x5eed);
    let tensors = program.tensors.iter().zip(&program.data);
    let one = |(tensor, data): (&Array, &Data)| {
        let count: i64 = program.shape(tensor).iter().product();
        let bits = (0..count).map(|_| element(tensor.ty, *data, &mut rng)).collect();
        let written = tensor.kind != (Kind::Tensor { mutable: false });
        Bits { name: tensor.name.clone(), written, bits }
    };
    tensors.map(one).collect()
}

fn element(ty: Ty, data: Data, rng: &mut ChaCha8Rng) -> u32 {
    let literal = |value: f64| Value::literal(ty, value).bits(ty);
    match data {
        Data::Zeros => 0,
        // A NaN where there is one; of integers an unlikely number.
        Data::Poison => match ty {
            Ty::Bool => 1,
            Ty::I32 | Ty::U32 | Ty::Index => 0x7ead_beef,
            Ty::F16 | Ty::Bf16 | Ty::F32 => Value::Float(ty, f32::NAN).bits(ty),
        },
        Data::Integers(most) => {
            let low = if ty == Ty::U32 { 0 } else { -most };
            literal(rng.random_range(low..=most) as f64)
        }
        Data::Any => match (ty, rng.random_range(0..100)) {
            (Ty::Bool, n) => u32::from(n % 2 == 0),
            (Ty::I32 | Ty::U32, 0..70) => literal(f64::from(rng.random_range(0..64))),
            (Ty::I32 | Ty::U32 | Ty::Index, _) => rng.random(),
            (_, 0..3) => Value::Float(ty, -0.0).bits(ty),
            (_, 3) => Value::Float(ty, f32::INFINITY).bits(ty),
            (_, 4) => Value::Float(ty, f32::NAN).bits(ty),
            (_, 5..20) => literal(f64::from(rng.random::<f32>() * 1000.0 - 500.0)),
            _ => literal(f64::from(rng.random_range(-64..=64)) / 4.0),
        },
    }
}

/// The program's tensors with their input data, as the reference evaluator takes them.
pub fn storages(program: &Program, inputs: &[Bits]) -> Vec<Storage> {
    let one = |(tensor, input): (&Array, &Bits)| Storage {
        ty: tensor.ty,
        extents: program.shape(tensor),
        data: input.bits.iter().map(|bits| Value::from_bits(tensor.ty, *bits)).collect(),
    };
    program.tensors.iter().zip(inputs).map(one).collect()
}

/// The bits of the reference's tensors.
pub fn of_storages(program: &Program, storages: &[Storage]) -> Vec<Vec<u32>> {
    let tensors = program.tensors.iter().zip(storages);
    tensors.map(|(tensor, s)| s.data.iter().map(|v| v.bits(tensor.ty)).collect()).collect()
}

/// Elements between the beginnings of rows.
pub fn pitch(program: &Program, number: usize) -> i64 {
    let shape = program.shape(&program.tensors[number]);
    match shape.as_slice() {
        [_, columns] => columns + program.pitch.get(number).copied().unwrap_or(0),
        [.., columns] => *columns,
        [] => 1,
    }
}

/// Arguments for a simulator, in the order of the kernel's parameters: tensors, scalars, workspaces.
pub fn arguments(program: &Program, inputs: &[Bits]) -> Vec<Argument> {
    let mut tensors = Vec::new();
    let mut workspaces = Vec::new();
    for (number, (tensor, input)) in program.tensors.iter().zip(inputs).enumerate() {
        let shape = program.shape(tensor);
        let pitch = pitch(program, number);
        let mut strides = vec![1i64; shape.len()];
        for axis in (0..shape.len().saturating_sub(1)).rev() {
            let inner = if axis + 2 == shape.len() { pitch } else { shape[axis + 1] * strides[axis + 1] };
            strides[axis] = inner;
        }
        let Some(dtype) = dtype(tensor.ty) else { continue };
        let rows: i64 = shape.iter().rev().skip(1).product();
        let size = dtype.bytes() as usize;
        let memory = Memory::zeros((rows * pitch) as usize * size);
        let columns = shape.last().copied().unwrap_or(1).max(1) as usize;
        for (i, bits) in input.bits.iter().enumerate() {
            let at = (i / columns * pitch as usize + i % columns) * size;
            memory.write(at, &bits.to_le_bytes()[..size]).expect("the memory has every element");
        }
        let argument = match program.is_given(&tensor.name) {
            true => Argument::Tensor(TensorArgument { dtype, shape, strides, memory: Arc::new(memory), offset: 0 }),
            false => Argument::Absent,
        };
        match tensor.kind {
            Kind::Workspace => workspaces.push(argument),
            _ => tensors.push(argument),
        }
    }
    let scalar = |(_, ty, value): &(String, Ty, f64)| {
        Argument::Scalar(match dtype(*ty) {
            None => ScalarValue::Index(*value as i64),
            Some(dtype) => ScalarValue::Element(dtype, Value::literal(*ty, *value).bits(*ty)),
        })
    };
    tensors.extend(program.scalars.iter().map(scalar));
    tensors.extend(workspaces);
    tensors
}

/// The bits of tensors after a run, by position of [`Program::tensors`].
pub fn results(program: &Program, arguments: &[Argument]) -> Vec<Vec<u32>> {
    let of = |kind: fn(&Kind) -> bool| program.tensors.iter().enumerate().filter(move |(_, t)| kind(&t.kind));
    let tensors = of(|k| *k != Kind::Workspace).map(|(i, _)| i);
    let workspaces = of(|k| *k == Kind::Workspace).map(|(i, _)| i);
    let mut all = vec![Vec::new(); program.tensors.len()];
    let found = arguments.iter().filter(|a| !matches!(a, Argument::Scalar(_)));
    for (number, argument) in tensors.chain(workspaces).zip(found) {
        let Argument::Tensor(tensor) = argument else { continue };
        let columns = tensor.shape.last().copied().unwrap_or(1).max(1) as usize;
        let pitch = pitch(program, number) as usize;
        let count = tensor.shape.iter().product::<i64>() as usize;
        let size = tensor.dtype.bytes() as usize;
        let at = |i: usize| (i / columns * pitch + i % columns) * size;
        let element = |i: usize| {
            let mut bytes = [0; 4];
            tensor.memory.read(at(i), &mut bytes[..size]).expect("the memory has every element");
            u32::from_le_bytes(bytes)
        };
        all[number] = (0..count).map(element).collect();
    }
    all
}

/// The first element in which two results differ, as words.
pub fn difference(program: &Program, left: &[Vec<u32>], right: &[Vec<u32>], agreement: Agreement) -> Option<String> {
    for (number, tensor) in program.tensors.iter().enumerate() {
        // What is left in a workspace is nobody's result.
        if tensor.kind != (Kind::Tensor { mutable: true }) {
            continue;
        }
        let (left, right) = (&left[number], &right[number]);
        let differs = |(a, b): (&u32, &u32)| !agrees(tensor.ty, *a, *b, agreement);
        let count = left.iter().zip(right).filter(|pair| differs(*pair)).count();
        if let Some(at) = left.iter().zip(right).position(differs) {
            let shape = program.shape(tensor);
            let columns = shape.last().copied().unwrap_or(1).max(1) as usize;
            let place = if shape.len() > 1 { format!("{}, {}", at / columns, at % columns) } else { at.to_string() };
            let value = |bits: u32| Value::from_bits(tensor.ty, bits);
            return Some(format!(
                "{}[{place}] is {:?} and {:?} ({count} of {} elements differ)",
                tensor.name,
                value(left[at]),
                value(right[at]),
                left.len()
            ));
        }
    }
    None
}

fn agrees(ty: Ty, a: u32, b: u32, agreement: Agreement) -> bool {
    let (Value::Float(_, x), Value::Float(_, y)) = (Value::from_bits(ty, a), Value::from_bits(ty, b)) else {
        return a == b;
    };
    let same = a == b || x.is_nan() && y.is_nan();
    match agreement {
        Agreement::Bits => same,
        Agreement::Sign => same || x == y,
        Agreement::Ulps(most) if ty == Ty::F32 => {
            same || x == y || x.signum() == y.signum() && x.to_bits().abs_diff(y.to_bits()) <= most
        }
        Agreement::Ulps(_) => same || x == y,
    }
}
