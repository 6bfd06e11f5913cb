//! What a tuning tried and what it chose: data, and a table.

use crate::device::Device;
use crate::nvrtc::Nvrtc;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A tuning's report, as it is kept on disk (JSON) and as [`crate::tuner::tune`] returns it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TuneReport {
    /// The kernel's name.
    pub kernel: String,
    /// What the result depends on, a line each: kernel, device, driver, compiler, dtypes, shape bucket.
    pub key: String,
    /// The device, in words.
    pub device: String,
    /// The newest CUDA version the driver supports, such as `13.0`; empty on a simulator.
    pub driver: String,
    /// NVRTC's version and build; empty where there is none.
    pub nvrtc: String,
    /// The dtypes, in order of the kernel's dtype parameters.
    pub dtypes: Vec<String>,
    /// The dims it was tuned with.
    pub dims: Vec<(String, i64)>,
    /// How the candidates were timed, or why they were not.
    pub timing: String,
    /// How results were compared.
    pub gate: String,
    /// The relative difference of the baseline's two entries: differences below it are noise.
    pub noise: f64,
    /// Rounds that were run.
    pub rounds: usize,
    /// Seconds it took in all.
    pub seconds: f64,
    /// Why it stopped before its last round, if it did.
    pub stopped: Option<String>,
    /// The chosen instance, in order of declaration.
    pub chosen: usize,
    /// Every candidate: the declared instances with these dtypes, in order of declaration.
    pub trials: Vec<Trial>,
    /// Whether this is an earlier tuning's report.
    #[serde(skip)]
    pub remembered: bool,
}

/// One candidate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The instance, in order of declaration.
    pub instance: usize,
    /// It as an author writes it: `<f16> ROWS = 8`.
    pub parameters: String,
    /// Its const parameters by name, in order.
    pub consts: Vec<(String, i64)>,
    /// What became of it.
    pub status: Status,
    /// Why, where there is more to say.
    pub detail: String,
    /// 32-bit registers a thread, as the assembler says.
    pub registers: Option<u32>,
    /// Bytes of spill stores and loads a thread.
    pub spill_bytes: Option<u32>,
    /// Bytes of shared memory a block.
    pub shared_bytes: u32,
    /// How often the launch fills the device, as the static model says.
    pub waves: Option<f64>,
    /// Seconds a launch: the median of `times`.
    pub median: Option<f64>,
    /// Seconds a launch, a sample a round.
    pub times: Vec<f64>,
}

/// What became of a candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It was not tried: tuning stopped before, or there was nothing to choose.
    #[default]
    Untried,
    /// It was timed to the end.
    Timed,
    /// It was timed and found clearly slower than the best.
    Slower,
    /// Its launch contract does not hold for these arguments, or it cannot be lowered for this device.
    Refused,
    /// The static model says that it cannot be among the fast ones.
    Pruned,
    /// It needs more shared memory, registers or threads than the device has.
    OverBudget,
    /// It does not compile.
    NotCompiled,
    /// Its launch failed.
    Failed,
    /// Its result is wrong.
    Wrong,
    /// It did not end in time; tuning stopped there.
    Hung,
    /// It put the device out of order (an illegal address, say); tuning stopped there.
    Fault,
}

impl Status {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Untried => "not tried",
            Status::Timed => "timed",
            Status::Slower => "slower",
            Status::Refused => "refused",
            Status::Pruned => "pruned",
            Status::OverBudget => "over budget",
            Status::NotCompiled => "does not compile",
            Status::Failed => "launch failed",
            Status::Wrong => "wrong result",
            Status::Hung => "hung",
            Status::Fault => "device fault",
        }
    }
}

impl TuneReport {
    /// The report of what has not been tuned yet.
    pub(super) fn new(kernel: &str, key: String, device: &Device) -> TuneReport {
        TuneReport {
            kernel: kernel.into(),
            key,
            device: device.to_string(),
            driver: match device.is_simulator() {
                true => String::new(),
                false => Device::driver_version().map_or(String::new(), |(major, minor)| format!("{major}.{minor}")),
            },
            nvrtc: Nvrtc::get().map_or(String::new(), Nvrtc::identity),
            dtypes: Vec::new(),
            dims: Vec::new(),
            timing: String::new(),
            gate: String::new(),
            noise: 0.0,
            rounds: 0,
            seconds: 0.0,
            stopped: None,
            chosen: 0,
            trials: Vec::new(),
            remembered: false,
        }
    }

    /// The chosen candidate.
    pub fn choice(&self) -> Option<&Trial> {
        self.trials.iter().find(|t| t.instance == self.chosen)
    }

    /// The median time of an instance, in seconds, where it was timed.
    pub fn median_of(&self, instance: usize) -> Option<f64> {
        self.trials.iter().find(|t| t.instance == instance)?.median
    }
}

impl fmt::Display for TuneReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims = self.dims.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", ");
        let dtypes = if self.dtypes.is_empty() { String::new() } else { format!(" <{}>", self.dtypes.join(", ")) };
        writeln!(f, "kernel `{}`{dtypes}, {dims}, on {}", self.kernel, self.device)?;
        writeln!(f, "timing: {}", self.timing)?;
        if !self.gate.is_empty() {
            writeln!(f, "gate: {}", self.gate)?;
        }
        let width = self.trials.iter().map(|t| t.parameters.len()).max().unwrap_or(0).max(9);
        writeln!(f, "  {:width$}  {:>9}  {:>5}  {:>6}  {:>7}  outcome", "candidate", "us", "regs", "shared", "waves")?;
        // The fastest first, then those without a time in order of declaration.
        let mut trials: Vec<&Trial> = self.trials.iter().collect();
        trials.sort_by(|a, b| a.median.unwrap_or(f64::MAX).total_cmp(&b.median.unwrap_or(f64::MAX)));
        for t in trials {
            let mark = if t.instance == self.chosen { '*' } else { ' ' };
            let time = t.median.map_or("-".into(), |s| format!("{:.2}", s * 1e6));
            let registers = t.registers.map_or("-".into(), |n| n.to_string());
            let waves = t.waves.map_or("-".into(), |n| format!("{n:.2}"));
            write!(
                f,
                "{mark} {:width$}  {time:>9}  {registers:>5}  {:>6}  {waves:>7}  ",
                t.parameters, t.shared_bytes
            )?;
            write!(f, "{}", t.status.name())?;
            if let Some(bytes) = t.spill_bytes.filter(|b| *b > 0) {
                write!(f, ", {bytes} bytes of spills")?;
            }
            match t.detail.lines().next() {
                Some(line) => writeln!(f, ": {line}")?,
                None => writeln!(f)?,
            }
        }
        if let Some(why) = &self.stopped {
            writeln!(f, "stopped early: {why}")?;
        }
        let how = if self.remembered { "remembered; tuning took" } else { "tuned in" };
        let chosen = self.choice().map_or("none", |t| t.parameters.as_str());
        write!(f, "chosen: {chosen}; {how} {:.1} s, {} rounds", self.seconds, self.rounds)?;
        if self.rounds > 0 {
            write!(f, ", noise {:.2}%", self.noise * 100.0)?;
        }
        writeln!(f)
    }
}
