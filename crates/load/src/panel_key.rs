//! Which model panels on disk were packed from.

use lamina_base::DType;
use lamina_disk::checksum;
use lamina_store::Checkpoint;
use std::fmt::Write;

/// Blocks of each file that are looked at: an edit that keeps length and time is seen where it meets one.
const SAMPLES: usize = 64;
const SAMPLE_BYTES: usize = 4096;

/// What names the bytes of a model's matrices, before a backend packs them: the files as they are now, and what their
/// weights are turned into.
pub(crate) fn panel_key(ck: &Checkpoint, dtype: Option<DType>) -> String {
    let mut text = format!("{dtype:?}");
    let mut add = |what: std::fmt::Arguments<'_>| text.write_fmt(what).expect("strings take all");
    for file in &ck.files {
        add(format_args!(" {:?}", file.stamp()));
        let stored = file.stored();
        let last = stored.len().saturating_sub(SAMPLE_BYTES);
        let mut block = vec![0; SAMPLE_BYTES.min(stored.len())];
        for i in 0..SAMPLES {
            // A block that cannot be read is one more state of the file.
            let read = stored.copy_to(last / (SAMPLES - 1) * i, &mut block);
            add(format_args!(" {:x} {}", checksum(&block), read.is_ok()));
        }
    }
    for t in ck.tensors.values() {
        let held = if ck.files.is_empty() { t.bytes.held().map(checksum) } else { None };
        add(format_args!(" {:?} {} {:?} {held:?}", t.name, t.dtype, t.shape));
    }
    // Names and shapes of thousands of tensors make no better key than their checksum.
    format!("{:016x}-{}", checksum(text.as_bytes()), text.len())
}
