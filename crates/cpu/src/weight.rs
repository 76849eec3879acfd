//! Weights in the form that kernels read: panels for products, stored rows for look-ups, float32 for small vectors.

use crate::matrix::{Matrix, layout};
use lamina_arch::weights::Tensor;
use lamina_base::DType;
use lamina_plan::{WeightKind, WeightSpec, backend::Result};
use lamina_pool::Pool;
use lamina_simd::Isa;

/// A weight after upload.
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
            WeightKind::Matrix { .. } | WeightKind::Stack { .. } => {
                Matrix::pack(spec, tensor, isa, pool).map(Weight::Matrix)
            }
        }
    }
}

impl Weight {
    /// The same weight for a second machine, with the same panels; none where panels are bound, which each machine does
    /// for itself.
    pub fn shared(&self) -> Option<Weight> {
        Some(match self {
            Weight::Matrix(matrix) => Weight::Matrix(matrix.shared()?),
            Weight::Table(tensor) => Weight::Table(tensor.clone()),
            Weight::Vector(numbers) => Weight::Vector(numbers.clone()),
        })
    }

    /// Bytes that [`Weight::upload`] takes for a tensor of `dtype`. Of tables these are all their bytes, which mostly stay in
    /// their file.
    pub fn bytes(spec: &WeightSpec, dtype: DType, isa: Isa) -> usize {
        match spec.kind {
            WeightKind::Table { rows, cols } => {
                rows * dtype.bytes_for(cols).unwrap_or(cols * size_of::<f32>())
            }
            WeightKind::Vector { len } => len * size_of::<f32>(),
            WeightKind::Matrix { .. } | WeightKind::Stack { .. } => {
                layout(spec, dtype, isa).map_or(0, |layout| layout.bytes())
            }
        }
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
                        assert!(!lamina_kernels::NATIVE.contains(&dtype), "{dtype} {kind:?}");
                        continue;
                    };
                    assert_eq!(Weight::bytes(&spec, dtype, isa), held(&weight), "{isa} {dtype} {kind:?}");
                }
            }
        }
    }
}
