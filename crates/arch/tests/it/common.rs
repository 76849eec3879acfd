//! Checkpoints made for one test.

use lamina_base::HostTensor;
use lamina_store::Checkpoint;
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A Hugging Face folder with these tensors.
pub fn folder(config: &Value, tensors: &[HostTensor]) -> Result<(TempDir, Checkpoint)> {
    let (mut header, mut data) = (serde_json::Map::new(), vec![]);
    for t in tensors {
        let offsets = [data.len(), data.len() + t.bytes.len()];
        let dtype = t.dtype.name();
        header.insert(t.name.clone(), json!({"dtype": dtype, "shape": t.shape, "data_offsets": offsets}));
        data.extend_from_slice(&t.bytes.read(&t.name)?);
    }
    let header = serde_json::to_vec(&header)?;
    let file = [&(header.len() as u64).to_le_bytes(), header.as_slice(), &data].concat();
    let folder = TempDir::new()?;
    fs::write(folder.path().join("model.safetensors"), file)?;
    fs::write(folder.path().join("config.json"), config.to_string())?;
    let checkpoint = Checkpoint::open(folder.path())?;
    Ok((folder, checkpoint))
}
