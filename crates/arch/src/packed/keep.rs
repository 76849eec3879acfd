//! From packed weights to one tensor: the type that keeps them best, and the work in parallel.

use super::{
    blocks::{self, EXACT},
    codes::Coded,
};
use crate::error::Result;
use half::{bf16, f16};
use lamina_base::{DType, HostTensor, on_threads, zeros};
use std::thread;

/// Rows that are read at once: a cache line of the layouts that run down the columns has 16.
const TILE: usize = 32;

/// Bytes below which more threads are not worth starting.
const SMALL: usize = 1 << 18;

/// What unpacked weights are kept as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// The smallest type that loses next to nothing: a block type that holds them, else float16 or bfloat16.
    #[default]
    Small,
    /// Float32, which rounds no method's formula.
    Exact,
}

/// Packed weights, one below the other.
pub(crate) struct PackedStack {
    parts: Vec<Coded>,
    keep: Keep,
    cols: usize,
    rows: usize,
}

/// What is lost by float16 and by bfloat16: sums of squared errors.
#[derive(Clone, Copy, Default)]
struct Loss {
    f16: f64,
    bf16: f64,
}

impl Loss {
    fn plus(self, other: Loss) -> Loss {
        Loss { f16: self.f16 + other.f16, bf16: self.bf16 + other.bf16 }
    }
}

/// Writes one row of a part from its codes; the floats are room for its values.
trait Encode: Fn(&Coded, u32, &[u8], &mut [f32], &mut [u8]) -> Loss + Sync {}
impl<F: Fn(&Coded, u32, &[u8], &mut [f32], &mut [u8]) -> Loss + Sync> Encode for F {}

impl PackedStack {
    /// Stacks `parts`, to be unpacked as `keep` says.
    ///
    /// # Errors
    /// When they have different widths, or more than 2^32 rows.
    pub fn new(parts: Vec<Coded>, keep: Keep) -> Result<PackedStack> {
        let cols = parts.first().map_or(0, |p| p.cols);
        if let Some(other) = parts.iter().find(|p| p.cols != cols) {
            let first = &parts[0].label.name;
            return Err(other
                .label
                .wrong(format!("it has {} columns, but `{first}` has {cols}", other.cols)));
        }
        let rows: usize = parts.iter().map(|p| p.rows).sum();
        if let (Some(first), Err(_)) = (parts.first(), u32::try_from(rows)) {
            return Err(first.label.wrong(format!("it has {rows} rows, which is more than can be counted")));
        }
        Ok(PackedStack { parts, keep, cols, rows })
    }

    /// Rows of all parts.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Matrices, and rows and columns of each: several where one part holds a batch of experts.
    pub fn shape(&self) -> (usize, usize, usize) {
        match self.parts[..] {
            [Coded { matrices, rows, cols, .. }] => (matrices, rows / matrices, cols),
            _ => (1, self.rows, self.cols),
        }
    }

    /// The type that [`PackedStack::select`] gives; float16 may turn out to be bfloat16.
    pub fn dtype(&self) -> DType {
        match self.keep {
            Keep::Exact => DType::F32,
            Keep::Small => {
                let fits = |t: &&DType| self.parts.iter().all(|p| blocks::fits(p, **t));
                EXACT.iter().find(fits).copied().unwrap_or(DType::F16)
            }
        }
    }

    /// All rows, in the shape that they were stored in; for the type see [`PackedStack::select`].
    ///
    /// # Errors
    /// When a thread fails.
    pub fn whole(&self) -> Result<HostTensor> {
        let mut tensor = self.select(&(0..self.rows as u32).collect::<Vec<_>>())?;
        if self.parts.len() == 1 {
            tensor.shape = <[usize; 3]>::from(self.shape()).to_vec();
        }
        Ok(tensor)
    }

    /// The rows `order`: in the smallest block type that holds all parts, else as float16 or bfloat16, whichever is
    /// closer; or as float32.
    ///
    /// # Panics
    /// When a row of `order` does not exist.
    ///
    /// # Errors
    /// When a thread fails.
    pub fn select(&self, order: &[u32]) -> Result<HostTensor> {
        match self.dtype() {
            DType::F32 => return Ok(self.tensor(DType::F32, order, single)?.0),
            DType::F16 => {}
            dtype => {
                let exact = |part: &Coded, row: u32, codes: &[u8], _: &mut [f32], out: &mut [u8]| {
                    blocks::encode(part, dtype, row, codes, out);
                    Loss::default()
                };
                return Ok(self.tensor(dtype, order, exact)?.0);
            }
        }
        let (tensor, loss) = self.tensor(DType::F16, order, half)?;
        if loss.f16 <= loss.bf16 {
            return Ok(tensor);
        }
        Ok(self.tensor(DType::BF16, order, brain)?.0)
    }

    fn tensor(&self, dtype: DType, order: &[u32], encode: impl Encode) -> Result<(HostTensor, Loss)> {
        let row_bytes = self.cols / dtype.block_len() * dtype.block_bytes();
        let label = &self.parts[0].label;
        let mut bytes: Vec<u8> = zeros(order.len() * row_bytes, &format!("tensor `{}`", label.name))?;
        let small = bytes.len() < SMALL;
        let threads = if small { 1 } else { thread::available_parallelism().map_or(1, usize::from) };
        let share = order.len().div_ceil(threads).max(1);
        let shares = order.chunks(share).zip(bytes.chunks_mut(share * row_bytes));
        let losses = on_threads(shares, |(rows, out)| self.fill(rows, row_bytes, out, &encode));
        let tensor = HostTensor::new(label.name.clone(), dtype, vec![order.len(), self.cols], bytes);
        Ok((
            tensor.map_err(|e| label.wrong(e.to_string()))?,
            losses.into_iter().fold(Loss::default(), Loss::plus),
        ))
    }

    /// Encodes `rows` into `out`, tile by tile.
    fn fill(&self, mut rows: &[u32], row_bytes: usize, mut out: &mut [u8], encode: &impl Encode) -> Loss {
        let (mut tile, mut loss) = (vec![], Loss::default());
        let (mut codes, mut values) = (vec![0; TILE * self.cols], vec![0.0; self.cols]);
        while let Some(&first) = rows.first() {
            let (part, start) = self.part(first);
            let inside = |row: u32| (start..start + part.rows as u32).contains(&row);
            tile.clear();
            tile.extend(rows.iter().take(TILE).take_while(|r| inside(**r)).map(|r| r - start));
            part.read(&tile, &mut codes[..tile.len() * self.cols]);
            let (mine, others) = out.split_at_mut(tile.len() * row_bytes);
            let codes = codes.chunks_exact(self.cols);
            for ((row, codes), out) in tile.iter().zip(codes).zip(mine.chunks_exact_mut(row_bytes)) {
                loss = loss.plus(encode(part, *row, codes, &mut values, out));
            }
            (rows, out) = (&rows[tile.len()..], others);
        }
        loss
    }

    /// The part that holds `row`, and its first row.
    fn part(&self, row: u32) -> (&Coded, u32) {
        let mut start = 0;
        for part in &self.parts {
            if row < start + part.rows as u32 {
                return (part, start);
            }
            start += part.rows as u32;
        }
        unreachable!("row {row} of {}", self.rows)
    }
}

/// Writes float32.
fn single(part: &Coded, row: u32, codes: &[u8], values: &mut [f32], out: &mut [u8]) -> Loss {
    part.values(row, codes, values);
    for (value, out) in values.iter().zip(out.as_chunks_mut::<4>().0) {
        *out = value.to_le_bytes();
    }
    Loss::default()
}

/// Writes float16 and tells what it lost, and what bfloat16 would have.
fn half(part: &Coded, row: u32, codes: &[u8], values: &mut [f32], out: &mut [u8]) -> Loss {
    part.values(row, codes, values);
    let square = |x: f32| f64::from(x) * f64::from(x);
    let mut loss = Loss::default();
    for (value, out) in values.iter().zip(out.as_chunks_mut::<2>().0) {
        let half = f16::from_f32(*value);
        loss.f16 += square(half.to_f32() - value);
        loss.bf16 += square(bf16::from_f32(*value).to_f32() - value);
        *out = half.to_le_bytes();
    }
    loss
}

/// Writes bfloat16.
fn brain(part: &Coded, row: u32, codes: &[u8], values: &mut [f32], out: &mut [u8]) -> Loss {
    part.values(row, codes, values);
    for (value, out) in values.iter().zip(out.as_chunks_mut::<2>().0) {
        *out = bf16::from_f32(*value).to_le_bytes();
    }
    Loss::default()
}
