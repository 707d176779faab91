/* The rules by which rows are made of documents: their fields, lengths and fingerprint. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "engine/packing.h"
#include "format/fingerprint.h"

/* The fields that packing adds, by enum leat_packed_field. */
static const char *const names[] = {"", "doc_ids", "positions", "loss_mask", ""};

static int find_field(const struct leat_dataset *documents, const char *name, size_t *field, struct leat_error *error)
{
    size_t n;
    const struct leat_field *fields = leat_dataset_fields(documents, &n);
    *field = leat_dataset_field(documents, name);
    if (*field == n)
        return leat_dataset_no_field(documents, name, " to cut rows from", error);
    const struct leat_field *f = &fields[*field];
    if (f->kind != LEAT_KIND_ARRAY || f->ndim != 1 ||
        f->dtype > LEAT_I64) /* the integers stand first in the enumeration */
        return leat_fail(error, LEAT_E_TYPE,
                         "field \"%s\", of kind %s, is no list of integers: rows are made of fields such as uint16 "
                         "(None,)",
                         f->name, leat_kind_name(f->kind));
    for (size_t k = LEAT_PACKED_DOC_IDS; k <= LEAT_PACKED_LOSS_MASK; k++)
        if (!strcmp(f->name, names[k]))
            return leat_fail(error, LEAT_E_INVALID, "the field of tokens is called \"%s\", as what packing adds to it",
                             f->name);
    return LEAT_OK;
}

/* A loss mask of the documents says something of each token. */
static int compare_lengths(const struct leat_dataset *documents, const uint64_t *tokens, struct leat_error *error)
{
    uint64_t *has;
    int rc = leat_dataset_lengths(documents, leat_dataset_field(documents, names[LEAT_PACKED_LOSS_MASK]), &has, error);
    if (rc)
        return rc;
    for (uint64_t i = 0, n = leat_dataset_count(documents); !rc && i < n; i++)
        if (has[i] != tokens[i])
            rc = leat_fail(error, LEAT_E_INVALID,
                           "document %" PRIu64 " has %" PRIu64 " tokens and a loss_mask of %" PRIu64 ": one for each",
                           i, tokens[i], has[i]);
    leat_free(has);
    return rc;
}

uint64_t leat_packing_elements(const struct leat_packing_rule *r, uint64_t bytes)
{
    const size_t o = r->made[LEAT_PACKED_TOKENS];
    return r->chain ? leat_program_ragged_bytes(r->chain, o, bytes) / r->element : bytes / r->stored;
}

uint64_t leat_packing_document_bytes(const struct leat_packing_rule *r)
{
    if (!r->chain)
        return 0;
    const struct leat_row row = {.length = r->longest};
    uint64_t most = 0;
    for (size_t o = 0; o < leat_program_outputs(r->chain); o++) {
        const uint64_t one = leat_program_decode_bytes(r->chain, o, &row, 0);
        most = one > most ? one : most;
    }
    return leat_program_scratch_bytes(r->chain) + most + r->longest +
           2 * (leat_packing_elements(r, r->longest) + 1) * sizeof(int64_t);
}

int leat_packing_lengths(struct leat_packing_rule *r, const struct leat_dataset *documents, uint64_t **out,
                         struct leat_error *error)
{
    /* By name: those of one source of a mixture may stand in another order than those of all. */
    const size_t field = leat_dataset_field(documents, r->fields[LEAT_PACKED_TOKENS].name);
    int rc = leat_dataset_lengths(documents, field, out, error);
    if (!rc && r->mask)
        rc = compare_lengths(documents, *out, error);
    const uint64_t n = leat_dataset_count(documents), around = (uint64_t)r->has_bos + r->has_eos;
    for (uint64_t i = 0; !rc && i < n; i++)
        r->longest = (*out)[i] * r->stored > r->longest ? (*out)[i] * r->stored : r->longest;
    for (uint64_t i = 0; !rc && i < n; i++) /* a document without a token is in no row */
        (*out)[i] = (*out)[i] ? leat_packing_elements(r, (*out)[i] * r->stored) + around : 0;
    return rc;
}

void leat_packing_fingerprint(const struct leat_packing_rule *r, uint8_t fingerprint[16])
{
    uint64_t hash[2] = {leat_get_u64(fingerprint), leat_get_u64(fingerprint + 8)};
    const uint64_t says[] = {r->field, r->length, r->has_bos, r->has_eos, r->bos, r->eos, r->fill};
    for (size_t i = 0; i < sizeof says / sizeof *says; i++)
        leat_fingerprint_value(hash, says[i]);
    if (r->how != LEAT_PACK_CUT)
        leat_fingerprint_value(hash, (uint64_t)r->how);
    if (r->how == LEAT_PACK_BEST_FIT)
        leat_fingerprint_value(hash, r->seed);
    if (r->multiple > 1)
        leat_fingerprint_value(hash, r->multiple);
    if (r->chain)
        leat_fingerprint_value(hash, leat_program_hash(r->chain));
    leat_put_u64(fingerprint, hash[0]);
    leat_put_u64(fingerprint + 8, hash[1]);
}

/* Marks of the documents that were compared: none yet. */
static int begin_marks(struct leat_packing_rule *r, const struct leat_dataset *documents, struct leat_error *error)
{
    r->touched = leat_new_array(leat_dataset_count(documents) / 8 + 1, sizeof *r->touched);
    atomic_store(&r->changes, leat_dataset_changes(documents));
    return r->touched ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for a loader");
}

/* The documents' own "loss_mask" is packed as the tokens are: bos counts for nothing, eos is to be predicted. */
static int open_mask(const struct leat_dataset *documents, struct leat_packing_rule *r, struct leat_error *error)
{
    size_t n, k = leat_dataset_field(documents, names[LEAT_PACKED_LOSS_MASK]);
    const struct leat_field *f = leat_dataset_fields(documents, &n) + k;
    if (k == n)
        return LEAT_OK;
    if (f->kind != LEAT_KIND_ARRAY || f->ndim != 1 || (f->dtype != LEAT_BOOL && f->dtype != LEAT_U8))
        return leat_fail(error, LEAT_E_TYPE,
                         "the documents' field \"loss_mask\" is no list of bool or uint8, one for each token");
    r->mask = leat_new(struct leat_packing_rule);
    if (!r->mask)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a loader");
    *r->mask = (struct leat_packing_rule){.is_mask = true,
                                          .field = k,
                                          .length = r->length,
                                          .multiple = r->multiple,
                                          .element = 1,
                                          .stored = 1,
                                          .has_bos = r->has_bos,
                                          .has_eos = r->has_eos,
                                          .eos = 1};
    return begin_marks(r->mask, documents, error);
}

/* The field that an output of the chain is: the tokens, and what is made beside them. */
static enum leat_packed_field field_of_output(const char *name, const char *output)
{
    const size_t n = strlen(name);
    const char *beside = !strncmp(output, name, n) ? output + n : "?";
    return !*beside                        ? LEAT_PACKED_TOKENS
           : !strcmp(beside, ".labels")    ? LEAT_PACKED_LABELS
           : !strcmp(beside, ".loss_mask") ? LEAT_PACKED_LOSS_MASK
                                           : LEAT_PACKED_FIELDS;
}

/* -100 is no unsigned number. */
static bool holds_labels(enum leat_dtype dtype)
{
    return dtype == LEAT_I8 || dtype == LEAT_I16 || dtype == LEAT_I32 || dtype == LEAT_I64;
}

/* The chain takes documents of any length, also where all have one. */
static int open_chain(const struct leat_field *tokens, const struct leat_pack_options *options,
                      struct leat_packing_rule *r, struct leat_error *error)
{
    struct leat_field list = *tokens;
    list.shape[0] = -1;
    int rc = leat_program_compile(&list, 1, options->chain, NULL, 0, LEAT_OPEN_STACKS, &r->chain, error);
    if (rc)
        return rc;
    if (r->has_bos || r->has_eos)
        return leat_fail(error, LEAT_E_INVALID,
                         "bos and eos of packed rows do not go with a chain, which puts its own");
    for (size_t k = 0; k < LEAT_PACKED_FIELDS; k++)
        r->made[k] = SIZE_MAX;
    for (size_t o = 0; o < leat_program_outputs(r->chain); o++) {
        const struct leat_output *output = leat_program_output(r->chain, o);
        const enum leat_packed_field k = field_of_output(tokens->name, output->name);
        if (k == LEAT_PACKED_FIELDS)
            return leat_fail(error, LEAT_E_INVALID, "the chain of packed rows has an output '%s'", output->name);
        if (!output->ragged || output->bounded || output->called || output->ndim != 1)
            return leat_fail(error, LEAT_E_TYPE,
                             "the chain of packed rows makes lists whose lengths follow from those of the documents, "
                             "and '%s' is none",
                             output->name);
        r->made[k] = o;
        r->fields[k].dtype = output->dtype;
        const bool fits = k == LEAT_PACKED_LOSS_MASK ? output->dtype == LEAT_BOOL
                          : k == LEAT_PACKED_LABELS  ? holds_labels(output->dtype)
                                                     : output->dtype <= LEAT_I64;
        if (!fits)
            return leat_fail(error, LEAT_E_TYPE, "the chain of packed rows makes '%s' of %s, and tokens are integers",
                             output->name, leat_dtype_name(output->dtype));
    }
    if (r->made[LEAT_PACKED_TOKENS] == SIZE_MAX)
        return leat_fail(error, LEAT_E_INVALID, "the chain of packed rows makes no '%s'", tokens->name);
    r->element = (unsigned)leat_dtype_size(r->fields[LEAT_PACKED_TOKENS].dtype);
    if (r->made[LEAT_PACKED_LABELS] == SIZE_MAX)
        return LEAT_OK;
    snprintf(r->labels_name, sizeof r->labels_name, "%.63s.labels", tokens->name);
    r->fields[LEAT_PACKED_LABELS].name = r->labels_name;
    r->n_fields = LEAT_PACKED_FIELDS;
    return LEAT_OK;
}

int leat_packing_open(const struct leat_dataset *documents, const struct leat_pack_options *options,
                      struct leat_packing_rule *r, struct leat_error *error)
{
    *r = (struct leat_packing_rule){.how = options->how,
                                    .length = options->length,
                                    .multiple = options->multiple ? options->multiple : 1,
                                    .has_bos = options->has_bos,
                                    .has_eos = options->has_eos,
                                    .seed = options->seed};
    if (r->how < LEAT_PACK_CUT || r->how > LEAT_PACK_PAD)
        return leat_fail(error, LEAT_E_INVALID, "rows are not made of documents in way %d", (int)r->how);
    if (!r->length || r->length > INT32_MAX)
        return leat_fail(error, LEAT_E_INVALID, "rows of %" PRIu64 " tokens: 1 to 2^31 - 1", r->length);
    int rc = find_field(documents, options->field, &r->field, error);
    if (rc)
        return rc;
    size_t n;
    const struct leat_field *tokens = leat_dataset_fields(documents, &n) + r->field;
    static const enum leat_dtype dtypes[] = {0, LEAT_I64, LEAT_I64, LEAT_BOOL, LEAT_I64};
    for (size_t k = 0; k < LEAT_PACKED_FIELDS; k++)
        r->fields[k] = (struct leat_field){.name = k ? names[k] : tokens->name,
                                           .kind = LEAT_KIND_ARRAY,
                                           .dtype = k ? dtypes[k] : tokens->dtype,
                                           .ndim = 1,
                                           .shape = {(int64_t)r->length}};
    r->n_fields = LEAT_PACKED_LABELS;
    r->element = r->stored = (unsigned)leat_dtype_size(tokens->dtype);
    if (options->chain && (rc = open_chain(tokens, options, r, error)))
        return rc;
    memcpy(&r->bos, &options->bos, sizeof r->bos);
    memcpy(&r->eos, &options->eos, sizeof r->eos);
    memcpy(&r->fill, &options->fill, sizeof r->fill);
    rc = begin_marks(r, documents, error);
    return rc || r->chain ? rc : open_mask(documents, r, error);
}

void leat_packing_join(struct leat_packing_rule *first, struct leat_packing_rule *rule)
{
    if (!first->mask || !rule->mask)
        return;
    leat_free(rule->mask->touched);
    rule->mask->touched = NULL;
    rule->mask->mask = first->mask->mask;
    first->mask->mask = rule->mask;
}

void leat_packing_close(struct leat_packing_rule *r)
{
    if (r && r->mask)
        leat_packing_close(r->mask);
    if (r) {
        leat_free(r->touched);
        leat_program_free(r->chain);
    }
    leat_free(r);
}
