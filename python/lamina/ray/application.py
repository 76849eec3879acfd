"""The application as Ray Serve takes it, and its start."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import replace
from typing import Any, Dict, Mapping, Optional, Union

from ..errors import InvalidRequestError, UnsupportedError
from ..types import Path
from .config import Config
from .engine import Engine
from .gateway import Gateway

try:
    import ray
    from ray import serve
except ImportError as error:
    raise UnsupportedError(f'lamina.ray needs Ray Serve: pip install "lamina[ray]" ({error})') from None

# Seconds between two looks at a process.
_LOOK = 1.0
# A process that ends in good order lets answers end for so long.
_END = 45.0


def build_app(config: Config) -> Any:
    """Makes the application: `ray.serve.run` starts it, and configuration of KubeRay names it.

    Args:
        config: what runs.

    Returns:
        An ``Application`` of Ray Serve. Gateway and engines know each other by ``LAMINA_APP_KEY`` of the environment here, or
        by a key that is made for this application.
    """
    key = os.environ.get("LAMINA_APP_KEY") or secrets.token_hex(32)
    watched = {"health_check_period_s": _LOOK, "graceful_shutdown_timeout_s": _END}
    placed = {"ray_actor_options": {"num_cpus": config.cpus, "num_gpus": config.gpus}, **watched}
    engines = [serve.deployment(Engine, name="Engine", **_count(config), **placed).bind(config)]
    if config.prefill:
        prefill = serve.deployment(Engine, name="Prefill", num_replicas=config.prefill, **placed)
        engines.append(prefill.bind(config, "prefill"))
    gateway = serve.deployment(
        Gateway,
        name="Gateway",
        num_replicas=1,
        max_ongoing_requests=config.max_ongoing,
        ray_actor_options={"num_cpus": 0},
        **watched,
    )
    return gateway.bind(config, key, *engines)


def app(args: Mapping[str, Any]) -> Any:
    """The application of a file, for ``serve run lamina.ray:app config=serve.toml``.

    Args:
        args: ``config`` is the path of the file; the others are those of `Config`, in the place of what the file says.

    Returns:
        An ``Application`` of Ray Serve.
    """
    given = dict(args)
    path: Optional[Path] = given.pop("config", None)
    config = Config() if path is None else Config.read(path)
    # What the command line has is text.
    told = Config.of({**config.serve, "ray": {name: _read(value) for name, value in given.items()}})
    return build_app(replace(config, **{name: getattr(told, name) for name in given}))


def deploy(config: Union[Config, Path], address: Optional[str] = None) -> str:
    """Starts the application on a cluster, or changes the one of its name, and waits until all of it runs.

    Args:
        config: what runs, or the path of its file.
        address: of the cluster, such as ``ray://head:10001``; None: the one that the environment names or that runs here,
            else one of this machine, which ends with this program.

    Returns:
        Where it listens beside Ray's own address.

    Raises:
        InvalidRequestError: the cluster does not ask who comes, and is not on this machine.
    """
    config = config if isinstance(config, Config) else Config.read(config)
    _check_access(address)
    if not ray.is_initialized():
        ray.init(address=address, log_to_driver=False)
    handle = serve.run(build_app(config), name=config.name)
    return str(handle.url.remote().result())


def _count(config: Config) -> Dict[str, Any]:
    least, most = config.range
    if least == most:
        return {"num_replicas": least}
    return {
        "autoscaling_config": {
            "min_replicas": least,
            "max_replicas": most,
            "upscale_delay_s": config.upscale_delay,
            "downscale_delay_s": config.downscale_delay,
            "policy": {"policy_function": "lamina.ray.scaling:BySeconds", "policy_kwargs": {"target": config.target}},
        }
    }


def _check_access(address: Optional[str]) -> None:
    host = (address or "").split("://")[-1].rsplit(":", 1)[0]
    here = host in ("", "auto", "local", "localhost", "::1") or host.startswith("127.")
    if not here and os.environ.get("RAY_AUTH_MODE", "").lower() == "disabled":
        raise InvalidRequestError(
            f"{address} would take programs from anybody: RAY_AUTH_MODE is disabled; set it to token, or start from the head"
        )


def _read(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value
