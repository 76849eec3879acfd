//! Every golden folder as a GGUF file: the same logits from both, in this house and - where there is one - in llama.cpp.

use crate::common::{Model, Result, folders, for_each, prefill, prompts, relative_error};
use lamina_convert::{ConvertError, Draft, Types, WriteOptions};
use lamina_plan::KvType;
use std::path::Path;
use tempfile::TempDir;

/// Both runs are the same sums over the same numbers; only rotary factors that a file keeps as quotients differ, by a
/// last bit.
const TOLERANCE: f64 = 1e-5;

#[test]
fn a_file_gives_the_logits_of_its_folder() {
    for_each(folders(), |folder| {
        let file = TempDir::new()?;
        let draft = match Draft::open(folder) {
            Ok(draft) => draft,
            Err(e @ (ConvertError::NoGgufForm { .. } | ConvertError::NotExpressible { .. })) => {
                return Ok(format!("no file: {e}"));
            }
            Err(e) => return Err(e.into()),
        };
        let f32 = WriteOptions::new("f32".parse::<Types>()?);
        let report = draft.write(file.path().join("model.gguf"), &f32, &|_, _| true)?;
        let prompts = prompts(folder)?;
        let (want, _) = logits(folder, &prompts)?;
        let (have, unused) = logits(file.path(), &prompts)?;
        if !unused.is_empty() {
            return Err(format!("unused tensors: {}", unused.join(" ")).into());
        }
        let error = have.iter().zip(&want).map(|(a, b)| relative_error(a, b)).fold(0.0, f64::max);
        if error.is_nan() || error > TOLERANCE {
            return Err(format!("relative error {error:e}").into());
        }
        Ok([vec![format!("error {error:.1e}")], report.notes].concat().join("; "))
    });
}

fn logits(folder: &Path, prompts: &[Vec<u32>]) -> Result<(Vec<Vec<f32>>, Vec<String>)> {
    let (mut runner, unused) = Model::open(folder)?.runner(KvType::F32)?;
    Ok((prefill(&mut runner, prompts)?, unused))
}
