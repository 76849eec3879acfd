//! Cosines and sines of a step's rows: computed once, and used by all layers.

use crate::memory::product;
use lamina_plan::{Batch, backend::Result, op::RopeTable};

/// Cosines and sines of one rotary table for the rows of the running step.
pub struct Table {
    /// Frequencies and magnitude.
    pub rope: RopeTable,
    /// `[row][half]` cosines, then sines of the same shape.
    pub values: Vec<f32>,
    /// Position and choice of frequencies of each row that the values are for.
    rows: Vec<RowKey>,
}

/// Bytes that the tables take for steps of `rows` rows.
///
/// # Errors
/// When they are more than an address can say.
pub fn bytes(ropes: &[RopeTable], rows: usize) -> Result<usize> {
    let row = |r: &RopeTable| 2 * r.freqs.len() * size_of::<f32>() + size_of::<RowKey>();
    product(&[rows, ropes.iter().map(row).sum()], "rotary tables")
}

/// Position of a row, and whether it takes the frequencies of long prompts.
type RowKey = ([u32; 3], bool);

/// All rotary tables of a plan.
pub struct RopeTables(pub Vec<Table>);

impl RopeTables {
    /// Room for `rows` rows.
    ///
    /// # Errors
    /// When memory cannot hold as many rows.
    pub fn new(ropes: &[RopeTable], rows: usize) -> Result<RopeTables> {
        let table = |r: &RopeTable| {
            let numbers = product(&[rows, 2, r.freqs.len()], "rotary tables")?;
            Ok(Table { rope: r.clone(), values: vec![0.0; numbers], rows: Vec::with_capacity(rows) })
        };
        ropes.iter().map(table).collect::<Result<_>>().map(RopeTables)
    }

    /// Bytes of all tables.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        let held = |t: &Table| size_of_val(&t.values[..]) + t.rows.capacity() * size_of::<RowKey>();
        self.0.iter().map(held).sum()
    }

    /// Brings table `index` up to date for the rows of `b`; rows that have not changed cost a comparison.
    pub fn fill(&mut self, index: usize, b: &Batch) {
        let Table { rope, values, rows } = &mut self.0[index];
        let half = rope.freqs.len();
        for r in 0..b.rows() {
            let (position, prompt) = (b.positions[r], b.seq(r).prompt_len as usize);
            let long = rope
                .long
                .as_ref()
                .filter(|l| prompt > l.original_context || position[0] as usize >= l.original_context);
            let key = (position, long.is_some());
            if rows.get(r) == Some(&key) {
                continue;
            }
            if r < rows.len() {
                rows[r] = key
            } else {
                rows.push(key)
            }
            let freqs = long.map_or(&rope.freqs, |l| &l.freqs);
            let (cos, sin) = values[r * 2 * half..(r + 1) * 2 * half].split_at_mut(half);
            for (i, f) in freqs.iter().enumerate() {
                let angle = position[rope.axis(i)] as f32 * f;
                (cos[i], sin[i]) = (angle.cos() * rope.magnitude, angle.sin() * rope.magnitude);
            }
        }
    }
}
