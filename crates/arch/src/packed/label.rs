//! What errors call a packed weight.

use crate::error::ArchError;

/// A weight by its name, and where it is stored.
#[derive(Clone)]
pub(crate) struct Label {
    /// Name that it has in a plain checkpoint.
    pub name: String,
    /// The file that holds its codes.
    pub file: String,
}

impl Label {
    /// An error about this weight.
    pub fn wrong(&self, problem: impl Into<String>) -> ArchError {
        ArchError::Packed { file: self.file.clone(), name: self.name.clone(), problem: problem.into() }
    }
}
