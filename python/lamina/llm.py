"""`LLM`: a loaded model."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import sys
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Union, overload

import numpy as np

from . import _lamina, checks, loading, media, state
from .asking import asked
from .batch import Batch
from .closing import Closing
from .conversation import answer_options, conversation
from .coroutines import Coroutines
from .divergence import Divergence, TokenDivergence
from .errors import InvalidRequestError, numbered
from .foreign import LOADING, understands
from .grammar import Grammar
from .images import picture
from .media import Given, Media
from .outputs import Beam, Completion, ModelInfo, Perplexity, Score, model_info
from .policy import Policy
from .progress import Progress
from .resume import Begun, Resumed, begun
from .sampling import SamplingParams, to_request
from .server import Server
from .sounds import sound as sound_of
from .state import State
from .stream import Stream
from .trace import Trace, Watching
from .types import Ids, Image, Images, Lora, Message, Path, Prompt, Prompts, Reasoning, Sound, Sounds, Tool

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Literal, Unpack

    from .sampling import SamplingOptions, _ChatOptions

_log = logging.getLogger("lamina")


class LLM(Coroutines, Closing):
    """A model, ready to answer. Any number of threads may use it at once: their requests run as one batch.
    All calls leave other Python threads running, and end with `KeyboardInterrupt` soon after Ctrl-C.

    Examples:
        >>> with lamina.LLM("model.gguf") as llm:
        ...     print(llm.generate("Once upon a time", max_tokens=64, temperature=0.8).text)
    """

    @understands(LOADING)
    def __init__(
        self,
        path: Optional[Path] = None,
        device: str = "auto",
        context: Optional[int] = None,
        kv_dtype: str = "f16",
        dtype: str = "auto",
        threads: Optional[int] = None,
        seed: Optional[int] = None,
        progress: Union[bool, Progress] = True,
        loras: Optional[Dict[str, Path]] = None,
        draft: Optional[Path] = None,
        cache_dir: Optional[Path] = None,
        cache_disk: Union[str, int, None] = None,
        memory: Union[str, int, None] = None,
        offload: Union[str, Policy] = "auto",
        panel_cache: Optional[Path] = None,
        kv_swap: Union[str, int, None] = None,
        device_memory: Union[str, int, None] = None,
        panel_check: str = "always",
        mmproj: Union[Path, bool, None] = None,
        mmproj_device: str = "auto",
        image_cache: Union[str, int, None] = None,
        image_max_tokens: Optional[int] = None,
        image_min_tokens: Optional[int] = None,
        image_limit: Optional[str] = None,
        allow_urls: Sequence[str] = (),
        offline: bool = False,
        stages: str = "",
        tp: Union[str, int] = "",
    ) -> None:
        """Loads a model.

        Args:
            path: a GGUF file (or its first shard), a Hugging Face folder (config.json, *.safetensors, tokenizer), or None
                for the small model inside the package.
            device: "auto" (a GPU that holds the model, else the CPU), "cpu", "cuda" or "cuda:1", with the CPU for what is too large.
            context: the longest sequence in tokens; None: the model's own, cut to what memory holds.
            kv_dtype: type of cached keys and values: f32 f16 bf16 q8_0 q4_0 q4_1 fp8; or apart, as in ``k=q8_0,v=q4_0``,
                and by how far layers see, as in ``window=f16,full.k=q8_0`` (full, window, chunk).
            dtype: "auto" keeps the file's types; a name such as "q4_k" quantizes the matrices to it while loading.
            threads: None: one for each physical core that this process may use.
            seed: requests without a seed get one from this and their number, to be repeated; None: answers differ each time.
            progress: shows a line on a terminal's stderr while loading; or a function that is told the bytes done, and all.
            loras: low-rank adapters to load beside the model, by the names that requests call them: folders that PEFT
                saved, or GGUF adapters. A request uses those that its `lora` names, and none without.
            draft: guesses tokens ahead, which are verified in one step and kept where the model would have chosen them, so
                that answers are the same: "ngram" looks them up in the prompt and the answer, "lookahead" also in what was
                said behind wrong guesses, "auto" in earlier answers too; "mtp" asks the checkpoint's own layers that guess
                further tokens (as "auto" does where there are any); the path of a smaller model, best with the same
                tokens, or of a head that was trained for the model (EAGLE, Medusa), lets that one guess. How many are
                guessed follows what they cost and how often they are right.
            cache_dir: a folder that keeps what was computed of prompts: the same beginning is read after a restart, or by
                another process with the same model and options, with the same bits.
            cache_disk: bytes that this folder may take, or as "20G"; None: 10 GB.
            memory: the most that the process may take, in bytes or as "8GiB" or "80%"; None: what there is. Weights that do
                not fit are read from disk in every step; the answers are the same.
            device_memory: the most that may be taken of a GPU's memory, in the same way; None: what is free there.
            offload: "auto", "never" to refuse a model whose weights do not fit, or a `Policy` that says where weights lie.
            panel_cache: a folder that keeps all weights of a model that is read from disk, as they are multiplied, for the next
                start. None: the user's cache folder keeps those that are streamed.
            panel_check: "always" compares weights that are read from disk with their checksums in every step, so that what
                changes there is an error and no other answer; "first" does so when a part is read for the first time.
            kv_swap: where requests that wait for memory may keep theirs: "8GiB" (on disk; or bytes), "ram:2GiB", or both as
                "ram:2GiB,disk:8GiB"; None: they are computed again. Answers are the same.
            mmproj: the file with the encoder of pictures of a GGUF model; None: the one beside the model that fits; False: text
                only, nothing of an encoder is read.
            mmproj_device: where encoders of pictures and sound run: "cpu", "cuda", "cuda:1", or "auto" for the model's own device,
                as far as it has room for both, and the CPU where a GPU has part of the model.
            image_cache: memory for what the encoder made of the last pictures, as "1GiB" or in bytes; None: 512 MiB; "0": nothing.
            image_max_tokens: most tokens of a picture, which trades detail for time, where the model's rule has such a bound.
            image_min_tokens: fewest tokens of a picture: smaller ones are enlarged, where the model's rule does so.
            image_limit: what pictures may measure, as "bytes=20MiB,pixels=64M,side=16384,all=256M,count=64" or some of these:
                bytes, pixels and longer side of each, pixels and number of all in a request.
            allow_urls: hosts from which pictures may be fetched, by https and at addresses of the open internet alone:
                "example.org", or "*.example.org" for all below it. None: no address is asked.
            offline: True fetches nothing: of models that have names, those that were fetched before are used.
            stages: ranks that compute layers of the model, each a process of `lamina rank`, mostly on another machine, as
                "HOST:PORT,HOST:PORT=LAYERS" in the order of the layers. The answers are the same.
            tp: ranks that compute some rows of each matrix (tensor parallel): one answer is faster, and the same. Processes of
                `lamina rank` on other machines, as "HOST:PORT,HOST:PORT"; or "numa", one in this process for each node of the
                machine's memory; or how many in this process.

        Parameters of llama-cpp-python's `Llama` and vLLM's `LLM` are understood by their names too (model_path, n_ctx,
        n_gpu_layers, max_model_len, ..); one that there is no such thing for is refused, with what there is instead.

        Raises:
            ModelError: there is no model at the path, or its parts do not fit together.
            FormatError: a file is damaged.
            UnsupportedError: the model cannot be run here, or a parameter has no counterpart.
            OutOfMemoryError: it does not fit into the memory that it may take.
            InvalidRequestError: an option has a value that it cannot have.
        """
        # The options of loading are arguments one by one for editors and types alone.
        hosts = checks.texts("allow_urls", allow_urls)
        reader = _lamina.UrlReader(hosts)
        self._model = loading.load(path, progress, locals())
        self._fetch = (lambda url: self._model.fetch(reader, url)) if hosts else None
        self._seed = None if seed is None else checks.whole("seed", seed, -1, 2**63 - 1)
        self._loras = list(loras or ())
        self._requests = itertools.count()
        self._info = model_info(**self._model.info())
        for note in self._info.notes:
            _log.warning("%s: %s", self._info.path, note)

    @overload
    def generate(
        self,
        prompt: Prompt,
        *,
        sampling_params: Optional[SamplingParams] = ...,
        resume: Resumed = ...,
        images: Images = ...,
        sounds: Sounds = ...,
        **options: Unpack[SamplingOptions],
    ) -> Completion: ...
    @overload
    def generate(
        self,
        prompt: Prompts,
        *,
        sampling_params: Optional[SamplingParams] = ...,
        images: Images = ...,
        sounds: Sounds = ...,
        **options: Unpack[SamplingOptions],
    ) -> List[Completion]: ...
    def generate(
        self,
        prompt: Union[Prompt, Prompts],
        *,
        sampling_params: Optional[SamplingParams] = None,
        resume: Resumed = None,
        images: Images = None,
        sounds: Sounds = None,
        **options: Any,
    ) -> Union[Completion, List[Completion]]:
        """Continues a prompt. A list of prompts runs as one batch and returns a list.

        Args:
            prompt: a text, which starts with the model's beginning token; or token ids, which are taken as they are; or a
                list of such.
            sampling_params: options that several requests share.
            resume: an answer that was cut, as its `Completion` or the `state` of it: with the same prompt and options it
                goes on to the tokens that it would have had.
            images: pictures, in the order of the model's markers in the prompt (`info.vision.marker`), before it where there
                are none; for a list of prompts a list of such lists. Each is a path, the bytes of a file, a PIL image, an
                array of uint8 [height, width, channels], or a data: URL.
            sounds: sounds, in the order of their markers (`info.hearing.marker`), in the same way. Each is a path, the bytes
                of a file (WAV, FLAC, MP3, Ogg Vorbis), a data: URL, or (samples, rate) with an array of one channel.
            options: those of `SamplingParams` (max_tokens, temperature, top_p, stop, seed, ..) and of grammars (json_schema,
                grammar, regex, choice); they win over sampling_params.

        Returns:
            The answer, for a list of prompts a list. With n above 1, its `completions` has all answers.

        Raises:
            InvalidRequestError: an option or a prompt is wrong; nothing was computed.

        Examples:
            >>> llm.generate("Once upon a time", max_tokens=16, temperature=0).text
        """
        with self._batch(prompt, sampling_params, resume, Given(images, sounds), options) as batch:
            return batch.answers()

    def stream(
        self,
        prompt: Prompt,
        *,
        sampling_params: Optional[SamplingParams] = None,
        images: Images = None,
        sounds: Sounds = None,
        **options: Unpack[SamplingOptions],
    ) -> Stream:
        """Continues a prompt piece by piece; closing the iterator cancels the request.

        Args:
            prompt: a text or token ids.
            sampling_params: options that several requests share.
            images: as for `generate`.
            sounds: as for `generate`.
            options: as for `generate`.

        Examples:
            >>> for piece in llm.stream("Once upon a time"):
            ...     print(piece.text, end="", flush=True)
        """
        params = self._params(sampling_params, options)
        given, single = checks.prompts("prompt", prompt)
        if not single:
            raise InvalidRequestError("stream takes one prompt, but a list of prompts was given: call it for each")
        request = self._submit(given[0], params, media.of_prompt(Given(images, sounds), self._fetch))
        return Stream(request, asked(self._model, given[0], params), params.n)

    @overload
    def chat(
        self,
        messages: Sequence[Message],
        tools: Optional[Sequence[Tool]] = ...,
        response_format: Optional[Dict[str, Any]] = ...,
        stream: Literal[False] = ...,
        *,
        chat_template: Optional[str] = ...,
        chat_template_kwargs: Optional[Dict[str, Any]] = ...,
        split_special_tokens: bool = ...,
        tool_choice: Union[str, Dict[str, Any]] = ...,
        parallel_tool_calls: bool = ...,
        reasoning: Reasoning = ...,
        chat_format: Optional[str] = ...,
        sampling_params: Optional[SamplingParams] = ...,
        **options: Unpack[_ChatOptions],
    ) -> Completion: ...
    @overload
    def chat(
        self,
        messages: Sequence[Message],
        tools: Optional[Sequence[Tool]] = ...,
        response_format: Optional[Dict[str, Any]] = ...,
        stream: Literal[True] = ...,
        *,
        chat_template: Optional[str] = ...,
        chat_template_kwargs: Optional[Dict[str, Any]] = ...,
        split_special_tokens: bool = ...,
        tool_choice: Union[str, Dict[str, Any]] = ...,
        parallel_tool_calls: bool = ...,
        reasoning: Reasoning = ...,
        chat_format: Optional[str] = ...,
        sampling_params: Optional[SamplingParams] = ...,
        **options: Unpack[_ChatOptions],
    ) -> Stream: ...
    def chat(
        self,
        messages: Sequence[Message],
        tools: Optional[Sequence[Tool]] = None,
        response_format: Optional[Dict[str, Any]] = None,
        stream: bool = False,
        *,
        chat_template: Optional[str] = None,
        chat_template_kwargs: Optional[Dict[str, Any]] = None,
        split_special_tokens: bool = True,
        tool_choice: Union[str, Dict[str, Any]] = "auto",
        parallel_tool_calls: bool = True,
        reasoning: Reasoning = None,
        chat_format: Optional[str] = None,
        sampling_params: Optional[SamplingParams] = None,
        **options: Any,
    ) -> Union[Completion, Stream]:
        """Answers a conversation, written with the model's own template.

        Args:
            messages: objects with "role" and "content", and whatever else the template knows. Parts of a content may be
                pictures: {"type": "image", "image": x}, where x is as for `generate`, or {"type": "image_url", "image_url":
                {"url": x}}, where x may be a data: URL or a path; or sounds: {"type": "audio", "audio": x}, where x is as for
                `generate`, or samples with "sampling_rate" beside them.
            tools: JSON schemas of tools; the template shows them to the model.
            response_format: what the answer must look like: {"type": "json_object"}, {"type": "json_schema", "json_schema":
                {"name": ..., "schema": ...}}, {"type": "structural_tag", ...}, or {"type": "text"}, which is anything.
            stream: returns the pieces of the answer as they come, like `LLM.stream`.
            chat_template: another template than the model's, as Jinja source.
            chat_template_kwargs: further variables of the template, such as {"enable_thinking": False}.
            split_special_tokens: special tokens that the messages spell, such as "</s>", stay text. False reads them as
                tokens, as other engines do: never with text of strangers, who could end their turn and open another.
            tool_choice: "auto": the model calls tools or answers; "none": it is not shown them; "required": it calls at
                least one; a tool's name, or {"type": "function", "function": {"name": ...}}: it calls that one. Names and
                arguments of calls are always valid; a schema that cannot be enforced is told in `warnings`, or refused
                where the tool says "strict".
            parallel_tool_calls: False: at most one call.
            reasoning: None: as the template has it; False or True: the template is told whether to think; a number, or
                {"budget": 512, "end_text": "..."}: tokens after which the thought is closed, after that text. The form of
                the answer (response_format, calls) begins behind the thought.
            chat_format: how calls are written, if not as the template shows; a name of `lamina.chat.formats()`.
            sampling_params: options that several requests share.
            options: as for `generate`.

        The answer comes taken apart: `text` is its content, beside it are `reasoning` and `tool_calls`.

        Examples:
            >>> answer = llm.chat([{"role": "user", "content": "Hello!"}], max_tokens=100)
            >>> answer.text, answer.message
        """
        if response_format is not None:
            options["response_format"] = response_format
        params = self._params(sampling_params, options)
        if params.echo:
            raise InvalidRequestError("echo is for generate and stream: apply_chat_template shows a chat's prompt")
        said, given = media.of_messages(messages, self._fetch)
        request = self._model.chat(
            *conversation(said, tools, chat_template, chat_template_kwargs),
            checks.flag("split_special_tokens", split_special_tokens),
            answer_options(tool_choice, parallel_tool_calls, reasoning, chat_format),
            {**self._request(params), **given._asdict()},
        )
        running = Stream(request, asked(self._model, "", params), params.n, chat=True)
        return running if stream else running.whole()

    def apply_chat_template(
        self,
        messages: Sequence[Message],
        tools: Optional[Sequence[Tool]] = None,
        add_generation_prompt: bool = True,
        chat_template: Optional[str] = None,
        **variables: Any,
    ) -> str:
        """The text that a conversation becomes.

        Args:
            messages: as for `chat`.
            tools: as for `chat`.
            add_generation_prompt: whether the text ends where the answer begins.
            chat_template: another template than the model's, as Jinja source.
            variables: further variables of the template.
        """
        ending = checks.flag("add_generation_prompt", add_generation_prompt)
        return self._model.apply_chat_template(*conversation(media.without(messages), tools, chat_template, variables), ending)

    def tokenize(self, text: str, special: bool = False) -> List[int]:
        """Token ids of a text.

        Args:
            text: any text.
            special: reads special tokens such as "</s>" in the text as such, and adds those that the model wants around a
                text.
        """
        return self._model.tokenize(checks.text("text", text), checks.flag("special", special))

    def detokenize(self, ids: Ids) -> str:
        """The text of token ids, without special tokens.

        Args:
            ids: token ids, as a list or an array.
        """
        return self._model.detokenize(checks.token_ids("ids", ids))

    def image_tokens(self, image: Image) -> int:
        """Tokens that a picture takes in a prompt, with those that the model's markup around it has. Nothing is encoded.

        Args:
            image: as for `generate`.
        """
        return self._model.image_tokens(picture("image", image, self._fetch))

    def image_rows(self, image: Image) -> NDArray[np.float32]:
        """What the encoder and its projector make of a picture: the rows that stand in a prompt, [rows, hidden].

        Args:
            image: as for `generate`.
        """
        return self._model.image_rows(picture("image", image, self._fetch))

    def sound_tokens(self, sound: Sound) -> int:
        """Tokens that a sound takes in a prompt, without those of the model's markup around it. Nothing is encoded.

        Args:
            sound: as for `generate`.
        """
        return self._model.sound_tokens(sound_of("sound", sound, fetch=self._fetch))

    def sound_rows(self, sound: Sound) -> NDArray[np.float32]:
        """What the encoder and its projector make of a sound: the rows that stand in a prompt, [rows, hidden].

        Args:
            sound: as for `generate`.
        """
        return self._model.sound_rows(sound_of("sound", sound, fetch=self._fetch))

    def logits(self, prompt: Prompt, lora: Lora = None) -> NDArray[np.float32]:
        """Logits of every position of a prompt, [tokens, vocab], from one forward.

        Args:
            prompt: a text or token ids.
            lora: adapters to use, as for `generate`.
        """
        return self._model.logits(checks.prompt("prompt", prompt), checks.lora("lora", lora))

    def hidden(self, prompt: Prompt, layer: int = -1, lora: Lora = None) -> NDArray[np.float32]:
        """Hidden rows of every position, [tokens, hidden].

        Args:
            prompt: a text or token ids.
            layer: 0 is after the embedding, n after layer n, and -1 or the number of layers after the final norm. Negative
                numbers count from the end.
            lora: adapters to use, as for `generate`.
        """
        number = checks.whole("layer", layer, -(2**31))
        return self._model.hidden(checks.prompt("prompt", prompt), number, checks.lora("lora", lora))

    def save_state(
        self,
        path: Path,
        prompt: Prompt,
        data: Any = None,
        lora: Lora = None,
        images: Images = None,
        sounds: Sounds = None,
    ) -> int:
        """Saves what memory has of a prompt as a file.

        Args:
            path: the file.
            prompt: a text or token ids that were computed: a conversation so far.
            data: anything that JSON can say, kept beside it.
            lora: the adapters that it was computed with.
            images: its pictures, as for `generate`.
            sounds: its sounds, as for `generate`.

        Returns:
            Bytes of the file.
        """
        given = media.of_prompt(Given(images, sounds), self._fetch)
        return state.save(self._model, path, prompt, given, data, lora)

    def load_state(self, path: Path, lora: Lora = None) -> State:
        """Reads what `save_state` wrote, and puts what was computed back into memory: it is not computed again.

        Args:
            path: the file.
            lora: the adapters that it was computed with.

        Raises:
            InvalidRequestError: the file belongs to another model or to other options.
            FormatError: it is damaged.
        """
        return state.load(self._model, path, lora)

    def embed(self, text: Union[Prompt, Prompts], lora: Lora = None) -> NDArray[np.float32]:
        """One vector of length 1, [hidden], for a text or token ids; for a list of them [prompts, hidden].

        Its final hidden rows are pooled as the model's makers do (GGUF's pooling_type, the files of
        sentence-transformers); where they say nothing it is their mean.

        Args:
            text: a text, token ids, or a list of such.
            lora: adapters to use, as for `generate`.
        """
        given, single = checks.prompts("text", text)
        scales = checks.lora("lora", lora)
        if single:
            return self._model.embed(given[0], scales)
        vectors = np.empty((len(given), self._info.hidden), np.float32)
        for i, one in enumerate(given):
            with numbered("text", i):
                vectors[i] = self._model.embed(one, scales)
        return vectors

    def rerank(self, query: str, documents: Sequence[str], lora: Lora = None) -> NDArray[np.float32]:
        """How well each document answers the query, [documents], by a reranker: its classifier's score, greater is better.

        The sigmoid of a score is what rerankers are trained on as a probability.

        Args:
            query: what is asked.
            documents: texts, in any order.
            lora: adapters to use, as for `generate`.
        """
        texts = checks.texts("documents", documents)
        return self._model.rerank(checks.text("query", query), texts, checks.lora("lora", lora))

    def beam(
        self,
        prompt: Prompt,
        width: int = 4,
        max_tokens: Optional[int] = None,
        length_penalty: float = 1.0,
        early_stopping: Union[bool, str] = False,
        stop: Union[None, str, List[str]] = None,
        n: int = 1,
        grammar: Union[None, str, Grammar] = None,
        lora: Lora = None,
    ) -> List[Beam]:
        """The n likeliest answers to a prompt, best first, by beam search as transformers' `generate(num_beams=width)` has it.

        Args:
            prompt: a text or token ids.
            width: beginnings that go on side by side; each costs a row of every step, and the pages that it does not share.
            max_tokens: tokens of an answer at most; None: as many as the context holds.
            length_penalty: answers are compared by the sum of their logprobs by this power of their length: above 0 it
                favors long ones, below 0 short ones.
            early_stopping: once there are as many answers as beams, True ends the search; False ends it when the best beam
                would be no better than the worst answer, were it to end now; "never" when none can become better.
            stop: as for `generate`.
            n: answers that are returned, at most `width`.
            grammar: as for `generate`.
            lora: as for `generate`.
        """
        params = SamplingParams(max_tokens=max_tokens, stop=stop, n=n, grammar=grammar, lora=lora)
        if early_stopping not in (False, True, "never"):
            raise InvalidRequestError(f'early_stopping takes False, True or "never", but {early_stopping!r} was given')
        rows = _lamina.beam(
            self._model,
            checks.prompt("prompt", prompt),
            to_request(params),
            checks.whole("width", width),
            checks.number("length_penalty", length_penalty),
            str(early_stopping).lower(),
        )
        return [Beam(*row) for row in rows]

    @overload
    def score(self, context: Prompt, continuation: Prompt, lora: Lora = ...) -> Score: ...
    @overload
    def score(
        self, context: Union[Prompt, Prompts], continuation: Union[Prompt, Prompts], lora: Lora = ...
    ) -> Union[Score, List[Score]]: ...
    def score(
        self, context: Union[Prompt, Prompts], continuation: Union[Prompt, Prompts], lora: Lora = None
    ) -> Union[Score, List[Score]]:
        """How likely a continuation is behind a context, and whether the model would have chosen it: lm-eval's
        `loglikelihood`. Of lists a list, as one batch; one context may have several continuations, and is computed once.

        Spaces at the end of a context count for its continuation.

        Args:
            context: a text or token ids, or a list of such.
            continuation: the same kind, or a list of such.
            lora: adapters to use, as for `generate`.

        Examples:
            >>> warm, fish = llm.score("The sun is", [" warm", " a fish"])
            >>> warm.logprob > fish.logprob
        """
        pairs, single = checks.pairs(("context", context), ("continuation", continuation))
        scores = [Score(*row) for row in self._model.score(pairs, checks.lora("lora", lora))]
        return scores[0] if single else scores

    def perplexity(
        self, text_or_ids: Prompt, context: int = 512, stride: int = 512, lora: Lora = None
    ) -> Perplexity:
        """How well the model predicts a text, in windows of `context` tokens that begin `stride` tokens apart.

        No token is scored twice, and the first one of a window that does not overlap is not scored. Each window of a
        text starts with the model's beginning token, where it has one; ids are taken as they are.

        Args:
            text_or_ids: a long text, or token ids.
            context: tokens of a window.
            stride: tokens between the beginnings of windows.
            lora: adapters to use, as for `generate`.
        """
        sizes = checks.whole("context", context), checks.whole("stride", stride)
        prompt, scales = checks.prompt("text_or_ids", text_or_ids), checks.lora("lora", lora)
        return Perplexity(*self._model.perplexity(prompt, *sizes, scales))

    def trace(
        self,
        prompt: Union[Prompt, Prompts],
        *,
        detail: str = "tokens",
        sampling_params: Optional[SamplingParams] = None,
        **options: Unpack[SamplingOptions],
    ) -> Trace:
        """Continues a prompt, or several at once, and records what happens; the answer's bits are the same as without.

        Args:
            prompt: a text, token ids, or a list of such.
            detail: "steps", "ops" (each operator too), "tokens" (each token with its candidates behind every sampler too), or "inside"
                (what the model would have said behind each layer, what heads attend to, and which experts rows go to, too).
            sampling_params: options that several requests share.
            options: as for `generate`; without `max_tokens` 64 tokens are made.
        """
        options.setdefault("max_tokens", 64)
        params = self._params(sampling_params, options)
        several = isinstance(prompt, (list, tuple)) and not all(isinstance(one, int) for one in prompt)
        prompts = [checks.prompt("prompt", one) for one in (prompt if several else [prompt])]
        return Trace(_lamina.trace(self._model, prompts, [self._request(params) for _ in prompts], detail))

    def watch(self, detail: str = "ops") -> Watching:
        """Records all that the model does while a block runs, for requests of any thread.

        Args:
            detail: as for `trace`.

        Examples:
            >>> with llm.watch() as watching:
            ...     llm.generate("Once upon a time", max_tokens=16)
            >>> watching.trace.save("trace.html")
        """
        return Watching(self._model, detail)

    def divergence(self, base: Union[LLM, Path], text_or_ids: Prompt, context: int = 512, lora: Lora = None) -> Divergence:
        """How far this model's probabilities of a text are from those of its base, such as the one it was quantized from.

        Windows are those of `perplexity`. The mean KL divergence of a model from itself is 0.

        Args:
            base: an `LLM`, or a path to load one from for the comparison; both are in memory at once.
            text_or_ids: a long text, or token ids.
            context: tokens of a window.
            lora: adapters of this model to use, as for `generate`.

        Examples:
            >>> d = lamina.LLM("model-Q4_K_M.gguf").divergence("model-F16.gguf", text)
            >>> d.kl, d.same_top, d.to_pandas()
        """
        prompt, size = checks.prompt("text_or_ids", text_or_ids), checks.whole("context", context)
        scales = checks.lora("lora", lora)
        if isinstance(base, LLM):
            figures, rows = self._model.divergence(base._model, prompt, size, scales)
        else:
            with LLM(base, context=size) as loaded:
                figures, rows = self._model.divergence(loaded._model, prompt, size, scales)
        return Divergence(**json.loads(figures), by_token=[TokenDivergence(*row) for row in rows])

    @property
    def config(self) -> Dict[str, Any]:
        """The model's configuration under Hugging Face names, whatever its format."""
        config: Dict[str, Any] = json.loads(self._model.config())
        return config

    @property
    def info(self) -> ModelInfo:
        """Sizes and names."""
        return self._info

    @property
    def chat_format(self) -> str:
        """How the model writes calls of tools, a name of `lamina.chat.formats()`; "none" where its template shows no
        known format."""
        return self._model.chat_format()

    @property
    def loras(self) -> List[str]:
        """Names of the adapters that requests may use."""
        return list(self._loras)

    def serve(self, **options: Any) -> None:
        """Answers over HTTP until Ctrl-C, which lets running requests end.

        Args:
            options: as for `Server`: port, host, ..
        """
        with Server(self, **options) as server:
            print(f"listening on {server.url}", file=sys.stderr)
            with contextlib.suppress(KeyboardInterrupt):
                server.wait()

    def close(self) -> None:
        """Ends all requests and frees the memory; later calls raise LaminaError. Closing twice is fine."""
        self._model.close()

    def __repr__(self) -> str:
        i = self._info
        return f"LLM({i.path!r}: {i.architecture}, {i.type}, context {i.context}, {i.device})"

    def _params(self, given: Optional[SamplingParams], options: Any) -> SamplingParams:
        if given is not None and not isinstance(given, SamplingParams):
            raise InvalidRequestError(f"sampling_params takes lamina.SamplingParams, but {given!r} was given")
        if given is None:
            return SamplingParams(**options)
        return given.replace(**options) if options else given

    def _request(self, params: SamplingParams) -> Dict[str, Any]:
        """Options for the binding; a seed is derived for those that have none."""
        options = to_request(params)
        if self._seed not in (None, -1) and options["seed"] in (None, -1):
            # Weyl's sequence: neighbouring bases and numbers stay apart.
            options["seed"] = (self._seed + 0x9E37_79B9_7F4A_7C15 * next(self._requests)) % 2**63
        return options

    def _batch(
        self, prompt: Any, given: Optional[SamplingParams], resume: Resumed, given_media: Given, options: Any
    ) -> Batch:
        params, cut = self._params(given, options), begun("resume", resume)
        submit = lambda one, own: self._submit(one, params, own, cut)  # noqa: E731
        return Batch(self._model, submit, prompt, given_media, self._fetch, params, cut)

    def _submit(
        self, prompt: checks.Prompt, params: SamplingParams, own: Media, cut: Optional[Begun] = None
    ) -> _lamina.Stream:
        options = {**self._request(params), **own._asdict(), **({"resume": cut} if cut else {})}
        request = self._model.stream(prompt, options)
        for warning in request.warnings():
            _log.warning("%s", warning)
        return request
