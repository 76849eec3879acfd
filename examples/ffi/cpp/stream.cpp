// c++ -std=c++17 stream.cpp $(pkg-config --cflags --libs lamina) -o stream && ./stream model.gguf
#include <iostream>
#include <lamina.hpp>

int main(int argc, char **argv) try {
    lamina::Model model(argc > 1 ? argv[1] : nullptr, R"({"context": 2048})");
    auto request = model.submit(R"({"prompt": "Once upon a time", "max_tokens": 64})");
    while (auto event = request.next()) {
        std::cout << std::string_view(event->text, event->text_len) << std::flush;
        if (event->finish) std::cout << "\n[" << event->finish << "]\n";
    }
} catch (const lamina::Error &e) {
    std::cerr << e.what() << '\n';
    return 1;
}
