//! `{% generation %}` of transformers marks the assistant's part of a training text. For a prompt its body is
//! rendered as it is, so the tag becomes a plain block, with its white-space marks kept.

/// `source` with every `generation` tag replaced.
pub(super) fn rewrite(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(open) = rest.find("{%") {
        let Some(close) = rest[open..].find("%}") else { break };
        let inner = &rest[open + 2..open + close];
        let (left, name, right) = marks(inner);
        let tag = match name {
            "generation" => "with",
            "endgeneration" => "endwith",
            _ => {
                out.push_str(&rest[..open + 2]);
                rest = &rest[open + 2..];
                continue;
            }
        };
        out.push_str(&rest[..open]);
        out.push_str(&format!("{{%{left} {tag} {right}%}}"));
        rest = &rest[open + close + 2..];
    }
    out.push_str(rest);
    out
}

/// The inside of a tag: its left mark, its content, its right mark.
fn marks(inner: &str) -> (&str, &str, &str) {
    let is_mark = |c: char| matches!(c, '-' | '+');
    let left = &inner[..usize::from(inner.starts_with(is_mark))];
    let rest = &inner[left.len()..];
    let right = &rest[rest.len() - usize::from(rest.ends_with(is_mark))..];
    (left, rest[..rest.len() - right.len()].trim(), right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_generation_tags_change() {
        let source = "{% if generation %}{%- generation -%}x{% endgeneration%}{% endif %}{% raw";
        let expected = "{% if generation %}{%- with -%}x{% endwith %}{% endif %}{% raw";
        assert_eq!(rewrite(source), expected);
    }
}
