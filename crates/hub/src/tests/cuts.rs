//! Connections that end anywhere: a file is right, or it is not there.

use super::loopback::*;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

fn cut_everywhere(rounds: u64) {
    let random = Arc::new(AtomicU64::new(1));
    for round in 0..rounds {
        let size = (round * 37 % 4001) as usize + 1;
        let bytes = noise(size, round);
        let random = random.clone();
        let hub = Loopback::new(&[("model.gguf", bytes.clone())], move |asked, _| {
            let drawn = noise(4, random.fetch_add(1, SeqCst));
            let at = u16::from_le_bytes([drawn[0], drawn[1]]) as usize % 900;
            (asked.method == "GET" && !asked.path.starts_with("/api") && drawn[2] < 160)
                .then_some(Fault::Cut(at))
        });
        let mut c = client(&hub);
        // So few that whole attempts fail, and the next one goes on.
        c.hub.pace.tries = 1;
        let whole = c.hub.cache.repo("a/b").blob(&etag(&bytes)).unwrap();
        let mut attempts = 0;
        while let Err(e) = c.get("hf:a/b") {
            assert!(!whole.exists(), "round {round}: a file that is not whole has its name ({e})");
            attempts += 1;
            assert!(attempts < 1000, "round {round}: {e}");
        }
        assert_eq!(read_file(&c.get("hf:a/b").unwrap()), bytes, "round {round}");
        assert_eq!(c.blobs("a/b"), [whole], "round {round}: nothing is left beside it");
        hub.close();
    }
}

#[test]
fn a_file_is_right_or_absent_wherever_connections_end() {
    cut_everywhere(100);
}

#[test]
#[ignore = "by night: ten thousand rounds"]
fn a_file_is_right_or_absent_wherever_ten_thousand_connections_end() {
    cut_everywhere(10_000);
}

#[test]
fn what_has_arrived_is_not_asked_for_again() {
    let bytes = noise(5000, 3);
    let hub = Loopback::new(&[("model.gguf", bytes.clone())], |asked, number| {
        (asked.path.starts_with("/store") && number == 3).then_some(Fault::Cut(300))
    });
    let mut c = client(&hub);
    (c.hub.pace.tries, c.hub.pace.at_once) = (1, 1);
    assert!(c.get("hf:a/b").is_err(), "two pieces, and 300 bytes of a third");
    let before = hub.bodies().len();
    assert_eq!(read_file(&c.get("hf:a/b").unwrap()), bytes);
    let later = hub.bodies().split_off(before);
    let ranges = later.iter().filter(|a| a.path.starts_with("/store")).filter_map(|a| a.range);
    let expected = [(1700, 2099), (2100, 2799), (2800, 3499), (3500, 4199), (4200, 4899), (4900, 4999)];
    assert_eq!(ranges.collect::<Vec<_>>(), expected);
}
