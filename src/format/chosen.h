/* Some fields of a source, for formats whose fields are fixed: chosen.c. */
#ifndef LEAT_FORMAT_CHOSEN_H
#define LEAT_FORMAT_CHOSEN_H

#include "format/source.h"

/* Puts in the place of *source one with the fields that the options name, in their order, which keeps it; it stays
 * itself if they name none, or if its format chooses by itself (takes_fields). On failure *source is as before, and the
 * caller closes it. INVALID: there is no such field, or it is of another kind than the options say. NOMEM. */
int leat_source_choose(struct leat_source **source, const struct leat_open_options *options, struct leat_error *error);

#endif
