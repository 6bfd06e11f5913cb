//! cuBLAS and cuBLASLt, to be compared with: `C = A Bᵀ` on tensors, launched on any stream, also a captured one.
//!
//! A user of cuBLAS calls [`Blas::gemm`]; one who takes the time gets the best of what [`Blas::heuristics`] proposes.

mod library;

use cudarc::cublas::sys as cublas;
use cudarc::cublaslt::sys as lt;
use library::{Cublas, CublasLt, Handle, Heuristic};
use std::ffi::{c_int, c_void};
use thiserror::Error;
use tile_ir::ir::Dtype;
use tile_runtime::interop::{address_of, raw_stream};
use tile_runtime::library::LibraryError;
use tile_runtime::{Device, Element, Stream, Tensor};

/// Why cuBLAS did not do what was asked.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum BlasError {
    /// It is not installed.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The device failed.
    #[error(transparent)]
    Runtime(#[from] tile_runtime::Error),
    /// A call failed.
    #[error("{call} failed with status {status}")]
    Call {
        /// The function.
        call: &'static str,
        /// Its `cublasStatus_t`.
        status: i32,
    },
    /// There is no such algorithm.
    #[error("algorithm {index} was asked for, cuBLASLt proposed {count}")]
    Algorithm {
        /// The index asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// Shapes that do not fit each other.
    #[error("C[{}, {}] = A[{}, {}] B[{}, {}]^T: the shapes do not fit", c[0], c[1], a[0], a[1], b[0], b[1])]
    Shape {
        /// Shape of A.
        a: [usize; 2],
        /// Shape of B.
        b: [usize; 2],
        /// Shape of C.
        c: [usize; 2],
    },
    /// An extent that cuBLAS's 32-bit integers do not hold.
    #[error("an extent of {extent} is larger than cuBLAS takes")]
    Extent {
        /// The extent.
        extent: usize,
    },
    /// An element type that is not supported here.
    #[error("cuBLAS is called here with f16, bf16 and f32, not {dtype}")]
    Dtype {
        /// The element type.
        dtype: String,
    },
    /// A simulator has no cuBLAS.
    #[error("{device} is not a CUDA device")]
    Device {
        /// The device.
        device: String,
    },
}

/// cuBLAS and cuBLASLt on one device, with a workspace. Calls of one value must not overlap on two streams, because they
/// share that workspace.
pub struct Blas {
    cublas: Cublas,
    lt: CublasLt,
    handle: Handle,
    lt_handle: Handle,
    workspace: Tensor<f32, 1>,
    device: Device,
}

/// 64 MiB, more than any algorithm on Hopper asks for.
const WORKSPACE: usize = 64 << 20;
/// How many algorithms the heuristics are asked for.
const REQUESTED: usize = 32;
const OP_N: c_int = cublas::cublasOperation_t::CUBLAS_OP_N as c_int;
const OP_T: c_int = cublas::cublasOperation_t::CUBLAS_OP_T as c_int;
const COMPUTE_32F: c_int = cublas::cublasComputeType_t::CUBLAS_COMPUTE_32F as c_int;
const COMPUTE_TF32: c_int = cublas::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32 as c_int;
const CUDA_R_32F: c_int = cublas::cudaDataType_t::CUDA_R_32F as c_int;
static ONE: f32 = 1.0;
static ZERO: f32 = 0.0;

impl Blas {
    /// Opens both libraries.
    ///
    /// # Errors
    /// They are not installed (the error lists what was tried); the device is a simulator; they fail.
    pub fn open(device: &Device) -> Result<Blas, BlasError> {
        if device.is_simulator() {
            return Err(BlasError::Device { device: device.label().into() });
        }
        let (cublas, lt) = library::open()?;
        let workspace = device.zeros([WORKSPACE / 4])?;
        // Makes the device's context current on this thread, which both handles belong to.
        device.synchronize()?;
        let (mut handle, mut lt_handle) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: a context is current; both handles outlive their call.
        check("cublasCreate", unsafe { (cublas.create)(&mut handle) })?;
        // SAFETY: as above.
        let status = unsafe { (lt.create)(&mut lt_handle) };
        let blas = Blas { cublas, lt, handle, lt_handle, workspace, device: device.clone() };
        check("cublasLtCreate", status)?;
        Ok(blas)
    }

    /// The version, such as `13.1.0`.
    pub fn version(&self) -> String {
        // SAFETY: no preconditions.
        let version = unsafe { (self.lt.version)() };
        format!("{}.{}.{}", version / 10000, version / 100 % 100, version % 100)
    }

    /// `c = a bᵀ`, as cuBLAS does it by itself: `a` of shape `[M, K]`, `b` of `[N, K]`, `c` of `[M, N]`; f32 sums.
    ///
    /// # Errors
    /// The shapes do not fit; the call fails.
    pub fn gemm<T: Element>(
        &self,
        stream: &Stream,
        a: &Tensor<T, 2>,
        b: &Tensor<T, 2>,
        c: &mut Tensor<T, 2>,
    ) -> Result<(), BlasError> {
        self.gemm_ex(stream, Problem::of::<T>(a.shape(), b.shape(), c.shape())?, Stored::NT, [at(a), at(b), at(c)])
    }

    /// `c = op(a) op(b)` as cuBLAS does it by itself: `a` of shape `[M, K]`, or `[K, M]` where it is stored transposed; `b` of
    /// `[K, N]`, or `[N, K]`; f32 sums. With `tf32`, f32 operands are multiplied on tensor cores.
    ///
    /// # Errors
    /// As [`Blas::gemm`].
    pub fn gemm_stored<T: Element>(
        &self,
        stream: &Stream,
        a: &Tensor<T, 2>,
        b: &Tensor<T, 2>,
        c: &mut Tensor<T, 2>,
        ([a_transposed, b_transposed], tf32): ([bool; 2], bool),
    ) -> Result<(), BlasError> {
        let flipped = |[rows, cols]: [usize; 2], flip: bool| if flip { [cols, rows] } else { [rows, cols] };
        let shapes = [flipped(a.shape(), a_transposed), flipped(b.shape(), !b_transposed)];
        let problem = Problem::of::<T>(shapes[0], shapes[1], c.shape())?;
        let stored = Stored { a_transposed, b_transposed, compute: if tf32 { COMPUTE_TF32 } else { COMPUTE_32F } };
        self.gemm_ex(stream, problem, stored, [at(a), at(b), at(c)])
    }

    /// `c[z] = op(a[z]) op(b[z])` for every batch `z`, as cuBLAS does it by itself: operands as [`Blas::gemm_stored`] has them, with
    /// an axis of batches before the others; f32 sums.
    ///
    /// # Errors
    /// As [`Blas::gemm`].
    pub fn gemm_batches<T: Element>(
        &self,
        stream: &Stream,
        a: &Tensor<T, 3>,
        b: &Tensor<T, 3>,
        c: &mut Tensor<T, 3>,
        [a_transposed, b_transposed]: [bool; 2],
    ) -> Result<(), BlasError> {
        let flipped = |[_, rows, cols]: [usize; 3], flip: bool| if flip { [cols, rows] } else { [rows, cols] };
        let [batches, m, n] = c.shape();
        let shapes = [flipped(a.shape(), a_transposed), flipped(b.shape(), !b_transposed)];
        if a.shape()[0] != batches || b.shape()[0] != batches {
            return Err(BlasError::Shape { a: shapes[0], b: shapes[1], c: [m, n] });
        }
        let Problem { m, n, k, data } = Problem::of::<T>(shapes[0], shapes[1], [m, n])?;
        let batches = c_int::try_from(batches).map_err(|_| BlasError::Extent { extent: batches })?;
        let raw = raw_stream(stream)?;
        let (workspace, bytes) = address_of(&self.workspace);
        let one = (&raw const ONE).cast::<c_void>();
        let zero = (&raw const ZERO).cast::<c_void>();
        let (b_op, b_pitch) = if b_transposed { (OP_T, k) } else { (OP_N, n) };
        let (a_op, a_pitch) = if a_transposed { (OP_T, m) } else { (OP_N, k) };
        let apart = |rows: c_int, cols: c_int| i64::from(rows) * i64::from(cols);
        // SAFETY: as for `gemm_ex`; the tensors are dense, so that matrices lie one behind the other.
        unsafe {
            check("cublasSetStream", (self.cublas.set_stream)(self.handle, raw))?;
            check("cublasSetWorkspace", (self.cublas.set_workspace)(self.handle, workspace as *mut c_void, bytes))?;
            let default = cublas::cublasGemmAlgo_t::CUBLAS_GEMM_DFALT as c_int;
            let status = (self.cublas.gemm_batches)(
                self.handle,
                b_op,
                a_op,
                n,
                m,
                k,
                one,
                at(b),
                data,
                b_pitch,
                apart(n, k),
                at(a),
                data,
                a_pitch,
                apart(m, k),
                zero,
                at(c),
                data,
                n,
                apart(m, n),
                batches,
                COMPUTE_32F,
                default,
            );
            check("cublasGemmStridedBatchedEx", status)
        }
    }

    /// `y = w x`: `w` of shape `[N, K]`, `x` of `[K]`, `y` of `[N]`; f32 sums.
    ///
    /// # Errors
    /// The shapes do not fit; the call fails.
    pub fn gemv<T: Element>(
        &self,
        stream: &Stream,
        w: &Tensor<T, 2>,
        x: &Tensor<T, 1>,
        y: &mut Tensor<T, 1>,
    ) -> Result<(), BlasError> {
        let problem = Problem::of::<T>([1, x.len()], w.shape(), [1, y.len()])?;
        self.gemm_ex(stream, problem, Stored::NT, [at(x), at(w), at(y)])
    }

    /// Every algorithm that cuBLASLt proposes for `c = a bᵀ` with these extents, what it thinks best first.
    ///
    /// # Errors
    /// It proposes none.
    pub fn heuristics<T: Element>(&self, m: usize, n: usize, k: usize) -> Result<Algorithms<'_>, BlasError> {
        Algorithms::of(self, Problem::of::<T>([m, k], [n, k], [m, n])?)
    }

    fn gemm_ex(&self, stream: &Stream, problem: Problem, stored: Stored, [a, b, c]: [u64; 3]) -> Result<(), BlasError> {
        let Problem { m, n, k, data } = problem;
        let Stored { a_transposed, b_transposed, compute } = stored;
        let (b_op, b_pitch) = if b_transposed { (OP_T, k) } else { (OP_N, n) };
        let (a_op, a_pitch) = if a_transposed { (OP_T, m) } else { (OP_N, k) };
        let raw = raw_stream(stream)?;
        let (workspace, bytes) = address_of(&self.workspace);
        let one = (&raw const ONE).cast::<c_void>();
        let zero = (&raw const ZERO).cast::<c_void>();
        // SAFETY: valid handles. Setting a stream forgets the workspace, without which a capture would allocate. The
        // operands are dense tensors of these extents: a row-major matrix is, as a column-major one, its transpose, and
        // C = op(A) op(B) the same as Cᵀ = op(B)ᵀ op(A)ᵀ.
        unsafe {
            check("cublasSetStream", (self.cublas.set_stream)(self.handle, raw))?;
            check("cublasSetWorkspace", (self.cublas.set_workspace)(self.handle, workspace as *mut c_void, bytes))?;
            let default = cublas::cublasGemmAlgo_t::CUBLAS_GEMM_DFALT as c_int;
            let status = (self.cublas.gemm_ex)(
                self.handle,
                b_op,
                a_op,
                n,
                m,
                k,
                one,
                b,
                data,
                b_pitch,
                a,
                data,
                a_pitch,
                zero,
                c,
                data,
                n,
                compute,
                default,
            );
            check("cublasGemmEx", status)
        }
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        // What is still running uses the workspace; a failed device is reported elsewhere.
        self.device.synchronize().ok();
        // SAFETY: made once, destroyed once; null where making failed.
        unsafe {
            if !self.handle.is_null() {
                (self.cublas.destroy)(self.handle);
            }
            if !self.lt_handle.is_null() {
                (self.lt.destroy)(self.lt_handle);
            }
        }
    }
}

fn at<T: Element, const R: usize>(tensor: &Tensor<T, R>) -> u64 {
    address_of(tensor).0
}

fn check(call: &'static str, status: c_int) -> Result<(), BlasError> {
    if status == 0 { Ok(()) } else { Err(BlasError::Call { call, status }) }
}

/// How operands are stored, and what they are multiplied as.
#[derive(Clone, Copy)]
struct Stored {
    a_transposed: bool,
    b_transposed: bool,
    compute: c_int,
}

impl Stored {
    /// `c = a bᵀ`, as it is.
    const NT: Stored = Stored { a_transposed: false, b_transposed: true, compute: COMPUTE_32F };
}

/// Extents and element type of a product.
#[derive(Clone, Copy)]
struct Problem {
    m: c_int,
    n: c_int,
    k: c_int,
    data: c_int,
}

impl Problem {
    fn of<T: Element>(a: [usize; 2], b: [usize; 2], c: [usize; 2]) -> Result<Problem, BlasError> {
        if a[1] != b[1] || c != [a[0], b[0]] {
            return Err(BlasError::Shape { a, b, c });
        }
        let narrow = |extent: usize| c_int::try_from(extent).map_err(|_| BlasError::Extent { extent });
        let data = if T::DTYPE == Dtype::F16 {
            cublas::cudaDataType_t::CUDA_R_16F as c_int
        } else if T::DTYPE == Dtype::Bf16 {
            cublas::cudaDataType_t::CUDA_R_16BF as c_int
        } else if T::DTYPE == Dtype::F32 {
            CUDA_R_32F
        } else {
            return Err(BlasError::Dtype { dtype: T::DTYPE.name().into() });
        };
        Ok(Problem { m: narrow(c[0])?, n: narrow(c[1])?, k: narrow(a[1])?, data })
    }
}

/// The algorithms of cuBLASLt for one product.
pub struct Algorithms<'a> {
    blas: &'a Blas,
    problem: Problem,
    desc: Handle,
    /// Layouts of `B`, `A` and `C`, as column-major matrices.
    layouts: [Handle; 3],
    found: Vec<Heuristic>,
}

impl<'a> Algorithms<'a> {
    fn of(blas: &'a Blas, problem: Problem) -> Result<Self, BlasError> {
        let Problem { m, n, k, data } = problem;
        // The handles belong to this from the first on, so that an early return frees what there is.
        let null = std::ptr::null_mut();
        let mut this = Algorithms { blas, problem, desc: null, layouts: [null; 3], found: Vec::new() };
        raw_stream(&blas.device.stream()?)?;
        let f = &blas.lt;
        // SAFETY: every pointer is to a value that outlives its call and has the size that is passed.
        unsafe {
            check("cublasLtMatmulDescCreate", (f.desc_create)(&mut this.desc, COMPUTE_32F, CUDA_R_32F))?;
            use lt::cublasLtMatmulDescAttributes_t::{CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSB};
            for (attribute, op) in [(CUBLASLT_MATMUL_DESC_TRANSA, OP_T), (CUBLASLT_MATMUL_DESC_TRANSB, OP_N)] {
                let status = (f.desc_set)(this.desc, attribute as c_int, (&raw const op).cast(), size_of_val(&op));
                check("cublasLtMatmulDescSetAttribute", status)?;
            }
            for (layout, (rows, columns)) in this.layouts.iter_mut().zip([(k, n), (k, m), (n, m)]) {
                let status = (f.layout_create)(layout, data, rows as u64, columns as u64, i64::from(rows));
                check("cublasLtMatrixLayoutCreate", status)?;
            }
            let mut preference = null;
            check("cublasLtMatmulPreferenceCreate", (f.preference_create)(&mut preference))?;
            let limit = WORKSPACE;
            let attribute = lt::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
            let set =
                (f.preference_set)(preference, attribute as c_int, (&raw const limit).cast(), size_of_val(&limit));
            let nothing = Heuristic {
                algo: lt::cublasLtMatmulAlgo_t { data: [0; 8] },
                workspace: 0,
                state: 1,
                waves: 0.0,
                reserved: [0; 4],
            };
            let (mut results, mut count) = (vec![nothing; REQUESTED], 0);
            let [b, a, c] = this.layouts;
            let asked = (f.heuristic)(
                blas.lt_handle,
                this.desc,
                b,
                a,
                c,
                c,
                preference,
                REQUESTED as c_int,
                results.as_mut_ptr(),
                &mut count,
            );
            (f.preference_destroy)(preference);
            check("cublasLtMatmulPreferenceSetAttribute", set)?;
            check("cublasLtMatmulAlgoGetHeuristic", asked)?;
            results.truncate(usize::try_from(count).unwrap_or(0));
            this.found = results.into_iter().filter(|r| r.state == 0).collect();
        }
        Ok(this)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// `c = a bᵀ` by algorithm `index`.
    ///
    /// # Errors
    /// There is no such algorithm; the shapes are others than asked for; the call fails.
    pub fn gemm<T: Element>(
        &self,
        index: usize,
        stream: &Stream,
        a: &Tensor<T, 2>,
        b: &Tensor<T, 2>,
        c: &mut Tensor<T, 2>,
    ) -> Result<(), BlasError> {
        self.run(index, stream, Problem::of::<T>(a.shape(), b.shape(), c.shape())?, [at(a), at(b), at(c)])
    }

    /// `y = w x` by algorithm `index`, asked for with M = 1.
    ///
    /// # Errors
    /// As [`Algorithms::gemm`].
    pub fn gemv<T: Element>(
        &self,
        index: usize,
        stream: &Stream,
        w: &Tensor<T, 2>,
        x: &Tensor<T, 1>,
        y: &mut Tensor<T, 1>,
    ) -> Result<(), BlasError> {
        let problem = Problem::of::<T>([1, x.len()], w.shape(), [1, y.len()])?;
        self.run(index, stream, problem, [at(x), at(w), at(y)])
    }

    fn run(&self, index: usize, stream: &Stream, problem: Problem, [a, b, c]: [u64; 3]) -> Result<(), BlasError> {
        let Problem { m, n, k, data } = self.problem;
        if (problem.m, problem.n, problem.k, problem.data) != (m, n, k, data) {
            let size = |v: c_int| usize::try_from(v).unwrap_or(0);
            let (a, b) = ([size(problem.m), size(problem.k)], [size(n), size(k)]);
            return Err(BlasError::Shape { a, b, c: [size(m), size(n)] });
        }
        let missing = BlasError::Algorithm { index, count: self.found.len() };
        let algo = &self.found.get(index).ok_or(missing)?.algo;
        let raw = raw_stream(stream)?;
        let (workspace, bytes) = address_of(&self.blas.workspace);
        let one = (&raw const ONE).cast::<c_void>();
        let zero = (&raw const ZERO).cast::<c_void>();
        let [b_layout, a_layout, c_layout] = self.layouts;
        // SAFETY: valid handles; the operands are dense tensors of the layouts' extents.
        let status = unsafe {
            (self.blas.lt.matmul)(
                self.blas.lt_handle,
                self.desc,
                one,
                b,
                b_layout,
                a,
                a_layout,
                zero,
                c,
                c_layout,
                c,
                c_layout,
                algo,
                workspace,
                bytes,
                raw,
            )
        };
        check("cublasLtMatmul", status)
    }
}

impl Drop for Algorithms<'_> {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once; null where making failed. Queued work has its own copies.
        unsafe {
            for layout in self.layouts.into_iter().filter(|layout| !layout.is_null()) {
                (self.blas.lt.layout_destroy)(layout);
            }
            if !self.desc.is_null() {
                (self.blas.lt.desc_destroy)(self.desc);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    #[test]
    fn shapes_are_checked_before_anything_is_called() {
        let good = Problem::of::<f16>([2, 8], [3, 8], [2, 3]).map(|p| (p.m, p.n, p.k)).ok();
        assert_eq!(good, Some((2, 3, 8)));
        assert!(matches!(Problem::of::<f16>([2, 8], [3, 7], [2, 3]), Err(BlasError::Shape { .. })));
        assert!(matches!(Problem::of::<f16>([2, 8], [3, 8], [3, 2]), Err(BlasError::Shape { .. })));
        assert!(matches!(Problem::of::<i32>([2, 8], [3, 8], [2, 3]), Err(BlasError::Dtype { .. })));
        let extent = 1 << 40;
        assert!(matches!(Problem::of::<f32>([1, extent], [1, extent], [1, 1]), Err(BlasError::Extent { .. })));
    }

    #[test]
    fn a_simulator_has_no_cublas() {
        assert!(matches!(Blas::open(&Device::simulator()), Err(BlasError::Device { .. })));
    }

    #[test]
    fn a_missing_library_is_an_error_that_lists_what_was_tried() {
        // With a GPU the libraries may be there; the error is what a machine without them shows.
        if let Err(error) = library::open() {
            let text = error.to_string();
            assert!(text.contains("cuBLAS was not found; tried:") && text.contains("TILE_CUBLAS"), "{text}");
        }
    }

    #[test]
    fn the_heuristic_is_laid_out_as_in_the_header() {
        assert_eq!(size_of::<Heuristic>(), size_of::<lt::cublasLtMatmulHeuristicResult_t>());
        assert_eq!(std::mem::offset_of!(Heuristic, state), 72);
    }
}
