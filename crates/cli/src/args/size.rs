//! Sizes of files in arguments.

use lamina::Setting;

/// Bytes written as `500M` or `2G`: thousands, as file sizes are counted.
pub fn size(text: &str) -> std::result::Result<u64, String> {
    let bytes = u64::read(text.as_ref()).ok().filter(|&n| n > 0);
    bytes.ok_or_else(|| "is no size; write it as 500M or 2G".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_thousands() {
        for (text, bytes) in [("2G", 2_000_000_000), ("500m", 500_000_000), ("7kb", 7000), ("12", 12)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "G", "-1G", "0", "2X", "99999999999999T", "é"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
