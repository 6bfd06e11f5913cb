//! What was found: JSON to keep, and a table to read.

use crate::BenchError;
use crate::ceiling::Ceiling;
use crate::problem::Title;
use crate::sensors::Reading;
use crate::statistics::Statistics;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// The version of [`Report`]'s JSON.
pub const SCHEMA: u32 = 1;

/// Everything one run measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The device, in a line.
    pub device: String,
    /// Versions of what was compared, such as `("cublas", "13.1.0")`.
    pub versions: Vec<(String, String)>,
    /// What the device's memory gives at most, where it was measured.
    pub ceiling: Option<Ceiling>,
    /// A row a problem.
    pub rows: Vec<Row>,
}

/// What a race found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The problem.
    pub title: Title,
    /// Bytes that a call must move.
    pub bytes: u64,
    /// Floating-point operations of a call.
    pub flops: u64,
    /// Buffer sets that the graphs rotate over.
    pub sets: usize,
    /// Rounds of the final.
    pub rounds: usize,
    /// Who was in the final, fastest first.
    pub entries: Vec<Entry>,
    /// The entry that everything is compared with: the fastest that is not ours, or else the fastest.
    pub baseline: String,
    /// The baseline's second entry.
    pub baseline_again: Statistics,
    /// Who took no part, and why.
    pub refused: Vec<(String, String)>,
}

/// A finalist.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Who.
    pub group: String,
    /// Which configuration.
    pub name: String,
    /// Whether it is what the group takes by itself.
    pub chosen: bool,
    /// Distance of its result from f64, in units of the bound.
    pub error: f64,
    /// Microseconds a call in short blocks after an idle moment.
    pub burst_us: Statistics,
    /// Microseconds a call in long blocks.
    pub sustained: Option<Sustained>,
}

/// What long blocks gave.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sustained {
    /// Microseconds a call.
    pub us: Statistics,
    /// The sensors near the end of the last block.
    pub reading: Reading,
}

impl Entry {
    /// Group and name.
    pub fn full_name(&self) -> String {
        format!("{} {}", self.group, self.name)
    }
}

impl Row {
    /// The fastest entry of a group.
    pub fn best(&self, group: &str) -> Option<&Entry> {
        let of_group = self.entries.iter().filter(|e| e.group == group);
        of_group.min_by(|a, b| a.burst_us.median.total_cmp(&b.burst_us.median))
    }

    /// A line an entry (what was computed, who, us a call, TFLOP/s, and the time of the best of a group over its own), and one for each that did not
    /// take part.
    pub fn lines(&self, against: &str) -> Vec<String> {
        let baseline = self.best(against).map(|entry| entry.burst_us.median);
        let title = self.title.to_string();
        let entries = self.entries.iter().map(|entry| {
            let us = entry.burst_us.median;
            let ratio = baseline.map_or("-".into(), |baseline| format!("{:.3}", baseline / us));
            format!("{title:<34} {:<38} {us:>9.2} us {:>6.1} TFLOP/s {ratio:>6}", entry.full_name(), self.tflops(us))
        });
        let refused = self.refused.iter().map(|(name, reason)| format!("{title} {name} REFUSED: {reason}"));
        entries.chain(refused).collect()
    }

    /// The groups, that of the fastest entry first.
    pub fn groups(&self) -> Vec<&str> {
        let mut groups: Vec<&str> = Vec::new();
        for entry in &self.entries {
            if !groups.contains(&entry.group.as_str()) {
                groups.push(&entry.group);
            }
        }
        groups
    }

    /// The baseline's median time in microseconds.
    pub fn baseline_us(&self) -> Option<f64> {
        self.entries.iter().find(|e| e.full_name() == self.baseline).map(|e| e.burst_us.median)
    }

    /// How far the baseline's two entries are apart, relative: differences below it are noise.
    pub fn spread(&self) -> Option<f64> {
        Some((self.baseline_again.median / self.baseline_us()? - 1.0).abs())
    }

    /// Bytes that must be moved a second, in TB/s, at this time a call.
    pub fn tbps(&self, us: f64) -> f64 {
        self.bytes as f64 / us * 1e-6
    }

    /// Floating-point operations a second, in TFLOP/s, at this time a call.
    pub fn tflops(&self, us: f64) -> f64 {
        self.flops as f64 / us * 1e-6
    }
}

/// The table of a row: a line an entry, with its ratio to the baseline (above 1: faster than it).
impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} sets, {} rounds", self.title, self.sets, self.rounds)?;
        match self.spread() {
            Some(spread) => writeln!(f, "; {} entered twice: {:.2}% apart", self.baseline, spread * 100.0)?,
            None => writeln!(f)?,
        }
        let width = self.entries.iter().map(|e| e.full_name().len()).max().unwrap_or(0).max(9);
        let head = ("contender", "us", "TB/s", "TFLOP/s", "ratio", "error");
        writeln!(f, "  {:width$}  {:>10} {:>7} {:>8} {:>7} {:>6}", head.0, head.1, head.2, head.3, head.4, head.5)?;
        for entry in &self.entries {
            let us = entry.burst_us.median;
            let ratio = self.baseline_us().map_or(f64::NAN, |base| base / us);
            let tflops = self.flops as f64 / us * 1e-6;
            let mark = if entry.chosen { " (default)" } else { "" };
            writeln!(
                f,
                "  {:width$}  {us:>10.3} {:>7.3} {tflops:>8.2} {ratio:>7.3} {:>6.3}{mark}",
                entry.full_name(),
                self.tbps(us),
                entry.error
            )?;
            if let Some(Sustained { us, reading }) = &entry.sustained {
                let clock = reading.sm_mhz.map_or("no clock".into(), |mhz| format!("{mhz} MHz"));
                let power = reading.watts.map_or("no power".into(), |watts| format!("{watts:.0} W"));
                writeln!(f, "  {:width$}  {:>10.3} sustained, {clock}, {power}", "", us.median)?;
            }
        }
        for (name, reason) in &self.refused {
            writeln!(f, "  {name} takes no part: {reason}")?;
        }
        Ok(())
    }
}

impl Report {
    /// Writes the report as JSON.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), BenchError> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        std::fs::write(path, text).map_err(|source| BenchError::File { path: path.to_owned(), source })
    }

    /// Reads a report.
    ///
    /// # Errors
    /// The file cannot be read, or is no report of this version.
    pub fn read(path: &Path) -> Result<Report, BenchError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| BenchError::File { path: path.to_owned(), source })?;
        Ok(serde_json::from_str(&text)?)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn entry(group: &str, name: &str, us: f64) -> Entry {
        let burst_us = Statistics { median: us, fastest: us * 0.99, slowest: us * 1.02 };
        let reading = Reading { sm_mhz: Some(1830), watts: None };
        let sustained = Some(Sustained { us: burst_us, reading });
        Entry { group: group.into(), name: name.into(), chosen: group == "ours", error: 0.25, burst_us, sustained }
    }

    pub(crate) fn report() -> Report {
        let row = |n: u64, us: f64| Row {
            title: Title { op: "gemv".into(), dtype: "f16".into(), shape: vec![("n".into(), n), ("k".into(), n)] },
            bytes: 2 * n * n,
            flops: 2 * n * n,
            sets: 2,
            rounds: 15,
            entries: vec![entry("ours", "default", us), entry("cublas", "GemmEx", us * 1.25)],
            baseline: "cublas GemmEx".into(),
            baseline_again: Statistics { median: us * 1.25 * 1.01, fastest: us, slowest: us * 2.0 },
            refused: vec![("cublaslt".into(), "no library".into())],
        };
        let ceiling = Some(Ceiling { read_tbps: 4.6, name: "row_sums".into(), peak_tflops: None });
        let versions = vec![("cublas".to_string(), "13.1".to_string())];
        let rows = vec![row(1024, 2.0), row(4096, 9.0), row(16384, 130.0)];
        Report { schema: SCHEMA, device: "a GPU".into(), versions, ceiling, rows }
    }

    #[test]
    fn a_report_survives_its_json() {
        let path = std::env::temp_dir().join(format!("tile-bench-report-{}.json", std::process::id()));
        report().write(&path).unwrap();
        assert_eq!(Report::read(&path).unwrap(), report());
        std::fs::write(&path, "{\"schema\": 1, \"rows\": []}").unwrap();
        assert!(matches!(Report::read(&path), Err(BenchError::Report(_))));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn the_table_shows_ratios_to_the_baseline_and_its_spread() {
        let text = report().rows[0].to_string();
        assert!(text.contains("cublas GemmEx entered twice: 1.00% apart"), "{text}");
        let ours = text.lines().find(|line| line.contains("ours default")).unwrap();
        assert!(ours.contains("1.250") && ours.contains("1.049"), "ratio and TB/s: {ours}");
        assert!(text.contains("1830 MHz, no power") && text.contains("cublaslt takes no part: no library"), "{text}");
    }
}
