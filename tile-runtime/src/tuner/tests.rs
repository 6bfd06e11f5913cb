//! The tuner without a GPU: planted candidates on a device that is made up, and the whole of it on the simulator.

#[cfg(unix)]
mod planted;
mod simulated;
