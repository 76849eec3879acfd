//! What stands before every request: its id, who sends it, whether that may ask.

mod auth;
mod origin;
mod own_name;
mod peer;
mod request_id;

pub use auth::{KeyRing, key_of};
pub use origin::{Access, cors_headers, preflight};
pub use own_name::own_name;
pub use peer::client_address;
pub use request_id::request_id;
