/*
 * A read of residues is one read of the bytes that they lie in, and copies line after line.
 *
 *     residues      [begin ......................... end)
 *                      |                               \
 *     bytes       ACGT\nACGTACGT\n...\n>next record\nACGT\n
 *
 * The bytes between lines have to be white space, and those of lines residues: nothing else vouches for them.
 */
#include "format/residues.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/search.h"
#include "io/guard.h"
#include "kernels/residues.h"

enum { KEPT = 64 << 10, IDLE = 16 };

struct residues {
    struct leat_io_file file;
    const struct leat_sequence_index *index;
    enum leat_sequence_text text;
    struct leat_io_file *from;
    pthread_mutex_t lock; /* of what follows; only ever tried, because it may be held for ever after a fork */
    struct reading *idle; /* kept for the next reads */
    unsigned n_idle;
};

/* Where a residue stands. */
struct finding {
    const struct residues *f;
    uint64_t residue;
    uint64_t record;
    struct leat_sequence_record r[2]; /* that and the next */
    uint64_t even;                    /* up to this residue, the record's lines are even */
    uint64_t at, skip;                /* its byte; or beyond `even`, that of one which is `skip` residues before it */
    uint64_t end;                     /* a byte behind it */
};

/* The state of a read. */
struct reading {
    struct leat_io_request inner;
    struct leat_io_request *outer;
    struct residues *file;
    struct reading *next; /* idle ones */
    struct finding first;
    unsigned holders; /* who goes on with it, and who cancels it: under `pending` */
    uint8_t *bytes;
    size_t room;
};

/* ---- fork: what is pending waits in the parent ----------------------------------------------- */

static pthread_mutex_t pending = PTHREAD_MUTEX_INITIALIZER;

static void before_fork(void)
{
    pthread_mutex_lock(&pending);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&pending);
}

static void start_once(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}

/* ---- places ---------------------------------------------------------------------------------- */

static uint64_t even_place(const struct leat_sequence_record *r, enum leat_sequence_text t, uint64_t n)
{
    return r->at + r->begin[t] + (r->line[t] ? n / r->line[t] * r->width[t] + n % r->line[t] : n);
}

/* Inside leat_guarded: the index may be mapped. */
static int find(void *user)
{
    struct finding *g = user;
    const struct leat_sequence_index *x = g->f->index;
    const enum leat_sequence_text t = g->f->text;
    g->record = LEAT_BISECT(k, 1, x->count, x->records[k].first <= g->residue) - 1;
    memcpy(g->r, &x->records[g->record], sizeof g->r);
    const struct leat_sequence_record *r = g->r;
    g->even = UINT64_MAX;
    g->at = even_place(r, t, g->residue - r->first);
    g->skip = 0;
    g->end = g->at + 1;
    if (!(r->uneven & 1u << t))
        return LEAT_OK;
    const struct leat_sequence_point *p = x->points[t];
    const uint64_t first = LEAT_BISECT(j, 0, x->n_points[t], p[j].residue < r->first),
                   next = LEAT_BISECT(j, first, x->n_points[t], p[j].residue <= g->residue);
    g->even = first < x->n_points[t] ? p[first].residue : UINT64_MAX;
    if (g->residue < g->even)
        return LEAT_OK;
    g->at = p[next - 1].at;
    g->skip = g->residue - p[next - 1].residue;
    g->end = next < x->n_points[t] && p[next].residue < r[1].first  ? p[next].at
             : t == LEAT_RESIDUES && x->kind == LEAT_SEQUENCE_FASTQ ? r->at + r->begin[1]
                                                                    : r[1].at;
    return LEAT_OK;
}

/* ---- copying --------------------------------------------------------------------------------- */

/* The index does not fit the file, or no longer: without it, the next opening makes it anew. */
static int changed(const struct reading *v, uint64_t record, uint64_t at)
{
    const struct residues *f = v->file;
    const struct leat_kept *kept = &f->index->kept;
    const bool gone = !kept->path || leat_kept_forget(kept->path, kept->inode);
    return leat_fail_at(
        &v->outer->error, LEAT_E_CHANGED, f->file.path, (int64_t)at,
        "%s, record %" PRIu64 ", byte %" PRIu64 ": its lines do not end where %s%s says: %s%s%s%sopen it again",
        f->file.path, record, at, f->index->from_fai ? f->file.path : "its index", f->index->from_fai ? ".fai" : "",
        f->index->from_fai ? "remove that, or make it anew, and " : "the file was changed; ", gone ? "" : "remove ",
        gone ? "" : kept->path, gone ? "" : " and ");
}

struct source {
    const uint8_t *bytes; /* the byte `at` of the file */
    uint64_t at, end;
};

/* Lines of one width: n residues from number `k` of the record on. Returns how many are good. */
static uint64_t copy_even(const struct leat_sequence_record *r, enum leat_sequence_text t, uint64_t k, uint64_t n,
                          const struct source *s, uint8_t *to)
{
    const uint64_t line = r->line[t] ? r->line[t] : UINT64_MAX, between = r->width[t] - r->line[t];
    const uint64_t at = even_place(r, t, k);
    if (at < s->at || at > s->end)
        return 0;
    const uint8_t *from = s->bytes + (at - s->at), *const end = s->bytes + (s->end - s->at);
    uint64_t left = line - k % line, done = 0;
    while (done < n) {
        const uint64_t part = n - done < left ? n - done : left;
        if ((uint64_t)(end - from) < part || !leat_residues_copy(to + done, from, (size_t)part))
            return done;
        done += part;
        from += part;
        left = line;
        for (uint64_t i = 0; done < n && i < between; i++, from++)
            if (from >= end || !leat_is_white(*from))
                return done;
    }
    return done;
}

/* Residues among white space, from a point on. */
static uint64_t copy_uneven(uint64_t skip, uint64_t n, uint64_t at, const struct source *s, uint8_t *to)
{
    uint64_t done = 0;
    if (at < s->at)
        return 0;
    for (; at < s->end && done < n; at++) {
        const uint8_t c = s->bytes[at - s->at];
        if (leat_is_white(c))
            continue;
        if (!leat_is_residue(c))
            return done;
        if (skip)
            skip--;
        else
            to[done++] = c;
    }
    return done;
}

/* The residues of a request out of the bytes that were read. */
static int unfold(struct reading *v)
{
    const struct leat_io_request *o = v->outer;
    const struct source s = {v->bytes, v->inner.offset, v->inner.offset + v->inner.length};
    const enum leat_sequence_text t = v->file->text;
    struct finding *g = &v->first;
    uint8_t *to = o->buffer;
    for (uint64_t left = o->length, n, done; left; left -= n, to += n) {
        n = g->r[1].first > g->residue ? g->r[1].first - g->residue : 0;
        n = n < left ? n : left;
        if (g->residue < g->even) {
            n = n < g->even - g->residue ? n : g->even - g->residue;
            done = copy_even(g->r, t, g->residue - g->r->first, n, &s, to);
        } else {
            done = copy_uneven(g->skip, n, g->at, &s, to);
        }
        if (!n || done < n)
            return changed(v, g->record, even_place(g->r, t, g->residue + done - g->r->first));
        g->residue += n;
        const int rc = left > n ? leat_guarded(find, g, &v->outer->error) : LEAT_OK;
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

/* ---- requests -------------------------------------------------------------------------------- */

static struct reading *take_reading(struct residues *f)
{
    struct reading *v = NULL;
    if (!pthread_mutex_trylock(&f->lock)) {
        if ((v = f->idle)) {
            f->idle = v->next;
            f->n_idle--;
        }
        pthread_mutex_unlock(&f->lock);
    }
    if (!v && (v = leat_new(struct reading)))
        v->file = f;
    return v;
}

static void free_reading(struct reading *v)
{
    leat_free(v->bytes);
    leat_free(v);
}

static void give_reading(struct reading *v)
{
    struct residues *f = v->file;
    if (v->room <= KEPT && !pthread_mutex_trylock(&f->lock)) {
        const bool keep = f->n_idle < IDLE;
        if (keep) {
            v->next = f->idle;
            f->idle = v;
            f->n_idle++;
        }
        pthread_mutex_unlock(&f->lock);
        if (keep)
            return;
    }
    free_reading(v);
}

/* The bytes are there, or are not: fills the request. */
static void answer(struct reading *v)
{
    struct leat_io_request *o = v->outer;
    o->retry_after_ms = v->inner.retry_after_ms;
    if ((o->status = v->inner.status))
        o->error = v->inner.error;
    else
        o->status = unfold(v);
}

static void let_go(struct reading *v)
{
    pthread_mutex_lock(&pending);
    const bool last = !--v->holders;
    pthread_mutex_unlock(&pending);
    if (last)
        give_reading(v);
}

static void arrived(struct leat_io_request *inner, void *user)
{
    struct reading *v = user;
    struct leat_io_request *o = v->outer;
    answer(v);
    pthread_mutex_lock(&pending);
    o->backend_state = NULL;
    pthread_mutex_unlock(&pending);
    let_go(v);
    o->done(o, o->user);
}

/* Fills the read of the bytes that a request needs. */
static int begin(struct residues *f, struct reading *v, struct leat_io_request *o)
{
    struct finding last = {.f = f, .residue = o->offset + o->length - 1};
    v->outer = o;
    v->holders = 1;
    v->first = (struct finding){.f = f, .residue = o->offset};
    int rc = leat_guarded(find, &v->first, &o->error);
    rc = rc ? rc : leat_guarded(find, &last, &o->error);
    if (rc)
        return rc;
    if (last.end <= v->first.at || last.end > f->from->size)
        return leat_fail_at(&o->error, LEAT_E_CHANGED, f->file.path, LEAT_NO_OFFSET,
                            "%s: the index of its records leads beyond it: remove the index, and it is made anew",
                            f->file.path);
    const uint64_t bytes = last.end - v->first.at;
    if (bytes > SIZE_MAX || !leat_grow(&v->bytes, &v->room, (size_t)bytes, 1))
        return leat_fail(&o->error, LEAT_E_NOMEM, "no memory to read %" PRIu64 " bytes of %s", bytes, f->file.path);
    memset(&v->inner, 0, offsetof(struct leat_io_request, error));
    leat_error_clear(&v->inner.error);
    v->inner.file = f->from;
    v->inner.offset = v->first.at;
    v->inner.length = bytes;
    v->inner.buffer = v->bytes;
    v->inner.waits = o->waits;
    v->inner.done = arrived;
    v->inner.user = v;
    return LEAT_OK;
}

static int residues_submit(struct leat_io_file *file, struct leat_io_request *o)
{
    struct residues *f = (struct residues *)file;
    if (!leat_io_fits(o) || !o->length || !o->buffer)
        return LEAT_OK;
    struct reading *v = take_reading(f);
    if ((o->status = v ? begin(f, v, o) : leat_fail(&o->error, LEAT_E_NOMEM, "no memory to read %s", file->path))) {
        if (v)
            give_reading(v);
        return LEAT_OK;
    }
    o->backend_state = v;
    if (leat_io_submit(&v->inner) == LEAT_IO_PENDING)
        return LEAT_IO_PENDING;
    answer(v);
    o->backend_state = NULL;
    give_reading(v);
    return LEAT_OK;
}

static void residues_cancel(struct leat_io_request *o)
{
    pthread_mutex_lock(&pending);
    struct reading *v = o->backend_state;
    if (v)
        v->holders++;
    pthread_mutex_unlock(&pending);
    if (!v)
        return;
    leat_io_cancel(&v->inner);
    let_go(v);
}

static void residues_forget(struct leat_io_file *file, uint64_t offset, uint64_t length)
{
    struct residues *f = (struct residues *)file;
    struct finding first = {.f = f, .residue = offset}, last = {.f = f, .residue = offset + length - 1};
    if (length && offset + length <= file->size && !leat_guarded(find, &first, NULL) &&
        !leat_guarded(find, &last, NULL) && last.end > first.at)
        leat_io_forget(f->from, first.at, last.end - first.at);
}

static void residues_close(struct leat_io_file *file)
{
    struct residues *f = (struct residues *)file;
    for (struct reading *v = f->idle, *next; v; v = next) {
        next = v->next;
        free_reading(v);
    }
    leat_io_release(f->from);
    pthread_mutex_destroy(&f->lock);
    leat_free(f);
}

static const struct leat_io_backend residues_backend = {.name = "residues",
                                                        .submit = residues_submit,
                                                        .cancel = residues_cancel,
                                                        .forget = residues_forget,
                                                        .close = residues_close};

int leat_residues_open(const char *path, const struct leat_sequence_index *index, enum leat_sequence_text text,
                       struct leat_io_file *from, struct leat_io_file **out, struct leat_error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct residues *f = leat_new(struct residues);
    struct leat_sequence_record end;
    *out = NULL;
    pthread_once(&once, start_once);
    int rc = f ? leat_guarded_copy(&end, &index->records[index->count], sizeof end, error)
               : leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", path);
    if (rc) {
        leat_free(f);
        return rc;
    }
    f->file.backend = &residues_backend;
    f->file.path = (char *)(uintptr_t)path;
    f->file.size = end.first;
    atomic_init(&f->file.references, 1);
    pthread_mutex_init(&f->lock, NULL);
    f->index = index;
    f->text = text;
    f->from = leat_io_retain(from);
    *out = &f->file;
    return LEAT_OK;
}
