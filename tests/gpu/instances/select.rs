//! Which declared instances a test runs, and what it says about them.

use std::fmt;
use tile_runtime::kernel::{Definition, Dtype};

/// A declared instance of a kernel.
pub struct Declared {
    kernel: &'static str,
    /// Its place among all of the kernel's.
    pub index: usize,
    pub dtypes: Vec<Dtype>,
    consts: Vec<(String, i64)>,
}

impl Declared {
    fn all(definition: &'static Definition) -> Vec<Declared> {
        let kernel = definition.kernel().expect("the kernel was made by this version");
        let names = || kernel.consts.values().map(|param| param.name.clone());
        let declared = kernel.instances.iter().enumerate().map(|(index, instance)| Declared {
            kernel: definition.name(),
            index,
            dtypes: instance.dtypes.clone(),
            consts: names().zip(instance.consts.iter().copied()).collect(),
        });
        declared.collect()
    }

    /// A constant, where the kernel has it.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.consts.iter().find(|(known, _)| known == name).map(|(_, value)| *value as usize)
    }

    /// A constant that the kernel has.
    pub fn size(&self, name: &str) -> usize {
        self.find(name).unwrap_or_else(|| panic!("{self}: no constant {name}"))
    }

    /// A constant that is true or false.
    pub fn flag(&self, name: &str) -> bool {
        self.size(name) != 0
    }
}

impl fmt::Display for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dtypes: Vec<&str> = self.dtypes.iter().map(|dtype| dtype.name()).collect();
        write!(f, "{}<{}>", self.kernel, dtypes.join(","))?;
        self.consts.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

/// Which instances are run.
#[derive(Clone, Debug, PartialEq)]
pub enum Selection {
    /// One in every `of` of the instances whose name contains the text, so that processes `0..of` share them.
    Shard { shard: usize, of: usize, containing: String },
    /// The first one and one from the middle.
    Two,
}

impl Selection {
    /// All of them.
    pub fn all() -> Selection {
        Selection::Shard { shard: 0, of: 1, containing: String::new() }
    }

    /// What `TILE_SHARD` (`0/8`: the first of eight processes) and `TILE_INSTANCES` (a part of the name) ask for; `otherwise`
    /// where neither is set.
    pub fn from_environment(otherwise: Selection) -> Selection {
        let [shard, containing] = ["TILE_SHARD", "TILE_INSTANCES"].map(|name| std::env::var(name).ok());
        if shard.is_none() && containing.is_none() {
            return otherwise;
        }
        let selection = Selection::parse(shard.as_deref(), containing.as_deref());
        selection.unwrap_or_else(|problem| panic!("{problem}"))
    }

    fn parse(shard: Option<&str>, containing: Option<&str>) -> Result<Selection, String> {
        let text = shard.unwrap_or("0/1");
        let parts = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        let (shard, of) = parts
            .filter(|(shard, of)| shard < of)
            .ok_or_else(|| format!("TILE_SHARD is `{text}`, not I/N with 0 <= I < N: 0/8 is the first of eight"))?;
        Ok(Selection::Shard { shard, of, containing: containing.unwrap_or_default().into() })
    }

    fn pick(&self, all: Vec<Declared>) -> Vec<Declared> {
        match self {
            Selection::Two => {
                let middle = all.len() / 2;
                all.into_iter().filter(|instance| [0, middle].contains(&instance.index)).collect()
            }
            Selection::Shard { shard, of, containing } => {
                let named = all.into_iter().filter(|instance| instance.to_string().contains(containing));
                // Layouts and epilogues come round every few instances: turns are taken, so that no process gets all of one.
                let mine = |at: &usize| (at + at / of) % of == *shard;
                named.enumerate().filter(|(at, _)| mine(at)).map(|(_, instance)| instance).collect()
            }
        }
    }
}

/// Wrong instances after which a kernel's others are not run: a device that has failed fails them all.
const ENOUGH: usize = 5;

/// Runs the selected instances of a kernel; `run` makes an instance's launches and says how many, or what was wrong.
/// Every instance's name stands on stderr before its launches, so that a tool's report beneath is known to be about it.
pub fn each(definition: &'static Definition, selection: &Selection, run: impl Fn(&Declared) -> Result<usize, String>) {
    let (mut ran, mut launches, mut wrong) = (0, 0, Vec::new());
    for instance in selection.pick(Declared::all(definition)) {
        eprintln!("instance: {instance}");
        match run(&instance) {
            Ok(made) => {
                eprintln!("launches made: {made}");
                launches += made;
            }
            Err(problem) => {
                eprintln!("WRONG: {instance}: {problem}");
                wrong.push(format!("{instance}: {problem}"));
            }
        }
        ran += 1;
        if wrong.len() >= ENOUGH {
            break;
        }
    }
    eprintln!("instances of {}: {ran} run, {launches} launches, {} wrong", definition.name(), wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn shards_share_the_instances() {
    let definition = tile_kernels::gemm::definition();
    let picked = |shard: Option<&str>, containing: Option<&str>| {
        Selection::parse(shard, containing).unwrap().pick(Declared::all(definition))
    };
    let all = Declared::all(definition).len();
    let mut taken = vec![0; all];
    for instance in (0..7).flat_map(|shard| picked(Some(&format!("{shard}/7")), None)) {
        taken[instance.index] += 1;
    }
    assert_eq!(taken, vec![1; all]);
    assert_eq!(Selection::all(), Selection::parse(None, None).unwrap());
    assert_eq!(picked(None, None).len(), all);
    let named = picked(None, Some("gemm<f16,f32> BM=64 BN=64 BK=32"));
    assert_eq!(named.len(), 8, "four layouts, with and without an epilogue");
}

#[test]
fn a_bad_shard_is_refused() {
    for text in ["8/8", "1", "a/b", "1/0", "", "-1/4"] {
        let problem = Selection::parse(Some(text), None).unwrap_err();
        assert!(problem.contains("TILE_SHARD") && problem.contains(text), "{problem}");
    }
}
