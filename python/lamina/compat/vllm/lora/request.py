"""A request for an adapter, under the name that programs import it from."""

from ..params import LoRARequest

__all__ = ["LoRARequest"]
