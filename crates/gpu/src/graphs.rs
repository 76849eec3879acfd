//! Recordings of steps: which steps are alike, and what was recorded of them.

use lamina_plan::{Batch, BatchSeq, RowKind, op::Op};

/// Steps of more rows are not recorded: their launches come ahead of the device's work anyway.
pub(crate) const MOST_ROWS: usize = 128;

/// Recordings that are kept of each list of operators. A plan that is divided with the host has one for each of its pieces: a
/// limit on all of them would evict every recording of a deep model before its next step.
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
                self.evict(ops);
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

    /// Drops the oldest recording of `ops` where there are as many as are kept.
    fn evict(&mut self, ops: &[Op]) {
        let same = |k: &ShapeRecording<G>| k.shape.ops == ops;
        if self.known.iter().filter(|k| same(k)).count() == KEPT {
            let oldest = self.known.iter().position(same);
            oldest.map(|i| self.known.remove(i));
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

#[cfg(test)]
mod tests {
    use super::*;
    use lamina_plan::{
        Select, SeqPlace, Slot,
        op::{Add, ColumnRange},
    };

    /// What the steps of a plan of `pieces` pieces do: pieces that are launched, recorded, and run as recorded.
    fn played(graphs: &mut Graphs<()>, pieces: u16, rows: usize) -> [usize; 3] {
        let mut batch = Batch::default();
        batch.push(&vec![1; rows], 0, SeqPlace::default(), Select::Last);
        let mut counts = [0; 3];
        for i in 0..pieces {
            let add = Add { x: Slot(i), scale: 1.0, into: Slot(i), columns: ColumnRange::All };
            match graphs.play(&batch, false, &[add.into()]) {
                Plays::Launch => counts[0] += 1,
                Plays::Record => counts[1] += 1,
                Plays::Graph(()) => counts[2] += 1,
            }
            if graphs.recording() {
                graphs.keep(());
            }
        }
        counts
    }

    #[test]
    fn a_step_is_launched_then_recorded_then_run_however_many_pieces_it_has() {
        let mut graphs: Graphs<()> = Graphs::new();
        let pieces = 3 * KEPT;
        for rows in [1, 8] {
            let steps = [0; 3].map(|_| played(&mut graphs, pieces as u16, rows));
            assert_eq!(steps, [[pieces, 0, 0], [0, pieces, 0], [0, 0, pieces]], "{rows} rows");
        }
    }

    #[test]
    fn the_oldest_shape_of_a_piece_is_evicted_first() {
        let mut graphs: Graphs<()> = Graphs::new();
        // Buckets of rows are few: shapes differ by whether units of attention run side by side, and by rows that want logits.
        let mut shape = |rows: usize, logits: usize| {
            let mut batch = Batch::default();
            let select = |i| if i < logits { Select::Last } else { Select::None };
            (0..rows).for_each(|i| batch.push(&[1], 0, SeqPlace::default(), select(i)));
            matches!(graphs.play(&batch, false, &[]), Plays::Launch)
        };
        let shapes =
            || (0..8).flat_map(|r| (0..8).map(move |l| (1usize << r, 1usize << l))).filter(|(r, l)| l <= r);
        let all: Vec<_> = shapes().take(KEPT + 1).collect();
        assert!(
            all.len() == KEPT + 1 && all.iter().all(|&(rows, logits)| shape(rows, logits)),
            "each is new"
        );
        assert!(!shape(all[1].0, all[1].1), "the second is kept");
        assert!(shape(all[0].0, all[0].1), "the first made room for the last");
    }
}
