//! tiktoken rank files: a line per token, its bytes in base64 and its rank, which is its id and its merge order.

use ahash::AHashMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::byte_level;
use crate::encode::Fallback;
use crate::encode::bpe::{Atoms, Bpe, Ranks};
use crate::error::TokenizeError;
use crate::pre::{Alphabet, WholePieces};
use crate::split::{SplitRule, Splitter, patterns};
use crate::tokenizer::{DraftEncoder, Tokenizer, TokenizerDraft};
use crate::vocab::{LARGEST_ID, TokenEntry, TokenKind, Vocab};

const WHAT: &str = "tiktoken rank file";

/// A published encoding: how text is cut, and which special tokens lie beyond the rank file.
#[derive(Clone, Debug)]
pub struct TiktokenEncoding {
    name: &'static str,
    /// The number of ranks in its file: the files do not say what they are.
    ranks: usize,
    pattern: &'static [&'static str],
    special: fn() -> Vec<(String, u32)>,
    bos: Option<&'static str>,
    eos: &'static str,
    adds_bos: bool,
}

const BASE: TiktokenEncoding = TiktokenEncoding {
    name: "gpt2",
    ranks: 50256,
    pattern: patterns::GPT2,
    special: || list(&[("<|endoftext|>", 50256)]),
    bos: None,
    eos: "<|endoftext|>",
    adds_bos: false,
};

const CL100K: TiktokenEncoding = TiktokenEncoding {
    name: "cl100k_base",
    ranks: 100_256,
    pattern: patterns::CL100K,
    special: || {
        list(&[
            ("<|endoftext|>", 100_257),
            ("<|fim_prefix|>", 100_258),
            ("<|fim_middle|>", 100_259),
            ("<|fim_suffix|>", 100_260),
            ("<|endofprompt|>", 100_276),
        ])
    },
    ..BASE
};

const ENCODINGS: &[TiktokenEncoding] = &[
    BASE,
    TiktokenEncoding { name: "p50k_base", ranks: 50280, ..BASE },
    CL100K,
    TiktokenEncoding {
        name: "o200k_base",
        ranks: 199_998,
        pattern: patterns::O200K,
        special: || list(&[("<|endoftext|>", 199_999), ("<|endofprompt|>", 200_018)]),
        ..BASE
    },
    TiktokenEncoding {
        name: "llama3",
        ranks: 128_000,
        pattern: patterns::LLAMA3,
        special: llama3_special,
        bos: Some("<|begin_of_text|>"),
        eos: "<|end_of_text|>",
        adds_bos: true,
    },
    TiktokenEncoding {
        name: "qwen",
        ranks: 151_643,
        pattern: patterns::QWEN2,
        special: qwen_special,
        ..BASE
    },
    TiktokenEncoding {
        name: "llama4",
        ranks: 200_000,
        pattern: patterns::O200K,
        special: || list(&[("<|begin_of_text|>", 200_000), ("<|end_of_text|>", 200_001)]),
        bos: Some("<|begin_of_text|>"),
        eos: "<|end_of_text|>",
        adds_bos: true,
    },
    TiktokenEncoding {
        name: "kimi_k2",
        ranks: 163_584,
        pattern: patterns::KIMI_K2,
        special: || list(&[("[BOS]", 163_584), ("[EOS]", 163_585), ("<|im_end|>", 163_586)]),
        bos: Some("[BOS]"),
        eos: "[EOS]",
        ..BASE
    },
];

impl TiktokenEncoding {
    /// The encoding with this name: gpt2, p50k_base, cl100k_base, o200k_base, llama3, llama4, qwen, kimi_k2.
    pub fn named(name: &str) -> Option<TiktokenEncoding> {
        ENCODINGS.iter().find(|encoding| encoding.name == name).cloned()
    }

    /// The names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ENCODINGS.iter().map(|encoding| encoding.name)
    }

    pub(crate) fn cl100k() -> TiktokenEncoding {
        CL100K
    }

    /// How it cuts text.
    pub(crate) fn rule(&self) -> SplitRule {
        SplitRule::Match(self.pattern)
    }

    /// The same without its special tokens.
    pub fn without_special(self) -> TiktokenEncoding {
        TiktokenEncoding { special: Vec::new, bos: None, ..self }
    }

    /// The encoding whose rank file has this many lines.
    pub fn with_ranks(ranks: usize) -> Option<TiktokenEncoding> {
        ENCODINGS.iter().find(|encoding| encoding.ranks == ranks).cloned()
    }
}

fn list(tokens: &[(&str, u32)]) -> Vec<(String, u32)> {
    tokens.iter().map(|(text, id)| ((*text).to_owned(), *id)).collect()
}

fn llama3_special() -> Vec<(String, u32)> {
    let head = [
        "<|begin_of_text|>",
        "<|end_of_text|>",
        "<|reserved_special_token_0|>",
        "<|reserved_special_token_1|>",
        "<|finetune_right_pad_id|>",
        "<|reserved_special_token_2|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eom_id|>",
        "<|eot_id|>",
        "<|python_tag|>",
    ];
    let reserved = (3..248).map(|n| format!("<|reserved_special_token_{n}|>"));
    head.into_iter().map(str::to_owned).chain(reserved).zip(128_000..).collect()
}

fn qwen_special() -> Vec<(String, u32)> {
    let head = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"].map(str::to_owned);
    head.into_iter().chain((0..205).map(|n| format!("<|extra_{n}|>"))).zip(151_643..).collect()
}

impl Tokenizer {
    /// A tokenizer from a rank file. `special`: further special tokens and their ids; where an id or a text is also
    /// among the encoding's own, these win.
    pub fn from_tiktoken(
        ranks: &[u8],
        encoding: &TiktokenEncoding,
        special: &[(String, u32)],
    ) -> Result<Tokenizer, TokenizeError> {
        draft(parse(ranks)?, encoding, special)?.finish()
    }
}

/// Whether a file looks like a rank file.
pub(crate) fn is_rank_file(bytes: &[u8]) -> bool {
    let line = bytes.split(|&b| b == b'\n').find(|line| !line.is_empty());
    line.is_some_and(|line| parse_line(line).is_some())
}

fn parse_line(line: &[u8]) -> Option<(Vec<u8>, u32)> {
    let (token, rank) = std::str::from_utf8(line).ok()?.trim_end().split_once(' ')?;
    Some((STANDARD.decode(token).ok()?, rank.parse().ok()?))
}

/// Tokens by rank.
pub(crate) fn parse(bytes: &[u8]) -> Result<Vec<(Vec<u8>, u32)>, TokenizeError> {
    let lines = bytes.split(|&b| b == b'\n').enumerate().filter(|(_, line)| !line.trim_ascii().is_empty());
    let mut ranks = Vec::new();
    for (number, line) in lines {
        let at = || format!("line {}", number + 1);
        let problem = || TokenizeError::malformed(WHAT, format!("{} is not `base64 rank`", at()));
        let (token, rank) = parse_line(line).ok_or_else(problem)?;
        if rank >= LARGEST_ID {
            return Err(TokenizeError::malformed(
                WHAT,
                format!("{} has rank {rank}, above {LARGEST_ID}", at()),
            ));
        }
        ranks.push((token, rank));
    }
    ranks.sort_unstable_by_key(|(_, rank)| *rank);
    Ok(ranks)
}

pub(crate) fn draft(
    ranks: Vec<(Vec<u8>, u32)>,
    encoding: &TiktokenEncoding,
    special: &[(String, u32)],
) -> Result<TokenizerDraft, TokenizeError> {
    let vocab = vocab(&ranks, &all_special(encoding, special, &ranks)?)?;
    let tokens: AHashMap<Box<[u8]>, u32> = ranks.into_iter().map(|(token, id)| (token.into(), id)).collect();
    let mut atoms = [None; 256];
    for byte in 0..=255u8 {
        let id = tokens.get([byte].as_slice()).copied();
        let problem = || TokenizeError::malformed(WHAT, format!("has no token for byte 0x{byte:02x}"));
        atoms[byte as usize] = Some(id.ok_or_else(problem)?);
    }
    // The words of ignore-merges and the ranks are one table; Bpe wants two, and a second copy costs less than sharing.
    let encoder = Bpe {
        splitter: Splitter::new(&[SplitRule::Match(encoding.pattern)])?,
        alphabet: Alphabet::ByteLevel,
        atoms: Atoms::Bytes(Box::new(atoms)),
        whole_pieces: WholePieces::Always,
        words: Ranks::new(tokens.clone()),
        rule: Ranks::new(tokens),
        tokens: vocab.len() as u32,
        fallback: Fallback { bytes: None, unknown: None },
    };
    let mut draft = TokenizerDraft::new(vocab, DraftEncoder::Native(Box::new(encoder)));
    draft.ids.bos = encoding.bos.and_then(|text| draft.vocab.id(text));
    draft.ids.eos = draft.vocab.id(encoding.eos);
    draft.ids.eot = ["<|eot_id|>", "<|eot|>"].iter().find_map(|text| draft.vocab.id(text));
    draft.add_bos = encoding.adds_bos;
    Ok(draft)
}

/// The special tokens by id.
fn all_special(
    encoding: &TiktokenEncoding,
    own: &[(String, u32)],
    ranks: &[(Vec<u8>, u32)],
) -> Result<Vec<(u32, String)>, TokenizeError> {
    let mut by_id: AHashMap<u32, String> = AHashMap::new();
    let taken = |text: &str, id: u32| own.iter().any(|(t, i)| t == text || *i == id);
    let published = (encoding.special)().into_iter().filter(|(text, id)| !taken(text, *id));
    for (text, id) in published.chain(own.iter().cloned()) {
        if id >= LARGEST_ID || ranks.binary_search_by_key(&id, |(_, rank)| *rank).is_ok() {
            let problem =
                format!("special token {text:?} has id {id}, which is a rank of the file or too large");
            return Err(TokenizeError::malformed(WHAT, problem));
        }
        by_id.insert(id, text);
    }
    let mut special: Vec<(u32, String)> = by_id.into_iter().collect();
    special.sort_unstable();
    Ok(special)
}

fn vocab(ranks: &[(Vec<u8>, u32)], special: &[(u32, String)]) -> Result<Vocab, TokenizeError> {
    let size =
        ranks.iter().map(|(_, id)| *id).chain(special.iter().map(|(id, _)| *id)).max().map_or(0, |id| id + 1);
    let mut ranks = ranks.iter().peekable();
    let mut special = special.iter().peekable();
    let mut vocab = Vocab::default();
    for id in 0..size {
        if let Some((bytes, _)) = ranks.next_if(|(_, rank)| *rank == id) {
            let text = byte_level::encode(bytes);
            vocab.push(TokenEntry { text, bytes: bytes.clone(), kind: TokenKind::Normal });
        } else if let Some((_, text)) = special.next_if(|(special, _)| *special == id) {
            let bytes = text.as_bytes().to_vec();
            vocab.push(TokenEntry { text: text.clone(), bytes, kind: TokenKind::Control });
        } else {
            vocab.push(TokenEntry { text: String::new(), bytes: Vec::new(), kind: TokenKind::Unused });
        }
        if let Some((_, rank)) = ranks.peek().filter(|(_, rank)| *rank <= id) {
            return Err(TokenizeError::malformed(WHAT, format!("two tokens have rank {rank}")));
        }
    }
    Ok(vocab)
}
