// npm install koffi && node stream.mjs lib/liblamina.so.1 model.gguf
import koffi from "koffi";

const [library, path = null] = process.argv.slice(2);
const lib = koffi.load(library);
koffi.struct("LaminaEvent", {
  size: "uint32_t", kind: "int32_t", index: "uint32_t", call: "uint32_t",
  text: "const char *", text_len: "size_t",
  tokens: "void *", logprobs: "void *", token_count: "size_t",
  finish: "const char *", details: "const char *",
  prompt_tokens: "uint32_t", cached_tokens: "uint32_t", completion_tokens: "uint32_t", reasoning_tokens: "uint32_t",
});
const free = lib.func("void lamina_string_free(void *string)");
// Freed when its value has been read.
koffi.disposable("LaminaString", "char *", free);
const load = lib.func(
  "int lamina_model_load(const char *, const char *, void *, void *, _Out_ void **model, _Out_ LaminaString *error)",
);
const submit = lib.func("int lamina_submit(void *, const char *, _Out_ void **request, _Out_ LaminaString *error)");
const next = lib.func(
  "int lamina_request_next(void *, int64_t, _Inout_ LaminaEvent *event, _Out_ LaminaString *error)",
);
const freeModel = lib.func("void lamina_model_free(void *)");
const freeRequest = lib.func("void lamina_request_free(void *)");

const check = (status, error) => {
  if (status >= 10) throw new Error(error[0]);
  return status;
};

const model = [null], request = [null], error = [null];
check(load(path, JSON.stringify({ context: 2048 }), null, null, model, error), error);
check(submit(model[0], JSON.stringify({ prompt: "Once upon a time", max_tokens: 64 }), request, error), error);
freeModel(model[0]); // the request keeps it
const event = { size: koffi.sizeof("LaminaEvent") };
// On a thread of koffi's, so that the loop of events goes on.
const wait = () =>
  new Promise((done, failed) =>
    next.async(request[0], -1, event, error, (e, status) => (e ? failed(e) : done(status))),
  );
while (check(await wait(), error) === 0) process.stdout.write(event.text);
freeRequest(request[0]);
console.log();
