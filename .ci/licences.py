#!/usr/bin/env python3
"""Licences of what the wheel links: `deny.toml` lists those that are allowed, THIRD-PARTY-LICENSES.txt has their texts.

Checks both; with `--write`, the file is written anew. Needs the sources of packages, which cargo fetches, and compiles nothing.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from textwrap import fill, indent

ROOT = Path(__file__).resolve().parent.parent
NOTICES = ROOT / "THIRD-PARTY-LICENSES.txt"
RULES = tomllib.loads((ROOT / "deny.toml").read_text())
TARGETS, ALLOWED = RULES["graph"]["targets"], RULES["licenses"]["allow"]

# A licence is known by words that stand in no other one; texts are compared with one blank between words.
WORDS = {
    "MIT": ("obtaining a copy", "above copyright notice and this permission notice"),
    "ISC": ("Permission to use, copy, modify, and",),
    "Zlib": ("must not be misrepresented; you must not claim",),
    "BSD-2-Clause": ("Redistribution and use in source and binary forms",),
    "BSD-3-Clause": ("Redistribution and use in source and binary forms", "endorse or promote products"),
    "BSL-1.0": ("Boost Software License - Version 1.0",),
    "Unicode-3.0": ("UNICODE LICENSE V3",),
    "Apache-2.0": ("Apache License", "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION"),
    "MIT-0": ("obtaining a copy", "without restriction"),
    "Unlicense": ("free and unencumbered software released into the public domain",),
    "CC0-1.0": ("CC0 1.0 Universal",),
}
FILES = re.compile(r"(LICEN[CS]E|COPYING|NOTICE|COPYRIGHT|UNLICENSE)([.\-_].*)?", re.IGNORECASE)
# Inside of packages: code that is not built.
UNBUILT = {"tests", "benches", "examples"}
RULE = "=" * 100
# Linked as every Rust program links it, and no package.
STANDARD_LIBRARY = {
    "id": "std",
    "name": "the Rust standard library",
    "version": "",
    "license": "MIT OR Apache-2.0",
    "authors": ["The Rust Project Developers (see https://thanks.rust-lang.org)"],
}

HEAD = """Lamina is under the licences in LICENSE-MIT and LICENSE-APACHE. What it is built with has authors and licences of its own,
which follow: first the packages that any of its builds links, then the texts, each once, under the names of those that
have it. Where a package offers several licences, one of them is chosen. Written by `.ci/licences.py --write`.
"""


def linked():
    """The packages that the wheel links on any target, by id."""
    found = {}
    for target in TARGETS:
        words = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
        metadata = json.loads(subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
        packages = {p["id"]: p for p in metadata["packages"]}
        nodes = {n["id"]: n["deps"] for n in metadata["resolve"]["nodes"]}
        todo = [p["id"] for p in packages.values() if p["name"] == "lamina-py"]
        seen = set()
        while todo:
            package = todo.pop()
            # Macros run in the compiler.
            if package in seen or any("proc-macro" in t["kind"] for t in packages[package]["targets"]):
                continue
            seen.add(package)
            todo += [d["pkg"] for d in nodes[package] if any(k["kind"] is None for k in d["dep_kinds"])]
        found.update((i, packages[i]) for i in seen if packages[i]["source"])
    return sorted(found.values(), key=lambda p: (p["name"], p["version"]))


def choices(expression):
    """The sets of licences that an SPDX expression offers: `(A OR B) AND C` offers {A, C} and {B, C}."""
    words = re.findall(r"[()]|[^\s()/]+", expression.replace("/", " OR ").replace(" WITH ", "+"))

    def alternatives():
        offered = together()
        while words and words[0] == "OR":
            words.pop(0)
            offered += together()
        return offered

    def together():
        sets = single()
        while words and words[0] == "AND":
            words.pop(0)
            sets = [a | b for b in single() for a in sets]
        return sets

    def single():
        if words[0] != "(":
            return [frozenset([words.pop(0).replace("+", " WITH ")])]
        words.pop(0)
        offered = alternatives()
        words.pop(0)
        return offered

    return alternatives()


def read(file):
    return file.read_text(encoding="utf-8", errors="replace").strip("\n")


def flat(text):
    return " ".join(text.split())


def licences(text):
    """The licences whose words stand in a text; the words of some are part of those of others."""
    found = {name for name, words in WORDS.items() if all(w in flat(text) for w in words)}
    return found - ({"MIT-0"} if "MIT" in found else set()) - ({"BSD-2-Clause"} if "BSD-3-Clause" in found else set())


def texts_of(package):
    """What the package says about its licence, in its files."""
    folder = Path(package["manifest_path"]).parent
    inside = ((f, f.relative_to(folder)) for f in sorted(folder.rglob("*")) if f.is_file())
    built = (f for f, place in inside if FILES.fullmatch(f.name) and not UNBUILT & set(place.parts) and f.suffix != ".rs")
    return list(map(read, built))


def chosen(package, texts):
    """The allowed licences that are kept to: whose texts are there, and those first in the list come first."""
    there = set().union(*map(licences, texts))
    offered = [c for c in choices(package["license"] or "none") if c <= set(ALLOWED)]
    return min(offered, key=lambda c: (len(c - there), sorted(map(ALLOWED.index, c))), default=None)


def divided(text):
    """Whose rights a text tells of, and what it permits: for MIT, most of the packages differ in the first alone."""
    at = text.index("Permission is hereby") if licences(text) == {"MIT"} else 0
    return text[:at].strip(), text[at:]


def standard(licence, texts, package):
    """The text of a licence for a package that brings none."""
    text = min((t for t in texts if licences(t) == {licence}), key=lambda t: (len(t), t))
    authors = ", ".join(package["authors"]) or f"the authors of {package['name']}"
    return f"Copyright (c) {authors}\n\n{divided(text)[1]}"


def vendored():
    """Sources of others inside this repository, each with its licence beside it: names and texts."""
    for file in sorted((ROOT / "crates").glob("**/vendor/*")):
        licence = file.with_name(file.name.split(".")[0] + ".LICENSE")
        if not licence.exists():
            sys.exit(f"{file.relative_to(ROOT)} has no {licence.name} beside it")
        if file == licence:
            yield f"{file.stem}, in {file.parent.relative_to(ROOT).as_posix()}", read(licence)


def kept_to(package, own, every):
    """The licences that are chosen, and the texts that they ask for; none where no choice is allowed. `own` are the texts of
    the package, `every` those of all packages."""
    kept = chosen(package, own)
    if kept is None:
        return None
    others = set().union(*choices(package["license"])) - kept
    said = [t for t in own if not licences(t) or not licences(t) <= others]
    missing = kept - set().union(*map(licences, said))
    return kept, said + [standard(licence, every, package) for licence in sorted(missing)]


def notices(packages):
    """The whole file, and the packages whose licences are not allowed."""
    own = {p["id"]: texts_of(p) for p in packages}
    every = [text for texts in own.values() for text in texts]
    lines, holders, refused = [], {}, []

    def hold(name, text):
        rights, permission = divided(text)
        holders.setdefault(flat(permission), (permission, {}))[1].setdefault(rights, {})[name] = None

    for name, text in vendored():
        lines.append(name)
        hold(name, text)
    for package in [STANDARD_LIBRARY, *packages]:
        name = f"{package['name']} {package['version']}".strip()
        found = kept_to(package, own.get(package["id"], []), every)
        if found is None:
            refused.append(f"{name}: {package['license']}")
            continue
        lines.append(f"{name}: {' and '.join(sorted(found[0]))}")
        for text in dict.fromkeys(found[1]):
            hold(name, text)
    parts = [f"{told(rights)}\n\n{permission}" for permission, rights in holders.values()]
    text = f"\n\n{RULE}\n".join([HEAD + "\n" + "\n".join(lines), *parts]) + "\n"
    return "\n".join(line.rstrip() for line in text.split("\n")), refused


def told(rights):
    """Names, and below them what those say of their rights."""
    return "\n".join(f"{fill(', '.join(names), 100, break_on_hyphens=False)}\n{indent(said, '    ')}".rstrip() for said, names in rights.items())


def main():
    packages = linked()
    text, refused = notices(packages)
    if refused:
        sys.exit("licences that deny.toml does not allow:\n" + "\n".join(refused))
    if "--write" in sys.argv[1:]:
        NOTICES.write_text(text, encoding="utf-8")
    elif not NOTICES.exists() or NOTICES.read_text(encoding="utf-8") != text:
        sys.exit(f"{NOTICES.name} is stale: run python3 .ci/licences.py --write")
    print(f"licences of {len(packages)} packages: allowed, and in {NOTICES.name}")


main()
