//! Filters, tests and functions that a template may call. Each is the engine's own, called between a bound of what it
//! will make and a count of what it has made ([`super::guard`]).

use minijinja::value::{Rest, ValueOrKwargs};
use minijinja::{Environment, Error, State, Value, filters};

use super::guard::{after, before};
use super::meter::{self, ITEM};
use super::{namespace, python, size};

/// Registers every filter and function that a template may call.
pub(super) fn add_to(environment: &mut Environment<'static>) {
    for (name, filter) in guarded_filters() {
        environment.add_filter(name, move |state: &mut State, arguments: Rest<ValueOrKwargs>| {
            let arguments = arguments.into_values();
            before(name, &arguments)?;
            after(name, filter.call(state, &arguments)?)
        });
    }
    for (name, test) in [
        ("lower", Value::from_function(minijinja::tests::is_lower)),
        ("upper", Value::from_function(minijinja::tests::is_upper)),
        ("startingwith", Value::from_function(minijinja::tests::is_startingwith)),
        ("endingwith", Value::from_function(minijinja::tests::is_endingwith)),
    ] {
        environment.add_test(name, move |state: &mut State, arguments: Rest<Value>| {
            before(name, &arguments)?;
            Ok::<bool, Error>(test.call(state, &arguments)?.is_true())
        });
    }
    // `debug()` prints all variables, `pprint` is its filter.
    environment.remove_global("debug");
    environment.add_function("namespace", namespace::namespace);
    for (name, function) in [
        ("cycler", Value::from_function(minijinja_contrib::globals::cycler)),
        ("joiner", Value::from_function(minijinja_contrib::globals::joiner)),
        ("dict", Value::from_function(minijinja::functions::dict)),
    ] {
        environment.add_function(name, move |state: &mut State, arguments: Rest<ValueOrKwargs>| {
            let arguments = arguments.into_values();
            size::nested(&arguments)?;
            meter::memory(size::measure_all(&arguments)?.nodes.saturating_mul(ITEM))?;
            function.call(state, &arguments)
        });
    }
}

fn guarded_filters() -> Vec<(&'static str, Value)> {
    use minijinja_contrib::filters as contrib;
    let mut all = vec![
        ("safe", Value::from_function(filters::safe)),
        ("capitalize", Value::from_function(filters::capitalize)),
        ("title", Value::from_function(filters::title)),
        ("lower", Value::from_function(filters::lower)),
        ("upper", Value::from_function(filters::upper)),
        ("trim", Value::from_function(filters::trim)),
        ("join", Value::from_function(filters::join)),
        ("split", Value::from_function(filters::split)),
        ("lines", Value::from_function(filters::lines)),
        ("indent", Value::from_function(filters::indent)),
        ("format", Value::from_function(filters::format)),
        ("string", Value::from_function(filters::string)),
        ("pprint", Value::from_function(filters::pprint)),
        ("replace", Value::from_function(python::replace)),
        ("list", Value::from_function(filters::list)),
        ("reverse", Value::from_function(filters::reverse)),
        ("sort", Value::from_function(filters::sort)),
        ("unique", Value::from_function(filters::unique)),
        ("dictsort", Value::from_function(filters::dictsort)),
        ("groupby", Value::from_function(filters::groupby)),
        ("items", Value::from_function(filters::items)),
        ("batch", Value::from_function(filters::batch)),
        ("slice", Value::from_function(filters::slice)),
        ("chain", Value::from_function(filters::chain)),
        ("zip", Value::from_function(filters::zip)),
        ("sum", Value::from_function(filters::sum)),
        ("min", Value::from_function(filters::min)),
        ("max", Value::from_function(filters::max)),
        ("attr", Value::from_function(filters::attr)),
        ("length", Value::from_function(filters::length)),
        ("count", Value::from_function(filters::length)),
        ("first", Value::from_function(filters::first)),
        ("last", Value::from_function(filters::last)),
        ("int", Value::from_function(python::int)),
        ("float", Value::from_function(python::to_float)),
        ("map", Value::from_function(filters::map)),
        ("select", Value::from_function(filters::select)),
        ("reject", Value::from_function(filters::reject)),
        ("selectattr", Value::from_function(filters::selectattr)),
        ("rejectattr", Value::from_function(filters::rejectattr)),
        ("pluralize", Value::from_function(contrib::pluralize)),
        ("filesizeformat", Value::from_function(contrib::filesizeformat)),
        ("truncate", Value::from_function(contrib::truncate)),
        ("striptags", Value::from_function(contrib::striptags)),
    ];
    let escape = Value::from_function(filters::escape);
    all.extend([("escape", escape.clone()), ("e", escape)]);
    all
}
