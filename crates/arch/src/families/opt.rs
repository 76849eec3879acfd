//! OPT: learned positions, biases, ReLU; the 350m model norms behind its parts and has a narrower embedding.

use crate::{
    Family, layer_norm, llama_like,
    names::Rule,
    plain_ffn,
    spec::{Act, Place},
};

pub static FAMILY: Family = Family {
    name: "opt",
    hf: &["OPTForCausalLM"],
    build: |ck, family| {
        let c = &ck.config;
        let (norm, before) = (layer_norm(c)?, c.opt_bool("do_layer_norm_before")?.unwrap_or(true));
        let removed = c.flag("_remove_final_layer_norm")?;
        let place = if before { Place::Pre } else { Place::PostResidual };
        let spec = llama_like(ck, family)?.each_gqa(|_, g| g.rope = None);
        let mut spec = plain_ffn(c, spec.each(|_, l| (l.norm, l.place) = (norm, place)), Act::Relu)?;
        spec.final_norm = (before && !removed).then_some(norm);
        spec.embed.positions = Some(2);
        spec.embed.width = c.opt_usize("word_embed_proj_dim")?.filter(|&w| w != spec.hidden);
        Ok(spec)
    },
    rules: &[&[
        Rule::new("token_embd", "model.decoder.embed_tokens"),
        Rule::new("position_embd", "model.decoder.embed_positions"),
        Rule::new("project_in", "model.decoder.project_in"),
        Rule::new("project_out", "model.decoder.project_out"),
        Rule::new("output_norm", "model.decoder.final_layer_norm"),
        Rule::new("blk.{i}.attn_norm", "model.decoder.layers.{i}.self_attn_layer_norm"),
        Rule::new("blk.{i}.attn_q", "model.decoder.layers.{i}.self_attn.q_proj"),
        Rule::new("blk.{i}.attn_k", "model.decoder.layers.{i}.self_attn.k_proj"),
        Rule::new("blk.{i}.attn_v", "model.decoder.layers.{i}.self_attn.v_proj"),
        Rule::new("blk.{i}.attn_output", "model.decoder.layers.{i}.self_attn.out_proj"),
        Rule::new("blk.{i}.ffn_norm", "model.decoder.layers.{i}.final_layer_norm"),
        Rule::new("blk.{i}.ffn_up", "model.decoder.layers.{i}.fc1"),
        Rule::new("blk.{i}.ffn_down", "model.decoder.layers.{i}.fc2"),
    ]],
    ..Family::LLAMA_LIKE
};
