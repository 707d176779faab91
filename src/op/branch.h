/*
 * Branches: operators whose arguments hold chains of other operators, and which draw the one to run (RandomApply,
 * RandomChoice, RandomOrder).
 *
 *     image --- RandomApply --------------------- +-> image
 *                   |                             |
 *                   +-> ColorJitter -> Blur ------+    stages of their own, fused as those of a chain
 *
 * A branch is a stage (stage.h). For a row it runs the stages of the alternatives that are drawn, one after the other,
 * between the same two buffers as all stages; one that does nothing copies nothing. An operator in a branch is named
 * "<name of the branch>/<alternative>/<type>/<ordinal of the type in it>", so that its draws depend on nothing beside.
 * Targets follow the operators that leat_op_act gives, which are those that the pixels went through.
 */
#ifndef LEAT_OP_BRANCH_H
#define LEAT_OP_BRANCH_H

#include "base/role.h"
#include "op/stage.h"

#define LEAT_MAX_BRANCH_DEPTH 16

/* One chain of a branch: from images to images. */
struct leat_alternative {
    struct leat_use *uses;
    size_t n_uses;
    struct leat_stage *stages; /* all hand over; without any the image stays */
    size_t n_stages;
};
struct leat_branch {
    size_t n;
    struct leat_alternative alternatives[];
};

/* The number of operators that a JSON object describes, with those in its branches; 0: too deep, or no object. */
size_t leat_branch_count(const json_t *object);
/* Reads the alternatives of a branch into the operators behind `op`, with `parse` for each. */
typedef int (*leat_branch_parse_fn)(void *context, struct leat_op *op, const json_t *object, struct leat_error *error);
int leat_branch_parse(struct leat_op *op, const json_t *object, leat_branch_parse_fn parse, void *context,
                      struct leat_error *error);
/* The alternatives that run for the row of this key; returns their number. */
unsigned leat_branch_choose(const struct leat_op *op, uint64_t row_key, uint8_t which[LEAT_MAX_ALTERNATIVES]);

/* Whether an operator, or one below it, concerns a field of this role: for a mask those that move pixels. */
bool leat_op_concerns(const struct leat_op *op, enum leat_role role);
/* Infers the result of a branch for a type, for a field of this role: compiles use->branch up to its types. If the
 * sizes of the alternatives differ, that of the result is open. */
int leat_branch_infer(struct leat_use *use, enum leat_role role, const struct leat_place *place, struct leat_type *type,
                      struct leat_error *error);
/* Cuts the alternatives into stages. NOMEM. */
int leat_branch_compile(struct leat_branch *branch, const struct leat_kernels *kernels);
void leat_branch_free(struct leat_branch *branch);
/* Releases the uses of a chain and the branches in it. */
void leat_uses_free(struct leat_use *uses, size_t n);

/* Calls `act` for the operators that act on the row of this key, in order: for `op` unless it skips the row, or for
 * those that a branch has drawn. `key`: the operator's own. Ends with the first value that is not 0. */
typedef int (*leat_act_fn)(void *context, const struct leat_op *op, uint64_t key);
int leat_op_act(const struct leat_op *op, uint64_t row_key, leat_act_fn act, void *context);

#endif
