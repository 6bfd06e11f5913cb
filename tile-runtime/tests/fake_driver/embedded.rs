//! Programs whose kernels are built in, on a machine without NVRTC and without a cache.

use super::{X, child, scale, special};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tile_runtime::embedded::{self, Bundle};
use tile_runtime::kernel::{Target, Variant};
use tile_runtime::prelude::*;
use tile_runtime::{Error, Problem};

/// The kernel `scale` as it was before an edit.
mod before {
    use tile_runtime::prelude::*;

    /// y = alpha x + 1.
    #[tile_kernel]
    pub fn scale(x: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N, K)>, alpha: f32) {
        let [b] = blocks([N]);
        let [t] = threads([32]);
        for k in (0..K).step_by(32) {
            if k + t < K {
                y[[b, k + t]] = alpha * x[[b, k + t]] + 1.0;
            }
        }
    }
}

/// The folder of the bundles `now.tkb` and `stale.tkb`, made in a process of its own: NVRTC looks for a driver too, and would call
/// what the one of these tests does not have. `None` where there is no NVRTC.
fn bundles() -> Option<&'static PathBuf> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let made = || {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bundles-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (output, _) = child(
            Path::new("/"),
            "embedded::child_bundles",
            &[("BUNDLES", folder.to_str().unwrap()), ("TILE_CACHE", "off")],
        );
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}");
        text.lines().filter(|line| line.contains("SKIPPED")).for_each(|line| eprintln!("{line}"));
        folder.join("now.tkb").exists().then_some(folder)
    };
    FOLDER.get_or_init(made).as_ref()
}

#[test]
#[ignore = "run by the other tests"]
fn child_bundles() {
    let folder = PathBuf::from(std::env::var_os("BUNDLES").unwrap());
    let (mut now, mut stale) = (Bundle::new(), Bundle::new());
    if let Err(error) = now.add(scale::definition(), 0, Target::Sm90a, None) {
        assert!(matches!(error, Error::Library(_)), "{error}");
        return println!("SKIPPED: {error}");
    }
    let k3 = Variant { dims: &[("K", 3)], ..Variant::default() };
    assert_eq!(now.add(special::definition(), k3, Target::Sm90a, None).unwrap().instance, "K = 3");
    stale.add(before::scale::definition(), 0, Target::Sm90a, None).unwrap();
    // Whether a bundle is stale is found without compiling.
    let item = stale.items().next().unwrap();
    assert_eq!(item.current(before::scale::definition()).unwrap(), item.hash);
    assert_ne!(item.current(scale::definition()).unwrap(), item.hash);
    assert_eq!(Bundle::read(&now.to_bytes()).unwrap().to_bytes(), now.to_bytes());
    std::fs::write(folder.join("stale.tkb"), stale.to_bytes()).unwrap();
    std::fs::write(folder.join("now.tkb"), now.to_bytes()).unwrap();
}

/// Runs a child with a bundle, or none, no cache and no NVRTC. What it wrote to standard error; `None` where it was skipped.
fn without_nvrtc(name: &str, bundle: Option<&str>) -> Option<String> {
    let (driver, bundles) = (super::good_driver()?, bundles()?);
    let bundle = bundle.map(|bundle| bundles.join(bundle).display().to_string());
    let mut settings = vec![("TILE_CACHE", "off"), ("TILE_NVRTC", "/nonexistent")];
    settings.extend(bundle.as_deref().map(|path| ("BUNDLE", path)));
    let (output, log) = child(driver, name, &settings);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}\n{log}");
    Some(err.into_owned())
}

/// Makes the bundle of the environment known, as `embed!` does.
fn embed() -> Result<usize, Error> {
    let bytes = std::fs::read(std::env::var_os("BUNDLE").unwrap()).unwrap();
    embedded::add(bytes.leak())
}

fn launch_scale(device: &Device) -> Result<(), LaunchError> {
    let x = device.tensor(&X, [2, 3])?;
    let mut y = device.zeros::<f32, 2>([2, 3])?;
    scale::launch(device, &x, &mut y, 2.0)?;
    assert_eq!(y.to_vec()?, X.map(|v| 2.0 * v));
    Ok(())
}

#[test]
fn embedded_kernels_need_no_nvrtc() {
    let Some(err) = without_nvrtc("embedded::child_embedded", Some("now.tkb")) else { return };
    assert!(!err.contains("warning"), "{err}");
}

#[test]
#[ignore = "run by embedded_kernels_need_no_nvrtc"]
fn child_embedded() {
    assert_eq!(embed().unwrap(), 2);
    let device = Device::cuda(0).unwrap();
    launch_scale(&device).unwrap();
    let x = device.tensor(&X, [2, 3]).unwrap();
    let mut y = device.zeros::<f32, 2>([2, 3]).unwrap();
    special::launch(&device, &x, &mut y).unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    assert!(!maps.contains("nvrtc"), "{maps}");
    // An instance that nobody embedded: the error says what there is of the kernel.
    let wide = device.tensor(&X, [1, 6]).unwrap();
    let mut y = device.zeros::<f32, 2>([1, 6]).unwrap();
    let error = special::launch(&device, &wide, &mut y).unwrap_err();
    let Problem::Prepare(Error::NotEmbedded(not)) = error.problem() else { panic!("{error}") };
    assert_eq!(
        (not.kernel.as_str(), not.instance.as_str(), not.why.as_str()),
        ("special", "K = 6", "embedded of this kernel: K = 3 for sm_90a")
    );
}

#[test]
fn a_stale_kernel_is_refused_loudly() {
    let Some(err) = without_nvrtc("embedded::child_stale", Some("stale.tkb")) else { return };
    let warning = err.lines().find(|line| line.starts_with("tile: warning: the embedded kernel `scale`")).expect(&err);
    let version = |start: &str| {
        let text = &warning[warning.find(start).expect(warning) + start.len()..];
        text.chars().take_while(char::is_ascii_hexdigit).collect::<String>()
    };
    let (embedded, program) = (version("embedded in version "), version("the program's is version "));
    assert!(embedded.len() == 12 && program.len() == 12 && embedded != program, "{warning}");
}

#[test]
#[ignore = "run by a_stale_kernel_is_refused_loudly"]
fn child_stale() {
    assert_eq!(embed().unwrap(), 1);
    let error = launch_scale(&Device::cuda(0).unwrap()).unwrap_err();
    let Problem::Prepare(Error::NotEmbedded(not)) = error.problem() else { panic!("{error}") };
    let item = embedded::items().remove(0);
    let why = &not.why;
    assert!(why.contains(item.version()) && why.contains("the program's is version"), "{why}");
    assert!(error.to_string().contains("/nonexistent"), "and that it cannot be compiled: {error}");
}

#[test]
fn without_a_bundle_the_error_is_that_nvrtc_is_missing() {
    without_nvrtc("embedded::child_without", None);
}

#[test]
#[ignore = "run by without_a_bundle_the_error_is_that_nvrtc_is_missing"]
fn child_without() {
    let error = launch_scale(&Device::cuda(0).unwrap()).unwrap_err();
    assert!(matches!(error.problem(), Problem::Prepare(Error::Library(_))), "{error}");
}

#[test]
fn damaged_bundles_are_errors() {
    let whole = Bundle::new().to_bytes();
    assert_eq!(Bundle::read(&whole).unwrap().items().count(), 0);
    for length in 0..whole.len() {
        assert!(matches!(Bundle::read(&whole[..length]), Err(Error::Embedded { .. })), "{length}");
    }
    for bit in 0..whole.len() * 8 {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(matches!(Bundle::read(&damaged), Err(Error::Embedded { .. })), "bit {bit}");
    }
}
