//! Draws the charts of a report as SVG. They are readable at the width of a phone and in light and
//! dark themes, and lines have their names next to them.

use std::fmt::Write as _;

use super::figures::Report;
use super::tables::NOTHING;
use super::tiers::Tier;
use crate::phases::Phase;
use crate::table::escaped;
use crate::units;

/// The width in pixels. A phone of 360 pixels shows a chart at two thirds of its size.
const WIDTH: i32 = 540;

/// The colour of the text, which the page sets.
const INK: &str = "currentColor";

/// The colour of grids, visible on white and on black.
const GRID: &str = "#808080";

/// The colours of the tiers, in their order.
const TIERS: [&str; 12] = [
    "#767E87", "#8C64C8", "#B8860B", "#D6601E", "#C84650", "#A0522D", "#C2569B", "#7A8B00",
    "#6A5ACD", "#2F81E6", "#289B4B", "#149BA5",
];

/// The colours of the phases, in their order.
const PHASES: [&str; 9] = [
    "#767E87", "#8C64C8", "#2F81E6", "#149BA5", "#289B4B", "#B8860B", "#D6601E", "#C84650",
    "#5A6068",
];

/// A chart, with its title and caption.
pub(crate) struct Chart {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) caption: &'static str,
    pub(crate) svg: String,
}

/// The caption of the start-up chart.
pub(crate) const START_UP: &str = "Median time of a whole run: of a Python script that prints a line (filled), and of one that first imports six modules of the standard library (open). The axis is logarithmic.";

/// Draws all charts that the report has figures for.
pub(crate) fn all(report: &Report) -> Vec<Chart> {
    let throughput =
        report.throughput.iter().map(|p| (&*p.tier, p.concurrency as f64, Some(p.per_second)));
    let mebibytes = |bytes: u64| float(bytes) / units::MEBIBYTE;
    let memory =
        report.memory.iter().map(|p| (&*p.tier, p.instances as f64, p.private.map(mebibytes)));
    let sizes =
        report.sizes.iter().map(|p| (&*p.tier, float(p.input), p.wall.map(|wall| float(wall.p50))));
    let growth = report.growth.iter().map(|p| (&*p.tier, p.skills as f64, p.wall.map(float)));
    let charts = [
        (
            phases(report),
            "phases",
            "Phases of a cold start",
            "Median time of each phase, in the order of a run. Each run is a new process of the benchmark, which starts and ends more slowly than skillhost.",
        ),
        (start_up(report), "start-up", "Start-up by tier", START_UP),
        (
            lines(report, throughput, "concurrent", units::count, units::count),
            "throughput",
            "Throughput by concurrency",
            "Python hellos per second, by the number of concurrent runs. Both axes are logarithmic.",
        ),
        (
            lines(report, memory, "live guests", units::count, units::in_mebibytes),
            "memory",
            "Memory by instances",
            "Private memory of all processes of a tier, by the number of live Python guests. For one guest, it includes the files that several guests share. Both axes are logarithmic.",
        ),
        (
            lines(report, sizes, "of CSV", units::input, units::milliseconds),
            "input",
            "Time by size of the input",
            "Median time of the CSV report, by the size of its input. Both axes are logarithmic: parallel lines differ by a factor, and lines that converge by a constant.",
        ),
        (
            lines(report, growth, "concurrent skills", units::count, units::milliseconds),
            "growth",
            "Time of concurrent starts",
            "Time until the last of several Python hellos that start at once has ended. Both axes are logarithmic.",
        ),
    ];
    let chart = |(svg, id, title, caption)| Some(Chart { id, title, caption, svg: svg? });
    charts.into_iter().filter_map(chart).collect()
}

fn float(figure: u64) -> f64 {
    figure as f64
}

fn colour(tier: &str) -> &'static str {
    Tier::ALL.iter().position(|of| of.id() == tier).map_or(GRID, |position| TIERS[position])
}

/// Draws one bar per case, divided into its phases, with a legend below.
fn phases(report: &Report) -> Option<String> {
    let bars: Vec<&[Phase]> = report.phases.chunk_by(|one, next| one.case == next.case).collect();
    let whole = |bar: &[Phase]| float(bar.iter().map(|phase| phase.wall.p50).sum());
    let longest = bars.iter().map(|bar| whole(bar)).fold(0.0, f64::max);
    let first = bars.first().filter(|_| longest > 0.0)?;
    let (left, right) = (8, WIDTH - 74);
    let legend = 16 + 58 * bars.len() as i32;
    let mut svg = Svg::new(legend + 24 * first.len() as i32 + 8);
    for (n, bar) in bars.iter().enumerate() {
        let top = 30 + 58 * n as i32;
        svg.text(&bar[0].case, (left, top - 14), "start", INK);
        let mut from = f64::from(left);
        for (phase, colour) in bar.iter().zip(PHASES) {
            let to = from + float(phase.wall.p50) / longest * f64::from(right - left);
            let width = to.round() as i32 - from.round() as i32;
            svg.bar((from.round() as i32, top), (width, 22), colour);
            from = to;
        }
        svg.text(&units::milliseconds(whole(bar)), (from as i32 + 8, top + 11), "start", INK);
    }
    for (n, (phase, colour)) in first.iter().zip(PHASES).enumerate() {
        let middle = legend + 12 + 24 * n as i32;
        svg.bar((left, middle - 7), (14, 14), colour);
        svg.text(&phase.phase, (left + 22, middle), "start", INK);
    }
    Some(svg.end())
}

/// Draws rows of points on one logarithmic axis.
fn start_up(report: &Report) -> Option<String> {
    let nothing = report.native(NOTHING).map(|run| ("/bin/true", "", vec![run.wall.p50]));
    let tiers = report.measured().map(|tier| {
        let runs = ["hello", "imports"].iter().filter_map(|case| report.run(&tier.id, case));
        (tier.name.as_str(), tier.id.as_str(), runs.map(|run| run.wall.p50).collect())
    });
    let rows: Vec<(&str, &str, Vec<u64>)> = nothing.into_iter().chain(tiers).collect();
    let values = rows.iter().flat_map(|(.., times)| times).map(|time| float(*time));
    let axis = Scale::decades(values, 184, WIDTH - 76)?;
    let height = 44 + 40 * rows.len() as i32;
    let bottom = height - 34;
    let mut svg = Svg::new(height);
    for tick in axis.ticks() {
        let x = axis.at(tick);
        svg.line(&[(x, 8), (x, bottom)], GRID, 0.35, 1);
        svg.text(&whole(&units::milliseconds(tick)), (x, bottom + 16), "middle", INK);
    }
    for (n, (name, id, times)) in rows.iter().enumerate() {
        let middle = 26 + 40 * n as i32;
        svg.text(name, (176, middle), "end", INK);
        for (series, time) in times.iter().enumerate() {
            let y = if times.len() == 1 { middle } else { middle - 9 + 18 * series as i32 };
            let x = axis.at(float(*time));
            svg.line(&[(184, y), (x, y)], colour(id), 0.8, 2);
            svg.dot((x, y), colour(id), series == 0);
            svg.text(&units::milliseconds(*time), (x + 9, y), "start", INK);
        }
    }
    Some(svg.end())
}

/// Draws one line per tier, with its name at the end.
fn lines<'a>(
    report: &'a Report,
    points: impl Iterator<Item = (&'a str, f64, Option<f64>)>,
    along: &str,
    show_x: fn(f64) -> String,
    show_y: fn(f64) -> String,
) -> Option<String> {
    let points: Vec<(&str, f64, f64)> =
        points.filter_map(|(tier, x, y)| Some((tier, x, y?))).collect();
    let (left, right, top, bottom) = (94, WIDTH - 192, 20, 300);
    let mut marks: Vec<f64> = points.iter().map(|(_, x, _)| *x).collect();
    marks.sort_by(f64::total_cmp);
    marks.dedup();
    let across = Scale::exact(&marks, left + 12, right - 4)?;
    let up = Scale::decades(points.iter().map(|(.., y)| *y), bottom, top)?;
    let mut svg = Svg::new(356);
    for tick in up.ticks() {
        let y = up.at(tick);
        svg.line(&[(left, y), (right, y)], GRID, 0.35, 1);
        svg.text(&whole(&show_y(tick)), (left - 8, y), "end", INK);
    }
    for mark in &marks {
        let at = (across.at(*mark), bottom + 18);
        svg.text(&whole(&show_x(*mark)), at, "middle", INK);
    }
    svg.text(along, ((left + right) / 2, bottom + 40), "middle", INK);
    let mut ends = Vec::new();
    // Wide lines below narrow ones: lines that coincide stay visible.
    for (tier, width) in report.measured().zip([8, 7, 6, 5, 4, 3, 2, 1, 1, 1, 1, 1]) {
        let own = points.iter().filter(|(id, ..)| *id == tier.id);
        let own: Vec<(i32, i32)> = own.map(|(_, x, y)| (across.at(*x), up.at(*y))).collect();
        svg.line(&own, colour(&tier.id), 1.0, width);
        own.iter().for_each(|at| svg.dot(*at, colour(&tier.id), true));
        ends.extend(own.last().map(|(x, y)| (*x, *y, tier)));
    }
    ends.sort_by_key(|(_, y, _)| *y);
    let places = apart(&ends.iter().map(|(_, y, _)| *y).collect::<Vec<_>>(), 19, bottom);
    let edge = right + 14;
    for ((x, y, tier), place) in ends.iter().zip(places) {
        // The connection between a line that ends early and its name is faint.
        let opacity = if *x + 20 < edge { 0.2 } else { 0.6 };
        svg.line(&[(*x + 5, *y), (edge - 3, place)], colour(&tier.id), opacity, 1);
        svg.text(&tier.name, (edge, place), "start", colour(&tier.id));
    }
    Some(svg.end())
}

/// Removes zero decimals from a mark of an axis, which is exact.
fn whole(text: &str) -> String {
    text.trim_end_matches(".0").replace(".0 ", " ")
}

/// Moves heights, so that labels are `gap` apart and above `bottom`.
fn apart(heights: &[i32], gap: i32, bottom: i32) -> Vec<i32> {
    let mut places: Vec<i32> = heights.to_vec();
    for n in 1..places.len() {
        places[n] = places[n].max(places[n - 1] + gap);
    }
    let mut limit = bottom;
    for place in places.iter_mut().rev() {
        *place = (*place).min(limit);
        limit = *place - gap;
    }
    places
}

/// A logarithmic axis between two pixels.
struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// Returns an axis of whole decades around values.
    fn decades(values: impl Iterator<Item = f64>, from: i32, to: i32) -> Option<Scale> {
        let range = (f64::INFINITY, 0.0f64);
        let (low, high) =
            values.fold(range, |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = (10f64.powf(low.log10().floor()), 10f64.powf(high.log10().ceil()));
        let is_drawn = low.is_finite() && low > 0.0;
        is_drawn.then(|| Scale {
            low,
            high: high.max(low * 10.0),
            from: from.into(),
            to: to.into(),
        })
    }

    fn exact(marks: &[f64], from: i32, to: i32) -> Option<Scale> {
        let (low, high) = (*marks.first()?, *marks.last()?);
        Some(Scale { low, high: high.max(low * 2.0), from: from.into(), to: to.into() })
    }

    fn at(&self, value: f64) -> i32 {
        let part = (value / self.low).ln() / (self.high / self.low).ln();
        (self.from + part * (self.to - self.from)).round() as i32
    }

    fn ticks(&self) -> Vec<f64> {
        let decades = (self.high / self.low).log10().round() as i32;
        (0..=decades).map(|n| self.low * 10f64.powi(n)).collect()
    }
}

/// An SVG to which elements are added.
struct Svg(String);

impl Svg {
    /// Starts an SVG. Its text has the colour of the page or, in a file of its own, of the reader's
    /// theme.
    fn new(height: i32) -> Svg {
        Svg(format!(
            "<svg role=\"img\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" xmlns=\"http://www.w3.org/2000/svg\">
<style>svg{{color:#1f2328;font-family:system-ui,sans-serif}}@media(prefers-color-scheme:dark){{svg{{color:#e6edf3}}}}</style>\n"
        ))
    }

    fn end(self) -> String {
        self.0 + "</svg>\n"
    }

    fn text(&mut self, words: &str, (x, y): (i32, i32), anchor: &str, colour: &str) {
        _ = writeln!(
            self.0,
            "<text x=\"{x}\" y=\"{y}\" dy=\"0.5ex\" text-anchor=\"{anchor}\" font-family=\"sans-serif\" font-size=\"14.516129032258064\" opacity=\"1\" fill=\"{colour}\">\n{}\n</text>",
            escaped(words)
        );
    }

    fn line(&mut self, points: &[(i32, i32)], colour: &str, opacity: f64, width: u32) {
        let points: String = points.iter().map(|(x, y)| format!("{x},{y} ")).collect();
        _ = writeln!(
            self.0,
            "<polyline fill=\"none\" opacity=\"{opacity}\" stroke=\"{colour}\" stroke-width=\"{width}\" points=\"{points}\"/>"
        );
    }

    fn bar(&mut self, (x, y): (i32, i32), (width, height): (i32, i32), colour: &str) {
        _ = writeln!(
            self.0,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" opacity=\"1\" fill=\"{colour}\" stroke=\"none\"/>"
        );
    }

    /// Draws a filled circle or an open square.
    fn dot(&mut self, (x, y): (i32, i32), colour: &str, filled: bool) {
        _ = match filled {
            true => writeln!(
                self.0,
                "<circle cx=\"{x}\" cy=\"{y}\" r=\"4\" opacity=\"1\" fill=\"{colour}\" stroke=\"none\" stroke-width=\"1\"/>"
            ),
            false => writeln!(
                self.0,
                "<rect x=\"{}\" y=\"{}\" width=\"8\" height=\"8\" opacity=\"1\" fill=\"none\" stroke=\"{colour}\"/>",
                x - 4,
                y - 4
            ),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isolation::tests::report;

    #[test]
    fn every_chart_is_an_svg_that_names_its_tiers() {
        let charts = all(&report());
        assert_eq!(charts.len(), 6);
        for Chart { id, svg, .. } in &charts {
            assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
            assert!(svg.contains("native") || *id == "phases", "{id}");
        }
        assert!(charts[1].svg.contains("skillhost, cold") && !charts[1].svg.contains("bubblewrap"));
    }

    #[test]
    fn labels_are_apart_and_on_the_chart() {
        assert_eq!(apart(&[10, 12, 100], 17, 300), [10, 27, 100]);
        assert_eq!(apart(&[295, 298, 299], 17, 300), [266, 283, 300]);
        assert_eq!(apart(&[], 17, 300), Vec::<i32>::new());
    }
}
