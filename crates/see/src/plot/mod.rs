//! Plots of figures: what is not a trace, but numbers of benchmarks, plans and files.

mod bars;
mod cells;
mod curve;
mod parts;

use crate::{
    chart::{STYLE, WIDTH, standalone},
    format::escape,
};
use lamina::ModelInfo;
use lamina_base::cpu_name;
use std::path::Path;

/// A plot, with all that it has to say.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// What is shown.
    pub title: String,
    /// Of which model, on which machine, when.
    pub conditions: String,
    /// Its numbers.
    pub form: PlotForm,
}

/// The numbers of a plot, and how they are drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum PlotForm {
    /// Rates as bars.
    Bars {
        /// What is counted for a second.
        unit: &'static str,
        /// The bars.
        bars: Vec<RateBar>,
    },
    /// Bytes of parts in one bar, against what there may be.
    Parts {
        /// Names and bytes.
        parts: Vec<(String, u64)>,
        /// Bytes at most; none without a limit.
        budget: Option<u64>,
    },
    /// One value after another.
    Curve(PlotCurve),
    /// Some drawings, one below the other.
    Stack(Vec<PlotForm>),
    /// A word for each place of a grid.
    Cells {
        /// Names of rows.
        rows: Vec<String>,
        /// Names of columns.
        columns: Vec<String>,
        /// Words by row and column; empty where there is none.
        words: Vec<Vec<String>>,
    },
    /// A part from 0 to 1 for each place of a grid.
    Heat {
        /// Names of rows.
        rows: Vec<String>,
        /// Names of columns.
        columns: Vec<String>,
        /// Parts by row and column; none where there is nothing.
        values: Vec<Vec<Option<f64>>>,
    },
}

/// Values along an axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlotCurve {
    /// What a value is.
    pub name: &'static str,
    /// What stands below it.
    pub along: &'static str,
    /// The values; their places are those below.
    pub values: Vec<f64>,
    /// The place of each value.
    pub places: Vec<f64>,
    /// The lowest and highest measurement of each value; empty where there was one alone.
    pub ranges: Vec<(f64, f64)>,
    /// What memory alone would allow at each place; empty where that is not known.
    pub limits: Vec<f64>,
}

/// A measured rate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RateBar {
    /// What was measured.
    pub name: String,
    /// Each repeat.
    pub repeats: Vec<f64>,
    /// What memory alone would allow; none where that is not known.
    pub limit: Option<f64>,
    /// What was predicted.
    pub predicted: Option<f64>,
}

impl Plot {
    /// The drawing alone.
    fn drawn(&self) -> String {
        self.form.drawn(&format!("{}; {}", self.title, self.conditions))
    }

    /// Heads and rows of its numbers.
    pub fn table(&self) -> (Vec<String>, Vec<Vec<String>>) {
        self.form.table()
    }

    /// As a file of its own: SVG.
    pub fn svg(&self) -> String {
        standalone(&self.drawn())
    }

    /// As a page that asks nobody for anything, with its numbers as a table.
    pub fn html(&self) -> String {
        let (heads, rows) = self.table();
        let cells = |tag: &str, cells: &[String]| {
            let cells: String = cells.iter().map(|c| format!("<{tag}>{}</{tag}>", escape(c))).collect();
            format!("<tr>{cells}</tr>")
        };
        let body: String = rows.iter().map(|row| cells("td", row)).collect();
        format!(
            include_str!("plot.html"),
            title = escape(&self.title),
            conditions = escape(&self.conditions),
            style = STYLE,
            svg = self.drawn(),
            head = cells("th", &heads),
            body = body
        )
    }
}

impl PlotForm {
    /// The drawing alone.
    fn drawn(&self, title: &str) -> String {
        match self {
            PlotForm::Bars { unit, bars } => bars::drawn(title, unit, bars),
            PlotForm::Parts { parts, budget } => parts::drawn(title, parts, *budget),
            PlotForm::Curve(curve) => curve.drawn(title),
            // Each says which of them it is: who hears a page has nothing but names to tell drawings apart.
            PlotForm::Stack(forms) => {
                let one = |(i, form): (usize, &PlotForm)| {
                    form.drawn(&format!("{title}; {} of {}: {}", i + 1, forms.len(), form.shows()))
                };
                stacked(title, &forms.iter().enumerate().map(one).collect::<Vec<_>>())
            }
            PlotForm::Cells { rows, columns, words } => cells::words(title, rows, columns, words),
            PlotForm::Heat { rows, columns, values } => cells::heat(title, rows, columns, values),
        }
    }

    /// What its numbers are, in words.
    fn shows(&self) -> String {
        match self {
            PlotForm::Bars { unit, .. } => format!("{unit} by measurement"),
            PlotForm::Parts { .. } => "bytes by part".into(),
            PlotForm::Curve(PlotCurve { name, along, .. }) => format!("{name}, along {along}"),
            PlotForm::Stack(forms) => format!("{} drawings", forms.len()),
            PlotForm::Cells { .. } => "words by row and column".into(),
            PlotForm::Heat { .. } => "parts by row and column".into(),
        }
    }

    /// Heads and rows of its numbers.
    fn table(&self) -> (Vec<String>, Vec<Vec<String>>) {
        match self {
            PlotForm::Bars { unit, bars } => bars::table(unit, bars),
            PlotForm::Parts { parts, .. } => {
                let row = |(name, bytes): &(String, u64)| vec![name.clone(), bytes.to_string()];
                (vec!["part".into(), "bytes".into()], parts.iter().map(row).collect())
            }
            PlotForm::Curve(curve) => curve.table(),
            PlotForm::Stack(forms) => {
                let mut tables = forms.iter().map(PlotForm::table);
                let (heads, mut rows) = tables.next().unwrap_or_default();
                tables.for_each(|(heads, more)| rows.extend(std::iter::once(heads).chain(more)));
                (heads, rows)
            }
            PlotForm::Cells { rows, columns, words } => cells::table(rows, columns, words),
            PlotForm::Heat { rows, columns, values } => {
                let word = |v: &Option<f64>| v.map_or_else(String::new, |v| format!("{v:.4}"));
                let words: Vec<Vec<String>> =
                    values.iter().map(|row| row.iter().map(word).collect()).collect();
                cells::table(rows, columns, &words)
            }
        }
    }
}

/// Drawings one below the other.
fn stacked(title: &str, drawings: &[String]) -> String {
    let (mut all, mut y) = (String::new(), 0.0);
    for drawing in drawings {
        let size = drawing.split('"').nth(1).and_then(|view| view.rsplit(' ').next());
        let height: f64 = size.and_then(|height| height.parse().ok()).unwrap_or(0.0);
        let place = format!(r#"<svg y="{y:.0}" width="{WIDTH}" height="{height:.0}" "#);
        all += &drawing.replacen("<svg ", &place, 1);
        y += height + 24.0;
    }
    let title = escape(title);
    format!(r#"<svg viewBox="0 0 {WIDTH} {y:.0}" role="group" aria-label="{title}">{all}</svg>"#)
}

/// Which model was measured, and on what.
pub fn conditions(info: &ModelInfo) -> String {
    let name = Path::new(&info.path).file_stem().map(|s| s.to_string_lossy().into_owned());
    let threads = if info.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", info.threads) };
    [name.unwrap_or_default(), info.type_name.clone(), info.device.clone(), threads, cpu_name()].join(", ")
}
