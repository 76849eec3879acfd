// dotnet run -- model.gguf, in a project with <AllowUnsafeBlocks>true</AllowUnsafeBlocks> and liblamina beside the program
using System.Runtime.InteropServices;

unsafe
{
    void Check(int status, nint error)
    {
        if (status < 10) return;
        var text = Marshal.PtrToStringUTF8(error);
        Lamina.StringFree(error);
        throw new InvalidOperationException(text);
    }

    Check(Lamina.ModelLoad(args[0], """{"context": 2048}""", 0, 0, out var model, out var error), error);
    Check(Lamina.Submit(model, """{"prompt": "Once upon a time", "max_tokens": 64}""", out var request, out error), error);
    Lamina.ModelFree(model); // the request keeps it
    var happened = new LaminaEvent { Size = (uint)sizeof(LaminaEvent) };
    int status;
    while ((status = Lamina.RequestNext(request, -1, ref happened, out error)) == 0)
        Console.Write(Marshal.PtrToStringUTF8(happened.Text, (int)happened.TextLength));
    Check(status, error);
    Lamina.RequestFree(request);
}

[StructLayout(LayoutKind.Sequential)]
struct LaminaEvent
{
    public uint Size;
    public int Kind;
    public uint Index, Call;
    public nint Text;
    public nuint TextLength;
    public nint Tokens, Logprobs;
    public nuint TokenCount;
    public nint Finish, Details;
    public uint PromptTokens, CachedTokens, CompletionTokens, ReasoningTokens;
}

static partial class Lamina
{
    const string Name = "lamina";

    [LibraryImport(Name, EntryPoint = "lamina_model_load", StringMarshalling = StringMarshalling.Utf8)]
    public static partial int ModelLoad(string path, string options, nint progress, nint user, out nint model, out nint error);
    [LibraryImport(Name, EntryPoint = "lamina_submit", StringMarshalling = StringMarshalling.Utf8)]
    public static partial int Submit(nint model, string json, out nint request, out nint error);
    [LibraryImport(Name, EntryPoint = "lamina_request_next")]
    public static partial int RequestNext(nint request, long milliseconds, ref LaminaEvent happened, out nint error);
    [LibraryImport(Name, EntryPoint = "lamina_request_free")]
    public static partial void RequestFree(nint request);
    [LibraryImport(Name, EntryPoint = "lamina_model_free")]
    public static partial void ModelFree(nint model);
    [LibraryImport(Name, EntryPoint = "lamina_string_free")]
    public static partial void StringFree(nint text);
}
