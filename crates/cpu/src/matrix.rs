//! Matrices in panels of interleaved rows, which lie in memory of their own or where they were bound.

use crate::memory::{Aligned, SharedPtr, product};
use lamina_arch::weights::Tensor;
use lamina_base::{Bytes, DType, human_bytes};
use lamina_kernels::Kernels;
use lamina_plan::{BackendError, PanelFill, WeightKind, WeightLayout, WeightSpec, backend::Result};
use lamina_pool::Pool;
use lamina_simd::Isa;
use std::{
    ops::Range,
    ptr::NonNull,
    sync::{Arc, OnceLock},
};

/// Matrices of `rows x cols` in panels of interleaved rows.
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
    /// Where each matrix lies now.
    places: Vec<MatrixPlace>,
    memory: MatrixMemory,
}

/// What keeps the bytes of matrices alive.
enum MatrixMemory {
    /// All of them, one after the other.
    Own(Arc<Aligned>),
    /// Those that are bound now.
    Bound(Vec<Option<Bytes>>),
}

/// First byte of a matrix, and how many bytes are there: none while nothing is bound.
#[derive(Clone, Copy)]
struct MatrixPlace {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: an address and a length; the bytes are read by `Matrix::panels_of` alone, which says why they are there.
unsafe impl Send for MatrixPlace {}
// SAFETY: by reference too only a copy of the address can be had.
unsafe impl Sync for MatrixPlace {}

impl MatrixPlace {
    const NOWHERE: MatrixPlace = MatrixPlace { at: NonNull::dangling(), len: 0 };

    fn of(bytes: &[u8]) -> MatrixPlace {
        NonNull::new(bytes.as_ptr().cast_mut())
            .map_or(Self::NOWHERE, |at| MatrixPlace { at, len: bytes.len() })
    }
}

/// Matrices, rows and columns of a weight that is multiplied with; none for others.
fn shape(kind: WeightKind) -> Option<(usize, usize, usize)> {
    match kind {
        WeightKind::Matrix { rows, cols } => Some((1, rows, cols)),
        WeightKind::Stack { count, rows, cols } => Some((count, rows, cols)),
        WeightKind::Table { .. } | WeightKind::Vector { .. } => None,
    }
}

/// How a weight of `dtype` lies in memory; none for tables and vectors.
pub fn layout(spec: &WeightSpec, dtype: DType, isa: Isa) -> Option<WeightLayout> {
    let (matrices, rows, cols) = shape(spec.kind)?;
    let kernels = kernels_for(dtype, cols, isa);
    Some(WeightLayout {
        matrices,
        panel_rows: kernels.rows(),
        panels: rows.div_ceil(kernels.rows()),
        panel_bytes: kernels.panel_bytes(cols),
        key: format!("cpu {} {}x{cols} v{LAYOUT}", kernels.dtype(), kernels.rows()),
    })
}

/// Counts changes of the order of bytes inside a panel: files of panels say what they were written by.
const LAYOUT: u32 = 1;

impl Matrix {
    /// Packs all panels of `tensor` in parallel.
    ///
    /// # Errors
    /// When memory does not suffice, or the tensor cannot be read.
    pub fn pack(spec: &WeightSpec, tensor: &Tensor, isa: Isa, pool: &Pool) -> Result<Matrix> {
        let panels = PanelPacker::new(spec, tensor, isa)?;
        Matrix::filled(spec, tensor.dtype, isa, pool, &|range, out| panels.pack(range, out))
    }

    /// A matrix whose panels `fill` writes.
    ///
    /// # Errors
    /// When memory does not suffice; those of `fill`.
    pub fn filled(
        spec: &WeightSpec,
        dtype: DType,
        isa: Isa,
        pool: &Pool,
        fill: PanelFill<'_>,
    ) -> Result<Matrix> {
        let mut matrix = Matrix::unbound(spec, dtype, isa)?;
        let (count, each) = (matrix.places.len(), matrix.panels * matrix.panel_bytes);
        let data =
            Aligned::zeroed(product(&[count, matrix.panels, matrix.panel_bytes], &spec.name)?, &spec.name)?;
        write_panels(&data, count * matrix.panels, matrix.panel_bytes, pool, fill)?;
        // SAFETY: all panels are written by now, and nobody writes them again.
        let bytes = unsafe { data.bytes() };
        matrix.places = (0..count).map(|i| MatrixPlace::of(&bytes[i * each..(i + 1) * each])).collect();
        matrix.memory = MatrixMemory::Own(Arc::new(data));
        Ok(matrix)
    }

    /// The same matrices in the same memory; none where they are bound.
    pub fn shared(&self) -> Option<Matrix> {
        let MatrixMemory::Own(data) = &self.memory else { return None };
        let (places, memory) = (self.places.clone(), MatrixMemory::Own(data.clone()));
        let &Matrix { kernels, rows, cols, panels, panel_bytes, .. } = self;
        Some(Matrix { kernels, rows, cols, panels, panel_bytes, places, memory })
    }

    /// A matrix without bytes.
    ///
    /// # Errors
    /// When the weight is none that is multiplied with.
    pub fn unbound(spec: &WeightSpec, dtype: DType, isa: Isa) -> Result<Matrix> {
        let (count, rows, cols) = shape(spec.kind).ok_or_else(|| no_panels(spec))?;
        let kernels = kernels_for(dtype, cols, isa);
        Ok(Matrix {
            kernels,
            rows,
            cols,
            panels: rows.div_ceil(kernels.rows()),
            panel_bytes: kernels.panel_bytes(cols),
            places: vec![MatrixPlace::NOWHERE; count],
            memory: MatrixMemory::Bound(vec![None; count]),
        })
    }

    /// Panels of matrix `index` lie in `bytes` from now on, or nowhere.
    ///
    /// # Errors
    /// When the matrix has memory of its own, there is no such one, or it has another number of bytes.
    pub fn bind(&mut self, index: usize, bytes: Option<Bytes>) -> Result<()> {
        let each = self.panels * self.panel_bytes;
        let wrong = |what: String| BackendError::Unsupported { backend: "cpu", what };
        let MatrixMemory::Bound(bound) = &mut self.memory else {
            return Err(wrong("binding a matrix that has memory of its own".into()));
        };
        let have = bytes.as_ref().map_or(each, |b| b.len());
        if index >= bound.len() || have != each {
            let (have, want) = (human_bytes(have as u64), human_bytes(each as u64));
            return Err(wrong(format!("matrix {index} of {} in {have} where {want} belong", bound.len())));
        }
        self.places[index] = bytes.as_ref().map_or(MatrixPlace::NOWHERE, |b| MatrixPlace::of(b));
        bound[index] = bytes;
        Ok(())
    }

    /// True where the panels of matrix `index` can be read.
    pub fn is_bound(&self, index: usize) -> bool {
        self.places[index].len == self.panels * self.panel_bytes
    }

    /// `n` panels of matrix `index` from panel `first` on.
    ///
    /// # Panics
    /// When the matrix is not bound, or has no such panels.
    pub fn panels_of(&self, index: usize, first: usize, n: usize) -> &[u8] {
        let place = self.places[index];
        let (at, bytes) = (first * self.panel_bytes, n * self.panel_bytes);
        assert!(at + bytes <= place.len, "panels {first}..{} of {}", first + n, self.panels);
        // SAFETY: `place` is of bytes that `memory` keeps alive as long as it names them, they hold these panels, and
        // nobody writes them: own ones are written before anybody has the matrix, and `Bytes` are never written.
        unsafe { std::slice::from_raw_parts(place.at.as_ptr().add(at), bytes) }
    }

    /// Bytes in memory of its own.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        match &self.memory {
            MatrixMemory::Own(data) => data.len(),
            MatrixMemory::Bound(_) => 0,
        }
    }
}

/// Has all of `data` written by `fill` in parallel, some panels at a time.
fn write_panels(
    data: &Aligned,
    all: usize,
    panel_bytes: usize,
    pool: &Pool,
    fill: PanelFill<'_>,
) -> Result<()> {
    let chunk = all.div_ceil(pool.threads() * 16).max(1);
    let out = SharedPtr(data.ptr_mut());
    let failed = OnceLock::new();
    pool.run(all.div_ceil(chunk), |task, _| {
        let panels = task * chunk..((task + 1) * chunk).min(all);
        // SAFETY: `data` holds `all` panels one after the other, these are below that number, and each belongs to one task.
        let to = unsafe {
            std::slice::from_raw_parts_mut(out.at(panels.start * panel_bytes), panels.len() * panel_bytes)
        };
        if let Err(e) = fill(panels, to) {
            // The first error is the one that is returned.
            let _ = failed.set(e);
        }
    });
    failed.into_inner().map_or(Ok(()), Err)
}

fn no_panels(spec: &WeightSpec) -> BackendError {
    BackendError::Unsupported { backend: "cpu", what: format!("`{}` in panels: it is no matrix", spec.name) }
}

/// Packs panels of a tensor.
pub struct PanelPacker<'a> {
    tensor: &'a Tensor,
    kernels: Kernels,
    rows: usize,
    panels: usize,
    panel_bytes: usize,
}

impl<'a> PanelPacker<'a> {
    /// For the matrices of `spec`.
    ///
    /// # Errors
    /// When the weight is none that is multiplied with.
    pub fn new(spec: &WeightSpec, tensor: &'a Tensor, isa: Isa) -> Result<PanelPacker<'a>> {
        let (_, rows, cols) = shape(spec.kind).ok_or_else(|| no_panels(spec))?;
        let kernels = kernels_for(tensor.dtype, cols, isa);
        let (panels, panel_bytes) = (rows.div_ceil(kernels.rows()), kernels.panel_bytes(cols));
        Ok(PanelPacker { tensor, kernels, rows, panels, panel_bytes })
    }

    /// Packs some panels, counted over all matrices, one after the other. `out` is all zeros: rows that a panel lacks
    /// stay as they are.
    ///
    /// # Errors
    /// When the tensor cannot be read or decoded.
    pub fn pack(&self, panels: Range<usize>, out: &mut [u8]) -> Result<()> {
        let mut converted = Converted::default();
        // Panels of no columns have no bytes.
        for (panel, out) in panels.zip(out.chunks_exact_mut(self.panel_bytes.max(1))) {
            self.panel(panel, out, &mut converted)?;
        }
        Ok(())
    }

    fn panel(&self, panel: usize, out: &mut [u8], converted: &mut Converted) -> Result<()> {
        let (n, tensor) = (self.kernels.rows(), self.tensor);
        let (matrix, first) = (panel / self.panels, panel % self.panels * n);
        let (start, present) = (matrix * self.rows + first, n.min(self.rows - first));
        let mut stored = std::mem::take(&mut converted.stored);
        stored.resize(present * tensor.row_bytes(), 0);
        tensor.read(start..start + present, &mut stored)?;
        for (lane, row) in stored.chunks_exact(tensor.row_bytes().max(1)).enumerate() {
            let row = if tensor.dtype == self.kernels.dtype() {
                row
            } else {
                converted.row(row, tensor, self.kernels.dtype())?
            };
            self.kernels.put(row, lane, out);
        }
        converted.stored = stored;
        Ok(())
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
    let fits = |k: &Kernels| cols.is_multiple_of(k.act().block());
    let native = lamina_kernels::kernels(dtype, isa).filter(fits);
    native.unwrap_or_else(|| {
        lamina_kernels::kernels(plain(dtype), isa).expect("plain types have kernels of any width")
    })
}

/// The plain type that holds every value of a type without kernels, with float16 rounding at most for block types.
pub fn plain(dtype: DType) -> DType {
    match dtype {
        DType::F8_E5M2 => DType::F16,
        t if t.is_quantized() => DType::F16,
        _ => DType::F32,
    }
}
