//! Pictures beside Pillow and the reference's processors.

mod common;
mod decode;
mod fit;
mod fuzz;
mod request;
mod resize;
