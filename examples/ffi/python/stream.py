"""The C interface through ctypes, for languages without a binding: python stream.py liblamina.so.1 [model.gguf]

In Python itself the package `lamina` has all of this, and more.
"""

import ctypes as c
import json
import sys


class Event(c.Structure):
    _fields_ = [
        ("size", c.c_uint32), ("kind", c.c_int32), ("index", c.c_uint32), ("call", c.c_uint32),
        ("text", c.c_char_p), ("text_len", c.c_size_t),
        ("tokens", c.POINTER(c.c_uint32)), ("logprobs", c.POINTER(c.c_float)), ("token_count", c.c_size_t),
        ("finish", c.c_char_p), ("details", c.c_char_p),
        ("prompt_tokens", c.c_uint32), ("cached_tokens", c.c_uint32),
        ("completion_tokens", c.c_uint32), ("reasoning_tokens", c.c_uint32),
    ]  # fmt: skip


OK, TIMEOUT, END = 0, 1, 2
lib = c.CDLL(sys.argv[1])
lib.lamina_version.restype = c.c_char_p
for name in ("lamina_model_free", "lamina_request_free", "lamina_string_free"):
    getattr(lib, name).argtypes = [c.c_void_p]


def call(function, *arguments):
    """Calls it with a place for the message of an error, which is raised."""
    message = c.c_void_p()
    status = function(*arguments, c.byref(message))
    if status > END:
        text = c.string_at(message).decode()
        lib.lamina_string_free(message)
        raise RuntimeError(text)
    return status


model, request, event = c.c_void_p(), c.c_void_p(), Event(size=c.sizeof(Event))
path = sys.argv[2].encode() if len(sys.argv) > 2 else None
call(lib.lamina_model_load, path, b'{"context": 2048}', None, None, c.byref(model))
asked = {"prompt": "Once upon a time", "max_tokens": 64, "temperature": 0}
call(lib.lamina_submit, model, json.dumps(asked).encode(), c.byref(request))
lib.lamina_model_free(model)  # the request keeps it
while call(lib.lamina_request_next, request, c.c_int64(-1), c.byref(event)) == OK:
    print(event.text.decode(), end="", flush=True)
    if event.finish:
        print(f"\n[{event.finish.decode()}, {event.completion_tokens} tokens]")
lib.lamina_request_free(request)
