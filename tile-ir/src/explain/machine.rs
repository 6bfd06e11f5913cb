//! The devices' figures: what a report compares a kernel with.
//!
//! Peaks are **dense**. NVIDIA's tables give Hopper's tensor cores with 2:4 sparsity (1,979 TFLOP/s in f16), twice what a
//! dense product can reach; a roofline crossover computed from that is twice the true one.

use crate::ir::{Dtype, DtypeClass, FloatFormat, Target};

/// A device's figures. Sources: NVIDIA's datasheets of the A100, H100 and H200 (SXM); CUDA C++ Programming Guide,
/// "Compute Capabilities".
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// What it is called.
    pub name: &'static str,
    /// The code it runs best.
    pub target: Target,
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Bytes a second of device memory.
    pub bandwidth: f64,
    /// f32 FLOP/s of the CUDA cores, a multiply-add being two.
    pub f32_flops: f64,
    /// Dense FLOP/s of the tensor cores in f16 and bf16.
    pub half_flops: f64,
    /// Dense FLOP/s of the tensor cores in tf32, which is what they make of f32.
    pub tf32_flops: f64,
    /// What a multiprocessor holds.
    pub limits: Limits,
}

/// What one multiprocessor holds at a time, and in which portions it is given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Threads.
    pub threads: u32,
    /// Warps.
    pub warps: u32,
    /// Blocks.
    pub blocks: u32,
    /// 32-bit registers.
    pub registers: u32,
    /// Registers are given to a warp in multiples of this.
    pub register_unit: u32,
    /// Most registers of a thread.
    pub thread_registers: u32,
    /// Parts of a multiprocessor, among which warps and registers are divided.
    pub partitions: u32,
    /// Bytes of shared memory.
    pub shared: u32,
    /// Shared memory is given to a block in multiples of this many bytes.
    pub shared_unit: u32,
    /// Bytes of a block's shared memory that the system keeps.
    pub shared_reserved: u32,
}

impl Limits {
    /// sm_80. The units are those of `cuda_occupancy.h`.
    pub const SM80: Limits = Limits {
        threads: 2048,
        warps: 64,
        blocks: 32,
        registers: 65_536,
        register_unit: 256,
        thread_registers: 255,
        partitions: 4,
        shared: 164 << 10,
        shared_unit: 128,
        shared_reserved: 1 << 10,
    };
    /// sm_90: as sm_80, with 228 KiB of shared memory.
    pub const SM90: Limits = Limits { shared: 228 << 10, ..Limits::SM80 };
}

impl Machine {
    /// H200 SXM: an H100 with more and faster memory.
    pub const H200: Machine = Machine { name: "H200 SXM", bandwidth: 4.8e12, ..Machine::H100 };
    /// H100 SXM.
    pub const H100: Machine = Machine {
        name: "H100 SXM",
        target: Target::Sm90a,
        sms: 132,
        bandwidth: 3.35e12,
        f32_flops: 66.9e12,
        half_flops: 989.4e12,
        tf32_flops: 494.7e12,
        limits: Limits::SM90,
    };
    /// A100 SXM with 80 GB.
    pub const A100: Machine = Machine {
        name: "A100 SXM 80GB",
        target: Target::Sm80,
        sms: 108,
        bandwidth: 2.039e12,
        f32_flops: 19.5e12,
        half_flops: 312e12,
        tf32_flops: 156e12,
        limits: Limits::SM80,
    };
    /// Every device of the table.
    pub const ALL: [Machine; 3] = [Machine::H200, Machine::H100, Machine::A100];

    /// The device of the table whose name is part of `name`, as the driver gives it ("NVIDIA H200"), or the other way
    /// round.
    pub fn named(name: &str) -> Option<Machine> {
        let wanted = name.to_ascii_uppercase();
        Machine::ALL.into_iter().find(|m| m.name.split(' ').next().is_some_and(|short| wanted.contains(short)))
    }

    /// The device a target is reported for where none is named.
    pub const fn of(target: Target) -> Machine {
        match target {
            Target::Sm80 => Machine::A100,
            Target::Sm90a => Machine::H200,
        }
    }

    /// The dense peak of the tensor cores for operands of this type, in FLOP/s; for integers, which this language
    /// gives to no tensor core, the CUDA cores'.
    pub const fn dense_flops(&self, dtype: Dtype) -> f64 {
        match dtype.class() {
            DtypeClass::Float(FloatFormat::Binary16 | FloatFormat::Bfloat16) => self.half_flops,
            DtypeClass::Float(FloatFormat::Binary32) => self.tf32_flops,
            DtypeClass::Bool | DtypeClass::Int(_) => self.f32_flops,
        }
    }

    /// FLOPs per byte at which a peak of `flops` takes as long as the memory.
    pub const fn crossover(&self, flops: f64) -> f64 {
        flops / self.bandwidth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crossovers_are_half_of_those_of_the_sparse_figure() {
        // Seed 000 gives ~591 and ~412 for Hopper from 1,979 TFLOP/s, and ~156 for the A100 from a dense figure.
        let of = |m: Machine| m.crossover(m.dense_flops(Dtype::F16)).round();
        assert_eq!([Machine::H100, Machine::H200, Machine::A100].map(of), [295.0, 206.0, 153.0]);
    }

    #[test]
    fn the_drivers_names_are_found() {
        assert_eq!(Machine::named("NVIDIA H200"), Some(Machine::H200));
        assert_eq!(Machine::named("NVIDIA A100-SXM4-80GB"), Some(Machine::A100));
        assert_eq!(Machine::named("h100"), Some(Machine::H100));
        assert_eq!(Machine::named("NVIDIA L4"), None);
    }
}
