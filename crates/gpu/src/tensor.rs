//! Products on tensor cores (`kernels/tensor.h`): which formats have them, and rows as 16-bit numbers.

use crate::{device::GpuDevice, format::PanelFormat, weight::GpuWeight};
use lamina_base::DType;
use lamina_plan::{Limits, Plan, backend::Result, op::Op};

/// A weight type that tensor cores multiply.
#[derive(Debug)]
pub(crate) struct TensorFormat {
    dtype: DType,
    /// Activations are bfloat16, and float16 otherwise.
    pub bf16: bool,
    pub few: &'static str,
    pub many: &'static str,
    pub each: &'static str,
}

macro_rules! tensor_formats {
    ($($dtype:ident $name:literal)*) => {
        /// Types with a fragment in `kernels/fragments.h`; F32 and Q2_K keep the products by fma.
        const TENSOR_FORMATS: &[TensorFormat] = &[$(TensorFormat {
            dtype: DType::$dtype,
            bf16: matches!(DType::$dtype, DType::BF16),
            few: concat!("tensor_few_", $name),
            many: concat!("tensor_many_", $name),
            each: concat!("tensor_each_", $name),
        },)*];
    };
}

tensor_formats! {
    F16 "f16" BF16 "bf16" F8_E4M3 "f8_e4m3" F8_E5M2 "f8_e5m2" Q8_0 "q8_0" Q4_0 "q4_0" Q4_1 "q4_1" Q5_0 "q5_0" Q5_1 "q5_1"
    MXFP4 "mxfp4" NVFP4 "nvfp4" IQ4_NL "iq4_nl" IQ4_XS "iq4_xs" Q3_K "q3_k" Q4_K "q4_k" Q5_K "q5_k" Q6_K "q6_k"
}

impl TensorFormat {
    /// How tensor cores multiply weights of `format`, if they do.
    pub fn of(format: &PanelFormat) -> Option<&'static TensorFormat> {
        TENSOR_FORMATS.iter().find(|tensor| tensor.dtype == format.dtype)
    }
}

/// Places of rows as 16-bit numbers in their buffer: the numbers, sums of 32, and inverse factors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HalfSpace {
    /// Rows that are there at once; each of them has some items.
    pub rows: usize,
    /// First byte of the sums.
    pub sums: usize,
    /// First byte of the inverse factors.
    pub undo: usize,
}

impl HalfSpace {
    /// For rows of `items` times `inputs` numbers in a buffer of `bytes` bytes.
    pub fn new(inputs: usize, items: usize, bytes: usize) -> HalfSpace {
        let (blocks, rows) = (inputs.div_ceil(32), bytes / (items * item_bytes(inputs)).max(1));
        let sums = rows * items * blocks * 64;
        HalfSpace { rows, sums, undo: sums + rows * items * blocks * size_of::<f32>() }
    }
}

/// Bytes of an item of a row.
fn item_bytes(inputs: usize) -> usize {
    inputs.div_ceil(32) * (64 + size_of::<f32>()) + size_of::<f32>()
}

/// Memory for rows as 16-bit numbers.
pub(crate) struct Halves<B> {
    pub buffer: B,
    pub bytes: usize,
}

impl<B> Halves<B> {
    /// What the products of a plan need, at most `chunk` bytes where rows may be done in turn; none where nothing is
    /// multiplied on tensor cores.
    pub fn new<D: GpuDevice<Buffer = B>>(
        device: &D,
        plan: &Plan,
        weights: &[GpuWeight<D>],
        limits: &Limits,
        chunk: usize,
    ) -> Result<Option<Halves<B>>> {
        let items = plan.ops.iter().map(|op| match op {
            Op::Experts(o) => o.routing.top_k,
            Op::LatentAttend(o) => o.heads,
            _ => 1,
        });
        let (items, tensor) = (items.max().unwrap_or(1), |w: &&GpuWeight<D>| w.tensor.is_some());
        let Some(item) = weights.iter().filter(tensor).map(|w| item_bytes(w.cols)).max() else {
            return Ok(None);
        };
        let bytes = (limits.rows * item).min(chunk).max(items * item);
        Ok(Some(Halves { buffer: device.alloc(bytes, "activations in 16 bits")?, bytes }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{format::FORMATS, kernels::tensor_kernels};

    #[test]
    fn formats_without_fragments_are_known() {
        let left: Vec<_> =
            FORMATS.iter().filter(|f| TensorFormat::of(f).is_none()).map(|f| f.dtype).collect();
        assert_eq!(left, [DType::F32, DType::Q2_K]);
    }

    #[test]
    fn every_format_has_its_kernels() {
        let listed = |name: &str| tensor_kernels().iter().any(|k| k.name == name);
        let names = TENSOR_FORMATS.iter().flat_map(|f| [f.few, f.many, f.each]);
        assert!(names.chain(["half_rows"]).all(listed));
        assert_eq!(tensor_kernels().len(), 3 * TENSOR_FORMATS.len() + 1);
    }

    #[test]
    fn parts_of_the_buffer_lie_behind_one_another() {
        for (inputs, items, bytes) in [(33, 1, 4096), (512, 8, 9000), (1, 3, 300)] {
            let space = HalfSpace::new(inputs, items, bytes);
            let end = space.undo + space.rows * items * size_of::<f32>();
            assert!(space.rows > 0 && space.sums.is_multiple_of(64) && end <= bytes, "{space:?}");
        }
    }
}
