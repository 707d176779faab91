/*
 * Programs whose sizes are drawn per batch. In the place of a size the text has
 *
 *     {"per_batch": 0, "sizes": [[160, 160], [192, 192]], "weights": [1, 2], "name": "..."}
 *
 * and the program is compiled once for each combination of sizes. Sizes with one number "per_batch" are drawn together.
 * The draw has a name as operators have: its own, or that of the operators that take it, by the lowest instance.
 *
 * An operator that is only for some epochs has
 *
 *     "epochs": [first, end]     end: the first epoch without it, or null
 *
 * These bounds cut the epochs into phases, and the program is compiled once for each phase, without the operators that
 * are left out in it; all operators keep the names, and so the draws, that they have in the whole chain. The variant of
 * a batch follows from its epoch and its key.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "op/program_internal.h"

#define MAX_DRAWS 16
#define MAX_VARIANTS 256
#define MAX_BOUNDS 32

struct draw {
    const json_t *text;
    size_t n;
    double weights[MAX_VARIANTS]; /* added up */
    uint64_t instance;
};

struct leat_variants {
    json_t *json; /* of all of them */
    struct draw draws[MAX_DRAWS];
    size_t n_draws, n;           /* n: combinations of sizes times phases */
    uint64_t bounds[MAX_BOUNDS]; /* rising: phase k begins with epoch bounds[k - 1], phase 0 with epoch 0 */
    size_t n_bounds;
    struct leat_program *programs[MAX_VARIANTS];
};

static int fail_size(struct leat_error *error, const char *id, const char *wanted)
{
    return leat_fail(error, LEAT_E_INVALID, "The size per batch of operator \"%.64s\" needs %s.", id, wanted);
}

static const json_t *size_of(const json_t *operator)
{
    const json_t *size = json_object_get(operator, "size");
    return json_object_get(size, "per_batch") ? size : NULL;
}

static size_t find_draw(const struct leat_variants *v, const json_t *size)
{
    size_t i = 0;
    while (i < v->n_draws &&
           !json_equal(json_object_get(v->draws[i].text, "per_batch"), json_object_get(size, "per_batch")))
        i++;
    return i;
}

static int add_draw(struct leat_variants *v, const char *id, const json_t *size, struct leat_error *error)
{
    const json_t *sizes = json_object_get(size, "sizes"), *weights = json_object_get(size, "weights");
    const json_t *name = json_object_get(size, "name");
    size_t i = find_draw(v, size), n = json_array_size(sizes);
    if (i < v->n_draws)
        return json_equal((json_t *)(uintptr_t)v->draws[i].text, (json_t *)(uintptr_t)size)
                   ? LEAT_OK
                   : fail_size(error, id, "what the others of its number have");
    if (!n || n > MAX_VARIANTS)
        return fail_size(error, id, "\"sizes\", a list of 1 to 256 sizes");
    if (name && !json_is_null(name) && !(json_is_string(name) && json_string_length(name)))
        return fail_size(error, id, "a \"name\" that is text");
    if (weights && !json_is_null(weights) && json_array_size(weights) != n)
        return fail_size(error, id, "as many \"weights\" as sizes");
    if (v->n_draws == MAX_DRAWS || v->n * n > MAX_VARIANTS)
        return leat_fail(error, LEAT_E_INVALID, "The sizes per batch of the program have more than %d combinations.",
                         MAX_VARIANTS);
    struct draw *draw = &v->draws[v->n_draws++];
    *draw = (struct draw){.text = size, .n = n};
    double sum = 0;
    for (size_t k = 0; k < n; k++) {
        const json_t *weight = json_array_get(weights, k);
        double one = weight ? json_number_value(weight) : 1;
        if ((weight && !json_is_number(weight)) || !(one >= 0 && one < 1e300))
            return fail_size(error, id, "\"weights\" that are numbers from 0");
        draw->weights[k] = sum += one;
    }
    v->n *= n;
    return sum > 0 ? LEAT_OK : fail_size(error, id, "a weight above 0");
}

/* Calls `visit` for the operators of a JSON value and those in their branches, in the order of a program's table; it
 * ends with the first value that is not 0. */
typedef int (*visit_fn)(void *context, const char *id, json_t *operator);

static int visit_below(json_t *value, const char *id, visit_fn visit, void *context)
{
    json_t *list = json_is_array(value) ? value : json_object_get(value, "transforms");
    int rc = json_is_array(value) ? 0 : visit(context, id, value);
    for (size_t i = 0; !rc && i < json_array_size(list); i++)
        rc = visit_below(json_array_get(list, i), id, visit, context);
    return rc;
}

static int visit_operators(json_t *json, visit_fn visit, void *context)
{
    const char *id;
    json_t *operator;
    int rc = 0;
    json_object_foreach(json_object_get(json, "operators"), id, operator)
    {
        rc = rc ? rc : visit_below(operator, id, visit, context);
    }
    return rc;
}

/* Whether the operator has epochs, and which ones. */
static int epochs_of(const char *id, const json_t *operator, bool * has, uint64_t epochs[2], struct leat_error *error)
{
    const json_t *pair = json_object_get(operator, "epochs"), *first = json_array_get(pair, 0),
                 *end = json_array_get(pair, 1);
    *has = pair != NULL;
    if (!pair)
        return LEAT_OK;
    epochs[0] = (uint64_t)json_integer_value(first);
    epochs[1] = json_is_null(end) ? UINT64_MAX : (uint64_t)json_integer_value(end);
    bool good = json_array_size(pair) == 2 && json_is_integer(first) && json_integer_value(first) >= 0 &&
                (json_is_null(end) || (json_is_integer(end) && json_integer_value(end) >= 0)) && epochs[0] < epochs[1];
    return good ? LEAT_OK
                : leat_fail(error, LEAT_E_INVALID,
                            "The epochs of operator \"%.64s\" must be [first, end] with 0 <= first < end, or end null.",
                            id);
}

static int add_bound(struct leat_variants *v, uint64_t epoch, struct leat_error *error)
{
    size_t at = 0;
    while (at < v->n_bounds && v->bounds[at] < epoch)
        at++;
    if (!epoch || epoch == UINT64_MAX || (at < v->n_bounds && v->bounds[at] == epoch))
        return LEAT_OK;
    if (v->n_bounds == MAX_BOUNDS || v->n / (v->n_bounds + 1) * (v->n_bounds + 2) > MAX_VARIANTS)
        return leat_fail(error, LEAT_E_INVALID,
                         "The program has more than %d combinations of sizes per batch and epochs at which operators "
                         "come or go.",
                         MAX_VARIANTS);
    memmove(v->bounds + at + 1, v->bounds + at, (v->n_bounds - at) * sizeof *v->bounds);
    v->bounds[at] = epoch;
    v->n = v->n / (v->n_bounds + 1) * (v->n_bounds + 2);
    v->n_bounds++;
    return LEAT_OK;
}

static size_t phase_of(const struct leat_variants *v, uint64_t epoch)
{
    size_t phase = 0;
    while (phase < v->n_bounds && v->bounds[phase] <= epoch)
        phase++;
    return phase;
}

struct finding {
    json_t *json;
    struct leat_variants **out;
    struct leat_error *error;
};

static int find_size(void *context, const char *id, json_t *operator)
{
    struct finding *f = context;
    const json_t *size = size_of(operator);
    uint64_t epochs[2] = {0};
    bool some_epochs;
    int rc = epochs_of(id, operator, & some_epochs, epochs, f->error);
    if (rc)
        return rc;
    if (some_epochs && json_object_get(json_object_get(f->json, "operators"), id) != operator)
        return leat_fail(f->error, LEAT_E_INVALID,
                         "An operator within operator \"%.64s\" has epochs: give them to that one.", id);
    if (!size && !some_epochs)
        return LEAT_OK;
    if (!*f->out) {
        *f->out = leat_new(struct leat_variants);
        if (!*f->out)
            return leat_fail(f->error, LEAT_E_NOMEM, "No memory to compile the program.");
        (*f->out)->json = json_incref(f->json);
        (*f->out)->n = 1;
    }
    rc = size ? add_draw(*f->out, id, size, f->error) : LEAT_OK;
    for (int i = 0; i < 2 && some_epochs && !rc; i++)
        rc = add_bound(*f->out, epochs[i], f->error);
    return rc;
}

int leat_variants_find(json_t *json, struct leat_variants **out, struct leat_error *error)
{
    struct finding f = {json, out, error};
    *out = NULL;
    return visit_operators(json, find_size, &f);
}

void leat_variants_free(struct leat_variants *v)
{
    if (v)
        json_decref(v->json);
    leat_free(v);
}

size_t leat_variants_count(const struct leat_variants *v)
{
    return v->n;
}

struct setting {
    const struct leat_variants *variants;
    size_t variant;
};

static int set_size(void *context, const char *id, json_t *operator)
{
    const struct setting *s = context;
    const struct leat_variants *v = s->variants;
    const json_t *size = size_of(operator);
    size_t rest = s->variant, draw = size ? find_draw(v, size) : 0;
    for (size_t i = 0; i < draw; i++)
        rest /= v->draws[i].n;
    if (size)
        json_object_set(operator, "size", json_array_get(json_object_get(size, "sizes"), rest % v->draws[draw].n));
    uint64_t epochs[2];
    bool some_epochs;
    epochs_of(id, operator, & some_epochs, epochs, NULL);
    if (!some_epochs)
        return 0;
    size_t phase = s->variant / (v->n / (v->n_bounds + 1));
    uint64_t epoch = phase ? v->bounds[phase - 1] : 0;
    json_object_del(operator, "epochs");
    if (epoch < epochs[0] || epoch >= epochs[1])
        json_object_set_new(operator, "left_out", json_true());
    return 0;
}

json_t *leat_variants_text(const struct leat_variants *v, size_t variant)
{
    json_t *json = json_deep_copy(v->json);
    struct setting s = {v, variant};
    visit_operators(json, set_size, &s);
    return json;
}

/* Bytes of a row of all dense outputs. */
static uint64_t row_bytes(const struct leat_program *p)
{
    uint64_t sum = 0;
    for (size_t o = 0; o < p->n_outputs; o++)
        sum += p->outputs[o].face.ragged ? 0 : p->outputs[o].face.row_bytes;
    return sum;
}

/* Of the sparse rows that an output delivers, whole or in numbers for all their values; 0: of none. */
static int64_t columns_of(const struct leat_compiled *c)
{
    const struct leat_use *last = c->n_uses ? &c->uses[c->n_uses - 1] : NULL;
    if (!last)
        return c->in.columns;
    return last->op->class->count ? last->out.columns : last->in.columns;
}

/* Lengths may be bounds in some variants only: each batch is sized by its own, and all note what they made. */
static bool same_type(const struct leat_compiled *one, const struct leat_compiled *other)
{
    const struct leat_output *a = &one->face, *b = &other->face;
    return a->dtype == b->dtype && a->ndim == b->ndim && a->ragged == b->ragged && a->kind == b->kind &&
           a->decodes == b->decodes && a->in_place == b->in_place && columns_of(one) == columns_of(other);
}

static bool same_shape(const struct leat_output *a, const struct leat_output *b)
{
    return a->row_bytes == b->row_bytes && !memcmp(a->shape, b->shape, a->ndim * sizeof *a->shape) &&
           !memcmp(a->strides, b->strides, a->ndim * sizeof *a->strides);
}

static int check_outputs(const struct leat_variants *v, const struct leat_program *most,
                         const struct leat_program *other, struct leat_error *error)
{
    for (size_t o = 0; o < most->n_outputs; o++) {
        const struct leat_output *a = &most->outputs[o].face, *b = &other->outputs[o].face;
        if (!same_type(&most->outputs[o], &other->outputs[o]) || (!v->n_draws && !same_shape(a, b)))
            return leat_fail(error, LEAT_E_TYPE,
                             "Output '%s' is of another type or shape in some epochs: an operator that is left out in "
                             "them must not change what it is.",
                             a->name);
        if (a->row_bytes < b->row_bytes)
            return leat_fail(error, LEAT_E_TYPE,
                             "The sizes per batch of the program must have one choice that is the largest for every "
                             "output, and for output '%s' it is not: draw them together.",
                             a->name);
    }
    return LEAT_OK;
}

/* The loader's questions to the root hold for all variants; each phase has steps, and so times, of its own. */
static void gather(struct leat_variants *v, struct leat_program *most)
{
    size_t n_times = 0, n_sizes = v->n / (v->n_bounds + 1);
    for (size_t i = 0; i < v->n; i++)
        n_times = v->programs[i]->n_times > n_times ? v->programs[i]->n_times : n_times;
    for (size_t i = 0; i < v->n; i++) {
        struct leat_program *p = v->programs[i];
        for (size_t o = 0; o < p->n_outputs; o++) {
            struct leat_compiled *c = &p->outputs[o];
            c->first_time += i / n_sizes * n_times;
            for (size_t k = 0; k < c->n_parts; k++)
                c->parts[k].first_time += i / n_sizes * n_times;
            most->outputs[o].face.bounded |= c->face.bounded;
            most->outputs[o].face.keyed |= c->face.keyed;
            most->outputs[o].face.grows |= c->face.grows;
            most->outputs[o].face.turns |= c->face.turns;
        }
        for (size_t c = 0; c < p->n_chains; c++) {
            struct leat_program_chain *all = &most->chains[c].face, *one = &p->chains[c].face;
            all->keyed |= one->keyed;
            all->pieces = one->pieces > all->pieces ? one->pieces : all->pieces;
        }
        most->native_bytes = p->native_bytes > most->native_bytes ? p->native_bytes : most->native_bytes;
    }
    for (size_t i = 0; i < v->n; i++)
        for (size_t o = 0; o < most->n_outputs; o++) /* their steps are noted with those of the others */
            v->programs[i]->outputs[o].face.bounded = most->outputs[o].face.bounded;
    most->n_times = n_times * (v->n_bounds + 1);
}

struct naming {
    struct leat_variants *variants;
    const struct leat_op *op; /* of the operator that is visited */
};

static int name_draw(void *context, const char *id, json_t *operator)
{
    struct naming *n = context;
    const json_t *size = size_of(operator);
    struct draw *draw = size ? &n->variants->draws[find_draw(n->variants, size)] : NULL;
    if (draw && !json_is_string(json_object_get(draw->text, "name")) && n->op->instance < draw->instance)
        draw->instance = n->op->instance;
    n->op++;
    return 0;
}

static void name_draws(struct leat_variants *v, const struct leat_program *p)
{
    struct naming n = {v, p->ops};
    for (size_t i = 0; i < v->n_draws; i++) {
        const char *name = json_string_value(json_object_get(v->draws[i].text, "name"));
        v->draws[i].instance = name ? leat_hash64(name, strlen(name)) : UINT64_MAX;
    }
    visit_operators(v->json, name_draw, &n);
}

int leat_variants_settle(struct leat_variants *v, struct leat_program **programs, struct leat_program **out,
                         struct leat_error *error)
{
    struct leat_program *most = programs[0];
    for (size_t i = 1; i < v->n; i++)
        most = row_bytes(programs[i]) > row_bytes(most) ? programs[i] : most;
    int rc = LEAT_OK;
    for (size_t i = 0; !rc && i < v->n; i++)
        rc = check_outputs(v, most, programs[i], error);
    if (rc)
        return rc;
    name_draws(v, most);
    uint64_t hash = 0;
    for (size_t i = 0; i < v->n; i++)
        hash = leat_key_mix(hash, programs[i]->hash);
    for (size_t i = 0; i < v->n_draws; i++)
        hash = leat_key_mix(leat_key_mix(hash, v->draws[i].instance),
                            leat_hash64(v->draws[i].weights, v->draws[i].n * sizeof(double)));
    if (v->n_bounds)
        hash = leat_key_mix(hash, leat_hash64(v->bounds, v->n_bounds * sizeof *v->bounds));
    memcpy(v->programs, programs, v->n * sizeof *programs);
    gather(v, most);
    most->hash = hash;
    most->variants = v;
    *out = most;
    return LEAT_OK;
}

size_t leat_variants_phases(const struct leat_variants *v)
{
    return v->n_bounds + 1;
}

struct leat_program *leat_variants_get(const struct leat_variants *v, size_t variant)
{
    return v->programs[variant];
}

bool leat_program_varies(const struct leat_program *program)
{
    return program->variants && program->variants->n_draws;
}

bool leat_program_has_variants(const struct leat_program *program)
{
    return program->variants != NULL;
}

const struct leat_program *leat_program_of_batch(const struct leat_program *program, uint64_t epoch, uint64_t key)
{
    const struct leat_variants *v = program->variants;
    if (!v)
        return program;
    size_t variant = 0, step = 1;
    for (size_t i = 0; i < v->n_draws; i++) {
        const struct draw *draw = &v->draws[i];
        double at = leat_draw_unit(leat_key_mix(key, draw->instance), 0) * draw->weights[draw->n - 1];
        size_t k = 0;
        while (k + 1 < draw->n && at >= draw->weights[k])
            k++;
        variant += k * step;
        step *= draw->n;
    }
    variant += phase_of(v, epoch) * step;
    return v->programs[variant];
}
