#!/usr/bin/env python3
"""What a wheel asks of the system that it is installed on, and what it tells of the one that made it.

    wheel_check.py TARGET WHEEL

Tag, size (`wheel_size.py`), libraries and versions of the C library (auditwheel), musl's own loader, symbols outside Python's
stable interface (abi3audit), licences and the list of linked packages, folders of the building machine in its strings.
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TAGS = {
    "x86_64-unknown-linux-gnu": r"(manylinux2014_x86_64\.)?manylinux_2_17_x86_64(\.manylinux2014_x86_64)?",
    "aarch64-unknown-linux-gnu": r"(manylinux2014_aarch64\.)?manylinux_2_17_aarch64(\.manylinux2014_aarch64)?",
    "x86_64-unknown-linux-musl": r"musllinux_1_2_x86_64",
    "aarch64-unknown-linux-musl": r"musllinux_1_2_aarch64",
    "aarch64-apple-darwin": r"macosx_11_0_arm64",
    "x86_64-apple-darwin": r"macosx_10_12_x86_64",
    "x86_64-pc-windows-msvc": r"win_amd64",
    "x86_64-pc-windows-gnu": r"win_amd64",
}
# What a wheel may ask of Linux beside the C library's own parts. musl's loader is its C library, and takes `libc.so`, which is
# how zig calls it, for itself, whatever file there is.
SYSTEM = {
    "gnu": re.compile(r"lib(c|m|dl|rt|pthread|gcc_s|util)\.so\.\d+|ld-linux[-\w]*\.so\.\d+"),
    "musl": re.compile(r"libc\.so|libc\.musl-\w+\.so\.1"),
}
# Folders that only a building machine has.
FOLDERS = re.compile(rb"/(home|root|Users|work|tmp|runner)/[\w.\-/]{3,}|\.cargo/registry/src/[\w.\-]+/")
# A program that loads all libraries that it is given.
OPENS = """
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **names) {
    for (int i = 1; i < count; i++)
        if (!dlopen(names[i], RTLD_NOW | RTLD_GLOBAL)) { puts(dlerror()); return 1; }
    return 0;
}
"""
NOTICES = ("LICENSE-MIT", "LICENSE-APACHE", "THIRD-PARTY-LICENSES.txt")


def tag(target, wheel, _):
    asked = f"-(cp39-abi3|cp315-abi3\\.abi3t)-{TAGS[target]}.whl"
    if not re.search(asked, wheel.name):
        yield f"its tag is not {asked}"


def contents(target, wheel, _):
    names = zipfile.ZipFile(wheel).namelist()
    yield from (f"{notice} is missing" for notice in NOTICES if not any(n.endswith(notice) for n in names))
    if not any(re.search(r"\.dist-info/sboms/.*\.json$", n) for n in names):
        yield "there is no list of linked packages (SBOM)"
    if not any(n.endswith("models/lamina-tiny.gguf") for n in names):
        yield "the model is missing"
    for file in ("man/man1/lamina.1", "bash-completion/completions/lamina", "zsh/site-functions/_lamina"):
        if not any(n.endswith(f".data/data/share/{file}") for n in names):
            yield f"share/{file} is missing"


def folders(target, wheel, library):
    found = sorted({m.group().decode() for m in FOLDERS.finditer(library.read_bytes())})
    yield from (f"folder of the building machine: {folder}" for folder in found[:8])


def libraries(target, wheel, library):
    if "linux" not in target:
        return
    listed = subprocess.run(["readelf", "--dynamic", library], capture_output=True, text=True, check=True).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", listed)
    system = SYSTEM[target.rpartition("-")[2]]
    yield from (f"it needs {name}" for name in needed if not system.fullmatch(name))
    if "gnu" in target:
        shown = subprocess.run(["auditwheel", "show", wheel], capture_output=True, text=True)
        if shown.returncode or "manylinux_2_17" not in shown.stdout:
            yield f"auditwheel: {shown.stdout.strip()} {shown.stderr.strip()}"


def loads(target, wheel, library):
    """musl's own loader finds all that the library asks for, where this machine has it: in the place of a Python that is linked
    with musl there are symbols of its names."""
    if target != f"{platform.machine()}-unknown-linux-musl" or not shutil.which("musl-gcc"):
        return
    listed = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True).stdout
    names = sorted(set(re.findall(r"\b_?Py\w+", listed)))
    with tempfile.TemporaryDirectory() as folder:
        for name, source in (("python.c", "\n".join(f"void *{name}[8];" for name in names)), ("open.c", OPENS)):
            Path(folder, name).write_text(source)
        subprocess.run(["musl-gcc", "-shared", "-fPIC", "-o", "python.so", "python.c"], cwd=folder, check=True)
        subprocess.run(["musl-gcc", "-o", "open", "open.c"], cwd=folder, check=True)
        ran = subprocess.run([f"{folder}/open", f"{folder}/python.so", library], capture_output=True, text=True)
    if ran.returncode:
        yield f"musl's loader: {ran.stdout.strip()}"


def interface(target, wheel, _):
    ran = subprocess.run(["abi3audit", "--report", wheel], capture_output=True, text=True)
    if not ran.stdout.strip():
        yield f"abi3audit: {ran.stderr.strip()}"
        return
    for found in (e["result"] for spec in json.loads(ran.stdout)["specs"].values() for e in spec["wheel"]):
        # What a library is entered by from 3.15 on (PEP 793) is its own symbol.
        foreign = [name for name in found["non_abi3_symbols"] if not name.startswith("PyModExport_")]
        yield from (f"{name} is outside the stable interface" for name in foreign)
        if not found["is_abi3_baseline_compatible"]:
            yield f"it asks for Python {found['computed']}, and says {found['baseline']}"


def size(target, wheel, _):
    profile = os.environ.get("LAMINA_PROFILE", "dist")
    if subprocess.run([sys.executable, HERE / "wheel_size.py", wheel, profile]).returncode:
        yield "it is too large"


def main(target, wheel):
    wheel = Path(wheel)
    with tempfile.TemporaryDirectory() as folder:
        archive = zipfile.ZipFile(wheel)
        inside = next(n for n in archive.namelist() if n.endswith((".so", ".pyd")))
        library = Path(archive.extract(inside, folder))
        checks = (tag, contents, folders, libraries, loads, interface, size)
        found = [problem for check in checks for problem in check(target, wheel, library)]
    sys.exit("\n".join(f"{wheel.name}: {problem}" for problem in found) or 0)


main(*sys.argv[1:])
