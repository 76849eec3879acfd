//! Formats of strings as patterns, from the documents that define them. The library's own accept the 30th of February
//! and the like.

/// What is known about a format.
pub(super) enum FormatRule {
    /// All of it, as a regular expression of whole strings.
    Pattern(String),
    /// The standard defines it, but it has no regular form here.
    Refused(&'static str),
    /// Not of the standard: a note, as the standard says.
    Unknown,
}

/// Years that are leap years: divisible by 4 and not by 100, or by 400.
const LEAP: &str = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
const DATE: &str = "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|\
                    02-(?:0[1-9]|1[0-9]|2[0-8]))|LEAP-02-29)";
/// Leap seconds are seconds 60 at 23:59 UTC; offsets other than zero would need arithmetic.
const TIME: &str = "(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?(?:[zZ]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])|\
                    23:59:60(?:\\.[0-9]+)?(?:[zZ]|[+-]00:00))";
const DURATION: &str =
    "P(?:(?:[0-9]+D|[0-9]+M(?:[0-9]+D)?|[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?)(?:TIMES)?|TIMES|[0-9]+W)";
const DURATION_TIMES: &str = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)";
const LABEL: &str = "(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)";
const BYTE: &str = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
const ATOM: &str = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
const UUID: &str = "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}";
const POINTER: &str = "(?:/(?:[^~/]|~[01])*)*";
const UNRESERVED: &str = "A-Za-z0-9._~!$&'()*+,;=-";

/// What is known about the format `name`.
pub(super) fn lookup(name: &str) -> FormatRule {
    let date = DATE.replace("LEAP", LEAP);
    FormatRule::Pattern(match name {
        "date" => date,
        "time" => TIME.into(),
        "date-time" => format!("{date}[tT]{TIME}"),
        "duration" => DURATION.replace("TIMES", DURATION_TIMES),
        "email" => email(),
        // 253 characters at most are not counted: derivatives of that intersection take seconds.
        "hostname" => hostname(),
        "ipv4" => ipv4(),
        "ipv6" => ipv6(),
        "uuid" => UUID.into(),
        "uri" => uri(true),
        "uri-reference" => format!("(?:{}|{})", uri(true), uri(false)),
        "json-pointer" => POINTER.into(),
        "relative-json-pointer" => format!("(?:0|[1-9][0-9]*)(?:#|{POINTER})"),
        "regex" => return FormatRule::Refused("whether a string is a regular expression is not regular"),
        "idn-email" | "idn-hostname" | "iri" | "iri-reference" => {
            return FormatRule::Refused("internationalized names are not enforced");
        }
        "uri-template" => return FormatRule::Refused("templates are not enforced"),
        _ => return FormatRule::Unknown,
    })
}

fn hostname() -> String {
    // Labels with `--` in the third place are reserved for punycode, whose validity is not regular.
    let free = "(?:[A-Za-z0-9](?:[A-Za-z0-9](?:-[A-Za-z0-9][A-Za-z0-9-]{0,57}[A-Za-z0-9]|-[A-Za-z0-9]|[A-Za-z0-9](?:[A-Za-z0-9-]{0,59}[A-Za-z0-9])?)?|-(?:[A-Za-z0-9-]{0,60}[A-Za-z0-9]))?)";
    format!("{free}(?:\\.{free})*")
}

fn ipv4() -> String {
    format!("(?:{BYTE}\\.){{3}}{BYTE}")
}

/// RFC 4291, with an IPv4 address for the last 32 bits. Each part is written once: the library parses text.
fn ipv6() -> String {
    let part = "[0-9A-Fa-f]{1,4}";
    // At most `most` parts before `::`.
    let head = |most: usize| match most {
        0 => String::new(),
        n => format!("(?:(?:{part}:){{0,{}}}{part})?", n - 1),
    };
    let mut ways = vec![format!("(?:{part}:){{6}}")];
    ways.extend((0..=5).rev().map(|after| format!("{}::(?:{part}:){{{after}}}", head(5 - after))));
    let last = format!("(?:{part}:{part}|{})", ipv4());
    format!("(?:(?:{}){last}|{}::{part}|{}::)", ways.join("|"), head(6), head(7))
}

/// RFC 5321: a dotted or a quoted local part, a domain or an address.
fn email() -> String {
    let quoted = "\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\"";
    let literal = format!("\\[(?:{}|IPv6:{})\\]", ipv4(), ipv6());
    format!("(?:{ATOM}(?:\\.{ATOM})*|{quoted})@(?:{LABEL}(?:\\.{LABEL})*|{literal})")
}

/// RFC 3986: a URI, or a relative reference.
fn uri(absolute: bool) -> String {
    let char = |more: &str| format!("(?:[{more}{UNRESERVED}]|%[0-9A-Fa-f]{{2}})");
    let future = format!("[vV][0-9A-Fa-f]+\\.[:{UNRESERVED}]+");
    let authority =
        format!("(?:{}*@)?(?:\\[(?:{}|{future})\\]|{}*)(?::[0-9]*)?", char(":"), ipv6(), char(""));
    let (segment, first) = (char(":@"), char("@"));
    let rooted = format!("/(?:{segment}+(?:/{segment}*)*)?");
    let first = if absolute { &segment } else { &first };
    let path = format!("(?://{authority}(?:/{segment}*)*|{rooted}|{first}+(?:/{segment}*)*|)");
    let tail = char("/:?@");
    let scheme = if absolute { "[A-Za-z][A-Za-z0-9+.-]*:" } else { "" };
    format!("{scheme}{path}(?:\\?{tail}*)?(?:#{tail}*)?")
}
