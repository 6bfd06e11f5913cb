//! A call for each float type.

/// A recipe for the float type that tensor 0 has.
macro_rules! floats {
    ($call:ident, |$T:ident| $body:expr) => {
        match $call.views.first().map(|view| view.dtype) {
            Some(0) => {
                type $T = f16;
                $body
            }
            Some(1) => {
                type $T = bf16;
                $body
            }
            _ => {
                type $T = f32;
                $body
            }
        }
    };
}
