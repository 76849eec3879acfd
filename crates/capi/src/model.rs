//! Models: loaded, cloned, described, freed.

use crate::{
    argument::{UserPointer, place, string},
    guard::{LaminaStatus, Result, guard, invalid, owned, quiet},
    handle::HandleTable,
};
use lamina::Error;
use lamina_serve::{LocalServer, ModelSettings};
use serde_json::{Map, Value};
use std::{
    ffi::{c_char, c_void},
    path::Path,
    ptr,
    sync::Arc,
};

/// A loaded model. Any number of threads may use one at once: their requests are batched.
pub struct LaminaModel {
    _number: u8,
}

/// Models by their handles.
pub static MODELS: HandleTable<LocalServer> = HandleTable::new("model");

/// Told which part of the weights is loaded, from 0 to 1; false gives up. It may be called on a thread of Lamina's.
pub type LaminaProgress = Option<unsafe extern "C" fn(part: f32, user: *mut c_void) -> bool>;

/// Loads the model at `path`, a GGUF file or a folder; with NULL the one inside the package. `options` is NULL or an object of
/// JSON with the options of loading and answering that a server has for a model, such as `{"context": 4096, "threads": 4}`:
/// docs/load-options.md. `progress` may be NULL.
///
/// # Safety
/// Strings are NULL or end with a zero byte; `out` may be written, and `error` too where it is not NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lamina_model_load(
    path: *const c_char,
    options: *const c_char,
    progress: LaminaProgress,
    user: *mut c_void,
    out: *mut *mut LaminaModel,
    error: *mut *mut c_char,
) -> LaminaStatus {
    let call = || {
        // SAFETY: strings end, says the caller.
        let (path, options) = unsafe { (string(path, "path")?, string(options, "options")?) };
        // SAFETY: the place may be written, says the caller.
        let out = unsafe { place(out, "out") }?;
        if !lamina_reserve::keep() {
            return Err(Error::OutOfMemory("there is not enough memory to load lamina".into()));
        }
        let user = UserPointer(user);
        let told = |done: u64, all: u64| {
            let part = done as f32 / all.max(1) as f32;
            // SAFETY: the caller gave the function and what it wants to be called with.
            progress.is_none_or(|told| unsafe { told(part, user.get()) })
        };
        let model = LocalServer::load(path.map(Path::new), settings(options)?, &told)?;
        out.put(MODELS.insert(Arc::new(model)));
        Ok(LaminaStatus::Ok)
    };
    // SAFETY: `error` is NULL or may be written, says the caller.
    unsafe { guard(error, call) }
}

/// Options by their names: a text, a number, true or false, or a list where an option may be given often.
fn settings(json: Option<&str>) -> Result<ModelSettings> {
    let mut settings = ModelSettings::default();
    let wrong = |e: serde_json::Error| invalid(format!("options is no JSON object: {e}"));
    let options: Map<String, Value> = json.map_or(Ok(Map::new()), serde_json::from_str).map_err(wrong)?;
    for (name, value) in options {
        let values = if let Value::Array(list) = value { list } else { vec![value] };
        for value in values {
            let text = match value {
                Value::Null => continue,
                Value::String(text) => text,
                Value::Number(_) | Value::Bool(_) => value.to_string(),
                _ => {
                    return Err(invalid(format!(
                        "{name} must be a text, a number, true or false, or a list"
                    )));
                }
            };
            settings.put(&name, text).map_err(Error::from)?;
        }
    }
    Ok(settings)
}

/// Another handle of the same model, to be freed by itself; nothing is loaded anew. NULL where `model` is none.
#[unsafe(no_mangle)]
pub extern "C" fn lamina_model_clone(model: *const LaminaModel) -> *mut LaminaModel {
    quiet(|| MODELS.get(model).ok().map(|model| MODELS.insert(model))).flatten().unwrap_or(ptr::null_mut())
}

/// Frees a handle; the model goes with its last handle and its last request. NULL is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn lamina_model_free(model: *mut LaminaModel) {
    quiet(|| drop(MODELS.remove(model)));
}

/// What is known about a model, as an object of JSON; free it with `lamina_string_free`. NULL where `model` is none.
#[unsafe(no_mangle)]
pub extern "C" fn lamina_model_info(model: *const LaminaModel) -> *mut c_char {
    let info = || Some(owned(&MODELS.get(model).ok()?.model().info_json().to_string()));
    quiet(info).flatten().unwrap_or(ptr::null_mut())
}
