/*
 *     asked --> short, many, and they wait --> a pass --> the thread: a piece of each file in turn --> done
 *                                                |           |
 *                                                |           `--> nobody else has the file, or it does not stay in
 *                                                |                memory: let go of
 *                                                |
 *                                                `--> too far ahead of what is asked: it waits, is let go of,
 *                                                     and goes on where it was if reads wait again
 */
#include "io/warm.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/thread.h"
#include "io/helpers.h"
#include "io/local.h"

/* Longer reads gain little: a disk of 3,000 reads a second has 375 MB/s by reads of 128 KiB. As much is warmed for each
 * read that is asked for. */
#define SHORT (UINT64_C(128) << 10)
#define PIECE (UINT64_C(1) << 20)
enum {
    MANY = 128,   /* reads of a file in a row that may have waited: one that did lets some 60 look as if */
    REST_MS = 10, /* of a file that is so far ahead, ... */
    PATIENCE_MS = 2000,
    LOST = 4, /* pieces in a row that do not stay in memory: one may have been evicted, or its thread have waited for
               * something else */
};

/* A file that is being warmed. */
struct pass {
    struct leat_io_file *file;
    struct leat_warm *warm;
    int fd;
    unsigned lost;          /* pieces in a row */
    int64_t waits_since_ns; /* 0: it does not wait */
    struct pass *next;
};

static struct {
    pthread_mutex_t lock;
    struct pass *passes;     /* in turns */
    unsigned n;              /* of them, with those that are about to begin */
    bool wanted;             /* there are as many as there may be, and one more would begin */
    bool runs;               /* there is a thread */
    struct leat_warm *files; /* open ones that were begun with */
    uint64_t bytes;          /* of these */
} warming = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* It is none any more; the file is still to be released. */
static void unmake(const struct pass *p)
{
    atomic_store(&p->warm->active, false);
    close(p->fd);
}

/* ---- fork: a child has no thread ------------------------------------------------------------------ */

static void before_fork(void)
{
    pthread_mutex_lock(&warming.lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&warming.lock);
}

static void in_child(void)
{
    struct pass *p = warming.passes;
    pthread_mutex_init(&warming.lock, NULL);
    warming.passes = NULL;
    warming.n = 0;
    warming.wanted = warming.runs = false;
    for (struct pass *next; p; p = next) {
        next = p->next;
        atomic_store(&p->warm->done, 0);
        unmake(p);
        leat_io_release(p->file);
        leat_free(p);
    }
}

static bool enabled;

static void start_once(void)
{
    const char *wish = getenv("LEAT_READ_AHEAD");
    enabled = !wish || strcmp(wish, "0") != 0;
    pthread_atfork(before_fork, after_fork, in_child);
}

/* ---- the thread ----------------------------------------------------------------------------------- */

/* The same file once more: reads of the other descriptor are in random order, which the system remembers of it. */
static int open_again(const struct leat_io_file *file)
{
    struct stat st;
    int fd = leat_io_open_path(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && (fstat(fd, &st) || (uint64_t)st.st_dev != file->device || (uint64_t)st.st_ino != file->inode)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Whether so many warmed bytes are as many as are worth it. */
static bool is_ahead(uint64_t done, uint64_t reads)
{
    return done > reads * SHORT;
}

enum progress { GOES_ON, WAITS, IS_DONE };

/* A file system may have no page cache, and the memory may be full. */
static bool stays_in_memory(const struct pass *p, void *buffer, uint64_t at)
{
    const long waited = leat_times_waited();
    return leat_io_pread(p->fd, buffer, 1, (off_t)at) != 1 || leat_times_waited() == waited;
}

/* The next piece. Processes that share a file begin at places of their own, and find what others have read. */
static enum progress warm_piece(struct pass *p, void *buffer)
{
    struct leat_warm *w = p->warm;
    const uint64_t pieces = (p->file->size + PIECE - 1) / PIECE, done = atomic_load(&w->done),
                   first = leat_hash64(&(uint64_t){(uint64_t)getpid()}, sizeof(uint64_t)) % pieces;
    if (done >= pieces * PIECE || atomic_load(&p->file->references) == 1)
        return IS_DONE;
    if (is_ahead(done, atomic_load(&w->reads)))
        return WAITS;
    const uint64_t at = (first + done / PIECE) % pieces * PIECE;
    const ssize_t n = leat_io_pread(p->fd, buffer, PIECE, (off_t)at);
    if (n < 0 && errno == EINTR)
        return GOES_ON;
    p->lost = n > 0 && stays_in_memory(p, buffer, at) ? 0 : p->lost + 1;
    /* Whoever asks for bytes that cannot be read learns why: all that is left is let be. */
    const bool good = n > 0 && p->lost < LOST;
    atomic_store(&w->done, good ? done + PIECE : pieces * PIECE);
    return good ? GOES_ON : IS_DONE;
}

/* The first pass, which goes behind the others; *n: all of them; *patience_ms: how long one may wait. NULL: there is
 * none, and the thread ends. */
static struct pass *next_pass(unsigned *n, int64_t *patience_ms)
{
    pthread_mutex_lock(&warming.lock);
    struct pass *p = warming.passes, **end = &warming.passes;
    warming.runs = p != NULL;
    if (p) {
        warming.passes = p->next;
        p->next = NULL;
        while (*end)
            end = &(*end)->next;
        *end = p;
    }
    *n = warming.n;
    *patience_ms = warming.wanted ? 0 : PATIENCE_MS;
    pthread_mutex_unlock(&warming.lock);
    return p;
}

static void end_pass(struct pass *p)
{
    pthread_mutex_lock(&warming.lock);
    struct pass **at = &warming.passes;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    warming.n--;
    warming.wanted = false;
    unmake(p);
    pthread_mutex_unlock(&warming.lock);
    leat_io_release(p->file); /* which may take the lock */
    leat_free(p);
}

static void *warm_files(void *buffer)
{
    unsigned n;
    int64_t patience_ms;
    for (struct pass *p; (p = next_pass(&n, &patience_ms));) {
        const enum progress progress = warm_piece(p, buffer);
        const int64_t now = progress == WAITS ? leat_clock_ns() : 0,
                      since = p->waits_since_ns ? p->waits_since_ns : now;
        p->waits_since_ns = progress == WAITS ? since : 0;
        if (progress == IS_DONE || (progress == WAITS && now - since >= patience_ms * INT64_C(1000000)))
            end_pass(p);
        else if (progress == WAITS)
            usleep(REST_MS * 1000 / n);
    }
    leat_free(buffer);
    return NULL;
}

/* ---- beginning ------------------------------------------------------------------------------------ */

/* Under the lock. Whether memory holds it beside the others, of which none is the same file. */
static bool fits(const struct leat_io_file *file, struct leat_warm *w)
{
    const uint64_t most = leat_memory_allowed() / 2;
    if (atomic_load(&w->counted))
        return true;
    for (const struct leat_warm *other = warming.files; other; other = other->next)
        if (other->device == file->device && other->inode == file->inode)
            return false;
    if (file->size > most || warming.bytes > most - file->size)
        return false;
    w->device = file->device;
    w->inode = file->inode;
    w->next = warming.files;
    warming.files = w;
    warming.bytes += file->size;
    atomic_store(&w->counted, true);
    return true;
}

/* Under the lock. */
static bool have_thread(void)
{
    pthread_t thread;
    void *buffer = warming.runs ? NULL : leat_alloc(PIECE);
    if (buffer && !leat_thread_start(&thread, warm_files, buffer)) {
        pthread_detach(thread);
        warming.runs = true;
    } else {
        leat_free(buffer);
    }
    return warming.runs;
}

/* False: there are as many passes as there may be. */
static bool take_turn(void)
{
    pthread_mutex_lock(&warming.lock);
    const bool free = warming.n < LEAT_WARM_PASSES;
    warming.n += free;
    warming.wanted |= !free;
    pthread_mutex_unlock(&warming.lock);
    return free;
}

static void begin(struct leat_io_file *file, struct leat_warm *w)
{
    if (!take_turn()) {
        atomic_store(&w->active, false); /* another read asks again */
        return;
    }
    struct pass *p = leat_new(struct pass);
    if (p)
        *p = (struct pass){.file = file, .warm = w, .fd = open_again(file)};
    pthread_mutex_lock(&warming.lock);
    const bool good = p && p->fd >= 0 && fits(file, w) && have_thread();
    if (good) {
        leat_io_retain(file);
        p->next = warming.passes;
        warming.passes = p;
    } else {
        warming.n--;
    }
    pthread_mutex_unlock(&warming.lock);
    if (good && !atomic_load(&w->done))
        leat_log(LEAT_LOG_INFO, "reads of %s wait: its %" PRIu64 " bytes are brought into memory beside them",
                 file->path, file->size);
    if (good)
        return;
    if (p && p->fd >= 0)
        close(p->fd);
    leat_free(p); /* `active` stays: it is not tried again */
}

void leat_warm_asked(struct leat_io_file *file, struct leat_warm *w, const struct leat_io_pace *pace, uint64_t length)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    uint64_t reads = atomic_load_explicit(&w->reads, memory_order_relaxed);
    if (length > SHORT || file->size <= PIECE)
        return;
    if (leat_pace_is_quick(pace)) {
        if (reads && reads < MANY) /* they are not in a row */
            atomic_compare_exchange_strong(&w->reads, &reads, 0);
        return;
    }
    const uint64_t done = atomic_load_explicit(&w->done, memory_order_relaxed);
    reads = atomic_fetch_add_explicit(&w->reads, 1, memory_order_relaxed);
    if (reads < MANY || done >= file->size || is_ahead(done, reads) || atomic_exchange(&w->active, true))
        return;
    pthread_once(&once, start_once);
    if (enabled)
        begin(file, w);
}

void leat_warm_end(const struct leat_io_file *file, struct leat_warm *w)
{
    if (!atomic_load(&w->counted))
        return;
    pthread_mutex_lock(&warming.lock);
    struct leat_warm **at = &warming.files;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    warming.bytes -= file->size;
    pthread_mutex_unlock(&warming.lock);
}
