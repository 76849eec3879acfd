//! What stands before the routes: id, origin, host, key, the end of the server; and behind them: headers and the log.

use super::{
    large::LargeBodies,
    logged::LoggedBody,
    pace::{Activity, Busy},
    tls::Tls,
    upload::Upload,
};
use crate::{
    app::App,
    call::{CallContext, Caller, refusal},
    dialect::Dialect,
    error::{ApiError, Cause},
    guard::{Access, KeyRing, client_address, cors_headers, key_of, own_name, preflight, request_id},
    log::{RequestLog, TraceContext},
    run::FixedDraws,
};
use axum::{Router, body::Body};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, header};
use hyper::body::Incoming;
use std::{
    net::IpAddr,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

/// Paths that nobody needs a key for.
const PUBLIC: &[&str] = &["/", "/top", "/health", "/v1/health", "/ready"];
/// When to come back to a server that is about to end: another one has taken its place by then.
const COME_BACK: Duration = Duration::from_secs(5);

/// What stands before and behind the routes.
pub(super) struct Front {
    app: App,
    access: Access,
    keys: RwLock<Arc<KeyRing>>,
    tls: Option<Tls>,
    routes: Router,
    large: LargeBodies,
}

impl Front {
    pub fn new(
        app: App,
        access: Access,
        keys: KeyRing,
        tls: Option<Tls>,
        large: LargeBodies,
        routes: Router,
    ) -> Front {
        Front { app, access, keys: RwLock::new(Arc::new(keys)), tls, routes, large }
    }

    pub fn app(&self) -> &App {
        &self.app
    }

    pub fn tls(&self) -> Option<TlsAcceptor> {
        self.tls.as_ref().map(Tls::acceptor)
    }

    /// What the start should tell.
    pub fn notes(&self) -> Vec<String> {
        let open = self.keys().is_empty() && !self.access.guards_host;
        let unix = self.app.options.host.starts_with("unix:");
        match open && !unix {
            true => vec!["anybody who reaches this address may ask: give --api-key to change that".into()],
            false => vec![],
        }
    }

    /// Reads keys and certificates again.
    ///
    /// # Errors
    /// What is wrong with them; then all of the old ones stay.
    pub fn reload(&self) -> Result<(), String> {
        let keys = KeyRing::read(&self.app.options).map_err(|e| e.to_string())?;
        if keys.is_empty() != self.keys().is_empty() {
            return Err("whether keys are needed cannot change while the server runs".into());
        }
        self.tls.as_ref().map_or(Ok(()), |tls| tls.reload(&self.app.options))?;
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
        Ok(())
    }

    fn keys(&self) -> Arc<KeyRing> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Answers a request; `busy` tells its connection how long that takes.
    pub async fn answer(
        &self,
        request: Request<Incoming>,
        peer: Option<IpAddr>,
        busy: Busy,
    ) -> Response<LoggedBody> {
        let id = request_id(request.headers());
        let peer = client_address(peer, request.headers(), &self.app.options.trusted_proxy);
        let shown = peer.map_or_else(|| "unix".to_owned(), |ip| ip.to_string());
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let log = RequestLog::new(id.clone(), shown.clone(), method.as_str(), &path);
        let context = TraceContext::of(request.headers());
        log.entry().context = Some(context);
        let (activity, version) = (busy.activity().clone(), request.version());
        let ending = LoggedBody::begin(self.app.clone(), log.clone(), busy);
        let origin = request.headers().get(header::ORIGIN).cloned();
        let admitted = self.admit(&request, &shown);
        let mut response = match admitted {
            Ok(_) if method == Method::OPTIONS => preflight(request.headers()),
            Ok(caller) => {
                log.entry().key = caller.key.clone();
                let context = CallContext { caller, id: id.clone(), log: log.clone() };
                self.route(request, &activity, context).await
            }
            Err(error) => {
                let mut response = refusal(&error, Dialect::of_path(&path), &id);
                if error.cause == Cause::Unavailable {
                    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                }
                response
            }
        };
        let status = response.status();
        self.finish(
            response.headers_mut(),
            &id,
            origin.filter(|_| status != http::StatusCode::FORBIDDEN),
            &log,
        );
        log.entry().status = status.as_u16();
        response.map(|body| ending.with(body, version))
    }

    /// Whether the request may be answered, and who sends it.
    fn admit<B>(&self, request: &Request<B>, address: &str) -> Result<Caller, ApiError> {
        let (headers, path) = (request.headers(), request.uri().path());
        let own = own_name(request).map_err(ApiError::invalid)?;
        if !self.access.admits_origin(headers, own) {
            return Err(ApiError::new(
                Cause::Forbidden,
                "pages of this origin may not ask: see --cors-origin",
            ));
        }
        if !self.access.admits_host(own) {
            let text = "the server is not known under this name: see --allowed-host";
            return Err(ApiError::new(Cause::Forbidden, text));
        }
        // Without any keys nobody is told apart.
        let admin = self.keys().is_empty();
        let anybody = Caller { tenant: address.into(), key: None, share: 1.0, priority: 0, admin };
        let public = PUBLIC.contains(&path) || request.method() == Method::OPTIONS;
        let keys = self.keys();
        let caller = match (keys.is_empty(), public) {
            (true, _) | (_, true) => anybody,
            (false, false) => key_of(headers).and_then(|key| keys.holder(key)).ok_or_else(|| {
                ApiError::new(
                    Cause::Unauthorized,
                    "the key is missing or wrong: send Authorization: Bearer KEY",
                )
            })?,
        };
        match self.app.is_draining() && !public {
            true => Err(ApiError::unavailable("the server is about to end", COME_BACK)),
            false => Ok(caller),
        }
    }

    /// Hands a request to its handler: on this thread, or beside it where the body is large.
    async fn route(
        &self,
        request: Request<Incoming>,
        activity: &Arc<Activity>,
        context: CallContext,
    ) -> Response<Body> {
        let large = LargeBodies::takes(request.body());
        let (id, dialect) = (context.id.clone(), Dialect::of_path(request.uri().path()));
        let log = context.log.clone();
        let draws = FixedDraws::of_header(
            request.headers(),
            &context.caller.tenant,
            request.method().as_str(),
            request.uri(),
        );
        let mut request = request.map(|body| Body::new(Upload::new(body, activity.clone(), log)));
        request.extensions_mut().insert(context);
        let mut routes = self.routes.clone();
        let answer = async move {
            match routes.call(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            }
        };
        let handler = async move {
            match draws {
                Some(draws) => draws.within(answer).await,
                None => answer.await,
            }
        };
        match large {
            false => handler.await,
            true => self.large.handle(handler).await.unwrap_or_else(|| {
                refusal(&ApiError::fault("a fault inside Lamina, please report it"), dialect, &id)
            }),
        }
    }

    fn finish(&self, headers: &mut HeaderMap, id: &str, origin: Option<HeaderValue>, log: &RequestLog) {
        if let Ok(id) = HeaderValue::from_str(id) {
            headers.insert("x-request-id", id.clone());
            headers.insert("request-id", id);
        }
        let trace = log.entry().context.and_then(|context| HeaderValue::from_str(&context.trace_id()).ok());
        headers.extend(trace.map(|id| (HeaderName::from_static("x-trace-id"), id)));
        let ignored = log.entry().ignored_fields(", ");
        if let Ok(ignored) = HeaderValue::from_str(&ignored)
            && !ignored.is_empty()
        {
            headers.insert("x-lamina-ignored", ignored);
        }
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        cors_headers(&self.access, origin, headers);
    }
}
