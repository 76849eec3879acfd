//! Where lines go that are no error of a request: a library writes to no terminal.

use std::{fmt, sync::Arc};

/// Is told what goes wrong beside requests, such as a cache on disk that cannot be written: one line at a time, from any
/// thread. By default nobody is.
#[derive(Clone, Default)]
pub struct Reporter(Option<Arc<Listener>>);

type Listener = dyn Fn(&str) + Send + Sync;

impl Reporter {
    /// Lines go to `listener`.
    pub fn to(listener: impl Fn(&str) + Send + Sync + 'static) -> Reporter {
        Reporter(Some(Arc::new(listener)))
    }

    /// Tells a line.
    pub fn line(&self, line: &str) {
        self.0.iter().for_each(|listener| listener(line));
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Reporter(..)" } else { "Reporter(none)" })
    }
}

/// Keeps a failure as the `last` one; returns it where the last one was another.
pub(crate) fn news(last: &mut Option<String>, failure: String) -> Option<String> {
    let new = last.as_ref() != Some(&failure);
    new.then(|| last.insert(failure).clone())
}

/// Options are the same whoever listens.
impl PartialEq for Reporter {
    fn eq(&self, _: &Reporter) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn lines_go_to_whoever_listens() {
        let heard = Arc::new(Mutex::new(vec![]));
        let lines = heard.clone();
        let report = Reporter::to(move |line| lines.lock().expect("no panic").push(line.to_owned()));
        report.clone().line("one");
        Reporter::default().line("nobody hears this");
        report.line("two");
        assert_eq!(*heard.lock().expect("no panic"), ["one", "two"]);
    }
}
