//! What requests waited for, and recordings of what a model does.

use crate::{
    body::{Body, FieldTable, taken},
    call::{HttpCall, json_response, pooled},
    error::{ApiError, Cause},
};
use axum::{body::Body as HttpBody, response::Response};
use http::{HeaderValue, header};
use lamina::TraceDetail;
use lamina_see::{Trace, of_tagged, page::trace_page, read::of_tag};
use serde_json::{Value, json};
use std::time::Duration;

/// Seconds of a recording at most.
const MOST_SECONDS: f64 = 300.0;

/// Fields of POST /debug/trace.
pub const TRACE: FieldTable = FieldTable {
    name: "POST /debug/trace",
    sampling: false,
    fields: &[
        taken("seconds", "how long is recorded, up to 300 [default: 10]"),
        taken("detail", "steps, ops, tokens or inside [default: ops]"),
        taken("request", "instead: the steps of this request or answer, as far as they are remembered"),
        taken("model", "name of the model"),
    ],
    also: &[],
};

/// GET /debug/requests: the last ones with where their time went, the slowest first. With keys, one without the right to
/// change the server sees its own.
pub async fn requests(call: HttpCall) -> Result<Response, ApiError> {
    let all = call.app.recent.slowest();
    let own = all.iter().filter(|request| call.caller.admin || request.key == call.caller.key);
    let list: Vec<Value> = own.map(|request| request.json()).collect();
    Ok(json_response(&json!({ "requests": list })))
}

/// POST /debug/trace: a recording of the next seconds, or what is remembered of one request.
pub async fn trace(call: HttpCall) -> Result<Response, ApiError> {
    call.need_traces()?;
    let mut body = call.body(&TRACE).await?;
    let trace = match body.take::<String>("request")? {
        Some(id) => remembered(&call, &mut body, id).await?,
        None => recorded(&call, &mut body).await?,
    };
    call.finish(body);
    told(&call, trace).await
}

/// GET /debug/trace/{id}: the recording of a request that asked for one.
pub async fn kept(call: HttpCall) -> Result<Response, ApiError> {
    call.need_traces()?;
    let found = call.app.traces.find(call.path("id"), &call.caller.tenant, call.caller.admin).await?;
    let lost = || ApiError::new(Cause::NoPath, "there is no such trace, or it is no longer kept");
    told(&call, found.map(std::sync::Arc::unwrap_or_clone).ok_or_else(lost)?).await
}

async fn remembered(call: &HttpCall, body: &mut Body, id: String) -> Result<Trace, ApiError> {
    let shown: String = id.chars().filter(|c| !c.is_control()).take(80).collect();
    let lost = move || {
        let text = format!("no steps of a request or answer `{shown}` are remembered");
        ApiError::at("request", text)
    };
    let found = call.app.recent.find(&id).ok_or_else(&lost)?;
    let name = body.take::<String>("model")?.unwrap_or_else(|| found.model.clone());
    let lease = call.lease(Some(&name)).await?;
    pooled(move || {
        let log = lease.live.model.recorded().ok_or_else(&lost)?;
        let mut trace = of_tagged(&lease.live.model, &log, &[]);
        found.wire.write(&mut trace, log.began);
        of_tag(trace, found.number).ok_or_else(lost)
    })
    .await
}

async fn recorded(call: &HttpCall, body: &mut Body) -> Result<Trace, ApiError> {
    let seconds = body.take::<f64>("seconds")?.unwrap_or(10.0);
    if !(seconds > 0.0 && seconds <= MOST_SECONDS) {
        let text = format!("seconds is {seconds}, but must be above 0 and up to {MOST_SECONDS}");
        return Err(ApiError::at("seconds", text));
    }
    let detail = match body.take::<String>("detail")? {
        None => TraceDetail::Ops,
        Some(text) => text.parse().map_err(|e| ApiError::at("detail", format!("detail: {e}")))?,
    };
    let lease = call.model(body).await?;
    let (desk, live) = (call.app.traces.clone(), lease.live.clone());
    let recording = pooled(move || desk.begin(live, detail, None)).await?;
    tokio::select! {
        () = tokio::time::sleep(Duration::from_secs_f64(seconds)) => {}
        () = call.app.end.cancelled() => {}
    }
    let lost = || ApiError::fault("the model has stopped");
    pooled(move || recording.finish().ok_or_else(lost)).await
}

/// The trace as a page for who wants one, else as JSON.
async fn told(call: &HttpCall, trace: Trace) -> Result<Response, ApiError> {
    let page = call.wants_page();
    let text = pooled(move || Ok(if page { trace_page(&trace) } else { trace.json() })).await?;
    let mut response = Response::new(HttpBody::from(text));
    let kind = if page { "text/html; charset=utf-8" } else { "application/json" };
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
