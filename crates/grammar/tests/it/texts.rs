//! GBNF as llama.cpp reads it, regular expressions, choices, Lark and structural tags, judged without a model.

use lamina_grammar::{Grammar, GrammarError};
use serde_json::{Value, json};

#[track_caller]
fn check(grammar: &Grammar, valid: &[&str], invalid: &[&str]) {
    for text in valid {
        assert!(grammar.matches(text), "{grammar:?} refuses {text:?}");
    }
    for text in invalid {
        assert!(!grammar.matches(text), "{grammar:?} accepts {text:?}");
    }
}

#[track_caller]
fn gbnf(text: &str, valid: &[&str], invalid: &[&str]) {
    check(&Grammar::gbnf(text).unwrap_or_else(|e| panic!("{text}: {e}")), valid, invalid);
}

const JSON: &str = r##"
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws

# Optional space: by convention, applied in this grammar after literal chars when allowed
ws ::= | " " | "\n" [ \t]{0,20}
"##;

#[test]
fn json_of_llama_cpp() {
    gbnf(
        JSON,
        &["{}", "{\"a\": 1}", "{\"a\":[true,null,-1.5e+2, \"é\\u00e9\"], \"b\": {}} ", "{\n\t\"k\":\"v\"}"],
        &["", "[]", "{\"a\":}", "{\"a\": 01x}", "{\"a\":  1}", "{'a': 1}", "{\"a\": \"\n\"}"],
    );
}

#[test]
fn arithmetic_of_llama_cpp() {
    let text = r##"
root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
"##;
    gbnf(
        text,
        &["1=2\n", "x +(y1*3) = 7 \n", "a=b\n\nc=d\n", "(1)=1\n\n\n"],
        &["1=2", "1+=2\n", "x==y\n", "(1=1\n", ""],
    );
}

#[test]
fn list_chess_and_c_of_llama_cpp() {
    gbnf(
        "root ::= item+\n\n# Excludes various line break characters\nitem ::= \"- \" [^\\r\\n\\x0b\\x0c\\x85\\u2028\\u2029]+ \"\\n\"\n",
        &["- a\n", "- a\n- b é\n"],
        &["- a", "a\n", "- \n"],
    );
    let chess = r##"
root   ::= "1. " move " " move "\n" ([1-9] [0-9]? ". " move " " move "\n")+
move   ::= (pawn | nonpawn | castle) [+#]?
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn   ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle ::= "O-O" "-O"?
"##;
    gbnf(
        chess,
        &["1. e4 e5\n2. Nf3 Nc6\n", "1. e4 e5\n2. O-O O-O-O+\n10. exd8=Q# Raxb1\n"],
        &["1. e4 e5\n", "1. e9 e5\n2. a1 a2\n"],
    );
    let c = r##"
root ::= (declaration)*
declaration ::= dataType identifier "(" parameter? ")" "{" statement* "}"
dataType  ::= "int" ws | "float" ws | "char" ws
identifier ::= [a-zA-Z_] [a-zA-Z_0-9]*
parameter ::= dataType identifier
statement ::=
    ( dataType identifier ws "=" ws expression ";" ) |
    ( identifier ws "=" ws expression ";" ) |
    ( identifier ws "(" argList? ")" ";" ) |
    ( "return" ws expression ";" ) |
    ( "while" "(" condition ")" "{" statement* "}" ) |
    ( "for" "(" forInit ";" ws condition ";" ws forUpdate ")" "{" statement* "}" ) |
    ( "if" "(" condition ")" "{" statement* "}" ("else" "{" statement* "}")? ) |
    ( singleLineComment ) |
    ( multiLineComment )
forInit ::= dataType identifier ws "=" ws expression | identifier ws "=" ws expression
forUpdate ::= identifier ws "=" ws expression
condition ::= expression relationOperator expression
relationOperator ::= ("<=" | "<" | "==" | "!=" | ">=" | ">")
expression ::= term (("+" | "-") term)*
term ::= factor(("*" | "/") factor)*
factor ::= identifier | number | unaryTerm | funcCall | parenExpression
unaryTerm ::= "-" factor
funcCall ::= identifier "(" argList? ")"
parenExpression ::= "(" ws expression ws ")"
argList ::= expression ("," ws expression)*
number ::= [0-9]+
singleLineComment ::= "//" [^\n]* "\n"
multiLineComment ::= "/*" ( [^*] | ("*" [^/]) )* "*/"
ws ::= ([ \t\n]+)
"##;
    gbnf(
        c,
        &[
            "int main(){return 0;}",
            "int f(int a){x = a+1;g (1, -b*(  2 ));}",
            "int f(){while(a<=b){// c\n}/* * d */}",
            "",
        ],
        &["int main(){return 0}", "main(){}", "int f(){while(a){}}", "int f(){/* }"],
    );
}

#[test]
fn syntax_of_gbnf() {
    gbnf("root ::= \"a\"{2,3} [b-d]{2} .? # end", &["aabc", "aaadd\n"], &["abc", "aabbxx"]);
    gbnf("root ::= (\"ab\" | )* \"c\"\n", &["c", "ababc"], &["ab", "abac"]);
    gbnf("root ::= \"ab\"*", &["", "abab"], &["aba", "abb"]);
    gbnf("root ::= \"\\x41\\u00e9\\U0001F600\\[\\]\\\\\\\"\\t\"", &["Aé😀[]\\\"\t"], &["Ae😀[]\\\"\t"]);
    gbnf("root ::= [-a] [a-] [^\\]]", &["--x", "aa-"], &["b-x", "--]"]);
    gbnf("a-1 ::= \"x\"\nroot ::= a-1 | b_2\r\nb_2 ::= \"y\" a-1{0,1}", &["x", "y", "yx"], &["", "xx"]);
    gbnf("root ::= x\nx ::= \"a\"\nx ::= \"b\"", &["b"], &["a"]);
    gbnf("root ::= \"\"", &[""], &["a"]);
    gbnf("root ::= \"a\"{0} \"b\"{1,}", &["b", "bbb"], &["ab", ""]);
    gbnf("root ::= l\nl ::= l \",\" \"a\" | \"a\"", &["a", "a,a,a"], &["a,", ",a"]);
    gbnf("root ::= <think> [a-z]* | !<[7]> \"b\" | \"c\"", &["c"], &["a", "<think>a"]);
}

#[test]
fn errors_of_gbnf_name_the_place() {
    for (text, line, column, word) in [
        ("root ::= value\nvalues ::= \"a\"", 1, 10, "did you mean values"),
        ("root := \"a\"", 1, 6, "::="),
        ("root ::= \"a\\q\"", 1, 14, "escape"),
        ("root ::= (\"a\"", 1, 14, ")"),
        ("root ::= *", 1, 10, "repeat"),
        ("root ::= \"a\"{3,2}", 1, 18, "smaller"),
        ("root ::= \"a\" )", 1, 14, "newline"),
        ("root ::= [b-a]", 1, 14, "order"),
        ("a ::= \"a\"\n", 2, 1, "root"),
        ("root ::= \"a", 1, 12, "ends"),
        ("root ::= <[x]>", 1, 10, "id"),
    ] {
        match Grammar::gbnf(text) {
            Err(GrammarError::Syntax { line: l, column: c, why, .. }) => {
                assert_eq!((l, c), (line, column), "{text}: {why}");
                assert!(why.contains(word), "{text}: {why}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn regular_expressions() {
    let regex = |pattern: &str| Grammar::regex(pattern).unwrap();
    check(&regex(r"\d{3}-\d{4}"), &["555-1234"], &["555-123", "x555-1234", "555-12345"]);
    check(&regex(r"^(a|bc)*$"), &["", "abca"], &["b", "ac"]);
    check(&regex(r"a|ab|abc"), &["a", "ab", "abc"], &["", "abcd"]);
    check(&regex(r"[^/]*/[a-z]+?"), &["a b/c", "/x"], &["a", "a/"]);
    check(&regex(r"(?i)straße\n"), &["STRASSE\n"].map(|_| "STRAßE\n"), &["strase\n"]);
    check(&regex(r"\p{Greek}+"), &["αβ"], &["ab"]);
    assert!(!regex("a^b").is_satisfiable());
    for bad in [r"(?=a)a", r"\bx", r"(a)\1", "(", "a{2", "*"] {
        assert!(matches!(Grammar::regex(bad), Err(GrammarError::Broken { .. })), "{bad}");
    }
}

#[test]
fn choices() {
    let some = Grammar::choice(&["yes", "no", "yes, please", "a/b\n", "", "é\"|"]).unwrap();
    check(&some, &["yes", "no", "yes, please", "a/b\n", "", "é\"|"], &["ye", "yesno", "yes,", "é"]);
    assert!(Grammar::choice::<&str>(&[]).is_err());
}

#[test]
fn lark_is_passed_on_and_checked() {
    let lark = Grammar::lark(
        "start: \"a\" num \"<x>\" // <y>\nnum: /[0-9]+/ | %json {\"type\": \"string\", \"maxLength\": 2}\n",
    )
    .unwrap();
    check(&lark, &["a12<x>", "a\"bc\"<x>"], &["a<x>", "a\"bcd\"<x>"]);
    let refused = |text: &str| Grammar::lark(text).unwrap_err().to_string();
    assert!(refused("start: x\nx[max_tokens=3]: /a+/").contains("max_tokens"));
    assert!(refused("start[stop=\"b\"]: /a+/").contains("stop"));
    assert!(refused("start: %json {\"uniqueItems\": true}").contains("uniqueItems at the root"));
    assert!(refused("%llguidance {\"allow_invalid_utf8\": true}\nstart: /a/").contains("allow_invalid_utf8"));
    assert!(refused("start: \"a").contains("line 1"));
    assert!(Grammar::lark("begin: \"a\"").is_err());
}

fn tag(tag: Value) -> Grammar {
    Grammar::structural_tag(&tag).unwrap_or_else(|e| panic!("{tag}: {e}"))
}

#[test]
fn structural_tags() {
    let int = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"], "additionalProperties": false });
    let old = tag(
        json!({ "structures": [{ "begin": "<f=add>", "schema": int, "end": "</f>" }, { "begin": "<f=now>", "schema": { "type": "null" }, "end": "</f>" }], "triggers": ["<f="] }),
    );
    check(
        &old,
        &["", "hello < f", "so: <f=add>{\"n\": 1}</f>", "<f=now>null</f> and <f=add>{\"n\":2}</f>."],
        &["<f=", "<f=sub>{}</f>", "a <f=add>{\"n\": \"x\"}</f>", "<f=now>null"],
    );
    let call = json!({ "type": "tag", "begin": "<c>", "content": { "type": "json_schema", "json_schema": int }, "end": "</c>" });
    let new = |format: Value| tag(json!({ "type": "structural_tag", "format": format }));
    check(
        &new(json!({ "type": "sequence", "elements": [
            { "type": "tag", "begin": "<think>", "content": { "type": "any_text" }, "end": "</think>" },
            { "type": "or", "elements": [call, { "type": "const_string", "value": "none" }] },
        ] })),
        &["<think>a < b\n</think>none", "<think></think><c>{\"n\": 3}</c>"],
        &["none", "<think>x</think>", "<think>x</think>nonesuch"],
    );
    check(
        &new(
            json!({ "type": "triggered_tags", "triggers": ["<c>"], "tags": [call], "at_least_one": true, "stop_after_first": true }),
        ),
        &["<c>{\"n\": 3}</c>"],
        &["", "x", "x<c>{\"n\": 3}</c>", "<c>{\"n\": 3}</c> "],
    );
    check(
        &new(
            json!({ "type": "tags_with_separator", "tags": [call], "separator": ";", "at_least_one": false }),
        ),
        &["", "<c>{\"n\": 3}</c>", "<c>{\"n\": 3}</c>;<c>{\"n\": 4}</c>"],
        &[";", "<c>{\"n\": 3}</c>;"],
    );
    check(
        &new(json!({ "type": "sequence", "elements": [
            { "type": "regex", "pattern": "[a-c]+" },
            { "type": "repeat", "content": { "type": "const_string", "value": "-" }, "min": 1, "max": 2 },
            { "type": "grammar", "grammar": "root ::= \"x\" root | \"y\"" },
            { "type": "optional", "content": { "type": "const_string", "value": "!" } },
        ] })),
        &["abc-y", "a--xxy!"],
        &["a---y", "-y", "a-x"],
    );
    for bad in [
        json!({ "format": { "type": "nope" } }),
        json!({}),
        json!({ "format": { "type": "json_schema", "json_schema": { "uniqueItems": true } } }),
    ] {
        assert!(Grammar::structural_tag(&bad).is_err(), "{bad}");
    }
}

#[test]
fn json_mode_is_any_object() {
    let json = Grammar::json().unwrap();
    check(&json, &["{}", "{\"a\": [1, {\"b\": null}]}"], &["[]", "1", "{", "{\"a\"}"]);
    assert!(json.allows("{\"a\": [1") && !json.allows("{a") && json.allows(""));
    assert!(!json.matches([b'{', 0xFF, b'}']) && !json.allows([0xFF]));
    assert!(json.allows(&"{\"\u{e9}".as_bytes()[..3]), "a character may be cut");
}
