//! The templates themselves are the truth: a conversation with calls is rendered by each of the shared folder, and read
//! back.

use lamina_chat::{
    ChatFormat, ChatMessage, ChatTemplate, Conversation, Parser, ParserOptions, ReasoningMarks,
};
use serde_json::{Value, json};

use crate::read_text;
use lamina_fixtures::shared;

/// Formats and reasoning marks of the templates.
const FORMATS: &[(&str, &str, &str)] = &[
    ("Apertus-8B-Instruct", "apertus", "<|inner_prefix|>"),
    ("Apriel-1.6-15b-Thinker-fixed", "apriel", "Here are my reasoning steps:\n"),
    ("Bielik-11B-v3.0-Instruct", "hermes", "<think>"),
    ("Cohere2MoE", "command-r7b", "<|START_THINKING|>"),
    ("CohereForAI-c4ai-command-r-plus-tool_use", "command-r-plus", ""),
    ("CohereForAI-c4ai-command-r7b-12-2024-tool_use", "command-r7b", "<|START_THINKING|>"),
    ("GLM-4.7-Flash", "glm-4.5", "<think>"),
    ("GigaChat3-10B-A1.8B", "gigachat3", ""),
    ("GigaChat3.1-10B-A1.8B", "gigachat3", ""),
    ("Kimi-K2-Instruct", "kimi-k2", ""),
    ("Kimi-K2-Thinking", "kimi-k2", "<think>"),
    ("Kimi-K3", "kimi-k3", "<|open|>think<|sep|>"),
    ("LFM2.5-8B-A1B", "lfm2", "<think>"),
    ("LFM2.5-Instruct", "lfm2", "<think>"),
    ("MiMo-VL", "hermes", ""),
    ("MiniMax-M2", "minimax-m2", "<think>"),
    ("MiniMax-M3", "minimax-m3", "<mm:think>"),
    ("Mistral-Small-3.2-24B-Instruct-2506", "mistral-args", ""),
    ("NVIDIA-Nemotron-Nano-v2", "nemotron", "<think>"),
    ("NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "hermes", ""),
    ("NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes", ""),
    ("Qwen-Qwen2.5-7B-Instruct", "hermes", ""),
    ("Qwen-Qwen3-0.6B", "hermes", "<think>"),
    ("Qwen3-Coder", "qwen3-coder", ""),
    ("Reka-Edge", "hermes", "<think>"),
    ("Spark2.5", "glm-4.5", "<think>"),
    ("StepFun3.5-Flash", "qwen3-coder", "<think>"),
    ("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek-v3", "<think>"),
    ("deepseek-ai-DeepSeek-V3.1", "deepseek-v3.1", "<think>"),
    ("deepseek-ai-DeepSeek-V3.2", "deepseek-v3.2", "<think>"),
    ("deepseek-ai-DeepSeek-V4", "deepseek-v4", "<think>"),
    ("fireworks-ai-llama-3-firefunction-v2", "functools", ""),
    ("google-gemma-2-2b-it", "none", ""),
    ("google-gemma-4-31B-it", "gemma4", "<|channel>thought\n"),
    ("ibm-granite-granite-3.3-2B-Instruct", "granite-3", "<think>"),
    ("ibm-granite-granite-4.0", "hermes", ""),
    ("inclusionai-ling-3.0-flash", "glm-4.5", "<think>"),
    ("llama-cpp-deepseek-r1", "deepseek-v3", "<think>"),
    ("llama-cpp-rwkv-world", "none", "<think>"),
    ("meetkai-functionary-medium-v3.2", "functionary-v3.2", ""),
    ("meta-llama-Llama-3.1-8B-Instruct", "llama3", ""),
    ("meta-llama-Llama-3.2-3B-Instruct", "llama3", ""),
    ("microsoft-Phi-3.5-mini-instruct", "none", ""),
    ("mistralai-Ministral-3-14B-Reasoning-2512", "mistral-args", "[THINK]"),
    ("mistralai-Mistral-Nemo-Instruct-2407", "mistral", ""),
    ("muse-glimmer", "muse", " to=self<|message|>"),
    ("openai-gpt-oss-120b", "harmony", "<|channel|>analysis<|message|>"),
    ("openbmb-MiniCPM5-1B", "minicpm5", "<think>"),
    ("poolside-Laguna-XS-2.1", "glm-4.5", "<think>"),
    ("poolside-Laguna-XS.2", "glm-4.5", "<think>"),
    ("tencent-Hy3", "hunyuan", "<think:opensource>"),
    ("unsloth-mistral-Devstral-Small-2507", "mistral-args", ""),
    ("upstage-Solar-Open-100B", "solar", "<|think|>"),
];

#[test]
fn each_template_shows_its_format_and_its_reasoning() {
    let Some(folder) = shared("templates") else { return };
    for (name, format, open) in FORMATS {
        let source = read_text(folder.join(format!("{name}.jinja")));
        assert_eq!(ChatFormat::of_template(&source).name, *format, "{name}");
        let marks = ReasoningMarks::of_template(&source);
        assert_eq!(marks.map_or("", |marks| marks.open), *open, "{name}");
    }
    assert_eq!(FORMATS.len(), 53);
}

fn tools() -> Vec<Value> {
    let properties = json!({
        "city": { "type": "string", "description": "The city" },
        "days": { "type": "integer", "description": "How many" },
        "place": { "type": "object", "description": "Where" }
    });
    let parameters = json!({ "type": "object", "properties": properties, "required": ["city"] });
    let empty = json!({ "type": "object", "properties": {} });
    vec![
        json!({ "type": "function", "function": { "name": "get_weather", "description": "The weather", "parameters": parameters } }),
        json!({ "type": "function", "function": { "name": "now", "description": "The time", "parameters": empty } }),
    ]
}

/// An assistant's message with calls.
struct Turn {
    content: Option<&'static str>,
    reasoning: Option<&'static str>,
    calls: Vec<(&'static str, Value)>,
}

fn turns() -> Vec<Turn> {
    let weather = ("get_weather", json!({ "city": "Z\u{fc}rich \"old\"", "days": 3 }));
    let nested = (
        "get_weather",
        json!({ "city": "line one\nline two", "place": { "a": [1, "x"], "b": { "c": true } } }),
    );
    let now = ("now", json!({}));
    let turn = |content, reasoning, calls: Vec<(&'static str, Value)>| Turn { content, reasoning, calls };
    vec![
        turn(None, None, vec![weather.clone()]),
        turn(None, None, vec![now.clone()]),
        turn(None, None, vec![nested.clone()]),
        turn(Some("Let me see."), None, vec![weather.clone()]),
        turn(Some("Let me see."), Some("They ask."), vec![weather.clone(), now.clone()]),
        turn(Some(""), None, vec![now.clone(), weather.clone()]),
        turn(Some(""), Some("A thought\nin lines."), vec![nested]),
        turn(Some(""), None, vec![weather]),
        turn(Some("Both."), None, vec![now.clone()]),
        turn(Some(""), Some("Now."), vec![now]),
    ]
}

impl Turn {
    /// The message, with arguments as objects or as text.
    fn message(&self, text: bool) -> Value {
        let call = |(i, (name, arguments)): (usize, &(&str, Value))| {
            let arguments = if text { arguments.to_string().into() } else { arguments.clone() };
            json!({ "id": format!("abcDEF00{i}"), "type": "function", "function": { "name": name, "arguments": arguments } })
        };
        let calls: Vec<Value> = self.calls.iter().enumerate().map(call).collect();
        let mut message = json!({ "role": "assistant", "content": self.content, "tool_calls": calls });
        if let Some(reasoning) = self.reasoning {
            message["reasoning_content"] = reasoning.into();
            message["reasoning"] = reasoning.into();
        }
        message
    }
}

fn render(template: &ChatTemplate, messages: &[Value], tools: &[Value], prompt: bool) -> Option<String> {
    let conversation = Conversation {
        messages,
        tools: Some(tools),
        add_generation_prompt: prompt,
        bos_token: Some("<BOS>"),
        eos_token: Some("<EOS>"),
        ..Conversation::default()
    };
    template.render(&conversation).ok()
}

/// What ends a turn.
const ENDS: &[&str] = &[
    "<|im_end|>",
    "<|eot_id|>",
    "<EOS>",
    "<|END_OF_TURN_TOKEN|>",
    "[e~[",
    "<｜end▁of▁sentence｜>",
    "<|end_of_text|>",
    "<SPECIAL_12>",
    "<|role_end|>",
    "</assistant>",
    "<｜hy_eos:opensource｜>",
    "<|end_of_msg|>",
    "<sep>",
    "<|assistant_end|>",
    "<turn|>",
];

/// The assistant's own text: what follows the prompt, whose reasoning marks the message repeats.
fn own_text(prompt: &str, whole: &str, marks: Option<ReasoningMarks>) -> Option<String> {
    let mut prompt = prompt;
    if let Some(marks) = marks {
        for mark in [marks.close, marks.open] {
            let bare = prompt.trim_end();
            prompt = bare.strip_suffix(mark.trim_end()).unwrap_or(prompt);
        }
    }
    let prompt = prompt.strip_suffix(">>>").unwrap_or(prompt).trim_end();
    let text = whole.strip_prefix(prompt)?;
    let end = ENDS.iter().filter_map(|end| text.find(end)).min().unwrap_or(text.len());
    Some(text[..end].trim_end().to_owned())
}

/// Reads one turn back; None where the template cannot have it.
fn read_back(name: &str, source: &str, turn: &Turn) -> Option<(String, ChatMessage)> {
    let template = ChatTemplate::new(source).unwrap();
    let (tools, user) = (tools(), json!({ "role": "user", "content": "Hi there" }));
    let prompt = render(&template, std::slice::from_ref(&user), &tools, true)?;
    let whole = [false, true].into_iter().find_map(|text| {
        let messages = [user.clone(), turn.message(text)];
        let whole = render(&template, &messages, &tools, false)?;
        // Arguments that are no objects are printed as Python prints them, or not at all.
        turn.calls
            .iter()
            .all(|(name, _)| whole.matches(name).count() > prompt.matches(name).count())
            .then_some(whole)
    })?;
    let marks = ReasoningMarks::of_template(source);
    let format = ChatFormat::of_template(source);
    let text = own_text(&prompt, &whole, marks)?;
    // Some write calls as a message of their own after the text.
    if !turn.calls.iter().all(|(name, _)| text.contains(name)) {
        return None;
    }
    let text = text.strip_prefix(format.opening).unwrap_or(&text).to_owned();
    // In answers of the past some templates leave out the opening mark, which ends the prompt.
    let inside = marks.is_some_and(|marks| {
        marks.begins_inside(&prompt) && text.contains(marks.close) && !text.contains(marks.open.trim_end())
    });
    let options = ParserOptions { tools: &tools, reasoning: marks, inside, ..ParserOptions::default() };
    let message = Parser::parse(format, &options, &text);
    assert!(!message.tool_calls.is_empty(), "{name}: {text}\n{message:#?}");
    Some((text, message))
}

#[test]
fn what_a_template_writes_is_read_back() {
    let Some(folder) = shared("templates") else { return };
    let mut skipped = Vec::new();
    for (name, format, _) in FORMATS.iter().filter(|(_, format, _)| *format != "none") {
        let source = read_text(folder.join(format!("{name}.jinja")));
        let mut read = 0;
        for turn in turns() {
            let Some((text, message)) = read_back(name, &source, &turn) else { continue };
            let context = format!("{name} ({format}): {text:?}\n{message:#?}");
            assert_eq!(message.tool_calls.len(), turn.calls.len(), "{context}");
            for (call, (tool, arguments)) in message.tool_calls.iter().zip(&turn.calls) {
                assert_eq!(call.name, *tool, "{context}");
                assert_eq!(
                    serde_json::from_str::<Value>(&call.arguments).ok().as_ref(),
                    Some(arguments),
                    "{context}"
                );
            }
            // Some templates leave content or reasoning out, or write `None` for an absent one.
            if let (Some(own), Some(content)) = (&message.content, turn.content.filter(|c| !c.is_empty())) {
                assert_eq!(own.trim_start(), content, "{context}");
            }
            if let (Some(own), Some(reasoning)) = (&message.reasoning, turn.reasoning) {
                assert_eq!(own, reasoning, "{context}");
            }
            read += 1;
        }
        if read == 0 {
            skipped.push(*name);
        }
    }
    // Kimi K2's change lists, which the sandbox of transformers refuses, too; Command-R+ takes tools in a form of its
    // own; the others never write a call.
    let never = ["LFM2.5-Instruct", "ibm-granite-granite-3.3-2B-Instruct"];
    let kimi = ["Kimi-K2-Instruct", "Kimi-K2-Thinking"];
    let known = [&["CohereForAI-c4ai-command-r-plus-tool_use"], &kimi[..], &never[..]].concat();
    assert_eq!(skipped, known);
}
