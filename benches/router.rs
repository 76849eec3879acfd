//! Which replica gets a request: the gateway's router beside other rules, on a trace of conversations, simulated.
//!
//! `cargo bench -p lamina-serve --bench router -- [--smoke] [--requests 8000] [--replicas 64] [--pieces 1500] [--gateways 1]
//! [--late 20] [--alone]`. A prompt is a chain of pieces. A replica is an LRU of pieces, a queue of prompts, and answers that
//! decode side by side. Gateways hear of one another through the replicas, `--late` milliseconds later. `--alone`: no two prompts
//! begin alike. What the router believes is compared with a router that sees every replica's contents; the bars are those of the
//! design: it ends with an error where one is missed.

use lamina_fixtures::CommandLine;
use lamina_serve::router::{
    MOST_REPLICAS, PIECE, ReplicaRouter, RequestNames, RouteIndex, RouteRates, RouteTarget, Routed,
};
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    time::{Duration, Instant},
};

/// Seconds of a piece of 32 tokens at 1,500 tokens a second; of a step, and of each further row in it.
const SECONDS_OF_PIECE: f64 = 32.0 / 1500.0;
const STEP: f64 = 0.020;
const ROW: f64 = 0.0015;
/// Tokens of an answer that a rule expects.
const USUAL_ANSWER: f64 = 150.0;

/// SplitMix64, and what is made of it.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn wait(&mut self, mean: f64) -> f64 {
        -self.unit().ln() * mean
    }

    fn log_normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let angle = std::f64::consts::TAU * self.unit();
        (mean + deviation * (-2.0 * self.unit().ln()).sqrt() * angle.cos()).exp()
    }
}

struct Asked {
    at: f64,
    request: RequestNames,
    answer: f64,
}

/// A turn of a conversation that is still to come: when, whose, its pieces, turns behind it.
type Turn = (Reverse<u64>, u64, Vec<u128>, usize);

/// Conversations that share beginnings by Zipf's law; within one a turn follows the answer and some thought.
fn trace(count: usize, rate: f64, alone: bool) -> Vec<Asked> {
    let mut random = Random(1);
    let systems: Vec<usize> = (0..300).map(|_| 4 + random.below(87)).collect();
    let weights: Vec<f64> = (1..=300).map(|i| 1.0 / f64::from(i)).collect();
    let all: f64 = weights.iter().sum();
    let (mut heap, mut asked, mut time, mut sessions) = (BinaryHeap::<Turn>::new(), vec![], 0.0, 0_u64);
    while asked.len() < count {
        while heap.peek().is_none_or(|turn| turn.0.0 as f64 / 1e6 > time) {
            time += random.wait(1.0 / rate);
            let mut at = random.unit() * all;
            let system = weights.iter().position(|w| {
                at -= w;
                at <= 0.0
            });
            let system = system.unwrap_or(0);
            sessions += 1;
            let owner = if alone { 1_000_000 + u128::from(sessions) } else { system as u128 };
            let names = (0..systems[system] as u128).map(|i| owner << 32 | i).collect();
            let turns = if alone { 0 } else { random.below(11) };
            heap.push((Reverse((time * 1e6) as u64), sessions, names, turns));
        }
        let Some((at, session, mut names, left)) = heap.pop() else { break };
        let (own, at) = ((1_u128 << 100) + u128::from(session), at.0 as f64 / 1e6);
        let more = |names: &mut Vec<u128>, n: usize| {
            let from = names.len() as u128;
            names.extend((from..from + n as u128).map(|i| own << 20 | i));
        };
        let ask = (random.log_normal(1.3, 1.0) as usize).max(1);
        let answer = random.log_normal(5.0, 0.8).max(16.0);
        more(&mut names, ask);
        let request = RequestNames { bytes: names.len() * PIECE, names: names.clone() };
        asked.push(Asked { at, request, answer });
        if left > 0 && names.len() < 400 {
            more(&mut names, answer as usize / 32);
            let then = at + answer * 0.04 + random.wait(25.0);
            heap.push((Reverse((then * 1e6) as u64), session, names, left - 1));
        }
    }
    asked.sort_by(|a, b| a.at.total_cmp(&b.at));
    asked
}

/// Who chooses.
#[derive(Clone, Copy, PartialEq)]
enum Rule {
    TwoChoices,
    Seconds,
    /// As [`Rule::Seconds`], with what replicas hold and do in place of what the router believes.
    Exact,
}

/// What is simulated.
struct Service {
    replicas: usize,
    /// Names that a replica has room for.
    pieces: usize,
    gateways: usize,
    /// Seconds after which gateways hear of one another's requests, from the replicas.
    late: f64,
}

struct Report {
    found: f64,
    p95: f64,
    p99: f64,
    skew: f64,
    choice: Duration,
}

/// What a gateway knows of a request, which it has sent or hears of `late`: its first token and its end come.
struct Open {
    late: f64,
    first: f64,
    end: f64,
    gateway: usize,
    routed: Routed,
}

/// A request that another gateway will hear of.
struct Unheard {
    at: f64,
    first: f64,
    end: f64,
    gateway: usize,
    replica: usize,
    what: usize,
}

fn run(rule: Rule, asked: &[Asked], service: &Service) -> Report {
    let &Service { replicas, pieces, gateways, late } = service;
    let mut random = Random(7);
    let (byte, answer) = (SECONDS_OF_PIECE / PIECE as f64, ROW * USUAL_ANSWER);
    let rates = RouteRates { byte, answer, ..RouteRates::default() };
    let mut routers = vec![ReplicaRouter::new(replicas, pieces); gateways];
    routers.iter_mut().for_each(|router| router.rates = rates);
    let mut truth = RouteIndex::new(replicas, pieces);
    let (mut free, mut ends, mut sent) =
        (vec![0.0_f64; replicas], vec![Vec::<f64>::new(); replicas], vec![0; replicas]);
    let (mut open, mut news) = (Vec::<Open>::new(), Vec::<Unheard>::new());
    let able: Vec<RouteTarget> = (0..replicas).map(|r| RouteTarget::mixed(r, r as u64)).collect();
    let (mut hit, mut total, mut waits, mut choice) = (0, 0, vec![], Duration::ZERO);
    for (number, Asked { at, request, answer }) in asked.iter().enumerate() {
        let gateway = random.below(gateways);
        news.retain(|n| {
            if n.at <= *at {
                let routed = routers[n.gateway].send(&asked[n.what].request, n.replica, n.replica as u64);
                open.push(Open { late, first: n.first, end: n.end, gateway: n.gateway, routed });
            }
            n.at > *at
        });
        open.retain_mut(|o| {
            if o.first + o.late <= *at {
                routers[o.gateway].begun(&mut o.routed);
            }
            if o.end + o.late <= *at {
                routers[o.gateway].ended(o.routed);
            }
            o.end + o.late > *at
        });
        ends.iter_mut().for_each(|ends| ends.retain(|end| end > at));
        let held = truth.found(&request.names);
        let begun = Instant::now();
        let chosen = match rule {
            Rule::TwoChoices => {
                let (a, b) = (random.below(replicas), random.below(replicas));
                if ends[a].len() <= ends[b].len() { a } else { b }
            }
            Rule::Seconds => routers[gateway].choose(request, &able).expect("a replica"),
            Rule::Exact => {
                let cost = |r: usize| {
                    let own = (request.names.len() - held[r]) as f64 * SECONDS_OF_PIECE;
                    let beside = ends[r].len() as f64 * (ROW * USUAL_ANSWER + 0.15 * own);
                    (free[r] - at).max(0.0) + own + beside
                };
                (0..replicas).min_by(|&a, &b| cost(a).total_cmp(&cost(b))).expect("a replica")
            }
        };
        choice += begun.elapsed();
        // The last piece is always computed.
        let real = held[chosen].min(request.names.len() - 1);
        (hit, total) = (hit + real, total + request.names.len());
        let first = at.max(free[chosen]) + (request.names.len() - real) as f64 * SECONDS_OF_PIECE;
        let end = first + answer * (STEP + ROW * (ends[chosen].len() + 1) as f64);
        free[chosen] = first;
        ends[chosen].push(end);
        sent[chosen] += 1;
        waits.push(first - at);
        truth.put(chosen, &request.names);
        let routed = routers[gateway].send(request, chosen, chosen as u64);
        open.push(Open { late: 0.0, first, end, gateway, routed });
        let others = (0..gateways).filter(|&other| other != gateway);
        news.extend(others.map(|gateway| Unheard {
            at: at + late,
            first,
            end,
            gateway,
            replica: chosen,
            what: number,
        }));
    }
    waits.sort_by(f64::total_cmp);
    let part = |p: usize| waits[(waits.len() * p / 100).min(waits.len() - 1)];
    let busiest = sent.iter().max().copied().unwrap_or(0);
    Report {
        found: f64::from(u32::try_from(hit).unwrap_or(u32::MAX)) / total as f64,
        p95: part(95),
        p99: part(99),
        skew: f64::from(busiest) * replicas as f64 / asked.len() as f64,
        choice: choice / asked.len() as u32,
    }
}

fn main() {
    let args = CommandLine::of_process();
    let smoke = args.has("--smoke");
    let requests = args.number("--requests").unwrap_or(if smoke { 1500 } else { 8000 });
    let replicas = args.number("--replicas").unwrap_or(if smoke { 16 } else { 64 }).min(MOST_REPLICAS);
    let pieces = args.number("--pieces").unwrap_or(1500);
    let gateways = args.number("--gateways").unwrap_or(1);
    let late = args.number("--late").unwrap_or(20) as f64 / 1e3;
    let service = Service { replicas, pieces, gateways, late };
    let alone = args.has("--alone");
    let asked = trace(requests, 6.5 * replicas as f64 / 64.0, alone);
    let mut reports = vec![];
    for (name, rule) in
        [("two choices", Rule::TwoChoices), ("seconds", Rule::Seconds), ("exact", Rule::Exact)]
    {
        let r = run(rule, &asked, &service);
        println!(
            "{name:<12} found {:5.1} %, first token p95 {:6.2} s, p99 {:6.2} s, busiest / mean {:.2}, a choice {:?}",
            100.0 * r.found,
            r.p95,
            r.p99,
            r.skew,
            r.choice
        );
        reports.push(r);
    }
    let [two, seconds, exact] = reports.as_slice() else { return };
    if alone {
        assert!(seconds.p95 <= 1.05 * two.p95, "without anything to share it is no worse than two choices");
    } else {
        assert!(seconds.found >= 0.95 * exact.found, "it finds what there is");
        assert!(seconds.p95 <= 1.1 * exact.p95, "first tokens come as soon as with exact knowledge");
        assert!(smoke || seconds.skew <= 2.0, "no replica has more than twice the mean");
    }
    assert!(seconds.choice <= Duration::from_micros(200), "a choice takes {:?}", seconds.choice);
}
