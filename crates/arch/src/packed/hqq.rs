//! HQQ (half-quadratic quantization) as its package saves it: the matrix is laid out as groups, along the rows
//! (`axis` 1) or across them (`axis` 0), and codes are packed down that layout in as many layers as fit a byte.

use super::{
    Method, Settings,
    bits::{CodeLayout, FETCHED},
    codes::{Coded, Meaning},
    groups::ScaleGroups,
    parts::{Ending, Form, Parts},
};
use crate::error::Result;
use lamina_base::{DType, StoredBytes};

pub(super) static METHOD: Method = Method {
    name: "hqq",
    aliases: &[],
    forms: &[&FORM],
    ignored: &[
        ".channel_wise",
        ".compute_dtype",
        ".encoded_state_dict",
        ".group_size",
        ".offload_meta",
        ".optimize",
        ".quant_scale",
        ".quant_zero",
        ".round_zero",
        ".stores_quant_config",
        ".unpack_view_dtype",
        ".view_as_float",
    ],
};

static FORM: Form = Form {
    codes: Ending(".weight", ".W_q"),
    // Bytes, words for 3 bits, or either of them looked at as floats.
    types: &[DType::U8, DType::I32, DType::F16, DType::BF16, DType::F32],
    beside: &[
        Ending(".weight", ".scale"),
        Ending(".weight", ".zero"),
        Ending(".weight", ".shape"),
        Ending(".weight", ".axis"),
        Ending(".weight", ".nbits"),
        Ending(".weight", ".packing"),
    ],
    open,
};

fn open(parts: &Parts, _: &Settings) -> Result<Coded> {
    let shape = parts.sizes(parts.get(".shape")?)?;
    let size = <[usize; 2]>::try_from(shape.as_slice())
        .map_err(|_| parts.wrong(format!("its shape is {shape:?}, but must have two extents")))?;
    let scales = parts.floats(parts.get(".scale")?)?;
    let zeros = parts.floats(parts.get(".zero")?)?;
    let packing = WordPacking::of(parts)?;
    let numbers = size[0].checked_mul(size[1]).filter(|n| *n > 0 && !scales.is_empty());
    let group = numbers.filter(|n| n.is_multiple_of(scales.len())).map(|n| n / scales.len());
    let Some(group) = group else {
        return Err(parts.wrong(format!("{} scales do not divide {shape:?} into groups", scales.len())));
    };
    // The layout is a matrix of groups: each a row for axis 1, each a column for axis 0.
    let (width, groups) = match parts.sizes(parts.get(".axis")?)?[..] {
        [1] => (group, ScaleGroups::Runs(group)),
        [0] => (scales.len(), ScaleGroups::Cyclic(scales.len())),
        ref other => return Err(parts.wrong(format!("its axis is {other:?}, but must be 0 or 1"))),
    };
    let bytes = parts.codes.bytes.clone();
    let steps = bytes.len() / packing.word / width;
    let zeros = if zeros.len() == 1 { vec![zeros[0]; scales.len()] } else { zeros };
    let meaning = Meaning::unsigned(packing.bits, 0);
    parts.coded(size, Layers { bytes, packing, width, steps }, meaning, groups, (scales, zeros))
}

/// How many codes of how many bits a stored number of `word` bytes holds.
struct WordPacking {
    bits: usize,
    layers: usize,
    word: usize,
}

impl WordPacking {
    /// The packing that the file names, else the one of its bits.
    fn of(parts: &Parts) -> Result<WordPacking> {
        let name = match parts.opt(".packing") {
            Some(name) => String::from_utf8_lossy(&name.bytes.read(&name.label())?).into_owned(),
            None => match parts.floats(parts.get(".nbits")?)?[..] {
                [n] if n > 4.0 => "8bit_u8".into(),
                [3.0] => "3bit_32".into(),
                [n] => format!("{}bit_u8", n.ceil()),
                _ => "none".into(),
            },
        };
        match name.as_str() {
            "8bit_u8" => Ok(WordPacking { bits: 8, layers: 1, word: 1 }),
            "4bit_u8" => Ok(WordPacking { bits: 4, layers: 2, word: 1 }),
            "3bit_32" => Ok(WordPacking { bits: 3, layers: 10, word: 4 }),
            "2bit_u8" => Ok(WordPacking { bits: 2, layers: 4, word: 1 }),
            "1bit_u8" => Ok(WordPacking { bits: 1, layers: 8, word: 1 }),
            other => {
                Err(parts.wrong(format!("its packing is `{}`, which is not known", other.escape_default())))
            }
        }
    }
}

/// `steps` lines of `width` numbers; the highest bits hold the first `steps` lines of the layout, and so on down.
struct Layers {
    bytes: StoredBytes,
    packing: WordPacking,
    width: usize,
    steps: usize,
}

impl CodeLayout for Layers {
    fn holds(&self, rows: usize, cols: usize) -> bool {
        let lines = rows.checked_mul(cols).map(|n| n.div_ceil(self.width));
        let bytes = |steps: usize| steps.checked_mul(self.width)?.checked_mul(self.packing.word);
        // The height of a layer follows from the bytes, so that one byte too many would move all codes.
        let whole = bytes(self.steps) == Some(self.bytes.len());
        whole && lines.is_some_and(|n| n.div_ceil(self.packing.layers) == self.steps)
    }

    fn read(&self, rows: &[u32], cols: usize, out: &mut [u8]) {
        let WordPacking { bits, layers, word } = self.packing;
        let bytes = self.bytes.held().expect(FETCHED);
        for (row, out) in rows.iter().zip(out.chunks_exact_mut(cols)) {
            for (col, code) in out.iter_mut().enumerate() {
                let at = *row as usize * cols + col;
                let (line, i) = (at / self.width, at % self.width);
                let shift = bits * (layers - 1 - line / self.steps);
                // The low bytes of a word are all that its shift leaves over, whatever its size.
                let first = word * (line % self.steps * self.width + i) + shift / 8;
                let low = u32::from(bytes[first]);
                let high = if shift % 8 + bits > 8 { u32::from(bytes[first + 1]) << 8 } else { 0 };
                *code = ((low | high) >> (shift % 8) & ((1 << bits) - 1)) as u8;
            }
        }
    }
}
