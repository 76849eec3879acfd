//! Functions of tensors that candle has in parts only: each row of the last axis by itself.

use candle_core::{D, Result, Tensor};
use lamina_plan::op::{Act, NormKind};

/// `1 / (1 + e^-x)`.
pub(crate) fn sigmoid(x: &Tensor) -> Result<Tensor> {
    x.neg()?.exp()?.affine(1.0, 1.0)?.recip()
}

/// `cap * tanh(x / cap)`.
pub(crate) fn softcap(x: &Tensor, cap: f32) -> Result<Tensor> {
    let cap = f64::from(cap);
    x.affine(1.0 / cap, 0.0)?.tanh()?.affine(cap, 0.0)
}

/// `x * s`, and `x` itself where `s` is 1.
pub(crate) fn scaled(x: &Tensor, s: f32) -> Result<Tensor> {
    if s == 1.0 { Ok(x.clone()) } else { x.affine(f64::from(s), 0.0) }
}

/// Softmax over the last axis; `sink` is one more logit that takes its share and gets no weight.
pub(crate) fn softmax(x: &Tensor, sink: Option<&Tensor>) -> Result<Tensor> {
    let most = x.max_keepdim(D::Minus1)?;
    let most = match sink {
        Some(sink) => most.maximum(sink)?,
        None => most,
    };
    let weights = x.broadcast_sub(&most)?.exp()?;
    let sum = weights.sum_keepdim(D::Minus1)?;
    let sum = match sink {
        Some(sink) => (sum + (sink - &most)?.exp()?)?,
        None => sum,
    };
    weights.broadcast_div(&sum)
}

/// Norm over the last axis, without factor and offset.
pub(crate) fn unit(x: &Tensor, kind: NormKind, eps: f32) -> Result<Tensor> {
    let x = match kind {
        NormKind::Rms => x.clone(),
        NormKind::Layer => x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?,
    };
    let variance = x.sqr()?.mean_keepdim(D::Minus1)?;
    x.broadcast_div(&variance.affine(1.0, f64::from(eps))?.sqrt()?)
}

/// The nonlinearity of `gate`, times `up` where the part is gated.
pub(crate) fn activate(act: Act, gate: &Tensor, up: Option<&Tensor>) -> Result<Tensor> {
    let value = match act {
        Act::Silu => gate.silu()?,
        Act::Gelu => gate.gelu_erf()?,
        Act::GeluTanh => gate.gelu()?,
        Act::GeluQuick => (gate * sigmoid(&gate.affine(1.702, 0.0)?)?)?,
        Act::Relu => gate.relu()?,
        Act::ReluSquared => gate.relu()?.sqr()?,
        Act::Xielu { alpha_p, alpha_n, beta } => xielu(gate, [alpha_p, alpha_n, beta])?,
        Act::SwigluClamped { alpha, limit } => {
            let gate = gate.minimum(limit)?;
            let value = (&gate * sigmoid(&scaled(&gate, alpha)?)?)?;
            return match up {
                Some(up) => value * up.clamp(-limit, limit)?.affine(1.0, 1.0)?,
                None => Ok(value),
            };
        }
    };
    match up {
        Some(up) => value * up,
        None => Ok(value),
    }
}

/// `alpha_p max(x, 0)^2 + alpha_n (exp(n) - 1 - n) + beta x` with `n = min(x, 0)`.
fn xielu(x: &Tensor, [alpha_p, alpha_n, beta]: [f32; 3]) -> Result<Tensor> {
    let below = x.minimum(0f32)?;
    let curve = (below.exp()?.affine(1.0, -1.0)? - below)?;
    let above = scaled(&x.relu()?.sqr()?, alpha_p)?;
    (above + scaled(&curve, alpha_n)?)? + scaled(x, beta)?
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;

    #[test]
    fn a_sink_takes_its_share_and_large_numbers_stay_finite() {
        let x = Tensor::new(&[[1000f32, 1000.0]], &Device::Cpu).expect("a tensor");
        let sink = Tensor::new(&[[1000f32]], &Device::Cpu).expect("a tensor");
        let of = |sink| softmax(&x, sink).and_then(|s| s.to_vec2::<f32>()).expect("weights");
        assert_eq!(of(None), [[0.5, 0.5]]);
        assert!(of(Some(&sink))[0].iter().all(|w| (w - 1.0 / 3.0).abs() < 1e-6));
    }

    #[test]
    fn norms_have_the_length_that_they_should() {
        let x = Tensor::new(&[[3f32, -3.0, 3.0, -3.0]], &Device::Cpu).expect("a tensor");
        for kind in [NormKind::Rms, NormKind::Layer] {
            let y = unit(&x, kind, 0.0).and_then(|y| y.to_vec2::<f32>()).expect("a row");
            assert_eq!(y, [[1.0, -1.0, 1.0, -1.0]], "{kind:?}");
        }
    }
}
