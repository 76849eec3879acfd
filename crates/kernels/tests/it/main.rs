//! Kernels by what is handed on of them: all instruction sets of this machine, all types.

mod act;
mod codec;
mod codes;
mod products;
mod read;
