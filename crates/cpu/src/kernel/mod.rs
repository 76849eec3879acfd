//! Matrix products over row-interleaved panels: one algorithm per class of weight types, written once over lanes.

pub mod attend;
pub mod block;
pub mod codes;
pub mod float;
pub mod mix;
pub mod product;
pub mod rows;
pub mod super_block;
