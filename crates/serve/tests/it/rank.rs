//! Encoders: documents ranked, texts as vectors, and what they cannot do.

use crate::{
    client::{Answer, post},
    options, start,
};
use lamina::{LoadOptions, Model};
use lamina_fixtures::Models;
use lamina_serve::{ModelOrigin, ServeOptions};
use serde_json::{Value, json};
use std::sync::LazyLock;

const QUERY: &str = "w5 w6 w5";
const DOCUMENTS: [&str; 3] = ["w7 w8", "w1 w2 w3 w4 w299", ""];

/// A reranker of random weights.
static RERANKER: LazyLock<Model> = LazyLock::new(|| {
    let models = Models::new();
    let folder = models.encoder("bert");
    lamina_fixtures::add_words(&folder);
    Model::load(Some(&folder), LoadOptions::default()).expect("an encoder")
});

fn reranker() -> u16 {
    static PORT: LazyLock<u16> = LazyLock::new(|| {
        let models = vec![ModelOrigin::Loaded { name: "ranks".into(), model: RERANKER.clone() }];
        let server = start(ServeOptions { port: 0, quiet: true, models, ..ServeOptions::default() });
        let port = server.port();
        // It lives as long as the tests.
        std::mem::forget(server);
        port
    });
    *PORT
}

fn rank(path: &str, body: &Value) -> Answer {
    post(reranker(), path, body)
}

#[test]
fn documents_are_ranked_by_the_classifier() {
    let documents = DOCUMENTS.map(str::to_owned);
    let scores = RERANKER.rerank(QUERY, &documents, &mut || true).expect("scores");
    let body = json!({ "query": QUERY, "documents": DOCUMENTS, "raw_scores": true });
    for path in ["/rerank", "/v1/rerank", "/v1/reranking", "/v2/rerank"] {
        let answer = rank(path, &body).json();
        let results = answer["results"].as_array().expect("a list");
        assert_eq!((results.len(), &answer["model"]), (3, &json!("ranks")));
        for result in results {
            let index = result["index"].as_u64().expect("an index") as usize;
            // What reads JSON here may miss a double by its last bit, of which a score has none.
            let score = result["relevance_score"].as_f64().map(|score| score as f32);
            assert_eq!(score, Some(scores[index]));
        }
        assert!(results.is_sorted_by_key(|r| -r["relevance_score"].as_f64().expect("a number")));
        // [CLS] query [SEP] document [SEP]
        assert_eq!(answer["usage"]["total_tokens"], 3 * (3 + 3) + 2 + 5);
    }
}

#[test]
fn rankings_in_the_words_of_others() {
    let objects: Vec<Value> = DOCUMENTS.iter().map(|text| json!({ "text": text })).collect();
    let jina = json!({ "query": QUERY, "documents": objects, "top_n": 1, "return_documents": true });
    let best = rank("/v1/rerank", &jina).json()["results"].clone();
    assert_eq!(best.as_array().map(Vec::len), Some(1));
    assert!(best[0]["document"]["text"].is_string());
    assert!((0.0..=1.0).contains(&best[0]["relevance_score"].as_f64().expect("a number")));
    let tei = json!({ "query": QUERY, "texts": DOCUMENTS, "return_text": true });
    let list = rank("/rerank", &tei).json();
    assert_eq!(list.as_array().map(Vec::len), Some(3));
    assert_eq!(list[0]["text"], json!(DOCUMENTS[list[0]["index"].as_u64().expect("an index") as usize]));
    assert_eq!(list[0]["score"], best[0]["relevance_score"]);
}

#[test]
fn wrong_rankings_are_refused_by_name() {
    let param = |body: Value| {
        let answer = rank("/rerank", &body);
        assert_eq!(answer.status, 400, "{}", answer.text());
        answer.json()["error"]["param"].clone()
    };
    assert_eq!(param(json!({ "documents": ["a"] })), "query");
    assert_eq!(param(json!({ "query": "a" })), "documents");
    assert_eq!(param(json!({ "query": "a", "documents": [] })), "documents");
    assert_eq!(param(json!({ "query": "a", "documents": ["b", 7] })), "documents[1]");
    assert_eq!(param(json!({ "query": "a", "documents": ["b"], "top_n": 0 })), "top_n");
    assert_eq!(param(json!({ "query": "a", "documents": ["b"], "texts": ["b"] })), "texts");
    assert_eq!(param(json!({ "query": "a", "documents": ["b"], "truncate": true })), "truncate");
    let long = "w1 ".repeat(200);
    let answer = rank("/rerank", &json!({ "query": "a", "documents": [long] }));
    assert_eq!((answer.status, &answer.json()["error"]["type"]), (400, &json!("exceed_context_size_error")));
}

#[test]
fn an_encoder_embeds_and_says_that_it_writes_nothing() {
    let vector = |path: &str, body: Value| post(reranker(), path, &body).json();
    let first = vector("/v1/embeddings", json!({ "input": "w1 w2" }))["data"][0]["embedding"].clone();
    assert_eq!(first.as_array().map(Vec::len), Some(RERANKER.info().hidden));
    assert_eq!(vector("/embedding", json!({ "content": "w1 w2" }))[0]["embedding"][0], first);
    assert_eq!(vector("/api/embed", json!({ "model": "ranks", "input": "w1 w2" }))["embeddings"][0], first);
    for (path, body) in [
        ("/v1/completions", json!({ "prompt": "w1" })),
        ("/completion", json!({ "prompt": "w1", "stream": true })),
        ("/v1/completions", json!({ "prompt": "w1", "stream": true })),
    ] {
        let answer = post(reranker(), path, &body);
        assert_eq!(answer.status, 501, "{path}: {}", answer.text());
        assert!(answer.text().contains("writes none"), "{}", answer.text());
    }
}

#[test]
fn a_model_without_a_classifier_is_asked_where_that_is_allowed() {
    let mut allowed = options();
    allowed.model.reranking = true;
    let server = start(allowed);
    let body = json!({ "query": "a dog", "documents": ["a cat", "a dog", "the sea"] });
    let answer = post(server.port(), "/rerank", &body).json();
    let scores: Vec<f64> = answer["results"]
        .as_array()
        .unwrap_or_else(|| panic!("{answer}"))
        .iter()
        .map(|r| r["relevance_score"].as_f64().expect("a number"))
        .collect();
    assert!(scores.len() == 3 && scores.iter().all(|s| (0.0..=1.0).contains(s)), "{scores:?}");
    assert_eq!(post(server.port(), "/rerank", &body).json()["results"], answer["results"]);
}
