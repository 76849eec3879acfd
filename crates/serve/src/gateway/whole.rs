//! Endpoints that are about the whole service: its state, and what changes all replicas.

use super::{
    Gateway, LATER,
    link::Link,
    lock::held,
    replicas::{Replica, ReplicaSeat},
    response,
};
use crate::{
    call::{HttpCall, json_response},
    error::{ApiError, Cause},
    frames::FrameKind,
    ticket::{RequestTicket, ResponseHead},
};
use axum::{body::Body, response::Response};
use bytes::{Bytes, BytesMut};
use http::Method;
use serde_json::{Value, json};
use std::{io, sync::Mutex};

/// What all replicas were told, so that new ones are told too.
#[derive(Default)]
pub(super) struct ServiceSettings(Mutex<Vec<(RequestTicket, Bytes)>>);

impl ServiceSettings {
    /// Keeps what all replicas were told; an earlier word to the same endpoint is over.
    fn keep(&self, ticket: RequestTicket, body: Bytes) {
        let mut told = held(&self.0);
        told.retain(|(old, old_body)| {
            old.uri != ticket.uri || (ticket.uri.starts_with("/models/") && *old_body != body)
        });
        told.push((ticket, body));
    }

    /// Tells a replica that has just started what the others were told.
    pub async fn settle(&self, place: &ReplicaSeat) {
        if place.life.settled.swap(true, std::sync::atomic::Ordering::SeqCst) {
            return;
        }
        let told = held(&self.0).clone();
        for (ticket, body) in told {
            // One that is lost meanwhile is seen by the request that comes for.
            _ = ask(place, &ticket, &body).await;
        }
    }
}

/// Asks one replica, and waits for the whole response.
async fn ask(place: &ReplicaSeat, ticket: &RequestTicket, body: &Bytes) -> io::Result<(ResponseHead, Bytes)> {
    let mut link = Link::open(&place.life.door, &mut ticket.clone(), (body, None), &[]).await?;
    let (mut head, mut bytes) = (None, BytesMut::new());
    loop {
        match link.next().await? {
            (FrameKind::Head, payload) => head = serde_json::from_slice(&payload).ok(),
            (FrameKind::Bytes, payload) => bytes.extend_from_slice(&payload),
            (FrameKind::End, _) => {
                let head = head.ok_or(io::ErrorKind::InvalidData)?;
                return Ok((head, bytes.freeze()));
            }
            _ => {}
        }
    }
}

impl Gateway {
    /// Answers what is about the whole service; none where one replica answers.
    pub(super) async fn whole(
        &self,
        call: &HttpCall,
        method: &Method,
        uri: &str,
    ) -> Option<Result<Response, ApiError>> {
        let path = uri.split('?').next().unwrap_or_default();
        let read = method == Method::GET || method == Method::HEAD;
        Some(match path {
            "/health" | "/v1/health" | "/ready" if read => self.health(),
            "/replicas" if read => call.need_admin().map(|()| json_response(&self.replicas.told())),
            "/slots" if read => self.slots(call, uri).await,
            _ if path.starts_with("/debug/trace") => {
                Err(ApiError::unsupported("a server with replicas makes no recordings: ask one without"))
            }
            "/models/load" | "/models/unload" | "/lora-adapters" if method == Method::POST => {
                self.tell_all(call, uri).await
            }
            _ => {
                let (number, part) =
                    path.strip_prefix("/replicas/").map(|rest| rest.split_once('/').unwrap_or((rest, "")))?;
                match (number.parse::<usize>().ok()?, part) {
                    (number, "") if method == Method::POST => self.renew(call, number),
                    (number, "metrics") if read => self.metrics_of(call, number).await,
                    _ => return None,
                }
            }
        })
    }

    fn health(&self) -> Result<Response, ApiError> {
        match self.replicas.any() {
            true => Ok(json_response(&json!({ "status": "ok" }))),
            false => Err(ApiError::unavailable("Loading model", LATER)),
        }
    }

    /// POST /replicas/{id}: another process takes the place of this one, whose answers go on elsewhere.
    fn renew(&self, call: &HttpCall, number: usize) -> Result<Response, ApiError> {
        call.need_admin()?;
        match self.replicas.renew(number) {
            true => Ok(json_response(&json!({ "success": true }))),
            false => Err(ApiError::new(Cause::NoPath, "there is no such replica, or it does not run")),
        }
    }

    /// GET /replicas/{id}/metrics: the numbers of this very one.
    async fn metrics_of(&self, call: &HttpCall, number: usize) -> Result<Response, ApiError> {
        let none = || ApiError::new(Cause::NoPath, "there is no such replica, or it does not run");
        let place = self.replicas.place_at(number).ok_or_else(none)?;
        let ticket = self.ticket(call, Method::GET, "/metrics".into());
        let lost = |e| ApiError::unavailable(format!("replica {number} was not reached: {e}"), LATER);
        let (head, bytes) = ask(&place, &ticket, &Bytes::new()).await.map_err(lost)?;
        Ok(response(&head, Body::from(bytes)))
    }

    /// GET /slots: those of all replicas, one after another.
    async fn slots(&self, call: &HttpCall, uri: &str) -> Result<Response, ApiError> {
        let (ticket, body) = (self.ticket(call, Method::GET, uri.to_owned()), Bytes::new());
        let mut all = vec![];
        for number in 0..self.replicas.all().len() {
            let Some(place) = self.replicas.place_at(number) else { continue };
            let Ok((head, bytes)) = ask(&place, &ticket, &body).await else { continue };
            let Ok(Value::Array(slots)) = serde_json::from_slice::<Value>(&bytes) else {
                return Ok(response(&head, Body::from(bytes)));
            };
            all.extend(slots.into_iter().enumerate().map(|(i, mut slot)| {
                slot["id"] = json!(number * self.app.options.max_running + i);
                slot["replica"] = json!(number);
                slot
            }));
        }
        Ok(json_response(&Value::Array(all)))
    }

    /// Tells all replicas; the first that refuses answers for all.
    async fn tell_all(&self, call: &HttpCall, uri: &str) -> Result<Response, ApiError> {
        let body = Bytes::from(call.bytes().await?);
        let ticket = self.ticket(call, Method::POST, uri.to_owned());
        let mut last = None;
        for number in 0..self.replicas.all().len() {
            let Some(place) = self.replicas.place_at(number) else { continue };
            self.settings.settle(&place).await;
            let lost = |e| ApiError::unavailable(format!("replica {number} was not reached: {e}"), LATER);
            let (head, bytes) = ask(&place, &ticket, &body).await.map_err(lost)?;
            let refused = head.status != 200;
            last = Some(response(&head, Body::from(bytes)));
            if refused {
                break;
            }
        }
        let answer = last.ok_or_else(|| ApiError::unavailable("no replica can answer", LATER))?;
        if answer.status() == 200 {
            self.settings.keep(ticket, body);
        }
        Ok(answer)
    }

    /// Asks a replica that was silent whether it lives.
    pub(super) async fn wake(&self, replica: &Replica) {
        let Some(life) = replica.life() else { return };
        let mut ticket = self.plain_ticket();
        ticket.uri = "/health".into();
        if let Ok(mut link) = Link::open(&life.door, &mut ticket, (&Bytes::new(), None), &[]).await
            && link.next().await.is_ok()
        {
            life.speaks(true);
        }
    }
}
