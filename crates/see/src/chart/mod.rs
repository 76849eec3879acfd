//! Figures: functions from a trace to SVG text, each with the sentence that it proves, and its numbers as a table.

mod against;
mod axis;
mod canvas;
mod choice;
mod experts;
mod floor;
mod form;
mod glances;
mod lanes;
mod lens;
mod letters;
mod limits;
mod pages;
mod picture;
mod plan;
mod roofline;
mod steps;
mod sums;
mod text;
mod turns;

pub use against::against;
pub(crate) use against::told_of;
pub(crate) use axis::round_step;
pub(crate) use canvas::{Anchor, Box2, Canvas, WIDTH};
pub use canvas::{STYLE, standalone};

use crate::{error::SeeError, read::TextStrip, trace::Trace};

/// A figure with what it says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figure {
    /// Name in commands: `limits`.
    pub id: &'static str,
    /// Heading.
    pub title: &'static str,
    /// Its key number, for the list of stations.
    pub key: String,
    /// What it shows, as one or two sentences; `*` surrounds what matters.
    pub finding: String,
    /// How to read it.
    pub caption: &'static str,
    /// How to see it alone.
    pub command: &'static str,
    /// Labels of colours: class and word.
    pub colours: Vec<(&'static str, &'static str)>,
    /// The drawing.
    pub svg: String,
    /// It follows the chosen token: scripts fill a place of this name below the drawing.
    pub follows: Option<&'static str>,
    /// The same of an older recording, where two are compared.
    pub before: Option<PastFigure>,
    /// Its numbers: heads and rows.
    pub table: (Vec<&'static str>, Vec<Vec<String>>),
}

/// What a figure showed in an older recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PastFigure {
    /// What it showed.
    pub finding: String,
    /// The drawing.
    pub svg: String,
}

type Draw = fn(&Trace, &TextStrip) -> Option<Figure>;

/// The stations in their order; those without data in a trace are left out of it.
const STATIONS: &[Draw] = &[
    letters::letters,
    steps::steps,
    floor::floor,
    plan::plan,
    limits::limits,
    roofline::roofline,
    lanes::lanes,
    pages::pages,
    turns::turns,
    steps::streamed,
    experts::experts,
    lens::lens,
    glances::heads,
    choice::choice,
    form::form,
    steps::drafts,
    text::text,
    sums::sums,
];

/// All figures that a trace has data for.
pub fn figures(trace: &Trace) -> Vec<Figure> {
    let strip = TextStrip::of(trace);
    STATIONS.iter().filter_map(|draw| draw(trace, &strip)).collect()
}

/// One figure by its name.
///
/// # Errors
/// When there is none of this name, or the trace has no data for it.
pub fn figure(trace: &Trace, name: &str) -> Result<Figure, SeeError> {
    named(figures(trace), name)
}

/// One of some figures by its name.
///
/// # Errors
/// When there is none of this name.
pub fn named(all: Vec<Figure>, name: &str) -> Result<Figure, SeeError> {
    let known = all.iter().map(|f| f.id).collect::<Vec<_>>().join(" ");
    let found = all.into_iter().find(|f| f.id == name);
    found.ok_or_else(|| SeeError::NoFigure { name: name.to_owned(), known })
}
