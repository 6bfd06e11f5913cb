//! CUDA C to machine code by NVRTC, through a function table of our own: a handful of symbols, loaded from the library
//! that [`crate::library`] found, so that a missing one is an error with a path.

use crate::error::Error;
use crate::library::{self, LibraryError, Surroundings};
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What a compilation makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Machine code for one architecture.
    Cubin,
    /// PTX text.
    Ptx,
}

/// One compilation's result.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The cubin, or PTX as text (without its final zero).
    pub code: Vec<u8>,
    /// The compiler's log, which a success has too.
    pub log: String,
}

/// What a kernel uses, as the assembler reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// 32-bit registers a thread.
    pub registers: u32,
    /// Bytes of a thread's stack frame in local memory.
    pub stack_bytes: u32,
    /// Bytes of spill stores a thread.
    pub spill_stores: u32,
    /// Bytes of spill loads a thread.
    pub spill_loads: u32,
    /// Bytes of shared memory a block that the code declares.
    pub static_shared: u32,
    /// Bytes of shared memory a block that a launch asks for; the assembler's log does not know it.
    pub dynamic_shared: u32,
    /// Barriers a block.
    pub barriers: u32,
}

impl Resources {
    /// What the log of a program's compilation with `--ptxas-options=-v` says about it, and what its launches ask for;
    /// `None` where the log does not mention it.
    pub fn of(program: &tile_ir::lowered::Program, log: &str) -> Option<Resources> {
        let parsed = Resources::parse(log, &tile_ir::emit::cuda::symbol(program))?;
        Some(Resources { dynamic_shared: tile_ir::emit::cuda::dynamic_shared(program), ..parsed })
    }

    /// Bytes of shared memory a block.
    pub fn shared_bytes(&self) -> u32 {
        self.static_shared + self.dynamic_shared
    }

    /// What the log of a compilation with `--ptxas-options=-v` says about the entry `symbol`; `None` where it does not.
    pub fn parse(log: &str, symbol: &str) -> Option<Resources> {
        let entry = format!("'{symbol}'");
        let lines = log.lines().skip_while(|l| !(l.contains("Compiling entry function") && l.contains(&entry))).skip(1);
        let mut found = None;
        let mut resources = Resources::default();
        for line in lines.take_while(|l| !l.contains("Compiling entry function")) {
            for part in line.split([',', ':']).map(str::trim) {
                let words: Vec<&str> = part.split_whitespace().collect();
                let number = words.iter().find_map(|w| w.parse::<u32>().ok());
                match (words.as_slice(), number) {
                    (["Used", _, "registers"], Some(n)) => (resources.registers, found) = (n, Some(())),
                    (["used", _, "barriers"], Some(n)) => resources.barriers = n,
                    ([_, "bytes", "smem"], Some(n)) => resources.static_shared = n,
                    ([_, "bytes", "stack", "frame"], Some(n)) => resources.stack_bytes = n,
                    ([_, "bytes", "spill", "stores"], Some(n)) => resources.spill_stores = n,
                    ([_, "bytes", "spill", "loads"], Some(n)) => resources.spill_loads = n,
                    _ => {}
                }
            }
        }
        found.map(|()| resources)
    }
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Resources { registers, static_shared, dynamic_shared, spill_stores, spill_loads, .. } = self;
        write!(f, "{registers} registers, {} bytes of shared memory", self.shared_bytes())?;
        match (static_shared, dynamic_shared) {
            (_, 0) => write!(f, ", ")?,
            (0, _) => write!(f, " (dynamic), ")?,
            (_, _) => write!(f, " ({static_shared} static, {dynamic_shared} dynamic), ")?,
        }
        match spill_stores + spill_loads {
            0 => write!(f, "no spills"),
            _ => write!(f, "spills: {spill_stores} bytes stored, {spill_loads} bytes loaded"),
        }
    }
}

/// The options a kernel is compiled with for `arch` (`sm_90a`): part of the cache key, in this order.
///
/// `-fmad=false` because contraction is a rewrite of the IR, so that every executor rounds alike. `TILE_LINEINFO=1`
/// adds line information.
pub fn options(arch: &str, line_info: bool) -> Vec<String> {
    let mut options: Vec<String> = vec![format!("--gpu-architecture={arch}")];
    options.extend(["-fmad=false", "--std=c++17", "--ptxas-options=-v", "-default-device"].map(String::from));
    if line_info {
        options.push("-lineinfo".into());
    }
    options
}

/// Whether `TILE_LINEINFO` is on.
pub fn line_info_wanted() -> bool {
    crate::settings::is_on("TILE_LINEINFO", false)
}

type Program = *mut c_void;

/// An open NVRTC.
pub struct Nvrtc {
    functions: Functions,
    path: PathBuf,
    version: (u32, u32),
    build: String,
}

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// The symbols used. The library stays open for the life of the process.
        #[allow(non_snake_case)]
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) -> $result,)*
            _library: Library,
        }

        #[allow(non_snake_case)]
        impl Functions {
            fn load(library: Library) -> Result<Functions, String> {
                $(
                    // SAFETY: the declared type is the one in nvrtc.h.
                    let $name = unsafe {
                        library.get::<unsafe extern "C" fn($($argument),*) -> $result>(
                            concat!(stringify!($name), "\0").as_bytes(),
                        )
                    };
                    let $name = *$name.map_err(|_| format!("has no symbol {}", stringify!($name)))?;
                )*
                Ok(Functions { $($name,)* _library: library })
            }
        }
    };
}

// Source: nvrtc.h of CUDA 13.0. Results are plain integers: a newer library may return a code we do not know.
functions! {
    nvrtcGetErrorString: fn(c_int) -> *const c_char;
    nvrtcCreateProgram: fn(*mut Program, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char) -> c_int;
    nvrtcDestroyProgram: fn(*mut Program) -> c_int;
    nvrtcCompileProgram: fn(Program, c_int, *const *const c_char) -> c_int;
    nvrtcGetPTXSize: fn(Program, *mut usize) -> c_int;
    nvrtcGetPTX: fn(Program, *mut c_char) -> c_int;
    nvrtcGetCUBINSize: fn(Program, *mut usize) -> c_int;
    nvrtcGetCUBIN: fn(Program, *mut c_char) -> c_int;
    nvrtcGetProgramLogSize: fn(Program, *mut usize) -> c_int;
    nvrtcGetProgramLog: fn(Program, *mut c_char) -> c_int;
}

/// The oldest NVRTC that knows `sm_90a`.
const OLDEST: (u32, u32) = (12, 0);
/// `NVRTC_ERROR_COMPILATION`.
const COMPILATION: c_int = 6;

impl Nvrtc {
    /// The process's NVRTC, opened at first use. The outcome, good or bad, is kept.
    pub fn get() -> Result<&'static Nvrtc, LibraryError> {
        static NVRTC: OnceLock<Result<Nvrtc, LibraryError>> = OnceLock::new();
        NVRTC.get_or_init(|| Surroundings::with_process(Nvrtc::open)).as_ref().map_err(Clone::clone)
    }

    pub(crate) fn open(around: &Surroundings<'_>) -> Result<Nvrtc, LibraryError> {
        let found = library::open_nvrtc(around, |library| {
            let (major, minor) = version(library)?;
            match (major, minor) >= OLDEST {
                true => Ok(()),
                false => Err(format!("is NVRTC {major}.{minor}; {}.{} or newer is needed", OLDEST.0, OLDEST.1)),
            }
        })?;
        let path = found.path;
        let missing = |problem| LibraryError {
            what: "NVRTC",
            tried: vec![library::Attempt { path: path.clone(), problem }],
            help: library::NVRTC_HELP,
        };
        let version = version(&found.library).map_err(missing)?;
        let functions = Functions::load(found.library).map_err(missing)?;
        let build = library::build_identity(&path);
        Ok(Nvrtc { functions, path, version, build })
    }

    /// The library's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Version for people: `13.0.88` where the patch is known, else `13.0`.
    pub fn version(&self) -> String {
        library::patch_version(&self.path).unwrap_or_else(|| format!("{}.{}", self.version.0, self.version.1))
    }

    /// Version and build, for the cache key: two patch releases, which may generate different code, differ here.
    pub fn identity(&self) -> String {
        format!("{}.{} build {}", self.version.0, self.version.1, self.build)
    }

    /// Compiles `source`, called `name` in messages.
    ///
    /// # Errors
    /// [`Error::Compile`] with the log where the source is refused, [`Error::Nvrtc`] for anything else.
    pub fn compile(&self, name: &str, source: &str, options: &[String], output: Output) -> Result<Compiled, Error> {
        let text = |s: &str| {
            CString::new(s)
                .map_err(|_| Error::Compile { kernel: name.into(), log: "the source holds a zero byte".into() })
        };
        let (c_name, c_source) = (text(&format!("{name}.cu"))?, text(source)?);
        let c_options = options.iter().map(|o| text(o)).collect::<Result<Vec<_>, _>>()?;
        let pointers: Vec<*const c_char> = c_options.iter().map(|o| o.as_ptr()).collect();
        let f = &self.functions;
        let mut program = ProgramGuard { functions: f, program: std::ptr::null_mut() };
        // SAFETY: every pointer is to memory that outlives the call; strings end with a zero.
        let code = unsafe {
            let none = std::ptr::null();
            (f.nvrtcCreateProgram)(&mut program.program, c_source.as_ptr(), c_name.as_ptr(), 0, none, none)
        };
        self.check("nvrtcCreateProgram", code)?;
        // SAFETY: as above; the program was created.
        let code = unsafe { (f.nvrtcCompileProgram)(program.program, pointers.len() as c_int, pointers.as_ptr()) };
        let log = self.bytes(program.program, "nvrtcGetProgramLog", f.nvrtcGetProgramLogSize, f.nvrtcGetProgramLog)?;
        let log = String::from_utf8_lossy(log.strip_suffix(&[0]).unwrap_or(&log)).into_owned();
        if code == COMPILATION {
            return Err(Error::Compile { kernel: name.into(), log });
        }
        self.check("nvrtcCompileProgram", code).map_err(|error| match error {
            // An option it does not know, such as an architecture newer than it is.
            Error::Nvrtc { call, code, message } => {
                let (version, options) = (self.version(), options.join(" "));
                let message = format!("{message}\n{}\nNVRTC {version} was given {options}", log.trim_end());
                Error::Nvrtc { call, code, message }
            }
            other => other,
        })?;
        let code = match output {
            Output::Cubin => self.bytes(program.program, "nvrtcGetCUBIN", f.nvrtcGetCUBINSize, f.nvrtcGetCUBIN)?,
            Output::Ptx => self.bytes(program.program, "nvrtcGetPTX", f.nvrtcGetPTXSize, f.nvrtcGetPTX)?,
        };
        if code.is_empty() {
            // A `compute_*` architecture gives no machine code and no error.
            let message = format!("no machine code for the options {}", options.join(" "));
            return Err(Error::Nvrtc { call: "nvrtcGetCUBIN", code: 0, message });
        }
        let code = if output == Output::Ptx { code.strip_suffix(&[0]).unwrap_or(&code).to_vec() } else { code };
        Ok(Compiled { code, log })
    }

    fn bytes(
        &self,
        program: Program,
        call: &'static str,
        size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
        get: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    ) -> Result<Vec<u8>, Error> {
        let mut len = 0;
        // SAFETY: the program is alive; `len` outlives the call.
        self.check(call, unsafe { size(program, &mut len) })?;
        let mut bytes = vec![0u8; len];
        if len > 0 {
            // SAFETY: the buffer has the size asked for.
            self.check(call, unsafe { get(program, bytes.as_mut_ptr().cast()) })?;
        }
        Ok(bytes)
    }

    fn check(&self, call: &'static str, code: c_int) -> Result<(), Error> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: takes any code; gives a static string or null.
        let message = unsafe { (self.functions.nvrtcGetErrorString)(code) };
        let message = if message.is_null() {
            "unknown error".to_string()
        } else {
            // SAFETY: not null, a static string that ends with a zero.
            unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned()
        };
        Err(Error::Nvrtc { call, code, message })
    }
}

impl fmt::Debug for Nvrtc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nvrtc({} at {})", self.version(), self.path.display())
    }
}

struct ProgramGuard<'a> {
    functions: &'a Functions,
    program: Program,
}

impl Drop for ProgramGuard<'_> {
    fn drop(&mut self) {
        if !self.program.is_null() {
            // SAFETY: created by this library, destroyed once. There is nothing to do about a failure.
            unsafe { (self.functions.nvrtcDestroyProgram)(&mut self.program) };
        }
    }
}

fn version(library: &Library) -> Result<(u32, u32), String> {
    // SAFETY: the type is the one in nvrtc.h.
    let function = unsafe { library.get::<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int>(b"nvrtcVersion\0") };
    let function = function.map_err(|_| "has no symbol nvrtcVersion".to_string())?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both outlive the call.
    match unsafe { function(&mut major, &mut minor) } {
        0 => Ok((u32::try_from(major).unwrap_or(0), u32::try_from(minor).unwrap_or(0))),
        code => Err(format!("nvrtcVersion failed with code {code}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_assemblers_log_gives_resources() {
        let log = "ptxas info    : 0 bytes gmem\n\
            ptxas info    : Compiling entry function 'other' for 'sm_90a'\n\
            ptxas info    : Used 12 registers, used 0 barriers, 380 bytes cmem[0]\n\
            ptxas info    : Compiling entry function 'gemv' for 'sm_90a'\n\
            ptxas info    : Function properties for gemv\n\
            \u{20}   16 bytes stack frame, 20 bytes spill stores, 24 bytes spill loads\n\
            ptxas info    : Used 40 registers, used 1 barriers, 128 bytes smem, 380 bytes cmem[0]\n";
        let gemv = Resources::parse(log, "gemv").unwrap();
        let expected = Resources {
            registers: 40,
            stack_bytes: 16,
            spill_stores: 20,
            spill_loads: 24,
            static_shared: 128,
            dynamic_shared: 0,
            barriers: 1,
        };
        assert_eq!(gemv, expected);
        assert_eq!(Resources::parse(log, "other").unwrap().registers, 12);
        assert_eq!(Resources::parse(log, "absent"), None);
        assert_eq!(
            gemv.to_string(),
            "40 registers, 128 bytes of shared memory, spills: 20 bytes stored, 24 bytes loaded"
        );
    }

    /// Skipped aloud where there is no NVRTC: `cargo xtask setup` fetches it.
    fn nvrtc() -> Option<&'static Nvrtc> {
        Nvrtc::get().inspect_err(|e| eprintln!("SKIPPED: {e}")).ok()
    }

    const SAXPY: &str = r#"
        extern "C" __global__ void __launch_bounds__(128) saxpy(const float* x, float* y, float a, int n) {
            __shared__ float s[128];
            int i = blockIdx.x * 128 + threadIdx.x;
            s[threadIdx.x] = i < n ? x[i] : 0.0f;
            __syncthreads();
            if (i < n) y[i] += a * s[127 - threadIdx.x];
        }"#;

    #[test]
    fn a_kernel_becomes_a_cubin_and_its_resources_are_known() {
        let Some(nvrtc) = nvrtc() else { return };
        for arch in ["sm_80", "sm_90a"] {
            let compiled = nvrtc.compile("saxpy", SAXPY, &options(arch, false), Output::Cubin).unwrap();
            assert_eq!(compiled.code[..4], *b"\x7fELF");
            let resources = Resources::parse(&compiled.log, "saxpy").unwrap_or_else(|| panic!("{}", compiled.log));
            assert_eq!((resources.static_shared, resources.spill_stores), (512, 0));
            assert!((1..=64).contains(&resources.registers), "{resources}");
        }
        let ptx = nvrtc.compile("saxpy", SAXPY, &options("sm_90a", false), Output::Ptx).unwrap();
        let ptx = String::from_utf8(ptx.code).unwrap();
        assert!(ptx.contains(".target sm_90a") && !ptx.contains("fma.rn"), "{ptx}");
    }

    #[test]
    fn refused_source_is_an_error_with_the_log() {
        let Some(nvrtc) = nvrtc() else { return };
        let error = nvrtc.compile("bad", "int x = y;", &options("sm_90a", false), Output::Cubin).unwrap_err();
        assert!(
            matches!(&error, Error::Compile { kernel, log } if kernel == "bad" && log.contains("bad.cu(1)")),
            "{error}"
        );
        let error = nvrtc.compile("bad", "", &options("sm_1", false), Output::Cubin).unwrap_err();
        assert!(error.to_string().contains("sm_1"), "{error}");
        let error = nvrtc.compile("bad", SAXPY, &options("compute_90", false), Output::Cubin).unwrap_err();
        assert!(error.to_string().contains("no machine code"), "{error}");
        assert!(nvrtc.compile("bad", "a\0b", &options("sm_90a", false), Output::Cubin).is_err());
    }

    #[test]
    fn the_identity_tells_patch_releases_apart() {
        let Some(nvrtc) = nvrtc() else { return };
        assert!(nvrtc.identity().contains("build "), "{}", nvrtc.identity());
        assert!(!nvrtc.identity().contains("unknown"), "{}", nvrtc.identity());
        assert!(nvrtc.version().starts_with("1"), "{}", nvrtc.version());
    }
}
