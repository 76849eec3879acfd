//! A server whose engines are processes of their own. It carries requests to them and their answers back, and keeps of each
//! answer what another engine needs to go on with it: the client of an engine that is lost sees a pause and nothing else.

mod body;
mod carry;
mod crash;
mod door;
mod join_desk;
mod link;
mod lock;
mod others;
mod replicas;
mod watch;
mod whole;

use crate::{
    api,
    app::App,
    call::{CallContext, HttpCall, SMALL_BODY, pooled, refusal},
    dialect::Dialect,
    error::{ApiError, Cause},
    router::{MOST_NAMES, MOST_REPLICAS, ReplicaRouter, RequestNames, RouteTarget},
    run::FixedDraws,
    ticket::ReplicaPlace,
    ticket::{RequestTicket, ResponseHead},
};
use axum::{Router, body::Body, extract::Request, response::Response};
use body::CarriedBody;
use bytes::Bytes;
use carry::{Carry, Piece};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use join_desk::JoinDesk;
use replicas::{ReplicaSeat, Replicas};
use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::time::timeout;
use uuid::Uuid;
use whole::ServiceSettings;

/// Headers of a request that are the connection's, or for the gateway alone.
const OWN: [HeaderName; 9] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::AUTHORIZATION,
    header::COOKIE,
    header::EXPECT,
    header::UPGRADE,
    header::TE,
];
/// How long a request waits for a replica where the options do not say.
const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// When to come back where no replica can answer.
const LATER: Duration = Duration::from_secs(10);

/// The gateway of a server. Clones are the same.
#[derive(Clone)]
pub(crate) struct Gateway(Arc<GatewayState>);

/// See [`Gateway`].
pub(crate) struct GatewayState {
    app: App,
    replicas: Replicas,
    /// Where replicas join that others start.
    desk: Option<JoinDesk>,
    settings: ServiceSettings,
    router: Mutex<ReplicaRouter>,
}

impl std::ops::Deref for Gateway {
    type Target = GatewayState;

    fn deref(&self) -> &GatewayState {
        &self.0
    }
}

impl Gateway {
    /// A gateway for the replicas that the options of the server ask for, which begin to start, or which join.
    ///
    /// # Errors
    /// When there is no command that starts one, they cannot join, or the system gives no thread.
    pub fn start(app: &App) -> io::Result<Gateway> {
        if let Some(desk) = JoinDesk::open(&app.options)? {
            return Ok(Gateway::new(app, Replicas::open(), Some(desk), MOST_REPLICAS));
        }
        let command = &app.options.replica_command;
        if command.is_empty() {
            let text = "replicas are processes of the command: use `lamina serve --replicas N`";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let of = app.options.replicas;
        let key = Uuid::new_v4().simple().to_string() + &Uuid::new_v4().simple().to_string();
        let gateway = Gateway::new(app, Replicas::new(of), None, of);
        for replica in gateway.replicas.all() {
            let place = ReplicaPlace { number: replica.number, of, key: key.clone() };
            watch::watch(replica.clone(), gateway.app.options.replica_command.clone(), place)?;
        }
        Ok(gateway)
    }

    fn new(app: &App, replicas: Replicas, desk: Option<JoinDesk>, most: usize) -> Gateway {
        let router = Mutex::new(ReplicaRouter::new(most, MOST_NAMES));
        let settings = ServiceSettings::default();
        Gateway(Arc::new(GatewayState { app: app.clone(), replicas, desk, settings, router }))
    }

    /// Where replicas join that others start; none where the gateway starts them.
    pub fn join_address(&self) -> Option<SocketAddr> {
        self.desk.as_ref().map(|desk| desk.address)
    }

    /// The routes of a server with this gateway.
    pub fn routes(&self) -> Router {
        let gateway = self.clone();
        let carried = move |request: Request| {
            let gateway = gateway.clone();
            async move { gateway.answer(request).await }
        };
        let own = api::gateway_routes().with_state(self.app.clone());
        own.fallback(carried.clone()).method_not_allowed_fallback(carried)
    }

    /// True where a replica can answer.
    ///
    /// # Errors
    /// When none of them can be started.
    pub fn is_ready(&self) -> Result<bool, String> {
        match self.replicas.all_fail() {
            true => Err("no replica starts: what each of them says stands above".into()),
            false => Ok(self.replicas.any()),
        }
    }

    /// Ends all replicas, and waits for a while until they have ended.
    pub fn end(&self) {
        self.replicas.end();
        if self.desk.is_some() {
            // They live on without this gateway, and look for another one at its address.
            return;
        }
        let end = Instant::now() + Duration::from_secs(4);
        while self.replicas.all().iter().any(|r| r.life().is_some()) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Takes in replicas that join, and looks again and again whether those that were silent speak.
    pub async fn listen(&self) {
        tokio::join!(self.admit(), self.wake_silent());
    }

    async fn wake_silent(&self) {
        loop {
            tokio::time::sleep(Duration::from_secs(2)).await;
            for replica in self.replicas.all() {
                if replica.life().is_some_and(|life| life.is_silent()) {
                    self.wake(replica).await;
                }
            }
        }
    }

    /// A place for a request of these names that came then. With `begun` its prompt was computed already.
    async fn choose(
        &self,
        (names, begun): (&RequestNames, bool),
        apart: &[u64],
        arrival: Instant,
    ) -> Result<ReplicaSeat, ApiError> {
        let limit = self.app.options.request_timeout.map_or(LONGEST_WAIT, |span| span.0);
        let left = limit.saturating_sub(arrival.elapsed());
        let choose = |able: &[RouteTarget]| {
            let mixed: Vec<RouteTarget> =
                able.iter().filter(|target| begun && target.is_mixed()).copied().collect();
            lock::held(&self.router).choose(names, if mixed.is_empty() { able } else { &mixed })
        };
        let late = |_| ApiError::unavailable("no replica can answer", LATER);
        let place = timeout(left, self.replicas.place(apart, choose)).await.map_err(late)?;
        self.settings.settle(&place).await;
        Ok(place)
    }

    /// Answers a request by one of the replicas.
    async fn answer(&self, request: Request) -> Response {
        let id = request.extensions().get::<CallContext>().map(|c| c.id.clone()).unwrap_or_default();
        let dialect = Dialect::of_path(request.uri().path());
        let (method, uri) = (request.method().clone(), request.uri().to_string());
        let done = match HttpCall::of(self.app.clone(), dialect, request).await {
            Ok(call) => self.carry(call, method, uri).await,
            Err(e) => Err(e),
        };
        done.unwrap_or_else(|error| refusal(&error, dialect, &id))
    }

    async fn carry(&self, call: HttpCall, method: Method, uri: String) -> Result<Response, ApiError> {
        if let Some(whole) = self.whole(&call, &method, &uri).await {
            return whole;
        }
        let body = Bytes::from(call.bytes().await?);
        let mut ticket = self.ticket(&call, method, uri);
        let text = std::str::from_utf8(&body).unwrap_or_default();
        if ["previous_response_id", "item_reference", "/input_items"].iter().any(|word| text.contains(word)) {
            ticket.kept = self.app.kept.named_in(text, &call.caller.tenant);
        }
        let names = self.names(&call, &body).await?;
        let mut carry = Carry::new(self.clone(), ticket, (body, names), call.dialect, call.log.clone());
        {
            let mut entry = call.log.entry();
            (entry.queued, entry.submitted) = (true, Some(Instant::now()));
        }
        let Piece { head, bytes, is_last } = carry.next().await?;
        let head = head.ok_or_else(|| ApiError::new(Cause::Fault, "an answer without a head"))?;
        let body = match is_last {
            true => Body::from(bytes),
            false => Body::new(CarriedBody::new(carry, bytes)),
        };
        Ok(response(&head, body))
    }

    /// The names of a request's text.
    async fn names(&self, call: &HttpCall, body: &Bytes) -> Result<RequestNames, ApiError> {
        let salt =
            if self.app.options.isolate_tenants { call.caller.tenant.to_string() } else { String::new() };
        match body.len() > SMALL_BODY {
            false => Ok(RequestNames::of(body, &salt)),
            true => {
                let body = body.clone();
                pooled(move || Ok(RequestNames::of(&body, &salt))).await
            }
        }
    }

    /// What a replica is told of a request.
    fn ticket(&self, call: &HttpCall, method: Method, uri: String) -> RequestTicket {
        let draws = FixedDraws::of_header(call.headers(), &call.caller.tenant, method.as_str(), &uri);
        RequestTicket {
            draws: draws.unwrap_or_else(FixedDraws::fresh),
            method: method.to_string(),
            uri,
            headers: for_replica(call.headers()),
            id: call.id.to_string(),
            peer: call.log.entry().peer.clone(),
            tenant: call.caller.tenant.to_string(),
            key_name: call.caller.key.as_deref().map(str::to_owned),
            share: call.caller.share,
            priority: call.caller.priority,
            admin: call.caller.admin,
            ..self.plain_ticket()
        }
    }

    /// A request of the gateway's own.
    fn plain_ticket(&self) -> RequestTicket {
        RequestTicket {
            key: String::new(),
            method: "GET".into(),
            uri: "/".into(),
            headers: vec![],
            id: "gateway".into(),
            peer: "gateway".into(),
            tenant: "gateway".into(),
            key_name: None,
            share: 1.0,
            priority: 0,
            admin: true,
            draws: FixedDraws::fresh(),
            kept: vec![],
        }
    }
}

/// The headers that an answer may depend on.
fn for_replica(headers: &HeaderMap) -> Vec<(String, String)> {
    let own = |name: &HeaderName| OWN.contains(name) || name == "x-api-key";
    let given = headers.iter().filter(|(name, _)| !own(name));
    given.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned()))).collect()
}

fn response(head: &ResponseHead, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(head.status).unwrap_or(StatusCode::BAD_GATEWAY);
    for (name, value) in &head.headers {
        let (name, value) = (HeaderName::try_from(name.as_str()), HeaderValue::try_from(value.as_str()));
        if let (Ok(name), Ok(value)) = (name, value)
            && !OWN.contains(&name)
        {
            response.headers_mut().append(name, value);
        }
    }
    response
}
