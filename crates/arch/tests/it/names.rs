//! From stored names to canonical ones: prefixes, cuts, stacks, edits, and what is said when something is missing.

use crate::common::{Result, folder};
use lamina_arch::{ArchError, Family, ModelSpec, Weights};
use lamina_base::{DType, HostTensor};
use lamina_store::Checkpoint;
use serde_json::{Value, json};

/// Numbers 0, 1, 2.. as a tensor.
fn counting(name: &str, shape: &[usize]) -> HostTensor {
    let n: usize = shape.iter().product();
    HostTensor::from_f32(name, shape.to_vec(), &(0..n).map(|i| i as f32).collect::<Vec<_>>())
}

fn llama(architecture: &str) -> Value {
    json!({
        "architectures": [architecture], "vocab_size": 5, "hidden_size": 4, "intermediate_size": 6,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-6,
    })
}

fn spec(ck: &Checkpoint) -> Result<(&'static Family, ModelSpec)> {
    let family = Family::of(ck)?;
    let spec = family.spec(ck)?;
    Ok((family, spec))
}

#[test]
fn wrappers_and_bare_models_have_the_same_tensors() -> Result<()> {
    let wrappers = ["model.text_model.", "text_model.model.", "llm.model.", "language_model."];
    let usual = ["model.", "", "language_model.model.", "model.language_model."];
    for prefix in usual.into_iter().chain(wrappers) {
        let norm = counting(&format!("{prefix}norm.weight"), &[4]);
        let (_folder, ck) = folder(&llama("LlamaForCausalLM"), &[norm])?;
        let (family, spec) = spec(&ck)?;
        let weights = Weights::new(&ck, family, &spec);
        assert!(weights.has("output_norm.weight"), "{prefix}");
        assert_eq!(weights.get("output_norm.weight", 1, 4)?.to_f32()?, [0.0, 1.0, 2.0, 3.0]);
        assert!(weights.unused().is_empty());
    }
    Ok(())
}

#[test]
fn a_model_that_sees_is_the_family_of_its_text() -> Result<()> {
    let text =
        json!({ "model_type": "llama", "rms_norm_eps": 1e-5, "vocab_size": 7, "num_hidden_layers": 1 });
    let whole = json!({
        "architectures": ["SeesForConditionalGeneration"], "model_type": "sees", "text_config": text,
        "vision_config": { "model_type": "eye", "hidden_size": 8 },
    });
    let eye = counting("model.vision_tower.x.weight", &[3]);
    let (_folder, ck) = folder(&whole, &[eye.clone(), counting("lm_head.weight", &[1, 1])])?;
    let (family, found) = spec(&ck)?;
    assert_eq!(family.name, "llama");
    // What a nested text model leaves out has the defaults of its type.
    assert_eq!((found.hidden, found.vocab, found.layers.len()), (4096, 7, 1));
    assert_eq!(Weights::new(&ck, family, &found).unused(), ["lm_head.weight"]);
    assert_eq!(ck.config.unread(), ["`vision_config`"]);

    let mut alone = whole;
    alone.as_object_mut().expect("an object").remove("vision_config");
    let (_folder, ck) = folder(&alone, &[eye])?;
    assert!(Family::of(&ck).is_err(), "a name that nobody knows, and nothing that sees");
    Ok(())
}

#[test]
fn a_missing_tensor_names_what_was_looked_for() -> Result<()> {
    let (_folder, ck) = folder(&llama("LlamaForCausalLM"), &[counting("x", &[1])])?;
    let (family, spec) = spec(&ck)?;
    let weights = Weights::new(&ck, family, &spec);
    let error = weights.get("blk.0.attn_q.weight", 4, 4).expect_err("there is no such tensor");
    assert!(error.to_string().contains("model.layers.0.self_attn.q_proj.weight"), "{error}");
    assert_eq!(weights.unused(), ["x"]);
    Ok(())
}

#[test]
fn a_wrong_shape_names_both_shapes() -> Result<()> {
    let (_folder, ck) = folder(&llama("LlamaForCausalLM"), &[counting("model.norm.weight", &[3])])?;
    let (family, spec) = spec(&ck)?;
    let error = Weights::new(&ck, family, &spec).get("output_norm.weight", 1, 4).expect_err("3 is not 4");
    assert!(matches!(&error, ArchError::Shape { .. }), "{error}");
    assert!(error.to_string().contains("1 x 3") && error.to_string().contains("1 x 4"), "{error}");
    Ok(())
}

#[test]
fn experts_are_stacked_from_single_tensors_or_cut_from_one() -> Result<()> {
    let mut config = llama("Qwen3MoeForCausalLM");
    config["num_experts"] = json!(2);
    config["num_experts_per_tok"] = json!(1);
    config["moe_intermediate_size"] = json!(3);
    let single = |e: usize, n: &str| counting(&format!("model.layers.0.mlp.experts.{e}.{n}.weight"), &[3, 4]);
    let (_one, ck) = folder(&config, &[single(0, "up_proj"), single(1, "up_proj")])?;
    let (family, from_single) = spec(&ck)?;
    let stacked = Weights::new(&ck, family, &from_single).get("blk.0.ffn_up_exps.weight", 6, 4)?.to_f32()?;
    let once: Vec<f32> = (0..12).map(|i| i as f32).collect();
    assert_eq!(stacked, [once.clone(), once].concat());

    let fused = counting("model.layers.0.mlp.experts.gate_up_proj", &[2, 6, 4]);
    let (_two, ck) = folder(&config, &[fused])?;
    let (family, from_fused) = spec(&ck)?;
    let up = Weights::new(&ck, family, &from_fused).get("blk.0.ffn_up_exps.weight", 6, 4)?.to_f32()?;
    let second_halves: Vec<f32> = (12..24).chain(36..48).map(|i| i as f32).collect();
    assert_eq!(up, second_halves);
    Ok(())
}

#[test]
fn grouped_projections_are_taken_apart_without_copies() -> Result<()> {
    let mut config = llama("FalconForCausalLM");
    config["new_decoder_architecture"] = json!(true);
    config["num_kv_heads"] = json!(1);
    config.as_object_mut().expect("an object").remove("num_key_value_heads");
    let fused = counting("transformer.h.0.self_attention.query_key_value.weight", &[8, 4]);
    let (_folder, ck) = folder(&config, &[fused])?;
    let (family, spec) = spec(&ck)?;
    let weights = Weights::new(&ck, family, &spec);
    assert_eq!(weights.get("blk.0.attn_q.weight", 4, 4)?.to_f32()?[..4], [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(weights.get("blk.0.attn_k.weight", 2, 4)?.to_f32()?[0], 16.0);
    let v = weights.get("blk.0.attn_v.weight", 2, 4)?;
    assert_eq!((v.to_f32()?[0], v.dtype), (24.0, DType::F32));
    Ok(())
}

#[test]
fn matrices_stored_transposed_are_turned_before_they_are_cut() -> Result<()> {
    let config = json!({"architectures": ["GPT2LMHeadModel"], "vocab_size": 5, "n_embd": 2, "n_head": 1, "n_layer": 1});
    let fused = counting("h.0.attn.c_attn.weight", &[2, 6]);
    let (_folder, ck) = folder(&config, &[fused, counting("h.0.attn.c_attn.bias", &[6])])?;
    let (family, spec) = spec(&ck)?;
    let weights = Weights::new(&ck, family, &spec);
    assert_eq!(weights.get("blk.0.attn_k.weight", 2, 2)?.to_f32()?, [2.0, 8.0, 3.0, 9.0]);
    assert_eq!(weights.get("blk.0.attn_v.bias", 1, 2)?.to_f32()?, [4.0, 5.0]);
    Ok(())
}

#[test]
fn heads_are_tied_when_said_or_when_there_is_none() -> Result<()> {
    let head = || counting("lm_head.weight", &[5, 4]);
    let tied = |said: Option<bool>, tensors: &[HostTensor]| -> Result<bool> {
        let mut config = llama("LlamaForCausalLM");
        config["tie_word_embeddings"] = json!(said);
        let (_folder, ck) = folder(&config, tensors)?;
        Ok(spec(&ck)?.1.head.tied)
    };
    let other = || counting("model.norm.weight", &[4]);
    assert!(!tied(None, &[head()])? && !tied(Some(false), &[head()])?);
    assert!(tied(None, &[other()])? && tied(Some(true), &[head()])?);
    Ok(())
}

#[test]
fn an_unknown_architecture_lists_the_known_ones() -> Result<()> {
    let (_folder, ck) = folder(&llama("NobodyForCausalLM"), &[counting("x", &[1])])?;
    let error = Family::of(&ck).err().ok_or("nobody knows it")?;
    assert!(error.to_string().contains("LlamaForCausalLM"), "{error}");
    Ok(())
}
