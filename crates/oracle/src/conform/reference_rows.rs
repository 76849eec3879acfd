//! Rows of the reference, computed once for each case: backends that one process tries share them.

use super::{
    bench::Case,
    machine,
    rows::{self, Found, Layout},
    steps::SCHEDULES,
};
use crate::reference::Reference;
use lamina_plan::backend::Result;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

/// A case by name, its lengths, and where its tokens lie.
type Key = (String, Vec<usize>, Layout);

static KNOWN: Mutex<Option<HashMap<Key, Arc<Found>>>> = Mutex::new(None);

/// What the rows of `case` should be.
pub fn rows(case: &Case, layout: Layout) -> Result<Arc<Found>> {
    let key = (case.name.clone(), case.lengths.clone(), layout);
    if let Some(found) = known(|all| all.get(&key).cloned()) {
        return Ok(found);
    }
    let steps = SCHEDULES[0].1(&case.lengths);
    let found = Arc::new(rows::run(&mut *machine(Box::new(Reference), case)?, case, &steps, layout)?);
    known(|all| all.insert(key, found.clone()));
    Ok(found)
}

fn known<T>(ask: impl FnOnce(&mut HashMap<Key, Arc<Found>>) -> T) -> T {
    ask(KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}
