//! Functions of one number or one vector in plain loops: what formulas mean, for whoever computes no product with them.

/// `1 / (1 + e^-x)`.
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// `x * sigmoid(x)`.
pub fn silu(x: f32) -> f32 {
    x * sigmoid(x)
}

/// `x` times the normal distribution function.
pub(crate) fn gelu(x: f32) -> f32 {
    let x = f64::from(x);
    (0.5 * x * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2))) as f32
}

/// The tanh approximation of [`gelu`].
pub(crate) fn gelu_tanh(x: f32) -> f32 {
    let x = f64::from(x);
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
    (0.5 * x * (1.0 + inner.tanh())) as f32
}

/// Softmax in place, summed in float64; `sink` is one more logit that takes its share and gets no weight.
pub fn softmax(x: &mut [f32], sink: Option<f32>) {
    let most = x.iter().copied().chain(sink).fold(f32::NEG_INFINITY, f32::max);
    let weight = |v: f32| f64::from(v - most).exp();
    let sum: f64 = x.iter().copied().chain(sink).map(weight).sum();
    x.iter_mut().for_each(|v| *v = (weight(*v) / sum) as f32);
}

/// Indices of the `k` largest numbers, largest first; of equal ones the lower index first.
pub fn top(x: &[f32], k: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..x.len()).collect();
    order.sort_by(|&a, &b| x[b].total_cmp(&x[a]));
    order.truncate(k);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softmax_of_large_numbers_is_finite_and_a_sink_takes_its_share() {
        let mut x = [1000.0, 1000.0];
        softmax(&mut x, None);
        assert_eq!(x, [0.5, 0.5]);
        softmax(&mut x, Some(0.5));
        assert!(x.iter().all(|v| (v - 1.0 / 3.0).abs() < 1e-6));
    }

    #[test]
    fn ties_go_to_the_lower_index() {
        assert_eq!(top(&[1.0, 3.0, 3.0, 2.0], 3), [1, 2, 3]);
    }
}
