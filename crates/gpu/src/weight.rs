//! Weights on the device: panels for products and look-ups, float32 for small vectors.

use crate::{
    args::{Field, RepackArgs},
    device::{Bound, GpuDevice, Launch, ProductUnits},
    format::{LANES, PanelFormat},
    tensor::TensorFormat,
};
use lamina_arch::{ArchError, weights::Tensor};
use lamina_plan::{BackendError, WeightKind, WeightSpec, backend::Result};
use std::sync::Arc;

/// Bytes of stored rows that are on the device beside their panels.
const STAGE: usize = 8 << 20;

/// A weight after upload. Clones share its memory.
pub struct GpuWeight<D: GpuDevice> {
    pub(crate) buffer: Arc<D::Buffer>,
    pub(crate) format: &'static PanelFormat,
    /// How tensor cores multiply it, where they do.
    pub(crate) tensor: Option<&'static TensorFormat>,
    /// Rows of one matrix; a vector has one.
    pub(crate) rows: usize,
    pub(crate) cols: usize,
}

impl<D: GpuDevice> Clone for GpuWeight<D> {
    fn clone(&self) -> Self {
        GpuWeight { buffer: self.buffer.clone(), ..*self }
    }
}

impl<D: GpuDevice> GpuWeight<D> {
    /// Copies a tensor to the device and repacks it there.
    pub(crate) fn upload(device: &D, spec: &WeightSpec, tensor: &Tensor) -> Result<Self> {
        let format = PanelFormat::of(tensor.dtype);
        let (count, rows, cols) = match spec.kind {
            WeightKind::Vector { len } => (1, 1, len),
            WeightKind::Matrix { rows, cols } | WeightKind::Table { rows, cols } => (1, rows, cols),
            WeightKind::Stack { count, rows, cols } => (count, rows, cols),
        };
        if tensor.rows() * tensor.cols != count * rows * cols {
            let what = format!("`{}` with {} x {} numbers", spec.name, tensor.rows(), tensor.cols);
            return Err(BackendError::Unsupported { backend: D::NAME, what });
        }
        let bytes = PanelFormat::weight_bytes(spec, tensor.dtype);
        let buffer = Arc::new(device.alloc(bytes.max(16), &spec.name)?);
        let fragments = match device.products() {
            ProductUnits::Fma => None,
            ProductUnits::TensorCores => TensorFormat::of(format),
        };
        let weight = GpuWeight { buffer, format, tensor: fragments, rows, cols };
        match spec.kind {
            WeightKind::Vector { .. } => {
                device.upload(&weight.buffer, 0, bytemuck::cast_slice(&tensor.to_f32()?))?;
            }
            _ => weight.pack(device, tensor, count)?,
        }
        Ok(weight)
    }

    /// Panels of one matrix.
    pub(crate) fn panels(&self) -> usize {
        self.rows.div_ceil(LANES)
    }

    fn pack(&self, device: &D, tensor: &Tensor, count: usize) -> Result<()> {
        let row_bytes = self.row_bytes();
        let chunk = (STAGE / (row_bytes * LANES).max(1)).clamp(1, self.panels().max(1)) * LANES;
        let stage = device.alloc((chunk * row_bytes).max(16), "weights on their way")?;
        let mut rows = vec![];
        for matrix in 0..count {
            for first in (0..self.rows).step_by(chunk) {
                let n = chunk.min(self.rows - first);
                self.read(tensor, matrix * self.rows + first, n, &mut rows)?;
                device.upload(&stage, 0, &rows)?;
                let panel = matrix * self.panels() + first / LANES;
                self.repack(device, &stage, n, panel)?;
            }
        }
        // The staged bytes are read until then.
        device.wait()
    }

    /// Bytes of a row in the format that is packed.
    fn row_bytes(&self) -> usize {
        self.format.dtype.bytes_for(self.cols).unwrap_or_default()
    }

    /// Rows of the tensor in the format that is packed.
    fn read(&self, tensor: &Tensor, first: usize, n: usize, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        out.resize(n * self.row_bytes(), 0);
        if tensor.dtype == self.format.dtype {
            return Ok(tensor.read(first..first + n, out)?);
        }
        let (mut stored, mut numbers) = (vec![0; tensor.row_bytes()], vec![0.0; self.cols]);
        for (i, row) in out.chunks_exact_mut(self.row_bytes().max(1)).enumerate() {
            tensor.read(first + i..first + i + 1, &mut stored)?;
            lamina_quant::decode(tensor.dtype, &stored, &mut numbers)
                .and_then(|()| lamina_quant::encode(self.format.dtype, &numbers, None, row))
                .map_err(ArchError::from)?;
        }
        Ok(())
    }

    /// Repacks `rows` staged rows to panels from `panel` on.
    fn repack(&self, device: &D, stage: &D::Buffer, rows: usize, panel: usize) -> Result<()> {
        let mut field = [Field::default(); 4];
        field[..self.format.fields.len()].copy_from_slice(self.format.fields);
        let args = RepackArgs {
            rows: rows as i32,
            row_bytes: self.row_bytes() as i32,
            block_bytes: self.format.block_bytes() as i32,
            blocks: self.format.blocks(self.cols) as i32,
            fields: self.format.fields.len() as i32,
            field,
        };
        let to = Bound::write(&*self.buffer, panel * self.format.panel_bytes(self.cols));
        device.launch(&Launch {
            kernel: "repack",
            grid: [args.blocks as u32, rows.div_ceil(LANES) as u32, 1],
            bound: &[Bound::read(stage, 0), to],
            args: bytemuck::bytes_of(&args),
        })
    }
}
