"""The methods of `LLM` that are awaited."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Type, Union, cast, overload

import numpy as np

from . import _lamina, checks, media
from .async_stream import AsyncStream
from .batch import Batch
from .errors import numbered
from .event_loop import apart, called
from .media import Given
from .outputs import Completion
from .resume import Resumed
from .sampling import SamplingParams
from .stream import Stream
from .types import Images, Lora, Message, Prompt, Prompts, Sounds, Tool

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Literal, Unpack

    from .llm import LLM
    from .sampling import SamplingOptions, _ChatCall


class Coroutines:
    """The methods of `LLM` that are awaited, in asyncio or trio. Requests of any number of tasks run as one batch, and
    none takes a thread while it waits; to cancel a task cancels its request.

    Before a request is queued its prompt becomes tokens, and a grammar is compiled: on the thread of the loop, in
    milliseconds for all but very long prompts and large grammars.
    """

    @overload
    async def agenerate(
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
    async def agenerate(
        self,
        prompt: Prompts,
        *,
        sampling_params: Optional[SamplingParams] = ...,
        images: Images = ...,
        sounds: Sounds = ...,
        **options: Unpack[SamplingOptions],
    ) -> List[Completion]: ...
    async def agenerate(
        self,
        prompt: Union[Prompt, Prompts],
        *,
        sampling_params: Optional[SamplingParams] = None,
        resume: Resumed = None,
        images: Images = None,
        sounds: Sounds = None,
        **options: Any,
    ) -> Union[Completion, List[Completion]]:
        """`LLM.generate`, awaited.

        Args:
            prompt: a text, token ids, or a list of such.
            sampling_params: options that several requests share.
            resume: an answer that was cut.
            images: pictures, which are encoded on a thread.
            sounds: sounds, which are so too.
            options: as for `LLM.generate`.

        Examples:
            >>> first, second = await asyncio.gather(llm.agenerate("Once"), llm.agenerate("Twice"))
        """
        given = Given(images, sounds)

        def make() -> Batch:
            return self._llm._batch(prompt, sampling_params, resume, given, options)

        with await apart(make) if given else make() as batch:
            await batch.ended()
            return batch.answers()

    def astream(
        self,
        prompt: Prompt,
        *,
        sampling_params: Optional[SamplingParams] = None,
        images: Images = None,
        sounds: Sounds = None,
        **options: Unpack[SamplingOptions],
    ) -> AsyncStream:
        """`LLM.stream`, for `async for`.

        Args:
            prompt: a text or token ids.
            sampling_params: options that several requests share.
            images: pictures, which are encoded on a thread when the first piece is awaited.
            sounds: sounds, which are so too.
            options: as for `LLM.generate`.

        Examples:
            >>> async for piece in llm.astream("Once upon a time"):
            ...     print(piece.text, end="", flush=True)
        """
        def make() -> Stream:
            return self._llm.stream(prompt, sampling_params=sampling_params, images=images, sounds=sounds, **options)

        return AsyncStream(None, make) if images or sounds else AsyncStream(make())

    @overload
    async def achat(
        self,
        messages: Sequence[Message],
        tools: Optional[Sequence[Tool]] = ...,
        response_format: Optional[Dict[str, Any]] = ...,
        stream: Literal[False] = ...,
        **options: Unpack[_ChatCall],
    ) -> Completion: ...
    @overload
    async def achat(
        self,
        messages: Sequence[Message],
        tools: Optional[Sequence[Tool]] = ...,
        response_format: Optional[Dict[str, Any]] = ...,
        stream: Literal[True] = ...,
        **options: Unpack[_ChatCall],
    ) -> AsyncStream: ...
    async def achat(
        self,
        messages: Sequence[Message],
        tools: Optional[Sequence[Tool]] = None,
        response_format: Optional[Dict[str, Any]] = None,
        stream: bool = False,
        **options: Any,
    ) -> Union[Completion, AsyncStream]:
        """`LLM.chat`, awaited.

        Args:
            messages: as for `LLM.chat`.
            tools: as for `LLM.chat`.
            response_format: as for `LLM.chat`.
            stream: returns the pieces of the answer as they come.
            options: all other keywords of `LLM.chat`.

        Examples:
            >>> async for piece in await llm.achat(messages, stream=True):
            ...     print(piece.text, end="", flush=True)
        """
        # A stream is what a whole answer is collected from, too.
        def make() -> Stream:
            return self._llm.chat(messages, tools, response_format, True, **options)

        running = await apart(make) if media.any_in(messages) else make()
        if stream:
            return AsyncStream(running)
        with running:
            await running.ready(whole=True)
            return running.whole()

    async def aembed(self, text: Union[Prompt, Prompts], lora: Lora = None) -> NDArray[np.float32]:
        """`LLM.embed`, awaited; the texts of a list run as one batch.

        Args:
            text: a text, token ids, or a list of such.
            lora: adapters to use.
        """
        given, single = checks.prompts("text", text)
        scales = checks.lora("lora", lora)
        running: List[_lamina.Vector] = []
        vectors = np.empty((len(given), self._llm.info.hidden), np.float32)
        try:
            for i, one in enumerate(given):
                with numbered("text", None if single else i):
                    running.append(self._llm._model.submit_embedding(one, scales))
            for i, vector in enumerate(running):
                await called(vector.watch)
                with numbered("text", None if single else i):
                    vectors[i] = vector.take()
        finally:
            for vector in running:
                vector.close()
        return vectors[0] if single else vectors

    async def aclose(self) -> None:
        """`LLM.close`, awaited: it waits for the end of a step."""

        def close(call: Callable[[], None]) -> None:
            self._llm.close()
            call()

        await called(lambda call: threading.Thread(target=close, args=(call,), name="lamina-close").start())

    async def __aenter__(self) -> "LLM":
        return self._llm

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.aclose()

    @property
    def _llm(self) -> "LLM":
        return cast("LLM", self)
