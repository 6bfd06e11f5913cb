//! Which kernel is meant, where it is not a launch that says so.

use super::definition::Definition;
use crate::error::Error;
use tile_ir::ir::{Class, DimId, Instance, Kernel, Param, ParamId, ParamKind};

/// An instance of a kernel, with the values of the dims that it is specialised by, and its alignment class:
/// `Variant { instance: 3, dims: &[("K", 4096)], ..Variant::default() }`. A number alone is an instance of a kernel without
/// `specialize(..)`, in the widest class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variant<'a> {
    /// The instance, in order of declaration.
    pub instance: usize,
    /// A value for each dim of `specialize(..)`, by name.
    pub dims: &'a [(&'a str, i64)],
    /// The alignment class that it is compiled for.
    pub class: Class,
    /// The optional tensors that it leaves out, by name.
    pub absent: &'a [&'a str],
}

impl From<usize> for Variant<'_> {
    fn from(instance: usize) -> Self {
        Variant { instance, ..Variant::default() }
    }
}

impl Variant<'_> {
    /// The kernel, and the instance as it is bound.
    ///
    /// # Errors
    /// There is no such instance; the dims are not those of `specialize(..)`; a tensor that is left out is not optional.
    pub fn instance(&self, def: &'static Definition) -> Result<(&'static Kernel, Instance), Error> {
        let (kernel, instance) = def.instance(self.instance)?;
        let optional = |(_, param): &(ParamId, &Param)| matches!(param.kind, ParamKind::Tensor { optional: true, .. });
        let absent = self.absent.iter().map(|name| {
            let found = kernel.params.iter().filter(optional).find(|(_, param)| param.name == **name);
            found.map(|(id, _)| id).ok_or_else(|| {
                let optional: Vec<&str> = kernel.params.iter().filter(optional).map(|(_, p)| p.name.as_str()).collect();
                Error::Optional { kernel: def.name().into(), asked: (*name).into(), optional: optional.join(", ") }
            })
        });
        let mut absent = absent.collect::<Result<Vec<_>, Error>>()?;
        absent.sort();
        absent.dedup();
        Ok((kernel, Instance { class: self.class, absent, ..instance.with_dims(def.dims(self.dims)?) }))
    }
}

impl Definition {
    /// Values of specialised dims, by name, as an instance has them: in the order of `specialize(..)`.
    pub(crate) fn dims(&'static self, values: &[(&str, i64)]) -> Result<Vec<(DimId, i64)>, Error> {
        let kernel = self.kernel()?;
        let name = |dim: DimId| kernel.dims[dim].name.as_str();
        let all = kernel.specialized();
        let stray = values.iter().any(|(given, _)| !all.iter().any(|dim| name(*dim) == *given));
        let dims: Option<Vec<_>> =
            all.iter().map(|dim| Some((*dim, values.iter().find(|(given, _)| *given == name(*dim))?.1))).collect();
        dims.filter(|_| !stray && values.len() == all.len()).ok_or_else(|| {
            let asked: Vec<String> = values.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            let needed: Vec<&str> = all.iter().map(|dim| name(*dim)).collect();
            Error::Dims { kernel: self.name().into(), asked: asked.join(", "), needed: needed.join(", ") }
        })
    }
}
