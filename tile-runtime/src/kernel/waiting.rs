//! A line on standard error, where that is a terminal, while a simulated launch takes long.

use crate::lock::lock;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// How long a launch may take before anything is said of it.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it is looked at.
const INTERVAL: Duration = Duration::from_millis(250);

/// Launches of this process that are being simulated, the earliest first.
static WATCHED: Mutex<Watched> = Mutex::new(Watched { running: Vec::new(), is_watching: false, next: 0, line: None });

struct Watched {
    running: Vec<Running>,
    /// Whether a thread looks at them; it ends when there are none.
    is_watching: bool,
    next: u64,
    /// What is shown, and the launch that it is about.
    line: Option<(u64, ProgressBar)>,
}

struct Running {
    number: u64,
    kernel: String,
    simulator: &'static str,
    since: Instant,
}

/// A launch that is being simulated, until it is dropped.
pub(super) struct Waiting(Option<u64>);

impl Waiting {
    /// Of this kernel, from now on.
    pub fn new(kernel: &str, simulator: &'static str) -> Waiting {
        static TERMINAL: OnceLock<bool> = OnceLock::new();
        if !TERMINAL.get_or_init(|| std::io::stderr().is_terminal()) {
            return Waiting(None);
        }
        let mut watched = lock(&WATCHED);
        let number = watched.next;
        watched.next += 1;
        watched.running.push(Running { number, kernel: kernel.to_owned(), simulator, since: Instant::now() });
        if !watched.is_watching {
            // Without the thread nothing is shown, and nothing else is lost.
            watched.is_watching = thread::Builder::new().name("tile-waiting".into()).spawn(watch).is_ok();
        }
        Waiting(Some(number))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(number) = self.0 else { return };
        let mut watched = lock(&WATCHED);
        watched.running.retain(|running| running.number != number);
        if let Some((_, line)) = watched.line.take_if(|(about, _)| *about == number) {
            line.finish_and_clear();
        }
    }
}

fn watch() {
    loop {
        thread::sleep(INTERVAL);
        let mut watched = lock(&WATCHED);
        let Watched { running, is_watching, line, .. } = &mut *watched;
        let Some(first) = running.first() else {
            *is_watching = false;
            return;
        };
        let Some(text) = text(first, first.since.elapsed()) else { continue };
        let (_, bar) = line.get_or_insert_with(|| (first.number, spinner()));
        bar.set_message(text);
        bar.tick();
    }
}

/// What is said of a launch that has taken so long.
fn text(running: &Running, taken: Duration) -> Option<String> {
    let Running { kernel, simulator, .. } = running;
    (taken >= PATIENCE).then(|| format!("simulating `{kernel}` on the {simulator} simulator, {} s", taken.as_secs()))
}

fn spinner() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template("{spinner} {msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_launches_are_spoken_of() {
        let running = Running { number: 0, kernel: "gemv".into(), simulator: "checked", since: Instant::now() };
        assert_eq!(text(&running, Duration::from_millis(1900)), None);
        let shown = text(&running, Duration::from_millis(3700));
        assert_eq!(shown.as_deref(), Some("simulating `gemv` on the checked simulator, 3 s"));
    }

    #[test]
    fn a_launch_that_is_over_is_forgotten() {
        let watched = || lock(&WATCHED).running.iter().filter(|r| r.kernel == "forgotten").count();
        lock(&WATCHED).running.push(Running {
            number: u64::MAX,
            kernel: "forgotten".into(),
            simulator: "fast",
            since: Instant::now(),
        });
        assert_eq!(watched(), 1);
        drop(Waiting(Some(u64::MAX)));
        assert_eq!(watched(), 0);
    }
}
