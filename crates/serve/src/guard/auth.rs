//! Keys.

use crate::{call::Caller, options::ServeOptions};
use http::{HeaderMap, header};
use sha2::{Digest, Sha256};
use std::{io, path::Path, sync::Arc};
use subtle::{Choice as Equal, ConditionallySelectable, ConstantTimeEq};

/// The keys that a server knows. Without any, all may ask.
#[derive(Debug, Clone, Default)]
pub struct KeyRing {
    keys: Vec<KnownKey>,
}

/// A key: its hash, and what its holder may.
#[derive(Debug, Clone)]
struct KnownKey {
    hash: [u8; 32],
    name: Arc<str>,
    share: f64,
    priority: i32,
    admin: bool,
}

impl KeyRing {
    /// The keys of the options, of the environment and of the key file. A lone key is that of who runs the server, and
    /// may do all; of several, only those that are said to.
    ///
    /// # Errors
    /// When a key is empty, or the file cannot be read or has a line that makes no sense; the key itself is never told.
    pub fn read(options: &ServeOptions) -> io::Result<KeyRing> {
        let env = std::env::var("LAMINA_API_KEY").ok().filter(|k| !k.is_empty());
        let given = options.api_key.iter().cloned().chain(env);
        let mut keys: Vec<KnownKey> = given.enumerate().map(|(i, key)| KnownKey::new(&key, i + 1)).collect();
        for (i, key) in options.admin_key.iter().enumerate() {
            keys.push(KnownKey {
                name: format!("admin-{}", i + 1).into(),
                admin: true,
                ..KnownKey::new(key, 0)
            });
        }
        if options.api_key.iter().chain(&options.admin_key).any(|key| key.trim().is_empty()) {
            let text = "a key is empty: give --api-key and --admin-key a text, or leave them out";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        if let Some(path) = &options.api_key_file {
            keys.extend(file(path)?);
        }
        if let [lone] = keys.as_mut_slice() {
            lone.admin = true;
        }
        Ok(KeyRing { keys })
    }

    /// True when nobody needs a key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The holder of a key. All keys are compared, each in constant time, as hashes: time tells neither how much of a
    /// key is right nor which one it is.
    pub fn holder(&self, key: &str) -> Option<Caller> {
        let hash: [u8; 32] = Sha256::digest(key.as_bytes()).into();
        let mut found = u64::MAX;
        for (i, known) in self.keys.iter().enumerate() {
            let same: Equal = known.hash.ct_eq(&hash);
            found.conditional_assign(&(i as u64), same);
        }
        let known = self.keys.get(usize::try_from(found).ok()?)?;
        Some(Caller {
            tenant: known.name.clone(),
            key: Some(known.name.clone()),
            share: known.share,
            priority: known.priority,
            admin: known.admin,
        })
    }
}

impl KnownKey {
    fn new(key: &str, number: usize) -> KnownKey {
        let hash = Sha256::digest(key.as_bytes()).into();
        KnownKey { hash, name: format!("key-{number}").into(), share: 1.0, priority: 0, admin: false }
    }

    /// `KEY [name] [share=N] [priority=N] [admin=yes]`.
    fn parse(line: &str, number: usize) -> Result<KnownKey, String> {
        let mut words = line.split_whitespace();
        let mut key = KnownKey::new(words.next().unwrap_or_default(), number);
        for word in words {
            match word.split_once('=') {
                Some(("share", n)) => {
                    let share = n.parse().ok().filter(|s: &f64| *s > 0.0 && s.is_finite());
                    key.share = share.ok_or("share must be a number above 0")?;
                }
                Some(("priority", n)) => {
                    let priority = n.parse().ok().filter(|p| (-100..=100).contains(p));
                    key.priority = priority.ok_or("priority must be from -100 to 100")?;
                }
                Some(("admin", "yes")) => key.admin = true,
                Some(_) => return Err("only share=, priority= and admin=yes are known".into()),
                None => key.name = word.into(),
            }
        }
        Ok(key)
    }
}

fn file(path: &Path) -> io::Result<Vec<KnownKey>> {
    let text = lamina::files::read_text(path).map_err(|e| {
        io::Error::new(e.kind(), format!("the key file {} cannot be read: {e}", path.display()))
    })?;
    let lines = text.lines().enumerate().map(|(i, line)| (i + 1, line.trim()));
    let keys = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    keys.map(|(number, line)| {
        KnownKey::parse(line, number).map_err(|what| {
            let text = format!("the key file {}, line {number}: {what}", path.display());
            io::Error::new(io::ErrorKind::InvalidData, text)
        })
    })
    .collect()
}

/// The key that a request brings.
pub fn key_of(headers: &HeaderMap) -> Option<&str> {
    let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
    let bearer = text(header::AUTHORIZATION.as_str()).and_then(|v| {
        let (scheme, key) = v.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    });
    bearer.or_else(|| text("x-api-key")).or_else(|| text("api-key"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn keys_have_names_shares_and_priorities() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("keys");
        fs::write(&path, "# people\nsecret-a alice share=2 priority=-5\n\nsecret-b\n").unwrap();
        let options = ServeOptions {
            api_key: vec!["c".into()],
            api_key_file: Some(path.clone()),
            ..Default::default()
        };
        let ring = KeyRing::read(&options).unwrap();
        let alice = ring.holder("secret-a").unwrap();
        assert_eq!((&*alice.tenant, alice.share, alice.priority), ("alice", 2.0, -5));
        assert_eq!(&*ring.holder("secret-b").unwrap().tenant, "key-4");
        assert_eq!(&*ring.holder("c").unwrap().tenant, "key-1");
        assert!(ring.holder("secret").is_none() && ring.holder("").is_none());
        fs::write(&path, "secret-a share=0\n").unwrap();
        let message = KeyRing::read(&options).unwrap_err().to_string();
        assert!(message.contains("line 1") && !message.contains("secret"), "{message}");
    }

    #[test]
    fn of_several_keys_only_those_that_may_change_the_server() {
        let ring = |api: &[&str], admin: &[&str]| {
            let [api_key, admin_key] =
                [api, admin].map(|keys| keys.iter().map(ToString::to_string).collect());
            KeyRing::read(&ServeOptions { api_key, admin_key, ..Default::default() })
        };
        let admin = |ring: &KeyRing, key: &str| ring.holder(key).unwrap().admin;
        let lone = ring(&["a"], &[]).unwrap();
        assert!(admin(&lone, "a"), "who runs the server for themselves");
        let several = ring(&["a", "b"], &[]).unwrap();
        assert!(!admin(&several, "a") && !admin(&several, "b"));
        let both = ring(&["a"], &["c"]).unwrap();
        assert!(!admin(&both, "a") && admin(&both, "c"));
        for (api, admin) in [(&[""][..], &[][..]), (&["a", " "], &[]), (&["a"], &[""])] {
            let error = ring(api, admin).unwrap_err().to_string();
            assert!(error.contains("a key is empty"), "{error}");
        }
        let (known, wrong) = (KnownKey::parse("k ann admin=yes", 1), KnownKey::parse("k admin=perhaps", 1));
        assert!(known.unwrap().admin && wrong.is_err());
    }

    #[test]
    fn keys_come_in_three_headers() {
        let key = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            key_of(&headers).map(str::to_owned)
        };
        assert_eq!(key("authorization", "Bearer k").as_deref(), Some("k"));
        assert_eq!(key("authorization", "bearer k").as_deref(), Some("k"));
        assert_eq!(key("authorization", "Basic k"), None);
        assert_eq!(key("x-api-key", "k").as_deref(), Some("k"));
        assert_eq!(key("api-key", "k").as_deref(), Some("k"));
    }
}
