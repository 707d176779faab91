/* Rows of values that sources have computed: computed.c. */
#ifndef LEAT_ENGINE_COMPUTED_H
#define LEAT_ENGINE_COMPUTED_H

#include <stddef.h>

struct leat_job;
struct leat_scratch;

/* Makes, of the first n rows of the chunk, the outputs of computed values of one size, all rows of an output together
 * as for mapped ones. Rows that have no other values are done. */
void leat_job_make_computed(struct leat_job *job, struct leat_scratch *scratch, size_t n);

#endif
