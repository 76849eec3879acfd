//! Panels that the host packs: for weights that are sent to the device when an operator multiplies with them.

use crate::format::{LANES, PanelFormat, matrices};
use lamina_arch::{ArchError, weights::Tensor};
use lamina_base::DType;
use lamina_plan::{WeightLayout, WeightSpec, backend::Result};
use std::{ops::Range, thread};

/// Counts changes of the order of bytes inside a panel: files of panels say what they were written by.
const LAYOUT: u32 = 1;

/// How a matrix of `dtype` lies in panels; none for tables and vectors.
pub(crate) fn layout(spec: &WeightSpec, dtype: DType) -> Option<WeightLayout> {
    if !spec.kind.is_matrix() {
        return None;
    }
    let (format, (count, rows, cols)) = (PanelFormat::of(dtype), matrices(spec));
    Some(WeightLayout {
        matrices: count,
        panel_rows: LANES,
        panels: rows.div_ceil(LANES),
        panel_bytes: format.panel_bytes(cols),
        key: format!("gpu {} {LANES}x{cols} v{LAYOUT}", format.dtype),
    })
}

/// Rows of a tensor, stored in `format`.
///
/// # Errors
/// When they cannot be read or decoded.
pub(crate) fn stored_rows(
    format: &PanelFormat,
    tensor: &Tensor,
    rows: Range<usize>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let row_bytes = format.row_bytes(tensor.cols);
    out.clear();
    out.resize(rows.len() * row_bytes, 0);
    if tensor.dtype == format.dtype {
        return Ok(tensor.read(rows, out)?);
    }
    let (mut stored, mut numbers) = (vec![0; tensor.row_bytes()], vec![0.0; tensor.cols]);
    for (row, out) in rows.zip(out.chunks_exact_mut(row_bytes.max(1))) {
        tensor.read(row..row + 1, &mut stored)?;
        lamina_quant::decode(tensor.dtype, &stored, &mut numbers)
            .and_then(|()| lamina_quant::encode(format.dtype, &numbers, None, out))
            .map_err(ArchError::from)?;
    }
    Ok(())
}

/// Packs panels of a matrix or a stack, counted over all matrices: the bytes of the kernel `repack`, of which this is the
/// host's twin.
///
/// # Errors
/// When the tensor cannot be read or decoded.
pub(crate) fn pack(spec: &WeightSpec, tensor: &Tensor, panels: Range<usize>, out: &mut [u8]) -> Result<()> {
    let (format, (_, rows, cols)) = (PanelFormat::of(tensor.dtype), matrices(spec));
    let (each, bytes) = (rows.div_ceil(LANES), format.panel_bytes(cols));
    let packer = PanelRows { format, tensor, rows, each };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let share = panels.len().div_ceil(threads).max(1);
    thread::scope(|scope| {
        let parts = out.chunks_mut((share * bytes).max(1)).enumerate();
        let parts = parts.map(|(i, out)| {
            let first = panels.start + i * share;
            let (packer, end) = (&packer, panels.end.min(first + share));
            scope.spawn(move || packer.pack(first..end, bytes, out))
        });
        let parts: Vec<_> = parts.collect();
        parts.into_iter().try_for_each(|part| part.join().expect("packing does not panic"))
    })
}

/// Rows that become panels.
struct PanelRows<'a> {
    format: &'a PanelFormat,
    tensor: &'a Tensor,
    /// Rows of a matrix, and panels of it.
    rows: usize,
    each: usize,
}

impl PanelRows<'_> {
    fn pack(&self, panels: Range<usize>, bytes: usize, out: &mut [u8]) -> Result<()> {
        let mut rows = vec![];
        for (panel, out) in panels.zip(out.chunks_exact_mut(bytes.max(1))) {
            let (matrix, first) = (panel / self.each, panel % self.each * LANES);
            let (start, end) =
                (matrix * self.rows + first, matrix * self.rows + self.rows.min(first + LANES));
            stored_rows(self.format, self.tensor, start..end, &mut rows)?;
            self.panel(&rows, out);
        }
        Ok(())
    }

    /// One panel: block by block, field by field, word by word of all lanes.
    fn panel(&self, rows: &[u8], out: &mut [u8]) {
        let (row_bytes, block_bytes) = (self.format.row_bytes(self.tensor.cols), self.format.block_bytes());
        for (block, out) in out.chunks_exact_mut(block_bytes * LANES).enumerate() {
            let mut to = out.iter_mut();
            for field in self.format.fields {
                let (bytes, word) = (field.bytes as usize, field.word as usize);
                for at in (0..bytes).step_by(word) {
                    for (lane, byte) in (0..LANES).flat_map(|lane| (0..word).map(move |byte| (lane, byte))) {
                        let inside = block * block_bytes + field.at as usize + at + byte;
                        // Lanes and numbers that fill panels and blocks up are zeros.
                        let from =
                            (inside < row_bytes).then(|| rows.get(lane * row_bytes + inside)).flatten();
                        *to.next().expect("fields hold all bytes of a block") = from.copied().unwrap_or(0);
                    }
                }
            }
        }
    }
}
