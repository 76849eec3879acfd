//! What a request draws by chance: ids, seeds, the moment it was asked. A gateway fixes them before the first step, so that
//! another engine that goes on with the answer draws the same; a client's key fixes them for requests that are sent again.

use crate::models::now;
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use std::{
    future::Future,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};
use tokio::task_local;
use uuid::Uuid;
use xxhash_rust::xxh3::Xxh3;

task_local! {
    static SCOPE: DrawScope;
}

/// What a request draws, fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixedDraws {
    /// Start of the stream that ids are made of.
    ids: u64,
    /// Seed of sampling where the request names none.
    seed: u64,
    /// When it was asked, in seconds since 1970.
    asked: u64,
    /// Milliseconds since then.
    pub waited: u64,
}

/// A request that runs with fixed draws.
struct DrawScope {
    draws: FixedDraws,
    ids: AtomicU64,
    begun: Instant,
}

impl FixedDraws {
    /// Draws for a request that comes now.
    pub fn fresh() -> FixedDraws {
        let (ids, seed) = Uuid::new_v4().as_u64_pair();
        FixedDraws { ids: mixed(ids), seed: mixed(seed), asked: now(), waited: 0 }
    }

    /// Draws for a request that says by a header `Idempotency-Key` that it is the same as one before, wherever that one came
    /// to: for one tenant, method and path.
    pub fn of_header(
        headers: &HeaderMap,
        tenant: &str,
        method: &str,
        uri: &impl ToString,
    ) -> Option<FixedDraws> {
        let key = headers.get("idempotency-key")?.to_str().ok()?;
        Some(FixedDraws::of_key(&[tenant, method, &uri.to_string(), key]))
    }

    fn of_key(key: &[&str]) -> FixedDraws {
        let mut hash = Xxh3::new();
        for part in key {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        let both = hash.digest128();
        FixedDraws { ids: mixed((both >> 64) as u64), seed: mixed(both as u64), ..FixedDraws::fresh() }
    }

    /// Runs a request with these draws.
    pub async fn within<T>(self, request: impl Future<Output = T>) -> T {
        let waited = Duration::from_millis(self.waited);
        let begun = Instant::now().checked_sub(waited).unwrap_or_else(Instant::now);
        SCOPE.scope(DrawScope { draws: self, ids: AtomicU64::new(self.ids), begun }, request).await
    }
}

/// Work of the request that runs now, for another thread: it draws as here.
pub fn carried<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let scope = SCOPE.try_with(|scope| DrawScope {
        draws: scope.draws,
        ids: AtomicU64::new(scope.ids.load(Ordering::Relaxed)),
        begun: scope.begun,
    });
    move || match scope {
        Ok(scope) => SCOPE.sync_scope(scope, work),
        Err(_) => work(),
    }
}

/// Sebastiano Vigna's SplitMix64.
fn mixed(state: u64) -> u64 {
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Random bits of an id.
pub(super) fn id_bits() -> u128 {
    let half = |scope: &DrawScope| u128::from(mixed(scope.ids.fetch_add(1, Ordering::Relaxed)));
    let fixed = SCOPE.try_with(|scope| half(scope) << 64 | half(scope));
    fixed.unwrap_or_else(|_| Uuid::new_v4().as_u128())
}

/// The seed of stream `number` of a request that names none; none where each engine may draw its own.
pub(super) fn seed(number: usize) -> Option<u64> {
    SCOPE.try_with(|scope| mixed(scope.draws.seed.wrapping_add(number as u64)) >> 1).ok()
}

/// When the request was asked, in seconds since 1970.
pub fn asked_at() -> u64 {
    SCOPE.try_with(|scope| scope.draws.asked).unwrap_or_else(|_| now())
}

/// When the request came: from then on its time runs.
pub fn arrival() -> Instant {
    SCOPE.try_with(|scope| scope.begun).unwrap_or_else(|_| Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::ids;

    #[tokio::test]
    async fn fixed_draws_repeat() {
        let draws = FixedDraws { waited: 5000, ..FixedDraws::fresh() };
        let draw = || async { (ids::fresh("a"), ids::fresh("a"), seed(0), seed(1), asked_at()) };
        let (one, two) = (draws.within(draw()).await, draws.within(draw()).await);
        assert_eq!(one, two);
        assert!(one.0 != one.1 && one.2 != one.3 && one.2.is_some_and(|s| i64::try_from(s).is_ok()));
        assert!(draws.within(async { arrival().elapsed() }).await >= Duration::from_secs(5));
        let elsewhere =
            draws.within(async { std::thread::spawn(carried(|| (seed(0), asked_at()))).join() }).await;
        assert_eq!(elsewhere.ok(), Some((one.2, one.4)));
        assert!(seed(0).is_none() && ids::fresh("a") != ids::fresh("a"));
    }

    #[test]
    fn keys_of_clients_fix_draws() {
        let of = |key: &[&str]| {
            let draws = FixedDraws::of_key(key);
            (draws.ids, draws.seed)
        };
        assert_eq!(of(&["a", "b"]), of(&["a", "b"]));
        assert!(of(&["a", "b"]) != of(&["ab", ""]) && of(&["a", "b"]) != of(&["a", "c"]));
    }
}
