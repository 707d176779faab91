/*
 * Programs whose sizes are drawn per batch. In the place of a size the text has
 *
 *     {"per_batch": 0, "sizes": [[160, 160], [192, 192]], "weights": [1, 2], "name": "..."}
 *
 * and the program is compiled once for each combination of sizes. Sizes with one number "per_batch" are drawn together.
 * The draw has a name as operators have: its own, or that of the operators that take it, of which the lowest instance
 * counts.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "op/program_internal.h"

#define MAX_DRAWS 16
#define MAX_VARIANTS 256

struct draw {
    const json_t *text;
    size_t n;
    double weights[MAX_VARIANTS]; /* added up */
    uint64_t instance;
};

struct leat_variants {
    json_t *json; /* of all of them */
    struct draw draws[MAX_DRAWS];
    size_t n_draws, n;
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

int leat_variants_find(json_t *json, struct leat_variants **out, struct leat_error *error)
{
    json_t *operator;
    const char *id;
    *out = NULL;
    json_object_foreach(json_object_get(json, "operators"), id, operator)
    {
        const json_t *size = size_of(operator);
        if (!size)
            continue;
        if (!*out) {
            *out = leat_new(struct leat_variants);
            if (!*out)
                return leat_fail(error, LEAT_E_NOMEM, "No memory to compile the program.");
            (*out)->json = json_incref(json);
            (*out)->n = 1;
        }
        int rc = add_draw(*out, id, size, error);
        if (rc)
            return rc;
    }
    return LEAT_OK;
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

json_t *leat_variants_text(const struct leat_variants *v, size_t variant)
{
    json_t *json = json_deep_copy(v->json), *operator;
    const char *id;
    json_object_foreach(json_object_get(json, "operators"), id, operator)
    {
        const json_t *size = size_of(operator);
        size_t rest = variant;
        for (size_t i = 0, end = size ? find_draw(v, size) : 0; i < end; i++)
            rest /= v->draws[i].n;
        if (size)
            json_object_set(operator, "size",
                            json_array_get(json_object_get(size, "sizes"), rest % v->draws[find_draw(v, size)].n));
    }
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

static bool serves(const struct leat_output *most, const struct leat_output *other)
{
    return most->dtype == other->dtype && most->ndim == other->ndim && most->ragged == other->ragged &&
           most->kind == other->kind && most->row_bytes >= other->row_bytes;
}

static void name_draws(struct leat_variants *v, const struct leat_program *p)
{
    for (size_t i = 0; i < v->n_draws; i++) {
        const char *name = json_string_value(json_object_get(v->draws[i].text, "name"));
        v->draws[i].instance = name ? leat_hash64(name, strlen(name)) : UINT64_MAX;
        for (size_t o = 0; o < p->n_ops && !name; o++) {
            const json_t *size = size_of(json_object_get(json_object_get(v->json, "operators"), p->ops[o].id));
            if (size && find_draw(v, size) == i && p->ops[o].instance < v->draws[i].instance)
                v->draws[i].instance = p->ops[o].instance;
        }
    }
}

int leat_variants_settle(struct leat_variants *v, struct leat_program **programs, struct leat_program **out,
                         struct leat_error *error)
{
    struct leat_program *most = programs[0];
    for (size_t i = 1; i < v->n; i++)
        most = row_bytes(programs[i]) > row_bytes(most) ? programs[i] : most;
    for (size_t i = 0; i < v->n; i++)
        for (size_t o = 0; o < most->n_outputs; o++)
            if (!serves(&most->outputs[o].face, &programs[i]->outputs[o].face))
                return leat_fail(error, LEAT_E_TYPE,
                                 "The sizes per batch of the program must have one choice that is the largest for "
                                 "every output, and for "
                                 "output '%s' it is not: draw them together.",
                                 most->outputs[o].face.name);
    name_draws(v, most);
    uint64_t hash = 0;
    for (size_t i = 0; i < v->n; i++)
        hash = leat_key_mix(hash, programs[i]->hash);
    for (size_t i = 0; i < v->n_draws; i++)
        hash = leat_key_mix(leat_key_mix(hash, v->draws[i].instance),
                            leat_hash64(v->draws[i].weights, v->draws[i].n * sizeof(double)));
    for (size_t i = 0; i < v->n; i++) {
        v->programs[i] = programs[i];
        most->n_times = programs[i]->n_times > most->n_times ? programs[i]->n_times : most->n_times;
        most->native_bytes =
            programs[i]->native_bytes > most->native_bytes ? programs[i]->native_bytes : most->native_bytes;
    }
    most->hash = hash;
    most->variants = v;
    *out = most;
    return LEAT_OK;
}

struct leat_program *leat_variants_get(const struct leat_variants *v, size_t variant)
{
    return v->programs[variant];
}

bool leat_program_varies(const struct leat_program *program)
{
    return program->variants != NULL;
}

const struct leat_program *leat_program_of_batch(const struct leat_program *program, uint64_t key)
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
    return v->programs[variant];
}
