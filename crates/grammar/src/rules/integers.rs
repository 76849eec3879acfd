//! Whole numbers between bounds as expressions of their digits.

use llguidance::derivre::RegexAst;

/// Digits from `low` to `high`, which are ASCII.
fn digits(low: u8, high: u8) -> RegexAst {
    let mut set = vec![0u32; 8];
    (low..=high).for_each(|byte| set[usize::from(byte / 32)] |= 1 << (byte % 32));
    RegexAst::ByteSet(set)
}

fn either(mut parts: Vec<RegexAst>) -> RegexAst {
    if parts.len() == 1 { parts.remove(0) } else { RegexAst::Or(parts) }
}

fn minus(rest: RegexAst) -> RegexAst {
    RegexAst::Concat(vec![RegexAst::Byte(b'-'), rest])
}

fn length(n: i64) -> usize {
    n.to_string().len()
}

/// Whole numbers from `low` to `high`; None where there are no bounds, or they overflow. As the library writes them: a
/// range from below zero has `-0`.
pub(super) fn range(low: Option<i64>, high: Option<i64>) -> Option<RegexAst> {
    match (low, high) {
        (None, None) => None,
        (Some(low), None) if low < 0 => {
            Some(either(vec![range(Some(low), Some(-1))?, range(Some(0), None)?]))
        }
        (Some(low), None) => {
            let longest: i64 = "9".repeat(length(low)).parse().ok()?;
            let count = u32::try_from(length(low)).ok()?;
            let longer = RegexAst::Concat(vec![
                digits(b'1', b'9'),
                RegexAst::Repeat(Box::new(digits(b'0', b'9')), count, u32::MAX),
            ]);
            Some(either(vec![range(Some(low), Some(longest))?, longer]))
        }
        (None, Some(high)) if high >= 0 => {
            Some(either(vec![range(Some(0), Some(high))?, range(None, Some(-1))?]))
        }
        (None, Some(high)) => Some(minus(range(Some(-high), None)?)),
        (Some(low), Some(high)) if high < 0 => Some(minus(range(Some(-high), Some(-low))?)),
        (Some(low), Some(high)) if low < 0 => {
            Some(either(vec![minus(range(Some(0), Some(-low))?), range(Some(0), Some(high))?]))
        }
        (Some(low), Some(high)) if length(low) == length(high) => same_length(low, high),
        (Some(low), Some(high)) => {
            let longest = 10i64.checked_pow(u32::try_from(length(low)).ok()?)? - 1;
            Some(either(vec![range(Some(low), Some(longest))?, range(Some(longest + 1), Some(high))?]))
        }
    }
}

/// From `low` to `high`, neither below zero, of as many digits.
fn same_length(low: i64, high: i64) -> Option<RegexAst> {
    if low == high {
        return Some(RegexAst::Literal(low.to_string()));
    }
    let last = |n: i64| b'0' + u8::try_from(n % 10).unwrap_or(0);
    let (first_low, first_high) = (low / 10, high / 10);
    let before = |n: i64, set: RegexAst| {
        let text = if n == 0 { String::new() } else { n.to_string() };
        RegexAst::Concat(vec![RegexAst::Literal(text), set])
    };
    if first_low == first_high {
        return Some(before(first_low, digits(last(low), last(high))));
    }
    let (mut from, mut to) = (first_low, first_high);
    let mut parts = Vec::new();
    if last(low) != b'0' {
        from += 1;
        parts.push(before(first_low, digits(last(low), b'9')));
    }
    if last(high) != b'9' {
        to -= 1;
        parts.push(before(first_high, digits(b'0', last(high))));
    }
    if from <= to {
        parts.push(RegexAst::Concat(vec![range(Some(from), Some(to))?, digits(b'0', b'9')]));
    }
    Some(either(parts))
}
