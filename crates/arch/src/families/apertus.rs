//! Apertus: a nonlinearity with curves of its own in each layer, norms of each head.

use crate::{
    ArchError, Family, Result, llama_like,
    names::Rule,
    spec::{Act, Ffn, QkSpan},
};
use lamina_store::Checkpoint;

pub static FAMILY: Family = Family {
    name: "apertus",
    hf: &["ApertusForCausalLM"],
    build: |ck, family| {
        let spec = llama_like(ck, family)?.with_qk_norm(QkSpan::Head);
        spec.try_each(|i, l| {
            if let Ffn::Dense(d) = &mut l.ffn {
                (d.gated, d.act) = (false, xielu(ck, i)?);
            }
            Ok(())
        })
    },
    rules: &[&[
        Rule::new("blk.{i}.attn_norm", "model.layers.{i}.attention_layernorm"),
        Rule::new("blk.{i}.ffn_norm", "model.layers.{i}.feedforward_layernorm"),
    ]],
    ignored: &["mlp.act_fn."],
    ..Family::LLAMA_LIKE
};

/// The curves of layer `i`, which are stored as what softplus makes them of.
fn xielu(ck: &Checkpoint, i: usize) -> Result<Act> {
    let number = |part: &str| -> Result<Option<f32>> {
        let end = format!("layers.{i}.mlp.act_fn.{part}");
        let Some(t) = ck.tensors.values().find(|t| t.name.ends_with(&end)) else { return Ok(None) };
        Ok(lamina_quant::to_f32(t)?.first().copied())
    };
    let softplus = |part: &str| -> Result<f32> {
        let missing =
            || ArchError::MissingTensor { name: part.into(), tried: format!("layers.{i}.mlp.act_fn") };
        Ok(number(part)?.ok_or_else(missing)?.exp().ln_1p())
    };
    let beta = number("beta")?.unwrap_or(0.5);
    Ok(Act::Xielu { alpha_p: softplus("alpha_p")?, alpha_n: beta + softplus("alpha_n")?, beta })
}
