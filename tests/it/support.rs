//! What is said of a file from its headers is what loading it finds.

use lamina_arch::{Family, Weights, families};
use lamina_convert::{Draft, Types, WriteOptions};
use lamina_fixtures::Models;
use lamina_plan::emit;
use lamina_store::Checkpoint;
use lamina_tools::{Support, inspect, support};
use std::path::Path;

/// Looking at a weight and reading it find the same, in its own shape and in others.
fn agree(path: &Path) {
    let ck = Checkpoint::open(path).expect("a model");
    let family = Family::of(&ck).expect("a family");
    let spec = family.spec(&ck).expect("a spec");
    let weights = Weights::new(&ck, family, &spec);
    for weight in &emit(&spec, &|name| weights.has(name)).weights {
        let (rows, cols) = weight.kind.shape();
        for (rows, cols) in
            [(rows, cols), (rows + 1, cols), (rows, cols + 1), (cols + 1, rows), (1, rows * cols)]
        {
            let (seen, read) =
                (weights.check(&weight.name, rows, cols), weights.get(&weight.name, rows, cols));
            let what = format!("{} {} as {rows} x {cols}", path.display(), weight.name);
            assert_eq!(seen.is_ok(), read.is_ok(), "{what}: {seen:?}, {:?}", read.err());
        }
        assert!(weights.check(&weight.name, rows, cols).is_ok());
    }
}

#[test]
fn headers_tell_what_loading_finds() {
    let dir = tempfile::tempdir().expect("a folder");
    let models = Models::new();
    for folder in models.all() {
        agree(&folder);
        let found = inspect(Some(&folder)).expect("headers").support;
        assert!(found.problems.is_empty() && found.unused.is_empty(), "{}: {found:?}", folder.display());
        let Ok(draft) = Draft::open(&folder) else { continue };
        let file = dir.path().join("converted.gguf");
        draft.write(&file, &WriteOptions::new(Types::Keep), &|_, _| true).expect("written");
        agree(&file);
        let found = inspect(Some(&file)).expect("headers").support;
        assert!(found.problems.is_empty() && found.unused.is_empty(), "{}: {found:?}", folder.display());
    }
}

#[test]
fn the_table_has_every_family_type_and_packing() {
    let Support { families: known, encoders, types, packings, backends } = support().expect("backends");
    assert_eq!(known.len(), families::ALL.len());
    assert!(known.iter().all(|f| !f.folders.is_empty() || !f.gguf.is_empty()));
    assert!(types.iter().all(|t| t.runs_as.len() == backends.len()));
    // Whatever the quantizer makes has kernels.
    assert!(types.iter().filter(|t| t.written).all(|t| t.runs_as.iter().all(|d| *d == t.dtype)));
    assert!(packings.iter().any(|(name, _)| *name == "gptq"));
    let of = |takes: &str| encoders.iter().filter(|e| e.takes == takes && !e.folders.is_empty()).count();
    assert!(of("pictures") > 12 && of("sound") > 0 && of("pictures") + of("sound") == encoders.len());
    assert_eq!(backends, ["cpu"]);
}
