//! Files that keep a conversation: what they give back has the bits of what was computed, and they refuse all else.

use crate::common::answers::bits;
use lamina::{Completion, Error, GenerateOptions, LoadOptions, Model, Prompt};
use lamina_fixtures::{Models, names, tokens};
use serde_json::{Value, json};
use std::{fs, path::Path};

fn load(path: &Path, kv_dtype: &str) -> Model {
    let kv_dtype = kv_dtype.parse().expect("a type");
    let options = LoadOptions { threads: Some(1), context: Some(256), kv_dtype, ..LoadOptions::default() };
    Model::load(Some(path), options).expect("loads")
}

fn answer(model: &Model, tokens: &[u32]) -> Completion {
    let mut options = GenerateOptions { max_tokens: Some(6), ignore_eos: true, ..GenerateOptions::default() };
    options.sampling.set("logprobs", 3i64).expect("known");
    options.sampling.set("seed", 5i64).expect("known");
    model.generate(&Prompt::Tokens(tokens.to_vec()), &options).expect("runs").remove(0)
}

#[test]
fn every_family_goes_on_where_it_was_saved() {
    let (models, folder) = (Models::new(), tempfile::tempdir().expect("a folder"));
    let file = folder.path().join("state");
    for (i, name) in names().iter().enumerate() {
        let (path, kv_dtype) = (models.folder(name), ["f16", "q8_0"][i % 2]);
        let (text, longer) = (tokens(200), tokens(220));
        let first = load(&path, kv_dtype);
        let want = bits(&answer(&first, &longer));
        let first = load(&path, kv_dtype);
        answer(&first, &text);
        let data = json!({"messages": [name]});
        first.save_session(&file, &text, &data).expect("saved");
        first.close();
        let second = load(&path, kv_dtype);
        let saved = second.load_session(&file).expect("read");
        assert_eq!((saved.tokens.len(), saved.data, saved.cached_tokens), (200, data, 192), "{name}");
        let got = answer(&second, &longer);
        assert_eq!(bits(&got), want, "{name}");
        assert_eq!(got.usage.cached_tokens, 192, "{name}");
    }
}

#[test]
fn other_models_and_layouts_are_refused_and_damage_is_told() {
    let (models, folder) = (Models::new(), tempfile::tempdir().expect("a folder"));
    let (path, file) = (models.folder("llama"), folder.path().join("state"));
    let model = load(&path, "f16");
    answer(&model, &tokens(100));
    model.save_session(&file, &tokens(100), &Value::Null).expect("saved");
    for (path, kv_dtype, word) in [(models.folder("qwen2"), "f16", "model"), (path, "q8_0", "kv_dtype f16")] {
        match load(&path, kv_dtype).load_session(&file) {
            Err(Error::InvalidRequest(text)) => assert!(text.contains(word), "{text}"),
            other => panic!("{other:?}"),
        }
    }
    let whole = fs::read(&file).expect("readable");
    let damaged = |bytes: &[u8]| {
        fs::write(&file, bytes).expect("written");
        assert!(matches!(model.load_session(&file), Err(Error::Format(_))));
    };
    (0..whole.len()).step_by(whole.len() / 97).for_each(|len| damaged(&whole[..len]));
    for at in (0..whole.len()).step_by(whole.len() / 211) {
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        fs::write(&file, &bytes).expect("written");
        // A name that is another one is another model's, until the checksum says what it is.
        assert!(model.load_session(&file).is_err(), "byte {at}");
    }
    // At the borders of entries, where all that is left has right checksums.
    let mut border = 8;
    while border < whole.len() {
        damaged(&whole[..border]);
        let len = u64::from_le_bytes(whole[border..border + 8].try_into().expect("8 bytes"));
        border += 8 + len as usize;
        if len == 0 {
            break;
        }
    }
    damaged(&[b"LMNSESS1", &whole[8..]].concat());
    fs::write(&file, &whole).expect("written");
    assert_eq!(model.load_session(&file).expect("read").cached_tokens, 96);
    assert!(matches!(model.load_session(&folder.path().join("none")), Err(Error::Model(_))));
    // Refused at once: nobody will ever write to the pipe.
    #[cfg(unix)]
    {
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("runs").success());
        assert!(matches!(model.load_session(&pipe), Err(Error::Model(_))));
    }
}
