//! What pictures may measure, as users write it.

use crate::setting::{OptionKind, Setting};
use lamina_image::{ImageLimits, RequestLimits};
use lamina_planner::{BadValue, bytes};
use std::ffi::OsStr;

const WANT: &str = "such as bytes=20MiB,pixels=64M,side=16384,all=256M,count=64, or some of these";

impl Setting for RequestLimits {
    const KIND: OptionKind = OptionKind::Count;

    fn read(text: &OsStr) -> Result<Self, BadValue> {
        let read = text.to_str().and_then(|text| text.split(',').try_fold(RequestLimits::default(), with));
        read.ok_or_else(|| BadValue::must_be(WANT))
    }
}

/// The limits with one of them changed.
fn with(limits: RequestLimits, part: &str) -> Option<RequestLimits> {
    let (name, value) = part.split_once('=')?;
    let number = usize::try_from(bytes(value)?).ok().filter(|&n| n > 0)?;
    let each = limits.each;
    Some(match name.trim() {
        "bytes" => RequestLimits { each: ImageLimits { bytes: number, ..each }, ..limits },
        "pixels" => RequestLimits { each: ImageLimits { pixels: number, ..each }, ..limits },
        "side" => RequestLimits { each: ImageLimits { side: u32::try_from(number).ok()?, ..each }, ..limits },
        "all" => RequestLimits { pixels: number, ..limits },
        "count" => RequestLimits { count: number, ..limits },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_or_all_of_the_limits_are_given() {
        let read = |text: &str| RequestLimits::read(text.as_ref());
        let some = read("side=512, count=2").expect("limits");
        assert_eq!((some.each.side, some.count), (512, 2));
        assert_eq!(some.each.bytes, RequestLimits::default().each.bytes);
        assert_eq!(read("bytes=1MiB,pixels=1M,all=2M").map(|l| l.each.bytes), Ok(1 << 20));
        for wrong in ["", "20MiB", "size=3", "count=0", "side=9G", "bytes=big"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
