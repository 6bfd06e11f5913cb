//! What an entry is found by.

/// What a compilation depends on, whole: compared byte by byte, not by its hash alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Everything but the compiler.
    base: Vec<u8>,
    /// The compiler's identity; unknown where there is none.
    compiler: Option<String>,
}

impl Key {
    /// A key of named parts (source, symbol, options, architecture, ..) and the compiler's identity. Without a compiler,
    /// what any compiler made is accepted: a kernel compiled earlier runs on a machine without NVRTC.
    pub fn new(parts: &[(&str, &str)], compiler: Option<String>) -> Key {
        let mut base = Vec::new();
        for (name, value) in [("format", FORMAT)].iter().chain(parts) {
            // Lengths keep the parts apart, whatever they hold.
            base.extend(format!("{name} {}\n", value.len()).bytes());
            base.extend(value.bytes());
            base.push(b'\n');
        }
        Key { base, compiler }
    }

    /// Of everything but the compiler.
    pub(super) fn hash(&self) -> blake3::Hash {
        blake3::hash(&self.base)
    }

    /// What the names of its entries begin with: the same whatever the compiler.
    pub(crate) fn prefix(&self) -> String {
        self.hash().to_hex()[..40].to_string()
    }

    pub(super) fn file_name(&self) -> Option<String> {
        let compiler = blake3::hash(self.compiler.as_ref()?.as_bytes()).to_hex();
        Some(format!("{}-{}{SUFFIX}", self.prefix(), &compiler[..16]))
    }

    /// The whole key.
    pub(crate) fn preimage(&self) -> Vec<u8> {
        let compiler = self.compiler.as_deref().unwrap_or_default();
        [self.base.as_slice(), format!("compiler {}\n{compiler}\n", compiler.len()).as_bytes()].concat()
    }

    /// The compiler's identity.
    pub(crate) fn compiler(&self) -> Option<&str> {
        self.compiler.as_deref()
    }

    /// Whether a stored key is this one.
    pub(crate) fn matches(&self, stored: &[u8]) -> bool {
        match &self.compiler {
            Some(_) => stored == self.preimage(),
            None => stored.strip_prefix(self.base.as_slice()).is_some_and(|rest| rest.starts_with(b"compiler ")),
        }
    }
}

/// Version of what the other parts of a key mean.
const FORMAT: &str = "2";
/// What the names of entries end with.
pub(super) const SUFFIX: &str = ".tkc";
