/*
 * A data set of files that others have written: its manifest appears in one step, when all of them are there. Until
 * then there is nothing under its name, whatever becomes of the processes that write the files.
 */
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "leat/shards.h"
#include "store/manifest.h"
#include "store/part.h"
#include "store/reader.h"

/* The manifest's entry of a finished file. */
static int describe(const char *path, const char *file, struct leat_manifest_shard *out, struct leat_error *error)
{
    struct leat_source *source = NULL;
    if (!*file || strchr(file, '/') || !strcmp(file, ".") || !strcmp(file, ".."))
        return leat_fail(error, LEAT_E_INVALID, "'%.100s' is no name of a file in the folder of %s", file, path);
    char *shard = leat_manifest_shard_path(path, file);
    int rc = shard ? leat_store_open(shard, NULL, &source, error)
                   : leat_fail(error, LEAT_E_NOMEM, "no memory for the path of a shard");
    if (!rc) {
        *out = (struct leat_manifest_shard){.file = leat_strdup(file),
                                            .count = source->count,
                                            .sums = {source->fingerprint[0], source->fingerprint[1]}};
        leat_store_file_facts(source, &out->bytes, &out->footer);
        rc = out->file ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for the name of a shard");
    }
    leat_source_close(source);
    leat_free(shard);
    return rc;
}

static int publish(struct leat_part *part, const char *text, size_t length, struct leat_error *error)
{
    int rc = leat_part_write(part->fd, part->partial, text, length, 0, error);
    if (!rc && (ftruncate(part->fd, (off_t)length) || fsync(part->fd))) {
        rc = leat_fail_errno(error, LEAT_E_IO, "the disk did not take the manifest: check it, then start again");
        leat_error_at_file(error, part->partial, LEAT_NO_OFFSET);
    }
    if (!rc)
        rc = leat_part_sync_folder(part->path, error); /* names of shards last before that of the manifest */
    if (!rc)
        rc = leat_part_publish(part->partial, part->path, false, error);
    return rc ? rc : leat_part_sync_folder(part->path, error);
}

int leat_writer_join(const char *path, const char *const *files, size_t n, struct leat_error *error)
{
    struct leat_manifest m = {0};
    struct leat_part part = {.fd = -1};
    char *text = NULL;
    size_t length = 0;
    int rc = LEAT_OK;
    if (!n)
        return leat_fail(error, LEAT_E_INVALID, "a data set of shards has at least one");
    if (!(m.shards = leat_new_array(n, sizeof *m.shards)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a manifest of %zu shards", n);
    for (size_t i = 0; i < n && !rc; i++) {
        rc = describe(path, files[i], &m.shards[i], error);
        m.n_shards = i + 1;
    }
    if (!rc)
        rc = leat_manifest_text(&m, &text, &length, error);
    if (!rc)
        rc = leat_part_open(&part, path, true, error);
    if (!rc) {
        rc = publish(&part, text, length, error);
        leat_part_destroy(&part, rc != LEAT_OK);
    }
    leat_free(text);
    leat_manifest_destroy(&m);
    return rc;
}
