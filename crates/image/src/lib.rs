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
mod request;
mod resize;
mod white;

pub use cut::{Region, Step, TileGrid, TileView, Tiling};
pub use decode::{Decoded, ImageLimits, check_format, decode};
pub use error::ImageError;
pub use filter::Filter;
pub use fit::{Fit, PanAndScan};
pub use number::Normalization;
pub use patch::{Patches, PixelOrder};
pub use picture::{Picture, PixelSize};
pub use request::{RawPixels, RequestLimits, RequestReader};
pub use resize::resize;
