//! What every packed weight is once its names and layouts are gone: codes, their meaning, scales and zero points.

use super::{bits::CodeLayout, groups::ScaleGroups, label::Label};
use crate::error::Result;
use lamina_base::{DType, HostTensor};

/// Which numbers codes stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeKind {
    /// Whole numbers.
    Whole,
    /// 8-bit floats.
    E4M3,
    /// 4-bit floats.
    E2M1,
    /// Anything else.
    Other,
}

/// The value of each code.
pub(crate) struct Meaning {
    /// Values by code; all 256, so that no code is out of range.
    pub values: Box<[f32; 256]>,
    /// Codes that occur.
    pub count: usize,
    /// Which numbers they are.
    pub kind: CodeKind,
}

impl Meaning {
    /// `code - offset`, for codes of `bits` bits.
    pub fn unsigned(bits: usize, offset: i32) -> Meaning {
        let values = std::array::from_fn(|code| (code as i32 - offset) as f32);
        Meaning { values: Box::new(values), count: 1 << bits, kind: CodeKind::Whole }
    }

    /// Bytes of a plain type.
    ///
    /// # Errors
    /// When the type does not have one byte.
    pub fn bytes(dtype: DType) -> Result<Meaning> {
        let mut values = Box::new([0.0; 256]);
        lamina_quant::decode(dtype, &std::array::from_fn::<u8, 256, _>(|i| i as u8), &mut values[..])?;
        let kind = match dtype {
            DType::F8_E4M3 => CodeKind::E4M3,
            DType::I8 | DType::U8 => CodeKind::Whole,
            _ => CodeKind::Other,
        };
        Ok(Meaning { values, count: 256, kind })
    }

    /// 4-bit floats (OCP e2m1): a sign above two bits of exponent and one of mantissa.
    pub fn e2m1() -> Meaning {
        let half = lamina_quant::BlockMXFP4::VALUES.map(|v| f32::from(v) / 2.0);
        Meaning { kind: CodeKind::E2M1, ..Meaning::table(half) }
    }

    /// A table of sixteen values.
    pub fn table(values: [f32; 16]) -> Meaning {
        let values = std::array::from_fn(|code| values[code & 15]);
        Meaning { values: Box::new(values), count: 16, kind: CodeKind::Other }
    }

    /// Smallest and largest value, where values are whole numbers.
    pub fn range(&self) -> Option<(f32, f32)> {
        let of = |f: fn(f32, f32) -> f32| self.values[..self.count].iter().copied().reduce(f);
        (self.kind == CodeKind::Whole).then_some(())?;
        Some((of(f32::min)?, of(f32::max)?))
    }
}

/// A matrix of codes: `value = (meaning[code] - zero) * scale`.
pub(crate) struct Coded {
    /// What errors call it.
    pub label: Label,
    /// Rows, of all matrices together.
    pub rows: usize,
    /// Matrices, one below the other; more than one where experts are stored as a batch.
    pub matrices: usize,
    /// Numbers per row.
    pub cols: usize,
    /// What codes stand for.
    pub meaning: Meaning,
    /// Which scale belongs to which number.
    pub groups: ScaleGroups,
    /// Scales.
    pub scales: Vec<f32>,
    /// Zero points, as many as scales; empty where all are zero.
    pub zeros: Vec<f32>,
    codes: Box<dyn CodeLayout>,
}

impl Coded {
    /// Puts the parts of a weight together, whose codes are those of `stored`.
    ///
    /// # Errors
    /// When they are of different sizes, or a scale is no number.
    pub fn new(
        label: &Label,
        stored: &HostTensor,
        [rows, cols]: [usize; 2],
        codes: impl CodeLayout + 'static,
        meaning: Meaning,
        groups: ScaleGroups,
        (scales, zeros): (Vec<f32>, Vec<f32>),
    ) -> Result<Coded> {
        if rows == 0 || cols == 0 || u32::try_from(rows).is_err() || !codes.holds(rows, cols) {
            let found = format!("{:?} of {}", stored.shape, stored.dtype);
            return Err(label.wrong(format!("`{}` is {found}, not {rows} x {cols} codes", stored.name)));
        }
        let count = groups.fit(rows, cols).then(|| groups.count(rows, cols)).flatten();
        if count.is_none_or(|n| n != scales.len() || (n != zeros.len() && !zeros.is_empty())) {
            let found = format!("{} scales and {} zero points", scales.len(), zeros.len());
            return Err(label.wrong(format!("{found} do not divide {rows} x {cols} numbers into groups")));
        }
        if let Some(bad) = scales.iter().chain(&zeros).find(|s| !s.is_finite()) {
            return Err(label.wrong(format!("a scale or zero point is {bad}")));
        }
        let matrices = match stored.shape[..] {
            [count, each, _] if count * each == rows => count,
            _ => 1,
        };
        let label = label.clone();
        Ok(Coded { label, rows, matrices, cols, meaning, groups, scales, zeros, codes: Box::new(codes) })
    }

    /// Codes of `rows`, one row after another.
    pub fn read(&self, rows: &[u32], out: &mut [u8]) {
        self.codes.read(rows, self.cols, out);
    }

    /// Scale and zero point number `i`.
    #[inline]
    pub fn scale(&self, i: usize) -> (f32, f32) {
        (self.scales[i], self.zeros.get(i).copied().unwrap_or(0.0))
    }

    /// The values of one row from its codes.
    pub fn values(&self, row: u32, codes: &[u8], out: &mut [f32]) {
        let mut col = 0;
        while col < self.cols {
            let (index, end) = self.groups.at(row as usize, col, self.cols);
            let (scale, zero) = self.scale(index);
            for (out, code) in out[col..end].iter_mut().zip(&codes[col..end]) {
                *out = (self.meaning.values[usize::from(*code)] - zero) * scale;
            }
            col = end;
        }
    }
}
