//! bitsandbytes: 4-bit codes of a table of sixteen floats (NF4 of QLoRA, arXiv 2305.14314, or FP4) with a scale per run of
//! numbers, the scales themselves perhaps 8-bit codes of a table; and signed bytes with the largest magnitude of a row.

use super::{
    Method, Settings,
    bits::{CodeLayout, FETCHED, RowBits},
    codes::{Coded, Meaning},
    groups::ScaleGroups,
    parts::{Ending, Form, Parts},
};
use crate::error::Result;
use lamina_base::{DType, HostTensor, StoredBytes};
use serde_json::Value;

pub(super) static METHOD: Method =
    Method { name: "bitsandbytes", aliases: &[], forms: &[&FOUR_BITS, &EIGHT_BITS], ignored: &[] };

static FOUR_BITS: Form = Form {
    codes: Ending("", ""),
    types: &[DType::U8],
    beside: &[
        Ending("", ".absmax"),
        Ending("", ".quant_map"),
        Ending("", ".nested_absmax"),
        Ending("", ".nested_quant_map"),
        Ending("", STATES[0]),
        Ending("", STATES[1]),
    ],
    open: four_bits,
};

const STATES: [&str; 2] = [".quant_state.bitsandbytes__nf4", ".quant_state.bitsandbytes__fp4"];

static EIGHT_BITS: Form = Form {
    codes: Ending("", ""),
    types: &[DType::I8],
    beside: &[Ending(".weight", SCB), Ending(".weight", ORDER)],
    open: eight_bits,
};

const SCB: &str = ".SCB";
const ORDER: &str = ".weight_format";

fn eight_bits(parts: &Parts, _: &Settings) -> Result<Coded> {
    let [rows, cols] = parts.matrix(&parts.codes)?;
    if let Some(order) = parts.opt(ORDER)
        && order.bytes.read(&order.label())?.iter().any(|b| *b != 0)
    {
        return Err(parts.wrong(format!("`{}` asks for an order that is not the row's", order.name)));
    }
    let largest = parts.get(SCB)?;
    let scales = parts.floats(largest)?.into_iter().map(|most| most / 127.0).collect();
    let codes = RowBits { bytes: parts.codes.bytes.clone(), bits: 8, row_bytes: cols };
    let groups = ScaleGroups::of_rows(cols.max(1), 1);
    parts.coded([rows, cols], codes, Meaning::bytes(DType::I8)?, groups, (scales, vec![]))
}

fn four_bits(parts: &Parts, _: &Settings) -> Result<Coded> {
    let state = match parts.opt(STATES[0]) {
        Some(state) => state,
        None => parts.get(STATES[1])?,
    };
    let state = QuantState::read(parts, state)?;
    let table = <[f32; 16]>::try_from(parts.floats(parts.get(".quant_map")?)?)
        .ok()
        .filter(|table| table.iter().all(|v| v.is_finite()))
        .ok_or_else(|| parts.wrong("its table does not have 16 finite values"))?;
    let absmax = parts.get(".absmax")?;
    let scales = match parts.opt(".nested_absmax") {
        Some(nested) => unnested(parts, absmax, nested, &state)?,
        None => parts.floats(absmax)?,
    };
    let codes = HighFirst(parts.codes.bytes.clone());
    parts.coded(state.shape, codes, Meaning::table(table), ScaleGroups::Runs(state.run), (scales, vec![]))
}

/// Scales that are codes themselves: `table[code] * nested scale + offset`.
fn unnested(parts: &Parts, absmax: &HostTensor, nested: &HostTensor, state: &QuantState) -> Result<Vec<f32>> {
    let table = parts.floats(parts.get(".nested_quant_map")?)?;
    let outer = parts.floats(nested)?;
    let stored = absmax.bytes.read(&absmax.label())?;
    let codes = stored.iter().filter(|_| absmax.dtype == DType::U8).enumerate();
    let scales = codes
        .map(|(i, c)| Some(table.get(usize::from(*c))? * outer.get(i / state.nested_run)? + state.offset));
    let scales: Option<Vec<f32>> = scales.collect();
    scales.ok_or_else(|| {
        parts.wrong(format!("`{}` has too few scales or values for `{}`", nested.name, absmax.name))
    })
}

/// The JSON text that bitsandbytes keeps in a tensor of bytes.
struct QuantState {
    shape: [usize; 2],
    run: usize,
    nested_run: usize,
    offset: f32,
}

impl QuantState {
    fn read(parts: &Parts, t: &HostTensor) -> Result<QuantState> {
        let broken = |what: &str| parts.wrong(format!("`{}` {what}", t.name));
        let json: Value = serde_json::from_slice(&t.bytes.read(&t.label())?)
            .map_err(|e| broken(&format!("is no JSON: {e}")))?;
        let number = |key: &str| json[key].as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
        let extents = json["shape"].as_array().into_iter().flatten();
        let extents: Option<Vec<usize>> = extents.map(|v| v.as_u64()?.try_into().ok()).collect();
        let (outer, cols) = match extents.as_deref() {
            Some([outer @ .., cols]) if !outer.is_empty() => (outer, *cols),
            _ => return Err(broken("has no shape of at least two extents")),
        };
        let rows = outer.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        Ok(QuantState {
            shape: [rows.ok_or_else(|| broken("has an impossible shape"))?, cols],
            run: number("blocksize").ok_or_else(|| broken("has no blocksize"))?,
            nested_run: number("nested_blocksize").unwrap_or(256),
            offset: json["nested_offset"].as_f64().unwrap_or(0.0) as f32,
        })
    }
}

/// Two codes in a byte, the first one in the high nibble, counted through all rows.
struct HighFirst(StoredBytes);

impl CodeLayout for HighFirst {
    fn holds(&self, rows: usize, cols: usize) -> bool {
        rows.checked_mul(cols).is_some_and(|n| n.div_ceil(2) == self.0.len())
    }

    fn read(&self, rows: &[u32], cols: usize, out: &mut [u8]) {
        let bytes = self.0.held().expect(FETCHED);
        for (row, out) in rows.iter().zip(out.chunks_exact_mut(cols)) {
            for (col, code) in out.iter_mut().enumerate() {
                let at = *row as usize * cols + col;
                *code = bytes[at / 2] >> (4 - at % 2 * 4) & 15;
            }
        }
    }
}
