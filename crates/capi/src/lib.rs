//! Floor 8: the C interface. Each function checks its arguments, calls the Rust API and maps the error; `docs/c.md` has its
//! rules, and `include/lamina.h` is made of these files.
//!
//! What may grow is JSON, read by the lists that the server and the command have, or a struct that says its own size.
//! Functions are only added. Handles are numbers that a table knows: one that was freed, or never was one, is refused.

mod argument;
mod call;
mod event;
mod guard;
mod handle;
mod model;
mod request;
mod rows;
mod text;

pub use call::{LaminaSink, lamina_call};
pub use event::{LaminaEvent, LaminaEventKind};
pub use guard::LaminaStatus;
pub use model::{
    LaminaModel, LaminaProgress, lamina_model_clone, lamina_model_free, lamina_model_info, lamina_model_load,
};
pub use request::{
    LaminaReady, LaminaRequest, lamina_request_cancel, lamina_request_free, lamina_request_next,
    lamina_request_on_ready, lamina_submit,
};
pub use rows::{lamina_embed, lamina_rerank};
pub use text::{lamina_chat_prompt, lamina_detokenize, lamina_string_free, lamina_tokenize};

use std::ffi::c_char;

#[global_allocator]
static MEMORY: lamina_reserve::WithReserve = lamina_reserve::WithReserve;

/// Breaks of this interface, and functions that were added since the last one.
const ABI: (u32, u32) = (1, 0);

/// Version of the library, such as `0.1.0`. Static.
#[unsafe(no_mangle)]
pub extern "C" fn lamina_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Version of this interface: the upper 16 bits count breaks, the lower ones what was added since.
#[unsafe(no_mangle)]
pub extern "C" fn lamina_abi_version() -> u32 {
    ABI.0 << 16 | ABI.1
}
