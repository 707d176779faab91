/*
 * The groups of sorted prompts that save most.
 *
 * What neighbours have in common makes a tree: a node is a prefix that several prompts share and at which they part.
 *
 *     common        0   9   9   4   4   0             nodes: 9 (prompts 0 to 2), 4 (0 to 4)
 *     prompt      | 0 | 1 | 2 | 3 | 4 |
 *
 * Some nodes are chosen as prefixes, and a prompt belongs to its deepest chosen one. A chosen node v with n prompts
 * below it, of `depth` tokens, whose nearest chosen ancestor has d tokens, saves n (depth - d) - depth; nodes below
 * then compete with `depth` in the place of d. So the most that can be saved below v is a function of d alone,
 *
 *     S(d) = max(A(d), n (depth - d) - depth + A(depth)),      A: the sum over the children of v
 *
 * It falls in d, is convex and made of straight pieces, since the second line is the steepest: v is chosen for all d
 * below some limit, and for no others. S is kept as what it is at the depth of the parent, which d never exceeds, and
 * as hinges (x, w), of which each adds w max(0, x - d): all whole numbers, so it is exact. One pass over the prompts
 * from the last to the first finds limits, children first; their list, read from its end, has parents first and
 * siblings in order, and says for each node whether it is chosen. The pass keeps the nodes above the prompt that it is
 * at, each with the sum over those children that it has met.
 *
 * Hinges of a node stand at different whole numbers up to its depth, and its depth is at most the tokens of a prompt
 * below: all work together is at most in proportion to all tokens, however prompts share.
 */
#include "plan/prompt_tree.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"

#define NONE UINT32_MAX

struct hinge {
    uint32_t at, weight, next; /* by falling `at` */
};

/* A function of d, for d up to the depth that it was cut at. */
struct savings {
    uint64_t there; /* at that depth */
    uint32_t hinges;
};

/* A node above the prompt that the pass is at. */
struct level {
    uint64_t end; /* behind its last prompt */
    uint32_t depth;
    struct savings sum; /* over its children so far, up to its depth */
};

/* A node that may be chosen. */
struct node {
    uint32_t first, count, depth;
    uint32_t limit; /* chosen if the nearest chosen one above has fewer tokens; later: that one */
};

struct tree {
    struct hinge *hinges;
    size_t n_hinges, hinge_room;
    uint32_t unused; /* hinges */
    struct level *levels;
    size_t n_levels, level_room;
    struct node *nodes;
    size_t n_nodes, node_room;
};

/* ---- functions --------------------------------------------------------------------------------------------------- */

static uint32_t new_hinge(struct tree *t, uint32_t at, uint64_t weight, uint32_t next)
{
    uint32_t h = t->unused;
    if (h != NONE)
        t->unused = t->hinges[h].next;
    else if (t->n_hinges == NONE || !leat_grow(&t->hinges, &t->hinge_room, t->n_hinges + 1, sizeof *t->hinges))
        return NONE;
    else
        h = (uint32_t)t->n_hinges++;
    t->hinges[h] = (struct hinge){at, (uint32_t)weight, next};
    return h;
}

static uint32_t drop_hinge(struct tree *t, uint32_t h)
{
    const uint32_t next = t->hinges[h].next;
    t->hinges[h].next = t->unused;
    t->unused = h;
    return next;
}

/* The same function for d up to `depth` alone. */
static void cut(struct tree *t, struct savings *s, uint32_t depth)
{
    uint64_t weight = 0;
    while (s->hinges != NONE && t->hinges[s->hinges].at >= depth) {
        const struct hinge *h = &t->hinges[s->hinges];
        s->there += (uint64_t)h->weight * (h->at - depth);
        weight += h->weight;
        s->hinges = drop_hinge(t, s->hinges);
    }
    if (weight && depth)
        s->hinges = new_hinge(t, depth, weight, s->hinges); /* it takes the place of one that was dropped */
}

/* Adds b to a, both up to one depth. */
static void add(struct tree *t, struct savings *a, struct savings b)
{
    uint32_t *to = &a->hinges, from = b.hinges;
    a->there += b.there;
    while (from != NONE) {
        while (*to != NONE && t->hinges[*to].at > t->hinges[from].at)
            to = &t->hinges[*to].next;
        if (*to != NONE && t->hinges[*to].at == t->hinges[from].at) {
            t->hinges[*to].weight += t->hinges[from].weight;
            from = drop_hinge(t, from);
        } else {
            const uint32_t next = t->hinges[from].next;
            t->hinges[from].next = *to;
            *to = from;
            from = next;
        }
    }
}

/* Where the line of a node with n prompts stops being above the sum over its children: the last d at which it is.
 * *weight and *moment: of the hinges above that, the sums of w and of w x. False: it never is. */
static bool find_limit(const struct tree *t, const struct level *v, uint64_t n, uint32_t *last, uint64_t *weight,
                       uint64_t *moment)
{
    uint32_t h = v->sum.hinges, high = v->depth - 1; /* at `depth` it is below by the cost of the prefix */
    *weight = *moment = 0;
    for (;;) {
        for (; h != NONE && t->hinges[h].at > high; h = t->hinges[h].next) {
            *weight += t->hinges[h].weight;
            *moment += (uint64_t)t->hinges[h].weight * t->hinges[h].at;
        }
        /* For d in [low, high]: is (n - weight) d below n depth - depth - moment? */
        const uint32_t low = h == NONE ? 0 : t->hinges[h].at;
        const int64_t rest = (int64_t)((n - 1) * v->depth) - (int64_t)*moment;
        if (rest > 0) {
            const uint64_t slope = n - *weight, d = slope ? (uint64_t)(rest - 1) / slope : high;
            *last = d < high ? (uint32_t)d : high;
            if (*last >= low)
                return true;
        }
        if (!low)
            return false;
        high = low - 1;
    }
}

/* Replaces the sum over the children by the most that can be saved below v. *limit: v is chosen below it. */
static int raise_to_line(struct tree *t, struct level *v, uint64_t n, uint32_t *limit, struct leat_error *error)
{
    uint64_t weight, moment, kept = 0; /* kept: weight of the hinges beyond the limit, which stay */
    uint32_t last, tail = NONE, h = v->sum.hinges;
    *limit = 0;
    if (!v->depth || !find_limit(t, v, n, &last, &weight, &moment))
        return LEAT_OK;
    *limit = last + 1;
    for (; h != NONE && t->hinges[h].at > *limit; h = t->hinges[h].next) {
        kept += t->hinges[h].weight;
        tail = h;
    }
    while (h != NONE)
        h = drop_hinge(t, h);
    const uint64_t at_last = n * (v->depth - last) - v->depth, at_limit = moment - weight * *limit;
    const uint64_t step = at_last - at_limit; /* the function falls by so much from `last` to the limit */
    bool room = true;
    if (last && n > step)
        room = (h = new_hinge(t, last, n - step, NONE)) != NONE;
    if (room && step > kept)
        room = (h = new_hinge(t, *limit, step - kept, h)) != NONE;
    *(tail == NONE ? &v->sum.hinges : &t->hinges[tail].next) = h;
    return room ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for groups of prompts");
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

static int push(struct tree *t, uint32_t depth, uint64_t end, struct savings sum, struct leat_error *error)
{
    if (!leat_grow(&t->levels, &t->level_room, t->n_levels + 1, sizeof *t->levels))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for groups of prompts");
    t->levels[t->n_levels++] = (struct level){end, depth, sum};
    return LEAT_OK;
}

/* The deepest node begins at prompt `first`; nodes above have at most `depth` tokens in common with those before. */
static int pop(struct tree *t, uint64_t first, uint32_t depth, struct leat_error *error)
{
    struct level v = t->levels[--t->n_levels];
    const uint64_t n = v.end - first;
    uint32_t limit;
    int rc = raise_to_line(t, &v, n, &limit, error);
    if (rc)
        return rc;
    if (limit) {
        if (!leat_grow(&t->nodes, &t->node_room, t->n_nodes + 1, sizeof *t->nodes))
            return leat_fail(error, LEAT_E_NOMEM, "no memory for groups of prompts");
        t->nodes[t->n_nodes++] = (struct node){(uint32_t)first, (uint32_t)n, v.depth, limit};
    }
    struct level *above = &t->levels[t->n_levels - 1];
    const uint32_t parent = above->depth > depth ? above->depth : depth;
    cut(t, &v.sum, parent);
    if (above->depth < depth)
        return push(t, depth, v.end, v.sum, error);
    add(t, &above->sum, v.sum);
    return LEAT_OK;
}

/* Finds the limits of all nodes, and the most that can be saved. */
static int walk(struct tree *t, const uint32_t *common, uint64_t n, uint64_t *saved, struct leat_error *error)
{
    int rc = push(t, 0, n, (struct savings){0, NONE}, error);
    for (uint64_t i = n; i-- > 0 && !rc;) {
        const uint32_t depth = i ? common[i] : 0;
        const uint64_t end = i + 1;
        if (depth > t->levels[t->n_levels - 1].depth)
            rc = push(t, depth, end, (struct savings){0, NONE}, error);
        while (!rc && depth < t->levels[t->n_levels - 1].depth)
            rc = pop(t, i, depth, error);
    }
    *saved = rc ? 0 : t->levels[0].sum.there;
    return rc;
}

/* Leaves the chosen nodes alone, in the order of a walk depth first, behind one for all prompts. `limit` is then the
 * nearest chosen one above. */
static int choose(struct tree *t, uint64_t n, struct leat_error *error)
{
    if (!leat_grow(&t->nodes, &t->node_room, t->n_nodes + 1, sizeof *t->nodes))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for groups of prompts");
    t->nodes[t->n_nodes++] = (struct node){0, (uint32_t)n, 0, NONE};
    for (size_t a = 0, b = t->n_nodes - 1; a < b; a++, b--) {
        const struct node node = t->nodes[a];
        t->nodes[a] = t->nodes[b];
        t->nodes[b] = node;
    }
    uint32_t kept = 1, top = 0;
    for (size_t k = 1; k < t->n_nodes; k++) {
        struct node node = t->nodes[k];
        while (node.first - t->nodes[top].first >= t->nodes[top].count)
            top = t->nodes[top].limit;
        if (t->nodes[top].depth >= node.limit)
            continue;
        node.limit = top;
        t->nodes[top = kept++] = node;
    }
    t->n_nodes = kept;
    return LEAT_OK;
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

/* What a group is ordered by. */
struct rate {
    uint64_t decode, tokens;
    uint32_t node;
};

static int compare_rates(const void *a, const void *b)
{
    const struct rate *x = a, *y = b;
    const unsigned __int128 left = (unsigned __int128)x->decode * y->tokens,
                            right = (unsigned __int128)y->decode * x->tokens;
    return left != right ? (left > right ? -1 : 1) : x->node < y->node ? -1 : x->node > y->node;
}

/* A walk over the sorted prompts with the chosen nodes that they belong to. */
struct owner {
    uint64_t node, next;
};
#define OWNER_INIT ((struct owner){0, 1})

static uint64_t owner_of(const struct tree *t, struct owner *o, uint64_t prompt)
{
    while (prompt - t->nodes[o->node].first >= t->nodes[o->node].count)
        o->node = t->nodes[o->node].limit;
    while (o->next < t->n_nodes && t->nodes[o->next].first == prompt)
        o->node = o->next++;
    return o->node;
}

/* Groups in order, each with what it is ordered by; `own`: the prompts of each node. Returns how many. */
static uint64_t order_groups(const struct tree *t, const uint32_t *sorted, const uint32_t *lengths, uint64_t n,
                             const uint32_t *decode, uint64_t *own, struct rate *rates)
{
    struct owner o = OWNER_INIT;
    uint64_t groups = 0;
    for (size_t k = 0; k < t->n_nodes; k++)
        rates[k] = (struct rate){.tokens = t->nodes[k].depth, .node = (uint32_t)k};
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t k = owner_of(t, &o, i);
        own[k]++;
        rates[k].tokens += lengths[sorted[i]] - t->nodes[k].depth;
        rates[k].decode += decode ? decode[sorted[i]] : 0;
    }
    for (size_t k = 0; k < t->n_nodes; k++)
        if (own[k]) {
            rates[groups] = rates[k];
            rates[groups++].tokens += !rates[k].tokens; /* empty prompts: the order needs a number to divide by */
        }
    if (decode)
        qsort(rates, groups, sizeof *rates, compare_rates);
    return groups;
}

static int place_groups(const struct tree *t, const uint32_t *sorted, const uint32_t *lengths, uint64_t n,
                        const uint32_t *decode, struct leat_prompt_groups *out, struct leat_error *error)
{
    uint64_t *own = leat_new_array(t->n_nodes, sizeof *own), first = 0;
    struct rate *rates = leat_new_array(t->n_nodes, sizeof *rates);
    struct owner o = OWNER_INIT;
    out->n = own && rates ? order_groups(t, sorted, lengths, n, decode, own, rates) : 0;
    out->at = leat_new_array(out->n + 1, sizeof *out->at);
    out->order = leat_new_array(n + 1, sizeof *out->order);
    const bool room = own && rates && out->at && out->order;
    for (uint64_t g = 0; room && g < out->n; g++) {
        const uint32_t node = rates[g].node;
        out->at[g] = (struct leat_prompts_group){first, own[node], t->nodes[node].depth};
        own[node] = first; /* from here on: the place of its next prompt */
        first += out->at[g].count;
    }
    for (uint64_t i = 0; room && i < n; i++)
        out->order[own[owner_of(t, &o, i)]++] = sorted[i];
    leat_free(own);
    leat_free(rates);
    return room ? LEAT_OK
                : leat_fail(error, LEAT_E_NOMEM, "no memory for the order of %llu prompts", (unsigned long long)n);
}

int leat_prompt_groups_make(const uint32_t *sorted, uint32_t *common, const uint32_t *lengths, uint64_t n,
                            uint64_t block, const uint32_t *decode, struct leat_prompt_groups *out,
                            struct leat_error *error)
{
    struct tree t = {.unused = NONE};
    uint64_t all = 0, shared = 0, saved = 0;
    *out = (struct leat_prompt_groups){0};
    for (uint64_t i = 0; i < n; i++) {
        common[i] = block > common[i] ? 0 : common[i] - common[i] % (uint32_t)block;
        all += lengths[i];
        shared += common[i];
    }
    int rc = walk(&t, common, n, &saved, error);
    rc = rc ? rc : choose(&t, n, error);
    rc = rc ? rc : place_groups(&t, sorted, lengths, n, decode, out, error);
    out->tokens = (struct leat_prompts_tokens){all, all - saved, all - shared};
    leat_free(t.hinges);
    leat_free(t.levels);
    leat_free(t.nodes);
    return rc;
}
