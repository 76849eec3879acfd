// The C interface of Lamina for C++17: header only, over lamina.h. Objects are moved and never copied, errors are exceptions.
#ifndef LAMINA_HPP
#define LAMINA_HPP

#include "lamina.h"
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace lamina {

// What a call was refused with.
class Error : public std::runtime_error {
public:
    Error(LaminaStatus status, const char *message)
        : std::runtime_error(message ? message : "lamina"), status(status) {}
    const LaminaStatus status;
};

namespace detail {

struct Free {
    void operator()(LaminaModel *model) const { lamina_model_free(model); }
    void operator()(LaminaRequest *request) const { lamina_request_free(request); }
    void operator()(char *string) const { lamina_string_free(string); }
};
using String = std::unique_ptr<char, Free>;

// Calls with a place for the message of an error, and throws it.
template <class Call> LaminaStatus check(Call call) {
    char *message = nullptr;
    LaminaStatus status = call(&message);
    String kept(message);
    if (status >= LAMINA_STATUS_MODEL) throw Error(status, message);
    return status;
}

// Calls with room for so many values, and again where there are more.
template <class T, class Call> std::vector<T> values(size_t room, Call call) {
    std::vector<T> all(room);
    for (;;) {
        size_t count = 0;
        check([&](char **error) { return call(all.data(), all.size(), &count, error); });
        bool whole = count <= all.size();
        all.resize(count);
        if (whole) return all;
    }
}

} // namespace detail

// A request that runs. One thread reads it at a time; any may cancel it.
class Request {
public:
    explicit Request(LaminaRequest *request) : request(request) {}

    // The next event; none when all answers have ended. Its pointers are valid until the next call.
    std::optional<LaminaEvent> next() {
        LaminaEvent event{};
        return wait(-1, event) == LAMINA_STATUS_OK ? std::optional(event) : std::nullopt;
    }

    // As `lamina_request_next`.
    LaminaStatus wait(int64_t milliseconds, LaminaEvent &event) {
        event.size = sizeof event;
        return detail::check(
            [&](char **error) { return lamina_request_next(request.get(), milliseconds, &event, error); });
    }

    // As `lamina_request_on_ready`.
    bool on_ready(LaminaReady ready, void *user) { return lamina_request_on_ready(request.get(), ready, user); }

    // All text that is still to come.
    std::string text() {
        std::string all;
        while (auto event = next())
            if (event->kind == LAMINA_EVENT_KIND_TEXT) all.append(event->text, event->text_len);
        return all;
    }

    void cancel() { lamina_request_cancel(request.get()); }

private:
    std::unique_ptr<LaminaRequest, detail::Free> request;
};

// A loaded model. Any number of threads may use it at once.
class Model {
public:
    explicit Model(const char *path = nullptr, const char *options = nullptr) {
        LaminaModel *loaded = nullptr;
        detail::check([&](char **error) {
            return lamina_model_load(path, options, nullptr, nullptr, &loaded, error);
        });
        model.reset(loaded);
    }

    std::string info() const { return detail::String(lamina_model_info(model.get())).get(); }

    Request submit(const std::string &json) const {
        LaminaRequest *request = nullptr;
        detail::check([&](char **error) { return lamina_submit(model.get(), json.c_str(), &request, error); });
        return Request(request);
    }

    std::vector<uint32_t> tokenize(std::string_view text, bool special = true) const {
        return detail::values<uint32_t>(text.size() + 8, [&](auto out, auto room, auto count, auto error) {
            return lamina_tokenize(model.get(), text.data(), text.size(), special, out, room, count, error);
        });
    }

    std::string detokenize(const std::vector<uint32_t> &tokens) const {
        auto bytes = detail::values<char>(8 * tokens.size(), [&](auto out, auto room, auto count, auto error) {
            return lamina_detokenize(model.get(), tokens.data(), tokens.size(), out, room, count, error);
        });
        return {bytes.data(), bytes.size()};
    }

    std::vector<float> embed(std::string_view text) const {
        return detail::values<float>(4096, [&](auto out, auto room, auto count, auto error) {
            return lamina_embed(model.get(), text.data(), text.size(), out, room, count, error);
        });
    }

    std::string chat_prompt(const std::string &json) const {
        char *prompt = nullptr;
        detail::check([&](char **error) { return lamina_chat_prompt(model.get(), json.c_str(), &prompt, error); });
        return detail::String(prompt).get();
    }

    // Calls an endpoint of the server without a socket; `sink` ends the response by returning false.
    void call(const char *endpoint, const char *body, const std::function<bool(std::string_view)> &sink) const {
        auto give = [](const char *bytes, size_t count, void *user) {
            return (*static_cast<const std::function<bool(std::string_view)> *>(user))({bytes, count});
        };
        detail::check([&](char **error) {
            return lamina_call(model.get(), endpoint, body, give, const_cast<void *>(static_cast<const void *>(&sink)), error);
        });
    }

private:
    std::unique_ptr<LaminaModel, detail::Free> model;
};

} // namespace lamina

#endif
