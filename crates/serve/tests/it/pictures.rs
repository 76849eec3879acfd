//! Pictures in every dialect, beside what the Rust API makes of the same ones.

use crate::{
    client::{Answer, get, open, post},
    media::{chat, files, reader, refused, softs, text, user},
    options, shared, start,
};
use base64_of_cli::{Engine, prelude::BASE64_STANDARD};
use lamina::{
    ChatOptions, GenerateOptions, LoadOptions, Model, Prompt,
    image::{ImageLimits, RequestLimits, decode},
};
use lamina_serve::{ModelOrigin, ServeOptions, Server};
use serde_json::{Value, json};
use std::{
    fs,
    sync::{Arc, LazyLock, OnceLock},
    thread,
    time::{Duration, Instant},
};

const QUESTION: &str = "What is it?";
const SOFT: &str = "<|image_pad|>";
const TOKENS: usize = 8;

/// A model that sees, loaded once; none where the fixtures are not there.
static EYES: LazyLock<Option<Model>> = LazyLock::new(|| eyes(RequestLimits::default()));

fn eyes(image_limit: RequestLimits) -> Option<Model> {
    let path = lamina_fixtures::shared("golden-vision/qwen2-vl")?;
    let options = LoadOptions { threads: Some(2), image_limit, ..LoadOptions::default() };
    Some(Model::load(Some(&path), options).expect("a model that sees"))
}

fn seeing(model: Model) -> ServeOptions {
    let models = vec![ModelOrigin::Loaded { name: "eyes".into(), model }];
    ServeOptions { models, ..options() }
}

/// A server with that model, which tests share.
fn server() -> Option<u16> {
    static SERVER: OnceLock<Option<Arc<Server>>> = OnceLock::new();
    let server = SERVER.get_or_init(|| EYES.clone().map(|model| start(seeing(model))));
    server.as_ref().map(|server| server.port())
}

fn file(name: &str) -> Vec<u8> {
    fs::read(lamina_fixtures::shared(&format!("golden-vision/{name}")).expect("a picture"))
        .expect("a picture")
}

fn base64(name: &str) -> String {
    BASE64_STANDARD.encode(file(name))
}

fn url(name: &str) -> String {
    format!("data:image/png;base64,{}", base64(name))
}

fn image_url(url: &str) -> Value {
    json!({ "type": "image_url", "image_url": { "url": url } })
}

/// What the Rust API answers: the text, and tokens of the prompt and of its pictures.
fn asked_in_rust(model: &Model) -> (String, usize, usize) {
    let picture =
        Arc::new(decode(&file("images/wide.png"), &ImageLimits::default()).expect("a picture").picture);
    let messages = [json!({ "role": "user", "content": [{ "type": "image" }, text(QUESTION)] })];
    let chat = ChatOptions { images: vec![picture.clone()], ..ChatOptions::default() };
    let tokens = model.prepare_chat(&messages, &chat).expect("a prompt").tokens;
    let rows = model.image_layout(&picture).expect("a layout").rows();
    let mut options = GenerateOptions {
        max_tokens: Some(TOKENS),
        ignore_eos: true,
        images: vec![picture],
        ..GenerateOptions::default()
    };
    options.sampling.set("temperature", 0.0).expect("a parameter");
    let answer = model.generate(&Prompt::Tokens(tokens.clone()), &options).expect("an answer").remove(0);
    (answer.text, tokens.len(), rows)
}

/// A dialect: where it is asked, its body, the text of a whole answer and of a piece, and the tokens of the prompt.
struct Asked {
    path: &'static str,
    body: Value,
    whole: &'static str,
    piece: &'static str,
    prompt: &'static str,
    pictures: &'static str,
}

fn dialects(port: u16) -> Vec<Asked> {
    let (data, sampling) =
        (base64("images/wide.png"), json!({ "max_tokens": TOKENS, "temperature": 0, "ignore_eos": true }));
    let with = |mut body: Value| {
        body.as_object_mut().expect("an object").extend(sampling.as_object().expect("an object").clone());
        body
    };
    let messages = user(json!([image_url(&url("images/wide.png")), text(QUESTION)]));
    let rendered = post(port, "/apply-template", &json!({ "messages": messages })).json();
    let rendered = rendered["prompt"].as_str().expect("a text").to_owned();
    assert_eq!(rendered.matches(SOFT).count(), 1, "{rendered}");
    let options = json!({ "num_predict": TOKENS, "temperature": 0, "ignore_eos": true });
    let source = json!({ "type": "base64", "media_type": "image/png", "data": data });
    let input = json!([{ "role": "user", "content": [
        { "type": "input_image", "image_url": url("images/wide.png"), "detail": "auto" },
        { "type": "input_text", "text": QUESTION }] }]);
    let marked = rendered.replace(SOFT, "<__media__>");
    let native = Asked {
        path: "/completion",
        body: json!({}),
        whole: "/content",
        piece: "/content",
        prompt: "/tokens_evaluated",
        pictures: "/timings/image_n",
    };
    vec![
        Asked {
            path: "/v1/chat/completions",
            body: with(json!({ "messages": messages })),
            whole: "/choices/0/message/content",
            piece: "/choices/0/delta/content",
            prompt: "/usage/prompt_tokens",
            pictures: "/usage/prompt_tokens_details/image_tokens",
        },
        Asked {
            path: "/v1/responses",
            body: json!({ "input": input, "max_output_tokens": TOKENS, "temperature": 0, "ignore_eos": true }),
            whole: "/output/0/content/0/text",
            piece: "/delta",
            prompt: "/usage/input_tokens",
            pictures: "/usage/input_tokens_details/image_tokens",
        },
        Asked {
            path: "/v1/messages",
            body: json!({ "messages": user(json!([{ "type": "image", "source": source }, text(QUESTION)])),
                "max_tokens": TOKENS, "temperature": 0 }),
            whole: "/content/0/text",
            piece: "/delta/text",
            prompt: "/usage/input_tokens",
            pictures: "",
        },
        Asked {
            path: "/api/chat",
            body: json!({ "messages": [{ "role": "user", "content": QUESTION, "images": [data] }], "options": options }),
            whole: "/message/content",
            piece: "/message/content",
            prompt: "/prompt_eval_count",
            pictures: "",
        },
        Asked {
            path: "/api/generate",
            body: json!({ "prompt": QUESTION, "images": [data], "options": options }),
            whole: "/response",
            piece: "/response",
            prompt: "/prompt_eval_count",
            pictures: "",
        },
        Asked {
            path: "/api/generate",
            body: json!({ "prompt": rendered, "images": [data], "options": options, "raw": true }),
            whole: "/response",
            piece: "/response",
            prompt: "/prompt_eval_count",
            pictures: "",
        },
        Asked {
            body: with(json!({ "prompt": { "prompt_string": marked, "multimodal_data": [data] } })),
            ..native
        },
        Asked {
            body: with(
                json!({ "prompt": rendered.replace(SOFT, "[img-7]"), "image_data": [{ "id": 7, "data": data }] }),
            ),
            ..native
        },
    ]
}

/// The lines or events of a stream.
fn pieces(answer: &Answer) -> Vec<Value> {
    let lines = answer.text();
    let lines = lines.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
    lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn every_dialect_sees_what_the_rust_api_sees() {
    let (Some(port), Some(model)) = (server(), &*EYES) else { return };
    let (said, prompt, rows) = asked_in_rust(model);
    for Asked { path, mut body, whole, piece, prompt: at, pictures } in dialects(port) {
        // Others than OpenAI's say less of what is found.
        body["stream"] = json!(false);
        if !path.starts_with("/api") && path != "/v1/messages" {
            body["cache_prompt"] = json!(false);
        }
        let answer = post(port, path, &body);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        let answer = answer.json();
        let same = |text: &str| said.starts_with(text) && !text.is_empty();
        let text = answer.pointer(whole).and_then(Value::as_str).unwrap_or_default();
        assert!(if path == "/v1/messages" { same(text) } else { text == said }, "{path}: {answer} {said:?}");
        let cached = answer["usage"]["cache_read_input_tokens"].as_u64().unwrap_or(0);
        let told = answer.pointer(at).and_then(Value::as_u64).map(|n| n + cached);
        assert_eq!(told, Some(prompt as u64), "{path}: {answer}");
        if !pictures.is_empty() {
            assert_eq!(answer.pointer(pictures), Some(&json!(rows)), "{path}: {answer}");
        }
        body["stream"] = json!(true);
        let stream = post(port, path, &body);
        let streamed: String = pieces(&stream).iter().filter_map(|p| p.pointer(piece)?.as_str()).collect();
        assert_eq!(streamed, text, "{path}: {}", stream.text());
    }
}

#[test]
fn counts_are_those_of_answers() {
    let (Some(port), Some(model)) = (server(), &*EYES) else { return };
    let (_, prompt, rows) = asked_in_rust(model);
    let content = json!([image_url(&url("images/wide.png")), text(QUESTION)]);
    assert_eq!(softs(port, SOFT, content), (prompt, rows));
    let source = json!({ "type": "url", "url": url("images/wide.png") });
    let image = json!({ "type": "image", "source": source });
    let counted =
        post(port, "/v1/messages/count_tokens", &json!({ "messages": user(json!([image, text(QUESTION)])) }));
    assert_eq!(counted.json()["input_tokens"], prompt);
    let input = json!([{ "role": "user", "content": [{ "type": "input_image", "image_url": url("images/wide.png") },
        { "type": "input_text", "text": QUESTION }] }]);
    assert_eq!(
        post(port, "/v1/responses/input_tokens", &json!({ "input": input })).json()["input_tokens"],
        prompt
    );
    let result = json!({ "type": "tool_result", "tool_use_id": "t", "content": [image, text(QUESTION)] });
    let counted = post(port, "/v1/messages/count_tokens", &json!({ "messages": user(json!([result])) }));
    assert_eq!(counted.json()["input_tokens"], prompt, "{}", counted.text());
}

#[test]
fn what_users_write_stays_text() {
    let Some(port) = server() else { return };
    let softs = |content: Value| softs(port, SOFT, content).1;
    let picture = image_url(&url("images/wide.png"));
    let rows = softs(json!([picture, text("a")]));
    assert!(rows > 1);
    for typed in [SOFT, "<|vision_start|><|image_pad|><|vision_end|>", "<__media__>", "[img-0]"] {
        assert_eq!(softs(json!([text(typed), picture, text(typed)])), rows, "{typed}");
        assert_eq!(softs(json!(typed)), 0, "{typed}");
    }
    let other = json!([text(SOFT), picture, text(SOFT)]);
    assert_eq!(chat(port, other).status, 200);
}

#[test]
fn a_model_without_eyes_says_so() {
    let url = "data:image/png;base64,iVBORw0KGgo=";
    let refused = chat(shared(), json!([text("What?"), image_url(url)]));
    let error = refused.json()["error"].clone();
    assert_eq!((refused.status, &error["param"]), (400, &json!("messages[0].content[1]")), "{error}");
    let message = error["message"].as_str().unwrap_or_default();
    assert!(message.contains("text only") && message.contains("--mmproj FILE"), "{message}");
    let ollama = json!({ "messages": [{ "role": "user", "content": "?", "images": ["aGFsbG8="] }] });
    assert!(
        post(shared(), "/api/chat", &ollama)
            .text()
            .contains("messages[0].images[0]: this model takes text only")
    );
    assert_eq!(get(shared(), "/props").json()["modalities"]["vision"], false);
}

#[test]
fn what_cannot_be_seen_is_named_by_its_place() {
    let Some(port) = server() else { return };
    let refused = |part, status, param: &str, words| refused(port, part, status, param, words);
    let at = "messages[0].content[1]";
    let of = |bytes: &[u8]| image_url(&format!("data:;base64,{}", BASE64_STANDARD.encode(bytes)));
    refused(of(b"hello, this is a text"), 400, at, "no picture");
    refused(of(&file("images/wide.png")[..300]), 400, at, "damaged");
    refused(of(b"%PDF-1.7"), 400, at, "PDF");
    refused(image_url("data:image/png;base64,???"), 400, at, "no base64");
    refused(image_url("data:image/png,abc"), 400, at, "base64");
    for address in ["https://example.org/a.png", "http://127.0.0.1/a.png", "file:///etc/passwd", "a.png"] {
        refused(image_url(address), 400, at, "--allow-media-url");
    }
    refused(json!({ "type": "input_image", "file_id": "f" }), 400, &format!("{at}.file_id"), "no files");
    let detail = json!({ "type": "image_url", "image_url": { "url": "data:", "detail": "fine" } });
    refused(detail, 400, &format!("{at}.image_url.detail"), "low");
    let document = json!({ "type": "document", "source": { "type": "text", "data": "x" } });
    let document = json!({ "messages": user(json!([document])), "max_tokens": 1 });
    assert_eq!(post(port, "/v1/messages", &document).status, 400);
    let markers = json!({ "prompt": { "prompt_string": "<__media__><__media__>", "multimodal_data": [base64("images/tiny.png")] } });
    let markers = post(port, "/completion", &markers);
    assert!(markers.status == 400 && markers.text().contains("2"), "{}", markers.text());
}

#[test]
fn limits_hold_for_each_and_for_all() {
    let mut limits = RequestLimits { count: 2, pixels: 96 * 64 + 100, ..RequestLimits::default() };
    (limits.each.bytes, limits.each.side) = (13_000, 200);
    let Some(model) = eyes(limits) else { return };
    let server = start(seeing(model));
    let ask = |names: &[&str]| {
        let parts: Value = names.iter().map(|name| image_url(&url(name))).collect();
        let answer = chat(server.port(), parts);
        let param = answer.json()["error"]["param"].as_str().unwrap_or_default().to_owned();
        (answer.status, param, answer.text())
    };
    assert_eq!(ask(&["images/wide.png", "images/tiny.png"]).0, 200);
    let (status, param, text) = ask(&["images/tiny.png", "images/strip.png"]);
    assert_eq!((status, &*param), (413, "messages[0].content[1]"), "{text}");
    assert!(text.contains("224 x 48") && text.contains("200"), "{text}");
    assert_eq!(ask(&["images/tiny.png"; 3]).1, "messages[0].content[2]");
    assert_eq!(ask(&["images/wide.png", "images/wide.png"]).0, 413, "pixels of all");
    let large =
        format!("data:;base64,{}", BASE64_STANDARD.encode([file("images/wide.png"), vec![0; 9000]].concat()));
    let large = chat(server.port(), json!([image_url(&large)]));
    assert!(large.status == 413 && large.text().contains("13000"), "{}", large.text());
}

#[test]
fn pictures_beyond_the_context_are_told_with_their_tokens() {
    let Some(port) = server() else { return };
    let pictures = (0..10).map(|_| image_url(&url("images/strip.png")));
    let answer = chat(port, pictures.chain([text(&"long ".repeat(250))]).collect());
    let error = answer.json()["error"].clone();
    assert_eq!((answer.status, &error["code"]), (400, &json!("context_length_exceeded")), "{error}");
    let message = error["message"].as_str().unwrap_or_default();
    assert!(message.contains("messages[0].content[0] ") && message.contains("and 2 more"), "{message}");
}

/// Every file that means harm gets an answer, and nobody else waits for it.
#[test]
fn hostile_files_are_refused_while_others_are_answered() {
    let Some(port) = server() else { return };
    let folder = lamina_fixtures::shared("golden-vision/hostile").expect("hostile files");
    let names: Vec<String> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned())
        .collect();
    thread::scope(|scope| {
        for name in &names {
            scope.spawn(move || {
                let answer = chat(port, json!([image_url(&url(&format!("hostile/{name}"))), text("?")]));
                assert!(
                    [200, 400, 413].contains(&answer.status),
                    "{name}: {} {}",
                    answer.status,
                    answer.text()
                );
                assert!(answer.text().len() < 2000, "{name}: {}", answer.text().len());
            });
        }
        for _ in 0..20 {
            let begun = Instant::now();
            assert_eq!(get(port, "/health").status, 200);
            assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        }
    });
    assert_eq!(chat(port, json!("still there?")).status, 200);
}

#[test]
fn megabytes_of_garbage_keep_nobody_waiting() {
    let Some(port) = server() else { return };
    let garbage = format!("data:image/png;base64,{}", "!garbage".repeat(3_900_000));
    let body = json!({ "messages": user(json!([image_url(&garbage)])) }).to_string();
    thread::scope(|scope| {
        let sent = scope.spawn(|| {
            open(
                port,
                "POST",
                "/v1/chat/completions",
                &[("content-type", "application/json")],
                body.as_bytes(),
            )
            .read()
        });
        while !sent.is_finished() {
            let begun = Instant::now();
            assert_eq!(get(port, "/health").status, 200);
            assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        }
        let answer = sent.join().expect("an answer");
        assert!(answer.status == 400 && answer.text().contains("no base64"), "{}", answer.text());
    });
}

#[test]
fn addresses_of_allowed_hosts_are_read() {
    let Some(model) = EYES.clone() else { return };
    let port = files(|path| match path {
        "/wide.png" => ("200 OK", file("images/wide.png")),
        "/private" => ("302 X\r\nlocation: http://inner.test/wide.png", vec![]),
        _ => ("404 No", vec![]),
    });
    let server = start(ServeOptions { url_reader: Some(reader(port)), ..seeing(model) });
    let ask = |url: &str| chat(server.port(), json!([image_url(url), text(QUESTION)]));
    let (read, inline) = (ask("http://pictures.test/wide.png"), ask(&url("images/wide.png")));
    assert_eq!(read.status, 200, "{}", read.text());
    assert_eq!(read.json()["choices"][0]["message"], inline.json()["choices"][0]["message"]);
    for (url, words) in [
        ("http://pictures.test/private", "not of the open internet"),
        ("http://inner.test/wide.png", "not of the open internet"),
        ("http://pictures.test/none", "404"),
        ("http://example.org/wide.png", "not among the hosts"),
        ("http://me:secret@pictures.test/wide.png", "password"),
    ] {
        let refused = ask(url);
        let error = refused.json()["error"].clone();
        assert_eq!((refused.status, &error["param"]), (400, &json!("messages[0].content[0]")), "{error}");
        assert!(
            error["message"].as_str().is_some_and(|m| m.contains(words) && !m.contains("secret")),
            "{error}"
        );
    }
}

#[test]
fn a_conversation_goes_on_behind_its_picture() {
    let Some(port) = server() else { return };
    let image = json!({ "type": "input_image", "image_url": url("images/wide.png") });
    let input = json!([{ "role": "user", "content": [image, { "type": "input_text", "text": QUESTION }] }]);
    let first = post(port, "/v1/responses", &json!({ "input": input, "max_output_tokens": 2 })).json();
    let id = first["id"].as_str().expect("an id").to_owned();
    let items = get(port, &format!("/v1/responses/{id}/input_items")).json();
    assert_eq!(items["data"][0]["content"][0]["image_url"], url("images/wide.png"));
    let more = json!({ "input": "And now?", "previous_response_id": id, "max_output_tokens": 2 });
    let more = post(port, "/v1/responses", &more).json();
    let rows = &first["usage"]["input_tokens_details"]["image_tokens"];
    assert_eq!(&more["usage"]["input_tokens_details"]["image_tokens"], rows, "{more}");
}

#[test]
fn echoed_soft_tokens_have_no_logprobs() {
    let Some(port) = server() else { return };
    let body = json!({ "prompt": { "prompt_string": "a<__media__>bc", "multimodal_data": [base64("images/tiny.png")] },
        "echo": true, "logprobs": 1, "max_tokens": 1 });
    let answer = post(port, "/v1/completions", &body).json();
    let lists = &answer["choices"][0]["logprobs"];
    let rows = answer["usage"]["prompt_tokens_details"]["image_tokens"].as_u64().expect("rows") as usize;
    let logprobs = lists["token_logprobs"].as_array().expect("logprobs");
    let nulls = logprobs.iter().filter(|logprob| logprob.is_null()).count();
    assert_eq!(nulls, rows + 1, "theirs, and that of the first token: {lists}");
    assert_eq!(
        lists["top_logprobs"].as_array().expect("lists").iter().filter(|top| top.is_null()).count(),
        nulls
    );
}

#[test]
fn pictures_are_counted_and_models_say_that_they_see() {
    let Some(model) = EYES.clone() else { return };
    let server = start(seeing(model));
    let port = server.port();
    let answer =
        chat(port, json!([image_url(&url("images/alpha.png")), image_url(&url("images/tiny.png"))])).json();
    assert!(answer["timings"]["encode_ms"].is_number(), "{answer}");
    let rows = answer["usage"]["prompt_tokens_details"]["image_tokens"].as_u64().expect("rows");
    assert!(answer["timings"]["encode_ms"].as_f64() > Some(0.0), "{answer}");
    assert_eq!(chat(port, json!([text("Again:"), image_url(&url("images/tiny.png"))])).status, 200);
    let rows = rows + 4;
    let metrics = get(port, "/metrics").text();
    for line in [
        "images_total{model_name=\"eyes\"} 3".to_owned(),
        format!("image_tokens_total{{model_name=\"eyes\"}} {rows}"),
    ] {
        assert!(metrics.contains(&format!("lamina:{line}")), "{line} is not in\n{metrics}");
    }
    let number = |name: &str| {
        let found = metrics
            .lines()
            .find_map(|line| line.strip_prefix(&format!("lamina:{name}{{model_name=\"eyes\"}} ")));
        found.and_then(|n| n.parse::<f64>().ok()).unwrap_or_else(|| panic!("{name} is not in\n{metrics}"))
    };
    let (hits, queries) = (number("image_cache_hits_total"), number("image_cache_queries_total"));
    assert!(hits >= 1.0 && queries > hits && number("image_cache_bytes") > 0.0, "{hits} of {queries}");
    assert_eq!(get(port, "/props").json()["modalities"]["vision"], true);
    assert_eq!(get(port, "/v1/models").json()["data"][0]["meta"]["modalities"]["vision"], true);
    let shown = post(port, "/api/show", &json!({ "model": "eyes" })).json();
    assert!(shown["capabilities"].as_array().is_some_and(|can| can.contains(&json!("vision"))), "{shown}");
    assert_eq!(shown["projector_info"]["clip.vision.projection_dim"], 64, "{shown}");
}
