//! Pictures and sounds in messages: parts in order, markers in the rendered text, and their places among the tokens.
//!
//! A template writes the family's marker where a picture stands. What a user wrote that looks like a marker is broken before
//! the template sees it ([`crate::own_text`]), so only the template's own count; they are replaced *as text* by what the
//! family wants around its rows, and the whole is tokenized once.

use std::ops::Range;

use lamina_tokenize::Tokenizer;
use serde_json::{Map, Value, json};

use crate::conversation::Conversation;
use crate::error::ChatError;
use crate::own_text::Marked;
use crate::template::ChatTemplate;

/// Types of parts that are pictures.
const PICTURES: &[&str] = &["image", "image_url", "input_image"];

/// Types of parts that are sounds.
const SOUNDS: &[&str] = &["audio", "audio_url", "input_audio"];

/// What a family writes for a picture or a sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaMarks<'a> {
    /// Type of its parts, as templates know it: `image` or `audio`.
    pub part: &'a str,
    /// What a template writes where a picture stands.
    pub marker: &'a str,
    /// The token whose places the rows take.
    pub soft: &'a str,
}

/// A picture or a sound among the parts of messages, as it came.
#[derive(Clone, Debug, PartialEq)]
pub struct PicturePart {
    /// Where it stands, such as `messages[2].content[1]`.
    pub at: String,
    /// The part: `type` and what holds it.
    pub part: Map<String, Value>,
}

/// What takes the place of a picture's marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpandedPicture {
    /// The text, with as many soft tokens as there are rows.
    pub text: String,
    /// Rows.
    pub rows: usize,
}

/// Tokens of a prompt, and where the rows of its pictures go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaPrompt {
    /// Tokens; those at `places` are the soft token.
    pub ids: Vec<u32>,
    /// For each picture, the places of its rows in order.
    pub places: Vec<Vec<Range<usize>>>,
}

/// Whether a part of a message is a picture.
pub fn has_pictures(messages: &[Value]) -> bool {
    has(messages, PICTURES)
}

/// Whether a part of a message is a sound.
pub fn has_sounds(messages: &[Value]) -> bool {
    has(messages, SOUNDS)
}

fn has(messages: &[Value], kinds: &[&str]) -> bool {
    let parts = messages.iter().filter_map(|message| message.get("content").and_then(Value::as_array));
    parts.flatten().any(|part| is_one(part, kinds))
}

fn is_one(part: &Value, kinds: &[&str]) -> bool {
    part.get("type").and_then(Value::as_str).is_some_and(|kind| kinds.contains(&kind))
}

/// The messages with `{"type": "image"}` for each picture, as templates know them, and the pictures in order.
pub fn take_pictures(messages: &[Value]) -> (Vec<Value>, Vec<PicturePart>) {
    take(messages, PICTURES)
}

/// The messages with `{"type": "audio"}` for each sound, as templates know them, and the sounds in order.
pub fn take_sounds(messages: &[Value]) -> (Vec<Value>, Vec<PicturePart>) {
    take(messages, SOUNDS)
}

/// The messages with parts of the first kind for all of `kinds`, and these.
fn take(messages: &[Value], kinds: &[&str]) -> (Vec<Value>, Vec<PicturePart>) {
    let mut taken = vec![];
    let mut messages = messages.to_vec();
    for (i, message) in messages.iter_mut().enumerate() {
        let Some(parts) = message.get_mut("content").and_then(Value::as_array_mut) else { continue };
        for (j, value) in parts.iter_mut().enumerate() {
            if let Some(part) = value.as_object().filter(|_| is_one(value, kinds)).cloned() {
                taken.push(PicturePart { at: format!("messages[{i}].content[{j}]"), part });
                *value = json!({"type": kinds[0]});
            }
        }
    }
    (messages, taken)
}

/// A prompt that is no conversation, with its markers replaced in order. Pictures that it has no marker for stand in front,
/// one after the other.
///
/// # Errors
/// When it has more markers than there are pictures.
pub fn expand_prompt(
    prompt: &str,
    marks: MediaMarks<'_>,
    pictures: &[ExpandedPicture],
) -> Result<String, ChatError> {
    let found = prompt.matches(marks.marker).count();
    let Some(missing) = pictures.len().checked_sub(found) else {
        return Err(ChatError::Pictures { found, pictures: pictures.len(), marker: marks.marker.to_owned() });
    };
    expand(&(marks.marker.repeat(missing) + prompt), marks.marker, pictures)
}

/// Where the rows of pictures go among tokens.
///
/// # Errors
/// The tokenizer has no such token, or there are more or fewer of it than rows.
pub fn place_rows(
    ids: Vec<u32>,
    tokenizer: &Tokenizer,
    soft: &str,
    rows: &[usize],
) -> Result<MediaPrompt, ChatError> {
    let id = tokenizer.token_to_id(soft).ok_or_else(|| ChatError::NoSoftToken(soft.to_owned()))?;
    let mut found = (0..ids.len()).filter(|&i| ids[i] == id);
    let wanted: usize = rows.iter().sum();
    let count = found.clone().count();
    if count != wanted {
        return Err(ChatError::Rows { soft: soft.to_owned(), found: count, rows: wanted });
    }
    let places = rows.iter().map(|&n| ranges(found.by_ref().take(n))).collect();
    Ok(MediaPrompt { ids, places })
}

/// Places that follow one another, as ranges.
fn ranges(places: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = vec![];
    for at in places {
        match all.last_mut() {
            Some(last) if last.end == at => last.end += 1,
            _ => all.push(at..at + 1),
        }
    }
    all
}

fn expand(text: &str, marker: &str, pictures: &[ExpandedPicture]) -> Result<String, ChatError> {
    let pieces: Vec<&str> = text.split(marker).collect();
    if pieces.len() != pictures.len() + 1 {
        let (found, marker) = (pieces.len() - 1, marker.to_owned());
        return Err(ChatError::Pictures { found, pictures: pictures.len(), marker });
    }
    let around = pieces[1..].iter().zip(pictures);
    Ok(around.fold(pieces[0].to_owned(), |all, (piece, picture)| all + &picture.text + piece))
}

impl ChatTemplate {
    /// The tokens of a conversation whose messages came from [`take_pictures`]; `pictures` are what takes the places of the
    /// markers, in order.
    ///
    /// # Errors
    /// As for [`ChatTemplate::encode`]; when the rendered text has more or fewer markers than there are pictures.
    pub fn encode_media(
        &self,
        conversation: &Conversation<'_>,
        tokenizer: &Tokenizer,
        marks: MediaMarks<'_>,
        pictures: &[ExpandedPicture],
    ) -> Result<MediaPrompt, ChatError> {
        let marked = Marked::around(conversation, self.source(), tokenizer, &[marks.marker, marks.soft])?;
        let conversation =
            marked.as_ref().map_or_else(|| conversation.clone(), |m| m.conversation(conversation));
        let text = expand(&self.render_media(&conversation, marks)?, marks.marker, pictures)?;
        let ids = match marked {
            None => tokenizer.encode_chat(&text, None)?,
            Some(marked) => marked.encode(&text, tokenizer)?.rest()?,
        };
        place_rows(ids, tokenizer, marks.soft, &pictures.iter().map(|p| p.rows).collect::<Vec<_>>())
    }

    /// The text of a conversation whose messages came from [`take_pictures`] or [`take_sounds`], with a marker where each stands.
    ///
    /// # Errors
    /// As for [`ChatTemplate::render`].
    pub fn render_media(
        &self,
        conversation: &Conversation<'_>,
        marks: MediaMarks<'_>,
    ) -> Result<String, ChatError> {
        if self.knows(marks) {
            return self.render(conversation);
        }
        let flat: Vec<Value> = conversation.messages.iter().map(|m| flattened(m, marks)).collect();
        self.render(&Conversation { messages: &flat, ..conversation.clone() })
    }

    /// Whether the template writes the marker for such a part, and texts of parts as texts.
    fn knows(&self, marks: MediaMarks<'_>) -> bool {
        const TEXT: &str = "a text of a part";
        let parts = json!([{"type": marks.part}, {"type": "text", "text": TEXT}]);
        let messages = [json!({"role": "user", "content": parts})];
        let probe =
            Conversation { messages: &messages, add_generation_prompt: true, ..Conversation::default() };
        let quoted = |text: &str| ["'type'", "\"type\""].iter().any(|name| text.contains(name));
        self.render(&probe).is_ok_and(|text| {
            text.matches(marks.marker).count() == 1 && text.matches(TEXT).count() == 1 && !quoted(&text)
        })
    }
}

/// A message whose content is one text, with the marker where pictures or sounds stand, for templates that know nothing else.
fn flattened(message: &Value, MediaMarks { part: known, marker, .. }: MediaMarks<'_>) -> Value {
    let Some(parts) = message.get("content").and_then(Value::as_array) else { return message.clone() };
    let mut text = String::new();
    for part in parts {
        let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
        if kind == known {
            text.push_str(marker);
        } else if let Some(own) = part.get("text").and_then(Value::as_str).or(part.as_str()) {
            // As the models were trained: a line of its own for a picture before a text.
            if text.ends_with(marker) && !own.starts_with(char::is_whitespace) {
                text.push('\n');
            }
            text.push_str(own);
        }
    }
    let mut message = message.clone();
    message["content"] = text.into();
    message
}
