//! The conformance kit in two halves, which run side by side.

use lamina_oracle::conform::scope;

/// True for the cases of this run whose name contains one of these parts.
pub fn with_parts(parts: &[&str]) -> impl Fn(&str) -> bool {
    let wanted = scope::of_this_run();
    move |name| parts.iter().any(|part| name.contains(part)) && wanted(name)
}

/// True for the cases of this run that are in one half (0 or 1).
pub fn in_half(half: usize) -> impl Fn(&str) -> bool {
    let wanted = scope::of_this_run();
    move |name| scope::share(name, 2) == half && wanted(name)
}
