//! Llama 4 (text): attention in chunks, layers without rotary positions, experts that weigh their input.

use crate::names::{Rule, gated, transposed_experts};
use crate::rope::{rotary_layers, temperature};
use crate::{Family, llama_like, moe, routing::interleaved, spec::*};

pub static FAMILY: Family = Family {
    name: "llama4",
    hf: &["Llama4ForCausalLM", "Llama4ForConditionalGeneration"],
    gguf: &["llama4"],
    pairs: [Pairs::Adjacent, Pairs::Adjacent],
    build: |ck, family| {
        let c = &ck.config;
        let chunk = c.opt_usize("attention_chunk_size")?.unwrap_or(8192);
        // Files of models without chunks mean that every layer turns, and say so by the kinds of their layers only.
        let always =
            ck.kind == lamina_store::Kind::Gguf && family.layer_type(c, 0)? == Some("full_attention");
        let (turns, temperature) = (rotary_layers(c)?, temperature(c)?);
        // GGUF files do not say it; of the published models only the one with 128 experts has no norm.
        let normed = c.opt_bool("use_qk_norm")?.unwrap_or(c.opt_usize("num_experts")? != Some(128));
        let spec = llama_like(ck, family)?.try_each(|i, l| {
            let (rotary, chunked) = (always || turns(i), family.layer_type(c, i)? != Some("full_attention"));
            let qk_norm = QkNorm { norm: l.norm, over: QkSpan::HeadUnweighted, after_rope: true };
            if let Mixer::Gqa(g) = &mut l.mixer {
                (g.rope, g.qk_norm) =
                    (g.rope.take().filter(|_| rotary), (normed && rotary).then_some(qk_norm));
                g.mask = if rotary && chunked { Mask::Chunk(chunk) } else { Mask::Causal };
                g.temperature = temperature.filter(|_| !rotary);
            }
            Ok::<_, crate::ArchError>(())
        })?;
        let Some(mut moe) = moe(c)? else { return Ok(spec) };
        (moe.score, moe.renorm, moe.weight_input) = (RouterScore::Sigmoid, false, true);
        moe.shared = Some(Shared { inner: moe.inner, gated: false });
        interleaved(c, spec, &moe)
    },
    rules: &[
        &gated!("", "model.layers.{i}.feed_forward"),
        &gated!("_shexp", "model.layers.{i}.feed_forward.shared_expert"),
        &[Rule::new("blk.{i}.ffn_gate_inp", "model.layers.{i}.feed_forward.router")],
        &transposed_experts!("model.layers.{i}.feed_forward.experts"),
    ],
    ..Family::LLAMA_LIKE
};
