/*
 * The file of columns: creating and opening it, mapping it as it grows, making it longer.
 *
 * It is created under a name of its own, synced, and linked to its path: a process that opens that finds a whole
 * header, and if several create it at once only one link succeeds.
 *
 * It grows by segments that are reserved before anything points to them, so that no write into the mapping can find the
 * disk full. Space that a killed process had reserved and not counted is cut off by the next one, and so are bytes that
 * a loss of power left there: new segments are zero.
 */
#include "columns/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/error.h"
#include "io/guard.h"

/* ---- a fork: the child lets go of the file that locks are on ---------------------------------------------------- */

static pthread_mutex_t all_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct leat_columns *all;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    pthread_mutex_lock(&all_mutex);
}
static void after_fork(void)
{
    pthread_mutex_unlock(&all_mutex);
}
/* Locks of an open file description last until all its descriptors are closed: those of a killed parent must not. */
static void in_child(void)
{
    for (struct leat_columns *c = all; c; c = c->next) {
        if (c->lock_fd >= 0)
            close(c->lock_fd);
        c->lock_fd = -1;
        pthread_mutex_init(&c->map_mutex, NULL);
    }
    pthread_mutex_unlock(&all_mutex);
}
static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

static void enlist(struct leat_columns *c)
{
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&all_mutex);
    c->next = all;
    if (all)
        all->previous = c;
    all = c;
    pthread_mutex_unlock(&all_mutex);
}

static void delist(struct leat_columns *c)
{
    pthread_mutex_lock(&all_mutex);
    if (c->previous)
        c->previous->next = c->next;
    else if (all == c)
        all = c->next;
    if (c->next)
        c->next->previous = c->previous;
    pthread_mutex_unlock(&all_mutex);
}

int leat_columns_may_write(const struct leat_columns *c, struct leat_error *error)
{
    if (c->read_only)
        return leat_fail(error, LEAT_E_CLOSED, "%s is opened for reading: open it without read_only", c->path);
    if (c->pid != getpid())
        return leat_fail(error, LEAT_E_FORKED,
                         "%s was opened by the process that this one was forked from: open it "
                         "here, too, to write",
                         c->path);
    return LEAT_OK;
}

/* ---- mapping ---------------------------------------------------------------------------------------------------- */

uint8_t *leat_columns_map(struct leat_columns *c, uint64_t offset, struct leat_error *error)
{
    uint8_t *p = leat_columns_at(c, offset);
    if (p)
        return p;
    const uint64_t number = offset >> WINDOW_SHIFT;
    if (number >= MAX_WINDOWS) {
        leat_fail(error, LEAT_E_CORRUPT, "%s points behind the largest store", c->path);
        return NULL;
    }
    pthread_mutex_lock(&c->map_mutex);
    p = atomic_load_explicit(&c->windows[number], memory_order_acquire);
    if (!p) {
        p = leat_call_map(c->fd, number << WINDOW_SHIFT, WINDOW_BYTES, !c->read_only);
        int rc = p ? leat_guard_add(p, WINDOW_BYTES, c->path) : 0;
        if (!p)
            leat_fail_errno(error, LEAT_E_IO, "%s cannot be mapped%s", c->path,
                            leat_address_space_left() < UINT64_MAX
                                ? "; the address space of this process is limited: raise ulimit -v (RLIMIT_AS, h_vmem)"
                                : "");
        else if (rc) {
            munmap(p, WINDOW_BYTES);
            leat_fail(error, rc, "%s cannot be mapped", c->path);
            p = NULL;
        } else
            atomic_store_explicit(&c->windows[number], p, memory_order_release);
    }
    pthread_mutex_unlock(&c->map_mutex);
    return p ? p + (offset & (WINDOW_BYTES - 1)) : NULL;
}

word *leat_columns_segment(struct leat_columns *c, uint64_t segment, struct leat_error *error)
{
    const uint64_t region = segment >> REGION_SHIFT, table = region ? region << REGION_SHIFT : 1;
    uint8_t *p = leat_columns_map(c, table << SEGMENT_SHIFT, error);
    return p ? (word *)(void *)p + (segment & (REGION_SEGMENTS - 1)) : NULL;
}

/* ---- words of the file, which may have been cut ------------------------------------------------------------------ */

struct touch {
    word *at;
    uint64_t value;
    bool store;
};

static int touch(void *arg)
{
    struct touch *t = arg;
    if (t->store)
        atomic_store(t->at, t->value);
    else
        t->value = atomic_load(t->at);
    return LEAT_OK;
}

int leat_columns_look(word *at, uint64_t *value, struct leat_error *error)
{
    struct touch t = {.at = at};
    int rc = leat_guarded(touch, &t, error);
    *value = t.value;
    return rc;
}

int leat_columns_set(word *at, uint64_t value, struct leat_error *error)
{
    return leat_guarded(touch, &(struct touch){.at = at, .value = value, .store = true}, error);
}

int leat_columns_look_end(const struct leat_columns *c, uint64_t *n, struct leat_error *error)
{
    int rc = leat_columns_look(&c->shared->n_segments, n, error);
    *n = *n < c->most ? *n : c->most;
    return rc;
}

/* ---- growing ---------------------------------------------------------------------------------------------------- */

int leat_columns_grow_begin(struct leat_columns *c, struct leat_error *error)
{
    pthread_mutex_lock(&c->grow_mutex);
    if (!leat_call_lock(c->lock_fd, LOCK_GROW, true))
        return LEAT_OK;
    pthread_mutex_unlock(&c->grow_mutex);
    return leat_fail_errno(error, LEAT_E_IO, "%s cannot be locked", c->path);
}

void leat_columns_grow_end(struct leat_columns *c)
{
    leat_call_unlock(c->lock_fd, LOCK_GROW);
    pthread_mutex_unlock(&c->grow_mutex);
}

struct grown {
    struct leat_columns *c;
    word *words, *table;
    uint64_t first_word, n, end;
    uint64_t skipped; /* before the first one, in the same part of the table */
};

static int count_in(void *arg)
{
    struct grown *g = arg;
    if (g->table)
        atomic_store(g->table, SEGMENT_TABLE);
    for (uint64_t i = 1; i <= g->skipped; i++) /* there may be words of segments that were lost with power */
        atomic_store(&g->words[-(int64_t)i], SEGMENT_NONE);
    for (uint64_t i = 1; i < g->n; i++)
        atomic_store(&g->words[i], SEGMENT_MORE);
    atomic_store(&g->words[0], g->first_word);
    atomic_store(&g->c->shared->n_segments, g->end);
    return LEAT_OK;
}

int leat_columns_grow(struct leat_columns *c, uint64_t first_word, uint64_t n, uint64_t *segment,
                      struct leat_error *error)
{
    uint64_t before = 0, begin, first;
    struct stat st;
    int rc = leat_columns_look_end(c, &before, error);
    if (rc)
        return rc;
    begin = before;
    /* All of it lies in one window. The first segment of a region is its table. */
    bool table = begin % REGION_SEGMENTS == 0;
    if (begin % WINDOW_SEGMENTS + n + table > WINDOW_SEGMENTS) {
        begin = (begin / WINDOW_SEGMENTS + 1) * WINDOW_SEGMENTS;
        table = begin % REGION_SEGMENTS == 0;
    }
    first = begin + table;
    if (first + n > MAX_SEGMENTS)
        return leat_fail(error, LEAT_E_RANGE, "%s would have more than 16 TiB", c->path);
    if (fstat(c->fd, &st))
        return leat_fail_errno(error, LEAT_E_IO, "%s: its size is not known", c->path);
    if ((uint64_t)st.st_size < before << SEGMENT_SHIFT)
        return leat_fail_at(error, LEAT_E_CORRUPT, c->path, (int64_t)st.st_size,
                            "%s was cut to %" PRIu64 " of %" PRIu64 " bytes while it was open", c->path,
                            (uint64_t)st.st_size, before << SEGMENT_SHIFT);
    if ((uint64_t)st.st_size > before << SEGMENT_SHIFT && leat_call_cut(c->fd, before << SEGMENT_SHIFT))
        return leat_fail_errno(error, LEAT_E_IO, "%s cannot be cut to what it holds", c->path);
    if (leat_call_allocate(c->fd, begin << SEGMENT_SHIFT, (n + table) << SEGMENT_SHIFT)) {
        leat_fail_errno(error, LEAT_E_IO, "%s cannot grow by %" PRIu64 " MiB; what it holds is as it was", c->path,
                        n + table);
        leat_error_at_file(error, c->path, (int64_t)(begin << SEGMENT_SHIFT));
        return LEAT_E_IO;
    }
    /* For data this open file has the lock before anybody can see the group. */
    if (KIND_OF(first_word) == SEGMENT_DATA && leat_call_lock(c->lock_fd, LOCK_SEGMENTS + first, false))
        return leat_fail_errno(error, LEAT_E_IO, "%s cannot be locked", c->path);
    struct grown grown = {.c = c, .first_word = first_word, .n = n, .end = first + n};
    grown.skipped = table ? 0 : begin - before; /* a table that is new is zero */
    grown.words = leat_columns_segment(c, first, error);
    if (!grown.words || !leat_columns_map(c, first << SEGMENT_SHIFT, error))
        return error ? error->code : LEAT_E_IO;
    grown.table = table ? grown.words - 1 : NULL;
    rc = leat_guarded(count_in, &grown, error);
    if (!rc)
        *segment = first;
    return rc;
}

int leat_columns_sync(struct leat_columns *c)
{
    const int failed = leat_call_sync(c->fd);
    if (failed)
        atomic_store(&c->unsynced, true);
    return failed;
}

int leat_columns_keep(struct leat_columns *c, struct leat_error *error)
{
    uint64_t n = 0;
    int rc = leat_columns_look_end(c, &n, error);
    if (rc)
        return rc;
    if (leat_columns_sync(c))
        return leat_fail_errno(error, LEAT_E_IO, "%s cannot be synced", c->path);
    return leat_columns_set(&c->shared->kept, n, error);
}

/* ---- creating and opening --------------------------------------------------------------------------------------- */

static int create(const char *path, const struct leat_columns_options *options, struct leat_error *error)
{
    uint64_t tag = 0;
    const size_t room = strlen(path) + 32;
    char *made = leat_alloc(room);
    uint8_t *header = leat_new_array(1, HEADER_BYTES + sizeof(struct shared));
    int fd = -1, rc = LEAT_OK;
    if (!made || !header) {
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory to create %s", path);
        goto out;
    }
    if ((rc = leat_columns_header_write(options, header, error)))
        goto out;
    if (getrandom(&tag, sizeof tag, 0) < 0)
        tag = (uint64_t)getpid();
    snprintf(made, room, "%s.%016" PRIx64, path, tag);
    struct shared *shared = (struct shared *)(void *)(header + HEADER_BYTES);
    atomic_init(&shared->n_segments, 2);
    atomic_init(&shared->kept, 2);
    fd = leat_call_open(made, O_RDWR | O_CREAT | O_EXCL, 0666);
    /* Only the header of the first segment is reserved: the rest of it is not used. */
    if (fd < 0 || leat_call_allocate(fd, 0, HEADER_BYTES + sizeof(struct shared)) ||
        leat_call_allocate(fd, SEGMENT_BYTES, SEGMENT_BYTES) ||
        leat_call_write(fd, header, HEADER_BYTES + sizeof(struct shared)) || leat_call_sync(fd) ||
        (leat_call_publish(made, path) && errno != EEXIST)) {
        rc = leat_fail_errno(error, LEAT_E_IO, "%s cannot be created", path);
        leat_error_at_file(error, path, LEAT_NO_OFFSET);
        goto out;
    }
    char *slash = strrchr(made, '/');
    if (slash)
        slash[1] = 0;
    int folder = leat_call_open(slash ? made : ".", O_RDONLY | O_DIRECTORY, 0);
    if (folder < 0 || leat_call_sync(folder))
        rc = leat_fail_errno(error, LEAT_E_IO, "the folder of %s cannot be synced", path);
    if (folder >= 0)
        close(folder);
out:
    if (fd >= 0) {
        close(fd);
        snprintf(made, room, "%s.%016" PRIx64, path, tag);
        unlink(made);
    }
    leat_free(made);
    leat_free(header);
    return rc;
}

static bool same_fields(const struct leat_columns *c, const struct leat_columns_options *o)
{
    if (c->n_fields != o->n_fields || c->keyed != o->keyed)
        return false;
    for (size_t i = 0; i < c->n_fields; i++) {
        const struct leat_field *a = &c->fields[i], *b = &o->fields[i];
        if (strcmp(a->name, b->name) || a->dtype != b->dtype || a->ndim != b->ndim ||
            memcmp(a->shape, b->shape, a->ndim * sizeof *a->shape) || a->columns != b->columns ||
            (a->columns && a->item != b->item))
            return false;
    }
    return true;
}

/* Compares the file's header with the wanted one. */
static int compare(const struct leat_columns *c, const struct leat_columns_options *o, struct leat_error *error)
{
    if (o->fields && !same_fields(c, o))
        return leat_fail(error, LEAT_E_TYPE,
                         "%s has other fields, or another key, than are asked for: open it without fields to see them, "
                         "or write to another path",
                         c->path);
    if (o->fingerprint && strcmp(o->fingerprint, c->fingerprint))
        return leat_fail(error, LEAT_E_STATE,
                         "%s is a store of another data set (fingerprint %.16s..., not %.16s...): its ids mean other "
                         "samples; write to another path",
                         c->path, *c->fingerprint ? c->fingerprint : "(none)", o->fingerprint);
    return LEAT_OK;
}

/* Whether the file has the segments that it counts. Those that were added since the last flush may be lost with power:
 * then it has fewer. */
static int check_size(struct leat_columns *c, struct leat_error *error)
{
    const uint64_t n = leat_columns_segments(c), kept = atomic_load(&c->shared->kept);
    struct stat st;
    if (n < 2 || n > MAX_SEGMENTS || atomic_load(&c->shared->levels) > LEVELS)
        return leat_fail_at(error, LEAT_E_CORRUPT, c->path, HEADER_BYTES,
                            "%s says that it has %" PRIu64 " segments: it is damaged; restore it from a copy", c->path,
                            n);
    if (fstat(c->fd, &st))
        return leat_fail_errno(error, LEAT_E_IO, "%s: its size is not known", c->path);
    const uint64_t size = (uint64_t)st.st_size, has = size >> SEGMENT_SHIFT;
    if (has >= n)
        return LEAT_OK;
    if (has >= kept && has >= 2) {
        c->most = has;
        return c->read_only ? LEAT_OK : leat_columns_set(&c->shared->n_segments, has, error);
    }
    return leat_fail_at(error, LEAT_E_CORRUPT, c->path, (int64_t)size,
                        "%s was cut: it has %" PRIu64 " bytes of %" PRIu64 "; restore it from a copy", c->path, size,
                        n << SEGMENT_SHIFT);
}

static bool is_in_memory(int fd)
{
    struct statfs fs;
    return !fstatfs(fd, &fs) && fs.f_type == TMPFS_MAGIC;
}

static int open_there(struct leat_columns *c, const struct leat_columns_options *o, struct leat_error *error)
{
    struct stat st;
    int rc = LEAT_E_IO;
    uint8_t *header = leat_alloc(HEADER_BYTES);
    if (!header)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", c->path);
    if (!c->read_only)
        c->lock_fd = leat_call_open(c->path, O_RDWR, 0);
    if (fstat(c->fd, &st) || (!c->read_only && c->lock_fd < 0))
        leat_fail_errno(error, LEAT_E_IO, "%s cannot be opened", c->path);
    else if (leat_call_read(c->fd, header, HEADER_BYTES))
        rc = errno ? leat_fail_errno(error, LEAT_E_IO, "%s cannot be read", c->path)
                   : leat_fail(error, LEAT_E_FORMAT, "%s is no store of leat's: it is too short", c->path);
    else if (!(rc = leat_columns_header_read(c, header, error)) &&
             (uint64_t)st.st_size < HEADER_BYTES + sizeof *c->shared)
        rc = leat_fail(error, LEAT_E_CORRUPT, "%s was cut within its header; restore it from a copy", c->path);
    if (!rc) {
        uint8_t *p = leat_columns_map(c, 0, error);
        c->shared = p ? (struct shared *)(void *)(p + HEADER_BYTES) : NULL;
        rc = !p ? error ? error->code : LEAT_E_IO : LEAT_OK;
    }
    if (!rc && !c->read_only && !(rc = leat_columns_grow_begin(c, error))) {
        rc = check_size(c, error);
        c->most = UINT64_MAX;
        leat_columns_grow_end(c);
    } else if (!rc)
        rc = check_size(c, error);
    if (!rc)
        rc = compare(c, o, error);
    if (rc)
        leat_error_at_file(error, c->path, LEAT_NO_OFFSET);
    c->in_memory = is_in_memory(c->fd);
    c->put_least = PUT_LEAST_TOGETHER;
    leat_free(header);
    return rc;
}

int leat_columns_open(const char *path, const struct leat_columns_options *options, struct leat_columns **out,
                      struct leat_error *error)
{
    struct leat_columns *c = leat_new(struct leat_columns);
    int rc = LEAT_OK;
    *out = NULL;
    if (!c || !(c->path = leat_strdup(path)) || !(c->windows = leat_new_array(MAX_WINDOWS, sizeof *c->windows))) {
        if (c)
            leat_free(c->path);
        leat_free(c);
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", path);
    }
    c->fd = c->lock_fd = -1;
    c->most = UINT64_MAX;
    c->read_only = options->read_only;
    c->pid = getpid();
    pthread_mutex_init(&c->map_mutex, NULL);
    pthread_mutex_init(&c->grow_mutex, NULL);
    pthread_mutex_init(&c->slots_mutex, NULL);
    pthread_mutex_init(&c->flush_mutex, NULL);
    uint64_t stamp = 0;
    if (getrandom(&stamp, sizeof stamp, 0) < 0)
        stamp = (uint64_t)getpid() << 32;
    atomic_init(&c->stamp, stamp);
    enlist(c);
    if (options->fields && (rc = leat_columns_check_fields(options->fields, options->n_fields, error)))
        goto out;
    for (int turn = 0; turn < 2; turn++) {
        c->fd = leat_call_open(path, c->read_only ? O_RDONLY : O_RDWR, 0);
        if (c->fd >= 0 || errno != ENOENT || turn || !options->fields || c->read_only)
            break;
        if ((rc = create(path, options, error)))
            goto out;
    }
    if (c->fd < 0) {
        rc = errno == ENOENT ? leat_fail(error, LEAT_E_NOT_FOUND, "there is no store %s", path)
             : (errno == EACCES || errno == EROFS) && !c->read_only && !access(path, R_OK)
                 ? leat_fail_errno(error, LEAT_E_IO, "%s can only be read: open it with read_only", path)
                 : leat_fail_errno(error, LEAT_E_IO, "%s cannot be opened", path);
        leat_error_at_file(error, path, LEAT_NO_OFFSET);
        goto out;
    }
    rc = open_there(c, options, error);
out:
    if (rc)
        leat_columns_close(c);
    else
        *out = c;
    return rc;
}

void leat_columns_close(struct leat_columns *c)
{
    if (!c)
        return;
    delist(c);
    leat_columns_slots_end(c);
    for (uint64_t i = 0; i < MAX_WINDOWS; i++) {
        uint8_t *p = atomic_load(&c->windows[i]);
        if (!p)
            continue;
        leat_guard_remove(p, WINDOW_BYTES);
        munmap(p, WINDOW_BYTES);
    }
    for (size_t i = 0; i < ROOTS; i++)
        leat_free((void *)atomic_load(&c->chunks[i]));
    leat_free(atomic_load(&c->scratch));
    if (c->lock_fd >= 0)
        close(c->lock_fd);
    if (c->fd >= 0)
        close(c->fd);
    pthread_mutex_destroy(&c->map_mutex);
    pthread_mutex_destroy(&c->grow_mutex);
    pthread_mutex_destroy(&c->slots_mutex);
    pthread_mutex_destroy(&c->flush_mutex);
    leat_free((void *)c->windows);
    leat_free(c->path);
    leat_free(c);
}

const struct leat_field *leat_columns_fields(const struct leat_columns *c, size_t *n)
{
    *n = c->n_fields;
    return c->fields;
}

bool leat_columns_keyed(const struct leat_columns *c)
{
    return c->keyed;
}

const char *leat_columns_fingerprint(const struct leat_columns *c)
{
    return c->fingerprint;
}
