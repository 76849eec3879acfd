//! A process behind a gateway: the models and the whole server, without a listener for clients.

mod attend;
mod connection;
mod port;

use crate::{
    api,
    app::App,
    models::Phase,
    models::Registry,
    options::ServeOptions,
    server::StartError,
    threads::beside,
    ticket::{ReplicaHello, ReplicaPlace},
};
use std::{
    io::{Read, Write},
    net::Ipv4Addr,
    time::Duration,
};
use tokio::net::TcpListener;
use uuid::Uuid;

/// How long the models may take that are loaded is not limited; how often they are looked at.
const TICK: Duration = Duration::from_millis(10);

/// Answers the requests of a gateway until it closes this process's input, or is gone.
///
/// # Errors
/// When the models cannot be loaded, or the system gives no port or thread.
pub fn serve_replica(mut options: ServeOptions, place: &ReplicaPlace) -> Result<(), StartError> {
    options.quiet = true;
    let usual = lamina::default_threads();
    options.model.load.threads.get_or_insert((usual / place.of.max(1)).max(1));
    let models = Registry::new(&options)?;
    let app = App::new(options, models).map_err(StartError::Thread)?;
    app.models.begin();
    let runtime = beside().map_err(StartError::Thread)?;
    wait_for_models(&app)?;
    let listen = |source| StartError::Listen { address: "127.0.0.1".into(), source };
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).map_err(listen)?;
    let port = listener.local_addr().map_err(listen)?.port();
    let routes = api::routes().with_state(app.clone());
    runtime.spawn(connection::accept(app.clone(), routes, place.key.as_str().into(), listener));
    let idle = app.models.clone();
    runtime.spawn(async move { idle.forget_idle().await });
    let hello = serde_json::to_string(&ReplicaHello { port, boot: Uuid::new_v4().as_u64_pair().0 });
    println!("{}", hello.unwrap_or_default());
    _ = std::io::stdout().flush();
    // The gateway's end, however it comes, closes this.
    _ = std::io::stdin().read(&mut [0]);
    app.end.cancel();
    runtime.shutdown_background();
    Ok(())
}

/// A replica says that it is there when it can answer.
fn wait_for_models(app: &App) -> Result<(), StartError> {
    for slot in &app.models.first() {
        loop {
            match slot.phase() {
                Phase::Loading { .. } => std::thread::sleep(TICK),
                Phase::Failed(failure) => return Err(lamina::Error::Runtime(failure.why).into()),
                _ => break,
            }
        }
    }
    Ok(())
}
