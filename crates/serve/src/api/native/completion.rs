//! POST /completion.

use super::{
    completion_render::{NativeRenderer, Told},
    steer::{known_seed, logit_bias, samplers},
};
use crate::{
    body::{Body, FieldSpec, FieldTable, harmless, taken},
    call::{HttpCall, MEDIA_MARKER, sent_files},
    error::ApiError,
    media::{MediaKind, SentMedia},
    models::Lease,
    run::{AnswerJob, JobPrompt, Split, Wishes},
};
use axum::response::Response;
use lamina::sample::Value as SampleValue;
use serde::Deserialize;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Fields of everything that is answered here.
pub const ANSWER: &[FieldSpec] = &[
    taken("model", "name of the model or of an adapter"),
    taken("n_predict", "tokens at most; -1: to the end, 0: only the prompt is computed"),
    taken("max_tokens", "the same"),
    taken("stream", "the answer comes as it grows"),
    taken("return_tokens", "tokens of the answer"),
    taken("timings_per_token", "timings in every piece"),
    taken("response_fields", "paths of the fields that the answer has"),
    taken("t_max_predict_ms", "time after which the answer is cut"),
    taken("samplers", "names; those that are not listed are off"),
    harmless("t_max_prompt_ms", "a prompt is computed whole"),
    taken("n_indent", "an answer ends before a line with fewer blanks in front [default: 0]"),
    taken("return_progress", "a stream tells how much of the prompt is computed"),
];

/// Fields of the body.
pub const COMPLETION: FieldTable = FieldTable {
    name: "POST /completion",
    sampling: true,
    fields: &[
        taken(
            "prompt",
            "a text, token ids, both mixed, {prompt_string, multimodal_data}, or a list of these",
        ),
        taken(
            "image_data",
            "pictures of a prompt that is a text: [{data, id}], which stands where the text has [img-id]",
        ),
    ],
    also: &[ANSWER],
};

/// The handler.
pub async fn completion(call: HttpCall) -> Result<Response, ApiError> {
    let mut body = call.body(&COMPLETION).await?;
    let lease = call.model(&mut body).await?;
    let prompt = body.value("prompt").ok_or_else(|| ApiError::at("prompt", "prompt is missing"))?;
    let images: Vec<ImageData> = body.take("image_data")?.unwrap_or_default();
    let asked = Asked::read(&call, &mut body, &lease)?;
    call.finish(body);
    let prompts = match (images.is_empty(), prompt) {
        (true, prompt) => call.seen_prompts(&lease, prompt, "prompt").await?,
        (false, Value::String(text)) => {
            let (text, sent) = placed(&text, images);
            vec![call.seen_text(&lease, text, sent, "prompt").await?]
        }
        _ => return Err(ApiError::at("image_data", "image_data needs a prompt that is a text")),
    };
    answer(&call, lease, prompts, asked).await
}

/// A picture that a prompt names by its id.
#[derive(Deserialize)]
struct ImageData {
    /// The file in base64.
    data: String,
    /// Its number.
    id: u64,
}

/// The text with markers in the place of `[img-id]`, and the pictures in their order: those that it does not name come first.
fn placed(text: &str, images: Vec<ImageData>) -> (String, Vec<SentMedia>) {
    let (ids, files): (Vec<u64>, Vec<String>) =
        images.into_iter().map(|image| (image.id, image.data)).unzip();
    let files = sent_files(files, "image_data", |_| MediaKind::Picture);
    let (mut out, mut named, mut rest) = (String::new(), vec![], text);
    while let Some((before, behind)) = rest.split_once("[img-") {
        let mark = behind.split_once(']').and_then(|(id, behind)| Some((id.parse::<u64>().ok()?, behind)));
        let found = mark.and_then(|(id, behind)| Some((ids.iter().position(|known| *known == id)?, behind)));
        out += before;
        rest = match found {
            Some((at, behind)) => {
                out += MEDIA_MARKER;
                named.push(at);
                behind
            }
            None => {
                out += "[img-";
                behind
            }
        };
    }
    let unnamed = (0..files.len()).filter(|at| !named.contains(at));
    let order: Vec<usize> = unnamed.chain(named.iter().copied()).collect();
    (out + rest, order.into_iter().map(|at| files[at].clone()).collect())
}

/// What is asked for beside the prompt.
pub struct Asked {
    stream: bool,
    wishes: Wishes,
    told: Told,
    split: Split,
}

impl Asked {
    /// Reads all fields but the prompt.
    ///
    /// # Errors
    /// When one has a wrong type or value.
    pub fn read(call: &HttpCall, body: &mut Body, lease: &Lease) -> Result<Asked, ApiError> {
        let stream = body.take("stream")?.unwrap_or(false);
        let split = body.take::<usize>("n_indent")?.map_or(Split::Plain, Split::Indented);
        let biases = logit_bias(body, lease)?;
        let told = Told {
            tokens: body.take("return_tokens")?.unwrap_or(false),
            timings: body.take("timings_per_token")?.unwrap_or(false),
            fields: body.take("response_fields")?.unwrap_or_default(),
        };
        let progress = body.take("return_progress")?.unwrap_or(false);
        let n_predict = body.take::<i64>("n_predict")?.or(body.take("max_tokens")?);
        let cut: Option<f64> = body.take("t_max_predict_ms")?;
        let mut sampling = call.app.options.sampling.clone();
        samplers(body, &mut sampling)?;
        let mut wishes = call.options_from(body, lease, sampling)?;
        let generate = &mut wishes.generate;
        generate.progress = progress && stream;
        match n_predict {
            None => {}
            Some(n) => generate.max_tokens = usize::try_from(n).ok(),
        }
        if let Some(biases) = biases {
            let set = generate.sampling.set("logit_bias", SampleValue::Biases(biases));
            set.map_err(|e| ApiError::at("logit_bias", e.to_string()))?;
        }
        if let Some(ms) = cut.filter(|ms| *ms > 0.0) {
            let time = Duration::try_from_secs_f64(ms / 1e3);
            let time = time.map_err(|_| ApiError::at("t_max_predict_ms", "t_max_predict_ms is too large"))?;
            let own = Instant::now().checked_add(time);
            // The server's own limit is told as an error, this one cuts.
            if generate.terms.deadline.is_none_or(|limit| own.is_some_and(|own| own < limit)) {
                generate.terms.deadline = own;
                wishes.cut_at_deadline = true;
            }
        }
        known_seed(&mut wishes.generate.sampling);
        Ok(Asked { stream, wishes, told, split })
    }
}

/// Answers prompts.
///
/// # Errors
/// Whatever is wrong with them.
pub async fn answer(
    call: &HttpCall,
    lease: Lease,
    prompts: Vec<JobPrompt>,
    asked: Asked,
) -> Result<Response, ApiError> {
    let Asked { stream, wishes, told, split } = asked;
    let tokenizer = lease.live.model.tokenizer().cloned();
    let tokens: Vec<Vec<u32>> = prompts.iter().map(|prompt| prompt.tokens.clone()).collect();
    let renderer = NativeRenderer::new(lease.name(), tokenizer, &tokens, &wishes, told, stream);
    let job = AnswerJob { lease, prompts, wishes, split };
    call.answer(job, stream, renderer).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_stand_where_the_text_names_them() {
        let images = || (1..4).map(|id| ImageData { data: format!("d{id}"), id: 10 * id }).collect();
        let places = |text: &str| {
            let (text, sent) = placed(text, images());
            (text, sent.into_iter().map(|sent| sent.at).collect::<Vec<_>>().join(" "))
        };
        let at = |places: &[usize]| {
            places.iter().map(|i| format!("image_data[{i}]")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            places("a [img-30] b [img-10][img-20]"),
            ("a <__media__> b <__media__><__media__>".into(), at(&[2, 0, 1]))
        );
        assert_eq!(places("[img-7] [img-x] [img-20"), ("[img-7] [img-x] [img-20".into(), at(&[0, 1, 2])));
        assert_eq!(places("[img-[img-20]"), ("[img-<__media__>".into(), at(&[0, 2, 1])));
        assert_eq!(places("[img-20][img-20]").1, at(&[0, 2, 1, 1]));
    }
}
