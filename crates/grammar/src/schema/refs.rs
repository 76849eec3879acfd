//! Where a reference points: inside the document, never outside of it.

use std::collections::HashMap;

use serde_json::Value;

use super::keywords::step;

/// Places of a document that references can name.
pub(super) struct Index {
    /// JSON pointer of the schema that has this `$id`, resolved.
    resources: HashMap<String, String>,
    /// The same for (resource, `$anchor`).
    anchors: HashMap<(String, String), String>,
    dynamic: HashMap<String, usize>,
    /// `$id` of the schema at this pointer, resolved.
    bases: HashMap<String, String>,
}

/// Keywords whose value is a schema, a list of schemas, or a map of schemas.
const ONE: &[&str] = &[
    "additionalItems",
    "additionalProperties",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
const LIST: &[&str] = &["allOf", "anyOf", "items", "oneOf", "prefixItems"];
const MAP: &[&str] =
    &["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];

impl Index {
    pub fn new(root: &Value) -> Index {
        let mut index = Index {
            resources: HashMap::from([(String::new(), String::new())]),
            anchors: HashMap::new(),
            dynamic: HashMap::new(),
            bases: HashMap::new(),
        };
        let mut todo = vec![(root, String::new(), String::new())];
        while let Some((schema, path, base)) = todo.pop() {
            let Value::Object(map) = schema else { continue };
            let base = index.read_names(map, &path, base);
            let mut next = |value, path| todo.push((value, path, base.clone()));
            for (key, value) in map {
                let at = step(&path, key);
                match value {
                    Value::Array(list) if LIST.contains(&key.as_str()) => {
                        list.iter().enumerate().for_each(|(i, v)| next(v, step(&at, i)));
                    }
                    Value::Object(map) if MAP.contains(&key.as_str()) => {
                        map.iter().for_each(|(k, v)| next(v, step(&at, k)));
                    }
                    Value::Object(_) if ONE.contains(&key.as_str()) => next(value, at),
                    _ => {}
                }
            }
        }
        index
    }

    /// Records the names of one schema; the base of what is in it.
    fn read_names(&mut self, map: &serde_json::Map<String, Value>, path: &str, base: String) -> String {
        let text = |key: &str| map.get(key).and_then(Value::as_str);
        let mut base = base;
        if let Some(id) = text("$id").or(text("id").filter(|_| !map.contains_key("properties"))) {
            match id.strip_prefix('#') {
                // Older drafts wrote anchors so.
                Some(anchor) => {
                    self.anchors.insert((base.clone(), anchor.to_owned()), path.to_owned());
                }
                None => {
                    base = join(&base, id.trim_end_matches('#'));
                    self.resources.entry(base.clone()).or_insert_with(|| path.to_owned());
                    self.bases.insert(path.to_owned(), base.clone());
                }
            }
        }
        for key in ["$anchor", "$dynamicAnchor"] {
            if let Some(anchor) = text(key) {
                self.anchors.insert((base.clone(), anchor.to_owned()), path.to_owned());
            }
        }
        if let Some(anchor) = text("$dynamicAnchor") {
            *self.dynamic.entry(anchor.to_owned()).or_default() += 1;
        }
        base
    }

    /// The resolved `$id` of the schema at `path`, or of the nearest around it.
    pub fn base(&self, path: &str) -> &str {
        let mut path = path;
        loop {
            if let Some(base) = self.bases.get(path) {
                return base;
            }
            match path.rfind('/') {
                Some(cut) => path = &path[..cut],
                None => return "",
            }
        }
    }

    /// The JSON pointer that `reference`, written at `path`, stands for; None when it leads out of the document.
    pub fn resolve(&self, reference: &str, path: &str) -> Option<String> {
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let base = self.base(path);
        let resource = if uri.is_empty() { base.to_owned() } else { join(base, uri) };
        let fragment = percent_decoded(fragment)?;
        if fragment.is_empty() || fragment.starts_with('/') {
            return Some(format!("{}{fragment}", self.resources.get(&resource)?));
        }
        self.anchors.get(&(resource, fragment)).cloned()
    }

    /// Whether one schema only answers to this name, so that a dynamic reference is a plain one.
    pub fn is_static(&self, anchor: &str) -> bool {
        self.dynamic.get(anchor).is_none_or(|&count| count == 1)
    }

    /// Whether the document is one resource.
    pub fn is_single(&self) -> bool {
        self.bases.keys().all(String::is_empty)
    }
}

/// `reference` against `base`, as far as names of schemas go.
fn join(base: &str, reference: &str) -> String {
    let scheme = reference.split(['/', '?']).next().is_some_and(|first| first.contains(':'));
    if scheme || base.is_empty() {
        return reference.to_owned();
    }
    let authority = base.find("://").map_or(0, |at| at + 3);
    let path = base[authority..].find('/').map_or(base.len(), |at| authority + at);
    if reference.starts_with('/') {
        return format!("{}{reference}", &base[..path]);
    }
    let folder = base[path..].rfind('/').map_or(base.len(), |at| path + at);
    format!("{}/{}", &base[..folder], reference.trim_start_matches("./"))
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits = [bytes.next()?, bytes.next()?];
        out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    String::from_utf8(out).ok()
}
