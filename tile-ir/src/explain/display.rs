//! The report as text.

use super::report::{AccessReport, Class, Note, Report, Roofline};
use super::walk::AccessKind;
use crate::lowered::GuardReason;
use std::fmt;

impl fmt::Display for Report {
    /// Sections of short lines; ends with a line break.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.dims.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        writeln!(f, "{} on {} with {}", self.program, self.machine.name, dims.join(", "))?;
        section(f, "THIS LAUNCH IS REFUSED; it breaks", &self.refused)?;
        section(f, "not checked, for want of a scalar's value", &self.unchecked)?;
        self.roofline_lines(f)?;
        self.traffic_lines(f)?;
        self.access_lines(f)?;
        match self.remarks.as_slice() {
            [] => writeln!(f, "\nno guards added, no lesser forms")?,
            remarks => section(f, "remarks of the compiler", remarks)?,
        }
        section(f, "decided by data, counted on both sides", &self.undecided)?;
        self.launch_lines(f)
    }
}

impl Report {
    fn roofline_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Roofline { flops, unique_bytes, dtype, dense_flops, used_flops, .. } = self.roofline;
        let bandwidth = self.machine.bandwidth;
        writeln!(f, "\nroofline")?;
        let functions = match self.roofline.functions {
            0.0 => String::new(),
            n => format!(" ({} of them functions)", si(n, "")),
        };
        let (work, bytes) = (si(flops, "FLOP"), si(unique_bytes, "B"));
        writeln!(f, "  {work} executed{functions} / {bytes} moved at least = {:.2} FLOP/B", self.roofline.intensity())?;
        let crossover = |peak: f64, what: String| {
            format!(
                "{:.1} FLOP/B ({} {what} / {})",
                self.machine.crossover(peak),
                si(peak, "FLOP/s"),
                si(bandwidth, "B/s")
            )
        };
        let used = match used_flops == self.machine.f32_flops {
            true => "f32 on CUDA cores, what this kernel executes".to_owned(),
            false => format!("dense {dtype} on tensor cores, what this kernel executes"),
        };
        writeln!(f, "  crossovers: {}", crossover(used_flops, used))?;
        if dense_flops != used_flops {
            writeln!(f, "              {}", crossover(dense_flops, format!("dense {dtype} on tensor cores")))?;
        }
        writeln!(
            f,
            "  {}",
            match self.roofline.class() {
                Class::Memory => "memory bound",
                Class::Compute { by_choice: false } => "compute bound",
                Class::Compute { by_choice: true } =>
                    "compute bound on CUDA cores; on tensor cores it would be memory bound",
            }
        )?;
        let [memory, compute] = [self.roofline.memory_time, self.roofline.compute_time].map(|t| t * 1e6);
        writeln!(f, "  at least {:.2} us: {memory:.2} us of memory, {compute:.2} us of arithmetic", memory.max(compute))
    }

    fn traffic_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\ntraffic (bytes lanes ask for, before caches)")?;
        let width = self.tensors.iter().map(|t| t.name.chars().count()).max().unwrap_or(0);
        for t in &self.tensors {
            write!(f, "  {:width$}  {}", t.name, si(t.bytes, "B"))?;
            if t.reads > 0.0 {
                write!(f, ", reads {} ({:.1} times each)", si(t.reads, "B"), t.reuse())?;
            }
            if t.writes > 0.0 {
                write!(f, ", writes {}", si(t.writes, "B"))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }

    fn access_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (global, title) in [
            (true, "global accesses (32-byte sectors a warp's request)"),
            (false, "shared accesses (wavefronts a warp's request)"),
        ] {
            let accesses: Vec<&AccessReport> = self.accesses.iter().filter(|a| a.global == global).collect();
            if accesses.is_empty() {
                continue;
            }
            writeln!(f, "\n{title}")?;
            for access in accesses {
                let verb = match access.kind {
                    AccessKind::Load => "load",
                    AccessKind::Store => "store",
                    AccessKind::Atomic => "atomic",
                };
                let (found, ideal) = (number(access.found), number(access.ideal));
                let verdict = match access.excess() {
                    _ if access.unknown => "  addresses depend on data".into(),
                    excess if excess > 1.005 => format!("  {excess:.1}x the ideal"),
                    _ => String::new(),
                };
                let guard = match access.guard {
                    Some(GuardReason::Masked) => ", masked",
                    Some(GuardReason::Unproven) => ", GUARD ADDED",
                    None => "",
                };
                let bytes = access.width;
                let text = if access.at.text.is_empty() { &access.place } else { &access.at.text };
                writeln!(
                    f,
                    "  line {:<4} {verb:<6} {bytes:>2} B a lane  {found:>5} of {ideal:>3}  {} requests{guard}  {text}{verdict}",
                    access.at.line,
                    si(access.requests, ""),
                )?;
            }
        }
        Ok(())
    }

    fn launch_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.threads;
        let (blocks, threads) = (self.blocks(), x * y * z);
        writeln!(f, "\nlaunch")?;
        writeln!(
            f,
            "  {blocks} blocks of {threads} threads ({x} x {y} x {z}), {} B of shared memory",
            self.shared_bytes
        )?;
        match self.resources {
            Some(r) if r.spill_stores + r.spill_loads > 0 => {
                let (stores, loads) = (r.spill_stores, r.spill_loads);
                writeln!(f, "  {} registers; SPILLS {stores} B stored, {loads} B loaded a thread", r.registers)?;
            }
            Some(r) => writeln!(f, "  {} registers, no spills", r.registers)?,
            None => writeln!(f, "  registers not known: occupancy leaves them out")?,
        }
        let o = self.occupancy;
        if o.blocks == 0 {
            return writeln!(f, "  no block fits a multiprocessor: too much for its {}", o.limit.name());
        }
        let (percent, limit) = (o.fraction() * 100.0, o.limit.name());
        let (blocks, warps, most) = (o.blocks, o.warps, o.most_warps);
        writeln!(
            f,
            "  {blocks} blocks = {warps} of {most} warps a multiprocessor ({percent:.0}%), limited by {limit}"
        )?;
        writeln!(f, "  {:.2} waves of {} blocks", self.waves(), u64::from(self.machine.sms) * u64::from(o.blocks))
    }
}

fn section(f: &mut fmt::Formatter<'_>, title: &str, notes: &[Note]) -> fmt::Result {
    if notes.is_empty() {
        return Ok(());
    }
    writeln!(f, "\n{title}")?;
    notes.iter().try_for_each(|note| writeln!(f, "  line {:<4} {}", note.line, note.text))
}

/// A number with a decimal prefix and a unit: `33.57 MB`.
fn si(value: f64, unit: &str) -> String {
    let (scale, prefix) = match value.abs() {
        v if v >= 1e12 => (1e12, "T"),
        v if v >= 1e9 => (1e9, "G"),
        v if v >= 1e6 => (1e6, "M"),
        v if v >= 1e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let digits = if scale == 1.0 { 0 } else { 2 };
    let space = if prefix.is_empty() && unit.is_empty() { "" } else { " " };
    format!("{:.digits$}{space}{prefix}{unit}", value / scale)
}

/// At most one digit after the point.
fn number(value: f64) -> String {
    if (value - value.round()).abs() < 0.05 { format!("{value:.0}") } else { format!("{value:.1}") }
}
