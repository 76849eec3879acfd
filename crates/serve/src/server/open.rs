//! The connections that are open, and which of them goes when there are as many as may be.

use super::pace::{Activity, Standstill};
use std::{
    cmp::Reverse,
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// A client that has kept its connection waiting for less is not late.
const LATE: Duration = Duration::from_secs(1);
/// Newcomers of an address that may wait for a place.
const MOST_WAITING: usize = 32;
/// How often a newcomer looks for a place while nobody can be closed.
const TICK: Duration = Duration::from_millis(20);

/// The connections that are open.
pub(super) struct OpenConnections {
    table: Mutex<ConnectionTable>,
    most: usize,
}

#[derive(Default)]
struct ConnectionTable {
    next: u64,
    open: HashMap<u64, OpenConnection>,
    of_address: HashMap<Option<IpAddr>, usize>,
    /// Newcomers of each address without a place.
    waiting: HashMap<Option<IpAddr>, usize>,
}

struct OpenConnection {
    peer: Option<IpAddr>,
    activity: Arc<Activity>,
    close: CancellationToken,
}

/// The place of a connection, given back with it.
pub(super) struct ConnectionPlace {
    table: Arc<OpenConnections>,
    id: u64,
    /// What it does.
    pub activity: Arc<Activity>,
    /// It has to close for others.
    pub close: CancellationToken,
}

impl OpenConnections {
    /// None yet, and at most so many at once.
    pub fn new(most: usize) -> Arc<OpenConnections> {
        Arc::new(OpenConnections { table: Mutex::default(), most: most.max(1) })
    }

    /// A place for a connection from this address; none where as many newcomers of that address wait as may.
    ///
    /// Where all places are taken, a connection closes that waits for its client: one of an address that has more than
    /// half of all, else one without requests before others, and of these that of the address with most, and the one that
    /// has waited longest.
    pub async fn enter(self: &Arc<Self>, peer: Option<IpAddr>) -> Option<ConnectionPlace> {
        let mut waits = None;
        loop {
            {
                let mut table = self.table();
                if table.open.len() < self.most || table.close_one(self.most) {
                    let (id, activity, close) = table.insert(peer);
                    return Some(ConnectionPlace { table: self.clone(), id, activity, close });
                }
                if waits.is_none() {
                    let waiting = table.waiting.entry(peer).or_default();
                    if *waiting >= MOST_WAITING {
                        return None;
                    }
                    *waiting += 1;
                    waits = Some(WaitingPlace { table: self.clone(), peer });
                }
            }
            sleep(TICK).await;
        }
    }

    /// Closes some connections that wait for their clients, where the system has no more files for new ones.
    pub fn make_room(&self) {
        let mut table = self.table();
        let most = table.open.len();
        (0..16).take_while(|_| table.close_one(most)).count();
    }

    /// Cuts bodies that nobody reads, again and again.
    pub async fn watch(&self, limit: Duration) {
        let tick = (limit / 4).clamp(Duration::from_millis(10), Duration::from_secs(1));
        loop {
            sleep(tick).await;
            let all: Vec<_> =
                self.table().open.values().map(|c| (c.activity.clone(), c.close.clone())).collect();
            // A connection on which only cut streams are left is of no more use: they stay open on it.
            all.iter().filter(|(activity, _)| activity.cut_slow(limit)).for_each(|(_, close)| close.cancel());
        }
    }

    fn table(&self) -> MutexGuard<'_, ConnectionTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionTable {
    fn insert(&mut self, peer: Option<IpAddr>) -> (u64, Arc<Activity>, CancellationToken) {
        let (activity, close) = (Arc::new(Activity::default()), CancellationToken::new());
        let id = self.next;
        self.next += 1;
        *self.of_address.entry(peer).or_default() += 1;
        let connection = OpenConnection { peer, activity: activity.clone(), close: close.clone() };
        self.open.insert(id, connection);
        (id, activity, close)
    }

    fn remove(&mut self, id: u64) -> Option<OpenConnection> {
        let connection = self.open.remove(&id)?;
        one_less(&mut self.of_address, connection.peer);
        Some(connection)
    }

    /// Closes the connection that others need most; false when none waits for its client.
    fn close_one(&mut self, most: usize) -> bool {
        let rank = |(&id, c): (&u64, &OpenConnection)| {
            let (what, since) = c.activity.standstill()?;
            if what == Standstill::Client && since.elapsed() < LATE {
                return None;
            }
            let others = self.of_address.get(&c.peer).copied().unwrap_or(0);
            Some((others > most / 2, what, others, Reverse(since), id))
        };
        let Some((.., id)) = self.open.iter().filter_map(rank).max() else { return false };
        self.remove(id).inspect(|c| c.close.cancel()).is_some()
    }
}

fn one_less(counts: &mut HashMap<Option<IpAddr>, usize>, peer: Option<IpAddr>) {
    if let Some(n) = counts.get_mut(&peer) {
        *n -= 1;
        if *n == 0 {
            counts.remove(&peer);
        }
    }
}

/// A newcomer that waits for a place.
struct WaitingPlace {
    table: Arc<OpenConnections>,
    peer: Option<IpAddr>,
}

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        one_less(&mut self.table.table().waiting, self.peer);
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.table.table().remove(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([10, 0, 0, last]))
    }

    #[tokio::test]
    async fn the_oldest_idle_one_of_the_address_with_most_makes_room() {
        let open = OpenConnections::new(4);
        let mut places = vec![];
        for peer in [2, 1, 1, 3] {
            sleep(Duration::from_millis(5)).await;
            places.push(open.enter(address(peer)).await.expect("a place"));
        }
        let _busy = places[1].activity.enter();
        let _new = open.enter(address(4)).await.expect("a place");
        let closed: Vec<bool> = places.iter().map(|p| p.close.is_cancelled()).collect();
        assert_eq!(closed, [false, false, true, false], "the first of its address answers");
        let _new = open.enter(address(4)).await.expect("a place");
        assert!(places[0].close.is_cancelled(), "the oldest");
    }

    #[tokio::test]
    async fn newcomers_wait_while_nobody_can_be_closed() {
        let open = OpenConnections::new(4);
        let mut busy = vec![];
        for _ in 0..4 {
            let place = open.enter(address(1)).await.expect("a place");
            busy.push((place.activity.enter(), place));
        }
        let enter = || {
            let open = open.clone();
            tokio::spawn(async move { open.enter(address(1)).await.is_some() })
        };
        let waiting: Vec<_> = (0..MOST_WAITING).map(|_| enter()).collect();
        sleep(TICK).await;
        assert!(open.enter(address(1)).await.is_none(), "as many wait as may");
        // A body that does not come makes room for others.
        busy[2].1.activity.awaits_body(true);
        let begun = std::time::Instant::now();
        assert!(open.enter(address(2)).await.is_some());
        assert!(busy[2].1.close.is_cancelled() && begun.elapsed() > LATE / 2);
        drop(busy);
        for waits in waiting {
            assert!(waits.await.expect("a task"));
        }
        assert!(open.table().waiting.is_empty());
    }

    #[tokio::test]
    async fn places_are_given_back() {
        let open = OpenConnections::new(1);
        for _ in 0..3 {
            drop(open.enter(address(1)).await.expect("a place"));
        }
        assert!(open.table().open.is_empty() && open.table().of_address.is_empty());
    }
}
