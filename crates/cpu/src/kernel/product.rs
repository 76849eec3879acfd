//! The shape of a panel product, shared by all weight types.

use super::codes::Codes;

/// From this many rows on, panels are unpacked into a tile first; below, values stay in registers.
pub const TILE_ROWS: usize = 12;

/// How far ahead of the reading weights are prefetched, in bytes: about the latency of memory at full bandwidth.
///
/// From 1024 to 4608 no difference could be measured on Zen 4. What counts is that every line of a block is asked for, and
/// that a thread reads one panel at a time: two streams halved the bandwidth.
pub const PREFETCH: usize = 2304;

/// Runs a call for all rows, four, two or one at a time: `$row` is the first and `$count` a constant.
macro_rules! by_rows {
    ($rows:expr, $row:ident, $count:ident => $call:expr) => {{
        let mut $row = 0;
        while $row + 4 <= $rows {
            const $count: usize = 4;
            $call;
            $row += 4;
        }
        if $row + 2 <= $rows {
            const $count: usize = 2;
            $call;
            $row += 2;
        }
        if $row < $rows {
            const $count: usize = 1;
            $call;
        }
    }};
}
pub(super) use by_rows;

/// Adjacent panels times rows of activations.
#[repr(C)]
pub struct Job {
    /// First panel.
    pub weights: *const u8,
    /// From one panel to the next.
    pub panel_bytes: usize,
    /// Panels to multiply.
    pub panels: usize,
    /// From what is read to what is asked for meanwhile, in bytes.
    pub ahead: usize,
    /// Blocks of columns per panel.
    pub blocks: usize,
    /// Activation blocks `[block][row]`, from the first row of the job on.
    pub acts: *const u8,
    /// From one block of a row to its next, in blocks.
    pub stride: usize,
    /// Rows to multiply.
    pub rows: usize,
    /// Rows from one group of lanes to the next in `out`, at least `rows`.
    pub out_rows: usize,
    /// Results `[group of lanes][row][lane]`.
    pub out: *mut f32,
}

/// Multiplies a job.
///
/// # Safety
/// The pointers of the job are valid for its sizes, and its weights were packed for the same type and lanes.
pub type Product = unsafe fn(&Job);

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
