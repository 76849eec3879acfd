//! `namespace()`: the only thing of a template that changes, so the only one that can come to hold itself. The
//! engine's own cannot be emptied: a ring of them would outlive the rendering.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::value::{Enumerator, Object, ObjectRepr, ValueKind, ValueOrKwargs};
use minijinja::{Error, ErrorKind, Value};

use super::{meter, size};

thread_local! {
    /// Those of this thread's rendering, to empty them at its end.
    static MADE: RefCell<Vec<Arc<Namespace>>> = const { RefCell::new(Vec::new()) };
}

/// Attributes that `{% set ns.name = .. %}` assigns.
///
/// As in Jinja it is no dictionary: nobody walks through it, so that one that holds itself can be a key, be printed,
/// compared and copied into a list without end.
#[derive(Default)]
pub(super) struct Namespace(Mutex<BTreeMap<Arc<str>, Value>>);

impl Namespace {
    fn set(&self, name: &str, value: Value) -> Result<(), Error> {
        size::nested(std::slice::from_ref(&value))?;
        meter::memory(meter::ITEM)?;
        let old = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.into(), value);
        if let Some(old) = old {
            let bytes = freed(old);
            // A short text is held in place and was never taken from the meter as a block of its own.
            meter::returned(bytes);
        }
        Ok(())
    }

    /// Forgets all attributes.
    fn clear(&self) {
        let attributes = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        drop(attributes);
    }
}

/// Drops a value and tells how many bytes of it nobody else holds. Templates write `ns.out = ns.out ~ text` for each
/// message: without this the lengths of all stages would add up.
fn freed(value: Value) -> usize {
    if value.as_str().is_some() {
        let Ok(text) = Arc::<str>::try_from(value) else { return 0 };
        return if Arc::strong_count(&text) == 1 { text.len() } else { 0 };
    }
    let Some(list) = value.downcast_object::<Vec<Value>>() else { return 0 };
    drop(value);
    if Arc::strong_count(&list) == 1 { list.len() * meter::ITEM } else { 0 }
}

impl Object for Namespace {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key.as_str()?).cloned()
    }

    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::NonEnumerable
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<Namespace>")
    }
}

/// Runs a rendering, and empties its namespaces: one may hold itself, and none shall keep another alive.
pub(super) fn emptied_after<T>(render: impl FnOnce() -> T) -> T {
    let result = render();
    MADE.with(RefCell::take).iter().for_each(|namespace| namespace.clear());
    result
}

/// `namespace(defaults)` or `namespace(name=value, ..)`.
pub(super) fn namespace(defaults: Option<ValueOrKwargs>) -> Result<Value, Error> {
    let namespace = Arc::new(Namespace::default());
    meter::memory(4 * meter::ITEM)?;
    MADE.with(|made| made.borrow_mut().push(namespace.clone()));
    if let Some(defaults) = defaults.map(ValueOrKwargs::into_value) {
        if defaults.kind() != ValueKind::Map {
            let problem = format!("expected object or keyword arguments, got {}", defaults.kind());
            return Err(Error::new(ErrorKind::InvalidOperation, problem));
        }
        for key in defaults.try_iter()? {
            if let Some(name) = key.as_str() {
                namespace.set(name, defaults.get_item(&key)?)?;
            }
        }
    }
    Ok(Value::from_dyn_object(namespace))
}

/// `{% set of.name = value %}`.
pub(super) fn assign(value: &Value, of: &Value, name: &str) -> Result<(), Error> {
    match of.downcast_object_ref::<Namespace>() {
        Some(namespace) => namespace.set(name, value.clone()),
        None => {
            let problem = format!("can only assign to namespaces, not {}", of.kind());
            Err(Error::new(ErrorKind::InvalidOperation, problem))
        }
    }
}
