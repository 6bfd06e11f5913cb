//! The nearest valid neighbour of every kernel in `tests/ui` that must not compile: all of these must, and without a
//! warning.
#![deny(warnings)]
#![allow(dead_code)]

/// One module a kernel: `tests/ui/valid/NAME.rs` beside `tests/ui/NAME.rs`.
#[path = "ui/valid"]
mod valid {
    mod attribute_lint_level;
    mod attribute_no_values;
    mod attribute_pdl;
    mod attribute_specialize;
    mod attribute_stream;
    mod attribute_tuple_length;
    mod attribute_unknown;
    mod barrier_collective_in_if;
    mod barrier_in_if;
    mod barrier_pipelined;
    mod bounds_fixed;
    mod bounds_local;
    mod bounds_shared;
    mod budget_shared;
    mod budget_shared_instance;
    mod budget_stages;
    mod call_arguments;
    mod call_reduce_operator;
    mod call_stages;
    mod cluster_size;
    mod constant_extent;
    mod constant_threads;
    mod constant_unroll;
    mod copy_shape;
    mod dim_not_a_tuple;
    mod dim_rank;
    mod dim_type;
    mod dtype_atomic;
    mod dtype_unbounded;
    mod dtype_unknown;
    mod fragment_copy;
    mod fragment_element;
    mod fragment_loop;
    mod gemm_shape;
    mod gemv;
    mod index_rank;
    mod launch_dtype;
    mod launch_instance;
    mod launch_instance_dtype;
    mod launch_missing_argument;
    mod launch_output_shared;
    mod launch_rank;
    mod launch_scalar;
    mod placement_blocks_twice;
    mod placement_collective_in_condition;
    mod placement_gemm_load;
    mod placement_persistent;
    mod placement_pipelined;
    mod placement_pipelined_copy;
    mod placement_pipelined_moving;
    mod placement_vectorized_body;
    mod race_global;
    mod race_in_loop;
    mod race_missing_barrier;
    mod race_same_element;
    mod rustc_input_written;
    mod rustc_rank;
    mod rustc_types;
    mod rustc_unknown_name;
    mod specialize_constant;
    mod stub_uses;
    mod syntax_by_value;
    mod syntax_closure;
    mod syntax_macro;
    mod syntax_match;
    mod syntax_return;
    mod syntax_return_type;
    mod syntax_while;
    mod threads_too_many;
    mod threads_zero;
    mod vector_shared_pitch;
    mod vector_straddle;
    mod vector_stride;
    mod vector_unaligned;
    mod vector_width;
}
