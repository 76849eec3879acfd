//! Runs of digits in groups of three counted from the right, as a reader groups thousands. A backtracking engine
//! needs nested lookaheads for it (and is quadratic on a long run); counting is simpler.

use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

/// Which runs are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Triples {
    /// Decimal digits: a cut wherever a multiple of three of them is left. As `(?=(\d{3})+(?!\d))`.
    Decimal,
    /// Decimal digits of a run that no letter follows; the run is a piece of its own.
    /// As `\d{1,3}(?=(?:\d{3})*\b)`.
    DecimalWord,
    /// Any numbers; the run is a piece of its own.
    Number,
}

impl Triples {
    /// The places inside `text` where it is cut, ascending.
    pub fn cuts(self, text: &str) -> Vec<usize> {
        let mut cuts = Vec::new();
        let mut run = Vec::new();
        for (at, c) in text.char_indices().chain([(text.len(), '\0')]) {
            if at < text.len() && self.is_digit(c) {
                run.push(at);
            } else if !run.is_empty() {
                self.cut_run(&run, text, at, &mut cuts);
                run.clear();
            }
        }
        cuts.retain(|&cut| cut > 0 && cut < text.len());
        cuts
    }

    /// `run`: where each digit starts; it ends at `end`.
    fn cut_run(self, run: &[usize], text: &str, end: usize, cuts: &mut Vec<usize>) {
        if self == Triples::DecimalWord && text[end..].chars().next().is_some_and(is_word) {
            return;
        }
        let odd = run.len() % 3;
        let groups = run.iter().copied().skip(odd).step_by(3);
        if self == Triples::Decimal {
            // A lookahead cuts before a group only: odd digits stay with the text before, and no cut follows.
            cuts.extend(groups);
        } else {
            cuts.extend(run.first().filter(|_| odd > 0));
            cuts.extend(groups.chain([end]));
        }
    }

    fn is_digit(self, c: char) -> bool {
        match self {
            Triples::Number => c.general_category_group() == GeneralCategoryGroup::Number,
            _ => c.general_category() == GeneralCategory::DecimalNumber,
        }
    }
}

/// `\w` as Oniguruma has it, whose patterns these are: of numbers, all kinds.
fn is_word(c: char) -> bool {
    c.is_alphabetic()
        || matches!(c, '\u{200c}' | '\u{200d}')
        || c.general_category() == GeneralCategory::ConnectorPunctuation
        || matches!(c.general_category_group(), GeneralCategoryGroup::Mark | GeneralCategoryGroup::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(rule: Triples, text: &str) -> Vec<&str> {
        let mut start = 0;
        let ends = rule.cuts(text).into_iter().chain([text.len()]);
        ends.map(|end| &text[std::mem::replace(&mut start, end)..end]).collect()
    }

    #[test]
    fn groups_are_counted_from_the_right() {
        for rule in [Triples::DecimalWord, Triples::Number] {
            assert_eq!(pieces(rule, "a 1234567, b"), ["a ", "1", "234", "567", ", b"]);
            assert_eq!(pieces(rule, "123456"), ["123", "456"]);
        }
        assert_eq!(pieces(Triples::Decimal, "a 1234567 b"), ["a 1", "234", "567 b"]);
        assert_eq!(pieces(Triples::Decimal, "x123"), ["x", "123"]);
    }

    #[test]
    fn a_letter_after_the_run_stops_the_word_rule_only() {
        assert_eq!(pieces(Triples::DecimalWord, "1234abc 1234"), ["1234abc ", "1", "234"]);
        assert_eq!(pieces(Triples::Number, "1234abc"), ["1", "234", "abc"]);
    }

    #[test]
    fn millions_of_digits_are_not_quadratic() {
        assert_eq!(pieces(Triples::Number, &"7".repeat(3_000_000)).len(), 1_000_000);
    }
}
