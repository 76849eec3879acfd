//! `data:` URLs: files that stand in a request.

use crate::error::{ApiError, Cause};
use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use lamina::image::{ImageError, check_format};
use std::borrow::Cow;

/// Base64 whose last group may lack its padding, as some clients send it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Letters of which the beginning of a file consists, by which its format is told: 1.5 kB.
const HEAD: usize = 2048;

/// Whether a URL has its file in itself.
pub fn is_inline(url: &str) -> bool {
    url.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"))
}

/// The file in a `data:` URL, which may have `most` bytes. What it says of its type is not looked at: the bytes tell. Garbage is refused by its beginning,
/// what is too large by its length.
///
/// # Errors
/// When it is no base64, of no format that is read, or too large.
pub fn inline(url: &str, most: usize) -> Result<Vec<u8>, ApiError> {
    let (kind, letters) = url
        .split_once(',')
        .ok_or_else(|| ApiError::invalid("the URL must be written as data:image/png;base64,..."))?;
    if !kind.to_ascii_lowercase().ends_with(";base64") {
        return Err(ApiError::invalid("the data of the URL must be in base64: data:image/png;base64,..."));
    }
    let head = plain(&letters.as_bytes()[..letters.len().min(HEAD)]);
    let whole = head.len() / 4 * 4;
    let begin = BASE64.decode(&head[..whole]).map_err(|e| no_base64(&e))?;
    if letters.len() > HEAD {
        check_format(&begin).map_err(refused)?;
    }
    // Blanks among the letters are few.
    let bytes = letters.len() / 4 * 3;
    if bytes > most.saturating_add(most / 8) {
        return Err(refused(ImageError::TooManyBytes { bytes, limit: most }));
    }
    BASE64.decode(plain(letters.as_bytes())).map_err(|e| no_base64(&e))
}

/// What is wrong with a picture, as an error of its request.
pub fn refused(error: ImageError) -> ApiError {
    let cause = if error.is_too_large() { Cause::TooLarge } else { Cause::Invalid };
    ApiError::new(cause, error.to_string())
}

/// Letters without line breaks and blanks, which some encoders put between them.
fn plain(letters: &[u8]) -> Cow<'_, [u8]> {
    match letters.iter().any(u8::is_ascii_whitespace) {
        false => letters.into(),
        true => letters.iter().copied().filter(|c| !c.is_ascii_whitespace()).collect::<Vec<_>>().into(),
    }
}

/// Only the place is told: what stands there is the sender's.
fn no_base64(error: &base64::DecodeError) -> ApiError {
    let place = match error {
        base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => {
            format!(", at letter {at}")
        }
        _ => String::new(),
    };
    ApiError::invalid(format!("the picture is no base64{place}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn read(url: &str) -> Result<Vec<u8>, ApiError> {
        inline(url, 3000)
    }

    #[test]
    fn files_come_out_of_their_letters() {
        for url in ["data:image/png;base64,aGFsbG8=", "DATA:;BASE64,aGFsbG8", "data:x;base64,aGFs\r\nbG8=\n"]
        {
            assert!(is_inline(url));
            assert_eq!(read(url).as_deref(), Ok(&b"hallo"[..]), "{url}");
        }
        assert!(!is_inline("https://example.org/data:") && !is_inline("dat\u{e4}:"));
    }

    #[test]
    fn what_is_wrong_is_told_without_the_data() {
        for (url, what) in [
            ("data:image/png,secret", "base64"),
            ("data:image/png;base64", "written as"),
            ("data:image/png;base64,secret!!", "no base64, at letter 6"),
        ] {
            let error = read(url).unwrap_err();
            assert!(error.message.contains(what) && !error.message.contains("secret"), "{}", error.message);
            assert_eq!(error.cause, Cause::Invalid);
        }
        let long =
            |letters: &str, n: usize| read(&format!("data:;base64,{}", letters.repeat(n))).unwrap_err();
        assert_eq!(long("iVBORw0KGgo", 500).cause, Cause::TooLarge, "a PNG by its beginning");
        assert!(long("aGFsbG8h", 500).message.contains("no picture"));
    }

    #[test]
    fn garbage_is_refused_at_once() {
        let url = format!("data:image/png;base64,{}", "!garbage".repeat(4 << 20));
        let begun = Instant::now();
        assert!(read(&url).is_err());
        assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
    }
}
