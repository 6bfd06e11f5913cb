//! Progress on standard error: a bar on a terminal, plain lines otherwise, nothing when asked.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// Where progress goes.
pub(super) enum Progress {
    /// A terminal.
    Bar(ProgressBar),
    /// A file or pipe.
    Lines,
    /// Nowhere.
    Quiet,
}

impl Progress {
    /// Progress of `steps` steps in all, about `title`.
    pub fn new(title: &str, steps: usize, quiet: bool) -> Progress {
        if quiet {
            return Progress::Quiet;
        }
        if !std::io::stderr().is_terminal() {
            eprintln!("tile: {title}");
            return Progress::Lines;
        }
        let bar = ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{prefix} [{bar:30}] {pos}/{len} {elapsed} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(title.to_owned());
        Progress::Bar(bar)
    }

    /// One step, about `what`.
    pub fn step(&self, what: &str) {
        if let Progress::Bar(bar) = self {
            bar.set_message(what.to_owned());
            bar.inc(1);
        }
    }

    /// Something worth a line.
    pub fn say(&self, line: &str) {
        match self {
            Progress::Bar(bar) => bar.suspend(|| eprintln!("tile: {line}")),
            Progress::Lines => eprintln!("tile: {line}"),
            Progress::Quiet => {}
        }
    }

    /// The end, with what came out.
    pub fn finish(&self, line: &str) {
        if let Progress::Bar(bar) = self {
            bar.finish_and_clear();
        }
        self.say(line);
    }
}
