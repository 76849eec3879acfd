//! A request on its way to an engine, and its answer on the way back; where the engine is lost, another one goes on.

use super::{Gateway, link::Link, lock::held, replicas::ReplicaSeat};
use crate::{
    dialect::Dialect,
    error::{ApiError, Cause},
    frames::FrameKind,
    log::RequestLog,
    router::{ReplicaRole, RequestNames, Routed},
    run::MediaTokens,
    ticket::{AnswerSummary, RequestTicket, ResponseHead},
};
use bytes::{Bytes, BytesMut};
use lamina::image::PixelSize;
use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// Losses in a row without any progress of the answer, before its client is told; and the pause before each further turn.
const PAUSES: [Duration; 4] =
    [Duration::ZERO, Duration::ZERO, Duration::from_millis(200), Duration::from_secs(1)];
/// Faults of engines, each within this time of a turn's begin and without progress, that a request may be there for.
const MOST_CRASHES: usize = 2;
const SOON: Duration = Duration::from_secs(5);
/// When to come back where engines are lost again and again.
const LATER: Duration = Duration::from_secs(5);
/// How long the end of a process is waited for that has closed its connections: its status says whether it crashed.
const AUTOPSY: Duration = Duration::from_millis(100);

/// A request and its answer.
pub(super) struct Carry {
    gateway: Gateway,
    pub ticket: RequestTicket,
    body: Bytes,
    names: RequestNames,
    pub dialect: Dialect,
    pub log: RequestLog,
    arrival: Instant,
    turn: Option<EngineTurn>,
    /// Marks of the answer so far.
    told: Vec<Bytes>,
    /// What the answer depends on that these marks are of.
    identity: Arc<str>,
    /// What was told cannot be gone on behind.
    is_final: bool,
    head: Option<ResponseHead>,
    head_told: bool,
    /// Bytes of the answer whose mark has not come.
    held: BytesMut,
    losses: Losses,
    /// Since when its answer waits for another engine than that of its prompt.
    handed: Option<Instant>,
}

/// An engine's turn at it.
struct EngineTurn {
    link: Link,
    place: ReplicaSeat,
    route: RouteTurn,
    begun: Instant,
}

/// What the router knows of a turn, until it is over.
struct RouteTurn {
    gateway: Gateway,
    sent: Option<Routed>,
}

impl EngineTurn {
    /// The answer has begun.
    fn answers(&mut self) {
        let Some(sent) = &mut self.route.sent else { return };
        let mut router = held(&self.route.gateway.router);
        if self.place.life.role == ReplicaRole::Prefill {
            router.prefilled(sent, self.begun.elapsed().as_secs_f64());
        }
        router.begun(sent);
    }
}

impl Drop for RouteTurn {
    fn drop(&mut self) {
        self.sent.take().into_iter().for_each(|sent| held(&self.gateway.router).ended(sent));
    }
}

/// What went wrong since the answer made progress.
#[derive(Default)]
struct Losses {
    count: usize,
    crashes: usize,
    /// Engines that are not asked again.
    apart: Vec<u64>,
    /// Since when the client waits for another engine.
    since: Option<Instant>,
}

/// Bytes for the client, with the head where it is not told yet.
pub(super) struct Piece {
    pub head: Option<ResponseHead>,
    pub bytes: Bytes,
    pub is_last: bool,
}

impl Carry {
    /// A request with its body and the names of its text.
    pub fn new(
        gateway: Gateway,
        ticket: RequestTicket,
        (body, names): (Bytes, RequestNames),
        dialect: Dialect,
        log: RequestLog,
    ) -> Carry {
        Carry {
            gateway,
            ticket,
            body,
            names,
            dialect,
            log,
            arrival: Instant::now(),
            turn: None,
            told: vec![],
            identity: "".into(),
            is_final: false,
            head: None,
            head_told: false,
            held: BytesMut::new(),
            losses: Losses::default(),
            handed: None,
        }
    }

    /// The next bytes for the client.
    ///
    /// # Errors
    /// When no engine can go on.
    pub async fn next(&mut self) -> Result<Piece, ApiError> {
        loop {
            let Some(turn) = &mut self.turn else {
                self.begin().await?;
                continue;
            };
            let leave = turn.place.life.leave.clone();
            let may_leave = !self.is_final;
            let frame = tokio::select! {
                biased;
                () = leave.cancelled(), if may_leave => {
                    self.leave("leave");
                    continue;
                }
                frame = turn.link.next() => frame,
            };
            match frame {
                Ok((kind, payload)) => {
                    turn.place.life.speaks(true);
                    if let Some(piece) = self.take(kind, payload) {
                        self.gateway.app.metrics.moves.gone_on(self.losses.since.take());
                        if let Some(handed) = self.handed.take() {
                            let seconds = handed.elapsed().as_secs_f64();
                            held(&self.gateway.router).handed(self.names.bytes as f64, seconds);
                        }
                        return Ok(piece);
                    }
                }
                Err(e) => self.lost(&e).await?,
            }
        }
    }

    /// Gives the request to an engine.
    async fn begin(&mut self) -> Result<(), ApiError> {
        sleep(PAUSES[self.losses.count.min(PAUSES.len() - 1)]).await;
        let begun = !self.told.is_empty();
        let place = self.gateway.choose((&self.names, begun), &self.losses.apart, self.arrival).await?;
        if self.told.is_empty() {
            self.identity.clone_from(&place.life.identity);
        } else if self.identity != place.life.identity {
            return Err(ApiError::unavailable(
                "the replicas that could go on with this answer have ended",
                LATER,
            ));
        }
        self.ticket.draws.waited = self.arrival.elapsed().as_millis() as u64;
        let names = self.gateway.desk.is_some().then_some(&self.names);
        match Link::open(&place.life.door, &mut self.ticket, (&self.body, names), &self.told).await {
            Ok(link) => {
                let (gateway, number) = (self.gateway.clone(), place.replica.number);
                let sent = held(&gateway.router).send(&self.names, number, place.life.boot);
                let route = RouteTurn { gateway, sent: Some(sent) };
                self.turn = Some(EngineTurn { link, place, route, begun: Instant::now() });
            }
            Err(e) => self.count_loss(&place, &e, Duration::ZERO).await?,
        }
        Ok(())
    }

    /// Takes a frame; what the client may have now.
    fn take(&mut self, kind: FrameKind, payload: Bytes) -> Option<Piece> {
        match kind {
            FrameKind::Head => self.take_head(&payload),
            FrameKind::Bytes => self.held.extend_from_slice(&payload),
            FrameKind::Mark => {
                // A mark without events says that bytes were told, which is no progress of the answer.
                if !payload.is_empty() {
                    (self.losses.count, self.losses.crashes) = (0, 0);
                    self.turn.iter_mut().for_each(EngineTurn::answers);
                }
                if !payload.is_empty() || self.told.is_empty() {
                    self.told.push(payload);
                }
                let streams = self.head.as_ref().is_some_and(|head| head.stream);
                return (streams && !self.held.is_empty()).then(|| self.piece(false));
            }
            FrameKind::Final => {
                self.is_final = true;
                return Some(self.piece(false));
            }
            FrameKind::Kept => {
                let kept = serde_json::from_slice(&payload).unwrap_or_default();
                self.gateway.app.kept.read(&kept);
            }
            FrameKind::Prefilled if !self.is_final && self.gateway.replicas.any_mixed() => {
                self.handed = Some(Instant::now());
                self.leave("prefilled");
            }
            FrameKind::End => {
                self.end(&payload);
                return Some(self.piece(true));
            }
            _ => {}
        }
        None
    }

    fn take_head(&mut self, payload: &[u8]) {
        let Ok(head) = serde_json::from_slice::<ResponseHead>(payload) else { return };
        let mut entry = self.log.entry();
        entry.ignored.clone_from(&head.ignored);
        entry.stream = head.stream;
        drop(entry);
        self.head = Some(head);
    }

    fn piece(&mut self, is_last: bool) -> Piece {
        let head = self.head.clone().filter(|_| !std::mem::replace(&mut self.head_told, true));
        Piece { head, bytes: self.held.split().freeze(), is_last }
    }

    fn end(&mut self, payload: &[u8]) {
        self.turn = None;
        let summary: AnswerSummary = serde_json::from_slice(payload).unwrap_or_default();
        let mut entry = self.log.entry();
        let [prompt_seconds, answer_seconds] = summary.seconds;
        entry.timed = summary.model.is_some();
        entry.model = summary.model;
        [entry.queue, entry.prefill, entry.decode] = [summary.queue, prompt_seconds, answer_seconds]
            .map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
        let [prompt, cached, _] = summary.tokens.map(|tokens| tokens as f64);
        let bytes = self.names.bytes as f64 * (1.0 - cached / prompt.max(1.0));
        held(&self.gateway.router).measured(bytes, prompt_seconds, answer_seconds);
        let [prompt, cached, completion] = summary.tokens;
        (entry.usage.prompt, entry.usage.cached, entry.usage.completion) = (prompt, cached, completion);
        let [image, audio] = summary.media_tokens;
        (entry.usage.media, entry.encode_seconds) = (MediaTokens { image, audio }, summary.encode_seconds);
        entry.sounds = summary.sounds;
        entry.pictures =
            summary.pictures.iter().map(|&[width, height]| PixelSize { width, height }).collect();
        (entry.counted.prompt, entry.counted.completion) = (prompt, completion);
    }

    /// Takes the request from an engine that is to end. The answer goes on elsewhere, with what was told so far.
    fn leave(&mut self, why: &'static str) {
        self.forget_turn();
        self.gateway.app.metrics.moves.moved(why);
    }

    /// The engine is lost: what came without a mark does not count.
    async fn lost(&mut self, error: &io::Error) -> Result<(), ApiError> {
        let Some(turn) = self.forget_turn() else { return Ok(()) };
        let ran = turn.begun.elapsed();
        drop(turn.link);
        self.count_loss(&turn.place, error, ran).await
    }

    fn forget_turn(&mut self) -> Option<EngineTurn> {
        self.held.clear();
        self.losses.since.get_or_insert_with(Instant::now);
        self.turn.take()
    }

    async fn count_loss(
        &mut self,
        place: &ReplicaSeat,
        error: &io::Error,
        ran: Duration,
    ) -> Result<(), ApiError> {
        self.losses.since.get_or_insert_with(Instant::now);
        // From here on it waits for more than pages.
        self.handed = None;
        let silent = error.kind() == io::ErrorKind::TimedOut;
        if silent {
            place.life.speaks(false);
        } else {
            sleep(AUTOPSY).await;
        }
        self.gateway.app.metrics.moves.moved(if silent { "silent" } else { "lost" });
        self.losses.apart.push(place.life.boot);
        self.losses.count += 1;
        self.losses.crashes += usize::from(ran < SOON && place.has_crashed());
        if self.is_final {
            return Err(ApiError::unavailable("the replica that answered is lost", LATER));
        }
        if self.losses.crashes >= MOST_CRASHES {
            let text = "this request has ended every replica that began it: it is not given to another one";
            return Err(ApiError::new(Cause::Fault, text));
        }
        match self.losses.count >= PAUSES.len() {
            true => Err(ApiError::unavailable("one replica after another was lost at this request", LATER)),
            false => Ok(()),
        }
    }
}
