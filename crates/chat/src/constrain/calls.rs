//! Calls and what stands around them, as Lark.

use super::arguments::{arguments, json_object};
use serde_json::{Value, json};

use super::lark::{LarkText, MarkPiece, MarkTokens, any_of};
use super::rules::{ToolChoice, ToolRules, ToolSchema};
use crate::formats::{CallPart, CallSection, CallSyntax, Channels, ChatFormat, IdPlace, Items, ObjectKeys};

/// What ids and numbers may be.
const ID: &str = "/[A-Za-z0-9_\\-]{1,64}/";
const NINE: &str = "/[A-Za-z0-9]{9}/";
const NUMBER: &str = "/[0-9]{1,4}/";

/// Writes the grammar of an answer.
pub(super) struct CallWriter<'a, 'r> {
    pub out: LarkText<'a>,
    pub rules: &'r ToolRules<'a>,
    pub tools: &'r [ToolSchema],
    pub warnings: Vec<String>,
}

impl CallWriter<'_, '_> {
    /// The start rule's body.
    pub fn start(&mut self, format: &ChatFormat) -> Result<String, String> {
        match &format.calls {
            CallSyntax::Channels(channels) => self.channels(channels),
            CallSyntax::Sections(sections) => self.sections(sections, format.opening),
            CallSyntax::None => Ok("TEXT?".into()),
        }
    }

    fn must(&self) -> bool {
        matches!(self.rules.choice, ToolChoice::Required | ToolChoice::Named(_))
    }

    fn sections(&mut self, sections: &'static [CallSection], opening: &str) -> Result<String, String> {
        match (sections, opening) {
            ([section, others @ ..], _) if is_bare(section) => self.bare(section, others),
            ([section, ..], "") => self.marked(section),
            ([section, ..], opening) => self.opened(section, opening),
            ([], _) => Ok("TEXT?".into()),
        }
    }

    fn single(&self) -> bool {
        !self.rules.parallel || matches!(self.rules.choice, ToolChoice::Named(_))
    }

    /// An answer that is no call: of the form that was asked for, or text in which no call opens.
    fn answer(&mut self, marks: &[&str]) -> String {
        match self.rules.answer {
            Some(form) => form.to_owned(),
            None => self.out.without(marks),
        }
    }

    /// Calls that open with a mark.
    fn marked(&mut self, section: &'static CallSection) -> Result<String, String> {
        let (open, first) = opener(section, &self.rules.marks);
        if self.must() || self.rules.answer.is_some() {
            let rest = self.section(section, first)?;
            let calls = format!("{} {rest}", self.out.literal(open));
            return Ok(match self.rules.answer.filter(|_| !self.must()) {
                Some(form) => format!("WS? ({calls} | {form})"),
                None => format!("WS? {calls}"),
            });
        }
        let (mark, from) = trigger(section, &self.rules.marks);
        let rest = self.section(section, from)?;
        let rest = self.out.rule(&rest);
        let tail = self.out.without(&[mark]);
        let lead = self.out.up_to(mark);
        let times = if self.single() { "?" } else { "*" };
        Ok(format!("({lead} {rest}){times} {tail}"))
    }

    /// Calls whose first mark ends the prompt.
    fn opened(&mut self, section: &'static CallSection, opening: &str) -> Result<String, String> {
        let call = self.calls(section, 0, "")?;
        let call = self.out.rule(&call);
        let mark = self.out.literal(opening);
        let more = if self.single() { String::new() } else { format!(" ({mark} {call})*") };
        if self.must() {
            return Ok(format!("{call}{more}"));
        }
        let (all, text) = (self.out.literal("all\n"), self.answer(&[opening]));
        let both = match self.rules.answer {
            Some(_) => String::new(),
            None => format!(" | {all} {} {call}{more}", self.out.up_to(opening)),
        };
        Ok(format!("({call}{more} | {all} {text}{both})"))
    }

    /// Calls that are the answer itself.
    fn bare(
        &mut self,
        section: &'static CallSection,
        others: &'static [CallSection],
    ) -> Result<String, String> {
        let calls = match (section.call, self.rules.answer) {
            // Objects that begin alike are told apart only where both are JSON to the lexer.
            ([CallPart::Object(keys)], Some(_)) => self.json_calls(section, keys),
            _ => self.section(section, 0)?,
        };
        let calls = self.out.rule(&calls);
        if self.must() {
            return Ok(format!("WS? {calls}"));
        }
        let mut all = vec![calls.clone()];
        let marks: Vec<&str> = others.iter().filter_map(|other| other.open.first().copied()).collect();
        if let Some(mark) = marks.first() {
            all.push(format!("{} {calls}", self.out.literal(mark)));
        }
        if let Some(form) = self.rules.answer {
            all.push(form.to_owned());
            return Ok(format!("WS? {}", any_of(&all)));
        }
        let call = match section.call.first() {
            Some(CallPart::Object(keys)) => format!("\\s*\\{{\\s*\"{}\"(?s:.)*", keys.name),
            _ => "\\s*\\[\\s*[A-Za-z_][A-Za-z0-9_.\\-]*\\((?s:.)*".to_owned(),
        };
        let first = self.out.text(&marks, Some(&call));
        let then = self.out.text(&marks, None);
        all.push(self.out.free(&first, &then, &marks));
        Ok(any_of(&all))
    }

    /// A section whose first call begins with its part `own`.
    fn section(&mut self, section: &'static CallSection, own: usize) -> Result<String, String> {
        let (single, close) = (self.single(), section.close);
        let text = match section.items {
            Items::One => self.calls(section, own, "")?,
            Items::List { separator, first: before, last } => {
                // One terminal up to the name: a lone bracket would be a beginning of text, too.
                let first = self.calls(section, own, &format!("[{before}"))?;
                let (first, end) = (self.out.rule(&first), self.out.literal(&format!("{last}]")));
                let more = match single {
                    true => String::new(),
                    false => {
                        let call = self.calls(section, 0, "")?;
                        format!(" ({} {})*", self.out.literal(separator), self.out.rule(&call))
                    }
                };
                format!("{first}{more} {end}")
            }
            Items::Several(separator) => {
                let first = self.calls(section, own, "")?;
                let more = if own == 0 { first.clone() } else { self.calls(section, 0, "")? };
                let (first, more) = (self.out.rule(&first), self.out.rule(&more));
                let separator = if separator.is_empty() {
                    String::new()
                } else {
                    format!("{} ", self.out.literal(separator))
                };
                if single { first } else { format!("{first} ({separator}{more})*") }
            }
        };
        Ok(match close {
            "" => text,
            close => format!("{text} {}", self.out.last(close)),
        })
    }

    /// A call of any tool, from part `from` on, behind the text `before`.
    fn calls(&mut self, section: &'static CallSection, from: usize, before: &str) -> Result<String, String> {
        let tools = self.tools;
        let all: Result<Vec<String>, String> =
            tools.iter().map(|tool| self.call(&section.call[from..], tool, before)).collect();
        Ok(any_of(&all?))
    }

    fn call(
        &mut self,
        parts: &'static [CallPart],
        tool: &ToolSchema,
        before: &str,
    ) -> Result<String, String> {
        let (mut out, mut text) = (Vec::new(), before.to_owned());
        for part in parts {
            let expression = match part {
                CallPart::Text(part) | CallPart::Space(part) => {
                    text += part;
                    continue;
                }
                CallPart::Name => {
                    text += &tool.name;
                    continue;
                }
                CallPart::NumberedName(prefix) => {
                    text += &format!("{prefix}{}:", tool.name);
                    NUMBER.to_owned()
                }
                CallPart::Id => ID.to_owned(),
                CallPart::Word => "/[A-Za-z0-9_.\\-]{1,64}/".to_owned(),
                CallPart::OptionalId(mark) => format!("({} {NINE})?", self.out.literal(mark)),
                CallPart::Object(keys) => self.object(keys, tool, &std::mem::take(&mut text)),
                CallPart::NameAsKey => {
                    let open = format!("{}{{{}: ", std::mem::take(&mut text), quoted(&tool.name));
                    let open = self.out.literal(&open);
                    format!("{open} {} /\\}}/", json_object(&tool.schema))
                }
                CallPart::Arguments(style) => {
                    let written = arguments(&mut self.out, style, &tool.schema);
                    self.note(tool, written.loose)?;
                    written.text
                }
            };
            if !text.is_empty() {
                out.push(self.out.literal(&std::mem::take(&mut text)));
            }
            out.push(expression);
        }
        if !text.is_empty() {
            out.push(self.out.literal(&text));
        }
        Ok(format!("({})", out.join(" ")))
    }

    /// Calls that are JSON from their first brace on.
    fn json_calls(&mut self, section: &CallSection, keys: &ObjectKeys) -> String {
        let tools = self.tools;
        let call = |tool: &ToolSchema| {
            let (name, arguments) = (keys.name, keys.arguments[0]);
            let schema = json!({
                "type": "object",
                "properties": { name: { "const": tool.name }, arguments: tool.schema },
                "required": [name, arguments],
                "additionalProperties": false,
            });
            json_object(&hoisted(schema, &tool.schema))
        };
        let call = self.out.rule(&any_of(&tools.iter().map(call).collect::<Vec<_>>()));
        match section.items {
            Items::Several(separator) if !self.single() => {
                format!("{call} ({} {call})*", self.out.literal(separator))
            }
            _ => call,
        }
    }

    fn object(&mut self, keys: &ObjectKeys, tool: &ToolSchema, before: &str) -> String {
        let ObjectKeys { name, arguments, id, id_place, .. } = keys;
        let schema = json_object(&tool.schema);
        let middle = format!("\"{name}\": {}, \"{}\": ", quoted(&tool.name), arguments[0]);
        let literal = |text: &str| self.out.literal(text);
        match (id, id_place) {
            (None, _) => format!("{} {schema} /\\}}/", literal(&format!("{before}{{{middle}"))),
            (Some(id), IdPlace::First) => {
                let open = literal(&format!("{before}{{\"{id}\": \""));
                format!("{open} {ID} {} {schema} /\\}}/", literal(&format!("\", {middle}")))
            }
            (Some(id), IdPlace::Last) => {
                let open = literal(&format!("{before}{{{middle}"));
                let before_id = literal(&format!(", \"{id}\": \""));
                format!("{open} {schema} {before_id} {NINE} {}", literal("\"}"))
            }
            (Some(id), IdPlace::LastIfAny) => {
                let open = literal(&format!("{before}{{{middle}"));
                let before_id = literal(&format!(", \"{id}\": \""));
                format!("{open} {schema} ({before_id} {ID} {})? /\\}}/", literal("\""))
            }
        }
    }

    /// What a spelling that is no JSON leaves open.
    fn note(&mut self, tool: &ToolSchema, mut loose: Vec<String>) -> Result<(), String> {
        loose.sort_unstable();
        loose.dedup();
        if loose.is_empty() {
            return Ok(());
        }
        let words = loose.join(", ");
        let name = &tool.name;
        if tool.strict {
            return Err(format!(
                "the schema of the tool {name} is strict, but this model's format cannot enforce {words}: drop them"
            ));
        }
        let warning = format!("arguments of {name} are not checked for {words} in this model's format");
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
        Ok(())
    }

    /// Messages with headers: reasoning, then calls or the answer.
    fn channels(&mut self, channels: &Channels) -> Result<String, String> {
        let Channels { channel, message, ends, reasoning, header, call_end, start, .. } = channels;
        let end = ends.first().copied().unwrap_or_default();
        let again = self.out.literal(&format!("{start}assistant"));
        let thoughts = match self.rules.thoughts {
            true => {
                let thought = self.out.literal(&format!("{channel}{reasoning}{message}"));
                let thought_end = self.out.up_to(end);
                self.out.rule(&format!("({thought} {thought_end} {again})*"))
            }
            // They are bounded elsewhere; what follows them is a message of its own.
            false => format!("({again})?"),
        };
        let mut calls = Vec::new();
        for tool in self.tools {
            let open = self.out.literal(&format!("{}{}{}{message}", header.0, tool.name, header.1));
            calls.push(format!("({open} {})", json_object(&tool.schema)));
        }
        let call = format!("{} {}", any_of(&calls), self.out.last(call_end));
        if self.must() {
            return Ok(format!("{thoughts} {call}"));
        }
        let last = self.out.literal(&format!("{channel}final{message}"));
        let answer = self.answer(&[end, *start]);
        if calls.is_empty() {
            return Ok(format!("{thoughts} {last} {answer}"));
        }
        let said = self.out.literal(&format!("{channel}commentary{message}"));
        let said_end = self.out.up_to(end);
        Ok(format!("{thoughts} (({said} {said_end} {again})? {call} | {last} {answer})"))
    }
}

fn is_bare(section: &CallSection) -> bool {
    section.open.is_empty() && !matches!(section.call.first(), Some(CallPart::Text(_)))
}

/// What opens a section, and the part of its first call that follows. Of several spellings the one that is a token.
fn opener(section: &'static CallSection, marks: &MarkTokens<'_>) -> (&'static str, usize) {
    let token = |mark: &&&'static str| matches!((marks.cut)(mark).as_slice(), [MarkPiece::Token(_)]);
    match (section.open.iter().find(token).or(section.open.first()), section.call.first()) {
        (Some(mark), _) => (mark, 0),
        (None, Some(CallPart::Text(mark))) => (mark, 1),
        _ => ("", 0),
    }
}

/// The first mark that tells a call from text, and the part that follows it. A word before it, such as a recipient,
/// stands before texts too.
fn trigger(section: &'static CallSection, marks: &MarkTokens<'_>) -> (&'static str, usize) {
    let Some(CallPart::Word) = section.call.first() else { return opener(section, marks) };
    let texts = section.call.iter().enumerate().skip(1);
    let last = texts
        .map_while(|(i, part)| if let CallPart::Text(text) = part { Some((*text, i + 1)) } else { None });
    last.last().unwrap_or_else(|| opener(section, marks))
}

/// A schema around `inner`, with the definitions that `inner` refers to.
fn hoisted(mut schema: Value, inner: &Value) -> Value {
    for word in ["$defs", "definitions"] {
        if let Some(definitions) = inner.get(word) {
            schema[word] = definitions.clone();
        }
    }
    schema
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
