/*
 * Rows made of documents: their fields, and one row from its pieces.
 *
 *     pieces      | document 5, [4, 6) |      document 2, all      |  document 9, [0, 3)  |
 *     tokens      |    x        eos    | bos    x     x      eos   | bos     x      x     | fill ...
 *     doc_ids     |    5         5     |  2     2     2       2    |  9      9      9     |  -1 ...
 *     positions   |    0         1     |  0     1     2       3    |  0      1      2     |   0 ...
 *
 * With a `multiple` each piece is padded to it, as the end of the row is.
 */
#include "engine/packing.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "engine/fetch.h"
#include "engine/make.h"
#include "engine/policy.h"
#include "format/fingerprint.h"
#include "io/guard.h"

/* Documents are compared again if files have changed. */
static void refresh_rule(struct leat_packing_rule *r, const struct leat_dataset *documents)
{
    const uint64_t changes = leat_dataset_changes(documents);
    if (r->mask && !r->is_mask)
        refresh_rule(r->mask, documents);
    if (atomic_load(&r->changes) == changes)
        return;
    for (uint64_t i = 0, n = leat_dataset_count(documents) / 8 + 1; i < n; i++)
        atomic_store_explicit(&r->touched[i], 0, memory_order_relaxed);
    atomic_store(&r->changes, changes);
}

static void refresh(const struct leat_job_context *c)
{
    refresh_rule(c->packing, c->dataset);
}

/* ---- documents --------------------------------------------------------------------------------------------------- */

#define RUN 64 /* pieces that are found, and read, together */
#define KEPT_DOCUMENT (256 << 10)
#define DOCUMENT (UINT64_C(1) << 62) /* keys of documents differ from those of rows */

/* A piece and its document: stored elements [from, until) of it are at `data`, mapped, read or computed. */
struct part {
    const struct leat_piece *piece;
    uint64_t position; /* in the data set of documents */
    uint64_t elements, from, until;
    const uint8_t *data;
    struct leat_fetch fetch; /* EXTENT: its place, ... */
    bool reads;              /* ... from which it has to be read */
    bool differs;            /* it differs from the written bytes */
};

/* The file that documents were found in last: its mapping stays while it is referred to. */
struct place {
    struct leat_source *source;
    uint64_t file;
    struct leat_io_file *open;
    const uint8_t *base; /* NULL: it cannot be mapped */
};

static int find_place(struct place *place, struct leat_source *source, uint64_t file, struct leat_error *error)
{
    if (place->open && place->source == source && place->file == file)
        return LEAT_OK;
    leat_io_release(place->open);
    *place = (struct place){.source = source, .file = file};
    int rc = source->v->file(source, file, &place->open, error);
    if (!rc && place->open->backend->map)
        place->base = leat_io_map(place->open, NULL);
    return rc;
}

#define COLUMNS 2 /* that are joined of parts of documents: the tokens, and their own loss mask */

/* The row at hand. Its value has pieces [0, next), and the run [next, next + n) is found. */
struct leat_assembly {
    const struct leat_feed *columns[COLUMNS]; /* NULL: not wanted */
    unsigned column;                          /* of these the one at hand; COLUMNS: all are made */
    struct leat_plan_row row;
    struct leat_pieces memory; /* of the pieces: */
    const struct leat_piece *pieces;
    size_t n_pieces, next, n, n_reads; /* no pieces: there is no row at hand */
    bool alone;    /* each piece is read for itself: the budget has no room for more, or one of several failed */
    bool has_read; /* some of the row's pieces were not mapped */
    uint8_t *to;
    struct place place;
    struct leat_values made; /* documents that the run's source has computed */
    struct leat_values kept; /* the last of them if there is more of it than the row took, for the row behind it */
    uint64_t kept_position, kept_epoch;
    unsigned kept_column;
    struct leat_scratch *scratch; /* of the chain, once it is needed */
    uint8_t *whole, *list[2];     /* a document as stored, if it is mapped; its tokens, and what is made beside them */
    size_t whole_room, list_room[2];
    uint64_t pass; /* of the documents */
    struct leat_sample_ref refs[RUN];
    uint64_t positions[RUN];
    struct part parts[RUN];
    _Alignas(64) uint8_t value[];
};

struct check {
    const uint8_t *data;
    uint64_t bytes, checksum;
    bool same;
};

static int compare_checksum(void *arg)
{
    struct check *c = arg;
    c->same = leat_hash64(c->data, (size_t)c->bytes) == c->checksum;
    return LEAT_OK;
}

/* The rule of the column at hand: the common part of all sources, and that of a piece's own source. */
static const struct leat_packing_rule *common_rule(const struct leat_job *j)
{
    const struct leat_packing_rule *r = j->context->packing;
    return j->assembly->column ? r->mask : r;
}

static const struct leat_packing_rule *rule_of(const struct leat_job *j, const struct leat_piece *piece)
{
    const struct leat_packing_rule *r = &j->context->packing[piece->source];
    return j->assembly->column ? r->mask : r;
}

/* Compares the checksum of a mapped document if that was not done yet, or those of a piece's pages. False: one differs,
 * or the mapping faulted. */
static bool is_whole(const struct leat_packing_rule *r, struct part *p, struct leat_fetch *fetch,
                     struct leat_error *error)
{
    const struct leat_extent *extent = &fetch->extent;
    if (extent->pages)
        return !leat_fetch_check(fetch, error);
    _Atomic uint8_t *touched = &r->touched[p->position / 8];
    uint8_t bit = (uint8_t)(1u << p->position % 8);
    if (!extent->verify || (atomic_load_explicit(touched, memory_order_relaxed) & bit))
        return true;
    struct check c = {(const uint8_t *)fetch->buffer - extent->before, leat_fetch_bytes(extent, false),
                      extent->checksum, false};
    if (leat_guarded(compare_checksum, &c, error) || !c.same)
        return false; /* reading says why */
    atomic_fetch_or_explicit(touched, bit, memory_order_relaxed);
    return true;
}

/* The stored elements of the document that its piece has, of so many; all of them, if a chain takes it. */
static void bound(const struct leat_job *j, struct part *p, uint64_t elements)
{
    uint64_t begin = p->piece->begin, end = begin + p->piece->count, before = rule_of(j, p->piece)->has_bos;
    p->elements = elements;
    p->from = 0;
    p->until = elements;
    if (j->context->packing->chain)
        return;
    p->until = end > before ? end - before : 0;
    p->until = p->until < elements ? p->until : elements;
    p->from = begin > before ? begin - before : 0;
    p->from = p->from < p->until ? p->from : p->until;
}

/* One document by its extent, or the pages of the piece if they have checksums: in the mapping if there is one and its
 * bytes are as written. Else they are to be read, which says so if they are not. */
static int find_document(struct leat_job *j, struct part *p, const struct leat_sample_ref *ref,
                         const struct leat_extent *extent)
{
    struct leat_assembly *a = j->assembly;
    const struct leat_packing_rule *r = common_rule(j);
    struct leat_fetch *fetch = &p->fetch;
    *fetch = (struct leat_fetch){.ref = *ref, .field = r->field, .extent = *extent};
    leat_ref_resolve(&fetch->ref, &fetch->field);
    int rc = find_place(&a->place, fetch->ref.source, extent->file, &j->error);
    if (rc)
        return rc;
    bound(j, p, extent->length / r->stored);
    leat_extent_narrow(&fetch->ref, &fetch->extent, p->from * r->stored, (p->until - p->from) * r->stored);
    const uint64_t at = fetch->extent.offset, bytes = fetch->extent.length + fetch->extent.after;
    const uint64_t size = a->place.open->size;
    if (a->place.base && at <= size && bytes <= size - at) {
        fetch->mapped = true;
        fetch->buffer = (void *)(uintptr_t)(a->place.base + at); /* it is not written */
    }
    p->reads = !fetch->mapped || !is_whole(r, p, fetch, &j->error);
    fetch->mapped &= !p->reads;
    p->data = p->reads ? NULL : fetch->buffer;
    return LEAT_OK;
}

/* Documents lie anywhere: the misses of a run of pieces overlap if all are asked for before the first is copied. */
static void prefetch_piece(const struct leat_packing_rule *r, const struct part *p)
{
    enum { MOST = 256 }; /* the hardware sees the rest coming */
    uint64_t bytes = (p->until - p->from) * r->stored;
    for (uint64_t at = 0; at < bytes && at < MOST; at += 64)
        __builtin_prefetch(p->data + at);
}

/* Documents that have one size, or lie in files. *failed: the piece that an error is of. */
static int find_stored(struct leat_job *j, struct leat_assembly *a, enum leat_storage storage, size_t *failed)
{
    const struct leat_job_context *c = j->context;
    const size_t field = common_rule(j)->field;
    struct leat_extent extents[RUN];
    const void *rows[RUN];
    int rc = storage == LEAT_STORAGE_MAPPED
                 ? leat_dataset_rows(c->dataset, field, a->refs, a->n, NULL, rows, failed, &j->error)
                 : leat_dataset_extents(c->dataset, field, a->refs, a->n, extents, failed, &j->error);
    for (size_t k = 0; !rc && k < a->n; k++) {
        struct part *p = &a->parts[k];
        *failed = k;
        if (storage == LEAT_STORAGE_MAPPED) {
            bound(j, p, (uint64_t)c->documents[field].shape[0]);
            p->data = (const uint8_t *)rows[k] + p->from * common_rule(j)->stored;
        } else {
            rc = find_document(j, p, &a->refs[k], &extents[k]);
        }
        if (!rc && !p->reads)
            prefetch_piece(common_rule(j), p);
    }
    return rc;
}

/* Documents that a source computes: all of the run in one call. If that fails and does not say for which of them, the
 * run becomes its first piece. *failed: the piece that an error is of, or the run's end. */
static int compute_documents(struct leat_job *j, struct leat_assembly *a, size_t *failed)
{
    const struct leat_job_context *c = j->context;
    const size_t kept = a->kept.at && a->kept_column == a->column && a->kept_epoch == j->target.plan.epoch &&
                        a->kept_position == a->positions[0];
    int rc = LEAT_OK;
    for (size_t n = a->n - kept; n; n = a->n - kept) {
        if (leat_values_init(&a->made, 1, n))
            return leat_fail(&j->error, LEAT_E_NOMEM, "no memory for computed documents");
        a->made.cancelled = j->target.cancelled;
        rc =
            leat_dataset_compute(c->dataset, &common_rule(j)->field, 1, a->refs + kept, n, &a->made, failed, &j->error);
        bool known = *failed < n;
        *failed = known ? *failed + kept : n == 1 ? kept : a->n;
        if (!rc || known || n == 1 || rc == LEAT_E_IO || rc == LEAT_E_CANCELLED)
            break; /* of IO it is the call that failed: parts of it would fail, too */
        leat_values_destroy(&a->made);
        a->n = kept + 1;
    }
    for (size_t k = 0; !rc && k < a->n; k++) {
        const struct leat_computed *whole = k < kept ? a->kept.at : &a->made.at[k - kept];
        bound(j, &a->parts[k], whole->bytes / common_rule(j)->stored);
        a->parts[k].data = whole->data + a->parts[k].from * common_rule(j)->stored;
    }
    return rc;
}

/* Keeps the last document that was computed if the next row begins in it. */
static void keep_document(struct leat_job *j, struct leat_assembly *a)
{
    const struct part *last = &a->parts[a->n - 1];
    const struct leat_piece *piece = last->piece;
    struct leat_values one;
    if (!a->made.at) /* there is none, or it is kept already */
        return;
    leat_values_destroy(&a->kept);
    if (piece->begin + piece->count < leat_plan_piece_of(j->context->plan, piece) && !leat_values_init(&one, 1, 1)) {
        const struct leat_computed *whole = &a->made.at[a->made.n_samples - 1];
        if (leat_values_put(&one, 0, 0, whole->data, whole->bytes))
            leat_values_destroy(&one);
        a->kept = one;
        a->kept_position = last->position;
        a->kept_epoch = j->target.plan.epoch;
        a->kept_column = a->column;
    }
    leat_values_destroy(&a->made);
}

/* Says which values of the run are to be read; those that have no room come in the next one. */
static void plan_reads(struct leat_job *j, struct leat_assembly *a, size_t i)
{
    size_t n = 0, most;
    for (size_t k = 0; k < a->n; k++)
        if (a->parts[k].reads)
            j->chunk.values[n++] = (struct leat_job_value){.feed = a->columns[a->column],
                                                           .way = LEAT_VALUE_READ,
                                                           .ref = a->parts[k].fetch.ref,
                                                           .field = a->parts[k].fetch.field,
                                                           .extent = a->parts[k].fetch.extent};
    if (!n)
        return;
    most = leat_reads_plan_values(j, i, a->alone ? 1 : n);
    a->n_reads = most;
    a->has_read = true;
    for (size_t k = 0, seen = 0; k < a->n; k++)
        if (a->parts[k].reads && seen++ == most)
            a->n = k;
}

/* The next pieces of the row whose documents are reached alike. */
static int find_run(struct leat_job *j, struct leat_assembly *a, size_t i, size_t *failed)
{
    const struct leat_job_context *c = j->context;
    const size_t left = a->n_pieces - a->next, most = left < RUN ? left : RUN;
    for (size_t k = 0; k < most; k++) {
        const struct leat_piece *piece = &a->pieces[a->next + k];
        a->positions[k] = c->source_begin[piece->source] + piece->position;
        a->parts[k] = (struct part){.piece = piece, .position = a->positions[k]};
    }
    leat_dataset_locate(c->dataset, a->positions, most, a->refs);
    const enum leat_storage storage = leat_ref_storage(a->refs, common_rule(j)->field);
    for (a->n = 1; a->n < most && leat_ref_storage(&a->refs[a->n], common_rule(j)->field) == storage;)
        a->n++;
    a->n_reads = 0;
    if (storage == LEAT_STORAGE_COMPUTED)
        return compute_documents(j, a, failed);
    int rc = find_stored(j, a, storage, failed);
    if (!rc)
        plan_reads(j, a, i);
    return rc;
}

/* The reads of the run are over. *failed: the piece that an error is of; the run's end if one of several reads failed,
 * as the error does not name it. */
static int take_reads(struct leat_job *j, struct leat_assembly *a, size_t *failed)
{
    int rc = LEAT_OK;
    for (size_t k = 0, v = 0; !rc && k < a->n; k++) {
        struct part *p = &a->parts[k];
        if (!p->reads)
            continue;
        *failed = k;
        const struct leat_job_value *value = &j->chunk.values[v++];
        p->fetch.buffer = leat_reads_value(j, value);
        p->data = p->fetch.buffer;
        rc = j->window.spans[value->span].status;
        if (rc && a->n_reads > 1)
            *failed = a->n;
        if (rc) /* CORRUPT: the file was cut, which breaks no row, but is raised */
            return rc;
        rc = leat_fetch_check(&p->fetch, &j->error);
        j->results.fetches++;
        p->differs = rc == LEAT_E_CORRUPT;
    }
    return rc;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static uint8_t *put(uint8_t *at, const struct leat_packing_rule *r, uint64_t token, uint64_t n)
{
    const uint64_t bytes = n * r->element;
    if (n) /* little endian: a token's bits begin with its lowest byte */
        memcpy(at, &token, r->element);
    for (uint64_t done = r->element; done < bytes; done *= 2) /* the present part, once more */
        memcpy(at + done, at, done < bytes - done ? done : bytes - done);
    return at + bytes;
}

/* Elements of padding behind a piece. */
static uint64_t padding_of(const struct leat_packing_rule *r, const struct leat_piece *piece)
{
    const uint64_t over = r->multiple > 1 ? piece->count % r->multiple : 0;
    return over ? r->multiple - over : 0;
}

/* The elements of a piece: those of the document, and those put around it. Returns the place of those of the next
 * one. */
static uint8_t *copy_piece(const struct leat_packing_rule *r, const struct part *p, uint8_t *at)
{
    const uint64_t begin = p->piece->begin, bytes = (p->until - p->from) * r->element;
    if (r->has_bos && !begin)
        at = put(at, r, r->bos, 1);
    if (bytes)
        memcpy(at, p->data, bytes);
    for (uint64_t i = 0; r->is_mask && i < bytes; i++)
        at[i] = at[i] != 0;
    at += bytes;
    if (r->has_eos && begin + p->piece->count == p->elements + r->has_bos + 1)
        at = put(at, r, r->eos, 1);
    return put(at, r, r->fill, padding_of(r, p->piece));
}

struct copy {
    const struct leat_packing_rule *rule;
    struct leat_assembly *row;
    size_t *at; /* the piece at hand */
};

static int copy_run(void *arg)
{
    const struct copy *c = arg;
    for (*c->at = 0; *c->at < c->row->n; ++*c->at)
        c->row->to = copy_piece(c->rule, &c->row->parts[*c->at], c->row->to);
    return LEAT_OK;
}

/* ---- chains ------------------------------------------------------------------------------------------------------ */

/* Where the values of a chained field of the row begin: tokens, labels, loss mask. */
static uint8_t *side_of(const struct leat_packing_rule *r, struct leat_assembly *a, enum leat_packed_field field)
{
    const uint64_t tokens = leat_align64(r->length * r->element), labels = leat_align64(r->length * sizeof(int64_t));
    return a->value + (field == LEAT_PACKED_TOKENS ? 0 : field == LEAT_PACKED_LABELS ? tokens : tokens + labels);
}

/* What stands on padding of a chained field. */
static uint64_t fill_of(const struct leat_packing_rule *r, enum leat_packed_field field)
{
    return field == LEAT_PACKED_TOKENS ? r->fill : field == LEAT_PACKED_LABELS ? (uint64_t)-100 : 0;
}

/* The key of a document's draws: of its number in the pass, whatever row it comes into. */
static uint64_t key_of(const struct leat_job *j, const struct leat_assembly *a, const struct part *p)
{
    const struct leat_job_context *c = j->context;
    const uint64_t key = leat_plan_key(c->packing->seed_of_draws, DOCUMENT, a->pass),
                   drawn = leat_plan_key(key, p->position, 0);
    return c->key ? leat_key_mix(drawn, c->key) : drawn;
}

/* Room for an output of the chain of a whole document: in the row itself, if the piece is all of it, else a list of its
 * own, of which the piece is copied. */
static uint8_t *room_of(const struct leat_packing_rule *r, struct leat_assembly *a, enum leat_packed_field field,
                        uint64_t at, const struct leat_piece *piece, uint64_t n, int list)
{
    if (piece->count == n)
        return side_of(r, a, field) + at * leat_dtype_size(r->fields[field].dtype);
    return leat_grow(&a->list[list], &a->list_room[list], n + 1, sizeof(int64_t)) ? a->list[list] : NULL;
}

/* The piece of an output in its place, with its padding. */
static void put_side(const struct leat_packing_rule *r, struct leat_assembly *a, enum leat_packed_field field,
                     uint64_t at, const struct leat_piece *piece, const uint8_t *made)
{
    const struct leat_packing_rule as = {.element = (unsigned)leat_dtype_size(r->fields[field].dtype)};
    uint8_t *to = side_of(r, a, field) + at * as.element;
    if (made != to)
        memcpy(to, made + piece->begin * as.element, piece->count * as.element);
    put(to + piece->count * as.element, &as, fill_of(r, field), padding_of(r, piece));
}

/* An output of the chain for a document, and that which is made beside it. */
static int make_output(struct leat_job *j, struct leat_assembly *a, const struct leat_row *row,
                       enum leat_packed_field field, uint64_t at, const struct leat_piece *piece)
{
    const struct leat_packing_rule *r = j->context->packing;
    const size_t o = r->made[field], beside = leat_program_beside(r->chain, o);
    enum leat_packed_field other = LEAT_PACKED_FIELDS;
    for (enum leat_packed_field k = 0; k < LEAT_PACKED_FIELDS; k++)
        if (beside != SIZE_MAX && r->made[k] == beside)
            other = k;
    const bool both = other < LEAT_PACKED_FIELDS;
    const uint64_t n = leat_packing_elements(r, row->length);
    uint8_t *to = room_of(r, a, field, at, piece, n, 0), *more = both ? room_of(r, a, other, at, piece, n, 1) : NULL;
    if (!to || (both && !more))
        return leat_fail(&j->error, LEAT_E_NOMEM, "no memory for %" PRIu64 " tokens of a document", n);
    const int rc = leat_program_apply_list(r->chain, o, a->scratch, row, to, more, &j->error);
    if (!rc)
        put_side(r, a, field, at, piece, to);
    if (!rc && both)
        put_side(r, a, other, at, piece, more);
    return rc;
}

/* Memory for a long document is that of the thread that has it, and not of each job. */
static void drop_large(struct leat_assembly *a)
{
    if (a->whole_room + a->list_room[0] + a->list_room[1] < KEPT_DOCUMENT)
        return;
    leat_free(a->whole);
    leat_free(a->list[0]);
    leat_free(a->list[1]);
    a->whole = a->list[0] = a->list[1] = NULL;
    a->whole_room = a->list_room[0] = a->list_room[1] = 0;
    leat_scratch_free(a->scratch);
    a->scratch = NULL;
}

/* The run's documents by the chain. */
static int make_run(struct leat_job *j, struct leat_assembly *a, size_t *failed)
{
    const struct leat_packing_rule *r = j->context->packing;
    if (!a->scratch && !(a->scratch = leat_scratch_new(r->chain)))
        return leat_fail(&j->error, LEAT_E_NOMEM, "no memory for a chain");
    for (*failed = 0; *failed < a->n; ++*failed) {
        const struct part *p = &a->parts[*failed];
        const uint64_t at = (uint64_t)(a->to - a->value) / r->element;
        struct leat_row row = {
            .data = p->data, .length = p->elements * r->stored, .key = key_of(j, a, p), .sample = a->refs[*failed].id};
        if (!p->reads && !a->made.at) { /* it is mapped */
            if (!leat_grow(&a->whole, &a->whole_room, row.length + 1, 1))
                return leat_fail(&j->error, LEAT_E_NOMEM, "no memory for a document of %" PRIu64 " bytes", row.length);
            const int rc = leat_guarded_copy(a->whole, p->data, row.length, &j->error);
            if (rc)
                return rc;
            row.data = a->whole;
        }
        for (enum leat_packed_field k = 0; k < LEAT_PACKED_FIELDS; k++) {
            const bool makes =
                r->made[k] != SIZE_MAX && (k == LEAT_PACKED_TOKENS || !leat_program_is_beside(r->chain, r->made[k]));
            const int rc = makes ? make_output(j, a, &row, k, at, p->piece) : LEAT_OK;
            if (rc)
                return rc;
        }
        a->to += (p->piece->count + padding_of(r, p->piece)) * r->element;
    }
    drop_large(a);
    return LEAT_OK;
}

/* The row behind its last document, and the outputs of the fields that the chain has made. */
static int end_chained(struct leat_job *j, struct leat_assembly *a, struct leat_scratch *scratch, size_t i)
{
    const struct leat_job_context *c = j->context;
    const struct leat_packing_rule *r = c->packing;
    const uint64_t at = (uint64_t)(a->to - a->value) / r->element;
    int rc = LEAT_OK;
    for (size_t f = 0; f < c->n_feeds && !rc; f++) {
        const enum leat_packed_field k = (enum leat_packed_field)c->feeds[f].field;
        if (r->made[k] == SIZE_MAX)
            continue;
        const struct leat_packing_rule as = {.element = (unsigned)leat_dtype_size(r->fields[k].dtype)};
        put(side_of(r, a, k) + at * as.element, &as, fill_of(r, k), r->length - at);
        rc = leat_job_make_from(j, scratch, &c->feeds[f], i, side_of(r, a, k));
    }
    return rc;
}

/* The tokens of the run. *failed: the piece that an error is of. */
static int put_run(struct leat_job *j, struct leat_assembly *a, size_t *failed)
{
    const struct leat_packing_rule *r = rule_of(j, a->pieces), *common = common_rule(j);
    for (size_t k = 0; k < a->n; k++) {
        const uint64_t elements =
                           leat_plan_piece_of(j->context->plan, a->parts[k].piece) - (uint64_t)r->has_bos - r->has_eos,
                       has = leat_packing_elements(common, a->parts[k].elements * common->stored);
        *failed = k;
        if (has != elements)
            return leat_fail(&j->error, LEAT_E_CHANGED,
                             "the document has %" PRIu64 " elements, and had %" PRIu64
                             " when the loader was opened: open the data set again",
                             has, elements);
    }
    int rc = common->chain ? make_run(j, a, failed) : leat_guarded(copy_run, &(struct copy){r, a, failed}, &j->error);
    if (rc)
        return rc;
    keep_document(j, a);
    a->next += a->n;
    return LEAT_OK;
}

/* The values beside n tokens of one document, or (id -1) of padding. */
static void put_beside(enum leat_packed_field field, int64_t id, uint64_t at, uint64_t n, void *value)
{
    int64_t *numbers = (int64_t *)value + at;
    if (field == LEAT_PACKED_LOSS_MASK)
        memset((uint8_t *)value + at, id >= 0, n);
    for (uint64_t k = 0; field == LEAT_PACKED_DOC_IDS && k < n; k++)
        numbers[k] = id;
    for (uint64_t k = 0; field == LEAT_PACKED_POSITIONS && k < n; k++)
        numbers[k] = id < 0 ? 0 : (int64_t)k;
}

/* A field that stands beside the tokens. */
static void put_field(const struct leat_job *j, struct leat_assembly *a, enum leat_packed_field field)
{
    const struct leat_job_context *c = j->context;
    uint64_t at = 0;
    for (size_t n, k = 0; k < a->n_pieces; k += n) {
        n = a->n_pieces - k < RUN ? a->n_pieces - k : RUN;
        for (size_t m = 0; m < n; m++)
            a->positions[m] = c->source_begin[a->pieces[k + m].source] + a->pieces[k + m].position;
        leat_dataset_locate(c->dataset, a->positions, n, a->refs);
        for (size_t m = 0; m < n; m++) {
            const struct leat_piece *piece = &a->pieces[k + m];
            put_beside(field, a->refs[m].id, at, piece->count, a->value);
            at += piece->count;
            const uint64_t padding = padding_of(&c->packing[piece->source], piece);
            put_beside(field, -1, at, padding, a->value);
            at += padding;
        }
    }
    put_beside(field, -1, at, c->packing->length - at, a->value);
}

/* ---- the steps of a job ------------------------------------------------------------------------------------------ */

static size_t place_rows(const struct leat_job_context *c, const struct leat_plan_row *rows, size_t n,
                         uint64_t *positions, struct leat_sample_ref *refs)
{
    for (size_t i = 0; i < n; i++) {
        refs[i] =
            (struct leat_sample_ref){.id = (int64_t)(c->row_begin[rows[i].piece.source] + rows[i].piece.position)};
        positions[i] = UINT64_MAX;
    }
    return n;
}

static void begin_column(struct leat_assembly *a, unsigned column)
{
    while (column < COLUMNS && !a->columns[column])
        column++;
    a->column = column;
    a->alone = false;
    a->next = a->n = a->n_reads = 0;
    a->to = a->value;
}

/* Whether a chain makes the field. */
static bool is_made(const struct leat_packing_rule *r, size_t field)
{
    return r->chain && r->made[field] != SIZE_MAX;
}

static int begin_row(struct leat_job *j, struct leat_assembly *a)
{
    const struct leat_job_context *c = j->context;
    a->has_read = false;
    a->row = j->chunk.rows[j->chunk.row];
    a->pass = a->row.piece.begin;
    int rc = leat_plan_pieces(c->plan, &a->row, 1, &a->memory);
    if (rc)
        return leat_fail(&j->error, rc, "no memory for the pieces of a row");
    a->pieces = a->row.n_more ? a->row.more - 1 : &a->row.piece; /* one array: leat_plan_pieces */
    a->n_pieces = a->row.n_more + (size_t)1;
    a->columns[0] = a->columns[1] = NULL;
    for (size_t f = 0; f < c->n_feeds; f++)
        if (c->feeds[f].field == LEAT_PACKED_TOKENS || is_made(c->packing, c->feeds[f].field))
            a->columns[0] = &c->feeds[f];
        else if (c->feeds[f].field == LEAT_PACKED_LOSS_MASK && c->packing->mask)
            a->columns[1] = &c->feeds[f];
    begin_column(a, 0);
    return LEAT_OK;
}

static void drop_row(struct leat_job *j)
{
    struct leat_assembly *a = j->assembly;
    leat_io_release(a->place.open);
    leat_values_destroy(&a->made);
    a->place = (struct place){0};
    a->n_pieces = 0;
}

static enum leat_job_status end_row(struct leat_job *j)
{
    drop_row(j);
    j->step = LEAT_STEP_CHOOSE;
    return j->assembly->has_read ? LEAT_JOB_RELAX : LEAT_JOB_DONE;
}

/* Piece k of the run is at fault; if there is no such piece, no document is known to be. */
static enum leat_job_status fail_row(struct leat_job *j, int code, bool broken, size_t k)
{
    const struct leat_assembly *a = j->assembly;
    const size_t i = j->chunk.row;
    if (k < a->n) {
        broken |= a->parts[k].differs;
        leat_error_at_sample(&j->error, a->refs[k].id, j->context->documents[common_rule(j)->field].name);
        j->chunk.positions[i] = a->positions[k];
    }
    j->chunk.tries[i] = 0;
    leat_job_row_failed(j, i, code, broken);
    return end_row(j);
}

/* Finds the next run of pieces, of the row at hand or of the next one that is wanted. */
static enum leat_job_status choose(struct leat_job *j, struct leat_scratch *scratch)
{
    struct leat_assembly *a = j->assembly;
    struct leat_job_chunk *chunk = &j->chunk;
    size_t failed = 0;
    if (leat_job_is_futile(j)) {
        drop_row(j);
        j->step = LEAT_STEP_END;
        return LEAT_JOB_DONE;
    }
    while (chunk->row < chunk->count && chunk->marks[chunk->row] != LEAT_ROW_WANTED)
        if (chunk->marks[chunk->row] == LEAT_ROW_BROKEN)
            leat_job_substitute(j, scratch, chunk->row);
        else
            chunk->row++;
    if (chunk->row == chunk->count)
        return leat_step_next(j);
    if (chunk->tries[chunk->row] && leat_clock_ns() < chunk->wake_ns)
        return LEAT_JOB_SLEEPS;
    int rc = a->n_pieces ? LEAT_OK : begin_row(j, a);
    if (!rc && a->column < COLUMNS)
        rc = find_run(j, a, chunk->row, &failed);
    if (rc)
        return fail_row(j, rc, rc == LEAT_E_OPERATOR, a->n_pieces ? failed : SIZE_MAX);
    j->step = a->n_reads ? LEAT_STEP_FETCH : LEAT_STEP_MAKE;
    return LEAT_JOB_DONE;
}

/* Copies the run; behind the last one of a column its output is made, and behind the last column all others. */
static enum leat_job_status make(struct leat_job *j, struct leat_scratch *scratch)
{
    const struct leat_job_context *c = j->context;
    struct leat_assembly *a = j->assembly;
    const size_t i = j->chunk.row;
    size_t failed = 0;
    int rc = LEAT_OK;
    if (a->n_reads && leat_reads_are_out(j)) {
        j->step = LEAT_STEP_FETCH;
        return LEAT_JOB_READS;
    }
    j->step = LEAT_STEP_CHOOSE;
    if (a->n_reads) {
        leat_reads_close(j);
        rc = take_reads(j, a, &failed);
        if (rc && leat_job_back_off(j, rc, ++j->chunk.tries[i]))
            return LEAT_JOB_DONE;
        if (rc && rc != LEAT_E_CANCELLED && failed == a->n) { /* one by one, they say which of them it is */
            a->alone = true;
            return LEAT_JOB_DONE;
        }
    }
    if (a->column < COLUMNS) {
        rc = rc ? rc : put_run(j, a, &failed);
        if (rc)
            return fail_row(j, rc, rc == LEAT_E_OPERATOR, failed);
        j->chunk.tries[i] = 0;
        if (a->next < a->n_pieces)
            return LEAT_JOB_DONE;
        const struct leat_packing_rule *r = common_rule(j);
        if (r->chain) {
            rc = end_chained(j, a, scratch, i);
        } else {
            put(a->to, r, rule_of(j, a->pieces)->fill, r->length - (uint64_t)(a->to - a->value) / r->element);
            rc = leat_job_make_from(j, scratch, a->columns[a->column], i, a->value);
        }
        begin_column(a, a->column + 1);
        if (!rc && a->column < COLUMNS)
            return LEAT_JOB_DONE;
    }
    for (size_t f = 0; !rc && f < c->n_feeds; f++)
        if (&c->feeds[f] != a->columns[0] && &c->feeds[f] != a->columns[1] && !is_made(c->packing, c->feeds[f].field)) {
            put_field(j, a, (enum leat_packed_field)c->feeds[f].field);
            rc = leat_job_make_from(j, scratch, &c->feeds[f], i, a->value);
        }
    if (rc)
        return fail_row(j, rc, true, SIZE_MAX);
    j->chunk.marks[i] = LEAT_ROW_DONE;
    return end_row(j);
}

static void refuse(struct leat_job *j, int code)
{
    struct leat_assembly *a = j->assembly;
    size_t k = 0;
    leat_reads_close(j);
    j->step = LEAT_STEP_CHOOSE;
    if (a->n_reads > 1) { /* less may do */
        a->alone = true;
        return;
    }
    while (!a->parts[k].reads)
        k++;
    leat_error_at_extent(&j->error, a->parts[k].fetch.ref.source, &a->parts[k].fetch.extent);
    fail_row(j, code, false, k);
}

static void end(struct leat_job *j)
{
    drop_row(j);
    struct leat_assembly *a = j->assembly;
    leat_values_destroy(&a->kept);
    leat_free(a->memory.at);
    leat_scratch_free(a->scratch);
    leat_free(a->whole);
    leat_free(a->list[0]);
    leat_free(a->list[1]);
}

const struct leat_job_steps leat_steps_of_pieces = {
    .at = {leat_step_plan, leat_step_look_up, choose, choose, leat_step_fetch, make}, /* pieces are located there */
    .place = place_rows,
    .refuse = refuse,
    .drop = drop_row,
    .end = end,
    .refresh = refresh,
    .names_samples = true,
};

/* ---- memory of a loader ---------------------------------------------------------------------------------------------
 */

uint64_t leat_packing_row_bytes(const struct leat_packing_rule *r)
{
    if (r->chain) /* with what is made beside the tokens */
        return sizeof(struct leat_assembly) + 2 * leat_align64(r->length * sizeof(int64_t)) + leat_align64(r->length);
    /* one field at a time */
    return sizeof(struct leat_assembly) + r->length * (r->element > sizeof(int64_t) ? r->element : sizeof(int64_t));
}

size_t leat_packing_values(void)
{
    return RUN;
}

uint64_t leat_packing_probe(const struct leat_job_context *c)
{
    enum { PROBES = 64 };
    const struct leat_packing_rule *r = c->packing;
    const uint64_t count = leat_dataset_count(c->dataset), n = count < PROBES ? count : PROBES;
    uint64_t largest = 0;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t position = i * (count / n);
        struct leat_fetch fetch = {.field = r->field};
        struct place place = {0};
        size_t failed;
        leat_dataset_locate(c->dataset, &position, 1, &fetch.ref);
        if (leat_ref_storage(&fetch.ref, r->field) != LEAT_STORAGE_EXTENT ||
            leat_dataset_extents(c->dataset, r->field, &fetch.ref, 1, &fetch.extent, &failed, NULL))
            continue; /* its row will say why */
        leat_ref_resolve(&fetch.ref, &fetch.field);
        const uint64_t bytes = fetch.extent.length, most = r->chain ? UINT64_MAX : r->length * r->stored;
        leat_extent_narrow(&fetch.ref, &fetch.extent, 0, bytes < most ? bytes : most);
        const uint64_t reads = leat_fetch_bytes(&fetch.extent, false);
        if (!find_place(&place, fetch.ref.source, fetch.extent.file, NULL) && !place.base)
            largest = reads > largest ? reads : largest;
        leat_io_release(place.open);
    }
    return largest;
}
