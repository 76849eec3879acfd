//! Which of the named ways to cut text a tokenizer has: the first that cuts the probe in the same places.

use crate::error::TokenizeError;
use crate::hf::HfEngine;
use crate::pre::{self, Pre, WholePieces};
use crate::split::{SplitRule, Splitter};

/// Texts that the families cut differently: digits, contractions, runs of spaces and line ends, scripts with and without
/// cases and spaces, marks, punctuation, code. All in normal form C, which tokenizers may or may not ask for.
pub(super) const PROBE: &[&str] = &[
    "Hello, world!  It's 2024-12-31; I'LL pay $1234567.89 (or 3.5%)...",
    "  two spaces\n\n\nthree lines \t\ttabs   \r\n  \n end   ",
    "def f(x):\n    return [i**2 for i in range(10) if i != 3]  # \"comment\"\n\n\n",
    "camelCaseWORDS HTTPServer isn't DON'T we'Ve ÀÉÎ straße",
    "\u{4f60}\u{597d}\u{ff0c}\u{4e16}\u{754c}\u{3002}123\u{5e74} \u{3053}\u{3093}\u{306b}\u{3061}\u{306f} \u{d55c}\u{ad6d}\u{c5b4} 45",
    "\u{41f}\u{440}\u{438}\u{432}\u{435}\u{442} \u{3ba}\u{3cc}\u{3c3}\u{3bc}\u{3b5} \u{645}\u{631}\u{62d}\u{628}\u{627} \u{662}\u{660}\u{662}\u{664} \u{939}\u{93f}\u{928}\u{94d}\u{926}\u{940} \u{e2a}\u{e27}\u{e31}\u{e2a}\u{e14}\u{e35}",
    "\u{1f600}\u{1f468}\u{200d}\u{1f469} \u{2460}\u{bd}\u{b2} q\u{301} !?--//:::@@ x=y&&z||w `t` ~^_^~ {}<>/\n",
    "Nefer'in Ali'mdir 'really Ankara'ya  ... \u{2026}\u{201c}q\u{201d} \u{2014} and/or\n/path/to\n 1 22 333 4444 55555",
];

/// The family that cuts as a `tokenizer.json` does and merges whole pieces as it does.
pub(super) fn of_engine(
    engine: &HfEngine,
    whole_pieces: bool,
) -> Result<Option<&'static Pre>, TokenizeError> {
    let wanted = PROBE.iter().map(|text| engine.cut_ends(text)).collect::<Result<Vec<_>, _>>()?;
    let habit = |p: &&&Pre| (p.whole_pieces == WholePieces::Always) == whole_pieces;
    let same = same_cuts(&wanted)?;
    Ok(same.iter().find(habit).or(same.first()).copied())
}

/// The first family that cuts as `rule` does.
pub(super) fn of_rule(rule: SplitRule) -> Result<Option<&'static Pre>, TokenizeError> {
    Ok(same_cuts(&ends(&[rule])?)?.first().copied())
}

fn same_cuts(wanted: &[Vec<usize>]) -> Result<Vec<&'static Pre>, TokenizeError> {
    let mut same = vec![];
    for family in pre::ALL {
        if ends(family.rules)? == wanted {
            same.push(family);
        }
    }
    Ok(same)
}

/// Ends of the pieces of each text.
fn ends(rules: &[SplitRule]) -> Result<Vec<Vec<usize>>, TokenizeError> {
    let splitter = Splitter::new(rules)?;
    let one = |text: &&str| {
        let (mut ends, mut at) = (vec![], 0);
        splitter.split(text, &mut |piece| {
            at += piece.len();
            ends.push(at);
            Ok(())
        })?;
        Ok(ends)
    };
    PROBE.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::patterns as p;

    #[test]
    fn the_probe_tells_the_published_patterns_apart() {
        for (pattern, name) in [
            (p::LLAMA3, "llama3"),
            (p::QWEN2, "qwen2"),
            (p::QWEN35, "qwen35"),
            (p::O200K, "gpt-4o"),
            (p::TEKKEN, "tekken"),
            (p::GPT2, "gpt-2"),
            (p::SEED_CODER, "seed-coder"),
            (p::KIMI_K2, "kimi-k2"),
            (p::BLOOM, "poro-chat"),
            (p::UFAKZEKA, "ufakzeka"),
            (p::EXAONE_MOE, "exaone-moe"),
        ] {
            let found = of_rule(SplitRule::Match(pattern)).unwrap();
            assert!(found.is_some_and(|f| f.names.contains(&name)), "{name}: {:?}", found.map(|f| f.names));
        }
    }
}
