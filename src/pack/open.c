/*
 * leat_writer_open: the writer (src/store), which knows nothing of photos, given what the decoders (src/codec) know.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "codec/photo/photo.h"
#include "store/photo_hooks.h"

static int probe(const void *data, size_t length, struct leat_photo_facts *facts, struct leat_error *error)
{
    struct leat_photo_info info = {0};
    int rc = leat_photo_probe(data, length, &info, error);
    *facts = (struct leat_photo_facts){info.width, info.height, info.channels, info.image_kind};
    return rc;
}

static void *checker_new(void)
{
    return leat_photo_checker_new();
}

static void checker_free(void *checker)
{
    leat_photo_checker_free(checker);
}

static int check(void *checker, const void *data, size_t length, uint8_t **rows, size_t *rows_length,
                 struct leat_error *error)
{
    int rc = leat_photo_check(checker, data, length, error);
    if (!rows)
        return rc;
    *rows = NULL;
    *rows_length = 0;
    size_t n;
    const uint8_t *found = rc ? NULL : leat_photo_checker_rows(checker, &n);
    if (!found)
        return rc;
    if (!(*rows = leat_alloc(n)))
        return leat_fail(error, LEAT_E_NOMEM, "%zu bytes of memory for the row index of a photo could not be had", n);
    memcpy(*rows, found, n);
    *rows_length = n;
    return LEAT_OK;
}

static int pack(void *checker, enum leat_photos form, const void *data, size_t length, uint8_t **out,
                size_t *out_length, struct leat_error *error)
{
    return leat_photo_pack(checker, form, data, length, out, out_length, error);
}

static const struct leat_photo_hooks hooks = {probe, checker_new, checker_free, check, pack, leat_photo_shrink};

int leat_writer_open(const char *path, const struct leat_field *fields, size_t n_fields,
                     const struct leat_writer_options *options, struct leat_writer **out, struct leat_error *error)
{
    leat_log_check();
    return leat_store_writer_open(path, fields, n_fields, options, &hooks, out, error);
}
