//! `mma.sync.aligned.m16n8k16.row.col.f32.{f16,bf16}` and `.m16n8k8.row.col.f32.tf32`.
//!
//! Lane maps from the PTX ISA, section "Warp-level matrix fragments", as it states them: with `groupID = lane >> 2` and
//! `threadID_in_group = lane % 4`.

use crate::sim::numeric::decode_f16;

/// Type of the multiplied matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// `.f16`
    F16,
    /// `.bf16`
    Bf16,
    /// `.tf32`: the low 13 bits of a register are not read.
    Tf32,
}

impl Input {
    /// K of one instruction.
    pub fn k(self) -> usize {
        match self {
            Input::F16 | Input::Bf16 => 16,
            Input::Tf32 => 8,
        }
    }

    /// Bytes of an element.
    pub fn bytes(self) -> u32 {
        match self {
            Input::F16 | Input::Bf16 => 2,
            Input::Tf32 => 4,
        }
    }

    /// The value of an element's bits.
    pub fn value(self, bits: u32) -> f32 {
        match self {
            Input::F16 => decode_f16(bits as u16),
            Input::Bf16 => f32::from_bits(bits << 16),
            Input::Tf32 => f32::from_bits(bits & !0x1fff),
        }
    }

    /// Element `index` of a row of packed registers.
    fn element(self, registers: &[u32], index: usize) -> f32 {
        match self {
            Input::F16 | Input::Bf16 => self.value(registers[index / 2] >> (index % 2 * 16) & 0xffff),
            Input::Tf32 => self.value(registers[index]),
        }
    }
}

/// Row and column of the multiplicand A's element `i` of `lane`: `a0 .. a7` of 16 x 16, or `a0 .. a3` of 16 x 8.
pub fn a_position(input: Input, lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    match input {
        Input::F16 | Input::Bf16 => {
            // "row = groupID for ai where 0 <= i < 2 || 4 <= i < 6, groupID + 8 otherwise"
            let row = if i < 2 || (4..6).contains(&i) { group } else { group + 8 };
            // "col = (threadID_in_group * 2) + (i & 0x1) for ai where i < 4, + 8 where i >= 4"
            let col = thread * 2 + (i & 1) + if i < 4 { 0 } else { 8 };
            (row, col)
        }
        Input::Tf32 => {
            // "row = groupID for a0 and a2, groupID + 8 for a1 and a3; col = threadID_in_group for a0 and a1, + 4 ..."
            let row = if i == 0 || i == 2 { group } else { group + 8 };
            (row, if i < 2 { thread } else { thread + 4 })
        }
    }
}

/// Row (k) and column (n) of the multiplicand B's element `i` of `lane`.
pub fn b_position(input: Input, lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    match input {
        Input::F16 | Input::Bf16 => (thread * 2 + (i & 1) + if i < 2 { 0 } else { 8 }, group),
        Input::Tf32 => (if i == 0 { thread } else { thread + 4 }, group),
    }
}

/// Row and column of the accumulator's element `i` (`c0 .. c3`) of `lane`.
pub fn c_position(lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    (if i < 2 { group } else { group + 8 }, thread * 2 + (i & 1))
}

/// `d = a * b + d` of one warp.
pub fn mma(input: Input, a: &[[u32; 4]; 32], b: &[[u32; 2]; 32], d: &mut [[f32; 4]; 32]) {
    let (mut left, mut right) = ([[0f32; 16]; 16], [[0f32; 8]; 16]);
    let per_lane = if input == Input::Tf32 { 4 } else { 8 };
    for lane in 0..32 {
        for i in 0..per_lane {
            let (row, col) = a_position(input, lane, i);
            left[row][col] = input.element(&a[lane], i);
        }
        for i in 0..per_lane / 2 {
            let (row, col) = b_position(input, lane, i);
            right[row][col] = input.element(&b[lane], i);
        }
    }
    for (lane, sums) in d.iter_mut().enumerate() {
        for (i, sum) in sums.iter_mut().enumerate() {
            let (row, col) = c_position(lane, i);
            for k in 0..input.k() {
                *sum += left[row][k] * right[k][col];
            }
        }
    }
}
