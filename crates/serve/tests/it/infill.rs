//! Texts with a gap, in all dialects that have them.

use crate::{
    client::{Answer, post},
    start,
};
use lamina::{GenerateOptions, LoadOptions, Model, Prompt, Special, sample::SamplingParams};
use lamina_serve::{ModelOrigin, ServeOptions};
use serde_json::{Value, json};
use std::{fs, path::Path};

/// Tokens that the file names as those around a gap.
const MARKS: [u32; 4] = [400, 401, 402, 403];

/// The package's model, whose file names tokens around a gap. The new entries of its metadata stand before all others,
/// and their length is that of whole units of alignment, so that nothing else moves.
fn write_model(path: &Path) {
    let packaged = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/lamina/models/lamina-tiny.gguf");
    let file = fs::read(packaged).expect("the model inside the package");
    let key = |name: &str| [&(name.len() as u64).to_le_bytes()[..], name.as_bytes()].concat();
    let names = ["fim_pre", "fim_suf", "fim_mid", "fim_sep"];
    let id = |(name, id): (&str, u32)| {
        [&key(&format!("tokenizer.ggml.{name}_token_id"))[..], &4u32.to_le_bytes(), &id.to_le_bytes()]
            .concat()
    };
    let ids = names.into_iter().zip(MARKS).map(id).collect::<Vec<_>>().concat();
    let mut filler = [&key("test.filler")[..], &8u32.to_le_bytes()].concat();
    let length = 256 - (ids.len() + filler.len() + 8) % 256;
    filler.extend((length as u64).to_le_bytes());
    filler.extend(vec![b'x'; length]);
    let entries = u64::from_le_bytes(file[16..24].try_into().expect("eight bytes")) + 5;
    let all = [&file[..16], &entries.to_le_bytes(), &ids, &filler, &file[24..]].concat();
    fs::write(path, all).expect("a folder that can be written");
}

#[test]
fn gaps_are_filled_with_the_tokens_that_the_file_names() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let path = folder.path().join("gaps.gguf");
    write_model(&path);
    let model = Model::load(Some(&path), LoadOptions::default()).expect("a model");
    let text = |text: &str| model.tokenize(text, Special::NONE).expect("tokens");
    let bos = model.tokenize("", Special::ADD).expect("tokens");
    let [before, behind, middle, file] = MARKS;
    let gap = [&[before][..], &text("Once upon"), &[behind], &text(" time."), &[middle]].concat();
    let mut sampling = SamplingParams::default();
    sampling.set("temperature", 0.0).expect("a parameter");
    let options = GenerateOptions { max_tokens: Some(8), sampling, ..GenerateOptions::default() };
    let answer = |tokens: Vec<u32>| {
        json!(model.generate(&Prompt::Tokens(tokens), &options).expect("an answer")[0].text)
    };
    let want = answer([&bos[..], &gap].concat());
    let models = vec![ModelOrigin::Loaded { name: "gaps".into(), model: model.clone() }];
    let server = start(ServeOptions { port: 0, quiet: true, models, ..ServeOptions::default() });
    let ask = |path: &str, body: Value| -> Answer { post(server.port(), path, &body) };
    let limits = json!({ "n_predict": 8, "temperature": 0 });
    let with = |mut body: Value, more: &Value| {
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body
    };
    let native = json!({ "input_prefix": "Once", "prompt": " upon", "input_suffix": " time." });
    assert_eq!(ask("/infill", with(native.clone(), &limits)).json()["content"], want);
    let openai = json!({ "prompt": "Once upon", "suffix": " time.", "max_tokens": 8, "temperature": 0 });
    assert_eq!(ask("/v1/completions", openai).json()["choices"][0]["text"], want);
    let several = json!({ "prompt": ["a", "b"], "suffix": "c" });
    assert_eq!(ask("/v1/completions", several).json()["error"]["param"], "prompt");
    let ollama = json!({ "model": "gaps", "prompt": "Once upon", "suffix": " time.", "stream": false,
        "options": { "num_predict": 8, "temperature": 0 } });
    assert_eq!(ask("/api/generate", ollama).json()["response"], want);
    let files = json!({ "input_extra": [{ "filename": "a.txt", "text": "A cat." }] });
    let tokens = [&bos[..], &[file], &text("a.txt\nA cat."), &[file], &gap].concat();
    assert_eq!(ask("/infill", with(with(native, &limits), &files)).json()["content"], answer(tokens));
}

#[test]
fn a_model_without_such_tokens_says_so() {
    for (path, body) in [
        ("/infill", json!({ "input_prefix": "a", "input_suffix": "b" })),
        ("/v1/completions", json!({ "prompt": "a", "suffix": "b" })),
        ("/api/generate", json!({ "model": "tiny", "prompt": "a", "suffix": "b" })),
    ] {
        let answer = post(crate::shared(), path, &body);
        assert_eq!(answer.status, 501, "{path}: {}", answer.text());
    }
}
