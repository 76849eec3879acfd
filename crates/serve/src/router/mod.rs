//! Which replica gets a request: the one that costs the service least seconds.

mod index;
mod names;
mod role;

pub use index::{MOST_NAMES, MOST_REPLICAS, RouteIndex};
pub use names::{PIECE, RequestNames};
pub use role::ReplicaRole;

use xxhash_rust::xxh3::xxh3_64;

/// Seconds of things, as measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RouteRates {
    /// Of a byte of a prompt that is not cached.
    pub byte: f64,
    /// That an answer costs those beside it, over all of its tokens.
    pub answer: f64,
    /// Of a byte of a prompt whose pages another replica reads that goes on with its answer.
    pub handed: f64,
}

/// Part of the time of a prompt by which it holds up each answer that runs.
const HOLD_UP: f64 = 0.15;
/// Part of an answer's time that one more answer costs it. A step of a dozen answers says 0.05; on a trace of 64 replicas, more
/// than 0.045 gives prompts that are cached away for evenness, and first tokens come later.
const SHARE: f64 = 0.04;
/// How much a new measurement weighs, at least: the first ones weigh more.
const WEIGHT: f64 = 0.02;
/// Bytes that the guess of a prompt's rate counts for.
const GUESSED: f64 = 6000.0;
/// How many times as fast as they are computed pages are read, as a guess.
const READ: f64 = 50.0;
/// How much this guess weighs at the end of each answer. Prompts do not travel where that was slow, so that no measurement
/// would ever say that it is slow no more.
const DOUBT: f64 = 0.01;

impl Default for RouteRates {
    /// 1,500 tokens of 4 bytes a second, and answers of 4 s: a guess until the first answers have ended.
    fn default() -> RouteRates {
        let byte = 1.0 / 6000.0;
        RouteRates { byte, answer: 4.0 * SHARE, handed: byte / READ }
    }
}

/// What the router knows of each replica.
#[derive(Debug, Clone)]
pub struct ReplicaRouter {
    index: RouteIndex,
    loads: Vec<ReplicaLoad>,
    /// Seconds of things.
    pub rates: RouteRates,
    /// Bytes of the prompts that their rate was measured with, the older the less.
    bytes: f64,
    /// How many answers were measured.
    answers: usize,
}

/// A process that may get a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteTarget {
    /// Which replica it is.
    pub replica: usize,
    /// What no other start of a process has.
    pub boot: u64,
    /// What it is there for.
    pub role: ReplicaRole,
}

impl RouteTarget {
    /// A process that computes prompts and answers.
    pub fn mixed(replica: usize, boot: u64) -> RouteTarget {
        RouteTarget { replica, boot, role: ReplicaRole::Mixed }
    }

    /// True where answers stay there.
    pub fn is_mixed(&self) -> bool {
        self.role == ReplicaRole::Mixed
    }
}

/// What a replica has to do.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct ReplicaLoad {
    /// Bytes of prompts that wait or are computed, without those that are cached.
    waiting: f64,
    /// Requests that it has.
    running: usize,
    boot: u64,
}

/// A request at the replica that was chosen for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Routed {
    /// Which replica.
    pub replica: usize,
    /// Bytes of its prompt that are not cached there, as far as the router knows, while its answer has not begun.
    waiting: f64,
    /// These bytes with those that waited there before them.
    ahead: f64,
    boot: u64,
}

/// Takes a number of this weight into a mean.
fn mean(old: &mut f64, new: f64, weight: f64) {
    *old += weight * (new - *old);
}

/// Among equals, the same text goes to the same process, whichever gateway it comes to: rendezvous hashing.
fn order(request: &RequestNames, boot: u64) -> u64 {
    let first = request.names.first().copied().unwrap_or(request.bytes as u128);
    xxh3_64(&[first.to_le_bytes().as_slice(), &boot.to_le_bytes()].concat())
}

impl ReplicaRouter {
    /// A router for idle replicas, each with room for so many names.
    pub fn new(replicas: usize, room: usize) -> ReplicaRouter {
        let loads = vec![ReplicaLoad::default(); replicas];
        let (index, rates) = (RouteIndex::new(replicas, room), RouteRates::default());
        ReplicaRouter { index, loads, rates, bytes: GUESSED, answers: 0 }
    }

    /// The replica among those that are able that costs least; none where none is.
    ///
    /// One with the role of prefill holds up no answers, and costs that another one reads the pages of the prompt and computes
    /// what is no whole page. So prompts travel where answers run that they would hold up for longer: short ones, and those that
    /// are cached, stay.
    pub fn choose(&self, request: &RequestNames, able: &[RouteTarget]) -> Option<usize> {
        let found = self.index.found(&request.names);
        let running = |target: &RouteTarget| self.load(target).running;
        let fewest = able.iter().filter(|target| target.is_mixed()).map(running).min().unwrap_or(0);
        let cost = |target: &RouteTarget| {
            let load = self.load(target);
            let pieces = match load.boot == target.boot {
                true => found.get(target.replica).copied().unwrap_or(0),
                false => 0,
            };
            let own = request.behind(pieces) as f64 * self.rates.byte;
            let waits = load.waiting * self.rates.byte;
            let beside = match target.role {
                ReplicaRole::Mixed => load.running as f64 * (self.rates.answer + HOLD_UP * own),
                ReplicaRole::Prefill => {
                    let handed = self.again() + request.bytes as f64 * self.rates.handed;
                    handed + fewest as f64 * self.rates.answer
                }
            };
            (waits + own + beside, load.running, order(request, target.boot))
        };
        let all = able.iter().map(|able| (cost(able), able.replica));
        let least = all.min_by(|(a, _), (b, _)| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        least.map(|(_, replica)| replica)
    }

    /// Seconds in which the replica that goes on with an answer computes what is no whole page of its prompt.
    fn again(&self) -> f64 {
        PIECE as f64 * self.rates.byte
    }

    /// What a process has to do.
    fn load(&self, target: &RouteTarget) -> ReplicaLoad {
        let load = self.loads.get(target.replica).filter(|load| load.boot == target.boot);
        load.copied().unwrap_or_default()
    }

    /// A request is sent to a replica's process, by this gateway or another one.
    pub fn send(&mut self, request: &RequestNames, replica: usize, boot: u64) -> Routed {
        self.begin(replica, boot);
        let found = self.index.found(&request.names).get(replica).copied().unwrap_or(0);
        let waiting = request.behind(found) as f64;
        self.index.put(replica, &request.names);
        self.loads[replica].waiting += waiting;
        self.loads[replica].running += 1;
        Routed { replica, waiting, ahead: self.loads[replica].waiting, boot }
    }

    /// The answer of a request has begun: its prompt waits no more.
    pub fn begun(&mut self, routed: &mut Routed) {
        let waiting = std::mem::take(&mut routed.waiting);
        if let Some(load) = self.loads.get_mut(routed.replica).filter(|load| load.boot == routed.boot) {
            load.waiting = (load.waiting - waiting).max(0.0);
        }
    }

    /// A replica that computes prompts alone began the answer of a request so many seconds after it was sent.
    pub fn prefilled(&mut self, routed: &Routed, seconds: f64) {
        if routed.waiting > PIECE as f64 {
            self.measured(routed.ahead, seconds, 0.0);
        }
    }

    /// An answer went on so many seconds after its prompt of so many bytes was handed to another replica.
    pub fn handed(&mut self, bytes: f64, seconds: f64) {
        if bytes > PIECE as f64 {
            let read = (seconds - self.again()).max(0.0);
            mean(&mut self.rates.handed, read / bytes, WEIGHT);
        }
    }

    /// A request has left its replica.
    pub fn ended(&mut self, mut routed: Routed) {
        self.begun(&mut routed);
        if let Some(load) = self.loads.get_mut(routed.replica).filter(|load| load.boot == routed.boot) {
            load.running = load.running.saturating_sub(1);
        }
    }

    /// An answer took so many seconds for these uncached bytes of its prompt, and so many for itself.
    pub fn measured(&mut self, bytes: f64, prompt: f64, answer: f64) {
        if bytes > PIECE as f64 && prompt > 0.0 {
            // By its bytes: a short prompt beside a long one takes many times as long for each byte as alone.
            self.bytes = bytes + (1.0 - WEIGHT) * self.bytes;
            mean(&mut self.rates.byte, prompt / bytes, bytes / self.bytes);
        }
        if answer > 0.0 {
            self.answers += 1;
            mean(&mut self.rates.answer, answer * SHARE, WEIGHT.max(1.0 / (self.answers + 1) as f64));
            mean(&mut self.rates.handed, self.rates.byte / READ, DOUBT);
        }
    }

    /// How many of a request's names a replica holds, as far as the router knows.
    pub fn found(&self, request: &RequestNames, replica: usize) -> usize {
        self.index.found(&request.names).get(replica).copied().unwrap_or(0)
    }

    /// A replica's process says what it holds, the youngest name first.
    pub fn holds(&mut self, names: &[u128], replica: usize, boot: u64) {
        self.begin(replica, boot);
        self.index.put(replica, names);
    }

    /// Forgets what the process before this one had.
    fn begin(&mut self, replica: usize, boot: u64) {
        if self.loads[replica].boot != boot {
            self.index.forget(replica);
            self.loads[replica] = ReplicaLoad { boot, ..ReplicaLoad::default() };
        }
    }

    /// Names that any replica holds.
    pub fn entries(&self) -> usize {
        self.index.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(first: u128, pieces: usize) -> RequestNames {
        RequestNames { names: (0..pieces as u128).map(|i| first * 1000 + i).collect(), bytes: pieces * PIECE }
    }

    #[test]
    fn holders_are_preferred_until_they_have_too_much_to_do() {
        let able = [(0, 10), (1, 11)].map(|(replica, boot)| RouteTarget::mixed(replica, boot));
        let mut router = ReplicaRouter::new(2, 1000);
        let one = request(1, 50);
        let first = router.choose(&one, &able).unwrap();
        let sent = router.send(&one, first, able[first].boot);
        router.ended(sent);
        assert_eq!(router.choose(&one, &able), Some(first));
        let other = request(2, 50);
        let sent = router.send(&other, first, able[first].boot);
        assert_eq!(router.choose(&request(3, 50), &able), Some(1 - first), "one waits there");
        router.ended(sent);
        for i in 0..20 {
            _ = router.send(&request(100 + i, 50), first, able[first].boot);
        }
        assert_eq!(router.choose(&one, &able), Some(1 - first));
        assert_eq!(router.choose(&one, &[]), None);
    }

    #[test]
    fn prompts_travel_where_they_would_hold_up_answers_for_longer() {
        let able =
            [RouteTarget::mixed(0, 10), RouteTarget { replica: 1, boot: 11, role: ReplicaRole::Prefill }];
        let mut router = ReplicaRouter::new(2, 1000);
        assert_eq!(router.choose(&request(1, 500), &able), Some(0), "nothing runs there");
        let mut running = router.send(&request(2, 500), 0, 10);
        router.begun(&mut running);
        assert_eq!(router.choose(&request(3, 500), &able), Some(1));
        assert_eq!(router.choose(&request(2, 500), &able), Some(0), "it is cached there");
        assert_eq!(router.choose(&request(3, 2), &able), Some(0), "it holds nobody up for long");
        assert_eq!(router.choose(&request(3, 500), &able[1..]), Some(1));
        for _ in 0..100 {
            router.handed(64_000.0, 64.0);
        }
        assert_eq!(
            router.choose(&request(3, 500), &able),
            Some(0),
            "pages come more slowly than they are computed"
        );
        for _ in 0..500 {
            router.measured(0.0, 0.0, 4.0);
        }
        assert_eq!(router.choose(&request(3, 500), &able), Some(1), "it was slow once, and is tried again");
        let sent = router.send(&request(4, 100), 1, 11);
        let before = router.rates.byte;
        router.prefilled(&sent, 1.28);
        let (new, old) = (sent.ahead, (1.0 - WEIGHT) * GUESSED);
        let expected = (old * before + new * 1e-4) / (old + new);
        assert!((router.rates.byte - expected).abs() < 1e-9, "{new} bytes");
    }

    #[test]
    fn rates_are_those_of_all_bytes_and_of_the_last_answers() {
        let mut router = ReplicaRouter::new(2, 1000);
        // Short prompts take a hundred times as long for each byte, and are a hundredth of all bytes.
        for _ in 0..1000 {
            router.measured(200.0, 200.0 * 1e-2, 1.0);
            router.measured(19_800.0, 19_800.0 * 1e-4, 3.0);
        }
        assert!(
            (router.rates.byte / (0.01 * 1e-2 + 0.99 * 1e-4) - 1.0).abs() < 0.02,
            "{}",
            router.rates.byte
        );
        assert!((router.rates.answer / (2.0 * SHARE) - 1.0).abs() < 0.02, "{}", router.rates.answer);
        for _ in 0..200 {
            router.measured(19_800.0, 19_800.0 * 1e-5, 1.0);
        }
        assert!((router.rates.byte / 1e-5 - 1.0).abs() < 0.3, "{}", router.rates.byte);
    }

    #[test]
    fn the_first_answers_replace_the_guess() {
        let mut router = ReplicaRouter::new(1, 1000);
        for _ in 0..5 {
            router.measured(50_000.0, 0.5, 40.0);
        }
        assert!((router.rates.byte / 1e-5 - 1.0).abs() < 0.5, "{}", router.rates.byte);
        assert!(router.rates.answer > 30.0 * SHARE, "{}", router.rates.answer);
    }

    #[test]
    fn a_new_process_holds_nothing() {
        let mut router = ReplicaRouter::new(2, 1000);
        let one = request(1, 50);
        _ = router.send(&one, 1, 7);
        assert_eq!(router.found(&one, 1), 50);
        let sent = router.send(&request(2, 3), 1, 8);
        assert_eq!((router.found(&one, 1), router.entries()), (0, 3));
        router.ended(sent);
        assert_eq!(router.loads[1], ReplicaLoad { boot: 8, ..ReplicaLoad::default() });
        router.holds(&one.names, 1, 8);
        assert_eq!(router.found(&one, 1), 50);
    }
}
