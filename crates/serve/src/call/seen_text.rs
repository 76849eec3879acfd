//! Prompts that are no conversations and have pictures or sounds: a text with markers where these stand.

use super::{HttpCall, pooled};
use crate::{
    body::{Body, FieldTable, taken},
    error::ApiError,
    media::{MediaKind, SentMedia, beginning, in_base64},
    models::Lease,
    run::JobPrompt,
};
use lamina::{Model, Prompt};
use serde_json::Value;

/// What llama-server's clients write where a picture or a sound stands, whatever the model's own marker is.
pub const MEDIA_MARKER: &str = "<__media__>";

/// Fields of a prompt with pictures or sounds.
pub const SEEN_PROMPT: FieldTable = FieldTable {
    name: "prompt of POST /completion",
    sampling: false,
    fields: &[
        taken(
            "prompt_string",
            "the text, with `<__media__>` or the model's own marker for each picture or sound",
        ),
        taken(
            "multimodal_data",
            "the pictures and sounds in order: files in base64; those without a marker stand first",
        ),
    ],
    also: &[],
};

impl HttpCall {
    /// All prompts in `value`, which is the body's field at `path`; some may be objects with pictures or sounds.
    ///
    /// # Errors
    /// As for [`HttpCall::prompts`] and [`HttpCall::seen_text`].
    pub async fn seen_prompts(
        &self,
        lease: &Lease,
        value: Value,
        path: &str,
    ) -> Result<Vec<JobPrompt>, ApiError> {
        let items = match value {
            Value::Array(items) if items.iter().any(Value::is_object) => items,
            Value::Object(_) => return Ok(vec![self.seen_prompt(lease, value, path).await?]),
            value => {
                let prompts = self.prompts(lease, value, path).await?;
                return Ok(prompts.into_iter().map(JobPrompt::from).collect());
            }
        };
        let mut prompts = vec![];
        for (i, item) in items.into_iter().enumerate() {
            let path = format!("{path}[{i}]");
            match item.is_object() {
                true => prompts.push(self.seen_prompt(lease, item, &path).await?),
                false => {
                    prompts.extend(self.prompts(lease, item, &path).await?.into_iter().map(JobPrompt::from))
                }
            }
        }
        Ok(prompts)
    }

    /// A prompt that is an object.
    async fn seen_prompt(&self, lease: &Lease, value: Value, path: &str) -> Result<JobPrompt, ApiError> {
        let mut given = Body::new(value, &SEEN_PROMPT, path, self.app.options.lenient)?;
        let text: String = given.need("prompt_string")?;
        let files: Vec<String> = given.take("multimodal_data")?.unwrap_or_default();
        let sent = sent_files(files, &given.path("multimodal_data"), |url| {
            MediaKind::guessed(&beginning(url), &lease.live.model)
        });
        self.ignore(&given);
        self.seen_text(lease, text, sent, path).await
    }

    /// A text with pictures or sounds: they take the places of its markers in order, and those beyond stand first. Special tokens of the
    /// text are read, as for all prompts of these endpoints.
    ///
    /// # Errors
    /// When one cannot be read, or there are more markers than of them.
    pub async fn seen_text(
        &self,
        lease: &Lease,
        text: String,
        sent: Vec<SentMedia>,
        path: &str,
    ) -> Result<JobPrompt, ApiError> {
        let room = self.text_room(lease);
        if self.app.options.log_prompts {
            self.log.entry().prompt = Some(text.clone());
        }
        let media = self.media(lease, sent).await?;
        let (model, path) = (lease.live.model.clone(), path.to_owned());
        pooled(move || {
            room.check(text.len())?;
            let mut prompt = JobPrompt { tokens: vec![], media };
            let marked = marked(text, &prompt, &model);
            let tokens = model.media_tokens(&Prompt::Text(marked), &prompt.inputs());
            prompt.tokens = tokens.map_err(|e| ApiError::from(e).of(&path))?;
            Ok(prompt)
        })
        .await
    }
}

/// The text with the model's own markers in the places of others' for its pictures and sounds in order; what is beyond them gets
/// the last one's, and is refused.
fn marked(text: String, prompt: &JobPrompt, model: &Model) -> String {
    let markers: Vec<&str> = prompt.media.iter().filter_map(|m| m.decoded.kind().marker(model)).collect();
    let Some(last) = markers.last() else { return text };
    let mut pieces = text.split(MEDIA_MARKER);
    let first = pieces.next().unwrap_or_default().to_owned();
    let with = |text: String, (i, piece): (usize, &str)| text + markers.get(i).unwrap_or(last) + piece;
    pieces.enumerate().fold(first, with)
}

/// Files in base64 of a list at `path`, of the kinds that `kind` tells of their URLs.
pub fn sent_files(files: Vec<String>, path: &str, kind: impl Fn(&str) -> MediaKind) -> Vec<SentMedia> {
    let sent = |(i, file): (usize, String)| {
        let url = in_base64(&file);
        SentMedia { kind: kind(&url), at: format!("{path}[{i}]"), url, low: false }
    };
    files.into_iter().enumerate().map(sent).collect()
}
