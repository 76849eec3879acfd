//! Parts of a batch that follow one another through the stages.

use lamina_plan::{Batch, Plan, View};

/// Rows that a part has at least: with fewer, products wait for weights, which every part reads anew.
const LEAST_ROWS: usize = 64;
/// Parts for each machine, at most. With `p` of them, `n` machines take `(p + n - 1) / (p n)` of the time of one: from 4 on,
/// more parts gain little.
const PARTS_EACH: usize = 4;

/// In how many parts a step of so many rows of `plan` is run by so many machines where nothing in it belongs together; fewer
/// than two: whole.
pub fn part_count(plan: &Plan, rows: usize, machines: usize) -> usize {
    if plan.looks_ahead() { 1 } else { (rows / LEAST_ROWS).min(PARTS_EACH * machines) }
}

/// The parts that a batch is run in by so many machines; fewer than two where it has few rows, or some that belong together.
pub(crate) fn batch_parts(batch: &Batch, plan: &Plan, machines: usize) -> Vec<Batch> {
    let count = part_count(plan, batch.rows(), machines);
    let together = !batch.taps.is_empty()
        || !batch.addends.is_empty()
        || !batch.sees_until.is_empty()
        || !batch.numbers.is_empty()
        || batch.seqs.iter().any(|seq| seq.view != View::InOrder);
    if count < 2 || together {
        return vec![];
    }
    let at = |part: usize| batch.rows() * part / count;
    (0..count).map(|part| batch.part(at(part)..at(part + 1))).collect()
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::empty_plan::empty_plan as plan;
    use lamina_plan::{Select, SeqPlace, Tap};

    fn batch(rows: usize) -> Batch {
        let mut batch = Batch::default();
        let pages = vec![vec![0; rows.div_ceil(lamina_plan::PAGE_LEN)]];
        batch.push(&vec![1; rows], 0, SeqPlace { pages, ..SeqPlace::default() }, Select::Last);
        batch
    }

    #[test]
    fn many_rows_are_cut_and_what_belongs_together_is_not() {
        let counts = |rows| batch_parts(&batch(rows), &plan(), 2).len();
        assert_eq!([1, 127, 128, 400, 5000].map(counts), [0, 0, 2, 6, 8]);
        assert_eq!([1, 127, 128, 400, 5000].map(|rows| part_count(&plan(), rows, 2)), [0, 1, 2, 6, 8]);
        let rows: Vec<usize> = batch_parts(&batch(400), &plan(), 2).iter().map(Batch::rows).collect();
        assert!(rows.iter().sum::<usize>() == 400 && rows.iter().all(|&rows| rows >= LEAST_ROWS), "{rows:?}");
        let tapped = Batch { taps: vec![Tap { mark: 0, rows: 0..1 }], ..batch(400) };
        assert!(batch_parts(&tapped, &plan(), 2).is_empty());
        assert!(batch_parts(&Batch { sees_until: vec![9; 400], ..batch(400) }, &plan(), 2).is_empty());
    }
}
