//! A step's batch as bytes.

use crate::{
    RankError, Result,
    words::{WordReader, WordWriter},
};
use lamina_plan::{
    Addend, BackendError, Batch, BatchSeq, Input, KeptCells, Tap, View,
    batch::Copy::{self, Page, State},
};

/// In place of a token that no row was chosen from on, of a state that is cleared: no index has it.
const NONE: u32 = u32::MAX;

/// `batch` as bytes, with the taps and the addends of the marks of which `reads` is true, and with the numbers that it brings
/// where somebody `takes_numbers`.
///
/// # Errors
/// When rows see only some of their cells: sums over them are kept on one machine.
pub fn write_batch(batch: &Batch, takes_numbers: bool, reads: &dyn Fn(usize) -> bool) -> Result<Vec<u8>> {
    let mut w = WordWriter::default();
    let input = |input: &Input| match *input {
        Input::Token(token) => [0, token],
        Input::Row(row) => [1, row],
    };
    let inputs: Vec<u32> = batch.inputs.iter().flat_map(input).collect();
    w.list(inputs.into_iter());
    for numbers in [&batch.numbers, &batch.features] {
        w.numbers(if takes_numbers { numbers } else { &[] });
    }
    w.list(batch.positions.as_flattened().iter().copied());
    let lists = [
        &batch.segments,
        &batch.cells,
        &batch.seq_of,
        &batch.sees_until,
        &batch.tables,
        &batch.selected,
        &batch.logits,
    ];
    lists.into_iter().for_each(|list| w.list(list.iter().copied()));
    w.one(batch.seqs.len() as u32);
    batch.seqs.iter().try_for_each(|seq| write_seq(&mut w, seq))?;
    let copies: Vec<u32> = batch.copies.iter().flat_map(copy_words).collect();
    w.list(copies.into_iter());
    let taps = batch.taps.iter().filter(|tap| reads(tap.mark));
    let taps: Vec<u32> = taps.flat_map(|tap| [tap.mark as u32, tap.rows.start, tap.rows.end]).collect();
    w.list(taps.into_iter());
    let addends: Vec<&Addend> = batch.addends.iter().filter(|addend| reads(addend.mark)).collect();
    w.one(addends.len() as u32);
    for addend in addends {
        w.one(addend.mark as u32);
        w.one(addend.row);
        w.numbers(&addend.numbers);
    }
    Ok(w.bytes())
}

fn write_seq(w: &mut WordWriter, seq: &BatchSeq) -> Result<()> {
    if seq.kept != KeptCells::All {
        let what = "prompts whose cache is compressed".to_owned();
        return Err(BackendError::Unsupported { backend: "a model in stages", what }.into());
    }
    let tables: Vec<u32> = seq.tables.iter().flat_map(|table| [table.start, table.end]).collect();
    w.list(tables.into_iter());
    let words =
        [seq.state, seq.next_state, seq.prompt_len, seq.first_row, seq.rows, seq.decode_from.unwrap_or(NONE)];
    words.into_iter().for_each(|word| w.one(word));
    w.numbers(&seq.lora);
    match &seq.view {
        View::InOrder => w.one(0),
        View::Mapped(map) => {
            w.one(1);
            w.list(map.iter().copied());
        }
    }
    Ok(())
}

fn copy_words(copy: &Copy) -> [u32; 4] {
    match *copy {
        Page { group, from, to } => [0, group, from, to],
        State { from, to } => [1, 0, from.unwrap_or(NONE), to],
    }
}

/// The batch in these bytes.
///
/// # Errors
/// When they are not those of a batch.
pub fn read_batch(bytes: &[u8]) -> Result<Batch> {
    let mut r = WordReader::new(bytes);
    let inputs = r.list()?.as_chunks().0.iter().map(input).collect::<Result<_>>()?;
    let (numbers, features, positions) = (r.numbers()?, r.numbers()?, r.list()?);
    let mut batch = Batch {
        inputs,
        numbers,
        features,
        positions: positions.as_chunks().0.to_vec(),
        segments: r.list()?,
        cells: r.list()?,
        seq_of: r.list()?,
        sees_until: r.list()?,
        tables: r.list()?,
        selected: r.list()?,
        logits: r.list()?,
        ..Batch::default()
    };
    for _ in 0..r.one()? {
        batch.seqs.push(read_seq(&mut r)?);
    }
    batch.copies = r.list()?.as_chunks().0.iter().map(copy).collect::<Result<_>>()?;
    let tap = |&[mark, start, end]: &[u32; 3]| Tap { mark: mark as usize, rows: start..end };
    batch.taps = r.list()?.as_chunks().0.iter().map(tap).collect();
    for _ in 0..r.one()? {
        batch.addends.push(Addend { mark: r.one()? as usize, row: r.one()?, numbers: r.numbers()? });
    }
    r.end()?;
    Ok(batch)
}

fn input(&[kind, value]: &[u32; 2]) -> Result<Input> {
    match kind {
        0 => Ok(Input::Token(value)),
        1 => Ok(Input::Row(value)),
        _ => Err(unknown("input")),
    }
}

fn copy(&[kind, group, from, to]: &[u32; 4]) -> Result<Copy> {
    match kind {
        0 => Ok(Page { group, from, to }),
        1 => Ok(State { from: Some(from).filter(|&from| from != NONE), to }),
        _ => Err(unknown("copy")),
    }
}

fn read_seq(r: &mut WordReader<'_>) -> Result<BatchSeq> {
    let tables = r.list()?.as_chunks().0.iter().map(|&[start, end]| start..end).collect();
    let [state, next_state, prompt_len, first_row, rows, decode_from] =
        [r.one()?, r.one()?, r.one()?, r.one()?, r.one()?, r.one()?];
    let lora = r.shared_numbers()?;
    let view = match r.one()? {
        0 => View::InOrder,
        1 => View::Mapped(r.list()?.into()),
        _ => return Err(unknown("view")),
    };
    let decode_from = Some(decode_from).filter(|&from| from != NONE);
    let kept = KeptCells::All;
    Ok(BatchSeq { tables, state, next_state, prompt_len, first_row, rows, lora, decode_from, view, kept })
}

fn unknown(what: &str) -> RankError {
    RankError::Frame(format!("a batch has an {what} of an unknown kind"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{batch_check::check_batch, empty_plan::empty_plan};
    use lamina_fixtures::Numbers;
    use lamina_plan::{KvType, Limits, Plan, SeqPlace, Wants};

    fn batch() -> Batch {
        let mut b = Batch::default();
        let place = |page| SeqPlace {
            pages: vec![vec![page, 5]],
            state: page,
            next_state: Some(page + 1),
            lora: [0.5, 0.0].into(),
            decode_from: Some(40),
            ..SeqPlace::default()
        };
        b.push(
            &[1, 2, 3],
            31,
            place(0),
            Wants { rows: lamina_plan::Select::All, logits: lamina_plan::Select::Last },
        );
        let view = View::Mapped([0, 3, u32::MAX].into());
        b.push_rows(
            [(Input::Row(0), [1, 2, 3], 1)],
            SeqPlace { view, ..place(2) },
            lamina_plan::Select::Last,
        );
        b.numbers = vec![1.5; 4];
        b.copies = vec![
            Page { group: 0, from: 1, to: 2 },
            State { from: None, to: 1 },
            State { from: Some(0), to: 3 },
        ];
        b.taps = vec![Tap { mark: 1, rows: 0..2 }];
        b.addends = vec![Addend { mark: 0, row: 3, numbers: vec![0.25; 4] }];
        b
    }

    fn plan_and_limits() -> (Plan, Limits) {
        let plan = empty_plan();
        let kv = vec![KvType::F16.into()];
        (plan, Limits { rows: 8, selected: 8, logits: 8, pages: vec![6], states: 4, kv })
    }

    #[test]
    fn a_batch_comes_as_it_went() {
        let (batch, (plan, limits)) = (batch(), plan_and_limits());
        let read = read_batch(&write_batch(&batch, true, &|_| true).unwrap()).unwrap();
        assert_eq!(read, batch);
        check_batch(&read, &plan, &limits).unwrap();
        let others = read_batch(&write_batch(&batch, false, &|mark| mark == 1).unwrap()).unwrap();
        assert_eq!((others.taps.len(), others.addends.len(), others.numbers.len()), (1, 0, 0));
    }

    /// What passes the check stays inside: every index that a kernel would follow is followed here.
    #[test]
    fn damaged_batches_are_refused_or_stay_inside() {
        let (plan, limits) = plan_and_limits();
        let whole = write_batch(&batch(), true, &|_| true).unwrap();
        assert!((0..whole.len()).all(|len| read_batch(&whole[..len]).is_err()));
        let mut numbers = Numbers::fuzz(9);
        let mut passed = 0;
        for _ in 0..20_000 * lamina_fixtures::extent::times() {
            let mut bytes = whole.clone();
            for _ in 0..1 + numbers.below(3) {
                let at = numbers.below(bytes.len());
                bytes[at] = *numbers.pick(&[0, 1, 2, 3, 7, 8, 32, 64, 127, 128, 255]);
            }
            let Ok(batch) = read_batch(&bytes) else { continue };
            if check_batch(&batch, &plan, &limits).is_err() {
                continue;
            }
            passed += 1;
            for row in 0..batch.rows() {
                let seq = batch.seq(row);
                let (page, _) = batch.locate(seq, 0, batch.cells[row] as usize);
                assert!(page < limits.pages[0]);
                _ = (batch.index(row), batch.len_of(seq), batch.decodes(row));
            }
            for (i, &row) in batch.logits.iter().enumerate() {
                assert!((batch.selected[row as usize] as usize) < batch.rows() && i < limits.logits);
            }
        }
        assert!(passed > 100, "{passed}");
    }
}
