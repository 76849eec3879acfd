"""Parameters of requests, under the name that programs import them from."""

from .params import BeamSearchParams, GuidedDecodingParams, SamplingParams, StructuredOutputsParams

__all__ = ["BeamSearchParams", "GuidedDecodingParams", "SamplingParams", "StructuredOutputsParams"]
