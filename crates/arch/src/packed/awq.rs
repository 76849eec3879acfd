//! AWQ (arXiv 2306.00978) as AutoAWQ writes it: 4-bit codes, scales and zero points per group of inputs.
//!
//! `gemm` (the usual one) keeps eight outputs of one input in a word, the even ones before the odd ones; `gemv` keeps
//! eight inputs of one output in a word, in order, and rounds the number of groups up.

use super::{
    Method, Settings,
    bits::{CodeLayout, RowBits, Words, field},
    codes::{Coded, Meaning},
    gptq::turned,
    groups::ScaleGroups,
    parts::{Ending, Form, Parts},
};
use crate::error::Result;
use lamina_base::DType;

pub(super) static METHOD: Method = Method { name: "awq", aliases: &[], forms: &[&FORM], ignored: &[] };

static FORM: Form = Form {
    codes: Ending(".weight", ".qweight"),
    types: &[DType::I32, DType::U32],
    beside: &[Ending(".weight", ZEROS), Ending(".weight", SCALES)],
    open,
};

const ZEROS: &str = ".qzeros";
const SCALES: &str = ".scales";

/// Nibble of a word that holds output `8 n + i`.
const NIBBLE: [u32; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

fn open(parts: &Parts, settings: &Settings) -> Result<Coded> {
    let bits = settings.number("bits").or(settings.number("w_bit")).unwrap_or(4);
    if bits != 4 {
        return Err(parts.wrong(format!("its weights have {bits} bits, but AWQ is known with 4 only")));
    }
    match settings.text("version").as_deref() {
        None | Some("gemm" | "exllama" | "ipex") => gemm(parts),
        Some("gemv") => gemv(parts, settings),
        // AutoRound uses AWQ's layout and says other things here.
        Some(_) if settings.text("packing_format").is_some() => gemm(parts),
        Some(other) => Err(parts.wrong(format!("its AWQ version is `{other}`, but must be gemm or gemv"))),
    }
}

fn gemm(parts: &Parts) -> Result<Coded> {
    let words = parts.words(&parts.codes)?;
    let (rows, cols) = (words.cols.saturating_mul(8), words.rows);
    let scales = parts.get(SCALES)?;
    let [groups, _] = parts.matrix(scales)?;
    parts.expect(scales, &[groups, rows])?;
    let zeros = parts.get(ZEROS)?;
    parts.expect(zeros, &[groups, words.cols])?;
    let zeros = parts.words(zeros)?;
    if groups == 0 || !cols.is_multiple_of(groups) {
        return Err(parts.wrong(format!("`{}` has {groups} groups for {cols} inputs", scales.name)));
    }
    let pairs = (0..rows).flat_map(|row| (0..groups).map(move |g| (row, g)));
    let zeros = pairs.map(|(row, g)| nibble(&zeros, g, row) as f32).collect();
    let table = (turned(&parts.floats(scales)?, rows), zeros);
    let groups = ScaleGroups::of_rows(cols / groups, groups);
    parts.coded([rows, cols], Interleaved(words), Meaning::unsigned(4, 0), groups, table)
}

/// Code of output `row` in line `line` of words.
#[inline]
fn nibble(words: &Words, line: usize, row: usize) -> u32 {
    words.at(line, row / 8) >> (4 * NIBBLE[row % 8]) & 15
}

/// Eight outputs of one input in a word.
struct Interleaved(Words);

impl CodeLayout for Interleaved {
    fn holds(&self, rows: usize, cols: usize) -> bool {
        rows == self.0.cols * 8 && cols == self.0.rows
    }

    fn read(&self, rows: &[u32], cols: usize, out: &mut [u8]) {
        for col in 0..cols {
            for (i, row) in rows.iter().enumerate() {
                out[i * cols + col] = nibble(&self.0, col, *row as usize) as u8;
            }
        }
    }
}

fn gemv(parts: &Parts, settings: &Settings) -> Result<Coded> {
    let words = parts.words(&parts.codes)?;
    let (rows, cols) = (words.rows, words.cols.saturating_mul(8));
    // -1 means one group for all inputs.
    let said = settings.number("group_size").or(settings.number("q_group_size"));
    let group = said.filter(|g| *g > 0).unwrap_or(cols);
    let scales = parts.get(SCALES)?;
    let zeros = parts.get(ZEROS)?;
    let across = parts.matrix(scales)?[1];
    parts.expect(scales, &[rows, across.next_multiple_of(8)])?;
    parts.expect(zeros, &[rows, across / 8])?;
    let zeros = parts.words(zeros)?;
    let pairs = (0..rows).flat_map(|row| (0..across).map(move |g| (row, g)));
    let zeros = pairs.map(|(row, g)| field(g, 4, |w| zeros.at(row, w)) as f32).collect();
    let codes = RowBits { bytes: words.bytes, bits: 4, row_bytes: words.cols.saturating_mul(4) };
    let table = (parts.floats(scales)?, zeros);
    parts.coded([rows, cols], codes, Meaning::unsigned(4, 0), ScaleGroups::of_rows(group, across), table)
}
