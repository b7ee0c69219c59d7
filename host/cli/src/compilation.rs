//! Says at the terminal that a runtime is being compiled. The first run with a runtime waits
//! seconds for that, and would otherwise seem to hang. `--verbose` reports every compilation.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use skillhost::invoke::{Runner, RunnerOptions};
use skillhost_sandbox::{Compilation, CompilationStage, Mode};

use crate::output;

/// Set when anything is compiled.
static COMPILED: AtomicBool = AtomicBool::new(false);

/// Whether anything was compiled in this process.
pub(crate) fn happened() -> bool {
    COMPILED.load(Relaxed)
}

/// A host that announces compilations on stderr, if that is a terminal and the output is not JSON.
pub(crate) fn announced(options: RunnerOptions, json: bool) -> Runner {
    let host = Runner::new(options);
    if !json || output::is_verbose() {
        host.watch_compilations(announce);
    }
    host
}

/// Announces a compilation of a runtime on stderr, if that is a terminal.
pub(crate) fn announce(compilation: &Compilation<'_>) {
    COMPILED.store(true, Relaxed);
    if output::is_verbose() {
        return report(compilation);
    }
    // A skill's own component compiles in a moment.
    let Some(runtime) = compilation.component.built_in().filter(|_| output::is_watched()) else {
        return;
    };
    let runs = match compilation.mode {
        Mode::Fast => "",
        Mode::Metered => " for runs that count fuel",
        Mode::Deterministic => " for deterministic runs",
    };
    match compilation.stage {
        CompilationStage::Started => {
            let name = language(&runtime.description.name);
            output::progress(&format!("Compiling the {name} runtime{runs} (first use only)"));
        }
        CompilationStage::Ended(time) => {
            output::progress_end(&format!("done in {:.1} s", time.as_secs_f64()));
        }
    }
}

/// Reports the end of any compilation.
fn report(compilation: &Compilation<'_>) {
    let Compilation { component, mode, stage } = compilation;
    let CompilationStage::Ended(time) = stage else { return };
    let what = component.built_in().map_or(&component.digest, |runtime| &runtime.description.name);
    let seconds = time.as_secs_f64();
    output::info(|| format!("compiled {what} in {seconds:.2} s ({mode:?} engine)"));
}

/// The usual spelling of a runtime's language.
fn language(name: &str) -> &str {
    match name {
        "python" => "Python",
        "javascript" => "JavaScript",
        name => name,
    }
}
