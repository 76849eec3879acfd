// What the fake compiler writes and the fake driver reads.
#pragma once
// First bytes of an image; the source that was compiled follows.
#define FAKE_IMAGE "fake image\n"
