//! The replicas of a gateway: which live, what each does, who gets the next request.

use super::{crash::has_crashed, lock::held};
use crate::ticket::ReplicaHello;
use serde_json::{Value, json};
use std::{
    process::ExitStatus,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// How often a living replica is looked for.
const TICK: Duration = Duration::from_millis(20);
/// Starts that come to nothing, in a row, before a gateway says that it cannot start.
const MOST_FAILURES: usize = 3;

/// A place for a process, one after another.
pub(super) struct Replica {
    pub number: usize,
    state: Mutex<ReplicaState>,
    /// Requests that it answers.
    pub running: AtomicUsize,
    over: AtomicBool,
}

#[derive(Default)]
struct ReplicaState {
    life: Option<ReplicaLife>,
    starts: usize,
    failures: usize,
    /// The last process that has ended, and whether that was a fault of its own.
    last: Option<(u64, bool)>,
}

/// A process that answers.
#[derive(Clone)]
pub(super) struct ReplicaLife {
    pub hello: ReplicaHello,
    pid: u32,
    /// It is to end: its answers go on elsewhere.
    pub leave: CancellationToken,
    /// It was silent for too long, and has not spoken since.
    silent: Arc<AtomicBool>,
    /// It was told what the others were told.
    pub settled: Arc<AtomicBool>,
}

impl Replica {
    fn new(number: usize) -> Replica {
        let state = Mutex::default();
        Replica { number, state, running: AtomicUsize::new(0), over: AtomicBool::new(false) }
    }

    pub fn up(&self, hello: ReplicaHello, pid: u32) {
        let mut state = held(&self.state);
        (state.starts, state.failures) = (state.starts + 1, 0);
        let (leave, silent, settled) = (CancellationToken::new(), Arc::default(), Arc::default());
        state.life = Some(ReplicaLife { hello, pid, leave, silent, settled });
    }

    pub fn down(&self, status: Option<ExitStatus>) {
        let mut state = held(&self.state);
        match state.life.take() {
            Some(life) => state.last = Some((life.hello.boot, status.is_some_and(has_crashed))),
            None => state.failures += 1,
        }
    }

    pub fn life(&self) -> Option<ReplicaLife> {
        held(&self.state).life.clone()
    }

    /// True where the process of this boot has ended by a fault of its own.
    pub fn has_crashed(&self, boot: u64) -> bool {
        held(&self.state).last == Some((boot, true))
    }

    /// True where its process is to end.
    pub fn is_leaving(&self) -> bool {
        self.is_over() || self.life().is_some_and(|life| life.leave.is_cancelled() && self.is_idle())
    }

    fn is_idle(&self) -> bool {
        self.running.load(Ordering::SeqCst) == 0
    }

    /// True where no further process is to start.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    fn told(&self) -> Value {
        let state = held(&self.state);
        let life = state.life.as_ref();
        let word = match life {
            None => "starting",
            Some(life) if life.leave.is_cancelled() => "leaving",
            Some(life) if life.silent.load(Ordering::Relaxed) => "silent",
            Some(_) => "up",
        };
        json!({
            "id": self.number,
            "state": word,
            "pid": life.map(|life| life.pid),
            "running": self.running.load(Ordering::SeqCst),
            "starts": state.starts,
        })
    }
}

impl ReplicaLife {
    /// Whether it has spoken.
    pub fn speaks(&self, speaks: bool) {
        self.silent.store(!speaks, Ordering::Relaxed);
    }

    pub fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }

    fn may_answer(&self) -> bool {
        !self.is_silent() && !self.leave.is_cancelled()
    }
}

/// All replicas of a gateway.
pub(super) struct Replicas(Vec<Arc<Replica>>);

/// A request's place at a replica, given back with it.
pub(super) struct ReplicaSeat {
    pub replica: Arc<Replica>,
    pub life: ReplicaLife,
}

impl ReplicaSeat {
    fn new(replica: Arc<Replica>, life: ReplicaLife) -> ReplicaSeat {
        replica.running.fetch_add(1, Ordering::SeqCst);
        ReplicaSeat { replica, life }
    }

    /// True where its process has ended by a fault of its own.
    pub fn has_crashed(&self) -> bool {
        self.replica.has_crashed(self.life.hello.boot)
    }
}

impl Drop for ReplicaSeat {
    fn drop(&mut self) {
        self.replica.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Replicas {
    pub fn new(count: usize) -> Replicas {
        Replicas((0..count).map(|number| Arc::new(Replica::new(number))).collect())
    }

    pub fn all(&self) -> &[Arc<Replica>] {
        &self.0
    }

    /// True where one can answer.
    pub fn any(&self) -> bool {
        self.0.iter().any(|r| r.life().is_some_and(|life| life.may_answer()))
    }

    /// True where each has failed to start again and again.
    pub fn all_fail(&self) -> bool {
        self.0.iter().all(|r| held(&r.state).failures >= MOST_FAILURES)
    }

    /// A place at the replica that is chosen among those that are able, without those of these boots; waits until there is one.
    pub async fn place(
        &self,
        apart: &[u64],
        choose: impl Fn(&[(usize, u64)]) -> Option<usize>,
    ) -> ReplicaSeat {
        loop {
            let lives: Vec<(usize, ReplicaLife)> =
                self.0.iter().filter_map(|r| Some((r.number, r.life()?))).collect();
            let able = lives.iter().filter(|(_, l)| l.may_answer() && !apart.contains(&l.hello.boot));
            let able: Vec<(usize, u64)> = able.map(|(number, life)| (*number, life.hello.boot)).collect();
            let chosen = choose(&able).and_then(|chosen| lives.into_iter().find(|(n, _)| *n == chosen));
            if let Some((number, life)) = chosen {
                return ReplicaSeat::new(self.0[number].clone(), life);
            }
            sleep(TICK).await;
        }
    }

    /// A place at this very replica, where it can answer.
    pub fn place_at(&self, number: usize) -> Option<ReplicaSeat> {
        let replica = self.0.get(number)?;
        replica.life().filter(|life| !life.is_silent()).map(|life| ReplicaSeat::new(replica.clone(), life))
    }

    /// Lets the process of a replica go: its answers go on elsewhere, and another process takes its place.
    pub fn renew(&self, number: usize) -> bool {
        let life = self.0.get(number).and_then(|replica| replica.life());
        life.inspect(|life| life.leave.cancel()).is_some()
    }

    /// Ends all processes.
    pub fn end(&self) {
        self.0.iter().for_each(|replica| replica.over.store(true, Ordering::SeqCst));
    }

    /// What `GET /replicas` says.
    pub fn told(&self) -> Value {
        self.0.iter().map(|replica| replica.told()).collect()
    }
}
