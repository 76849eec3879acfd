//! Tools of a request.

use crate::{
    body::{Body, kind},
    error::ApiError,
};
use serde_json::{Value, json};

/// Tools at most.
const MOST: usize = 256;
/// Why some of it is refused.
const LATER: &str = "constrained answers are not built yet";

/// The tools that the model is shown, in the shape of chat; `flat` ones are written as Responses writes them.
///
/// # Errors
/// When one is no function, or calls would have to be forced.
pub fn read(body: &mut Body, flat: bool) -> Result<Option<Vec<Value>>, ApiError> {
    let tools: Vec<Value> = body.take("tools")?.unwrap_or_default();
    if tools.len() > MOST {
        return Err(ApiError::at(
            "tools",
            format!("tools has {} entries, but at most {MOST} are possible", tools.len()),
        ));
    }
    let tools = tools.into_iter().enumerate().map(|(i, tool)| function(tool, &format!("tools[{i}]"), flat));
    let tools = tools.collect::<Result<Vec<_>, _>>()?;
    let choice = body.value("tool_choice");
    match choice.as_ref().map(|c| c.as_str()) {
        None | Some(Some("auto" | "none")) => {}
        _ => return Err(ApiError::at("tool_choice", format!("tool_choice must be none or auto: {LATER}"))),
    }
    match body.take::<bool>("parallel_tool_calls")? {
        Some(_) if tools.is_empty() => body.ignore("parallel_tool_calls"),
        Some(false) => {
            let text = format!("parallel_tool_calls must be true: {LATER}");
            return Err(ApiError::at("parallel_tool_calls", text));
        }
        _ => {}
    }
    let shown = choice.is_none_or(|c| c != "none") && !tools.is_empty();
    Ok(shown.then_some(tools))
}

fn function(tool: Value, path: &str, flat: bool) -> Result<Value, ApiError> {
    if tool["type"] != "function" {
        let text = format!("{path} must be of type function: the server has no tools of its own");
        return Err(ApiError::at(path, text));
    }
    let inner = if flat { tool } else { tool["function"].clone() };
    if !inner["name"].is_string() {
        let text = format!("{path}: its function is {}, but must have a name", kind(&inner));
        return Err(ApiError::at(path, text));
    }
    if inner["strict"] == true {
        return Err(ApiError::at(path, format!("{path}: strict true is not supported: {LATER}")));
    }
    let mut function = json!({ "name": inner["name"] });
    for name in ["description", "parameters"] {
        if !inner[name].is_null() {
            function[name] = inner[name].clone();
        }
    }
    Ok(json!({ "type": "function", "function": function }))
}
