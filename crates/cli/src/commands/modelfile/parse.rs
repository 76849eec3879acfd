//! The instructions of a Modelfile: a word and what follows it, on one line or between three quotation marks.

/// An instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// Its word, in capitals.
    pub word: String,
    /// What follows, without its quotation marks.
    pub text: String,
    /// The line that it begins on, from 1.
    pub line: usize,
}

const MARK: &str = "\"\"\"";
/// Words that a value stands behind, and before it a name.
const NAMED: [&str; 2] = ["PARAMETER", "MESSAGE"];

/// All instructions of a text.
///
/// # Errors
/// When a line has no instruction, or a text between quotation marks has no end.
pub fn instructions(text: &str) -> Result<Vec<Instruction>, String> {
    let mut found = vec![];
    let mut lines = text.lines().enumerate();
    while let Some((i, line)) = lines.next() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let (word, mut rest) = (word.to_ascii_uppercase(), rest.trim().to_owned());
        if !word.chars().all(|c| c.is_ascii_alphabetic()) || rest.is_empty() {
            return Err(format!("line {}: `{line}` is no instruction such as FROM model.gguf", i + 1));
        }
        // What opens may close some lines later.
        while opens(&rest) {
            let Some((_, more)) = lines.next() else {
                return Err(format!("line {}: the text of {word} has no closing {MARK}", i + 1));
            };
            rest = format!("{rest}\n{more}");
        }
        let text =
            match NAMED.contains(&word.as_str()).then(|| rest.split_once(char::is_whitespace)).flatten() {
                Some((name, value)) => format!("{name} {}", unquoted(value.trim())),
                None => unquoted(&rest),
            };
        found.push(Instruction { word, text, line: i + 1 });
    }
    Ok(found)
}

/// True where three quotation marks have no second ones behind them.
fn opens(text: &str) -> bool {
    text.find(MARK).is_some_and(|at| !text[at + MARK.len()..].contains(MARK))
}

fn unquoted(text: &str) -> String {
    let inner = |mark: &str| text.strip_prefix(mark).and_then(|rest| rest.trim_end().strip_suffix(mark));
    inner(MARK).or_else(|| inner("\"").filter(|_| text.len() > 1)).unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_have_a_word_and_a_text() {
        let text = "# made\nFROM ./a b.gguf\n\nparameter temperature 0.7\nPARAMETER stop \"<|end|>\"\n\
            SYSTEM \"\"\"You are\n# short.\n\"\"\"\nMESSAGE user Why?\nTEMPLATE \"\"\"{{ .Prompt }}\"\"\"\n";
        let found = instructions(text).expect("instructions");
        let all: Vec<_> = found.iter().map(|i| (i.word.as_str(), i.text.as_str(), i.line)).collect();
        let want = [
            ("FROM", "./a b.gguf", 2),
            ("PARAMETER", "temperature 0.7", 4),
            ("PARAMETER", "stop <|end|>", 5),
            ("SYSTEM", "You are\n# short.\n", 6),
            ("MESSAGE", "user Why?", 9),
            ("TEMPLATE", "{{ .Prompt }}", 10),
        ];
        assert_eq!(all, want);
    }

    #[test]
    fn what_is_none_is_told_with_its_line() {
        let wrong = |text: &str| instructions(text).expect_err("wrong");
        assert!(wrong("FROM a\nthis-is none").starts_with("line 2: `this-is none`"));
        assert!(wrong("FROM").starts_with("line 1"));
        assert!(wrong("SYSTEM \"\"\"You").contains("SYSTEM has no closing"));
    }
}
