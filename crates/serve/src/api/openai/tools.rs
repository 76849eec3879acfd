//! Tools of a request.

use crate::{
    body::{Body, FieldTable, kind, taken},
    error::ApiError,
};
use lamina::ToolChoice;
use serde_json::{Value, json};

/// Tools at most.
const MOST: usize = 256;

/// Tools, and how they may be called.
#[derive(Debug, Default, PartialEq)]
pub struct AskedTools {
    /// In the shape of chat; none where there are none.
    pub tools: Option<Vec<Value>>,
    /// Which calls the answer has.
    pub choice: ToolChoice,
    /// One call at most.
    pub one_call: bool,
}

/// The tools of a body, and how they may be called; `flat` ones are written as Responses writes them.
///
/// # Errors
/// When one is no function, or the choice is none of its kind.
pub fn read(body: &mut Body, flat: bool) -> Result<AskedTools, ApiError> {
    let tools: Vec<Value> = body.take("tools")?.unwrap_or_default();
    if tools.len() > MOST {
        return Err(ApiError::at(
            "tools",
            format!("tools has {} entries, but at most {MOST} are possible", tools.len()),
        ));
    }
    let tools = tools.into_iter().enumerate().map(|(i, tool)| function(tool, &format!("tools[{i}]"), flat));
    let tools = tools.collect::<Result<Vec<_>, _>>()?;
    let choice = body.value("tool_choice").map_or(Ok(ToolChoice::Auto), |value| choice(value, flat))?;
    let parallel = body.take::<bool>("parallel_tool_calls")?;
    if parallel.is_some() && tools.is_empty() {
        body.ignore("parallel_tool_calls");
    }
    let tools = (!tools.is_empty()).then_some(tools);
    Ok(AskedTools { tools, choice, one_call: parallel == Some(false) })
}

/// Fields of `tool_choice`.
pub const CHOICE: FieldTable = FieldTable {
    name: "tool_choice",
    sampling: false,
    fields: &[
        taken("type", "function"),
        taken("function", "the function that is called"),
        taken("name", "its name, as Responses writes it"),
    ],
    also: &[],
};
/// Fields of `tool_choice.function`.
pub const CHOSEN: FieldTable = FieldTable {
    name: "tool_choice.function",
    sampling: false,
    fields: &[taken("name", "the function that is called")],
    also: &[],
};

fn choice(value: Value, flat: bool) -> Result<ToolChoice, ApiError> {
    let wrong = || {
        let text = "tool_choice must be none, auto, required, or a function by its name";
        ApiError::at("tool_choice", text)
    };
    if !value.is_object() {
        return match value.as_str() {
            Some("auto") => Ok(ToolChoice::Auto),
            Some("none") => Ok(ToolChoice::None),
            Some("required") => Ok(ToolChoice::Required),
            _ => Err(wrong()),
        };
    }
    let mut choice = Body::new(value, &CHOICE, "tool_choice", false)?;
    if choice.need::<String>("type")? != "function" {
        return Err(wrong());
    }
    let name = match flat {
        true => choice.need("name")?,
        false => match choice.nested("function", &CHOSEN, false)? {
            Some(mut function) => function.need("name")?,
            None => return Err(wrong()),
        },
    };
    let other = choice.unread().next();
    other.map_or(Ok(ToolChoice::Named(name)), |path| {
        Err(ApiError::at(&path, format!("{path} has no place in this endpoint's tool_choice")))
    })
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
    let mut function = json!({ "name": inner["name"] });
    for name in ["description", "parameters", "strict"] {
        // The model is shown what its template's makers showed it: that a schema need not be exact is the usual case.
        if !inner[name].is_null() && inner[name] != false {
            function[name] = inner[name].clone();
        }
    }
    Ok(json!({ "type": "function", "function": function }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_read_in_both_shapes() {
        let named = Ok(ToolChoice::Named("f".into()));
        assert_eq!(choice(json!("required"), false), Ok(ToolChoice::Required));
        assert_eq!(choice(json!({ "type": "function", "function": { "name": "f" } }), false), named);
        assert_eq!(choice(json!({ "type": "function", "name": "f" }), true), named);
        for wrong in [json!("f"), json!(1), json!({ "type": "function" }), json!({ "type": "web_search" })] {
            assert_eq!(choice(wrong, false).unwrap_err().param.as_deref(), Some("tool_choice"));
        }
        let param = |value, flat| choice(value, flat).unwrap_err().param;
        let extra = json!({ "type": "function", "function": { "name": "f", "nmae": 1 } });
        assert_eq!(param(extra, false).as_deref(), Some("tool_choice.function.nmae"));
        let both = json!({ "type": "function", "name": "f", "function": {} });
        assert_eq!(param(both, true).as_deref(), Some("tool_choice.function"));
    }
}
