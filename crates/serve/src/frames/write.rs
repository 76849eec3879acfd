//! Frames as bytes.

use super::FrameKind;
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

/// Appends a frame. The payload has fewer than 4 GiB: bodies and batches of events are limited long before.
pub fn write_frame(out: &mut Vec<u8>, kind: FrameKind, payload: &[u8]) {
    let from = out.len();
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.push(kind.number());
    out.extend_from_slice(payload);
    let hash = xxh3_64(&out[from..]);
    out.extend_from_slice(&hash.to_le_bytes());
}

/// Appends a frame of JSON.
pub fn write_value(out: &mut Vec<u8>, kind: FrameKind, value: &impl Serialize) {
    // Values of this crate always become JSON: their keys are texts.
    write_frame(out, kind, &serde_json::to_vec(value).unwrap_or_default());
}
