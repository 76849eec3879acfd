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
    """Takes what is posted to it."""

    messages: "queue.Queue[dict]" = queue.Queue()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        assert self.path == "/v1/traces" and self.headers["content-type"] == "application/json"
        self.messages.put(json.loads(body))
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        """Says nothing."""


@pytest.fixture(scope="module")
def collector():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1/traces"
    server.shutdown()
    server.server_close()


@pytest.mark.package("opentelemetry-proto", "`--otlp-traces-endpoint URL`")
def test_opentelemetry_proto(collector):
    """Spans of requests are messages of the protocol."""
    from google.protobuf.json_format import Parse
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    with Live("--otlp-traces-endpoint", collector) as server:
        body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8}
        headers = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
        assert server.request("/v1/chat/completions", body, headers)[0] == 200
        message = Collector.messages.get(timeout=30)
    for span in message["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        # The protocol has ids in hexadecimal digits; JSON of protobuf would have them in base64.
        span.update({name: base64.b64encode(bytes.fromhex(span[name])).decode() for name in IDS})
    read = Parse(json.dumps(message), ExportTraceServiceRequest())
    spans = read.resource_spans[0].scope_spans[0].spans
    root = next(span for span in spans if span.name == "llm_request")
    assert root.trace_id.hex() == TRACE and root.parent_span_id.hex() == "00f067aa0ba902b7"
    assert root.kind == Span.SPAN_KIND_SERVER and root.end_time_unix_nano > root.start_time_unix_nano
    attributes = {a.key: a.value for a in root.attributes}
    assert attributes["gen_ai.usage.completion_tokens"].int_value == 8
    assert {"prefill", "decode"} <= {span.name for span in spans if span.parent_span_id == root.span_id}
