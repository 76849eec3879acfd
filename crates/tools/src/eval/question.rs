//! Questions with known answers, as a file has them.

use lamina::{Error, Result};
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

/// Tokens of an answer where a question does not say.
const MAX_TOKENS: usize = 256;

/// A line of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct QuestionLine {
    question: Option<String>,
    choices: Option<Vec<String>>,
    answer: Option<Value>,
    prompt: Option<String>,
    regex: Option<String>,
    exact: Option<String>,
    max_tokens: Option<usize>,
    #[serde(default)]
    stop: Vec<String>,
}

/// What is asked, and what is right.
#[derive(Debug, Clone)]
pub enum Question {
    /// The likeliest of several texts behind the question is the answer.
    Choice {
        /// What stands before each choice.
        question: String,
        /// What may follow, each with the space that parts it from the question.
        choices: Vec<String>,
        /// The right one.
        answer: usize,
    },
    /// The model answers in its own words.
    Written {
        /// What it continues, or is told.
        prompt: String,
        /// What is right.
        right: RightAnswer,
        /// Tokens of the answer at most.
        max_tokens: usize,
        /// Texts that end it.
        stop: Vec<String>,
    },
}

/// When an answer is right.
#[derive(Debug, Clone)]
pub enum RightAnswer {
    /// A part of it matches.
    Matches(Regex),
    /// It is this, but for spaces around it.
    Is(String),
}

impl RightAnswer {
    /// True for a right answer.
    pub fn accepts(&self, answer: &str) -> bool {
        match self {
            RightAnswer::Matches(regex) => regex.is_match(answer),
            RightAnswer::Is(text) => answer.trim() == text.trim(),
        }
    }
}

/// Reads questions, JSON lines: `{"question", "choices", "answer"}`, where the answer is the number of the right choice from
/// 0, its text, or its letter from A; or `{"prompt", "regex"}` or `{"prompt", "exact"}`, with `max_tokens` and `stop`.
///
/// # Errors
/// When a line is neither; it is named by its number.
pub fn questions(text: &str) -> Result<Vec<Question>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let read = |(i, line): (usize, &str)| {
        let line: Result<QuestionLine, _> = serde_json::from_str(line);
        let question = line.map_err(|e| e.to_string()).and_then(QuestionLine::question);
        question.map_err(|problem| Error::InvalidRequest(format!("line {}: {problem}", i + 1)))
    };
    let all: Vec<_> = lines.map(read).collect::<Result<_>>()?;
    match all.is_empty() {
        true => Err(Error::InvalidRequest("there are no questions".into())),
        false => Ok(all),
    }
}

impl QuestionLine {
    fn question(self) -> Result<Question, String> {
        match (self.question, self.choices, self.answer, self.prompt) {
            (Some(question), Some(choices), Some(answer), None) => {
                let answer = place(&choices, &answer)?;
                let apart = !question.ends_with(char::is_whitespace);
                let spaced = |choice: String| match apart && !choice.starts_with(char::is_whitespace) {
                    true => format!(" {choice}"),
                    false => choice,
                };
                Ok(Question::Choice { question, choices: choices.into_iter().map(spaced).collect(), answer })
            }
            (None, None, None, Some(prompt)) => {
                let right = match (self.regex, self.exact) {
                    (Some(regex), None) => {
                        RightAnswer::Matches(Regex::new(&regex).map_err(|e| e.to_string())?)
                    }
                    (None, Some(text)) => RightAnswer::Is(text),
                    _ => return Err("a prompt has either regex or exact".into()),
                };
                let max_tokens = self.max_tokens.unwrap_or(MAX_TOKENS);
                Ok(Question::Written { prompt, right, max_tokens, stop: self.stop })
            }
            _ => Err("a line has question, choices and answer, or prompt and regex or exact".into()),
        }
    }
}

/// The choice that an answer names.
fn place(choices: &[String], answer: &Value) -> Result<usize, String> {
    let letter = |text: &str| match text.as_bytes() {
        [letter @ b'A'..=b'Z'] => Some(usize::from(letter - b'A')),
        _ => None,
    };
    let found = match answer {
        Value::Number(number) => number.as_u64().and_then(|n| usize::try_from(n).ok()),
        Value::String(text) => choices.iter().position(|c| c == text).or_else(|| letter(text)),
        _ => None,
    };
    found
        .filter(|&place| place < choices.len())
        .ok_or_else(|| format!("answer is {answer}, but must be one of the {} choices", choices.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_named_in_three_ways() {
        let choices = ["B".to_owned(), "no".to_owned()];
        for (answer, right) in [("1", 1), ("\"no\"", 1), ("\"A\"", 0), ("\"B\"", 0), ("0", 0)] {
            assert_eq!(place(&choices, &serde_json::from_str(answer).unwrap()), Ok(right), "{answer}");
        }
        for wrong in ["2", "-1", "\"C\"", "\"x\"", "null", "[0]"] {
            assert!(place(&choices, &serde_json::from_str(wrong).unwrap()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lines_that_are_no_questions_are_named() {
        for (line, word) in [
            ("{}", "question, choices"),
            (r#"{"prompt": "x"}"#, "regex or exact"),
            (r#"{"prompt": "x", "regex": "("}"#, "unclosed"),
            (r#"{"prompt": "x", "exact": "y", "hint": 1}"#, "hint"),
            ("", "no questions"),
        ] {
            let problem = questions(line).unwrap_err().to_string();
            assert!(problem.contains(word), "{line}: {problem}");
        }
        let two = "\n{\"prompt\": \"x\", \"exact\": \"y\"}\n\n{\"prompt\"";
        assert!(questions(two).unwrap_err().to_string().contains("line 4"));
    }
}
