//! A base's rows in a file: the likeliest tokens of each, and the sum of the rest.

use super::norm::RowNorm;
use crate::windows::{PerplexityOptions, TextWindows};
use half::f16;
use lamina::{Error, Result, files};
use std::{
    fs::File,
    io::{self, BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
};

const MAGIC: [u8; 8] = *b"LAMINAKL";
const VERSION: u32 = 1;
/// Tokens that a row keeps; all of a smaller vocabulary.
const KEPT: usize = 256;
/// In the place of the beginning token where there is none.
const NO_TOKEN: u32 = u32::MAX;
/// Tokens of the longest text: beyond it a file is damaged.
const MOST_TOKENS: u64 = 1 << 32;

/// A row of a base as its file has it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LikeliestRow {
    /// The likeliest token.
    pub top: u32,
    /// Logarithm of the probability of the token that the text has.
    pub chosen: f32,
    /// Sum of the probabilities of all tokens that are not listed.
    pub rest: f32,
    /// The likeliest tokens by their ids, with the logarithms of their probabilities.
    pub tokens: Vec<(u32, f32)>,
}

impl LikeliestRow {
    pub fn of(row: &[f32], token: u32) -> LikeliestRow {
        let norm = RowNorm::of(row);
        let mut ids: Vec<u32> = (0..row.len() as u32).collect();
        let logit = |id: &u32| row[*id as usize];
        let rest = ids.len().saturating_sub(KEPT);
        if rest > 0 {
            ids.select_nth_unstable_by(KEPT, |a, b| logit(b).total_cmp(&logit(a)));
        }
        let others = ids.split_off(ids.len() - rest);
        ids.sort_unstable();
        LikeliestRow {
            top: norm.top as u32,
            chosen: norm.logprob(row[token as usize]) as f32,
            rest: others.iter().map(|id| norm.logprob(logit(id)).exp()).sum::<f64>() as f32,
            tokens: ids
                .iter()
                .map(|id| (*id, f16::from_f64(norm.logprob(logit(id)).max(f16::MIN.into())).into()))
                .collect(),
        }
    }
}

/// Writes rows, as many as the windows have tokens to score.
pub(super) struct LogitsWriter {
    out: BufWriter<File>,
    path: PathBuf,
}

impl LogitsWriter {
    pub fn create(path: &Path, windows: &TextWindows, vocab: usize) -> Result<LogitsWriter> {
        let file = File::create(path).map_err(|e| failed("write", path, &e))?;
        let mut writer = LogitsWriter { out: BufWriter::new(file), path: path.to_owned() };
        let PerplexityOptions { context, stride, skip } = windows.options;
        let mut head = [&MAGIC[..], &VERSION.to_le_bytes()].concat();
        for number in [vocab, context, stride, skip, windows.tokens.len()] {
            head.extend((number as u64).to_le_bytes());
        }
        head.extend(windows.bos.unwrap_or(NO_TOKEN).to_le_bytes());
        windows.tokens.iter().for_each(|t| head.extend(t.to_le_bytes()));
        writer.put(&head)?;
        Ok(writer)
    }

    pub fn row(&mut self, row: &LikeliestRow) -> Result<()> {
        let mut bytes = [row.top.to_le_bytes(), row.chosen.to_le_bytes(), row.rest.to_le_bytes()].concat();
        row.tokens.iter().for_each(|(id, _)| bytes.extend(id.to_le_bytes()));
        row.tokens.iter().for_each(|(_, log)| bytes.extend(f16::from_f32(*log).to_le_bytes()));
        self.put(&bytes)
    }

    pub fn finish(mut self) -> Result<()> {
        self.out.flush().map_err(|e| failed("write", &self.path, &e))
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(|e| failed("write", &self.path, &e))
    }
}

/// Reads what [`LogitsWriter`] wrote.
pub(super) struct LogitsReader {
    file: BufReader<File>,
    path: PathBuf,
    vocab: usize,
    pub windows: TextWindows,
}

impl LogitsReader {
    pub fn open(path: &Path) -> Result<LogitsReader> {
        let file = files::open_regular(path).map_err(|e| failed("read", path, &e))?;
        let bos = None;
        let windows = TextWindows { tokens: vec![], bos, options: PerplexityOptions::default() };
        let mut reader =
            LogitsReader { file: BufReader::new(file), path: path.to_owned(), vocab: 0, windows };
        reader.head()?;
        Ok(reader)
    }

    /// Logits of a row, as the base has them.
    pub fn vocab(&self) -> usize {
        self.vocab
    }

    fn head(&mut self) -> Result<()> {
        if self.bytes::<8>()? != MAGIC || u32::from_le_bytes(self.bytes()?) != VERSION {
            return Err(self.wrong("is no file of logits that this version has written"));
        }
        let mut numbers = [0; 5];
        for number in &mut numbers {
            *number = u64::from_le_bytes(self.bytes()?);
        }
        let [vocab, context, stride, skip, count] = numbers;
        let fits = (1..=u64::from(u32::MAX)).contains(&vocab)
            && (2..=MOST_TOKENS).contains(&context)
            && (1..=context).contains(&stride)
            && skip + 1 < context
            && count <= MOST_TOKENS;
        if !fits {
            return Err(self.wrong("is damaged: its sizes do not fit"));
        }
        self.vocab = vocab as usize;
        let sizes = [context, stride, skip].map(|n| n as usize);
        let options = PerplexityOptions { context: sizes[0], stride: sizes[1], skip: sizes[2] };
        self.windows.options = options;
        let bos = u32::from_le_bytes(self.bytes()?);
        self.windows.bos = if bos == NO_TOKEN { None } else { Some(self.known(bos)?) };
        for _ in 0..count {
            let token = u32::from_le_bytes(self.bytes()?);
            let token = self.known(token)?;
            self.windows.tokens.push(token);
        }
        Ok(())
    }

    pub fn row(&mut self) -> Result<LikeliestRow> {
        let top = u32::from_le_bytes(self.bytes()?);
        let (chosen, rest) = (f32::from_le_bytes(self.bytes()?), f32::from_le_bytes(self.bytes()?));
        let mut tokens = Vec::with_capacity(KEPT.min(self.vocab));
        for _ in 0..KEPT.min(self.vocab) {
            let id = u32::from_le_bytes(self.bytes()?);
            tokens.push((self.known(id)?, 0.0));
        }
        for token in &mut tokens {
            token.1 = f16::from_le_bytes(self.bytes()?).to_f32();
        }
        let logs = tokens.iter().map(|t| t.1).chain([chosen]);
        let ordered = tokens.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if !ordered || !(0.0..=1.0).contains(&rest) || logs.into_iter().any(|log| log > 1e-3 || log.is_nan())
        {
            return Err(self.wrong("is damaged: a row holds no probabilities"));
        }
        Ok(LikeliestRow { top, chosen, rest, tokens })
    }

    fn known(&self, token: u32) -> Result<u32> {
        match (token as usize) < self.vocab {
            true => Ok(token),
            false => Err(self.wrong("is damaged: it names a token that the vocabulary has not")),
        }
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        match self.file.read_exact(&mut bytes) {
            Ok(()) => Ok(bytes),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                Err(self.wrong("is cut off: write it again"))
            }
            Err(e) => Err(failed("read", &self.path, &e)),
        }
    }

    fn wrong(&self, problem: &str) -> Error {
        Error::InvalidRequest(format!("{} {problem}", self.path.display()))
    }
}

fn failed(action: &str, path: &Path, e: &io::Error) -> Error {
    Error::Runtime(format!("cannot {action} {}: {e}", path.display()))
}
