//! Bytes in memory that know who keeps them alive.

use std::{fmt, ops::Deref, ops::Range, sync::Arc};

type Owner = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A cheap-to-clone, read-only range of bytes inside a shared owner.
#[derive(Clone)]
pub struct Bytes {
    owner: Owner,
    range: Range<usize>,
}

impl Bytes {
    /// All bytes of `owner`.
    pub fn new(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        let range = 0..owner.as_ref().len();
        Bytes { owner: Arc::new(owner), range }
    }

    /// The part `range` of these bytes, or `None` when it reaches beyond them.
    pub fn slice(&self, range: Range<usize>) -> Option<Bytes> {
        if range.start > range.end || range.end > self.len() {
            return None;
        }
        let start = self.range.start + range.start;
        Some(Bytes { owner: self.owner.clone(), range: start..start + range.len() })
    }
}

impl Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &(*self.owner).as_ref()[self.range.clone()]
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(v: Vec<u8>) -> Self {
        Bytes::new(v)
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({})", self.range.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_stay_inside_their_parent() {
        let b = Bytes::from(vec![0, 1, 2, 3, 4]);
        let part = b.slice(1..4).expect("inside");
        assert_eq!(&*part, [1, 2, 3]);
        assert_eq!(&*part.slice(2..3).expect("inside"), [3]);
        assert!(part.slice(0..4).is_none());
    }
}
