"use strict";
// One answer of the server, from the request to its last figure.

// The request for the answer to `messages`, the last of which is an answer to go on with, if it is the assistant's.
function requestFor(conversation, messages, model) {
  const system = conversation.system.trim() ? [{ role: "system", content: conversation.system }] : [];
  const probabilities = Store.settings.logprobs ? { logprobs: true, top_logprobs: 5 } : {};
  return {
    ...(model ? { model } : {}),
    messages: [...system, ...messages.map(sent)],
    stream: true,
    stream_options: { include_usage: true },
    ...probabilities,
    ...conversation.params,
  };
}

// A message as the API takes it.
function sent({ role, content, images, sounds }) {
  const parts = (hashes, kind) => (hashes ?? []).map(Pictures.urlOf).filter(Boolean).map((url) => ({ type: kind, [kind]: { url } }));
  const attached = [...parts(images, "image_url"), ...parts(sounds, "audio_url")];
  return attached.length ? { role, content: [...attached, { type: "text", text: content }] } : { role, content };
}

// Takes the chunks of a stream into a message.
class AnswerReader {
  constructor(message) {
    this.message = message;
    this.started = performance.now();
    this.pieces = 0;
  }

  take(chunk) {
    const { message } = this;
    const figures = (message.figures ??= {});
    figures.model = chunk.model ?? figures.model;
    figures.usage = chunk.usage ?? figures.usage;
    figures.timings = chunk.timings ?? figures.timings;
    const choice = chunk.choices?.[0];
    if (!choice) return;
    const { content, reasoning_content: reasoning } = choice.delta ?? {};
    if (content || reasoning) this.clock(figures);
    message.content += content ?? "";
    message.reasoning += reasoning ?? "";
    if (choice.logprobs?.content?.length) {
      message.probabilities = [...(message.probabilities ?? []), ...choice.logprobs.content];
    }
    figures.finish = choice.finish_reason ?? figures.finish;
  }

  clock(figures) {
    const now = performance.now();
    this.pieces += 1;
    this.first ??= now;
    figures.firstToken = this.first - this.started;
    figures.speed = this.pieces > 1 ? ((this.pieces - 1) * 1000) / (now - this.first) : undefined;
  }

  // The server's own figure of speed is better than the one taken here, which has the network in it.
  end(finish) {
    const figures = (this.message.figures ??= {});
    figures.finish = finish ?? figures.finish;
    figures.speed = figures.timings?.predicted_per_second || figures.speed;
  }
}

// Streams an answer into `message` and calls `changed` when there is more to show, at most once a frame.
async function answer(body, message, signal, changed) {
  const reader = new AnswerReader(message);
  let drawn = true;
  const draw = () => {
    if (drawn) return;
    drawn = true;
    changed();
  };
  const later = () => {
    if (!drawn) return;
    drawn = false;
    requestAnimationFrame(draw);
  };
  try {
    for await (const chunk of Client.stream("/v1/chat/completions", body, signal)) {
      reader.take(chunk);
      later();
    }
    reader.end();
  } catch (error) {
    reader.end(signal.aborted ? "stopped" : undefined);
    if (!signal.aborted) message.error = error.message;
  } finally {
    drawn = true;
  }
}
