//! Weights on the device: panels for products and look-ups, float32 for small vectors.

use crate::{
    args::{Field, RepackArgs},
    device::{Bound, GpuDevice, Launch},
    format::{LANES, PanelFormat, matrices},
    host_panels::stored_rows,
    tensor::TensorFormat,
};
use lamina_arch::weights::Tensor;
use lamina_base::DType;
use lamina_plan::{BackendError, WeightKind, WeightSpec, backend::Result};
use std::sync::Arc;

/// Bytes of stored rows that are on the device beside their panels.
const STAGE: usize = 8 << 20;

/// Where the panels of a weight are.
#[derive(Clone, Copy)]
enum PanelPlace {
    /// Nowhere: they have not been sent.
    Nowhere,
    /// From this byte of their buffer on.
    At(usize),
}

/// A weight after upload. Clones share its memory.
pub struct GpuWeight<D: GpuDevice> {
    pub(crate) buffer: Arc<D::Buffer>,
    place: PanelPlace,
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
        let (count, rows, cols) = matrices(spec);
        if tensor.rows() * tensor.cols != count * rows * cols {
            let what = format!("`{}` with {} x {} numbers", spec.name, tensor.rows(), tensor.cols);
            return Err(BackendError::Unsupported { backend: D::NAME, what });
        }
        let bytes = PanelFormat::weight_bytes(spec, tensor.dtype);
        let buffer = Arc::new(device.alloc(bytes.max(16), &spec.name)?);
        let tensor_format = TensorFormat::of(format, device.products());
        let weight =
            GpuWeight { buffer, place: PanelPlace::At(0), format, tensor: tensor_format, rows, cols };
        match spec.kind {
            WeightKind::Vector { .. } => {
                device.upload(&weight.buffer, 0, bytemuck::cast_slice(&tensor.to_f32()?))?;
            }
            _ => weight.pack(device, tensor, count)?,
        }
        Ok(weight)
    }

    /// A matrix, or a stack, whose panels are sent when an operator multiplies with them.
    pub(crate) fn unbound(device: &D, spec: &WeightSpec, dtype: DType) -> Result<Self> {
        let (format, (_, rows, cols)) = (PanelFormat::of(dtype), matrices(spec));
        // Launches want some buffer, and do not come so far without panels.
        let buffer = Arc::new(device.alloc(16, &spec.name)?);
        let place = PanelPlace::Nowhere;
        Ok(GpuWeight {
            buffer,
            place,
            format,
            tensor: TensorFormat::of(format, device.products()),
            rows,
            cols,
        })
    }

    /// Its panels lie in `buffer` from byte `at` on.
    pub(crate) fn put(&mut self, buffer: &Arc<D::Buffer>, at: usize) {
        (self.buffer, self.place) = (buffer.clone(), PanelPlace::At(at));
    }

    /// Its panels lie nowhere any more.
    pub(crate) fn take_away(&mut self) {
        self.place = PanelPlace::Nowhere;
    }

    /// Its panels, for a launch.
    pub(crate) fn bound(&self) -> Result<Bound<'_, D::Buffer>> {
        match self.place {
            PanelPlace::At(at) => Ok(Bound::read(&*self.buffer, at)),
            PanelPlace::Nowhere => {
                let what = "a product with weights that were not sent".to_owned();
                Err(BackendError::Unsupported { backend: D::NAME, what })
            }
        }
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
                stored_rows(
                    self.format,
                    tensor,
                    matrix * self.rows + first..matrix * self.rows + first + n,
                    &mut rows,
                )?;
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
        self.format.row_bytes(self.cols)
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
