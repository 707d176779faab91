/*
 * The fields that the user asks for (leat_open_options.fields), for formats of files that have fields of their own:
 * which ones, and what they are. Names are those of the files with what no name of a field has replaced.
 */
#ifndef LEAT_FORMAT_WANTED_H
#define LEAT_FORMAT_WANTED_H

#include "base/known.h"
#include <stdbool.h>
#include <stddef.h>

#include "leat/leat.h"

/* Appends a part to the name in `out`, behind a dot unless it is empty, with '_' for each byte that a name has not.
 * False: it is too long. */
bool leat_field_name_add(char out[LEAT_FIELD_NAME], const char *part, size_t length);

/* What is asked for under a name, in *wish: NULL, nothing is, as no field is named. False: others are, and this one is
 * not. */
bool leat_wanted_find(const struct leat_open_options *options, const char *name, const struct leat_field **wish);
/* The one of n names of fields that is asked for, in *out; n: there is none. An empty one is nobody's. INVALID: two are
 * equal. */
int leat_wanted_locate(char (*names)[LEAT_FIELD_NAME], size_t n, const char *name, const char *path, size_t *out,
                       struct leat_error *error);
/* Whether a field is said to be something, and not only chosen. */
static inline bool leat_wanted_says(const struct leat_field *wish)
{
    return wish && wish->kind;
}
/* Checks the names of fields in the options: each has one, and none stands twice. INVALID. */
int leat_wanted_check_names(const struct leat_open_options *options, struct leat_error *error);
/* Checks what the options say of fields: names, kinds and shapes that there are. INVALID. */
int leat_wanted_check(const struct leat_open_options *options, struct leat_error *error);
/* Gives `field` the type that is asked for; name and flags stay. */
void leat_wanted_take(const struct leat_field *wish, struct leat_field *field);
/* Whether a field is what is said of it. The layout may be any, and a role that is not said. */
bool leat_wanted_is(const struct leat_field *wish, const struct leat_field *field);
/* The error for a field whose values, encoded as `how`, can run any code when they are loaded. Returns UNSUPPORTED. */
int leat_wanted_refuse_pickles(const char *path, int64_t offset, const char *name, const char *how,
                               struct leat_error *error);
/* "float32 (any, 3)", "image", "sparse float32, 5 columns": the type of a field in words, cut to fit; returns `out`. */
const char *leat_field_text(const struct leat_field *field, char *out, size_t room);

#endif
