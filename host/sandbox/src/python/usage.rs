//! What the run may use and uses: `skillhost:python/usage`, from which the built-in Python answers
//! `resource`, `psutil` and questions about the disk.
//!
//! The figures are those of the run and its limits, never of the machine. In a deterministic run
//! they depend on nothing else.

use wasmtime::component::{HasData, Linker};

use crate::files::Vfs;
use crate::limits::StoreMeter;
use skillhost_policy::limits::Limit;

mod bindings {
    #![allow(
        missing_docs,
        unreachable_pub,
        reason = "generated from WIT, where the documentation is"
    )]
    wasmtime::component::bindgen!({
        interfaces: "import skillhost:python/usage@0.1.0;",
        path: "python-wit",
    });
}

use bindings::skillhost::python::usage::{self, Figures};

/// What the interface needs of a store's data.
pub(crate) struct UsageView<'a> {
    pub(crate) meter: &'a StoreMeter,
    pub(crate) files: &'a Vfs,
}

/// Marks [`UsageView`] as what the bindings get.
struct UsageInterface;

impl HasData for UsageInterface {
    type Data<'a> = UsageView<'a>;
}

/// Links the interface.
pub(super) fn add_to_linker<T: 'static>(
    linker: &mut Linker<T>,
    get: fn(&mut T) -> UsageView<'_>,
) -> wasmtime::Result<()> {
    usage::add_to_linker::<T, UsageInterface>(linker, get)
}

impl usage::Host for UsageView<'_> {
    fn get(&mut self) -> Figures {
        let run = self.meter.of_run();
        let limits = &run.limits;
        Figures {
            memory_limit: limits.memory,
            memory: run.memory(),
            own_memory: self.meter.memory(),
            own_stack: run.value(Limit::Stack),
            disk_limit: limits.disk,
            disk: self.files.usage().disk,
            files_limit: limits.files,
            handles_limit: limits.handles,
            programs_limit: limits.processes_alive,
            timeout_ms: limits.timeout_ms,
        }
    }
}
