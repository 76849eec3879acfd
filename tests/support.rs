//! What is said of a file from its headers is what loading it finds.

use lamina_arch::{Family, Weights, families};
use lamina_convert::{Draft, Types, WriteOptions};
use lamina_plan::emit;
use lamina_store::Checkpoint;
use lamina_tools::{Support, inspect, support};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Folders of the shared data; none, said loudly, where it is absent.
fn golden() -> Vec<PathBuf> {
    let root = std::env::var_os("LAMINA_SHARED").map(PathBuf::from);
    let root =
        root.unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/../shared").into()).join("golden");
    let Ok(entries) = fs::read_dir(&root) else {
        eprintln!("SKIPPED: {} is missing", root.display());
        return vec![];
    };
    let mut folders: Vec<_> = entries.flatten().map(|e| e.path()).filter(|p| p.is_dir()).collect();
    folders.sort();
    folders
}

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
    for folder in golden() {
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
    let Support { families: known, types, packings, backends } = support().expect("backends");
    assert_eq!(known.len(), families::ALL.len());
    assert!(known.iter().all(|f| !f.folders.is_empty() || !f.gguf.is_empty()));
    assert!(types.iter().all(|t| t.runs_as.len() == backends.len()));
    // Whatever the quantizer makes has kernels.
    assert!(types.iter().filter(|t| t.written).all(|t| t.runs_as.iter().all(|d| *d == t.dtype)));
    assert!(packings.iter().any(|(name, _)| *name == "gptq"));
    assert_eq!(backends, ["cpu"]);
}
