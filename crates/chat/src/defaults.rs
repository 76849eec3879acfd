//! Templates for models that ship none, by the formats that such models are usually trained on.

use lamina_tokenize::Tokenizer;

/// A template of Lamina's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultTemplate {
    /// `<|im_start|>role ... <|im_end|>`.
    ChatMl,
    /// `[INST] ... [/INST]`, the system prompt in `<<SYS>>`.
    Llama2,
    /// `<|user|> ... ` with the end of text after each turn.
    Zephyr,
    /// `USER: ... ASSISTANT: ...`.
    Vicuna,
    /// `### Instruction: ... ### Response: ...`.
    Alpaca,
    /// `User: ... Assistant: ...`: for a model that was trained on no format at all.
    Plain,
}

const CHATML: &str = "\
{%- for message in messages -%}
    {{- '<|im_start|>' + message.role + '\\n' + (message.content or '') + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}";

const LLAMA2: &str = "\
{%- set state = namespace(system='') -%}
{%- for message in messages -%}
    {%- if message.role == 'system' -%}
        {%- set state.system = '<<SYS>>\\n' + message.content + '\\n<</SYS>>\\n\\n' -%}
    {%- elif message.role == 'assistant' -%}
        {{- ' ' + (message.content or '') + ' ' + (eos_token or '') -}}
    {%- else -%}
        {{- (bos_token or '') + '[INST] ' + state.system + message.content + ' [/INST]' -}}
        {%- set state.system = '' -%}
    {%- endif -%}
{%- endfor -%}";

const ZEPHYR: &str = "\
{%- for message in messages -%}
    {{- '<|' + message.role + '|>\\n' + (message.content or '') + (eos_token or '') + '\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>\\n' -}}{%- endif -%}";

const VICUNA: &str = "\
{%- for message in messages -%}
    {%- if message.role == 'system' -%}{{- message.content + '\\n\\n' -}}
    {%- elif message.role == 'assistant' -%}{{- 'ASSISTANT: ' + (message.content or '') + (eos_token or '') + '\\n' -}}
    {%- else -%}{{- 'USER: ' + message.content + '\\n' -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- 'ASSISTANT:' -}}{%- endif -%}";

const ALPACA: &str = "\
{%- for message in messages -%}
    {%- if message.role == 'system' -%}{{- message.content + '\\n\\n' -}}
    {%- elif message.role == 'assistant' -%}{{- '### Response:\\n' + (message.content or '') + (eos_token or '') + '\\n\\n' -}}
    {%- else -%}{{- '### Instruction:\\n' + message.content + '\\n\\n' -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '### Response:\\n' -}}{%- endif -%}";

const PLAIN: &str = "\
{%- for message in messages -%}
    {%- if message.role == 'system' -%}{{- message.content + '\\n\\n' -}}
    {%- elif message.role == 'assistant' -%}{{- 'Assistant: ' + (message.content or '') + '\\n' -}}
    {%- else -%}{{- 'User: ' + message.content + '\\n' -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- 'Assistant:' -}}{%- endif -%}";

impl DefaultTemplate {
    /// All of them.
    pub const ALL: &[DefaultTemplate] = &[
        DefaultTemplate::ChatMl,
        DefaultTemplate::Llama2,
        DefaultTemplate::Zephyr,
        DefaultTemplate::Vicuna,
        DefaultTemplate::Alpaca,
        DefaultTemplate::Plain,
    ];

    /// The name that users type.
    pub fn name(self) -> &'static str {
        match self {
            DefaultTemplate::ChatMl => "chatml",
            DefaultTemplate::Llama2 => "llama2",
            DefaultTemplate::Zephyr => "zephyr",
            DefaultTemplate::Vicuna => "vicuna",
            DefaultTemplate::Alpaca => "alpaca",
            DefaultTemplate::Plain => "plain",
        }
    }

    /// The template with this name.
    pub fn named(name: &str) -> Option<DefaultTemplate> {
        DefaultTemplate::ALL.iter().copied().find(|template| template.name() == name)
    }

    /// Jinja source.
    pub fn source(self) -> &'static str {
        match self {
            DefaultTemplate::ChatMl => CHATML,
            DefaultTemplate::Llama2 => LLAMA2,
            DefaultTemplate::Zephyr => ZEPHYR,
            DefaultTemplate::Vicuna => VICUNA,
            DefaultTemplate::Alpaca => ALPACA,
            DefaultTemplate::Plain => PLAIN,
        }
    }

    /// The format whose marks are tokens of this vocabulary; else the plain one.
    pub fn of_tokenizer(tokenizer: &Tokenizer) -> DefaultTemplate {
        let has = |marks: [&str; 2]| marks.iter().all(|mark| tokenizer.token_to_id(mark).is_some());
        if has(["<|im_start|>", "<|im_end|>"]) {
            DefaultTemplate::ChatMl
        } else if has(["[INST]", "[/INST]"]) {
            DefaultTemplate::Llama2
        } else if has(["<|user|>", "<|assistant|>"]) {
            DefaultTemplate::Zephyr
        } else {
            DefaultTemplate::Plain
        }
    }
}
