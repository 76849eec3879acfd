//! Lists of options: a struct, its defaults, the description of each option and the reading of its text come from the same
//! lines. The command line, the server and Python are derived from the descriptions.

pub use lamina_planner::BadValue;
use std::{ffi::OsStr, num::NonZeroUsize, path::PathBuf};

/// One option as the outside sees it.
#[derive(Debug)]
pub struct OptionSpec {
    /// Name, as Python and files write it; the command line has dashes for underscores.
    pub name: &'static str,
    /// Its letter on the command line, or letters.
    pub letters: Option<&'static str>,
    /// Names that users of other programs type.
    pub aliases: &'static [&'static str],
    /// What stands for its value in help.
    pub value: &'static str,
    /// What it takes.
    pub kind: OptionKind,
    /// The smallest of whole numbers.
    pub least: usize,
    /// The option without which it says nothing, for the command line.
    pub needs: Option<&'static str>,
    /// The option that contradicts it, for the command line.
    pub against: Option<&'static str>,
    /// Who has it; of the options of a server, nobody else.
    pub surfaces: &'static [Surface],
    /// Heading in help.
    pub heading: &'static str,
    /// What it means.
    pub doc: &'static str,
}

/// What an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionKind {
    /// Nothing: it is given or not.
    Flag,
    /// A text with a form of its own. The last one counts, as of all that follow.
    Text,
    /// Such texts; every one counts.
    Texts,
    /// A whole number.
    Whole,
    /// A number.
    Number,
    /// A whole number and a number.
    Pair,
    /// Bytes.
    Bytes,
    /// A whole number, as of bytes, or a text such as `80%`.
    Count,
    /// A path.
    Path,
}

/// Who has an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surface {
    /// Commands that answer, and those that tell or measure how fast they would.
    Answer,
    /// The command that scores a text: nothing is drafted, preempted or kept.
    Score,
    /// Each model of a server.
    Model,
    /// A server, for all its models.
    Server,
    /// Python: an argument of `LLM`, or a field of `Policy`.
    Python,
    /// The command that computes layers for a process on another machine.
    Rank,
}

/// An option that does not exist, or a value that it does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// No such option.
    #[error("there is no option `{name}`; the nearest known one is `{nearest}`")]
    Unknown {
        /// As given.
        name: String,
        /// What may have been meant.
        nearest: &'static str,
    },
    /// A wrong value.
    #[error("{name} is {value:?}, but {why}")]
    Value {
        /// The option.
        name: &'static str,
        /// As given.
        value: String,
        /// What would work.
        why: BadValue,
    },
}

impl OptionSpec {
    /// The option of that name or alias among `all`; dashes stand for underscores.
    ///
    /// # Errors
    /// When there is none; the error names the nearest one.
    pub fn find(
        all: impl Iterator<Item = &'static OptionSpec> + Clone,
        name: &str,
    ) -> Result<&'static OptionSpec, OptionError> {
        let canonical = name.replace('-', "_");
        let known = |s: &&OptionSpec| s.name == canonical || s.aliases.contains(&canonical.as_str());
        let distance = |s: &&OptionSpec| strsim::damerau_levenshtein(s.name, &canonical);
        let nearest = || all.clone().min_by_key(distance).map_or("", |s| s.name);
        let unknown = || OptionError::Unknown { name: name.into(), nearest: nearest() };
        all.clone().find(known).ok_or_else(unknown)
    }

    /// Reads its value from `text` into `place`.
    ///
    /// # Errors
    /// When it does not take the value.
    pub fn put(&self, place: &mut impl Setting, text: &OsStr) -> Result<(), OptionError> {
        let enough = || text.to_str()?.parse().ok().filter(|number| self.least <= *number);
        let done = match self.least {
            least @ 1.. if enough().is_none() => {
                Err(BadValue::must_be(&format!("a whole number from {least}")))
            }
            _ => place.put(text),
        };
        let value = || text.to_string_lossy().into_owned();
        done.map_err(|why| OptionError::Value { name: self.name, value: value(), why })
    }
}

/// A value that is read from text.
pub trait Setting: Sized {
    /// What it is.
    const KIND: OptionKind;

    /// Reads one.
    ///
    /// # Errors
    /// When the text is none; the error says what would be one.
    fn read(text: &OsStr) -> Result<Self, BadValue>;

    /// Takes one that was given: the last one counts, or a list grows.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    fn put(&mut self, text: &OsStr) -> Result<(), BadValue> {
        *self = Self::read(text)?;
        Ok(())
    }
}

impl<T: Setting> Setting for Option<T> {
    const KIND: OptionKind = T::KIND;

    fn read(text: &OsStr) -> Result<Self, BadValue> {
        T::read(text).map(Some)
    }
}

impl<T: Setting> Setting for Vec<T> {
    const KIND: OptionKind = OptionKind::Texts;

    fn read(text: &OsStr) -> Result<Self, BadValue> {
        Ok(vec![T::read(text)?])
    }

    fn put(&mut self, text: &OsStr) -> Result<(), BadValue> {
        self.push(T::read(text)?);
        Ok(())
    }
}

impl Setting for PathBuf {
    const KIND: OptionKind = OptionKind::Path;

    fn read(text: &OsStr) -> Result<Self, BadValue> {
        Ok(text.into())
    }
}

/// Makes settings of types that are Unicode text: `type: kind`, where [`FromStr`](std::str::FromStr) has an error that ends
/// the sentence of [`BadValue`], or `type: kind = reader, "what it must be"`.
#[macro_export]
macro_rules! read_settings {
    ($($ty:ty: $kind:ident $(= $read:expr, $want:literal)?;)*) => {
        $(impl $crate::Setting for $ty {
            const KIND: $crate::OptionKind = $crate::OptionKind::$kind;

            fn read(text: &std::ffi::OsStr) -> Result<Self, $crate::BadValue> {
                let text = text.to_str().ok_or_else(|| $crate::BadValue::must_be("Unicode text"))?;
                $crate::read_settings!(@ text, $ty $(, $read, $want)?)
            }
        })*
    };
    (@ $text:ident, $ty:ty) => {
        $text.parse::<$ty>().map_err(|e| $crate::BadValue(e.to_string().into()))
    };
    (@ $text:ident, $ty:ty, $read:expr, $want:literal) => {
        Some($text).and_then($read).ok_or_else(|| $crate::BadValue::must_be($want))
    };
}

read_settings! {
    bool: Flag = |text| text.parse().ok(), "true or false";
    String: Text;
    u16: Whole = |text| text.parse().ok(), "a whole number from 0 to 65535";
    usize: Whole = |text| text.parse().ok(), "a whole number";
    Option<NonZeroUsize>: Whole = |text| text.parse().ok().map(NonZeroUsize::new), "a whole number";
    f64: Number = |text| text.parse().ok(), "a number";
}

/// Makes a struct, its defaults, its list of options and their setter out of the same lines,
/// `name: type = default, "VALUE" | "alias" {letters "x", from least, needs "other", against "other", on surfaces};`. The
/// values of `parts` lie in a field of another name; what follows `+` is no option.
#[macro_export]
macro_rules! settings {
    ($(#[$about:meta])+ pub struct $group:ident {
        $($heading:literal {
            $($(#[doc = $doc:literal])+ $name:ident: $ty:ty = $default:expr, $value:literal $(| $alias:literal)* $({$($more:tt)*})?;)*
        })*
        $(parts $part_heading:literal {
            $($(#[doc = $part_doc:literal])+ $part:ident: $part_ty:ty = $outer:ident.$inner:ident,
                $part_value:literal $(| $part_alias:literal)* {$($part_more:tt)*};)*
        })?
        $(+ $(#[doc = $rest:literal])+ $other:ident: $other_ty:ty = $other_default:expr,)*
    }) => {
        $(#[$about])+
        pub struct $group {
            $($($(#[doc = $doc])+ pub $name: $ty,)*)*
            $($(#[doc = $rest])+ pub $other: $other_ty,)*
        }

        impl Default for $group {
            fn default() -> Self {
                $group { $($($name: $default,)*)* $($other: $other_default,)* }
            }
        }

        impl $group {
            /// Every option, in the order of the help.
            pub const SPECS: &[$crate::OptionSpec] = &[
                $($($crate::settings!(
                    @ $heading $name $ty, $value [$($alias),*] [$($doc),+] $({$($more)*})? {on &[]}
                ),)*)*
                $($($crate::settings!(
                    @ $part_heading $part $part_ty, $part_value [$($part_alias),*] [$($part_doc),+] {$($part_more)*}
                ),)*)?
            ];

            /// Sets an option from its text; one that may be given often grows. None: it is not one of these.
            pub fn set(
                &mut self,
                spec: &$crate::OptionSpec,
                text: &std::ffi::OsStr,
            ) -> Option<Result<(), $crate::OptionError>> {
                Some(match spec.name {
                    $($(stringify!($name) => spec.put(&mut self.$name, text),)*)*
                    $($(stringify!($part) => spec.put(&mut self.$outer.$inner, text),)*)?
                    _ => return None,
                })
            }
        }
    };
    (@ $heading:literal $name:ident $ty:ty, $value:literal [$($alias:literal),*] [$($doc:literal),+]
        {$(letters $letters:literal,)? $(from $least:literal,)? $(needs $needs:literal,)? $(against $against:literal,)?
            on $surfaces:expr} $($default:tt)?
    ) => {
        $crate::OptionSpec {
            name: stringify!($name),
            letters: $crate::settings!(@or None $(, Some($letters))?),
            aliases: &[$($alias),*],
            value: $value,
            kind: <$ty as $crate::Setting>::KIND,
            least: $crate::settings!(@or 0 $(, $least)?),
            needs: $crate::settings!(@or None $(, Some($needs))?),
            against: $crate::settings!(@or None $(, Some($against))?),
            surfaces: $surfaces,
            heading: $heading,
            doc: concat!($($doc),+).trim_ascii(),
        }
    };
    (@or $default:expr) => { $default };
    (@or $default:expr, $given:expr) => { $given };
}
