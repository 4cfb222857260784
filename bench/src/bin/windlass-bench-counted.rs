//! The child processes whose memory is measured. Counting costs time, so their time is not measured.

use std::{alloc::System, process::ExitCode};

use cap::Cap;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use windlass_bench::Meter;

#[global_allocator]
static ALLOCATOR: Cap<&StatsAlloc<System>> = Cap::new(&INSTRUMENTED_SYSTEM, usize::MAX);

fn main() -> ExitCode {
    windlass_bench::main(Some(Meter {
        live: || ALLOCATOR.allocated(),
        peak: || ALLOCATOR.max_allocated(),
        allocations: || {
            let stats = INSTRUMENTED_SYSTEM.stats();
            stats.allocations + stats.reallocations
        },
    }))
}
