//! Rows of numbers that are made when a step comes to them: an encoder of pictures works beside the engine, and not at all
//! where the cache has all of a picture.

use crate::error::{EngineError, Result};
use std::{
    fmt,
    ops::Range,
    sync::{Arc, OnceLock},
};

/// Makes the rows of a picture.
pub trait RowSource: Send + Sync {
    /// The rows, once they are there or cannot be made; none until then. The first call asks for them. Who made them wakes
    /// the engine then ([`Service::waker`](crate::Service::waker)). Never waits.
    fn rows(&self) -> Option<Result<Arc<dyn EncodedRows>>>;
}

/// Rows that an encoder made.
pub trait EncodedRows: Send + Sync {
    /// `[rows x width]` numbers.
    fn numbers(&self) -> &[f32];

    /// For each of the model's first layers what is added behind it; as many numbers.
    fn deep(&self) -> &[Vec<f32>];
}

/// Some rows of a source, as far as they have come.
#[derive(Clone)]
pub(crate) struct SourcedRows {
    source: Arc<dyn RowSource>,
    /// Of the source's rows.
    part: Range<usize>,
    width: usize,
    come: OnceLock<Arc<dyn EncodedRows>>,
}

impl fmt::Debug for SourcedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rows {:?} of a source", self.part)
    }
}

impl SourcedRows {
    /// Rows `part` of `source`, `width` numbers each.
    pub fn new(source: Arc<dyn RowSource>, part: Range<usize>, width: usize) -> SourcedRows {
        SourcedRows { source, part, width, come: OnceLock::new() }
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.part.len()
    }

    /// True once their numbers are there.
    pub fn have_come(&self) -> bool {
        self.come.get().is_some()
    }

    /// Asks for them where they have not come.
    ///
    /// # Errors
    /// When they cannot be made, or are not what they should be.
    pub fn ask(&self) -> Result<()> {
        if self.have_come() {
            return Ok(());
        }
        let Some(rows) = self.source.rows().transpose()? else { return Ok(()) };
        let mut all = std::iter::once(rows.numbers()).chain(rows.deep().iter().map(Vec::as_slice));
        let fit = |numbers: &[f32]| {
            numbers.len() >= self.part.end * self.width && self.of(numbers).iter().all(|v| v.is_finite())
        };
        if !all.all(fit) {
            let what = "the encoder made rows of another size, or with numbers that are not finite";
            return Err(EngineError::Runtime(what.into()));
        }
        // Forks ask for the same ones.
        let _ = self.come.set(rows.clone());
        Ok(())
    }

    /// Row `i`; none before it has come.
    pub fn row(&self, i: usize) -> Option<&[f32]> {
        self.of(self.come.get()?.numbers()).get(i * self.width..(i + 1) * self.width)
    }

    /// What is added to row `i`, layer by layer.
    pub fn deep(&self, i: usize) -> impl Iterator<Item = &[f32]> {
        let layers = self.come.get().map_or(&[][..], |rows| rows.deep());
        layers.iter().map(move |deep| &self.of(deep)[i * self.width..(i + 1) * self.width])
    }

    fn of<'a>(&self, numbers: &'a [f32]) -> &'a [f32] {
        &numbers[self.part.start * self.width..self.part.end * self.width]
    }
}
