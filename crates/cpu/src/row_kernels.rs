//! Kernels over rows of an operator, chosen once for the instruction set of the machine.

use crate::{
    act::{Act32, Act256, ActKind, act32_kernel, act256_kernel},
    kernel::{attend, rows},
};
use lamina_simd::Isa;

/// Kernels over rows, chosen once.
pub struct RowKernels {
    pub act32: unsafe fn(*const f32, usize, *mut Act32, usize),
    pub act256: unsafe fn(*const f32, usize, *mut Act256, usize),
    pub epilogue: unsafe fn(&rows::EpilogueArgs<'_>),
    pub norm: unsafe fn(*const f32, usize, &rows::NormArgs<'_>, *mut f32),
    pub activate: unsafe fn(*const f32, *const f32, usize, lamina_plan::op::Act, *mut f32),
    pub gate: unsafe fn(*mut f32, *const f32, usize, usize),
    pub softcap: unsafe fn(*mut f32, usize, f32),
    pub add: unsafe fn(*const f32, usize, f32, *mut f32),
    pub rotate: unsafe fn(*mut f32, usize, *const f32, *const f32),
    pub gated_norm: unsafe fn(*mut f32, *const f32, usize, &rows::NormArgs<'_>, bool),
    pub softmax_weights: unsafe fn(&attend::RowScores<'_>, &mut [f32; 2]),
    pub merge: unsafe fn(*mut f32, f32, *const f32, f32, usize),
}

impl RowKernels {
    /// Brings a row into place `r` of `rows` rows of activations of `kind` in `out`.
    pub fn quantize(&self, kind: ActKind, row: &[f32], r: usize, rows: usize, out: &mut [u8]) {
        assert!(row.len().is_multiple_of(kind.block()), "whole blocks");
        assert!(
            r < rows && kind.bytes(rows, row.len()) <= out.len() && out.as_ptr().addr().is_multiple_of(64)
        );
        let at = out.as_mut_ptr();
        // SAFETY: `out` was just seen to hold all blocks of all rows, on a line as they ask; rows are whole blocks, and
        // the kernels were chosen for this CPU.
        unsafe {
            match kind {
                ActKind::F32 => std::ptr::copy_nonoverlapping(
                    row.as_ptr(),
                    at.cast::<f32>().add(r * row.len()),
                    row.len(),
                ),
                ActKind::Int32 => (self.act32)(row.as_ptr(), row.len(), at.cast::<Act32>().add(r), rows),
                ActKind::Int256 => (self.act256)(row.as_ptr(), row.len(), at.cast::<Act256>().add(r), rows),
            }
        }
    }

    pub fn new(isa: Isa) -> RowKernels {
        RowKernels {
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
}
