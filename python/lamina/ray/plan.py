"""What would run on the cluster, before anything does."""

from __future__ import annotations

from .config import Config


def plan(config: Config) -> str:
    """Says what would run where; nothing is started, and Ray is not needed.

    Args:
        config: what is to run.

    Returns:
        Lines of text.
    """
    least, most = config.range
    count = str(least) if least == most else f"{least} to {most}"
    needs = f"{config.cpus:g} CPU" + (f", {config.gpus:g} GPU" if config.gpus else "")
    models = [f"{name}: {path}" for name, path in config.models.items()]
    folder = config.serve.get("models_dir")
    models += [f"all of {folder}"] if folder else []
    all_engines = most + config.prefill
    lines = [
        f"application {config.name}",
        f"  gateway  1 process; clients at Ray Serve's address, and at {_address(config.listen)} beside it",
        f"  engines  {count}, each with {needs}" + (f"; joined at port {config.join}" if config.join else ""),
        *([f"  prefill  {config.prefill} more, for prompts alone"] if config.prefill else []),
        *(f"           {model}" for model in models or ["the model inside the package"]),
        f"  cluster  {all_engines * config.cpus:g} CPU" + (f", {all_engines * config.gpus:g} GPU" if config.gpus else "") + " at most",
    ]
    if least != most:
        lines.insert(3, f"           more after {config.upscale_delay:g} s above {config.target:g} s of work each, "
                     f"fewer after {config.downscale_delay:g} s below")  # fmt: skip
    if not config.has_keys:
        lines.append("  no keys: whoever reaches it is answered")
    return "\n".join(lines)


def _address(listen: str) -> str:
    host, _, port = listen.rpartition(":")
    return f"{host}, any port" if port == "0" else listen
