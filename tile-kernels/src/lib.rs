//! The bundled kernels.
