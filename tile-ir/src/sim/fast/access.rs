//! Element accesses: addresses for all threads first, then the elements.
//!
//! Tensors behave as the guarded GPU code: beyond them reads give 0 and writes do nothing. A negative index is a fault
//! unless the access is masked, and so is, in shared and per-thread arrays, any that is outside.

use super::block::Machine;
use super::code::{ArrayInfo, ElementRef, Kind, Loc, MaskId, Target};
use super::launch::TensorView;
use super::state::{Operand, Registers, Scratch, Shared, State};
use crate::diag::{Code as DiagnosticCode, Diagnostic};
use crate::ir::{AtomicOp, Dtype, DtypeClass, FloatFormat};
use crate::sim::{Fault, numeric};
use std::sync::atomic::{Ordering, fence};

impl Machine<'_> {
    /// Loads for the threads of `mask`; the others get 0.
    pub(super) fn load(&self, s: &mut State, dst: Loc, from: &ElementRef, mask: MaskId) -> Result<(), Box<Fault>> {
        match from.target {
            Target::Tensor(index) => {
                let view = self.tensor(index);
                tensor_addresses(&s.registers, &mut s.scratch, view, from, &s.masks[mask.0 as usize].lanes);
                self.check_negative(s, from, mask)?;
                let Scratch { offsets, valid, bits, .. } = &mut s.scratch;
                view.memory.gather(view.dtype, view.offset, offsets, valid, bits);
                put_bits(&mut s.registers, view.dtype, dst, bits);
            }
            Target::Shared(index) => {
                let info = &self.code.shared[index as usize];
                self.array_addresses(s, info, from, mask)?;
                let Scratch { offsets, valid, .. } = &s.scratch;
                let Loc::Lanes(dst) = dst else { return Ok(()) };
                let dst = dst as usize;
                match &s.shared[index as usize] {
                    Shared::Floats(all) => gather(&mut s.registers.floats.lanes[dst], all, offsets, valid),
                    Shared::Ints(all) => gather(&mut s.registers.ints.lanes[dst], all, offsets, valid),
                    Shared::Bools(all) => gather(&mut s.registers.bools.lanes[dst], all, offsets, valid),
                }
            }
            Target::Local(index) => {
                let info = &self.code.locals[index as usize];
                let Loc::Lanes(dst) = dst else { return Ok(()) };
                let uniform = self.local_element(s, info, from, mask)?;
                if uniform.is_none() {
                    self.array_addresses(s, info, from, mask)?;
                }
                let (scratch, first) = (&s.scratch, info.first as usize);
                match Kind::of_dtype(info.dtype) {
                    Kind::Float => local_gather(&mut s.registers.floats.lanes, dst, first, uniform, scratch),
                    Kind::Int => local_gather(&mut s.registers.ints.lanes, dst, first, uniform, scratch),
                    Kind::Index => local_gather(&mut s.registers.indices.lanes, dst, first, uniform, scratch),
                    Kind::Bool => local_gather(&mut s.registers.bools.lanes, dst, first, uniform, scratch),
                }
            }
        }
        Ok(())
    }

    /// Stores for the threads of `mask`, in linear thread order.
    pub(super) fn store(&self, s: &mut State, to: &ElementRef, value: Loc, mask: MaskId) -> Result<(), Box<Fault>> {
        match to.target {
            Target::Tensor(index) => {
                let view = self.tensor(index);
                tensor_addresses(&s.registers, &mut s.scratch, view, to, &s.masks[mask.0 as usize].lanes);
                self.check_negative(s, to, mask)?;
                get_bits(&s.registers, view.dtype, value, &mut s.scratch.bits);
                let Scratch { offsets, valid, bits, .. } = &s.scratch;
                view.memory.scatter(view.dtype, view.offset, offsets, valid, bits);
            }
            Target::Shared(index) => {
                let info = &self.code.shared[index as usize];
                self.array_addresses(s, info, to, mask)?;
                let Scratch { offsets, valid, .. } = &s.scratch;
                let registers = &s.registers;
                match &mut s.shared[index as usize] {
                    Shared::Floats(all) => scatter(all, registers.floats.operand(value), offsets, valid),
                    Shared::Ints(all) => scatter(all, registers.ints.operand(value), offsets, valid),
                    Shared::Bools(all) => scatter(all, registers.bools.operand(value), offsets, valid),
                }
            }
            Target::Local(index) => {
                let info = &self.code.locals[index as usize];
                // One element for all threads is a register; the compiler of the bytecode knows nothing of this, and
                // the value stays usable, so it is copied rather than taken.
                let uniform = self.local_element(s, info, to, mask)?;
                if uniform.is_none() {
                    self.array_addresses(s, info, to, mask)?;
                }
                let (first, active) = (info.first as usize, &s.masks[mask.0 as usize]);
                let full = active.count == s.lanes;
                let scratch = &s.scratch;
                macro_rules! put {
                    ($file:ident) => {
                        match uniform {
                            Some(element) => {
                                set(&mut s.registers.$file, Loc::Lanes((first + element) as u32), value, active, full)
                            }
                            None => local_scatter(&mut s.registers.$file, first, value, scratch),
                        }
                    };
                }
                match Kind::of_dtype(info.dtype) {
                    Kind::Float => put!(floats),
                    Kind::Int => put!(ints),
                    Kind::Index => put!(indices),
                    Kind::Bool => put!(bools),
                }
            }
        }
        Ok(())
    }

    /// The block arrives once; the last of `count` puts the counter back.
    pub(super) fn last_arriver(&self, s: &mut State, to: &ElementRef, count: Loc, dst: u32, mask: MaskId) {
        let Target::Tensor(index) = to.target else { return };
        let view = self.tensor(index);
        tensor_addresses(&s.registers, &mut s.scratch, view, to, &s.masks[mask.0 as usize].lanes);
        let count = s.registers.indices.operand(count).at(0);
        let (offset, valid) = (s.scratch.offsets[0], s.scratch.valid[0]);
        // Blocks run at the same time: what this one wrote is there before it is counted, and the last one reads after.
        fence(Ordering::SeqCst);
        let last = valid && {
            let address = view.offset.wrapping_add_signed(offset as isize * view.dtype.bytes() as isize);
            let last = i64::from(view.memory.update(address, |old| old.wrapping_add(1)).wrapping_add(1)) == count;
            if last {
                view.memory.store(address, view.dtype, 0);
            }
            last
        };
        fence(Ordering::SeqCst);
        s.registers.bools.lanes[dst as usize].fill(last);
    }

    /// Read-modify-write of one element for each thread of `mask`, in linear thread order.
    pub(super) fn atomic(
        &self,
        s: &mut State,
        op: AtomicOp,
        to: &ElementRef,
        value: Loc,
        old: Option<Loc>,
        mask: MaskId,
    ) -> Result<(), Box<Fault>> {
        let dtype = match to.target {
            Target::Tensor(index) => {
                let view = self.tensor(index);
                tensor_addresses(&s.registers, &mut s.scratch, view, to, &s.masks[mask.0 as usize].lanes);
                self.check_negative(s, to, mask)?;
                view.dtype
            }
            Target::Shared(index) => {
                let info = &self.code.shared[index as usize];
                self.array_addresses(s, info, to, mask)?;
                info.dtype
            }
            Target::Local(_) => return Ok(()),
        };
        get_bits(&s.registers, dtype, value, &mut s.scratch.bits);
        let Scratch { offsets, valid, bits, .. } = &mut s.scratch;
        for ((operand, offset), valid) in bits.iter_mut().zip(offsets.iter()).zip(valid.iter()) {
            let operand_bits = *operand;
            *operand = match (valid, to.target) {
                (true, Target::Tensor(index)) => {
                    let view = self.tensor(index);
                    let address = view.offset.wrapping_add_signed(*offset as isize * dtype.bytes() as isize);
                    view.memory.update(address, |old| numeric::atomic(op, dtype, old, operand_bits))
                }
                (true, Target::Shared(index)) => {
                    let (array, element) = (&mut s.shared[index as usize], *offset as usize);
                    let old = array.bits(dtype, element);
                    array.set_bits(dtype, element, numeric::atomic(op, dtype, old, operand_bits));
                    old
                }
                _ => 0,
            };
        }
        if let Some(old) = old {
            // The old value is a variable: threads outside the mask keep theirs.
            let Scratch { bits, .. } = &s.scratch;
            let active = &s.masks[mask.0 as usize].lanes;
            merge_bits(&mut s.registers, dtype, old, bits, active);
        }
        Ok(())
    }

    /// A plain access to a tensor at a negative index is a mistake; beyond its end the guard that the compiler adds drops it.
    fn check_negative(&self, s: &State, access: &ElementRef, mask: MaskId) -> Result<(), Box<Fault>> {
        let active = &s.masks[mask.0 as usize].lanes;
        if access.masked || *s.scratch.valid == **active {
            return Ok(());
        }
        for lane in (0..s.lanes).filter(|lane| active[*lane]) {
            for (axis, loc) in access.indices.iter().enumerate() {
                let index = s.registers.indices.operand(*loc).at(lane);
                if index < 0 {
                    return Err(self.negative(s, access, axis, index, lane));
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn negative(&self, s: &State, access: &ElementRef, axis: usize, index: i64, lane: usize) -> Box<Fault> {
        let message = format!("index is negative: {index} on axis {axis}");
        let help = "guard the access with an `if` on its indices";
        self.fault(s, lane, Diagnostic::new(DiagnosticCode::INDEX_OVERFLOW, access.span, message).help(help))
    }

    /// The element of a per-thread array where every thread uses the same one.
    fn local_element(
        &self,
        s: &State,
        info: &ArrayInfo,
        access: &ElementRef,
        mask: MaskId,
    ) -> Result<Option<usize>, Box<Fault>> {
        let mut element = 0i64;
        for (axis, (loc, extent)) in access.indices.iter().zip(&info.extents).enumerate() {
            let Loc::Scalar(_) = loc else { return Ok(None) };
            let index = s.registers.indices.scalar(*loc);
            if !(0..*extent).contains(&index) {
                let active = s.mask(mask).lanes.iter().position(|a| *a);
                // No thread does it: no element of it matters.
                let Some(lane) = active else { return Ok(Some(0)) };
                return Err(self.out_of_bounds(s, info, access, axis, index, lane));
            }
            element = element * extent + index;
        }
        Ok(Some(element as usize))
    }

    /// Fills the scratch with each active thread's element of an array.
    fn array_addresses(
        &self,
        s: &mut State,
        info: &ArrayInfo,
        access: &ElementRef,
        mask: MaskId,
    ) -> Result<(), Box<Fault>> {
        s.scratch.valid.copy_from_slice(&s.masks[mask.0 as usize].lanes);
        s.scratch.offsets.fill(0);
        let mut inside = true;
        for (loc, &extent) in access.indices.iter().zip(&info.extents) {
            let index = s.registers.indices.operand(*loc);
            let rows = s.scratch.offsets.iter_mut().zip(&s.scratch.valid).enumerate();
            for (lane, (offset, active)) in rows {
                let index = index.at(lane);
                inside &= !*active | ((index as u64) < extent as u64);
                *offset = offset.wrapping_mul(extent).wrapping_add(index);
            }
        }
        if inside { Ok(()) } else { Err(self.array_fault(s, info, access, mask)) }
    }

    /// The first active thread outside an array.
    fn array_fault(&self, s: &State, info: &ArrayInfo, access: &ElementRef, mask: MaskId) -> Box<Fault> {
        let active = &s.mask(mask).lanes;
        for lane in (0..s.lanes).filter(|l| active[*l]) {
            for (axis, (loc, &extent)) in access.indices.iter().zip(&info.extents).enumerate() {
                let index = s.registers.indices.operand(*loc).at(lane);
                if !(0..extent).contains(&index) {
                    return self.out_of_bounds(s, info, access, axis, index, lane);
                }
            }
        }
        self.fault(s, 0, Diagnostic::new(DiagnosticCode::OUT_OF_BOUNDS, access.span, "index out of bounds"))
    }

    fn out_of_bounds(
        &self,
        s: &State,
        info: &ArrayInfo,
        access: &ElementRef,
        axis: usize,
        index: i64,
        lane: usize,
    ) -> Box<Fault> {
        if index < 0 {
            return self.negative(s, access, axis, index, lane);
        }
        let what = if matches!(access.target, Target::Shared(_)) { "shared" } else { "local" };
        let message = format!("{what} index out of bounds: axis {axis} of `{}` is {index}", info.name);
        let at = format!("`{}` has extent {} on axis {axis}", info.name, info.extents[axis]);
        self.fault(s, lane, Diagnostic::new(DiagnosticCode::OUT_OF_BOUNDS, access.span, message).at(at))
    }
}

/// Fills the scratch with each active thread's offset from the tensor's element 0, and whether it is inside.
fn tensor_addresses(
    registers: &Registers,
    scratch: &mut Scratch,
    view: &TensorView<'_>,
    access: &ElementRef,
    active: &[bool],
) {
    scratch.valid.copy_from_slice(active);
    let mut base = 0i64;
    let mut inside = true;
    // What is uniform is added once.
    for ((loc, &extent), &stride) in access.indices.iter().zip(&view.shape).zip(&view.strides) {
        if let Loc::Scalar(_) = loc {
            let index = registers.indices.scalar(*loc);
            inside &= (index as u64) < extent as u64;
            base = base.wrapping_add(index.wrapping_mul(stride));
        }
    }
    if !inside {
        scratch.valid.fill(false);
        return;
    }
    scratch.offsets.fill(base);
    for ((loc, &extent), &stride) in access.indices.iter().zip(&view.shape).zip(&view.strides) {
        let Operand::Lanes(indices) = registers.indices.operand(*loc) else { continue };
        let rows = scratch.offsets.iter_mut().zip(scratch.valid.iter_mut()).zip(indices);
        if stride == 1 {
            for ((offset, valid), &index) in rows {
                *valid &= (index as u64) < extent as u64;
                *offset = offset.wrapping_add(index);
            }
        } else {
            for ((offset, valid), &index) in rows {
                *valid &= (index as u64) < extent as u64;
                *offset = offset.wrapping_add(index.wrapping_mul(stride));
            }
        }
    }
}

/// A variable's new value for the threads of `mask`.
pub(super) fn set<T: Copy + Default>(
    file: &mut super::state::File<T>,
    dst: Loc,
    src: Loc,
    mask: &super::state::Mask,
    full: bool,
) {
    match (dst, src) {
        (Loc::Scalar(dst), src) => file.scalars[dst as usize] = file.scalar(src),
        (Loc::Lanes(dst), src) => {
            let mut row = std::mem::take(&mut file.lanes[dst as usize]);
            match file.operand(src) {
                // The row itself, taken: nothing changes.
                Operand::Lanes([]) => {}
                Operand::Lanes(values) if full => row.copy_from_slice(values),
                Operand::Scalar(value) if full => row.fill(value),
                values => {
                    for (lane, (own, active)) in row.iter_mut().zip(&mask.lanes).enumerate() {
                        if *active {
                            *own = values.at(lane);
                        }
                    }
                }
            }
            file.lanes[dst as usize] = row;
        }
    }
}

fn gather<T: Copy + Default>(out: &mut [T], all: &[T], offsets: &[i64], valid: &[bool]) {
    for ((out, offset), valid) in out.iter_mut().zip(offsets).zip(valid) {
        *out = if *valid { all[*offset as usize] } else { T::default() };
    }
}

fn scatter<T: Copy>(all: &mut [T], values: Operand<'_, T>, offsets: &[i64], valid: &[bool]) {
    for (lane, (offset, valid)) in offsets.iter().zip(valid).enumerate() {
        if *valid {
            all[*offset as usize] = values.at(lane);
        }
    }
}

fn local_gather<T: Copy + Default>(
    rows: &mut [Box<[T]>],
    dst: u32,
    first: usize,
    uniform: Option<usize>,
    scratch: &Scratch,
) {
    let mut out = std::mem::take(&mut rows[dst as usize]);
    match uniform {
        Some(element) => out.copy_from_slice(&rows[first + element]),
        None => {
            for (lane, out) in out.iter_mut().enumerate() {
                let element = if scratch.valid[lane] { scratch.offsets[lane] as usize } else { 0 };
                *out = rows[first + element][lane];
            }
        }
    }
    rows[dst as usize] = out;
}

fn local_scatter<T: Copy + Default>(file: &mut super::state::File<T>, first: usize, value: Loc, scratch: &Scratch) {
    for (lane, (offset, valid)) in scratch.offsets.iter().zip(&scratch.valid).enumerate() {
        if *valid {
            let value = file.operand(value).at(lane);
            file.lanes[first + *offset as usize][lane] = value;
        }
    }
}

/// Bits into a register.
fn put_bits(registers: &mut Registers, dtype: Dtype, dst: Loc, bits: &[u32]) {
    let Loc::Lanes(dst) = dst else { return };
    let dst = dst as usize;
    let floats = |lane: &mut [f32], f: fn(u32) -> f32| lane.iter_mut().zip(bits).for_each(|(d, b)| *d = f(*b));
    match dtype.class() {
        DtypeClass::Bool => registers.bools.lanes[dst].iter_mut().zip(bits).for_each(|(d, b)| *d = *b != 0),
        DtypeClass::Int(_) => registers.ints.lanes[dst].copy_from_slice(bits),
        // One loop a format: each `f` is inlined.
        DtypeClass::Float(FloatFormat::Binary16) => {
            floats(&mut registers.floats.lanes[dst], |b| numeric::decode(Dtype::F16, b))
        }
        DtypeClass::Float(FloatFormat::Bfloat16) => {
            floats(&mut registers.floats.lanes[dst], |b| numeric::decode(Dtype::Bf16, b))
        }
        DtypeClass::Float(FloatFormat::Binary32) => floats(&mut registers.floats.lanes[dst], f32::from_bits),
    }
}

/// Bits into a register, for the active threads.
fn merge_bits(registers: &mut Registers, dtype: Dtype, dst: Loc, bits: &[u32], active: &[bool]) {
    let Loc::Lanes(dst) = dst else { return };
    let dst = dst as usize;
    for (lane, (bits, _)) in bits.iter().zip(active).enumerate().filter(|(_, (_, active))| **active) {
        match dtype.class() {
            DtypeClass::Bool => registers.bools.lanes[dst][lane] = *bits != 0,
            DtypeClass::Int(_) => registers.ints.lanes[dst][lane] = *bits,
            DtypeClass::Float(_) => registers.floats.lanes[dst][lane] = numeric::decode(dtype, *bits),
        }
    }
}

/// A register's bits.
fn get_bits(registers: &Registers, dtype: Dtype, src: Loc, bits: &mut [u32]) {
    match dtype.class() {
        DtypeClass::Bool => {
            let values = registers.bools.operand(src);
            bits.iter_mut().enumerate().for_each(|(lane, b)| *b = u32::from(values.at(lane)));
        }
        DtypeClass::Int(_) => {
            let values = registers.ints.operand(src);
            bits.iter_mut().enumerate().for_each(|(lane, b)| *b = values.at(lane));
        }
        DtypeClass::Float(_) => {
            let values = registers.floats.operand(src);
            bits.iter_mut().enumerate().for_each(|(lane, b)| *b = numeric::encode(dtype, values.at(lane)));
        }
    }
}
