/*
 *     file A  entries[0 .. n)   -> entry: DECODING (one thread is at it, others wait) -> READY, in the list by last use
 *     file B  entries[0 .. n)                                                            |
 *                                                 evicted from its end, unless pinned  <-'
 *
 * One lock for all files. It is held neither while decoding nor while bytes are copied: the entry is pinned then.
 */
#include "io/blocks.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/error.h"

uint64_t leat_blocks_budget;

struct entry {
    struct entry *next, *previous; /* the list; the first was used last */
    struct entry **slot;           /* of its file, which points here */
    uint8_t *data;                 /* NULL: it is being decoded */
    uint64_t bytes;
    unsigned pins;
};

struct blocks_file {
    struct leat_io_file file;
    struct leat_blocks def;
    struct entry *entries[];
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t decoded;
    struct entry list; /* its head */
    uint64_t bytes, budget, count;
} cache = {.lock = PTHREAD_MUTEX_INITIALIZER,
           .decoded = PTHREAD_COND_INITIALIZER,
           .list = {.next = &cache.list, .previous = &cache.list}};

static void unlink_entry(struct entry *e)
{
    e->previous->next = e->next;
    e->next->previous = e->previous;
}

static void link_first(struct entry *e)
{
    e->next = cache.list.next;
    e->previous = &cache.list;
    e->next->previous = e->previous->next = e;
}

/* Under the lock. */
static void drop(struct entry *e)
{
    unlink_entry(e);
    *e->slot = NULL;
    cache.bytes -= e->bytes;
    leat_free(e->data);
    leat_free(e);
}

static void evict(void)
{
    uint64_t budget = leat_blocks_budget ? leat_blocks_budget : cache.budget;
    for (struct entry *e = cache.list.previous, *previous; e != &cache.list && cache.bytes > budget; e = previous) {
        previous = e->previous;
        if (!e->pins)
            drop(e);
    }
}

/* ---- fork: a child has neither the threads that decode nor those that read ------------------- */

static void before_fork(void)
{
    pthread_mutex_lock(&cache.lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&cache.lock);
}

static void in_child(void)
{
    pthread_mutex_init(&cache.lock, NULL);
    pthread_cond_init(&cache.decoded, NULL);
    for (struct entry *e = cache.list.next, *next; e != &cache.list; e = next) {
        next = e->next;
        e->pins = 0;
        if (!e->data)
            drop(e);
    }
}

static void start_once(void)
{
    uint64_t share = leat_memory_allowed() / 16;
    cache.budget = share < UINT64_C(16) << 20  ? UINT64_C(16) << 20
                   : share > UINT64_C(1) << 30 ? UINT64_C(1) << 30
                                               : share;
    pthread_atfork(before_fork, after_fork, in_child);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Decodes a block into a new entry. Under the lock, which it lets go. */
static int decode(struct blocks_file *f, size_t block, struct entry **out, struct leat_error *error)
{
    struct entry *e = leat_new(struct entry);
    if (!e)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a block of %s", f->def.path);
    *e =
        (struct entry){.slot = &f->entries[block], .bytes = f->def.starts[block + 1] - f->def.starts[block], .pins = 1};
    *e->slot = e;
    link_first(e);
    cache.bytes += e->bytes;
    cache.count++;
    evict();
    pthread_mutex_unlock(&cache.lock);
    uint8_t *data = e->bytes < SIZE_MAX ? leat_alloc((size_t)e->bytes + 1) : NULL;
    int rc = data ? f->def.decode(f->def.user, block, data, error)
                  : leat_fail(error, LEAT_E_NOMEM, "no memory for a block of %" PRIu64 " bytes of %s", e->bytes,
                              f->def.path);
    pthread_mutex_lock(&cache.lock);
    if (rc) {
        drop(e);
        leat_free(data);
        e = NULL;
    } else {
        e->data = data;
    }
    pthread_cond_broadcast(&cache.decoded);
    *out = e;
    return rc;
}

/* A block, decoded and pinned. */
static int take(struct blocks_file *f, size_t block, struct entry **out, struct leat_error *error)
{
    struct entry *e;
    int rc = LEAT_OK;
    pthread_mutex_lock(&cache.lock);
    while ((e = f->entries[block]) && !e->data)
        pthread_cond_wait(&cache.decoded, &cache.lock);
    if (e) {
        e->pins++;
        unlink_entry(e);
        link_first(e);
    } else {
        rc = decode(f, block, &e, error);
    }
    pthread_mutex_unlock(&cache.lock);
    *out = e;
    return rc;
}

static void put_back(struct entry *e)
{
    pthread_mutex_lock(&cache.lock);
    e->pins--;
    evict();
    pthread_mutex_unlock(&cache.lock);
}

/* The block that holds a byte. */
static size_t block_of(const struct leat_blocks *def, uint64_t at)
{
    size_t low = 0, high = def->n - 1;
    while (low < high) {
        size_t middle = high - (high - low) / 2;
        if (def->starts[middle] <= at)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static int blocks_submit(struct leat_io_file *file, struct leat_io_request *r)
{
    struct blocks_file *f = (struct blocks_file *)file;
    uint64_t at = r->offset, left = r->length;
    if (at > file->size || left > file->size - at) {
        r->status = leat_fail(&r->error, LEAT_E_CORRUPT,
                              "%s has %" PRIu64 " decoded bytes; %" PRIu64 " from %" PRIu64 " on are not there",
                              file->path, file->size, left, at);
        leat_error_at_file(&r->error, file->path, LEAT_NO_OFFSET);
        return LEAT_OK;
    }
    for (size_t block = left ? block_of(&f->def, at) : 0; left; block++) {
        struct entry *e;
        if ((r->status = take(f, block, &e, &r->error))) {
            leat_error_at_file(&r->error, r->error.file[0] ? NULL : file->path, LEAT_NO_OFFSET);
            return LEAT_OK;
        }
        uint64_t skip = at - f->def.starts[block], n = e->bytes - skip < left ? e->bytes - skip : left;
        memcpy((uint8_t *)r->buffer + (at - r->offset), e->data + skip, (size_t)n);
        put_back(e);
        at += n;
        left -= n;
    }
    if (f->def.convert)
        f->def.convert(f->def.user, r->offset, r->buffer, r->length);
    return LEAT_OK;
}

static void blocks_close(struct leat_io_file *file)
{
    struct blocks_file *f = (struct blocks_file *)file;
    pthread_mutex_lock(&cache.lock);
    for (size_t i = 0; i < f->def.n; i++)
        if (f->entries[i])
            drop(f->entries[i]);
    pthread_mutex_unlock(&cache.lock);
    f->def.close(f->def.user);
    leat_free(f);
}

static const struct leat_io_backend blocks_backend = {.name = "blocks", .submit = blocks_submit, .close = blocks_close};

int leat_blocks_open(const struct leat_blocks *def, struct leat_io_file **out, struct leat_error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    uint64_t bytes;
    struct blocks_file *f = NULL;
    *out = NULL;
    pthread_once(&once, start_once);
    if (leat_mul_u64(def->n, sizeof f->entries[0], &bytes) && leat_add_u64(bytes, sizeof *f, &bytes) &&
        bytes <= SIZE_MAX)
        f = leat_new_array(1, (size_t)bytes);
    if (!f)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", def->path);
    f->def = *def;
    f->file.backend = &blocks_backend;
    f->file.path = (char *)(uintptr_t)def->path;
    f->file.size = def->starts[def->n];
    atomic_init(&f->file.references, 1);
    *out = &f->file;
    return LEAT_OK;
}

/* ---- blocks of a file as they are ---------------------------------------------------------------------- */

struct over {
    struct leat_io_file *file;
    void (*convert)(void *user, uint64_t offset, uint8_t *bytes, uint64_t length);
    void *user;
    uint64_t starts[];
};

static int over_decode(void *user, size_t block, uint8_t *to, struct leat_error *error)
{
    const struct over *o = user;
    return leat_io_read(o->file, o->starts[block], o->starts[block + 1] - o->starts[block], to, error);
}

static void over_convert(void *user, uint64_t offset, uint8_t *bytes, uint64_t length)
{
    const struct over *o = user;
    o->convert(o->user, offset, bytes, length);
}

static void over_close(void *user)
{
    leat_io_release(((struct over *)user)->file);
    leat_free(user);
}

int leat_blocks_over(struct leat_io_file *file, uint64_t block_bytes,
                     void (*convert)(void *user, uint64_t offset, uint8_t *bytes, uint64_t length), void *user,
                     struct leat_io_file **out, struct leat_error *error)
{
    size_t n = (size_t)(file->size / block_bytes + 1);
    struct over *o = n < SIZE_MAX / 16 ? leat_new_array(1, sizeof *o + (n + 1) * sizeof o->starts[0]) : NULL;
    *out = NULL;
    if (!o)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", file->path);
    o->file = leat_io_retain(file);
    o->convert = convert;
    o->user = user;
    for (size_t i = 0; i <= n; i++)
        o->starts[i] = i < n ? i * block_bytes : file->size;
    int rc = leat_blocks_open(&(struct leat_blocks){.path = file->path,
                                                    .n = n,
                                                    .starts = o->starts,
                                                    .decode = over_decode,
                                                    .convert = convert ? over_convert : NULL,
                                                    .close = over_close,
                                                    .user = o},
                              out, error);
    if (rc)
        over_close(o);
    return rc;
}

void leat_blocks_stats(uint64_t *bytes, uint64_t *decoded)
{
    pthread_mutex_lock(&cache.lock);
    *bytes = cache.bytes;
    *decoded = cache.count;
    pthread_mutex_unlock(&cache.lock);
}
