//! Commands that report: the shapes of their JSON, and their tables.

use crate::common::*;
use serde_json::{Value, json};

fn keys(v: &Value) -> Vec<&str> {
    v.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn bench_measures_every_combination() {
    let Some(model) = stories() else { return };
    let flags = "--prompt 16,0,32 --gen 4,8 --depth 0,24 --batch 1,2 --threads 2 --repeat 2 --kv-dtype q8_0 --profile";
    let args: Vec<_> = ["bench", &model, "--json"].into_iter().chain(flags.split(' ')).collect();
    let v = lamina(&args).json();
    for key in [
        "date", "version", "commit", "cpu", "model", "type", "bytes", "params", "threads", "isa", "device",
        "load_s", "prefill", "decode",
    ] {
        assert!(v.get(key).is_some(), "{key} in {:?}", keys(&v));
    }
    assert_eq!((&v["type"], &v["threads"], &v["device"]), (&json!("F32"), &json!(2), &json!("cpu")));
    for key in ["read_bandwidth_gb_s", "decode_bandwidth_share", "peak_rss_bytes"] {
        assert!(v[key].as_f64().unwrap() > 0.0, "{key}");
    }
    let shape = |kind: &str, keys: [&str; 3]| -> Vec<[u64; 3]> {
        let rows = v[kind].as_array().unwrap().iter();
        rows.map(|r| {
            let speeds = r["tok_s"].as_array().unwrap();
            assert!(speeds.len() == 2 && speeds.iter().all(|s| s.as_f64().unwrap() > 0.0));
            keys.map(|k| r[k].as_u64().unwrap())
        })
        .collect()
    };
    let prefill = [[16, 0, 1], [32, 0, 1], [16, 24, 1], [32, 24, 1]];
    assert_eq!(shape("prefill", ["n", "depth", "batch"]), prefill);
    let decode = [[4, 1], [4, 2], [8, 1], [8, 2]];
    let decode = [0, 24].map(|depth| decode.map(|[n, batch]| [n, depth, batch])).concat();
    assert_eq!(shape("decode", ["n", "depth", "batch"]), decode);
    assert_eq!(v["profiles"].as_array().unwrap().len(), 2);
}

#[test]
fn bench_has_a_table_for_people() {
    let Some(model) = stories() else { return };
    let out = lamina(&["bench", &model, "--prompt", "16", "--gen", "4", "--repeat", "1", "--profile"]).ok();
    for word in ["prefill", "decode", "GB/s", "share", "tok/s"] {
        assert!(out.contains(word), "{word} in {out}");
    }
    assert!(!out.contains('\x1b'));
}

#[test]
fn perplexity_agrees_with_the_measured_loss() {
    let (Some(model), Some(text)) = (stories(), shared("text/tinystories-val.txt")) else { return };
    let text: String = std::fs::read_to_string(text).unwrap().chars().take(4000).collect();
    let args = ["perplexity", &model, "-f", "-", "--context", "256", "--json"];
    let v = lamina_with(&args, &text).json();
    assert_eq!(keys(&v), ["ppl", "nll", "tokens", "stderr"]);
    let (ppl, nll) = (v["ppl"].as_f64().unwrap(), v["nll"].as_f64().unwrap());
    assert!((ppl.ln() - nll).abs() < 1e-9);
    // 1.37 nats per token on other stories of the same collection, from their beginnings; cut anywhere it is harder.
    assert!((1.0..2.2).contains(&nll), "{nll}");
    let skipped = [&args[..], &["--skip", "128", "--stride", "128"]].concat();
    let w = lamina_with(&skipped, &text).json();
    assert!(w["nll"].as_f64().unwrap() < nll, "tokens with more before them are easier");
    assert!(lamina_with(&args[..args.len() - 1], &text).ok().contains("perplexity"));
}

#[test]
fn inspect_lists_metadata_tensors_and_sizes() {
    let Some(model) = stories() else { return };
    let v = lamina(&["inspect", &model, "--json"]).json();
    assert_eq!((&v["architecture"], &v["supported"]), (&json!("llama"), &json!(true)));
    assert_eq!(v["metadata"]["llama.attention.head_count"], 8);
    let tensors = v["tensors"].as_array().unwrap();
    let embedding = tensors.iter().find(|t| t["name"] == "token_embd.weight").unwrap();
    let expected =
        json!({"name": "token_embd.weight", "type": "F32", "shape": [512, 64], "bytes": 512 * 64 * 4});
    assert_eq!(embedding, &expected);
    let out = lamina(&["inspect", &model]).ok();
    for word in ["llama", "512 x 64", "token_embd.weight", "100.0 %", "head_count"] {
        assert!(out.contains(word), "{word} in {out}");
    }
}

#[test]
fn inspect_says_why_a_model_cannot_run() {
    let Some(vocab) = shared("vocab/ggml-vocab-llama-spm.gguf") else { return };
    let v = lamina(&["inspect", &vocab, "--json"]).json();
    assert_eq!(v["supported"], false, "a vocabulary has no weights");
    assert!(v["problem"].as_str().unwrap().contains("token_embd"), "{}", v["problem"]);
    assert!(lamina(&["inspect", &vocab]).ok().contains("no: "));
}

#[test]
fn inspect_shows_the_digits_that_are_in_the_file() {
    let Some(model) = stories() else { return };
    let v = lamina(&["inspect", &model, "--json"]).json();
    let eps = v["metadata"]["llama.attention.layer_norm_rms_epsilon"].to_string();
    assert!(eps.len() < 8, "{eps} has digits of a rounding");
}

#[test]
fn support_is_a_table_of_the_programs_own_lists() {
    let v = lamina(&["support", "--json"]).json();
    assert_eq!(keys(&v), ["families", "encoders", "types", "packings", "backends"]);
    let find = |list: &str, name: &str| -> Value {
        v[list].as_array().unwrap().iter().find(|e| e["name"] == name).unwrap().clone()
    };
    let llama = find("families", "llama");
    assert_eq!(keys(&llama), ["name", "folders", "gguf", "becomes", "backends"]);
    assert_eq!((&llama["gguf"], &llama["backends"]), (&json!(["llama"]), &json!({"cpu": true})));
    assert_eq!(find("families", "mixtral")["becomes"], "llama");
    let q4 = find("types", "Q4_K");
    assert_eq!(q4["runs_as"], json!({"cpu": "Q4_K"}));
    assert_eq!((&q4["bits"], &q4["gguf"], &q4["written"]), (&json!(4.5), &json!(true), &json!(true)));
    assert!(find("packings", "fp8")["other_names"].is_array());
    let out = lamina(&["support"]).ok();
    for word in ["DeepseekV3ForCausalLM", "IQ2_XXS", "native", "gptq", "cpu"] {
        assert!(out.contains(word), "{word} in {out}");
    }
}

#[test]
fn support_of_a_file_says_what_does_not_run() {
    let (Some(model), Some(vocab)) = (stories(), shared("vocab/ggml-vocab-llama-spm.gguf")) else { return };
    let v = lamina(&["support", &model, "--json"]).json();
    assert_eq!((&v["supported"], &v["family"], &v["problems"]), (&json!(true), &json!("llama"), &json!([])));
    let used = &v["types"][0];
    assert_eq!((&used["type"], &used["native"]), (&json!("F32"), &json!(true)));
    assert!(lamina(&["support", &model]).ok().contains("its own"));
    let bad = lamina(&["support", &vocab, "--json"]);
    assert_eq!((bad.code, bad.err.as_str()), (Some(1), ""), "the report says why");
    let v: Value = serde_json::from_str(&bad.out).unwrap();
    assert_eq!(v["supported"], false);
    assert!(v["problems"].as_array().unwrap().len() > 100, "every missing tensor");
    assert!(lamina(&["support", &vocab]).out.contains("more"));
    assert!(lamina(&["support", "/no/such/model"]).error(1).contains("/no/such/model"));
}

/// A copy of a golden folder with another configuration.
fn changed(folder: &str, key: &str, value: Value) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let bytes = std::fs::read(entry.path()).unwrap();
        std::fs::write(dir.path().join(entry.file_name()), bytes).unwrap();
    }
    let path = dir.path().join("config.json");
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    config[key] = value;
    std::fs::write(path, config.to_string()).unwrap();
    dir
}

#[test]
fn support_names_settings_packings_and_shapes() {
    let Some(folder) = shared("golden/llama") else { return };
    let of = |key: &str, value: Value| {
        let dir = changed(&folder, key, value);
        let path = dir.path().to_str().unwrap();
        let done = lamina(&["support", path, "--json"]);
        let inspected = lamina(&["inspect", path, "--json"]).json();
        let v: Value = serde_json::from_str(&done.out).unwrap();
        assert_eq!(v["supported"], inspected["supported"], "both say the same");
        assert_eq!(done.code == Some(0), v["supported"] == true);
        v
    };
    let v = of("made_up_setting", json!(1));
    assert_eq!((&v["supported"], &v["unread_settings"]), (&json!(true), &json!(["`made_up_setting`"])));
    let v = of("quantization_config", json!({"quant_method": "shrink"}));
    assert!(v["problems"][0].as_str().unwrap().contains("shrink"), "{v}");
    let v = of("intermediate_size", json!(7));
    let problems = v["problems"].as_array().unwrap();
    assert!(problems.len() > 2 && problems[0].as_str().unwrap().contains("7 x"), "{v}");
    let v = of("architectures", json!(["PerceptronForCausalLM"]));
    assert_eq!((&v["family"], &v["supported"]), (&Value::Null, &json!(false)));
}

#[test]
fn tokens_go_there_and_back() {
    let Some(model) = stories() else { return };
    let v = lamina(&["tokenize", &model, "Once upon a time", "--json"]).json();
    assert_eq!(v["tokens"], json!([403, 407, 261, 378]));
    assert_eq!(v["pieces"].as_array().unwrap().len(), 4);
    let special = lamina(&["tokenize", &model, "Once upon a time", "--special", "--ids"]).ok();
    assert_eq!(special, "1 403 407 261 378\n");
    let piped = lamina_with(&["tokenize", &model, "-", "--ids"], "Once upon a time\n").ok();
    assert_eq!(piped, "403 407 261 378\n");
    assert!(lamina(&["tokenize", &model, "a time"]).ok().contains("261"));
    for args in [&["403", "407,261", "378"][..], &["403 407 261 378"]] {
        let out = lamina(&[&["detokenize", &model], args].concat()).ok();
        assert_eq!(out, "Once upon a time\n");
    }
    let v = lamina_with(&["detokenize", &model, "-", "--json"], "403 407 261 378").json();
    assert_eq!(v, json!({"text": "Once upon a time"}));
}

#[test]
fn a_vocabulary_alone_can_tokenize() {
    let Some(vocab) = shared("vocab/ggml-vocab-qwen2.gguf") else { return };
    let v = lamina(&["tokenize", &vocab, "Grüße, 世界", "--json"]).json();
    assert!(v["count"].as_u64().unwrap() > 2);
    let ids = v["tokens"].as_array().unwrap().iter().map(Value::to_string).collect::<Vec<_>>().join(",");
    assert_eq!(lamina(&["detokenize", &vocab, &ids]).ok(), "Grüße, 世界\n");
}

#[test]
fn doctor_knows_the_machine() {
    let v = lamina(&["doctor", "--json"]).json();
    for key in [
        "version",
        "system",
        "processor",
        "isa",
        "isas",
        "threads",
        "memory_available",
        "read_bandwidth_gb_s",
        "devices",
        "cache_folder",
        "disk_reader",
        "disk_read_gb_s",
        "io_uring",
    ] {
        assert!(v.get(key).is_some(), "{key} in {:?}", keys(&v));
    }
    assert!(v["threads"].as_u64().unwrap() >= 1);
    // Unknown where the folder is only read through the page cache.
    assert!(v["disk_read_gb_s"].is_null() || v["disk_read_gb_s"].as_f64().unwrap() > 0.0);
    assert_eq!(v["disk_reader"].is_null(), v["disk_read_gb_s"].is_null());
    assert!(lamina(&["doctor"]).ok().contains("read bandwidth gb s"));
}

#[test]
fn help_and_version() {
    let help = lamina(&["help"]).ok();
    let names = "run chat bench perplexity inspect support quantize imatrix convert split merge tokenize detokenize doctor";
    for name in names.split(' ') {
        assert!(help.contains(&format!("  {name} ")), "{name} in {help}");
    }
    assert_eq!(lamina(&["--version"]).ok(), concat!("lamina ", env!("CARGO_PKG_VERSION"), "\n"));
    let run = lamina(&["help", "run"]).ok();
    for flag in ["--temperature", "--top-k", "--dry-multiplier", "--logit-bias", "[default: 0.8"] {
        assert!(run.contains(flag), "{flag} in {run}");
    }
}

#[test]
fn a_report_into_a_closed_pipe_ends_quietly() {
    let Some(model) = stories() else { return };
    let mut child = command(&["inspect", &model]).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
}
