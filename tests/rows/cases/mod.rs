//! A case runs a kernel on a device over its shapes, panics where a result is wrong, and gives the bits of all results.

pub mod elements;
pub mod norms;
pub mod products;
pub mod rope;
pub mod sampling;

use tile_kernel_examples::data::Real;
use tile_runtime::prelude::*;

/// The bits of results, one behind the other.
pub type Bits = Vec<u32>;

/// A float type with its rounding.
pub trait Rounded: Float + Real {
    /// Half the distance of 1 and the next number.
    const EPSILON: f64;
}

impl Rounded for f16 {
    const EPSILON: f64 = 1.0 / 2048.0;
}
impl Rounded for bf16 {
    const EPSILON: f64 = 1.0 / 256.0;
}
impl Rounded for f32 {
    const EPSILON: f64 = 1.0 / 16_777_216.0;
}

/// The numbers in f64.
pub fn wide<T: Real>(values: &[T]) -> Vec<f64> {
    values.iter().map(|value| f64::from(value.to_f32())).collect()
}

/// Panics where a result is further from the reference than `absolute`, or `relative` of the reference. NaN is wrong.
pub fn close<T: Real>(found: &[T], wanted: &[f64], relative: f64, absolute: f64, what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (at, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        let (found, bound) = (f64::from(found.to_f32()), relative * wanted.abs() + absolute);
        assert!((found - wanted).abs() <= bound, "{what}, element {at}: {found}, not {wanted} within {bound}");
    }
}

/// The results' bits.
pub fn bits<T: Element>(values: &[T]) -> Bits {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Columns of a matrix's memory to the left and right of it: dense, with a pitch that vectors divide, at an odd address.
pub const MARGINS: [[usize; 2]; 3] = [[0, 0], [8, 16], [3, 2]];

/// What stands in the margins.
const EDGE: f32 = 123.0;

/// A matrix and the memory around it.
pub struct Framed<T: Element> {
    memory: Tensor<T, 2>,
    left: usize,
    shape: [usize; 2],
}

impl<T: Real> Framed<T> {
    /// `values` of shape `shape` between margins.
    pub fn new(device: &Device, values: &[T], shape: [usize; 2], [left, right]: [usize; 2]) -> Self {
        let [rows, columns] = shape;
        let edge = |count| vec![T::from_f32(EDGE); count];
        let row = |row: usize| [edge(left), values[row * columns..(row + 1) * columns].to_vec(), edge(right)].concat();
        let values: Vec<T> = (0..rows).flat_map(row).collect();
        let memory = device.tensor(&values, [rows, left + columns + right]).unwrap();
        Framed { memory, left, shape }
    }

    /// NaNs, to be written.
    pub fn unwritten(device: &Device, shape: [usize; 2], margins: [usize; 2]) -> Self {
        Framed::new(device, &vec![T::from_f32(f32::NAN); shape[0] * shape[1]], shape, margins)
    }

    pub fn view(&self) -> TensorView<'_, T, 2> {
        let [rows, columns] = self.shape;
        self.memory.slice([0..rows, self.left..self.left + columns]).unwrap()
    }

    pub fn view_mut(&mut self) -> TensorViewMut<'_, T, 2> {
        let [rows, columns] = self.shape;
        self.memory.slice_mut([0..rows, self.left..self.left + columns]).unwrap()
    }

    /// The matrix; panics where its margins were written.
    pub fn to_vec(&self) -> Vec<T> {
        let all = self.memory.to_vec().unwrap();
        let mut found = Vec::new();
        for row in all.chunks(self.memory.shape()[1].max(1)) {
            let (left, rest) = row.split_at(self.left);
            let (inside, right) = rest.split_at(self.shape[1]);
            assert!(left.iter().chain(right).all(|value| value.to_f32() == EDGE), "a margin was written");
            found.extend_from_slice(inside);
        }
        found
    }
}
