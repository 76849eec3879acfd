//! Functions of one number or one vector.

use lamina_plan::op::Act;

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

/// `1 / (1 + e^-x)`.
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

pub fn silu(x: f32) -> f32 {
    x * sigmoid(x)
}

/// `ln(1 + e^x)`, without overflow for large `x`.
pub fn softplus(x: f32) -> f32 {
    if x > 20.0 { x } else { x.exp().ln_1p() }
}

/// `cap * tanh(x / cap)`.
pub fn softcap(x: f32, cap: f32) -> f32 {
    cap * (x / cap).tanh()
}

/// The nonlinearity of `gate`, times `up` where the part is gated.
pub fn activate(act: Act, gate: f32, up: Option<f32>) -> f32 {
    let one = |x: f32| up.map_or(x, |u| x * u);
    match act {
        Act::Silu => one(silu(gate)),
        Act::Gelu => one(gelu(gate)),
        Act::GeluTanh => one(gelu_tanh(gate)),
        Act::GeluQuick => one(gate * sigmoid(1.702 * gate)),
        Act::Relu => one(gate.max(0.0)),
        Act::ReluSquared => one(gate.max(0.0).powi(2)),
        Act::Xielu { alpha_p, alpha_n, beta } => {
            let (p, n) = (gate.max(0.0), gate.min(0.0));
            one(alpha_p * p * p + alpha_n * (n.exp_m1() - n) + beta * gate)
        }
        Act::SwigluClamped { alpha, limit } => {
            let (g, u) = (gate.min(limit), up.unwrap_or(0.0).clamp(-limit, limit));
            g * sigmoid(alpha * g) * (u + 1.0)
        }
    }
}

/// `x` times the normal distribution function.
fn gelu(x: f32) -> f32 {
    let x = f64::from(x);
    (0.5 * x * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2))) as f32
}

fn gelu_tanh(x: f32) -> f32 {
    let x = f64::from(x);
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
    (0.5 * x * (1.0 + inner.tanh())) as f32
}

/// Softmax in place; `sink` is one more logit that takes its share and gets no weight.
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

    #[test]
    fn softplus_meets_its_asymptote() {
        assert!((softplus(19.9999) - softplus(20.0001)).abs() < 1e-3);
        assert!((softplus(0.0) - 2f32.ln()).abs() < 1e-7);
    }
}
