//! Post-processors of a `tokenizer.json`: what is put around and between the tokens of one or two texts.

use serde_json::Value;

use super::field;

/// One change of the tokens, or several.
#[derive(Clone)]
pub(super) enum PostProcessor {
    Sequence(Vec<PostProcessor>),
    Bert {
        cls: u32,
        sep: u32,
    },
    Roberta {
        cls: u32,
        sep: u32,
    },
    /// Offsets alone.
    ByteLevel,
    Template {
        single: Vec<TemplatePart>,
        pair: Vec<TemplatePart>,
    },
}

#[derive(Clone)]
pub(super) enum TemplatePart {
    /// The tokens of the first or the second text.
    Text(usize),
    Tokens(Vec<u32>),
}

impl PostProcessor {
    pub fn read(json: &Value) -> Result<PostProcessor, String> {
        Ok(match field::kind(json)? {
            "Sequence" => {
                let parts = field::list(json, "processors")?;
                PostProcessor::Sequence(parts.iter().map(PostProcessor::read).collect::<Result<_, _>>()?)
            }
            "BertProcessing" | "RobertaProcessing" => {
                let (cls, sep) = (token(json, "cls")?, token(json, "sep")?);
                // By these fields, whatever its name: as the library tells them apart.
                let roberta =
                    ["trim_offsets", "add_prefix_space"].iter().all(|name| json.get(name).is_some());
                match roberta {
                    true => PostProcessor::Roberta { cls, sep },
                    false => PostProcessor::Bert { cls, sep },
                }
            }
            "ByteLevel" => PostProcessor::ByteLevel,
            "TemplateProcessing" => {
                let tokens = json.get("special_tokens").unwrap_or(&Value::Null);
                let parts = |name| field::list(json, name)?.iter().map(|p| part(p, tokens)).collect();
                PostProcessor::Template {
                    single: parts("single")?,
                    pair: Result::<_, String>::and_then(parts("pair"), Ok)?,
                }
            }
            other => return Err(format!("{other} is unknown")),
        })
    }

    /// The tokens of the texts `lists` and what stands around them; without special tokens, what it makes of the rest.
    pub fn apply(&self, lists: Vec<Vec<u32>>, special: bool) -> Result<Vec<Vec<u32>>, String> {
        Ok(match self {
            PostProcessor::Sequence(parts) => {
                return parts.iter().try_fold(lists, |lists, part| part.apply(lists, special));
            }
            PostProcessor::Bert { cls, sep } if special => framed(lists, &[*cls], &[], &[*sep]),
            PostProcessor::Roberta { cls, sep } if special => framed(lists, &[*cls], &[*sep], &[*sep]),
            PostProcessor::Bert { .. } | PostProcessor::Roberta { .. } | PostProcessor::ByteLevel => lists,
            PostProcessor::Template { single, pair } => {
                let template = match lists.len() {
                    1 => single,
                    2 => pair,
                    count => return Err(format!("a template is not for {count} lists of tokens")),
                };
                let fill = |part: &TemplatePart| match part {
                    TemplatePart::Text(index) => lists.get(*index).cloned().map(Some),
                    TemplatePart::Tokens(ids) => Some(special.then(|| ids.clone())),
                };
                let parts =
                    template.iter().map(|part| fill(part).ok_or("a template for one text names a second"));
                parts.filter_map(Result::transpose).collect::<Result<_, _>>()?
            }
        })
    }
}

/// The first with one text before, others with another one, all with one behind.
fn framed(lists: Vec<Vec<u32>>, first: &[u32], other: &[u32], after: &[u32]) -> Vec<Vec<u32>> {
    let before = |index| if index == 0 { first } else { other };
    lists.into_iter().enumerate().map(|(index, list)| [before(index), &list, after].concat()).collect()
}

/// A token as its text and its id.
fn token(json: &Value, name: &str) -> Result<u32, String> {
    match field::list(json, name)? {
        [Value::String(_), id] => id_of(id),
        _ => Err(format!("needs a text and an id as {name}")),
    }
}

fn id_of(id: &Value) -> Result<u32, String> {
    id.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(|| format!("{id} is no id"))
}

fn part(json: &Value, tokens: &Value) -> Result<TemplatePart, String> {
    if let Some(text) = json.get("Sequence") {
        return match field::text(text, "id")? {
            "A" => Ok(TemplatePart::Text(0)),
            "B" => Ok(TemplatePart::Text(1)),
            other => Err(format!("names a sequence {other:?}")),
        };
    }
    let name = field::text(json.get("SpecialToken").unwrap_or(&Value::Null), "id")?;
    let described = tokens.get(name).ok_or_else(|| format!("does not describe its token {name:?}"))?;
    field::list(described, "ids")?.iter().map(id_of).collect::<Result<_, _>>().map(TemplatePart::Tokens)
}
