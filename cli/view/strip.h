/* A sparse row as a strip: its columns from left to right, the larger a value the brighter. */
#ifndef LEAT_CLI_VIEW_STRIP_H
#define LEAT_CLI_VIEW_STRIP_H

#include "draw/picture.h"
#include "view/rows.h"

#define CLI_STRIP 24 /* its height */

/* Whether a column has sparse rows, which are shown so. */
bool cli_column_is_strip(const struct cli_column *column);
/* The strip of a cell of such a column, `width` pixels wide; `about` gets how many values the row has, and their sum.
 * Errors: NOMEM, DECODE (columns do not rise, or are beyond the last). */
int cli_strip_make(const struct cli_rows *rows, uint64_t row, size_t column, const struct cli_cell *cell,
                   uint32_t width, struct cli_picture *out, char *about, size_t room, struct leat_error *error);

#endif
