//! The web page: one document without a request to anywhere else. Its parts are put together once, and its security
//! policy admits exactly the style and the scripts that are in it.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

const SKELETON: &str = include_str!("index.html");
const STYLE: &str = include_str!("style.css");
/// In the order in which they need each other, libraries first.
const SCRIPTS: &[&str] = &[
    include_str!("vendor/marked.min.js"),
    include_str!("vendor/prism.min.js"),
    include_str!("vendor/katex.min.js"),
    include_str!("script/dom.js"),
    include_str!("script/syntax.js"),
    include_str!("script/formula.js"),
    include_str!("script/markdown.js"),
    include_str!("script/versions.js"),
    include_str!("script/pictures.js"),
    include_str!("script/store.js"),
    include_str!("script/client.js"),
    include_str!("script/params.js"),
    include_str!("script/greeting.js"),
    include_str!("script/message.js"),
    include_str!("script/answer.js"),
    include_str!("script/attachments.js"),
    include_str!("script/chat.js"),
    include_str!("script/engine.js"),
    include_str!("script/app.js"),
];

/// How many of them are libraries, each with a licence beside it in `vendor`.
#[cfg(test)]
const LIBRARIES: usize = 3;

/// The page and the policy that it must be sent with.
#[derive(Debug)]
pub struct WebPage {
    /// The whole document.
    pub html: String,
    /// Value of the header `content-security-policy`.
    pub policy: String,
}

/// The page inside the program.
pub fn embedded() -> &'static WebPage {
    static PAGE: LazyLock<WebPage> = LazyLock::new(assemble);
    &PAGE
}

fn assemble() -> WebPage {
    let scripts: String = SCRIPTS.iter().map(|s| format!("<script>{s}</script>\n")).collect();
    let html = SKELETON.replacen("<style></style>", &format!("<style>{STYLE}</style>"), 1).replacen(
        "<script></script>\n",
        &scripts,
        1,
    );
    WebPage { html, policy: policy() }
}

/// Nothing may be loaded or run but what is in the document; connections go to the server that sent it. No string can
/// become markup or code (trusted types), and no other site can frame the page.
fn policy() -> String {
    let scripts: Vec<_> = SCRIPTS.iter().map(|s| source(s)).collect();
    format!(
        "default-src 'none'; connect-src 'self'; img-src data:; style-src {}; script-src {}; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
        source(STYLE),
        scripts.join(" "),
    )
}

/// What a policy calls a block that stands in the document itself.
fn source(text: &str) -> String {
    format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_in_the_document_once() {
        let page = embedded();
        for part in SCRIPTS.iter().chain([&STYLE]) {
            assert_eq!(page.html.matches(part).count(), 1);
            assert!(page.policy.contains(&source(part)));
        }
        assert_eq!(page.html.matches("<script>").count(), SCRIPTS.len());
    }

    #[test]
    fn no_part_ends_its_element_or_asks_for_anything_outside() {
        for part in SCRIPTS.iter().chain([&STYLE]) {
            let lower = part.to_lowercase();
            assert!(!lower.contains("</script") && !lower.contains("</style") && !lower.contains("<script"));
        }
        for part in [SKELETON, STYLE].iter().chain(&SCRIPTS[LIBRARIES..]) {
            for outside in ["src=\"", "url(", "@import", "//cdn", "innerHTML", "eval(", "style=\""] {
                assert!(!part.contains(outside), "{outside}");
            }
        }
    }

    /// As browsers compute it: the base64 form of the digest of the text between the tags.
    #[test]
    fn a_source_is_the_digest_of_its_text() {
        assert_eq!(source(""), "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='");
    }
}
