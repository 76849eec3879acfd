//! What a call of a filter or method costs: a bound of what it will make before it, and a count of what it has made.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, Value};

use super::meter::{self, ITEM, exceeded};
use super::operators::items;
use super::size::{self, TreeSize};

/// Widths, counts and indentations of one call.
const LARGEST: u64 = 1 << 16;

/// What the arguments of a call come to, without looking into containers.
struct Arguments<'a> {
    values: &'a [Value],
    /// Bytes of the strings among them.
    bytes: usize,
    /// The longest of the strings.
    longest: usize,
    /// Items of the lists among them.
    items: usize,
    /// The largest of the integers, those of keywords included.
    largest: u64,
}

impl<'a> Arguments<'a> {
    fn new(values: &'a [Value]) -> Result<Arguments<'a>, Error> {
        let mut all = Arguments { values, bytes: 0, longest: 0, items: 0, largest: 0 };
        values.iter().try_for_each(|value| all.add(value))?;
        Ok(all)
    }

    fn add(&mut self, value: &Value) -> Result<(), Error> {
        meter::work(20)?;
        if let Some(text) = value.as_str() {
            self.bytes += text.len();
            self.longest = self.longest.max(text.len());
        } else if let Ok(number) = i64::try_from(value.clone()) {
            self.largest = self.largest.max(number.unsigned_abs());
        } else if let Ok(named) = Kwargs::try_from(value.clone()) {
            for name in named.args() {
                self.add(&named.get::<Value>(name)?)?;
            }
        } else {
            self.items = self.items.saturating_add(value.len().unwrap_or(0));
        }
        Ok(())
    }

    /// All of them as trees.
    fn measure(&self) -> Result<TreeSize, Error> {
        size::measure_all(self.values)
    }
}

/// Takes the work of a call of the filter or method `name`, and checks that what it may make is affordable. The
/// first argument is the value that it is applied to.
pub(super) fn before(name: &str, values: &[Value]) -> Result<(), Error> {
    let arguments = Arguments::new(values)?;
    meter::work(100 + arguments.bytes)?;
    match name {
        "join" => {
            let size = arguments.measure()?;
            let parts = size.nodes + values.first().and_then(Value::as_str).map_or(0, str::len);
            let mark = values.get(1).and_then(Value::as_str).map_or(0, str::len);
            meter::affordable(size.printed().saturating_add(parts.saturating_mul(mark)))
        }
        "replace" => replaced(values).and_then(meter::affordable),
        "indent" => {
            counted(arguments.largest)?;
            let lines = values.first().and_then(Value::as_str).map_or(0, |text| text.lines().count() + 1);
            let width = arguments.longest.min(values.get(1).and_then(Value::as_str).map_or(0, str::len));
            meter::affordable(arguments.bytes + lines * (arguments.largest as usize + width + 1))
        }
        "batch" | "slice" | "ljust" | "rjust" | "center" | "zfill" => {
            counted(arguments.largest)?;
            meter::affordable((arguments.items + arguments.bytes + arguments.largest as usize) * 4 * ITEM)
        }
        "format" => {
            let fields = field_count(values.first())?;
            let size = arguments.measure()?;
            meter::affordable(fields.saturating_mul(size.printed().saturating_add(LARGEST as usize)))
        }
        "string" => meter::affordable(arguments.measure()?.printed()),
        // A line for each value, indented by its depth.
        "pprint" => meter::affordable(arguments.measure()?.printed().saturating_mul(4 * meter::DEPTH)),
        "sort" | "unique" | "dictsort" | "groupby" | "min" | "max" | "matches" => {
            let size = arguments.measure()?;
            meter::work((size.nodes * 40 + size.bytes).saturating_mul(size.nodes.ilog2() as usize + 1) / 4)?;
            meter::affordable(size.nodes.saturating_mul(4 * ITEM))
        }
        "get" | "attr" => values.get(1).map_or(Ok(()), size::walkable),
        "sum" => {
            let size = arguments.measure()?;
            meter::affordable(size.printed().saturating_mul(arguments.items.max(1)))
        }
        "trim" | "strip" | "lstrip" | "rstrip" => {
            let text = values.first().and_then(Value::as_str).map_or(0, str::len);
            meter::work(text.saturating_mul(1 + arguments.bytes - text) / 4)
        }
        "list" | "split" | "rsplit" | "lines" | "splitlines" => {
            meter::affordable((arguments.bytes + arguments.items).saturating_mul(ITEM))
        }
        "chain" | "zip" | "items" | "reverse" => {
            meter::affordable((arguments.bytes + arguments.items).saturating_mul(2 * ITEM))
        }
        _ => meter::affordable(arguments.bytes.saturating_mul(6)),
    }
}

fn counted(number: u64) -> Result<(), Error> {
    match number <= LARGEST {
        true => Ok(()),
        false => Err(exceeded(format!("{number} is more than a width or count may be ({LARGEST})"))),
    }
}

/// The bytes of a text after `replace(old, new)`.
fn replaced(values: &[Value]) -> Result<usize, Error> {
    let [text, old, new, ..] = values else { return Ok(0) };
    let (text, old, new) = (size::text(text)?, size::text(old)?, size::text(new)?);
    meter::work(text.len())?;
    let times = if old.is_empty() { text.len() + 1 } else { text.matches(&*old).count() };
    meter::work(times.saturating_mul(25))?;
    Ok(text.len().saturating_add(times.saturating_mul(new.len())))
}

/// The places of a format string that take a value. A number among their digits may be a width, so none may be large.
fn field_count(format: Option<&Value>) -> Result<usize, Error> {
    let text = format.and_then(Value::as_str).unwrap_or_default();
    let mut depth = 0;
    let mut fields = 0;
    // Digits count from a mark to the next letter that is no part of a field.
    let mut number: Option<u64> = None;
    for c in text.chars() {
        match c {
            '%' => (fields, number) = (fields + 1, Some(0)),
            '{' => (fields, depth, number) = (fields + 1, depth + 1, Some(0)),
            '}' => (depth, number) = ((depth - 1i64).max(0), None),
            '0'..='9' => {
                let digit = u64::from(c) - u64::from('0');
                number = number.map(|number| number.saturating_mul(10).saturating_add(digit));
            }
            '*' if number.is_some() => return Err(exceeded("a format takes its width from a value")),
            '.' | ':' | '<' | '>' | '^' | '#' | '+' | '-' | ' ' => number = number.map(|_| 0),
            c if c.is_ascii_alphabetic() && depth == 0 => number = None,
            _ => number = number.map(|_| 0),
        }
        if number.is_some_and(|number| number > 4096) {
            return Err(exceeded("a format has a width above 4096"));
        }
    }
    Ok(fields)
}

/// Counts what a call has made. What is lazy becomes a list: a chain of lazy lists costs a stack frame for each.
pub(super) fn after(name: &str, value: Value) -> Result<Value, Error> {
    if let Some(text) = value.as_str() {
        meter::memory(text.len())?;
        return Ok(value);
    }
    // These hand out what there was.
    if matches!(name, "first" | "last" | "min" | "max" | "sum" | "get" | "attr" | "tojson") {
        return Ok(value);
    }
    match value.kind() {
        ValueKind::Iterable => {
            let made = items(&value)?;
            inner(name, &made)?;
            size::list(made)
        }
        ValueKind::Seq => {
            let made = items(&value)?;
            meter::memory(made.len() * ITEM)?;
            inner(name, &made)?;
            size::nested(&made)?;
            Ok(value)
        }
        _ => Ok(value),
    }
}

/// The lists within a list that a call has made with it.
fn inner(name: &str, made: &[Value]) -> Result<(), Error> {
    if !matches!(name, "batch" | "slice" | "groupby" | "items" | "zip" | "dictsort") {
        return Ok(());
    }
    made.iter().try_for_each(|item| meter::memory((1 + item.len().unwrap_or(0)) * ITEM))
}
