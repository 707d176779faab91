/*
 * The operators of a program: read from its JSON, named, and hashed. The name of an operator's instance decides what it
 * draws, so it follows from the output in which it stands first, and from no name that may change without need.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "op/branch.h"
#include "op/program_internal.h"

#define MAX_OPERATORS 65536
#define MAX_NAME 255
#define MAX_INSTANCE_NAME (2 * MAX_NAME + 64 * (LEAT_MAX_BRANCH_DEPTH + 1))

static uint64_t hash_args(const struct leat_op *op)
{
    return op->class->hash ? op->class->hash(op->args) : leat_hash64(op->args, op->class->args_bytes);
}

/* ---- reading and naming ---- */

struct parsing {
    struct leat_program *program;
    const char *id; /* of the operator, or of that in whose branches it stands */
};

static int parse_operator(void *context, struct leat_op *op, const json_t *object, struct leat_error *error)
{
    const struct parsing *parsing = context;
    struct leat_program *program = parsing->program;
    const char *type = json_string_value(json_object_get(object, "type")), *id = parsing->id;
    if (!type)
        return leat_fail(error, LEAT_E_INVALID,
                         "Operator \"%.64s\" of the program needs a \"type\", such as \"Decode\".", id);
    for (size_t i = 0; leat_operators[i]; i++)
        if (!strcmp(leat_operators[i]->type, type))
            op->class = leat_operators[i];
    if (!op->class)
        return leat_fail(error, LEAT_E_INVALID, "Operator \"%.64s\" of the program has an unknown type, \"%.64s\".", id,
                         type);
    const json_t *name = json_object_get(object, "name");
    op->left_out = json_is_true(json_object_get(object, "left_out"));
    op->id = op->depth ? NULL : id;
    op->name = json_string_value(name);
    if (name && !json_is_null(name) && (!op->name || !*op->name || strlen(op->name) > MAX_NAME))
        return leat_fail(error, LEAT_E_INVALID, "%s: name must be text of 1 to %d bytes.", type, MAX_NAME);
    op->aim = op->class->aim ? program->n_aims++ : 0;
    op->args = leat_new_array(1, op->class->args_bytes ? op->class->args_bytes : 1);
    if (!op->args)
        return leat_compile_no_memory(error);
    struct leat_args args = {.object = object, .operator_type = type, .error = error};
    if (op->class->parse)
        op->class->parse(op->args, &args);
    if (op->class->choose)
        leat_args_get(&args, "transforms");
    int rc = leat_args_end(&args);
    if (!rc && op->class->choose)
        rc = leat_branch_parse(op, object, parse_operator, context, error);
    if (!rc && op->class->bind)
        rc = op->class->bind(op->args, program->functions, program->n_functions, error);
    return rc;
}

int leat_parse_operators(struct leat_program *program, struct leat_error *error)
{
    json_t *table = json_object_get(program->json, "operators"), *object;
    if (table && !json_is_object(table))
        return leat_fail(error, LEAT_E_INVALID, "\"operators\" of the program must be an object of operators by id.");
    size_t n = 0;
    const char *id;
    json_object_foreach(table, id, object)
    {
        n += leat_branch_count(object);
    }
    if (n > MAX_OPERATORS)
        return leat_fail(error, LEAT_E_INVALID, "The program has %zu operators; %d are allowed.", n, MAX_OPERATORS);
    program->ops = leat_new_array(n ? n : 1, sizeof *program->ops);
    if (!program->ops)
        return leat_compile_no_memory(error);
    json_object_foreach(table, id, object)
    {
        struct parsing parsing = {program, id};
        struct leat_op *op = &program->ops[program->n_ops];
        int rc = parse_operator(&parsing, op, object, error);
        program->n_ops += 1 + op->below;
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

/*
 * Operators of one name share their draw: an image and its mask in chains of their own, which differ in how pixels are
 * resampled only. In one chain they would draw the same twice.
 */
static bool may_share(const struct leat_program *program, const struct leat_op *a, const struct leat_op *b)
{
    if (a->class != b->class)
        return false;
    const struct leat_op *in_a = a, *in_b = b; /* the operators of chains in which they stand */
    while (in_a->depth)
        in_a--;
    while (in_b->depth)
        in_b--;
    if (in_a == in_b || !(a->name || in_a->name) || !(b->name || in_b->name))
        return false;
    for (size_t c = 0; c < program->n_chains; c++) {
        bool has_a = false, has_b = false;
        for (size_t k = 0; k < program->chains[c].n_uses; k++) {
            has_a |= program->chains[c].uses[k].op == in_a;
            has_b |= program->chains[c].uses[k].op == in_b;
        }
        if (has_a && has_b)
            return false;
    }
    if (a->class->same_draw)
        return a->class->same_draw(a->args, b->args);
    return hash_args(a) == hash_args(b);
}

/* Gives an operator its instance and those in its branches theirs; `used`: some chain has it. */
static int name_instance(struct leat_program *program, struct leat_op *op, const char *name, bool used,
                         struct leat_error *error)
{
    op->instance = leat_hash64(name, strlen(name));
    for (struct leat_op *other = program->ops; other < op && used; other++)
        if (other->instance == op->instance && !may_share(program, other, op))
            return leat_fail(error, LEAT_E_INVALID,
                             "Two operators of the program are both named \"%.128s\"; they would draw the same. Only "
                             "operators of one type and equal in what they draw share a name, in different chains.",
                             name);
    for (size_t i = 0; i < op->n_alternatives; i++) {
        const struct leat_op *begin = op->alternatives[i], *end = op->alternatives[i + 1];
        for (const struct leat_op *child = begin; child < end; child += 1 + child->below) {
            char text[MAX_INSTANCE_NAME];
            unsigned ordinal = 0;
            for (const struct leat_op *before = begin; before < child; before += 1 + before->below)
                ordinal += before->class == child->class;
            if (child->name)
                snprintf(text, sizeof text, "%s", child->name);
            else
                snprintf(text, sizeof text, "%s/%zu/%s/%u", name, i, child->class->type, ordinal);
            int rc = name_instance(program, program->ops + (child - program->ops), text, used, error);
            if (rc)
                return rc;
        }
    }
    return LEAT_OK;
}

/*
 * Names the instances: name=, or "<output>/<type>/<ordinal of the type in that chain>" in the alphabetically first
 * output that uses the operator; for a tuple its first output counts. So a Normalize more or less changes no crop, an
 * operator in two chains draws once, and an image is cropped alike with its boxes and without. In a branch: "<name of
 * the branch>/<alternative>/<type>/<ordinal of the type in it>".
 */
int leat_name_instances(struct leat_program *program, struct leat_error *error)
{
    for (size_t o = 0; o < program->n_ops; o += 1 + program->ops[o].below) {
        struct leat_op *op = &program->ops[o];
        const char *best = NULL;
        unsigned ordinal = 0;
        for (size_t i = 0; i < program->n_chains; i++) {
            const struct leat_compiled_chain *c = &program->chains[i];
            unsigned before = 0;
            for (size_t k = 0; k < c->n_uses; k++) {
                if (c->uses[k].op == op && (!best || strcmp(c->name, best) < 0)) {
                    best = c->name;
                    ordinal = before;
                    break;
                }
                before += c->uses[k].op->class == op->class;
            }
        }
        char name[MAX_INSTANCE_NAME];
        if (op->name)
            snprintf(name, sizeof name, "%s", op->name);
        else
            snprintf(name, sizeof name, "%s/%s/%u", best ? best : "", op->class->type, ordinal);
        int rc = name_instance(program, op, name, best || op->name, error);
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

/* ---- hashing ---- */

uint64_t leat_op_hash(const struct leat_op *op, uint64_t hash)
{
    hash = leat_key_mix(
        leat_key_mix(leat_key_mix(hash, leat_hash64(op->class->type, strlen(op->class->type))), op->instance),
        hash_args(op));
    for (size_t i = 0; i < op->n_alternatives; i++) {
        const struct leat_op *end = op->alternatives[i + 1];
        hash = leat_key_mix(hash, i);
        for (const struct leat_op *child = op->alternatives[i]; child < end; child += 1 + child->below)
            hash = leat_op_hash(child, hash);
    }
    return hash;
}
