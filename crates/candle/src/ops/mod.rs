//! Operators as candle's operations, by what they do.

mod adapt;
mod attention;
mod cells;
mod experts;
mod latent;
mod linear;
mod norm;
mod recurrent;
mod rotary;
mod rows;
