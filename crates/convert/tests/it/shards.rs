//! Splitting into shards and merging them again.

use crate::made::tiny_llama;
use lamina_convert::{Draft, Types, WriteOptions};
use lamina_store::Checkpoint;
use std::path::Path;
use tempfile::TempDir;

fn contents(path: &Path) -> Vec<(String, Vec<u8>)> {
    let ck = Checkpoint::open(path).unwrap();
    ck.tensors.values().map(|t| (t.name.clone(), t.bytes.read("t").unwrap().into_owned())).collect()
}

#[test]
fn a_model_split_and_merged_is_the_same_file() {
    let dir = TempDir::new().unwrap();
    tiny_llama(dir.path());
    let path = |n: &str| dir.path().join(n);
    let keep = WriteOptions::new(Types::Keep);
    let all = |_: u64, _: u64| true;
    Draft::open(dir.path()).unwrap().write(path("whole.gguf"), &keep, &all).unwrap();
    let whole = Draft::open(path("whole.gguf")).unwrap();
    let by_size = WriteOptions { max_shard_bytes: Some(20_000), ..keep.clone() };
    let by_count = WriteOptions { max_shard_tensors: Some(6), ..keep.clone() };
    for (options, least) in [(by_size, 3), (by_count, 4)] {
        let report = whole.write(path("part.gguf"), &options, &all).unwrap();
        assert!(report.files.len() >= least, "{:?}", report.files);
        assert!(report.files[0].to_string_lossy().contains("-00001-of-"), "{:?}", report.files);
        if let Some(most) = options.max_shard_tensors {
            assert_eq!(report.files.len(), whole.tensors.len().div_ceil(most));
        }
        assert_eq!(contents(&report.files[0]), contents(&path("whole.gguf")));
        // Any shard opens the whole model; merging is writing it in one piece.
        let merged = Draft::open(report.files.last().unwrap()).unwrap();
        merged.write(path("merged.gguf"), &keep, &all).unwrap();
        assert_eq!(std::fs::read(path("merged.gguf")).unwrap(), std::fs::read(path("whole.gguf")).unwrap());
        report.files.iter().for_each(|f| std::fs::remove_file(f).unwrap());
    }
}
