//! Rows that several ranks have computed a part of each, on their way to the others: columns of products, and results of
//! experts.

use crate::{
    RankError, Result,
    words::{WordReader, WordWriter},
};
use lamina_plan::{Batch, GatheredSlot, RoutedExperts, Runner, Step};
use std::ops::Range;

/// Rows that several ranks have computed a part of each.
pub(crate) trait SharedRows {
    /// What rank `rank` has of them, as bytes.
    ///
    /// # Errors
    /// When the machine fails.
    fn part(&self, rank: usize) -> Result<Vec<u8>>;

    /// Puts in what rank `rank` has.
    ///
    /// # Errors
    /// When it is of another step, or not as much as it has.
    fn put(&mut self, rank: usize, bytes: &[u8]) -> Result<()>;
}

/// Refuses what is of another place of a step than `number`: who counts differently is told apart.
fn at_place(words: &mut WordReader<'_>, number: usize) -> Result<()> {
    match words.one()? as usize {
        found if found == number => Ok(()),
        found => Err(RankError::Frame(format!("rows of place {found} came in place of {number}"))),
    }
}

/// Results of experts, of which each rank computes some.
pub(crate) struct ExpertResults<'a> {
    pub experts: RoutedExperts<'a>,
    /// Experts by rank.
    pub parts: &'a [Range<usize>],
    /// Which segment of the step they end.
    pub number: usize,
}

impl SharedRows for ExpertResults<'_> {
    fn part(&self, rank: usize) -> Result<Vec<u8>> {
        let mut words = WordWriter::default();
        words.one(self.number as u32);
        words.numbers(&self.experts.rows(self.parts[rank].clone())?);
        Ok(words.bytes())
    }

    fn put(&mut self, rank: usize, bytes: &[u8]) -> Result<()> {
        let mut words = WordReader::new(bytes);
        at_place(&mut words, self.number)?;
        self.experts.put(self.parts[rank].clone(), &words.numbers()?)?;
        words.end()
    }
}

/// Rows of the slots that a segment's end brings together: own columns are computed, others are put in between.
pub(crate) struct GatheredRows<'a> {
    slots: &'a [GatheredSlot],
    /// Which segment of the step they end.
    number: usize,
    /// Of each slot, its rows and its width.
    rows: Vec<(Vec<f32>, usize)>,
}

impl<'a> GatheredRows<'a> {
    /// What `runner` has computed of `slots` at the end of segment `number`.
    pub fn read(
        runner: &Runner,
        batch: &Batch,
        (rank, slots): (usize, &'a [GatheredSlot]),
        number: usize,
    ) -> Result<Self> {
        let mut all = vec![];
        for gathered in slots {
            let (mut rows, plan) = (vec![], runner.plan());
            runner.read(batch, gathered.from, &mut rows)?;
            if gathered.from != gathered.slot {
                rows = spread_out(&rows, &gathered.columns[rank], plan.width(gathered.slot));
            }
            all.push((rows, plan.width(gathered.slot)));
        }
        Ok(GatheredRows { slots, number, rows: all })
    }

    /// Has the machine go on with them.
    pub fn write(self, runner: &mut Runner, batch: &Batch) -> Result<()> {
        for (gathered, (rows, _)) in self.slots.iter().zip(self.rows) {
            runner.write(batch, gathered.slot, &rows)?;
        }
        Ok(())
    }
}

impl SharedRows for GatheredRows<'_> {
    fn part(&self, rank: usize) -> Result<Vec<u8>> {
        let mut words = WordWriter::default();
        words.one(self.number as u32);
        for (gathered, (rows, width)) in self.slots.iter().zip(&self.rows) {
            let columns = gathered.columns[rank].clone();
            let own: Vec<f32> =
                rows.chunks_exact(*width).flat_map(|row| &row[columns.clone()]).copied().collect();
            words.numbers(&own);
        }
        Ok(words.bytes())
    }

    fn put(&mut self, rank: usize, bytes: &[u8]) -> Result<()> {
        let mut words = WordReader::new(bytes);
        at_place(&mut words, self.number)?;
        for (gathered, (rows, width)) in self.slots.iter().zip(&mut self.rows) {
            let (columns, numbers) = (gathered.columns[rank].clone(), words.numbers()?);
            if numbers.len() != rows.len() / *width * columns.len() {
                return Err(RankError::Frame(format!(
                    "{} numbers came for columns of a step",
                    numbers.len()
                )));
            }
            let from = numbers.chunks_exact(columns.len());
            rows.chunks_exact_mut(*width)
                .zip(from)
                .for_each(|(row, from)| row[columns.clone()].copy_from_slice(from));
        }
        words.end()
    }
}

/// Rows that have some columns of rows of `width`, at their places.
fn spread_out(some: &[f32], columns: &Range<usize>, width: usize) -> Vec<f32> {
    let mut rows = vec![0.0; some.len() / columns.len() * width];
    let pairs = rows.chunks_exact_mut(width).zip(some.chunks_exact(columns.len()));
    pairs.for_each(|(row, some)| row[columns.clone()].copy_from_slice(some));
    rows
}
