"use strict";
// The server's API over fetch: errors with the server's words, streams event by event.

class ApiError extends Error {
  constructor(message, status, param) {
    super(message);
    this.status = status;
    this.param = param;
  }
}

// The `data` fields of server-sent events, from text in pieces of any size.
class EventParser {
  rest = "";

  *push(text) {
    const lines = (this.rest + text).split(/\r\n|\n|\r/);
    this.rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith("data:")) yield line.slice(5).trimStart();
    }
  }
}

const Client = (() => {
  function headers() {
    const key = Store.key;
    return { "content-type": "application/json", ...(key ? { authorization: `Bearer ${key}` } : {}) };
  }

  async function request(path, body, signal) {
    const options = { headers: headers(), signal };
    if (body !== undefined) Object.assign(options, { method: "POST", body: JSON.stringify(body) });
    let response;
    try {
      response = await fetch(path, options);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError("The server cannot be reached. Is it still running?", 0);
    }
    if (!response.ok) throw await refusal(response);
    return response;
  }

  async function refusal(response) {
    const error = await response.json().then((body) => body.error, () => null);
    const words = typeof error === "string" ? error : error?.message;
    const hint = response.status === 401 ? " Enter the API key in the settings." : "";
    return new ApiError((words ?? `The server answered with status ${response.status}.`) + hint, response.status, error?.param);
  }

  function event(data) {
    const chunk = JSON.parse(data);
    if (chunk.error) throw new ApiError(chunk.error.message ?? String(chunk.error), Number(chunk.error.code) || 500);
    return chunk;
  }

  // The chunks of an answer as they come. An answer that ends without its last event was cut off.
  async function* stream(path, body, signal) {
    const response = await request(path, body, signal);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new EventParser();
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) throw new ApiError("The connection ended in the middle of the answer.", 0);
        for (const data of parser.push(value)) {
          if (data === "[DONE]") return;
          yield event(data);
        }
      }
    } catch (error) {
      if (error instanceof TypeError) throw new ApiError("The connection to the server was lost.", 0);
      throw error;
    } finally {
      reader.cancel().catch(() => {});
    }
  }

  return {
    stream,
    text: (path) => request(path).then((response) => response.text()),
    get: (path) => request(path).then((response) => response.json()),
    post: (path, body) => request(path, body).then((response) => response.json()),
  };
})();
