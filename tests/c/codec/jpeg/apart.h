/* What takes JPEGs apart in tests. */
#ifndef LEAT_TESTS_JPEG_APART_H
#define LEAT_TESTS_JPEG_APART_H

#include "../../allocations.h"
#include "jpegs.h"

#include "base/alloc.h"
#include "codec/jpeg/coefficients.h"

static struct leat_error error;
static struct leat_jpeg_apart *apart;

static int make_apart(void **state)
{
    apart = leat_jpeg_apart_new();
    return apart ? 0 : -1;
}

static int free_apart(void **state)
{
    leat_jpeg_apart_free(apart);
    return 0;
}

#endif
