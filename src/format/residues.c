/*
 * A read of residues copies line after line: out of the mapping of a plain file, else of one read of the bytes that
 * they lie in.
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
#include "io/helpers.h"
#include "kernels/residues.h"

enum { KEPT = 64 << 10, IDLE = 16 };

struct residues {
    struct leat_io_file file;
    const struct leat_sequence_index *index;
    enum leat_sequence_text text;
    struct leat_io_file *from;
    const uint8_t *base; /* its mapping; NULL: it is read */
    struct leat_io_pace pace;
    pthread_mutex_t lock; /* of what follows; only ever tried, because it may be held for ever after a fork */
    struct reading *idle; /* kept for the next reads */
    unsigned n_idle;
};

/* Where a residue stands. */
struct finding {
    const struct residues *f;
    uint64_t residue;
    uint64_t record;
    const struct leat_sequence_record *r; /* that; the next stands behind it */
    uint64_t even;                        /* up to this residue, the record's lines are even */
    uint64_t at, skip; /* its byte; or beyond `even`, that of one which is `skip` residues before it */
    uint64_t end;      /* a byte behind it */
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

/* Finds the place of the residue in a record, of which it is. */
static void find_in_record(struct finding *g)
{
    const struct leat_sequence_index *x = g->f->index;
    const enum leat_sequence_text t = g->f->text;
    const struct leat_sequence_record *r = g->r;
    g->even = UINT64_MAX;
    g->at = even_place(r, t, g->residue - r->first);
    g->skip = 0;
    g->end = g->at + 1;
    if (!(r->uneven & 1u << t))
        return;
    const struct leat_sequence_point *p = x->points[t];
    const uint64_t first = LEAT_BISECT(j, 0, x->n_points[t], p[j].residue < r->first),
                   next = LEAT_BISECT(j, first, x->n_points[t], p[j].residue <= g->residue);
    g->even = first < x->n_points[t] ? p[first].residue : UINT64_MAX;
    if (g->residue < g->even)
        return;
    g->at = p[next - 1].at;
    g->skip = g->residue - p[next - 1].residue;
    g->end = next < x->n_points[t] && p[next].residue < r[1].first  ? p[next].at
             : t == LEAT_RESIDUES && x->kind == LEAT_SEQUENCE_FASTQ ? r->at + r->begin[1]
                                                                    : r[1].at;
}

/* Inside leat_guarded: the index may be mapped. */
static void find(struct finding *g)
{
    const struct leat_sequence_index *x = g->f->index;
    g->record = LEAT_BISECT(k, 1, x->count, x->records[k].first <= g->residue) - 1;
    g->r = &x->records[g->record];
    find_in_record(g);
}

bool leat_residues_expect(const struct leat_io_file *file, const struct leat_sequence_record *r, uint64_t n)
{
    const struct residues *f = (const struct residues *)file;
    const uint64_t at = even_place(r, f->text, n);
    if (f->base && at < f->from->size)
        __builtin_prefetch(f->base + at);
    return f->base;
}

/* ---- copying --------------------------------------------------------------------------------- */

/* The residues of a request, out of the bytes [at, end) of the file. */
struct unfolding {
    struct finding next; /* the first residue that is not copied yet */
    const uint8_t *bytes;
    uint64_t at, end;
    uint8_t *to;
    uint64_t left;
    uint64_t wrong; /* the byte at which the file does not fit its index */
};

/* No line of residues begins with this. */
static uint8_t mark_of(const struct unfolding *u)
{
    return u->next.f->index->kind == LEAT_SEQUENCE_FASTA ? '>' : 0;
}

/* Lines of one width: n residues from number `k` of the record on. */
static bool copy_even(const struct unfolding *u, enum leat_sequence_text t, uint64_t k, uint64_t n)
{
    const struct leat_sequence_record *r = u->next.r;
    const uint64_t line = r->line[t] ? r->line[t] : UINT64_MAX, at = even_place(r, t, k),
                   last = even_place(r, t, k + n - 1);
    return at >= u->at && last >= at && last < u->end && r->width[t] >= r->line[t] &&
           leat_residues_copy(u->to, u->bytes + (at - u->at), (size_t)n, (size_t)(line - k % line), (size_t)line,
                              r->width[t] - r->line[t], mark_of(u));
}

/* The first byte of n residues, or between their lines, that is another one than the index says. */
static uint64_t find_wrong(const struct unfolding *u, enum leat_sequence_text t, uint64_t k, uint64_t n)
{
    const uint64_t line = u->next.r->line[t];
    uint64_t behind = even_place(u->next.r, t, k), at = behind;
    for (uint64_t i = 0; i < n; i++, behind = at + 1) {
        at = even_place(u->next.r, t, k + i);
        for (uint64_t white = behind; white < at; white++)
            if (white < u->at || white >= u->end || !leat_is_white(u->bytes[white - u->at]))
                return white;
        if (at < u->at || at >= u->end || !leat_is_residue(u->bytes[at - u->at]) ||
            (u->bytes[at - u->at] == mark_of(u) && (at > behind || (line ? (k + i) % line : k + i) == 0)))
            return at;
    }
    return at;
}

/* Residues among white space, from a point on. */
static bool copy_uneven(const struct unfolding *u, uint64_t n)
{
    uint64_t done = 0, at = u->next.at, skip = u->next.skip;
    uint8_t before = 0;
    for (; at >= u->at && at < u->end && done < n; at++) {
        const uint8_t c = u->bytes[at - u->at], last = before;
        before = c;
        if (leat_is_white(c))
            continue;
        if (!leat_is_residue(c) || (last == '\n' && c == mark_of(u)))
            return false;
        if (skip)
            skip--;
        else
            u->to[done++] = c;
    }
    return done == n;
}

/* Inside leat_guarded: index and bytes may be mapped. CHANGED: they do not fit each other at `next`. */
static int unfold(void *user)
{
    struct unfolding *u = user;
    struct finding *g = &u->next;
    const enum leat_sequence_text t = g->f->text;
    for (;;) {
        uint64_t n = g->r[1].first > g->residue ? g->r[1].first - g->residue : 0;
        n = n < u->left ? n : u->left;
        if (g->residue < g->even && n > g->even - g->residue)
            n = g->even - g->residue;
        const bool even = g->residue < g->even;
        const uint64_t k = g->residue - g->r->first;
        if (!n || !(even ? copy_even(u, t, k, n) : copy_uneven(u, n))) {
            u->wrong = even ? find_wrong(u, t, k, n) : g->at;
            return LEAT_E_CHANGED;
        }
        g->residue += n;
        u->to += n;
        if (!(u->left -= n))
            return LEAT_OK;
        find(g);
    }
}

/* The index does not fit the file, or no longer: without it, the next opening makes it anew. */
static int changed(const struct unfolding *u, struct leat_error *error)
{
    const struct residues *f = u->next.f;
    const struct leat_kept *kept = &f->index->kept;
    const bool gone = !kept->path || leat_kept_forget(kept->path, kept->inode), fai = f->index->from_fai;
    return leat_fail_at(error, LEAT_E_CHANGED, f->file.path, u->wrong <= INT64_MAX ? (int64_t)u->wrong : LEAT_NO_OFFSET,
                        "%s, record %" PRIu64 ", byte %" PRIu64
                        ": its lines do not end where %s%s says: %s%s%s%sopen it again",
                        f->file.path, u->next.record, u->wrong, fai ? f->file.path : "its index", fai ? ".fai" : "",
                        fai ? "remove that, or make it anew, and " : "the file was changed; ", gone ? "" : "remove ",
                        gone ? "" : kept->path, gone ? "" : " and ");
}

static int unfold_request(const struct finding *first, const uint8_t *bytes, uint64_t at, uint64_t end,
                          struct leat_io_request *o)
{
    struct unfolding u = {*first, bytes, at, end, o->buffer, o->length, 0};
    const int rc = leat_guarded(unfold, &u, &o->error);
    return rc == LEAT_E_CHANGED ? changed(&u, &o->error) : rc;
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

/* The copy that a compressed file is read from is damaged: without the index, the next opening makes both anew. */
static int forget_copy(const struct residues *f, struct leat_error *error)
{
    const struct leat_kept *kept = &f->index->kept;
    return leat_kept_wrong(f->file.path, kept->path, kept->inode,
                           "the copy in short frames that was made of it is damaged", UINT64_MAX, error);
}

/* The bytes are there, or are not: fills the request. */
static void answer(struct reading *v)
{
    struct leat_io_request *o = v->outer;
    o->retry_after_ms = v->inner.retry_after_ms;
    if ((o->status = v->inner.status)) {
        o->error = v->inner.error;
        if (o->status == LEAT_E_CORRUPT && v->file->index->copy_bytes)
            o->status = forget_copy(v->file, &o->error);
    } else {
        o->status = unfold_request(&v->first, v->bytes, v->inner.offset, v->inner.offset + v->inner.length, o);
    }
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

struct range {
    struct finding first, last;
};

static int find_range(void *user)
{
    struct range *r = user;
    const uint64_t last = r->last.residue;
    find(&r->first);
    r->last = r->first;
    r->last.residue = last;
    if (last < r->first.r[1].first)
        find_in_record(&r->last);
    else
        find(&r->last);
    return LEAT_OK;
}

/* The places of the first and the last residue of [offset, offset + length). */
static struct range range_of(const struct residues *f, uint64_t offset, uint64_t length)
{
    return (struct range){{.f = f, .residue = offset}, {.f = f, .residue = offset + length - 1}};
}

static bool is_within(const struct range *r)
{
    return r->last.end > r->first.at && r->last.end <= r->first.f->from->size;
}

static int beyond(const struct residues *f, struct leat_io_request *o)
{
    return leat_fail_at(&o->error, LEAT_E_CHANGED, f->file.path, LEAT_NO_OFFSET,
                        "%s: the index of its records leads beyond it: remove the index, and it is made anew",
                        f->file.path);
}

struct mapped {
    struct range range;
    struct unfolding unfolding;
};

static int unfold_mapped(void *user)
{
    struct mapped *m = user;
    find_range(&m->range);
    if (!is_within(&m->range))
        return LEAT_E_RANGE;
    m->unfolding.next = m->range.first;
    return unfold(&m->unfolding);
}

static void run_mapped(struct leat_io_request *o)
{
    struct residues *f = (struct residues *)o->file;
    struct mapped m = {range_of(f, o->offset, o->length),
                       {.bytes = f->base, .end = f->from->size, .to = o->buffer, .left = o->length}};
    o->status = leat_guarded(unfold_mapped, &m, &o->error);
    if (o->status == LEAT_E_RANGE)
        o->status = beyond(f, o);
    else if (o->status == LEAT_E_CHANGED)
        o->status = changed(&m.unfolding, &o->error);
}

/* Fills the read of the bytes that a request needs. */
static int begin(struct residues *f, struct reading *v, struct leat_io_request *o)
{
    struct range r = range_of(f, o->offset, o->length);
    const int rc = leat_guarded(find_range, &r, &o->error);
    if (rc || !is_within(&r))
        return rc ? rc : beyond(f, o);
    const uint64_t bytes = r.last.end - r.first.at;
    if (bytes > SIZE_MAX || !leat_grow(&v->bytes, &v->room, (size_t)bytes, 1))
        return leat_fail(&o->error, LEAT_E_NOMEM, "no memory to read %" PRIu64 " bytes of %s", bytes, f->file.path);
    v->outer = o;
    v->holders = 1;
    v->first = r.first;
    memset(&v->inner, 0, offsetof(struct leat_io_request, error));
    leat_error_clear(&v->inner.error);
    v->inner.file = f->from;
    v->inner.offset = r.first.at;
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
    if (f->base)
        return leat_helpers_submit(o, &f->pace, run_mapped);
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
    if (((struct residues *)o->file)->base) {
        leat_helpers_cancel(o);
        return;
    }
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
    struct range r = range_of(f, offset, length);
    if (length && offset + length <= file->size && !leat_guarded(find_range, &r, NULL) && r.last.end > r.first.at)
        leat_io_forget(f->from, r.first.at, r.last.end - r.first.at);
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
    f->base = from->backend->map ? leat_io_map(from, NULL) : NULL;
    atomic_init(&f->pace.turn, 0);
    *out = &f->file;
    return LEAT_OK;
}
