//! The tuner without a GPU: planted candidates on a device that is made up.
