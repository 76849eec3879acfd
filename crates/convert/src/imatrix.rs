//! Importance matrices: for each weight matrix the mean square of the activations that meet each of its columns, over
//! some text. Quantizers keep the columns that matter closer to their values.
//!
//! Both of llama.cpp's formats are read; its GGUF form (`general.type` `imatrix`, tensors `NAME.in_sum2` and
//! `NAME.counts`) is written.

use crate::error::{ConvertError, Result};
use lamina_base::{Bytes, DType, HostTensor, files::read_regular};
use lamina_quant::to_f32;
use lamina_store::{
    Value,
    gguf::{self, Gguf, Strings, Writer},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Largest file of the largest models, and some.
const MOST_BYTES: u64 = 4 << 30;
const SUMS: &str = ".in_sum2";
const COUNTS: &str = ".counts";

/// Tensors that some files keep in pieces, all with the same input.
const PARTS: &[(&str, &str)] = &[(".attn_qkv.", ".attn_q."), (".ssm_in.", ".ssm_in_z.")];

/// Sums for one weight.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sums {
    /// Sum of squared activations of each column; of experts one row of columns for each.
    pub values: Vec<f32>,
    /// Activations that were summed; of experts one number for each.
    pub counts: Vec<f32>,
}

impl Sums {
    /// Mean square of each column. Experts that no token chose count every column alike.
    fn means(&self) -> Vec<f32> {
        let width = self.values.len() / self.counts.len().max(1);
        let mean = |(i, &sum): (usize, &f32)| match self.counts.get(i / width.max(1)) {
            Some(&count) if count > 0.0 => sum / count,
            _ => 1.0,
        };
        self.values.iter().enumerate().map(mean).collect()
    }
}

/// An importance matrix.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Imatrix {
    /// Sums by the name of the weight.
    pub sums: BTreeMap<String, Sums>,
    /// Names of the texts.
    pub datasets: Vec<String>,
    /// Stretches of text that were read.
    pub chunks: u32,
    /// Tokens in each.
    pub chunk_size: u32,
    /// Where it was read from.
    pub file: PathBuf,
}

impl Imatrix {
    /// Reads a file of either format.
    ///
    /// # Errors
    /// When the file is neither, or broken.
    pub fn open(path: impl AsRef<Path>) -> Result<Imatrix> {
        let path = path.as_ref();
        let bytes = read_regular(path, MOST_BYTES).map_err(|e| ConvertError::file(path, e))?;
        let mut matrix = if bytes.starts_with(&gguf::MAGIC) {
            from_gguf(&Gguf::from_bytes(path, &Bytes::from(bytes))?)?
        } else {
            DatReader { rest: &bytes, path }.read()?
        };
        matrix.file = path.to_owned();
        Ok(matrix)
    }

    /// Weights of the columns of tensor `name`, which has `matrices` matrices of `cols` columns: one row for each. None
    /// when the matrix does not speak of it.
    ///
    /// # Errors
    /// When it speaks of a tensor of another shape, or holds a number that is no weight.
    pub fn weights(&self, name: &str, matrices: usize, cols: usize) -> Result<Option<Vec<f32>>> {
        let part = PARTS
            .iter()
            .find(|(whole, _)| name.contains(whole))
            .map(|(whole, part)| name.replace(whole, part));
        let found = self.sums.get(name).or_else(|| self.sums.get(&part?));
        let Some(sums) = found else { return Ok(None) };
        let wrong = |problem: String| {
            ConvertError::invalid(format!("importance matrix {}", self.file.display()), problem)
        };
        if sums.values.len() != matrices * cols {
            return Err(wrong(format!(
                "has {} numbers for `{name}` of {matrices} x {cols}; it is of another model",
                sums.values.len()
            )));
        }
        let means = sums.means();
        match means.iter().find(|m| !(m.is_finite() && **m >= 0.0)) {
            Some(bad) => Err(wrong(format!("has {bad} for `{name}`"))),
            None => Ok(Some(means)),
        }
    }

    /// Writes the matrix in llama.cpp's GGUF form.
    ///
    /// # Errors
    /// When the disk refuses, or a name is too long for GGUF.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        let mut writer = Writer::bare(path.as_ref());
        writer.set("general.type", "imatrix");
        writer.set("imatrix.datasets", self.datasets.iter().collect::<Strings>());
        writer.set("imatrix.chunk_count", self.chunks);
        writer.set("imatrix.chunk_size", self.chunk_size);
        let tensors: Vec<_> = self.sums.iter().filter(|(_, s)| !s.counts.is_empty()).collect();
        for (name, sums) in &tensors {
            let matrices = sums.counts.len();
            writer.declare(
                &format!("{name}{SUMS}"),
                DType::F32,
                &[matrices, sums.values.len() / matrices],
            )?;
            writer.declare(&format!("{name}{COUNTS}"), DType::F32, &[matrices, 1])?;
        }
        let mut out = writer.create()?;
        for (name, sums) in &tensors {
            out.write(&format!("{name}{SUMS}"), bytemuck::cast_slice(&sums.values))?;
            out.write(&format!("{name}{COUNTS}"), bytemuck::cast_slice(&sums.counts))?;
        }
        out.finish()?;
        Ok(())
    }
}

/// Collects an importance matrix while a model runs.
#[derive(Clone, Debug, Default)]
pub struct ImatrixWriter {
    /// In double precision: sums of millions of squares.
    sums: BTreeMap<String, (Vec<f64>, Vec<f64>)>,
}

impl ImatrixWriter {
    /// Adds the rows of `x`, `cols` numbers each, that weight `name` is applied to; of `matrices` experts those of
    /// number `expert`.
    ///
    /// # Errors
    /// When the sizes are not those of the calls before.
    pub fn add(&mut self, name: &str, matrices: usize, expert: usize, cols: usize, x: &[f32]) -> Result<()> {
        if !self.sums.contains_key(name) {
            self.sums.insert(name.to_owned(), (vec![0.0; matrices * cols], vec![0.0; matrices]));
        }
        let known = self.sums.get_mut(name);
        let fits = |s: &(Vec<f64>, Vec<f64>)| s.1.len() == matrices && s.0.len() == matrices * cols;
        let Some((values, counts)) = known.filter(|s| fits(s) && expert < matrices && cols > 0) else {
            let problem =
                format!("gets {matrices} x {cols} activations for expert {expert}; it had others before");
            return Err(ConvertError::invalid(format!("importance of `{name}`"), problem));
        };
        let mine = &mut values[expert * cols..(expert + 1) * cols];
        for row in x.chunks_exact(cols) {
            mine.iter_mut().zip(row).for_each(|(sum, &v)| *sum += f64::from(v) * f64::from(v));
            counts[expert] += 1.0;
        }
        Ok(())
    }

    /// The matrix so far, from `chunks` stretches of `chunk_size` tokens of the texts `datasets`.
    pub fn finish(&self, datasets: Vec<String>, chunks: u32, chunk_size: u32) -> Imatrix {
        let narrow = |v: &[f64]| v.iter().map(|&x| x as f32).collect();
        let sums = self.sums.iter().map(|(name, (values, counts))| {
            (name.clone(), Sums { values: narrow(values), counts: narrow(counts) })
        });
        Imatrix { sums: sums.collect(), datasets, chunks, chunk_size, file: PathBuf::new() }
    }
}

fn from_gguf(file: &Gguf) -> Result<Imatrix> {
    let path = file.metadata.file();
    if file.metadata.find::<&str>("general.type")? != Some("imatrix") {
        return Err(ConvertError::file(path, "is a GGUF file, but no importance matrix"));
    }
    let number = |key: &str| -> Result<u32> { Ok(file.metadata.find(key)?.unwrap_or(0)) };
    let mut matrix = Imatrix {
        chunks: number("imatrix.chunk_count")?,
        chunk_size: number("imatrix.chunk_size")?,
        ..Imatrix::default()
    };
    if let Some(Value::Array(gguf::Array::Str(list))) = file.metadata.get("imatrix.datasets") {
        matrix.datasets = list.iter().map(|t| String::from_utf8_lossy(t).into_owned()).collect();
    }
    for (name, tensor) in &file.tensors {
        let Some(weight) = name.strip_suffix(SUMS) else { continue };
        let counts = file.tensors.get(&format!("{weight}{COUNTS}"));
        let floats = |t: &HostTensor| to_f32(t).map_err(|e| ConvertError::file(path, e));
        let counts = counts.ok_or_else(|| ConvertError::file(path, format!("`{weight}` has no counts")))?;
        let sums = Sums { values: floats(tensor)?, counts: floats(counts)? };
        if sums.counts.is_empty() || !sums.values.len().is_multiple_of(sums.counts.len()) {
            return Err(ConvertError::file(path, format!("counts of `{weight}` do not fit its sums")));
        }
        matrix.sums.insert(weight.to_owned(), sums);
    }
    Ok(matrix)
}

/// The older `.dat` form: number of entries; for each the length of its name, the name, calls, number of values, values.
/// Behind them the number of chunks and the name of the text.
struct DatReader<'a> {
    rest: &'a [u8],
    path: &'a Path,
}

impl<'a> DatReader<'a> {
    fn read(mut self) -> Result<Imatrix> {
        let entries = self.int()?;
        if !(1..1 << 20).contains(&entries) {
            return Err(self.broken());
        }
        let mut matrix = Imatrix::default();
        for _ in 0..entries {
            let name = self.text()?;
            let (calls, count) = (self.int()?, self.int()?);
            let count = usize::try_from(count).ok().filter(|&n| n > 0).ok_or_else(|| self.broken())?;
            let bytes = self.take(count.checked_mul(4).ok_or_else(|| self.broken())?)?;
            let values = bytemuck::allocation::pod_collect_to_vec(bytes);
            matrix.sums.insert(name, Sums { values, counts: vec![calls as f32] });
        }
        if !self.rest.is_empty() {
            matrix.chunks = self.int()?.max(0) as u32;
            matrix.datasets.push(self.text()?);
        }
        Ok(matrix)
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(n).ok_or_else(|| self.broken())?;
        self.rest = rest;
        Ok(taken)
    }

    fn int(&mut self) -> Result<i32> {
        let bytes = self.take(4)?;
        bytes.try_into().map(i32::from_le_bytes).map_err(|_| self.broken())
    }

    fn text(&mut self) -> Result<String> {
        let length = usize::try_from(self.int()?).map_err(|_| self.broken())?;
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }

    fn broken(&self) -> ConvertError {
        ConvertError::file(self.path, "is no importance matrix, or is cut off")
    }
}
