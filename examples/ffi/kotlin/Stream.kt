// kotlinc Stream.kt -cp jna.jar -include-runtime -d stream.jar && java -Djna.library.path=lib -cp stream.jar:jna.jar StreamKt model.gguf
import com.sun.jna.Library
import com.sun.jna.Native
import com.sun.jna.Pointer
import com.sun.jna.Structure
import com.sun.jna.ptr.PointerByReference

@Structure.FieldOrder(
    "size", "kind", "index", "call", "text", "textLength", "tokens", "logprobs", "tokenCount",
    "finish", "details", "promptTokens", "cachedTokens", "completionTokens", "reasoningTokens"
)
class LaminaEvent : Structure() {
    @JvmField var size = 0
    @JvmField var kind = 0
    @JvmField var index = 0
    @JvmField var call = 0
    @JvmField var text: Pointer? = null
    @JvmField var textLength = 0L // size_t of 64-bit systems
    @JvmField var tokens: Pointer? = null
    @JvmField var logprobs: Pointer? = null
    @JvmField var tokenCount = 0L
    @JvmField var finish: Pointer? = null
    @JvmField var details: Pointer? = null
    @JvmField var promptTokens = 0
    @JvmField var cachedTokens = 0
    @JvmField var completionTokens = 0
    @JvmField var reasoningTokens = 0
}

interface Lamina : Library {
    fun lamina_model_load(path: String?, options: String?, progress: Pointer?, user: Pointer?, model: PointerByReference, error: PointerByReference): Int
    fun lamina_submit(model: Pointer, json: String, request: PointerByReference, error: PointerByReference): Int
    fun lamina_request_next(request: Pointer, milliseconds: Long, event: LaminaEvent, error: PointerByReference): Int
    fun lamina_request_free(request: Pointer)
    fun lamina_model_free(model: Pointer)
    fun lamina_string_free(text: Pointer)
}

fun main(args: Array<String>) {
    val lib = Native.load("lamina", Lamina::class.java, mapOf(Library.OPTION_STRING_ENCODING to "UTF-8"))
    val (model, request, error) = List(3) { PointerByReference() }
    fun check(status: Int) {
        if (status < 10) return
        val text = error.value.getString(0, "UTF-8").also { lib.lamina_string_free(error.value) }
        throw IllegalStateException(text)
    }
    check(lib.lamina_model_load(args[0], """{"context": 2048}""", null, null, model, error))
    check(lib.lamina_submit(model.value, """{"prompt": "Once upon a time", "max_tokens": 64}""", request, error))
    lib.lamina_model_free(model.value) // the request keeps it
    val event = LaminaEvent().apply { size = size() }
    while (lib.lamina_request_next(request.value, -1, event, error).also(::check) == 0)
        print(String(event.text!!.getByteArray(0, event.textLength.toInt()), Charsets.UTF_8))
    lib.lamina_request_free(request.value)
}
