"""What editors, terminals and pages of others send: requests with their fields and headers, and where each is written down.

A request is what the named source makes at its defaults, with a conversation of our own; fields that JavaScript leaves out because
they are undefined are left out, and those that Rust writes as null are null. `LAMINA` stands for the name that the lists give.
"""

from typing import Any, NamedTuple

MODEL = "lamina-tiny"


class Sent(NamedTuple):
    """A request of a program: who sends it, where that is written, what is sent, and the form of the answer that it reads."""

    who: str
    source: str
    path: str
    answer: str
    body: Any = None
    headers: dict = {}


def tool(name, /, **properties):
    parameters = {"type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()}, "required": [*properties]}
    return {"type": "function", "function": {"name": name, "description": f"The {name} tool", "parameters": parameters}}


def typed(role, *texts):
    return {"role": role, "content": [{"type": "text", "text": text} for text in texts]}


SYSTEM = {"role": "system", "content": "You are a coding assistant."}
USER = {"role": "user", "content": "Explain this line."}
TALK = [SYSTEM, USER, {"role": "assistant", "content": "It adds."}, {"role": "user", "content": "And this?"}]
CALL = {"id": "call_1", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "a.py"}'}}
READ, RUN = tool("read_file", path="string"), tool("execute_command", command="string", requires_approval="boolean")
# A conversation behind a call, as OpenAI's clients keep it.
CALLED = [
    SYSTEM, USER, {"role": "assistant", "content": None, "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "call_1", "content": "a + b"},
]  # fmt: skip
FIM_ENDS = ["<|endoftext|>", "<|fim_prefix|>", "<|fim_suffix|>", "<PRE>", "<SUF>", "<MID>", "[PREFIX]", "[SUFFIX]"]
NODE = {"user-agent": "OpenAI/JS 5.12.2", "x-stainless-lang": "js", "x-stainless-retry-count": "0", "authorization": "Bearer none"}
CONTINUE, ZED = "continuedev/continue core/llm/llms", "zed-industries/zed crates"
VSCODE = "microsoft/vscode-copilot-chat src/extension/byok"
WEBUI = "open-webui/open-webui backend/open_webui"
CLAUDE_CODE = "ggml-org/llama.cpp pull request 20623, `claude-cli` requests as proxies record them"
CODEX = "webai-at-home/webai-at-home issue 214, the twelve fields of Codex"

SENT = [
    # Continue: a model is looked at when it is chosen; chat, tools, and completion at the cursor.
    Sent("Continue", f"{CONTINUE}/Ollama.ts", "/api/show", "show", {"name": MODEL}),
    Sent("Continue", f"{CONTINUE}/Ollama.ts", "/api/chat", "chat lines", {
        "model": MODEL, "messages": TALK, "options": {"temperature": 0.5, "num_predict": 12, "num_ctx": 2048, "num_thread": 4, "use_mmap": True},
        "keep_alive": 1800, "stream": True}),
    Sent("Continue, tools", f"{CONTINUE}/Ollama.ts", "/api/chat", "chat", {
        "model": MODEL, "messages": [USER], "options": {"num_predict": 12, "num_ctx": 2048}, "keep_alive": 1800, "stream": False,
        "tools": [READ]}),
    Sent("Continue, completion", f"{CONTINUE}/Ollama.ts", "/api/generate", "generate lines", {
        "model": MODEL, "prompt": "<fim_prefix>def add(a, b):\n<fim_suffix>\n<fim_middle>", "raw": True,
        "options": {"temperature": 0.01, "num_predict": 12, "stop": [*FIM_ENDS, "\n\n"], "num_ctx": 2048}, "keep_alive": 1800, "stream": True}),
    Sent("Continue, OpenAI", f"{CONTINUE}/OpenAI.ts", "/v1/chat/completions", "chunks", {
        "messages": TALK, "model": "lamina-tiny", "max_tokens": 12, "temperature": 0.5, "stream": True, "stream_options": {"include_usage": True},
        "tools": [READ]}, NODE),
    Sent("Continue, llama.cpp", f"{CONTINUE}/LlamaCpp.ts", "/completion", "completion events", {
        "prompt": "def add(a, b):", "stream": True, "n_predict": 12, "frequency_penalty": 0.0, "presence_penalty": 0.0, "min_p": 0.05,
        "mirostat": 0, "stop": FIM_ENDS, "top_k": 40, "top_p": 0.9, "temperature": 0.01}),
    # Zed: lists, what a model can, chat with fields that are null, completion at the cursor.
    Sent("Zed", f"{ZED}/ollama/src/ollama.rs", "/api/tags", "tags", None, {"accept": "application/json"}),
    Sent("Zed", f"{ZED}/ollama/src/ollama.rs", "/api/show", "show", {"model": MODEL}),
    Sent("Zed", f"{ZED}/ollama/src/ollama.rs", "/api/chat", "chat lines", {
        "model": MODEL, "messages": [SYSTEM, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello", "tool_calls": None,
        "thinking": None}, USER], "stream": True, "keep_alive": -1, "options": {"num_ctx": 2048, "num_predict": None, "stop": [],
        "temperature": 1.0, "top_p": None}, "tools": [], "think": None}),
    Sent("Zed, tools", f"{ZED}/ollama/src/ollama.rs", "/api/chat", "chat lines", {
        "model": MODEL, "messages": [USER, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "read_file",
        "arguments": {"path": "a.py"}}}], "thinking": None}, {"role": "tool", "tool_name": "read_file", "content": "a + b"}],
        "stream": True, "keep_alive": -1, "options": {"num_ctx": 2048, "num_predict": 12, "stop": [], "temperature": None, "top_p": None},
        "tools": [READ], "think": False}),
    Sent("Zed, completion", f"{ZED}/ollama/src/ollama_edit_prediction_delegate.rs", "/api/generate", "generate", {
        "model": MODEL, "prompt": "<fim_prefix>def add(a, b):\n<fim_suffix>\n<fim_middle>", "raw": True, "stream": False,
        "options": {"num_predict": 12, "temperature": 0.2, "stop": FIM_ENDS}}),
    Sent("Zed, OpenAI", f"{ZED}/open_ai/src/open_ai.rs", "/v1/chat/completions", "chunks", {
        "model": "lamina-tiny", "messages": [SYSTEM, USER, {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": [{"type": "text", "text": "a + b"}], "tool_call_id": "call_1"}], "stream": True,
        "stream_options": {"include_usage": True}, "max_completion_tokens": 12, "temperature": 1.0, "parallel_tool_calls": False,
        "tools": [{"type": "function", "function": {"name": "now", "description": None, "parameters": None}}],
        "prompt_cache_key": "thread-1"}),
    # VS Code's Copilot with models of Ollama: version, list, each model; then OpenAI's chat.
    Sent("VS Code", f"{VSCODE}/vscode-node/ollamaProvider.ts", "/api/version", "version"),
    Sent("VS Code", f"{VSCODE}/vscode-node/ollamaProvider.ts", "/api/tags", "tags"),
    Sent("VS Code", f"{VSCODE}/vscode-node/ollamaProvider.ts", "/api/show", "show", {"model": MODEL}),
    Sent("VS Code", f"{VSCODE}/node/openAIEndpoint.ts", "/v1/chat/completions", "chunks", {
        "messages": [typed("system", "You are an expert."), typed("user", "<context>", "Explain.")], "model": MODEL, "temperature": 0.1,
        "top_p": 1, "n": 1, "stream": True, "stream_options": {"include_usage": True}, "tools": [READ, {"type": "function", "function": {
        "name": "get_errors", "description": "", "parameters": {"type": "object", "properties": {}}}}], "tool_choice": "auto"},
        {"authorization": "Bearer ", "openai-intent": "conversation-panel", "x-github-api-version": "2025-05-01", "x-request-id": "4f3a-1",
         "user-agent": "GitHubCopilotChat/0.31.0"}),
    Sent("VS Code, Responses", f"{VSCODE}/node/openAIResponsesEndpoint.ts", "/v1/responses", "response events", {
        "model": "lamina-tiny", "input": [{"role": "system", "content": [{"type": "input_text", "text": "You are an expert."}]},
        {"role": "user", "content": [{"type": "input_text", "text": "Explain."}]}], "stream": True, "store": True, "temperature": 0.1,
        "top_p": 1, "tools": [{**READ["function"], "type": "function", "strict": False}], "tool_choice": "auto", "truncation": "disabled"}),
    # Cline: the whole context of the model is asked for, more than many servers give: refused with what to do, see the test.
    Sent("Cline", "cline/cline src/core/api/providers/ollama.ts", "/api/chat", "chat lines", {
        "model": MODEL, "messages": TALK, "stream": True, "options": {"num_ctx": 2048}}),
    Sent("Cline, OpenAI", "cline/cline src/core/api/providers/openai.ts", "/v1/chat/completions", "chunks", {
        "model": "lamina-tiny", "messages": [SYSTEM, typed("user", "<task>x</task>", "# TODO"), *CALLED[2:]], "temperature": 0,
        "stream": True, "stream_options": {"include_usage": True}, "tools": [READ, RUN]}, NODE),
    # aider, through litellm.
    Sent("aider", "Aider-AI/aider aider/models.py", "/v1/chat/completions", "chunks", {
        "model": "lamina-tiny", "messages": TALK, "temperature": 0, "stream": True},
        {"user-agent": "OpenAI/Python 1.99.1", "authorization": "Bearer none"}),
    Sent("aider, Ollama", "Aider-AI/aider aider/models.py", "/api/chat", "chat lines", {
        "model": MODEL, "messages": TALK, "options": {"temperature": 0, "num_ctx": 2048}, "stream": True}),
    # Open WebUI: lists at its start, chat with what its sliders set, titles, vectors of documents.
    Sent("Open WebUI", f"{WEBUI}/routers/ollama.py", "/api/version", "version"),
    Sent("Open WebUI", f"{WEBUI}/routers/ollama.py", "/api/tags", "tags"),
    Sent("Open WebUI", f"{WEBUI}/routers/ollama.py", "/api/ps", "tags"),
    Sent("Open WebUI", f"{WEBUI}/routers/openai.py", "/v1/models", "models", None, {"authorization": "Bearer none"}),
    Sent("Open WebUI", f"{WEBUI}/utils/payload.py", "/api/chat", "chat lines", {
        "model": MODEL, "messages": [*TALK[:3], {"role": "user", "content": "And?"}], "stream": True, "keep_alive": "5m", "think": False,
        "options": {"temperature": 0.8, "top_p": 0.9, "seed": 1, "mirostat": 0, "mirostat_eta": 0.1, "mirostat_tau": 5.0, "num_ctx": 2048,
        "num_batch": 512, "num_keep": 24, "num_predict": 12, "repeat_last_n": 64, "top_k": 40, "min_p": 0.0, "repeat_penalty": 1.1,
        "presence_penalty": 0.0, "frequency_penalty": 0.0, "stop": ["</s>"], "num_gpu": 99, "use_mmap": True, "use_mlock": False,
        "num_thread": 2}}, {"x-openwebui-user-name": "A", "x-openwebui-user-role": "user"}),
    Sent("Open WebUI, tools", f"{WEBUI}/utils/payload.py", "/api/chat", "chat", {
        "model": MODEL, "messages": [USER, {"role": "assistant", "content": "", "tool_calls": [{"index": 0, "id": "call_1", "function":
        {"name": "read_file", "arguments": {"path": "a.py"}}}]}, {"role": "tool", "content": "a + b", "tool_call_id": "call_1"}],
        "stream": False, "tools": [READ]}),
    Sent("Open WebUI, titles", f"{WEBUI}/routers/tasks.py", "/v1/chat/completions", "completion", {
        "model": "lamina-tiny", "messages": [USER], "stream": False, "max_completion_tokens": 12}),
    Sent("Open WebUI, documents", f"{WEBUI}/utils/payload.py", "/api/embed", "embed", {
        "model": MODEL, "input": ["a", "b"]}),
    # LibreChat by LangChain; Home Assistant by Ollama's package; Vim and VS Code by llama-server's gaps.
    Sent("LibreChat", "danny-avila/LibreChat api/app/clients", "/v1/models", "models", None, {"authorization": "Bearer none"}),
    Sent("LibreChat", "danny-avila/LibreChat api/app/clients", "/v1/chat/completions", "chunks", {
        "model": "lamina-tiny", "user": "65f0c", "temperature": 1, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0, "n": 1,
        "stream": True, "stream_options": {"include_usage": True}, "messages": [typed("user", "Hello")]}, NODE),
    Sent("Home Assistant", "home-assistant/core homeassistant/components/ollama/entity.py", "/api/chat", "chat lines", {
        "model": MODEL, "messages": TALK, "tools": [tool("HassTurnOn", name="string")], "stream": True, "keep_alive": -1, "think": False,
        "options": {"num_ctx": 2048}}, {"user-agent": "ollama-python/0.5.1 (x86_64 linux) Python/3.13.3"}),
    Sent("llama.vim", "ggml-org/llama.vim autoload/llama.vim", "/infill", "infill", {
        "id_slot": 0, "input_prefix": "def add(a, b):\n", "input_suffix": "\n", "input_extra": [{"text": "x = 1", "time": 1.5,
        "filename": "b.py"}], "prompt": "    return ", "n_predict": 12, "stop": [], "n_indent": 4, "top_k": 40, "top_p": 0.9, "samplers":
        ["top_k", "top_p", "infill"], "stream": False, "cache_prompt": True, "t_max_prompt_ms": 500, "t_max_predict_ms": 1000,
        "response_fields": ["content", "timings/prompt_n", "timings/predicted_n", "truncated", "tokens_cached"]}),
    Sent("llama.vim, warms up", "ggml-org/llama.vim autoload/llama.vim", "/infill", "anything", {
        "id_slot": 0, "input_prefix": "", "input_suffix": "", "input_extra": [{"text": "x = 1", "time": 1.5, "filename": "b.py"}],
        "prompt": "", "n_predict": 0, "temperature": 0.0, "samplers": [], "stream": False, "cache_prompt": True, "t_max_prompt_ms": 1,
        "t_max_predict_ms": 1, "response_fields": [""]}),
    Sent("llama.vscode", "ggml-org/llama.vscode src/llama-server.ts", "/infill", "infill", {
        "input_prefix": "def add(a, b):\n", "input_suffix": "\n", "input_extra": [], "prompt": "    ", "n_predict": 12, "top_k": 40,
        "top_p": 0.99, "stream": False, "n_indent": 4, "samplers": ["top_k", "top_p", "infill"], "cache_prompt": True,
        "t_max_prompt_ms": 1000, "t_max_predict_ms": 250}, {"authorization": "Bearer ", "user-agent": "axios/1.8.2"}),
    # Its mode for llama.cpp sends fields that no llama.cpp has; this is its mode for OpenAI's chat.
    Sent("SillyTavern", "SillyTavern/SillyTavern public/scripts/openai.js", "/v1/chat/completions", "chunks", {
        "messages": [{"role": "system", "content": "Write A's next reply."}, {"role": "user", "content": "Hi"}], "model": "lamina-tiny",
        "temperature": 1, "max_tokens": 12, "max_completion_tokens": None, "stream": True, "presence_penalty": 0, "frequency_penalty": 0,
        "top_p": 1, "top_k": None, "stop": [], "logit_bias": {}, "seed": None, "n": None}),
    # Agents of terminals: Anthropic's messages, and OpenAI's Responses.
    Sent("Claude Code", CLAUDE_CODE, "/v1/messages?beta=true", "message events", {
        "model": "claude-sonnet-4-5-20250929", "max_tokens": 32000, "temperature": 1, "stream": True, "metadata": {"user_id": "user_1_session_2"},
        "system": [{"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=fa690;"},
        {"type": "text", "text": "You are Claude Code.", "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "<system-reminder>x</system-reminder>"},
        {"type": "text", "text": "hey", "cache_control": {"type": "ephemeral"}}]}],
        "tools": [{"name": "Bash", "description": "Runs", "input_schema": {"type": "object", "properties": {"command": {"type": "string"}},
        "required": ["command"], "additionalProperties": False, "$schema": "http://json-schema.org/draft-07/schema#"}}]},
        {"anthropic-version": "2023-06-01", "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14", "x-app": "cli",
         "user-agent": "claude-cli/2.1.37 (external, cli)", "x-api-key": "none", "anthropic-dangerous-direct-browser-access": "true"}),
    Sent("Claude Code", CLAUDE_CODE, "/v1/messages/count_tokens?beta=true", "count", {
        "model": "claude-sonnet-4-5-20250929", "messages": [{"role": "user", "content": "hey"}]}),
    Sent("Codex", CODEX, "/v1/responses", "response events", {
        "model": "lamina-tiny", "instructions": "You are Codex.", "input": [{"type": "message", "role": "developer", "content":
        [{"type": "input_text", "text": "<permissions>"}]}, {"type": "message", "role": "user", "content": [{"type": "input_text", "text":
        "hey"}]}], "tools": [{"type": "function", "name": "shell", "description": "Runs", "strict": False, "parameters": {"type": "object",
        "properties": {"command": {"type": "array", "items": {"type": "string"}}}, "required": ["command"], "additionalProperties": False}}],
        "tool_choice": "auto", "parallel_tool_calls": True, "reasoning": None, "store": False, "stream": True, "include": [],
        "prompt_cache_key": "0199", "client_metadata": {"session_id": "0199"}},
        {"user-agent": "codex_cli_rs/0.145.0 (Ubuntu 24.4.0; x86_64)", "originator": "codex_cli_rs", "session-id": "0199",
         "accept": "text/event-stream"}),
    Sent("Codex, reasons", CODEX, "/v1/responses", "response events", {
        "model": "lamina-tiny", "instructions": "You are Codex.", "input": [{"type": "message", "role": "user", "content": [{"type":
        "input_text", "text": "hey"}]}], "tools": [], "tool_choice": "auto", "parallel_tool_calls": False, "reasoning": {"effort": "medium",
        "summary": "auto"}, "store": False, "stream": True, "include": ["reasoning.encrypted_content"], "prompt_cache_key": "0199"}),
]  # fmt: skip
