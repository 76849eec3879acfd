//! Rows that several ranks have computed a part of each, on their way to the others: columns of products, and results of
//! experts.

use crate::{
    RankError, Result,
    words::{WordReader, WordWriter},
};
use lamina_plan::{Batch, GatheredSlot, RoutedExperts, Runner, Step};
use std::ops::Range;

/// What a rank has computed, as bytes.
pub(crate) type RankBytes<'a> = (usize, &'a [u8]);

/// Rows that several ranks have computed a part of each.
pub(crate) trait SharedRows {
    /// Writes the own part of them, in the place of what is in `bytes`.
    ///
    /// # Errors
    /// When the machine fails.
    fn own(&mut self, bytes: &mut Vec<u8>) -> Result<()>;

    /// Puts in what other ranks have; `own` is what this one has told.
    ///
    /// # Errors
    /// When it is of another step, or not as much as a rank has.
    fn put(&mut self, own: &[u8], others: &[RankBytes<'_>]) -> Result<()>;
}

/// The words of a part behind the place of the step that it is of: who counts differently is told apart.
fn at_place(bytes: &[u8], number: usize) -> Result<WordReader<'_>> {
    let mut words = WordReader::new(bytes);
    match words.one()? as usize {
        found if found == number => Ok(words),
        found => Err(RankError::Frame(format!("rows of place {found} came in place of {number}"))),
    }
}

/// Results of experts, of which each rank computes some.
pub(crate) struct ExpertResults<'a> {
    pub experts: RoutedExperts<'a>,
    /// Which rank it is, and the experts of all.
    pub parts: (usize, &'a [Range<usize>]),
    /// Which segment of the step they end.
    pub number: usize,
}

impl SharedRows for ExpertResults<'_> {
    fn own(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        let (rank, parts) = self.parts;
        let mut words = WordWriter::over(bytes);
        words.one(self.number as u32);
        words.numbers(&self.experts.rows(parts[rank].clone())?);
        *bytes = words.bytes();
        Ok(())
    }

    fn put(&mut self, _own: &[u8], others: &[RankBytes<'_>]) -> Result<()> {
        for (rank, bytes) in others {
            let mut words = at_place(bytes, self.number)?;
            self.experts.put(self.parts.1[*rank].clone(), &words.numbers()?)?;
            words.end()?;
        }
        Ok(())
    }
}

/// Rows of the slots that a segment's end brings together.
pub(crate) struct GatheredRows<'a> {
    pub runner: &'a mut Runner,
    pub batch: &'a Batch,
    /// Which rank it is, and the slots.
    pub slots: (usize, &'a [GatheredSlot]),
    /// Which segment of the step they end.
    pub number: usize,
}

impl SharedRows for GatheredRows<'_> {
    fn own(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        let (rank, slots) = self.slots;
        let mut words = WordWriter::over(bytes);
        words.one(self.number as u32);
        for gathered in slots {
            let (plan, from) = (self.runner.plan(), gathered.from);
            let width = plan.width(from);
            // A slot that has nothing else has them all.
            let columns = if from == gathered.slot { gathered.columns[rank].clone() } else { 0..width };
            words.one((self.batch.count(plan.kind(from)) * columns.len()) as u32);
            self.runner.with_rows(self.batch, from, &mut |rows| {
                rows.chunks_exact(width).for_each(|row| words.more(&row[columns.clone()]));
            })?;
        }
        *bytes = words.bytes();
        Ok(())
    }

    fn put(&mut self, own: &[u8], others: &[RankBytes<'_>]) -> Result<()> {
        let (own_rank, slots) = self.slots;
        let ranks = others.iter().copied().chain([(own_rank, own)]);
        let read = |(rank, bytes)| Ok((rank, at_place(bytes, self.number)?));
        let mut parts: Vec<(usize, WordReader<'_>)> = ranks.map(read).collect::<Result<_>>()?;
        for gathered in slots {
            let (slot, width) = (gathered.slot, self.runner.plan().width(gathered.slot));
            let mut put = vec![];
            for (rank, words) in &mut parts {
                // Own columns are there already, but for those of another slot.
                let skipped = *rank == own_rank && gathered.from == slot;
                let (columns, bytes) = (gathered.columns[*rank].clone(), words.counted()?);
                let rows = self.batch.count(self.runner.plan().kind(slot));
                if bytes.len() != 4 * rows * columns.len() {
                    let what = format!("{} bytes came for columns of a step", bytes.len());
                    return Err(RankError::Frame(what));
                }
                put.extend((!skipped).then_some((columns, bytes)));
            }
            self.runner.with_rows(self.batch, slot, &mut |rows| {
                put.iter().for_each(|(columns, bytes)| fill(rows, width, columns, bytes));
            })?;
        }
        parts.into_iter().try_for_each(|(_, words)| words.end())
    }
}

/// Fills some columns of rows with the numbers in `bytes`.
fn fill(rows: &mut [f32], width: usize, columns: &Range<usize>, bytes: &[u8]) {
    let some = bytes.chunks_exact(4 * columns.len());
    for (row, some) in rows.chunks_exact_mut(width).zip(some) {
        bytemuck::cast_slice_mut::<f32, u8>(&mut row[columns.clone()]).copy_from_slice(some);
    }
}
