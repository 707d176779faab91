/*
 * Rows cut from documents: their fields, and one row from its pieces.
 *
 *     pieces      | document 5, [4, 6) |      document 2, all      |  document 9, [0, 3)  |
 *     tokens      |    x        eos    | bos    x     x      eos   | bos     x      x     | fill ...
 *     doc_ids     |    5         5     |  2     2     2       2    |  9      9      9     |  -1 ...
 *     positions   |    0         1     |  0     1     2       3    |  0      1      2     |   0 ...
 */
#include "engine/packing.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "format/fingerprint.h"
#include "io/guard.h"

static int find_field(const struct leat_dataset *documents, const char *name, size_t *field, struct leat_error *error)
{
    size_t n;
    const struct leat_field *fields = leat_dataset_fields(documents, &n);
    for (*field = 0; *field < n; ++*field)
        if (!strcmp(fields[*field].name, name))
            break;
    if (*field == n)
        return leat_fail(error, LEAT_E_NOT_FOUND, "there is no field \"%.64s\" to cut rows from", name);
    const struct leat_field *f = &fields[*field];
    if (f->kind != LEAT_KIND_ARRAY || f->ndim != 1 ||
        f->dtype > LEAT_I64) /* the integers stand first in the enumeration */
        return leat_fail(error, LEAT_E_TYPE,
                         "field \"%s\" is no list of integers: rows are cut from fields such as uint16 (None,)",
                         f->name);
    for (size_t k = LEAT_PACKED_DOC_IDS; k < LEAT_PACKED_FIELDS; k++)
        if (!strcmp(f->name, (const char *[]){"", "doc_ids", "positions", "loss_mask"}[k]))
            return leat_fail(error, LEAT_E_INVALID, "the field of tokens is called \"%s\", as what packing adds to it",
                             f->name);
    return LEAT_OK;
}

int leat_packing_lengths(const struct leat_packing_rule *r, const struct leat_dataset *documents, uint64_t **out,
                         struct leat_error *error)
{
    size_t n_fields;
    int64_t fixed = leat_dataset_fields(documents, &n_fields)[r->field].shape[0];
    uint64_t n = leat_dataset_count(documents), around = (uint64_t)r->has_bos + r->has_eos;
    struct leat_value column = {0};
    int rc = fixed < 0 ? leat_dataset_column(documents, r->field, true, false, &column, error) : LEAT_OK;
    if (rc)
        return rc;
    *out = leat_new_array(n ? n : 1, sizeof **out);
    if (!*out)
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for the lengths of %" PRIu64 " documents", n);
    for (uint64_t i = 0; !rc && i < n; i++)
        (*out)[i] = (fixed < 0 ? ((const uint64_t *)column.data)[i] / r->element : (uint64_t)fixed) + around;
    leat_value_clear(&column);
    return rc;
}

void leat_packing_fingerprint(const struct leat_packing_rule *r, uint8_t fingerprint[16])
{
    uint64_t hash[2] = {leat_get_u64(fingerprint), leat_get_u64(fingerprint + 8)};
    const uint64_t says[] = {r->field, r->length, r->has_bos, r->has_eos, r->bos, r->eos, r->fill};
    for (size_t i = 0; i < sizeof says / sizeof *says; i++)
        leat_fingerprint_value(hash, says[i]);
    leat_put_u64(fingerprint, hash[0]);
    leat_put_u64(fingerprint + 8, hash[1]);
}

int leat_packing_open(const struct leat_dataset *documents, const struct leat_pack_options *options,
                      struct leat_packing_rule *r, struct leat_error *error)
{
    *r =
        (struct leat_packing_rule){.length = options->length, .has_bos = options->has_bos, .has_eos = options->has_eos};
    if (!r->length || r->length > INT32_MAX)
        return leat_fail(error, LEAT_E_INVALID, "rows of %" PRIu64 " tokens: 1 to 2^31 - 1", r->length);
    int rc = find_field(documents, options->field, &r->field, error);
    if (rc)
        return rc;
    size_t n;
    const struct leat_field *tokens = leat_dataset_fields(documents, &n) + r->field;
    static const char *const names[] = {"", "doc_ids", "positions", "loss_mask"};
    static const enum leat_dtype dtypes[] = {0, LEAT_I64, LEAT_I64, LEAT_BOOL};
    for (size_t k = 0; k < LEAT_PACKED_FIELDS; k++)
        r->fields[k] = (struct leat_field){.name = k ? names[k] : tokens->name,
                                           .kind = LEAT_KIND_ARRAY,
                                           .dtype = k ? dtypes[k] : tokens->dtype,
                                           .ndim = 1,
                                           .shape = {(int64_t)r->length}};
    r->element = (unsigned)leat_dtype_size(tokens->dtype);
    r->touched = leat_new_array(leat_dataset_count(documents) / 8 + 1, sizeof *r->touched);
    if (!r->touched)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a loader");
    atomic_store(&r->changes, leat_dataset_changes(documents));
    memcpy(&r->bos, &options->bos, sizeof r->bos);
    memcpy(&r->eos, &options->eos, sizeof r->eos);
    memcpy(&r->fill, &options->fill, sizeof r->fill);
    return LEAT_OK;
}

void leat_packing_refresh(struct leat_packing_rule *r, const struct leat_dataset *documents)
{
    const uint64_t changes = leat_dataset_changes(documents);
    if (atomic_load(&r->changes) == changes)
        return;
    for (uint64_t i = 0, n = leat_dataset_count(documents) / 8 + 1; i < n; i++)
        atomic_store_explicit(&r->touched[i], 0, memory_order_relaxed);
    atomic_store(&r->changes, changes);
}

void leat_packing_close(struct leat_packing_rule *r)
{
    if (r)
        leat_free(r->touched);
    leat_free(r);
}

uint64_t leat_packing_row_bytes(const struct leat_packing_rule *r)
{
    return r->length * (r->element > sizeof(int64_t) ? r->element : sizeof(int64_t)); /* one field at a time */
}

/* ---- documents --------------------------------------------------------------------------------------------------- */

#define RUN 64 /* pieces that are located together */

/* A piece and its document: stored elements [from, until) of it at `data`, mapped or, where that cannot be, in
 * `read`. */
struct part {
    const struct leat_piece *piece;
    struct leat_sample_ref ref;
    uint64_t position; /* in the data set of documents */
    uint64_t elements, from, until;
    const uint8_t *data;
    struct leat_value read;
    bool differs; /* it is not what was written */
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

/* Compares the checksum of a mapped document where that was not done yet, or those of a piece's pages. False: one
 * differs, or the mapping faulted. */
static bool is_whole(const struct leat_packing_rule *r, struct part *p, struct leat_fetch *fetch,
                     struct leat_error *error)
{
    const struct leat_extent *extent = &fetch->extent;
    if (fetch->piece)
        return !leat_fetch_check(fetch, error);
    _Atomic uint8_t *touched = &r->touched[p->position / 8];
    uint8_t bit = (uint8_t)(1u << p->position % 8);
    if (!extent->verify || (atomic_load_explicit(touched, memory_order_relaxed) & bit))
        return true;
    struct check c = {fetch->buffer, extent->length, extent->checksum, false};
    if (leat_guarded(compare_checksum, &c, error) || !c.same)
        return false; /* reading says why */
    atomic_fetch_or_explicit(touched, bit, memory_order_relaxed);
    return true;
}

/* The document has so many stored elements: which of them its piece has. */
static void bound(const struct leat_packing_rule *r, struct part *p, uint64_t elements)
{
    uint64_t begin = p->piece->begin, end = begin + p->piece->count, before = r->has_bos;
    p->elements = elements;
    p->until = end > before ? end - before : 0;
    p->until = p->until < elements ? p->until : elements;
    p->from = begin > before ? begin - before : 0;
    p->from = p->from < p->until ? p->from : p->until;
}

/* One document by its extent, or the pages of the piece where they have checksums: in the mapping if there is one and
 * its bytes are what was written. Else they are read, which says so if they are not. */
static int find_document(const struct leat_job_context *c, struct part *p, const struct leat_extent *extent,
                         struct place *place, struct leat_error *error)
{
    const uint64_t element = c->packing->element;
    struct leat_fetch fetch = {.ref = p->ref, .field = c->packing->field, .extent = *extent};
    leat_ref_resolve(&fetch.ref, &fetch.field);
    int rc = find_place(place, fetch.ref.source, extent->file, error);
    if (rc)
        return rc;
    bound(c->packing, p, extent->length / element);
    leat_fetch_narrow(&fetch, p->from * element, (p->until - p->from) * element);
    const uint64_t at = fetch.extent.offset, size = place->open->size;
    if (place->base && at <= size && fetch.extent.length <= size - at) {
        fetch.mapped = true;
        fetch.buffer = (void *)(uintptr_t)(place->base + at); /* it is not written */
    }
    if (!fetch.mapped || !is_whole(c->packing, p, &fetch, error)) {
        fetch.mapped = false;
        rc = leat_fetch_read(&fetch, &p->read, error);
        p->differs = rc == LEAT_E_CORRUPT;
    }
    p->data = rc ? NULL : (const uint8_t *)fetch.buffer + (extent->offset + p->from * element - at);
    return rc;
}

/* Documents lie anywhere: the misses of a run of pieces overlap if all are asked for before the first is copied. */
static void prefetch_piece(const struct leat_packing_rule *r, const struct part *p)
{
    enum { MOST = 256 }; /* the hardware sees the rest coming */
    uint64_t bytes = (p->until - p->from) * r->element;
    for (uint64_t at = 0; at < bytes && at < MOST; at += 64)
        __builtin_prefetch(p->data + at);
}

/* Finds the documents of n pieces, all reached alike. *failed: the piece that an error is of. */
static int find_documents(const struct leat_job_context *c, const struct leat_sample_ref *refs, struct part *parts,
                          size_t n, struct place *place, size_t *failed, struct leat_error *error)
{
    const size_t field = c->packing->field, element = c->packing->element;
    enum leat_storage storage = leat_ref_storage(refs, field);
    struct leat_extent extents[RUN];
    const void *rows[RUN];
    int rc = LEAT_OK;
    if (storage == LEAT_STORAGE_MAPPED)
        rc = leat_dataset_rows(c->dataset, field, refs, n, NULL, rows, failed, error);
    else if (storage == LEAT_STORAGE_EXTENT)
        rc = leat_dataset_extents(c->dataset, field, refs, n, extents, failed, error);
    for (size_t k = 0; !rc && k < n; k++) {
        *failed = k;
        if (storage == LEAT_STORAGE_MAPPED) {
            bound(c->packing, &parts[k], (uint64_t)c->documents[field].shape[0]);
            parts[k].data = (const uint8_t *)rows[k] + parts[k].from * element;
        } else if (storage == LEAT_STORAGE_EXTENT) {
            rc = find_document(c, &parts[k], &extents[k], place, error);
        } else {
            rc = leat_dataset_read(c->dataset, parts[k].position, field, &parts[k].read, error);
            parts[k].differs = rc == LEAT_E_CORRUPT;
            bound(c->packing, &parts[k], parts[k].read.length / element);
            parts[k].data = rc ? NULL : (const uint8_t *)parts[k].read.data + parts[k].from * element;
        }
        if (!rc)
            prefetch_piece(c->packing, &parts[k]);
    }
    return rc;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static uint8_t *put(uint8_t *at, const struct leat_packing_rule *r, uint64_t token, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) /* little endian: a token's bits begin with its lowest byte */
        memcpy(at + i * r->element, &token, r->element);
    return at + n * r->element;
}

struct copy {
    const struct leat_packing_rule *rule;
    const struct part *parts;
    size_t n;
    uint8_t *at;
};

/* The elements of a piece: of the document, and what is put around it. Returns where those of the next one begin. */
static uint8_t *copy_piece(const struct leat_packing_rule *r, const struct part *p, uint8_t *at)
{
    const uint64_t begin = p->piece->begin, bytes = (p->until - p->from) * r->element;
    if (r->has_bos && !begin)
        at = put(at, r, r->bos, 1);
    if (bytes)
        memcpy(at, p->data, bytes);
    at += bytes;
    return r->has_eos && begin + p->piece->count == p->elements + r->has_bos + 1 ? put(at, r, r->eos, 1) : at;
}

static int copy_pieces(void *arg)
{
    struct copy *to = arg;
    for (size_t k = 0; k < to->n; k++)
        to->at = copy_piece(to->rule, &to->parts[k], to->at);
    return LEAT_OK;
}

/* What stands beside n tokens of one document, or (id -1) of padding. */
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

/* The tokens of n pieces, at most RUN. *failed: the piece that an error is of. */
static int join(struct leat_job *j, const struct leat_piece *pieces, const struct leat_sample_ref *refs,
                const uint64_t *positions, size_t n, struct place *place, struct copy *to, size_t *failed, bool *broken)
{
    const struct leat_job_context *c = j->context;
    struct part parts[RUN];
    int rc = LEAT_OK;
    for (size_t k = 0; k < n; k++)
        parts[k] = (struct part){.piece = &pieces[k], .ref = refs[k], .position = positions[k]};
    for (size_t k = 0, run; !rc && k < n; k += run) {
        for (run = 1; k + run < n && leat_ref_storage(&refs[k + run], c->packing->field) ==
                                         leat_ref_storage(&refs[k], c->packing->field);)
            run++;
        rc = find_documents(c, refs + k, parts + k, run, place, failed, &j->error);
        *failed += rc ? k : 0;
    }
    *broken = rc && (parts[*failed].differs || rc == LEAT_E_OPERATOR);
    for (size_t k = 0; !rc && k < n; k++) {
        const uint64_t around = (uint64_t)c->packing->has_bos + c->packing->has_eos;
        const uint64_t elements = leat_plan_piece_of(c->plan, &pieces[k]) - around;
        *failed = k;
        if (parts[k].elements != elements)
            rc = leat_fail(&j->error, LEAT_E_CHANGED,
                           "the document has %" PRIu64 " elements, and had %" PRIu64
                           " when the loader was opened: open the data set again",
                           parts[k].elements, elements);
    }
    to->parts = parts;
    to->n = n;
    if (!rc)
        rc = leat_guarded(copy_pieces, to, &j->error);
    for (size_t k = 0; k < n; k++)
        if (parts[k].read.data)
            leat_value_clear(&parts[k].read);
    return rc;
}

/* One field of a row into job->packed. */
static int make_value(struct leat_job *j, const struct leat_plan_row *row, enum leat_packed_field field, size_t i,
                      struct place *place, bool *broken)
{
    const struct leat_job_context *c = j->context;
    const struct leat_packing_rule *r = c->packing;
    const struct leat_piece *pieces = row->n_more ? row->more - 1 : &row->piece; /* one array: leat_plan_pieces */
    struct copy to = {.rule = r, .at = j->packed};
    uint64_t at = 0;
    for (size_t n, left = row->n_more + (size_t)1; left; left -= n, pieces += n) {
        struct leat_sample_ref refs[RUN];
        uint64_t positions[RUN];
        size_t failed = 0;
        n = left < RUN ? left : RUN;
        for (size_t k = 0; k < n; k++)
            positions[k] = c->source_begin[pieces[k].source] + pieces[k].position;
        leat_dataset_locate(c->dataset, positions, n, refs);
        int rc = LEAT_OK;
        if (field == LEAT_PACKED_TOKENS)
            rc = join(j, pieces, refs, positions, n, place, &to, &failed, broken);
        if (rc) {
            leat_error_at_sample(&j->error, refs[failed].id, c->documents[r->field].name);
            j->positions[i] = positions[failed];
            return rc;
        }
        for (size_t k = 0; k < n; at += pieces[k++].count)
            if (field != LEAT_PACKED_TOKENS)
                put_beside(field, refs[k].id, at, pieces[k].count, j->packed);
    }
    if (field == LEAT_PACKED_TOKENS)
        put(to.at, r, r->fill, r->length - at);
    else
        put_beside(field, -1, at, r->length - at, j->packed);
    return LEAT_OK;
}

int leat_packing_make_row(struct leat_job *j, struct leat_scratch *scratch, size_t i, bool *broken)
{
    const struct leat_job_context *c = j->context;
    struct leat_plan_row row = j->rows[i];
    struct place place = {0};
    *broken = false;
    int rc = leat_plan_pieces(c->plan, &row, 1, &j->pieces);
    if (rc)
        return leat_fail(&j->error, rc, "no memory for the pieces of a row");
    for (size_t f = 0; !rc && f < c->n_feeds; f++) {
        const struct leat_feed *feed = &c->feeds[f];
        rc = make_value(j, &row, (enum leat_packed_field)feed->field, i, &place, broken);
        j->args[i].data = j->packed;
        j->args[i].length = feed->value_bytes;
        for (size_t k = 0; !rc && k < feed->n_outputs; k++) {
            size_t o = feed->outputs[k];
            uint8_t *dst =
                j->target.outputs[o] + (j->first + j->cursor + i) * leat_program_output(c->program, o)->row_bytes;
            if (leat_program_apply(c->program, o, scratch, &j->args[i], 1, dst, &j->error) < 1) {
                rc = j->error.code ? j->error.code : LEAT_E_OPERATOR;
                *broken = true;
            }
        }
    }
    leat_io_release(place.open);
    return rc;
}
