//! Floor 1: pictures as the numbers that vision encoders take.
//!
//! Files are decoded to 8-bit RGB, upright and over white. A rule ([`Fit`]) says by integers alone how a picture of some size
//! is resized, padded and cut into tiles; pixels then follow it in the arithmetic of Pillow 12, which models were trained with.
#![forbid(unsafe_code)]

mod cut;
pub mod decode;
mod error;
mod filter;
mod fit;
mod number;
mod orientation;
mod patch;
mod picture;
mod resize;
mod white;

pub use cut::{Cut, Grid, Region, Step, View};
pub use decode::{Decoded, Limits, decode};
pub use error::Error;
pub use filter::Filter;
pub use fit::{Fit, PanAndScan};
pub use number::Normalize;
pub use patch::{Patches, PixelOrder};
pub use picture::{Picture, Size};
pub use resize::resize;
