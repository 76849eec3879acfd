//! Answers as models write them: each format by hand, beside the data that the parser goes by.

use serde_json::{Value, json};

use super::Call;

/// How each format writes calls. None where it cannot have so many.
pub fn write(format: &str, calls: &[Call]) -> Option<String> {
    let each = |between: &str, one: &dyn Fn(usize, &Call) -> String| {
        calls.iter().enumerate().map(|(i, call)| one(i, call)).collect::<Vec<_>>().join(between)
    };
    let objects =
        |name: &str, arguments: &str| each(", ", &|_, (n, a)| python(&json!({ name: n, arguments: a })));
    let only = |text: String| (calls.len() == 1).then_some(text);
    let list = objects("name", "arguments");
    Some(match format {
        "hermes" | "ernie-4.5" => each("\n", &|_, (n, a)| {
            format!("<tool_call>\n{}\n</tool_call>", python(&json!({ "name": n, "arguments": a })))
        }),
        "llama3" => each("; ", &|_, (n, a)| python(&json!({ "name": n, "parameters": a }))),
        "mistral" => {
            let all = each(", ", &|i, (n, a)| {
                python(&json!({ "name": n, "arguments": a, "id": format!("abcDEF{i:03}") }))
            });
            format!("[TOOL_CALLS][{all}]")
        }
        "mistral-args" => each("", &|_, (n, a)| format!("[TOOL_CALLS]{n}[ARGS]{}", python(a))),
        "deepseek-v3" => format!(
            "<｜tool▁calls▁begin｜>{}<｜tool▁calls▁end｜>",
            each("\n", &|_, (n, a)| format!(
                "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{n}\n```json\n{}\n```<｜tool▁call▁end｜>",
                python(a)
            ))
        ),
        "deepseek-v3.1" => format!(
            "<｜tool▁calls▁begin｜>{}<｜tool▁calls▁end｜>",
            each("", &|_, (n, a)| format!(
                "<｜tool▁call▁begin｜>{n}<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
                python(a)
            ))
        ),
        "deepseek-v3.2" => dsml("function_calls", calls),
        "deepseek-v4" => dsml("tool_calls", calls),
        "qwen3-coder" => each("\n", &|_, (n, a)| {
            let all = pairs(a, |k, v| format!("<parameter={k}>\n{v}\n</parameter>\n"));
            format!("<tool_call>\n<function={n}>\n{all}</function>\n</tool_call>")
        }),
        "seed-oss" => each("\n", &|_, (n, a)| {
            let all = pairs(a, |k, v| format!("<parameter={k}>{v}</parameter>\n"));
            format!("<seed:tool_call>\n<function={n}>\n{all}</function>\n</seed:tool_call>")
        }),
        "harmony" => each("<|start|>assistant", &|_, (n, a)| {
            let a = python(a);
            format!("<|channel|>commentary to=functions.{n} <|constrain|>json<|message|>{a}<|call|>")
        }),
        "kimi-k2" => format!(
            "<|tool_calls_section_begin|>{}<|tool_calls_section_end|>",
            each("", &|i, (n, a)| format!(
                "<|tool_call_begin|>functions.{n}:{i}<|tool_call_argument_begin|>{}<|tool_call_end|>",
                python(a)
            ))
        ),
        "kimi-k3" => format!(
            "<|open|>tools<|sep|>{}<|close|>tools<|sep|>",
            each("", &|i, (n, a)| {
                let all = typed_pairs(a, |k, v, t| {
                    format!("<|open|>argument key=\"{k}\" type=\"{t}\"<|sep|>{v}<|close|>argument<|sep|>")
                });
                format!("<|open|>call tool=\"{n}\" index=\"{}\"<|sep|>{all}<|close|>call<|sep|>", i + 1)
            })
        ),
        "glm-4.5" => each("\n", &|_, (n, a)| {
            let all = pairs(a, |k, v| format!("<arg_key>{k}</arg_key>\n<arg_value>{v}</arg_value>\n"));
            format!("<tool_call>{n}\n{all}</tool_call>")
        }),
        "hunyuan" => {
            let all = each("\n", &|_, (n, a)| {
                let all = pairs(a, |k, v| {
                    format!(
                        "<arg_key:opensource>{k}</arg_key:opensource>\n<arg_value:opensource>{v}</arg_value:opensource>\n"
                    )
                });
                format!("<tool_call:opensource>{n}<tool_sep:opensource>\n{all}</tool_call:opensource>")
            });
            format!("<tool_calls:opensource>\n{all}\n</tool_calls:opensource>")
        }
        "granite-3" => format!("<|tool_call|>[{list}]"),
        "phi-4-mini" => format!("<|tool_call|>[{list}]<|/tool_call|>"),
        "functools" => format!("functools[{list}]"),
        "nemotron" => format!("<TOOLCALL>[{list}]</TOOLCALL>"),
        "apriel" => format!("<tool_calls>[{list}]</tool_calls>"),
        "command-r7b" => {
            let all = each(",\n    ", &|i, (n, a)| {
                python(&json!({ "tool_call_id": i.to_string(), "tool_name": n, "parameters": a }))
            });
            format!("<|START_ACTION|>[\n    {all}\n]<|END_ACTION|>")
        }
        "cohere-xml" => {
            let all = each("\n", &|_, (n, a)| {
                let all = pairs(a, |k, v| format!("<parameter={k}>{v}</parameter>\n"));
                format!("<function={n}>\n{all}</function>")
            });
            format!("<|START_ACTION|>\n{all}\n<|END_ACTION|>")
        }
        "command-r-plus" => format!("Action: ```json\n[\n{}\n]```", objects("tool_name", "parameters")),
        "functionary-v3.2" => each(">>>", &|_, (n, a)| format!("{n}\n{}", python(a))),
        "functionary-v3.1" => each("", &|_, (n, a)| format!("<function={n}>{}</function>", python(a))),
        "pythonic" => format!("[{}]", each(", ", &|_, call| keywords(call))),
        "lfm2" => format!("<|tool_call_start|>[{}]<|tool_call_end|>", each(", ", &|_, call| keywords(call))),
        "minimax-m2" => {
            let all = each("\n", &|_, (n, a)| {
                let all = pairs(a, |k, v| format!("<parameter name=\"{k}\">{v}</parameter>\n"));
                format!("<invoke name=\"{n}\">\n{all}</invoke>")
            });
            format!("<minimax:tool_call>\n{all}\n</minimax:tool_call>")
        }
        "minimax-m3" => {
            let m = "]<]minimax[>[";
            let all = each("\n", &|_, (n, a)| format!("{m}<invoke name=\"{n}\">{}{m}</invoke>", nested(a)));
            format!("{m}<tool_call>\n{all}\n{m}</tool_call>")
        }
        "apertus" => {
            let all = each(", ", &|_, (n, a)| python(&json!({ *n: a })));
            format!("<|tools_prefix|>[{all}]<|tools_suffix|>")
        }
        "gemma4" => each("", &|_, (n, a)| format!("<|tool_call>call:{n}{}<tool_call|>", gemma(a))),
        "solar" => {
            let all = each("", &|i, (n, a)| {
                let a = python(a);
                format!("<|tool_call:begin|>id{i}<|tool_call:name|>{n}<|tool_call:args|>{a}<|tool_call:end|>")
            });
            format!("<|tool_calls|>{all}<|calls|>")
        }
        "gigachat3" => return only(format!("<|function_call|>{list}")),
        "internlm2" => format!(
            "<|action_start|><|plugin|>\n{}<|action_end|>",
            each("\n", &|_, (n, a)| python(&json!({ "name": n, "parameters": a })))
        ),
        "step-3" => {
            let all = each("\n", &|_, (n, a)| {
                let all =
                    pairs(a, |k, v| format!("<steptml:parameter name=\"{k}\">{v}</steptml:parameter>\n"));
                format!(
                    "<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\"{n}\">\n{all}</steptml:invoke><｜tool_call_end｜>"
                )
            });
            format!("<｜tool_calls_begin｜>\n{all}\n<｜tool_calls_end｜>")
        }
        "minicpm5" => each("\n", &|_, (n, a)| {
            let all = pairs(a, |k, v| match v.contains(['<', '&', '\n']) {
                true => format!("<param name=\"{k}\"><![CDATA[{v}]]></param>"),
                false => format!("<param name=\"{k}\">{v}</param>"),
            });
            format!("<function name=\"{n}\">{all}</function>")
        }),
        "muse" => each("<|eom|><|start|>assistant", &|_, (n, a)| {
            let all = pairs(a, |k, v| format!("<atem:parameter name=\"{k}\">{v}</atem:parameter>\n"));
            format!(
                " to={n}<|message|><atem:function_calls>\n<atem:invoke name=\"{n}\">\n{all}</atem:invoke>\n</atem:function_calls>"
            )
        }),
        _ => return None,
    })
}

fn dsml(section: &str, calls: &[Call]) -> String {
    let call = |(n, a): &Call| {
        let all = typed_pairs(a, |k, v, t| {
            let string = t == "string";
            format!("<｜DSML｜parameter name=\"{k}\" string=\"{string}\">{v}</｜DSML｜parameter>\n")
        });
        format!("<｜DSML｜invoke name=\"{n}\">\n{all}</｜DSML｜invoke>")
    };
    let all = calls.iter().map(call).collect::<Vec<_>>().join("\n");
    format!("<｜DSML｜{section}>\n{all}\n</｜DSML｜{section}>")
}

/// JSON as Python's `json.dumps` writes it.
pub fn python(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(python).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let all = map.iter().map(|(k, v)| format!("{}: {}", json!(k), python(v)));
            format!("{{{}}}", all.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

fn bare(value: &Value) -> String {
    value.as_str().map_or_else(|| python(value), str::to_owned)
}

fn pairs(arguments: &Value, one: impl Fn(&str, &str) -> String) -> String {
    arguments.as_object().unwrap().iter().map(|(k, v)| one(k, &bare(v))).collect()
}

fn typed_pairs(arguments: &Value, one: impl Fn(&str, &str, &str) -> String) -> String {
    let kind = |value: &Value| match value {
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Object(_) => "object",
        _ => "array",
    };
    arguments.as_object().unwrap().iter().map(|(k, v)| one(k, &bare(v), kind(v))).collect()
}

fn keywords((name, arguments): &Call) -> String {
    let one = |(k, v): (&String, &Value)| format!("{k}={}", literal(v));
    let all = arguments.as_object().unwrap().iter().map(one).collect::<Vec<_>>();
    format!("{name}({})", all.join(", "))
}

/// Python's literals.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::String(text) if text.contains('\'') => json!(text).to_string(),
        Value::String(text) => {
            let text = text.replace('\\', "\\\\").replace('\n', "\\n").replace('\t', "\\t");
            format!("'{text}'")
        }
        Value::Array(items) => format!("[{}]", items.iter().map(literal).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let all = map.iter().map(|(k, v)| format!("'{k}': {}", literal(v)));
            format!("{{{}}}", all.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

fn gemma(value: &Value) -> String {
    match value {
        Value::String(text) => format!("<|\"|>{text}<|\"|>"),
        Value::Array(items) => format!("[{}]", items.iter().map(gemma).collect::<Vec<_>>().join(",")),
        Value::Object(map) => {
            let all = map.iter().map(|(k, v)| format!("{k}:{}", gemma(v)));
            format!("{{{}}}", all.collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

fn nested(value: &Value) -> String {
    let m = "]<]minimax[>[";
    let tag = |name: &str, value: &Value| format!("{m}<{name}>{}{m}</{name}>", nested(value));
    match value {
        Value::Object(map) => map.iter().map(|(k, v)| tag(k, v)).collect(),
        Value::Array(items) => items.iter().map(|item| tag("item", item)).collect(),
        other => bare(other),
    }
}
