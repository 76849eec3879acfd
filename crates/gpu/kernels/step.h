// The step table: what the operators need of a batch, as one array of numbers that is sent once a step.
//
// The first words are counts and the places of the lists behind them (crates/gpu/src/step.rs writes them in this order), so
// that a recorded step finds longer lists at the same address.
#pragma once
#include "dialect.h"
enum StepWord {
  STEP_ROWS, STEP_SELECTED, STEP_LOGITS, STEP_SEQS,   // counts; the first three by kind of row
  STEP_TOKENS, STEP_NUMBER_OF, STEP_POSITIONS, STEP_SEGMENTS, STEP_CELLS, STEP_SEQ_OF, STEP_INDICES, STEP_SEES_UNTIL,
  STEP_ROW_OF_SELECTED, STEP_ROW_OF_LOGITS, STEP_PICK_OF_LOGITS, STEP_SEQ_LIST, STEP_SEQ_WORDS, STEP_NUMBERS, STEP_FEATURES
};
// Words of a sequence; behind them the place of its page table in each layer group.
enum SeqWord { SEQ_FIRST_ROW, SEQ_ROWS, SEQ_STATE, SEQ_PROMPT, SEQ_LEN, SEQ_MAP, SEQ_MAP_LEN, SEQ_ADAPTED, SEQ_LORA, SEQ_LORA_LEN, SEQ_TABLES };
enum RowKind { KIND_ALL, KIND_SELECTED, KIND_LOGITS };

FN DEV const int* step_list(DEV const int* step, int word) { return step + step[word]; }
// Row of the batch that row `i` of a slot of this kind belongs to.
FN int batch_row(DEV const int* step, int kind, int i) {
  if (kind == KIND_ALL) return i;
  return step_list(step, kind == KIND_SELECTED ? STEP_ROW_OF_SELECTED : STEP_ROW_OF_LOGITS)[i];
}
FN DEV const int* seq_at(DEV const int* step, int s) { return step_list(step, STEP_SEQ_LIST) + s * step[STEP_SEQ_WORDS]; }
FN DEV const int* seq_of_row(DEV const int* step, int row) { return seq_at(step, step_list(step, STEP_SEQ_OF)[row]); }
