//! One request of a gateway, from its ticket to its last frame.

use super::{
    desk::ReplicaDesk,
    news::ToldRequest,
    port::{AskedRequest, FramePort},
};
use crate::{
    app::App,
    call::CallContext,
    frames::FrameKind,
    log::RequestLog,
    router::ReplicaRole,
    run::Attempt,
    ticket::{AnswerSummary, RequestTicket, ResponseHead},
};
use axum::{Router, body::Body, response::Response};
use http::{Request, header};
use http_body_util::BodyExt;
use std::{
    future::pending,
    io,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::{sync::oneshot, time::sleep};
use tower_service::Service;

/// How often an engine without news says that it lives.
const ALIVE: Duration = Duration::from_secs(2);

/// Answers a request. Dropping the future cancels it.
///
/// # Errors
/// When the gateway is gone, or the request is none: it then ends without an end.
pub(super) async fn attend(desk: &ReplicaDesk, asked: AskedRequest, port: FramePort) -> io::Result<()> {
    let AskedRequest { gateway, ticket, body, names, told } = asked;
    let app = desk.app.clone();
    let unreadable = || io::Error::from(io::ErrorKind::InvalidData);
    let attempt = Arc::new(Attempt::new(&told).ok_or_else(unreadable)?);
    for kept in &ticket.kept {
        app.kept.read(kept);
    }
    let method = ticket.method.as_str();
    let log = RequestLog::new(ticket.id.as_str().into(), ticket.peer.clone(), method, &ticket.uri);
    app.requests.fetch_add(1, Ordering::SeqCst);
    let news = names.map(|names| desk.news.asked(gateway, names));
    let prompt = match desk.role {
        ReplicaRole::Mixed => PromptUse::Own,
        ReplicaRole::Prefill => PromptUse::Handed,
    };
    let turn = AttendedRequest { app, log, attempt, port, news, prompt };
    let request = turn.request(&ticket, body).ok_or_else(unreadable)?;
    ticket.draws.within(turn.answer(desk.routes.clone(), request, &ticket.tenant)).await
}

/// A request that is being answered, until it has ended or is dropped.
struct AttendedRequest {
    app: App,
    log: RequestLog,
    attempt: Arc<Attempt>,
    port: FramePort,
    /// For the other gateways.
    news: Option<ToldRequest>,
    prompt: PromptUse,
}

/// What becomes of a prompt that is computed.
enum PromptUse {
    /// Its answer stays here.
    Own,
    /// Its answer goes on elsewhere, once it has begun.
    Handed,
    /// It is being written to the folder that the replicas share.
    Written(oneshot::Receiver<()>),
}

impl PromptUse {
    /// Waits until others can read it; for ever where that is not to come.
    async fn handed(&mut self) {
        let PromptUse::Written(kept) = self else { return pending().await };
        let kept = kept.await;
        *self = PromptUse::Own;
        if kept.is_err() {
            pending().await
        }
    }
}

impl AttendedRequest {
    fn request(&self, ticket: &RequestTicket, body: bytes::Bytes) -> Option<Request<Body>> {
        let context =
            CallContext { caller: ticket.caller(), id: ticket.id.as_str().into(), log: self.log.clone() };
        let mut request = Request::builder()
            .method(ticket.method.as_str())
            .uri(ticket.uri.as_str())
            .header(header::CONTENT_LENGTH, body.len())
            .extension(context)
            .extension(self.attempt.clone());
        for (name, value) in &ticket.headers {
            request = request.header(name, value);
        }
        request.body(Body::from(body)).ok()
    }

    async fn answer(mut self, mut routes: Router, request: Request<Body>, tenant: &str) -> io::Result<()> {
        let attempt = self.attempt.clone();
        let mut handler = pin!(routes.call(request));
        let response = loop {
            tokio::select! {
                biased;
                () = self.prompt.handed() => self.port.frame(FrameKind::Prefilled, &[]),
                Ok(response) = &mut handler => break response,
                () = attempt.news() => self.mark(false),
                () = sleep(ALIVE) => self.port.frame(FrameKind::Alive, &[]),
            }
            self.port.flush().await?;
        };
        let head = self.head(&response);
        self.port.value(FrameKind::Head, &head);
        let mut body = response.into_body();
        loop {
            tokio::select! {
                biased;
                () = self.prompt.handed() => self.port.frame(FrameKind::Prefilled, &[]),
                frame = body.frame() => match frame {
                    None => break,
                    Some(Err(_)) => return Err(io::ErrorKind::InvalidData.into()),
                    Some(Ok(frame)) => {
                        let data = frame.into_data().unwrap_or_default();
                        self.port.frame(FrameKind::Bytes, &data);
                        self.mark(head.stream);
                    }
                },
                () = attempt.news() => self.mark(false),
                () = sleep(ALIVE) => self.port.frame(FrameKind::Alive, &[]),
            }
            self.port.flush().await?;
        }
        self.end(tenant);
        self.port.flush().await
    }

    /// Marks what was written so far as told, where it can be; without events only where `bytes` were written.
    fn mark(&mut self, bytes: bool) {
        match self.attempt.is_run() {
            true => {
                let Some(told) = self.attempt.take_mark().filter(|told| bytes || !told.is_empty()) else {
                    return;
                };
                if !told.is_empty() {
                    self.news.iter_mut().for_each(ToldRequest::begun);
                    if let PromptUse::Handed = self.prompt {
                        self.prompt = PromptUse::Written(self.attempt.kept());
                    }
                }
                self.port.frame(FrameKind::Mark, &told);
            }
            false if bytes => self.port.frame(FrameKind::Final, &[]),
            false => {}
        }
    }

    fn head(&self, response: &Response) -> ResponseHead {
        self.log.entry().status = response.status().as_u16();
        let text = |value: &http::HeaderValue| value.to_str().unwrap_or_default().to_owned();
        let headers = response.headers().iter().map(|(name, value)| (name.to_string(), text(value)));
        let kind = response.headers().get(header::CONTENT_TYPE).map(text).unwrap_or_default();
        let stream = kind.starts_with("text/event-stream") || kind.starts_with("application/x-ndjson");
        let ignored = self.log.entry().ignored.clone();
        ResponseHead { status: response.status().as_u16(), headers: headers.collect(), stream, ignored }
    }

    fn end(&mut self, tenant: &str) {
        let entry = self.log.entry();
        let kept = entry.kept.as_ref().and_then(|id| Some((id, self.app.kept.find(id, tenant)?)));
        if let Some((id, kept)) = kept {
            // Values of this crate always become JSON: their keys are texts.
            let kept = serde_json::to_vec(&kept.written(id, tenant)).unwrap_or_default();
            self.port.frame(FrameKind::Kept, &kept);
            self.news.iter().for_each(|news| news.kept(&kept));
        }
        let summary = AnswerSummary {
            model: entry.model.clone(),
            tokens: [entry.usage.prompt, entry.usage.cached, entry.usage.completion],
            queue: entry.queue.as_secs_f64(),
            pictures: entry.pictures.iter().map(|size| [size.width, size.height]).collect(),
            sounds: entry.sounds.clone(),
            media_tokens: [entry.usage.media.image, entry.usage.media.audio],
            encode_seconds: entry.encode_seconds,
            seconds: [entry.prefill.as_secs_f64(), entry.decode.as_secs_f64()],
            finish: entry.finish.map(str::to_owned),
        };
        self.port.value(FrameKind::End, &summary);
    }
}

impl Drop for AttendedRequest {
    fn drop(&mut self) {
        let entry = self.log.entry();
        if entry.queued {
            self.app.end_rate.ended();
        }
        self.app.metrics.finish(&entry);
        self.app.recent.add(&entry);
        self.app.requests.fetch_sub(1, Ordering::SeqCst);
    }
}
