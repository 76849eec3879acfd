//! The unigram model of a `tokenizer.json`: its lattice is SentencePiece's, what becomes of unknown characters is not.

use serde_json::Value;

use super::field;
use super::ids::TokenIds;
use crate::encode::unigram::Lattice;

/// Pieces with scores.
pub(super) struct HfUnigram {
    pub ids: TokenIds,
    /// Entries of the list, of which several may have one text.
    pub pieces: usize,
    lattice: Lattice,
    unknown: Option<u32>,
    byte_fallback: bool,
}

const UNKNOWN_MISSING: &str = "the vocabulary has no token for a part of the text, and no unk_id";

impl HfUnigram {
    pub fn read(json: &Value) -> Result<HfUnigram, String> {
        let list = field::list(json, "vocab")?;
        let (mut ids, mut scores) = (TokenIds::default(), Vec::with_capacity(list.len()));
        for (id, entry) in list.iter().enumerate() {
            let (text, score) = match entry.as_array().map(Vec::as_slice) {
                Some([Value::String(text), score]) => (text, score.as_f64()),
                _ => return Err(format!("piece {id} is no text with a score")),
            };
            scores.push(score.ok_or_else(|| format!("piece {id} has no score"))?);
            ids.insert(text.as_str().into(), id as u32);
        }
        let unknown = field::optional(json, "unk_id", field::number)?;
        if let Some(unknown) = unknown.filter(|unknown| *unknown >= list.len()) {
            return Err(format!("unk_id {unknown} is outside the vocabulary of {} pieces", list.len()));
        }
        let worst = scores.iter().copied().fold(f64::INFINITY, f64::min);
        let pieces = ids.iter().map(|(text, &id)| (&**text, id, scores[id as usize]));
        Ok(HfUnigram {
            lattice: Lattice::of_pieces(pieces.filter(|(text, ..)| !text.is_empty()).collect(), worst)
                .map_err(|e| e.to_string())?,
            ids,
            pieces: list.len(),
            unknown: unknown.map(|unknown| unknown as u32),
            byte_fallback: field::optional(json, "byte_fallback", field::flag)?.unwrap_or(false),
        })
    }

    pub fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), String> {
        if self.unknown.is_none() && self.lattice.meets_unknown(text) {
            return Err(UNKNOWN_MISSING.into());
        }
        let cuts = self.lattice.cuts(text);
        let mut at = 0;
        while let Some(&(start, mut end, id)) = cuts.get(at) {
            at += 1;
            match id.or(self.unknown).ok_or(UNKNOWN_MISSING)? {
                id if Some(id) != self.unknown => out.push(id),
                id => {
                    // Unknown neighbours are one.
                    while let Some(next) = cuts.get(at).filter(|next| next.2.unwrap_or(id) == id) {
                        end = next.1;
                        at += 1;
                    }
                    self.unknown(&text[start..end], id, out);
                }
            }
        }
        Ok(())
    }

    /// Unknown characters: a token after all, bytes, or the unknown token.
    fn unknown(&self, text: &str, unknown: u32, out: &mut Vec<u32>) {
        let byte = |byte: u8| self.ids.get(format!("<0x{byte:02X}>").as_str()).copied();
        if let Some(&id) = self.ids.get(text) {
            out.push(id);
        } else if let Some(bytes) =
            self.byte_fallback.then(|| text.bytes().map(byte).collect::<Option<Vec<u32>>>()).flatten()
        {
            out.extend(bytes);
        } else {
            out.push(unknown);
        }
    }
}
