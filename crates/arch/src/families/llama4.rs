//! Llama 4 (text): attention in chunks, layers without rotary positions, experts that weigh their input.

use super::smollm3::rotary_layers;
use crate::{
    Family, Result,
    cut::Cut,
    llama_like, moe,
    names::{Edit, Rule},
    spec::*,
};
use lamina_store::{Checkpoint, Config, Kind};

pub static FAMILY: Family = Family {
    name: "llama4",
    hf: &["Llama4ForCausalLM", "Llama4ForConditionalGeneration"],
    gguf: &["llama4"],
    pairs: [Pairs::Adjacent, Pairs::Adjacent],
    build,
    rules: &[&[
        Rule::new("blk.{i}.ffn_gate", "model.layers.{i}.feed_forward.gate_proj"),
        Rule::new("blk.{i}.ffn_up", "model.layers.{i}.feed_forward.up_proj"),
        Rule::new("blk.{i}.ffn_down", "model.layers.{i}.feed_forward.down_proj"),
        Rule::new("blk.{i}.ffn_gate_inp", "model.layers.{i}.feed_forward.router"),
        Rule::new("blk.{i}.ffn_gate_exps.weight", GATE_UP).cut(Cut::ExpertFirstHalf).edit(Edit::Transpose),
        Rule::new("blk.{i}.ffn_up_exps.weight", GATE_UP).cut(Cut::ExpertSecondHalf).edit(Edit::Transpose),
        Rule::new("blk.{i}.ffn_down_exps.weight", "model.layers.{i}.feed_forward.experts.down_proj")
            .edit(Edit::Transpose),
        Rule::new("blk.{i}.ffn_gate_shexp", "model.layers.{i}.feed_forward.shared_expert.gate_proj"),
        Rule::new("blk.{i}.ffn_up_shexp", "model.layers.{i}.feed_forward.shared_expert.up_proj"),
        Rule::new("blk.{i}.ffn_down_shexp", "model.layers.{i}.feed_forward.shared_expert.down_proj"),
    ]],
    ignored: &["vision_model.", "multi_modal_projector."],
    ..Family::LLAMA_LIKE
};

const GATE_UP: &str = "model.layers.{i}.feed_forward.experts.gate_up_proj";

fn build(ck: &Checkpoint, family: &Family) -> Result<ModelSpec> {
    let c = &ck.config;
    let turns = rotary_layers(c)?;
    let chunk = c.opt_usize("attention_chunk_size")?.unwrap_or(8192);
    // Files of models without chunks mean that every layer turns, and say so by the kinds of their layers only.
    let always = ck.kind == Kind::Gguf && family.layer_type(c, 0)? == Some("full_attention");
    let temperature = temperature(c)?.filter(|_| !always);
    // GGUF files do not say it; of the published models only the one with 128 experts has no norm.
    let normed = c.opt_bool("use_qk_norm")?.unwrap_or(c.opt_usize("num_experts")? != Some(128));
    let spec = llama_like(ck, family)?.try_each(|i, l| {
        let (rotary, chunked) = (always || turns(i), family.layer_type(c, i)? != Some("full_attention"));
        let norm = l.norm;
        if let Mixer::Gqa(g) = &mut l.mixer {
            g.rope = g.rope.take().filter(|_| rotary);
            g.mask = if rotary && chunked { Mask::Chunk(chunk) } else { Mask::Causal };
            let over = QkSpan::HeadUnweighted;
            g.qk_norm = (normed && rotary).then_some(QkNorm { norm, over, after_rope: true });
            g.temperature = temperature.filter(|_| !rotary);
        }
        Ok::<_, crate::ArchError>(())
    })?;
    experts(c, spec)
}

/// Scaling of queries by position: on unless switched off; older configurations hold a number instead of `true`.
fn temperature(c: &Config) -> Result<Option<Temperature>> {
    let switch = c.value("attn_temperature_tuning");
    let off = switch.is_some_and(|v| v.as_bool() == Some(false) || v.as_f64() == Some(0.0));
    let scale = c.opt_f32("attn_scale")?.unwrap_or(0.1);
    let floor = c.opt_f32("floor_scale")?.unwrap_or(8192.0);
    Ok((!off).then_some(Temperature { scale, floor }))
}

/// Experts with a shared one in every n-th layer, or in those that are listed.
fn experts(c: &Config, spec: ModelSpec) -> Result<ModelSpec> {
    let Some(mut moe) = moe(c)? else { return Ok(spec) };
    (moe.score, moe.renorm, moe.weight_input) = (Score::Sigmoid, false, true);
    moe.shared = Some(Shared { inner: moe.inner, gated: false });
    let dense = c.opt_usize("intermediate_size_mlp")?;
    let every = c.opt_usize("interleave_moe_layer_step")?.unwrap_or(1);
    let listed = c.opt_usize_list("moe_layers")?;
    Ok(spec.each(|i, l| match (&listed, &mut l.ffn) {
        (Some(list), _) if list.contains(&i) => l.ffn = Ffn::Moe(moe.clone()),
        (None, _) if every > 0 && (i + 1).is_multiple_of(every) => l.ffn = Ffn::Moe(moe.clone()),
        (_, Ffn::Dense(d)) => d.inner = dense.unwrap_or(d.inner),
        _ => {}
    }))
}
