//! A server with the small model of the package, over real sockets.

mod beams;
mod client;
mod frames;
mod gateways;
mod infill;
mod joined;
mod limits;
mod live;
mod media;
mod names;
mod native;
mod openai;
mod pictures;
mod prefill;
mod quiet;
mod rank;
mod responses;
mod safety;
mod slots;
mod slow;
mod sounds;
mod spans;
mod storm;
mod traced;
mod watch;

use lamina::Model;
use lamina_serve::{ModelOrigin, ServeOptions, Server};
use std::sync::{Arc, LazyLock, OnceLock};

/// The model, loaded once: servers of all tests share its engine.
static MODEL: LazyLock<Model> = LazyLock::new(|| {
    Model::load(None, lamina::LoadOptions::default()).expect("the model inside the package")
});

/// Options of a test's server: any free port, no log.
fn options() -> ServeOptions {
    let models = vec![ModelOrigin::Loaded { name: "tiny".into(), model: MODEL.clone() }];
    ServeOptions { port: 0, quiet: true, models, ..ServeOptions::default() }
}

fn start(options: ServeOptions) -> Arc<Server> {
    let server = Server::start(options).expect("a free port");
    server.ready(|| true).expect("a model");
    Arc::new(server)
}

/// A server that tests share.
fn shared() -> u16 {
    static SERVER: OnceLock<Arc<Server>> = OnceLock::new();
    SERVER.get_or_init(|| start(options())).port()
}
