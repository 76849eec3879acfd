//! Slots that are saved and restored, as with llama-server's `--slot-save-path`.

use crate::{
    client::{get, post},
    options, shared, start,
};
use lamina_serve::{ModelOrigin, ServeOptions};
use serde_json::{Value, json};
use std::path::Path;

const STORY: &str = "Once upon a time there was a little girl who liked to play in the park with her dog, and one day \
                     they found a box under the old tree. She said: ";

/// A server with a model of its own, whose cache is empty, and this folder.
fn server(folder: &Path) -> ServeOptions {
    let lone = ModelOrigin::Path { name: Some("tiny".into()), path: None, settings: None };
    ServeOptions { models: vec![lone], slot_save_path: Some(folder.to_owned()), max_running: 2, ..options() }
}

fn ask(port: u16, more: Value) -> Value {
    let mut body = json!({ "prompt": STORY, "n_predict": 12, "temperature": 0, "return_tokens": true });
    body.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
    post(port, "/completion", &body).json()
}

#[test]
fn a_restored_slot_is_not_computed_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = json!({ "filename": "story.bin" });
    let (first, saved) = {
        let server = start(server(folder.path()));
        let first = ask(server.port(), json!({ "id_slot": 1 }));
        let saved = post(server.port(), "/slots/1?action=save", &name).json();
        drop(server);
        (first, saved)
    };
    let tokens = first["tokens_evaluated"].as_u64().expect("a number") + 12;
    assert_eq!((&saved["id_slot"], &saved["n_saved"]), (&json!(1), &json!(tokens)), "{saved}");
    let bytes = std::fs::metadata(folder.path().join("story.bin")).expect("a file").len();
    assert_eq!(saved["n_written"], bytes);

    let server = start(server(folder.path()));
    let port = server.port();
    let restored = post(port, "/slots/0?action=restore", &name).json();
    let known = restored["n_restored"].as_u64().expect("a number");
    assert!(known >= 32 && known < tokens && restored["n_read"] == bytes, "{restored}");
    let again = ask(port, json!({}));
    assert_eq!(again["tokens"], first["tokens"]);
    assert!(again["timings"]["cache_n"].as_u64() >= Some(32), "{}", again["timings"]);
    // The text went to the slot that begins like it.
    let erased = post(port, "/slots/0?action=erase", &json!({})).json();
    assert_eq!(erased, json!({ "id_slot": 0, "n_erased": tokens }));
    assert_eq!(post(port, "/slots/0?action=save", &name).status, 400, "nothing is left to save");
    drop(server);
}

#[test]
fn wrong_slots_files_and_actions_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("noise"), "this is no session").expect("a file");
    let server = start(server(folder.path()));
    let port = server.port();
    ask(port, json!({ "n_predict": 1 }));
    for file in ["", ".", "..", "../x", "a/b", "a\\b", ".hidden", "a\0b", "a:b", &"x".repeat(256)] {
        let answer = post(port, "/slots/0?action=save", &json!({ "filename": file }));
        assert_eq!((answer.status, &answer.json()["error"]["param"]), (400, &json!("filename")), "{file:?}");
    }
    for (path, file) in [
        ("/slots/2?action=save", "a"),
        ("/slots/-1?action=save", "a"),
        ("/slots/0?action=copy", "a"),
        ("/slots/0", "a"),
        ("/slots/1?action=save", "a"),
        ("/slots/0?action=restore", "missing"),
        ("/slots/0?action=restore", "noise"),
    ] {
        let answer = post(port, path, &json!({ "filename": file }));
        assert_eq!(answer.status, 400, "{path}: {}", answer.text());
        assert!(!answer.text().contains(&folder.path().display().to_string()), "{}", answer.text());
    }
    assert_eq!(ask(port, json!({ "id_slot": 2 }))["error"]["param"], "id_slot");
    assert_eq!(get(port, "/slots").json().as_array().map(Vec::len), Some(2));
    drop(server);
    let answer = post(shared(), "/slots/0?action=save", &json!({ "filename": "a" }));
    assert_eq!(answer.status, 501, "{}", answer.text());
}
