//! How often parts of a model were asked for, kept between runs: a hint of what to read first, and never more.

use crate::whole_file::replace_file;
use lamina_base::files::open_regular;
use std::{
    io::{self, Read},
    path::Path,
};
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: &[u8; 8] = b"LMNLIKE1";

/// Reads what [`write_hotness`] has written, if it has `lengths` numbers in its lists; none of anything else.
pub fn read_hotness(path: &Path, lengths: &[usize]) -> Option<Vec<Vec<f32>>> {
    let total: usize = lengths.iter().map(|n| n + 1).sum();
    let whole = MAGIC.len() + 4 * total + 8;
    let mut bytes = vec![];
    // One byte more: a file that is longer is another one, however long it is.
    open_regular(path).ok()?.take(whole as u64 + 1).read_to_end(&mut bytes).ok()?;
    if bytes.len() != whole {
        return None;
    }
    let (body, sum) = bytes.split_last_chunk::<8>()?;
    let body = body.strip_prefix(MAGIC).filter(|_| xxh3_64(body).to_le_bytes() == *sum)?;
    let (mut words, mut lists) = (body.as_chunks::<4>().0.iter(), vec![]);
    for &length in lengths {
        if u32::from_le_bytes(*words.next()?) as usize != length {
            return None;
        }
        let numbers = words.by_ref().take(length).map(|b| f32::from_le_bytes(*b));
        lists.push(numbers.map(|v| if v.is_finite() { v.max(0.0) } else { 0.0 }).collect());
    }
    Some(lists)
}

/// Writes lists of numbers to `path`; a file of this name is replaced whole.
///
/// # Errors
/// When the disk refuses.
pub fn write_hotness(path: &Path, lists: &[Vec<f32>]) -> io::Result<()> {
    let mut bytes = MAGIC.to_vec();
    for list in lists {
        bytes.extend((list.len() as u32).to_le_bytes());
        list.iter().for_each(|v| bytes.extend(v.to_le_bytes()));
    }
    bytes.extend(xxh3_64(&bytes).to_le_bytes());
    replace_file(path, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn lists_come_back_and_anything_else_is_nothing() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("hotness");
        let lists = vec![vec![1.0, 0.5, 0.0], vec![], vec![7.0]];
        write_hotness(&path, &lists)?;
        assert_eq!(read_hotness(&path, &[3, 0, 1]), Some(lists));
        for other in [&[3, 1, 0][..], &[3, 0], &[3, 0, 1, 0], &[]] {
            assert_eq!(read_hotness(&path, other), None);
        }
        let whole = fs::read(&path)?;
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&path, bytes)?;
            assert_eq!(read_hotness(&path, &[3, 0, 1]), None, "byte {at}");
        }
        for bytes in [&whole[..whole.len() - 1], &[&whole[..], &[0]].concat(), &[]] {
            fs::write(&path, bytes)?;
            assert_eq!(read_hotness(&path, &[3, 0, 1]), None);
        }
        Ok(())
    }

    #[test]
    fn of_several_writers_one_is_read_and_nothing_is_left_beside() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("hotness");
        let lists = |i: usize| vec![vec![i as f32; 1000]];
        write_hotness(&path, &lists(0))?;
        std::thread::scope(|scope| {
            for i in 1..4 {
                let path = &path;
                scope.spawn(move || (0..20).for_each(|_| write_hotness(path, &lists(i)).expect("writes")));
            }
            for _ in 0..60 {
                let read = read_hotness(&path, &[1000]).expect("one of them");
                assert!((0..4).any(|i| read == lists(i)));
            }
        });
        assert_eq!(fs::read_dir(folder.path())?.count(), 1);
        Ok(())
    }
}
