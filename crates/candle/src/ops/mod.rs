//! Operators as candle's operations, by what they do.

mod adapt;
mod attention;
mod experts;
mod latent;
mod linear;
mod norm;
mod recurrent;
mod rotary;
mod rows;
mod seen;
