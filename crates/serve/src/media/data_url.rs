//! `data:` URLs: files that stand in a request.

use super::kind::MediaKind;
use crate::error::ApiError;
use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use lamina::{image::ImageError, sound::SoundError};
use std::borrow::Cow;

/// Base64 whose last group may lack its padding, as some clients send it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Letters of which the beginning of a file consists, by which its format is told: 18 kB, as frames of MP3 are long.
const HEAD: usize = 24 << 10;

/// Whether a URL has its file in itself.
pub fn is_inline(url: &str) -> bool {
    url.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"))
}

/// The beginning of the file in a `data:` URL; nothing where it holds none.
pub fn beginning(url: &str) -> Vec<u8> {
    let letters = url.split_once(',').map_or("", |(_, letters)| letters);
    begin(letters).unwrap_or_default()
}

/// The picture or sound in a `data:` URL, which may have `most` bytes. What it says of its type is not looked at: the bytes
/// tell. Garbage is refused by its beginning, what is too large by its length.
///
/// # Errors
/// When it is no base64, of no format that is read, or too large.
pub fn inline(url: &str, most: usize, kind: MediaKind) -> Result<Vec<u8>, ApiError> {
    let (said, letters) = url
        .split_once(',')
        .ok_or_else(|| ApiError::invalid("the URL must be written as data:image/png;base64,..."))?;
    if !said.to_ascii_lowercase().ends_with(";base64") {
        return Err(ApiError::invalid("the data of the URL must be in base64: data:image/png;base64,..."));
    }
    let begin = begin(letters).map_err(|e| no_base64(kind, &e))?;
    if letters.len() > HEAD {
        kind.check_format(&begin)?;
    }
    // Blanks among the letters are few.
    let bytes = letters.len() / 4 * 3;
    if bytes > most.saturating_add(most / 8) {
        return Err(match kind {
            MediaKind::Picture => ImageError::TooManyBytes { bytes, limit: most }.into(),
            MediaKind::Sound => SoundError::TooManyBytes { bytes, limit: most }.into(),
        });
    }
    BASE64.decode(plain(letters.as_bytes())).map_err(|e| no_base64(kind, &e))
}

/// The first bytes of a file.
fn begin(letters: &str) -> Result<Vec<u8>, base64::DecodeError> {
    let head = plain(&letters.as_bytes()[..letters.len().min(HEAD)]);
    BASE64.decode(&head[..head.len() / 4 * 4])
}

/// Letters without line breaks and blanks, which some encoders put between them.
fn plain(letters: &[u8]) -> Cow<'_, [u8]> {
    match letters.iter().any(u8::is_ascii_whitespace) {
        false => letters.into(),
        true => letters.iter().copied().filter(|c| !c.is_ascii_whitespace()).collect::<Vec<_>>().into(),
    }
}

/// Only the place is told: what stands there is the sender's.
fn no_base64(kind: MediaKind, error: &base64::DecodeError) -> ApiError {
    let place = match error {
        base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => {
            format!(", at letter {at}")
        }
        _ => String::new(),
    };
    ApiError::invalid(format!("the {} is no base64{place}", kind.noun()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Cause;
    use std::time::{Duration, Instant};

    fn read(url: &str) -> Result<Vec<u8>, ApiError> {
        inline(url, 30_000, MediaKind::Picture)
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
        assert_eq!(long("iVBORw0KGgo", 5000).cause, Cause::TooLarge, "a PNG by its beginning");
        assert!(long("aGFsbG8h", 5000).message.contains("no picture"));
    }

    #[test]
    fn garbage_is_refused_at_once() {
        let url = format!("data:image/png;base64,{}", "!garbage".repeat(4 << 20));
        let begun = Instant::now();
        assert!(read(&url).is_err());
        assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
    }
}
