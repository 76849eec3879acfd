//! Weights as candle's tensors: float32, or the blocks of the file where candle has kernels for them.

use crate::error::{failed, unsupported};
use candle_core::{
    DType as TensorType, Device, Result as CandleResult, Tensor as CandleTensor,
    quantized::{GgmlDType, QStorage, QTensor},
};
use lamina_arch::{ArchError, weights::Tensor};
use lamina_base::DType;
use lamina_plan::{WeightKind, WeightSpec, backend::Result};
use std::sync::Arc;

/// What matrices are held as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixForm {
    /// Decoded to float32, whatever the file has: nothing is rounded, and blocks take up to sixteen times their memory.
    Float32,
    /// As the file has them where candle multiplies that type, else as float16. candle's CPU kernels round the rows that
    /// are multiplied with blocks to 8 bits, and those for float16 to float16.
    Stored,
}

/// Types of blocks and floats that candle multiplies.
const NATIVE: [(DType, GgmlDType); 13] = [
    (DType::F32, GgmlDType::F32),
    (DType::F16, GgmlDType::F16),
    (DType::BF16, GgmlDType::BF16),
    (DType::Q4_0, GgmlDType::Q4_0),
    (DType::Q4_1, GgmlDType::Q4_1),
    (DType::Q5_0, GgmlDType::Q5_0),
    (DType::Q5_1, GgmlDType::Q5_1),
    (DType::Q8_0, GgmlDType::Q8_0),
    (DType::Q2_K, GgmlDType::Q2K),
    (DType::Q3_K, GgmlDType::Q3K),
    (DType::Q4_K, GgmlDType::Q4K),
    (DType::Q5_K, GgmlDType::Q5K),
    (DType::Q6_K, GgmlDType::Q6K),
];

/// candle's name of a type that it multiplies.
fn native(dtype: DType) -> Option<GgmlDType> {
    NATIVE.iter().find(|(known, _)| *known == dtype).map(|(_, named)| *named)
}

impl MatrixForm {
    /// Types that are multiplied as they are stored.
    pub(crate) fn types(self) -> Vec<DType> {
        match self {
            MatrixForm::Float32 => vec![DType::F32],
            MatrixForm::Stored => NATIVE.map(|(dtype, _)| dtype).to_vec(),
        }
    }

    /// The type that matrices of `dtype` are multiplied in.
    pub(crate) fn runs_as(self, dtype: DType) -> DType {
        match self {
            MatrixForm::Float32 => DType::F32,
            MatrixForm::Stored if native(dtype).is_some() => dtype,
            MatrixForm::Stored => DType::F16,
        }
    }

    /// The type that tables of `dtype` are looked up in: candle looks up rows of floats only.
    fn looks_up_as(self, dtype: DType) -> TensorType {
        match (self, dtype) {
            (MatrixForm::Float32, _) | (_, DType::F32) => TensorType::F32,
            (MatrixForm::Stored, DType::BF16) => TensorType::BF16,
            (MatrixForm::Stored, _) => TensorType::F16,
        }
    }

    /// Bytes that a weight takes.
    pub(crate) fn weight_bytes(self, spec: &WeightSpec, dtype: DType) -> usize {
        let (rows, cols) = spec.kind.shape();
        match spec.kind {
            WeightKind::Vector { .. } => cols * size_of::<f32>(),
            WeightKind::Table { .. } => rows * cols * self.looks_up_as(dtype).size_in_bytes(),
            _ => rows * self.runs_as(dtype).bytes_for(cols).unwrap_or(cols * size_of::<f32>()),
        }
    }
}

/// A weight after upload. Clones share its memory.
#[derive(Clone)]
pub struct CandleWeight(HeldAs);

/// What a weight is held as.
#[derive(Clone)]
enum HeldAs {
    /// `[len]` float32 numbers.
    Vector(CandleTensor),
    /// `[rows, cols]` of a table.
    Table(CandleTensor),
    /// One matrix, or those of a stack.
    Matrices(Vec<CandleMatrix>),
}

/// One matrix `[outputs, inputs]`.
#[derive(Clone)]
pub(crate) enum CandleMatrix {
    Float32(CandleTensor),
    Blocks(Arc<QTensor>),
}

impl CandleMatrix {
    /// `x w^T` for one row `[1, inputs]`.
    pub(crate) fn mul(&self, x: &CandleTensor) -> CandleResult<CandleTensor> {
        match self {
            CandleMatrix::Float32(w) => x.matmul(&w.t()?),
            CandleMatrix::Blocks(w) => x.apply_op1_no_bwd(&**w),
        }
    }

    /// `x w^T` for every row of `[rows, inputs]`, one after the other: candle takes other kernels for more rows.
    pub(crate) fn mul_rows(&self, x: &CandleTensor) -> CandleResult<CandleTensor> {
        let rows = (0..x.dim(0)?).map(|row| self.mul(&x.narrow(0, row, 1)?));
        CandleTensor::cat(&rows.collect::<CandleResult<Vec<_>>>()?, 0)
    }
}

impl CandleWeight {
    /// Decodes a tensor, or takes its blocks, and copies it to the device.
    pub(crate) fn upload(
        form: MatrixForm,
        device: &Device,
        spec: &WeightSpec,
        tensor: &Tensor,
    ) -> Result<CandleWeight> {
        let (rows, cols) = spec.kind.shape();
        if tensor.rows() * tensor.cols != rows * cols {
            let what = format!(
                "`{}` with {} x {} numbers for {rows} x {cols}",
                spec.name,
                tensor.rows(),
                tensor.cols
            );
            return Err(unsupported(what));
        }
        let held = match spec.kind {
            WeightKind::Vector { len } => {
                HeldAs::Vector(CandleTensor::from_vec(tensor.to_f32()?, len, device).map_err(failed)?)
            }
            WeightKind::Table { .. } => {
                let numbers = tensor.to_f32()?;
                let table = table(numbers, (rows, cols), form.looks_up_as(tensor.dtype), device);
                HeldAs::Table(table.map_err(failed)?)
            }
            WeightKind::Matrix { rows, .. } => HeldAs::Matrices(matrices(form, device, tensor, 1, rows)?),
            WeightKind::Stack { count, rows, .. } => {
                HeldAs::Matrices(matrices(form, device, tensor, count, rows)?)
            }
        };
        Ok(CandleWeight(held))
    }

    /// The numbers of a vector.
    pub(crate) fn vector(&self) -> CandleResult<&CandleTensor> {
        match &self.0 {
            HeldAs::Vector(numbers) => Ok(numbers),
            _ => candle_core::bail!("a matrix or a table where the plan has a vector"),
        }
    }

    /// Rows of a table by their numbers, as float32.
    pub(crate) fn rows(&self, ids: &CandleTensor) -> CandleResult<CandleTensor> {
        match &self.0 {
            HeldAs::Table(table) => table.index_select(ids, 0)?.to_dtype(TensorType::F32),
            _ => candle_core::bail!("a matrix or a vector where the plan has a table"),
        }
    }

    /// Matrix `i` of a stack; a matrix is the first of one.
    pub(crate) fn matrix(&self, i: usize) -> CandleResult<&CandleMatrix> {
        match &self.0 {
            HeldAs::Matrices(all) if i < all.len() => Ok(&all[i]),
            _ => candle_core::bail!("no matrix {i} where the plan has one"),
        }
    }
}

/// A table as floats of `dtype`, converted before it takes memory of the device.
fn table(
    numbers: Vec<f32>,
    shape: (usize, usize),
    dtype: TensorType,
    device: &Device,
) -> CandleResult<CandleTensor> {
    CandleTensor::from_vec(numbers, shape, &Device::Cpu)?.to_dtype(dtype)?.to_device(device)
}

/// `count` matrices of `rows` rows.
fn matrices(
    form: MatrixForm,
    device: &Device,
    tensor: &Tensor,
    count: usize,
    rows: usize,
) -> Result<Vec<CandleMatrix>> {
    let one = |i: usize| {
        let part = tensor.slice(i * rows..(i + 1) * rows);
        match form {
            MatrixForm::Float32 => {
                let numbers = CandleTensor::from_vec(part.to_f32()?, (rows, part.cols), device);
                Ok(CandleMatrix::Float32(numbers.map_err(failed)?))
            }
            MatrixForm::Stored => blocks(device, &part).map(|w| CandleMatrix::Blocks(Arc::new(w))),
        }
    };
    (0..count).map(one).collect()
}

/// A matrix as candle's blocks: those of the file, or float16.
fn blocks(device: &Device, tensor: &Tensor) -> Result<QTensor> {
    let (rows, cols) = (tensor.rows(), tensor.cols);
    let (named, bytes) = match native(tensor.dtype) {
        Some(named) => {
            let mut bytes = vec![0; rows * tensor.row_bytes()];
            tensor.read(0..rows, &mut bytes)?;
            (named, bytes)
        }
        None => {
            let mut bytes = vec![0; rows * cols * 2];
            lamina_quant::encode(DType::F16, &tensor.to_f32()?, None, &mut bytes).map_err(ArchError::from)?;
            (GgmlDType::F16, bytes)
        }
    };
    let storage = QStorage::from_data(bytes.into(), device, named);
    storage.and_then(|blocks| QTensor::new(blocks, (rows, cols))).map_err(failed)
}
