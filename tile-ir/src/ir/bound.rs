//! A kernel of which everything is known but the launch.

use super::{BufferId, Dtype, DtypeRef, ExprKind, Kernel, PrimaryMap, SpanId, Type};
use crate::diag::{Bug, Code, Diagnostic};
use std::fmt;
use std::ops::Deref;

/// A kernel bound to an instance: no generic dtype and no constant parameter is left, and the extents of its block and of its
/// arrays are known. [`crate::lower::bind`] alone makes one, so that whoever has one need not ask.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundKernel {
    kernel: Kernel,
    threads: [u32; 3],
    buffers: PrimaryMap<BufferId, Facts>,
}

/// What is known of an array.
#[derive(Clone, Debug, PartialEq)]
struct Facts {
    dtype: Dtype,
    extents: Vec<u32>,
}

impl Deref for BoundKernel {
    type Target = Kernel;

    fn deref(&self) -> &Kernel {
        &self.kernel
    }
}

impl fmt::Display for BoundKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kernel.fmt(f)
    }
}

impl BoundKernel {
    /// # Errors
    /// An extent that no array and no block can have; what binding has left open, which is a mistake of the compiler.
    pub(crate) fn new(kernel: Kernel) -> Result<BoundKernel, Box<Diagnostic>> {
        let first = SpanId::from_u32(0);
        let open = |span: SpanId, text: &str| -> Box<Diagnostic> {
            Bug::new(span, format!("{text} is left in a bound kernel")).diagnostic().into()
        };
        for expr in kernel.exprs.values() {
            let constant = matches!(expr.kind, ExprKind::Const(_) | ExprKind::Bits(_) | ExprKind::Special(..));
            if constant || is_generic(expr.ty) {
                return Err(open(expr.span, "something generic"));
            }
        }
        if let Some(var) = kernel.vars.values().find(|var| is_generic(var.ty)) {
            return Err(open(var.span, "a variable of a generic type"));
        }
        let extent = |expr, what: &str| -> Result<u32, Box<Diagnostic>> {
            let span = kernel.exprs[expr].span;
            let value = kernel.const_index(expr).ok_or_else(|| open(span, "an extent that is no number"))?;
            let known = u32::try_from(value).ok().filter(|value| i32::try_from(*value).is_ok());
            known.ok_or_else(|| {
                let message = format!("{what} is {value}: it is from 0 to {}", i32::MAX);
                Diagnostic::new(Code::SHAPE, span, message).into()
            })
        };
        let mut threads = [1; 3];
        for (slot, axis) in threads.iter_mut().zip(&kernel.threads) {
            *slot = extent(axis.extent, "a thread extent")?;
        }
        let mut buffers = PrimaryMap::with_capacity(kernel.buffers.len());
        for buffer in kernel.buffers.values() {
            let DtypeRef::Is(dtype) = buffer.dtype else { return Err(open(buffer.span, "an array of a generic type")) };
            let what = format!("an extent of `{}`", buffer.name);
            let extents = buffer.extents.iter().map(|e| extent(*e, &what)).collect::<Result<_, _>>()?;
            buffers.push(Facts { dtype, extents });
        }
        if let Some(param) = kernel.params.values().find(|param| param.kind.is_generic()) {
            return Err(open(
                kernel.spans.keys().next().unwrap_or(first),
                &format!("the generic type of `{}`", param.name),
            ));
        }
        Ok(BoundKernel { kernel, threads, buffers })
    }

    /// The block's thread count.
    pub fn thread_count(&self) -> u32 {
        self.threads.into_iter().fold(1, u32::saturating_mul)
    }

    /// The block's extents x, y, z: absent axes are 1.
    pub fn thread_extents(&self) -> [u32; 3] {
        self.threads
    }

    /// An array's extents, outermost first.
    pub fn buffer_extents(&self, buffer: BufferId) -> &[u32] {
        &self.buffers[buffer].extents
    }

    /// How many elements an array has.
    pub fn buffer_len(&self, buffer: BufferId) -> u64 {
        self.buffers[buffer].extents.iter().map(|extent| u64::from(*extent)).fold(1, u64::saturating_mul)
    }

    /// How many bytes an array's elements take.
    pub fn buffer_bytes(&self, buffer: BufferId) -> u64 {
        self.buffer_len(buffer).saturating_mul(u64::from(self.buffer_dtype(buffer).bytes()))
    }

    /// An array's dtype.
    pub fn buffer_dtype(&self, buffer: BufferId) -> Dtype {
        self.buffers[buffer].dtype
    }
}

const fn is_generic(ty: Type) -> bool {
    matches!(ty, Type::Value(DtypeRef::Param(_)))
}
