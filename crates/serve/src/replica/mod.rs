//! A process behind a gateway: the models and the whole server, without a listener for clients.

mod attend;
mod connection;
mod engine;
mod info;
mod join;
mod port;

pub use join::JoinedReplica;

use crate::{
    options::ServeOptions,
    server::StartError,
    ticket::{ReplicaHello, ReplicaPlace},
};
use engine::ReplicaEngine;
use std::{
    io::{Read, Write},
    net::Ipv4Addr,
};
use tokio::net::TcpListener;
use uuid::Uuid;

/// Answers the requests of a gateway until it closes this process's input, or is gone.
///
/// # Errors
/// When the models cannot be loaded, or the system gives no port or thread.
pub fn serve_replica(mut options: ServeOptions, place: &ReplicaPlace) -> Result<(), StartError> {
    let usual = lamina::default_threads();
    options.model.load.threads.get_or_insert((usual / place.of.max(1)).max(1));
    let engine = ReplicaEngine::start(options)?;
    engine.wait_for_models(|| true)?;
    let listen = |source| StartError::Listen { address: "127.0.0.1".into(), source };
    let bound = engine.threads.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    let listener = bound.map_err(listen)?;
    let port = listener.local_addr().map_err(listen)?.port();
    engine.threads.spawn(connection::accept(
        engine.app.clone(),
        engine.routes(),
        place.key.as_str().into(),
        listener,
    ));
    let hello = serde_json::to_string(&ReplicaHello { port, boot: Uuid::new_v4().as_u64_pair().0 });
    println!("{}", hello.unwrap_or_default());
    _ = std::io::stdout().flush();
    // The gateway's end, however it comes, closes this.
    _ = std::io::stdin().read(&mut [0]);
    engine.app.end.cancel();
    Ok(())
}
