//! Weights in the form that kernels read: panels for products, stored rows for look-ups, float32 for small vectors.

use crate::{
    format::{self, Kernels},
    memory::{Aligned, SharedPtr, product},
};
use lamina_arch::weights::Tensor;
use lamina_base::DType;
use lamina_plan::{WeightKind, WeightSpec, backend::Result};
use lamina_pool::Pool;
use lamina_simd::Isa;
use std::sync::{Arc, OnceLock};

/// A weight after upload. Clones share its panels.
#[derive(Clone)]
pub enum Weight {
    /// One matrix, or the matrices of all experts.
    Matrix(Matrix),
    /// Rows for look-ups, as stored.
    Table(Tensor),
    /// A few numbers.
    Vector(Vec<f32>),
}

impl Weight {
    /// Takes a tensor over.
    pub fn upload(spec: &WeightSpec, tensor: &Tensor, isa: Isa, pool: &Pool) -> Result<Weight> {
        match spec.kind {
            WeightKind::Table { .. } => Ok(Weight::Table(tensor.clone())),
            WeightKind::Vector { .. } => Ok(Weight::Vector(tensor.to_f32()?)),
            WeightKind::Matrix { rows, cols } => {
                Matrix::pack(tensor, 1, rows, cols, isa, pool).map(Weight::Matrix)
            }
            WeightKind::Stack { count, rows, cols } => {
                Matrix::pack(tensor, count, rows, cols, isa, pool).map(Weight::Matrix)
            }
        }
    }
}

impl Weight {
    /// Bytes that [`Weight::upload`] takes for a tensor of `dtype`. Tables stay where they lie, mostly in a mapped file.
    pub fn bytes(spec: &WeightSpec, dtype: DType, isa: Isa) -> usize {
        let panels = |count: usize, rows: usize, cols: usize| {
            let kernels = kernels_for(dtype, cols, isa);
            count * rows.div_ceil(kernels.rows) * kernels.panel_bytes(cols)
        };
        match spec.kind {
            WeightKind::Table { rows, cols } => {
                rows * dtype.bytes_for(cols).unwrap_or(cols * size_of::<f32>())
            }
            WeightKind::Vector { len } => len * size_of::<f32>(),
            WeightKind::Matrix { rows, cols } => panels(1, rows, cols),
            WeightKind::Stack { count, rows, cols } => panels(count, rows, cols),
        }
    }
}

/// `count` matrices of `rows x cols` in panels of interleaved rows.
#[derive(Clone)]
pub struct Matrix {
    /// Kernels of the stored type.
    pub kernels: Kernels,
    /// Rows of each matrix.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Panels of each matrix; the last one may hold fewer rows.
    pub panels: usize,
    /// Bytes of a panel.
    pub panel_bytes: usize,
    data: Arc<Aligned>,
}

impl Matrix {
    fn pack(
        tensor: &Tensor,
        count: usize,
        rows: usize,
        cols: usize,
        isa: Isa,
        pool: &Pool,
    ) -> Result<Matrix> {
        let kernels = kernels_for(tensor.dtype, cols, isa);
        let panels = rows.div_ceil(kernels.rows);
        let panel_bytes = kernels.panel_bytes(cols);
        let data = Aligned::zeroed(product(&[count, panels, panel_bytes], &tensor.name)?, &tensor.name)?;
        let matrix = Matrix { kernels, rows, cols, panels, panel_bytes, data: Arc::new(data) };
        matrix.fill(tensor, count, pool)?;
        Ok(matrix)
    }

    /// Packs all panels in parallel.
    fn fill(&self, tensor: &Tensor, count: usize, pool: &Pool) -> Result<()> {
        let all = count * self.panels;
        let chunk = all.div_ceil(pool.threads() * 16).max(1);
        let out = SharedPtr(self.data.ptr_mut());
        let failed = OnceLock::new();
        pool.run(all.div_ceil(chunk), |task, _| {
            let mut converted = Converted::default();
            for panel in task * chunk..((task + 1) * chunk).min(all) {
                // SAFETY: `data` holds `count * panels` panels one after the other, `panel` is below that number, and each
                // belongs to one task.
                let to = unsafe {
                    std::slice::from_raw_parts_mut(out.at(panel * self.panel_bytes), self.panel_bytes)
                };
                if let Err(e) = self.fill_panel(tensor, panel, to, &mut converted) {
                    // The first error is the one that is told.
                    let _ = failed.set(e);
                    return;
                }
            }
        });
        failed.into_inner().map_or(Ok(()), Err)
    }

    fn fill_panel(
        &self,
        tensor: &Tensor,
        panel: usize,
        out: &mut [u8],
        converted: &mut Converted,
    ) -> Result<()> {
        let n = self.kernels.rows;
        let (matrix, first) = (panel / self.panels, panel % self.panels * n);
        let (start, present) = (matrix * self.rows + first, n.min(self.rows - first));
        let mut stored = std::mem::take(&mut converted.stored);
        stored.resize(present * tensor.row_bytes(), 0);
        tensor.read(start..start + present, &mut stored)?;
        for (lane, row) in stored.chunks_exact(tensor.row_bytes().max(1)).enumerate() {
            let row = if tensor.dtype == self.kernels.dtype {
                row
            } else {
                converted.row(row, tensor, self.kernels.dtype)?
            };
            self.kernels.put(row, lane, out);
        }
        converted.stored = stored;
        Ok(())
    }

    /// `n` panels of matrix `index` from panel `first` on.
    pub fn panels_of(&self, index: usize, first: usize, n: usize) -> &[u8] {
        let at = (index * self.panels + first) * self.panel_bytes;
        // SAFETY: `pack` has filled the panels before anybody had the matrix, and nobody writes them again.
        unsafe { &self.data.bytes()[at..at + n * self.panel_bytes] }
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.data.len()
    }
}

/// A row in a type that has kernels.
#[derive(Default)]
struct Converted {
    /// The stored rows of a panel.
    stored: Vec<u8>,
    values: Vec<f32>,
    row: Vec<u8>,
}

impl Converted {
    /// # Errors
    /// When the types or the lengths do not fit each other, which says that the tensor's header is wrong.
    fn row(&mut self, stored: &[u8], tensor: &Tensor, to: DType) -> Result<&[u8]> {
        self.values.resize(tensor.cols, 0.0);
        self.row.resize(tensor.cols * to.block_bytes(), 0);
        lamina_quant::decode(tensor.dtype, stored, &mut self.values)
            .and_then(|()| lamina_quant::encode(to, &self.values, None, &mut self.row))
            .map_err(lamina_arch::ArchError::from)?;
        Ok(&self.row)
    }
}

/// Kernels of the stored type, or of the plain type that it is turned into.
fn kernels_for(dtype: DType, cols: usize, isa: Isa) -> Kernels {
    let fits = |k: &Kernels| cols.is_multiple_of(k.act.block());
    let native = format::kernels(dtype, isa).filter(fits);
    native
        .unwrap_or_else(|| format::kernels(plain(dtype), isa).expect("plain types have kernels of any width"))
}

/// The plain type that holds every value of a type without kernels, with float16 rounding at most for block types.
pub fn plain(dtype: DType) -> DType {
    match dtype {
        DType::F8_E5M2 => DType::F16,
        t if t.is_quantized() => DType::F16,
        _ => DType::F32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that a weight really holds.
    fn held(weight: &Weight) -> usize {
        match weight {
            Weight::Matrix(m) => m.bytes(),
            Weight::Table(t) => t.bytes(),
            Weight::Vector(v) => size_of_val(&v[..]),
        }
    }

    #[test]
    fn the_plan_counts_what_upload_takes() {
        let pool = Pool::new(1);
        // Rows that fill no panel; columns of blocks, of neither blocks nor super-blocks, and of both.
        let all = if cfg!(miri) { &[96usize][..] } else { &[96, 33, 512] };
        for (cols, isa) in all.iter().flat_map(|&c| Isa::usable().into_iter().map(move |i| (c, i))) {
            for &dtype in DType::ALL.iter().filter(|t| cols.is_multiple_of(t.block_len())) {
                for kind in [
                    WeightKind::Matrix { rows: 41, cols },
                    WeightKind::Stack { count: 3, rows: 41, cols },
                    WeightKind::Table { rows: 41, cols },
                    WeightKind::Vector { len: cols },
                ] {
                    let (rows, cols) = kind.shape();
                    let bytes = vec![0u8; dtype.bytes_for(rows * cols).expect("whole blocks")];
                    let tensor = Tensor::from_bytes("weight", dtype, rows, cols, bytes);
                    let spec = WeightSpec { name: "weight".to_owned(), kind };
                    // Integers are no weights.
                    let Ok(weight) = Weight::upload(&spec, &tensor.expect("as many bytes"), isa, &pool)
                    else {
                        assert!(!crate::format::NATIVE.contains(&dtype), "{dtype} {kind:?}");
                        continue;
                    };
                    assert_eq!(Weight::bytes(&spec, dtype, isa), held(&weight), "{isa} {dtype} {kind:?}");
                }
            }
        }
    }
}
