//! Exif orientation: cameras store a picture as the sensor lies, and say how it is to be turned.

use crate::picture::{Picture, PixelSize};

/// How stored pixels are to be shown: by Exif's numbers 1 to 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Orientation {
    /// Rows become columns.
    transposed: bool,
    /// Left and right change places, behind the transposition.
    mirrored: bool,
    /// Top and bottom change places, behind the transposition.
    flipped: bool,
}

impl Orientation {
    /// As stored.
    pub const UPRIGHT: Orientation = Orientation { transposed: false, mirrored: false, flipped: false };

    /// Reads tag 0x0112 of a block of Exif, which is a TIFF file of its own. What cannot be read is upright.
    pub fn of_exif(block: &[u8]) -> Orientation {
        let tiff = block.strip_prefix(b"Exif\0\0").unwrap_or(block);
        tag_0112(tiff).map_or(Orientation::UPRIGHT, Orientation::of_number)
    }

    /// That of a number; upright where Exif has no such.
    pub fn of_number(number: u16) -> Orientation {
        let (transposed, mirrored, flipped) = match number {
            2 => (false, true, false),
            3 => (false, true, true),
            4 => (false, false, true),
            5 => (true, false, false),
            6 => (true, true, false),
            7 => (true, true, true),
            8 => (true, false, true),
            _ => (false, false, false),
        };
        Orientation { transposed, mirrored, flipped }
    }

    /// The picture as it is to be shown.
    pub fn apply(self, picture: Picture) -> Picture {
        if self == Orientation::UPRIGHT {
            return picture;
        }
        let PixelSize { width, height } = picture.size();
        let size =
            if self.transposed { PixelSize::new(height, width) } else { PixelSize::new(width, height) };
        Picture::by_rows(size, |y, row| {
            let y = if self.flipped { size.height - 1 - y } else { y };
            for (pixel, x) in row.chunks_exact_mut(3).zip(0..) {
                let x = if self.mirrored { size.width - 1 - x } else { x };
                let (x, y) = if self.transposed { (y, x) } else { (x, y) };
                pixel.copy_from_slice(&picture.row(y)[x as usize * 3..][..3]);
            }
        })
    }
}

/// The first value of tag 0x0112 in the first directory of a TIFF file.
fn tag_0112(tiff: &[u8]) -> Option<u16> {
    let little = match tiff.get(..4)? {
        [b'I', b'I', 42, 0] => true,
        [b'M', b'M', 0, 42] => false,
        _ => return None,
    };
    let short = |at: usize| {
        let bytes = tiff.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(if little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    };
    let bytes = tiff.get(4..8)?.try_into().ok()?;
    let first = if little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) } as usize;
    let entries = usize::from(short(first)?);
    // An entry has 12 bytes: tag, type, count, value.
    let entry = (0..entries).map(|i| first + 2 + 12 * i).find(|&at| short(at) == Some(0x0112))?;
    short(entry + 8)
}

#[cfg(test)]
mod tests {
    use super::Orientation;

    fn block(orientation: u8) -> Vec<u8> {
        let mut block = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0".to_vec();
        block.extend([orientation, 0, 0]);
        block
    }

    #[test]
    fn a_block_says_how_a_picture_is_turned() {
        let turned = Orientation { transposed: true, mirrored: true, flipped: false };
        assert_eq!(Orientation::of_exif(&block(6)), turned);
        assert_eq!(Orientation::of_exif(&block(1)), Orientation::UPRIGHT);
    }

    #[test]
    fn a_block_that_is_cut_or_wrong_is_upright() {
        let whole = block(6);
        for end in 0..whole.len() - 3 {
            assert_eq!(Orientation::of_exif(&whole[..end]), Orientation::UPRIGHT, "{end}");
        }
        assert_eq!(Orientation::of_exif(&block(9)), Orientation::UPRIGHT);
    }
}
