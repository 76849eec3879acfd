//! Sounds in every dialect that has them, beside what the Rust API makes of the same ones.

use crate::{
    client::{get, post},
    media::{chat, files, reader, refused, softs, text, user},
    options, shared, start,
};
use base64_of_cli::{Engine, prelude::BASE64_STANDARD};
use lamina::{
    ChatOptions, GenerateOptions, LoadOptions, Model, Prompt,
    sound::{Sound, SoundLimits, decode},
};
use lamina_serve::{ModelOrigin, ServeOptions, Server};
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock, OnceLock};

const QUESTION: &str = "hear?";
const SOFT: &str = "<|AUDIO|>";
const TOKENS: usize = 8;
/// A rising tone in noise of one and a half seconds, as in the fixtures of the reference.
const SWEEP: &[u8] = include_bytes!("../../../sound/tests/files/sweep.wav");
const MP3: &[u8] = include_bytes!("../../../sound/tests/files/tone.mp3");

/// A model that hears, loaded once; none where the fixtures are not there.
static EARS: LazyLock<Option<Model>> = LazyLock::new(|| {
    let path = lamina_fixtures::shared("golden-vision/qwen2-audio")?;
    let options = LoadOptions { threads: Some(2), ..LoadOptions::default() };
    Some(Model::load(Some(&path), options).expect("a model that hears"))
});

fn hearing(model: Model) -> ServeOptions {
    let models = vec![ModelOrigin::Loaded { name: "ears".into(), model }];
    ServeOptions { models, ..options() }
}

/// A server with that model, which tests share.
fn server() -> Option<u16> {
    static SERVER: OnceLock<Option<Arc<Server>>> = OnceLock::new();
    let server = SERVER.get_or_init(|| EARS.clone().map(|model| start(hearing(model))));
    server.as_ref().map(|server| server.port())
}

fn base64(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

fn input_audio(bytes: &[u8]) -> Value {
    json!({ "type": "input_audio", "input_audio": { "data": base64(bytes), "format": "wav" } })
}

fn audio_url(url: &str) -> Value {
    json!({ "type": "audio_url", "audio_url": { "url": url } })
}

fn sweep() -> Arc<Sound> {
    Arc::new(decode(SWEEP, &SoundLimits::default()).expect("a sound"))
}

/// What the Rust API answers: the text, and tokens of the prompt and of its sound.
fn asked_in_rust(model: &Model) -> (String, usize, usize) {
    let messages = [json!({ "role": "user", "content": [{ "type": "audio" }, text(QUESTION)] })];
    let chat = ChatOptions { sounds: vec![sweep()], ..ChatOptions::default() };
    let tokens = model.prepare_chat(&messages, &chat).expect("a prompt").tokens;
    let mut options = GenerateOptions {
        max_tokens: Some(TOKENS),
        ignore_eos: true,
        sounds: vec![sweep()],
        ..GenerateOptions::default()
    };
    options.sampling.set("temperature", 0.0).expect("a parameter");
    let answer = model.generate(&Prompt::Tokens(tokens.clone()), &options).expect("an answer").remove(0);
    assert_eq!(answer.media.audio_tokens(), model.sound_tokens(&sweep()).expect("tokens"));
    (answer.text, tokens.len(), answer.media.audio_tokens())
}

/// Where it is asked, the body without sampling, and the pointers of the answer: text, tokens of the prompt, and of sounds.
type Asked = (&'static str, Value, [&'static str; 3]);

fn dialects(port: u16) -> Vec<Asked> {
    let part = input_audio(SWEEP);
    let parts = json!([part, text(QUESTION)]);
    let linked = json!([audio_url(&format!("data:audio/wav;base64,{}", base64(SWEEP))), text(QUESTION)]);
    let rendered = post(port, "/apply-template", &json!({ "messages": user(parts.clone()) })).json();
    let rendered = rendered["prompt"].as_str().expect("a text").to_owned();
    assert_eq!(rendered.matches(SOFT).count(), 1, "{rendered}");
    let input = json!([{ "role": "user", "content": [part, { "type": "input_text", "text": QUESTION }] }]);
    let of_chat =
        ["/choices/0/message/content", "/usage/prompt_tokens", "/usage/prompt_tokens_details/audio_tokens"];
    let of_text = ["/choices/0/text", of_chat[1], of_chat[2]];
    let of_response =
        ["/output/0/content/0/text", "/usage/input_tokens", "/usage/input_tokens_details/audio_tokens"];
    let native = ["/content", "/tokens_evaluated", "/timings/audio_n"];
    let marked = rendered.replace(SOFT, "<__media__>");
    let seen =
        |text: &str| json!({ "prompt": { "prompt_string": text, "multimodal_data": [base64(SWEEP)] } });
    vec![
        ("/v1/chat/completions", json!({ "messages": user(parts) }), of_chat),
        ("/v1/chat/completions", json!({ "messages": user(linked) }), of_chat),
        ("/v1/responses", json!({ "input": input }), of_response),
        ("/completion", seen(&marked), native),
        ("/completion", seen(&rendered), native),
        ("/v1/completions", seen(&marked), of_text),
    ]
}

#[test]
fn every_dialect_hears_what_the_rust_api_hears() {
    let (Some(port), Some(model)) = (server(), &*EARS) else { return };
    let (said, prompt, rows) = asked_in_rust(model);
    for (path, mut body, [whole, at, sounds]) in dialects(port) {
        let most = if path == "/v1/responses" { "max_output_tokens" } else { "max_tokens" };
        for (name, value) in [(most, json!(TOKENS)), ("temperature", json!(0)), ("ignore_eos", json!(true))] {
            body[name] = value;
        }
        let answer = post(port, path, &body);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        let answer = answer.json();
        assert_eq!(answer.pointer(whole), Some(&json!(said)), "{path}: {answer}");
        assert_eq!(answer.pointer(at), Some(&json!(prompt)), "{path}: {answer}");
        assert_eq!(answer.pointer(sounds), Some(&json!(rows)), "{path}: {answer}");
        body["stream"] = json!(true);
        let stream = post(port, path, &body).text();
        let events = stream.lines().filter_map(|line| line.strip_prefix("data: "));
        let events: Vec<Value> = events.filter_map(|event| serde_json::from_str(event).ok()).collect();
        let pointers = ["/choices/0/delta/content", "/choices/0/text", "/content", "/delta"];
        let piece =
            |event: &Value| pointers.iter().find_map(|p| event.pointer(p)?.as_str().map(str::to_owned));
        let streamed: String = events.iter().filter_map(piece).collect();
        assert_eq!(streamed, said, "{path}: {stream}");
    }
}

#[test]
fn counts_are_those_of_answers_and_what_users_write_stays_text() {
    let (Some(port), Some(model)) = (server(), &*EARS) else { return };
    let (_, prompt, rows) = asked_in_rust(model);
    let softs = |content: Value| softs(port, SOFT, content);
    let sound = input_audio(SWEEP);
    assert_eq!(softs(json!([sound, text(QUESTION)])), (prompt, rows));
    for typed in [SOFT, "<|audio_bos|><|AUDIO|><|audio_eos|>", "<__media__>"] {
        assert_eq!(softs(json!([text(typed), sound, text(typed)])).1, rows, "{typed}");
        assert_eq!(softs(json!(typed)).1, 0, "{typed}");
    }
    let input = json!([{ "role": "user", "content": [sound, { "type": "input_text", "text": QUESTION }] }]);
    let counted = post(port, "/v1/responses/input_tokens", &json!({ "input": input })).json();
    assert_eq!(counted["input_tokens"], prompt);
}

#[test]
fn a_model_without_ears_says_so_and_one_with_ears_is_not_blind_in_silence() {
    let refused = |port, part, words| refused(port, part, 400, "messages[0].content[1]", words);
    refused(shared(), input_audio(SWEEP), "does not hear");
    assert_eq!(get(shared(), "/props").json()["modalities"]["audio"], false);
    let Some(port) = server() else { return };
    let image = json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,iVBORw0KGgo=" } });
    refused(port, image, "takes no pictures");
    let block = json!({ "type": "input_audio", "input_audio": { "data": "AAAA", "format": "wav" } });
    let anthropic = post(port, "/v1/messages", &json!({ "messages": user(json!([block])), "max_tokens": 1 }));
    assert_eq!(anthropic.status, 400, "{}", anthropic.text());
    let ollama = json!({ "messages": [{ "role": "user", "content": "?", "images": [base64(SWEEP)] }] });
    let ollama = post(port, "/api/chat", &ollama);
    assert!(ollama.status == 400 && ollama.text().contains("messages[0].images[0]"), "{}", ollama.text());
}

#[test]
fn what_cannot_be_heard_is_named_by_its_place() {
    let Some(port) = server() else { return };
    let refused = |part, status, param: &str, words| refused(port, part, status, param, words);
    let at = "messages[0].content[1]";
    refused(input_audio(b"hello, this is a text"), 400, at, "no sound");
    refused(input_audio(&SWEEP[..20]), 400, at, "damaged");
    refused(input_audio(b"\x00\x00\x00\x18ftypM4A "), 400, at, "MP4 (AAC) sound is not read");
    let letters = json!({ "type": "input_audio", "input_audio": { "data": "???", "format": "wav" } });
    refused(letters, 400, at, "the sound is no base64");
    let missing = json!({ "type": "input_audio", "input_audio": { "format": "wav" } });
    refused(missing, 400, &format!("{at}.input_audio"), "data");
    refused(json!({ "type": "input_audio", "file_id": "f" }), 400, &format!("{at}.file_id"), "input_audio");
    for address in ["https://example.org/a.wav", "file:///etc/passwd", "a.wav"] {
        refused(audio_url(address), 400, at, "sounds are not read from addresses here");
    }
    // A click of one sample has no row.
    let click = [&SWEEP[..40], &3u32.to_le_bytes(), &[0; 3]].concat();
    refused(input_audio(&click), 400, at, "too short");
    let many = (0..65).map(|_| input_audio(SWEEP)).collect::<Vec<_>>();
    let many = chat(port, json!(many));
    assert!(many.status == 413 && many.text().contains("at most 64 sounds"), "{}", many.text());
}

#[test]
fn sounds_at_addresses_of_allowed_hosts_are_read() {
    let Some(model) = EARS.clone() else { return };
    let port = files(|_| ("200 OK", SWEEP.to_vec()));
    let server = start(ServeOptions { url_reader: Some(reader(port)), ..hearing(model) });
    let ask = |part: Value| chat(server.port(), json!([part, text(QUESTION)]));
    let (read, inline) = (ask(audio_url("http://sounds.test/a.wav")), ask(input_audio(SWEEP)));
    assert_eq!(read.status, 200, "{}", read.text());
    assert_eq!(read.json()["choices"][0]["message"], inline.json()["choices"][0]["message"]);
    let refused = ask(audio_url("http://example.org/a.wav"));
    assert!(refused.status == 400 && refused.text().contains("not among the hosts"), "{}", refused.text());
}

#[test]
fn a_conversation_goes_on_behind_its_sound() {
    let Some(port) = server() else { return };
    let input = json!([{ "role": "user", "content": [input_audio(SWEEP), { "type": "input_text", "text": QUESTION }] }]);
    let first = post(port, "/v1/responses", &json!({ "input": input, "max_output_tokens": 2 })).json();
    let id = first["id"].as_str().expect("an id").to_owned();
    let more = json!({ "input": "And now?", "previous_response_id": id, "max_output_tokens": 2 });
    let more = post(port, "/v1/responses", &more).json();
    let rows = &first["usage"]["input_tokens_details"]["audio_tokens"];
    assert!(rows.as_u64() > Some(0), "{first}");
    assert_eq!(&more["usage"]["input_tokens_details"]["audio_tokens"], rows, "{more}");
    let cached = more["usage"]["input_tokens_details"]["cached_tokens"].as_u64();
    assert!(cached >= Some(32), "the sound's beginning is found by its content: {more}");
}

#[test]
fn sounds_are_counted_and_models_say_that_they_hear() {
    let Some(model) = EARS.clone() else { return };
    let server = start(hearing(model));
    let port = server.port();
    // Others of the shared model may have left rows of these, and only these, behind.
    let answer = chat(port, json!([input_audio(SWEEP), input_audio(MP3)])).json();
    let rows = answer["usage"]["prompt_tokens_details"]["audio_tokens"].as_u64().expect("rows");
    assert!(answer["timings"]["encode_ms"].as_f64() > Some(0.0), "{answer}");
    assert_eq!(chat(port, json!([text("Again:"), input_audio(MP3)])).status, 200);
    let metrics = get(port, "/metrics").text();
    let number = |name: &str| {
        let found = metrics
            .lines()
            .find_map(|line| line.strip_prefix(&format!("lamina:{name}{{model_name=\"ears\"}} ")));
        found.and_then(|n| n.parse::<f64>().ok()).unwrap_or_else(|| panic!("{name} is not in\n{metrics}"))
    };
    assert_eq!(number("sounds_total"), 3.0);
    assert!(number("audio_tokens_total") > rows as f64);
    let (hits, queries) = (number("audio_cache_hits_total"), number("audio_cache_queries_total"));
    assert!(hits >= 1.0 && queries > hits && number("audio_cache_bytes") > 0.0, "{hits} of {queries}");
    let props = get(port, "/props").json();
    assert_eq!(props["modalities"], json!({ "vision": false, "audio": true }));
    assert_eq!(props["audio_limits"]["seconds"], 1800);
    assert_eq!(get(port, "/v1/models").json()["data"][0]["meta"]["modalities"]["audio"], true);
    let shown = post(port, "/api/show", &json!({ "model": "ears" })).json();
    assert!(shown["capabilities"].as_array().is_some_and(|can| can.contains(&json!("audio"))), "{shown}");
}
