#!/usr/bin/env python3
"""A GGUF file without a tokenizer, given a made-up one: other servers refuse to answer without.

    python benches/with_vocab.py MODEL.gguf OUT.gguf

The vocabulary is SentencePiece's: three control tokens, 256 bytes, letters, and the words that `lamina bench --server`
sends to servers that take no token ids, each of which is one token; the rest are fillers. Weights are copied as they are.
"""

import struct
import sys

ALIGNMENT = 32
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY, INT32, FLOAT32, UINT32 = 8, 9, 5, 6, 4
CONTROL, UNKNOWN, NORMAL, BYTE = 3, 2, 1, 6


# Of crates/cli/src/remote/load/client.rs.
WORDS = "the of and to in a is that for it as was with be by on".split()
SPACE = "\u2581"


def pieces():
    """Letters, and every beginning of a word: words are merged letter by letter."""
    found = dict.fromkeys([SPACE, *"abcdefghijklmnopqrstuvwxyz"])
    for word in WORDS:
        found.update(dict.fromkeys(SPACE + word[:end] for end in range(1, len(word) + 1)))
    return list(found)


class Reader:
    """Bytes of a file's head."""

    def __init__(self, file):
        self.file = file

    def number(self, form):
        return struct.unpack("<" + form, self.file.read(struct.calcsize(form)))[0]

    def text(self):
        return self.file.read(self.number("Q"))

    def skip(self, kind):
        """Passes over a value."""
        if kind == STRING:
            self.text()
        elif kind == ARRAY:
            kind, count = self.number("I"), self.number("Q")
            for _ in range(count):
                self.skip(kind)
        else:
            self.file.read(SIZES[kind])


def text(value):
    value = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(value)) + value


def entries(size):
    """The tokenizer's part of the metadata, for `size` tokens."""
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    tokens += pieces()
    tokens += [f"<filler {i}>" for i in range(size - len(tokens))]
    kinds = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * (size - 259)
    array = lambda kind, values: struct.pack("<IIQ", ARRAY, kind, size) + values  # noqa: E731
    yield "tokenizer.ggml.model", struct.pack("<I", STRING) + text("llama")
    yield "tokenizer.ggml.tokens", array(STRING, b"".join(map(text, tokens)))
    yield "tokenizer.ggml.scores", array(FLOAT32, struct.pack(f"<{size}f", *(-float(i) for i in range(size))))
    yield "tokenizer.ggml.token_type", array(INT32, struct.pack(f"<{size}i", *kinds))
    for name, token in (("bos", 1), ("eos", 2), ("unknown", 0)):
        yield f"tokenizer.ggml.{name}_token_id", struct.pack("<II", UINT32, token)


def metadata(reader, count):
    """The entries of a file that are no tokenizer's, as bytes, and the vocabulary's size."""
    kept, size = [], None
    for _ in range(count):
        key = reader.text()
        kind = reader.number("I")
        begin = reader.file.tell()
        reader.skip(kind)
        end = reader.file.tell()
        reader.file.seek(begin)
        value = reader.file.read(end - begin)
        if key.endswith(b".vocab_size"):
            size = struct.unpack("<I", value)[0]
        if not key.startswith(b"tokenizer."):
            kept.append(text(key) + struct.pack("<I", kind) + value)
    return kept, size


def tensors(reader, count):
    """The list of tensors as bytes."""
    begin = reader.file.tell()
    for _ in range(count):
        reader.text()
        reader.file.read(8 * reader.number("I") + 4 + 8)
    end = reader.file.tell()
    reader.file.seek(begin)
    return reader.file.read(end - begin)


def padded(size):
    return -size % ALIGNMENT


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    with open(sys.argv[1], "rb") as file, open(sys.argv[2], "wb") as out:
        reader = Reader(file)
        magic, version = file.read(4), reader.number("I")
        count, keys = reader.number("Q"), reader.number("Q")
        kept, size = metadata(reader, keys)
        if size is None:
            raise SystemExit(f"{sys.argv[1]} does not say how large its vocabulary is")
        kept += [text(key) + value for key, value in entries(size)]
        infos = tensors(reader, count)
        file.seek(padded(file.tell()), 1)
        head = magic + struct.pack("<IQQ", version, count, len(kept)) + b"".join(kept) + infos
        out.write(head + bytes(padded(len(head))))
        while piece := file.read(1 << 24):
            out.write(piece)


if __name__ == "__main__":
    main()
