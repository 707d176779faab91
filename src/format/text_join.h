/* Chunks of a file of lines, joined in their order into its index. */
#ifndef LEAT_FORMAT_TEXT_JOIN_H
#define LEAT_FORMAT_TEXT_JOIN_H

#include "format/text_chunk.h"

/* Each chunk's memory may be taken. NOMEM. On failure `out` holds nothing. */
int leat_text_join(const char *path, struct leat_text_chunk **chunks, size_t n, struct leat_text_index *out,
                   struct leat_error *error);

#endif
