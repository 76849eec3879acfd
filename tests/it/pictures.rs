//! Models that see, from pictures and texts to logits and greedy tokens, beside the reference's own code; and the same bits
//! however a picture's rows come.

use lamina::{
    Completion, DraftSource, GenerateOptions, KvType, LoadOptions, Model, Prompt, Special,
    image::{ImageLimits, Picture, decode},
};
use lamina_fixtures::shared;
use lamina_quant::to_f32;
use lamina_store::safetensors::Safetensors;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    slice::from_ref,
    sync::Arc,
};

/// Gaps between the two best logits below this are ties, as the fixtures' README says.
pub const TIE: f32 = 0.02;

pub struct Case {
    pub name: String,
    pub prompt: String,
    pub pictures: Vec<Arc<Picture>>,
}

pub fn folder(name: &str) -> Option<PathBuf> {
    let found = shared(&format!("golden-vision/{name}"));
    if found.is_none() {
        eprintln!("skipped: golden-vision/{name} is not there");
    }
    found
}

pub fn read(file: &str) -> Arc<Picture> {
    // The reference's decoder of JPEG differs by a step or two: what it made of the file is read instead.
    let file = if file == "rotated.jpg" { "rotated.decoded.png" } else { file };
    let bytes = fs::read(shared(&format!("golden-vision/images/{file}")).unwrap()).unwrap();
    Arc::new(decode(&bytes, &ImageLimits::default()).unwrap().picture)
}

/// Cases without options of the processor.
pub fn cases(name: &str) -> Vec<Case> {
    let file = fs::read(folder(name).unwrap().join("cases.json")).unwrap();
    let all: Value = serde_json::from_slice(&file).unwrap();
    let cases = all["cases"].as_object().unwrap().iter();
    let plain = cases.filter(|(_, case)| case["options"].as_object().is_none_or(serde_json::Map::is_empty));
    let case = |(name, case): (&String, &Value)| Case {
        name: name.clone(),
        prompt: case["prompt"].as_str().unwrap().to_owned(),
        pictures: case["images"].as_array().unwrap().iter().map(|f| read(f.as_str().unwrap())).collect(),
    };
    plain.map(case).collect()
}

/// `|a - b| / |b|`.
pub fn error(a: &[f32], b: &[f32]) -> f64 {
    let sum = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
        a.iter().zip(b).map(|(&a, &b)| f(f64::from(a), f64::from(b))).sum()
    };
    (sum(&|a, b| (a - b) * (a - b)) / sum(&|_, b| b * b)).sqrt()
}

/// A tensor of a folder's golden file.
pub fn stored(name: &str, case: &str, part: &str) -> Vec<f32> {
    let golden = Safetensors::open(folder(name).unwrap().join("golden.safetensors")).unwrap();
    to_f32(&golden.tensors[&format!("{case}/{part}")]).unwrap()
}

pub fn load(path: &Path, change: impl FnOnce(LoadOptions) -> LoadOptions) -> Model {
    let exact = LoadOptions { kv_dtype: KvType::F32.into(), threads: Some(2), ..LoadOptions::default() };
    Model::load(Some(path), change(exact)).unwrap()
}

fn tokens(model: &Model, case: &Case) -> Vec<u32> {
    let text = match case.pictures.is_empty() {
        true => case.prompt.clone(),
        false => model.expand_images(&case.prompt, &case.pictures).unwrap(),
    };
    model.tokenize(&text, Special::ADD_AND_PARSE).unwrap()
}

pub fn greedy(images: &[Arc<Picture>]) -> GenerateOptions {
    let mut options = GenerateOptions {
        max_tokens: Some(8),
        ignore_eos: true,
        images: images.to_vec(),
        ..GenerateOptions::default()
    };
    options.sampling.set("temperature", 0.0).unwrap();
    options
}

fn check(name: &str) {
    check_within(name, 1e-4);
}

#[test]
fn llama4_sees_as_the_reference_from_pixels_of_another_resize() {
    // The reference resizes by torchvision here, whose pixels are up to two steps of 255 away; its projected rows are then up to
    // 2e-2 away.
    check_within("llama4", 3e-2);
}

fn check_within(name: &str, tolerance: f64) {
    let Some(path) = folder(name) else { return };
    let model = load(&path, |o| o);
    let golden = Safetensors::open(path.join("golden.safetensors")).unwrap();
    for case in cases(name) {
        let stored = |part: &str| to_f32(&golden.tensors[&format!("{}/{part}", case.name)]).unwrap();
        let ids: Vec<u32> = stored("input_ids").iter().map(|&id| id as u32).collect();
        assert_eq!(tokens(&model, &case), ids, "{name}/{}: what markers become", case.name);
        let (logits, want) = (model.logits_seeing(&ids, &case.pictures).unwrap(), stored("logits"));
        let last = &logits[logits.len() - want.len()..];
        assert!(
            error(last, &want) < tolerance,
            "{name}/{}: logits are off by {:.1e}",
            case.name,
            error(last, &want)
        );
        let answer = model.generate(&Prompt::Tokens(ids), &greedy(&case.pictures)).unwrap();
        let sure = stored("greedy_margin").iter().take_while(|m| **m >= TIE).count();
        let greedy: Vec<u32> = stored("greedy").iter().map(|&id| id as u32).collect();
        assert_eq!(answer[0].tokens[..sure], greedy[..sure], "{name}/{}: greedy tokens", case.name);
    }
}

macro_rules! families {
    ($($name:ident $folder:literal)*) => { $(#[test] fn $name() { check($folder); })* };
}

families! {
    gemma3_sees_as_the_reference "gemma3"
    gemma4_sees_as_the_reference "gemma4"
    glm4v_sees_as_the_reference "glm4v"
    idefics3_sees_as_the_reference "idefics3"
    internvl_sees_as_the_reference "internvl"
    llava_clip_sees_as_the_reference "llava-clip"
    llava_next_sees_as_the_reference "llava-next"
    minicpmv4_6_sees_as_the_reference "minicpmv4-6"
    mistral3_sees_as_the_reference "mistral3"
    pixtral_sees_as_the_reference "pixtral"
    qwen2_5_vl_sees_as_the_reference "qwen2-5-vl"
    qwen2_vl_sees_as_the_reference "qwen2-vl"
    qwen3_5_sees_as_the_reference "qwen3-5"
    qwen3_vl_sees_as_the_reference "qwen3-vl"
}

#[test]
fn logits_behind_a_picture_have_the_same_bits_however_it_comes() {
    for name in ["gemma3", "qwen2-vl", "qwen3-vl", "mistral3"] {
        let Some(path) = folder(name) else { return };
        let case = cases(name).into_iter().find(|case| case.name == "two").unwrap();
        let bits = |model: &Model| {
            let logits = model.logits_seeing(&tokens(model, &case), &case.pictures).unwrap();
            logits.iter().map(|v| v.to_bits()).collect::<Vec<_>>()
        };
        let want = bits(&load(&path, |o| o));
        for rows in [1, 5, 7, 64] {
            let model =
                load(&path, |o| LoadOptions { batch_rows: Some(rows), threads: Some(1 + rows % 3), ..o });
            assert!(bits(&model) == want, "{name}: steps of {rows} rows");
            assert!(bits(&model) == want, "{name}: rows from the cache");
        }
    }
}

#[test]
fn the_same_text_with_another_picture_finds_nothing_of_the_first() {
    let Some(path) = folder("qwen2-vl") else { return };
    let model = load(&path, |o| o);
    let ask = |file: &str| {
        let text = format!("{}<|image_pad|> What is it?", "Look here. ".repeat(2));
        let options = greedy(&[read(file)]);
        let answer = model.generate(&Prompt::Text(text), &options).unwrap().remove(0);
        (answer.tokens, answer.usage.cached_tokens)
    };
    let (first, again, other) = (ask("wide.png"), ask("wide.png"), ask("alpha.png"));
    assert_eq!(first.0, again.0);
    assert!(again.1 > first.1, "the same picture is found: {} tokens", again.1);
    assert!(other.1 < again.1, "another one is not: {} of {} tokens", other.1, again.1);
}

#[test]
fn pictures_without_their_markers_go_first_and_markers_without_pictures_are_an_error() {
    let Some(path) = folder("qwen2-vl") else { return };
    let model = load(&path, |o| o);
    let picture = read("tiny.png");
    let first = model.expand_images("What?", from_ref(&picture)).unwrap();
    assert_eq!(first, "<|image_pad|>".repeat(4) + "What?");
    assert_eq!(model.image_tokens(&picture).unwrap(), 4);
    assert_eq!(model.image_rows(&picture).unwrap().rows.len(), 4 * 64);
    let many = model.expand_images("<|image_pad|><|image_pad|>", from_ref(&picture)).unwrap_err();
    assert!(many.to_string().contains("2 places"), "{many}");
    let few = model.logits_seeing(&[1, 2, 3], from_ref(&picture)).unwrap_err();
    assert!(few.to_string().contains("4 rows"), "{few}");
    let blind = Model::load(None, LoadOptions::default()).unwrap();
    assert!(blind.image_tokens(&picture).unwrap_err().to_string().contains("text only"));
}

/// A question whose picture lies in full pages.
fn long_question(model: &Model) -> String {
    let marker = model.vision().unwrap().prompt.marker;
    format!("{marker}{}", "What is it that you see here? ".repeat(4))
}

fn ask(model: &Model, options: &GenerateOptions) -> Completion {
    model.generate(&Prompt::Text(long_question(model)), options).unwrap().remove(0)
}

/// Families whose rows stand in a grid, see one another, have deep rows, and see one another in some layers.
const KINDS: [&str; 5] = ["qwen2-vl", "gemma3", "qwen3-vl", "gemma4", "qwen3-5"];

#[test]
fn a_picture_whose_pages_are_found_is_not_encoded() {
    for name in KINDS {
        let Some(path) = folder(name) else { return };
        let model = load(&path, |o| LoadOptions { image_cache: 0, ..o });
        let encoded = || model.encoder_counts().unwrap().encoded;
        assert_eq!(encoded(), 0);
        let options = greedy(&[read("wide.png")]);
        let first = ask(&model, &options);
        assert_eq!(encoded(), 1, "{name}");
        let again = ask(&model, &options);
        assert_eq!((&again.tokens, encoded()), (&first.tokens, 1), "{name}");
        assert!(again.usage.cached_tokens > model.image_tokens(&options.images[0]).unwrap(), "{name}");
        // The same picture twice in a prompt is encoded once.
        let marker = model.vision().unwrap().prompt.marker;
        let twice = GenerateOptions { images: vec![read("alpha.png"); 2], ..options.clone() };
        model.generate(&Prompt::Text(format!("{marker} or {marker}?")), &twice).unwrap();
        assert_eq!(encoded(), 2, "{name}");
    }
}

#[test]
fn a_picture_is_found_on_disk_by_another_process() {
    for name in KINDS {
        let Some(path) = folder(name) else { return };
        let dir = tempfile::tempdir().unwrap();
        let keep = |o| LoadOptions { cache_dir: Some(dir.path().into()), ..o };
        let options = greedy(&[read("wide.png")]);
        let model = load(&path, keep);
        let want = ask(&model, &options);
        model.close();
        let other = load(&path, keep);
        let got = ask(&other, &options);
        assert_eq!(got.tokens, want.tokens, "{name}");
        assert!(got.usage.disk_tokens > 0, "{name}");
        assert_eq!(other.encoder_counts().unwrap().encoded, 0, "{name}");
    }
}

#[test]
fn guesses_change_nothing_behind_pictures() {
    for name in KINDS {
        let Some(path) = folder(name) else { return };
        let mut options = GenerateOptions { max_tokens: Some(24), ..greedy(&[read("wide.png")]) };
        options.sampling.set("logprobs", 1i64).unwrap();
        let told = |answer: Completion| (answer.tokens, answer.logprobs);
        let want = told(ask(&load(&path, |o| o), &options));
        let sources = [DraftSource::Ngram, DraftSource::Model(path.clone())];
        for source in sources {
            let drafted = load(&path, |o| LoadOptions { draft: Some(source.clone()), ..o });
            assert_eq!(told(ask(&drafted, &options)), want, "{name}: {source:?}");
        }
    }
}

#[test]
fn soft_tokens_are_never_chosen_whatever_is_asked_for() {
    let Some(path) = folder("qwen2-vl") else { return };
    let model = load(&path, |o| o);
    let soft = model.tokenize("<|image_pad|>", Special::PARSE).unwrap()[0];
    for images in [vec![], vec![read("tiny.png")]] {
        let mut options = greedy(&images);
        options.sampling.logit_bias.biases.insert(soft, 100.0);
        let text = if images.is_empty() { "What?" } else { "<|image_pad|>What?" };
        let answer = model.generate(&Prompt::Text(text.into()), &options).unwrap().remove(0);
        assert!(!answer.tokens.contains(&soft), "{:?}", answer.tokens);
        assert_eq!(answer.tokens.len(), 8);
    }
}

#[test]
fn streams_go_on_beside_pictures_of_many_threads() {
    let Some(path) = folder("qwen2-vl") else { return };
    let model = load(&path, |o| o);
    let files = ["wide.png", "tall.png", "strip.png", "alpha.png"];
    let one = |model: &Model, file: &str| ask(model, &greedy(&[read(file)])).tokens;
    let alone = files.map(|file| one(&load(&path, |o| o), file));
    std::thread::scope(|scope| {
        let asked = files.map(|file| scope.spawn(|| one(&model, file)));
        let together = asked.map(|thread| thread.join().unwrap());
        assert_eq!(together, alone);
    });
}

#[test]
fn a_session_with_pictures_goes_on_without_encoding_them() {
    for name in KINDS {
        let Some(path) = folder(name) else { return };
        let dir = tempfile::tempdir().unwrap();
        let (file, options) = (dir.path().join("state"), greedy(&[read("wide.png")]));
        let model = load(&path, |o| o);
        let want = ask(&model, &options);
        let text = model.expand_images(&long_question(&model), &options.images).unwrap();
        let ids = model.tokenize(&text, Special::ADD_AND_PARSE).unwrap();
        model.save_session_with(&file, &ids, &(&options).into(), &Value::Null).unwrap();
        let other = load(&path, |o| o);
        let saved = other.load_session(&file).unwrap();
        assert!(saved.cached_tokens > 0 && saved.tokens == ids, "{name}");
        let got = ask(&other, &options);
        assert_eq!((got.tokens, got.usage.cached_tokens), (want.tokens, saved.cached_tokens), "{name}");
        assert_eq!(other.encoder_counts().unwrap().encoded, 0, "{name}");
        // Saved without its pictures, the text before them is all that is kept.
        model.save_session(&file, &ids, &Value::Null).unwrap();
        let blind = load(&path, |o| o);
        assert!(blind.load_session(&file).unwrap().cached_tokens < saved.cached_tokens, "{name}");
    }
}

#[test]
fn a_picture_found_up_to_its_middle_goes_on_with_the_same_bits() {
    for name in KINDS {
        let Some(path) = folder(name) else { return };
        let model = load(&path, |o| o);
        let rule = model.vision().unwrap().prompt.clone();
        let soft = model.tokenize(rule.soft, Special::PARSE).unwrap()[0];
        let mut options = greedy(&[read("wide.png")]);
        options.sampling.set("logprobs", 1i64).unwrap();
        let text = |before: usize, behind: &str| format!("{}{}{behind}", "x".repeat(before), rule.marker);
        let cut = |before: &usize| {
            let expanded = model.expand_images(&text(*before, "?"), &options.images).unwrap();
            let ids = model.tokenize(&expanded, Special::ADD_AND_PARSE).unwrap();
            ids.len() > 33 && ids[31] == soft && ids[32] == soft
        };
        let before = (0..32).find(cut).unwrap();
        let ask = |model: &Model, behind: &str| {
            model.generate(&Prompt::Text(text(before, behind)), &options).unwrap().remove(0)
        };
        ask(&model, &"What is it that you see here? ".repeat(4));
        let (found, cold) =
            (ask(&model, "?"), ask(&load(&path, |o| LoadOptions { reuse_prefixes: false, ..o }), "?"));
        assert_eq!((&found.tokens, &found.logprobs), (&cold.tokens, &cold.logprobs), "{name}");
        // A recurrent state is there at the last boundary of a prompt only.
        assert_eq!(found.usage.cached_tokens, if name == "qwen3-5" { 0 } else { 32 }, "{name}");
    }
}
