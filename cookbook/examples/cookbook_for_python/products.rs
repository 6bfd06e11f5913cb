//! Matrix products for Python: what the host entry points choose from, and graphs of their launches, which may be dependent ones as a
//! stream of ours has them.

use crate::call::{Failure, View};
use std::ffi::c_void;
use std::fmt::Display;
use tile_kernels::gemm::batched::{self, gemm_batched};
use tile_kernels::gemm::{self, Activation, Gemm, GemmElement, Precision};
use tile_kernels::gemv::{self, Gemv, GemvElement};
use tile_runtime::interop::from_raw_parts;
use tile_runtime::prelude::*;
use tile_runtime::tuner::TuneOptions;
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

/// Who chooses what is launched.
#[derive(Clone, Copy)]
pub enum By {
    /// The entry point, as a user calls it.
    Call,
    /// The number of a candidate.
    Number(usize),
    /// The tuner, which measures where it remembers no result.
    Tuner,
}

/// Operands and result of a product of matrices, or of batches of them.
struct Matrices<T: Element, const R: usize> {
    a: Tensor<T, R>,
    b: Tensor<T, R>,
    c: Tensor<T, R>,
    bias: Option<Tensor<T, 1>>,
}

/// `w`, `x` and `y` of the product of a matrix and a vector.
type Vectors<T> = (Tensor<T, 2>, Tensor<T, 1>, Tensor<T, 1>);

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
        view.check::<T, R>()?;
        let extents = |values: [u64; 4]| std::array::from_fn(|axis| values[axis] as usize);
        // SAFETY: Python keeps the tensors as long as the graph, and uses them on the stream that the graph is launched on.
        Ok(unsafe {
            from_raw_parts(self.device, view.address, extents(view.shape), extents(view.strides), self.stream)
        }?)
    }

    /// The choices as lines of `us name`, that which is taken by itself first; the us are 0 where none are expected.
    pub fn candidates(&self) -> Result<String, Failure> {
        let found = match self.name {
            "gemm" => floats!(self, |T| self.gemm_candidates::<T>()),
            "gemm_batched" => floats!(self, |T| self.batched_candidates::<T>()),
            "gemv" => floats!(self, |T| self.gemv_candidates::<T>()),
            _ => self.unknown(),
        };
        Ok(found?.into_iter().map(|(choice, us)| format!("{us:.4} {choice}\n")).collect())
    }

    /// A graph of the launches.
    pub fn graph(&self, by: By, dependent: bool) -> Result<Products, Failure> {
        match self.name {
            "gemm" => floats!(self, |T| self.gemm::<T>(by, dependent)),
            "gemm_batched" => floats!(self, |T| self.batched::<T>(by, dependent)),
            "gemv" => floats!(self, |T| self.gemv::<T>(by, dependent)),
            _ => self.unknown(),
        }
    }

    fn unknown<V>(&self) -> Result<V, Failure> {
        Err(format!("there is no product `{}`", self.name).into())
    }

    /// Captures what launches the product on every set of tensors.
    fn captured(
        &self,
        dependent: bool,
        mut launch: impl FnMut(&Stream) -> Result<(), Error>,
    ) -> Result<Products, Failure> {
        // The first launch compiles, makes workspaces, and waits for whoever wrote the tensors, which a capture must not.
        launch(&self.device.stream()?)?;
        self.device.synchronize()?;
        self.device.set_dependent_launch(dependent);
        let graph = self.device.capture(launch);
        self.device.set_dependent_launch(true);
        self.device.synchronize()?;
        Ok(Products { graph: graph? })
    }

    /// `a`, `b`, `c`, and a bias where there are four tensors a call.
    fn matrices<T: Element, const R: usize>(&self) -> Result<Vec<Matrices<T, R>>, Failure> {
        let sets = self.views.chunks_exact(self.each.max(3));
        let made = sets.map(|set| {
            let bias = set.get(3).map(|view| self.tensor(view)).transpose()?;
            Ok(Matrices { a: self.tensor(&set[0])?, b: self.tensor(&set[1])?, c: self.tensor(&set[2])?, bias })
        });
        made.collect()
    }

    /// Scalars: whether `a` and `b` are stored transposed, tf32, the activation's number.
    fn options<'a, T: Element>(&self, bias: Option<&'a Tensor<T, 1>>) -> Gemm<'a, T> {
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
            bias,
            ..Gemm::default()
        }
    }

    fn gemm_candidates<T: GemmElement>(&self) -> Result<Vec<(String, f64)>, Failure> {
        let mut sets = self.matrices::<T, 2>()?;
        let Matrices { a, b, c, bias } = sets.first_mut().ok_or(NO_TENSORS)?;
        Ok(named(gemm::candidates(self.device, &*a, &*b, c, &self.options(bias.as_ref()))))
    }

    fn gemm<T: GemmElement>(&self, by: By, dependent: bool) -> Result<Products, Failure> {
        let mut sets = self.matrices::<T, 2>()?;
        let Matrices { a, b, c, bias } = sets.first_mut().ok_or(NO_TENSORS)?;
        let options = self.options(bias.as_ref());
        let found = match by {
            By::Call => None,
            By::Number(number) => {
                let (choice, _) = numbered(gemm::candidates(self.device, &*a, &*b, c, &options), number)?;
                Some(gemm::Tuned { choice, early: true })
            }
            By::Tuner => Some(gemm::tuned(self.device, &*a, &*b, c, &options, &quietly())?.0),
        };
        self.captured(dependent, |on| {
            for Matrices { a, b, c, bias } in &mut sets {
                let options = self.options(bias.as_ref());
                match found {
                    Some(found) => found.launch(on, &*a, &*b, c, &options)?,
                    None => gemm::gemm(on, &*a, &*b, c, &options)?,
                }
            }
            Ok(())
        })
    }

    /// The choices for the operands with the us expected of each, that which a call takes first.
    fn choices<T: Element>(&self, set: &Matrices<T, 3>) -> Vec<(batched::Choice, f64)> {
        let options = self.options(set.bias.as_ref());
        batched::Shape::of(self.device, &set.a.view(), &set.b.view(), set.c.shape(), &options).ranked()
    }

    fn batched_candidates<T: GemmElement>(&self) -> Result<Vec<(String, f64)>, Failure> {
        let sets = self.matrices::<T, 3>()?;
        Ok(named(self.choices(sets.first().ok_or(NO_TENSORS)?)))
    }

    fn batched<T: GemmElement>(&self, by: By, dependent: bool) -> Result<Products, Failure> {
        let mut sets = self.matrices::<T, 3>()?;
        let choice = match by {
            By::Call => None,
            By::Number(number) => Some(numbered(self.choices(sets.first().ok_or(NO_TENSORS)?), number)?.0),
            By::Tuner => return Err("products of batches have no tuner".into()),
        };
        self.captured(dependent, |on| {
            for Matrices { a, b, c, bias } in &mut sets {
                let options = self.options(bias.as_ref());
                match choice {
                    Some(choice) => batched::launch_by(on, choice, a.view(), b.view(), c.view_mut(), &options)?,
                    None => gemm_batched(on, a.view(), b.view(), c.view_mut(), &options)?,
                }
            }
            Ok(())
        })
    }

    fn vectors<T: Element>(&self) -> Result<Vec<Vectors<T>>, Failure> {
        let sets = self.views.chunks_exact(self.each.max(3));
        sets.map(|set| Ok((self.tensor(&set[0])?, self.tensor(&set[1])?, self.tensor(&set[2])?))).collect()
    }

    fn gemv_candidates<T: GemvElement>(&self) -> Result<Vec<(String, f64)>, Failure> {
        let sets = self.vectors::<T>()?;
        let (w, x, _) = sets.first().ok_or(NO_TENSORS)?;
        Ok(named(gemv::ranked(self.device, w, x)))
    }

    fn gemv<T: GemvElement>(&self, by: By, dependent: bool) -> Result<Products, Failure> {
        let mut sets = self.vectors::<T>()?;
        let (w, x, y) = sets.first_mut().ok_or(NO_TENSORS)?;
        let found = match by {
            By::Call => None,
            By::Number(number) => {
                let (choice, _) = numbered(gemv::ranked(self.device, &*w, &*x), number)?;
                Some(gemv::Tuned { choice, early: true })
            }
            By::Tuner => Some(gemv::tuned(self.device, &*w, &*x, y, Gemv::default(), &quietly())?.0),
        };
        self.captured(dependent, |on| {
            for (w, x, y) in &mut sets {
                match found {
                    Some(found) => found.launch(on, &*w, &*x, y, Gemv::default())?,
                    None => gemv::gemv(on, &*w, &*x, y, Gemv::default())?,
                }
            }
            Ok(())
        })
    }
}

const NO_TENSORS: &str = "no tensors";

fn named<C: Display>(found: Vec<(C, f64)>) -> Vec<(String, f64)> {
    found.into_iter().map(|(choice, us)| (choice.to_string(), us)).collect()
}

fn numbered<C>(found: Vec<C>, number: usize) -> Result<C, Failure> {
    found.into_iter().nth(number).ok_or_else(|| format!("there is no candidate {number}").into())
}

fn quietly() -> TuneOptions {
    TuneOptions { quiet: true, ..TuneOptions::default() }
}
