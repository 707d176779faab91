/* A compressed file of frames that decode by themselves: frames.h. */
#include "io/frames.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/thread.h"
#include "io/blocks.h"
#include "io/interrupt.h"

/* The user of a file of blocks. */
struct frames {
    struct leat_io_file *file;
    leat_frame_decoder decode;
    uint64_t *ins, *outs;
};

static void close_frames(void *user)
{
    struct frames *f = user;
    leat_io_release(f->file);
    leat_free(f->ins);
    leat_free(f->outs);
    leat_free(f);
}

static int decode_block(void *user, size_t block, uint8_t *to, struct leat_error *error)
{
    const struct frames *f = user;
    const size_t n = (size_t)(f->ins[block + 1] - f->ins[block]);
    uint8_t *bytes = leat_alloc(n + 1);
    if (!bytes)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to decode %s", f->file->path);
    int rc = leat_io_read(f->file, f->ins[block], n, bytes, error);
    if (!rc)
        rc = f->decode(f->file, f->ins[block], bytes, n, to, (size_t)(f->outs[block + 1] - f->outs[block]), error);
    leat_free(bytes);
    return rc;
}

int leat_frames_open(struct leat_io_file *file, const struct leat_frame *frames, size_t n, leat_frame_decoder decode,
                     struct leat_io_file **out, struct leat_error *error)
{
    struct frames *f = leat_new(struct frames);
    *out = NULL;
    if (!f || !(f->ins = leat_new_array(n + 1, sizeof *f->ins)) ||
        !(f->outs = leat_new_array(n + 1, sizeof *f->outs))) {
        if (f)
            close_frames(f);
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", file->path);
    }
    for (size_t i = 0; i <= n; i++) {
        f->ins[i] = frames[i].in;
        f->outs[i] = frames[i].out;
    }
    f->decode = decode;
    f->file = leat_io_retain(file);
    int rc = leat_blocks_open(
        &(struct leat_blocks){
            .path = file->path, .n = n, .starts = f->outs, .decode = decode_block, .close = close_frames, .user = f},
        out, error);
    if (rc)
        close_frames(f);
    return rc;
}

/* ---- all frames, in order -------------------------------------------------------------------- */

enum { THREADS = 16, PART = 1 << 20 };

/* Frames [first, end), some MiB. */
struct part {
    size_t first, end;
    uint8_t *bytes, *stored;
    size_t room, stored_room;
    bool done;
    int rc;
    struct leat_error error;
};

struct scan {
    struct leat_io_file *file;
    const struct leat_frame *frames;
    size_t n;
    leat_frame_decoder decode;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct part parts[2 * THREADS]; /* part k stands in place k modulo n_parts */
    uint64_t n_parts, begun, given;
    size_t next; /* frame */
    bool stopped;
};

static void decode_part(const struct scan *s, struct part *p)
{
    const struct leat_frame *f = s->frames;
    const size_t stored = (size_t)(f[p->end].in - f[p->first].in), bytes = (size_t)(f[p->end].out - f[p->first].out);
    p->rc = leat_grow(&p->bytes, &p->room, bytes + 1, 1) && leat_grow(&p->stored, &p->stored_room, stored + 1, 1)
                ? leat_io_read(s->file, f[p->first].in, stored, p->stored, &p->error)
                : leat_fail(&p->error, LEAT_E_NOMEM, "no memory to decode %s", s->file->path);
    for (size_t i = p->first; i < p->end && !p->rc; i++)
        p->rc = s->decode(s->file, f[i].in, p->stored + (f[i].in - f[p->first].in), (size_t)(f[i + 1].in - f[i].in),
                          p->bytes + (f[i].out - f[p->first].out), (size_t)(f[i + 1].out - f[i].out), &p->error);
}

static void *work(void *user)
{
    struct scan *s = user;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->stopped && s->next < s->n && s->begun - s->given == s->n_parts)
            pthread_cond_wait(&s->changed, &s->lock);
        if (s->stopped || s->next == s->n)
            break;
        struct part *p = &s->parts[s->begun++ % s->n_parts];
        p->first = s->next;
        while (s->next < s->n && (s->next == p->first || s->frames[s->next + 1].out - s->frames[p->first].out <= PART))
            s->next++;
        p->end = s->next;
        p->done = false;
        pthread_mutex_unlock(&s->lock);
        decode_part(s, p);
        pthread_mutex_lock(&s->lock);
        p->done = true;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* The next part, once it is decoded; NULL: there are no more, or *rc says that it was interrupted. */
static struct part *await(struct scan *s, int *rc, struct leat_error *error)
{
    pthread_mutex_lock(&s->lock);
    struct part *p = &s->parts[s->given % s->n_parts];
    while ((s->given == s->begun ? s->next < s->n : !p->done) && !*rc)
        if (!leat_io_wait_slice(&s->changed, &s->lock) && leat_io_interrupted())
            *rc = leat_fail(error, LEAT_E_CANCELLED, "reading %s was interrupted", s->file->path);
    const bool none = *rc || s->given == s->begun;
    pthread_mutex_unlock(&s->lock);
    return none ? NULL : p;
}

static int give_all(struct scan *s, int (*sink)(void *user, const uint8_t *bytes, size_t n, struct leat_error *error),
                    void *user, struct leat_error *error)
{
    int rc = LEAT_OK;
    for (struct part *p; (p = await(s, &rc, error));) {
        const size_t n = (size_t)(s->frames[p->end].out - s->frames[p->first].out);
        if ((rc = p->rc) && error)
            *error = p->error;
        if (rc || (rc = sink(user, p->bytes, n, error)))
            break;
        pthread_mutex_lock(&s->lock);
        s->given++;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
    }
    return rc;
}

int leat_frames_scan(struct leat_io_file *file, const struct leat_frame *frames, size_t n, leat_frame_decoder decode,
                     int (*sink)(void *user, const uint8_t *bytes, size_t n, struct leat_error *error), void *user,
                     struct leat_error *error)
{
    struct scan *s = leat_new(struct scan);
    pthread_t threads[THREADS];
    unsigned n_threads = 0;
    if (!s)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to decode %s", file->path);
    s->file = file;
    s->frames = frames;
    s->n = n;
    s->decode = decode;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    const unsigned cores = leat_cpu_count(), wanted = cores < THREADS ? cores : THREADS;
    s->n_parts = 2 * wanted;
    while (n_threads < wanted && !leat_thread_start(&threads[n_threads], work, s))
        n_threads++;
    int rc = n_threads ? give_all(s, sink, user, error)
                       : leat_fail(error, LEAT_E_NOMEM, "no thread to decode %s", file->path);
    pthread_mutex_lock(&s->lock);
    s->stopped = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    for (unsigned i = 0; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < s->n_parts; i++) {
        leat_free(s->parts[i].bytes);
        leat_free(s->parts[i].stored);
    }
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    leat_free(s);
    return rc;
}
