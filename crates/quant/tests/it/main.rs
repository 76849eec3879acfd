//! Block formats against vectors, bounds and other implementations.

mod bounds;
mod oracle;
mod properties;
mod support;
mod vectors;
