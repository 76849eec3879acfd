//! The conformance kit in two halves, which threads of the test runner share.

/// True for the cases of one half (0 or 1), by the sum of their names' letters; of those that `LAMINA_KIT` names a part of,
/// where it does.
pub fn in_half(half: u32) -> impl Fn(&str) -> bool {
    let parts = std::env::var("LAMINA_KIT").unwrap_or_default();
    move |name| {
        let sum: u32 = name.bytes().map(u32::from).sum();
        sum % 2 == half && parts.split(',').any(|part| name.contains(part))
    }
}
