"""What transformers makes of every chat template of the shared folder.

    template_oracle.py TEMPLATES CASES             writes expected.json (digests) to stdout
    template_oracle.py TEMPLATES CASES --texts     writes the texts themselves
    template_oracle.py --snippets SNIPPETS         writes snippets.json anew: its sources with what jinja2 makes of them

Set up as transformers.utils.chat_template_utils does: jinja2's immutable sandbox, trim_blocks, lstrip_blocks, loop
controls, the generation tag, tojson, raise_exception and strftime_now (with a fixed clock). Needs jinja2 3.1.
"""

import datetime
import hashlib
import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

NOW = datetime.datetime(2025, 7, 14, 12, 34, 56)


class Generation(jinja2.ext.Extension):
    """The tag {% generation %}, whose body is rendered in place."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class Refused(jinja2.TemplateError):
    pass


def raise_exception(message):
    raise Refused(message)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def render(source, case):
    values = {"messages": case["messages"], "tools": case.get("tools"), "documents": case.get("documents")}
    values["add_generation_prompt"] = case.get("add_generation_prompt", True)
    values.update(bos_token="<BOS>", eos_token="<EOS>")
    values.update(case.get("variables", {}))
    try:
        return {"text": environment().from_string(source).render(**values)}
    except Refused as refusal:
        return {"refused": str(refusal)}
    except Exception as error:
        return {"failed": type(error).__name__}


def digest(result):
    if "text" in result:
        return {"sha256": hashlib.sha256(result["text"].encode("utf-8", "surrogatepass")).hexdigest()}
    return result


def snippets(path):
    table = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    case = {"messages": [], "variables": {"x": table["x"]}}
    table["snippets"] = [[source, render(source, case)] for source, _ in table["snippets"]]
    json.dump(table, sys.stdout, indent=1, ensure_ascii=False)
    print()


def main():
    if sys.argv[1] == "--snippets":
        return snippets(sys.argv[2])
    folder, cases = pathlib.Path(sys.argv[1]), json.loads(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8"))
    keep = (lambda result: result) if "--texts" in sys.argv else digest
    out = {}
    for path in sorted(folder.glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        out[path.stem] = {name: keep(render(source, case)) for name, case in cases.items()}
    json.dump(out, sys.stdout, indent=1, ensure_ascii=False)
    print()


if __name__ == "__main__":
    main()
