//! Machine time by tenant: of those that wait, the one with the least goes first.
//!
//! Virtual token counters (arXiv 2401.00588) with seconds for tokens: a tenant that comes back starts at the least of
//! the active ones, since idle time is no credit.

use std::{collections::HashMap, sync::Arc};

/// The tenants that have requests, and those that owe time to them.
#[derive(Default)]
pub(crate) struct Tenants {
    accounts: HashMap<Arc<str>, Account>,
}

#[derive(Default)]
struct Account {
    /// Sequences that wait or run.
    active: usize,
    /// Seconds of machine time over the tenant's share.
    service: f64,
}

impl Tenants {
    /// One more sequence of `tenant`.
    pub fn enter(&mut self, tenant: &Arc<str>) {
        let least = self.least();
        let account = self.accounts.entry(tenant.clone()).or_default();
        if account.active == 0 {
            account.service = account.service.max(least.unwrap_or(0.0));
        }
        account.active += 1;
    }

    /// One sequence less.
    pub fn leave(&mut self, tenant: &str) {
        if let Some(account) = self.accounts.get_mut(tenant) {
            account.active -= 1;
        }
        // Who is idle and owes nothing would start at the least anyway.
        let least = self.least().unwrap_or(f64::INFINITY);
        self.accounts.retain(|_, a| a.active > 0 || a.service > least);
    }

    /// Counts `seconds` of machine time for a tenant with `share`.
    pub fn charge(&mut self, tenant: &str, seconds: f64, share: f64) {
        if let Some(account) = self.accounts.get_mut(tenant) {
            account.service += seconds / share;
        }
    }

    /// Machine time of a tenant, divided by its share.
    pub fn service(&self, tenant: &str) -> f64 {
        self.accounts.get(tenant).map_or(0.0, |a| a.service)
    }

    fn least(&self) -> Option<f64> {
        self.accounts.values().filter(|a| a.active > 0).map(|a| a.service).reduce(f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_no_credit_and_debts_stay() {
        let [a, b, c] = ["a", "b", "c"].map(Arc::<str>::from);
        let mut tenants = Tenants::default();
        tenants.enter(&a);
        tenants.charge("a", 10.0, 1.0);
        tenants.enter(&b);
        assert_eq!(tenants.service("b"), 10.0, "a newcomer starts at the least");
        tenants.charge("a", 5.0, 2.0);
        tenants.enter(&c);
        assert_eq!((tenants.service("a"), tenants.service("c")), (12.5, 10.0));
        tenants.leave("a");
        assert_eq!(tenants.service("a"), 12.5, "who leaves with a debt keeps it");
        tenants.charge("b", 4.0, 1.0);
        tenants.charge("c", 4.0, 1.0);
        tenants.enter(&a);
        assert_eq!(tenants.service("a"), 14.0, "and pays it by waiting");
        [a, b, c].iter().for_each(|t| tenants.leave(t));
        assert!(tenants.accounts.is_empty(), "nobody is left to owe to");
    }
}
