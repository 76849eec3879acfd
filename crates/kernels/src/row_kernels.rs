//! Kernels over rows of an operator, chosen once for the instruction set of the machine.

use crate::{
    act::{Act32, Act256, ActKind, act32_kernel, act256_kernel},
    attend::{self, RowScores},
    format::lanes,
    rows::{self, EpilogueArgs, NormArgs},
};
use lamina_base::formula::Act;
use lamina_simd::Isa;

/// Kernels over rows, chosen once. Those that take addresses are fields, and whoever calls one keeps the conditions that stand
/// there.
pub struct RowKernels {
    lanes: usize,
    act32: unsafe fn(*const f32, usize, *mut Act32, usize),
    act256: unsafe fn(*const f32, usize, *mut Act256, usize),
    epilogue: unsafe fn(&EpilogueArgs<'_>),
    softmax_weights: unsafe fn(&RowScores<'_>, &mut [f32; 2]),
    merge: unsafe fn(*mut f32, f32, *const f32, f32, usize),
    /// Norm of the `n` numbers at an address, written to another one, which may be the same: `(x, n, norm, out)`.
    ///
    /// # Safety
    /// `n` numbers are readable at `x` and writable at `out`, and the norm has `n` factors and offsets if any.
    pub norm: unsafe fn(*const f32, usize, &NormArgs<'_>, *mut f32),
    /// `out = act(gate)`, times `up` unless that is null, which may all be the same: `(gate, up, n, act, out)`.
    ///
    /// # Safety
    /// `n` numbers are readable at `gate`, and at `up` unless it is null, and writable at `out`.
    pub activate: unsafe fn(*const f32, *const f32, usize, Act, *mut f32),
    /// `x *= sigmoid(gate)`; a step of 0 takes one gate for the whole row, and of 1 one for each number:
    /// `(x, gate, step, n)`.
    ///
    /// # Safety
    /// `n` numbers are readable and writable at `x`, and `n` (one, for a step of 0) readable at `gate`.
    pub gate: unsafe fn(*mut f32, *const f32, usize, usize),
    /// `x = cap * tanh(x / cap)`: `(x, n, cap)`.
    ///
    /// # Safety
    /// `n` numbers are readable and writable at `x`.
    pub softcap: unsafe fn(*mut f32, usize, f32),
    /// `to += scale * x`: `(x, n, scale, to)`.
    ///
    /// # Safety
    /// `n` numbers are readable at `x`, and readable and writable at `to`.
    pub add: unsafe fn(*const f32, usize, f32, *mut f32),
    /// Turns pairs `(i, i + half)` of one head by cosines and sines: `(x, half, cos, sin)`.
    ///
    /// # Safety
    /// `2 * half` numbers are readable and writable at `x`, and `half` readable at `cos` and at `sin`.
    pub rotate: unsafe fn(*mut f32, usize, *const f32, *const f32),
    /// Norm with a SiLU gate, which is multiplied before the norm or after it, over one piece of a row:
    /// `(x, gate, n, norm, gate_first)`.
    ///
    /// # Safety
    /// `n` numbers are readable and writable at `x` and readable at `gate`, and the norm has `n` factors and offsets if any.
    pub gated_norm: unsafe fn(*mut f32, *const f32, usize, &NormArgs<'_>, bool),
}

impl RowKernels {
    /// The kernels of an instruction set.
    ///
    /// # Panics
    /// When this CPU lacks the instructions.
    pub fn new(isa: Isa) -> RowKernels {
        assert!(isa.available(), "{isa} is not available");
        RowKernels {
            lanes: lanes(isa),
            act32: act32_kernel(isa),
            act256: act256_kernel(isa),
            epilogue: rows::epilogue_kernel(isa),
            norm: rows::norm_kernel(isa),
            activate: rows::activate_kernel(isa),
            gate: rows::gate_kernel(isa),
            softcap: rows::softcap_kernel(isa),
            add: rows::add_kernel(isa),
            rotate: rows::rotate_kernel(isa),
            gated_norm: rows::gated_norm_kernel(isa),
            softmax_weights: attend::softmax_weights_kernel(isa),
            merge: attend::merge_kernel(isa),
        }
    }

    /// Brings a row into place `r` of `rows` rows of activations of `kind` in `out`.
    ///
    /// # Panics
    /// When the row is not of whole blocks, or `out` is not aligned or has no room for all rows.
    pub fn quantize(&self, kind: ActKind, row: &[f32], r: usize, rows: usize, out: &mut [u8]) {
        assert!(row.len().is_multiple_of(kind.block()), "whole blocks");
        assert!(r < rows && kind.bytes(rows, row.len()) <= out.len(), "too little room for {rows} rows");
        assert!(out.as_ptr().addr().is_multiple_of(kind.align()), "activations between lines");
        // SAFETY: `out` was just seen to hold all blocks of all rows, aligned, and rows to be whole blocks.
        unsafe { self.quantize_at(kind, row.as_ptr(), row.len(), (r, rows), out.as_mut_ptr()) }
    }

    /// As [`RowKernels::quantize`], for the `width` numbers at an address and activations that other threads write to as well.
    ///
    /// # Safety
    /// `width` numbers, whole blocks, are readable at `row`. `rows` rows of such activations are writable at `out`, aligned as
    /// [`ActKind::align`] says, and nobody else uses those of row `r`, which is one of them.
    #[inline]
    pub unsafe fn quantize_at(
        &self,
        kind: ActKind,
        row: *const f32,
        width: usize,
        (r, rows): (usize, usize),
        out: *mut u8,
    ) {
        // SAFETY: the caller promises the row and room for all rows, whose blocks `r, r + rows, ..` are this one's.
        unsafe {
            match kind {
                ActKind::F32 => std::ptr::copy_nonoverlapping(row, out.cast::<f32>().add(r * width), width),
                ActKind::Int32 => (self.act32)(row, width, out.cast::<Act32>().add(r), rows),
                ActKind::Int256 => (self.act256)(row, width, out.cast::<Act256>().add(r), rows),
            }
        }
    }

    /// Results of a product into their slot.
    ///
    /// # Panics
    /// When the products are in groups of another number of lanes.
    pub fn epilogue(&self, args: &EpilogueArgs<'_>) {
        assert_eq!(args.lanes(), self.lanes, "products of another instruction set");
        // SAFETY: this CPU has the instructions, and `EpilogueArgs::new` was promised the memory.
        unsafe { (self.epilogue)(args) }
    }

    /// Turns the scores of a row into weights, in place; returns the largest score and the sum of the weights.
    ///
    /// # Panics
    /// When the scores are in groups of another number of lanes.
    pub fn softmax_weights(&self, scores: RowScores<'_>) -> [f32; 2] {
        assert_eq!(scores.lanes(), self.lanes, "scores of another instruction set");
        let mut top_and_sum = [0.0; 2];
        // SAFETY: this CPU has the instructions, and `RowScores::new` has seen that the groups are there.
        unsafe { (self.softmax_weights)(&scores, &mut top_and_sum) };
        top_and_sum
    }

    /// `a = a * fa + b * fb`: the sums of two parts of a softmax.
    ///
    /// # Panics
    /// When there are not as many of both, or they are no whole vectors.
    pub fn merge(&self, a: &mut [f32], fa: f32, b: &[f32], fb: f32) {
        assert!(a.len() == b.len() && a.len().is_multiple_of(self.lanes), "parts of one softmax");
        // SAFETY: this CPU has the instructions, and both were just seen to be as many whole vectors.
        unsafe { (self.merge)(a.as_mut_ptr(), fa, b.as_ptr(), fb, a.len()) }
    }
}
