//! How long a simulated launch may run: a limit on its steps, and a way to stop it from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Steps after which a launch counts as one that never ends, where nothing else is asked for.
pub const STEP_LIMIT: u64 = 2_000_000_000;

/// Most steps that a block takes from the launch's budget at a time; it gives back what it does not use.
const PORTION: u64 = 1024;

/// Stops simulated launches from another thread. Clones are one switch: once [`Cancel::cancel`] was called on one, every
/// launch that has a clone ends with an error, those that begin later too.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A switch that is not set.
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// Stops every launch that has this switch.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it is set.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Two are equal where they are one switch.
impl PartialEq for Cancel {
    fn eq(&self, other: &Cancel) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Cancel {}

/// Why a launch was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It has taken this many steps, which were all it was given.
    StepLimit(u64),
    /// [`Cancel::cancel`] was called.
    Cancelled,
}

/// The steps that the blocks of a launch, which run on several host threads, may still take.
#[derive(Debug)]
pub(super) struct Meter<'a> {
    limit: u64,
    left: AtomicU64,
    cancel: Option<&'a Cancel>,
}

impl<'a> Meter<'a> {
    pub(super) fn new(limit: u64, cancel: Option<&'a Cancel>) -> Meter<'a> {
        Meter { limit, left: AtomicU64::new(limit), cancel }
    }

    /// Some steps, at least one.
    pub(super) fn take(&self) -> Result<u64, Stop> {
        if self.cancel.is_some_and(Cancel::is_cancelled) {
            return Err(Stop::Cancelled);
        }
        // What other blocks have taken and not used is missing here, so portions shrink towards the end.
        let portion = |left: u64| (left / 64).clamp(1, PORTION);
        self.left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(portion(left)))
            .map(portion)
            .map_err(|_| Stop::StepLimit(self.limit))
    }

    /// Gives back steps that were taken and not used.
    pub(super) fn give_back(&self, steps: u64) {
        self.left.fetch_add(steps, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_has_exactly_the_steps_of_its_limit() {
        for limit in [0, 1, 63, 64, 100, 5000, 1_000_000] {
            let meter = Meter::new(limit, None);
            let (mut used, mut taken) = (0, 0);
            loop {
                match meter.take() {
                    Ok(steps) => (used, taken) = (used + steps, taken + 1),
                    Err(stop) => break assert_eq!(stop, Stop::StepLimit(limit)),
                }
                if taken % 3 == 1 {
                    meter.give_back(1);
                    used -= 1;
                }
            }
            assert_eq!(used, limit);
        }
    }

    #[test]
    fn cancelling_one_clone_stops_all() {
        let cancel = Cancel::new();
        let clone = cancel.clone();
        let meter = Meter::new(10, Some(&clone));
        assert!(meter.take().is_ok());
        cancel.cancel();
        assert_eq!(meter.take(), Err(Stop::Cancelled));
        assert_eq!(cancel, clone);
        assert_ne!(cancel, Cancel::new());
    }
}
