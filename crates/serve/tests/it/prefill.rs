//! Prompts that one replica computes, and whose answers go on in another one.

use crate::{
    client::get,
    joined::{KEY, gateway, moved, replicas, start, stream, stream_of, wait},
    options,
};
use lamina_serve::{JoinedReplica, ModelOrigin, ReplicaRole, ServeOptions, Server, StartError};
use serde_json::json;
use std::path::Path;

/// A gateway, and replicas with these roles, in the order of their numbers, which share a folder.
fn replicas_of(folder: &Path, roles: &[ReplicaRole]) -> (Server, Vec<JoinedReplica>) {
    let server = gateway("127.0.0.1:0");
    let at = [server.join_address().expect("an address")];
    let mut engines = vec![];
    for &role in roles {
        engines.push(start(shared(folder), &at, role).expect("an engine"));
        wait(|| replicas(server.port()).len() == engines.len());
    }
    (server, engines)
}

/// Options of a replica with an engine of its own.
fn shared(folder: &Path) -> ServeOptions {
    let models = vec![ModelOrigin::Path { name: Some("tiny".into()), path: None, settings: None }];
    let mut options = ServeOptions { models, app_key: Some(KEY.into()), ..options() };
    options.model.load.cache_dir = Some(folder.into());
    options
}

/// A request whose prompt has many pages.
fn request(word: &str) -> String {
    let prompt = format!("The {word} went to the park and saw a big dog. ").repeat(30);
    json!({ "model": "tiny", "prompt": prompt, "seed": 3, "temperature": 1, "n": 4, "max_tokens": 60, "logprobs": 20,
        "stream": true, "stream_options": { "include_usage": true }, "ignore_eos": true })
    .to_string()
}

/// What a metric of a replica says.
fn number(port: u16, replica: usize, name: &str) -> f64 {
    let text = get(port, &format!("/replicas/{replica}/metrics")).text();
    let line = text.lines().find(|line| line.contains(name) && !line.starts_with('#'));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("{name}: {text}"))
}

#[test]
fn an_answer_leaves_the_replica_of_its_prompt() {
    let folder = tempfile::tempdir().expect("a folder");
    let (server, _engines) = replicas_of(folder.path(), &[ReplicaRole::Mixed, ReplicaRole::Prefill]);
    let port = server.port();
    let roles: Vec<_> = replicas(port).iter().map(|r| r["role"].clone()).collect();
    assert_eq!(roles, ["mixed", "prefill"]);
    let alone = Server::start(options()).expect("a free port");
    // An answer whose pages take a busy disk longer than this small model takes for all of it stays where it is.
    let mut words = ["boy", "cat", "bird", "bear", "fish", "frog"].into_iter();
    let went = words.any(|word| {
        let (mut got, mut running) = (vec![], vec![]);
        // An answer runs in the one that has them.
        let beside = stream(port, 1, || {
            got = stream_of(port, &request(word), || {});
            running = replicas(port).iter().map(|r| r["running"].clone()).collect();
        });
        assert_eq!(running, [1, 0]);
        assert!(got == stream_of(alone.port(), &request(word), || {}), "{word}");
        assert!(beside == stream(alone.port(), 1, || {}), "beside {word}");
        moved(port, "prefilled") == 1.0
    });
    assert!(went, "every answer stayed");
    assert!(number(port, 0, "prefix_cache_disk_hits") > 0.0, "it read what the other one has computed");
    // Where nothing runs, prompts stay with their answers.
    assert!(stream_of(port, &request("girl"), || {}) == stream_of(alone.port(), &request("girl"), || {}));
    assert_eq!(moved(port, "prefilled"), 1.0);
}

#[test]
fn a_replica_that_is_alone_answers_what_it_was_to_hand_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let (server, _engines) = replicas_of(folder.path(), &[ReplicaRole::Prefill]);
    let port = server.port();
    let alone = Server::start(options()).expect("a free port");
    assert!(stream_of(port, &request("boy"), || {}) == stream_of(alone.port(), &request("boy"), || {}));
    assert_eq!(moved(port, "prefilled"), 0.0);
    assert_eq!(get(port, "/health").status, 200);
}

#[test]
fn prompts_are_handed_on_through_a_folder() {
    let nobody = ["127.0.0.1:9".parse().expect("an address")];
    let options = ServeOptions { app_key: Some(KEY.into()), ..options() };
    match start(options, &nobody, ReplicaRole::Prefill) {
        Err(e @ StartError::Unshared) => assert!(e.to_string().contains("--cache-dir")),
        _ => panic!("it started"),
    }
}
