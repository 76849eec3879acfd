// liblamina, the C interface of Lamina. Made from crates/capi by cbindgen: do not edit. Rules of threads and ownership: docs/c.md.

#ifndef LAMINA_H
#define LAMINA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What a call came to. Numbers never change their meaning.
enum LaminaStatus
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Done; of a request: an event was written.
  LAMINA_STATUS_OK = 0,
  // Of a request: no event came in time.
  LAMINA_STATUS_TIMEOUT = 1,
  // Of a request: all answers have ended.
  LAMINA_STATUS_END = 2,
  // There is no model at the path.
  LAMINA_STATUS_MODEL = 10,
  // A file is broken.
  LAMINA_STATUS_FORMAT = 11,
  // The model, type or device is not supported.
  LAMINA_STATUS_UNSUPPORTED = 12,
  // Memory does not suffice.
  LAMINA_STATUS_OUT_OF_MEMORY = 13,
  // The device is gone: the model has to be loaded again.
  LAMINA_STATUS_DEVICE_LOST = 14,
  // An argument, a field or a handle is wrong.
  LAMINA_STATUS_INVALID_REQUEST = 15,
  // Something else failed.
  LAMINA_STATUS_RUNTIME = 16,
  // A fault inside Lamina: the call was stopped.
  LAMINA_STATUS_PANIC = 17,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum LaminaStatus LaminaStatus;
#else
typedef int32_t LaminaStatus;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What an event brings. Numbers never change their meaning; a reader passes over those that it does not know.
enum LaminaEventKind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Text of an answer.
  LAMINA_EVENT_KIND_TEXT = 0,
  // Reasoning before an answer.
  LAMINA_EVENT_KIND_REASONING = 1,
  // A call of a tool begins: `details` has its `id` and its `name`.
  LAMINA_EVENT_KIND_TOOL_CALL = 2,
  // A piece of the call's arguments, which are JSON as a whole.
  LAMINA_EVENT_KIND_TOOL_ARGUMENTS = 3,
  // How likely the prompt's tokens were, where `echo` and `logprobs` ask for that: in `details`.
  LAMINA_EVENT_KIND_PROMPT = 4,
  // How much of the prompt is computed, where that was asked for: in `details`.
  LAMINA_EVENT_KIND_PROGRESS = 5,
  // An answer has ended: `finish` says why, `details` where its time went.
  LAMINA_EVENT_KIND_END = 6,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum LaminaEventKind LaminaEventKind;
#else
typedef int32_t LaminaEventKind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// A loaded model. Any number of threads may use one at once: their requests are batched.
typedef struct LaminaModel LaminaModel;

// A request that runs. It keeps its model; one thread reads it at a time.
typedef struct LaminaRequest LaminaRequest;

// Given a piece of a response; false ends it. Called on the thread that called `lamina_call`.
typedef bool (*LaminaSink)(const char *bytes, size_t count, void *user);

// Told which part of the weights is loaded, from 0 to 1; false gives up. It may be called on a thread of Lamina's.
typedef bool (*LaminaProgress)(float part, void *user);

// What a request brings. Set `size` before each call: a library writes no further than that.
typedef struct LaminaEvent {
  // `sizeof(LaminaEvent)` of the caller.
  uint32_t size;
  // What it brings.
  LaminaEventKind kind;
  // Which of the answers: those to prompt `p` are `p * n` to `p * n + n - 1`.
  uint32_t index;
  // Which of the answer's tool calls, where it belongs to one.
  uint32_t call;
  // Whole characters of UTF-8, with a zero byte behind them; valid, like all pointers here, until the next call of
  // `lamina_request_next` on this request.
  const char *text;
  // Bytes of the text.
  size_t text_len;
  // The tokens that it came with.
  const uint32_t *tokens;
  // Natural logarithm of the probability of each; NULL where `logprobs` does not ask for them.
  const float *logprobs;
  // Tokens.
  size_t token_count;
  // At an end `"stop"`, `"length"`, `"tool_calls"` or `"cancelled"`, otherwise NULL. Static.
  const char *finish;
  // An object of JSON with what has no field here, or NULL.
  const char *details;
  // At an end: tokens of the prompt.
  uint32_t prompt_tokens;
  // Of these, found in the cache.
  uint32_t cached_tokens;
  // At an end: tokens of the answer.
  uint32_t completion_tokens;
  // Of these, reasoning.
  uint32_t reasoning_tokens;
} LaminaEvent;

// Called once, on a thread of Lamina's: it may post to an event loop, and call nothing of Lamina's.
typedef void (*LaminaReady)(void *user);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Version of the library, such as `0.1.0`. Static.
const char *lamina_version(void);

// Version of this interface: the upper 16 bits count breaks, the lower ones what was added since.
uint32_t lamina_abi_version(void);

// Calls an endpoint of the server without a socket, such as `POST /v1/embeddings`, with a body or NULL, and hands the response
// to `sink` piece by piece: docs/serving.md has them. What the endpoint refuses is an error with its message.
//
// # Safety
// Strings end with a zero byte; `sink` may be called with `user` until the call returns.
LaminaStatus lamina_call(const struct LaminaModel *model,
                         const char *endpoint,
                         const char *body,
                         LaminaSink sink,
                         void *user,
                         char **error);

// Loads the model at `path`, a GGUF file or a folder; with NULL the one inside the package. `options` is NULL or an object of
// JSON with the options of loading and answering that a server has for a model, such as `{"context": 4096, "threads": 4}`:
// docs/load-options.md. `progress` may be NULL.
//
// # Safety
// Strings are NULL or end with a zero byte; `out` may be written, and `error` too where it is not NULL.
LaminaStatus lamina_model_load(const char *path,
                               const char *options,
                               LaminaProgress progress,
                               void *user,
                               struct LaminaModel **out,
                               char **error);

// Another handle of the same model, to be freed by itself; nothing is loaded anew. NULL where `model` is none.
struct LaminaModel *lamina_model_clone(const struct LaminaModel *model);

// Frees a handle; the model goes with its last handle and its last request. NULL is nothing.
void lamina_model_free(struct LaminaModel *model);

// What is known about a model, as an object of JSON; free it with `lamina_string_free`. NULL where `model` is none.
char *lamina_model_info(const struct LaminaModel *model);

// Begins a request: an object of JSON with the fields of POST /v1/chat/completions where it has `messages`, else of POST
// /v1/completions, with their defaults and refusals (docs/serving-fields.md). `stream` makes no difference.
//
// # Safety
// `request` ends with a zero byte, and `out` may be written.
LaminaStatus lamina_submit(const struct LaminaModel *model,
                           const char *request,
                           struct LaminaRequest **out,
                           char **error);

// Waits for the next event, for at most `milliseconds`; below 0 for as long as it takes, 0 not at all. The result is
// `LAMINA_STATUS_OK` with an event, `_TIMEOUT` where none came in time, `_END` when all answers have ended, or what ended the
// request.
//
// # Safety
// `event->size` is set, and the event may be written for that size.
LaminaStatus lamina_request_next(const struct LaminaRequest *request,
                                 int64_t milliseconds,
                                 struct LaminaEvent *event,
                                 char **error);

// For event loops. True where `lamina_request_next` has something to say without waiting. Otherwise `ready` is called once when
// it has, unless the request is freed or this is called again before: when either returns, it is called no more.
//
// # Safety
// `ready` may be called with `user` on any thread.
bool lamina_request_on_ready(const struct LaminaRequest *request,
                             LaminaReady ready,
                             void *user);

// Asks for an early end, from any thread and at any time; the last event of each answer then says `cancelled`.
void lamina_request_cancel(const struct LaminaRequest *request);

// Frees a request, and ends it where it still runs. NULL is nothing.
void lamina_request_free(struct LaminaRequest *request);

// Writes at most `capacity` numbers of the embedding of a text of `text_len` bytes to `out`, and to `count` how many there
// are. The vector has the length 1, and is pooled as the model's makers do.
//
// # Safety
// `text` is valid for its bytes, `out` for its capacity, and `count` may be written.
LaminaStatus lamina_embed(const struct LaminaModel *model,
                          const char *text,
                          size_t text_len,
                          float *out,
                          size_t capacity,
                          size_t *count,
                          char **error);

// Writes how well each of `document_count` documents answers the query, by a reranker: greater is better.
//
// # Safety
// Strings end with a zero byte; `documents` and `out` are valid for `document_count` values.
LaminaStatus lamina_rerank(const struct LaminaModel *model,
                           const char *query,
                           const char *const *documents,
                           size_t document_count,
                           float *out,
                           char **error);

// Frees a string of this library; NULL is nothing.
//
// # Safety
// It is a string that this library said is to be freed, and was not freed yet.
void lamina_string_free(char *string);

// Writes at most `capacity` tokens of a text of `text_len` bytes to `out`, and to `count` how many there are: call it again
// with more room where these are more. With `special`, special tokens in the text are read as such, and those that the model
// expects around a text are added; without, the text is plain and nothing is added.
//
// # Safety
// `text` is valid for its bytes, `out` for its capacity, and `count` may be written.
LaminaStatus lamina_tokenize(const struct LaminaModel *model,
                             const char *text,
                             size_t text_len,
                             bool special,
                             uint32_t *out,
                             size_t capacity,
                             size_t *count,
                             char **error);

// Writes at most `capacity` bytes of the text of tokens to `out`, and to `count` how many there are. The text is UTF-8, without
// special tokens and without a zero byte at its end.
//
// # Safety
// `tokens` are valid for their number, `out` for its capacity, and `count` may be written.
LaminaStatus lamina_detokenize(const struct LaminaModel *model,
                               const uint32_t *tokens,
                               size_t token_count,
                               char *out,
                               size_t capacity,
                               size_t *count,
                               char **error);

// The text that a conversation becomes by the model's template: `request` has the fields of POST /apply-template, of which
// `messages` must be there. Free `out` with `lamina_string_free`.
//
// # Safety
// `request` ends with a zero byte, and `out` may be written.
LaminaStatus lamina_chat_prompt(const struct LaminaModel *model,
                                const char *request,
                                char **out,
                                char **error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LAMINA_H */
