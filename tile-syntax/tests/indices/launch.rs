//! A kernel from text, launched on both simulators as the runtime launches one: checks first.

use proc_macro2::TokenStream;
use std::collections::BTreeMap;
use std::sync::Arc;
use tile_ir::ir::{DimId, Dtype, EntityRef, Extent, Instance, ParamId, ParamKind, Target};
use tile_ir::lowered::{CheckKind, HostValues, Program};
use tile_ir::sim::checked::{self, CheckedOptions};
use tile_ir::sim::{Argument, Memory, ScalarValue, SimError, TensorArgument, fast};

/// A kernel that is clean while typing, lowered.
pub struct Kernel {
    pub bound: tile_ir::ir::BoundKernel,
    pub program: Program,
}

/// The codes of what is wrong while typing.
pub fn codes(source: &str) -> Vec<u16> {
    let item: TokenStream = source.parse().unwrap();
    let checked = tile_syntax::check_kernel(TokenStream::new(), item);
    let codes = checked.diagnostics.iter().chain(&checked.deferred).map(|d| d.code.0);
    // Lints are another subject.
    let mut codes: Vec<u16> = codes.filter(|code| code / 100 != 6).collect();
    codes.dedup();
    codes
}

/// A kernel that must be clean while typing.
pub fn kernel(source: &str) -> Kernel {
    let item: TokenStream = source.parse().unwrap();
    let checked = tile_syntax::check_kernel(TokenStream::new(), item);
    let all = checked.diagnostics.iter().chain(&checked.deferred);
    let wrong: Vec<_> = all.filter(|d| d.code.0 / 100 != 6).collect();
    assert!(wrong.is_empty(), "{source}\n{wrong:#?}");
    let instance = checked.kernel.instances.first().cloned().unwrap_or_else(Instance::default);
    let bound = tile_ir::lower::bind(&checked.kernel, &instance).unwrap();
    let program = tile_ir::lower::lower_bound(&bound, Target::Sm90a).unwrap();
    Kernel { bound, program }
}

/// An argument.
#[derive(Clone, Debug)]
pub enum Arg {
    /// A tensor of f32 with this shape and data.
    F(Vec<i64>, Vec<f32>),
    /// Of u32 or i32.
    U(Vec<i64>, Vec<u32>),
    I(Vec<i64>, Vec<i32>),
    /// A `usize`.
    N(i64),
}

pub fn zeros(n: usize) -> Arg {
    Arg::F(vec![n as i64], vec![0.0; n])
}

pub fn floats(values: &[f32]) -> Arg {
    Arg::F(vec![values.len() as i64], values.to_vec())
}

/// What became of a launch.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The last argument's elements, the same on both simulators.
    Done(Vec<f32>),
    /// A launch check failed.
    Refused,
    /// Codes that the simulators report: fast, checked.
    Reported(Option<u16>, Vec<u16>),
}

impl Kernel {
    pub fn cuda(&self) -> String {
        tile_ir::emit::cuda::emit(&self.program)
    }

    /// Where the author's statements stand in the emitted C.
    pub fn body(&self) -> String {
        let text = self.cuda();
        let at = text.find("extern \"C\"").unwrap_or(0);
        text[at..].to_owned()
    }

    /// How many checks of each kind the launch makes: index ranges, operands.
    pub fn checks(&self) -> (usize, usize) {
        let count = |is: fn(&CheckKind) -> bool| self.program.launch.checks.iter().filter(|c| is(&c.kind)).count();
        (count(|k| matches!(k, CheckKind::IndexRange { .. })), count(|k| matches!(k, CheckKind::Operand { .. })))
    }

    pub fn run(&self, args: &[Arg]) -> Outcome {
        let values = Values::of(&self.bound, args);
        for check in &self.program.launch.checks {
            if !matches!(check.holds.evaluate(&values), Some(n) if n != 0) {
                return Outcome::Refused;
            }
        }
        let arguments = || args.iter().map(argument).collect::<Vec<_>>();
        let (one, two) = (arguments(), arguments());
        let fast = match fast::run(&self.bound, &one) {
            Ok(_) => None,
            Err(SimError::Fault(fault)) => Some(fault.diagnostic.code.0),
            Err(error) => panic!("{error}"),
        };
        let report = checked::run(&self.program, &two, &CheckedOptions::default()).unwrap();
        // Elements that nothing is to write (TK0307) are another subject.
        let mut found: Vec<u16> = report.diagnostics.iter().map(|d| d.code.0).filter(|code| *code != 307).collect();
        found.sort_unstable();
        found.dedup();
        if fast.is_some() || !found.is_empty() {
            return Outcome::Reported(fast, found);
        }
        let [one, two] = [one, two].map(|args| elements(args.last().unwrap()));
        assert_eq!(one, two, "the simulators differ:\n{}", self.cuda());
        Outcome::Done(one)
    }

    /// The results of a launch that must be clean.
    pub fn done(&self, args: &[Arg]) -> Vec<f32> {
        match self.run(args) {
            Outcome::Done(values) => values,
            other => panic!("{other:?}\n{}\n{:#?}", self.cuda(), self.program.launch.checks),
        }
    }
}

fn argument(arg: &Arg) -> Argument {
    let (dtype, shape, bits): (_, _, Vec<u32>) = match arg {
        Arg::F(shape, data) => (Dtype::F32, shape, data.iter().map(|v| v.to_bits()).collect()),
        Arg::U(shape, data) => (Dtype::U32, shape, data.clone()),
        Arg::I(shape, data) => (Dtype::I32, shape, data.iter().map(|v| *v as u32).collect()),
        Arg::N(value) => return Argument::Scalar(ScalarValue::Index(*value)),
    };
    let bytes: Vec<u8> = bits.iter().flat_map(|b| b.to_le_bytes()).collect();
    let memory = Arc::new(Memory::zeros(bytes.len()));
    memory.write(0, &bytes).unwrap();
    let mut strides = vec![1i64; shape.len()];
    for axis in (0..shape.len().saturating_sub(1)).rev() {
        strides[axis] = strides[axis + 1] * shape[axis + 1];
    }
    Argument::Tensor(TensorArgument { dtype, shape: shape.clone(), strides, memory, offset: 0 })
}

fn elements(arg: &Argument) -> Vec<f32> {
    let Argument::Tensor(tensor) = arg else { return Vec::new() };
    let count: i64 = tensor.shape.iter().product();
    (0..count as usize).map(|i| f32::from_bits(tensor.memory.get(i * 4, Dtype::F32).unwrap())).collect()
}

struct Values {
    dims: BTreeMap<usize, i64>,
    strides: BTreeMap<(usize, u8), i64>,
    scalars: BTreeMap<usize, i64>,
}

impl Values {
    fn of(kernel: &tile_ir::ir::Kernel, args: &[Arg]) -> Values {
        let mut values = Values { dims: BTreeMap::new(), strides: BTreeMap::new(), scalars: BTreeMap::new() };
        for ((id, param), arg) in kernel.params.iter().zip(args) {
            match (&param.kind, arg) {
                (ParamKind::Tensor { shape, .. }, Arg::F(found, _) | Arg::U(found, _) | Arg::I(found, _)) => {
                    let mut stride = 1;
                    for (axis, (extent, found)) in shape.iter().zip(found).enumerate().rev() {
                        if let Extent::Dim(dim) = extent {
                            values.dims.insert(dim.index(), *found);
                        }
                        values.strides.insert((id.index(), axis as u8), stride);
                        stride *= found;
                    }
                }
                (_, Arg::N(value)) => {
                    values.scalars.insert(id.index(), *value);
                }
                (kind, arg) => panic!("{kind:?} is not {arg:?}"),
            }
        }
        values
    }
}

impl HostValues for Values {
    fn dim(&self, dim: DimId) -> i64 {
        self.dims[&dim.index()]
    }
    fn stride(&self, tensor: ParamId, axis: u8) -> i64 {
        self.strides[&(tensor.index(), axis)]
    }
    fn scalar(&self, param: ParamId) -> i64 {
        self.scalars[&param.index()]
    }
    fn address(&self, _: ParamId) -> u64 {
        0
    }
    fn capacity(&self) -> i64 {
        4
    }
}
