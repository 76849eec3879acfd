//! What a template takes from the model's vocabulary.

use lamina_chat::{ChatTemplate, Conversation, DefaultTemplate};
use lamina_tokenize::{ChatTemplateSource, GgufVocab, Tokenizer};
use serde_json::json;

/// A tokenizer of single letters, `<s>` (id 0) before each text, and these special tokens (from id 1).
fn tokenizer(special: &[&str], chat_templates: Vec<ChatTemplateSource>) -> Tokenizer {
    let letters = ('A'..='Z').chain('a'..='z').map(String::from);
    let tokens: Vec<String> =
        ["<s>"].iter().chain(special).map(|text| (*text).to_owned()).chain(letters).collect();
    let types = (0..tokens.len()).map(|id| if id <= special.len() { 3 } else { 1 }).collect();
    Tokenizer::from_gguf(GgufVocab {
        model: "gpt2".into(),
        tokens,
        token_types: Some(types),
        merges: Some(vec![]),
        bos: Some(0),
        add_bos: Some(true),
        chat_templates,
        ..GgufVocab::default()
    })
    .unwrap()
}

#[test]
fn bos_is_never_doubled() {
    let tokenizer = tokenizer(&["<|eot_id|>"], vec![]);
    let messages = [json!({ "role": "user", "content": "Hi" })];
    let conversation = Conversation::new(&messages, &tokenizer);
    let text = ["H", "i"].map(|letter| tokenizer.token_to_id(letter).unwrap());
    for source in
        ["{{ bos_token }}{{ messages[0].content }}<|eot_id|>", "{{ messages[0].content }}<|eot_id|>"]
    {
        let ids = ChatTemplate::new(source).unwrap().encode(&conversation, &tokenizer).unwrap();
        assert_eq!(ids, [0, text[0], text[1], 1], "{source}");
    }
}

#[test]
fn a_template_for_tools_is_taken_where_there_are_tools() {
    let template = |name: &str, source: &str| ChatTemplateSource { name: name.into(), source: source.into() };
    let tokenizer = tokenizer(&[], vec![template("tool_use", "T"), template("default", "D")]);
    assert_eq!(ChatTemplate::of_tokenizer(&tokenizer, true).unwrap().source(), "T");
    assert_eq!(ChatTemplate::of_tokenizer(&tokenizer, false).unwrap().source(), "D");
}

#[test]
fn templates_may_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<ChatTemplate>();
}

#[test]
fn models_without_a_template_get_one_that_their_vocabulary_knows() {
    for (marks, template) in [
        (["<|im_start|>", "<|im_end|>"], DefaultTemplate::ChatMl),
        (["[INST]", "[/INST]"], DefaultTemplate::Llama2),
        (["<|user|>", "<|assistant|>"], DefaultTemplate::Zephyr),
        (["<|user|>", "</s>"], DefaultTemplate::Plain),
    ] {
        assert_eq!(DefaultTemplate::of_tokenizer(&tokenizer(&marks, vec![])), template);
    }
    let messages = [
        json!({ "role": "system", "content": "Be brief." }),
        json!({ "role": "user", "content": "Hi" }),
        json!({ "role": "assistant", "content": "Hello." }),
        json!({ "role": "user", "content": "Bye" }),
    ];
    let bare = tokenizer(&[], vec![]);
    let conversation = Conversation {
        bos_token: Some("<s>"),
        eos_token: Some("</s>"),
        ..Conversation::new(&messages, &bare)
    };
    let expected = [
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n\
         <|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n",
        "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello. </s><s>[INST] Bye [/INST]",
        "<|system|>\nBe brief.</s>\n<|user|>\nHi</s>\n<|assistant|>\nHello.</s>\n<|user|>\nBye</s>\n<|assistant|>\n",
        "Be brief.\n\nUSER: Hi\nASSISTANT: Hello.</s>\nUSER: Bye\nASSISTANT:",
        "Be brief.\n\n### Instruction:\nHi\n\n### Response:\nHello.</s>\n\n### Instruction:\nBye\n\n### Response:\n",
        "Be brief.\n\nUser: Hi\nAssistant: Hello.\nUser: Bye\nAssistant:",
    ];
    for (template, expected) in DefaultTemplate::ALL.iter().zip(expected) {
        assert_eq!(DefaultTemplate::named(template.name()), Some(*template));
        let text = ChatTemplate::new(template.source()).unwrap().render(&conversation).unwrap();
        assert_eq!(text, expected, "{}", template.name());
    }
}
