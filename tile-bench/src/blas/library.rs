//! The functions of cuBLAS and cuBLASLt, in tables of our own.
//!
//! cudarc panics where a library or symbol is missing and returns results as a Rust enum, which an unknown code of a
//! newer library would make undefined. Here both are typed errors; constants and structures are cudarc's.

use super::BlasError;
use cudarc::cublaslt::sys::cublasLtMatmulAlgo_t;
use libloading::Library;
use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};
use tile_runtime::library::{Attempt, LibraryError, candidates};

pub(super) type Handle = *mut c_void;

macro_rules! functions {
    ($(#[$doc:meta])* $table:ident: $($name:ident = $symbol:literal: fn($($argument:ty),*) -> $result:ty;)*) => {
        $(#[$doc])*
        pub(super) struct $table {
            $(pub $name: unsafe extern "C" fn($($argument),*) -> $result,)*
            _library: Library,
        }

        impl $table {
            fn load(library: Library) -> Result<$table, String> {
                $(
                    // SAFETY: the declared type is the one in the library's header for this symbol.
                    let $name = unsafe {
                        library.get::<unsafe extern "C" fn($($argument),*) -> $result>(
                            concat!($symbol, "\0").as_bytes(),
                        )
                    };
                    let $name = *$name.map_err(|_| format!("has no symbol {}", $symbol))?;
                )*
                Ok($table { $($name,)* _library: library })
            }
        }
    };
}

// Source: cublas_api.h of CUDA 13.0; enums are passed as the integers that they are in C.
functions! {
    /// cuBLAS.
    Cublas:
    create = "cublasCreate_v2": fn(*mut Handle) -> c_int;
    destroy = "cublasDestroy_v2": fn(Handle) -> c_int;
    set_stream = "cublasSetStream_v2": fn(Handle, Handle) -> c_int;
    set_workspace = "cublasSetWorkspace_v2": fn(Handle, *mut c_void, usize) -> c_int;
    gemm_ex = "cublasGemmEx": fn(
        Handle, c_int, c_int, c_int, c_int, c_int, *const c_void, u64, c_int, c_int, u64, c_int, c_int,
        *const c_void, u64, c_int, c_int, c_int, c_int
    ) -> c_int;
    gemm_batches = "cublasGemmStridedBatchedEx": fn(
        Handle, c_int, c_int, c_int, c_int, c_int, *const c_void, u64, c_int, c_int, i64, u64, c_int, c_int, i64,
        *const c_void, u64, c_int, c_int, i64, c_int, c_int, c_int
    ) -> c_int;
}

// Source: cublasLt.h of CUDA 13.0.
functions! {
    /// cuBLASLt.
    CublasLt:
    create = "cublasLtCreate": fn(*mut Handle) -> c_int;
    destroy = "cublasLtDestroy": fn(Handle) -> c_int;
    version = "cublasLtGetVersion": fn() -> usize;
    desc_create = "cublasLtMatmulDescCreate": fn(*mut Handle, c_int, c_int) -> c_int;
    desc_destroy = "cublasLtMatmulDescDestroy": fn(Handle) -> c_int;
    desc_set = "cublasLtMatmulDescSetAttribute": fn(Handle, c_int, *const c_void, usize) -> c_int;
    layout_create = "cublasLtMatrixLayoutCreate": fn(*mut Handle, c_int, u64, u64, i64) -> c_int;
    layout_destroy = "cublasLtMatrixLayoutDestroy": fn(Handle) -> c_int;
    preference_create = "cublasLtMatmulPreferenceCreate": fn(*mut Handle) -> c_int;
    preference_destroy = "cublasLtMatmulPreferenceDestroy": fn(Handle) -> c_int;
    preference_set = "cublasLtMatmulPreferenceSetAttribute": fn(Handle, c_int, *const c_void, usize) -> c_int;
    heuristic = "cublasLtMatmulAlgoGetHeuristic": fn(
        Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_int, *mut Heuristic, *mut c_int
    ) -> c_int;
    matmul = "cublasLtMatmul": fn(
        Handle, Handle, *const c_void, u64, Handle, u64, Handle, *const c_void, u64, Handle, u64, Handle,
        *const cublasLtMatmulAlgo_t, u64, usize, Handle
    ) -> c_int;
}

/// `cublasLtMatmulHeuristicResult_t`, with its status as an integer.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Heuristic {
    pub algo: cublasLtMatmulAlgo_t,
    pub workspace: usize,
    pub state: c_int,
    pub waves: f32,
    pub reserved: [c_int; 4],
}

const HELP: &str = "install the CUDA toolkit or `pip install nvidia-cublas`, or set TILE_CUBLAS to the folder with \
     libcublas.so.13 and libcublasLt.so.13";

/// Opens both libraries from one folder: cuBLAS uses cuBLASLt and finds it among the open ones.
pub(super) fn open() -> Result<(Cublas, CublasLt), BlasError> {
    let mut tried = Vec::new();
    for path in candidates("cublasLt", "TILE_CUBLAS") {
        match open_pair(&path) {
            Ok(pair) => return Ok(pair),
            Err(problem) => tried.push(Attempt { path, problem }),
        }
    }
    Err(LibraryError { what: "cuBLAS", tried, help: HELP }.into())
}

fn open_pair(lt: &Path) -> Result<(Cublas, CublasLt), String> {
    let name = lt.file_name().and_then(|n| n.to_str()).ok_or("not a library's name")?;
    let sibling: PathBuf = lt.with_file_name(name.replace("cublasLt", "cublas"));
    let open = |path: &Path| {
        // SAFETY: NVIDIA's libraries, whose initialisers may run at any time, unless the user names another.
        unsafe { Library::new(path) }
            .map_err(|e| std::error::Error::source(&e).map_or(e.to_string(), |s| s.to_string()))
    };
    let lt = CublasLt::load(open(lt)?)?;
    Ok((Cublas::load(open(&sibling)?)?, lt))
}
