"""`lamina deploy`."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from typing import List, Optional

from ..errors import InvalidRequestError, LaminaError
from .config import Config
from .plan import plan


def main(arguments: Optional[List[str]] = None) -> int:
    """Runs the command and returns its exit code: 0 done, 1 failed, 2 wrong usage, 130 ended by Ctrl-C."""
    parser = argparse.ArgumentParser("lamina deploy", description="Starts a gateway and engines on a cluster of Ray")
    parser.add_argument("config", nargs="?", help="options, models and [ray], in TOML [default: the model in the package]")
    parser.add_argument("--address", help="of the cluster [default: that of this machine]")
    parser.add_argument("--replicas", metavar="N or N..M", type=_replicas, help="engines")
    parser.add_argument("--name", help="of the application")
    parser.add_argument("--plan", action="store_true", help="say what would run where, and start nothing")
    given = parser.parse_args(arguments)
    try:
        config = Config() if given.config is None else Config.read(given.config)
        changes = {name: getattr(given, name) for name in ("replicas", "name") if getattr(given, name) is not None}
        config = replace(config, **changes)
        print(plan(config), flush=True)
        if not given.plan:
            _stay(config, given.address)
    except InvalidRequestError as error:
        print(f"lamina: {error}", file=sys.stderr)
        return 2
    except LaminaError as error:
        print(f"lamina: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _stay(config: Config, address: Optional[str]) -> None:
    """Starts it, and stays where the cluster would end with this program."""
    from .application import deploy

    print(f"listening on {deploy(config, address)}", flush=True)
    while address is None:
        time.sleep(3600)


def _replicas(text: str) -> object:
    numbers = [int(part) for part in text.split("..")]
    return numbers[0] if len(numbers) == 1 else tuple(numbers)
