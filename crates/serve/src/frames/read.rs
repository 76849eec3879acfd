//! Frames out of bytes, however they are cut.

use super::FrameKind;
use bytes::{Buf, Bytes, BytesMut};
use xxhash_rust::xxh3::xxh3_64;

/// Bytes before and behind a payload.
const HEAD: usize = 5;
const HASH: usize = 8;

/// Takes bytes in, gives frames out.
#[derive(Debug)]
pub struct FrameReader {
    bytes: BytesMut,
    most: usize,
}

/// What is no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// It is damaged, or the other side speaks something else.
    #[error(
        "a frame's checksum is wrong: the other side speaks something else, or the connection is damaged"
    )]
    Damaged,
    /// It says that it is longer than any may be.
    #[error("a frame of {0} bytes is longer than any may be")]
    TooLong(usize),
}

impl FrameReader {
    /// Reads frames of at most so many bytes.
    pub fn new(most: usize) -> FrameReader {
        FrameReader { bytes: BytesMut::new(), most }
    }

    /// From now on frames may have so many bytes.
    pub fn allow(&mut self, most: usize) {
        self.most = most;
    }

    /// Where the next bytes are read to.
    pub fn room(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    /// The next frame of a known kind; none until more bytes come.
    ///
    /// # Errors
    /// When it is damaged or too long. Nothing behind it can be read.
    pub fn next(&mut self) -> Result<Option<(FrameKind, Bytes)>, FrameError> {
        loop {
            let Some(head) = self.bytes.first_chunk::<HEAD>() else { return Ok(None) };
            let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
            let kind = head[4];
            if length > self.most {
                return Err(FrameError::TooLong(length));
            }
            if self.bytes.len() < HEAD + length + HASH {
                return Ok(None);
            }
            let mut frame = self.bytes.split_to(HEAD + length + HASH).freeze();
            let mut hash = frame.split_off(HEAD + length);
            if hash.get_u64_le() != xxh3_64(&frame) {
                return Err(FrameError::Damaged);
            }
            if let Some(kind) = FrameKind::of(kind) {
                return Ok(Some((kind, frame.split_off(HEAD))));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::write_frame, *};

    fn some() -> (Vec<u8>, Vec<(FrameKind, Vec<u8>)>) {
        let frames = vec![
            (FrameKind::Head, b"{}".to_vec()),
            (FrameKind::Bytes, vec![7; 300]),
            (FrameKind::Mark, vec![]),
            (FrameKind::End, "\u{e9}".into()),
        ];
        let mut bytes = vec![];
        frames.iter().for_each(|(kind, payload)| write_frame(&mut bytes, *kind, payload));
        (bytes, frames)
    }

    fn read(pieces: &[&[u8]]) -> Result<Vec<(FrameKind, Vec<u8>)>, FrameError> {
        let (mut reader, mut frames) = (FrameReader::new(1000), vec![]);
        for piece in pieces {
            reader.room().extend_from_slice(piece);
            while let Some((kind, payload)) = reader.next()? {
                frames.push((kind, payload.to_vec()));
            }
        }
        Ok(frames)
    }

    #[test]
    fn frames_are_whole_wherever_they_are_cut() {
        let (bytes, frames) = some();
        for at in 0..=bytes.len() {
            assert_eq!(read(&[&bytes[..at], &bytes[at..]]), Ok(frames.clone()));
            // What is cut off does not count.
            let begun = read(&[&bytes[..at]]).unwrap();
            assert!(frames.starts_with(&begun) && (begun.len() == frames.len()) == (at == bytes.len()));
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(read(&single), Ok(frames));
    }

    #[test]
    fn damage_is_seen_and_unknown_kinds_are_skipped() {
        let (bytes, frames) = some();
        for at in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[at] ^= 0x10;
            assert_ne!(read(&[&wrong]), Ok(frames.clone()), "byte {at}");
        }
        let mut unknown = vec![3, 0, 0, 0, 99, 1, 2, 3];
        unknown.extend(xxh3_64(&unknown).to_le_bytes());
        assert_eq!(read(&[&unknown, &bytes]), Ok(frames));
        assert_eq!(read(&[&[255; 8]]), Err(FrameError::TooLong(u32::MAX as usize)));
    }
}
