//! The memory of all large bodies together: how much they may hold between their first byte and the prompts that are made
//! of them. Each alone is below its limit, but there may be thousands.

use crate::error::ApiError;
use serde_json::Value;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// When to come back: large bodies are prompts, or refused, within seconds.
const COME_BACK: Duration = Duration::from_secs(2);

/// Bytes that large bodies may hold together. Clones are the same.
#[derive(Debug, Clone)]
pub struct BodyBudget {
    most: u64,
    held: Arc<Mutex<u64>>,
}

impl BodyBudget {
    /// A budget of so many bytes.
    pub fn new(most: u64) -> BodyBudget {
        BodyBudget { most, held: Arc::default() }
    }

    /// What a new body holds: nothing so far.
    pub fn share(&self) -> BodyShare {
        BodyShare { budget: self.clone(), bytes: 0 }
    }

    fn held(&self) -> MutexGuard<'_, u64> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one body holds of the budget, given back when it is dropped.
#[derive(Debug)]
pub struct BodyShare {
    budget: BodyBudget,
    bytes: u64,
}

impl BodyShare {
    /// Holds `bytes` from now on. A body that is alone is never refused: its own limit is another one.
    ///
    /// # Errors
    /// When the other bodies leave less; then it holds what it did.
    pub fn resize(&mut self, bytes: u64) -> Result<(), ApiError> {
        let mut held = self.budget.held();
        let others = *held - self.bytes;
        if others > 0 && bytes > self.bytes && others.saturating_add(bytes) > self.budget.most {
            return Err(no_room(others, self.budget.most));
        }
        *held = others.saturating_add(bytes);
        self.bytes = *held - others;
        Ok(())
    }

    /// Holds `bytes` more.
    ///
    /// # Errors
    /// As for [`BodyShare::resize`].
    pub fn add(&mut self, bytes: u64) -> Result<(), ApiError> {
        self.resize(self.bytes.saturating_add(bytes))
    }

    /// Gives `bytes` back.
    pub fn take(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        *self.budget.held() -= bytes;
        self.bytes -= bytes;
    }

    /// Refuses a body of `bytes` in all where it would find no room now; holds nothing.
    ///
    /// # Errors
    /// As for [`BodyShare::resize`].
    pub fn check(&self, bytes: u64) -> Result<(), ApiError> {
        let others = *self.budget.held() - self.bytes;
        match others > 0 && others.saturating_add(bytes) > self.budget.most {
            true => Err(no_room(others, self.budget.most)),
            false => Ok(()),
        }
    }

    /// Gives all back: prompts were made of the body.
    pub fn release(&mut self) {
        *self.budget.held() -= std::mem::take(&mut self.bytes);
    }
}

impl Drop for BodyShare {
    fn drop(&mut self) {
        self.release();
    }
}

fn no_room(others: u64, most: u64) -> ApiError {
    ApiError::unavailable(
        format!(
            "other large bodies hold {others} of {most} bytes now (--max-body-memory): send this one later"
        ),
        COME_BACK,
    )
}

/// Bytes that a parsed value takes, without what its containers have to spare.
pub fn memory(value: &Value) -> u64 {
    let beside: u64 = match value {
        Value::String(text) => text.len() as u64,
        Value::Array(list) => list.iter().map(memory).sum(),
        Value::Object(map) => map
            .iter()
            .map(|(name, value)| (size_of::<(usize, String)>() + name.len()) as u64 + memory(value))
            .sum(),
        _ => 0,
    };
    beside + size_of::<Value>() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Cause;
    use serde_json::json;

    #[test]
    fn bodies_share_what_there_is_and_one_alone_may_have_more() {
        let budget = BodyBudget::new(100);
        let (mut one, mut other) = (budget.share(), budget.share());
        assert!(one.resize(60).is_ok() && other.resize(40).is_ok());
        let refused = other.resize(41).unwrap_err();
        assert_eq!((refused.cause, refused.retry), (Cause::Unavailable, Some(COME_BACK)));
        assert!(refused.message.contains("60 of 100"), "{}", refused.message);
        assert!(budget.share().check(1).is_err() && one.check(60).is_ok());
        assert!(one.add(41).is_err() && one.add(0).is_ok());
        one.take(20);
        assert_eq!(*budget.held(), 80);
        assert!(one.add(20).is_ok());
        assert!(one.resize(30).is_ok() && other.resize(70).is_ok(), "what was given back is there");
        other.release();
        assert!(one.resize(1000).is_ok(), "alone");
        assert!(other.resize(0).is_ok() && other.resize(1).is_err());
        drop(one);
        assert!(other.resize(100).is_ok());
        drop(other);
        assert_eq!(*budget.held(), 0);
    }

    #[test]
    fn small_values_take_more_than_their_text() {
        let digits = json!(vec![1; 1000]);
        assert!(memory(&digits) >= 1000 * size_of::<Value>() as u64);
        assert!(memory(&json!("x".repeat(1000))) < 1200);
        assert!(memory(&json!({ "name": [1] })) > memory(&json!([[1]])));
    }
}
