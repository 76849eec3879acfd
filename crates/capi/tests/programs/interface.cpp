// lamina.hpp, as a program in C++ uses it. Argument: a model.
#include "lamina.hpp"
#include <iostream>

int main(int, char **argv) {
    try {
        lamina::Model("/nowhere.gguf");
        return 1;
    } catch (const lamina::Error &e) {
        if (e.status != LAMINA_STATUS_MODEL) return 2;
    }
    lamina::Model model(argv[1], R"({"context": 128, "threads": 1})");
    const std::string json = R"({"prompt": "The little dog", "max_tokens": 16, "temperature": 0})";
    auto first = model.submit(json), second = model.submit(json);
    std::string text = first.text();
    if (text.empty() || text != second.text()) return 3;
    if (model.detokenize(model.tokenize("The dog", false)).find("dog") == std::string::npos) return 4;
    if (model.embed("The dog").empty() || model.info().find("\"context\":128") == std::string::npos) return 5;
    std::string models;
    model.call("GET /v1/models", nullptr, [&](std::string_view part) {
        models += part;
        return true;
    });
    if (models.find("lamina-tiny") == std::string::npos) return 6;
    auto running = model.submit(R"({"prompt": "x", "ignore_eos": true})");
    running.cancel();
    while (auto event = running.next())
        if (event->finish) text = event->finish;
    std::cout << (text == "cancelled" || text == "length" ? "ok\n" : text);
}
