"""Prompts that were submitted together."""

from __future__ import annotations

from typing import Any, Callable, ContextManager, List, Optional, Union

from . import _lamina, checks
from .asking import asked
from .closing import Closing
from .errors import InvalidRequestError, numbered
from .event_loop import called
from .images import Fetch
from .media import Given, Media, of_prompts
from .outputs import Completion, completion
from .resume import Begun
from .sampling import SamplingParams


class Batch(Closing):
    """Prompts that were submitted together, to be waited for; closing it cancels what has not ended."""

    def __init__(
        self,
        model: _lamina.Model,
        submit: Callable[[checks.Prompt, Media], _lamina.Stream],
        prompt: Any,
        given: Given,
        fetch: Fetch,
        params: SamplingParams,
        cut: Optional[Begun],
    ) -> None:
        self._model, self._params, self._said = model, params, cut.tokens if cut else ()
        self._given, self._single = checks.prompts("prompt", prompt)
        if cut and not self._single:
            raise InvalidRequestError("resume goes on with one answer, but a list of prompts was given")
        media = of_prompts(given, None if self._single else len(self._given), fetch)
        self._requests: List[_lamina.Stream] = []
        try:
            for i, one in enumerate(self._given):
                with self._numbered(i):
                    self._requests.append(submit(one, media[i]))
        except BaseException:
            self.close()
            raise

    async def ended(self) -> None:
        """Waits for all answers in the event loop."""
        for request in self._requests:
            await called(lambda call, request=request: request.watch(call, True))  # type: ignore[misc]

    def answers(self) -> Union[Completion, List[Completion]]:
        """Waits for all answers: one for a prompt by itself, else a list."""
        answers: List[Completion] = []
        for i, (request, one) in enumerate(zip(self._requests, self._given)):
            with self._numbered(i):
                own = asked(self._model, one, self._params, self._said)
                answers.append(completion(request.collect(), own, request.media()))
        return answers[0] if self._single else answers

    def close(self) -> None:
        """Cancels what has not ended."""
        for request in self._requests:
            request.close()

    def _numbered(self, i: int) -> ContextManager[None]:
        return numbered("prompt", None if self._single else i)
