//! A process behind a gateway: the models and the whole server, without a listener for clients.

mod attend;
mod connection;
mod desk;
mod engine;
mod info;
mod join;
mod news;
mod port;

pub use join::JoinedReplica;

use crate::{
    options::ServeOptions,
    router::ReplicaRole,
    server::StartError,
    ticket::{ReplicaHello, ReplicaPlace},
};
use desk::ReplicaDesk;
use engine::ReplicaEngine;
use std::{
    io::{Read, Write},
    net::Ipv4Addr,
};

/// Answers the requests of a gateway until it closes this process's input, or is gone.
///
/// # Errors
/// When the models cannot be loaded, or the system gives no port or thread.
pub fn serve_replica(mut options: ServeOptions, place: &ReplicaPlace) -> Result<(), StartError> {
    let usual = lamina::default_threads();
    options.model.load.threads.get_or_insert((usual / place.of.max(1)).max(1));
    let engine = ReplicaEngine::start(options)?;
    engine.wait_for_models(|| true)?;
    let desk = ReplicaDesk::new(&engine.app, engine.routes(), ReplicaRole::Mixed);
    let _member = desk.admit(place.key.clone());
    let bound = engine.threads.block_on(connection::listen(&desk, (Ipv4Addr::LOCALHOST, 0).into()));
    let port = bound.map_err(|source| StartError::Listen { address: "127.0.0.1".into(), source })?;
    let hello = serde_json::to_string(&ReplicaHello { port, boot: desk.boot });
    println!("{}", hello.unwrap_or_default());
    _ = std::io::stdout().flush();
    // The gateway's end, however it comes, closes this.
    _ = std::io::stdin().read(&mut [0]);
    engine.app.end.cancel();
    Ok(())
}
