//! The replicas of a gateway: which live, what each does, who gets the next request.

use super::{crash::has_crashed, door::ReplicaDoor, lock::held};
use crate::router::{MOST_REPLICAS, ReplicaRole, RouteTarget};
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
    /// What no other start of a process has.
    pub boot: u64,
    pub door: ReplicaDoor,
    pid: u32,
    /// What its answers depend on; the same for all that the gateway starts.
    pub identity: Arc<str>,
    pub role: ReplicaRole,
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

    pub fn up(&self, life: ReplicaLife) {
        let mut state = held(&self.state);
        (state.starts, state.failures) = (state.starts + 1, 0);
        state.life = Some(life);
    }

    pub fn down(&self, status: Option<ExitStatus>) {
        let mut state = held(&self.state);
        match state.life.take() {
            Some(life) => state.last = Some((life.boot, status.is_some_and(has_crashed))),
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
            "role": life.map(|life| life.role),
            "address": life.map(|life| life.door.address.to_string()),
            "running": self.running.load(Ordering::SeqCst),
            "starts": state.starts,
        })
    }
}

impl ReplicaLife {
    /// A process that has just come up.
    pub fn new(boot: u64, door: ReplicaDoor, pid: u32) -> ReplicaLife {
        let (leave, silent, settled) = (CancellationToken::new(), Arc::default(), Arc::default());
        let (identity, role) = ("".into(), ReplicaRole::Mixed);
        ReplicaLife { boot, door, pid, identity, role, leave, silent, settled }
    }

    /// The same, whose answers depend on this, and which is there for that.
    pub fn of(self, identity: &str, role: ReplicaRole) -> ReplicaLife {
        ReplicaLife { identity: identity.into(), role, ..self }
    }

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
pub(super) struct Replicas {
    places: Vec<Arc<Replica>>,
    /// Where processes join: what the answers of those depend on that are there.
    identity: Option<Mutex<Arc<str>>>,
}

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
        self.replica.has_crashed(self.life.boot)
    }
}

impl Drop for ReplicaSeat {
    fn drop(&mut self) {
        self.replica.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Replicas {
    pub fn new(count: usize) -> Replicas {
        let places = (0..count).map(|number| Arc::new(Replica::new(number))).collect();
        Replicas { places, identity: None }
    }

    /// Places that processes may take which somebody else starts.
    pub fn open() -> Replicas {
        Replicas { identity: Some(Mutex::default()), ..Replicas::new(MOST_REPLICAS) }
    }

    /// The place of a process that joins.
    ///
    /// # Errors
    /// When all are taken, or answers could not move between it and those that are there.
    pub fn admit(&self, life: &ReplicaLife) -> Result<Arc<Replica>, String> {
        let Some(identity) = &self.identity else { return Err("no replica may join".into()) };
        let mut identity = held(identity);
        if !self.places.iter().any(|place| place.life().is_some()) {
            identity.clone_from(&life.identity);
        }
        if *identity != life.identity {
            return Err(format!(
                "its answers could not go on in the others: it has {}, and they have {identity}",
                life.identity
            ));
        }
        let free = self.places.iter().find(|place| place.life().is_none());
        let free = free.ok_or_else(|| format!("all {MOST_REPLICAS} places are taken"))?;
        free.up(life.clone());
        Ok(free.clone())
    }

    pub fn all(&self) -> &[Arc<Replica>] {
        &self.places
    }

    /// True where one can answer.
    pub fn any(&self) -> bool {
        self.places.iter().any(|r| r.life().is_some_and(|life| life.may_answer()))
    }

    /// True where each has failed to start again and again.
    pub fn all_fail(&self) -> bool {
        self.identity.is_none() && self.places.iter().all(|r| held(&r.state).failures >= MOST_FAILURES)
    }

    /// A place at the replica that is chosen among those that are able, without those of these boots; waits until there is one.
    pub async fn place(
        &self,
        apart: &[u64],
        choose: impl Fn(&[RouteTarget]) -> Option<usize>,
    ) -> ReplicaSeat {
        loop {
            let lives: Vec<(usize, ReplicaLife)> =
                self.places.iter().filter_map(|r| Some((r.number, r.life()?))).collect();
            let able = lives.iter().filter(|(_, l)| l.may_answer() && !apart.contains(&l.boot));
            let target = |&(replica, ref life): &(_, ReplicaLife)| RouteTarget {
                replica,
                boot: life.boot,
                role: life.role,
            };
            let able: Vec<RouteTarget> = able.map(target).collect();
            let chosen = choose(&able).and_then(|chosen| lives.into_iter().find(|(n, _)| *n == chosen));
            if let Some((number, life)) = chosen {
                return ReplicaSeat::new(self.places[number].clone(), life);
            }
            sleep(TICK).await;
        }
    }

    /// True where an answer whose prompt was computed for another replica can go on.
    pub fn any_mixed(&self) -> bool {
        let mixed = |life: ReplicaLife| life.may_answer() && life.role == ReplicaRole::Mixed;
        self.places.iter().any(|replica| replica.life().is_some_and(mixed))
    }

    /// A place at this very replica, where it can answer.
    pub fn place_at(&self, number: usize) -> Option<ReplicaSeat> {
        let replica = self.places.get(number)?;
        replica.life().filter(|life| !life.is_silent()).map(|life| ReplicaSeat::new(replica.clone(), life))
    }

    /// Lets the process of a replica go: its answers go on elsewhere, and another process takes its place.
    pub fn renew(&self, number: usize) -> bool {
        let life = self.places.get(number).and_then(|replica| replica.life());
        life.inspect(|life| life.leave.cancel()).is_some()
    }

    /// Ends all processes.
    pub fn end(&self) {
        self.places.iter().for_each(|replica| replica.over.store(true, Ordering::SeqCst));
    }

    /// What `GET /replicas` says.
    pub fn told(&self) -> Value {
        let there = |replica: &&Arc<Replica>| self.identity.is_none() || replica.life().is_some();
        self.places.iter().filter(there).map(|replica| replica.told()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(boot: u64, identity: &str) -> ReplicaLife {
        ReplicaLife::new(boot, ReplicaDoor::here(1, "key"), 1).of(identity, ReplicaRole::Mixed)
    }

    #[test]
    fn who_joins_takes_a_free_place_beside_its_equals() {
        let replicas = Replicas::open();
        let first = replicas.admit(&life(1, "a")).unwrap();
        assert_eq!((first.number, replicas.admit(&life(2, "a")).unwrap().number), (0, 1));
        let why = replicas.admit(&life(3, "b")).err().unwrap();
        assert!(why.contains("it has b, and they have a"), "{why}");
        first.down(None);
        assert_eq!(replicas.admit(&life(4, "a")).unwrap().number, 0);
        for number in 2..MOST_REPLICAS {
            assert_eq!(replicas.admit(&life(number as u64 + 9, "a")).unwrap().number, number);
        }
        assert_eq!(replicas.admit(&life(5, "a")).err().as_deref(), Some("all 64 places are taken"));
        replicas.all().iter().for_each(|replica| replica.down(None));
        assert!(replicas.admit(&life(6, "b")).is_ok(), "no answer of the others is left");
        assert!(Replicas::new(2).admit(&life(7, "a")).is_err());
    }
}
