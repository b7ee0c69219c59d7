//! Disables bashkit's own limits. The sandbox limits time, memory, output and depth, and reports
//! each limit that is hit.

use std::time::Duration;

use bashkit::{ExecutionLimits, MemoryLimits, SessionLimits};

/// The deepest nesting of function calls. It is low enough for the stack, so that deeper recursion
/// ends with an error, as in bash.
const FUNCTION_DEPTH: usize = 1_000;

pub(crate) fn execution() -> ExecutionLimits {
    ExecutionLimits {
        max_work_units: u64::MAX,
        max_aggregate_input_bytes: u64::MAX,
        max_live_intermediate_bytes: u64::MAX,
        max_commands: usize::MAX,
        max_loop_iterations: usize::MAX,
        max_total_loop_iterations: usize::MAX,
        max_function_depth: FUNCTION_DEPTH,
        timeout: Duration::MAX,
        parser_timeout: Duration::MAX,
        max_input_bytes: usize::MAX,
        max_ast_depth: 100,
        max_parser_operations: usize::MAX,
        // Half of the maximum: the counters are compared after adding, which must not overflow.
        max_stdout_bytes: usize::MAX / 2,
        max_stderr_bytes: usize::MAX / 2,
        max_subst_depth: 100,
        max_subshell_depth: 100,
        max_file_descriptors: 1 << 20,
        max_history_entries: 0,
        max_history_bytes: 0,
        max_history_output_bytes: 1 << 20,
        max_word_split_fields: usize::MAX / 2,
        max_word_split_bytes: usize::MAX / 2,
        max_background_jobs: 1 << 16,
        capture_final_env: false,
    }
}

pub(crate) fn session() -> SessionLimits {
    SessionLimits { max_total_commands: u64::MAX, max_exec_calls: u64::MAX }
}

pub(crate) fn memory() -> MemoryLimits {
    MemoryLimits {
        max_variable_count: usize::MAX / 2,
        max_total_variable_bytes: usize::MAX / 2,
        max_array_entries: usize::MAX / 2,
        max_function_count: usize::MAX / 2,
        max_function_body_bytes: usize::MAX / 2,
    }
}
