//! A stage that a rank runs, as its leader sees it.

use crate::{
    RankError, Result,
    batch_bytes::write_batch,
    line::{RankLine, StageFrame},
    words::{WordReader, WordWriter},
};
use lamina_plan::{Batch, RowKind, StagePlan, StageSegment, op::Op};

/// Rows that cross between machines, by slot.
pub(crate) type HeldRows = Vec<Vec<f32>>;

/// A stage that a rank runs, as its leader sees it.
pub struct RankStage {
    line: RankLine,
    name: String,
    segment: StageSegment,
    /// The rows of each slot that leaves: what kind, and how many numbers each.
    widths: Vec<(RowKind, usize)>,
    /// It has operators that take what a batch brings beside tokens.
    takes_numbers: bool,
    /// Of each mark, whether the rank reads its rows.
    marks: Vec<bool>,
    /// Bytes of a page of each layer group, of the rank's layers.
    pages: Vec<usize>,
    /// Bytes of a state, of the rank's layers.
    state: usize,
}

impl RankStage {
    /// The rank behind `line`, which runs the one segment of `stage`; a page of each group has so many bytes there, and a
    /// state.
    pub fn new(line: RankLine, name: &str, stage: &StagePlan, pages: Vec<usize>, state: usize) -> RankStage {
        let (segment, marks) = (stage.segments[0].clone(), stage.marks.clone());
        let widths = segment.leaves.iter().map(|&slot| (stage.plan.kind(slot), stage.plan.width(slot)));
        let widths = widths.collect();
        let takes_numbers = stage.plan.ops.iter().any(|op| matches!(op, Op::Embed(_) | Op::Feature(_)));
        RankStage { line, name: name.to_owned(), segment, widths, takes_numbers, marks, pages, state }
    }

    /// Its address.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Ends the connection: behind an error nobody knows which answer comes next.
    pub(crate) fn end_line(&self) {
        self.line.end();
    }

    /// True where rows behind a mark are read there.
    pub(crate) fn has(&self, mark: usize) -> bool {
        self.marks[mark]
    }

    /// Bytes of a page of a group there.
    pub(crate) fn page_bytes(&self, group: usize) -> usize {
        self.pages[group]
    }

    /// Bytes of a state there.
    pub(crate) fn state_bytes(&self) -> usize {
        self.state
    }

    /// Tells of a step that begins: copies are made there meanwhile.
    pub(crate) fn begin(&self, batch: &Batch) -> Result<()> {
        let bytes = write_batch(batch, self.takes_numbers, &|mark| self.has(mark))?;
        Ok(self.line.send(StageFrame::Batch, &bytes)?)
    }

    /// Runs its operators on the rows that enter. The rows that leave are in `held` afterwards, and those of its taps are
    /// returned.
    pub(crate) fn run(&self, batch: &Batch, held: &mut HeldRows) -> Result<Vec<Vec<f32>>> {
        let mut entering = WordWriter::default();
        self.segment.enters.iter().for_each(|slot| entering.numbers(&held[slot.0 as usize]));
        self.line.send(StageFrame::Enter, &entering.bytes())?;
        let bytes = self.line.next(StageFrame::Leave)?;
        let mut left = WordReader::new(&bytes);
        expect(left.one()? as usize, self.segment.leaves.len(), "slots")?;
        for (slot, &(kind, width)) in self.segment.leaves.iter().zip(&self.widths) {
            let rows = left.numbers()?;
            expect(rows.len(), batch.count(kind) * width, "numbers")?;
            held[slot.0 as usize] = rows;
        }
        let taps = (0..left.one()?).map(|_| left.numbers()).collect::<Result<_>>()?;
        left.end()?;
        Ok(taps)
    }

    /// Waits for the end of a step without rows.
    pub(crate) fn end_step(&self) -> Result<()> {
        let bytes = self.line.next(StageFrame::Leave)?;
        let mut left = WordReader::new(&bytes);
        expect(left.one()? as usize, 0, "slots")?;
        expect(left.one()? as usize, 0, "taps")?;
        left.end()
    }

    /// A page of its layers of a group.
    pub(crate) fn export_page(&self, group: usize, page: u32) -> Result<Vec<u8>> {
        self.line.send(StageFrame::Export, &place(0, group as u32, page))?;
        self.exported(self.pages[group])
    }

    /// Puts a page back.
    pub(crate) fn import_page(&self, group: usize, page: u32, bytes: &[u8]) -> Result<()> {
        self.import(place(0, group as u32, page), bytes)
    }

    /// A state of its layers.
    pub(crate) fn export_state(&self, state: u32) -> Result<Vec<u8>> {
        self.line.send(StageFrame::Export, &place(1, 0, state))?;
        self.exported(self.state)
    }

    fn exported(&self, length: usize) -> Result<Vec<u8>> {
        let bytes = self.line.next(StageFrame::Bytes)?;
        expect(bytes.len(), length, "bytes")?;
        Ok(bytes)
    }

    /// Puts a state back.
    pub(crate) fn import_state(&self, state: u32, bytes: &[u8]) -> Result<()> {
        self.import(place(1, 0, state), bytes)
    }

    fn import(&self, mut place: Vec<u8>, bytes: &[u8]) -> Result<()> {
        place.extend_from_slice(bytes);
        self.line.send(StageFrame::Import, &place)?;
        match self.line.next(StageFrame::Bytes)?.is_empty() {
            true => Ok(()),
            false => Err(RankError::Frame("bytes came for a page that was put back".into())),
        }
    }
}

/// Refuses an answer of another size than what was asked for.
fn expect(found: usize, wanted: usize, what: &str) -> Result<()> {
    match found == wanted {
        true => Ok(()),
        false => Err(RankError::Frame(format!("{found} {what} came in place of {wanted}"))),
    }
}

/// Which page or state is meant.
fn place(kind: u32, group: u32, index: u32) -> Vec<u8> {
    let mut words = WordWriter::default();
    [kind, group, index].into_iter().for_each(|word| words.one(word));
    words.bytes()
}
