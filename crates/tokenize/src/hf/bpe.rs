//! Byte-pair encoding of a `tokenizer.json`: characters with affixes, unknown ones, bytes, merges.

use ahash::{AHashMap, AHashSet};
use serde_json::Value;

use super::field;
use super::ids::{TokenIds, missing, read_ids};
use crate::encode::bpe::PairMerges;
use crate::encode::merge::{Join, Symbol, merge};

/// Characters that merge.
pub(super) struct HfBpe {
    pub ids: TokenIds,
    merges: PairMerges,
    /// Tokens of one character.
    chars: AHashMap<char, u32>,
    /// Before each character of a piece but the first, and behind its last one.
    prefix: String,
    suffix: String,
    /// The byte tokens there are.
    bytes: Option<Box<[Option<u32>; 256]>>,
    unknown: Option<String>,
    fuse_unknown: bool,
    whole_pieces: bool,
    /// The character of spaces, if no merge joins it to another one before it.
    pub word_start: Option<char>,
}

/// What stands for a space in texts that are cut nowhere.
const SPACES: [char; 2] = ['\u{2581}', ' '];

impl HfBpe {
    pub fn read(json: &Value) -> Result<HfBpe, String> {
        let dropout = json.get("dropout").filter(|dropout| !dropout.is_null());
        if dropout.is_some_and(|dropout| dropout.as_f64() != Some(0.0)) {
            return Err("dropout is for training: set it to null".into());
        }
        let flag = |name| Ok::<_, String>(field::optional(json, name, field::flag)?.unwrap_or(false));
        let text = |name| Ok::<_, String>(field::optional(json, name, field::text)?.map(str::to_owned));
        let ids = read_ids(json)?;
        let prefix = text("continuing_subword_prefix")?.unwrap_or_default();
        let byte = |byte: usize| ids.get(format!("<0x{byte:02X}>").as_str()).copied();
        let single = |text: &str| {
            let mut chars = text.chars();
            chars.next().filter(|_| chars.as_str().is_empty())
        };
        let model = HfBpe {
            merges: read_merges(json, &ids, &prefix)?,
            chars: ids.iter().filter_map(|(text, &id)| Some((single(text)?, id))).collect(),
            bytes: flag("byte_fallback")?.then(|| Box::new(std::array::from_fn(byte))),
            prefix,
            suffix: text("end_of_word_suffix")?.unwrap_or_default(),
            unknown: text("unk_token")?,
            fuse_unknown: flag("fuse_unk")?,
            whole_pieces: flag("ignore_merges")?,
            word_start: None,
            ids,
        };
        let word_start = SPACES.into_iter().find(|&space| model.ends_before(space, json));
        Ok(HfBpe { word_start, ..model })
    }

    /// Whether a text is what its words are, each of which `space` begins: no merge crosses its beginning. Merges go by ids,
    /// so that no two tokens may have one, and a token that stands for others may not look like a space.
    fn ends_before(&self, space: char, json: &Value) -> bool {
        let ids: AHashSet<u32> = self.ids.values().copied().collect();
        let crosses = |merge: &Value| {
            pair(merge).is_none_or(|(left, right)| right.starts_with(space) && !left.ends_with(space))
        };
        let list = json.get("merges").and_then(Value::as_array);
        ids.len() == self.ids.len()
            && self.chars.contains_key(&space)
            && self.prefix.is_empty()
            && self.suffix.is_empty()
            && !self.whole_pieces
            && !self.unknown.as_ref().is_some_and(|unknown| unknown.ends_with(space))
            && !list.into_iter().flatten().any(crosses)
    }

    pub fn encode(&self, piece: &str, out: &mut Vec<u32>) -> Result<(), String> {
        if let Some(&id) = self.ids.get(piece).filter(|_| self.whole_pieces) {
            out.push(id);
            return Ok(());
        }
        let mut symbols = self.symbols(piece)?;
        merge(&self.merges, &[], &mut symbols);
        out.extend(symbols.iter().map(|symbol| symbol.id));
        Ok(())
    }

    /// What a piece is before any merge.
    fn symbols(&self, piece: &str) -> Result<Vec<Symbol>, String> {
        let mut symbols = Vec::with_capacity(piece.len());
        // An unknown character waits for what follows: it may be one with others.
        let mut waiting: Option<u32> = None;
        // Merges here go by ids alone.
        let mut push = |id: u32| symbols.push(Symbol { id, start: 0 });
        let mut affixed = String::new();
        for (at, c) in piece.char_indices() {
            let last = at + c.len_utf8() == piece.len();
            let plain = (at == 0 || self.prefix.is_empty()) && (!last || self.suffix.is_empty());
            let id = match plain {
                true => self.chars.get(&c),
                false => {
                    affixed.clear();
                    affixed.push_str(if at > 0 { &self.prefix } else { "" });
                    affixed.push(c);
                    affixed.push_str(if last { &self.suffix } else { "" });
                    self.ids.get(affixed.as_str())
                }
            };
            if let Some(&id) = id {
                waiting.take().into_iter().for_each(&mut push);
                push(id);
                continue;
            }
            let mut buffer = [0; 4];
            let text = if plain { &*c.encode_utf8(&mut buffer) } else { &affixed };
            if let Some(bytes) = self.byte_tokens(text) {
                bytes.into_iter().for_each(&mut push);
            } else if let Some(unknown) = &self.unknown {
                let id = *self.ids.get(unknown.as_str()).ok_or_else(|| missing(unknown))?;
                waiting.replace(id).filter(|_| !self.fuse_unknown).into_iter().for_each(&mut push);
            }
        }
        waiting.into_iter().for_each(push);
        Ok(symbols)
    }

    /// The bytes of a text as tokens, where there is one for each.
    fn byte_tokens(&self, text: &str) -> Option<Vec<u32>> {
        let bytes = self.bytes.as_ref()?;
        text.bytes().map(|byte| bytes[byte as usize]).collect()
    }
}

/// Pairs in the order in which they merge: lists of two texts, or lines.
fn read_merges(json: &Value, ids: &TokenIds, prefix: &str) -> Result<PairMerges, String> {
    let list = field::list(json, "merges")?;
    let lines = list.iter().all(|merge| merge.as_str().is_some());
    let pairs =
        list.iter().filter(|merge| !lines || !merge.as_str().is_some_and(|m| m.starts_with("#version")));
    let mut merges = PairMerges::default();
    for (rank, merge) in pairs.enumerate() {
        let (left, right) = pair(merge).ok_or_else(|| format!("merge {merge} is no pair"))?;
        let id =
            |text: &str| ids.get(text).copied().ok_or_else(|| format!("merge {merge} needs token {text:?}"));
        let tail =
            right.strip_prefix(prefix).ok_or_else(|| format!("merge {merge} lacks the prefix {prefix:?}"))?;
        let join = Join { rank: rank as u32, id: id(&format!("{left}{tail}"))? };
        merges.0.insert((id(left)?, id(right)?), join);
    }
    Ok(merges)
}

fn pair(merge: &Value) -> Option<(&str, &str)> {
    match merge {
        Value::String(line) => line.split_once(' ').filter(|(_, right)| !right.contains(' ')),
        Value::Array(pair) => match pair.as_slice() {
            [left, right] => Some((left.as_str()?, right.as_str()?)),
            _ => None,
        },
        _ => None,
    }
}
