//! GPTQ (arXiv 2210.17323) as AutoGPTQ and GPTQModel write it: codes of 2, 3, 4 or 8 bits in words that run down the
//! inputs, scales and zero points per group of inputs, and the group of every input.
//!
//! The first format (`checkpoint_format: gptq`) stores zero points less one; a field that holds the largest code stands
//! for zero there, as in AutoGPTQ's own code. `gptq_v2` stores them as they are.

use super::{
    Method, Settings,
    bits::{CodeLayout, Words, field},
    codes::{Coded, Meaning},
    groups::ScaleGroups,
    parts::{Ending, Form, Parts},
};
use crate::error::Result;
use lamina_base::DType;

pub(super) static METHOD: Method =
    Method { name: "gptq", aliases: &["gptqmodel"], forms: &[&FORM], ignored: &[] };

static FORM: Form = Form {
    codes: Ending(".weight", ".qweight"),
    types: &[DType::I32, DType::U32],
    beside: &[Ending(".weight", ZEROS), Ending(".weight", SCALES), Ending(".weight", GROUP)],
    open,
};

const ZEROS: &str = ".qzeros";
const SCALES: &str = ".scales";
const GROUP: &str = ".g_idx";

fn open(parts: &Parts, settings: &Settings) -> Result<Coded> {
    let words = parts.words(&parts.codes)?;
    let rows = words.cols;
    let scales = parts.get(SCALES)?;
    let [groups, _] = parts.matrix(scales)?;
    parts.expect(scales, &[groups, rows])?;
    let zeros = parts.get(ZEROS)?;
    let packed = parts.matrix(zeros)?[1];
    parts.expect(zeros, &[groups, packed])?;
    let zeros = parts.words(zeros)?;
    let bits = bits(parts, settings, rows, &zeros)?;
    let cols = match parts.opt(GROUP) {
        Some(group) => group.elements(),
        None => words.rows * 32 / bits,
    };
    let of_col = match parts.opt(GROUP) {
        Some(group) => parts.sizes(group)?,
        None => (0..cols).map(|col| col / cols.div_ceil(groups.max(1)).max(1)).collect(),
    };
    let table = (turned(&parts.floats(scales)?, rows), zero_points(parts, settings, &zeros, rows, bits)?);
    let size = [rows, cols];
    parts.coded(size, Columns { words, bits }, Meaning::unsigned(bits, 0), groups_of(of_col, groups), table)
}

/// The groups of columns; those that follow one another in equal lengths are said by their length.
pub(super) fn groups_of(of_col: Vec<usize>, groups: usize) -> ScaleGroups {
    let width = of_col.len().div_ceil(groups.max(1)).max(1);
    if of_col.iter().enumerate().all(|(col, g)| *g == col / width) {
        return ScaleGroups::of_rows(width, groups);
    }
    // A group beyond all others stays beyond them when it is cut to 32 bits.
    let of_col = of_col.into_iter().map(|g| u32::try_from(g).unwrap_or(u32::MAX)).collect();
    ScaleGroups::Listed { of_col, groups }
}

/// Bits per code, from the width of the packed zero points: some files have layers of other widths than they say.
fn bits(parts: &Parts, settings: &Settings, rows: usize, zeros: &Words) -> Result<usize> {
    let fits = |bits: &usize| (rows * bits).div_ceil(32) == zeros.cols;
    let said = settings.number("bits").filter(|b| [2, 3, 4, 8].contains(b));
    said.filter(fits).or_else(|| [2, 3, 4, 8].into_iter().find(fits)).ok_or_else(|| {
        let found = format!("`{ZEROS}` has {} words for {rows} outputs", zeros.cols);
        parts.wrong(format!("{found}, which is none of 2, 3, 4 and 8 bits each"))
    })
}

/// Zero points by row and group.
fn zero_points(
    parts: &Parts,
    settings: &Settings,
    words: &Words,
    rows: usize,
    bits: usize,
) -> Result<Vec<f32>> {
    let less_one = match settings.text("checkpoint_format").as_deref() {
        None | Some("gptq") => 1,
        Some("gptq_v2") => 0,
        Some(other) => {
            return Err(
                parts.wrong(format!("its checkpoint_format is `{other}`, but must be gptq or gptq_v2"))
            );
        }
    };
    let most = (1 << bits) - 1;
    let zero = |row: usize, group: usize| (field(row, bits, |w| words.at(group, w)) + less_one) & most;
    Ok((0..rows)
        .flat_map(|row| (0..words.rows).map(move |g| (row, g)))
        .map(|(r, g)| zero(r, g) as f32)
        .collect())
}

/// `[groups x rows]` as `[rows x groups]`.
pub(super) fn turned(values: &[f32], rows: usize) -> Vec<f32> {
    let groups = values.len() / rows.max(1);
    (0..rows).flat_map(|row| (0..groups).map(move |g| values[g * rows + row])).collect()
}

/// Codes that run down the inputs: the stream of an output is a column of words.
struct Columns {
    words: Words,
    bits: usize,
}

impl CodeLayout for Columns {
    fn holds(&self, rows: usize, cols: usize) -> bool {
        let whole = cols.checked_mul(self.bits).is_some_and(|n| n.div_ceil(32) == self.words.rows);
        rows == self.words.cols && whole
    }

    fn read(&self, rows: &[u32], cols: usize, out: &mut [u8]) {
        // 32 codes are as many words as a code has bits.
        for first in (0..cols).step_by(32) {
            let n = (cols - first).min(32);
            for (row, out) in rows.iter().zip(out.chunks_exact_mut(cols)) {
                let stream: [u32; 8] = std::array::from_fn(|i| {
                    let inside = i < self.bits;
                    if inside { self.words.at(first / 32 * self.bits + i, *row as usize) } else { 0 }
                });
                for (i, code) in out[first..first + n].iter_mut().enumerate() {
                    *code = field(i, self.bits, |w| stream[w]) as u8;
                }
            }
        }
    }
}
