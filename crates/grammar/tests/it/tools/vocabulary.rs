//! Small vocabularies: every byte, with and without the marks of formats as tokens of their own.

use lamina_grammar::Vocabulary;
use lamina_tokenize::{GgufVocab, Markers, Special, Tokenizer};

/// Marks that are tokens in the models that write them, longer ones first.
const MARKS: &[&str] = &[
    "<tool_call>",
    "</tool_call>",
    "<think>",
    "</think>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "[CALL_ID]",
    "<|channel|>",
    "<|message|>",
    "<|start|>",
    "<|constrain|>",
    "<|end|>",
    "<|call|>",
    "<|return|>",
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "<|open|>",
    "<|close|>",
    "<|sep|>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁sep｜>",
    "<|tool_call|>",
    "<|/tool_call|>",
    "<|START_ACTION|>",
    "<|END_ACTION|>",
    "<|START_RESPONSE|>",
    "<|END_RESPONSE|>",
    "<|tool_call_start|>",
    "<|action_start|>",
    "<|plugin|>",
    "<|action_end|>",
    "<|tool_call>",
    "<tool_call|>",
    "<|\"|>",
    "<|python_tag|>",
    "<|tools_prefix|>",
    "<|tools_suffix|>",
    "<|function_call|>",
    "<|message_sep|>",
    "<minimax:tool_call>",
    "</minimax:tool_call>",
    "<seed:tool_call>",
    "</seed:tool_call>",
    "<|tool_calls|>",
    "<|tool_call:begin|>",
    "<|tool_call:name|>",
    "<|tool_call:args|>",
    "<|tool_call:end|>",
    "<|calls|>",
    "<｜tool_calls_begin｜>",
    "<｜tool_calls_end｜>",
    "<｜tool_call_begin｜>",
    "<｜tool_call_end｜>",
    "<｜tool_sep｜>",
    "<|eom|>",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "<TOOLCALL>",
    "</TOOLCALL>",
];

/// A tokenizer and its vocabulary for grammars.
pub struct Words {
    pub tokenizer: Tokenizer,
    pub vocabulary: Vocabulary,
}

impl Words {
    /// All marks are spelled.
    pub fn plain() -> Words {
        Words::new(&[])
    }

    /// Marks are tokens.
    pub fn with_marks() -> Words {
        Words::new(MARKS)
    }

    fn new(marks: &[&str]) -> Words {
        // The byte-level alphabet of GPT-2.
        let mut moved = 0x100;
        let mut tokens: Vec<String> = (0..=255u8)
            .map(|byte| match byte {
                0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => char::from(byte).to_string(),
                _ => {
                    moved += 1;
                    char::from_u32(moved - 1).expect("a character").to_string()
                }
            })
            .collect();
        tokens.push("<|endoftext|>".into());
        tokens.extend(marks.iter().map(|&mark| mark.to_owned()));
        let kinds = (0..tokens.len()).map(|id| if id < 256 { 1 } else { 3 }).collect();
        let source = GgufVocab {
            model: "gpt2".into(),
            pre: Some("gpt-2".into()),
            token_types: Some(kinds),
            merges: Some(vec![]),
            eos: Some(256),
            bos: Some(256),
            tokens,
            ..GgufVocab::default()
        };
        let tokenizer = Tokenizer::from_gguf(source).expect("a tokenizer");
        let vocabulary = Vocabulary::new(&tokenizer, &ends(&tokenizer)).expect("a vocabulary");
        Words { tokenizer, vocabulary }
    }

    /// Tokens that end an answer.
    pub fn ends(&self) -> Vec<u32> {
        ends(&self.tokenizer)
    }

    /// The text of tokens, marks included.
    pub fn text(&self, tokens: &[u32]) -> String {
        self.tokenizer.decode_with(tokens, Markers::Show).expect("text")
    }

    /// The tokens of a text, marks as tokens where they are.
    pub fn tokens(&self, text: &str) -> Vec<u32> {
        self.tokenizer.encode(text, Special::PARSE).expect("tokens")
    }
}

fn ends(tokenizer: &Tokenizer) -> Vec<u32> {
    let known = |text: &str| tokenizer.token_to_id(text);
    [known("<|endoftext|>"), known("<|call|>"), known("<|return|>")].into_iter().flatten().collect()
}
