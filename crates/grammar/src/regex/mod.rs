//! Regular expressions without anchors: grammars match whole strings, and the library knows no `^` inside.

mod write;

use write::PatternPlace;
pub(crate) use write::counts;

use regex_syntax::{
    ParserBuilder,
    hir::{Hir, HirKind, Look, Repetition},
};

/// What of a string an expression describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All of it.
    Whole,
    /// Some part of it, as JSON schema's `pattern` has it.
    Somewhere,
}

/// Alternatives that anchors may multiply to.
const MOST_BRANCHES: usize = 256;

/// An expression between two ends that may have to be those of the text.
#[derive(Clone)]
struct Branch {
    start: bool,
    end: bool,
    body: Hir,
}

/// `pattern` (Rust's syntax) as an expression of whole strings without anchors; None when no string matches.
///
/// # Errors
/// What is wrong with it, or what cannot be enforced.
pub(crate) fn plain(pattern: &str, scope: Scope) -> Result<Option<String>, String> {
    written(pattern, scope, PatternPlace::Text)
}

/// [`plain`] of what is matched inside the quotes of JSON strings.
///
/// # Errors
/// As there.
pub(crate) fn quoted(pattern: &str, scope: Scope) -> Result<Option<String>, String> {
    written(pattern, scope, PatternPlace::Json)
}

fn written(pattern: &str, scope: Scope, place: PatternPlace) -> Result<Option<String>, String> {
    let hir = ParserBuilder::new().nest_limit(250).build().parse(pattern).map_err(|e| explain(&e))?;
    let branches = branches(&hir)?;
    let ends = |branch: Branch| {
        let any = |needed: bool| if needed { any_text() } else { Hir::empty() };
        let open = scope == Scope::Somewhere;
        Hir::concat(vec![any(open && !branch.start), branch.body, any(open && !branch.end)])
    };
    let whole = Hir::alternation(branches.into_iter().map(ends).collect());
    // An expression that matches nothing has no length.
    whole.properties().minimum_len().map(|_| write::write(&whole, place)).transpose()
}

/// Any text at all.
fn any_text() -> Hir {
    let all = Hir::dot(regex_syntax::hir::Dot::AnyChar);
    Hir::repetition(Repetition { min: 0, max: None, greedy: true, sub: Box::new(all) })
}

fn explain(error: &regex_syntax::Error) -> String {
    match error {
        regex_syntax::Error::Parse(e) => format!("{} (column {})", e.kind(), e.span().start.column),
        regex_syntax::Error::Translate(e) => format!("{} (column {})", e.kind(), e.span().start.column),
        e => e.to_string(),
    }
}

/// The alternatives of an expression by where they are anchored, their bodies free of anchors.
fn branches(hir: &Hir) -> Result<Vec<Branch>, String> {
    if hir.properties().look_set().is_empty() {
        return Ok(vec![Branch { start: false, end: false, body: hir.clone() }]);
    }
    let empty = |start, end| Branch { start, end, body: Hir::empty() };
    let found = match hir.kind() {
        HirKind::Look(Look::Start) => vec![empty(true, false)],
        HirKind::Look(Look::End) => vec![empty(false, true)],
        HirKind::Look(_) => return Err("word boundaries and line anchors cannot be enforced".into()),
        HirKind::Capture(group) => branches(&group.sub)?,
        HirKind::Alternation(parts) => {
            parts.iter().map(branches).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect()
        }
        HirKind::Concat(parts) => {
            let mut all = vec![empty(false, false)];
            for part in parts {
                let next = branches(part)?;
                all = all.iter().flat_map(|a| next.iter().filter_map(|b| joined(a, b))).collect();
                limited(&all)?;
            }
            all
        }
        HirKind::Repetition(Repetition { min: 0, max: Some(1), sub, .. }) => {
            let mut all = branches(sub)?;
            all.push(empty(false, false));
            all
        }
        _ => return Err("an anchor inside a repetition cannot be enforced".into()),
    };
    limited(&found)?;
    Ok(found)
}

fn limited(branches: &[Branch]) -> Result<(), String> {
    let fits = branches.len() <= MOST_BRANCHES;
    fits.then_some(()).ok_or_else(|| format!("anchors in more than {MOST_BRANCHES} alternatives"))
}

/// One after the other; None when an anchor stands where it can never hold.
fn joined(a: &Branch, b: &Branch) -> Option<Branch> {
    let can_be_empty = |hir: &Hir| hir.properties().minimum_len() == Some(0);
    let mut parts = vec![a.body.clone(), b.body.clone()];
    if b.start {
        can_be_empty(&a.body).then_some(())?;
        parts[0] = Hir::empty();
    }
    if a.end {
        can_be_empty(&b.body).then_some(())?;
        parts[1] = Hir::empty();
    }
    Some(Branch { start: a.start || b.start, end: a.end || b.end, body: Hir::concat(parts) })
}

/// `text` as an expression that matches it alone.
pub(crate) fn literal(text: &str) -> String {
    regex_syntax::escape(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use regex_automata::meta::Regex;

    /// Compared with the same expression in a library that has anchors.
    fn agree(pattern: &str, texts: &[&str]) {
        for (scope, reference) in
            [(Scope::Somewhere, pattern.to_owned()), (Scope::Whole, format!("^(?:{pattern})$"))]
        {
            let reference = Regex::new(&reference).unwrap();
            let plain = plain(pattern, scope).unwrap().map(|p| Regex::new(&format!("^(?:{p})$")).unwrap());
            for text in texts {
                let found = plain.as_ref().is_some_and(|p| p.is_match(*text));
                assert_eq!(found, reference.is_match(*text), "{pattern} {scope:?} {text:?}");
            }
        }
    }

    #[test]
    fn anchors_hold_wherever_they_stand() {
        let texts = ["", "a", "b", "ab", "ba", "xab", "abx", "xabx", "a\nb", "aa", "bb", "xa", "bx"];
        for pattern in [
            "ab",
            "^ab",
            "ab$",
            "^ab$",
            "^a|b$",
            "(^a|b)(b|x$)?",
            "^$",
            "a*^b",
            "b$a*",
            "(?:^|x)a",
            "a^b",
            "^^a$$",
        ] {
            agree(pattern, &texts);
        }
    }

    #[test]
    fn what_cannot_be_enforced_is_an_error() {
        for pattern in [r"\bword", "(?m)^a", "(^a)*", "(?=a)b", r"(a)\1", "a{2", "(", "[z-a]"] {
            assert!(plain(pattern, Scope::Whole).is_err(), "{pattern}");
        }
        assert_eq!(plain("a^b", Scope::Whole).unwrap(), None);
    }
}
