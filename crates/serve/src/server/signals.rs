//! Signals of the system: SIGTERM ends in good order, SIGHUP reads keys and certificates again.

use super::Server;

/// Exit code of a second signal.
#[cfg(unix)]
const AT_ONCE: i32 = 130;

impl Server {
    /// Listens to signals from now on. SIGINT is the command line's own affair.
    ///
    /// # Errors
    /// When the system refuses.
    #[cfg(unix)]
    pub fn end_on_signals(&self) -> std::io::Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        let _inside = self.runtime.enter();
        let (mut term, mut hup) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
        // No task may hold the server: its last owner joins the thread that tasks run on.
        let (app, drain, front) = (self.app.clone(), self.drain.clone(), self.front.clone());
        self.runtime.spawn(async move {
            term.recv().await;
            app.drain();
            drain.cancel();
            term.recv().await;
            std::process::exit(AT_ONCE);
        });
        self.runtime.spawn(async move {
            while hup.recv().await.is_some() {
                let told = match front.reload() {
                    Ok(()) => "keys and certificates were read again".to_owned(),
                    Err(e) => format!("error: {e}; the old keys and certificates stay"),
                };
                front.app().log.line(&told);
            }
        });
        Ok(())
    }

    /// Listens to signals from now on.
    ///
    /// # Errors
    /// None on this system, which has none.
    #[cfg(not(unix))]
    pub fn end_on_signals(&self) -> std::io::Result<()> {
        Ok(())
    }
}
