//! What `bench/peers.py` wrote: shapes with the best time of each contender.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A measured shape.
pub struct Row {
    /// M (of a matrix product), N and K.
    pub m: Option<u64>,
    pub n: u64,
    pub k: u64,
    /// Bytes that must move, and operations, a multiply-add being two.
    pub bytes: f64,
    pub flops: f64,
    row: Value,
}

impl Row {
    /// The best time of a contender in microseconds, where it took part.
    pub fn us(&self, contender: &str) -> Option<f64> {
        self.row[format!("{contender}_us")].as_f64()
    }

    /// The shape as text: `N x K`, or `M, N, K`, or `M^3` of a cube.
    pub fn shape(&self) -> String {
        match self.m {
            None => format!("{} x {}", self.n, self.k),
            Some(m) if m == self.n && m == self.k => format!("{m}^3"),
            Some(m) => format!("{m}, {}, {}", self.n, self.k),
        }
    }
}

/// The rows of one file and type, in the file's order.
///
/// # Errors
/// The file is missing or has other fields.
pub fn read(root: &Path, file: &str, dtype: &str) -> Result<Vec<Row>> {
    let path = root.join("bench/results").join(file);
    let text = fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
    let report: Value = serde_json::from_str(&text).with_context(|| format!("{file} is no JSON"))?;
    let mut rows = Vec::new();
    for row in report["rows"].as_array().with_context(|| format!("{file} has no rows"))? {
        if row["dtype"] != dtype {
            continue;
        }
        let number = |name: &str| row[name].as_u64().with_context(|| format!("{file}: a row has no `{name}`"));
        let bytes = number("nbytes")? as f64;
        rows.push(Row {
            m: row["m"].as_u64(),
            n: number("n")?,
            k: number("k")?,
            bytes,
            flops: number("flops")? as f64,
            row: row.clone(),
        });
    }
    ensure!(!rows.is_empty(), "{file} has no rows in {dtype}");
    Ok(rows)
}
