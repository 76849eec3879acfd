//! What the gateways of a replica are told of one another's requests.

use crate::{
    frames::{FrameKind, write_frame},
    router::{MOST_NAMES, RequestNames, RouteIndex},
    ticket::RouteNews,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::broadcast;

/// Messages that a gateway may be behind by. One that is further behind joins again, and is told all at once.
const MOST_BEHIND: usize = 4096;

/// A message for all gateways but one.
#[derive(Clone)]
pub(super) struct GatewayNews {
    /// The gateway that knows it already.
    pub from: usize,
    pub kind: FrameKind,
    pub payload: Arc<[u8]>,
}

/// The requests of a replica, as its gateways are told of them.
pub(super) struct RequestNews {
    state: Mutex<NewsState>,
    tell: broadcast::Sender<GatewayNews>,
}

struct NewsState {
    /// What this replica has computed, as a gateway would believe.
    index: RouteIndex,
    running: BTreeMap<u64, RunningRequest>,
    next: u64,
}

struct RunningRequest {
    request: RequestNames,
    begun: bool,
}

impl RequestNews {
    pub fn new() -> Arc<RequestNews> {
        let state = NewsState { index: RouteIndex::new(1, MOST_NAMES), running: BTreeMap::new(), next: 0 };
        Arc::new(RequestNews { state: Mutex::new(state), tell: broadcast::channel(MOST_BEHIND).0 })
    }

    fn state(&self) -> MutexGuard<'_, NewsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Messages for a gateway that joins: what there was, as frames, and where the others come from.
    pub fn listen(&self) -> (Vec<u8>, broadcast::Receiver<GatewayNews>) {
        let state = self.state();
        let mut out = vec![];
        let mut write = |news: RouteNews| write_frame(&mut out, FrameKind::News, &news.written());
        write(RouteNews::Holds(RequestNames { names: state.index.held(0), bytes: 0 }));
        for (&number, running) in &state.running {
            write(RouteNews::Asked { number, request: running.request.clone() });
            if running.begun {
                write(RouteNews::Begun(number));
            }
        }
        (out, self.tell.subscribe())
    }

    /// A gateway has given this replica a request.
    pub fn asked(self: &Arc<RequestNews>, from: usize, request: RequestNames) -> ToldRequest {
        let mut state = self.state();
        state.next += 1;
        let number = state.next;
        state.index.put(0, &request.names);
        self.tell(from, &RouteNews::Asked { number, request: request.clone() });
        state.running.insert(number, RunningRequest { request, begun: false });
        drop(state);
        ToldRequest { news: self.clone(), from, number, begun: false }
    }

    fn tell(&self, from: usize, news: &RouteNews) {
        self.send(from, FrameKind::News, &news.written());
    }

    /// Nobody listens where there is no other gateway.
    fn send(&self, from: usize, kind: FrameKind, payload: &[u8]) {
        _ = self.tell.send(GatewayNews { from, kind, payload: payload.into() });
    }
}

/// A request that the other gateways know of, until this is dropped.
pub(super) struct ToldRequest {
    news: Arc<RequestNews>,
    from: usize,
    number: u64,
    begun: bool,
}

impl ToldRequest {
    /// Its answer has begun.
    pub fn begun(&mut self) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let mut state = self.news.state();
        state.running.entry(self.number).and_modify(|running| running.begun = true);
        self.news.tell(self.from, &RouteNews::Begun(self.number));
    }

    /// Its answer is kept, so that a later request may refer to it, at whatever gateway.
    pub fn kept(&self, payload: &[u8]) {
        self.news.send(self.from, FrameKind::Kept, payload);
    }
}

impl Drop for ToldRequest {
    fn drop(&mut self) {
        let mut state = self.news.state();
        state.running.remove(&self.number);
        self.news.tell(self.from, &RouteNews::Over(self.number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::FrameReader;

    fn read(frames: &[u8]) -> Vec<RouteNews> {
        let mut reader = FrameReader::new(1 << 20);
        reader.room().extend_from_slice(frames);
        let next = || reader.next().expect("frames").and_then(|(_, payload)| RouteNews::read(&payload));
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn who_joins_is_told_what_there_was_and_then_what_comes() {
        let news = RequestNews::new();
        let request = |name: u128| RequestNames { names: vec![name, name + 1], bytes: 300 };
        let asked = |number, name| RouteNews::Asked { number, request: request(name) };
        let (mut one, two) = (news.asked(0, request(10)), news.asked(1, request(20)));
        drop(news.asked(0, request(10)));
        one.begun();
        one.begun();
        let (before, mut then) = news.listen();
        let holds = |names: &[u128]| RouteNews::Holds(RequestNames { names: names.to_vec(), bytes: 0 });
        assert_eq!(
            read(&before),
            [holds(&[10, 11, 20, 21]), asked(1, 10), RouteNews::Begun(1), asked(2, 20)]
        );
        let three = news.asked(4, request(30));
        three.kept(b"{}");
        drop((one, two));
        let mut told = || then.try_recv().map(|item| (item.from, item.kind, RouteNews::read(&item.payload)));
        assert_eq!(told(), Ok((4, FrameKind::News, Some(asked(4, 30)))));
        assert_eq!(told(), Ok((4, FrameKind::Kept, None)));
        assert_eq!(told(), Ok((0, FrameKind::News, Some(RouteNews::Over(1)))));
        assert_eq!(told(), Ok((1, FrameKind::News, Some(RouteNews::Over(2)))));
        assert!(told().is_err());
        drop(three);
        assert_eq!(read(&news.listen().0), [holds(&[30, 31, 10, 11, 20, 21])]);
    }
}
