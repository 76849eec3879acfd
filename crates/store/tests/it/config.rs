//! Settings of both formats under one set of names.

use crate::common::gguf;
use lamina_store::Config;
use serde_json::{Value as Json, json};

fn hf(json: Json) -> Config {
    let Json::Object(map) = json else { panic!("an object") };
    Config::from_hf("config.json", map).expect("sound")
}

#[test]
fn reads_are_typed_and_name_the_key() {
    let c =
        hf(json!({"n": 5, "f": 4.0, "x": 0.5, "s": "hi", "b": true, "l": [1, 2], "none": null, "neg": -1,
        "o": {"inner": {"deep": 7}}, "big": 1e300, "inf": {"__float__": "Infinity"}, "marks": [1, 0]}));
    assert_eq!((c.usize("n").expect("n"), c.usize("f").expect("f"), c.f32("n").expect("n")), (5, 4, 5.0));
    assert_eq!((c.f32("x").expect("x"), c.str("s").expect("s"), c.flag("b").expect("b")), (0.5, "hi", true));
    assert_eq!(c.usize_list("l").expect("l"), [1, 2]);
    assert_eq!(c.bool_list("marks").expect("marks"), [true, false]);
    assert_eq!(c.f32("inf").expect("inf"), f32::INFINITY);
    assert_eq!(c.usize("o.inner.deep").expect("deep"), 7);
    assert_eq!(c.section("o.inner").expect("object").usize("deep").expect("deep"), 7);
    assert_eq!((c.opt_usize("none").expect("null"), c.opt_str("gone").expect("gone")), (None, None));
    assert_eq!((c.flag("gone").expect("gone"), c.opt_bool("gone").expect("gone")), (false, None));
    let says = |e: lamina_store::FormatError, text: &str| assert_eq!(e.to_string(), text);
    says(c.usize("gone").expect_err("gone"), "config.json: key `gone` is missing");
    says(c.usize("none").expect_err("null"), "config.json: key `none` is missing");
    says(c.usize("o.gone").expect_err("gone"), "config.json: key `o.gone` is missing");
    let o = c.section("o").expect("object");
    says(o.usize("inner.gone").expect_err("gone"), "config.json: key `o.inner.gone` is missing");
    let wrong = "config.json: key `neg` should be a whole number of at least 0, but is the number -1";
    says(c.usize("neg").expect_err("negative"), wrong);
    let wrong = "config.json: key `x` should be a whole number of at least 0, but is the number 0.5";
    says(c.opt_usize("x").expect_err("no whole number"), wrong);
    says(
        c.f32("s").expect_err("text"),
        "config.json: key `s` should be a number in the range of float32, but is the string `hi`",
    );
    says(
        c.usize_list("n").expect_err("no list"),
        "config.json: key `n` should be a list of whole numbers, but is the number 5",
    );
    assert!(c.f32("big").expect_err("too large").to_string().contains("float32"));
    assert_eq!(c.f64("big").expect("fits"), 1e300);
    assert!(c.flag("n").expect_err("no bool").to_string().contains("true or false, but is the number 5"));
}

#[test]
fn what_nobody_read_is_reported() {
    let c = hf(json!({"hidden_size": 1, "new_thing": 2, "dropout": 0.1, "rope_parameters": {"a": 1, "b": 2},
        "vision": {"x": 1, "y": {"z": 2}}, "nothing": null, "_name_or_path": "x", "list": []}));
    let clone = c.clone();
    clone.usize("hidden_size").expect("there");
    c.section("rope_parameters").expect("object").usize("a").expect("there");
    assert_eq!(
        c.unread(),
        ["`new_thing`", "`vision`", "`list`", "`rope_parameters.b`", "`rope_parameters.rope_type`"]
    );
    c.ignore(&["vision", "new_thing", "absent"]);
    c.value("rope_parameters");
    assert_eq!(c.unread(), ["`list`"]);
    let g = gguf(
        "llama",
        &[("%.block_count", 2u32.into()), ("%.brand_new", 1u32.into()), ("general.name", "x".into())],
    );
    assert_eq!(g.unread(), ["`num_hidden_layers` (from `llama.block_count`)", "`llama.brand_new`"]);
}

#[test]
fn names_of_families_find_each_other() {
    let gpt2 = hf(json!({"n_embd": 8, "n_layer": 2, "n_inner": null, "activation_function": "gelu_new"}));
    assert_eq!((gpt2.usize("hidden_size").expect("alias"), gpt2.usize("n_embd").expect("own")), (8, 8));
    assert_eq!(gpt2.str("hidden_act").expect("alias"), "gelu_new");
    assert_eq!(gpt2.opt_usize("intermediate_size").expect("null"), None);
    let g = gguf("gpt2", &[("%.embedding_length", 8u32.into())]);
    assert_eq!(g.usize("n_embd").expect("alias"), 8);
    let message = g.usize("n_layer").expect_err("absent").to_string();
    assert_eq!(message, "m.gguf: key `n_layer` is missing; a GGUF file has it as `gpt2.block_count`");
    let both = hf(json!({"hidden_act": "gelu", "hidden_activation": "gelu_pytorch_tanh"}));
    assert_eq!(both.str("hidden_activation").expect("own"), "gelu_pytorch_tanh");
    assert!(both.unread().is_empty());
}

#[test]
fn numbers_by_layer_come_as_one_or_as_a_list() {
    let c = hf(
        json!({"one": 3, "many": [1, 2, 3], "num_hidden_layers": 2, "num_nextn_predict_layers": 1, "no": "x"}),
    );
    assert_eq!(c.per_layer("one", 2).expect("one"), [3, 3]);
    assert_eq!(c.per_layer("many", 2).expect("with the prediction layer"), [1, 2]);
    assert_eq!(c.per_layer("many", 3).expect("exact"), [1, 2, 3]);
    assert!(
        c.per_layer("many", 4)
            .expect_err("too short")
            .to_string()
            .contains("a list of 4, but is a list of 3")
    );
    assert_eq!(
        (c.opt_usize_at("one", 9).expect("one"), c.opt_usize_at("many", 1).expect("list")),
        (Some(3), Some(2))
    );
    assert_eq!(c.opt_usize_at("gone", 0).expect("absent"), None);
    assert!(
        c.opt_usize_at("many", 3).expect_err("short").to_string().contains("at least 4, but is a list of 3")
    );
    assert!(
        c.opt_str_at("many", 0).expect_err("no text").to_string().contains("text at 0, but is the number 1")
    );
    assert!(c.per_layer("no", 4).is_err() && c.per_layer("one", usize::MAX).is_err());
}

#[test]
fn older_rope_settings_become_the_new_ones() {
    let rope = |json: Json| hf(json).value("rope_parameters").cloned().unwrap_or(Json::Null);
    let cases = [
        (json!({"hidden_size": 1}), Json::Null),
        (
            json!({"rope_theta": 5e5, "rope_scaling": null}),
            json!({"rope_type": "default", "rope_theta": 5e5}),
        ),
        (
            json!({"rope_scaling": {"type": "linear", "factor": 4.0}}),
            json!({"factor": 4.0, "rope_type": "linear"}),
        ),
        (
            json!({"rope_theta": 1e4, "rope_scaling": {"rope_type": "llama3", "type": "llama3", "factor": 8.0}}),
            json!({"rope_type": "llama3", "factor": 8.0, "rope_theta": 1e4}),
        ),
        (
            json!({"original_max_position_embeddings": 4096, "partial_rotary_factor": 0.75,
                "rope_scaling": {"type": "su", "long_factor": [1.0]}}),
            json!({"long_factor": [1.0], "rope_type": "longrope", "partial_rotary_factor": 0.75,
                "original_max_position_embeddings": 4096}),
        ),
        (
            json!({"rotary_emb_base": 10000, "rotary_pct": 0.25}),
            json!({"rope_type": "default", "rope_theta": 10000, "partial_rotary_factor": 0.25}),
        ),
        (
            json!({"rope_theta": 1e6, "rope_local_base_freq": 1e4, "rope_scaling": {"rope_type": "linear", "factor": 8}}),
            json!({"full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 1e6},
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}),
        ),
        (
            json!({"model_type": "gemma3_text", "rope_scaling": {"rope_type": "linear", "factor": 8}}),
            json!({"full_attention": {"rope_type": "linear", "factor": 8}, "sliding_attention": {"rope_type": "default"}}),
        ),
        (
            json!({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1, "factor": 2}, "rope_theta": 9,
                "original_max_position_embeddings": 32}),
            json!({"rope_type": "yarn", "rope_theta": 1, "factor": 2, "original_max_position_embeddings": 32}),
        ),
        (
            json!({"rope_scaling": {"type": "mrope", "mrope_section": [1]}}),
            json!({"mrope_section": [1], "rope_type": "default"}),
        ),
    ];
    for (given, expected) in cases {
        let found = rope(given.clone());
        assert_eq!(found, expected, "{given}");
    }
    let gone = hf(json!({"rope_theta": 1, "rope_scaling": {"type": "linear", "factor": 2}}));
    assert!(gone.value("rope_theta").is_none() && gone.value("rope_scaling").is_none());
}

#[test]
fn older_layer_patterns_become_layer_types() {
    let kinds =
        |json: Json| hf(json).str_list("layer_types").expect("there").join(" ").replace("_attention", "");
    assert_eq!(
        kinds(json!({"num_hidden_layers": 4, "sliding_window_pattern": 3})),
        "sliding sliding full sliding"
    );
    assert_eq!(kinds(json!({"num_hidden_layers": 3, "full_attention_interval": 2})), "linear full linear");
    assert_eq!(kinds(json!({"num_hidden_layers": 2, "sliding_window_pattern": "LG"})), "sliding full");
    assert_eq!(
        kinds(json!({"n_layer": 2, "num_hidden_layers": 2, "sliding_window_pattern": 1})),
        "full full"
    );
    let both =
        json!({"layer_types": ["full_attention"], "num_hidden_layers": 1, "sliding_window_pattern": 6});
    assert_eq!(kinds(both), "full");
    let g = gguf("olmo2", &[("%.attention.sliding_window_pattern", vec![true, false].into())]);
    assert_eq!(g.str_list("layer_types").expect("there"), ["sliding_attention", "full_attention"]);
}

#[test]
fn a_text_model_inside_a_multimodal_one_lies_on_top() {
    let c = hf(
        json!({"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "hidden_size": 1,
        "quantization_config": {"quant_method": "awq"}, "vision_config": {"hidden_size": 9},
        "text_config": {"model_type": "gemma3_text", "hidden_size": 64, "architectures": null, "rope_local_base_freq": 1e4}}),
    );
    assert_eq!(
        (c.usize("hidden_size").expect("inner"), c.str("model_type").expect("inner")),
        (64, "gemma3_text")
    );
    assert_eq!(c.str_list("architectures").expect("outer"), ["Gemma3ForConditionalGeneration"]);
    assert_eq!(c.str("quantization_config.quant_method").expect("outer"), "awq");
    assert_eq!(c.f32("rope_parameters.sliding_attention.rope_theta").expect("inner"), 1e4);
    assert_eq!(c.usize("vision_config.hidden_size").expect("kept"), 9);
}

#[test]
fn configs_are_shared_between_threads() {
    let c = hf(json!({"a": 1, "b": 2}));
    std::thread::scope(|s| {
        for key in ["a", "b"] {
            let c = c.clone();
            s.spawn(move || c.usize(key).expect("there"));
        }
    });
    assert!(c.unread().is_empty());
}
