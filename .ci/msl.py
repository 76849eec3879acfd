#!/usr/bin/env python3
"""Reads the kernels, as Metal's compiler gets them, with clang: no other compiler is free to read MSL.

Address spaces are attributes, keywords are macros, Metal's library is a header of declarations (metal_stdlib). Beyond what
clang refuses by itself, the tree and the words are looked at for what MSL does not have. Stdin: the text. With a fault put
into it, for each of a list, the check has to fail with the words that belong to it.
"""

import re
import sys
from pathlib import Path

from clang.cindex import CursorKind, Diagnostic, Index, TypeKind

HERE = Path(__file__).resolve().parent
LIST = HERE.parent / "crates/gpu/kernels/list.h"
DEVICE, CONSTANT, THREADGROUP = 1, 2, 3
# What every GPU of Apple has for a threadgroup.
MOST_THREADGROUP = 32 << 10


def space(number):
    return f"__attribute__((address_space({number})))"


DEFINES = {
    "__METAL_VERSION__": "310",
    "device": space(DEVICE),
    "constant": space(CONSTANT),
    "threadgroup": space(THREADGROUP),
    "thread": '__attribute__((annotate("thread")))',
    "kernel": '__attribute__((annotate("kernel")))',
    # A variable in threadgroup memory has to be static for clang, and it copies nothing out of constant memory.
    "SHARED": f"static {space(THREADGROUP)}",
    "ARGS_OF(T)": "T",
}
OPTIONS = ["-x", "c++", "-std=c++14", "--target=x86_64-unknown-linux-gnu", "-nostdinc", f"-I{HERE}", "-Wall", "-Wextra",
           "-Wno-unknown-attributes", "-Wno-ignored-attributes", "-Wno-unknown-pragmas", "-Wno-unused", "-Wno-unused-parameter",
           "-Wno-sign-compare", "-Wno-missing-braces", "-Wno-missing-field-initializers", *(f"-D{name}={value}" for name, value in DEFINES.items())]

# Words that MSL reserves, and C++ spells operators with: no name of ours. The dialect's own file uses some of them.
RESERVED = set(
    "device constant thread threadgroup threadgroup_imageblock ray_data object_data kernel vertex fragment mesh object visible "
    "stitchable intersection uniform patch sampler texture1d texture2d texture3d texturecube depth2d depthcube half bfloat "
    "quad simd imageblock and or not xor bitand bitor compl and_eq or_eq not_eq xor_eq".split()
)
TYPES = {
    TypeKind.DOUBLE: "double",
    TypeKind.LONGDOUBLE: "long double",
    TypeKind.LONGLONG: "long long",
    TypeKind.ULONGLONG: "unsigned long long",
    TypeKind.WCHAR: "wchar_t",
}
FORMS = {
    CursorKind.LAMBDA_EXPR: "a lambda",
    CursorKind.GOTO_STMT: "goto",
    CursorKind.CXX_NEW_EXPR: "new",
    CursorKind.CXX_DELETE_EXPR: "delete",
    CursorKind.CXX_THROW_EXPR: "throw",
    CursorKind.CXX_TRY_STMT: "try",
    CursorKind.CXX_TYPEID_EXPR: "typeid",
    CursorKind.CXX_DYNAMIC_CAST_EXPR: "dynamic_cast",
    CursorKind.DESTRUCTOR: "a destructor",
}
POINTERS = (TypeKind.POINTER, TypeKind.LVALUEREFERENCE)


def origins(text):
    """File and line that each line of the text is of."""
    file, line = "?", 0
    for row in text.splitlines():
        said = re.match(r'#line (\d+) "(.*)"', row)
        line, file = (int(said[1]) - 1, said[2]) if said else (line + 1, file)
        yield file, line


def lives(text):
    """Whether each line of the text is for Metal too: those between `#ifndef __METAL_VERSION__` and its end are not."""
    stack = []
    for row in text.splitlines():
        if re.match(r"#\s*if", row):
            stack.append(row.startswith("#ifndef __METAL_VERSION__"))
        elif re.match(r"#\s*endif", row):
            stack.pop()
        yield not any(stack)


def reserved(text):
    for (file, line), row, alive in zip(origins(text), text.splitlines(), lives(text)):
        words = RESERVED.intersection(re.findall(r"\b[A-Za-z_]\w*\b", row.split("//")[0]))
        if words and alive and file != "dialect.h" and not row.startswith("#line"):
            yield f"{file}:{line}: {', '.join(sorted(words))}: reserved by MSL"


def kind_of(type_):
    """Kind of a type; the bindings have no name for that of `half`."""
    try:
        return type_.kind
    except ValueError:
        return None


def annotated(cursor, word):
    return any(c.kind == CursorKind.ANNOTATE_ATTR and c.spelling == word for c in cursor.get_children())


def spaceless(cursor):
    """A pointer or reference of ours that does not say where it points: clang takes that for thread memory, MSL refuses it."""
    of = cursor.result_type if cursor.kind in (CursorKind.FUNCTION_DECL, CursorKind.CXX_METHOD) else cursor.type
    if kind_of(of) not in POINTERS or of.get_pointee().get_address_space() != 0:
        return
    if not annotated(cursor, "thread"):
        yield f"{cursor.spelling} points nowhere: LOCAL, DEV or TG is missing"


def looked_at(cursor, kernel):
    """What MSL does not have, in one place of the tree."""
    if cursor.kind in FORMS:
        yield f"MSL has no {FORMS[cursor.kind]}"
    declared = (CursorKind.PARM_DECL, CursorKind.VAR_DECL, CursorKind.FIELD_DECL, CursorKind.FUNCTION_DECL, CursorKind.CXX_METHOD)
    if cursor.kind in declared:
        yield from spaceless(cursor)
    if cursor.kind == CursorKind.VAR_DECL and cursor.type.get_address_space() == THREADGROUP and not kernel:
        yield f"{cursor.spelling}: threadgroup memory outside of a kernel"
    kind = kind_of(cursor.type.get_canonical())
    if kind in TYPES:
        yield f"MSL has no {TYPES[kind]}"


def walked(cursor, kernel=False):
    """Lines of the text, and what is wrong with them."""
    kernel = kernel or annotated(cursor, "kernel")
    yield from ((cursor.location.line, what) for what in looked_at(cursor, kernel))
    for child in cursor.get_children():
        if "metal_stdlib" not in str(child.location.file):
            yield from walked(child, kernel)


def shared(cursor):
    """Bytes of threadgroup memory below a place of the tree."""
    own = cursor.kind == CursorKind.VAR_DECL and cursor.type.get_address_space() == THREADGROUP
    return (cursor.type.get_size() if own else 0) + sum(map(shared, cursor.get_children()))


def kernels(tree):
    """Each kernel of the list is there, none beside, and no threadgroup has too much memory."""
    listed = set(re.findall(r"^KERNEL_LINE\((\w+),", LIST.read_text(), re.M))
    found = {c.spelling: c for c in tree.get_children() if c.kind == CursorKind.FUNCTION_DECL and annotated(c, "kernel")}
    for name in sorted(listed ^ found.keys()):
        yield f"{name} is {'in the list only' if name in listed else 'not in the list'}"
    for name, kernel in found.items():
        if shared(kernel) > MOST_THREADGROUP:
            yield f"{name} has {shared(kernel)} bytes of threadgroup memory, at most {MOST_THREADGROUP}"


def problems(text):
    """All that is wrong with a text."""
    found = list(reserved(text))
    unit = Index.create().parse("kernels.metal", OPTIONS, [("kernels.metal", text)])
    said = [(d.location.line, d.spelling) for d in unit.diagnostics if d.severity >= Diagnostic.Warning]
    if not said:
        said, found = list(walked(unit.cursor)), [*found, *kernels(unit.cursor)]
    lines = list(origins(text))
    found += ["{}:{}: {}".format(*lines[line - 1], what) for line, what in said]
    return list(dict.fromkeys(found))


# What is put in, where (it stands there once or more; the first is taken), and words of what has to be said of it.
FAULTS = [
    ("a pointer into device memory does not say so", "(DEV const int* step, int word)", "(const int* step, int word)", "cannot initialize return object"),
    ("a pointer into registers does not say so", "TG float* tile, LOCAL float* dot)", "TG float* tile, float* dot)", "points nowhere"),
    ("a reference does not say where it points", "LOCAL Joined& j", "Joined& j", "points nowhere"),
    ("threadgroup memory is taken for device memory", "float factor, int me, TG float* part)", "float factor, int me, DEV float* part)", "no matching function"),
    ("a constant is written", "DEV const u8* own = pages +", "own_ = 0; DEV const u8* own = pages +", "undeclared identifier"),
    ("a reserved word is a name", "int row = (int)BLOCK.y, col", "int thread = 0, row = (int)BLOCK.y, col", "reserved by MSL"),
    ("an operator's word is a name", "float sum = 1e-20f,", "float xor = 1e-20f,", "reserved by MSL"),
    ("a number without a suffix", "float sum = 1e-20f,", "float sum = 1e-20,", "no double"),
    ("a literal of 64 bits", "(u64)1 << 60", "1ull << 60", "no unsigned long long"),
    ("a call with too few arguments", "sight_of(step, a, row)", "sight_of(step, a)", "no matching function"),
    ("a function that another language has", "float n = rint(x", "float n = rintf(x", "undeclared identifier"),
    ("bits of another size", "as_type<half>(h)", "as_type<float>(h)", "bit_cast"),
    ("C++17", "template <class F> FN void each(", "template <auto> FN void other();\ntemplate <class F> FN void each(", "C++17"),
    ("a lambda", "bool finite = true;", "auto one = [] { return 1; }; bool finite = one();", "lambda"),
    ("threadgroup memory outside of a kernel", "int lane = me % 32, piece", "SHARED float beside[4]; int lane = me % 32, piece", "outside of a kernel"),
    ("too much threadgroup memory", "CONST int PIECES = 8, FEW_ROWS = 8;", "CONST int PIECES = 8, FEW_ROWS = 64;", "bytes of threadgroup memory"),
    ("a kernel that the list does not have", "combine(BUF", "combined(BUF", "not in the list"),
]


def missed(text, fault):
    """Why a fault counts as not found."""
    what, old, new, words = fault
    if old not in text:
        return f"{what}: `{old}` is no longer there"
    found = problems(text.replace(old, new, 1))
    return None if any(words in line for line in found) else f"{what}: not found among {found[:3]}"


def main():
    text = sys.stdin.read()
    wrong = problems(text)
    if wrong:
        sys.exit("\n".join(wrong))
    misses = [miss for miss in (missed(text, fault) for fault in FAULTS) if miss]
    print(f"the kernels read as MSL; {len(FAULTS) - len(misses)} of {len(FAULTS)} faults found")
    sys.exit("\n".join(misses) or 0)


if __name__ == "__main__":
    main()
