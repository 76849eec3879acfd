//! Panics as errors: a panic must not cross into another language.

use crate::{Error, Result};
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Runs `f`; a panic inside it becomes [`Error::Runtime`].
///
/// # Errors
/// Those of `f`, or what it panicked with.
pub fn shield<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    // Models guard their state with locks that survive a poisoning, so nothing half done is seen afterwards.
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|cause| {
        Err(Error::Runtime(format!("a fault inside Lamina, please report it: {}", message(&*cause))))
    })
}

fn message(cause: &(dyn Any + Send)) -> &str {
    let text = cause.downcast_ref::<&str>().copied();
    text.or_else(|| cause.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_message() {
        let number = 7;
        let message = |f: &dyn Fn()| match shield(|| {
            f();
            Ok(())
        }) {
            Err(Error::Runtime(text)) => text,
            other => panic!("{other:?}"),
        };
        assert!(message(&|| panic!("plain")).ends_with(": plain"));
        assert!(message(&|| panic!("number {number}")).ends_with(": number 7"));
        assert!(message(&|| std::panic::panic_any(7)).ends_with(": no message"));
    }

    #[test]
    fn results_pass_unchanged() {
        assert_eq!(shield(|| Ok(3)), Ok(3));
        assert_eq!(shield::<()>(|| Err(Error::Model("gone".into()))), Err(Error::Model("gone".into())));
    }
}
