//! Answers that can be asked for again, or gone on from: kept in memory for a while.

use crate::body::memory;
use serde_json::{Value, json};
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Answers at most, their bytes, and how long they are kept.
const MOST: usize = 1000;
const MOST_BYTES: usize = 64 << 20;
const LIFE: Duration = Duration::from_secs(3600);

/// A kept answer.
#[derive(Debug, Clone)]
pub struct KeptAnswer {
    /// Its body.
    pub body: Value,
    /// The conversation up to it, in OpenAI's shape.
    pub messages: Vec<Value>,
    /// The items that it was asked with.
    pub input: Vec<Value>,
}

impl KeptAnswer {
    /// As another process reads it.
    pub fn written(&self, id: &str, tenant: &str) -> Value {
        json!({ "id": id, "tenant": tenant, "body": self.body, "messages": self.messages, "input": self.input })
    }
}

/// The kept answers of a server: each is found by its id, and only by who asked for it.
#[derive(Default)]
pub struct KeptAnswers(Mutex<Shelf>);

#[derive(Default)]
struct Shelf {
    answers: HashMap<String, KeptEntry>,
    /// Ids, the oldest first.
    order: VecDeque<String>,
    bytes: usize,
}

struct KeptEntry {
    answer: Arc<KeptAnswer>,
    tenant: Arc<str>,
    bytes: usize,
    since: Instant,
}

impl KeptAnswers {
    /// Keeps an answer.
    pub fn keep(&self, id: &str, tenant: &Arc<str>, answer: KeptAnswer) {
        let parts = answer.messages.iter().chain(&answer.input).chain([&answer.body]);
        // Texts of pictures are long: they are measured, not written.
        let bytes = parts.map(|part| memory(part) as usize).sum::<usize>();
        let mut shelf = self.shelf();
        shelf.bytes += bytes;
        shelf.order.push_back(id.to_owned());
        let kept =
            KeptEntry { answer: Arc::new(answer), tenant: tenant.clone(), bytes, since: Instant::now() };
        shelf.answers.insert(id.to_owned(), kept);
        shelf.clear_out(MOST, MOST_BYTES, LIFE);
    }

    /// Keeps an answer that another process has written, unless it is there.
    pub fn read(&self, written: &Value) {
        let text = |name: &str| written[name].as_str().unwrap_or_default();
        let list = |name: &str| written[name].as_array().cloned().unwrap_or_default();
        let (id, tenant) = (text("id"), Arc::from(text("tenant")));
        if self.find(id, &tenant).is_none() {
            let (messages, input) = (list("messages"), list("input"));
            self.keep(id, &tenant, KeptAnswer { body: written["body"].clone(), messages, input });
        }
    }

    /// The answers of which a request speaks: by their ids, or by those of their items.
    pub fn named_in(&self, request: &str, tenant: &str) -> Vec<Value> {
        let shelf = self.shelf();
        let own = shelf.answers.iter().filter(|(_, kept)| &*kept.tenant == tenant);
        let named = own.filter(|(id, kept)| {
            let output = kept.answer.body["output"].as_array().into_iter().flatten();
            let mut items = output.chain(&kept.answer.input).filter_map(|item| item["id"].as_str());
            request.contains(id.as_str()) || items.any(|item| request.contains(item))
        });
        named.map(|(id, kept)| kept.answer.written(id, tenant)).collect()
    }

    /// The answer of that id.
    pub fn find(&self, id: &str, tenant: &str) -> Option<Arc<KeptAnswer>> {
        let mut shelf = self.shelf();
        shelf.clear_out(MOST, MOST_BYTES, LIFE);
        shelf.answers.get(id).filter(|k| &*k.tenant == tenant).map(|k| k.answer.clone())
    }

    /// The item of that id, of an answer's output or of what was asked.
    pub fn item(&self, id: &str, tenant: &str) -> Option<Value> {
        let mut shelf = self.shelf();
        shelf.clear_out(MOST, MOST_BYTES, LIFE);
        let own = shelf.answers.values().filter(|kept| &*kept.tenant == tenant);
        own.flat_map(|kept| {
            let output = kept.answer.body["output"].as_array().into_iter().flatten();
            output.chain(&kept.answer.input)
        })
        .find(|item| item["id"] == id)
        .cloned()
    }

    /// Forgets an answer; false where there is none.
    pub fn forget(&self, id: &str, tenant: &str) -> bool {
        let mut shelf = self.shelf();
        let found = shelf.answers.get(id).is_some_and(|k| &*k.tenant == tenant);
        if found {
            shelf.take(id);
            shelf.order.retain(|other| other != id);
        }
        found
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    /// Forgets the oldest until the rest is within limits.
    fn clear_out(&mut self, most: usize, most_bytes: usize, life: Duration) {
        while let Some(oldest) = self.order.front() {
            let old = self.answers.get(oldest).is_none_or(|k| k.since.elapsed() > life);
            if !old && self.answers.len() <= most && self.bytes <= most_bytes {
                return;
            }
            let id = oldest.clone();
            self.take(&id);
            self.order.pop_front();
        }
    }

    fn take(&mut self, id: &str) {
        if let Some(kept) = self.answers.remove(id) {
            self.bytes -= kept.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_are_their_askers_own_and_the_oldest_go() {
        let kept = KeptAnswers::default();
        let [a, b]: [Arc<str>; 2] = ["a".into(), "b".into()];
        let answer = |i: usize| json!({ "i": i, "output": [{ "id": format!("m{i}") }] });
        for i in 0..3 {
            kept.keep(&format!("r{i}"), &a, KeptAnswer { body: answer(i), messages: vec![], input: vec![] });
        }
        assert_eq!(kept.find("r1", &a).unwrap().body["i"], 1);
        assert_eq!(kept.item("m2", &a), Some(json!({ "id": "m2" })));
        assert!(kept.item("m2", &b).is_none() && kept.item("m9", &a).is_none());
        assert!(kept.find("r1", &b).is_none() && !kept.forget("r1", &b));
        assert!(kept.forget("r1", &a) && kept.find("r1", &a).is_none());
        kept.shelf().clear_out(1, usize::MAX, LIFE);
        assert!(kept.find("r0", &a).is_none() && kept.find("r2", &a).is_some());
        kept.shelf().clear_out(9, 0, LIFE);
        assert!(kept.shelf().answers.is_empty() && kept.shelf().bytes == 0 && kept.shelf().order.is_empty());
    }
}
