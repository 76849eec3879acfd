//! The messages of a conversation, and which of them the model still sees.

use super::message_file::{MessageFile, MessageFileKind};
use serde_json::{Value, json};

/// Messages in order: objects with `role` and `content`, as the library's chat takes them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Session {
    system: Option<Value>,
    messages: Vec<Value>,
    /// The oldest messages that no longer fit into the context; kept for saving.
    dropped: usize,
}

fn role(message: &Value) -> &str {
    message["role"].as_str().unwrap_or_default()
}

impl Session {
    /// The conversation that was saved as `value`: a list of messages, or an object with such a list as `messages`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_json(value: &Value) -> Result<Session, String> {
        let list = value.as_array().or_else(|| value["messages"].as_array());
        let list = list.ok_or("holds no list of messages")?;
        for (i, message) in list.iter().enumerate() {
            if !message["role"].is_string() || message.get("content").is_none() {
                return Err(format!("message {i} has no role or no content"));
            }
        }
        let (system, messages) = match list.split_first() {
            Some((first, rest)) if role(first) == "system" => (Some(first.clone()), rest),
            _ => (None, list.as_slice()),
        };
        Ok(Session { system, messages: messages.to_vec(), dropped: 0 })
    }

    /// All messages, those too old for the context included.
    pub fn to_json(&self) -> Value {
        self.system.iter().chain(&self.messages).cloned().collect()
    }

    /// The system prompt and the messages that are not dropped.
    pub fn window(&self) -> Vec<Value> {
        self.system.iter().chain(&self.messages[self.dropped..]).cloned().collect()
    }

    /// Sets the system prompt; an empty text takes it away.
    pub fn set_system(&mut self, text: &str) {
        self.system = (!text.is_empty()).then(|| json!({"role": "system", "content": text}));
    }

    /// The system prompt.
    pub fn system(&self) -> Option<&str> {
        self.system.as_ref()?["content"].as_str()
    }

    /// Messages without the system prompt.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Appends a message of the user.
    pub fn ask(&mut self, text: &str) {
        self.messages.push(json!({"role": "user", "content": text}));
    }

    /// Appends a message of the user with pictures and sounds before its text, by the names of their files.
    pub fn show(&mut self, files: &[MessageFile], text: &str) {
        let shown = files.iter().map(MessageFile::part);
        let parts: Vec<Value> = shown.chain([json!({"type": "text", "text": text})]).collect();
        self.messages.push(json!({"role": "user", "content": parts}));
    }

    /// Files of a kind in all messages.
    pub fn files(&self, kind: MessageFileKind) -> Vec<&str> {
        let parts = self.messages.iter().filter_map(|m| m["content"].as_array()).flatten();
        parts.filter_map(|part| part[kind.part()].as_str()).collect()
    }

    /// Appends an answer.
    pub fn answered(&mut self, text: &str, calls: &[Value]) {
        let mut message = json!({"role": "assistant", "content": text});
        if !calls.is_empty() {
            message["tool_calls"] = json!(calls);
        }
        self.messages.push(message);
    }

    /// Appends what the first call returned that has no result yet; how many are left, or none if there was none.
    pub fn result(&mut self, text: &str) -> Option<usize> {
        let last = self.messages.iter().rposition(|m| role(m) == "assistant")?;
        let given = self.messages.len() - last - 1;
        let calls = self.messages[last]["tool_calls"].as_array().cloned().unwrap_or_default();
        let call = calls.get(given)?;
        let (id, name) = (&call["id"], &call["function"]["name"]);
        self.messages.push(json!({"role": "tool", "tool_call_id": id, "name": name, "content": text}));
        Some(calls.len() - given - 1)
    }

    /// Forgets all messages; the system prompt stays.
    pub fn reset(&mut self) {
        self.messages.clear();
        self.dropped = 0;
    }

    /// Takes back the user's last message and what followed it; false when there is none.
    pub fn undo(&mut self) -> bool {
        self.cut_after_last_user(0)
    }

    /// Takes back what followed the user's last message; false when there is none.
    pub fn unanswer(&mut self) -> bool {
        self.cut_after_last_user(1)
    }

    fn cut_after_last_user(&mut self, keep: usize) -> bool {
        let Some(last) = self.messages.iter().rposition(|m| role(m) == "user") else { return false };
        self.messages.truncate(last + keep);
        self.dropped = self.dropped.min(self.messages.len());
        true
    }

    /// Drops the oldest turn (a message of the user and all up to the next one); false when only the last one is left.
    pub fn drop_oldest(&mut self) -> bool {
        let later = self.messages[self.dropped..].iter().enumerate().skip(1);
        let next = later.filter(|(_, m)| role(m) == "user").map(|(i, _)| i).next();
        self.dropped += next.unwrap_or(0);
        next.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(turns: &[(&str, &str)]) -> Session {
        let mut s = Session::default();
        s.set_system("be brief");
        for (question, answer) in turns {
            s.ask(question);
            s.answered(answer, &[]);
        }
        s
    }

    fn contents(messages: &[Value]) -> Vec<&str> {
        messages.iter().filter_map(|m| m["content"].as_str()).collect()
    }

    #[test]
    fn whole_turns_are_dropped_and_the_last_one_stays() {
        let mut s = session(&[("a", "1"), ("b", "2")]);
        s.ask("c");
        assert!(s.drop_oldest());
        assert_eq!(contents(&s.window()), ["be brief", "b", "2", "c"]);
        assert!(s.drop_oldest());
        assert_eq!(contents(&s.window()), ["be brief", "c"]);
        assert!(!s.drop_oldest());
        assert_eq!(s.to_json().as_array().unwrap().len(), 6, "all are saved");
        s.undo();
        assert_eq!(contents(&s.window()), ["be brief"], "dropped turns do not come back half");
        s.ask("d");
        assert_eq!(contents(&s.window()), ["be brief", "d"]);
    }

    #[test]
    fn undo_takes_question_and_answer_retry_only_the_answer() {
        let mut s = session(&[("a", "1"), ("b", "2")]);
        assert!(s.unanswer());
        assert_eq!(contents(&s.window()), ["be brief", "a", "1", "b"]);
        assert!(s.undo());
        assert!(s.undo());
        assert!(!s.undo() && !s.unanswer());
        assert_eq!(s.window().len(), 1);
    }

    #[test]
    fn results_go_to_calls_in_turn() {
        let mut s = session(&[]);
        s.ask("time?");
        assert_eq!(s.result("early"), None);
        let call =
            |id: &str| json!({"id": id, "type": "function", "function": {"name": "now", "arguments": "{}"}});
        s.answered("", &[call("a"), call("b")]);
        assert_eq!((s.result("1"), s.result("2"), s.result("3")), (Some(1), Some(0), None));
        let window = s.window();
        assert_eq!((&window[3]["tool_call_id"], &window[4]["tool_call_id"]), (&json!("a"), &json!("b")));
        assert!(s.undo() && s.len() == 0);
    }

    #[test]
    fn saved_conversations_come_back() {
        let s = session(&[("a", "1")]);
        assert_eq!(Session::from_json(&s.to_json()), Ok(s.clone()));
        assert_eq!(Session::from_json(&json!({"messages": s.to_json()})), Ok(s));
        for broken in
            [json!("text"), json!({"a": 1}), json!([1]), json!([{"role": "user"}]), json!([{"content": ""}])]
        {
            assert!(Session::from_json(&broken).is_err(), "{broken}");
        }
    }
}
