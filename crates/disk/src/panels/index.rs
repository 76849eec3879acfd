//! The index of a panel file, and its form in bytes; integers are little-endian.

use crate::{buffer::BLOCK, error::PanelError};
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: &[u8; 8] = b"LMNPANEL";
/// Of the format of files.
const VERSION: u32 = 1;
/// Longest index that is read: names and checksums of a model of about a petabyte.
const MOST_INDEX: u64 = 1 << 32;

/// What a matrix is called, and how it is laid out: panels of equal names hold equal bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MatrixName {
    /// Of the weight.
    pub name: String,
    /// Of the order of bytes in a panel.
    pub layout: String,
}

/// A matrix of a panel file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatrixEntry {
    /// Name and layout.
    pub name: MatrixName,
    /// Where its first panel begins, in bytes.
    pub offset: u64,
    /// Bytes of a panel.
    pub panel_bytes: usize,
    /// A checksum of each panel.
    pub sums: Vec<u64>,
}

impl MatrixEntry {
    /// Bytes of all panels.
    pub fn bytes(&self) -> u64 {
        self.sums.len() as u64 * self.panel_bytes as u64
    }
}

/// Key and matrices of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PanelIndex {
    /// Of the model that the panels were packed from.
    pub key: String,
    pub matrices: Vec<MatrixEntry>,
}

/// Where the index lies, as the first block of a file says.
pub(super) struct FileHead {
    pub offset: u64,
    pub len: u64,
    pub sum: u64,
}

impl FileHead {
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(VERSION.to_le_bytes());
        [self.offset, self.len, self.sum].iter().for_each(|n| out.extend(n.to_le_bytes()));
        out.resize(BLOCK - 8, 0);
        out.extend(xxh3_64(&out).to_le_bytes());
        out
    }

    /// # Errors
    /// When the block is no head, or one of another version.
    pub fn read(file: &Path, block: &[u8]) -> Result<FileHead, PanelError> {
        let (all, sum) = block.split_at(BLOCK - 8);
        if !all.starts_with(MAGIC) || xxh3_64(all).to_le_bytes() != sum {
            return Err(PanelError::broken(file, "its first block is damaged"));
        }
        let mut rest = IndexCursor { file, bytes: &all[MAGIC.len()..] };
        if rest.u32()? != VERSION {
            return Err(PanelError::broken(file, "it is of another version"));
        }
        let head = FileHead { offset: rest.u64()?, len: rest.u64()?, sum: rest.u64()? };
        if head.len > MOST_INDEX {
            return Err(PanelError::broken(file, "its index is too long"));
        }
        Ok(head)
    }
}

impl PanelIndex {
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = vec![];
        let text = |out: &mut Vec<u8>, text: &str| {
            out.extend((text.len() as u32).to_le_bytes());
            out.extend(text.as_bytes());
        };
        text(&mut out, &self.key);
        out.extend((self.matrices.len() as u32).to_le_bytes());
        for m in &self.matrices {
            text(&mut out, &m.name.name);
            text(&mut out, &m.name.layout);
            let numbers = [m.offset, m.panel_bytes as u64, m.sums.len() as u64];
            numbers.iter().chain(&m.sums).for_each(|n| out.extend(n.to_le_bytes()));
        }
        out
    }

    /// # Errors
    /// When the bytes are no index, or name places outside of the file.
    pub fn read(file: &Path, bytes: &[u8], head: &FileHead) -> Result<PanelIndex, PanelError> {
        if xxh3_64(bytes) != head.sum {
            return Err(PanelError::broken(file, "its index is damaged"));
        }
        let mut rest = IndexCursor { file, bytes };
        let key = rest.text()?;
        let mut matrices = vec![];
        for _ in 0..rest.u32()? {
            let name = MatrixName { name: rest.text()?, layout: rest.text()? };
            let (offset, panel_bytes, count) = (rest.u64()?, rest.u64()?, rest.u64()?);
            let sums = rest.take(usize::try_from(count).ok().and_then(|n| n.checked_mul(8)))?;
            let sums: Vec<u64> = sums.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b)).collect();
            let end = panel_bytes.checked_mul(count).and_then(|n| n.checked_add(offset));
            if end.is_none_or(|end| end > head.offset) || !offset.is_multiple_of(BLOCK as u64) {
                return Err(PanelError::broken(file, "its index names places outside of it"));
            }
            matrices.push(MatrixEntry { name, offset, panel_bytes: panel_bytes as usize, sums });
        }
        Ok(PanelIndex { key, matrices })
    }
}

/// The rest of an index that is read.
struct IndexCursor<'a> {
    file: &'a Path,
    bytes: &'a [u8],
}

impl<'a> IndexCursor<'a> {
    fn take(&mut self, n: Option<usize>) -> Result<&'a [u8], PanelError> {
        let split = n.and_then(|n| self.bytes.split_at_checked(n));
        let (front, rest) = split.ok_or_else(|| PanelError::broken(self.file, "its index is cut off"))?;
        self.bytes = rest;
        Ok(front)
    }

    fn u32(&mut self) -> Result<u32, PanelError> {
        let bytes = self.take(Some(4))?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn u64(&mut self) -> Result<u64, PanelError> {
        let [low, high] = [self.u32()?, self.u32()?];
        Ok(u64::from(high) << 32 | u64::from(low))
    }

    fn text(&mut self) -> Result<String, PanelError> {
        let len = self.u32()? as usize;
        let bytes = self.take(Some(len))?.to_vec();
        String::from_utf8(bytes).map_err(|_| PanelError::broken(self.file, "its index holds no text"))
    }
}
