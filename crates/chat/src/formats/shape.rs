//! What a format is made of: marks, and the parts that a call is written with. Parser, streaming parser and grammar
//! are derived from it.

use crate::reasoning::ReasoningMarks;

/// How a family of models writes tool calls, reasoning and the answer around them.
#[derive(Debug)]
pub struct ChatFormat {
    /// The name that users give.
    pub name: &'static str,
    /// Models that write it.
    pub models: &'static str,
    /// Texts by which a template's source shows that it writes this format: all texts of any of these groups.
    pub markers: &'static [&'static [&'static str]],
    /// Marks around reasoning where the template shows none.
    pub reasoning: ReasoningMarks,
    /// Marks that are structure wherever they stand outside calls and reasoning: they are dropped.
    pub hidden: &'static [&'static str],
    /// What the prompt ends with though it belongs to the answer.
    pub opening: &'static str,
    /// How calls are written.
    pub calls: CallSyntax,
    /// How ids look that the model does not give.
    pub ids: IdStyle,
}

/// How calls stand in an answer.
#[derive(Debug)]
pub enum CallSyntax {
    /// There are none.
    None,
    /// Between marks. Alternatives, the first one is what the grammar writes.
    Sections(&'static [CallSection]),
    /// Each call is a message of its own with a header that names its recipient.
    Channels(&'static Channels),
}

/// A stretch of calls.
#[derive(Debug)]
pub struct CallSection {
    /// What opens it, in any of these spellings; the first is written. Empty: the first part of a call opens it, or,
    /// where that is no text, the beginning of the answer.
    pub open: &'static [&'static str],
    /// How several calls stand beside one another.
    pub items: Items,
    /// The parts of one call.
    pub call: &'static [CallPart],
    /// What closes it; empty if nothing does.
    pub close: &'static str,
}

/// How several calls stand beside one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Items {
    /// There is only one.
    One,
    /// This is written between them.
    Several(&'static str),
    /// They are a JSON list, with this between items and inside its brackets.
    List {
        /// Between items, the comma included.
        separator: &'static str,
        /// After `[`.
        first: &'static str,
        /// Before `]`.
        last: &'static str,
    },
}

/// A part of a call. White space before texts is read whatever it is.
#[derive(Debug)]
pub enum CallPart {
    /// This text.
    Text(&'static str),
    /// Any white space is read, this is written.
    Space(&'static str),
    /// The name of the tool.
    Name,
    /// The id of the call.
    Id,
    /// Name, colon and number of the call in the conversation, together its id; this before the name.
    NumberedName(&'static str),
    /// A word that is read and dropped.
    Word,
    /// A mark and an id, or nothing; nothing is written.
    OptionalId(&'static str),
    /// A JSON object with name and arguments.
    Object(ObjectKeys),
    /// A JSON object with the name as its only key and the arguments as its value.
    NameAsKey,
    /// The arguments.
    Arguments(ArgumentStyle),
}

/// Keys of a call that is a JSON object.
#[derive(Clone, Copy, Debug)]
pub struct ObjectKeys {
    /// Of the name.
    pub name: &'static str,
    /// Of the arguments: any of these is read, the first is written.
    pub arguments: &'static [&'static str],
    /// Of the id.
    pub id: Option<&'static str>,
    /// Where the id stands.
    pub id_place: IdPlace,
    /// The name that says that no tool is called.
    pub silent: &'static str,
}

/// Where an object has its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdPlace {
    /// Before the name.
    First,
    /// After the arguments, which are held back until it is known: what starts a call says its id.
    Last,
    /// As [`IdPlace::Last`], from models that give one.
    LastIfAny,
}

impl ObjectKeys {
    /// Whether a call has to wait for its id until its arguments are over.
    pub fn id_is_late(&self) -> bool {
        self.id.is_some() && self.id_place != IdPlace::First
    }
}

/// How arguments are written.
#[derive(Debug)]
pub enum ArgumentStyle {
    /// A JSON object.
    Json,
    /// A tag for each.
    Tags(TagStyle),
    /// Python's keyword arguments without the brackets around them; the closing one ends them.
    Keywords,
    /// An object with bare keys, and strings between marks of their own.
    Bare,
    /// A tag for each, named as the argument, after this mark; objects and lists are tags within tags.
    Nested(&'static str),
}

/// Arguments as tags.
#[derive(Debug)]
pub struct TagStyle {
    /// Before the key.
    pub open: &'static str,
    /// After the key, before a word that tells the type; and the word that tells a string.
    pub typed: Option<(&'static str, &'static str)>,
    /// After the key, before the value: white space may stand between these.
    pub key_end: &'static [&'static str],
    /// What is written between the texts of `key_end`.
    pub gap: &'static str,
    /// After the value.
    pub close: &'static str,
    /// Whether values stand on lines of their own: a newline at both ends belongs to the tags.
    pub lines: bool,
    /// What is written after each tag.
    pub after: &'static str,
    /// Whether a value may stand in `<![CDATA[..]]>`.
    pub cdata: bool,
}

/// Messages with headers.
#[derive(Debug)]
pub struct Channels {
    /// Begins a header.
    pub start: &'static str,
    /// Begins the channel within a header.
    pub channel: &'static str,
    /// Ends the header.
    pub message: &'static str,
    /// End a message.
    pub ends: &'static [&'static str],
    /// Before a tool's name in a recipient.
    pub tools: &'static str,
    /// The channel of reasoning.
    pub reasoning: &'static str,
    /// The header of a call as the grammar writes it, after `start` and the role: before and after the name.
    pub header: (&'static str, &'static str),
    /// What ends a call.
    pub call_end: &'static str,
}

/// Ids of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdStyle {
    /// `call_` and 24 letters or digits.
    Call,
    /// Nine letters or digits.
    Nine,
    /// `functions.`, name, colon and number of the call in the conversation.
    Numbered,
}

/// A call as `{"name": "N", "arguments": {}}`.
pub(super) const NAME_ARGUMENTS: ObjectKeys = ObjectKeys {
    name: "name",
    arguments: &["arguments", "parameters"],
    id: None,
    id_place: IdPlace::First,
    silent: "",
};

/// Calls as objects between tags, one a line.
pub(super) const TAGGED_OBJECTS: CallSyntax = CallSyntax::Sections(&[CallSection {
    open: &[],
    items: Items::Several("\n"),
    call: &[
        CallPart::Text("<tool_call>"),
        CallPart::Space("\n"),
        CallPart::Object(NAME_ARGUMENTS),
        CallPart::Space("\n"),
        CallPart::Text("</tool_call>"),
    ],
    close: "",
}]);

/// A JSON list on one line.
pub(super) const LIST: Items = Items::List { separator: ", ", first: "", last: "" };

/// What most formats have in common.
pub(super) const PLAIN: ChatFormat = ChatFormat {
    name: "none",
    models: "models that call no tools, and templates whose format is not known",
    markers: &[],
    reasoning: crate::reasoning::THINK,
    hidden: &[],
    opening: "",
    calls: CallSyntax::None,
    ids: IdStyle::Call,
};
