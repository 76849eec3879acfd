"""The gateway of the cluster: one process that has no model, and what Ray Serve asks of it."""

from __future__ import annotations

import os
from pathlib import Path as Folder
from typing import Any, Dict, List, Mapping, Optional, Tuple

from .config import Config
from .process import OwnedProcess
from .work import WorkMeter

# Headers that are about one connection, and not about what it carries.
_OF_CONNECTION = frozenset((b"connection", b"host", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade"))


class Gateway:
    """Ingress of the application. Requests that come by Ray's address are relayed to the process, whose own address takes
    them as well. Engines ask it where they join.

    Args:
        config: what runs.
        key: what proves to each other that gateway and engines belong together.
        engines: handles of the engines, which make them a part of the application.
    """

    def __init__(self, config: Config, key: str, *engines: object) -> None:
        host, _, port = config.listen.rpartition(":")
        arguments = ["--host", host.strip("[]"), "--port", port, "--replicas-join", f"{_own_address()}:{config.join}"]
        self._key, self._engines = key, engines
        self._admin = admin_key(config.serve)
        self._meter, self._session = WorkMeter(), None
        self._process = OwnedProcess(config.gateway_file(), arguments, {"LAMINA_APP_KEY": key})
        self._url = self._process.said("listening on").rstrip("/")
        self._join = self._process.said("replicas join at")

    def door(self) -> Tuple[str, str]:
        """Where engines join, and the key that they need."""
        return self._join, self._key

    def url(self) -> str:
        """Where it listens by itself."""
        return self._url

    async def work(self) -> float:
        """Seconds of work that wait or run at all engines."""
        texts = []
        for replica in await self._json("/replicas"):
            async with self._client().get(f"{self._url}/replicas/{replica['id']}/metrics", headers=self._keys()) as response:
                if response.status == 200:
                    texts.append(await response.text())
        return self._meter.seconds(texts)

    def check_health(self) -> None:
        """Raises where the process has ended: Ray puts another one in its place."""
        self._process.check()

    async def __call__(self, request: Any) -> Any:
        """Relays a request of Starlette's to the process, and its answer as it comes."""
        from starlette.responses import StreamingResponse

        query = f"?{request.url.query}" if request.url.query else ""
        answer = await self._client().request(
            request.method,
            self._url + request.url.path + query,
            headers=carried(request.headers.raw),
            data=await request.body() or None,
            allow_redirects=False,
        )

        async def pieces() -> Any:
            # A client that leaves closes the connection, and so ends its request at the engine.
            try:
                async for piece in answer.content.iter_any():
                    yield piece
            finally:
                answer.close()

        relayed = StreamingResponse(pieces(), answer.status)
        relayed.raw_headers = [(name, value) for name, value in answer.raw_headers if name.lower() not in _OF_CONNECTION]
        return relayed

    async def _json(self, path: str) -> Any:
        async with self._client().get(self._url + path, headers=self._keys()) as response:
            return await response.json()

    def _keys(self) -> Dict[str, str]:
        return {"authorization": f"Bearer {self._admin}"} if self._admin else {}

    def _client(self) -> Any:
        """Connections to the process, from the event loop of Ray's actor."""
        if self._session is None:
            import aiohttp

            # Answers take as long as they take; their process is watched by `check_health`. Its certificate is its own.
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=None),
                connector=aiohttp.TCPConnector(limit=0, ssl=False),
                auto_decompress=False,
            )
        return self._session

    def __del__(self) -> None:
        process: Optional[OwnedProcess] = getattr(self, "_process", None)
        if process is not None:
            process.end()


def carried(headers: List[Tuple[bytes, bytes]]) -> List[Tuple[str, str]]:
    """The headers of a request that go on to the process."""
    return [
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in headers if name.lower() not in _OF_CONNECTION
    ]


def admin_key(serve: Mapping[str, Any]) -> Optional[str]:
    """A key of the options that may see the replicas, where callers need any: an admin's, or the lone one."""
    admins = _texts(serve, "admin_key", "admin_keys")
    if admins:
        return admins[0]
    keys = _texts(serve, "api_key", "api_keys") + [key for key in [os.environ.get("LAMINA_API_KEY")] if key]
    for path in _texts(serve, "api_key_file"):
        lines = [line.split() for line in Folder(path).read_text(encoding="utf-8").splitlines()]
        lines = [words for words in lines if words and not words[0].startswith("#")]
        admins += [words[0] for words in lines if "admin=yes" in words]
        keys += [words[0] for words in lines]
    return admins[0] if admins else keys[0] if len(keys) == 1 else None


def _texts(serve: Mapping[str, Any], *names: str) -> List[str]:
    values = [serve[name] for name in names if name in serve]
    return [str(text) for value in values for text in (value if isinstance(value, list) else [value])]


def _own_address() -> str:
    """The address of this node in the cluster."""
    import ray

    return str(ray.util.get_node_ip_address())
