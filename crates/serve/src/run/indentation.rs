//! A text that ends before a line which stands less far to the right than its first.

/// What `n_indent` asks of an answer: a line with less white space in front ends it.
pub(super) struct Indentation {
    least: usize,
    /// A line's end and the white space behind it, until there is enough of it.
    held: String,
    over: bool,
}

impl Indentation {
    /// Lines begin with `least` blanks or tabs; the first stands where the answer begins.
    pub fn new(least: usize) -> Indentation {
        Indentation { least, held: String::new(), over: false }
    }

    /// What is certain to be part of the answer.
    pub fn push(&mut self, text: &str) -> String {
        let mut out = String::new();
        for letter in text.chars() {
            match (self.held.is_empty(), letter) {
                _ if self.over => break,
                (true, '\n') if self.least > 0 => self.held.push(letter),
                (true, _) => out.push(letter),
                (false, ' ' | '\t') => {
                    self.held.push(letter);
                    if self.held.len() > self.least {
                        out.push_str(&std::mem::take(&mut self.held));
                    }
                }
                (false, _) => {
                    self.held.clear();
                    self.over = true;
                }
            }
        }
        out
    }

    /// What was held back when the answer ended by itself.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// True once such a line has begun.
    pub fn over(&self) -> bool {
        self.over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer, and whether it was ended, with `text` in pieces of `size` letters.
    fn cut(least: usize, text: &str, size: usize) -> (String, bool) {
        let mut indentation = Indentation::new(least);
        let letters: Vec<char> = text.chars().collect();
        let mut out: String =
            letters.chunks(size).map(|piece| indentation.push(&piece.iter().collect::<String>())).collect();
        out.push_str(&indentation.finish());
        (out, indentation.over())
    }

    #[test]
    fn a_line_with_less_white_space_ends_an_answer_wherever_it_is_cut() {
        for size in 1..8 {
            assert_eq!(cut(4, "a = 1\n    b = 2\n\treturn\n", size), ("a = 1\n    b = 2".into(), true));
            assert_eq!(cut(2, "a\n\t\tb\n   c\n", size), ("a\n\t\tb\n   c\n".into(), false));
            assert_eq!(cut(1, "a\n\n b", size), ("a".into(), true));
            assert_eq!(cut(0, "a\nb\n\nc", size), ("a\nb\n\nc".into(), false));
            assert_eq!(cut(3, "a\n  ", size), ("a\n  ".into(), false));
        }
    }
}
