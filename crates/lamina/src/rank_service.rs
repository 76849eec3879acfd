//! A process that computes layers of a model for others.

use crate::{Error, LoadOptions, Result, backend_on, checkpoint, shield};
use lamina_load::{AppKey, MemoryRank, Progress, RankError, RankLine, RankReport, greet, serve_stage};
use std::{
    net::{TcpListener, TcpStream},
    path::Path,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

/// Connections that show that they have the key, at once: more are closed.
const MOST_GREETED: usize = 16;

/// Who is served now, in words; none: whoever comes next.
type Served = Mutex<Option<String>>;

/// A rank: it computes layers of one model for the processes that load that model with `stages`, one after the other.
pub struct RankService {
    listener: TcpListener,
    key: Option<AppKey>,
}

impl RankService {
    /// Listens at `address`. On one that other machines reach, LAMINA_APP_KEY has to be set: leaders prove that they have it.
    ///
    /// # Errors
    /// When the address cannot be listened on, or there is no key for it.
    pub fn listen(address: &str) -> Result<RankService> {
        let cannot = |e: std::io::Error| Error::Runtime(format!("{address} cannot be listened on: {e}"));
        let listener = TcpListener::bind(address).map_err(cannot)?;
        let local = listener.local_addr().map_err(cannot)?.ip().is_loopback();
        let key = AppKey::of_environment_unless(local).map_err(|e| Error::InvalidRequest(e.to_string()))?;
        Ok(RankService { listener, key })
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        self.listener.local_addr().map_or_else(|e| e.to_string(), |address| address.to_string())
    }

    /// Serves leaders of the model at `path` for ever, one after the other; `report` gets a line of whatever happens. Of
    /// `options`, those count that speak of this machine.
    ///
    /// # Errors
    /// When there is no model at all. What fails for one leader is told to it, and reported.
    pub fn serve(
        &self,
        path: Option<&Path>,
        options: &LoadOptions,
        (report, progress): (RankReport<'_>, Progress<'_>),
    ) -> Result<()> {
        checkpoint(path)?;
        let (served, greeted) = (Served::default(), AtomicUsize::new(0));
        let (chosen, leaders) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| self.greet_all(scope, (&served, &greeted), (chosen, report)));
            for line in leaders {
                let leader = line.peer();
                report(&format!("{leader}: joined"));
                let told = |text: &str| report(&format!("{leader}: {text}"));
                let ended = serve_one(path, options, (&line, None), (&told, progress));
                report(&format!("{leader}: left, {ended}"));
                *locked(&served) = None;
            }
        });
        Ok(())
    }

    /// Meets whoever connects. The one that is to be served next goes into the channel.
    fn greet_all<'s>(
        &'s self,
        scope: &'s thread::Scope<'s, '_>,
        (served, greeted): (&'s Served, &'s AtomicUsize),
        (chosen, report): (mpsc::Sender<RankLine>, RankReport<'s>),
    ) {
        for stream in self.listener.incoming().flatten() {
            if greeted.fetch_add(1, Ordering::Relaxed) >= MOST_GREETED {
                greeted.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let chosen = chosen.clone();
            scope.spawn(move || {
                let peer = stream.peer_addr().map_or_else(|e| e.to_string(), |peer| peer.to_string());
                match greet_one(stream, self.key.as_ref(), served) {
                    Ok(line) => _ = chosen.send(line),
                    Err(e) => report(&format!("{peer}: turned away, {e}")),
                }
                greeted.fetch_sub(1, Ordering::Relaxed);
            });
        }
    }
}

fn locked(served: &Served) -> MutexGuard<'_, Option<String>> {
    served.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Meets one, which is served next unless another one is.
fn greet_one(
    stream: TcpStream,
    key: Option<&AppKey>,
    served: &Served,
) -> std::result::Result<RankLine, RankError> {
    let before = locked(served).clone();
    let line = greet(stream, key, before)?;
    let mut now = locked(served);
    if let Some(other) = &*now {
        let busy = RankError::Busy(other.clone());
        line.refuse(&busy.to_string())?;
        return Err(busy);
    }
    *now = Some(line.peer());
    Ok(line)
}

/// Serves one leader; why that ended.
pub(crate) fn serve_one(
    path: Option<&Path>,
    options: &LoadOptions,
    (line, memory): (&RankLine, Option<MemoryRank>),
    told: (RankReport<'_>, Progress<'_>),
) -> String {
    // A panic here must not end a rank that nobody starts again.
    let served = shield(|| {
        let (ck, backend) = (checkpoint(path)?, backend_on(options.device, options.threads)?);
        Ok(serve_stage(&ck, options, backend, (line, memory), told))
    });
    match served {
        Ok(ended) => ended.map_or_else(|e| e.to_string(), |()| "done".to_owned()),
        Err(e) => {
            _ = line.refuse(&e.to_string());
            e.to_string()
        }
    }
}
