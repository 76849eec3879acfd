//! Recordings of steps: which steps are alike, and what was recorded of them.

use lamina_plan::{Batch, BatchSeq, RowKind, op::Op};

/// Steps of more rows are not recorded: their launches come ahead of the device's work anyway.
pub(crate) const MOST_ROWS: usize = 128;

/// Recordings that are kept.
const KEPT: usize = 32;

/// Rows that the grids of a step with `rows` rows are made for: those of a recorded one serve all steps of its bucket.
pub(crate) fn bucket(rows: usize) -> usize {
    if rows == 0 || rows > MOST_ROWS { rows } else { rows.next_power_of_two() }
}

/// What makes two steps alike.
#[derive(Clone, PartialEq)]
struct StepShape {
    buckets: [usize; 3],
    adapted: bool,
    /// Units of attention run side by side.
    side: bool,
    ops: Vec<Op>,
}

/// A shape that was seen, with its recording from the second time on.
struct ShapeRecording<G> {
    shape: StepShape,
    graph: Option<G>,
}

/// What a step is to do with its operators.
pub(crate) enum Plays<'a, G> {
    /// Run the recording.
    Graph(&'a G),
    /// Record them.
    Record,
    /// Launch them one by one.
    Launch,
}

/// Recordings of a machine.
pub(crate) struct Graphs<G> {
    known: Vec<ShapeRecording<G>>,
    /// Index of the shape that is being recorded.
    recording: Option<usize>,
}

impl<G> Graphs<G> {
    pub fn new() -> Self {
        Graphs { known: vec![], recording: None }
    }

    /// Forgets all: the memory that they name is no longer used.
    pub fn clear(&mut self) {
        (self.known, self.recording) = (vec![], None);
    }

    /// How `ops` are run over `b`. A shape that comes once is not worth a recording.
    pub fn play(&mut self, b: &Batch, side: bool, ops: &[Op]) -> Plays<'_, G> {
        self.recording = None;
        if b.rows() > MOST_ROWS {
            return Plays::Launch;
        }
        let buckets = [RowKind::All, RowKind::Selected, RowKind::Logits].map(|kind| bucket(b.count(kind)));
        let adapted = b.seqs.iter().any(BatchSeq::adapted);
        let alike =
            |s: &StepShape| s.buckets == buckets && (s.adapted, s.side) == (adapted, side) && s.ops == ops;
        match self.known.iter().position(|k| alike(&k.shape)) {
            None => {
                if self.known.len() == KEPT {
                    self.known.remove(0);
                }
                let shape = StepShape { buckets, adapted, side, ops: ops.to_vec() };
                self.known.push(ShapeRecording { shape, graph: None });
                Plays::Launch
            }
            Some(i) => {
                if self.known[i].graph.is_none() {
                    self.recording = Some(i);
                    return Plays::Record;
                }
                match &self.known[i].graph {
                    Some(graph) => Plays::Graph(graph),
                    None => Plays::Launch,
                }
            }
        }
    }

    /// True while a step is recorded.
    pub fn recording(&self) -> bool {
        self.recording.is_some()
    }

    /// Keeps the recording of the running step.
    pub fn keep(&mut self, graph: G) {
        if let Some(known) = self.recording.take().and_then(|i| self.known.get_mut(i)) {
            known.graph = Some(graph);
        }
    }

    /// Ends a recording that is not kept.
    pub fn drop_recording(&mut self) {
        self.recording = None;
    }
}
