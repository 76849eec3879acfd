//! The C interface as other languages have it: its header, and programs that are compiled against it.

mod header;
mod programs;
