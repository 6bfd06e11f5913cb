//! Matrix products for Python: what the host entry points choose from, and graphs of their launches, which may be dependent ones as a
//! stream of ours has them.

use crate::call::{Failure, View};
use std::ffi::c_void;
use tile_kernels::gemm::{self, Activation, Gemm, GemmElement, Precision};
use tile_runtime::interop::from_raw_parts;
use tile_runtime::prelude::*;
use tile_runtime::{Element, Graph};

/// A product as Python asks for it: `views` are the tensors of one call after the other, `each` of them a call.
pub struct Product<'a> {
    pub device: &'a Device,
    /// The stream that wrote the tensors.
    pub stream: *mut c_void,
    pub name: &'a str,
    pub views: &'a [View],
    pub each: usize,
    pub scalars: &'a [f64],
}

/// A graph of products. Python keeps the tensors.
pub struct Products {
    graph: Graph,
}

impl Products {
    pub fn launch_on(&self, stream: &Stream) -> Result<(), Failure> {
        Ok(self.graph.launch_on(stream)?)
    }
}

impl Product<'_> {
    fn flag(&self, at: usize) -> bool {
        self.scalar(at) != 0.0
    }

    fn scalar(&self, at: usize) -> f64 {
        self.scalars.get(at).copied().unwrap_or(0.0)
    }

    fn tensor<T: Element, const R: usize>(&self, view: &View) -> Result<Tensor<T, R>, Failure> {
        let extents = |values: [u64; 4]| std::array::from_fn(|axis| values[axis] as usize);
        // SAFETY: Python keeps the tensors as long as the graph, and uses them on the stream that the graph is launched on.
        Ok(unsafe {
            from_raw_parts(self.device, view.address, extents(view.shape), extents(view.strides), self.stream)
        }?)
    }

    /// The choices as lines of `us name`, that which is taken by itself first.
    pub fn candidates(&self) -> Result<String, Failure> {
        match (self.name, self.views.first().map(|view| view.dtype)) {
            ("gemm", Some(0)) => self.gemm_candidates::<f16>(),
            ("gemm", Some(1)) => self.gemm_candidates::<bf16>(),
            ("gemm", Some(2)) => self.gemm_candidates::<f32>(),
            _ => Err(format!("there is no product `{}` of these tensors", self.name).into()),
        }
    }

    /// A graph of the launches: as the entry point chooses where `candidate` is none.
    pub fn graph(&self, candidate: Option<usize>, dependent: bool) -> Result<Products, Failure> {
        match (self.name, self.views.first().map(|view| view.dtype)) {
            ("gemm", Some(0)) => self.gemm_graph::<f16>(candidate, dependent),
            ("gemm", Some(1)) => self.gemm_graph::<bf16>(candidate, dependent),
            ("gemm", Some(2)) => self.gemm_graph::<f32>(candidate, dependent),
            _ => Err(format!("there is no product `{}` of these tensors", self.name).into()),
        }
    }

    /// Scalars: whether `a` and `b` are stored transposed, tf32, the activation's number.
    fn gemm_options<T: Element>(&self) -> Gemm<'static, T> {
        Gemm {
            a_transposed: self.flag(0),
            b_transposed: self.flag(1),
            precision: if self.flag(2) { Precision::Tf32 } else { Precision::Full },
            activation: match self.scalar(3) as u32 {
                1 => Activation::Relu,
                2 => Activation::Gelu,
                3 => Activation::Silu,
                _ => Activation::None,
            },
            ..Gemm::default()
        }
    }

    fn gemm_tensors<T: Element>(&self) -> Result<Vec<[Tensor<T, 2>; 3]>, Failure> {
        let sets = self.views.chunks_exact(self.each.max(3));
        sets.map(|set| Ok([self.tensor(&set[0])?, self.tensor(&set[1])?, self.tensor(&set[2])?])).collect()
    }

    fn gemm_candidates<T: GemmElement>(&self) -> Result<String, Failure> {
        let mut sets = self.gemm_tensors::<T>()?;
        let [a, b, c] = sets.first_mut().ok_or("no tensors")?;
        let found = gemm::candidates(self.device, &*a, &*b, c, &self.gemm_options());
        Ok(found.into_iter().map(|(choice, us)| format!("{us:.4} {choice}\n")).collect())
    }

    fn gemm_graph<T: GemmElement>(&self, candidate: Option<usize>, dependent: bool) -> Result<Products, Failure> {
        let mut sets = self.gemm_tensors::<T>()?;
        let bias: Option<Tensor<T, 1>> =
            if self.each > 3 { self.views.get(3).map(|view| self.tensor(view)).transpose()? } else { None };
        let options = Gemm { bias: bias.as_ref(), ..self.gemm_options::<T>() };
        let choice = match (candidate, sets.first_mut()) {
            (Some(index), Some([a, b, c])) => {
                let found = gemm::candidates(self.device, &*a, &*b, c, &options);
                Some(found.get(index).ok_or("there is no such candidate")?.0)
            }
            _ => None,
        };
        let launch = |on: &Stream, [a, b, c]: &mut [Tensor<T, 2>; 3]| -> Result<(), Error> {
            match choice {
                Some(choice) => gemm::gemm_by(on, choice, &*a, &*b, c, &options)?,
                None => gemm::gemm(on, &*a, &*b, c, &options)?,
            }
            Ok(())
        };
        // The first launch compiles, makes workspaces, and waits for whoever wrote the tensors, which a capture must not.
        let stream = self.device.stream()?;
        for set in &mut sets {
            launch(&stream, set)?;
        }
        self.device.synchronize()?;
        self.device.set_dependent_launch(dependent);
        let graph = self.device.capture(|on| sets.iter_mut().try_for_each(|set| launch(on, set)));
        self.device.set_dependent_launch(true);
        self.device.synchronize()?;
        Ok(Products { graph: graph? })
    }
}
