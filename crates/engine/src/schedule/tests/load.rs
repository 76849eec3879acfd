//! Clients in a closed loop, on a machine whose times are reckoned: what a policy means for first tokens, gaps and speed.

use super::*;
use crate::policy::goal::Goal;

/// Seconds of a step, of a row, and of a row for each token that it sees: a model of 0.6B in 4 bits on two cores, where
/// 4 clients with prompts of 300 tokens got their first tokens after 5.9 s and 32 tokens/s before goals were kept.
const STEP: f64 = 0.012;
const ROW: f64 = 0.005;
const SEEN: f64 = 1e-6;

/// What clients saw, in seconds.
#[derive(Debug, Default)]
struct Seen {
    /// From a request to its first token.
    first: Vec<f64>,
    /// From one token of an answer to the next.
    gaps: Vec<f64>,
    seconds: f64,
    tokens: usize,
}

impl Seen {
    fn of(times: &mut [f64], percent: usize) -> f64 {
        times.sort_by(f64::total_cmp);
        times[(times.len() - 1) * percent / 100]
    }

    fn speed(&self) -> f64 {
        self.tokens as f64 / self.seconds
    }
}

/// Requests in a closed loop, each client's next when one has ended.
struct ClosedLoop {
    world: World,
    cost: Cost,
    begin: Instant,
    /// When each request came, and its last token.
    asked: HashMap<u64, (Instant, Option<Instant>)>,
    seen: Seen,
}

impl ClosedLoop {
    fn new(policy: Policy) -> ClosedLoop {
        let mut world = World::new(false, limits(512, 32, 2048), false);
        world.schedule.policy = policy;
        let begin = world.now;
        ClosedLoop { world, cost: Cost::default(), begin, asked: HashMap::new(), seen: Seen::default() }
    }

    fn ask(&mut self, prompt: usize, answer: usize) {
        let id = self.world.answer(tokens(self.asked.len() as u32, prompt), answer - 1);
        self.asked.insert(id, (self.world.now, None));
    }

    /// One step; how many answers ended.
    fn step(&mut self) -> usize {
        let step = self.world.schedule.next(self.world.now, &self.cost);
        let rows: usize = step.shares.iter().map(|s| s.rows).sum();
        let seen: usize = step.shares.iter().map(|s| s.rows * (s.start + s.rows / 2)).sum();
        let time = Duration::from_secs_f64(STEP + ROW * rows as f64 + SEEN * seen as f64);
        self.cost.note(Size { rows, depth: seen / rows.max(1) }, time);
        self.world.now += time;
        for share in &step.shares {
            self.world.schedule.computed(share, KeptDrafts::default());
            if share.left == 0 {
                self.token(share.id);
            }
        }
        let before = self.world.schedule.running.len();
        self.world.choose(&step);
        before - self.world.schedule.running.len()
    }

    fn token(&mut self, id: u64) {
        let (now, (asked, last)) = (self.world.now, self.asked.get_mut(&id).expect("was asked"));
        match last.replace(now) {
            None => self.seen.first.push(now.duration_since(*asked).as_secs_f64()),
            Some(last) => self.seen.gaps.push(now.duration_since(last).as_secs_f64()),
        }
        self.seen.tokens += 1;
        self.seen.seconds = now.duration_since(self.begin).as_secs_f64();
    }
}

/// 60 requests of `clients` clients, with prompts of about 300 tokens and answers of 61.
fn closed_loop(clients: usize, between: Option<Duration>) -> Seen {
    let goal = Goal { first: None, between };
    let mut clocked = ClosedLoop::new(Policy { goal, ..Policy::default() });
    let mut lengths = (0u32..).map(|i| 210 + (i.wrapping_mul(2_654_435_761) >> 16) as usize % 181);
    let mut ask = |clocked: &mut ClosedLoop| clocked.ask(lengths.next().expect("endless"), 61);
    (0..clients).for_each(|_| ask(&mut clocked));
    for _ in 0..20_000 {
        for _ in 0..clocked.step() {
            ask(&mut clocked);
        }
        if clocked.asked.len() >= 60 + clients {
            return clocked.seen;
        }
    }
    panic!("it never ends");
}

#[test]
fn first_tokens_come_sooner_for_gaps_that_nobody_feels() {
    let (mut few, mut more) = (closed_loop(4, Some(Duration::ZERO)), closed_loop(4, None));
    for (name, seen) in [("twice a step without", &mut few), ("100 ms", &mut more)] {
        println!(
            "{name}: first tokens p50 {:.2} s, p99 {:.2} s; {:.1} tokens/s; gaps p50 {:.3} s, p99 {:.3} s",
            Seen::of(&mut seen.first, 50),
            Seen::of(&mut seen.first, 99),
            seen.speed(),
            Seen::of(&mut seen.gaps, 50),
            Seen::of(&mut seen.gaps, 99),
        );
    }
    // llama-server on the same machine and file: 3.3 s.
    let (before, now) = (Seen::of(&mut few.first, 50), Seen::of(&mut more.first, 50));
    assert!(now < 3.3 && now < 0.6 * before, "first tokens after {now} s, {before} s before");
    assert!(more.speed() > few.speed(), "{} and {} tokens/s", more.speed(), few.speed());
    assert!(Seen::of(&mut more.gaps, 98) <= 0.105, "gaps of {} s", Seen::of(&mut more.gaps, 98));
}

#[test]
fn a_long_prompt_ends_beside_short_ones_without_end() {
    let mut clocked = ClosedLoop::new(Policy::default());
    clocked.ask(4000, 2);
    (0..3).for_each(|_| clocked.ask(300, 20));
    let mut steps = 0;
    while clocked.asked[&0].1.is_none() {
        for _ in 0..clocked.step() {
            clocked.ask(300, 20);
        }
        steps += 1;
        assert!(steps < 5000, "it gets no rows");
    }
    let (alone, took) = (4000.0 * ROW, clocked.world.now.duration_since(clocked.begin).as_secs_f64());
    assert!(took < 6.0 * alone, "{took} s where it takes {alone} s alone");
}
