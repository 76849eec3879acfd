//! Regular expressions of a `tokenizer.json`, which anybody may have written.
//!
//! Hugging Face's library follows those that look around with a backtracking engine. It takes an error of that (too
//! many steps, too deep a stack, as a million spaces bring it about) for the end of the matches: the rest of the text
//! becomes one piece, and the tokens are others than they should be. And a pattern can be written that takes its engine
//! a million steps for each byte of a text, also one that looks around nowhere. Here the published patterns run in linear
//! time, as those of GGUF files do; of the rest each text has so many steps, and what needs more is an error.

use fancy_regex::{Expr, LookAround, Regex, RegexBuilder};
use regex_automata::util::syntax;
use std::sync::OnceLock;

use super::counted::{CountedMatcher, settles, settles_beside};

/// Places of a text where a pattern matches and where it does not, in order.
type Places = Vec<((usize, usize), bool)>;
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Steps that a search may take, at each of its tries. A search that succeeds counts as all steps of its last try.
const STEPS: [usize; 5] = [1 << 6, 1 << 10, 1 << 14, 1 << 18, 1 << 22];
/// Steps that all searches of one text may take: so many, and so many more for each of its bytes. Published patterns stay
/// below 20 for each.
const MOST_STEPS: usize = 1 << 16;
const STEPS_OF_BYTE: usize = 256;
/// Bytes of one text where each step may look at all of it: a pattern that looks around without bound.
const LONGEST_LOOK: usize = 32 << 10;

/// A pattern that needs more than a linear engine.
#[derive(Debug)]
pub(crate) enum FilePattern {
    /// By an automaton: one pass over the text, unless the pattern looks far beyond where it ends.
    Walking(Box<CountedMatcher>),
    /// By trying; the engines of [`STEPS`], made when they are needed.
    Backtracking { pattern: String, engines: Box<[OnceLock<Regex>; 5]>, looks_far: bool },
}

impl FilePattern {
    /// Reads a pattern; none where an engine without backtracking takes linear time for it.
    ///
    /// # Errors
    /// When it is no regular expression, or refers to what it has matched.
    pub fn new(pattern: &str) -> Result<Option<FilePattern>, String> {
        let tree = Expr::parse_tree(pattern).map_err(|e| format!("is no regular expression: {e}"))?.expr;
        if is_plain(&tree) && settles(pattern) {
            return Ok(None);
        }
        follows(&tree)?;
        if let Some(alternatives) = walked(&tree) {
            let alternatives: Vec<&str> = alternatives.iter().map(String::as_str).collect();
            return CountedMatcher::new(&alternatives)
                .map(|matcher| Some(FilePattern::Walking(Box::new(matcher))));
        }
        if is_plain(&tree) {
            return Err("looks far ahead and may then match nothing, which is not followed".into());
        }
        let engines = Default::default();
        let looks_far = looks_far(&tree);
        let read = FilePattern::Backtracking { pattern: pattern.to_owned(), engines, looks_far };
        read.engine(0)?;
        Ok(Some(read))
    }

    /// Whether a pattern may take more than linear time, so that only pre-tokenizers may have it.
    ///
    /// # Errors
    /// When it is no regular expression.
    pub fn backtracks(pattern: &str) -> Result<bool, String> {
        let tree = Expr::parse_tree(pattern).map_err(|e| format!("is no regular expression: {e}"))?.expr;
        Ok(match is_plain(&tree) {
            true => !settles(pattern),
            false => any(&tree, &|part| is_endless(part) || matches!(part, Expr::Backref { .. })),
        })
    }

    fn engine(&self, level: usize) -> Result<&Regex, String> {
        let FilePattern::Backtracking { pattern, engines, .. } = self else {
            return Err("has no engine that backtracks".into());
        };
        if let Some(engine) = engines[level].get() {
            return Ok(engine);
        }
        let built = RegexBuilder::new(pattern).backtrack_limit(STEPS[level]).build();
        let built = built.map_err(|e| format!("is no regular expression: {e}"))?;
        Ok(engines[level].get_or_init(|| built))
    }

    /// The first match from `at` on, by trying. `left`: steps that the text has left.
    fn search(&self, text: &str, at: usize, left: &mut usize) -> Result<Option<(usize, usize)>, Failure> {
        for (level, steps) in STEPS.into_iter().enumerate() {
            *left =
                left.checked_sub(steps).ok_or("its pattern takes too many steps on this text: shorten it")?;
            match self.engine(level)?.find_from_pos(text, at) {
                Ok(found) => return Ok(found.map(|m| (m.start(), m.end()))),
                Err(fancy_regex::Error::RuntimeError(_)) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Err("its pattern gives up on this text: shorten it".into())
    }
}

impl FilePattern {
    /// Where it matches in a text, and the gaps between.
    ///
    /// # Errors
    /// When that takes too long.
    pub fn places(&self, text: &str) -> Result<Places, Failure> {
        self.places_from(text, (0, usize::MAX), &mut FilePattern::most_steps(text))
    }

    /// The same from `from` on, which is 0 or where a match ended, up to the end of the first match that ends at `least` or
    /// behind it. `left`: steps that the text has left.
    ///
    /// # Errors
    /// When that takes too long.
    pub fn places_from(
        &self,
        text: &str,
        (from, least): (usize, usize),
        left: &mut usize,
    ) -> Result<Places, Failure> {
        let mut places = Places::new();
        let mut each = |found: (usize, usize)| {
            push(&mut places, from, found);
            found.0 == found.1 || found.1 < least
        };
        match self {
            FilePattern::Walking(matcher) => matcher.matches(text, from, left, &mut each)?,
            FilePattern::Backtracking { looks_far: true, .. } if text.len() > LONGEST_LOOK => {
                let bytes = text.len();
                return Err(format!("its pattern looks around in a text of {bytes} bytes without a cut; {LONGEST_LOOK} are allowed: shorten it").into());
            }
            FilePattern::Backtracking { .. } => self.by_trying(text, from, left, &mut each)?,
        }
        let end = places.last().map_or(from, |(place, _)| place.1);
        if (end < least && end < text.len()) || text.is_empty() {
            places.push(((end, text.len()), false));
        }
        Ok(places)
    }

    /// All matches, as the iterator of the engine gives them: none that is empty right behind another.
    fn by_trying(
        &self,
        text: &str,
        from: usize,
        left: &mut usize,
        each: &mut dyn FnMut((usize, usize)) -> bool,
    ) -> Result<(), Failure> {
        let (mut at, mut last) = (from, (from > 0).then_some(from));
        while at <= text.len() {
            let Some((start, end)) = self.search(text, at, left)? else { break };
            at = end;
            if start == end {
                at += text[end..].chars().next().map_or(1, char::len_utf8);
                if last == Some(end) {
                    continue;
                }
            }
            last = Some(end);
            if !each((start, end)) {
                break;
            }
        }
        Ok(())
    }

    /// Steps that all searches of a text may take.
    pub fn most_steps(text: &str) -> usize {
        MOST_STEPS + STEPS_OF_BYTE * text.len()
    }
}

/// Adds a match, and the gap before it, which begins at `from` or where the match before ends.
fn push(places: &mut Places, from: usize, (start, end): (usize, usize)) {
    let before = places.last().map_or(from, |(place, _)| place.1);
    if before != start {
        places.push(((before, start), false));
    }
    places.push(((start, end), true));
}

/// The parts of an expression.
fn parts(tree: &Expr) -> Vec<&Expr> {
    match tree {
        Expr::Concat(list) | Expr::Alt(list) => list.iter().collect(),
        Expr::Group(inner) | Expr::LookAround(inner, _) | Expr::AtomicGroup(inner) => vec![&**inner],
        Expr::Repeat { child, .. } => vec![&**child],
        _ => vec![],
    }
}

/// Whether an expression or a part of it is of a kind.
fn any(tree: &Expr, is: &dyn Fn(&Expr) -> bool) -> bool {
    is(tree) || parts(tree).into_iter().any(|part| any(part, is))
}

/// Whether an engine without backtracking follows it.
fn is_plain(tree: &Expr) -> bool {
    !any(tree, &|part| match part {
        Expr::Assertion(a) => format!("{a:?}").contains("Word"),
        Expr::Empty | Expr::Any { .. } | Expr::Literal { .. } | Expr::Delegate { .. } => false,
        Expr::Concat(_) | Expr::Alt(_) | Expr::Group(_) | Expr::Repeat { .. } => false,
        _ => true,
    })
}

/// Whether there is a repetition in it without an end worth the name.
fn is_endless(tree: &Expr) -> bool {
    any(tree, &|part| matches!(part, Expr::Repeat { hi, .. } if *hi > 1_000))
}

/// Whether a step may look at all of a text: what stands in a look-around, and parts that the engine gives away whole.
fn looks_far(tree: &Expr) -> bool {
    match tree {
        Expr::LookAround(inner, _) => is_endless(inner),
        plain if is_plain(plain) => {
            let mut text = String::new();
            plain.to_str(&mut text, 1);
            !settles_beside(&text)
        }
        mixed => parts(mixed).into_iter().any(looks_far),
    }
}

/// Refuses what no tokenizer needs and no count of steps bounds.
fn follows(tree: &Expr) -> Result<(), String> {
    let known = |part: &Expr| {
        let plain =
            matches!(part, Expr::Empty | Expr::Any { .. } | Expr::Literal { .. } | Expr::Delegate { .. });
        let made = matches!(part, Expr::Concat(_) | Expr::Alt(_) | Expr::Group(_) | Expr::Repeat { .. });
        plain || made || matches!(part, Expr::Assertion(_) | Expr::LookAround(..) | Expr::AtomicGroup(_))
    };
    match any(tree, &|part| !known(part)) {
        true => Err("refers to what it has matched, or to itself, which is not followed".into()),
        false => Ok(()),
    }
}

/// The alternatives, where each is plain or `X(?!\S)` for repetitions X of one character or class.
fn walked(tree: &Expr) -> Option<Vec<String>> {
    let branches = match tree {
        Expr::Alt(list) => list.iter().collect(),
        other => vec![other],
    };
    branches.into_iter().map(alternative).collect()
}

fn alternative(branch: &Expr) -> Option<String> {
    let (body, mark) = match branch {
        Expr::Concat(list) => match list.as_slice() {
            [run, Expr::LookAround(ahead, LookAround::LookAheadNeg)] if is_run(run) && is_no_space(ahead) => {
                (run, r"(?!\S)")
            }
            _ => (branch, ""),
        },
        _ => (branch, ""),
    };
    let mut text = String::new();
    is_plain(body).then(|| body.to_str(&mut text, 1))?;
    // An empty match would need a rule of its own for what is next.
    let least = syntax::parse(&text).ok()?.properties().minimum_len()?;
    (least > 0).then(|| text + mark)
}

fn is_run(tree: &Expr) -> bool {
    let one = |child: &Expr| matches!(child, Expr::Delegate { size: 1, .. } | Expr::Any { .. });
    matches!(tree, Expr::Repeat { child, greedy: true, lo: 1.., .. } if one(child))
}

fn is_no_space(tree: &Expr) -> bool {
    matches!(tree, Expr::Delegate { inner, .. } if inner == r"\S")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};
    use tokenizers::tokenizer::pattern::Pattern;

    const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
    const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    const THREES: &str = r"(?=(\d{3})+(?!\d))";

    fn read(pattern: &str) -> FilePattern {
        FilePattern::new(pattern).unwrap().unwrap()
    }

    /// What the engine of the library finds, on texts that do not exhaust it.
    fn twin(pattern: &str, text: &str) -> Places {
        let library = tokenizers::utils::SysRegex::new(pattern).unwrap();
        (&library).find_matches(text).unwrap()
    }

    #[test]
    fn published_patterns_are_linear_and_cut_as_the_library_does() {
        let texts = [
            "",
            " ",
            "a",
            "a  b",
            "  a   b    ",
            "\n\n  x \n",
            "don't  I'LL 12345 \u{e9}\u{e9}!?  ",
            "\t\t a",
        ];
        for pattern in
            [GPT2, LLAMA3, r"\S+|\s{4}(?!\S)|\s{1,2}(?!\S)|\s", THREES, r"\p{N}{1,3}(?=(?:\p{N}{3})*\b)"]
        {
            let file = read(pattern);
            assert_eq!(matches!(file, FilePattern::Walking(_)), pattern.contains(r"\S)|"), "{pattern}");
            for text in texts {
                let (got, want) = (file.places(text).unwrap(), twin(pattern, text));
                // Of an empty text there is nothing to cut.
                assert!(got == want || text.is_empty(), "{pattern} {text:?}: {got:?} {want:?}");
            }
        }
        for plain in [r"\p{L}+|\s", "a*", "[ab]+", r"^\d+$", " {2,}", r" ?[^\s\p{L}]+[\r\n]*|\d{1,3}", r"a+b"]
        {
            assert!(FilePattern::new(plain).unwrap().is_none(), "{plain}");
        }
    }

    #[test]
    fn plain_patterns_that_look_far_are_counted_and_cut_as_the_library_does() {
        let long = "a".repeat(200_000) + "!";
        for pattern in
            [r"a+b|a", r"(?:a+b)?a", r"\s*[\r\n]+|\s+|a{1,3}|.*[^A-Z]|[A-Z]", r"a(?:.*x)?", r"\w+$|\w"]
        {
            let file = read(pattern);
            for text in ["aaab", "aaaa", "ab\u{e9} \n\n  aaaX", "", "b a\u{e9}a", "  \n a  b"] {
                assert!(
                    file.places(text).unwrap() == twin(pattern, text) || text.is_empty(),
                    "{pattern} {text}"
                );
            }
            let refused = file.places(&long).is_err_and(|e| e.to_string().contains("looks too far"));
            assert!(refused || pattern.contains("{1,3}"), "{pattern}");
        }
        // A run of any length is looked through twice.
        let spaces = " ".repeat(1_000_000) + "a";
        assert_eq!(read(r"\s*[\r\n]+|\s+(?!\S)|\s|a").places(&spaces).unwrap().len(), 3);
        assert!(FilePattern::new("(?:a+b)*").is_err(), "it may match nothing");
    }

    #[test]
    fn a_run_that_exhausts_the_librarys_engine_is_cut_right() {
        let text = " ".repeat(1_100_000) + "a b";
        let places = read(GPT2).places(&text).unwrap();
        assert_eq!(places.len(), 3, "the run, its last space with the letter, the other word");
        let library = tokenizers::utils::SysRegex::new(GPT2).unwrap();
        assert_eq!(
            (&library).find_matches(&text).unwrap().len(),
            1,
            "the library takes the error for the end"
        );
    }

    #[test]
    fn catastrophic_patterns_end_with_an_error_soon() {
        let long = "a".repeat(20_000) + "c";
        for pattern in
            [r"(a+)+b(?!c)", r"(?:a|aa)+$(?=x)", r"(?:a*)*(?=b)", r"(a|a)*(?<=b)", r"(?:a|aa)+(?!c)b"]
        {
            for text in [&long, &long[..60]] {
                let start = Instant::now();
                let found = read(pattern).places(text);
                let took = start.elapsed();
                assert!(took < Duration::from_secs(20), "{pattern}: {took:?}");
                let why = found.map_or_else(|e| e.to_string(), |_| "done".into());
                assert!(why == "done" || why.contains("shorten it"), "{pattern}: {why}");
            }
        }
        assert!(read(r"(?:a|aa)+(?!c)b").places(&long).is_err());
        let far = read(THREES).places(&"1".repeat(40_000)).unwrap_err().to_string();
        assert!(far.contains("40000 bytes"), "{far}");
        for refused in [r"(a)\1", "(a", r"(?<x>a)\k<x>"] {
            assert!(FilePattern::new(refused).is_err(), "{refused}");
        }
        assert!(FilePattern::backtracks(r"a+(?=b)").unwrap() && !FilePattern::backtracks(r"a+b").unwrap());
    }
}
