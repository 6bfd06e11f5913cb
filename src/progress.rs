//! How far a long program is: a line on standard error where that is a terminal, nothing elsewhere.

use indicatif::{ProgressBar, ProgressStyle};

/// Steps that take seconds each: rungs, instances, shapes.
pub struct Steps(ProgressBar);

impl Steps {
    /// So many steps to go.
    pub fn new(count: usize) -> Steps {
        // Drawn on standard error, and only on a terminal: indicatif's default.
        let bar = ProgressBar::new(count as u64);
        let style = ProgressStyle::with_template("[{bar:24}] {pos} of {len} done, now: {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Steps(bar)
    }

    /// Steps of which nobody knows how many there are.
    pub fn counting() -> Steps {
        let bar = ProgressBar::no_length();
        let style = ProgressStyle::with_template("{pos} done, now: {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        Steps(bar)
    }

    /// What is being worked on from now on.
    pub fn begin(&self, what: impl Into<String>) {
        self.0.set_message(what.into());
        self.0.tick();
    }

    /// A step is done.
    pub fn end(&self) {
        self.0.inc(1);
    }

    /// Prints a line of results; it is not mixed with the line of progress.
    pub fn print(&self, line: impl AsRef<str>) {
        self.0.suspend(|| println!("{}", line.as_ref()));
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
