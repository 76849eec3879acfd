//! Commands that report: the shapes of their JSON, and their tables.
#![allow(clippy::unwrap_used)] // helpers may fail like tests

mod common;

use common::*;
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
    for key in ["model", "type", "bytes", "params", "threads", "isa", "device", "load_s", "prefill", "decode"]
    {
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
    for key in ["version", "isa", "isas", "threads", "memory_available", "read_bandwidth_gb_s", "devices"] {
        assert!(v.get(key).is_some(), "{key} in {:?}", keys(&v));
    }
    assert!(v["threads"].as_u64().unwrap() >= 1);
    assert!(lamina(&["doctor"]).ok().contains("read bandwidth gb s"));
}

#[test]
fn help_and_version() {
    let help = lamina(&["help"]).ok();
    for name in ["run", "chat", "bench", "perplexity", "inspect", "tokenize", "detokenize", "doctor"] {
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
