//! A kernel's machine code on a device, and its launch.

use super::context::{CudaDevice, Limits, StreamSlot, cluster_attribute};
use super::dependent::Range;
use super::driver::{Handle, Pointer};
use super::maps::{EncodedMap, MOST_MAPS};
use crate::error::Error;
use cudarc::driver::sys;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;
use tile_ir::emit::cuda::symbol;
use tile_ir::ir::{EntityRef, Trigger};
use tile_ir::lowered::{HostExpr, ParameterKind, Program, TensorMap};

/// Most parameters of the C function: their values live on the stack during a launch.
const MAX_PARAMETERS: usize = 96;

/// A loaded function, unloaded with its module.
pub(crate) struct Function {
    /// The device that it is loaded on.
    pub device: &'static CudaDevice,
    module: Handle,
    handle: Handle,
    dynamic_shared: u32,
    threads: [u32; 3],
    /// Blocks of a cluster.
    cluster: u32,
    /// Its C parameters, in order.
    pub parameters: Vec<ParameterKind>,
    /// The numbers that the launcher computes for some of them.
    pub computed: Vec<HostExpr>,
    /// How TMA sees its tensors.
    pub maps: Vec<TensorMap>,
    /// Whether it may be launched before the previous kernel is done, and when it lets the next one start.
    dependent: Option<Trigger>,
    /// Where its threads' messages go: the log's address, and its number there.
    log: Option<(Pointer, u32)>,
}

impl Drop for Function {
    fn drop(&mut self) {
        self.device.unload(self.module);
    }
}

// SAFETY: a function handle may be used from any thread.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Function {
    /// Whether a program has no more parameters than a launch takes.
    pub fn accepts(kernel: &str, program: &Program) -> Result<(), Error> {
        let counts = [
            ("C parameters", program.params.len(), MAX_PARAMETERS),
            ("tensor maps", program.tensor_maps.len(), MOST_MAPS),
        ];
        match counts.into_iter().find(|(_, found, most)| found > most) {
            Some((what, found, most)) => Err(Error::TooMany { kernel: kernel.into(), what, found, most }),
            None => Ok(()),
        }
    }

    /// Loads a program's cubin. Also returns how many of its blocks the device holds at once, in whole clusters.
    pub fn load(
        device: &'static CudaDevice,
        kernel: &str,
        cubin: &[u8],
        program: &Program,
    ) -> Result<(Function, i64), Error> {
        let (threads, cluster) = (program.launch.threads, program.launch.cluster_size());
        let limits = Limits { threads: threads.iter().product(), shared_bytes: program.shared_bytes };
        let (module, handle, dynamic_shared) = device.load(kernel, cubin, &symbol(program), limits)?;
        let log = match program.messages.is_empty() {
            true => None,
            false => device.log().map(|log| Some((log.address(), log.register(kernel, program))))?,
        };
        let function = Function {
            device,
            log,
            module,
            handle,
            dynamic_shared,
            threads,
            cluster,
            parameters: program.params.iter().map(|p| p.kind).collect(),
            computed: program.launch.computed.clone(),
            maps: program.tensor_maps.values().cloned().collect(),
            dependent: program.launch.dependent,
        };
        let capacity = device.capacity(handle, limits.threads, dynamic_shared, cluster)?;
        Ok((function, capacity))
    }

    /// Hands a launch to the driver: the grid, the parameters' bits and maps, what it writes, and what it may read before the previous
    /// kernel is done; none where it starts when that is done.
    #[inline]
    pub fn launch(
        &self,
        slot: &StreamSlot,
        grid: [u32; 3],
        (bits, maps): (impl Iterator<Item = u64>, &[EncodedMap]),
        written: impl Iterator<Item = Range>,
        independent: Option<impl Iterator<Item = Range>>,
    ) -> Result<(), Error> {
        let cuda = self.device;
        let entry = slot.enter();
        let early = self.dependent.is_some()
            && cuda.dependent_launch.load(Ordering::Relaxed)
            && independent.is_some_and(|independent| entry.follows_kernel_apart_from(independent));
        let mut storage = [MaybeUninit::<u64>::uninit(); MAX_PARAMETERS];
        let mut pointers = [MaybeUninit::<*mut c_void>::uninit(); MAX_PARAMETERS];
        for (((bits, kind), slot), pointer) in bits.zip(&self.parameters).zip(&mut storage).zip(&mut pointers) {
            let bits = match kind {
                ParameterKind::Ahead(slots) if early => u64::from(*slots),
                ParameterKind::Log => self.log.map_or(0, |(address, _)| address),
                ParameterKind::LogFunction => self.log.map_or(0, |(_, number)| u64::from(number)),
                _ => bits,
            };
            let own = std::ptr::from_mut(slot.write(bits)).cast();
            pointer.write(match kind {
                ParameterKind::TensorMap(map) => match maps.get(map.index()) {
                    Some(map) => std::ptr::from_ref(map).cast_mut().cast(),
                    None => own,
                },
                _ => own,
            });
        }
        let mut attributes = [MaybeUninit::<sys::CUlaunchAttribute>::uninit(); 2];
        let mut count = 0;
        if early {
            let mut attribute = sys::CUlaunchAttribute {
                id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                pad: [0; 4],
                value: sys::CUlaunchAttributeValue { pad: [0; 64] },
            };
            attribute.value.programmaticStreamSerializationAllowed = 1;
            attributes[count].write(attribute);
            count += 1;
        }
        if self.cluster > 1 {
            attributes[count].write(cluster_attribute(self.cluster));
            count += 1;
        }
        let config = sys::CUlaunchConfig {
            gridDimX: grid[0],
            gridDimY: grid[1],
            gridDimZ: grid[2],
            blockDimX: self.threads[0],
            blockDimY: self.threads[1],
            blockDimZ: self.threads[2],
            sharedMemBytes: self.dynamic_shared,
            hStream: entry.stream().cast(),
            attrs: if count > 0 { attributes.as_mut_ptr().cast() } else { std::ptr::null_mut() },
            numAttrs: count as u32,
        };
        // SAFETY: the function takes exactly `parameters`, each of which has a value in `storage` that is at least as
        // large; the pointers before `parameters.len()` are written, and the driver reads no others. Tensors were checked
        // to cover what the kernel accesses and are kept alive, in stream order, by their allocations. A launch that may
        // start early obeys the rule of `cuda::dependent`.
        let code = unsafe {
            let parameters = pointers.as_mut_ptr().cast::<*mut c_void>();
            (cuda.driver.launch_kernel_ex)(&config, self.handle, parameters, std::ptr::null_mut())
        };
        cuda.check("cuLaunchKernelEx", code)?;
        entry.is_kernel(written, early && self.dependent == Some(Trigger::AtStart));
        Ok(())
    }
}
