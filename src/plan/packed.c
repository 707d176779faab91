/*
 * Rows cut from documents: the documents of a pass are joined in the order of that pass and cut every `length`
 * elements.
 *
 *     documents  |--- 5 ---|---- 2 ----|-------- 9 --------|-- 0 --|----- 1 -----|
 *     rows       |    0    |    1    |    2    |    3    |    4 ...
 *     row 1 is [4, 6) of document 5, all of document 2 and [0, 3) of document 9
 *
 * A row is found by searching the running sums of lengths. Every 16th sum is kept, for each of the two passes used
 * last. So each row costs the same, wherever it lies, and nothing is stored per row.
 *
 * Or documents are not joined: those longer than a row are cut into pieces of its length and the rest. With PAD each of
 * these is a row. With BEST_FIT the pieces of full length are rows, and the rests of documents share the rows behind
 * them (best_fit.c). These rows are the same in every pass, which orders them. The n-th of the pieces that are rows is
 * found like a row above, by sums of how many such pieces documents have.
 */
#include "plan/packed.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"

#define STEP 16 /* documents between two sums: half a byte a document, and a run that is permuted at once */
#define TAG_DOCUMENTS ((UINT64_C(1) << 63) | 3)

/* Elements that a document takes up in rows, its padding included. */
static uint64_t room_of(const struct leat_packing *p, uint64_t document)
{
    const uint64_t length = p->lengths[document], over = p->multiple > 1 ? length % p->multiple : 0;
    return over ? length + p->multiple - over : length;
}

/* The number of rows that a document has for itself. */
static uint64_t chunks_of(const struct leat_packing *p, uint64_t document)
{
    const uint64_t length = room_of(p, document);
    return length / p->length + (p->how == LEAT_PACK_PAD && length % p->length);
}

static int fit(struct leat_packing *p, uint64_t seed, struct leat_error *error)
{
    uint32_t *rooms = p->multiple > 1 ? leat_new_array(p->documents ? p->documents : 1, sizeof *rooms) : NULL;
    int rc = LEAT_OK;
    if (p->multiple > 1 && !rooms)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to pack %llu documents", (unsigned long long)p->documents);
    for (uint64_t i = 0; rooms && !rc && i < p->documents; i++) {
        if (room_of(p, i) > UINT32_MAX)
            rc = leat_fail(error, LEAT_E_RANGE,
                           "document %llu takes up %llu elements with its padding: at most 2^32 - 1 can be packed",
                           (unsigned long long)i, (unsigned long long)room_of(p, i));
        rooms[i] = (uint32_t)room_of(p, i);
    }
    if (!rc)
        rc = leat_bins_new(rooms ? rooms : p->lengths, p->documents, p->length, seed, &p->bins, error);
    leat_free(rooms);
    return rc;
}

/* The rows of PAD and BEST_FIT. */
static int keep_whole(struct leat_packing *p, uint64_t seed, struct leat_error *error)
{
    int rc = p->how == LEAT_PACK_BEST_FIT ? fit(p, seed, error) : LEAT_OK;
    for (uint64_t i = 0; !rc && i < p->documents; i++)
        p->n_chunks += chunks_of(p, i);
    p->rows = p->n_chunks + p->bins.n;
    p->hash = leat_key_mix(leat_key_mix(p->hash, (uint64_t)p->how), p->how == LEAT_PACK_BEST_FIT ? seed : 0);
    if (p->multiple > 1)
        p->hash = leat_key_mix(p->hash, p->multiple);
    if (rc || !p->n_chunks)
        return rc;
    p->chunks = leat_new_array(p->documents / STEP + 1, sizeof *p->chunks);
    if (!p->chunks)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the rows of %llu documents",
                         (unsigned long long)p->documents);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < p->documents; sum += chunks_of(p, i++))
        if (i % STEP == 0)
            p->chunks[i / STEP] = sum;
    return LEAT_OK;
}

int leat_packing_new(const struct leat_pack_spec *spec, uint64_t documents, bool shuffled, struct leat_packing **out,
                     struct leat_error *error)
{
    *out = NULL;
    if (!spec->length || spec->length > UINT32_MAX)
        return leat_fail(error, LEAT_E_INVALID, "rows of %llu elements: 1 to 2^32 - 1",
                         (unsigned long long)spec->length);
    if (spec->multiple > 1 && (spec->how != LEAT_PACK_BEST_FIT || spec->length % spec->multiple))
        return leat_fail(error, LEAT_E_INVALID, "rows of %llu elements of documents padded to a multiple of %llu: %s",
                         (unsigned long long)spec->length, (unsigned long long)spec->multiple,
                         spec->how == LEAT_PACK_BEST_FIT ? "it must divide the length" : "best fit alone pads these");
    uint64_t n_sums = documents / STEP + 2;
    struct leat_packing *p = leat_new(struct leat_packing);
    if (!p)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a plan of packed rows");
    pthread_rwlock_init(&p->lock, NULL);
    const bool cuts = spec->how == LEAT_PACK_CUT;
    *p = (struct leat_packing){.lock = p->lock,
                               .how = spec->how,
                               .documents = documents,
                               .length = spec->length,
                               .multiple = spec->multiple ? spec->multiple : 1,
                               .shuffled = shuffled && cuts};
    p->lengths = leat_new_array(documents ? documents : 1, sizeof *p->lengths);
    for (int i = 0; cuts && i < 1 + shuffled; i++)
        p->pass[i].sums = leat_new_array(n_sums, sizeof *p->pass[i].sums);
    int rc = LEAT_OK;
    if (!p->lengths || (cuts && !p->pass[0].sums) || (p->shuffled && !p->pass[1].sums)) {
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for the lengths of %llu documents",
                       (unsigned long long)documents);
        goto out;
    }
    for (uint64_t i = 0; i < documents; i++) {
        if (spec->lengths[i] > UINT32_MAX) {
            rc = leat_fail(error, LEAT_E_RANGE,
                           "document %llu has %llu elements: at most 2^32 - 1 can be packed; split it",
                           (unsigned long long)i, (unsigned long long)spec->lengths[i]);
            goto out;
        }
        p->lengths[i] = (uint32_t)spec->lengths[i];
        p->elements += spec->lengths[i]; /* below 2^31 documents of 2^32, or below 2^63 bytes of lengths */
    }
    p->rows = p->elements / p->length + (spec->partial && p->elements % p->length);
    p->hash = leat_hash64(p->lengths, documents * sizeof *p->lengths);
    if (!cuts && (rc = keep_whole(p, spec->seed, error)))
        goto out;
    *out = p;
    return LEAT_OK;
out:
    leat_packing_free(p);
    return rc;
}

void leat_packing_free(struct leat_packing *p)
{
    if (!p)
        return;
    pthread_rwlock_destroy(&p->lock);
    leat_free(p->lengths);
    leat_free(p->pass[0].sums);
    leat_free(p->pass[1].sums);
    leat_free(p->chunks);
    leat_bins_clear(&p->bins);
    leat_free(p);
}

/* The positions of documents [first, first + n) of a pass; n <= STEP. */
static void documents_at(const struct leat_packing *p, const struct leat_permutation *order, uint64_t first, size_t n,
                         uint64_t *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = first + i;
    if (p->shuffled)
        leat_permute_many(order, out, n);
}

static void sum_pass(struct leat_packing *p, struct leat_packed_pass *pass, uint64_t key)
{
    uint64_t sum = 0, documents[STEP];
    if (p->shuffled)
        pass->order = leat_permutation_init(p->documents, key);
    for (uint64_t first = 0; first < p->documents; first += STEP) {
        size_t n = p->documents - first < STEP ? (size_t)(p->documents - first) : STEP;
        documents_at(p, &pass->order, first, n, documents);
        pass->sums[first / STEP] = sum;
        for (size_t i = 0; i < n; i++)
            sum += p->lengths[documents[i]];
    }
    pass->key = key;
    pass->set = true;
}

/* The sums of a pass. Returns with the lock held for reading, which keeps them. */
static const struct leat_packed_pass *enter_pass(struct leat_packing *p, uint64_t key)
{
    for (;;) {
        pthread_rwlock_rdlock(&p->lock);
        for (int i = 0; i < 2; i++)
            if (p->pass[i].set && p->pass[i].key == key)
                return &p->pass[i];
        pthread_rwlock_unlock(&p->lock);
        pthread_rwlock_wrlock(&p->lock);
        bool there = (p->pass[0].set && p->pass[0].key == key) || (p->pass[1].set && p->pass[1].key == key);
        if (!there) {
            p->oldest ^= p->shuffled;
            sum_pass(p, &p->pass[p->oldest], key);
        }
        pthread_rwlock_unlock(&p->lock);
    }
}

/* The last sum that is not above `at`. */
static uint64_t search(const uint64_t *sums, uint64_t n, uint64_t at)
{
    const uint64_t *base = sums;
    while (n > 1) {
        uint64_t half = n / 2;
        base = base[half] <= at ? base + half : base;
        n -= half;
    }
    return (uint64_t)(base - sums);
}

static int push(struct leat_pieces *pieces, struct leat_piece piece)
{
    if (!leat_grow(&pieces->at, &pieces->room, pieces->n + 1, sizeof *pieces->at))
        return LEAT_E_NOMEM;
    pieces->at[pieces->n++] = piece;
    return LEAT_OK;
}

static int cut(const struct leat_packing *p, const struct leat_packed_pass *pass, uint32_t source, uint64_t row,
               struct leat_pieces *pieces)
{
    uint64_t at = row * p->length, left = p->elements - at < p->length ? p->elements - at : p->length;
    uint64_t group = search(pass->sums, (p->documents + STEP - 1) / STEP, at), skip = at - pass->sums[group];
    int rc = LEAT_OK;
    for (uint64_t first = group * STEP; !rc && left; first += STEP) {
        uint64_t documents[STEP];
        size_t n = p->documents - first < STEP ? (size_t)(p->documents - first) : STEP;
        documents_at(p, &pass->order, first, n, documents);
        for (size_t i = 0; i < n; i++)
            __builtin_prefetch(&p->lengths[documents[i]]);
        for (size_t i = 0; !rc && left && i < n; i++) {
            uint64_t length = p->lengths[documents[i]];
            if (skip >= length) { /* before the row, or empty */
                skip -= length;
                continue;
            }
            uint64_t count = length - skip < left ? length - skip : left;
            rc = push(pieces,
                      (struct leat_piece){.source = source, .position = documents[i], .begin = skip, .count = count});
            skip = 0;
            left -= count;
        }
    }
    return rc;
}

/* The pieces of a row that has one document, or the rests of several. */
static int whole(const struct leat_packing *p, uint32_t source, uint64_t row, struct leat_pieces *pieces)
{
    int rc = LEAT_OK;
    if (row < p->n_chunks) {
        uint64_t i = search(p->chunks, (p->documents + STEP - 1) / STEP, row) * STEP, skip = row - p->chunks[i / STEP];
        for (uint64_t n; skip >= (n = chunks_of(p, i)); i++)
            skip -= n;
        const uint64_t begin = skip * p->length, left = p->lengths[i] - begin;
        return push(pieces,
                    (struct leat_piece){
                        .source = source, .position = i, .begin = begin, .count = left < p->length ? left : p->length});
    }
    row -= p->n_chunks;
    for (uint64_t k = p->bins.begin[row]; k < p->bins.begin[row + 1]; k++)
        __builtin_prefetch(&p->lengths[p->bins.documents[k]]);
    for (uint64_t k = p->bins.begin[row]; !rc && k < p->bins.begin[row + 1]; k++) {
        const uint64_t i = p->bins.documents[k], left = p->lengths[i] - room_of(p, i) / p->length * p->length;
        rc = push(pieces,
                  (struct leat_piece){.source = source, .position = i, .begin = p->lengths[i] - left, .count = left});
    }
    return rc;
}

int leat_packing_row(struct leat_packing *p, uint64_t pass_key, uint32_t source, uint64_t row,
                     struct leat_pieces *pieces)
{
    if (p->how != LEAT_PACK_CUT)
        return whole(p, source, row, pieces);
    int rc = cut(p, enter_pass(p, p->shuffled ? leat_key_mix(pass_key, TAG_DOCUMENTS) : 0), source, row, pieces);
    pthread_rwlock_unlock(&p->lock);
    return rc;
}
