//! Functions of one number or one vector.

pub use lamina_base::scalar::{sigmoid, silu, softmax, top};

/// Inner product.
pub fn dot(a: &[f32], b: &[f32]) -> f64 {
    debug_assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum()
}

/// `m x` for the row-major matrix `m`, whose rows are as long as `x`.
pub fn mul(m: &[f32], x: &[f32]) -> Vec<f32> {
    m.chunks_exact(x.len()).map(|row| dot(row, x) as f32).collect()
}

/// `x += y`, if there is a `y`.
pub fn add(x: &mut [f32], y: Option<&[f32]>) {
    x.iter_mut().zip(y.unwrap_or(&[])).for_each(|(a, b)| *a += b);
}

/// `ln(1 + e^x)`, without overflow for large `x`.
pub fn softplus(x: f32) -> f32 {
    if x > 20.0 { x } else { x.exp().ln_1p() }
}

/// `cap * tanh(x / cap)`.
pub fn softcap(x: f32, cap: f32) -> f32 {
    cap * (x / cap).tanh()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softplus_meets_its_asymptote() {
        assert!((softplus(19.9999) - softplus(20.0001)).abs() < 1e-3);
        assert!((softplus(0.0) - 2f32.ln()).abs() < 1e-7);
    }
}
