//! Results on disk: one JSON file a key, verified whole when it is read.
//!
//! ```text
//! {"tile_tune": 1, "blake3": "64 hexadecimal digits", "report":
//! { .. the report, whose `key` is compared whole .. }
//! }
//! ```
//!
//! The checksum is of the bytes of the report as they stand in the file.

use super::report::TuneReport;

const HEAD: &str = "{\"tile_tune\": 1, \"blake3\": \"";
const MIDDLE: &str = "\", \"report\":\n";
const TAIL: &str = "\n}\n";
const DIGITS: usize = 64;

/// The file's name for a key: the kernel's name is for people.
pub(super) fn file_name(kernel: &str, key: &str) -> String {
    let safe: String = kernel.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(60).collect();
    format!("tuned-{safe}-{}.json", &blake3::hash(key.as_bytes()).to_hex()[..32])
}

/// A report as the file's bytes.
pub(super) fn encode(report: &TuneReport) -> Result<Vec<u8>, String> {
    let body = serde_json::to_string_pretty(report).map_err(|e| e.to_string())?;
    let checksum = blake3::hash(body.as_bytes()).to_hex();
    Ok([HEAD, checksum.as_str(), MIDDLE, &body, TAIL].concat().into_bytes())
}

/// The report in a file's bytes, if it is undamaged and of `key`.
pub(super) fn decode(bytes: &[u8], key: &str) -> Result<TuneReport, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not text".to_string())?;
    let rest = text.strip_prefix(HEAD).ok_or("it is not a tuning report of this version")?;
    let (checksum, rest) = rest.split_at_checked(DIGITS).ok_or("it is cut off")?;
    let body = rest.strip_prefix(MIDDLE).and_then(|r| r.strip_suffix(TAIL)).ok_or("it is cut off")?;
    if blake3::hash(body.as_bytes()).to_hex().as_str() != checksum {
        return Err("its checksum is wrong".into());
    }
    let report: TuneReport = serde_json::from_str(body).map_err(|e| format!("it cannot be read: {e}"))?;
    if report.key != key {
        return Err("it is of another kernel, device or shape".into());
    }
    Ok(TuneReport { remembered: true, ..report })
}

impl TuneReport {
    /// Reads a report file, wherever it lies.
    ///
    /// # Errors
    /// In words: it cannot be read, is damaged or is none.
    pub fn read(path: &std::path::Path) -> Result<TuneReport, String> {
        let bytes = std::fs::read(path).map_err(|e| e.to_string())?;
        // The key is in the file itself: what is verified here is that the file is whole.
        let body = std::str::from_utf8(&bytes).ok().and_then(|t| t.split_once(MIDDLE)).map(|(_, b)| b);
        let body = body.and_then(|b| b.strip_suffix(TAIL)).ok_or("it is not a tuning report")?;
        let report: TuneReport = serde_json::from_str(body).map_err(|e| e.to_string())?;
        decode(&bytes, &report.key)
    }
}
