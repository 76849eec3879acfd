//! Sampling parameters as data: what each is called, takes, allows and means; set and read by name.

use std::ops::RangeInclusive;

use super::value::{Kind, Value};
use super::{SAMPLERS, SampleError};

/// One sampler as the outside sees it.
#[derive(Debug)]
pub struct Info {
    /// Short name, as in llama.cpp's sampler lists.
    pub name: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
}

/// One parameter: an argument of `generate`, a flag of the command line.
#[derive(Debug)]
pub struct Param {
    /// Name of the argument.
    pub name: &'static str,
    /// Other names that users of llama.cpp, vLLM and transformers type.
    pub aliases: &'static [&'static str],
    /// What it takes.
    pub kind: Kind,
    /// The value it has when nobody sets it.
    pub default: fn() -> Value,
    /// Allowed numbers; for numbers by token id, of each of them; of no meaning for strings.
    pub range: RangeInclusive<f64>,
    /// What it means.
    pub doc: &'static str,
}

/// Every parameter, in the order of the chain.
pub fn params() -> impl Iterator<Item = &'static Param> {
    SAMPLERS.iter().flat_map(|s| s.params)
}

impl Param {
    /// The parameter of that name or alias; the error names the nearest known one.
    pub fn find(name: &str) -> Result<&'static Param, SampleError> {
        let known = |p: &&Param| p.name == name || p.aliases.contains(&name);
        params()
            .find(known)
            .ok_or_else(|| SampleError::UnknownParam { name: name.into(), nearest: nearest(name) })
    }

    /// Reads the value as the command line writes it: `0.8`, `none`, one string, or `ID=BIAS,ID=BIAS`.
    pub fn parse(&self, text: &str) -> Result<Value, SampleError> {
        let number = || match text.parse::<i64>() {
            Ok(v) => Some(Value::Int(v)),
            Err(_) => text.parse().ok().map(Value::Float),
        };
        let value = match self.kind {
            Kind::OptionalInt if text.eq_ignore_ascii_case("none") => Some(Value::None),
            Kind::Float | Kind::Int | Kind::OptionalInt => number(),
            Kind::Strings => Some(Value::Strings(vec![text.into()])),
            Kind::Biases => parse_biases(text),
        };
        value.ok_or_else(|| self.wrong_kind(&format!("{text:?}")))
    }

    /// Whether it is a switch: 0 or 1, which JSON and Python may write as false and true.
    pub fn is_switch(&self) -> bool {
        self.kind == Kind::Int && self.range == (0.0..=1.0)
    }

    /// Checks kind and range.
    pub fn check(&self, value: &Value) -> Result<(), SampleError> {
        match (self.kind, value) {
            (Kind::Float, _) if value.number().is_some() => self.check_range(self.name, value),
            (Kind::OptionalInt, Value::None) => Ok(()),
            (Kind::Int | Kind::OptionalInt, _) if value.whole().is_some() => {
                self.check_range(self.name, value)
            }
            (Kind::Strings, Value::Strings(_)) => Ok(()),
            (Kind::Biases, Value::Biases(map)) => map
                .iter()
                .try_for_each(|(id, &v)| self.check_range(&format!("{}[{id}]", self.name), &v.into())),
            _ => Err(self.wrong_kind(&value.to_string())),
        }
    }

    fn check_range(&self, name: &str, value: &Value) -> Result<(), SampleError> {
        if value.number().is_some_and(|v| self.range.contains(&v)) {
            return Ok(());
        }
        let (min, max) = (*self.range.start(), *self.range.end());
        Err(SampleError::OutOfRange { name: name.into(), given: value.to_string(), min, max })
    }

    pub(super) fn wrong_kind(&self, given: &str) -> SampleError {
        let expected = self.kind.to_string();
        SampleError::WrongKind { name: self.name.into(), expected, given: given.into() }
    }
}

fn nearest(name: &str) -> &'static str {
    let names = params().flat_map(|p| std::iter::once(p.name).chain(p.aliases.iter().copied()));
    names.min_by_key(|known| strsim::damerau_levenshtein(known, name)).unwrap_or("")
}

fn parse_biases(text: &str) -> Option<Value> {
    let pair = |item: &str| {
        let (id, bias) = item.split_once('=')?;
        Some((id.trim().parse().ok()?, bias.trim().parse().ok()?))
    };
    text.split(',').map(pair).collect::<Option<_>>().map(Value::Biases)
}

/// A struct of parameters that can be described, set and read by name. Written by [`group!`].
pub(super) trait Group {
    const INFO: Info;
    fn get(&self, name: &str) -> Option<Value>;
    /// `None`: no such parameter here, or a value that its type cannot hold.
    fn put(&mut self, name: &str, value: &Value) -> Option<()>;
}

/// Declares the parameters of one sampler: the struct, its defaults and its description come from the same lines,
/// `field: type = default, "name" | "alias", range`.
macro_rules! group {
    (
        $title:literal
        $(#[doc = $about:literal])+
        pub struct $group:ident {
            $(
                $(#[doc = $doc:literal])+
                $field:ident: $ty:ty = $default:expr, $name:literal $(| $alias:literal)*, $range:expr;
            )*
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, PartialEq)]
        pub struct $group {
            $($(#[doc = $doc])+ pub $field: $ty,)*
        }

        impl Default for $group {
            fn default() -> Self {
                Self { $($field: $default),* }
            }
        }

        impl $crate::params::Group for $group {
            const INFO: $crate::Info = $crate::Info {
                name: $title,
                doc: concat!($($about),+).trim_ascii(),
                params: &[$($crate::Param {
                    name: $name,
                    aliases: &[$($alias),*],
                    kind: <$ty as $crate::value::Field>::KIND,
                    default: || $crate::value::Field::to_value(&Self::default().$field),
                    range: $range,
                    doc: concat!($($doc),+).trim_ascii(),
                }),*],
            };

            fn get(&self, name: &str) -> Option<$crate::Value> {
                match name {
                    $($name => Some($crate::value::Field::to_value(&self.$field)),)*
                    _ => None,
                }
            }

            fn put(&mut self, name: &str, value: &$crate::Value) -> Option<()> {
                match name {
                    $($name => self.$field = $crate::value::Field::from_value(value)?,)*
                    _ => return None,
                }
                Some(())
            }
        }
    };
}
pub(super) use group;

/// Makes `SAMPLERS` and `SamplingParams` out of the list of samplers.
macro_rules! samplers {
    ($($field:ident: $group:ident,)*) => {
        /// Every sampler in the order of the chain, with its parameters.
        pub static SAMPLERS: &[Info] = &[$(<$group as params::Group>::INFO),*];

        /// How to choose tokens: one field per sampler, each with its parameters; or by name with
        /// [`set`](Self::set) and [`get`](Self::get). The defaults are llama.cpp's: temperature 0.8, top-k 40, top-p 0.95,
        /// min-p 0.05, all else off.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct SamplingParams {
            $(#[doc = concat!("Parameters of [`", stringify!($group), "`].")] pub $field: $group,)*
        }

        impl SamplingParams {
            /// Sets the parameter of that name or alias.
            pub fn set(&mut self, name: &str, value: impl Into<Value>) -> Result<(), SampleError> {
                let param = Param::find(name)?;
                let value = value.into();
                param.check(&value)?;
                let put = None $(.or_else(|| params::Group::put(&mut self.$field, param.name, &value)))*;
                put.ok_or_else(|| param.wrong_kind(&value.to_string()))
            }

            /// The value of the parameter of that name or alias.
            pub fn get(&self, name: &str) -> Result<Value, SampleError> {
                let param = Param::find(name)?;
                let got = None $(.or_else(|| params::Group::get(&self.$field, param.name)))*;
                Ok(got.unwrap_or(Value::None))
            }

            /// Checks every field against its range: fields can be written without [`set`](Self::set).
            pub fn check(&self) -> Result<(), SampleError> {
                params().try_for_each(|p| p.check(&self.get(p.name)?))
            }

            fn stages(&self, context: &Context) -> Result<Vec<chain::Stage>, SampleError> {
                Ok(vec![$(chain::Build::stage(&self.$field, context)?),*])
            }
        }
    };
}
pub(super) use samplers;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SamplingParams;
    use std::collections::{BTreeMap, HashSet};

    #[test]
    fn every_default_is_legal_and_survives_set_and_get() {
        let mut all = SamplingParams::default();
        for p in params() {
            let value = (p.default)();
            p.check(&value).unwrap();
            all.set(p.name, value.clone()).unwrap();
            assert_eq!(all.get(p.name).unwrap(), value, "{}", p.name);
            for alias in p.aliases {
                assert_eq!(all.get(alias).unwrap(), value);
            }
            assert!(p.doc.len() > 20 && !p.doc.starts_with(' '), "{}", p.name);
        }
        assert_eq!(all, SamplingParams::default());
        all.check().unwrap();
    }

    #[test]
    fn names_are_unique() {
        let mut seen = HashSet::new();
        for p in params() {
            for name in std::iter::once(&p.name).chain(p.aliases) {
                assert!(seen.insert(*name), "{name} twice");
            }
        }
    }

    #[test]
    fn the_names_users_type_are_there() {
        let names = "temperature top_k top_p min_p typical_p top_n_sigma repeat_penalty repetition_penalty repeat_last_n \
            presence_penalty frequency_penalty dry_multiplier dry_base dry_allowed_length dry_penalty_last_n \
            dry_sequence_breakers xtc_probability xtc_threshold mirostat mirostat_tau mirostat_eta dynatemp_range \
            dynatemp_exponent logit_bias seed min_keep logprobs post_sampling_probs";
        for name in names.split_whitespace() {
            Param::find(name).unwrap();
        }
    }

    #[test]
    fn every_number_is_held_inside_its_range() {
        for p in params().filter(|p| matches!(p.kind, Kind::Float | Kind::Int)) {
            for edge in [*p.range.start(), *p.range.end()] {
                SamplingParams::default().set(p.name, edge).unwrap();
            }
            for outside in [p.range.start() - 1.0, p.range.end() * 2.0 + 1.0, f64::NAN, f64::INFINITY] {
                let message = SamplingParams::default().set(p.name, outside).unwrap_err().to_string();
                assert!(message.contains(p.name), "{message}");
            }
        }
    }

    #[test]
    fn messages_name_parameter_value_and_range() {
        let mut p = SamplingParams::default();
        let message = p.set("top_p", 1.5).unwrap_err().to_string();
        assert_eq!(message, "sampling parameter top_p = 1.5 is out of range: give a value from 0 to 1");
        let message = p.set("top_k", 1.5).unwrap_err().to_string();
        assert_eq!(message, "sampling parameter top_k takes a whole number, but 1.5 was given");
        let message = p.set("temprature", 1.5).unwrap_err().to_string();
        assert_eq!(
            message,
            "there is no sampling parameter \"temprature\"; the nearest known one is \"temperature\""
        );
        let message = p.set("logit_bias", BTreeMap::from([(7, f32::NAN)])).unwrap_err().to_string();
        assert!(message.starts_with("sampling parameter logit_bias[7] = NaN is out of range"), "{message}");
        assert_eq!(p, SamplingParams::default(), "a refused value changes nothing");
    }

    #[test]
    fn an_unlawful_field_is_found_by_check() {
        let mut p = SamplingParams::default();
        p.top_p.p = -0.1;
        assert!(p.check().unwrap_err().to_string().contains("top_p = -0.1"));
    }

    #[test]
    fn text_is_read_by_kind() {
        let parse = |name: &str, text: &str| Param::find(name).unwrap().parse(text);
        assert_eq!(parse("top_k", "40").unwrap(), Value::Int(40));
        assert_eq!(parse("top_p", "0.5").unwrap(), Value::Float(0.5));
        assert_eq!(parse("seed", "none").unwrap(), Value::None);
        assert_eq!(parse("dry_sequence_breakers", ";").unwrap(), Value::Strings(vec![";".into()]));
        let biases = Value::Biases(BTreeMap::from([(15, -1.5), (2, f32::NEG_INFINITY)]));
        assert_eq!(parse("logit_bias", "15=-1.5, 2=-inf").unwrap(), biases);
        for (name, text) in
            [("top_k", "many"), ("logit_bias", "15"), ("logit_bias", ""), ("logit_bias", "-1=2")]
        {
            assert!(matches!(parse(name, text), Err(SampleError::WrongKind { .. })), "{name} {text}");
        }
    }

    #[test]
    fn minus_one_asks_for_a_random_seed() {
        let mut p = SamplingParams::default();
        p.set("seed", 7).unwrap();
        assert_eq!(p.draw.seed, Some(7));
        p.set("seed", -1).unwrap();
        assert_eq!(p.draw.seed, None);
    }
}
