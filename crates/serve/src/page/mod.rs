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
    include_str!("script/sounds.js"),
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

const TOP_SKELETON: &str = include_str!("top/index.html");
const TOP_STYLE: &str = include_str!("top/style.css");
const TOP_SCRIPTS: &[&str] = &[include_str!("top/top.js")];

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
    static PAGE: LazyLock<WebPage> = LazyLock::new(|| assembled(SKELETON, STYLE, SCRIPTS));
    &PAGE
}

/// The page that shows what a server does now.
pub fn top() -> &'static WebPage {
    static PAGE: LazyLock<WebPage> = LazyLock::new(|| assembled(TOP_SKELETON, TOP_STYLE, TOP_SCRIPTS));
    &PAGE
}

fn assembled(skeleton: &str, style: &str, scripts: &[&str]) -> WebPage {
    let blocks: String = scripts.iter().map(|s| format!("<script>{s}</script>\n")).collect();
    let html = skeleton.replacen("<style></style>", &format!("<style>{style}</style>"), 1).replacen(
        "<script></script>\n",
        &blocks,
        1,
    );
    WebPage { html, policy: policy(style, scripts) }
}

/// Nothing may be loaded or run but what is in the document; connections go to the server that sent it. No string can
/// become markup or code (trusted types), and no other site can frame the page.
fn policy(style: &str, scripts: &[&str]) -> String {
    let scripts: Vec<_> = scripts.iter().map(|s| source(s)).collect();
    format!(
        "default-src 'none'; connect-src 'self'; img-src data:; media-src data:; style-src {}; script-src {}; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
        source(style),
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
        for (page, style, scripts) in [(embedded(), STYLE, SCRIPTS), (top(), TOP_STYLE, TOP_SCRIPTS)] {
            for part in scripts.iter().chain([&style]) {
                assert_eq!(page.html.matches(part).count(), 1);
                assert!(page.policy.contains(&source(part)));
            }
            assert_eq!(page.html.matches("<script>").count(), scripts.len());
        }
    }

    #[test]
    fn no_part_ends_its_element_or_asks_for_anything_outside() {
        for part in SCRIPTS.iter().chain(TOP_SCRIPTS).chain([&STYLE, &TOP_STYLE]) {
            let lower = part.to_lowercase();
            assert!(!lower.contains("</script") && !lower.contains("</style") && !lower.contains("<script"));
        }
        let own = SCRIPTS[LIBRARIES..].iter().chain(TOP_SCRIPTS);
        for part in [SKELETON, STYLE, TOP_SKELETON, TOP_STYLE].iter().chain(own) {
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
