//! Where the hub and its cache are: the environment variables of the hub's own client.

use lamina_base::files::read_regular;
use std::{
    env,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};

/// Where models are fetched from if nobody names another place.
const ENDPOINT: &str = "https://huggingface.co";
/// Most bytes of a file with a token.
const MOST_TOKEN: u64 = 64 << 10;
/// Words that mean yes in variables of the hub's client.
const YES: &[&str] = &["1", "on", "yes", "true"];

/// Who wants that nothing is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfflineBy {
    /// `HF_HUB_OFFLINE`.
    Variable,
    /// Whoever calls: `--offline`, `offline=True`.
    Caller,
}

impl OfflineBy {
    /// In messages.
    pub fn why(self) -> &'static str {
        match self {
            OfflineBy::Variable => "HF_HUB_OFFLINE is set",
            OfflineBy::Caller => "nothing is fetched: offline was asked for",
        }
    }
}

/// Where the hub and its cache are, and who asks.
#[derive(Clone, PartialEq)]
pub struct HubSettings {
    /// Folder of the cache.
    pub cache: PathBuf,
    /// Address of the hub or a mirror of it, without a slash at its end.
    pub endpoint: String,
    /// Who asks; a secret.
    pub token: Option<String>,
    /// Where `lamina login` keeps a token.
    pub token_file: PathBuf,
    /// Who wants that nothing is fetched; none: what is not here is.
    pub offline: Option<OfflineBy>,
    /// Folder of what was fetched by its address.
    pub urls: PathBuf,
}

impl HubSettings {
    /// Those of the environment as it is now: `HF_HUB_CACHE`, `HF_HOME`, `HF_ENDPOINT`, `HF_TOKEN`, `HF_TOKEN_PATH`,
    /// `HF_HUB_OFFLINE`.
    pub fn of_the_environment() -> HubSettings {
        HubSettings::from(|name| env::var_os(name))
    }

    fn from(variable: impl Fn(&str) -> Option<OsString>) -> HubSettings {
        let named = |name: &str| variable(name).filter(|value| !value.is_empty());
        let text = |name: &str| named(name)?.into_string().ok().map(|text| text.trim().to_owned());
        let path = |name: &str| named(name).map(PathBuf::from);
        let user = path("XDG_CACHE_HOME").or_else(|| Some(home(named)?.join(".cache")));
        let home = path("HF_HOME").unwrap_or_else(|| user.unwrap_or_else(env::temp_dir).join("huggingface"));
        let cache = path("HF_HUB_CACHE").or_else(|| path("HUGGINGFACE_HUB_CACHE"));
        let token_file = path("HF_TOKEN_PATH").unwrap_or_else(|| home.join("token"));
        let token = text("HF_TOKEN").or_else(|| text("HUGGING_FACE_HUB_TOKEN"));
        let offline = text("HF_HUB_OFFLINE").is_some_and(|v| YES.contains(&v.to_ascii_lowercase().as_str()));
        HubSettings {
            cache: cache.unwrap_or_else(|| home.join("hub")),
            endpoint: text("HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.into()).trim_end_matches('/').to_owned(),
            token: token.filter(|t| !t.is_empty()).or_else(|| kept_token(&token_file)),
            token_file,
            offline: offline.then_some(OfflineBy::Variable),
            urls: lamina_disk::cache_folder().join("urls"),
        }
    }
}

/// Without the token.
impl fmt::Debug for HubSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HubSettings { cache, endpoint, offline, .. } = self;
        write!(f, "HubSettings({endpoint}, {}, offline: {offline:?})", cache.display())
    }
}

/// The home folder of the user.
pub fn home(named: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    named("HOME").or_else(|| named("USERPROFILE")).map(PathBuf::from)
}

fn kept_token(file: &Path) -> Option<String> {
    let text = String::from_utf8(read_regular(file, MOST_TOKEN).ok()?).ok()?;
    Some(text.trim().to_owned()).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(set: &[(&str, &str)]) -> HubSettings {
        HubSettings::from(|name| set.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn folders_are_those_of_the_hubs_own_client() {
        for (set, cache) in [
            (vec![("HOME", "/u")], "/u/.cache/huggingface/hub"),
            (vec![("HOME", "/u"), ("XDG_CACHE_HOME", "/x")], "/x/huggingface/hub"),
            (vec![("HOME", "/u"), ("HF_HOME", "/h")], "/h/hub"),
            (vec![("HF_HOME", "/h"), ("HF_HUB_CACHE", "/c")], "/c"),
        ] {
            assert_eq!(settings(&set).cache, Path::new(cache), "{set:?}");
        }
    }

    #[test]
    fn mirrors_and_offline_are_words_of_the_environment() {
        let found = settings(&[("HF_ENDPOINT", "http://mirror.test/"), ("HF_HUB_OFFLINE", "True")]);
        assert_eq!(
            (found.endpoint.as_str(), found.offline),
            ("http://mirror.test", Some(OfflineBy::Variable))
        );
        assert_eq!(settings(&[("HF_HUB_OFFLINE", "0")]).offline, None);
    }

    #[test]
    fn a_token_comes_from_the_environment_or_its_file_and_is_not_shown() {
        let dir = tempfile::TempDir::new().expect("a folder");
        let home = dir.path().to_str().expect("text");
        std::fs::write(dir.path().join("token"), "hf_file\n").expect("written");
        assert_eq!(settings(&[("HF_HOME", home)]).token.as_deref(), Some("hf_file"));
        let both = settings(&[("HF_HOME", home), ("HF_TOKEN", " hf_word ")]);
        assert_eq!(both.token.as_deref(), Some("hf_word"));
        assert!(!format!("{both:?}").contains("hf_word"));
    }
}
