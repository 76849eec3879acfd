//! The place of a request in a trace of several services: the header `traceparent` of the W3C.

use http::HeaderMap;
use uuid::Uuid;

/// A request's place in a trace of several services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace: [u8; 16],
    /// The request's own span.
    pub span: [u8; 8],
    /// The span that it is a part of.
    pub parent: Option<[u8; 8]>,
    /// Its spans are wanted.
    pub sampled: bool,
}

impl TraceContext {
    /// What the headers say, or the beginning of a trace where they say nothing that can be read.
    pub fn of(headers: &HeaderMap) -> TraceContext {
        let mut given = headers.get_all("traceparent").iter();
        let lone = given.next().filter(|_| given.next().is_none());
        lone.and_then(|value| parent(value.to_str().ok()?)).unwrap_or_else(TraceContext::fresh)
    }

    fn fresh() -> TraceContext {
        TraceContext { trace: *Uuid::new_v4().as_bytes(), span: span_id(), parent: None, sampled: true }
    }

    /// The trace in hexadecimal digits.
    pub fn trace_id(&self) -> String {
        self.trace.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn span_id() -> [u8; 8] {
    // The first half has bits that are the same in all.
    let (_, bits) = Uuid::new_v4().as_u64_pair();
    (bits << 8 | 1).to_be_bytes()
}

/// `00-<trace>-<parent>-<flags>`; a later version may have more behind that.
fn parent(text: &str) -> Option<TraceContext> {
    let parts: Vec<&str> = text.trim().splitn(5, '-').collect();
    let [version, trace, parent, flags] = *parts.first_chunk()?;
    let known = version != "ff" && (version != "00" || parts.len() == 4);
    let [_] = bytes::<1>(version).filter(|_| known)?;
    let (trace, parent, [flags]) = (bytes::<16>(trace)?, bytes::<8>(parent)?, bytes::<1>(flags)?);
    let named = trace != [0; 16] && parent != [0; 8];
    named.then_some(TraceContext { trace, span: span_id(), parent: Some(parent), sampled: flags & 1 == 1 })
}

/// Lower-case hexadecimal digits.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let sound = text.len() == 2 * N && text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
    let mut out = [0; N];
    for (byte, digits) in out.iter_mut().zip(text.as_bytes().chunks(2)).filter(|_| sound) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    sound.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn of(values: &[&'static str]) -> TraceContext {
        TraceContext::of(&HeaderMap::from_iter(
            values.iter().map(|v| ("traceparent".parse().expect("a name"), HeaderValue::from_static(v))),
        ))
    }

    #[test]
    fn a_parent_is_read_and_what_is_none_begins_a_trace() {
        const SPEC: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let read = of(&[SPEC]);
        assert_eq!(read.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(read.parent, Some([0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]));
        assert!(read.sampled && read.span != [0; 8]);
        let later = of(&["01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-more"]);
        assert!(later.parent.is_some() && !later.sampled);
        for wrong in [
            &[][..],
            &[""],
            &["00-00000000000000000000000000000000-00f067aa0ba902b7-01"],
            &["00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"],
            &["00-4BF92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"],
            &["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x"],
            &["ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"],
            &["00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01"],
            &[SPEC, SPEC],
        ] {
            let (a, b) = (of(wrong), of(wrong));
            assert!(a.parent.is_none() && a.sampled && a.trace != b.trace && a.span != b.span, "{wrong:?}");
        }
    }
}
