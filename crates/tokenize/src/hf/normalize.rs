//! Normalizers of a `tokenizer.json`: what happens to a text before it is cut. Unicode's tables are those of the
//! packages that Hugging Face's library uses, so that characters of any age become what they become there.

use base64::Engine as _;
use serde_json::Value;
use unicode_categories::UnicodeCategories;
use unicode_normalization_alignments::UnicodeNormalization;
use unicode_normalization_alignments::char::is_combining_mark;
use unicode_segmentation::UnicodeSegmentation;

use super::field;
use super::passage::Passage;
use super::pattern::StagePattern;
use crate::byte_level;
use crate::encode::charsmap::Charsmap;
use crate::encode::wordpiece::is_chinese;

/// One change of a text, or several.
#[derive(Clone)]
pub(super) enum FileNormalizer {
    Sequence(Vec<FileNormalizer>),
    Bert(BertNormalizer),
    Strip { left: bool, right: bool },
    StripAccents,
    Form(NormalForm),
    Lowercase,
    Nmt,
    Precompiled(Box<Charsmap>),
    Replace(StagePattern, String),
    Prepend(String),
    ByteLevel,
}

/// What BERT does.
#[derive(Clone, Copy)]
pub(super) struct BertNormalizer {
    clean: bool,
    chinese: bool,
    strip_accents: bool,
    lowercase: bool,
}

/// Unicode's normal forms.
#[derive(Clone, Copy)]
pub(super) enum NormalForm {
    C,
    D,
    Kc,
    Kd,
}

impl FileNormalizer {
    pub fn read(json: &Value) -> Result<FileNormalizer, String> {
        Ok(match field::kind(json)? {
            "Sequence" => {
                let parts = field::list(json, "normalizers")?;
                FileNormalizer::Sequence(parts.iter().map(FileNormalizer::read).collect::<Result<_, _>>()?)
            }
            "BertNormalizer" | "Bert" => {
                let lowercase = field::flag(json, "lowercase")?;
                FileNormalizer::Bert(BertNormalizer {
                    clean: field::flag(json, "clean_text")?,
                    chinese: field::flag(json, "handle_chinese_chars")?,
                    strip_accents: field::optional(json, "strip_accents", field::flag)?.unwrap_or(lowercase),
                    lowercase,
                })
            }
            "Strip" => FileNormalizer::Strip {
                left: field::flag(json, "strip_left")?,
                right: field::flag(json, "strip_right")?,
            },
            "StripAccents" => FileNormalizer::StripAccents,
            "NFC" => FileNormalizer::Form(NormalForm::C),
            "NFD" => FileNormalizer::Form(NormalForm::D),
            "NFKC" => FileNormalizer::Form(NormalForm::Kc),
            "NFKD" => FileNormalizer::Form(NormalForm::Kd),
            "Lowercase" => FileNormalizer::Lowercase,
            "Nmt" => FileNormalizer::Nmt,
            "Precompiled" => {
                let map = base64::engine::general_purpose::STANDARD
                    .decode(field::text(json, "precompiled_charsmap")?)
                    .map_err(|e| format!("precompiled_charsmap is no base64: {e}"))?;
                let map = Charsmap::parse(&map).map_err(|e| e.to_string())?;
                FileNormalizer::Precompiled(Box::new(map.ok_or("precompiled_charsmap is empty")?))
            }
            "Replace" => {
                FileNormalizer::Replace(StagePattern::read(json)?, field::text(json, "content")?.to_owned())
            }
            "Prepend" => FileNormalizer::Prepend(field::text(json, "prepend")?.to_owned()),
            "ByteLevel" => FileNormalizer::ByteLevel,
            other => return Err(format!("{other} is unknown")),
        })
    }

    /// Whether it may put a text where there was none, which makes later changes ask for places.
    pub fn may_insert(&self) -> bool {
        match self {
            FileNormalizer::Sequence(parts) => parts.iter().any(FileNormalizer::may_insert),
            FileNormalizer::Replace(pattern, _) => pattern.may_be_empty(),
            _ => false,
        }
    }

    /// Changes a text.
    pub fn apply(&self, passage: &mut Passage) -> Result<(), String> {
        match self {
            FileNormalizer::Sequence(parts) => return parts.iter().try_for_each(|part| part.apply(passage)),
            FileNormalizer::Bert(bert) => bert.apply(passage),
            FileNormalizer::Strip { left, right } => passage.strip(*left, *right),
            FileNormalizer::StripAccents => passage.filter(|c| !is_combining_mark(c)),
            FileNormalizer::Form(form) => form.apply(passage),
            FileNormalizer::Lowercase => lowercase(passage),
            FileNormalizer::Nmt => {
                passage.filter(|c| !is_nmt_dropped(c));
                passage.map(|c| if is_nmt_space(c) { ' ' } else { c });
            }
            FileNormalizer::Precompiled(map) => precompiled(map, passage),
            FileNormalizer::Replace(pattern, content) => {
                let places = pattern.places(&passage.text)?.into_iter();
                let found: Vec<_> = places.filter(|(_, matches)| *matches).map(|(place, _)| place).collect();
                passage.replace(&found, content);
            }
            FileNormalizer::Prepend(text) => passage.prepend(text),
            FileNormalizer::ByteLevel => byte_characters(passage),
        }
        Ok(())
    }
}

impl NormalForm {
    fn apply(self, passage: &mut Passage) {
        if passage.is_bare() && passage.text.is_ascii() {
            return;
        }
        let text = passage.text.clone();
        match self {
            NormalForm::C => passage.change(text.nfc(), 0),
            NormalForm::D => passage.change(text.nfd(), 0),
            NormalForm::Kc => passage.change(text.nfkc(), 0),
            NormalForm::Kd => passage.change(text.nfkd(), 0),
        }
    }
}

impl BertNormalizer {
    fn apply(self, passage: &mut Passage) {
        if self.clean {
            passage.filter(|c| !is_control(c));
            passage.map(|c| if c.is_whitespace() { ' ' } else { c });
        }
        if self.chinese && !(passage.is_bare() && passage.text.is_ascii()) {
            let spaced = |c: char| match is_chinese(c) {
                true => vec![(' ', 0), (c, 1), (' ', 1)],
                false => vec![(c, 0)],
            };
            let text = passage.text.clone();
            passage.change(text.chars().flat_map(spaced), 0);
        }
        if self.strip_accents {
            NormalForm::D.apply(passage);
            passage.filter(|c| !c.is_mark_nonspacing());
        }
        if self.lowercase {
            lowercase(passage);
        }
    }
}

fn lowercase(passage: &mut Passage) {
    let text = passage.text.clone();
    let lower = |c: char| c.to_lowercase().enumerate().map(|(i, c)| (c, isize::from(i > 0)));
    passage.change(text.chars().flat_map(lower), 0);
}

/// Each byte as a character of GPT-2's alphabet.
pub(super) fn byte_characters(passage: &mut Passage) {
    let text = std::mem::take(&mut passage.text);
    let of_char = |(at, c): (usize, char)| {
        let bytes = &text.as_bytes()[at..at + c.len_utf8()];
        bytes.iter().enumerate().map(|(i, byte)| (byte_level::char_of(*byte), isize::from(i > 0)))
    };
    passage.text.clone_from(&text);
    passage.change(text.char_indices().flat_map(of_char), 0);
}

/// By graphemes of less than six bytes, else by characters.
fn precompiled(map: &Charsmap, passage: &mut Passage) {
    let text = passage.text.clone();
    let (mut out, mut changed): (Vec<(char, isize)>, _) = (Vec::with_capacity(text.len()), false);
    for grapheme in text.graphemes(true) {
        if let Some(new) = map.first(grapheme).filter(|_| grapheme.len() < 6) {
            changed = true;
            replace_with(&mut out, grapheme, new);
            continue;
        }
        for (at, c) in grapheme.char_indices() {
            let part = &grapheme[at..at + c.len_utf8()];
            match map.first(part) {
                Some(new) => {
                    changed = true;
                    replace_with(&mut out, part, new);
                }
                None => out.push((c, 0)),
            }
        }
    }
    if changed {
        passage.change(out.into_iter(), 0);
    }
}

fn replace_with(out: &mut Vec<(char, isize)>, old: &str, new: &str) {
    let more = new.chars().count() as isize - old.chars().count() as isize;
    out.extend(new.chars().map(|c| (c, 0)));
    if more > 0 {
        out.iter_mut().rev().take(more as usize).for_each(|(_, change)| *change = 1);
    } else if let Some((_, change)) = out.last_mut() {
        *change += more;
    }
}

fn is_control(c: char) -> bool {
    matches!(c, '\0' | '\u{fffd}') || (!matches!(c, '\t' | '\n' | '\r') && c.is_other())
}

fn is_nmt_dropped(c: char) -> bool {
    matches!(u32::from(c), 1..=8 | 0xb | 0xe..=0x1f | 0x7f | 0x8f | 0x9f)
}

fn is_nmt_space(c: char) -> bool {
    matches!(
        u32::from(c),
        9 | 0xa | 0xc | 0xd | 0x1680 | 0x200b..=0x200f | 0x2028 | 0x2029 | 0x2581 | 0xfeff | 0xfffd
    )
}
