"""Spans of a live server against the types of OpenTelemetry's own protocol."""

import base64
import http.server
import json
import queue
import threading

import pytest
from serving import Live

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
IDS = ("traceId", "spanId", "parentSpanId")


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes what is posted to it, with its media type."""

    messages: "queue.Queue[tuple[str, bytes]]" = queue.Queue()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        assert self.path == "/v1/traces"
        self.messages.put((self.headers["content-type"], body))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Says nothing."""


@pytest.fixture(scope="module")
def collector():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1/traces"
    server.shutdown()
    server.server_close()


def read_protobuf(body):
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    return ExportTraceServiceRequest.FromString(body)


def read_json(body):
    from google.protobuf.json_format import Parse
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    message = json.loads(body)
    for span in message["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        # The protocol has ids in hexadecimal digits; JSON of protobuf would have them in base64.
        span.update({name: base64.b64encode(bytes.fromhex(span[name])).decode() for name in IDS})
    return Parse(json.dumps(message), ExportTraceServiceRequest())


@pytest.mark.package("opentelemetry-proto", "`--otlp-traces-endpoint URL`")
@pytest.mark.parametrize(
    ("options", "media_type", "read"),
    [
        ((), "application/x-protobuf", read_protobuf),
        (("--otlp-traces-protocol", "http/json"), "application/json", read_json),
    ],
)
def test_opentelemetry_proto(collector, options, media_type, read):
    """Spans of requests are messages of the protocol, in protobuf and JSON."""
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    with Live("--otlp-traces-endpoint", collector, *options) as server:
        body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8}
        headers = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
        assert server.request("/v1/chat/completions", body, headers)[0] == 200
        form, message = Collector.messages.get(timeout=30)
    assert form == media_type
    spans = read(message).resource_spans[0].scope_spans[0].spans
    root = next(span for span in spans if span.name == "llm_request")
    assert root.trace_id.hex() == TRACE and root.parent_span_id.hex() == "00f067aa0ba902b7"
    assert root.kind == Span.SPAN_KIND_SERVER and root.end_time_unix_nano > root.start_time_unix_nano
    attributes = {a.key: a.value for a in root.attributes}
    assert attributes["gen_ai.usage.completion_tokens"].int_value == 8
    assert attributes["gen_ai.operation.name"].string_value == "chat"
    assert {"prefill", "decode"} <= {span.name for span in spans if span.parent_span_id == root.span_id}
