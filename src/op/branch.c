/* Branches: see branch.h. */
#include "op/branch.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/random.h"
#include "op/program_internal.h"

/* ---- reading ---- */

static size_t count(const json_t *value, unsigned depth)
{
    const json_t *list = json_is_array(value) ? value : json_object_get(value, "transforms");
    size_t n = !json_is_array(value);
    for (size_t i = 0; i < json_array_size(list) && depth <= 2 * LEAT_MAX_BRANCH_DEPTH; i++)
        n += count(json_array_get(list, i), depth + 1);
    return n;
}

size_t leat_branch_count(const json_t *object)
{
    return count(object, 0);
}

struct reading {
    struct leat_op *op;
    leat_branch_parse_fn parse;
    void *context;
    struct leat_error *error;
};

static int read_one(struct reading *r, const json_t *object)
{
    struct leat_op *child = r->op + 1 + r->op->below;
    child->depth = r->op->depth + 1;
    if (child->depth > LEAT_MAX_BRANCH_DEPTH)
        return leat_fail(r->error, LEAT_E_INVALID, "%s: branches may hold each other %d deep.", r->op->class->type,
                         LEAT_MAX_BRANCH_DEPTH);
    int rc = r->parse(r->context, child, object, r->error);
    const struct leat_op_class *class = child->class;
    if (!rc && (class->decodes || leat_op_cuts(class) || class->pad || class->batch || leat_op_calls(class) ||
                !(class->joint || leat_op_makes_values(class))))
        rc = leat_fail(r->error, LEAT_E_INVALID,
                       "%s holds operators that make images of images or change boxes, and %s is none.",
                       r->op->class->type, class->type);
    for (const struct leat_op *op = child; !rc && op <= child + child->below; op++)
        if (op->class->reformats && r->op->class->branch != LEAT_BRANCH_ALL)
            rc = leat_fail(r->error, LEAT_E_INVALID,
                           "%s in %s would leave boxes of two formats in one batch: put it into the chain itself.",
                           op->class->type, r->op->class->type);
    r->op->below += 1 + child->below;
    return rc;
}

int leat_branch_parse(struct leat_op *op, const json_t *object, leat_branch_parse_fn parse, void *context,
                      struct leat_error *error)
{
    const json_t *list = json_object_get(object, "transforms");
    bool one = op->class->branch == LEAT_BRANCH_MAYBE; /* the list is the alternative */
    size_t n = one ? 1 : json_array_size(list);
    if (!json_is_array(list) || !n || n > LEAT_MAX_ALTERNATIVES)
        return leat_fail(error, LEAT_E_INVALID, "%s: transforms must be a list of %s.", op->class->type,
                         one ? "operators" : "1 to 256 operators, or lists of operators");
    struct reading r = {op, parse, context, error};
    op->alternatives = leat_new_array(n + 1, sizeof *op->alternatives);
    if (!op->alternatives)
        return leat_compile_no_memory(error);
    op->n_alternatives = n;
    int rc = LEAT_OK;
    for (size_t i = 0; !rc && i < n; i++) {
        const json_t *chain = one ? list : json_array_get(list, i);
        op->alternatives[i] = op + 1 + op->below;
        if (!json_is_array(chain))
            rc = read_one(&r, chain);
        for (size_t k = 0; !rc && k < json_array_size(chain); k++)
            rc = read_one(&r, json_array_get(chain, k));
    }
    op->alternatives[n] = op + 1 + op->below;
    return rc;
}

/* ---- types ---- */

bool leat_op_concerns(const struct leat_op *op, enum leat_role role)
{
    const struct leat_op_class *class = op->class;
    if (class->choose) {
        const struct leat_op *end = op + 1 + op->below;
        for (const struct leat_op *child = op + 1; child < end; child += 1 + child->below)
            if (leat_op_concerns(child, role))
                return true;
        return false;
    }
    bool values = class->map || !(class->move || class->aim || class->turn || class->decodes);
    return !(class->joint || class->pad || class->batch) && !(role == LEAT_ROLE_MASK && values);
}

static struct leat_branch *new_branch(const struct leat_op *op, enum leat_role role)
{
    struct leat_branch *branch = leat_new_array(1, sizeof *branch + op->n_alternatives * sizeof *branch->alternatives);
    for (size_t i = 0; branch && i < op->n_alternatives; i++) {
        struct leat_alternative *a = &branch->alternatives[branch->n++];
        const struct leat_op *end = op->alternatives[i + 1];
        a->uses = leat_new_array((size_t)(end - op->alternatives[i]) + 1, sizeof *a->uses);
        for (const struct leat_op *child = op->alternatives[i]; a->uses && child < end; child += 1 + child->below)
            if (leat_op_concerns(child, role))
                a->uses[a->n_uses++].op = child;
        if (a->uses)
            continue;
        leat_branch_free(branch);
        return NULL;
    }
    return branch;
}

/* The type that the i-th alternative makes of a type. */
static int infer_one(const struct leat_use *use, size_t i, enum leat_role role, const struct leat_place *place,
                     struct leat_type *type, struct leat_error *error)
{
    struct leat_alternative *a = &use->branch->alternatives[i];
    int rc = LEAT_OK;
    for (size_t k = 0; !rc && k < a->n_uses; k++) {
        struct leat_use *child = &a->uses[k];
        char words[160];
        snprintf(words, sizeof words, "%s in %s", child->op->class->type, place->type);
        const struct leat_place inside = {place->output, words};
        child->in = *type;
        child->effect = (struct leat_effect){0};
        rc = child->op->class->choose
                 ? leat_branch_infer(child, role, &inside, type, error)
                 : leat_op_infer(child->op->class, child->op->args, &inside, type, &child->effect, error);
        child->out = *type;
    }
    return rc;
}

static bool same_but_size(const struct leat_type *a, const struct leat_type *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->layout == b->layout && a->range == b->range &&
           a->ask == b->ask && a->ndim == b->ndim && leat_type_channels(a) == leat_type_channels(b);
}

static bool same_size(const struct leat_type *a, const struct leat_type *b)
{
    return leat_type_height(a) == leat_type_height(b) && leat_type_width(a) == leat_type_width(b);
}

static int check_same(const struct leat_place *place, const struct leat_type *wanted, const struct leat_type *got,
                      const char *why, struct leat_error *error)
{
    char words[2][256];
    if (same_but_size(wanted, got))
        return LEAT_OK;
    leat_type_words(wanted, words[0], sizeof words[0]);
    leat_type_words(got, words[1], sizeof words[1]);
    bool other_words = strcmp(words[0], words[1]) != 0;
    int rc = leat_fail(error, LEAT_E_TYPE, "%s in output '%s' %s: here %s and there %s%s.", place->type, place->output,
                       why, words[0], words[1],
                       other_words ? "" : ", with numbers of another range: put Normalize and ToDtype behind it");
    leat_error_at_sample(error, LEAT_NO_SAMPLE, place->output);
    return rc;
}

static void join(struct leat_type *type, const struct leat_type *other)
{
    leat_type_resize(type, leat_type_height(type) == leat_type_height(other) ? leat_type_height(type) : -1,
                     leat_type_width(type) == leat_type_width(other) ? leat_type_width(type) : -1);
}

/* All of them run, in any order: each takes the result of the one before, of any size if one changes it. */
static int infer_all(const struct leat_use *use, enum leat_role role, const struct leat_place *place,
                     struct leat_type *type, struct leat_error *error)
{
    struct leat_type open = *type, out = *type, probe = *type; /* of a size that no operator gives by itself */
    size_t changing = 0;
    leat_type_resize(&open, -1, -1);
    leat_type_resize(&probe, 1021, 1031);
    for (size_t i = 0; i < use->branch->n; i++) {
        struct leat_type known = *type, any = open, sized = probe;
        int rc = infer_one(use, i, role, place, &any, error);
        rc = rc ? rc : infer_one(use, i, role, place, &sized, error);
        rc = rc ? rc : infer_one(use, i, role, place, &known, error);
        rc = rc ? rc
                : check_same(place, type, &known,
                             "runs its operators in any order, and one changes what the others "
                             "take",
                             error);
        if (rc)
            return rc;
        if (!same_size(&known, type) || !same_size(&any, &open) || !same_size(&sized, &probe)) {
            changing++;
            out = known;
        }
    }
    for (size_t i = 0; changing && i < use->branch->n; i++) {
        struct leat_type any = open;
        int rc = infer_one(use, i, role, place, &any, error);
        if (rc)
            return rc;
    }
    *type = changing < 2 ? out : open;
    return LEAT_OK;
}

/* Whether the operators of a branch can be composed with the moves beside it; then `effect` describes them. */
static bool only_moves(const struct leat_branch *branch, struct leat_effect *effect)
{
    for (size_t i = 0; i < branch->n; i++)
        for (size_t k = 0; k < branch->alternatives[i].n_uses; k++) {
            const struct leat_use *use = &branch->alternatives[i].uses[k];
            const struct leat_effect *e = &use->effect;
            bool other = e->pads && effect->pads && memcmp(e->fill, effect->fill, sizeof e->fill);
            if (!leat_use_moves(use) || e->resizes || (e->pads && e->padding != LEAT_PAD_CONSTANT) || other)
                return false;
            effect->flips |= e->flips;
            if (e->pads) {
                effect->pads = true;
                effect->padding = e->padding;
                memcpy(effect->fill, e->fill, sizeof e->fill);
            }
        }
    return true;
}

static int infer_branch(struct leat_use *use, enum leat_role role, const struct leat_place *place,
                        struct leat_type *type, struct leat_error *error)
{
    const struct leat_op_class *class = use->op->class;
    int rc = leat_op_infer(class, use->op->args, place, type, &use->effect, error);
    if (!rc && !use->branch && !(use->branch = new_branch(use->op, role)))
        rc = leat_compile_no_memory(error);
    if (rc || class->branch == LEAT_BRANCH_ALL)
        return rc ? rc : infer_all(use, role, place, type, error);
    struct leat_type out = *type;
    for (size_t i = 0; !rc && i < use->branch->n; i++) {
        struct leat_type one = *type;
        rc = infer_one(use, i, role, place, &one, error);
        if (!rc && !i && class->branch == LEAT_BRANCH_ONE)
            out = one;
        rc = rc ? rc
                : check_same(place, &out, &one,
                             class->branch == LEAT_BRANCH_ONE ? "has alternatives that make values of two types"
                                                              : "changes the type of some rows and not of others",
                             error);
        join(&out, &one);
    }
    *type = out;
    return rc;
}

int leat_branch_infer(struct leat_use *use, enum leat_role role, const struct leat_place *place, struct leat_type *type,
                      struct leat_error *error)
{
    int rc = infer_branch(use, role, place, type, error);
    struct leat_effect effect = {0};
    if (!rc && only_moves(use->branch, &effect)) {
        use->effect = effect;
        use->effect.moves = true;
    }
    return rc;
}

int leat_branch_compile(struct leat_branch *branch, const struct leat_kernels *kernels)
{
    int rc = LEAT_OK;
    for (size_t i = 0; !rc && i < branch->n; i++) {
        struct leat_alternative *a = &branch->alternatives[i];
        if (a->n_uses)
            rc = leat_stages_compile(a->uses, a->n_uses, &a->uses[0].in, LEAT_STAGES_HAND_OVER, kernels, &a->stages,
                                     &a->n_stages);
    }
    return rc;
}

void leat_branch_free(struct leat_branch *branch)
{
    for (size_t i = 0; branch && i < branch->n; i++) {
        leat_stages_free(branch->alternatives[i].stages, branch->alternatives[i].n_stages);
        leat_uses_free(branch->alternatives[i].uses, branch->alternatives[i].n_uses);
    }
    leat_free(branch);
}

void leat_uses_free(struct leat_use *uses, size_t n)
{
    for (size_t i = 0; uses && i < n; i++)
        leat_branch_free(uses[i].branch);
    leat_free(uses);
}

/* ---- a row ---- */

unsigned leat_branch_choose(const struct leat_op *op, uint64_t row_key, uint8_t which[LEAT_MAX_ALTERNATIVES])
{
    return op->class->choose(op->args, leat_key_mix(row_key, op->instance), (unsigned)op->n_alternatives, which);
}

int leat_op_act(const struct leat_op *op, uint64_t row_key, leat_act_fn act, void *context)
{
    uint64_t key = leat_key_mix(row_key, op->instance);
    if (!op->class->choose)
        return op->class->skips && op->class->skips(op->args, key) ? 0 : act(context, op, key);
    uint8_t which[LEAT_MAX_ALTERNATIVES];
    unsigned n = leat_branch_choose(op, row_key, which);
    int rc = 0;
    for (unsigned i = 0; i < n; i++) {
        const struct leat_op *end = op->alternatives[which[i] + 1];
        for (const struct leat_op *child = op->alternatives[which[i]]; !rc && child < end; child += 1 + child->below)
            rc = leat_op_act(child, row_key, act, context);
    }
    return rc;
}
