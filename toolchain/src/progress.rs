//! Shows steps and their times on stderr: with a spinner or a bar on a terminal, otherwise as plain
//! lines.

use std::fmt;
use std::io::{IsTerminal, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();

/// Shows steps, and records the time of each. Threads can share it and run their steps in parallel.
#[derive(Debug)]
pub struct Progress {
    display: Display,
    bars: MultiProgress,
    finished: Mutex<Vec<FinishedStep>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Display {
    Silent,
    Lines,
    /// Lines, and the output of each command as it arrives.
    Verbose,
    Animated,
}

/// A step that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedStep {
    /// The step's name.
    pub name: String,
    /// Its wall time.
    pub time: Duration,
    /// Whether it succeeded.
    pub ok: bool,
}

/// A step that is running.
#[derive(Debug)]
pub struct Step {
    bar: Option<ProgressBar>,
    pub(crate) verbose: bool,
}

impl Progress {
    /// Creates a display that is animated if stderr is a terminal. With `verbose`, it shows the
    /// output of each command as it arrives instead.
    pub fn new(verbose: bool) -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|t| t == "dumb");
        let display = match verbose {
            true => Display::Verbose,
            false if std::io::stderr().is_terminal() && !dumb => Display::Animated,
            false => Display::Lines,
        };
        Self::with_display(display)
    }

    /// Creates a display that shows nothing but the output of each [`loud_step`](Self::loud_step).
    pub fn silent() -> Self {
        Self::with_display(Display::Silent)
    }

    fn with_display(display: Display) -> Self {
        Self { display, bars: MultiProgress::new(), finished: Mutex::default() }
    }

    /// Runs one step. Shows its start, its result and its time.
    pub fn step<T, E: fmt::Display>(
        &self,
        name: &str,
        work: impl FnOnce(&Step) -> Result<T, E>,
    ) -> Result<T, E> {
        let bar = (self.display == Display::Animated).then(|| {
            let bar = self.bars.add(ProgressBar::new_spinner());
            let bar = bar
                .with_style(style("{spinner} {prefix} {elapsed} {wide_msg:.dim}"))
                .with_prefix(name.to_owned());
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        if self.display != Display::Animated {
            self.line(&format!("==> {name} ..."));
        }
        self.finish(name, Step { bar, verbose: self.display == Display::Verbose }, work)
    }

    /// Like [`step`](Self::step), but without a spinner, for commands whose own output is shown.
    pub fn loud_step<T, E: fmt::Display>(
        &self,
        name: &str,
        work: impl FnOnce(&Step) -> Result<T, E>,
    ) -> Result<T, E> {
        self.line(&format!("==> {name} ..."));
        self.finish(name, Step { bar: None, verbose: true }, work)
    }

    /// Returns the finished steps, in order.
    pub fn finished(&self) -> Vec<FinishedStep> {
        self.finished.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn finish<T, E: fmt::Display>(
        &self,
        name: &str,
        step: Step,
        work: impl FnOnce(&Step) -> Result<T, E>,
    ) -> Result<T, E> {
        let start = Instant::now();
        let result = work(&step);
        let time = start.elapsed();
        if let Some(bar) = step.bar {
            bar.finish_and_clear();
        }
        let (style, result_text) =
            if result.is_ok() { (GOOD, "done in") } else { (BAD, "FAILED after") };
        self.line(&format!(
            "{style}==>{style:#} {name}: {result_text} {:.1} s",
            time.as_secs_f64()
        ));
        let finished = FinishedStep { name: name.to_owned(), time, ok: result.is_ok() };
        self.finished.lock().unwrap_or_else(PoisonError::into_inner).push(finished);
        result
    }

    fn line(&self, text: &str) {
        match self.display {
            Display::Silent => {}
            // Bars of other threads' steps are redrawn below the line.
            Display::Animated => self.bars.suspend(|| line(text)),
            Display::Lines | Display::Verbose => line(text),
        }
    }
}

impl Step {
    /// Shows what the step is doing at the moment. Visible only on a terminal.
    pub fn note(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.trim().to_owned());
        }
    }

    /// Turns the spinner into a bar of `total` bytes.
    pub fn expect_bytes(&self, total: u64) {
        if let Some(bar) = &self.bar {
            bar.set_length(total);
            bar.set_style(style(
                "{spinner} {prefix} {elapsed} {bar:30} {bytes}/{total_bytes} {bytes_per_sec}",
            ));
        }
    }

    /// Sets the number of bytes that are done, of those in [`expect_bytes`](Self::expect_bytes).
    pub fn at_bytes(&self, done: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }
}

/// Prints a line to stderr. Ignores errors: the work continues even if stderr is closed.
pub(crate) fn line(text: &str) {
    drop(writeln!(anstream::stderr(), "{text}"));
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .expect("templates are constants of this file, and tests draw each of them")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_returns_the_result_of_its_work_and_is_recorded() {
        let progress = Progress::silent();
        assert_eq!(progress.step("good", |_| Ok::<_, String>(7)), Ok(7));
        assert_eq!(progress.loud_step("bad", |_| Err::<(), _>("no")), Err("no"));
        let finished: Vec<_> = progress.finished().into_iter().map(|t| (t.name, t.ok)).collect();
        assert_eq!(finished, [("good".to_owned(), true), ("bad".to_owned(), false)]);
    }

    #[test]
    fn threads_share_one_progress() {
        let progress = Progress::silent();
        std::thread::scope(|scope| {
            for name in ["one", "two"] {
                let progress = &progress;
                scope.spawn(move || progress.step(name, |_| Ok::<_, String>(())));
            }
        });
        let mut names: Vec<_> = progress.finished().into_iter().map(|step| step.name).collect();
        names.sort();
        assert_eq!(names, ["one", "two"]);
    }

    #[test]
    fn templates_of_the_terminal_are_valid() {
        let work = |step: &Step| {
            step.note("compiling");
            step.expect_bytes(100);
            step.at_bytes(50);
            Ok::<_, String>(())
        };
        let progress = Progress::with_display(Display::Animated);
        assert_eq!(progress.step("animated", work), Ok(()));
    }
}
