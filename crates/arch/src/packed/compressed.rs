//! compressed-tensors (llm-compressor): one configuration for several forms, told apart by their tensors. Here the form
//! `pack-quantized`: whole numbers of 1 to 8 bits, stored plus half their range, in words along the inputs.

use super::{
    Method, Settings,
    bits::{RowBits, field},
    codes::{Coded, Meaning},
    fp8::{self, Stacked},
    gptq::groups_of,
    int8, mxfp4, nvfp4,
    parts::{Ending, Form, Parts},
};
use crate::error::Result;
use lamina_base::{DType, HostTensor};

pub(super) static METHOD: Method = Method {
    name: "compressed-tensors",
    aliases: &[],
    forms: &[&FORM, &FLOATS, &int8::FORM, &fp8::FORM],
    ignored: &[],
};

static FORM: Form = Form {
    codes: Ending(".weight", ".weight_packed"),
    types: &[DType::I32],
    beside: &[
        Ending(".weight", SCALE),
        Ending(".weight", ZERO),
        Ending(".weight", SHAPE),
        Ending(".weight", GROUP),
    ],
    open,
};

/// `nvfp4-pack-quantized`, or without a scale for the whole matrix `mxfp4-pack-quantized`.
static FLOATS: Form = Form {
    codes: Ending(".weight", ".weight_packed"),
    types: &[DType::U8],
    beside: &[Ending(".weight", SCALE), Ending(".weight", WHOLE)],
    open: |parts, _| {
        let scale = parts.get(SCALE)?;
        match (parts.opt(WHOLE), scale.dtype) {
            (None, DType::U8 | DType::F8_E8M0) => mxfp4::open(parts, scale),
            _ => nvfp4::open(parts, scale, |scale, whole| scale / whole, parts.get(WHOLE)?),
        }
    },
};

const SCALE: &str = ".weight_scale";
const WHOLE: &str = ".weight_global_scale";
const ZERO: &str = ".weight_zero_point";
const SHAPE: &str = ".weight_shape";
const GROUP: &str = ".weight_g_idx";

fn open(parts: &Parts, settings: &Settings) -> Result<Coded> {
    let words = parts.words(&parts.codes)?;
    let shape = parts.sizes(parts.get(SHAPE)?)?;
    let size @ [rows, cols] = <[usize; 2]>::try_from(shape.as_slice())
        .map_err(|_| parts.wrong(format!("its shape is {shape:?}, but must have two extents")))?;
    let bits = bits(parts, settings, cols, words.cols)?;
    let scale = parts.get(SCALE)?;
    let zeros = match parts.opt(ZERO) {
        Some(zero) => zero_points(parts, zero, scale, bits)?,
        None => vec![],
    };
    let groups = match listed(parts)? {
        Some(list) => groups_of(list, scale.cols()),
        None => Stacked { matrices: 1, rows, cols }.groups(parts, scale, &[])?,
    };
    let codes = RowBits { bytes: words.bytes, bits, row_bytes: words.cols * 4 };
    let meaning = Meaning::unsigned(bits, 1 << (bits - 1));
    parts.coded(size, codes, meaning, groups, (parts.floats(scale)?, zeros))
}

/// The group of each column, where there is an activation order; -1 stands for a list that was never filled.
fn listed(parts: &Parts) -> Result<Option<Vec<usize>>> {
    let Some(list) = parts.opt(GROUP) else { return Ok(None) };
    let list = parts.whole(list)?;
    let filled = list.iter().any(|g| *g >= 0);
    Ok(filled.then(|| list.into_iter().map(|g| usize::try_from(g).unwrap_or(usize::MAX)).collect()))
}

/// Bits per code: of those that the configuration names the one that fills the words, else the only one that does.
fn bits(parts: &Parts, settings: &Settings, cols: usize, words: usize) -> Result<usize> {
    let fits = |bits: &usize| cols.checked_mul(*bits).is_some_and(|n| n.div_ceil(32) == words);
    let groups = settings.0.as_ref().and_then(|c| c.value("config_groups")?.as_object());
    let said =
        groups.into_iter().flatten().filter_map(|(_, g)| g["weights"]["num_bits"].as_u64()?.try_into().ok());
    let said: Vec<usize> = said.filter(|b| (1..=8).contains(b)).collect();
    said.into_iter().chain(1..=8).find(fits).ok_or_else(|| {
        parts.wrong(format!(
            "its rows have {words} words for {cols} numbers, which is none of 1 to 8 bits each"
        ))
    })
}

/// Zero points in the order of the scales: bytes as they are, or codes in words that run down the rows.
fn zero_points(parts: &Parts, t: &HostTensor, scale: &HostTensor, bits: usize) -> Result<Vec<f32>> {
    if t.dtype == DType::I8 {
        parts.expect(t, &scale.shape)?;
        return parts.floats(t);
    }
    let [rows, across] = parts.matrix(scale)?;
    let words = parts.words(t)?;
    parts.expect(t, &[rows.saturating_mul(bits).div_ceil(32), across])?;
    let half = 1 << (bits - 1);
    let zero = |row, group| field(row, bits, |w| words.at(w, group)) as i32 - half;
    let pairs = (0..rows).flat_map(|row| (0..across).map(move |group| (row, group)));
    Ok(pairs.map(|(row, group)| zero(row, group) as f32).collect())
}
