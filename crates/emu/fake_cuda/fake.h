// What the fake compiler writes and the fake driver reads.
#pragma once
// First bytes of an image. An option that says which kernels are compiled follows, where one was given, and a line's end; then
// the source that was compiled.
#define FAKE_IMAGE "fake image "
#define ONLY "-DONLY_"
