"""Lamina on Ray: a gateway and engines as deployments of Ray Serve, on as many machines as the cluster has.

Ray starts, watches, scales and replaces the processes; tokens go from engines to the gateway without it. It is an extra,
``pip install "lamina[ray]"``: without it there are `Config` and `plan`, and the rest says what to install.

Examples:
    >>> import lamina.ray
    >>> config = lamina.ray.Config.read("serve.toml")
    >>> lamina.ray.deploy(config)
"""

from __future__ import annotations

from typing import Any

from .config import Config
from .plan import plan
from .processor import JobCounts, Processor

__all__ = ["Config", "JobCounts", "Processor", "app", "build_app", "deploy", "plan"]

_WITH_RAY = ("app", "build_app", "deploy")


def __getattr__(name: str) -> Any:
    if name not in _WITH_RAY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import application

    return getattr(application, name)
