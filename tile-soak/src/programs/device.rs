//! A program on a device of the runtime: a GPU where there is one.

use super::data::{self, Bits};
use super::execute::{Failed, Failure, failed};
use super::tree::{Array, Kind, Program, Ty};
use super::value::Value;
use crate::kernels::device::leaked;
use tile_ir::ir::Kernel;
use tile_runtime::kernel::{Argument, Element, ScalarInput, TensorInput, TensorOutput};
use tile_runtime::{Device, Error, Tensor, TensorView, TensorViewMut, bf16, f16};

/// A tensor of any dtype and rank.
trait Held {
    fn view(&mut self, written: bool) -> Result<Box<dyn Viewed + '_>, Error>;
    fn bits(&self) -> Result<Vec<u32>, Error>;
}

/// The part of it that is an argument.
trait Viewed {
    fn argument(&mut self) -> Argument<'_>;
}

struct Typed<T: Element, const R: usize> {
    tensor: Tensor<T, R>,
    shape: [usize; R],
}

impl<T: Element, const R: usize> Held for Typed<T, R> {
    fn view(&mut self, written: bool) -> Result<Box<dyn Viewed + '_>, Error> {
        let whole = self.shape.map(|extent| 0..extent);
        Ok(match written {
            true => Box::new(Written(self.tensor.slice_mut(whole)?)),
            false => Box::new(Read(self.tensor.slice(whole)?)),
        })
    }

    fn bits(&self) -> Result<Vec<u32>, Error> {
        let values = self.tensor.slice(self.shape.map(|extent| 0..extent))?.to_vec()?;
        Ok(values.into_iter().map(Element::to_bits).collect())
    }
}

struct Read<'a, T: Element, const R: usize>(TensorView<'a, T, R>);

impl<T: Element, const R: usize> Viewed for Read<'_, T, R> {
    fn argument(&mut self) -> Argument<'_> {
        TensorInput::<T, R>::argument(&self.0)
    }
}

struct Written<'a, T: Element, const R: usize>(TensorViewMut<'a, T, R>);

impl<T: Element, const R: usize> Viewed for Written<'_, T, R> {
    fn argument(&mut self) -> Argument<'_> {
        TensorOutput::<T, R>::argument(&mut self.0)
    }
}

fn held<T: Element + 'static, const R: usize>(
    device: &Device,
    bits: &[u32],
    shape: &[i64],
    pitch: usize,
) -> Result<Box<dyn Held>, Error> {
    let shape: [usize; R] = std::array::from_fn(|axis| shape.get(axis).map_or(1, |e| *e as usize));
    let mut allocated = shape;
    allocated[R - 1] = pitch;
    let columns = shape[R - 1].max(1);
    let mut values = vec![T::from_bits(0); allocated.iter().product()];
    for (i, bits) in bits.iter().enumerate() {
        values[i / columns * pitch + i % columns] = T::from_bits(*bits);
    }
    Ok(Box::new(Typed { tensor: device.tensor(&values, allocated)?, shape }))
}

fn upload(device: &Device, program: &Program, number: usize, input: &Bits) -> Result<Box<dyn Held>, Error> {
    fn ranked<T: Element + 'static>(
        device: &Device,
        bits: &[u32],
        shape: &[i64],
        pitch: usize,
    ) -> Result<Box<dyn Held>, Error> {
        match shape.len() {
            1 => held::<T, 1>(device, bits, shape, pitch),
            2 => held::<T, 2>(device, bits, shape, pitch),
            _ => held::<T, 3>(device, bits, shape, pitch),
        }
    }
    let tensor: &Array = &program.tensors[number];
    let shape = program.shape(tensor);
    let pitch = data::pitch(program, number) as usize;
    let make = match tensor.ty {
        Ty::Bool => ranked::<bool>,
        Ty::I32 => ranked::<i32>,
        Ty::U32 | Ty::Index => ranked::<u32>,
        Ty::F16 => ranked::<f16>,
        Ty::Bf16 => ranked::<bf16>,
        Ty::F32 => ranked::<f32>,
    };
    make(device, &input.bits, &shape, pitch)
}

fn scalar(ty: Ty, value: f64) -> Argument<'static> {
    let bits = Value::literal(ty, value).bits(ty);
    match ty {
        Ty::Index => (value as usize).scalar(),
        Ty::Bool => (bits != 0).scalar(),
        Ty::I32 => (bits as i32).scalar(),
        Ty::U32 => bits.scalar(),
        Ty::F16 => f16::from_bits(bits as u16).scalar(),
        Ty::Bf16 => bf16::from_bits(bits as u16).scalar(),
        Ty::F32 => f32::from_bits(bits).scalar(),
    }
}

/// The bits of every tensor after a launch on the device; of workspaces, none.
///
/// # Errors
/// [`Failure::Gpu`], with what the launch or the device says.
pub fn run(program: &Program, kernel: &Kernel, inputs: &[Bits], device: &Device) -> Result<Vec<Vec<u32>>, Failed> {
    let wrong = |e: Error| failed(Failure::Gpu, e.to_string());
    let (definition, table) = leaked(kernel).map_err(|e| failed(Failure::Gpu, e.to_string()))?;
    let is_argument = |number: &usize| program.tensors[*number].kind != Kind::Workspace;
    let numbers: Vec<usize> = (0..program.tensors.len()).filter(is_argument).collect();
    let mut tensors = Vec::new();
    for number in &numbers {
        tensors.push(upload(device, program, *number, &inputs[*number]).map_err(wrong)?);
    }
    {
        let mut views = Vec::new();
        for (tensor, number) in tensors.iter_mut().zip(&numbers) {
            views.push(tensor.view(inputs[*number].written).map_err(wrong)?);
        }
        let mut arguments: Vec<Argument<'_>> = views.iter_mut().map(|view| view.argument()).collect();
        for (argument, number) in arguments.iter_mut().zip(&numbers) {
            if !program.is_given(&program.tensors[*number].name) {
                *argument = Argument::Absent;
            }
        }
        arguments.extend(program.scalars.iter().map(|(_, ty, value)| scalar(*ty, *value)));
        tile_runtime::kernel::launch(definition, table, 0, device, &mut arguments)
            .map_err(|e| failed(Failure::Gpu, e.to_string()))?;
    }
    device.synchronize().map_err(wrong)?;
    let mut results = vec![Vec::new(); program.tensors.len()];
    for (tensor, number) in tensors.iter().zip(&numbers) {
        results[*number] = tensor.bits().map_err(wrong)?;
    }
    Ok(results)
}
