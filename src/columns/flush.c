/*
 * The barrier. Writes reach the disk in an order that loses nothing, whenever power is lost:
 *
 *     1  the live words of what was written since the last flush are noted
 *     2  the file is synced: their records are on disk
 *     3  the durable words are set to what was noted
 *     4  the file is synced: the durable words are on disk
 *     5  slots that rows have left, and that neither word of their entry names, are free
 *
 * Until 4 no slot that a durable word on disk names is written to: slots become free only while FLUSH is held, which
 * this holds from 1 to 5. One that is killed between 3 and 4 leaves `flushing` set, and the next holder of FLUSH syncs
 * first.
 *
 * A sync that has failed may be the last that says so: the system counts the pages as written. So the next flush
 * writes all again that the last good one did not know of, and until it is done no slot becomes free.
 */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/error.h"
#include "columns/internal.h"
#include "io/guard.h"

int leat_columns_flush_begin(struct leat_columns *c, bool unless_here, struct leat_error *error)
{
    uint64_t flushing = 0;
    if (!unless_here)
        pthread_mutex_lock(&c->flush_mutex);
    else if (pthread_mutex_trylock(&c->flush_mutex))
        return LEAT_E_BUSY;
    int rc = leat_call_lock(c->lock_fd, LOCK_FLUSH, true);
    if (rc) {
        pthread_mutex_unlock(&c->flush_mutex);
        return leat_fail_errno(error, LEAT_E_IO, "%s cannot be locked", c->path);
    }
    rc = leat_columns_look(&c->shared->flushing, &flushing, error);
    if (!rc && flushing && !atomic_load(&c->unsynced)) { /* else the next flush does it */
        rc = leat_columns_sync(c) ? leat_fail_errno(error, LEAT_E_IO, "%s cannot be synced", c->path)
                                  : leat_columns_set(&c->shared->flushing, 0, error);
    }
    if (rc)
        leat_columns_flush_end(c);
    return rc;
}

void leat_columns_flush_end(struct leat_columns *c)
{
    leat_call_unlock(c->lock_fd, LOCK_FLUSH);
    pthread_mutex_unlock(&c->flush_mutex);
}

struct noted {
    struct leat_columns *c;
    struct entry **entries;
    uint64_t *words;
    size_t n;
    uint64_t segments;
};

static int note(void *arg)
{
    struct noted *noted = arg;
    noted->segments = leat_columns_segments(noted->c);
    for (size_t i = 0; i < noted->n; i++)
        noted->words[i] = atomic_load_explicit(&noted->entries[i]->live, memory_order_acquire);
    return LEAT_OK;
}

/* Makes the pages written since the last good flush dirty again. No slot becomes free meanwhile, so nobody writes to
 * these. */
static int touch(void *arg)
{
    const struct noted *noted = arg;
    for (size_t i = 0; i < noted->n; i++) {
        atomic_fetch_or(&noted->entries[i]->live, 0);
        const uint64_t offset = leat_columns_offset(noted->words[i]);
        uint8_t *at = leat_columns_at(noted->c, offset);
        if (!at) /* another file wrote it, and flushes it */
            continue;
        const uint64_t room = WINDOW_BYTES - (offset & (WINDOW_BYTES - 1)) - sizeof(struct record),
                       length = ((const struct record *)(const void *)at)->length,
                       bytes = sizeof(struct record) + (length < room ? length : 0); /* 0: the record is damaged */
        for (uint64_t k = 0; k < bytes; k += 4096)
            *(volatile uint8_t *)(at + k) = at[k];
        *(volatile uint8_t *)(at + bytes - 1) = at[bytes - 1];
    }
    return LEAT_OK;
}

static int make_durable(void *arg)
{
    const struct noted *noted = arg;
    atomic_store(&noted->c->shared->flushing, 1);
    if (atomic_load(&noted->c->shared->kept) < noted->segments)
        atomic_store(&noted->c->shared->kept, noted->segments);
    for (size_t i = 0; i < noted->n; i++)
        atomic_store_explicit(&noted->entries[i]->durable, noted->words[i], memory_order_release);
    return LEAT_OK;
}

static int sync_now(struct leat_columns *c, struct leat_error *error)
{
    if (!leat_columns_sync(c))
        return LEAT_OK;
    leat_fail_errno(error, LEAT_E_IO,
                    "%s cannot be synced: what was written since the last flush may be lost if power "
                    "is; flush again",
                    c->path);
    leat_error_at_file(error, c->path, LEAT_NO_OFFSET);
    return LEAT_E_IO;
}

static int flush(struct noted *noted, struct leat_error *error)
{
    struct leat_columns *c = noted->c;
    int rc = leat_guarded(note, noted, error);
    if (!rc && atomic_load(&c->unsynced))
        rc = leat_guarded(touch, noted, error);
    if (!rc && !(rc = sync_now(c, error)) && !(rc = leat_guarded(make_durable, noted, error)) &&
        !(rc = sync_now(c, error)))
        rc = leat_columns_set(&c->shared->flushing, 0, error);
    return rc;
}

int leat_columns_flush(struct leat_columns *c, struct leat_error *error)
{
    struct noted noted = {.c = c};
    int rc = leat_columns_may_write(c, error);
    if (rc || (rc = leat_columns_flush_begin(c, false, error)))
        return rc;
    pthread_mutex_lock(&c->slots_mutex);
    noted.n = c->n_dirty;
    noted.entries = leat_new_array(noted.n + 1, sizeof(struct entry *));
    noted.words = leat_new_array(noted.n + 1, sizeof *noted.words);
    if (!noted.entries || !noted.words)
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory to flush %s", c->path);
    for (size_t i = 0; !rc && i < noted.n; i++)
        noted.entries[i] = c->dirty[i];
    c->noting = true;
    pthread_mutex_unlock(&c->slots_mutex);
    /* A flush without writes of its own still waits for the one before it: another open file of this process may have
     * been killed in the middle of one. */
    if (!rc)
        rc = flush(&noted, error);
    atomic_fetch_add_explicit(&c->flushes, 1, memory_order_relaxed);
    pthread_mutex_lock(&c->slots_mutex);
    c->noting = false;
    if (!rc) {
        atomic_store(&c->unsynced, false);
        for (size_t i = noted.n; i < c->n_dirty; i++)
            c->dirty[i - noted.n] = c->dirty[i];
        c->n_dirty -= noted.n;
        c->dirty_kept = 0;
        leat_columns_reclaim(c);
    }
    pthread_mutex_unlock(&c->slots_mutex);
    leat_columns_flush_end(c);
    leat_free((void *)noted.entries);
    leat_free(noted.words);
    return rc;
}
