//! POST /api/pull and DELETE /api/delete: models of the hub, fetched and removed by name.

use super::fields::{DELETE, PULL};
use crate::{
    body::Body,
    call::{HttpCall, json_response},
    dialect::Dialect,
    error::ApiError,
    models::{PullRun, Registry},
};
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, header};
use http_body::Frame;
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::sync::mpsc;

/// Lines that may wait for a reader.
const BEHIND: usize = 16;

/// POST /api/pull: lines that tell how far it is, or one object at its end.
pub async fn pull(call: HttpCall) -> Result<Response, ApiError> {
    let mut body = call.body(&PULL).await?;
    let name = name(&mut body)?;
    let stream = body.take("stream")?.unwrap_or(true);
    call.finish(body);
    call.need_admin()?;
    let models = call.app.models.clone();
    let run = models.pull(&name)?;
    if !stream {
        run.finished().await?;
        models.admit(&name);
        return Ok(json_response(&success()));
    }
    call.log.entry().stream = true;
    let (lines, waiting) = mpsc::channel(BEHIND);
    tokio::spawn(tell(run, lines, models, name));
    let mut response = Response::new(axum::body::Body::new(LineStream(waiting)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// DELETE /api/delete.
pub async fn delete(call: HttpCall) -> Result<Response, ApiError> {
    let mut body = call.body(&DELETE).await?;
    let name = name(&mut body)?;
    call.finish(body);
    call.need_admin()?;
    call.app.models.remove(&name).await?;
    Ok(Response::default())
}

fn name(body: &mut Body) -> Result<String, ApiError> {
    let older: Option<String> = body.take("name")?;
    body.take("model")?.or(older).ok_or_else(|| ApiError::at("model", "model is missing"))
}

fn success() -> Value {
    json!({ "status": "success" })
}

/// Writes lines until the pull has ended or nobody reads them.
async fn tell(mut run: PullRun, lines: mpsc::Sender<Value>, models: Registry, name: String) {
    let (mut told, mut before) = (0, None);
    if lines.send(json!({ "status": "pulling manifest" })).await.is_err() {
        return;
    }
    loop {
        let state = run.now();
        let said = state.lines[told..].iter().map(|line| json!({ "status": line }));
        let mut new: Vec<Value> = said.collect();
        told = state.lines.len();
        let progress = &state.progress;
        if progress.size > 0 && before.as_ref() != Some(progress) {
            let mut line = json!({
                "status": format!("pulling {}", progress.file),
                "total": progress.size,
                "completed": progress.done.min(progress.size),
            });
            if let Some(digest) = &progress.digest {
                line["digest"] = json!(digest);
            }
            new.push(line);
            before = Some(progress.clone());
        }
        match &state.end {
            Some(Ok(())) => {
                models.admit(&name);
                new.push(success());
            }
            Some(Err(error)) => new.push(error.body(Dialect::Ollama, "")),
            None => {}
        }
        for line in new {
            if lines.send(line).await.is_err() {
                return;
            }
        }
        if state.end.is_some() {
            return;
        }
        tokio::select! {
            () = run.more() => {}
            () = lines.closed() => return,
        }
    }
}

/// A body of lines.
struct LineStream(mpsc::Receiver<Value>);

impl http_body::Body for LineStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let line = self.0.poll_recv(context);
        line.map(|line| line.map(|line| Ok(Frame::data(Bytes::from(format!("{line}\n"))))))
    }
}
