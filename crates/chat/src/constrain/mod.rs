//! Grammars of answers with tool calls, in Lark: the format, the tools' names and their schemas, nothing else once a
//! call has begun. Derived from the same data as the parser.

mod arguments;
mod calls;
mod lark;
mod rules;
mod spell;

use serde_json::{Value, json};

pub use lark::{MarkPiece, MarkTokens};
pub use rules::{ToolChoice, ToolRules};

use crate::formats::{CallSyntax, ChatFormat};
use arguments::object_schema;
use calls::CallWriter;
use lamina_tokenize::{SpecialFragment, TokenKind, Tokenizer};
use lark::LarkText;
use rules::ToolSchema;

/// A grammar, and what it does not enforce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolGrammar {
    /// In llguidance's dialect.
    pub lark: String,
    /// A sentence for each schema that is enforced in part only.
    pub warnings: Vec<String>,
}

/// The grammar of answers in this format. None where the format has no part in it: no tools that may be called, and no
/// headers around the answer.
///
/// # Errors
/// When a named tool is not among the tools, a call is required of a format without calls, or the schema of a strict
/// tool cannot be enforced; the message says which.
pub fn tool_grammar(format: &ChatFormat, rules: &ToolRules<'_>) -> Result<Option<ToolGrammar>, String> {
    let must = matches!(rules.choice, ToolChoice::Required | ToolChoice::Named(_));
    let none = rules.tools.is_empty() || *rules.choice == ToolChoice::None;
    match &format.calls {
        CallSyntax::None if must => {
            return Err(
                "a call is required, but the model's template writes none: leave tool_choice at auto".into(),
            );
        }
        CallSyntax::None => return Ok(None),
        CallSyntax::Channels(_) if none && !must && rules.answer.is_some() => {}
        _ if none && !must => return Ok(None),
        CallSyntax::Channels(_) | CallSyntax::Sections(_) => {}
    }
    let mut warnings = Vec::new();
    let tools = if none && !must { Vec::new() } else { chosen(rules, &mut warnings)? };
    let hidden = format.hidden.iter().copied().chain([format.reasoning.open, format.reasoning.answer.0]);
    let hidden = hidden.filter(|mark| !mark.is_empty()).collect();
    let mut writer = CallWriter { out: LarkText::new(rules.marks, hidden), rules, tools: &tools, warnings };
    let start = writer.start(format)?;
    let CallWriter { out, warnings, .. } = writer;
    Ok(Some(ToolGrammar { lark: out.finish(&start), warnings }))
}

/// Whether answers of this format are messages with headers, reasoning among them.
pub fn has_channels(format: &ChatFormat) -> bool {
    matches!(format.calls, CallSyntax::Channels(_))
}

/// The tools that may be called, with schemas that can be enforced.
fn chosen(rules: &ToolRules<'_>, warnings: &mut Vec<String>) -> Result<Vec<ToolSchema>, String> {
    let mut out = Vec::new();
    for tool in rules.tools {
        let function = tool.get("function").filter(|f| f.is_object()).unwrap_or(tool);
        let Some(name) = function.get("name").and_then(Value::as_str) else { continue };
        if matches!(rules.choice, ToolChoice::Named(named) if named != name) {
            continue;
        }
        let strict = function.get("strict") == Some(&Value::Bool(true));
        let schema = match (rules.enforced)(object_schema(tool)) {
            Ok(schema) => schema,
            Err(why) if strict => {
                return Err(format!("the schema of the tool {name} is strict and cannot be enforced: {why}"));
            }
            Err(why) => {
                warnings.push(format!("arguments of {name} may be any object: {why}"));
                json!({ "type": "object" })
            }
        };
        out.push(ToolSchema { name: name.to_owned(), schema, strict });
    }
    match (rules.choice, out.is_empty()) {
        (ToolChoice::Named(name), true) => {
            Err(format!("tool_choice names {name}, which is not among the tools"))
        }
        (_, true) => Err("a call is required, but there are no tools".into()),
        _ => Ok(out),
    }
}

/// A mark as this vocabulary has it: special tokens by their ids, the rest as text.
pub fn mark_pieces(tokenizer: &Tokenizer, mark: &str) -> Vec<MarkPiece> {
    let mut out: Vec<MarkPiece> = Vec::new();
    for fragment in tokenizer.special_fragments(mark) {
        let text = match fragment {
            SpecialFragment::Token(id) if is_structure(tokenizer, id) => {
                out.push(MarkPiece::Token(id));
                continue;
            }
            SpecialFragment::Token(id) => tokenizer.id_to_token(id).unwrap_or_default(),
            SpecialFragment::Text(text) => text,
        };
        match out.last_mut() {
            Some(MarkPiece::Text(last)) => last.push_str(text),
            _ => out.push(MarkPiece::Text(text.to_owned())),
        }
    }
    out
}

/// All tokens that text cannot spell, ascending, but for `ends`.
pub fn structure_tokens(tokenizer: &Tokenizer, ends: &[u32]) -> Vec<u32> {
    let all = 0..tokenizer.vocab_size() as u32;
    let used = |id: &u32| tokenizer.kind(*id) != Some(TokenKind::Unused) && !ends.contains(id);
    all.filter(|&id| is_structure(tokenizer, id)).filter(used).collect()
}

/// Whether text cannot spell this token: control tokens, and user-defined ones that look like marks, as grammars have it.
fn is_structure(tokenizer: &Tokenizer, id: u32) -> bool {
    let framed = |text: &str| {
        let ends = (text.chars().next(), text.chars().next_back());
        matches!(ends, (Some('<'), Some('>')) | (Some('['), Some(']')))
    };
    let text = tokenizer.id_to_token(id).unwrap_or_default();
    match tokenizer.kind(id) {
        Some(TokenKind::Normal | TokenKind::Byte) => false,
        Some(TokenKind::UserDefined) => {
            text.len() > 2 && framed(text) && !text.contains(|c: char| c.is_ascii_whitespace())
        }
        _ => true,
    }
}
