//! What servers and proxies do wrong, one by one.

use super::loopback::*;
use crate::{HubError, ModelPreview, PullWatch};
use std::time::{Duration, Instant};

fn of_bytes(asked: &Asked) -> bool {
    asked.method == "GET" && asked.path.starts_with("/store")
}

/// A hub with one model of 3000 bytes, whose first `count` answers with bytes have this fault.
fn faulty(fault: Fault, count: usize) -> (std::sync::Arc<Loopback>, Vec<u8>) {
    let bytes = noise(3000, 5);
    let hub = Loopback::new(&[("model.gguf", bytes.clone())], move |asked, number| {
        (of_bytes(asked) && number <= count).then(|| fault.clone())
    });
    (hub, bytes)
}

#[test]
fn passing_faults_are_survived() {
    for fault in [Fault::Cut(10), Fault::WrongRange, Fault::Refuse(503, ""), Fault::Gzip, Fault::Html] {
        let (hub, bytes) = faulty(fault.clone(), 1);
        let c = client(&hub);
        assert_eq!(read_file(&c.get("hf:a/b").unwrap_or_else(|e| panic!("{fault:?}: {e}"))), bytes);
    }
}

#[test]
fn lasting_faults_are_told_and_leave_no_file() {
    for (fault, words) in [
        (Fault::Html, "page of HTML"),
        (Fault::Gzip, "compressed"),
        (Fault::WrongRange, "asked for"),
        (Fault::Damage, "arrived damaged"),
        (Fault::Refuse(500, ""), "answered 500"),
        (Fault::Cut(0), "broke off"),
    ] {
        let (hub, _) = faulty(fault.clone(), usize::MAX);
        let c = client(&hub);
        let e = c.get("hf:a/b").expect_err("a fault").to_string();
        assert!(e.contains(words), "{fault:?}: {e}");
        let whole = c.blobs("a/b").into_iter().any(|path| path.file_name().unwrap().len() == 64);
        assert!(!whole, "{fault:?}");
    }
}

#[test]
fn a_damaged_file_is_deleted() {
    let (hub, bytes) = faulty(Fault::Damage, 1);
    let c = client(&hub);
    assert!(matches!(c.get("hf:a/b"), Err(HubError::Checksum { .. })));
    assert!(c.blobs("a/b").is_empty());
    assert_eq!(read_file(&c.get("hf:a/b").unwrap()), bytes);
}

#[test]
fn servers_without_parts_send_the_whole() {
    let (hub, bytes) = faulty(Fault::NoRanges, usize::MAX);
    let c = client(&hub);
    assert_eq!(read_file(&c.get("hf:a/b").unwrap()), bytes);
}

#[test]
fn who_is_asked_to_wait_waits() {
    let (hub, bytes) = faulty(Fault::Busy(1), 1);
    let c = client(&hub);
    let begin = Instant::now();
    assert_eq!(read_file(&c.get("hf:a/b").unwrap()), bytes);
    assert!(begin.elapsed() >= Duration::from_secs(1));
}

#[test]
fn a_file_that_changes_meanwhile_is_told_and_forgotten() {
    let bytes = noise(3000, 5);
    let hub = Loopback::new(&[("model.gguf", bytes)], |asked, number| {
        (asked.method == "GET" && asked.path.starts_with("/a/b") && number > 0).then_some(Fault::OtherEtag)
    });
    let c = client(&hub);
    assert!(matches!(c.get("hf:a/b"), Err(HubError::Changed(_))));
    assert!(c.blobs("a/b").is_empty());
}

#[test]
fn sizes_that_lie_are_no_files() {
    for size in [2900, 3100] {
        let bytes = noise(3000, 5);
        let hub = Loopback::new(&[("model.gguf", bytes)], move |asked, _| {
            (asked.method == "HEAD").then_some(Fault::Lie(size))
        });
        let c = client(&hub);
        assert!(matches!(c.get("hf:a/b"), Err(HubError::Changed(_))), "{size}");
        assert!(c.blobs("a/b").is_empty(), "{size}");
    }
}

#[test]
fn refusals_say_what_to_do() {
    for (status, code, words) in [
        (404, "RepoNotFound", "lamina search"),
        (401, "RepoNotFound", "lamina login"),
        (404, "RevisionNotFound", "no revision"),
        (403, "GatedRepo", "accept its terms at"),
        (401, "", "refused the token"),
    ] {
        let hub =
            Loopback::new(&[("model.gguf", noise(300, 1))], move |_, _| Some(Fault::Refuse(status, code)));
        let e = client(&hub).get("hf:a/b@v1").expect_err("refused").to_string();
        assert!(e.contains(words), "{status} {code}: {e}");
    }
}

#[test]
fn a_full_disk_is_told_before_the_first_byte() {
    let (hub, _) = faulty(Fault::Cut(0), 0);
    let mut c = client(&hub);
    c.hub.pace.free = |_| Some((2999, 1 << 40));
    let e = c.get("hf:a/b").expect_err("no room").to_string();
    assert!(e.contains("make room"), "{e}");
    assert!(hub.bodies().is_empty());
}

#[test]
fn names_that_lead_out_of_the_folder_are_passed_over() {
    let hub = Loopback::new(
        &[
            ("../evil.gguf", noise(300, 1)),
            ("/abs.gguf", noise(300, 2)),
            ("a/../../b.gguf", noise(300, 3)),
            ("ö ä/mödel 你好.gguf", noise(900, 4)),
        ],
        |_, _| None,
    );
    let c = client(&hub);
    let path = c.get("hf:a/b").unwrap();
    assert!(path.ends_with("ö ä/mödel 你好.gguf"), "{}", path.display());
    assert_eq!(read_file(&path), noise(900, 4));
}

#[test]
fn a_key_is_not_told_to_other_hosts() {
    let (hub, _) = faulty(Fault::Cut(0), 0);
    client(&hub).get("hf:a/b").unwrap();
    let port = hub.url.rsplit(':').next().unwrap().parse::<u16>().unwrap();
    let seen = hub.seen();
    assert!(seen.iter().any(|a| a.port != port), "the store was asked");
    assert!(seen.iter().all(|a| (a.port == port) == (a.key.as_deref() == Some("Bearer hf_secret"))));
}

struct Impatient;

impl PullWatch for Impatient {
    fn at(&self, _: &crate::PullProgress) -> bool {
        false
    }
}

#[test]
fn who_gives_up_stops_it_and_keeps_what_has_arrived() {
    let bytes = noise(3000, 5);
    let hub = Loopback::new(&[("model.gguf", bytes.clone())], |asked, number| {
        (of_bytes(asked) && number > 2).then_some(Fault::Busy(60))
    });
    let c = client(&hub);
    let name = crate::ModelName::parse("hf:a/b").unwrap().unwrap();
    let done = c.hub.locate(&name, &Impatient);
    assert!(matches!(done, Err(HubError::Cancelled)), "{done:?}");
}

struct Strict;

impl PullWatch for Strict {
    fn judge(&self, preview: &ModelPreview<'_>) -> Result<(), String> {
        match preview {
            ModelPreview::Gguf(bytes) => Err(format!("{} bytes of a stranger", bytes.len())),
            ModelPreview::Config(text) => Err(format!("config {text}")),
        }
    }
}

#[test]
fn a_model_that_cannot_run_costs_its_beginning_alone() {
    let name = crate::ModelName::parse("hf:a/b").unwrap().unwrap();
    let (hub, _) = faulty(Fault::Cut(0), 0);
    let mut c = client(&hub);
    c.hub.pace.preview = 100;
    let e = c.hub.locate(&name, &Strict).expect_err("unfit").to_string();
    assert!(e.contains("100 bytes of a stranger"), "{e}");
    assert!(hub.bodies().iter().all(|a| a.range == Some((0, 99))));
    let files = [("config.json", b"{}".to_vec()), ("model.safetensors", noise(3000, 1))];
    let hub = Loopback::new(&files, |_, _| None);
    let e = client(&hub).hub.locate(&name, &Strict).expect_err("unfit").to_string();
    assert!(e.contains("config {}"), "{e}");
    assert!(hub.bodies().iter().all(|a| a.path.ends_with("config.json")));
}
