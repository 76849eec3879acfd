//! Several gateways before the same replicas: each knows what the others have asked.

use crate::{
    client::{get, open, post},
    joined::{KEY, PATIENCE, answers, engine_of, gateway, replicas, stream, stream_of, wait},
};
use lamina_serve::{JoinedReplica, Server};
use serde_json::{Value, json};
use std::{
    net::{SocketAddr, TcpListener},
    time::{Duration, Instant},
};

/// A gateway, and where replicas join it.
fn one() -> (Server, SocketAddr) {
    let server = gateway("127.0.0.1:0");
    let at = server.join_address().expect("an address");
    (server, at)
}

/// Engines that join both of these, when they are there.
fn engines(gateways: [(&Server, SocketAddr); 2]) -> Vec<JoinedReplica> {
    let engines = (0..2).map(|_| engine_of(&gateways.map(|(_, at)| at), KEY)).collect();
    for (server, _) in gateways {
        wait(|| replicas(server.port()).len() == 2);
    }
    engines
}

/// Addresses of the replicas that answer this gateway's requests now, or of those that do not.
fn addresses(port: u16, busy: bool) -> Vec<String> {
    let found = replicas(port).into_iter().filter(|replica| (replica["running"] != 0) == busy);
    found.map(|replica| replica["address"].as_str().expect("an address").to_owned()).collect()
}

/// Tokens of prompts that the replica at this address has seen.
fn prompt_tokens(port: u16, address: &str) -> f64 {
    let found = replicas(port).into_iter().find(|replica| replica["address"] == address).expect("a replica");
    let text = get(port, &format!("/replicas/{}/metrics", found["id"])).text();
    let line = text.lines().find(|line| line.contains("prompt_tokens_total") && !line.starts_with('#'));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
}

#[test]
fn a_gateway_chooses_by_what_others_have_asked() {
    let (first, at) = one();
    let place = TcpListener::bind("127.0.0.1:0").expect("a port");
    let late = place.local_addr().expect("an address");
    drop(place);
    let engines: Vec<JoinedReplica> = (0..2).map(|_| engine_of(&[at, late], KEY)).collect();
    wait(|| replicas(first.port()).len() == 2);
    // Fast machines answer less before a replica has tried again to join the gateway that comes.
    let body = answers(1, 16, 1000);
    let whole = stream_of(first.port(), &body, || {});
    let got = stream_of(first.port(), &body, || {
        // One comes while the answer runs, and another one was there before.
        let second = gateway(&late.to_string());
        wait(|| replicas(second.port()).len() == 2);
        let busy = addresses(first.port(), true);
        let idle = addresses(first.port(), false);
        assert_eq!((busy.len(), idle.len()), (1, 1));
        let before = prompt_tokens(second.port(), &busy[0]);
        for i in 0..6 {
            let prompt =
                format!("{i} is the number of this story, which has a beginning of its own. ").repeat(4);
            let body = json!({ "model": "tiny", "prompt": prompt, "max_tokens": 2 });
            assert_eq!(post(second.port(), "/v1/completions", &body).status, 200);
        }
        assert_eq!(prompt_tokens(second.port(), &busy[0]), before, "all went to the one that was idle");
        assert!(prompt_tokens(second.port(), &idle[0]) > 6.0);
    });
    assert_eq!(got, whole);
    assert!(engines.iter().all(|engine| engine.wait_within(Duration::ZERO).is_none()), "they live");
}

#[test]
fn answers_that_one_gateway_keeps_are_known_to_all() {
    let ((first, a), (second, b)) = (one(), one());
    let _engines = engines([(&first, a), (&second, b)]);
    let ask = |port: u16, body: &Value| post(port, "/v1/responses", body);
    let body = json!({ "model": "tiny", "input": "Once upon a time", "max_output_tokens": 8, "store": true });
    let told = ask(first.port(), &body).json();
    let id = told["id"].as_str().expect("an id").to_owned();
    wait(|| get(second.port(), &format!("/v1/responses/{id}")).status == 200);
    let more = json!({ "model": "tiny", "input": "Go on", "previous_response_id": id, "max_output_tokens": 8, "seed": 1,
        "store": false });
    let (here, there) = (ask(first.port(), &more).json(), ask(second.port(), &more).json());
    assert_eq!(there["previous_response_id"], id.as_str());
    assert_eq!(here["output"][0]["content"], there["output"][0]["content"]);
    assert_eq!(here["usage"]["input_tokens"], there["usage"]["input_tokens"]);
}

/// A client whose gateway is gone asks another one again, and gets what it would have got: also without a seed.
#[test]
fn a_key_of_the_client_makes_a_request_the_same_at_every_gateway() {
    let ((first, a), (second, b)) = (one(), one());
    let _engines = engines([(&first, a), (&second, b)]);
    let body = json!({ "model": "tiny", "prompt": "Once upon a time", "temperature": 1.5, "max_tokens": 24 });
    let ask = |port: u16, key: &str| {
        let headers = [("content-type", "application/json"), ("idempotency-key", key)];
        let told = open(port, "POST", "/v1/completions", &headers, body.to_string().as_bytes()).read().json();
        (told["id"].clone(), told["choices"].clone())
    };
    let told = ask(first.port(), "7a1c");
    assert_eq!(ask(second.port(), "7a1c"), told);
    assert_eq!(ask(first.port(), "7a1c"), told);
    let other = ask(second.port(), "7a1d");
    assert!(other.0 != told.0 && other.1 != told.1);
}

#[test]
fn one_that_is_let_go_leaves_all_gateways() {
    let ((first, a), (second, b)) = (one(), one());
    let engines = engines([(&first, a), (&second, b)]);
    let whole = stream(second.port(), 2, || {});
    let got = stream(second.port(), 2, || {
        let busy = addresses(second.port(), true);
        let at_first =
            replicas(first.port()).into_iter().find(|replica| replica["address"] == busy[0].as_str());
        let number = at_first.expect("the same replica")["id"].clone();
        assert_eq!(post(first.port(), &format!("/replicas/{number}"), &json!({})).status, 200);
        wait(|| replicas(first.port()).len() == 1);
    });
    assert_eq!(got, whole, "what it answered for the other gateway goes on elsewhere");
    wait(|| replicas(second.port()).len() == 1);
    let over = |engine: &JoinedReplica| engine.wait_within(Duration::from_millis(500));
    let ended: Vec<bool> = engines.iter().map(|engine| matches!(over(engine), Some(Ok(())))).collect();
    assert_eq!(ended.iter().filter(|ended| **ended).count(), 1);
}

#[test]
fn a_gateway_that_is_gone_takes_no_replica_with_it() {
    let ((first, a), (second, b)) = (one(), one());
    let engines = engines([(&first, a), (&second, b)]);
    let whole = stream(second.port(), 3, || {});
    let mut first = Some(first);
    let got = stream(second.port(), 3, || drop(first.take()));
    assert_eq!((got == whole, replicas(second.port()).len()), (true, 2));
    let back = gateway(&a.to_string());
    let end = Instant::now() + PATIENCE;
    while replicas(back.port()).len() < 2 {
        assert!(Instant::now() < end && engines[0].wait_within(Duration::from_millis(20)).is_none());
    }
}
