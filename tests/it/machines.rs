//! Forecasts of several machines: layers are those that loading gives, room is gained, and links take their time.

use crate::common::rank_at;
use lamina::{
    ForecastQuestion, LoadOptions, MachinesForecast, MemoryLimit, Model, Offload, StagesForecast, plan,
};
use lamina_fixtures::{Models, packaged};
use std::path::Path;

fn options() -> LoadOptions {
    LoadOptions { threads: Some(1), context: Some(256), batch_rows: Some(32), ..LoadOptions::default() }
}

fn told(path: &Path, options: &LoadOptions, machines: &[usize], link: &str) -> Vec<MachinesForecast> {
    let link = link.parse().expect("a link");
    let question = ForecastQuestion {
        batch: vec![1, 4],
        prompt: vec![64],
        gen_tokens: 16,
        advice: false,
        machines: machines.to_vec(),
        link,
        ..ForecastQuestion::default()
    };
    plan(Some(path), options, &question).expect("a forecast").machines
}

fn stages(of: &MachinesForecast) -> &StagesForecast {
    of.stages.as_ref().expect("it can be divided")
}

#[test]
fn layers_are_those_that_loading_gives_to_equal_machines() {
    let models = Models::new();
    // As many machines as no border is as near to one layer as to the next for: a process grows a little while it loads.
    for (path, machines) in [(packaged(), 2), (models.folder("llama"), 3), (models.folder("gemma3"), 3)] {
        let name = path.display();
        let options = LoadOptions { memory: Some(MemoryLimit::Bytes(4 << 30)), ..options() };
        let found = told(&path, &options, &[machines], "10GbE");
        let rank = || {
            let own = LoadOptions { memory: options.memory, threads: Some(1), ..LoadOptions::default() };
            rank_at(&path, own)
        };
        let ranks = (1..machines).map(|_| rank()).collect::<Vec<_>>().join(",").parse().expect("addresses");
        let model =
            Model::load(Some(&path), LoadOptions { stages: ranks, ..options.clone() }).expect("loads");
        let layers = &stages(&found[0]).layers;
        let mut first = layers[0];
        let notes = model.info().notes.iter().filter(|note| note.contains("computed by"));
        for (note, count) in notes.zip(&layers[1..]) {
            let said = match count {
                1 => format!("layer {first} is computed by"),
                _ => format!("layers {first} to {} are computed by", first + count - 1),
            };
            assert!(note.starts_with(&said), "{name}: {layers:?}, but {note}");
            first += count;
        }
        assert_eq!(first, layers.iter().sum::<usize>(), "{name}: {:?}", model.info().notes);
    }
}

#[test]
fn what_is_too_large_for_one_machine_fits_into_several() {
    // Most of it is cache.
    let options = LoadOptions { context: Some(8192), offload: Offload::Never, ..options() };
    let mut gained = 0;
    for room in (2..44).step_by(3) {
        let held = lamina_base::resident_memory().expect("a size");
        let memory = Some(MemoryLimit::Bytes(held + room * 1_000_000));
        let found = told(&packaged(), &LoadOptions { memory, ..options.clone() }, &[1, 2], "10GbE");
        let [one, two] = [0, 1].map(|i| found[i].stages.as_ref());
        assert!(one.is_err() || two.is_ok(), "{room} MB: {found:?}");
        assert_eq!(one.is_err(), found[1].replicas.is_empty(), "{room} MB: {found:?}");
        assert!(
            found[0].shards.is_err() == one.is_err() && (one.is_err() || found[1].shards.is_ok()),
            "{found:?}"
        );
        let (Err(why), Ok(two)) = (one, two) else { continue };
        gained += 1;
        assert!(why.contains(" left for it") || why.contains("available"), "{room} MB: {why}");
        assert!(!two.streams && two.decode[0].tok_s > 0.0, "{room} MB: {found:?}");
        assert!(two.memory.len() == 2 && two.context == 8192, "{room} MB: {two:?}");
    }
    assert!(gained > 0);
}

#[test]
fn a_slower_link_is_waited_for_longer() {
    let found = ["0s,100GB", "10ms,100GB", "0s,1kB"].map(|link| told(&packaged(), &options(), &[2, 3], link));
    let seconds = |link: usize, machines: usize| 1.0 / stages(&found[link][machines]).decode[0].tok_s;
    // There and back, for each rank; noise of measuring is far below that.
    assert!((seconds(1, 0) - seconds(0, 0) - 20e-3).abs() < 4e-3, "{} {}", seconds(1, 0), seconds(0, 0));
    assert!((seconds(1, 1) - seconds(0, 1) - 40e-3).abs() < 8e-3, "{} {}", seconds(1, 1), seconds(0, 1));
    assert!(seconds(2, 0) > 0.1 && seconds(2, 1) > 1.5 * seconds(2, 0), "a row has some hundred bytes");
    let [one, four] = [0, 1].map(|batch| stages(&found[1][0]).decode[batch].tok_s);
    assert!(four > 3.5 * one, "rows of a step cross together: {one} {four}");
}

/// Each round of a step is a message of two machines, and two of three: four in each layer, and logits to the leader.
#[test]
fn shards_wait_for_every_round() {
    let found = ["0s,100GB", "10ms,100GB"].map(|link| told(&packaged(), &options(), &[1, 2, 3], link));
    let shards =
        |link: usize, machines: usize| found[link][machines].shards.as_ref().expect("it can be divided");
    let layers: usize = stages(&found[0][0]).layers.iter().sum();
    assert_eq!([0, 1, 2].map(|machines| shards(0, machines).rounds), [0, 4 * layers + 1, 4 * layers + 1]);
    let seconds = |link: usize, machines: usize| 1.0 / shards(link, machines).decode[0].tok_s;
    for (machines, messages) in [(0, 0), (1, 4 * layers + 1), (2, 8 * layers + 1)] {
        let waited = seconds(1, machines) - seconds(0, machines);
        assert!((waited / 10e-3 - messages as f64).abs() < 0.5, "{machines}: {waited}");
    }
}

/// Rows, heads and experts that a machine has not take no memory, and what is divided is computed sooner.
#[test]
fn shards_take_their_part_of_memory() {
    let models = Models::new();
    let options = LoadOptions { context: Some(8192), ..options() };
    for path in [packaged(), models.folder("mixtral")] {
        // Of the process, which each machine is told to hold: more where speeds were measured in it.
        let held = lamina_base::resident_memory().unwrap_or(0);
        let found = told(&path, &options, &[1, 2], "0s,100GB");
        let [one, two] = [0, 1].map(|i| found[i].shards.as_ref().expect("it can be divided"));
        let (most, whole) = (two.memory.iter().max().expect("a machine") - held, one.memory[0] - held);
        assert!(two.memory.len() == 2 && most < whole * 7 / 10, "{}: {two:?} {one:?}", path.display());
        assert_eq!((one.context, two.context), (8192, 8192));
        let [alone, both] = [one, two].map(|of| of.prefill[0].tok_s);
        assert!(both > alone, "{}: {both} {alone}", path.display());
    }
}

#[test]
fn replicas_share_the_sequences() {
    let found = told(&packaged(), &options(), &[1, 4], "10GbE");
    let [alone, four] = [0, 1].map(|of| &found[of].replicas);
    assert_eq!(alone.iter().map(|speed| speed.batch).collect::<Vec<_>>(), [1, 4]);
    // Four machines with one sequence each, by the speeds that one call has measured.
    assert!((four[1].tok_s / four[0].tok_s - 4.0).abs() < 1e-6, "{four:?}");
    assert!((alone[0].tok_s / four[0].tok_s - 1.0).abs() < 1e-6, "{alone:?} {four:?}");
}

#[test]
fn what_cannot_be_divided_is_said() {
    let found = told(&packaged(), &options(), &[2, 99], "10GbE");
    let why = found[1].stages.as_ref().expect_err("too many");
    assert!(why.contains("fewer layers than machines"), "{why}");
    let report = lamina_tools::plan_report(
        &plan(
            Some(&packaged()),
            &options(),
            &ForecastQuestion { machines: vec![2, 99], advice: false, ..ForecastQuestion::default() },
        )
        .expect("a forecast"),
    );
    for said in [
        "stages   on 2: ",
        "shards   on 2: ",
        " rounds a step, ",
        "(10GbE, assumed 35 us a message and 1.15 GB/s)",
        "replicas on 2: 1 sequence ",
    ] {
        assert!(report.contains(said), "{report}");
    }
    assert!(report.contains("stages   on 99: cannot be: "), "{report}");
}
