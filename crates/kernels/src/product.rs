//! Operands and sizes of a product of weight panels with activations, shared by all weight types.

use crate::{act::ActKind, codes::Codes};
use std::marker::PhantomData;

/// From this many rows on, panels are unpacked into a tile first; below, values stay in registers.
pub const TILE_ROWS: usize = 12;

/// Prefetch distance of weights in bytes: about the latency of memory at full bandwidth.
///
/// From 1024 to 4608 no difference could be measured on Zen 4. What counts is that every line of a block is asked for, and
/// that a thread reads one panel at a time: two streams halved the bandwidth.
pub const PREFETCH: usize = 2304;

/// Runs a call for all rows, four, two or one at a time: `$row` is the first and `$count` a constant.
macro_rules! by_rows {
    ($lanes:ty, $rows:expr, $row:ident, $count:ident => $call:expr) => {{
        let mut $row = 0;
        while <$lanes>::AT_ONCE >= 4 && $row + 4 <= $rows {
            const $count: usize = 4;
            $call;
            $row += 4;
        }
        if <$lanes>::AT_ONCE >= 2 && $row + 2 <= $rows {
            const $count: usize = 2;
            $call;
            $row += 2;
        }
        while $row < $rows {
            const $count: usize = 1;
            $call;
            $row += 1;
        }
    }};
}
pub(crate) use by_rows;

/// Adjacent panels times rows of activations. [`Job::new`] is the one place where its memory enters.
pub struct Job<'a> {
    /// First panel.
    pub(crate) weights: *const u8,
    /// From one panel to the next.
    pub(crate) panel_bytes: usize,
    /// Panels to multiply.
    pub(crate) panels: usize,
    /// Prefetch distance in bytes.
    pub(crate) ahead: usize,
    /// Blocks of columns per panel.
    pub(crate) blocks: usize,
    /// Activation blocks `[block][row]`, from the first row of the job on; of float32 `[row][column]`.
    pub(crate) acts: *const u8,
    /// From one block of a row to its next, in blocks; of float32 from one row to the next, in numbers.
    pub(crate) stride: usize,
    /// Rows to multiply.
    pub(crate) rows: usize,
    /// Rows from one group of lanes to the next in `out`, at least `rows`.
    pub(crate) out_rows: usize,
    /// Results `[group of lanes][row][lane]`.
    pub(crate) out: *mut f32,
    memory: PhantomData<(&'a [u8], &'a mut [f32])>,
}

/// What a product multiplies, and where its results go.
pub struct PanelOperands<'a> {
    /// Whole panels.
    pub weights: &'a [u8],
    /// Activations from the first row on.
    pub acts: &'a [u8],
    /// From one block of a row to its next, in blocks; of float32 from one row to the next, in numbers.
    pub stride: usize,
    /// Rows to multiply.
    pub rows: usize,
    /// Results `[group of lanes][row][lane]`.
    pub out: &'a mut [f32],
    /// Rows from one group of lanes to the next in `out`, at least `rows`.
    pub out_rows: usize,
    /// Prefetch distance in bytes; what lies there need not be valid.
    pub ahead: usize,
}

/// Sizes of the panels of a matrix.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PanelSizes {
    /// Bytes of a panel.
    pub bytes: usize,
    /// Blocks of columns of a panel.
    pub blocks: usize,
    /// Rows of a panel.
    pub rows: usize,
    /// Form of activations.
    pub act: ActKind,
}

impl<'a> Job<'a> {
    /// # Panics
    /// When activations or results are fewer than the panels and rows take, or activations are not aligned.
    pub fn new(o: PanelOperands<'a>, panel: PanelSizes) -> Job<'a> {
        let panels = o.weights.len() / panel.bytes.max(1);
        let blocks = match panel.act {
            _ if o.rows == 0 || panel.blocks == 0 => 0,
            ActKind::F32 => (o.rows - 1) * o.stride + panel.blocks,
            ActKind::Int32 | ActKind::Int256 => (panel.blocks - 1) * o.stride + o.rows,
        };
        assert!(blocks * panel.act.block_bytes() <= o.acts.len(), "too few activations");
        assert!(
            blocks == 0 || o.acts.as_ptr().addr().is_multiple_of(panel.act.align()),
            "activations between lines"
        );
        assert!(o.rows <= o.out_rows && panels * panel.rows * o.out_rows <= o.out.len(), "too few results");
        Job {
            weights: o.weights.as_ptr(),
            panel_bytes: panel.bytes,
            panels,
            ahead: o.ahead,
            blocks: panel.blocks,
            acts: o.acts.as_ptr(),
            stride: o.stride,
            rows: o.rows,
            out_rows: o.out_rows,
            out: o.out.as_mut_ptr(),
            memory: PhantomData,
        }
    }
}

/// Multiplies a job.
///
/// # Safety
/// The CPU has the instructions that the kernel was built for, and the sizes of the job's panels are those of its type and
/// lanes.
pub type ProductKernel = unsafe fn(&Job<'_>);

/// Writes 32 values of row `r` into a sub-block of a panel of `n` rows.
#[inline(always)]
pub fn put_codes<C: Codes>(values: &[u8], r: usize, n: usize, sub: &mut [u8]) {
    let word = |g: usize| {
        u32::from_le_bytes([values[4 * g], values[4 * g + 1], values[4 * g + 2], values[4 * g + 3]])
    };
    C::pack(&std::array::from_fn(word), |v, word| {
        let at = 4 * (v * n + r);
        sub[at..at + 4].copy_from_slice(&word.to_le_bytes());
    });
}
