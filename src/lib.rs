//! The examples live in `examples/`; this library is what they share.
