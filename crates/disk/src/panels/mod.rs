//! Files of weights in the form that kernels multiply them in, so that what is read can be multiplied at once.
//!
//! ```text
//! head      4096 bytes: magic, version, length and checksum of the index, and a checksum of all this
//! panels    of each matrix, one after the other; matrices begin at multiples of 4096 bytes
//! index     the key of the file, and of each matrix: name, layout, place, bytes of a panel, a checksum of every panel
//! ```
//! A checksum for every panel, and not for larger blocks: matrices are read in ranges of panels that differ with the
//! budget, and each range is checked whenever it is read.

mod folder;
mod index;
mod inventory;
mod open;
mod write;

pub use folder::PanelFolder;
pub use index::{MatrixEntry, MatrixName};
pub use inventory::{KeptPanels, kept_panels, note_sources};
pub use open::{PanelAccess, PanelCheck, PanelFile, PanelRange};
pub use write::{PanelWriter, WriteWindow};
