// swiftc -I include -L lib -llamina stream.swift && ./stream model.gguf; include/module.modulemap names the module.
import CLamina
import Foundation

struct Failure: Error, CustomStringConvertible { let description: String }

func check(_ status: LaminaStatus, _ message: UnsafeMutablePointer<CChar>?) throws {
    guard status >= 10 else { return }
    defer { lamina_string_free(message) }
    throw Failure(description: message.map { String(cString: $0) } ?? "an error of Lamina")
}

func run(_ path: String) throws {
    var model: OpaquePointer?, request: OpaquePointer?, message: UnsafeMutablePointer<CChar>?
    try check(lamina_model_load(path, #"{"context": 2048}"#, nil, nil, &model, &message), message)
    defer { lamina_model_free(model) }
    let asked = #"{"prompt": "Once upon a time", "max_tokens": 64}"#
    try check(lamina_submit(model, asked, &request, &message), message)
    defer { lamina_request_free(request) }
    var event = LaminaEvent()
    event.size = UInt32(MemoryLayout<LaminaEvent>.size)
    while true {
        let status = lamina_request_next(request, -1, &event, &message)
        guard status == 0 else { return try check(status, message) }
        print(String(cString: event.text), terminator: "")
        fflush(stdout)
    }
}

do { try run(CommandLine.arguments[1]) } catch { fputs("\(error)\n", stderr); exit(1) }
