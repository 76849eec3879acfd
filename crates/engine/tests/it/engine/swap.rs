//! Preempted sequences are swapped: to memory, to a file, with a file that is damaged, and with one that is too small.

use super::*;
use lamina_disk::{Reporter, SwapBudget, SwapStore, SwapUse};
use lamina_engine::{SwapChoice, SwapCounts};
use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn store(folder: &Path, memory: u64, disk: u64) -> SwapStore {
    SwapStore::open(folder, SwapBudget { memory, disk }, Reporter::default()).expect("opens")
}

fn swapping(mixers: &[Mixer], s: Setup, store: SwapStore) -> Engine {
    engine(mixers.to_vec(), s).swapping(store, SwapChoice::Always).expect("exports")
}

/// Four sequences that grow to five pages each, in seven pages, are answered as they are alone; what became of them.
fn crowd(mixers: &[Mixer], e: &mut Engine) -> (SwapCounts, SwapUse) {
    let asked = |i: usize| (prompt(i, 40), generation(i as i64, 90, 1));
    let wants = (0..4).map(|i| alone(mixers, ROOMY, asked(i).0, asked(i).1)).collect::<Vec<_>>();
    let receivers: Vec<_> = (0..4).map(|i| add(e, asked(i).0, asked(i).1)).collect();
    finish(e);
    for (receiver, want) in receivers.iter().zip(&wants) {
        assert_eq!(outcome(receiver, 1).answers, want.answers);
    }
    (e.counters().swap, used(e))
}

fn used(e: &Engine) -> SwapUse {
    e.swap_use().expect("swaps")
}

#[test]
fn swapping_changes_no_bit_and_computes_nothing_twice() {
    for mixers in kinds() {
        for (reuse, memory, disk) in
            [(false, MIB, 0), (true, MIB, 0), (false, 0, MIB), (true, 0, MIB), (true, 4000, MIB)]
        {
            for rows in [64, 9] {
                let folder = folder();
                let setup = Setup { rows, pages: 7, reuse };
                let mut e = swapping(&mixers, setup, store(folder.path(), memory, disk));
                let (counts, used) = crowd(&mixers, &mut e);
                assert!(counts.kept > 0 && counts.parts_out > 0 && counts.parts_in > 0, "{counts:?}");
                assert_eq!((counts.returned, counts.lost), (counts.kept, 0));
                assert_eq!((used.entries, used.memory_bytes), (0, 0), "all is let go of");
                // Each prompt once, and each token but the last of each answer.
                let c = e.counters();
                assert_eq!(c.prompt_rows + c.decode_rows, 4 * (40 + 89), "{c:?}");
            }
        }
    }
}

#[test]
fn several_answers_drafts_and_passes_are_swapped() {
    for mixers in kinds() {
        let want = alone(&mixers, ROOMY, prompt(2, 45), generation(7, 40, 4));
        for reuse in [false, true] {
            let folder = folder();
            let mut e = swapping(&mixers, Setup { pages: 7, reuse, ..ROOMY }, store(folder.path(), MIB, 0));
            let receiver = add(&mut e, prompt(2, 45), generation(7, 40, 4));
            let (rows, _events) = pass(&mut e, None);
            finish(&mut e);
            assert_eq!(outcome(&receiver, 4).answers, want.answers, "reuse {reuse}");
            assert_eq!(rows.lock().expect("lock").len(), 50 * VOCAB);
            assert_eq!(used(&e).entries, 0);
        }
    }
}

#[test]
fn a_store_that_is_too_small_changes_no_bit() {
    for mixers in kinds() {
        for memory in [1, 1000] {
            let folder = folder();
            let setup = Setup { pages: 7, ..ROOMY };
            let mut e = swapping(&mixers, setup, store(folder.path(), memory, 0));
            let (counts, used) = crowd(&mixers, &mut e);
            assert!(counts.lost > 0 && used.refused > 0, "{counts:?} {used:?}");
            assert_eq!(used.entries, 0);
        }
    }
}

/// Changes a byte in each block of the file without a name that this process has on the disk of `folder`.
#[cfg(target_os = "linux")]
fn damage(folder: &Path) {
    use std::os::unix::fs::FileExt;
    let links = fs::read_dir("/proc/self/fd").expect("readable").flatten();
    let of_store = |path: &Path| fs::read_link(path).is_ok_and(|to| to.starts_with(folder));
    let path = links.map(|link| link.path()).find(|path| of_store(path)).expect("the file is open");
    let file = fs::File::options().read(true).write(true).open(path).expect("opens again");
    let mut byte = [0];
    for block in 0..file.metadata().expect("known").len() / 4096 {
        file.read_at(&mut byte, block * 4096 + 77).expect("readable");
        file.write_at(&[byte[0].wrapping_add(1)], block * 4096 + 77).expect("writable");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn flipped_bytes_are_found_and_computed_again() {
    for mixers in kinds() {
        let folder = folder();
        let mut e =
            swapping(&mixers, Setup { pages: 7, reuse: false, ..ROOMY }, store(folder.path(), 0, MIB));
        let asked = |i: usize| (prompt(i, 40), generation(i as i64, 90, 1));
        let receivers: Vec<_> = (0..4).map(|i| add(&mut e, asked(i).0, asked(i).1)).collect();
        while !e.idle() {
            while used(&e).waiting_bytes > 0 {
                std::thread::yield_now();
            }
            damage(folder.path());
            e.step();
        }
        for (i, receiver) in receivers.iter().enumerate() {
            let want = alone(&mixers, ROOMY, asked(i).0, asked(i).1);
            assert_eq!(outcome(receiver, 1).answers, want.answers);
        }
        let (counts, used) = (e.counters().swap, used(&e));
        assert!(used.damaged > 0 && counts.lost > 0, "{counts:?} {used:?}");
        assert_eq!(used.entries, 0);
    }
}

#[test]
fn cancelled_requests_free_what_was_swapped_at_once() {
    let folder = folder();
    let mixers = vec![attention()];
    let mut e = swapping(&mixers, Setup { pages: 7, ..ROOMY }, store(folder.path(), 0, MIB));
    let cancel = Arc::new(AtomicBool::new(false));
    let _receivers: Vec<_> = (0..4)
        .map(|i| {
            let (events, receiver) = channel();
            let task = Task::Generate(Box::new(generation(i as i64, 90, 1)));
            let request = Request::new(prompt(i, 40), task, Box::new(events));
            e.add(Request { cancel: cancel.clone(), ..request });
            receiver
        })
        .collect();
    while used(&e).entries == 0 {
        assert!(!e.idle());
        e.step();
    }
    cancel.store(true, Ordering::Relaxed);
    e.step();
    assert!(e.idle() && used(&e).entries == 0, "{:?}", used(&e));
}

#[test]
fn the_choice_by_cost_changes_no_bit() {
    let folder = folder();
    let mixers = vec![attention()];
    let setup = Setup { pages: 7, ..ROOMY };
    let mut e = engine(mixers.clone(), setup)
        .swapping(store(folder.path(), 0, MIB), SwapChoice::Cheaper)
        .expect("exports");
    // What is chosen depends on the disk; answers do not.
    let (counts, _) = crowd(&mixers, &mut e);
    assert_eq!(counts.kept, counts.returned + counts.lost);
}
