/*
 *     file A  entries[0 .. n)   -> entry: FILLING (its data are NULL) -> READY, in the list by last use
 *     file B  entries[0 .. n)                      |                     |
 *                            readers that wait   <-'                     `-> evicted from the list's end, unless pinned
 *
 * A block of a file that is read once an epoch goes to the list's end when all of it was read.
 *
 * A block is decoded by the thread that wants it first, and others wait for that. Or it is read as it is from another
 * file: then requests that want it are its readers, no thread waits, and the one that learns that the block is there
 * goes on with them.
 *
 * One lock for all files. It is held neither while a block is filled nor while bytes are copied: the entry is pinned
 * then.
 */
#include "io/blocks.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/ledger.h"
#include "base/log.h"
#include "io/interrupt.h"

LEAT_REPLACEABLE uint64_t leat_blocks_budget(uint64_t usual)
{
    return usual;
}

struct entry {
    struct entry *next, *previous; /* the list; the first was used last */
    struct entry **slot;           /* of its file, which points here; NULL: the file has forgotten it */
    uint8_t *data;                 /* NULL: it is being filled */
    struct reader *readers;        /* that wait for it */
    struct reader *own;            /* the one whose thread fills it; NULL: there is none, or it was cancelled */
    uint64_t bytes;
    unsigned pins;
};

/* A request that waits for one of its blocks. */
struct reader {
    struct leat_io_request *request;
    struct reader *next;
    struct entry *entry; /* for which it waits; NULL: somebody goes on with it */
    uint64_t done;       /* bytes that were copied */
    bool cancelled;
};

/* The state of a block that is being filled. */
struct filling {
    struct leat_io_request read;
    struct blocks_file *file;
    struct entry *entry;
    uint8_t *data;
};

struct blocks_file {
    struct leat_io_file file;
    struct leat_blocks def;
    bool held;
    uint64_t *hashes; /* of constant blocks; 0: it was not read yet */
    uint64_t *read;   /* bytes of each block since all of it was read; NULL: they are not counted */
    struct entry *entries[];
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t decoded;
    struct entry list; /* its head */
    uint64_t bytes, budget, count, held, filling;
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

static void link_last(struct entry *e)
{
    e->next = &cache.list;
    e->previous = cache.list.previous;
    e->next->previous = e->previous->next = e;
}

/* Under the lock. */
static void drop(struct entry *e)
{
    unlink_entry(e);
    if (e->slot)
        *e->slot = NULL;
    cache.bytes -= e->bytes;
    leat_ledger_give(LEAT_OF_BLOCKS, e->bytes);
    leat_free(e->data);
    leat_free(e);
}

static uint64_t budget(void)
{
    return leat_blocks_budget(cache.budget);
}

/* Whether `more` bytes do not fit. */
static bool is_full(uint64_t more)
{
    const uint64_t bytes = cache.bytes + more;
    return bytes > budget() || (bytes > budget() / 4 && leat_ledger_is_over(more));
}

/* Makes room for `more` bytes. */
static void evict(uint64_t more)
{
    for (struct entry *e = cache.list.previous, *previous; e != &cache.list && is_full(more); e = previous) {
        previous = e->previous;
        if (!e->pins)
            drop(e);
    }
}

/* ---- fork: a child has neither the threads that decode nor those that read ------------------ */

static void before_fork(void)
{
    pthread_mutex_lock(&cache.lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&cache.lock);
}

/* Requests that wait for a block wait in the parent. */
static void in_child(void)
{
    pthread_mutex_init(&cache.lock, NULL);
    pthread_cond_init(&cache.decoded, NULL);
    cache.filling = 0;
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
    if (!leat_log_number("LEAT_CACHE_BYTES", &cache.budget))
        cache.budget = share < UINT64_C(16) << 20  ? UINT64_C(16) << 20
                       : share > UINT64_C(1) << 30 ? UINT64_C(1) << 30
                                                   : share;
    pthread_atfork(before_fork, after_fork, in_child);
}

/* ---- blocks --------------------------------------------------------------------------------- */

static uint64_t start_of(const struct blocks_file *f, size_t block)
{
    if (f->def.starts)
        return f->def.starts[block];
    return block < f->def.n ? block * f->def.block_bytes : f->file.size;
}

/* The block that holds a byte. */
static size_t block_of(const struct blocks_file *f, uint64_t at)
{
    size_t low = 0, high = f->def.n - 1;
    if (!f->def.starts)
        return (size_t)(at / f->def.block_bytes);
    while (low < high) {
        size_t middle = high - (high - low) / 2;
        if (f->def.starts[middle] <= at)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static void serve(struct reader *readers, const struct leat_io_request *read);

/* No two threads fill the same block at a time. */
static int compare(struct filling *t)
{
    struct leat_io_request *read = &t->read;
    uint64_t *known = t->file->hashes + block_of(t->file, read->offset);
    uint64_t hash = leat_hash64(t->data, (size_t)read->length);
    hash += !hash;
    if (*known && *known != hash) {
        return leat_fail_at(&read->error, LEAT_E_CHANGED, t->file->def.path, (int64_t)read->offset,
                            "%s: the %" PRIu64 " bytes at %" PRIu64 " were changed after it was opened: open it again",
                            t->file->def.path, read->length, read->offset);
    }
    *known = hash;
    return LEAT_OK;
}

/* The block is filled, or is not: then it is forgotten, and its readers get the error. `own` is no more among them.
 * LEAT_IO_PENDING: it was cancelled meanwhile, and is gone. */
static int finish(struct filling *t, struct reader *own, struct entry **out)
{
    struct entry *e = t->entry;
    struct reader *readers = NULL, **p;
    if (!t->read.status && t->file->hashes)
        t->read.status = compare(t);
    int rc = t->read.status;
    pthread_mutex_lock(&cache.lock);
    cache.filling -= e->bytes;
    const bool gone = own && t->file->def.file && !e->own;
    for (p = &e->readers; *p && (gone || *p != own); p = &(*p)->next)
        ;
    if (*p) {
        own->entry = NULL;
        *p = own->next;
    }
    for (struct reader *x; (x = e->readers);) { /* first come, first served */
        e->readers = x->next;
        x->next = readers;
        x->entry = NULL;
        readers = x;
    }
    if (rc) {
        drop(e);
        leat_free(t->data);
    } else {
        e->data = t->data;
        e->pins += out && !gone;
    }
    pthread_cond_broadcast(&cache.decoded);
    pthread_mutex_unlock(&cache.lock);
    if (out)
        *out = rc || gone ? NULL : e;
    serve(readers, &t->read);
    return gone ? LEAT_IO_PENDING : rc;
}

static void put_back(struct entry *e)
{
    pthread_mutex_lock(&cache.lock);
    if (!--e->pins && !e->slot)
        drop(e);
    evict(0);
    pthread_mutex_unlock(&cache.lock);
}

/* After `n` bytes of a block were read. */
static void put_back_read(struct blocks_file *f, size_t block, struct entry *e, uint64_t n)
{
    if (f->read) {
        pthread_mutex_lock(&cache.lock);
        f->read[block] += n;
        if (f->read[block] >= e->bytes) {
            f->read[block] -= e->bytes;
            unlink_entry(e);
            link_last(e);
        }
        pthread_mutex_unlock(&cache.lock);
    }
    put_back(e);
}

static void release(struct filling *t)
{
    if (!t->read.status)
        put_back(t->entry);
    leat_io_release(&t->file->file);
    leat_free(t);
}

static void arrived(struct leat_io_request *read, void *user)
{
    finish(user, NULL, NULL);
    release(user);
}

/* A new entry, pinned, for a block that somebody is to fill. Under the lock. */
static struct filling *new_filling(struct blocks_file *f, size_t block)
{
    struct filling *t = leat_alloc(sizeof *t);
    struct entry *e = leat_new(struct entry);
    uint64_t begin = start_of(f, block), bytes = start_of(f, block + 1) - begin;
    evict(bytes); /* before there are more of them */
    uint8_t *data = bytes < SIZE_MAX ? leat_alloc((size_t)bytes + 1) : NULL;
    if (!t || !e || !data) {
        leat_free(t);
        leat_free(e);
        leat_free(data);
        return NULL;
    }
    *e = (struct entry){.slot = &f->entries[block], .bytes = bytes, .pins = 1};
    *e->slot = e;
    link_first(e);
    cache.bytes += bytes;
    leat_ledger_take(LEAT_OF_BLOCKS, bytes);
    cache.filling += bytes;
    cache.count++;
    leat_io_retain(&f->file);
    memset(&t->read, 0, offsetof(struct leat_io_request, error));
    leat_error_clear(&t->read.error);
    t->read.file = f->def.file;
    t->read.offset = begin;
    t->read.length = bytes;
    t->read.buffer = t->data = data;
    t->read.done = arrived;
    t->read.user = t;
    t->file = f;
    t->entry = e;
    return t;
}

/* A block, pinned. LEAT_IO_PENDING: it is being read, and `x` is among its readers, or was cancelled. Without `x` it is
 * only seen to that it comes. */
static int take(struct blocks_file *f, size_t block, struct reader *x, struct entry **out, struct leat_error *error)
{
    struct entry *e;
    struct filling *t = NULL;
    int rc = LEAT_OK;
    bool stop = false;
    pthread_mutex_lock(&cache.lock);
    while (!f->def.file && !stop && (e = f->entries[block]) && !e->data) {
        if (leat_io_wait_slice(&cache.decoded, &cache.lock))
            continue;
        pthread_mutex_unlock(&cache.lock);
        stop = leat_io_interrupted();
        pthread_mutex_lock(&cache.lock);
    }
    e = f->entries[block];
    if (stop) {
        rc = leat_fail(error, LEAT_E_CANCELLED, "reading %s was interrupted", f->def.path);
    } else if (x && x->cancelled) {
        rc = leat_fail(error, LEAT_E_CANCELLED, "the read was cancelled");
    } else if (e && e->data && x) {
        e->pins++;
        unlink_entry(e);
        link_first(e);
    } else if (!e && !(t = new_filling(f, block))) {
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a block of %s", f->def.path);
    }
    e = t ? t->entry : e;
    if (!rc && !e->data && f->def.file) {
        if (x) {
            x->entry = e;
            x->next = e->readers;
            e->readers = x;
            e->own = t ? x : e->own;
        }
        rc = LEAT_IO_PENDING;
    }
    pthread_mutex_unlock(&cache.lock);
    *out = rc ? NULL : e;
    if (!t)
        return rc;
    if (!f->def.file)
        t->read.status = f->def.decode(f->def.user, block, t->data, &t->read.error);
    else if (leat_io_submit(&t->read) == LEAT_IO_PENDING)
        return rc;
    rc = finish(t, x, x ? out : NULL);
    if (rc && rc != LEAT_IO_PENDING && error)
        *error = t->read.error;
    if (rc && rc != LEAT_IO_PENDING && x)
        x->request->retry_after_ms = t->read.retry_after_ms;
    release(t);
    return rc;
}

/* ---- blocks that are made ------------------------------------------------------------------- */

/* An entry that the caller makes; its bytes are not known yet. Under the lock. */
static struct entry *new_made(struct blocks_file *f, size_t block)
{
    struct entry *e = leat_new(struct entry);
    if (!e)
        return NULL;
    e->slot = &f->entries[block];
    e->pins = 1;
    *e->slot = e;
    link_first(e);
    cache.count++;
    return e;
}

/* Pins what is there, and leaves room in pins[i].data for what another thread makes. *n_own: of entries that the caller
 * is to make, pinned, their number. Under the lock. */
static int claim(struct blocks_file *f, const size_t *blocks, size_t n, struct leat_pin *pins, size_t *own,
                 size_t *n_own)
{
    *n_own = 0;
    for (size_t i = 0; i < n; i++) {
        struct entry *e = f->entries[blocks[i]];
        if (pins[i].entry || (e && !e->data))
            continue;
        if (!e && !(e = new_made(f, blocks[i])))
            return LEAT_E_NOMEM;
        pins[i].entry = e;
        if (!e->data) {
            own[(*n_own)++] = i;
            continue;
        }
        e->pins++;
        unlink_entry(e);
        link_first(e);
    }
    return LEAT_OK;
}

/* The blocks that the caller has claimed are made, or (rc) are not. Under the lock. */
static void settle(struct leat_pin *pins, const size_t *own, size_t n_own, const struct leat_made_block *made, int rc)
{
    for (size_t k = 0; k < n_own; k++) {
        struct leat_pin *p = &pins[own[k]];
        struct entry *e = p->entry;
        if (rc) {
            drop(e);
            p->entry = NULL;
            continue;
        }
        e->data = made[k].data;
        e->bytes = made[k].bytes;
        cache.bytes += e->bytes;
        leat_ledger_take(LEAT_OF_BLOCKS, e->bytes);
    }
    evict(0);
    pthread_cond_broadcast(&cache.decoded);
}

static int make_own(struct blocks_file *f, const size_t *blocks, const size_t *own, size_t n_own, size_t *numbers,
                    struct leat_made_block *made, void *asker, struct leat_error *error)
{
    for (size_t k = 0; k < n_own; k++)
        numbers[k] = blocks[own[k]];
    memset(made, 0, n_own * sizeof *made);
    return f->def.make(f->def.user, numbers, n_own, made, asker, error);
}

static bool all_pinned(const struct leat_pin *pins, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!pins[i].entry)
            return false;
    return true;
}

/* Under the lock, which it lets go while blocks are made. */
static int pin_all(struct blocks_file *f, const size_t *blocks, size_t n, size_t *own, struct leat_made_block *made,
                   void *asker, struct leat_pin *pins, struct leat_error *error)
{
    size_t n_own;
    int rc = LEAT_OK;
    while (!rc && !all_pinned(pins, n)) {
        rc = claim(f, blocks, n, pins, own, &n_own);
        if (rc)
            leat_fail(error, rc, "no memory for blocks of %s", f->def.path);
        if (!rc && n_own) {
            pthread_mutex_unlock(&cache.lock);
            rc = make_own(f, blocks, own, n_own, own + n, made, asker, error);
            pthread_mutex_lock(&cache.lock);
        }
        if (n_own) /* who has made nothing wakes nobody: those who wait would wake each other */
            settle(pins, own, n_own, made, rc);
        if (rc || n_own || all_pinned(pins, n) || leat_io_wait_slice(&cache.decoded, &cache.lock))
            continue;
        pthread_mutex_unlock(&cache.lock);
        if (leat_io_interrupted())
            rc = leat_fail(error, LEAT_E_CANCELLED, "reading %s was interrupted", f->def.path);
        pthread_mutex_lock(&cache.lock);
    }
    return rc;
}

int leat_blocks_pin(struct leat_io_file *file, const size_t *blocks, size_t n, void *asker, struct leat_pin *pins,
                    struct leat_error *error)
{
    struct blocks_file *f = (struct blocks_file *)file;
    size_t *own = leat_new_array(2 * n, sizeof *own);
    struct leat_made_block *made = leat_new_array(n, sizeof *made);
    memset(pins, 0, n * sizeof *pins);
    int rc = own && made ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for blocks of %s", f->def.path);
    pthread_mutex_lock(&cache.lock);
    if (!rc)
        rc = pin_all(f, blocks, n, own, made, asker, pins, error);
    for (size_t i = 0; i < n && !rc; i++) {
        const struct entry *e = pins[i].entry;
        pins[i].data = e->data;
        pins[i].bytes = e->bytes;
    }
    pthread_mutex_unlock(&cache.lock);
    leat_free(own);
    leat_free(made);
    if (rc)
        leat_blocks_unpin(pins, n);
    return rc;
}

void leat_blocks_unpin(struct leat_pin *pins, size_t n)
{
    if (!n)
        return;
    pthread_mutex_lock(&cache.lock);
    for (size_t i = 0; i < n; i++) {
        struct entry *e = pins[i].entry;
        if (e && !--e->pins && !e->slot)
            drop(e);
        pins[i].entry = NULL;
    }
    evict(0);
    pthread_mutex_unlock(&cache.lock);
}

uint64_t leat_blocks_allowed(void)
{
    return budget();
}

/* ---- requests ------------------------------------------------------------------------------- */

/* Copies block by block. LEAT_IO_PENDING: a block is awaited, and `x` is not the caller's any more. */
static int go_on(struct reader *x)
{
    struct leat_io_request *r = x->request;
    struct blocks_file *f = (struct blocks_file *)r->file;
    while (x->done < r->length) {
        uint64_t at = r->offset + x->done, left = r->length - x->done;
        size_t block = block_of(f, at);
        struct entry *e;
        int rc = take(f, block, x, &e, &r->error);
        if (rc == LEAT_IO_PENDING)
            return rc;
        if ((r->status = rc)) {
            leat_error_at_file(&r->error, r->error.file[0] ? NULL : r->file->path, LEAT_NO_OFFSET);
            return LEAT_OK;
        }
        uint64_t skip = at - start_of(f, block), n = e->bytes - skip < left ? e->bytes - skip : left;
        if (r->buffer)
            memcpy((uint8_t *)r->buffer + x->done, e->data + skip, (size_t)n);
        put_back_read(f, block, e, n);
        x->done += n;
    }
    if (f->def.convert && r->buffer)
        f->def.convert(f->def.user, r->offset, r->buffer, r->length);
    return LEAT_OK;
}

static void complete(struct reader *x)
{
    struct leat_io_request *r = x->request;
    pthread_mutex_lock(&cache.lock);
    r->backend_state = NULL;
    pthread_mutex_unlock(&cache.lock);
    leat_free(x);
    r->done(r, r->user);
}

/* Goes on with requests whose block is there, or could not be read. */
static void serve(struct reader *readers, const struct leat_io_request *read)
{
    for (struct reader *x = readers, *next; x; x = next) {
        next = x->next;
        if (read->status) {
            x->request->status = read->status;
            x->request->retry_after_ms = read->retry_after_ms;
            x->request->error = read->error;
        }
        if (read->status || go_on(x) != LEAT_IO_PENDING)
            complete(x);
    }
}

static bool much_is_coming(void)
{
    pthread_mutex_lock(&cache.lock);
    const bool much = cache.filling > budget() / 2;
    pthread_mutex_unlock(&cache.lock);
    return much;
}

static int blocks_submit(struct leat_io_file *file, struct leat_io_request *r)
{
    struct blocks_file *f = (struct blocks_file *)file;
    struct reader *x, here = {.request = r};
    if (!leat_io_fits(r))
        return LEAT_OK;
    if (!f->def.file)
        return go_on(&here);
    if (!r->buffer && much_is_coming()) {
        r->status = leat_fail(&r->error, LEAT_E_HELD, "much is on its way into the cache");
        return LEAT_OK;
    }
    if (!(x = leat_alloc(sizeof *x))) {
        r->status = leat_fail(&r->error, LEAT_E_NOMEM, "no memory to read %s", file->path);
        return LEAT_OK;
    }
    *x = here;
    r->backend_state = x;
    /* Blocks of the request are on their way before it waits for the first, as far as the cache may well keep them. */
    leat_blocks_ahead(file, r->offset, r->length);
    int rc = go_on(x);
    if (rc != LEAT_IO_PENDING)
        leat_free(x);
    return rc;
}

static void blocks_cancel(struct leat_io_request *r)
{
    struct reader *x, **p;
    pthread_mutex_lock(&cache.lock);
    if ((x = r->backend_state))
        x->cancelled = true;
    if (x && x->entry) {
        for (p = &x->entry->readers; *p != x; p = &(*p)->next)
            ;
        *p = x->next;
        if (x->entry->own == x)
            x->entry->own = NULL;
    } else {
        x = NULL;
    }
    pthread_mutex_unlock(&cache.lock);
    if (!x)
        return;
    r->status = leat_fail(&r->error, LEAT_E_CANCELLED, "the read was cancelled");
    complete(x);
}

/* A thread that copies from a block goes on with it; the next one reads it again. */
static void blocks_forget(struct leat_io_file *file, uint64_t offset, uint64_t length)
{
    struct blocks_file *f = (struct blocks_file *)file;
    size_t b = length && offset < file->size ? block_of(f, offset) : f->def.n;
    pthread_mutex_lock(&cache.lock);
    for (; b < f->def.n && (start_of(f, b) <= offset || start_of(f, b) - offset < length); b++) {
        struct entry *e = f->entries[b];
        if (!e || !e->data)
            continue;
        *e->slot = NULL;
        e->slot = NULL;
        if (!e->pins)
            drop(e);
    }
    pthread_mutex_unlock(&cache.lock);
}

static void blocks_close(struct leat_io_file *file)
{
    struct blocks_file *f = (struct blocks_file *)file;
    pthread_mutex_lock(&cache.lock);
    for (size_t i = 0; i < f->def.n; i++)
        if (f->entries[i])
            drop(f->entries[i]);
    cache.held -= f->held ? file->size : 0;
    pthread_mutex_unlock(&cache.lock);
    if (f->def.close)
        f->def.close(f->def.user);
    leat_io_release(f->def.file);
    leat_free(f->hashes);
    leat_free(f->read);
    leat_free(f);
}

static const struct leat_io_backend blocks_backend = {
    .name = "blocks", .submit = blocks_submit, .cancel = blocks_cancel, .forget = blocks_forget, .close = blocks_close};

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
    if (f && ((def->constant && !(f->hashes = leat_new_array(def->n, sizeof *f->hashes))) ||
              (def->once && !(f->read = leat_new_array(def->n, sizeof *f->read))))) {
        leat_free(f->hashes);
        leat_free(f);
        f = NULL;
    }
    if (!f)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", def->path);
    f->def = *def;
    f->file.backend = &blocks_backend;
    f->file.path = (char *)(uintptr_t)def->path;
    f->file.size = def->file ? def->file->size : def->starts ? def->starts[def->n] : 0;
    atomic_init(&f->file.references, 1);
    *out = &f->file;
    return LEAT_OK;
}

int leat_blocks_over(struct leat_io_file *file, uint64_t block_bytes, bool constant,
                     void (*convert)(void *user, uint64_t offset, uint8_t *bytes, uint64_t length), void *user,
                     struct leat_io_file **out, struct leat_error *error)
{
    int rc = leat_blocks_open(&(struct leat_blocks){.path = file->path,
                                                    .n = (size_t)(file->size / block_bytes + 1),
                                                    .file = file,
                                                    .block_bytes = block_bytes,
                                                    .constant = constant,
                                                    .convert = convert,
                                                    .user = user},
                              out, error);
    if (!rc)
        leat_io_retain(file);
    return rc;
}

void leat_blocks_ahead(struct leat_io_file *file, uint64_t offset, uint64_t length)
{
    struct blocks_file *f = (struct blocks_file *)file;
    struct entry *e;
    if (file->backend != &blocks_backend || !f->def.file || offset >= file->size)
        return;
    uint64_t most = budget() / 2 < length ? budget() / 2 : length,
             end = offset + (most < file->size - offset ? most : file->size - offset);
    int rc = LEAT_OK;
    for (uint64_t at = offset; at < end && (!rc || rc == LEAT_IO_PENDING); at = start_of(f, block_of(f, at) + 1))
        rc = take(f, block_of(f, at), NULL, &e, NULL);
}

bool leat_blocks_hold(struct leat_io_file *file)
{
    struct blocks_file *f = (struct blocks_file *)file;
    pthread_mutex_lock(&cache.lock);
    uint64_t room = budget() / 4 * 3;
    if (!f->held && cache.held <= room && file->size <= room - cache.held) {
        f->held = true;
        cache.held += file->size;
    }
    pthread_mutex_unlock(&cache.lock);
    return f->held;
}

void leat_blocks_stats(uint64_t *bytes, uint64_t *decoded)
{
    pthread_mutex_lock(&cache.lock);
    *bytes = cache.bytes;
    *decoded = cache.count;
    pthread_mutex_unlock(&cache.lock);
}
