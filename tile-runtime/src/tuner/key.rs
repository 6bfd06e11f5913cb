//! What a tuning's result depends on, as text: compared whole.

use super::ways::WaysOf;
use crate::device::{Backend, Device};
use crate::error::Error;
use crate::kernel::{Argument, Definition, Dtype, Scalar};
use crate::nvrtc::Nvrtc;
use std::collections::HashMap;
use std::sync::Mutex;
use tile_ir::ir::{DtypeClass, EntityRef, Kernel, Source, Span};
use tile_ir::sim::ScalarValue;

/// Version of what a key means.
const FORMAT: u32 = 1;

/// The key of a call of a kernel.
pub(super) fn of(
    def: &'static Definition,
    dtypes: &[Dtype],
    device: &Device,
    args: &[Argument<'_>],
) -> Result<String, Error> {
    let names = dtypes.iter().map(|d| d.name()).collect::<Vec<_>>().join(", ");
    let mut key = Key::new();
    key.line("kernel", &format!("{} {}", def.name(), kernel_hash(def)?));
    key.line("dtypes", &names);
    key.machine(device);
    for (dim, value) in super::space::specialized(def.kernel()?, args) {
        key.line(&format!("specialised {}", dim.index()), &value.to_string());
    }
    for (kernel_param, arg) in def.kernel()?.params.values().zip(args) {
        key.line(&kernel_param.name, &bucket_of(arg));
    }
    Ok(key.0)
}

/// The key of a call of a host function.
pub(super) fn of_call(call: &WaysOf<'_>, device: &Device) -> Result<String, Error> {
    let mut key = Key::new();
    key.line("call", call.name);
    for def in call.kernels {
        key.line("kernel", &format!("{} {}", def.name(), kernel_hash(def)?));
    }
    key.line("options", call.options);
    key.machine(device);
    for (at, arg) in call.args.iter().enumerate() {
        let dtype = match arg {
            Argument::Tensor(tensor) => tensor.dtype().name(),
            Argument::Scalar(_) | Argument::Absent => "",
        };
        key.line(&at.to_string(), &format!("{dtype} {}", bucket_of(arg)));
    }
    Ok(key.0)
}

/// The lines of a key.
struct Key(String);

impl Key {
    fn new() -> Key {
        Key(format!("tune {FORMAT}, version {}\n", env!("CARGO_PKG_VERSION")))
    }

    fn line(&mut self, name: &str, value: &str) {
        self.0 += &format!("{name}: {}\n", value.replace('\n', " "));
    }

    /// The device and what compiles for it.
    fn machine(&mut self, device: &Device) {
        match &device.state.backend {
            // Two devices of one model are alike.
            Backend::Cuda(cuda) => {
                let (major, minor) = cuda.capability;
                self.line(
                    "device",
                    &format!("{} {major}.{minor}, {} multiprocessors", cuda.name, cuda.multiprocessors),
                );
                let (major, minor) = cuda.driver_version();
                self.line("driver", &format!("{major}.{minor}"));
            }
            Backend::Simulator { .. } => self.line("device", device.label()),
        }
        self.line("nvrtc", &Nvrtc::get().map_or("none".into(), Nvrtc::identity));
    }
}

/// An argument's bucket: the extents' buckets, and the alignment of the address and the strides; a number's bucket; of
/// another value, whether it is zero.
fn bucket_of(arg: &Argument<'_>) -> String {
    match arg {
        Argument::Tensor(tensor) => {
            let size = u64::from(tensor.dtype().bytes());
            let extents = tensor.shape().iter().map(|e| bucket(*e)).collect::<Vec<_>>().join(" x ");
            // The innermost stride is an element, so what is left is told by address and outer strides.
            let outer = &tensor.strides()[..tensor.strides().len().saturating_sub(1)];
            let aligned = outer.iter().fold(tensor.address(), |all, s| all | (*s as u64).wrapping_mul(size));
            format!("{extents}, aligned to {}", 1u64 << aligned.trailing_zeros().min(7))
        }
        Argument::Absent => "absent".into(),
        Argument::Scalar(Scalar { value: ScalarValue::Index(value) }) => bucket(*value),
        Argument::Scalar(Scalar { value: ScalarValue::Element(dtype, bits) }) => {
            // -0.0 is zero too.
            let magnitude = match dtype.class() {
                DtypeClass::Float(format) => bits & format.magnitude(),
                DtypeClass::Int(_) | DtypeClass::Bool => *bits,
            };
            if magnitude == 0 { "zero".into() } else { "not zero".into() }
        }
    }
}

/// An extent's bucket: its three leading bits, and by which power of two up to 1024 it can be divided, which decides
/// what may be vectorised and whether there is a ragged tile.
pub(super) fn bucket(extent: i64) -> String {
    let n = extent.max(0) as u64;
    if n == 0 {
        return "0".into();
    }
    let shift = (61 - i64::from(n.leading_zeros())).max(0) as u32;
    let (low, high) = ((n >> shift) << shift, ((n >> shift) + 1) << shift);
    let divisor = 1u64 << n.trailing_zeros().min(10);
    if shift == 0 { n.to_string() } else { format!("{low}..{high} by {divisor}") }
}

/// A hash of what the kernel computes, wherever its text stands. Computed once a kernel.
fn kernel_hash(def: &'static Definition) -> Result<String, Error> {
    static KNOWN: Mutex<Option<HashMap<usize, String>>> = Mutex::new(None);
    let address = std::ptr::from_ref(def).addr();
    if let Some(hash) = crate::lock::lock(&KNOWN).as_ref().and_then(|known| known.get(&address)) {
        return Ok(hash.clone());
    }
    let hash = hash_without_places(def.kernel()?);
    crate::lock::lock(&KNOWN).get_or_insert_default().insert(address, hash.clone());
    Ok(hash)
}

fn hash_without_places(kernel: &Kernel) -> String {
    let mut kernel = Kernel { source: Source::default(), ..kernel.clone() };
    kernel.spans.values_mut().for_each(|span| *span = Span::default());
    blake3::hash(&tile_ir::codec::encode(&kernel)).to_hex()[..32].to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_keeps_three_bits_and_the_divisor() {
        for (extent, expected) in [
            (0, "0"),
            (1, "1"),
            (7, "7"),
            (8, "8..10 by 8"),
            (9, "8..10 by 1"),
            (4096, "4096..5120 by 1024"),
            (7168, "7168..8192 by 1024"),
            (7176, "7168..8192 by 8"),
            (28672, "28672..32768 by 1024"),
        ] {
            assert_eq!(bucket(extent), expected);
        }
        assert_eq!(bucket(-5), "0");
        assert!(!bucket(i64::MAX).is_empty());
    }
}
