//! Steps with their times: a spinner or a bar on a terminal, plain lines elsewhere. All of it on
//! stderr.

use std::fmt::Display;
use std::io::{IsTerminal, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();

/// Shows steps, and remembers how long each took. Threads may share it: their steps run side by
/// side.
#[derive(Debug)]
pub struct Progress {
    show: Show,
    bars: MultiProgress,
    took: Mutex<Vec<Took>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Show {
    Nothing,
    Lines,
    /// Lines, and the output of each command as it comes.
    All,
    Animated,
}

/// A step that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Took {
    /// The step's name.
    pub name: String,
    /// Its wall time.
    pub time: Duration,
    /// It succeeded.
    pub ok: bool,
}

/// A step that is under way.
#[derive(Debug)]
pub struct Step {
    bar: Option<ProgressBar>,
    pub(crate) verbose: bool,
}

impl Progress {
    /// Animated where stderr is a terminal, unless `verbose`, which shows the output of each
    /// command as it comes.
    pub fn new(verbose: bool) -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|t| t == "dumb");
        let show = match verbose {
            true => Show::All,
            false if std::io::stderr().is_terminal() && !dumb => Show::Animated,
            false => Show::Lines,
        };
        Self::showing(show)
    }

    /// Shows nothing but what [`loud_step`](Self::loud_step)s run.
    pub fn silent() -> Self {
        Self::showing(Show::Nothing)
    }

    fn showing(show: Show) -> Self {
        Self { show, bars: MultiProgress::new(), took: Mutex::default() }
    }

    /// Runs one step, and says that it started, how it ended and how long it took.
    pub fn step<T, E: Display>(
        &self,
        name: &str,
        work: impl FnOnce(&Step) -> Result<T, E>,
    ) -> Result<T, E> {
        let bar = (self.show == Show::Animated).then(|| {
            let bar = self.bars.add(ProgressBar::new_spinner());
            let bar = bar
                .with_style(style("{spinner} {prefix} {elapsed} {wide_msg:.dim}"))
                .with_prefix(name.to_owned());
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        if self.show != Show::Animated {
            self.line(&format!("==> {name} ..."));
        }
        self.finish(name, Step { bar, verbose: self.show == Show::All }, work)
    }

    /// Like [`step`](Self::step), for a command whose own output is to be seen in full: no spinner
    /// comes in between.
    pub fn loud_step<T, E: Display>(
        &self,
        name: &str,
        work: impl FnOnce(&Step) -> Result<T, E>,
    ) -> Result<T, E> {
        self.line(&format!("==> {name} ..."));
        self.finish(name, Step { bar: None, verbose: true }, work)
    }

    /// The steps so far, in order.
    pub fn took(&self) -> Vec<Took> {
        self.took.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn finish<T, E: Display>(
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
        let (style, word) = if result.is_ok() { (GOOD, "done in") } else { (BAD, "FAILED after") };
        self.line(&format!("{style}==>{style:#} {name}: {word} {:.1} s", time.as_secs_f64()));
        let took = Took { name: name.to_owned(), time, ok: result.is_ok() };
        self.took.lock().unwrap_or_else(PoisonError::into_inner).push(took);
        result
    }

    fn line(&self, text: &str) {
        match self.show {
            Show::Nothing => {}
            // Bars of other threads' steps are drawn anew below the line.
            Show::Animated => self.bars.suspend(|| line(text)),
            Show::Lines | Show::All => line(text),
        }
    }
}

impl Step {
    /// What the step is doing at the moment; seen on a terminal only.
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

    /// How many bytes of [`expect_bytes`](Self::expect_bytes) are there.
    pub fn at_bytes(&self, done: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }
}

/// One line on stderr. That stderr is gone is no reason to stop the work.
pub(crate) fn line(text: &str) {
    drop(writeln!(anstream::stderr(), "{text}"));
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .expect("a constant of this file, and each is drawn by the tests")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_passes_its_result_on_and_is_remembered_with_its_time() {
        let progress = Progress::silent();
        assert_eq!(progress.step("good", |_| Ok::<_, String>(7)), Ok(7));
        assert_eq!(progress.loud_step("bad", |_| Err::<(), _>("no")), Err("no"));
        let took: Vec<_> = progress.took().into_iter().map(|t| (t.name, t.ok)).collect();
        assert_eq!(took, [("good".to_owned(), true), ("bad".to_owned(), false)]);
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
        let mut names: Vec<_> = progress.took().into_iter().map(|took| took.name).collect();
        names.sort();
        assert_eq!(names, ["one", "two"]);
    }

    #[test]
    fn every_style_of_the_terminal_is_a_valid_template() {
        let work = |step: &Step| {
            step.note("compiling");
            step.expect_bytes(100);
            step.at_bytes(50);
            Ok::<_, String>(())
        };
        let progress = Progress::showing(Show::Animated);
        assert_eq!(progress.step("animated", work), Ok(()));
    }
}
