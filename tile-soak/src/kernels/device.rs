//! A kernel that is known as text only, launched on a device by `tile_runtime`.

use super::problem::{Problem, Results, results};
use anyhow::{Result, anyhow, bail};
use tile_ir::codec;
use tile_ir::ir::{DimId, Dtype, EntityRef, Instance, Kernel, ParamKind};
use tile_ir::lower::bind;
use tile_ir::sim::{Argument, ScalarValue, TensorArgument};
use tile_runtime::kernel::{self, Definition, InstanceTable, ScalarInput, Specialized};
use tile_runtime::{Device, Element, Tensor, bf16, f16};

/// Launches an instance on a problem, and gives the results. The kernel stays in memory for good: a definition is a static.
///
/// # Errors
/// The launch is refused, or fails.
pub fn launch(kernel: &Kernel, instance: usize, problem: &Problem, device: &Device) -> Result<Results> {
    let declared = kernel.instances.get(instance).ok_or_else(|| anyhow!("no instance {instance}"))?;
    // One instance, as declared: the values of specialised dims are the runtime's to find in the arguments.
    let alone = Kernel { instances: vec![declared.clone()], ..kernel.clone() };
    let dims = kernel.specialized().iter().map(|dim| (*dim, problem.dim(&kernel.dims[*dim].name))).collect();
    let bound = bind(kernel, &Instance { absent: problem.absent(kernel), ..declared.with_dims(dims) });
    let bound = bound.map_err(|all| anyhow!("{}", super::launch::first(&all)))?;

    let (definition, table) = leaked(&alone)?;

    let host = problem.arguments(&bound);
    // Workspaces are the launcher's to make, and come last.
    let own = host.len() - bound.attributes.workspaces.len();
    let mut given = host[..own].iter().map(|argument| Given::new(argument, device)).collect::<Result<Vec<_>>>()?;
    let mut arguments: Vec<kernel::Argument<'_>> = given.iter_mut().map(Given::argument).collect();
    kernel::launch(definition, table, 0, device, &mut arguments).map_err(|error| anyhow!("{error}"))?;
    device.synchronize()?;
    for ((given, host), (_, param)) in given.iter().zip(&host).zip(bound.params.iter()) {
        if let (Given::Tensor(tensor), Argument::Tensor(host)) = (given, host)
            && matches!(param.kind, ParamKind::Tensor { mutable: true, .. })
        {
            tensor.read(host)?;
        }
    }
    Ok(results(&bound, &host))
}

/// A kernel of one instance as the runtime launches it, like one that a macro left in the program. Both are leaked, which a
/// process of a few hundred kernels can afford.
///
/// # Errors
/// No tensor has a specialised dim.
pub fn leaked(kernel: &Kernel) -> Result<(&'static Definition, &'static InstanceTable<1>)> {
    let bytes: &'static [u8] = Box::leak(codec::encode(kernel).into_boxed_slice());
    let name: &'static str = Box::leak(kernel.name.clone().into_boxed_str());
    let table = match kernel.attributes.specialize {
        None => InstanceTable::new(),
        Some(_) => InstanceTable::specialized(Specialized { places: places(kernel)?.leak(), max: 2 }),
    };
    Ok((Box::leak(Box::new(Definition::new(name, bytes))), Box::leak(Box::new(table))))
}

/// Where a launch finds the values of specialised dims: parameters and axes.
fn places(kernel: &Kernel) -> Result<Vec<(u8, u8)>> {
    let place = |dim: &DimId| {
        let (param, axis) = kernel.place_of(*dim).ok_or_else(|| anyhow!("no tensor has {}", kernel.dims[*dim].name))?;
        Ok((u8::try_from(param.index())?, axis as u8))
    };
    kernel.specialized().iter().map(place).collect()
}

/// An argument on the device.
enum Given {
    Tensor(Box<dyn OnDevice>),
    Scalar(kernel::Argument<'static>),
    Absent,
}

/// A tensor of any dtype and rank.
trait OnDevice {
    fn argument(&mut self) -> kernel::Argument<'_>;
    /// Copies its elements to where the simulators have theirs.
    fn read(&self, host: &TensorArgument) -> Result<()>;
}

impl<T: Element, const R: usize> OnDevice for Tensor<T, R> {
    fn argument(&mut self) -> kernel::Argument<'_> {
        // The launch itself knows what it writes.
        kernel::optional(Some(self))
    }

    fn read(&self, host: &TensorArgument) -> Result<()> {
        let size = host.dtype.bytes() as usize;
        for (i, value) in self.to_vec()?.into_iter().enumerate() {
            host.memory.set(i * size, host.dtype, value.to_bits())?;
        }
        Ok(())
    }
}

impl Given {
    fn new(argument: &Argument, device: &Device) -> Result<Given> {
        Ok(match argument {
            Argument::Absent => Given::Absent,
            Argument::Scalar(ScalarValue::Index(value)) => Given::Scalar(usize::try_from(*value)?.scalar()),
            Argument::Scalar(ScalarValue::Element(dtype, bits)) => Given::Scalar(match dtype {
                Dtype::F16 => f16::from_bits(*bits as u16).scalar(),
                Dtype::Bf16 => bf16::from_bits(*bits as u16).scalar(),
                Dtype::F32 => f32::from_bits(*bits).scalar(),
                Dtype::I32 => (*bits as i32).scalar(),
                Dtype::U32 => bits.scalar(),
                Dtype::U8 => (*bits as u8).scalar(),
                Dtype::Bool => (*bits != 0).scalar(),
            }),
            Argument::Tensor(tensor) => Given::Tensor(match tensor.dtype {
                Dtype::F16 => on_device::<f16>(tensor, device)?,
                Dtype::Bf16 => on_device::<bf16>(tensor, device)?,
                Dtype::F32 => on_device::<f32>(tensor, device)?,
                Dtype::I32 => on_device::<i32>(tensor, device)?,
                Dtype::U32 => on_device::<u32>(tensor, device)?,
                Dtype::U8 => on_device::<u8>(tensor, device)?,
                Dtype::Bool => on_device::<bool>(tensor, device)?,
            }),
        })
    }

    fn argument(&mut self) -> kernel::Argument<'_> {
        match self {
            Given::Tensor(tensor) => tensor.argument(),
            Given::Scalar(scalar) => *scalar,
            Given::Absent => kernel::Argument::Absent,
        }
    }
}

fn on_device<T: Element>(tensor: &TensorArgument, device: &Device) -> Result<Box<dyn OnDevice>> {
    let size = tensor.dtype.bytes() as usize;
    let shape: Vec<usize> = tensor.shape.iter().map(|extent| *extent as usize).collect();
    let element = |i: usize| Ok(T::from_bits(tensor.memory.get(i * size, tensor.dtype)?));
    let values: Vec<T> = (0..shape.iter().product()).map(element).collect::<Result<_>>()?;
    Ok(match shape[..] {
        [x] => Box::new(device.tensor(&values, [x])?),
        [y, x] => Box::new(device.tensor(&values, [y, x])?),
        [z, y, x] => Box::new(device.tensor(&values, [z, y, x])?),
        [w, z, y, x] => Box::new(device.tensor(&values, [w, z, y, x])?),
        _ => bail!("a tensor of {} axes", shape.len()),
    })
}
