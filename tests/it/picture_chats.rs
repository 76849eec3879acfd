//! Conversations with pictures, and encoders that lie in files of their own.

use crate::pictures::{cases, folder, greedy, load, read};
use lamina::{
    ChatOptions, Error, LoadOptions, MmprojChoice, Model, PicturePart, Prompt,
    image::{Picture, PixelSize},
    take_pictures,
};
use lamina_convert::{Draft, Types, WriteOptions};
use lamina_fixtures::shared;
use lamina_quant::to_f32;
use lamina_store::safetensors::Safetensors;
use serde_json::{Value, json};
use std::{fs, path::Path, sync::Arc};

fn messages(name: &str, case: &str) -> Vec<Value> {
    let file = fs::read(folder(name).unwrap().join("cases.json")).unwrap();
    let all: Value = serde_json::from_slice(&file).unwrap();
    all["cases"][case]["messages"].as_array().unwrap().clone()
}

fn refused<T>(result: Result<T, Error>) -> String {
    result.err().map(|e| e.to_string()).unwrap_or_default()
}

#[test]
fn conversations_become_the_tokens_of_the_reference() {
    for name in ["gemma3", "mistral3", "qwen2-vl", "qwen2-5-vl", "qwen3-vl"] {
        let Some(path) = folder(name) else { return };
        let model = load(&path, |o| o);
        let golden = Safetensors::open(path.join("golden.safetensors")).unwrap();
        for case in cases(name).into_iter().filter(|case| !case.pictures.is_empty()) {
            let options = ChatOptions { images: case.pictures.clone(), ..ChatOptions::default() };
            let said = messages(name, &case.name);
            assert_eq!(model.apply_chat_template(&said, &options), Ok(case.prompt), "{name}/{}", case.name);
            let chat = model.prepare_chat(&said, &options).unwrap();
            let ids = to_f32(&golden.tensors[&format!("{}/input_ids", case.name)]).unwrap();
            let ids: Vec<u32> = ids.iter().map(|&id| id as u32).collect();
            assert_eq!(chat.tokens, ids, "{name}/{}", case.name);
            let mut chat = chat;
            let said: Vec<_> = model.stream_chat(&mut chat, &greedy(&[])).unwrap().collect();
            let want = model.generate(&Prompt::Tokens(ids), &greedy(&case.pictures)).unwrap().remove(0);
            let tokens: Vec<u32> = said.into_iter().filter_map(|piece| piece.unwrap().token).collect();
            assert_eq!(tokens, want.tokens, "{name}/{}: its pictures are seen", case.name);
        }
    }
}

#[test]
fn a_conversation_has_as_many_pictures_as_come_with_it() {
    let Some(path) = folder("qwen2-vl") else { return };
    let model = load(&path, |o| o);
    let said = messages("qwen2-vl", "two");
    let (plain, parts) = take_pictures(&said);
    assert_eq!(plain, said);
    let at: Vec<&str> = parts.iter().map(|part: &PicturePart| part.at.as_str()).collect();
    assert_eq!(at, ["messages[0].content[1]", "messages[0].content[3]"]);
    let one = ChatOptions { images: vec![read("wide.png")], ..ChatOptions::default() };
    assert!(refused(model.prepare_chat(&said, &one)).contains("2 pictures, but 1"));
    let spelled = json!([{"role": "user", "content": [
        {"type": "image"}, {"type": "text", "text": "<|image_pad|> and <|vision_start|>"},
    ]}]);
    let tokens = model.prepare_chat(spelled.as_array().unwrap(), &one).unwrap().tokens;
    let soft = model.need_tokenizer().unwrap().token_to_id("<|image_pad|>");
    let rows = model.image_layout(&one.images[0]).unwrap().rows();
    assert_eq!(tokens.iter().filter(|&&t| Some(t) == soft).count(), rows, "what is spelled stays text");
    let blind = Model::load(None, LoadOptions::default()).unwrap();
    let why = refused(blind.prepare_chat(&said, &one));
    assert!(why.starts_with("messages[0].content[1]: this model takes text only"), "{why}");
}

#[test]
fn what_became_of_pictures_is_told() {
    let Some(path) = folder("qwen2-vl") else { return };
    let model = load(&path, |o| o);
    let pictures = [read("wide.png"), read("tall.png"), read("wide.png")];
    let text = Prompt::Text("<|image_pad|> <|image_pad|> <|image_pad|> What?".into());
    let answer = |options| model.generate(&text, &options).unwrap().remove(0);
    let first = answer(greedy(&pictures)).media;
    assert_eq!(first.pictures.iter().map(|p| p.cached).collect::<Vec<_>>(), [false, false, true]);
    assert!(first.encode_seconds > 0.0);
    assert_eq!(first.pictures[0].size, PixelSize::new(96, 64));
    let layout = model.image_layout(&pictures[0]).unwrap();
    assert_eq!(first.pictures[0].resized, layout.tiles[0]);
    assert_eq!(first.pictures[0].tokens, layout.rows());
    let again = answer(greedy(&pictures)).media;
    assert_eq!((again.encode_seconds, again.image_tokens()), (0.0, first.image_tokens()));
    assert!(again.pictures.iter().all(|p| p.cached));
}

#[test]
fn pictures_that_the_context_does_not_hold_are_refused_before_they_are_encoded() {
    let Some(path) = folder("qwen2-vl") else { return };
    let model = load(&path, |o| LoadOptions { context: Some(40), ..o });
    let pictures = vec![read("wide.png"); 12];
    let why = refused(model.generate(&Prompt::Text("What?".into()), &greedy(&pictures)));
    assert!(why.contains("those of its pictures are") && why.contains("the context holds 40"), "{why}");
}

#[test]
fn tokens_of_a_picture_are_bounded() {
    let large = Arc::new(Picture::new(PixelSize::new(600, 400), vec![77; 600 * 400 * 3]).unwrap());
    for name in ["qwen2-vl", "mistral3", "internvl", "idefics3", "llava-next", "llama4"] {
        let Some(path) = folder(name) else { return };
        let Ok(free) = Model::load(Some(&path), LoadOptions::default()) else { continue };
        let Some(spec) = free.vision().cloned() else { continue };
        let rows = |model: &Model| model.image_layout(&large).unwrap().rows();
        let most = rows(&free).min(spec.max_rows()) - 1;
        let Ok(bounded) = spec.bounded(None, Some(most)) else { continue };
        let got = bounded.layout(large.size()).unwrap().rows();
        assert!(got <= most, "{name}: {got} rows of {most}");
        assert!(bounded.max_rows() <= most, "{name}");
    }
    let Some(path) = folder("qwen2-vl") else { return };
    let model = load(&path, |o| LoadOptions { image_max_tokens: Some(9), image_min_tokens: Some(6), ..o });
    let rows = |picture: &Arc<Picture>| model.image_layout(picture).unwrap().rows();
    assert!((6..=9).contains(&rows(&large)) && rows(&read("tiny.png")) >= 6);
    assert_eq!(model.image_rows(&large).unwrap().rows.len(), rows(&large) * 64, "as the encoder does it");
    let gemma = folder("gemma3").unwrap();
    let refuse = |options| refused(Model::load(Some(&gemma), options));
    let why = refuse(LoadOptions { image_max_tokens: Some(1), ..LoadOptions::default() });
    assert!(why.contains("image_max_tokens is 1, but must be at least 16"), "{why}");
    let why = refuse(LoadOptions { image_min_tokens: Some(1), ..LoadOptions::default() });
    assert!(why.contains("no lower bound"), "{why}");
}

/// The language model of a folder as a GGUF file.
fn text_of(folder: &Path, file: &Path) {
    let draft = Draft::open(folder).unwrap();
    draft.write(file, &WriteOptions::new(Types::Keep), &|_, _| true).unwrap();
}

#[test]
fn an_encoder_in_a_file_of_its_own_gives_the_same_rows() {
    for name in ["qwen2-vl", "gemma3", "mistral3"] {
        let (Some(path), Some(golden)) = (folder(name), shared("golden-vision/mmproj")) else { return };
        let dir = tempfile::tempdir().unwrap();
        let (file, mmproj) = (dir.path().join("model.gguf"), dir.path().join("mmproj-F16.gguf"));
        text_of(&path, &file);
        fs::copy(golden.join(format!("{name}.gguf")), &mmproj).unwrap();
        let (own, beside) = (load(&path, |o| o), load(&file, |o| o));
        let told = &beside.info().notes;
        assert!(told.iter().any(|note| note.contains("mmproj-F16.gguf")), "{name}: {told:?}");
        for picture in [read("wide.png"), read("tall.png")] {
            let bits = |model: &Model| {
                let rows = model.image_rows(&picture).unwrap();
                rows.rows.iter().map(|v| v.to_bits()).collect::<Vec<_>>()
            };
            assert!(bits(&own) == bits(&beside), "{name}: {:?}", picture.size());
        }
        let off = load(&file, |o| LoadOptions { mmproj: MmprojChoice::Off, ..o });
        assert!(off.vision().is_none());
        fs::copy(&mmproj, dir.path().join("mmproj-F32.gguf")).unwrap();
        let usual = load(&file, |o| o);
        assert!(usual.info().notes.iter().any(|note| note.contains("mmproj-F16.gguf")), "the usual type");
        fs::copy(&mmproj, dir.path().join("mmproj-b-F16.gguf")).unwrap();
        let why = refused(Model::load(Some(&file), LoadOptions::default()));
        assert!(why.contains("mmproj-F16.gguf") && why.contains("mmproj-b-F16.gguf"), "{why}");
        let named = load(&file, |o| LoadOptions { mmproj: MmprojChoice::File(mmproj.clone()), ..o });
        assert!(named.vision().is_some());
    }
    let Some(golden) = shared("golden-vision/mmproj") else { return };
    let other =
        LoadOptions { mmproj: MmprojChoice::File(golden.join("glm4v.gguf")), ..LoadOptions::default() };
    let why = refused(Model::load(None, other));
    assert!(why.contains("it is the mmproj of another model"), "{why}");
}
