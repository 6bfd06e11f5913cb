//! One cache entry as bytes: everything needed to trust it is in the file.
//!
//! ```text
//! magic "TILEBIN1" | lengths of key, code, log, three u64 | BLAKE3 of all the rest | key | code | log
//! ```
//!
//! The key is stored whole and compared whole, so neither a swapped file nor a collision of names can give a wrong
//! kernel.

/// What is kept of a compilation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The cubin.
    pub code: Vec<u8>,
    /// The compiler's log.
    pub log: String,
}

/// Why bytes are not the entry for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Damage {
    #[error("it is not a cache file of this version")]
    Magic,
    #[error("its length is wrong")]
    Length,
    #[error("its checksum is wrong")]
    Checksum,
    #[error("it holds another kernel")]
    Key,
}

const MAGIC: &[u8; 8] = b"TILEBIN1";
const HEADER: usize = 8 + 3 * 8 + 32;

fn lengths(key: usize, code: usize, log: usize) -> [u8; 24] {
    let mut bytes = [0; 24];
    for (slot, length) in bytes.chunks_exact_mut(8).zip([key, code, log]) {
        slot.copy_from_slice(&(length as u64).to_le_bytes());
    }
    bytes
}

impl Entry {
    pub(crate) fn encode(&self, key: &[u8]) -> Vec<u8> {
        let lengths = lengths(key.len(), self.code.len(), self.log.len());
        let mut hasher = blake3::Hasher::new();
        for part in [lengths.as_slice(), key, &self.code, self.log.as_bytes()] {
            hasher.update(part);
        }
        let checksum = hasher.finalize();
        [MAGIC.as_slice(), &lengths, checksum.as_bytes(), key, &self.code, self.log.as_bytes()].concat()
    }

    /// The entry in `bytes`, if it is undamaged and `matches` accepts its key.
    pub(crate) fn decode(bytes: &[u8], matches: impl FnOnce(&[u8]) -> bool) -> Result<Entry, Damage> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(Damage::Magic)?;
        let (header, payload) = rest.split_at_checked(HEADER - MAGIC.len()).ok_or(Damage::Length)?;
        let (lengths, checksum) = header.split_at(24);
        let mut sizes = [0usize; 3];
        for (size, bytes) in sizes.iter_mut().zip(lengths.chunks_exact(8)) {
            let length = bytes.try_into().map_or(u64::MAX, u64::from_le_bytes);
            *size = usize::try_from(length).map_err(|_| Damage::Length)?;
        }
        let [key, code, log] = sizes;
        let total = key.checked_add(code).and_then(|n| n.checked_add(log));
        if total != Some(payload.len()) {
            return Err(Damage::Length);
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(lengths).update(payload);
        if hasher.finalize().as_bytes() != checksum {
            return Err(Damage::Checksum);
        }
        let (key, payload) = payload.split_at(key);
        let (code, log) = payload.split_at(code);
        if !matches(key) {
            return Err(Damage::Key);
        }
        Ok(Entry { code: code.to_vec(), log: String::from_utf8_lossy(log).into_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Entry, Vec<u8>) {
        let entry = Entry { code: b"\x7fELF machine code".to_vec(), log: "ptxas info".into() };
        let bytes = entry.encode(b"key");
        (entry, bytes)
    }

    #[test]
    fn what_is_written_is_read() {
        let (entry, bytes) = sample();
        assert_eq!(Entry::decode(&bytes, |k| k == b"key"), Ok(entry));
        assert_eq!(Entry::decode(&bytes, |k| k == b"other"), Err(Damage::Key));
    }

    #[test]
    fn every_truncation_and_every_flipped_bit_is_noticed() {
        let (_, bytes) = sample();
        for length in 0..bytes.len() {
            assert!(Entry::decode(&bytes[..length], |_| true).is_err(), "truncated to {length}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Entry::decode(&damaged, |_| true).is_err(), "bit {bit}");
        }
        let mut longer = bytes;
        longer.push(0);
        assert_eq!(Entry::decode(&longer, |_| true), Err(Damage::Length));
    }
}
