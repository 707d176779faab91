/* What a port says of the form of its batches, for loaders in Python that attach to it: the keys that
 * python/leat/ports/form.py reads. */
#ifndef LEAT_CLI_SERVE_FORM_H
#define LEAT_CLI_SERVE_FORM_H

#include <jansson.h>

#include "leat/leat.h"

/* As an object, the caller's. `program`: its JSON text, or NULL: as stored. */
json_t *cli_serve_form(const struct leat_dataset *dataset, const char *program);

#endif
