/*
 * A resume trusts only groups that pass every checksum and follow each other. The bytes behind the last of them are cut
 * off and written again. As groups depend only on the samples added, the finished file is byte for byte that of an
 * uninterrupted run.
 */
#include "store/target.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/transfer.h"
#include "format/fingerprint.h"
#include "io/paths.h"
#include "store/identity.h"

static struct leat_part *current(struct leat_target *t)
{
    return t->sharded ? &t->shard : &t->main;
}

static void make_header(struct leat_target *t, uint64_t shard)
{
    t->identity.shard = shard;
    leat_store_header_put(t->header, t->layout, &t->identity);
}

/* "folder/photos.leat" -> "folder/photos.00007.leat"; freed with leat_free. */
static char *shard_path(const char *path, size_t number)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    size_t stem = dot && dot != name ? (size_t)(dot - path) : strlen(path), room = stem + 32;
    char *out = leat_alloc(room);
    if (out)
        snprintf(out, room, "%.*s.%05zu.leat", (int)stem, path, number);
    return out;
}

/* ---- resume ---------------------------------------------------------------------------------- */

static int read_all(int fd, void *to, uint64_t length, uint64_t offset, struct leat_error *error)
{
    const uint64_t done = leat_read_at(fd, to, length, offset);
    if (done == length)
        return LEAT_OK;
    return errno
               ? leat_fail_errno(error, LEAT_E_IO, "cannot read the unfinished file at byte %" PRIu64, offset + done)
               : leat_fail(error, LEAT_E_IO, "the unfinished file became shorter while it was read: stop what cuts it");
}

/* The header of the next group, if the group is complete. LEAT_E_END: there is none. */
static int find_group(int fd, uint64_t size, uint64_t offset, const struct leat_store_layout *l, uint64_t first_row,
                      uint64_t first_input, struct leat_store_group *g, struct leat_store_shape *shape,
                      struct leat_error *error)
{
    uint8_t header[LEAT_STORE_GROUP_HEADER];
    if (size < offset || size - offset < sizeof header)
        return LEAT_E_END;
    int rc = read_all(fd, header, sizeof header, offset, error);
    if (rc)
        return rc;
    if (!leat_store_group_get(header, g) || g->first_row != first_row || g->first_input != first_input ||
        g->n_inputs < g->n_rows || g->n_inputs == 0 ||
        !leat_store_group_shape(l, g->n_rows, g->payload_bytes, g->directory_bytes, shape) ||
        shape->bytes > size - offset)
        return LEAT_E_END;
    return LEAT_OK;
}

int leat_target_read_group(int fd, uint64_t size, uint64_t offset, const struct leat_store_layout *l,
                           uint64_t first_row, uint64_t first_input, struct leat_growing *buffer,
                           struct leat_store_group *g, struct leat_store_shape *shape, struct leat_error *error)
{
    int rc = find_group(fd, size, offset, l, first_row, first_input, g, shape, error);
    if (rc)
        return rc;
    buffer->length = 0;
    if (!leat_growing_extend(buffer, shape->bytes))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a group of %" PRIu64 " bytes", shape->bytes);
    rc = read_all(fd, buffer->data, shape->bytes, offset, error);
    if (rc)
        return rc;
    struct leat_store_faults faults = {.n = 0};
    leat_store_check_group(l, buffer->data, g, shape, &faults);
    return faults.n ? LEAT_E_END : LEAT_OK;
}

/* Says how the header in the file differs from ours. */
static int compare_headers(struct leat_target *t, const uint8_t *there, struct leat_error *error)
{
    uint64_t bytes;
    struct leat_store_layout layout;
    struct leat_store_identity id;
    char what[800] = "the schema";
    if (!memcmp(there, t->header, t->header_bytes))
        return LEAT_OK;
    if (!leat_store_header_length(there, &bytes, NULL) && !leat_store_header_get(there, bytes, &layout, &id, NULL)) {
        leat_identity_differences(&id, &layout, &t->identity, t->layout, t->options, t->metadata, what, sizeof what);
        leat_store_layout_destroy(&layout);
    }
    return leat_fail(
        error, LEAT_E_CHANGED,
        "%s changed since the unfinished file was begun: give what it was begun with, or start again without resume",
        what);
}

static int take_notes(struct leat_target *t, const uint8_t *group, const struct leat_store_group *g,
                      const struct leat_store_shape *shape, struct leat_error *error)
{
    const uint8_t *p = group + leat_store_notes_at(t->layout, shape, g->n_rows),
                  *end = group + shape->directory_at + g->directory_bytes;
    struct leat_store_note note;
    while (leat_store_note_get(&p, end, &note)) {
        int rc = t->on_note ? t->on_note(t->user, &note, error) : LEAT_OK;
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

/* Compares the header in the file with ours. LEAT_E_END: there is no complete one, and nothing after it counts. */
static int resume_header(struct leat_target *t, int fd, uint64_t size, struct leat_growing *buffer,
                         struct leat_error *error)
{
    uint8_t fixed[LEAT_STORE_HEADER_FIXED] = {0};
    if (size < sizeof fixed)
        return LEAT_E_END;
    int rc = read_all(fd, fixed, sizeof fixed, 0, error);
    if (rc)
        return rc;
    uint64_t length = memcmp(fixed, LEAT_STORE_MAGIC, 8) ? 0 : leat_get_u64(fixed + 16);
    if (length < sizeof fixed || length > size || length > leat_store_header_bytes(LEAT_STORE_MAX_FIELDS))
        return LEAT_E_END;
    uint64_t room = length > t->header_bytes ? length : t->header_bytes;
    uint8_t *there = leat_growing_extend(buffer, room);
    if (!there)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a header");
    memset(there, 0, room);
    rc = read_all(fd, there, length, 0, error);
    if (rc)
        return rc;
    if (leat_hash64(there, length - 8) != leat_store_header_checksum(there, length))
        return LEAT_E_END;
    return compare_headers(t, there, error);
}

/* Keeps the complete groups of a part and cuts off the rest. A part without a complete header is started again. */
static int resume_part(struct leat_target *t, struct leat_part *part, struct leat_error *error)
{
    struct leat_growing buffer = {0};
    struct leat_store_group g;
    struct leat_store_shape shape;
    struct stat st;
    int rc = fstat(part->fd, &st) ? leat_fail_errno(error, LEAT_E_IO, "cannot look at the unfinished file") : LEAT_OK;
    uint64_t size = rc ? 0 : (uint64_t)st.st_size;
    if (!rc)
        rc = resume_header(t, part->fd, size, &buffer, error);
    if (rc == LEAT_E_END) {
        size = 0;
        rc = leat_part_start(part, t->header, t->header_bytes, error);
    }
    if (rc)
        goto out;
    part->bytes = t->header_bytes;
    part->header_checksum = leat_store_header_checksum(t->header, t->header_bytes);
    for (;;) {
        rc = leat_target_read_group(part->fd, size, part->bytes, t->layout, part->summary.count, t->inputs, &buffer, &g,
                                    &shape, error);
        if (!rc)
            rc = leat_part_count(part, t->layout, buffer.data, part->bytes, error);
        if (!rc)
            rc = take_notes(t, buffer.data, &g, &shape, error);
        if (rc)
            break;
        t->inputs += g.n_inputs;
    }
    if (rc != LEAT_E_END)
        goto out;
    rc = LEAT_OK;
    if (ftruncate(part->fd, (off_t)part->bytes))
        rc = leat_fail_errno(error, LEAT_E_IO, "cannot cut the unfinished file behind its last whole group");
    leat_log(LEAT_LOG_INFO, "%s: %" PRIu64 " samples are whole; what is behind byte %" PRIu64 " is written again",
             part->partial, part->summary.count, part->bytes);
out:
    if (rc)
        leat_error_at_file(error, part->partial, LEAT_NO_OFFSET);
    leat_growing_destroy(&buffer);
    return rc;
}

/* ---- shards ---------------------------------------------------------------------------------- */

static int open_shard(struct leat_target *t, struct leat_error *error)
{
    char *path = shard_path(t->main.path, t->manifest.n_shards);
    if (!path)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a path");
    int rc = LEAT_OK;
    if (!t->options->overwrite && !access(path, F_OK))
        rc = leat_fail_at(error, LEAT_E_EXISTS, path, LEAT_NO_OFFSET,
                          "a shard of this name exists: remove it, or overwrite it");
    if (!rc)
        rc = leat_part_open(&t->shard, path, true,
                            error); /* locked, because targets that differ only in their ending share shard names */
    leat_free(path);
    make_header(t, t->manifest.n_shards);
    return rc;
}

/* Finishes the shard and adds it to the manifest. */
static int end_shard(struct leat_target *t, struct leat_error *error)
{
    struct leat_part *p = &t->shard;
    int rc = leat_part_end(p, t->layout, t->options->classes, t->options->n_classes, t->metadata, NULL, error);
    if (rc)
        return rc;
    struct leat_manifest *m = &t->manifest;
    if (!leat_grow(&m->shards, &t->manifest_room, m->n_shards + 1, sizeof *m->shards))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a manifest of %zu shards", m->n_shards + 1);
    const char *slash = strrchr(p->path, '/');
    struct leat_manifest_shard s = {.file = leat_strdup(slash ? slash + 1 : p->path),
                                    .count = p->summary.count,
                                    .bytes = p->bytes,
                                    .sums = {p->summary.sums[0], p->summary.sums[1]},
                                    .footer = p->footer_checksum};
    if (!s.file)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a path");
    m->shards[m->n_shards++] = s;
    m->count += s.count;
    leat_fingerprint_join(m->sums, s.sums, s.count);
    t->bytes += p->bytes;
    t->samples += p->summary.count;
    t->broken += p->summary.broken;
    t->skipped += p->summary.skipped;
    leat_part_destroy(p, false);
    return LEAT_OK;
}

/* Whether the file at `path` is the finished shard of the manifest, by its size and its last 8 bytes. */
static bool is_shard(const char *path, const struct leat_manifest_shard *shard)
{
    uint8_t last[8];
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool same = fd >= 0 && !fstat(fd, &st) && (uint64_t)st.st_size == shard->bytes && st.st_size >= LEAT_STORE_FOOTER &&
                pread(fd, last, sizeof last, st.st_size - (off_t)sizeof last) == sizeof last &&
                leat_get_u64(last) == shard->footer;
    if (fd >= 0)
        close(fd);
    return same;
}

/* A crash between renaming shards and renaming the manifest leaves finished shards, and their manifest under the name
 * of an unfinished one. The manifest says which shards are ours; any other file with such a name is somebody else's. */
static void take_back_shards(const struct leat_target *t)
{
    struct leat_manifest m;
    if (leat_manifest_read(t->main.partial, &m, NULL))
        return;
    for (size_t i = 0; i < m.n_shards; i++) {
        char *path = shard_path(t->main.path, i), *partial = path ? leat_part_partial(path) : NULL;
        if (partial && access(partial, F_OK) && is_shard(path, &m.shards[i]))
            (void)leat_part_rename(path, partial, false);
        leat_free(partial);
        leat_free(path);
    }
    leat_manifest_destroy(&m);
}

static bool partial_exists(const struct leat_target *t, size_t number)
{
    char *path = shard_path(t->main.path, number);
    char *partial = path ? leat_part_partial(path) : NULL;
    bool exists = partial && !access(partial, F_OK);
    leat_free(partial);
    leat_free(path);
    return exists;
}

static int resume_shards(struct leat_target *t, struct leat_error *error)
{
    char mark[8] = {0};
    if (pread(t->main.fd, mark, sizeof mark, 0) == sizeof mark && !memcmp(mark, LEAT_STORE_MAGIC, sizeof mark))
        return leat_fail_at(
            error, LEAT_E_CHANGED, t->main.partial, LEAT_NO_OFFSET,
            "the unfinished target was begun as one file, without shard_bytes: start again without resume");
    take_back_shards(t);
    for (;;) {
        bool exists = partial_exists(t, t->manifest.n_shards);
        int rc = open_shard(t, error);
        if (!rc)
            rc = exists ? resume_part(t, &t->shard, error)
                        : leat_part_start(&t->shard, t->header, t->header_bytes, error);
        if (rc || t->shard.bytes < t->options->shard_bytes || !partial_exists(t, t->manifest.n_shards + 1))
            return rc;
        rc = end_shard(t, error);
        if (rc)
            return rc;
    }
}

/* Shards of an earlier, longer run. */
static void remove_stale(const struct leat_target *t, bool finished_too)
{
    for (size_t i = t->manifest.n_shards;; i++) {
        char *path = shard_path(t->main.path, i);
        char *partial = path ? leat_part_partial(path) : NULL;
        bool removed = partial && !unlink(partial);
        removed |= path && finished_too && !unlink(path);
        leat_free(partial);
        leat_free(path);
        if (!removed)
            return;
    }
}

/* ---- the remains of an earlier run ----------------------------------------------------------- */

/* Counts the samples in the complete groups of an unfinished file, whatever its schema. The first group is checked to
 * its end, as a resume does, because without it nothing can be resumed. Only headers of the others are read, which is
 * quick. */
static int count_whole(int fd, uint64_t *inputs, struct leat_error *error)
{
    uint8_t fixed[LEAT_STORE_HEADER_FIXED];
    struct leat_growing buffer = {0};
    struct leat_store_layout layout;
    struct leat_store_identity id;
    struct leat_store_group g;
    struct leat_store_shape shape;
    struct stat st;
    uint64_t offset, rows = 0;
    if (fstat(fd, &st))
        return leat_fail_errno(error, LEAT_E_IO, "cannot look at the unfinished file");
    const uint64_t size = (uint64_t)st.st_size;
    if (size < sizeof fixed)
        return LEAT_OK;
    int rc = read_all(fd, fixed, sizeof fixed, 0, error);
    if (rc || leat_store_header_length(fixed, &offset, NULL) || offset > size)
        return rc;
    if (!leat_growing_extend(&buffer, offset))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a header");
    rc = read_all(fd, buffer.data, offset, 0, error);
    const int header = rc ? rc : leat_store_header_get(buffer.data, offset, &layout, &id, NULL);
    if (header == LEAT_E_NOMEM)
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a header");
    if (!header) {
        rc = leat_target_read_group(fd, size, offset, &layout, rows, *inputs, &buffer, &g, &shape, error);
        while (!rc) {
            rows += g.n_rows;
            *inputs += g.n_inputs;
            offset += shape.bytes;
            rc = find_group(fd, size, offset, &layout, rows, *inputs, &g, &shape, error);
        }
        rc = rc == LEAT_E_END ? LEAT_OK : rc;
        leat_store_layout_destroy(&layout);
    }
    leat_growing_destroy(&buffer);
    return rc;
}

/* As count_whole, for all shards that are there. */
static int count_whole_shards(const struct leat_target *t, uint64_t *inputs, struct leat_error *error)
{
    int rc = LEAT_OK;
    for (size_t i = 0; !rc; i++) {
        char *path = shard_path(t->main.path, i), *partial = path ? leat_part_partial(path) : NULL;
        const int fd = partial ? open(partial, O_RDONLY | O_CLOEXEC) : -1;
        if (!partial)
            rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a path");
        leat_free(partial);
        leat_free(path);
        if (fd < 0)
            break;
        rc = count_whole(fd, inputs, error);
        close(fd);
    }
    return rc;
}

/* Hours of work may be there, which starting again by mistake must not lose. */
static int refuse_unfinished(const struct leat_target *t, struct leat_error *error)
{
    uint8_t head[64];
    struct leat_manifest m;
    uint64_t samples = 0;
    int rc;
    if (!t->options->keep_unfinished || t->options->resume || t->options->overwrite)
        return LEAT_OK;
    const ssize_t n = pread(t->main.fd, head, sizeof head, 0);
    if (n > 0 && leat_manifest_recognise(head, (size_t)n) && !leat_manifest_read(t->main.partial, &m, NULL)) {
        samples = m.count; /* all shards were complete and were being renamed */
        leat_manifest_destroy(&m);
        rc = LEAT_OK;
    } else {
        rc = n > 0 ? count_whole(t->main.fd, &samples, error) : count_whole_shards(t, &samples, error);
    }
    if (!rc && samples)
        rc = leat_fail(error, LEAT_E_EXISTS,
                       "%" PRIu64 " sample%s of an unfinished target are here, to resume or to overwrite", samples,
                       samples == 1 ? "" : "s");
    if (rc)
        leat_error_at_file(error, t->main.partial, LEAT_NO_OFFSET);
    return rc;
}

/* ---- the target ------------------------------------------------------------------------------ */

static int refuse_existing(const char *path, const struct leat_writer_options *options, struct leat_error *error)
{
    struct stat st;
    if (lstat(path, &st))
        return LEAT_OK;
    int rc = LEAT_OK;
    if (S_ISDIR(st.st_mode))
        rc = leat_fail(error, LEAT_E_EXISTS, "the target is a folder: choose another name");
    else if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode)) /* a device would be replaced by the file */
        rc = leat_fail(error, LEAT_E_EXISTS, "the target is no regular file: choose another name");
    else if (!options->overwrite)
        rc = leat_fail(error, LEAT_E_EXISTS, "the target exists: choose another name, or overwrite it");
    if (rc)
        leat_error_at_file(error, path, LEAT_NO_OFFSET);
    return rc;
}

/* An unfinished sharded target leaves shards and PATH.partial, which is empty or the manifest. */
static int refuse_shards(const struct leat_target *t, struct leat_error *error)
{
    uint8_t head[64];
    ssize_t n = pread(t->main.fd, head, sizeof head, 0);
    if (!(n > 0 && leat_manifest_recognise(head, (size_t)n)) && !(n == 0 && partial_exists(t, 0)))
        return LEAT_OK;
    return leat_fail_at(
        error, LEAT_E_CHANGED, t->main.partial, LEAT_NO_OFFSET,
        "the unfinished target was begun with shard_bytes: give it again, or start again without resume");
}

/* The main name of a sharded target, under which there is nothing until the manifest. */
static int empty_main(const struct leat_target *t, struct leat_error *error)
{
    if (!ftruncate(t->main.fd, 0))
        return LEAT_OK;
    const int rc = leat_fail_errno(error, LEAT_E_IO, "cannot empty the file");
    leat_error_at_file(error, t->main.partial, LEAT_NO_OFFSET);
    return rc;
}

static int start(struct leat_target *t, struct leat_error *error)
{
    struct stat st;
    make_header(t, 0);
    if (!t->sharded) {
        int rc = t->options->resume ? refuse_shards(t, error) : LEAT_OK;
        if (rc)
            return rc;
        if (t->options->resume && !fstat(t->main.fd, &st) && st.st_size > 0)
            return resume_part(t, &t->main, error);
        return leat_part_start(&t->main, t->header, t->header_bytes, error);
    }
    if (t->options->resume)
        return resume_shards(t, error);
    int rc = empty_main(t, error);
    if (rc)
        return rc;
    remove_stale(t, false);
    rc = open_shard(t, error);
    return rc ? rc : leat_part_start(&t->shard, t->header, t->header_bytes, error);
}

int leat_target_open(struct leat_target *t, const char *path, const struct leat_store_layout *layout,
                     const struct leat_writer_options *options, const char *metadata, struct leat_error *error)
{
    t->layout = layout;
    t->options = options;
    t->metadata = metadata;
    t->sharded = options->shard_bytes > 0;
    t->shard.fd = t->main.fd = -1;
    t->header_bytes = leat_store_header_bytes(layout->n_stored);
    t->header = leat_alloc(t->header_bytes);
    if (!t->header)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a header");
    int rc = refuse_existing(path, options, error);
    if (!rc)
        rc = leat_part_open(&t->main, path, true, error);
    if (!rc) {
        rc = refuse_existing(path, options, error); /* another writer may have finished before we had the lock */
        if (!rc)
            rc = refuse_unfinished(t, error);
        if (!rc)
            rc = start(t, error);
    }
    return rc;
}

int leat_target_write(struct leat_target *t, struct leat_group *group, struct leat_error *error)
{
    struct leat_part *part = current(t);
    int rc = LEAT_OK;
    if (t->sharded && part->bytes >= t->options->shard_bytes && part->entries.length) {
        rc = end_shard(t, error);
        if (!rc)
            rc = open_shard(t, error);
        if (!rc)
            rc = leat_part_start(part, t->header, t->header_bytes, error);
        if (rc)
            return rc;
    }
    size_t length;
    const uint8_t *bytes = leat_group_bytes(group, part->summary.count, &length);
    rc = leat_part_append(part, bytes, length, error);
    if (!rc)
        rc = leat_part_count(part, t->layout, bytes, part->bytes, error);
    return rc;
}

/* All shards are complete and on the disk. They get their names, and after them the manifest. */
static int publish_shards(struct leat_target *t, struct leat_error *error)
{
    char *text = NULL;
    size_t length = 0;
    int rc = leat_manifest_text(&t->manifest, &text, &length, error);
    if (!rc)
        rc = empty_main(t, error);
    if (!rc)
        rc = leat_part_write(t->main.fd, t->main.partial, text, length, 0, error);
    if (!rc && fsync(t->main.fd)) {
        rc = leat_fail_errno(error, LEAT_E_IO,
                             "the disk did not take the manifest: check it, then start again with resume");
        leat_error_at_file(error, t->main.partial, LEAT_NO_OFFSET);
    }
    for (size_t i = 0; i < t->manifest.n_shards && !rc; i++) {
        char *path = shard_path(t->main.path, i), *partial = path ? leat_part_partial(path) : NULL;
        rc = partial ? leat_part_publish(partial, path, t->options->overwrite, error)
                     : leat_fail(error, LEAT_E_NOMEM, "no memory for a path");
        leat_free(partial);
        leat_free(path);
    }
    leat_free(text);
    return rc;
}

/* The source of a conversion; NULL: none, or one whose fingerprint follows from the values that were written. */
static const struct leat_store_conversion *source_of(struct leat_target *t, const uint64_t values[2])
{
    memcpy(t->conversion.values, values, sizeof t->conversion.values);
    return t->converts && leat_store_conversion_tells(&t->conversion) ? &t->conversion : NULL;
}

/* The shards of this name, by the manifest that one file takes the place of. */
static size_t count_replaced(const struct leat_target *t)
{
    struct leat_manifest old = {0};
    uint8_t head[sizeof LEAT_MANIFEST_HEAD];
    bool folder;
    size_t n = 0;
    if (t->sharded || !t->options->overwrite || leat_path_look(t->main.path, &folder, head, sizeof head, &n, NULL) ||
        !leat_manifest_recognise(head, n) || leat_manifest_read(t->main.path, &old, NULL))
        return 0;
    n = 0;
    for (bool same = true; n < old.n_shards && same; n += same) {
        char *path = shard_path(t->main.path, n), *named = leat_manifest_shard_path(t->main.path, old.shards[n].file);
        same = path && named && !strcmp(path, named);
        leat_free(path);
        leat_free(named);
    }
    leat_manifest_destroy(&old);
    return n;
}

int leat_target_finish(struct leat_target *t, struct leat_error *error)
{
    size_t replaced = count_replaced(t);
    int rc;
    if (t->sharded) {
        rc = end_shard(t, error);
        const struct leat_store_conversion *source = rc ? NULL : source_of(t, t->manifest.sums);
        if (source) {
            t->manifest.converted = true;
            t->manifest.conversion = *source;
        }
        if (!rc)
            rc = publish_shards(t, error);
        if (!rc)
            rc = leat_part_sync_folder(t->main.path, error);
    } else {
        rc = leat_part_end(&t->main, t->layout, t->options->classes, t->options->n_classes, t->metadata,
                           source_of(t, t->main.summary.sums), error);
    }
    if (!rc)
        rc = leat_part_publish(t->main.partial, t->main.path, t->options->overwrite, error);
    if (!rc)
        rc = leat_part_sync_folder(t->main.path, error);
    if (rc)
        return rc;
    t->published = true;
    if (t->sharded)
        remove_stale(t, t->options->overwrite);
    while (replaced) {
        char *path = shard_path(t->main.path, --replaced);
        if (path)
            unlink(path);
        leat_free(path);
    }
    return LEAT_OK;
}

void leat_target_destroy(struct leat_target *t, bool keep_partial)
{
    bool remove = !keep_partial && !t->published;
    if (t->sharded && remove && t->main.path) {
        size_t n = t->manifest.n_shards;
        t->manifest.n_shards = 0;
        remove_stale(t, false);
        t->manifest.n_shards = n;
    }
    leat_part_destroy(&t->shard, remove && t->shard.path);
    leat_part_destroy(&t->main, remove);
    leat_manifest_destroy(&t->manifest);
    leat_free(t->header);
    t->header = NULL;
}
