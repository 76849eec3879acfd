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

/// `batch` as bytes, with the taps and the addends of the marks of which `reads` is true.
///
/// # Errors
/// When rows see only some of their cells: sums over them are kept on one machine.
pub fn write_batch(batch: &Batch, reads: &dyn Fn(usize) -> bool) -> Result<Vec<u8>> {
    let mut w = WordWriter::default();
    let input = |input: &Input| match *input {
        Input::Token(token) => [0, token],
        Input::Row(row) => [1, row],
    };
    let inputs: Vec<u32> = batch.inputs.iter().flat_map(input).collect();
    w.list(inputs.into_iter());
    w.numbers(&batch.numbers);
    w.numbers(&batch.features);
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
