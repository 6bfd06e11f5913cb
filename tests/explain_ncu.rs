//! `explain` against what Nsight Compute counted on an H200 for the launches that `gemv` makes by default:
//!
//! ```console
//! $ ncu -c 1 --clock-control none --section Occupancy --metrics l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum,\
//!   l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum,launch__registers_per_thread target/release/examples/gemv --n 4096 --k 4096
//! ```
//!
//! Requests and sectors need nothing; registers and the blocks that follow from them need NVRTC, without which the test says
//! so.

use tile_ir::explain::{AccessKind, Machine};
use tile_kernels::gemv::specialized::gemv_specialized;
use tile_runtime::kernel::{Dtype, Target, explain};
use tile_runtime::prelude::*;

/// A launch, and what was counted: requests and sectors of its global loads, registers a thread, blocks and warps that a
/// multiprocessor holds. NVRTC 13.0.88, driver 580.
struct Counted {
    dtype: Dtype,
    /// Warps, rows, groups, loads, stages, elements a load.
    consts: [i64; 6],
    extents: [i64; 2],
    requests: f64,
    sectors: f64,
    registers: u32,
    blocks: u32,
    warps: u32,
}

const LAUNCHES: [Counted; 3] = [
    Counted {
        dtype: Dtype::F16,
        consts: [8, 1, 1, 2, 1, 8],
        extents: [4096, 4096],
        requests: 131_072.0,
        sectors: 2_097_152.0,
        registers: 32,
        blocks: 8,
        warps: 64,
    },
    Counted {
        dtype: Dtype::Bf16,
        consts: [2, 1, 2, 4, 1, 8],
        extents: [1024, 1024],
        requests: 8_192.0,
        sectors: 131_072.0,
        registers: 32,
        blocks: 16,
        warps: 64,
    },
    Counted {
        dtype: Dtype::F32,
        consts: [8, 1, 1, 2, 1, 4],
        extents: [4096, 4096],
        requests: 262_144.0,
        sectors: 4_194_304.0,
        registers: 40,
        blocks: 6,
        warps: 48,
    },
];

#[test]
fn explain_counts_what_ncu_counts() {
    let definition = gemv_specialized::<f16>::definition();
    let instances = &definition.kernel().unwrap().instances;
    for launch in LAUNCHES {
        let wanted = |i: &tile_ir::ir::Instance| i.dtypes == [launch.dtype] && i.consts == launch.consts;
        let index = instances.iter().position(wanted).expect("a declared instance");
        let [n, k] = launch.extents.map(|extent| extent as f64);
        let values = [("N", n), ("K", k), ("alpha", 1.0), ("beta", 0.0)];
        let explained = explain(definition, index, Target::Sm90a, &Machine::H200, &values).unwrap();
        let report = &explained.report;
        let loads = || report.accesses.iter().filter(|a| a.global && a.kind == AccessKind::Load);
        let name = format!("{} {n} x {k}", launch.dtype);
        assert_eq!(loads().map(|a| a.requests).sum::<f64>(), launch.requests, "{name}: requests\n{report}");
        assert_eq!(loads().map(|a| a.requests * a.found).sum::<f64>(), launch.sectors, "{name}: sectors\n{report}");
        match &report.resources {
            Some(found) => {
                assert_eq!(found.registers, launch.registers, "{name}: registers\n{report}");
                let held = (report.occupancy.blocks, report.occupancy.warps);
                assert_eq!(held, (launch.blocks, launch.warps), "{name}: blocks and warps\n{report}");
            }
            None => eprintln!("explain_ncu: registers not compared: {explained}"),
        }
    }
}
