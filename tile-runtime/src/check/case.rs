//! One call of a kernel: its dims, its inputs, and what its outputs should be.

use super::CheckError;
use super::fit::{decode, encode};
use crate::allocation::Allocation;
use crate::device::Device;
use crate::error::Error;
use crate::kernel::{Argument, Scalar, TensorRef};
use crate::layout::Rows;
use std::sync::Arc;
use tile_ir::ir::{Dtype, DtypeClass, DtypeRef, EntityRef, Extent, Instance, Kernel, ParamKind, Type};
use tile_ir::sim::ScalarValue;

/// One call of a kernel, as its reference sees it. All values are f64, what the dtypes hold exactly.
#[derive(Clone, Debug)]
pub struct Case {
    kernel: String,
    dims: Vec<(String, i64)>,
    consts: Vec<(String, i64)>,
    /// One a parameter, in order; workspaces have none.
    values: Vec<(String, Value)>,
}

/// A parameter's value.
#[derive(Clone, Debug)]
enum Value {
    Tensor { dtype: Dtype, shape: Vec<i64>, bytes: Vec<u8>, written: bool, expected: Option<Vec<f64>> },
    Index(i64),
    Element(Dtype, f64),
    Absent,
}

/// The dtype that an instance gives a kernel's.
fn concrete(dtype: DtypeRef, instance: &Instance) -> Option<Dtype> {
    match dtype {
        DtypeRef::Is(dtype) => Some(dtype),
        DtypeRef::Param(param) => instance.dtypes.get(param.index()).copied(),
    }
}

impl Case {
    /// A case with these dims and scalars, and values from `random`, which gives numbers in `0..1`.
    pub(crate) fn new(
        kernel: &Kernel,
        instance: &Instance,
        dims: &[(String, i64)],
        scalars: &[(String, f64)],
        random: &mut dyn FnMut() -> f64,
    ) -> Option<Case> {
        let smallest = dims.iter().map(|(_, value)| *value).min().unwrap_or(1).max(1);
        let mut draw = |dtype: Dtype| match dtype.class() {
            DtypeClass::Float(_) => random() * 2.0 - 1.0,
            // What is computed with may be an index; what is stored is any number.
            DtypeClass::Int(_) if dtype.has_arithmetic() => (random() * smallest as f64).floor(),
            DtypeClass::Int(format) => {
                let (least, most) = format.range();
                (least as f64 + random() * (most - least + 1) as f64).floor()
            }
            DtypeClass::Bool => f64::from(random() < 0.5),
        };
        let mut values = Vec::new();
        for (id, param) in kernel.params.iter() {
            if kernel.attributes.workspaces.contains(&id) {
                continue;
            }
            let given = scalars.iter().find(|(name, _)| *name == param.name).map(|(_, value)| *value);
            let value = match &param.kind {
                _ if instance.absent.contains(&id) => Value::Absent,
                ParamKind::Absent => Value::Absent,
                ParamKind::Tensor { dtype, shape, mutable, .. } => {
                    let dtype = concrete(*dtype, instance)?;
                    let extent = |extent: &Extent| match extent {
                        Extent::Dim(dim) => {
                            let name = &kernel.dims.get(*dim)?.name;
                            dims.iter().find(|(given, _)| given == name).map(|(_, value)| *value)
                        }
                        Extent::Fixed(expr) => super::shapes::constant(kernel, instance, *expr),
                    };
                    let shape: Vec<i64> = shape.iter().map(extent).collect::<Option<_>>()?;
                    let elements = shape.iter().product::<i64>().max(0) as usize;
                    let bytes = (0..elements).flat_map(|_| encode(dtype, draw(dtype))).collect();
                    Value::Tensor { dtype, shape, bytes, written: *mutable, expected: None }
                }
                ParamKind::Scalar { ty: Type::Index } => Value::Index(given.unwrap_or(1.0) as i64),
                ParamKind::Scalar { ty: Type::Value(dtype) } => {
                    let dtype = concrete(*dtype, instance)?;
                    Value::Element(dtype, decode(dtype, &encode(dtype, given.unwrap_or_else(|| draw(dtype)))))
                }
            };
            values.push((param.name.clone(), value));
        }
        let consts = kernel.consts.values().zip(&instance.consts).map(|(c, value)| (c.name.clone(), *value));
        Some(Case { kernel: kernel.name.clone(), dims: dims.to_vec(), consts: consts.collect(), values })
    }

    /// The value of a dim.
    ///
    /// # Errors
    /// The kernel has no such dim.
    pub fn dim(&self, name: &str) -> Result<usize, CheckError> {
        let found = self.dims.iter().find(|(dim, _)| dim == name).map(|(_, value)| *value as usize);
        found.ok_or_else(|| self.no("dim", name, self.dims.iter().map(|(name, _)| name)))
    }

    /// The value of a const parameter in this instance; a bool is 0 or 1.
    ///
    /// # Errors
    /// The kernel has no such const parameter.
    pub fn constant(&self, name: &str) -> Result<i64, CheckError> {
        let found = self.consts.iter().find(|(param, _)| param == name).map(|(_, value)| *value);
        found.ok_or_else(|| self.no("const parameter", name, self.consts.iter().map(|(name, _)| name)))
    }

    /// The value of a scalar parameter; a bool is 0 or 1.
    ///
    /// # Errors
    /// The kernel has no such scalar.
    pub fn scalar(&self, name: &str) -> Result<f64, CheckError> {
        let value = self.values.iter().find_map(|(param, value)| match value {
            Value::Index(value) if param == name => Some(*value as f64),
            Value::Element(_, value) if param == name => Some(*value),
            _ => None,
        });
        value.ok_or_else(|| {
            let scalar = |value: &Value| matches!(value, Value::Index(_) | Value::Element(..));
            self.no("scalar", name, self.values.iter().filter(|(_, v)| scalar(v)).map(|(name, _)| name))
        })
    }

    /// Whether this call has the optional tensor `name`; `false` of a name that is no tensor.
    pub fn has(&self, name: &str) -> bool {
        self.values.iter().any(|(param, value)| param == name && matches!(value, Value::Tensor { .. }))
    }

    /// The elements of a tensor before the launch, in row-major order.
    ///
    /// # Errors
    /// The kernel has no such tensor, or this call leaves it out.
    pub fn tensor(&self, name: &str) -> Result<Vec<f64>, CheckError> {
        let found = self.values.iter().find_map(|(param, value)| match value {
            Value::Tensor { dtype, bytes, .. } if param == name => {
                Some(bytes.chunks_exact(dtype.bytes() as usize).map(|b| decode(*dtype, b)).collect())
            }
            _ => None,
        });
        found.ok_or_else(|| self.no_tensor(name))
    }

    /// The extents of a tensor, outermost first.
    ///
    /// # Errors
    /// The kernel has no such tensor, or this call leaves it out.
    pub fn shape(&self, name: &str) -> Result<Vec<usize>, CheckError> {
        let found = self.values.iter().find_map(|(param, value)| match value {
            Value::Tensor { shape, .. } if param == name => Some(shape.iter().map(|extent| *extent as usize).collect()),
            _ => None,
        });
        found.ok_or_else(|| self.no_tensor(name))
    }

    /// Says what a tensor that the kernel writes should hold after the launch, in row-major order.
    ///
    /// # Errors
    /// The kernel writes no such tensor; it has another number of elements.
    pub fn expect(&mut self, name: &str, values: Vec<f64>) -> Result<(), CheckError> {
        for (param, value) in &mut self.values {
            if let Value::Tensor { dtype, bytes, written: true, expected, .. } = value
                && param == name
            {
                let elements = bytes.len() / dtype.bytes() as usize;
                if values.len() != elements {
                    return Err(CheckError::Length { tensor: name.into(), expected: elements, found: values.len() });
                }
                *expected = Some(values);
                return Ok(());
            }
        }
        let written = |value: &Value| matches!(value, Value::Tensor { written: true, .. });
        Err(self.no(
            "tensor that it writes",
            name,
            self.values.iter().filter(|(_, v)| written(v)).map(|(name, _)| name),
        ))
    }

    /// What a reference said of a tensor.
    pub(super) fn expected(&self, name: &str) -> Option<&Vec<f64>> {
        self.values.iter().find_map(|(param, value)| match value {
            Value::Tensor { expected, .. } if param == name => expected.as_ref(),
            _ => None,
        })
    }

    fn no_tensor(&self, name: &str) -> CheckError {
        let tensor = |value: &Value| matches!(value, Value::Tensor { .. });
        self.no("tensor", name, self.values.iter().filter(|(_, v)| tensor(v)).map(|(name, _)| name))
    }

    fn no<'a>(&self, what: &'static str, asked: &str, there: impl Iterator<Item = &'a String>) -> CheckError {
        let there = there.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let there = if there.is_empty() { "none".into() } else { there };
        CheckError::Name { kernel: self.kernel.clone(), what, asked: asked.into(), there }
    }

    /// The dims in words: `M = 5, K = 64`.
    pub(super) fn dims_text(&self) -> String {
        self.dims.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", ")
    }

    /// The tensors on a device.
    pub(crate) fn tensors(&self, device: &Device) -> Result<Tensors, Error> {
        let one = |(_, value): &(String, Value)| match value {
            Value::Tensor { bytes, .. } => {
                let memory = Allocation::new(device.state, bytes.len(), false)?;
                let all = Rows { width: bytes.len(), rows: 1, pitch: bytes.len(), starts: vec![0] };
                if !bytes.is_empty() {
                    memory.upload(bytes, &all, 1)?;
                }
                Ok(Some(Arc::new(memory)))
            }
            _ => Ok(None),
        };
        Ok(Tensors { memory: self.values.iter().map(one).collect::<Result<_, Error>>()? })
    }
}

/// A case's tensors on a device.
pub(crate) struct Tensors {
    memory: Vec<Option<Arc<Allocation>>>,
}

impl Tensors {
    /// The arguments of a launch of `case`, whose tensors these are.
    pub fn arguments<'t>(&'t self, case: &Case) -> Vec<Argument<'t>> {
        let one = |((_, value), memory): (&(String, Value), &'t Option<Arc<Allocation>>)| match (value, memory) {
            (Value::Tensor { dtype, shape, .. }, Some(memory)) => {
                let mut strides = vec![1; shape.len()];
                for axis in (0..shape.len().saturating_sub(1)).rev() {
                    strides[axis] = strides[axis + 1] * shape[axis + 1].max(1);
                }
                Argument::Tensor(TensorRef::over(memory, 0, *dtype, shape, &strides))
            }
            (Value::Index(value), _) => Argument::Scalar(Scalar { value: ScalarValue::Index(*value) }),
            (Value::Element(dtype, value), _) => {
                let bits = encode(*dtype, *value).iter().rev().fold(0, |bits, byte| bits << 8 | u32::from(*byte));
                Argument::Scalar(Scalar { value: ScalarValue::Element(*dtype, bits) })
            }
            _ => Argument::Absent,
        };
        case.values.iter().zip(&self.memory).map(one).collect()
    }

    /// The elements of the tensors that the kernel writes, packed: name, dtype, bytes.
    pub fn written(&self, case: &Case) -> Result<Vec<(String, Dtype, Vec<u8>)>, Error> {
        let arguments = self.arguments(case);
        let mut written = Vec::new();
        for ((name, value), argument) in case.values.iter().zip(arguments) {
            if let (Value::Tensor { dtype, written: true, .. }, Argument::Tensor(tensor)) = (value, argument) {
                written.push((name.clone(), *dtype, tensor.read()?));
            }
        }
        Ok(written)
    }
}
