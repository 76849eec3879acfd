//! Products on tensor cores (`kernels/tensor.h`): which formats have them.

use crate::{device::ProductUnits, format::PanelFormat};
use lamina_base::DType;

/// Rows of a tile of the kernels for few rows and for many; pairs of a row and an item where items have matrices.
pub(crate) const FEW_ROWS: usize = 8;
pub(crate) const MANY_ROWS: usize = 64;

/// A weight type that tensor cores multiply.
#[derive(Debug)]
pub(crate) struct TensorFormat {
    dtype: DType,
    /// Activations are bfloat16, and float16 otherwise.
    pub bf16: bool,
    pub few: &'static str,
    pub many: &'static str,
}

macro_rules! tensor_formats {
    ($($dtype:ident $name:literal)*) => {
        /// Types with a fragment in `kernels/fragments.h`; F32 and Q2_K keep the products by fma.
        const TENSOR_FORMATS: &[TensorFormat] = &[$(TensorFormat {
            dtype: DType::$dtype,
            bf16: matches!(DType::$dtype, DType::BF16),
            few: concat!("tensor_few_", $name),
            many: concat!("tensor_many_", $name),
        },)*];
    };
}

tensor_formats! {
    F16 "f16" BF16 "bf16" F8_E4M3 "f8_e4m3" F8_E5M2 "f8_e5m2" Q8_0 "q8_0" Q4_0 "q4_0" Q4_1 "q4_1" Q5_0 "q5_0" Q5_1 "q5_1"
    MXFP4 "mxfp4" NVFP4 "nvfp4" IQ4_NL "iq4_nl" IQ4_XS "iq4_xs" Q3_K "q3_k" Q4_K "q4_k" Q5_K "q5_k" Q6_K "q6_k"
}

impl TensorFormat {
    /// How `units` multiply weights of `format` on tensor cores, if they do.
    pub fn of(format: &PanelFormat, units: ProductUnits) -> Option<&'static TensorFormat> {
        let multiplies = |tensor: &&TensorFormat| match units {
            ProductUnits::Fma => false,
            ProductUnits::TensorCores => true,
            ProductUnits::Float16Cores => !tensor.bf16,
        };
        TENSOR_FORMATS.iter().filter(multiplies).find(|tensor| tensor.dtype == format.dtype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{format::FORMATS, kernels::tensor_kernels};

    #[test]
    fn formats_without_fragments_are_known() {
        let left = |units| {
            let without = FORMATS.iter().filter(move |f| TensorFormat::of(f, units).is_none());
            without.map(|f| f.dtype).collect::<Vec<_>>()
        };
        assert_eq!(left(ProductUnits::TensorCores), [DType::F32, DType::Q2_K]);
        assert_eq!(left(ProductUnits::Float16Cores), [DType::F32, DType::BF16, DType::Q2_K]);
    }

    #[test]
    fn every_format_has_its_kernels() {
        let listed = |name: &str| tensor_kernels().iter().any(|k| k.name == name);
        let names = TENSOR_FORMATS.iter().flat_map(|f| [f.few, f.many]);
        assert!(names.chain(["half_rows"]).all(listed));
        let products = tensor_kernels().iter().filter(|k| k.name.starts_with("tensor_"));
        assert_eq!(products.count(), 2 * TENSOR_FORMATS.len());
    }
}
