/*
 * A copy of the file, as it is now, while others write to it.
 *
 * FLUSH is held, so no slot becomes free: a record that a word of the index names stays where it is. GROW is held, so
 * there are no new segments and no new parts of the index. Then the order of the two steps is all that counts:
 *
 *     1  header, table, directories and index, word by word
 *     2  data, of which the system copies or shares the bytes: every record that a copied word names is there
 *
 * Writers go on meanwhile, in slots that are free already: their records may come with 2, but no copied word names
 * them. Those that need new room wait.
 *
 * The copy has no name until it is whole and on disk (O_TMPFILE), where the file system can do that: one that is killed
 * leaves nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/transfer.h"
#include "columns/internal.h"
#include "io/guard.h"
#include "io/interrupt.h"

enum { COPIED_TOGETHER = 64 }; /* segments, between two looks at whether it was interrupted */
#define WORDS (SEGMENT_BYTES / sizeof(uint64_t))
#define FIRST_BYTES (HEADER_BYTES + sizeof(struct shared)) /* of segment 0; the rest of it is not used */

struct copy {
    struct leat_columns *c;
    const char *to;
    char *name;      /* of the copy as long as it is not published: TO.TAG */
    bool named;      /* it has that name */
    int fd;          /* of the copy */
    uint64_t n;      /* segments */
    uint64_t *words; /* a segment of them */
    const word *at;  /* where they are read from */
    uint64_t n_words;
    bool by_hand; /* the system cannot copy between these two files */
};

static int fail_write(const struct copy *copy, int64_t at, struct leat_error *error)
{
    leat_fail_errno(error, LEAT_E_IO, "the copy %s cannot be written; there is none", copy->to);
    leat_error_at_file(error, copy->to, at);
    return LEAT_E_IO;
}

static int fail_cut(const struct copy *copy, uint64_t at, struct leat_error *error)
{
    return leat_fail_at(error, LEAT_E_CORRUPT, copy->c->path, (int64_t)at, "%s was cut while it was copied",
                        copy->c->path);
}

static int stopped(const struct copy *copy, struct leat_error *error)
{
    return leat_io_interrupted() ? leat_fail(error, LEAT_E_CANCELLED, "copying %s was stopped", copy->c->path)
                                 : LEAT_OK;
}

static int put_words(const struct copy *copy, uint64_t at, uint64_t bytes, struct leat_error *error)
{
    for (uint64_t done = 0; done < bytes;) {
        const ssize_t n = leat_call_put(copy->fd, (const uint8_t *)copy->words + done, bytes - done, at + done);
        if (n > 0)
            done += (uint64_t)n;
        else if (!n || errno != EINTR) {
            errno = n ? errno : ENOSPC;
            return fail_write(copy, (int64_t)(at + done), error);
        }
    }
    return LEAT_OK;
}

/* ---- 1: words -----------------------------------------------------------------------------------------------------
 */

/* In order: the words of an entry come after `live`, which is set last. */
static int read_words(void *arg)
{
    struct copy *copy = arg;
    for (uint64_t i = 0; i < copy->n_words; i++)
        copy->words[i] = atomic_load_explicit(&copy->at[i], memory_order_acquire);
    return LEAT_OK;
}

static int copy_words(struct copy *copy, uint64_t segment, struct leat_error *error)
{
    copy->n_words = segment ? WORDS : FIRST_BYTES / sizeof(word);
    copy->at = (const word *)(const void *)leat_columns_map(copy->c, segment << SEGMENT_SHIFT, error);
    int rc = !copy->at ? error ? error->code : LEAT_E_IO : leat_guarded(read_words, copy, error);
    if (!rc && !segment) {
        struct shared *shared = (struct shared *)(void *)((uint8_t *)copy->words + HEADER_BYTES);
        atomic_store(&shared->flushing, 0); /* all of the copy is on disk before it has its name */
        atomic_store(&shared->kept, copy->n);
    }
    return rc ? rc : put_words(copy, segment << SEGMENT_SHIFT, copy->n_words * sizeof(word), error);
}

/* ---- 2: data ------------------------------------------------------------------------------------------------------
 */

/* Between file systems that cannot do it by themselves. */
static int carry(struct copy *copy, uint64_t at, uint64_t bytes, struct leat_error *error)
{
    int rc = LEAT_OK;
    for (uint64_t end = at + bytes; !rc && at < end; at += SEGMENT_BYTES) {
        const uint64_t n = leat_read_at(copy->c->fd, copy->words, SEGMENT_BYTES, at);
        if (n < SEGMENT_BYTES)
            return errno ? leat_fail_errno(error, LEAT_E_IO, "%s cannot be read", copy->c->path)
                         : fail_cut(copy, at + n, error);
        rc = put_words(copy, at, SEGMENT_BYTES, error);
    }
    return rc;
}

static int copy_data(struct copy *copy, uint64_t segment, uint64_t n, struct leat_error *error)
{
    const uint64_t begin = segment << SEGMENT_SHIFT, bytes = n << SEGMENT_SHIFT;
    for (uint64_t done = 0; done < bytes && !copy->by_hand;) {
        const ssize_t moved = leat_call_move(copy->c->fd, copy->fd, begin + done, bytes - done);
        if (moved > 0)
            done += (uint64_t)moved;
        else if (!moved)
            return fail_cut(copy, begin + done, error);
        else if (errno == EXDEV || errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL)
            copy->by_hand = true;
        else if (errno != EINTR)
            return fail_write(copy, (int64_t)(begin + done), error);
    }
    return copy->by_hand ? carry(copy, begin, bytes, error) : LEAT_OK;
}

static int kind_of(struct leat_columns *c, uint64_t segment, enum segment_kind *kind, struct leat_error *error)
{
    uint64_t w = 0;
    word *at = leat_columns_segment(c, segment, error);
    int rc = at ? leat_columns_look(at, &w, error) : error ? error->code : LEAT_E_IO;
    *kind = KIND_OF(w);
    return rc;
}

/* The header, and parts of the table: the word of the first one may be zero. */
static bool has_words(uint64_t segment, enum segment_kind kind)
{
    return segment % REGION_SEGMENTS <= (segment < REGION_SEGMENTS) || kind == SEGMENT_DIRECTORY ||
           kind == SEGMENT_INDEX;
}

/* Segments of no kind lie before the end of a window and are holes. */
static bool has_data(uint64_t segment, enum segment_kind kind)
{
    return !has_words(segment, kind) && kind != SEGMENT_NONE;
}

static int copy_all(struct copy *copy, struct leat_error *error)
{
    enum segment_kind kind;
    int rc = leat_columns_look_end(copy->c, &copy->n, error);
    if (!rc && leat_call_cut(copy->fd, copy->n << SEGMENT_SHIFT))
        rc = fail_write(copy, LEAT_NO_OFFSET, error);
    for (uint64_t s = 0; !rc && s < copy->n; s++)
        if (!(rc = kind_of(copy->c, s, &kind, error)) && has_words(s, kind) && !(rc = stopped(copy, error)))
            rc = copy_words(copy, s, error);
    for (uint64_t s = 0, n; !rc && s < copy->n; s += n + !n) {
        for (n = 0; !rc && s + n < copy->n && n < COPIED_TOGETHER; n++)
            if ((rc = kind_of(copy->c, s + n, &kind, error)) || !has_data(s + n, kind))
                break;
        if (!rc && n && !(rc = stopped(copy, error)))
            rc = copy_data(copy, s, n, error);
    }
    if (!rc && leat_call_sync(copy->fd))
        rc = fail_write(copy, LEAT_NO_OFFSET, error);
    return rc;
}

/* ---- the file of the copy ------------------------------------------------------------------------------------------
 */

/* The folder of a path, in the room of its name. */
static const char *folder_of(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        slash[1] = 0;
    return slash ? path : ".";
}

/* Refuses a target before anything is copied. */
static int check_target(const struct copy *copy, bool overwrite, struct leat_error *error)
{
    struct stat there, here;
    if (stat(copy->to, &there))
        return LEAT_OK; /* a target that cannot be looked at cannot be made, which says why */
    if (!fstat(copy->c->fd, &here) && here.st_dev == there.st_dev && here.st_ino == there.st_ino)
        return leat_fail_at(error, LEAT_E_INVALID, copy->to, LEAT_NO_OFFSET,
                            "%s is the store itself: copy it to another path", copy->to);
    if (!overwrite)
        return leat_fail_at(error, LEAT_E_EXISTS, copy->to, LEAT_NO_OFFSET,
                            "%s exists: copy to another path, or overwrite it", copy->to);
    return LEAT_OK;
}

static int make_file(struct copy *copy, struct leat_error *error)
{
    uint64_t tag = 0;
    const size_t room = strlen(copy->to) + 32;
    if (!(copy->name = leat_alloc(room)) || !(copy->words = leat_alloc(SEGMENT_BYTES)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory to copy %s", copy->c->path);
    snprintf(copy->name, room, "%s", copy->to);
    copy->fd = leat_call_open(folder_of(copy->name), O_TMPFILE | O_RDWR, 0666);
    const bool unable = copy->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL);
    if (getrandom(&tag, sizeof tag, 0) < 0)
        tag = (uint64_t)getpid();
    snprintf(copy->name, room, "%s.%016" PRIx64, copy->to, tag);
    if (unable) {
        copy->fd = leat_call_open(copy->name, O_RDWR | O_CREAT | O_EXCL, 0666);
        copy->named = copy->fd >= 0;
    }
    return copy->fd < 0 ? fail_write(copy, LEAT_NO_OFFSET, error) : LEAT_OK;
}

/* Gives the copy its name. */
static int publish(struct copy *copy, bool overwrite, struct leat_error *error)
{
    char unnamed[32];
    snprintf(unnamed, sizeof unnamed, "/proc/self/fd/%d", copy->fd);
    int failed = 0;
    if (!overwrite)
        failed = leat_call_publish(copy->named ? copy->name : unnamed, copy->to);
    else if (copy->named || !(failed = leat_call_publish(unnamed, copy->name))) {
        copy->named = true;
        failed = leat_call_replace(copy->name, copy->to);
        copy->named = failed != 0;
    }
    if (failed && errno == EEXIST)
        return leat_fail_at(error, LEAT_E_EXISTS, copy->to, LEAT_NO_OFFSET, "%s appeared while it was written",
                            copy->to);
    return failed ? fail_write(copy, LEAT_NO_OFFSET, error) : LEAT_OK;
}

static int sync_folder(struct copy *copy, struct leat_error *error)
{
    const int folder = leat_call_open(folder_of(copy->name), O_RDONLY | O_DIRECTORY, 0);
    int rc = LEAT_OK;
    if (folder < 0 || leat_call_sync(folder))
        rc = leat_fail_errno(error, LEAT_E_IO, "the folder of %s cannot be synced", copy->to);
    if (folder >= 0)
        close(folder);
    return rc;
}

static int copy_locked(struct copy *copy, struct leat_error *error)
{
    int rc = leat_columns_flush_begin(copy->c, false, error);
    if (rc)
        return rc;
    if (!(rc = leat_columns_grow_begin(copy->c, error))) {
        rc = copy_all(copy, error);
        leat_columns_grow_end(copy->c);
    }
    leat_columns_flush_end(copy->c);
    return rc;
}

int leat_columns_copy(struct leat_columns *c, const char *path, bool overwrite, struct leat_error *error)
{
    struct copy copy = {.c = c, .to = path, .fd = -1};
    int rc = leat_columns_may_write(c, error);
    if (!rc)
        rc = check_target(&copy, overwrite, error);
    if (!rc)
        rc = make_file(&copy, error);
    if (!rc)
        rc = copy_locked(&copy, error);
    if (!rc)
        rc = publish(&copy, overwrite, error);
    if (copy.fd >= 0)
        close(copy.fd);
    if (copy.named)
        unlink(copy.name);
    if (!rc)
        rc = sync_folder(&copy, error);
    leat_free(copy.name);
    leat_free(copy.words);
    return rc;
}
