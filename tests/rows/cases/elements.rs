//! SwiGLU and embedding.

use super::*;
use tile_kernel_examples::data::normal;
use tile_kernel_examples::rows as reference;

pub fn swiglu<T: Rounded>(device: &Device) -> Bits {
    let mut all = Vec::new();
    // The last one is more than a vector a thread, where operands are aligned.
    for shape @ [m, i] in [[0, 8], [1, 1], [3, 100], [2, 2056], [5, 1408], [1, 4104]] {
        for margins in MARGINS {
            let x = normal::<T>(i as u64, m * 2 * i);
            let gate_up = Framed::new(device, &x, [m, 2 * i], margins);
            let mut y = Framed::unwritten(device, shape, margins);
            tile_kernels::swiglu::swiglu(device, gate_up.view(), y.view_mut()).unwrap();
            let (y, wanted) = (y.to_vec(), reference::swiglu(&wide(&x), i));
            close(&y, &wanted, T::EPSILON + 1e-6, 1e-7, &format!("{shape:?} {margins:?}"));
            all.extend(bits(&y));
        }
    }
    all.extend(swiglu_of_large_gates::<T>(device));
    all
}

/// More rows than there are blocks along the second axis of a grid: the first blocks have two.
pub fn swiglu_of_many_rows(device: &Device) {
    let (m, i) = (65_540, 20);
    let x = normal::<f32>(7, m * 2 * i);
    let gate_up = device.tensor(&x, [m, 2 * i]).unwrap();
    let mut y = device.tensor(&vec![f32::NAN; m * i], [m, i]).unwrap();
    tile_kernels::swiglu::swiglu(device, &gate_up, &mut y).unwrap();
    close(&y.to_vec().unwrap(), &reference::swiglu(&wide(&x), i), 2e-6, 1e-7, "many rows");
}

/// Where `e^-x` overflows, silu is -0, not NaN.
fn swiglu_of_large_gates<T: Rounded>(device: &Device) -> Bits {
    let gate_up = [-1000.0, 1000.0, -0.0, 2.0, 2.0, 2.0].map(T::from_f32);
    let mut y = device.zeros::<T, 2>([1, 3]).unwrap();
    tile_kernels::swiglu::swiglu(device, &device.tensor(&gate_up, [1, 6]).unwrap(), &mut y).unwrap();
    let y = y.to_vec().unwrap();
    assert_eq!(wide(&y), [0.0, f64::from(T::from_f32(2000.0).to_f32()), 0.0]);
    bits(&y)
}

pub fn embedding<T: Rounded>(device: &Device) -> Bits {
    let mut all = Vec::new();
    for [v, n] in [[1, 1], [7, 100], [5, 264], [3, 4104]] {
        let table = normal::<T>(n as u64, v * n);
        let tokens = [0, v as u32 - 1, v as u32, u32::MAX, v as u32 / 2];
        for margins in MARGINS {
            let table_device = Framed::new(device, &table, [v, n], margins);
            let mut y = Framed::unwritten(device, [tokens.len(), n], margins);
            let tokens_device = device.tensor(&tokens, [tokens.len()]).unwrap();
            tile_kernels::embedding::embedding(device, table_device.view(), &tokens_device, y.view_mut()).unwrap();
            let (y, wanted) = (y.to_vec(), reference::embedding(&wide(&table), &tokens, n));
            close(&y, &wanted, 0.0, 0.0, &format!("{v} x {n} {margins:?}"));
            all.extend(bits(&y));
        }
    }
    let mut y = device.zeros::<T, 2>([0, 8]).unwrap();
    let none = device.zeros::<u32, 1>([0]).unwrap();
    tile_kernels::embedding::embedding(device, &device.zeros::<T, 2>([0, 8]).unwrap(), &none, &mut y).unwrap();
    all
}
