"""An engine of the cluster: a process with the models, which joins the gateway."""

from __future__ import annotations

from typing import Any, Dict, Optional

from .config import Config
from .process import OwnedProcess


class Engine:
    """A process that answers what the gateway sends it. Ray puts another one in its place when it ends, and its answers go on
    elsewhere meanwhile.

    Args:
        config: what runs.
        role: ``mixed``, or ``prefill`` where it computes prompts whose answers go on in others.
    """

    def __init__(self, config: Config, role: str = "mixed") -> None:
        self._config, self._role = config, role
        self._process: Optional[OwnedProcess] = None
        self._gateway: Any = None

    async def _start(self) -> OwnedProcess:
        from ray import serve

        self._gateway = serve.get_deployment_handle("Gateway", serve.get_replica_context().app_name)
        address, key = await self._gateway.door.remote()
        return OwnedProcess(self._config.engine_file(), ["--gateway", address, "--role", self._role], {"LAMINA_APP_KEY": key})

    async def check_health(self) -> None:
        """Starts the process at first; raises where it has ended."""
        if self._process is None:
            self._process = await self._start()
        self._process.check()

    async def record_autoscaling_stats(self) -> Dict[str, float]:
        """Seconds of work of all engines: what `scaling.BySeconds` reads."""
        return {"work": await self._gateway.work.remote()} if self._gateway else {}

    def pid(self) -> int:
        """The number of its process; 0 before there is one."""
        return self._process.pid if self._process else 0

    def __del__(self) -> None:
        if self._process is not None:
            self._process.end()
