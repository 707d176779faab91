/*
 * leat_writer_open: the writer (src/store), which knows nothing of photos, given what the decoders (src/op) know.
 */
#include "op/program.h"
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

static int check(void *checker, const void *data, size_t length, struct leat_error *error)
{
    return leat_photo_check(checker, data, length, error);
}

static const struct leat_photo_hooks hooks = {probe, checker_new, checker_free, check, leat_photo_shrink};

int leat_writer_open(const char *path, const struct leat_field *fields, size_t n_fields, const struct leat_writer_options *options,
                     struct leat_writer **out, struct leat_error *error)
{
    return leat_store_writer_open(path, fields, n_fields, options, &hooks, out, error);
}
