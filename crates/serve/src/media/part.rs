//! Parts of messages. All dialects bring theirs into one form, `{"type": "image_url", "image_url": {"url", "detail"}}` as of
//! OpenAI, or `{"type": "audio_url", "audio_url": {"url"}}`, with the place in the body that errors name as `at`.

use super::{data_url::is_inline, kind::MediaKind};
use crate::{
    body::{kind, typed},
    error::ApiError,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What `image_url` says, or a part of responses.
#[derive(Deserialize)]
struct PictureFields {
    url: String,
    #[serde(default)]
    detail: Option<PictureDetail>,
}

/// What `audio_url` says.
#[derive(Deserialize)]
struct SoundAddress {
    url: String,
}

/// What `input_audio` says. Its format is not looked at: the bytes tell.
#[derive(Deserialize)]
struct SoundFields {
    data: String,
}

/// How much of a picture is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum PictureDetail {
    /// As few tokens as its size can bring.
    Low,
    High,
    Auto,
    Original,
}

/// A picture or a sound as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentMedia {
    /// What it is said to be.
    pub kind: MediaKind,
    /// Its place in the body.
    pub at: String,
    /// A `data:` URL, or an address.
    pub url: String,
    /// The fewest tokens will do, where that can be chosen.
    pub low: bool,
}

/// A part with the picture of this URL, which stands at `at` in the body.
pub fn picture_part(at: &str, url: String) -> Value {
    json!({ "type": "image_url", "image_url": { "url": url }, "at": at })
}

/// A part with the sound of this URL.
fn sound_part(at: &str, url: String) -> Value {
    json!({ "type": "audio_url", "audio_url": { "url": url }, "at": at })
}

/// The URL of a file that came in base64, or in one already.
pub fn in_base64(letters: &str) -> String {
    if is_inline(letters) { letters.to_owned() } else { format!("data:;base64,{letters}") }
}

/// The content of a message as all dialects have it: a text, or parts where pictures or sounds are among them.
///
/// # Errors
/// When it is something else, or a part is neither text, nor a picture or a sound.
pub fn content(content: Value, path: &str) -> Result<Value, ApiError> {
    let parts = match content {
        Value::String(_) => return Ok(content),
        Value::Array(parts) => parts,
        other => {
            let text = format!("{path} is {}, but must be a text or a list of parts", kind(&other));
            return Err(ApiError::at(path, text));
        }
    };
    let parts = parts.into_iter().enumerate().map(|(i, item)| part(item, &format!("{path}[{i}]")));
    Ok(joined(parts.collect::<Result<_, _>>()?))
}

/// Parts as they are where others than texts are among them, else their texts.
pub fn joined(parts: Vec<Value>) -> Value {
    if parts.iter().any(|part| part["type"] != "text") {
        return Value::Array(parts);
    }
    let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
    texts.join("\n").into()
}

/// One part in the form of all.
fn part(mut part: Value, path: &str) -> Result<Value, ApiError> {
    match part["type"].as_str() {
        Some("text" | "input_text" | "output_text") if part["text"].is_string() => {
            Ok(json!({ "type": "text", "text": part["text"].take() }))
        }
        Some("refusal") => {
            Ok(json!({ "type": "text", "text": part["refusal"].as_str().unwrap_or_default() }))
        }
        Some("image_url" | "input_image") => picture(part, path),
        Some("input_audio" | "audio_url") => sound(part, path),
        Some(_) => {
            let text = format!("{path} has a type that is not taken: give text, image_url or input_audio");
            Err(ApiError::at(path, text))
        }
        _ => {
            let at = format!("{path}.type");
            Err(ApiError::at(&at, format!("{at} must be text, image_url or input_audio")))
        }
    }
}

/// A picture of chat completions, whose URL is in an object, or of responses, where it stands beside its detail.
fn picture(mut part: Value, path: &str) -> Result<Value, ApiError> {
    no_file(&part, path, "image_url")?;
    let at = part["at"].as_str().unwrap_or(path).to_owned();
    let place = format!("{path}.image_url");
    let given = match part["image_url"].take() {
        Value::String(url) => json!({ "url": url, "detail": part["detail"].take() }),
        other => other,
    };
    let PictureFields { url, detail } = typed(given, &place)?;
    let mut part = picture_part(&at, url);
    if let Some(detail) = detail {
        part["image_url"]["detail"] = json!(detail);
    }
    Ok(part)
}

/// A sound of chat completions and of responses, in base64, or at the URL of one.
fn sound(mut part: Value, path: &str) -> Result<Value, ApiError> {
    no_file(&part, path, "input_audio")?;
    let at = part["at"].as_str().unwrap_or(path).to_owned();
    let url = match (part["input_audio"].take(), part["audio_url"].take()) {
        (Value::Null, Value::String(url)) => url,
        (Value::Null, given) if part["type"] == "audio_url" => {
            typed::<SoundAddress>(given, &format!("{path}.audio_url"))?.url
        }
        (given, _) => in_base64(&typed::<SoundFields>(given, &format!("{path}.input_audio"))?.data),
    };
    Ok(sound_part(&at, url))
}

/// Refuses a part that names a file that was uploaded.
fn no_file(part: &Value, path: &str, instead: &str) -> Result<(), ApiError> {
    if part["file_id"].is_null() {
        return Ok(());
    }
    let at = format!("{path}.file_id");
    Err(ApiError::at(&at, format!("{at} is not supported: there are no files here, give {instead}")))
}

/// Takes the pictures and sounds out of messages, in their order; `{"type": "image"}` or `{"type": "audio"}` stays in the place
/// of each.
pub fn take_media(messages: &mut [Value]) -> Vec<SentMedia> {
    let lists = messages.iter_mut().filter_map(|message| message.get_mut("content")?.as_array_mut());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let taken = lists.flatten().filter_map(|part| {
        let (kind, field, left) = match part["type"].as_str() {
            Some("image_url") => (MediaKind::Picture, "image_url", "image"),
            Some("audio_url") => (MediaKind::Sound, "audio_url", "audio"),
            _ => return None,
        };
        let mut part = std::mem::replace(part, json!({ "type": left }));
        let url = match part[field]["url"].take() {
            Value::String(url) => url,
            _ => String::new(),
        };
        Some(SentMedia { kind, at: text(&part["at"]), url, low: part[field]["detail"] == "low" })
    });
    taken.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_joined_and_others_keep_their_places() {
        let text = |text: &str| json!({ "type": "text", "text": text });
        assert_eq!(content(json!([text("a"), text("b")]), "c").unwrap(), "a\nb");
        assert_eq!(content(json!("a"), "c").unwrap(), "a");
        let chat = json!({ "type": "image_url", "image_url": { "url": "data:1", "detail": "low" } });
        let response = json!({ "type": "input_image", "image_url": "data:2", "detail": "high" });
        let heard = json!({ "type": "input_audio", "input_audio": { "data": "AAAA", "format": "wav" } });
        let linked = json!({ "type": "audio_url", "audio_url": { "url": "https://a" } });
        let given = json!([text("a"), chat, response, text("b"), heard, linked]);
        let parts = content(given, "m[0].content").unwrap();
        assert_eq!(content(parts.clone(), "elsewhere").unwrap(), parts, "read twice it is the same");
        let mut messages = [json!({ "content": "hi" }), json!({ "content": parts })];
        let taken = take_media(&mut messages);
        let sent = |i: usize, url: &str, low| SentMedia {
            kind: if i < 3 { MediaKind::Picture } else { MediaKind::Sound },
            at: format!("m[0].content[{i}]"),
            url: url.into(),
            low,
        };
        let heard = [sent(4, "data:;base64,AAAA", false), sent(5, "https://a", false)];
        assert_eq!(taken, [vec![sent(1, "data:1", true), sent(2, "data:2", false)], heard.to_vec()].concat());
        let (image, audio) = (json!({ "type": "image" }), json!({ "type": "audio" }));
        assert_eq!(messages[1]["content"], json!([text("a"), image, image, text("b"), audio, audio]));
    }

    #[test]
    fn what_is_wrong_is_named_by_its_place() {
        let param = |part: Value| content(json!([part]), "c").unwrap_err().param.unwrap();
        assert_eq!(param(json!({ "type": "image_url" })), "c[0].image_url");
        assert_eq!(param(json!({ "type": "image_url", "image_url": {} })), "c[0].image_url");
        assert_eq!(param(json!({ "type": "image_url", "image_url": { "url": 7 } })), "c[0].image_url.url");
        let detail = json!({ "type": "input_image", "image_url": "data:", "detail": "much" });
        assert_eq!(param(detail), "c[0].image_url.detail");
        assert_eq!(param(json!({ "type": "input_image", "file_id": "file-1" })), "c[0].file_id");
        assert_eq!(param(json!({ "type": "input_audio" })), "c[0].input_audio");
        let audio = |audio: Value| json!({ "type": "input_audio", "input_audio": audio });
        assert_eq!(param(audio(json!({ "format": "wav" }))), "c[0].input_audio");
        assert_eq!(param(audio(json!({ "data": 7 }))), "c[0].input_audio.data");
        assert_eq!(param(json!({ "type": "audio_url", "audio_url": {} })), "c[0].audio_url");
        assert_eq!(param(json!({ "type": "input_audio", "file_id": "f" })), "c[0].file_id");
        assert_eq!(param(json!({ "type": "audio" })), "c[0]");
        assert_eq!(param(json!({ "text": "a" })), "c[0].type");
        assert_eq!(param(json!({ "type": "image" })), "c[0]", "a template's own form is no client's");
        assert_eq!(content(json!(7), "c").unwrap_err().param.as_deref(), Some("c"));
    }
}
