/*
 * Prompts in groups, as a data set: samples of another one in another order, and of each its group. Only the order is
 * kept for each prompt, 4 bytes; its group is found among the groups' first prompts.
 *
 *     order     | 7 | 2 | 9 | 0 | 4 | ...      position of each sample in the data set behind
 *     groups    | prefix 1300       | 0 ...    first, count, prefix
 */
#include "leat/prompts.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/search.h"
#include "data/internal.h"
#include "data/prompt_tokens.h"
#include "format/fingerprint.h"
#include "io/guard.h"
#include "io/interrupt.h"
#include "plan/prompt_cache.h"
#include "plan/prompt_sort.h"
#include "plan/prompt_tree.h"

enum { CHUNK = 256 };
/* Bytes of tokens that are compared before it is asked whether to stop: some 50 ms. */
#define SLICE (UINT64_C(256) << 20)

struct leat_prompts {
    _Atomic uint32_t references;
    struct leat_dataset *dataset;
    struct leat_prompt_groups groups;
    char *field;
    uint64_t n, seed;
    uint64_t says[5]; /* what they were made by, for the fingerprint */
};

/* ---- grouping ---------------------------------------------------------------------------------------------------- */

struct work {
    const struct leat_prompts_options *options;
    uint64_t n;
    struct leat_prompt_tokens tokens;
    struct leat_prompt_sort sort;
};

static int tell(const struct work *w, uint64_t done)
{
    const struct leat_prompts_options *o = w->options;
    return leat_io_interrupted() || (o->progress && o->progress(o->user, done, 2 * w->n));
}

static int stopped_reading(void *user, uint64_t done)
{
    return tell(user, done);
}

/* 1: it is done. */
static int sort_some(void *arg)
{
    return leat_prompt_sort(arg, SLICE);
}

static int sort_all(struct work *w, struct leat_error *error)
{
    int rc = 0;
    while (!rc) {
        rc = leat_guarded(sort_some, &w->sort, error);
        if (rc >= 0 && tell(w, w->n + w->sort.first))
            rc = leat_fail(error, LEAT_E_CANCELLED, "grouping prompts was stopped");
    }
    return rc > 0 ? LEAT_OK : rc;
}

/* Reads and sorts; of the tokens, only their numbers are left. */
static int sort_prompts(struct work *w, const struct leat_dataset *dataset, struct leat_error *error)
{
    struct leat_prompt_sort *s = &w->sort;
    int rc = leat_prompt_tokens_find(&w->tokens, dataset, w->options->field, stopped_reading, w, error);
    if (rc)
        return rc;
    *s = (struct leat_prompt_sort){.n = w->n,
                                   .at = w->tokens.at,
                                   .lengths = w->tokens.lengths,
                                   .width = w->tokens.width,
                                   .seed = w->options->seed,
                                   .order = leat_new_array(w->n + 1, sizeof *s->order),
                                   .common = leat_new_array(w->n + 1, sizeof *s->common),
                                   .keys = leat_new_array(w->n + 1, sizeof *s->keys)};
    rc = s->order && s->common && s->keys
             ? sort_all(w, error)
             : leat_fail(error, LEAT_E_NOMEM, "no memory to sort %" PRIu64 " prompts", w->n);
    leat_free(s->keys);
    leat_free(w->tokens.at);
    s->keys = NULL;
    s->at = w->tokens.at = NULL;
    return rc;
}

static void end_work(struct work *w)
{
    leat_prompt_tokens_destroy(&w->tokens);
    leat_free(w->sort.order);
    leat_free(w->sort.common);
    leat_free(w->sort.keys);
}

static int check_options(const struct leat_prompts_options *o, uint64_t n, struct leat_error *error)
{
    if (!o->block || o->block > LEAT_PROMPT_MAX_TOKENS)
        return leat_fail(error, LEAT_E_INVALID, "a block has 1 to 2^30 tokens, not %" PRIu64, o->block);
    if (n >= UINT32_MAX)
        return leat_fail(error, LEAT_E_RANGE, "%" PRIu64 " prompts: there are less than 2^32 in a call", n);
    if (o->decode && o->n_decode != n)
        return leat_fail(error, LEAT_E_INVALID, "decode has %" PRIu64 " numbers for %" PRIu64 " prompts: one for each",
                         o->n_decode, n);
    return LEAT_OK;
}

int leat_prompts_group(struct leat_dataset *dataset, const struct leat_prompts_options *o, struct leat_prompts **out,
                       struct leat_error *error)
{
    const uint64_t n = leat_dataset_count(dataset);
    *out = NULL;
    int rc = check_options(o, n, error);
    if (rc)
        return rc;
    struct work w = {.options = o, .n = n};
    struct leat_prompts *p = leat_new(struct leat_prompts);
    if (!p)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for prompts");
    p->references = 1;
    p->n = n;
    p->dataset = leat_dataset_retain(dataset);
    rc = sort_prompts(&w, dataset, error);
    rc = rc ? rc
            : leat_prompt_groups_make(w.sort.order, w.sort.common, w.tokens.lengths, n, o->block, o->decode, &p->groups,
                                      error);
    end_work(&w);
    const uint64_t decode = o->decode ? leat_hash64(o->decode, n * sizeof *o->decode) : 0;
    memcpy(p->says, (uint64_t[]){leat_dataset_field(dataset, o->field), o->block, o->seed, o->decode != NULL, decode},
           sizeof p->says);
    p->seed = o->seed;
    if (!rc && !(p->field = leat_strdup(o->field)))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for prompts");
    if (rc)
        leat_prompts_release(p);
    else
        *out = p;
    return rc;
}

struct leat_prompts *leat_prompts_retain(struct leat_prompts *p)
{
    atomic_fetch_add_explicit(&p->references, 1, memory_order_relaxed);
    return p;
}

void leat_prompts_release(struct leat_prompts *p)
{
    if (!p || atomic_fetch_sub_explicit(&p->references, 1, memory_order_acq_rel) != 1)
        return;
    leat_dataset_release(p->dataset);
    leat_free(p->groups.order);
    leat_free(p->groups.at);
    leat_free(p->field);
    leat_free(p);
}

const uint32_t *leat_prompts_order(const struct leat_prompts *p, uint64_t *n)
{
    *n = p->n;
    return p->groups.order;
}

const struct leat_prompts_group *leat_prompts_groups(const struct leat_prompts *p, uint64_t *n)
{
    *n = p->groups.n;
    return p->groups.at;
}

const struct leat_prompts_tokens *leat_prompts_tokens(const struct leat_prompts *p)
{
    return &p->groups.tokens;
}

static int compute_all(struct leat_prompt_cache *cache, const uint32_t *order, uint64_t *saved,
                       struct leat_error *error)
{
    leat_prompt_cache_clear(cache);
    *saved = 0;
    for (uint64_t i = 0; i < cache->n; i++) {
        if (!(i % 4096) && leat_io_interrupted())
            return leat_fail(error, LEAT_E_CANCELLED, "the simulation of a cache was stopped");
        *saved += leat_prompt_cache_compute(cache, order ? order[i] : (uint32_t)i);
    }
    return LEAT_OK;
}

int leat_prompts_simulate(const struct leat_prompts *p, uint64_t tokens, uint64_t block, struct leat_prompts_saved *out,
                          struct leat_error *error)
{
    const struct leat_prompts_options options = {.field = p->field, .block = block, .seed = p->seed};
    struct work w = {.options = &options, .n = p->n};
    struct leat_prompt_cache cache = {0};
    *out = (struct leat_prompts_saved){0};
    int rc = check_options(&options, p->n, error);
    rc = rc ? rc : sort_prompts(&w, p->dataset, error);
    if (!rc)
        rc = leat_prompt_cache_init(&cache, w.sort.order, w.sort.common, w.tokens.lengths, p->n, block, tokens / block,
                                    error);
    rc = rc ? rc : compute_all(&cache, NULL, &out->lying, error);
    rc = rc ? rc : compute_all(&cache, w.sort.order, &out->sorted, error);
    rc = rc ? rc : compute_all(&cache, p->groups.order, &out->grouped, error);
    leat_prompt_cache_destroy(&cache);
    end_work(&w);
    return rc;
}

/* ---- the data set ------------------------------------------------------------------------------------------------ */

struct grouped {
    struct leat_source source;
    struct leat_prompts *prompts;
    struct leat_field *fields;
    size_t *theirs; /* of each field that of the data set behind; or one of these two */
    uint8_t *storage;
    struct pair {
        int64_t number, prefix;
    } * pairs; /* of each group */
};
#define GROUP (SIZE_MAX - 1)
#define PREFIX SIZE_MAX

static uint64_t group_of(const struct leat_prompts *p, uint64_t sample)
{
    return LEAT_BISECT(g, 1, p->groups.n, p->groups.at[g].first <= sample) - 1;
}

static const struct leat_dataset *grouped_behind(const struct leat_source *source, size_t *field, uint64_t *sample)
{
    const struct grouped *g = (const struct grouped *)source;
    *field = g->theirs[*field];
    if (sample)
        *sample = g->prompts->groups.order[*sample];
    return g->prompts->dataset;
}

static void locate(const struct grouped *g, const uint64_t *samples, size_t n, struct leat_sample_ref *refs)
{
    uint64_t positions[CHUNK];
    for (size_t i = 0; i < n; i += CHUNK) {
        const size_t count = n - i < CHUNK ? n - i : CHUNK;
        for (size_t k = 0; k < count; k++)
            positions[k] = g->prompts->groups.order[samples[i + k]];
        leat_dataset_locate(g->prompts->dataset, positions, count, refs + i);
    }
}

static int grouped_rows(struct leat_source *source, size_t field, const uint64_t *samples, size_t n, void *cold,
                        const void **rows, size_t *failed, struct leat_error *error)
{
    const struct grouped *g = (const struct grouped *)source;
    const size_t of = g->theirs[field];
    struct leat_sample_ref refs[CHUNK]; /* at most CHUNK: leat_dataset_rows */
    if (of < GROUP) {
        locate(g, samples, n, refs);
        return leat_dataset_rows(g->prompts->dataset, of, refs, n, cold, rows, failed, error);
    }
    for (size_t i = 0; i < n; i++) {
        const struct pair *pair = &g->pairs[group_of(g->prompts, samples[i])];
        rows[i] = of == GROUP ? &pair->number : &pair->prefix;
    }
    return LEAT_OK;
}

static int grouped_extents(struct leat_source *source, size_t field, const uint64_t *samples, size_t n,
                           struct leat_extent *extents, size_t *failed, struct leat_error *error)
{
    const struct grouped *g = (const struct grouped *)source;
    struct leat_sample_ref refs[CHUNK]; /* at most CHUNK: leat_dataset_extents */
    locate(g, samples, n, refs);
    return leat_dataset_extents(g->prompts->dataset, g->theirs[field], refs, n, extents, failed, error);
}

static int grouped_compute(struct leat_source *source, const size_t *fields, size_t n_fields, const uint64_t *samples,
                           size_t n, struct leat_values *out, size_t *failed, struct leat_error *error)
{
    const struct grouped *g = (const struct grouped *)source;
    struct leat_sample_ref *refs = leat_new_array(n, sizeof *refs);
    size_t *theirs = leat_new_array(n_fields, sizeof *theirs);
    int rc = refs && theirs ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory to compute values");
    *failed = n;
    for (size_t f = 0; f < n_fields && !rc; f++)
        theirs[f] = g->theirs[fields[f]];
    if (!rc) {
        locate(g, samples, n, refs);
        rc = leat_dataset_compute(g->prompts->dataset, theirs, n_fields, refs, n, out, failed, error);
    }
    leat_free(refs);
    leat_free(theirs);
    return rc;
}

static int grouped_refresh(struct leat_source *source, struct leat_error *error)
{
    const struct leat_dataset *d = ((const struct grouped *)source)->prompts->dataset;
    int rc = leat_dataset_refresh(d, error);
    if (!rc)
        atomic_store(&source->changes, leat_dataset_changes(d));
    return rc;
}

/* The sources behind it have files. */
static int grouped_file(struct leat_source *source, uint64_t file, struct leat_io_file **out, struct leat_error *error)
{
    *out = NULL;
    return leat_fail(error, LEAT_E_NOT_FOUND, "grouped prompts have no files of their own");
}

static void grouped_close(struct leat_source *source)
{
    struct grouped *g = (struct grouped *)source;
    leat_prompts_release(g->prompts);
    leat_free(g->fields);
    leat_free(g->theirs);
    leat_free(g->storage);
    leat_free(g->pairs);
    leat_free(g);
}

static const struct leat_source_vtable grouped_vtable = {
    .name = "prompts",
    .close = grouped_close,
    .behind = grouped_behind,
    .rows = grouped_rows,
    .extents = grouped_extents,
    .compute = grouped_compute,
    .file = grouped_file,
    .refresh = grouped_refresh,
};

static void add_field(struct grouped *g, const struct leat_field *field, size_t theirs)
{
    const size_t f = g->source.n_fields++;
    g->fields[f] = *field;
    g->fields[f].flags &= ~LEAT_FIELD_FILES;
    g->theirs[f] = theirs;
    g->storage[f] = theirs < GROUP ? LEAT_STORAGE_BEHIND : LEAT_STORAGE_MAPPED;
}

static int fill(struct grouped *g, struct leat_error *error)
{
    static const struct leat_field made[] = {{.name = "group", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
                                             {.name = "prefix_length", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64}};
    const struct leat_prompts *p = g->prompts;
    const struct leat_base *base = p->dataset->base;
    const size_t n = base->n_fields, room = n + 2;
    g->fields = leat_new_array(room, sizeof *g->fields);
    g->theirs = leat_new_array(room, sizeof *g->theirs);
    g->source.storage = g->storage = leat_new_array(room, 1);
    g->pairs = leat_new_array(p->groups.n + 1, sizeof *g->pairs);
    if (!g->fields || !g->theirs || !g->storage || !g->pairs)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for grouped prompts");
    for (size_t f = 0; f < n; f++)
        for (size_t k = 0; k < 2; k++)
            if (!strcmp(base->fields[f].name, made[k].name))
                return leat_fail(error, LEAT_E_INVALID,
                                 "grouped prompts have a field \"%s\" of their own: give that of the data set another "
                                 "name",
                                 made[k].name);
    for (unsigned derived = 0; derived < 2; derived++) { /* those last */
        for (size_t f = 0; f < n; f++)
            if (!(base->fields[f].flags & LEAT_FIELD_DERIVED) == !derived)
                add_field(g, &base->fields[f], f);
        if (!derived) {
            add_field(g, &made[0], GROUP);
            add_field(g, &made[1], PREFIX);
        }
    }
    for (uint64_t k = 0; k < p->groups.n; k++)
        g->pairs[k] = (struct pair){(int64_t)k, (int64_t)p->groups.at[k].prefix};
    return LEAT_OK;
}

static void make_fingerprint(struct grouped *g)
{
    uint8_t bytes[16];
    leat_dataset_fingerprint(g->prompts->dataset, bytes);
    uint64_t sample[2] = {leat_get_u64(bytes), leat_get_u64(bytes + 8)};
    for (size_t i = 0; i < sizeof g->prompts->says / sizeof *g->prompts->says; i++)
        leat_fingerprint_value(sample, g->prompts->says[i]);
    leat_fingerprint_append(g->source.fingerprint, sample);
}

int leat_prompts_dataset(struct leat_prompts *prompts, struct leat_dataset **out, struct leat_error *error)
{
    const struct leat_base *base = prompts->dataset->base;
    *out = NULL;
    struct grouped *g = leat_new(struct grouped);
    if (!g)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for grouped prompts");
    g->prompts = leat_prompts_retain(prompts);
    int rc = fill(g, error);
    if (rc) {
        grouped_close(&g->source);
        return rc;
    }
    make_fingerprint(g);
    g->source.v = &grouped_vtable;
    g->source.path = "";
    g->source.count = prompts->n;
    g->source.fields = g->fields;
    g->source.classes = base->classes;
    g->source.n_classes = base->n_classes;
    g->source.classes_apart = base->classes_apart;
    g->source.looks_up = leat_dataset_looks_up(prompts->dataset);
    g->source.metadata = leat_dataset_metadata(prompts->dataset);
    g->source.notice = leat_dataset_notice(prompts->dataset);
    return leat_dataset_of_source(&g->source, out, error);
}
