//! Adapters in llama.cpp's GGUF form: `general.type` `adapter`, `NAME.lora_a` `[rank x inputs]` and `NAME.lora_b`
//! `[outputs x rank]`, one alpha for all. The two matrices of the token embedding lie the other way round, since rows are
//! looked up there.

use super::{Pair, transposed};
use crate::error::{LoraError, Result};
use lamina_base::HostTensor;
use lamina_quant::to_f32;
use lamina_store::gguf::Gguf;
use std::{collections::BTreeMap, path::Path};

/// The pairs, and the architecture that they are for.
pub(super) fn read(path: &Path) -> Result<(BTreeMap<String, Pair>, Option<String>)> {
    let file = Gguf::open(path)?;
    let wrong = |problem: String| LoraError::file(path, problem);
    let kind = (file.metadata.find::<&str>("general.type")?, file.metadata.find::<&str>("adapter.type")?);
    if kind != (Some("adapter"), Some("lora")) {
        return Err(wrong("is no LoRA adapter: give a GGUF adapter, or a folder that PEFT saved".into()));
    }
    let alpha: f32 = file.metadata.need("adapter.lora.alpha")?;
    let mut pairs = BTreeMap::new();
    for (name, a) in &file.tensors {
        let Some(weight) = name.strip_suffix(".lora_a") else {
            match name
                .strip_suffix(".lora_b")
                .is_some_and(|w| file.tensors.contains_key(&format!("{w}.lora_a")))
            {
                true => continue,
                false => {
                    return Err(wrong(format!(
                        "holds `{name}`, which is no part of a pair of LoRA matrices"
                    )));
                }
            }
        };
        let b = file.tensors.get(&format!("{weight}.lora_b"));
        let b = b.ok_or_else(|| wrong(format!("has no `{weight}.lora_b`")))?;
        let (a, b) = (a.fetched()?, b.fetched()?);
        let pair = match weight {
            "token_embd.weight" => of_embedding(&a, &b, alpha),
            _ => pair(&a, &b, alpha),
        };
        pairs.insert(weight.to_owned(), pair.map_err(|problem| wrong(format!("`{weight}` {problem}")))?);
    }
    let architecture = file.metadata.find::<&str>("general.architecture")?;
    Ok((pairs, architecture.map(str::to_owned)))
}

fn pair(a: &HostTensor, b: &HostTensor, alpha: f32) -> std::result::Result<Pair, String> {
    let rank = b.cols();
    if rank == 0 || a.rows() != rank || a.shape.len() > 2 || b.shape.len() > 2 {
        return Err(format!("has matrices of {:?} and {:?}, which do not multiply", a.shape, b.shape));
    }
    let values = |t: &HostTensor| to_f32(t).map_err(|e| e.to_string());
    Ok(Pair { down: values(a)?, up: values(b)?, rank, scale: alpha / rank as f32, inputs_first: false })
}

fn of_embedding(a: &HostTensor, b: &HostTensor, alpha: f32) -> std::result::Result<Pair, String> {
    let rank = b.cols();
    if rank == 0 || a.cols() != rank {
        return Err(format!("has matrices of {:?} and {:?}, which do not multiply", a.shape, b.shape));
    }
    let values = |t: &HostTensor| to_f32(t).map_err(|e| e.to_string());
    let down = transposed(&values(b)?, rank);
    Ok(Pair { down, up: values(a)?, rank, scale: alpha / rank as f32, inputs_first: false })
}
