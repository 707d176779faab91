/*
 * The sources of a loader: joined to one data set, which jobs read, and planned as several.
 *
 *     sources      |      0       |   1   |          2           |       each with its order, share and rule of cutting
 *     data set     0              ^ source_begin[1]                      what jobs read
 *     rows         0        ^ row_begin[1]                               ids of rows that are cut from documents
 */
#include "engine/sources.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "engine/context.h"
#include "engine/packing.h"

int leat_shares_check(const double *shares, uint32_t n, struct leat_error *error)
{
    double sum = 0;
    for (uint32_t k = 0; k < n; k++) {
        if (!(shares[k] >= 0) || isinf(shares[k]))
            return leat_fail(error, LEAT_E_INVALID,
                             "the share of source %" PRIu32 " is %g: shares must be finite and not negative", k,
                             shares[k]);
        sum += shares[k];
    }
    return fabs(sum - 1) <= 1e-6 ? LEAT_OK
                                 : leat_fail(error, LEAT_E_INVALID, "the shares sum to %.9g: they must sum to 1", sum);
}

static int check_shares(const struct leat_sources *s, struct leat_error *error)
{
    double *shares = leat_new_array(s->n, sizeof *shares);
    if (!shares)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a mixture");
    for (uint32_t k = 0; k < s->n; k++)
        shares[k] = s->at[k].share;
    int rc = s->mix->n_points ? LEAT_OK : leat_shares_check(shares, s->n, error);
    for (size_t i = 0; !rc && i < s->mix->n_points; i++)
        rc = leat_shares_check(s->mix->schedule[i].shares, s->n, error);
    leat_free(shares);
    return rc;
}

int leat_sources_check(const struct leat_sources *s, struct leat_error *error)
{
    if (!s->n)
        return leat_fail(error, LEAT_E_INVALID, "a mixture needs at least one source");
    for (uint32_t k = 0; k < s->n; k++)
        if (!s->at[k].dataset)
            return leat_fail(error, LEAT_E_INVALID, "source %" PRIu32 " of the mixture has no data set", k);
    for (uint32_t k = 1; k < s->n; k++)
        if (!s->at[k].pack != !s->at[0].pack)
            return leat_fail(error, LEAT_E_TYPE,
                             "source %" PRIu32 " %s cut into rows, and source 0 %s: cut all of a mixture or none", k,
                             s->at[k].pack ? "is" : "is not", s->at[0].pack ? "is" : "is not");
    if (s->mix && (s->order.order == LEAT_ORDER_WEIGHTED || s->order.order == LEAT_ORDER_LIST))
        return leat_fail(error, LEAT_E_INVALID,
                         "the sources of a mixture are read in order, shuffled or in blocks: weights of samples and "
                         "lists of positions are for one data set");
    return check_shares(s, error);
}

static bool has_field(const struct leat_dataset *d, const char *name)
{
    size_t n;
    (void)leat_dataset_fields(d, &n);
    return leat_dataset_field(d, name) < n;
}

int leat_sources_join(const struct leat_sources *s, struct leat_dataset **out, struct leat_error *error)
{
    if (s->n == 1) {
        *out = leat_dataset_retain(s->at->dataset);
        return LEAT_OK;
    }
    struct leat_dataset **all = leat_new_array(s->n, sizeof *all);
    if (!all)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a loader");
    for (uint32_t k = 0; k < s->n; k++)
        all[k] = s->at[k].dataset;
    const struct leat_pack_options *pack = s->at->pack;
    int rc = leat_dataset_join(all, s->n, out, pack ? NULL : error);
    if (rc && pack) { /* documents that differ in what rows do not have, at most */
        const char *taken[] = {pack->field, "loss_mask"};
        rc = leat_dataset_join_fields(all, s->n, taken, 1 + has_field(*all, taken[1]), out, error);
    }
    leat_free(all);
    return rc;
}

int leat_sources_cut(const struct leat_sources *s, struct leat_job_context *c, struct leat_error *error)
{
    if (!s->at->pack)
        return LEAT_OK;
    c->packing = leat_new_array(s->n, sizeof *c->packing);
    if (!c->packing)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a loader");
    for (uint32_t k = 0; k < s->n; k++) {
        const struct leat_packing_rule *first = c->packing, *own = &c->packing[k];
        int rc = leat_packing_open(c->dataset, s->at[k].pack, &c->packing[k], error);
        if (rc)
            return rc;
        if (k) { /* the first one's numbers are common to all */
            leat_free(c->packing[k].touched);
            c->packing[k].touched = NULL;
            leat_packing_join(&c->packing[0], &c->packing[k]);
        }
        const bool same = !own->chain == !first->chain &&
                          (!own->chain || leat_program_hash(own->chain) == leat_program_hash(first->chain));
        if (k) { /* so is its chain */
            leat_program_free(c->packing[k].chain);
            c->packing[k].chain = same ? first->chain : NULL;
        }
        if (!same)
            return leat_fail(error, LEAT_E_TYPE,
                             "sources 0 and %" PRIu32 " are packed with different chains: rows of a mixture are alike",
                             k);
        if (own->length != first->length || own->field != first->field)
            return leat_fail(error, LEAT_E_TYPE,
                             "source 0 is cut into rows of %" PRIu64 " \"%.64s\", and source %" PRIu32 " of %" PRIu64
                             " \"%.64s\": rows of a mixture are alike",
                             first->length, s->at->pack->field, k, own->length, s->at[k].pack->field);
    }
    return LEAT_OK;
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

/* The arrays that a specification refers to. */
struct parts {
    struct leat_plan_source *sources;
    struct leat_pack_spec *packs;
    struct leat_group_spec group;
    uint64_t **lengths; /* of the documents of each, or the tokens of its rows */
};

static void free_parts(struct parts *p, uint32_t n)
{
    for (uint32_t k = 0; p->lengths && k < n; k++)
        leat_free(p->lengths[k]);
    leat_free(p->lengths);
    leat_free(p->packs);
    leat_free(p->sources);
}

/* Rows cut from documents: their length. */
static int describe_cut(const struct leat_sources *s, struct leat_packing_rule *rule, uint32_t k,
                        const struct leat_loader_options *o, struct parts *parts, struct leat_error *error)
{
    /* Weights and lists are of rows as they were counted before anything is dropped. */
    const bool all = s->order.order == LEAT_ORDER_WEIGHTED || s->order.order == LEAT_ORDER_LIST;
    struct leat_dataset *documents = s->at[k].dataset;
    int rc = leat_packing_lengths(rule, documents, &parts->lengths[k], error);
    if (rc)
        return rc;
    parts->packs[k] = (struct leat_pack_spec){.how = s->at[k].pack->how,
                                              .length = rule->length,
                                              .lengths = parts->lengths[k],
                                              .partial = all || o->tail != LEAT_TAIL_DROP,
                                              .seed = s->at[k].pack->seed,
                                              .multiple = s->at[k].pack->multiple,
                                              .n_weights = o->n_weights};
    parts->sources[k].pack = &parts->packs[k];
    return LEAT_OK;
}

/* Batches by size: the lengths of samples, or their costs. */
static int describe_groups(struct leat_dataset *dataset, const struct leat_loader_options *o, struct parts *parts,
                           struct leat_error *error)
{
    const struct leat_bucket_options *b = o->buckets;
    const uint64_t samples = leat_dataset_count(dataset);
    parts->sources[0].group = &parts->group;
    parts->group = (struct leat_group_spec){.lengths = b->costs,
                                            .budget = b->elements,
                                            .rows = b->rows,
                                            .widths = b->widths,
                                            .n_widths = b->n_widths,
                                            .costs = b->costs && !b->by_length,
                                            .alone = b->oversize_alone,
                                            .seed = o->seed,
                                            .firsts = b->firsts,
                                            .shared = b->shared,
                                            .n_shared = b->costs ? b->n_shared : 0};
    if (b->costs)
        return b->n_costs == samples
                   ? LEAT_OK
                   : leat_fail(error, LEAT_E_INVALID, "%" PRIu64 " costs of %" PRIu64 " samples: one for each",
                               b->n_costs, samples);
    size_t n_fields, f = leat_dataset_field(dataset, b->field);
    const struct leat_field *fields = leat_dataset_fields(dataset, &n_fields);
    if (f == n_fields)
        return leat_dataset_no_field(dataset, b->field, " whose lengths could count", error);
    const bool array = fields[f].kind == LEAT_KIND_ARRAY;
    if (array ? !fields[f].ndim || fields[f].shape[0] >= 0
              : fields[f].kind != LEAT_KIND_BYTES && fields[f].kind != LEAT_KIND_STR)
        return leat_fail(
            error, LEAT_E_TYPE,
            "field \"%s\", of kind %s, is no array that varies in length, nor bytes or text: batches by length "
            "need one",
            fields[f].name, leat_kind_name(fields[f].kind));
    int rc = leat_dataset_lengths(dataset, f, &parts->lengths[0], error);
    parts->group.lengths = parts->lengths[0];
    return rc;
}

/* Tokens of each sample of a source: *tokens if they are as many, else *each. */
static int count_in_samples(struct leat_dataset *dataset, uint32_t k, const char *name, uint64_t *tokens,
                            uint64_t **each, struct leat_error *error)
{
    size_t n_fields, f = leat_dataset_field(dataset, name);
    const struct leat_field *fields = leat_dataset_fields(dataset, &n_fields);
    const uint64_t n = leat_dataset_count(dataset);
    if (f == n_fields)
        return leat_dataset_no_field(dataset, name, " whose elements could be counted as tokens", error);
    if (fields[f].kind != LEAT_KIND_ARRAY || !fields[f].ndim)
        return leat_fail(error, LEAT_E_TYPE,
                         "field \"%s\" of source %" PRIu32 ", of kind %s, is no list: it has no tokens", name, k,
                         leat_kind_name(fields[f].kind));
    *tokens = 1;
    for (unsigned d = fields[f].shape[0] < 0; d < fields[f].ndim; d++)
        *tokens *= (uint64_t)fields[f].shape[d];
    if (fields[f].shape[0] >= 0)
        return LEAT_OK;
    uint64_t *lengths;
    int rc = leat_dataset_lengths(dataset, f, &lengths, error);
    if (rc)
        return rc;
    bool vary = false;
    for (uint64_t i = 0; i < n; i++) {
        lengths[i] *= *tokens;
        vary |= lengths[i] != lengths[0];
    }
    *tokens = n ? lengths[0] : 0;
    if (vary)
        *each = lengths;
    else
        leat_free(lengths);
    return LEAT_OK;
}

static int count_tokens(const struct leat_sources *s, uint32_t k, struct leat_packing_rule *rules, struct parts *parts,
                        struct leat_error *error)
{
    const char *field = s->mix->tokens_field;
    struct leat_plan_source *source = &parts->sources[k];
    int rc = LEAT_OK;
    source->tokens = rules ? rules->length : 0;
    if (!rules)
        rc =
            count_in_samples(s->at[k].dataset, k, field ? field : "tokens", &source->tokens, &parts->lengths[k], error);
    source->row_tokens = rules ? NULL : parts->lengths[k]; /* of packed rows these are of the documents */
    if (!rc && source->row_tokens && s->at[k].one_of)
        rc =
            leat_fail(error, LEAT_E_INVALID,
                      "source %" PRIu32 " draws one of a group, whose tokens are not known before: shares of a mixture "
                      "with it are of samples",
                      k);
    source->tokens += !rc && !source->tokens; /* it has no row, or empty ones */
    return rc;
}

static int describe(const struct leat_sources *s, struct leat_loader *l, const struct leat_loader_options *o,
                    struct parts *parts, struct leat_error *error)
{
    uint64_t begin = 0;
    for (uint32_t k = 0; k < s->n; k++) {
        const struct leat_mix_source *from = &s->at[k];
        parts->sources[k] = (struct leat_plan_source){.count = leat_dataset_count(from->dataset),
                                                      .share = from->share,
                                                      .exhausted = from->exhausted,
                                                      .limit = from->limit,
                                                      .order = s->order,
                                                      .one_of = from->one_of};
        l->job.source_begin[k] = begin;
        begin += parts->sources[k].count;
        int rc = l->job.packing ? describe_cut(s, &l->job.packing[k], k, o, parts, error) : LEAT_OK;
        if (l->job.packing && l->job.packing[k].longest > l->job.packing->longest)
            l->job.packing->longest = l->job.packing[k].longest;
        if (!rc && s->mix && s->mix->unit == LEAT_MIX_TOKENS)
            rc = count_tokens(s, k, l->job.packing, parts, error);
        if (!rc && o->buckets)
            rc = s->mix ? leat_fail(error, LEAT_E_INVALID, "the rows of a mixture are no batches by size")
                        : describe_groups(from->dataset, o, parts, error);
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

int leat_sources_plan(const struct leat_sources *s, struct leat_loader *l, const struct leat_loader_options *o,
                      struct leat_error *error)
{
    static const char *const policies[] = {"raise", "skip", "substitute"};
    struct parts parts = {.sources = leat_new_array(s->n, sizeof *parts.sources),
                          .packs = leat_new_array(s->n, sizeof *parts.packs),
                          .lengths = leat_new_array(s->n, sizeof *parts.lengths)};
    l->job.source_begin = leat_new_array(s->n, sizeof *l->job.source_begin);
    l->job.row_begin = leat_new_array(s->n, sizeof *l->job.row_begin);
    int rc = parts.sources && parts.packs && parts.lengths && l->job.source_begin && l->job.row_begin
                 ? describe(s, l, o, &parts, error)
                 : leat_fail(error, LEAT_E_NOMEM, "no memory for a plan");
    char facts[128];
    snprintf(facts, sizeof facts, "{\"on_error\": \"%s\", \"program\": \"%016" PRIx64 "\"}", policies[o->on_error],
             leat_program_hash(l->program));
    struct leat_plan_spec spec = {.sources = parts.sources,
                                  .n_sources = s->n,
                                  .seed = o->seed,
                                  .global_batch = o->global_batch_size,
                                  .rank = o->rank,
                                  .world_size = o->world_size,
                                  .tail = o->tail,
                                  .view = s->mix ? NULL : leat_dataset_view_text(s->at->dataset),
                                  .facts = facts};
    if (s->mix) {
        spec.mixed = true;
        spec.epoch_rows = s->mix->epoch_rows;
        spec.schedule = s->mix->schedule;
        spec.n_points = s->mix->n_points;
        spec.linear = s->mix->linear;
    }
    rc = rc ? rc : leat_plan_new(&spec, &l->plan, error);
    free_parts(&parts, s->n);
    if (rc)
        return rc;
    for (uint32_t k = 1; k < s->n; k++)
        l->job.row_begin[k] = l->job.row_begin[k - 1] + leat_plan_source_rows(l->plan, k - 1);
    l->job.plan = l->plan;
    return leat_job_context_make(&l->job, error);
}
