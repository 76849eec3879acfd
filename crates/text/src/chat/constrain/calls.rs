//! Calls and what stands around them, as Lark.

use super::arguments::{arguments, json_object};
use super::lark::{LarkText, any_of};
use super::{ToolChoice, ToolRules, ToolSchema};
use crate::chat::formats::{
    CallPart, CallSection, CallSyntax, Channels, ChatFormat, IdPlace, Items, ObjectKeys,
};

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
        let must = matches!(self.rules.choice, ToolChoice::Required | ToolChoice::Named(_));
        match &format.calls {
            CallSyntax::Channels(channels) => self.channels(channels, must),
            CallSyntax::Sections(sections) => self.sections(sections, format.opening, must),
            CallSyntax::None => Ok("TEXT?".into()),
        }
    }

    fn sections(
        &mut self,
        sections: &'static [CallSection],
        opening: &str,
        must: bool,
    ) -> Result<String, String> {
        match (sections, opening) {
            ([section, others @ ..], _) if is_bare(section) => self.bare(section, others, must),
            ([section, ..], "") => self.marked(section, must),
            ([section, ..], opening) => self.opened(section, opening, must),
            ([], _) => Ok("TEXT?".into()),
        }
    }

    fn single(&self) -> bool {
        !self.rules.parallel || matches!(self.rules.choice, ToolChoice::Named(_))
    }

    /// An answer that is no call: of the schema that was asked for, or text in which no call opens.
    fn answer(&mut self, marks: &[&str]) -> String {
        match self.rules.answer {
            Some(schema) => json_object(schema),
            None => self.out.without(marks),
        }
    }

    /// Calls that open with a mark.
    fn marked(&mut self, section: &'static CallSection, must: bool) -> Result<String, String> {
        let mark = mark_of(section);
        let rest = self.section(section)?;
        let rest = self.out.rule(&rest);
        if must {
            return Ok(format!("{} {rest}", self.out.literal(mark)));
        }
        let tail = self.answer(&[mark]);
        if self.rules.answer.is_some() {
            return Ok(format!("({} {rest} | {tail})", self.out.literal(mark)));
        }
        let lead = self.out.up_to(mark);
        let times = if self.single() { "?" } else { "*" };
        Ok(format!("({lead} {rest}){times} {tail}"))
    }

    /// Calls whose first mark ends the prompt.
    fn opened(&mut self, section: &'static CallSection, opening: &str, must: bool) -> Result<String, String> {
        let call = self.calls(section, 0)?;
        let call = self.out.rule(&call);
        let mark = self.out.literal(opening);
        let more = if self.single() { String::new() } else { format!(" ({mark} {call})*") };
        if must {
            return Ok(format!("{call}{more}"));
        }
        let (all, text, lead) = (self.out.literal("all\n"), self.answer(&[opening]), self.out.up_to(opening));
        Ok(format!("({call}{more} | {all} {text} | {all} {lead} {call}{more})"))
    }

    /// Calls that are the answer itself.
    fn bare(
        &mut self,
        section: &'static CallSection,
        others: &'static [CallSection],
        must: bool,
    ) -> Result<String, String> {
        let calls = self.section(section)?;
        let calls = self.out.rule(&calls);
        if must {
            return Ok(calls);
        }
        let mut all = vec![calls.clone()];
        if let Some(mark) = others.first().and_then(|other| other.open.first()) {
            all.push(format!("{} {calls}", self.out.literal(mark)));
        }
        all.push(match self.rules.answer {
            Some(schema) => json_object(schema),
            // Text does not begin as a call does.
            None => "/\\s*[^\\s\\{\\[](?s:.)*/?".into(),
        });
        Ok(any_of(&all))
    }

    /// A section after its mark, or a call after its first part where that is the mark.
    fn section(&mut self, section: &'static CallSection) -> Result<String, String> {
        let own = usize::from(section.open.is_empty() && !is_bare(section));
        let first = self.calls(section, own)?;
        let (single, close) = (self.single(), section.close);
        let text = match section.items {
            Items::One => first,
            Items::List { separator, first: before, last } => {
                let (open, end) =
                    (self.out.literal(&format!("[{before}")), self.out.literal(&format!("{last}]")));
                let call = self.out.rule(&first);
                let more = match single {
                    true => String::new(),
                    false => format!(" ({} {call})*", self.out.literal(separator)),
                };
                format!("{open} {call}{more} {end}")
            }
            Items::Several(separator) => {
                let more = if own == 0 { first.clone() } else { self.calls(section, 0)? };
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
            close => format!("{text} {}", self.out.literal(close)),
        })
    }

    /// A call of any tool, from part `from` on.
    fn calls(&mut self, section: &'static CallSection, from: usize) -> Result<String, String> {
        let tools = self.tools;
        let all: Result<Vec<String>, String> =
            tools.iter().map(|tool| self.call(&section.call[from..], tool)).collect();
        Ok(any_of(&all?))
    }

    fn call(&mut self, parts: &'static [CallPart], tool: &ToolSchema) -> Result<String, String> {
        let (mut out, mut text) = (Vec::new(), String::new());
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
                CallPart::Object(keys) => self.object(keys, tool),
                CallPart::NameAsKey => {
                    let open = self.out.literal(&format!("{{\"{}\": ", tool.name));
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

    fn object(&mut self, keys: &ObjectKeys, tool: &ToolSchema) -> String {
        let ObjectKeys { name, arguments, id, id_place, .. } = keys;
        let schema = json_object(&tool.schema);
        let middle = format!("\"{name}\": \"{}\", \"{}\": ", tool.name, arguments[0]);
        let literal = |text: &str| self.out.literal(text);
        match (id, id_place) {
            (None, _) => format!("{} {schema} /\\}}/", literal(&format!("{{{middle}"))),
            (Some(id), IdPlace::First) => {
                let open = literal(&format!("{{\"{id}\": \""));
                format!("{open} {ID} {} {schema} /\\}}/", literal(&format!("\", {middle}")))
            }
            (Some(id), IdPlace::Last) => {
                let open = literal(&format!("{{{middle}"));
                let before_id = literal(&format!(", \"{id}\": \""));
                format!("{open} {schema} {before_id} {NINE} {}", literal("\"}"))
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
    fn channels(&mut self, channels: &Channels, must: bool) -> Result<String, String> {
        let Channels { channel, message, ends, reasoning, header, call_end, start, .. } = channels;
        let end = ends.first().copied().unwrap_or_default();
        let thought = self.out.literal(&format!("{channel}{reasoning}{message}"));
        let thought_end = self.out.up_to(end);
        let again = self.out.literal(&format!("{start}assistant"));
        let thoughts = self.out.rule(&format!("({thought} {thought_end} {again})*"));
        let mut calls = Vec::new();
        for tool in self.tools {
            let open = self.out.literal(&format!("{}{}{}{message}", header.0, tool.name, header.1));
            calls.push(format!("({open} {})", json_object(&tool.schema)));
        }
        let call = format!("{} {}", any_of(&calls), self.out.literal(call_end));
        if must {
            return Ok(format!("{thoughts} {call}"));
        }
        let said = self.out.literal(&format!("{channel}commentary{message}"));
        let said_end = self.out.up_to(end);
        let last = self.out.literal(&format!("{channel}final{message}"));
        let answer = self.answer(&[end, *start]);
        Ok(format!("{thoughts} (({said} {said_end} {again})? {call} | {last} {answer})"))
    }
}

fn is_bare(section: &CallSection) -> bool {
    section.open.is_empty() && !matches!(section.call.first(), Some(CallPart::Text(_)))
}

/// What opens a section, or its only kind of call.
fn mark_of(section: &'static CallSection) -> &'static str {
    match (section.open.first(), section.call.first()) {
        (Some(mark), _) => mark,
        (None, Some(CallPart::Text(mark))) => mark,
        _ => "",
    }
}
