//! Prompts that are no conversations and have pictures: a text with markers where these stand.

use super::{HttpCall, pooled};
use crate::{
    body::{Body, FieldTable, taken},
    error::ApiError,
    media::{SentPicture, in_base64, is_inline},
    models::Lease,
    run::JobPrompt,
};
use lamina::Prompt;
use serde_json::Value;

/// What llama-server's clients write where a picture stands, whatever the model's own marker is.
pub const MEDIA_MARKER: &str = "<__media__>";

/// Fields of a prompt with pictures.
pub const SEEN_PROMPT: FieldTable = FieldTable {
    name: "prompt of POST /completion",
    sampling: false,
    fields: &[
        taken("prompt_string", "the text, with `<__media__>` or the model's own marker for each picture"),
        taken(
            "multimodal_data",
            "the pictures in order: files in base64; those without a marker stand first",
        ),
    ],
    also: &[],
};

impl HttpCall {
    /// All prompts in `value`, which is the body's field at `path`; some may be objects with pictures.
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
        let sent = sent_files(files, &given.path("multimodal_data"));
        self.ignore(&given);
        self.seen_text(lease, text, sent, path).await
    }

    /// A text with pictures: they take the places of its markers in order, and those beyond stand first. Special tokens of the
    /// text are read, as for all prompts of these endpoints.
    ///
    /// # Errors
    /// When a picture cannot be read, or there are more markers than pictures.
    pub async fn seen_text(
        &self,
        lease: &Lease,
        text: String,
        sent: Vec<SentPicture>,
        path: &str,
    ) -> Result<JobPrompt, ApiError> {
        let room = self.text_room(lease);
        if self.app.options.log_prompts {
            self.log.entry().prompt = Some(text.clone());
        }
        let pictures = self.pictures(lease, sent).await?;
        let (model, path) = (lease.live.model.clone(), path.to_owned());
        pooled(move || {
            room.check(text.len())?;
            let marked = match model.vision().filter(|_| !pictures.is_empty()) {
                Some(vision) => text.replace(MEDIA_MARKER, vision.prompt.marker),
                None => text,
            };
            let mut prompt = JobPrompt { tokens: vec![], pictures };
            let tokens = model.seeing_tokens(&Prompt::Text(marked), &prompt.images());
            prompt.tokens = tokens.map_err(|e| ApiError::from(e).of(&path))?;
            Ok(prompt)
        })
        .await
    }
}

/// Files in base64 of a list at `path`.
pub fn sent_files(files: Vec<String>, path: &str) -> Vec<SentPicture> {
    let sent = |(i, file): (usize, String)| SentPicture {
        at: format!("{path}[{i}]"),
        url: if is_inline(&file) { file } else { in_base64(&file) },
        low: false,
    };
    files.into_iter().enumerate().map(sent).collect()
}
