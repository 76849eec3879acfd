//! Field tables: which names a body may have, and what happens to each. The one list that reading, refusing, the
//! documentation and the tests are derived from.

use lamina::sample::params;

/// Bytes of a name for which a known one is looked for.
const LONGEST_NAME: usize = 64;

/// Fields of a body.
#[derive(Debug)]
pub struct FieldTable {
    /// Method and path, or the path of the object inside a body.
    pub name: &'static str,
    /// Every sampling parameter and the common fields are admitted too.
    pub sampling: bool,
    /// Fields of its own; they win over all others.
    pub fields: &'static [FieldSpec],
    /// Lists of fields that other tables have too.
    pub also: &'static [&'static [FieldSpec]],
}

/// A field.
#[derive(Debug, Clone, Copy)]
pub struct FieldSpec {
    /// Its name.
    pub name: &'static str,
    /// What happens to it.
    pub usage: FieldUsage,
    /// What it means, why it makes no difference, or why it is refused.
    pub doc: &'static str,
}

/// What happens to a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldUsage {
    /// It is read.
    Taken,
    /// The answer is the same with and without it: it is named in `x-lamina-ignored`.
    Harmless,
    /// It is refused: the answer would not be what was asked for.
    Refused,
}

/// A field that is read.
pub const fn taken(name: &'static str, doc: &'static str) -> FieldSpec {
    FieldSpec { name, usage: FieldUsage::Taken, doc }
}

/// A field that makes no difference.
pub const fn harmless(name: &'static str, doc: &'static str) -> FieldSpec {
    FieldSpec { name, usage: FieldUsage::Harmless, doc }
}

/// A field that is refused.
pub const fn refused(name: &'static str, doc: &'static str) -> FieldSpec {
    FieldSpec { name, usage: FieldUsage::Refused, doc }
}

/// Fields that every table with `sampling` has beside the sampling parameters.
pub const COMMON: &[FieldSpec] = &[
    taken("stop", "text, or up to 16 texts, that end an answer"),
    taken("n", "answers to the same prompt"),
    taken("lora", "scales of adapters: {name: scale} or [{id, scale}]"),
    taken("ignore_eos", "tokens that end answers are chosen like any other"),
    taken("stop_token_ids", "further tokens that end an answer"),
    taken("min_tokens", "tokens before an answer may end"),
    taken("include_stop_str_in_output", "the stop text stays in the answer"),
    taken("skip_special_tokens", "true: special tokens add nothing to the text"),
    taken("return_token_ids", "token_ids in each choice"),
    taken("priority", "from -100 to 100, lower is sooner"),
    taken("timeout", "seconds after which the request ends"),
    taken("cache_prompt", "false: the prompt is computed anew"),
    taken(
        "n_keep",
        "first tokens that stay when the context is full, with --context-shift; -1: as many as may",
    ),
    taken("num_keep", "the same"),
    taken("compress", "what stays of the prompt's cache: snapkv:TOKENS, pyramidkv:TOKENS or h2o:TOKENS"),
    taken("id_slot", "the slot that remembers the text, with --slot-save-path; -1: any"),
    taken("cache_salt", "computed beginnings are shared only among requests with equal salt"),
    taken("keep_alive", "how long the model stays in memory after the request"),
    taken("response_format", "form of the answer: text, json_object, json_schema or structural_tag"),
    taken("json_schema", "the answer is JSON of this schema"),
    taken("grammar", "the answer is of this grammar: GBNF, or Lark where it has no `::=`"),
    taken("guided_json", "as json_schema"),
    taken("guided_regex", "all of the answer matches this expression"),
    taken("guided_choice", "the answer is one of these texts"),
    taken("guided_grammar", "as grammar"),
    taken("structured_outputs", "one of json, regex, choice, grammar, json_object and structural_tag"),
    harmless("n_discard", "half of what may leave does"),
    harmless("n_cache_reuse", "beginnings are found by their content"),
    harmless("sse_ping_interval", "set by the server"),
    harmless("num_ctx", "the context is set when the model is loaded"),
    harmless("num_batch", "set when the model is loaded"),
    harmless("num_gpu", "set when the model is loaded"),
    harmless("main_gpu", "set when the model is loaded"),
    harmless("num_thread", "set when the model is loaded"),
    harmless("numa", "set by the system"),
    harmless("use_mmap", "files are read, never mapped"),
    harmless("use_mlock", "set by the system"),
    harmless("low_vram", "set when the model is loaded"),
    harmless("penalize_newline", "newlines are tokens like others"),
    harmless("shift", "set by the server: --context-shift"),
    harmless("draft_num_predict", "drafts do not change answers"),
];

impl FieldTable {
    /// Its fields but for those that are common: its own, then those of the lists that it shares with other tables.
    pub fn specs(&self) -> impl Iterator<Item = &'static FieldSpec> + Clone {
        let own = self.fields;
        let shared = self.also.iter().flat_map(|list| list.iter());
        own.iter().chain(shared.filter(move |f| own.iter().all(|o| o.name != f.name)))
    }

    /// What happens to the field of that name; none where the table does not know it.
    pub fn find(&self, name: &str) -> Option<FieldSpec> {
        let own = self.specs().chain(COMMON.iter().filter(|_| self.sampling));
        let sampled = || params().find(|p| self.sampling && (p.name == name || p.aliases.contains(&name)));
        let found = own.copied().find(|f| f.name == name);
        found.or_else(|| sampled().map(|p| taken(p.name, p.doc)))
    }

    /// Every name that it knows.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let sampling = self.sampling;
        let sampled = params().flat_map(|p| std::iter::once(p.name).chain(p.aliases.iter().copied()));
        let common = COMMON.iter().map(|f| f.name).chain(sampled).filter(move |_| sampling);
        self.specs().map(|f| f.name).chain(common)
    }

    /// The known name that is most like `name`.
    pub fn nearest(&self, name: &str) -> &'static str {
        // No name is as long, and the comparison takes time by the length of both.
        let name = &name[..name.floor_char_boundary(LONGEST_NAME)];
        self.names().min_by_key(|known| strsim::damerau_levenshtein(known, name)).unwrap_or("")
    }
}
