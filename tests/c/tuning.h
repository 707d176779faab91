/* The numbers by which a test's writers add to their files. Linked with --wrap=leat_store_layout_init. */
#ifndef LEAT_TESTS_TUNING_H
#define LEAT_TESTS_TUNING_H

#include "store/layout.h"

static struct leat_store_tuning tuning; /* a number that is 0 is as usual */

int __real_leat_store_layout_init(struct leat_store_layout *layout, const struct leat_field *fields, size_t n_fields,
                                  struct leat_error *error);
int __wrap_leat_store_layout_init(struct leat_store_layout *layout, const struct leat_field *fields, size_t n_fields,
                                  struct leat_error *error);
int __wrap_leat_store_layout_init(struct leat_store_layout *layout, const struct leat_field *fields, size_t n_fields,
                                  struct leat_error *error)
{
    const int rc = __real_leat_store_layout_init(layout, fields, n_fields, error);
    struct leat_store_tuning *to = &layout->tuning;
    to->large = tuning.large ? tuning.large : to->large;
    to->shift = tuning.shift ? tuning.shift : to->shift;
    to->coded_rows = tuning.coded_rows ? tuning.coded_rows : to->coded_rows;
    to->coded_bytes = tuning.coded_bytes ? tuning.coded_bytes : to->coded_bytes;
    return rc;
}

#endif
