//! Qwen2-Audio: Whisper's encoder, whose rows become the mean of two before its last norm, and one matrix.

use super::super::{SoundFamily, SoundSpec, whisper::mel};
use crate::{
    names::rules,
    spec::Act,
    vision::{PatchPlaces, Projector, ProjectorStep as Step, PromptRule, VisionEncoder, vit::*},
};

pub static FAMILY: SoundFamily = SoundFamily {
    name: "qwen2_audio",
    models: &["qwen2_audio"],
    projectors: &["qwen2a"],
    build: |source| {
        let (c, out) = (&source.encoder, source.model.usize("hidden_size")?);
        let (mel, norm) = (mel(source)?, layer_norm(1e-5));
        let vit = Vit {
            hidden: c.usize("d_model")?,
            heads: c.usize("encoder_attention_heads")?,
            inner: c.usize("encoder_ffn_dim")?,
            layers: c.usize("encoder_layers")?,
            norm,
            act: Act::Gelu,
            gated: false,
        };
        c.ignore(&["scale_embedding"]);
        Ok(SoundSpec {
            mel,
            act: Act::Gelu,
            encoder: VisionEncoder { places: PatchPlaces::Each, ..vit.encoder()? },
            mean: 2,
            projector: Projector::plain(
                out,
                vec![Step::Norm("v.post_ln", norm), Step::Linear("mm.a.fc", out)],
            ),
            prompt: PromptRule::rows("<|AUDIO|>", "<|AUDIO|>", ("", "")),
        })
    },
    rules: &[
        &rules!("v." "~"; "conv1" "conv1", "conv2" "conv2", "position_embd" "embed_positions", "post_ln" "layer_norm"),
        &rules!("v.blk.{i}." "~layers.{i}."; "ln1" "self_attn_layer_norm", "ln2" "final_layer_norm",
            "attn_q" "self_attn.q_proj", "attn_k" "self_attn.k_proj", "attn_v" "self_attn.v_proj",
            "attn_out" "self_attn.out_proj", "ffn_up" "fc1", "ffn_down" "fc2"),
        &rules!("mm.a." "multi_modal_projector."; "fc" "linear"),
    ],
    gguf_rules: &[
        &rules!("v." "a."; "conv1" "conv1d.1", "conv2" "conv1d.2", "position_embd" "position_embd", "post_ln" "post_ln"),
        &rules!("v.blk.{i}." "a.blk.{i}."; "ln1" "ln1", "ln2" "ln2", "attn_q" "attn_q", "attn_k" "attn_k", "attn_v" "attn_v",
            "attn_out" "attn_out", "ffn_up" "ffn_up", "ffn_down" "ffn_down"),
        &rules!("mm.a." "mm.a."; "fc" "fc"),
    ],
};
