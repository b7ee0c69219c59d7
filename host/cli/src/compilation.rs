//! Says at the terminal that a runtime is being compiled. The first run with a runtime waits
//! seconds for that, and would otherwise seem to hang.

use skillhost::invoke::{Runner, RunnerOptions};
use skillhost_sandbox::{Compilation, CompilationStage, Mode};

use crate::output;

/// A host that announces compilations on stderr, if that is a terminal and the output is not JSON.
pub(crate) fn announced(options: RunnerOptions, json: bool) -> Runner {
    let host = Runner::new(options);
    if !json {
        host.watch_compilations(announce);
    }
    host
}

/// Announces a compilation of a runtime on stderr, if that is a terminal.
pub(crate) fn announce(compilation: &Compilation<'_>) {
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

/// The usual spelling of a runtime's language.
fn language(name: &str) -> &str {
    match name {
        "python" => "Python",
        "javascript" => "JavaScript",
        name => name,
    }
}
