//! A block's state: register files, masks, shared arrays. One a host thread, reused from block to block.

use super::code::{Code, FileSize, Kind, Loc, MaskId};
use crate::ir::Dtype;
use crate::sim::{Stop, numeric};
use std::mem;

/// One register file: values a thread, and values a block.
#[derive(Debug, Default)]
pub(super) struct File<T> {
    pub(super) lanes: Vec<Box<[T]>>,
    pub(super) scalars: Vec<T>,
}

/// An operand, found.
#[derive(Clone, Copy)]
pub(super) enum Operand<'a, T> {
    Lanes(&'a [T]),
    Scalar(T),
}

impl<T: Copy> Operand<'_, T> {
    /// The value of thread `lane`.
    #[inline(always)]
    pub(super) fn at(&self, lane: usize) -> T {
        match self {
            Operand::Lanes(values) => values[lane],
            Operand::Scalar(value) => *value,
        }
    }
}

impl<T: Copy + Default> File<T> {
    fn new(size: &FileSize<T>, lanes: usize) -> Self {
        let row = || vec![T::default(); lanes].into_boxed_slice();
        File { lanes: (0..size.lanes).map(|_| row()).collect(), scalars: size.scalars.clone() }
    }

    #[inline(always)]
    pub(super) fn operand(&self, loc: Loc) -> Operand<'_, T> {
        match loc {
            Loc::Lanes(register) => Operand::Lanes(&self.lanes[register as usize]),
            Loc::Scalar(scalar) => Operand::Scalar(self.scalars[scalar as usize]),
        }
    }

    /// A uniform value; of a register, thread 0's.
    #[inline(always)]
    pub(super) fn scalar(&self, loc: Loc) -> T {
        self.operand(loc).at(0)
    }
}

/// The register files.
#[derive(Debug)]
pub(super) struct Registers {
    pub(super) floats: File<f32>,
    pub(super) ints: File<u32>,
    pub(super) indices: File<i64>,
    pub(super) bools: File<bool>,
}

/// A type that a register file holds.
pub(super) trait Lane: Copy + Default {
    fn file(registers: &Registers) -> &File<Self>;
    fn file_mut(registers: &mut Registers) -> &mut File<Self>;
}

macro_rules! lane {
    ($($ty:ty => $field:ident),*) => {$(
        impl Lane for $ty {
            #[inline(always)]
            fn file(registers: &Registers) -> &File<Self> { &registers.$field }
            #[inline(always)]
            fn file_mut(registers: &mut Registers) -> &mut File<Self> { &mut registers.$field }
        }
    )*};
}
lane!(f32 => floats, u32 => ints, i64 => indices, bool => bools);

/// A set of threads.
#[derive(Debug)]
pub(super) struct Mask {
    pub(super) lanes: Box<[bool]>,
    /// How many are in it.
    pub(super) count: usize,
}

/// The elements of a shared array, by kind; `usize` arrays do not exist.
#[derive(Debug)]
pub(super) enum Shared {
    Floats(Vec<f32>),
    Ints(Vec<u32>),
    Bools(Vec<bool>),
}

impl Shared {
    fn new(dtype: Dtype, len: usize) -> Shared {
        match Kind::of_dtype(dtype) {
            Kind::Float => Shared::Floats(vec![0.0; len]),
            Kind::Int | Kind::Index => Shared::Ints(vec![0; len]),
            Kind::Bool => Shared::Bools(vec![false; len]),
        }
    }

    pub(super) fn clear(&mut self) {
        match self {
            Shared::Floats(all) => all.fill(0.0),
            Shared::Ints(all) => all.fill(0),
            Shared::Bools(all) => all.fill(false),
        }
    }

    /// The bits of an element.
    pub(super) fn bits(&self, dtype: Dtype, element: usize) -> u32 {
        match self {
            Shared::Floats(all) => numeric::encode(dtype, all[element]),
            Shared::Ints(all) => all[element],
            Shared::Bools(all) => u32::from(all[element]),
        }
    }

    pub(super) fn set_bits(&mut self, dtype: Dtype, element: usize, bits: u32) {
        match self {
            Shared::Floats(all) => all[element] = numeric::decode(dtype, bits),
            Shared::Ints(all) => all[element] = bits,
            Shared::Bools(all) => all[element] = bits != 0,
        }
    }
}

/// Room for addresses, so that no statement allocates.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Offset in elements, by thread; meaningful where `valid`.
    pub(super) offsets: Box<[i64]>,
    pub(super) valid: Box<[bool]>,
    pub(super) bits: Box<[u32]>,
    /// The operands of a product of tiles, as they are multiplied.
    pub(super) left: Vec<f32>,
    pub(super) right: Vec<f32>,
}

/// A block's state.
#[derive(Debug)]
pub(super) struct State {
    pub(super) lanes: usize,
    pub(super) registers: Registers,
    pub(super) masks: Vec<Mask>,
    pub(super) shared: Vec<Shared>,
    pub(super) scratch: Scratch,
    /// The block being executed.
    pub(super) block: [u32; 3],
    /// Lines printed by the block, each with its thread.
    pub(super) printed: Vec<(usize, String)>,
    /// Lines of the block beyond the limit.
    pub(super) unprinted: u64,
    /// The other blocks of its cluster, where they combine tiles.
    pub(super) others: Vec<State>,
    /// Steps that it may take before it asks the launch for more.
    pub(super) steps: u64,
    /// Why the launch gave it none.
    pub(super) stopped: Option<Stop>,
}

impl State {
    pub(super) fn new(code: &Code, threads: [u32; 3]) -> State {
        let lanes = threads.iter().map(|t| *t as usize).product();
        let mut registers = Registers {
            floats: File::new(&code.floats, lanes),
            ints: File::new(&code.ints, lanes),
            indices: File::new(&code.indices, lanes),
            bools: File::new(&code.bools, lanes),
        };
        for &(axis, register) in &code.thread_vars {
            for lane in 0..lanes {
                registers.indices.lanes[register as usize][lane] =
                    i64::from(coordinates(threads, lane)[usize::from(axis).min(2)]);
            }
        }
        let mut masks: Vec<Mask> =
            (0..code.masks).map(|_| Mask { lanes: vec![false; lanes].into_boxed_slice(), count: 0 }).collect();
        if let Some(all) = masks.first_mut() {
            all.lanes.fill(true);
            all.count = lanes;
        }
        let shared = code.shared.iter().map(|a| Shared::new(a.dtype, a.len as usize)).collect();
        let scratch = Scratch {
            offsets: vec![0; lanes].into_boxed_slice(),
            valid: vec![false; lanes].into_boxed_slice(),
            bits: vec![0; lanes].into_boxed_slice(),
            ..Scratch::default()
        };
        let (printed, others) = (Vec::new(), Vec::new());
        let block = [0; 3];
        State {
            lanes,
            registers,
            masks,
            shared,
            scratch,
            block,
            printed,
            unprinted: 0,
            others,
            steps: 0,
            stopped: None,
        }
    }

    /// Makes `block` the current block. Arrays and variables are cleared where they are declared.
    pub(super) fn enter(&mut self, code: &Code, block: [u32; 3]) {
        self.block = block;
        for &(axis, scalar) in &code.block_vars {
            self.registers.indices.scalars[scalar as usize] = i64::from(block[usize::from(axis).min(2)]);
        }
        self.printed.clear();
        self.unprinted = 0;
    }

    pub(super) fn mask(&self, mask: MaskId) -> &Mask {
        &self.masks[mask.0 as usize]
    }

    /// Whether every thread is in `mask`.
    pub(super) fn is_full(&self, mask: MaskId) -> bool {
        self.mask(mask).count == self.lanes
    }

    /// `dst` = the threads of `parent` where `keep` holds. Returns how many.
    pub(super) fn set_mask(&mut self, dst: MaskId, parent: MaskId, keep: impl Fn(&Registers, usize) -> bool) -> usize {
        let mut lanes = mem::take(&mut self.masks[dst.0 as usize].lanes);
        let outer = &self.masks[parent.0 as usize];
        let mut count = 0;
        for (lane, (own, outer)) in lanes.iter_mut().zip(&outer.lanes).enumerate() {
            *own = *outer && keep(&self.registers, lane);
            count += usize::from(*own);
        }
        self.masks[dst.0 as usize] = Mask { lanes, count };
        count
    }
}

/// The coordinates of item `linear` in a box of these extents, x fastest.
pub(super) fn coordinates(extents: [u32; 3], linear: usize) -> [u32; 3] {
    let [x, y, _] = extents.map(|e| e.max(1) as usize);
    [(linear % x) as u32, (linear / x % y) as u32, (linear / (x * y)) as u32]
}
