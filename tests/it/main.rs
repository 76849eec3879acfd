//! Models as a program uses them: loaded, asked, compared bit by bit.
#![allow(clippy::unwrap_used)] // helpers may fail like tests

mod approximate;
mod cache;
mod cache_on_disk;
mod calibrate;
mod changed;
mod common;
mod compress;
mod constrained;
mod damaged;
mod encoders;
mod examples;
mod families;
mod golden;
mod grammar;
mod invariance;
mod lora;
mod machines;
mod packed;
mod picture_chats;
mod pictures;
mod plan;
mod session;
mod shards;
mod shift;
mod sound_use;
mod sounds;
mod sparse;
mod speculation;
mod stages;
mod stream;
mod support;
mod swap;
mod tiered;
mod token_stream;
mod trace;
