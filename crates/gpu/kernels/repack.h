// Rows of weights as files have them, into panels of 32 lanes (panel.h).   grid: blocks, panels; 128 threads
#pragma once
#include "dialect.h"
// A field of a block: first byte in the file's block, bytes, and bytes of a word.
struct Field { int at, bytes, word; };
CONST int MOST_FIELDS = 4;
struct RepackArgs { int rows, row_bytes, block_bytes, blocks, fields; Field field[MOST_FIELDS]; };
KERNEL(128, 8) repack(BUF(0, const u8, rows), BUF(1, u8, panels), ARGS(2, RepackArgs, a)) {
  int bytes = 0, before = 0;
  // Unrolled: compilers for sm_75 copy arguments onto the stack where they are indexed.
  UNROLL for (int f = 0; f < MOST_FIELDS; ++f) bytes += f < a.fields ? a.field[f].bytes : 0;
  DEV u8* to = panels + ((size_t)BLOCK.y * a.blocks + BLOCK.x) * bytes * 32;
  UNROLL for (int f = 0; f < MOST_FIELDS; ++f) {
    if (f >= a.fields) break;
    int word = a.field[f].word, words = a.field[f].bytes / word * 32;
    for (int i = (int)THREAD; i < words; i += 128) {
      int row = (int)BLOCK.y * 32 + i % 32, at = (int)BLOCK.x * a.block_bytes + a.field[f].at + i / 32 * word;
      // Rows and numbers that fill panels and blocks up are zeros.
      for (int b = 0; b < word; ++b)
        to[before * 32 + i * word + b] = row < a.rows && at + b < a.row_bytes ? rows[(size_t)row * a.row_bytes + at + b] : (u8)0;
    }
    before += a.field[f].bytes;
  }
}
