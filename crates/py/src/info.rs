//! What is known about a model, for `lamina.ModelInfo`.

use lamina::Model;
use pyo3::{prelude::*, types::PyDict};

/// The keywords of `lamina.ModelInfo`.
pub fn info<'py>(py: Python<'py>, model: &Model) -> PyResult<Bound<'py, PyDict>> {
    let (info, dict) = (model.info(), PyDict::new(py));
    let kv_dtype = info.kv_dtype.to_string();
    dict.set_item("path", &info.path)?;
    dict.set_item("architecture", &info.architecture)?;
    dict.set_item("family", info.family)?;
    dict.set_item("type", &info.type_name)?;
    dict.set_item("bytes", info.bytes)?;
    dict.set_item("params", info.params)?;
    dict.set_item("layers", info.layers)?;
    dict.set_item("hidden", info.hidden)?;
    dict.set_item("vocab", info.vocab)?;
    dict.set_item("context", info.context)?;
    dict.set_item("model_context", info.model_context)?;
    dict.set_item("kv_dtype", kv_dtype)?;
    dict.set_item("kv_bytes_per_token", info.kv_bytes_per_token)?;
    dict.set_item("bytes_per_token", info.bytes_per_token)?;
    dict.set_item("threads", info.threads)?;
    dict.set_item("isa", &info.isa)?;
    dict.set_item("device", &info.device)?;
    let placement = PyDict::new(py);
    for home in &info.placement {
        let bytes = PyDict::new(py);
        bytes.set_item("device", home.device)?;
        bytes.set_item("memory", home.memory)?;
        bytes.set_item("disk", home.disk)?;
        bytes.set_item("up", home.up)?;
        placement.set_item(home.class, bytes)?;
    }
    dict.set_item("placement", placement)?;
    dict.set_item("draft", &info.draft)?;
    dict.set_item("approximations", &info.approximations)?;
    dict.set_item("vision", vision(py, model)?)?;
    dict.set_item("hearing", hearing(py, model)?)?;
    dict.set_item("tokenizer", model.tokenizer().is_some())?;
    dict.set_item("has_chat_template", model.has_chat_template())?;
    dict.set_item("end_tokens", model.end_tokens())?;
    dict.set_item("notes", &info.notes)?;
    Ok(dict)
}

/// The keywords of `lamina.VisionInfo`; none where the model takes text only.
fn vision<'py>(py: Python<'py>, model: &Model) -> PyResult<Option<Bound<'py, PyDict>>> {
    let Some(encoder) = model.picture_encoder() else { return Ok(None) };
    let dict = PyDict::new(py);
    dict.set_item("family", encoder.family())?;
    dict.set_item("projector", encoder.projector())?;
    dict.set_item("mmproj", encoder.file())?;
    dict.set_item("max_tokens", encoder.spec().max_rows())?;
    dict.set_item("token_rule", encoder.spec().token_rule())?;
    dict.set_item("marker", encoder.spec().prompt.marker)?;
    Ok(Some(dict))
}

/// The keywords of `lamina.HearingInfo`; none where the model does not hear.
fn hearing<'py>(py: Python<'py>, model: &Model) -> PyResult<Option<Bound<'py, PyDict>>> {
    let Some(encoder) = model.sound_encoder() else { return Ok(None) };
    let dict = PyDict::new(py);
    dict.set_item("family", encoder.family())?;
    dict.set_item("tokens_per_second", encoder.spec().rows_per_second())?;
    dict.set_item("sampling_rate", encoder.spec().mel.rate)?;
    dict.set_item("marker", encoder.spec().prompt.marker)?;
    Ok(Some(dict))
}
