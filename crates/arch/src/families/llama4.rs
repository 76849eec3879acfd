//! Llama 4 (text): attention in chunks, layers without rotary positions, experts that weigh their input.

use crate::{
    Family, Result,
    cut::Cut,
    llama_like, moe,
    names::{Edit, Rule, gated},
    rope::{rotary_layers, temperature},
    routing::interleaved,
    spec::*,
};
use lamina_store::{Checkpoint, Kind};

pub static FAMILY: Family = Family {
    name: "llama4",
    hf: &["Llama4ForCausalLM", "Llama4ForConditionalGeneration"],
    gguf: &["llama4"],
    pairs: [Pairs::Adjacent, Pairs::Adjacent],
    build,
    rules: &[
        &gated!("", "model.layers.{i}.feed_forward"),
        &gated!("_shexp", "model.layers.{i}.feed_forward.shared_expert"),
        &[
            Rule::new("blk.{i}.ffn_gate_inp", "model.layers.{i}.feed_forward.router"),
            Rule::new("blk.{i}.ffn_gate_exps.weight", GATE_UP)
                .cut(Cut::ExpertFirstHalf)
                .edit(Edit::Transpose),
            Rule::new("blk.{i}.ffn_up_exps.weight", GATE_UP).cut(Cut::ExpertSecondHalf).edit(Edit::Transpose),
            Rule::new("blk.{i}.ffn_down_exps.weight", "model.layers.{i}.feed_forward.experts.down_proj")
                .edit(Edit::Transpose),
        ],
    ],
    ignored: &["vision_model.", "multi_modal_projector."],
    ..Family::LLAMA_LIKE
};

const GATE_UP: &str = "model.layers.{i}.feed_forward.experts.gate_up_proj";

fn build(ck: &Checkpoint, family: &Family) -> Result<ModelSpec> {
    let c = &ck.config;
    let chunk = c.opt_usize("attention_chunk_size")?.unwrap_or(8192);
    // Files of models without chunks mean that every layer turns, and say so by the kinds of their layers only.
    let always = ck.kind == Kind::Gguf && family.layer_type(c, 0)? == Some("full_attention");
    let (turns, temperature) = (rotary_layers(c)?, temperature(c)?);
    // GGUF files do not say it; of the published models only the one with 128 experts has no norm.
    let normed = c.opt_bool("use_qk_norm")?.unwrap_or(c.opt_usize("num_experts")? != Some(128));
    let spec = llama_like(ck, family)?.try_each(|i, l| {
        let (rotary, chunked) = (always || turns(i), family.layer_type(c, i)? != Some("full_attention"));
        let qk_norm = QkNorm { norm: l.norm, over: QkSpan::HeadUnweighted, after_rope: true };
        if let Mixer::Gqa(g) = &mut l.mixer {
            (g.rope, g.qk_norm) = (g.rope.take().filter(|_| rotary), (normed && rotary).then_some(qk_norm));
            g.mask = if rotary && chunked { Mask::Chunk(chunk) } else { Mask::Causal };
            g.temperature = temperature.filter(|_| !rotary);
        }
        Ok::<_, crate::ArchError>(())
    })?;
    let Some(mut moe) = moe(c)? else { return Ok(spec) };
    (moe.score, moe.renorm, moe.weight_input) = (Score::Sigmoid, false, true);
    moe.shared = Some(Shared { inner: moe.inner, gated: false });
    interleaved(c, spec, &moe)
}
