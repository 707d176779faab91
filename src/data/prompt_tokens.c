/*
 * The tokens of prompts, in place. What lies in memory, or in a file that can be mapped, is not copied, so prompts that
 * are larger than memory are sorted where they lie: the system reads and drops pages of the file. Values of other
 * sources, remote files, compressed ones, are copied into chunks of memory.
 */
#include "data/prompt_tokens.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "io/guard.h"
#include "plan/prompt_sort.h"

enum { CHUNK = 256 };
#define COPIES_BYTES (UINT64_C(1) << 20)

/* A mapped file. */
struct leat_prompt_file {
    struct leat_source *source;
    uint64_t number; /* in its source */
    struct leat_io_file *file;
    const uint8_t *map; /* NULL: it cannot be mapped */
};

struct leat_prompt_copies {
    struct leat_prompt_copies *next;
    uint64_t used, room;
    uint8_t bytes[];
};

static int no_memory(uint64_t prompts, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_NOMEM, "no memory for the places of %" PRIu64 " prompts", prompts);
}

static int find_field(const struct leat_dataset *d, const char *name, size_t *field, unsigned *width,
                      struct leat_error *error)
{
    size_t n;
    const struct leat_field *fields = leat_dataset_fields(d, &n), *f;
    *field = leat_dataset_field(d, name);
    if (*field == n)
        return leat_dataset_no_field(d, name, " that could be prompts", error);
    f = &fields[*field];
    const bool list = f->kind == LEAT_KIND_ARRAY && f->ndim == 1 && f->shape[0] < 0 && f->dtype <= LEAT_I64;
    if (!list && f->kind != LEAT_KIND_BYTES)
        return leat_fail(error, LEAT_E_TYPE,
                         "field \"%s\" is no list of integers that varies in length: prompts are tokens, such as int32 "
                         "(None,). Texts become tokens by leat.tokenize, or by the command leat prompts",
                         f->name);
    *width = list ? (unsigned)leat_dtype_size(f->dtype) : 1;
    return LEAT_OK;
}

static int count_tokens(struct leat_prompt_tokens *t, const struct leat_dataset *d, size_t field, uint64_t n,
                        struct leat_error *error)
{
    uint64_t *lengths = NULL;
    int rc = leat_dataset_lengths(d, field, &lengths, error);
    if (!rc && !(t->lengths = leat_new_array(n + 1, sizeof *t->lengths)))
        rc = no_memory(n, error);
    for (uint64_t i = 0; !rc && i < n; i++)
        if (lengths[i] > LEAT_PROMPT_MAX_TOKENS)
            rc = leat_fail(error, LEAT_E_RANGE,
                           "the prompt at position %" PRIu64 " has %" PRIu64 " tokens: at most 2^30", i, lengths[i]);
        else
            t->lengths[i] = (uint32_t)lengths[i];
    leat_free(lengths);
    if (!rc && !(t->at = leat_new_array(n + 1, sizeof *t->at)))
        rc = no_memory(n, error);
    return rc;
}

static int keep_copy(struct leat_prompt_tokens *t, uint64_t i, const void *data, uint64_t bytes,
                     struct leat_error *error)
{
    struct leat_prompt_copies *c = t->copies;
    if (bytes != (uint64_t)t->lengths[i] * t->width)
        return leat_fail(error, LEAT_E_CHANGED,
                         "the prompt at position %" PRIu64 " has changed: open the data set again", i);
    if (!c || c->room - c->used < bytes) {
        const uint64_t room = bytes > COPIES_BYTES ? bytes : COPIES_BYTES;
        if (!(c = leat_alloc(sizeof *c + room)))
            return leat_fail(error, LEAT_E_NOMEM, "no memory for the tokens of a prompt of %" PRIu64 " bytes", bytes);
        *c = (struct leat_prompt_copies){.next = t->copies, .room = room};
        t->copies = c;
    }
    t->at[i] = c->bytes + c->used;
    memcpy(c->bytes + c->used, data, bytes);
    c->used += bytes;
    return LEAT_OK;
}

/* The mapping of a source's file, NULL if it has none. */
static int map_file(struct leat_prompt_tokens *t, struct leat_source *source, uint64_t number,
                    const struct leat_prompt_file **out, struct leat_error *error)
{
    for (size_t k = t->n_files; k-- > 0;)
        if (t->files[k].source == source && t->files[k].number == number) {
            *out = &t->files[k];
            return LEAT_OK;
        }
    if (!leat_grow(&t->files, &t->files_room, t->n_files + 1, sizeof *t->files))
        return no_memory(1, error);
    struct leat_prompt_file *f = &t->files[t->n_files];
    *f = (struct leat_prompt_file){.source = source, .number = number};
    int rc = source->v->file(source, number, &f->file, error);
    if (rc)
        return rc;
    t->n_files++;
    f->map = leat_io_map(f->file, NULL);
    *out = f;
    return LEAT_OK;
}

/* A value in a file: where it is mapped, if it is whole there and its bytes are right. *place: NULL if it is not. */
static int find_mapped(struct leat_prompt_tokens *t, const struct leat_fetch *fetch, const uint8_t **place,
                       struct leat_error *error)
{
    const struct leat_extent *e = &fetch->extent;
    const struct leat_prompt_file *f = NULL;
    uint64_t hash = e->checksum, end;
    *place = NULL;
    if (e->before || e->after || e->pages)
        return LEAT_OK;
    int rc = map_file(t, fetch->ref.source, e->file, &f, error);
    if (rc || !f->map || !leat_add_u64(e->offset, e->length, &end) || end > f->file->size)
        return rc;
    if (e->verify)
        rc = leat_guarded_hash(f->map + e->offset, (size_t)e->length, &hash, error);
    if (!rc && hash == e->checksum)
        *place = f->map + e->offset;
    return rc;
}

static int find_extents(struct leat_prompt_tokens *t, const struct leat_dataset *d, size_t field,
                        const struct leat_sample_ref *refs, uint64_t first, size_t n, struct leat_error *error)
{
    struct leat_extent extents[CHUNK];
    size_t failed;
    int rc = leat_dataset_extents(d, field, refs, n, extents, &failed, error);
    for (size_t i = 0; i < n && !rc; i++) {
        struct leat_fetch fetch = {.ref = refs[i], .field = field, .extent = extents[i]};
        leat_ref_resolve(&fetch.ref, &fetch.field);
        const uint8_t *place;
        rc = find_mapped(t, &fetch, &place, error);
        if (!rc && place && extents[i].length == (uint64_t)t->lengths[first + i] * t->width) {
            t->at[first + i] = place;
        } else if (!rc) { /* reading it says what is wrong with it, if anything is */
            struct leat_value value = {0};
            rc = leat_fetch_read(&fetch, &value, error);
            rc = rc ? rc : keep_copy(t, first + i, value.data, value.length, error);
            leat_value_clear(&value);
        }
    }
    return rc;
}

/* A value that a source computes, in its memory; NULL: it is none. */
static const uint8_t *find_in_memory(const struct leat_sample_ref *ref, size_t field, uint64_t bytes)
{
    struct leat_sample_ref found = *ref;
    uint64_t length = 0;
    leat_ref_resolve(&found, &field);
    const struct leat_source *source = found.source;
    const uint8_t *at = source->v->in_memory ? source->v->in_memory(source, field, found.sample, &length) : NULL;
    return length == bytes ? at : NULL; /* else a part of it */
}

static int find_computed(struct leat_prompt_tokens *t, const struct leat_dataset *d, size_t field,
                         const struct leat_sample_ref *refs, uint64_t first, size_t n, struct leat_error *error)
{
    struct leat_values values;
    size_t failed = 0, known = 0;
    for (; known < n; known++) {
        const uint64_t bytes = (uint64_t)t->lengths[first + known] * t->width;
        if (!(t->at[first + known] = find_in_memory(&refs[known], field, bytes)))
            break;
    }
    if (known == n)
        return LEAT_OK;
    if (leat_values_init(&values, 1, n))
        return no_memory(n, error);
    int rc = leat_dataset_compute(d, &field, 1, refs, n, &values, &failed, error);
    for (size_t i = known; i < n && !rc; i++)
        rc = keep_copy(t, first + i, values.at[i].data, values.at[i].bytes, error);
    leat_values_destroy(&values);
    return rc;
}

int leat_prompt_tokens_find(struct leat_prompt_tokens *t, const struct leat_dataset *d, const char *name,
                            int (*stopped)(void *user, uint64_t done), void *user, struct leat_error *error)
{
    const uint64_t n = leat_dataset_count(d);
    uint64_t positions[CHUNK];
    struct leat_sample_ref refs[CHUNK];
    size_t field;
    *t = (struct leat_prompt_tokens){0};
    int rc = find_field(d, name, &field, &t->width, error);
    rc = rc ? rc : leat_dataset_refresh(d, error);
    rc = rc ? rc : count_tokens(t, d, field, n, error);
    for (uint64_t at = 0; at < n && !rc; at += CHUNK) {
        const size_t count = n - at < CHUNK ? (size_t)(n - at) : CHUNK;
        for (size_t i = 0; i < count; i++)
            positions[i] = at + i;
        leat_dataset_locate(d, positions, count, refs);
        for (size_t i = 0, run; i < count && !rc; i += run) {
            const enum leat_storage storage = leat_ref_storage(&refs[i], field);
            for (run = 1; i + run < count && leat_ref_storage(&refs[i + run], field) == storage; run++)
                ;
            rc = (storage == LEAT_STORAGE_EXTENT ? find_extents : find_computed)(t, d, field, refs + i, at + i, run,
                                                                                 error);
        }
        if (!rc && stopped(user, at))
            rc = leat_fail(error, LEAT_E_CANCELLED, "grouping prompts was stopped");
    }
    return rc;
}

void leat_prompt_tokens_destroy(struct leat_prompt_tokens *t)
{
    for (size_t k = 0; k < t->n_files; k++)
        leat_io_release(t->files[k].file);
    while (t->copies) {
        struct leat_prompt_copies *c = t->copies;
        t->copies = c->next;
        leat_free(c);
    }
    leat_free(t->files);
    leat_free(t->at);
    leat_free(t->lengths);
    *t = (struct leat_prompt_tokens){0};
}
