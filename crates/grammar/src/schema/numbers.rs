//! Numbers in schemas: the library counts in 64-bit floats and writes bounds as digits.

use serde_json::{Map, Number, Value};

use super::keywords::step;
use crate::error::{GrammarError, Result};

/// Whole numbers up to here are exact.
const EXACT: f64 = 9_007_199_254_740_992.0;
/// Smaller numbers would take hundreds of digits.
const TINY: f64 = 1e-15;

/// A number that the library holds exactly.
///
/// # Errors
/// When it would be rounded, or is out of range.
pub(super) fn exact(number: &Number, keyword: &str, path: &str) -> Result<f64> {
    let refused = |why: &str| Err(GrammarError::refused(keyword, path, format!("{number} {why}")));
    let Some(value) = number.as_f64().filter(|v| v.is_finite()) else {
        return refused("is out of range");
    };
    if value.abs() >= EXACT {
        return refused("is too large to be enforced exactly: stay below 2^53");
    }
    if value != 0.0 && value.abs() < TINY {
        return refused("is too small to be enforced exactly");
    }
    Ok(value)
}

/// The bounds of `map`, exclusive ones as numbers, whatever the draft.
pub(super) fn bounds(map: &Map<String, Value>, path: &str) -> Result<Vec<(&'static str, Value)>> {
    let mut out = Vec::new();
    for (inclusive, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        let plain = bound(map, inclusive, path)?;
        match map.get(exclusive) {
            Some(Value::Bool(true)) => out.extend(plain.map(|value| (exclusive, value))),
            Some(Value::Bool(false)) => out.extend(plain.map(|value| (inclusive, value))),
            _ => {
                out.extend(plain.map(|value| (inclusive, value)));
                out.extend(bound(map, exclusive, path)?.map(|value| (exclusive, value)));
            }
        }
    }
    Ok(out)
}

fn bound(map: &Map<String, Value>, keyword: &str, path: &str) -> Result<Option<Value>> {
    match map.get(keyword) {
        None => Ok(None),
        Some(Value::Number(n)) => exact(n, keyword, path).map(|_| Some(Value::Number(n.clone()))),
        Some(_) => Err(GrammarError::schema(step(path, keyword), "must be a number")),
    }
}

/// The divisors of a whole schema. The library takes common multiples in 32 bits and does not look for overflow.
#[derive(Default)]
pub(super) struct Divisors(Vec<(u64, u32)>);

impl Divisors {
    /// One more `multipleOf`.
    pub fn add(&mut self, value: &Value, path: &str) -> Result<()> {
        let Value::Number(number) = value else {
            return Err(GrammarError::schema(step(path, "multipleOf"), "must be a number"));
        };
        if exact(number, "multipleOf", path)? <= 0.0 {
            return Err(GrammarError::schema(step(path, "multipleOf"), "must be greater than 0"));
        }
        let decimal = decimal(&number.to_string()).filter(|(digits, _)| *digits <= u64::from(u32::MAX));
        let refused = || GrammarError::refused("multipleOf", path, format!("{number} has too many digits"));
        self.0.push(decimal.ok_or_else(refused)?);
        let many = || {
            GrammarError::refused(
                "multipleOf",
                path,
                "the numbers of this schema have too large a common multiple",
            )
        };
        self.fits().then_some(()).ok_or_else(many)
    }

    /// Whether every product that the library may form stays in 32 bits.
    fn fits(&self) -> bool {
        let [_, _, ..] = self.0.as_slice() else { return true };
        let places = self.0.iter().map(|d| d.1).max().unwrap_or(0);
        let scaled: Option<Vec<u64>> =
            self.0.iter().map(|&(digits, p)| digits.checked_mul(10u64.checked_pow(places - p)?)).collect();
        let Some(scaled) = scaled else { return false };
        let common = scaled.iter().try_fold(1u64, |a, &b| (a / gcd(a, b)).checked_mul(b));
        let largest = scaled.iter().copied().max().unwrap_or(1);
        common.and_then(|c| c.checked_mul(largest)).is_some_and(|product| product <= u64::from(u32::MAX))
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Digits and decimal places.
fn decimal(text: &str) -> Option<(u64, u32)> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits: u64 = format!("{whole}{fraction}").parse().ok()?;
    let places = fraction.len() as i32 - exponent.parse::<i32>().ok()?;
    match u32::try_from(places) {
        Ok(places) => Some((digits, places)),
        Err(_) => digits.checked_mul(10u64.checked_pow(places.unsigned_abs())?).map(|d| (d, 0)),
    }
}
