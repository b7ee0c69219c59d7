//! The charts of a report, each one an SVG: readable at the width of a phone, in light and in dark,
//! without a legend to look up.

use plotters::backend::SVGBackend;
use plotters::drawing::{DrawingArea, IntoDrawingArea as _};
use plotters::element::{Circle, PathElement, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color as _, IntoFont as _, RGBColor, TextStyle};
use skillhost_toolchain::Error;

use super::isolation::BASELINE;
use super::report::{Phase, Report};
use super::tiers::Tier;
use super::units;

/// Pixels. A phone of 360 shows a page of it at three quarters.
const WIDTH: u32 = 480;

/// The backend divides it by 1.24: 14.5 pixels.
const FONT: u32 = 18;

/// Stands for the colour of the text, which the page sets.
const INK: RGBColor = RGBColor(0, 0, 0);
/// Of grids: seen on white and on black.
const GRID: RGBColor = RGBColor(128, 128, 128);

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// A chart, and what it shows in a sentence.
pub(crate) struct Chart {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) caption: &'static str,
    pub(crate) svg: String,
}

/// What the chart of start-up shows.
pub(crate) const START_UP: &str = "A whole run, median: of a Python script that prints a line (filled), and of one that first imports six modules of the standard library (open). Logarithmic.";

/// All that the report has figures for.
pub(crate) fn all(report: &Report) -> Result<Vec<Chart>, Error> {
    let wide = |svg: String, id, title, caption| Chart { id, title, caption, svg };
    Ok(vec![
        wide(
            phases(report)?,
            "phases",
            "Where a cold start's time goes",
            "A process of its own for each run, median of each phase, in the order of a run. The process is the benchmark's, which starts and ends more slowly than skillhost.",
        ),
        wide(start_up(report)?, "start-up", "Start-up by tier", START_UP),
        wide(
            throughput(report)?,
            "throughput",
            "Throughput by concurrency",
            "Python hellos a second, by how many are under way at once. Both axes logarithmic.",
        ),
        wide(
            memory(report)?,
            "memory",
            "Memory by instances",
            "Private memory of all the processes of a tier, by Python guests that are alive at once. One alone has to itself the files that several share. Both axes logarithmic.",
        ),
        wide(
            sizes(report)?,
            "input",
            "Time by size of the input",
            "The CSV report, median, by the size of its input. Both axes logarithmic: lines that run side by side differ by a factor, lines that meet by a constant.",
        ),
        wide(
            growth(report)?,
            "growth",
            "Cost by crowd",
            "Until the last has ended of so many Python hellos that start at once. Both axes logarithmic.",
        ),
    ])
}

fn colour(tier: &str) -> RGBColor {
    const COLOURS: [(Tier, RGBColor); 8] = [
        (Tier::Native, RGBColor(118, 126, 135)),
        (Tier::Landlock, RGBColor(140, 100, 200)),
        (Tier::Bubblewrap, RGBColor(184, 134, 11)),
        (Tier::Runc, RGBColor(214, 96, 30)),
        (Tier::Crun, RGBColor(200, 70, 80)),
        (Tier::Cold, RGBColor(47, 129, 230)),
        (Tier::Warm, RGBColor(40, 155, 75)),
        (Tier::Deterministic, RGBColor(20, 155, 165)),
    ];
    COLOURS.iter().find(|(of, _)| of.id() == tier).map_or(GRID, |(_, colour)| *colour)
}

/// One bar a case, made of its phases; below them what each colour is.
fn phases(report: &Report) -> Result<String, Error> {
    const COLOURS: [RGBColor; 9] = [
        RGBColor(118, 126, 135),
        RGBColor(140, 100, 200),
        RGBColor(47, 129, 230),
        RGBColor(20, 155, 165),
        RGBColor(40, 155, 75),
        RGBColor(184, 134, 11),
        RGBColor(214, 96, 30),
        RGBColor(200, 70, 80),
        RGBColor(90, 96, 104),
    ];
    let mut bars: Vec<(&str, Vec<&Phase>)> = Vec::new();
    for phase in &report.phases {
        match bars.iter_mut().find(|(case, _)| *case == phase.case) {
            Some((_, bar)) => bar.push(phase),
            None => bars.push((&phase.case, vec![phase])),
        }
    }
    let whole = |bar: &[&Phase]| bar.iter().map(|phase| phase.wall.p50).sum::<u64>() as f64;
    let longest = bars.iter().map(|(_, bar)| whole(bar)).fold(0.0, f64::max);
    let Some((_, first)) = bars.first().filter(|_| longest > 0.0) else { return Ok(empty()) };
    let (left, right) = (8.0, f64::from(WIDTH) - 74.0);
    let legend = 16 + 58 * bars.len() as i32;
    draw((legend + 24 * first.len() as i32 + 8) as u32, |area| {
        for (n, (case, bar)) in bars.iter().enumerate() {
            let top = 30 + 58 * n as i32;
            text(area, case, left as i32, top - 14, HPos::Left, INK)?;
            let mut from = left;
            for (phase, colour) in bar.iter().zip(COLOURS) {
                let to = from + phase.wall.p50 as f64 / longest * (right - left);
                let corners = [(from.round() as i32, top), (to.round() as i32, top + 22)];
                area.draw(&Rectangle::new(corners, colour.filled()))
                    .map_err(Error::context("a chart"))?;
                from = to;
            }
            text(area, &units::time(whole(bar)), from as i32 + 8, top + 11, HPos::Left, INK)?;
        }
        for (n, (phase, colour)) in first.iter().zip(COLOURS).enumerate() {
            let middle = legend + 12 + 24 * n as i32;
            let square = [(left as i32, middle - 7), (left as i32 + 14, middle + 7)];
            area.draw(&Rectangle::new(square, colour.filled()))
                .map_err(Error::context("a chart"))?;
            text(area, &phase.phase, left as i32 + 22, middle, HPos::Left, INK)?;
        }
        Ok(())
    })
}

/// Rows of points on one logarithmic axis.
fn start_up(report: &Report) -> Result<String, Error> {
    let baseline =
        report.run(Tier::Native.id(), BASELINE).map(|run| ("/bin/true", "", vec![run.wall.p50]));
    let rows = report.measured().map(|tier| {
        let times = ["hello", "imports"]
            .iter()
            .filter_map(|case| report.run(&tier.id, case))
            .map(|run| run.wall.p50)
            .collect();
        (tier.name.as_str(), tier.id.as_str(), times)
    });
    let rows: Vec<(&str, &str, Vec<u64>)> = baseline.into_iter().chain(rows).collect();
    let values = rows.iter().flat_map(|(.., times)| times).map(|time| *time as f64);
    let Some(axis) = Scale::decades(values, 160.0, 60.0) else { return Ok(empty()) };
    let height = 44 + 40 * rows.len() as u32;
    draw(height, |area| {
        let bottom = height as i32 - 34;
        for at in axis.ticks() {
            let x = axis.at(at);
            line(area, &[(x, 8), (x, bottom)], GRID, 0.35, 1)?;
            text(area, &whole(&units::time(at)), x, bottom + 16, HPos::Center, INK)?;
        }
        for (n, (name, id, times)) in rows.iter().enumerate() {
            let middle = 26 + 40 * n as i32;
            text(area, &short(name), 152, middle, HPos::Right, INK)?;
            for (series, time) in times.iter().enumerate() {
                let y = if times.len() == 1 { middle } else { middle - 9 + 18 * series as i32 };
                let x = axis.at(*time as f64);
                line(area, &[(160, y), (x, y)], colour(id), 0.8, 2)?;
                dot(area, x, y, colour(id), series == 0)?;
                text(area, &units::time(*time as f64), x + 9, y, HPos::Left, INK)?;
            }
        }
        Ok(())
    })
}

fn throughput(report: &Report) -> Result<String, Error> {
    let points =
        report.throughput.iter().map(|p| (p.tier.as_str(), p.concurrency as f64, p.per_second));
    lines(report, points, "at once", units::count, units::count)
}

fn memory(report: &Report) -> Result<String, Error> {
    let points = report
        .memory
        .iter()
        .filter_map(|p| Some((p.tier.as_str(), p.instances as f64, p.private? as f64)));
    lines(report, points, "guests alive", units::count, units::decimal)
}

fn sizes(report: &Report) -> Result<String, Error> {
    let points = report
        .sizes
        .iter()
        .filter_map(|p| Some((p.tier.as_str(), p.input as f64, p.wall?.p50 as f64)));
    lines(report, points, "of CSV", units::input, units::time)
}

fn growth(report: &Report) -> Result<String, Error> {
    let points = report
        .growth
        .iter()
        .filter_map(|p| Some((p.tier.as_str(), p.skills as f64, p.wall? as f64)));
    lines(report, points, "skills at once", units::count, units::time)
}

/// One line a tier, named where it ends.
fn lines<'a>(
    report: &'a Report,
    points: impl Iterator<Item = (&'a str, f64, f64)>,
    along: &str,
    show_x: fn(f64) -> String,
    show_y: fn(f64) -> String,
) -> Result<String, Error> {
    let points: Vec<(&str, f64, f64)> = points.collect();
    let (left, right, top, bottom) = (72.0, 142.0, 20.0, 300.0);
    let mut marks: Vec<f64> = points.iter().map(|(_, x, _)| *x).collect();
    marks.sort_by(f64::total_cmp);
    marks.dedup();
    let (Some(across), Some(up)) = (
        Scale::exact(&marks, left, right),
        Scale::decades(points.iter().map(|(.., y)| *y), 0.0, 0.0),
    ) else {
        return Ok(empty());
    };
    let up = Scale { from: bottom, to: top, ..up };
    draw(356, |area| {
        for at in up.ticks() {
            let y = up.at(at);
            line(area, &[(left as i32, y), ((f64::from(WIDTH) - right) as i32, y)], GRID, 0.35, 1)?;
            text(area, &whole(&show_y(at)), left as i32 - 8, y, HPos::Right, INK)?;
        }
        for at in &marks {
            text(
                area,
                &whole(&show_x(*at)),
                across.at(*at),
                bottom as i32 + 18,
                HPos::Center,
                INK,
            )?;
        }
        text(
            area,
            along,
            ((left + f64::from(WIDTH) - right) / 2.0) as i32,
            bottom as i32 + 40,
            HPos::Center,
            INK,
        )?;
        let mut ends = Vec::new();
        for tier in report.measured() {
            let own: Vec<(i32, i32)> = points
                .iter()
                .filter(|(id, ..)| *id == tier.id)
                .map(|(_, x, y)| (across.at(*x), up.at(*y)))
                .collect();
            line(area, &own, colour(&tier.id), 1.0, 2)?;
            own.iter().try_for_each(|(x, y)| dot(area, *x, *y, colour(&tier.id), true))?;
            ends.extend(own.last().map(|(x, y)| (*x, *y, tier)));
        }
        ends.sort_by_key(|(_, y, _)| *y);
        let places = apart(&ends.iter().map(|(_, y, _)| *y).collect::<Vec<_>>(), 19, bottom as i32);
        let edge = (f64::from(WIDTH) - right) as i32 + 14;
        for ((x, y, tier), place) in ends.iter().zip(places) {
            // One that ends early is not drawn on: only its name is far away.
            let opacity = if *x + 20 < edge { 0.2 } else { 0.6 };
            line(area, &[(*x + 5, *y), (edge - 3, place)], colour(&tier.id), opacity, 1)?;
            text(area, &short(&tier.name), edge, place, HPos::Left, colour(&tier.id))?;
        }
        Ok(())
    })
}

/// A mark of an axis, which is exact.
fn whole(text: &str) -> String {
    text.trim_end_matches(".0").replace(".0 ", " ")
}

/// Names that fit beside a chart.
fn short(name: &str) -> String {
    name.replace("container (", "")
        .replace(" process", "")
        .replace(')', "")
        .replace("deterministic", "determ.")
}

/// The same heights, moved as little as keeps labels `gap` apart, and above `bottom`.
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
    /// Whole decades around some values, `right` pixels short of the width.
    fn decades(values: impl Iterator<Item = f64>, left: f64, right: f64) -> Option<Scale> {
        let (low, high) = values
            .fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = (10f64.powf(low.log10().floor()), 10f64.powf(high.log10().ceil()));
        (low.is_finite() && low > 0.0).then(|| Scale {
            low,
            high: high.max(low * 10.0),
            from: left,
            to: f64::from(WIDTH) - right,
        })
    }

    fn exact(marks: &[f64], left: f64, right: f64) -> Option<Scale> {
        let (low, high) = (*marks.first()?, *marks.last()?);
        Some(Scale {
            low,
            high: high.max(low * 2.0),
            from: left + 12.0,
            to: f64::from(WIDTH) - right - 4.0,
        })
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

fn draw(height: u32, work: impl FnOnce(&Area<'_>) -> Result<(), Error>) -> Result<String, Error> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        work(&area)?;
        area.present().map_err(Error::context("a chart"))?;
    }
    Ok(themed(&svg))
}

/// The ink is the page's, and in a picture of its own that of the reader's theme.
fn themed(svg: &str) -> String {
    let style = "<style>svg{color:#1f2328;font-family:system-ui,sans-serif}@media(prefers-color-scheme:dark){svg{color:#e6edf3}}</style>";
    let svg = svg.replace("#000000", "currentColor").replacen("<svg ", "<svg role=\"img\" ", 1);
    svg.replacen(">\n", &format!(">\n{style}\n"), 1)
}

fn empty() -> String {
    String::new()
}

fn text(
    area: &Area<'_>,
    words: &str,
    x: i32,
    y: i32,
    at: HPos,
    colour: RGBColor,
) -> Result<(), Error> {
    let style = TextStyle::from(("sans-serif", FONT).into_font())
        .color(&colour)
        .pos(Pos::new(at, VPos::Center));
    area.draw(&Text::new(words.to_owned(), (x, y), style)).map_err(Error::context("a chart"))
}

fn line(
    area: &Area<'_>,
    points: &[(i32, i32)],
    colour: RGBColor,
    opacity: f64,
    width: u32,
) -> Result<(), Error> {
    area.draw(&PathElement::new(points.to_vec(), colour.mix(opacity).stroke_width(width)))
        .map_err(Error::context("a chart"))
}

fn dot(area: &Area<'_>, x: i32, y: i32, colour: RGBColor, filled: bool) -> Result<(), Error> {
    match filled {
        true => area.draw(&Circle::new((x, y), 4, colour.filled())),
        false => {
            area.draw(&Rectangle::new([(x - 4, y - 4), (x + 4, y + 4)], colour.stroke_width(2)))
        }
    }
    .map_err(Error::context("a chart"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::table::tests::report;

    #[test]
    fn every_chart_is_an_svg_that_names_its_tiers_and_no_black() {
        let charts = all(&report()).unwrap();
        assert_eq!(charts.len(), 6);
        for chart in &charts {
            assert!(
                chart.svg.starts_with("<svg ") && chart.svg.trim_end().ends_with("</svg>"),
                "{}",
                chart.svg
            );
            assert!(
                (chart.svg.contains("native") || chart.id == "phases")
                    && !chart.svg.contains("#000000"),
                "{}",
                chart.id
            );
        }
        assert!(charts[1].svg.contains("skillhost, cold") && !charts[1].svg.contains("bubblewrap"));
    }

    #[test]
    fn labels_keep_their_distance_and_stay_on_the_chart() {
        assert_eq!(apart(&[10, 12, 100], 17, 300), [10, 27, 100]);
        assert_eq!(apart(&[295, 298, 299], 17, 300), [266, 283, 300]);
        assert_eq!(apart(&[], 17, 300), Vec::<i32>::new());
    }
}
