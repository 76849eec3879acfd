//! Which replica gets a request: the gateway's router beside other rules, on a trace of conversations, simulated.
//!
//! `cargo bench -p lamina-serve --bench router -- [--smoke] [--requests 8000] [--replicas 64] [--pages 1500] [--gateways 1]
//! [--late 20] [--alone] [--json]`. Replicas are engines with their own schedule and pages over a machine that computes nothing,
//! and beside them, for the same trace, an LRU with a queue. Gateways hear of one another through the replicas, `--late`
//! milliseconds later. `--alone`: no two prompts begin alike. What the router believes is compared with a rule that sees every
//! replica's contents and work; the bars are those of the design: it ends with an error where one is missed.

mod engines;
mod gateways;
mod lru;
mod machine;
mod trace;

use engines::EngineReplicas;
use gateways::Gateways;
use lamina_fixtures::CommandLine;
use lamina_serve::router::{MOST_REPLICAS, PIECE, RouteRates};
use lru::LruReplicas;
use machine::{ROW, SECONDS_OF_TOKEN};
use std::time::Duration;
use trace::{Asked, Random, TOKENS};

/// Tokens of an answer that a rule expects.
const USUAL_ANSWER: f64 = 150.0;

/// Who chooses.
#[derive(Clone, Copy, PartialEq)]
enum Rule {
    TwoChoices,
    Seconds,
    /// As [`Rule::Seconds`], with what replicas hold and do in place of what the router believes.
    Exact,
}

const RULES: [(&str, Rule); 3] =
    [("two choices", Rule::TwoChoices), ("seconds", Rule::Seconds), ("exact", Rule::Exact)];

/// Replicas that answer the requests of a trace.
trait Replicas {
    /// They go on until `to`, and tell the gateways what happens meanwhile.
    fn advance(&mut self, to: f64, told: &mut Gateways);

    /// Tokens of a prompt that each of them has.
    fn cached(&mut self, asked: &Asked) -> Vec<usize>;

    /// Seconds of prompts that wait at a replica.
    fn waiting(&self, replica: usize, at: f64) -> f64;

    /// Requests that it has.
    fn running(&self, replica: usize) -> usize;

    /// A request comes to it.
    fn take(&mut self, number: usize, asked: &Asked, replica: usize, told: &mut Gateways);

    /// What became of all requests.
    fn served(self: Box<Self>) -> Vec<Served>;
}

/// A request that was answered: cached tokens of its prompt, and seconds until its first token.
struct Served {
    cached: usize,
    first: f64,
}

/// What is simulated.
struct Service {
    replicas: usize,
    /// Of the cache of each.
    pages: usize,
    gateways: usize,
    /// Seconds after which gateways hear of one another's requests, from the replicas.
    late: f64,
}

impl Service {
    fn engines(&self) -> Box<dyn Replicas> {
        Box::new(EngineReplicas::new(self.replicas, self.pages))
    }

    fn lru(&self) -> Box<dyn Replicas> {
        Box::new(LruReplicas::new(self.replicas, self.pages))
    }
}

struct Report {
    found: f64,
    p50: f64,
    p95: f64,
    p99: f64,
    skew: f64,
    choice: Duration,
}

fn run(rule: Rule, asked: &[Asked], service: &Service, mut replicas: Box<dyn Replicas>) -> Report {
    let size = (service.replicas, service.pages);
    let (mut random, mut sent) = (Random(7), vec![0_usize; service.replicas]);
    let mut gateways = Gateways::new(asked, service.gateways, service.late, size);
    let byte = SECONDS_OF_TOKEN * TOKENS as f64 / PIECE as f64;
    gateways.know(RouteRates { byte, answer: ROW * USUAL_ANSWER, ..RouteRates::default() });
    for (number, one) in asked.iter().enumerate() {
        let gateway = random.below(service.gateways);
        replicas.advance(one.at, &mut gateways);
        gateways.hear(one.at);
        let chosen = match rule {
            Rule::TwoChoices => two_choices(&mut random, service.replicas, &*replicas),
            Rule::Seconds => gateways.choose(gateway, number),
            Rule::Exact => exact(one, &mut *replicas),
        };
        sent[chosen] += 1;
        gateways.send(one.at, gateway, number, chosen);
        replicas.take(number, one, chosen, &mut gateways);
    }
    replicas.advance(f64::INFINITY, &mut gateways);
    report(asked, &replicas.served(), &sent, gateways.choices)
}

fn two_choices(random: &mut Random, count: usize, replicas: &dyn Replicas) -> usize {
    let (a, b) = (random.below(count), random.below(count));
    if replicas.running(a) <= replicas.running(b) { a } else { b }
}

fn exact(one: &Asked, replicas: &mut dyn Replicas) -> usize {
    let cached = replicas.cached(one);
    let cost = |replica: usize| {
        let own = (one.tokens.len() - cached[replica]) as f64 * SECONDS_OF_TOKEN;
        let beside = replicas.running(replica) as f64 * (ROW * USUAL_ANSWER + 0.15 * own);
        replicas.waiting(replica, one.at) + own + beside
    };
    let costs: Vec<f64> = (0..cached.len()).map(cost).collect();
    (0..costs.len()).min_by(|&a, &b| costs[a].total_cmp(&costs[b])).expect("a replica")
}

fn report(asked: &[Asked], served: &[Served], sent: &[usize], choices: Duration) -> Report {
    assert_eq!(served.len(), asked.len(), "every request was answered");
    let mut waits: Vec<f64> = served.iter().map(|served| served.first).collect();
    waits.sort_by(f64::total_cmp);
    let part = |p: usize| waits[(waits.len() * p / 100).min(waits.len() - 1)];
    let cached: usize = served.iter().map(|served| served.cached).sum();
    let all: usize = asked.iter().map(|one| one.tokens.len()).sum();
    let busiest = sent.iter().max().copied().unwrap_or(0);
    Report {
        found: cached as f64 / all as f64,
        p50: part(50),
        p95: part(95),
        p99: part(99),
        skew: (busiest * sent.len()) as f64 / asked.len() as f64,
        choice: choices / asked.len() as u32,
    }
}

/// Prints what came of each rule, for people or as a line of JSON.
fn print(world: &str, reports: &[Report], json: bool) {
    for ((rule, _), r) in RULES.iter().zip(reports) {
        let Report { p50, p95, p99, skew, choice, .. } = r;
        let (found, us) = (100.0 * r.found, choice.as_secs_f64() * 1e6);
        match json {
            true => println!(
                "{{\"replicas\": \"{world}\", \"rule\": \"{rule}\", \"found\": {found:.1}, \"first_s\": {{\"p50\": {p50:.3}, \"p95\": {p95:.3}, \"p99\": {p99:.3}}}, \"busiest_over_mean\": {skew:.2}, \"choice_us\": {us:.0}}}"
            ),
            false => println!(
                "{world:<8} {rule:<12} found {found:5.1} %, first token {p50:5.2} s, p95 {p95:6.2}, p99 {p99:6.2}, busiest / mean {skew:.2}, a choice {us:.0} us"
            ),
        }
    }
}

/// The bars of the design. A smoke run has too few requests for its percentiles to say much.
fn check([two, seconds, exact]: &[Report; 3], alone: bool, smoke: bool) {
    assert!(seconds.choice <= Duration::from_micros(200), "a choice takes {:?}", seconds.choice);
    if alone {
        assert!(
            smoke || seconds.p95 <= 1.05 * two.p95,
            "without anything to share it is no worse than two choices"
        );
    } else {
        assert!(seconds.found >= 0.95 * exact.found, "it finds what there is");
        assert!(smoke || seconds.p95 <= 1.1 * exact.p95, "first tokens come as soon as with exact knowledge");
        assert!(smoke || seconds.skew <= 2.0, "no replica has more than twice the mean");
    }
}

fn main() {
    let args = CommandLine::of_process();
    let smoke = args.has("--smoke");
    let requests = args.number("--requests").unwrap_or(if smoke { 300 } else { 8000 });
    let replicas = args.number("--replicas").unwrap_or(if smoke { 4 } else { 64 }).min(MOST_REPLICAS);
    let pages = args.number("--pages").unwrap_or(1500);
    let gateways = args.number("--gateways").unwrap_or(1);
    let late = args.number("--late").unwrap_or(20) as f64 / 1e3;
    let service = Service { replicas, pages, gateways, late };
    let alone = args.has("--alone");
    let asked = trace::trace(requests, 6.5 * replicas as f64 / 64.0, alone);
    for (name, world) in [("engines", Service::engines as fn(&Service) -> _), ("lru", Service::lru)] {
        let reports = RULES.map(|(_, rule)| run(rule, &asked, &service, world(&service)));
        print(name, &reports, args.has("--json"));
        check(&reports, alone, smoke);
    }
}
