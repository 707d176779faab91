/*
 * Entries of the log as JSON, and back (docs/order.md). Reading trusts nothing: a state may come from another data set,
 * another version, or an attacker. All that later code relies on is checked here, except for positions.
 */
#include "plan/entry_json.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "plan/groups.h"
#include "plan/mixture.h"
#include "plan/numbers.h"
#include "plan/order.h"
#include "plan/timeline.h"

#define MAX_CARRY (INT64_C(1) << 48) /* of a source, in units of 2^-32 rows: no run gets near, */
#define MAX_FAIR (INT64_C(1) << 61)  /* ... of tokens, if rows vary in length */

static const char *const tail_names[] = {"pad", "drop", "uneven"};
static const char *const kind_names[] = {"open", "resume", "decide", "folded"};

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static json_t *list_json(const struct leat_list *list, uint64_t *room)
{
    char *text;
    if (leat_list_to_text(list, *room, &text))
        return NULL;
    json_t *o = json_pack("{s:I, s:o}", "n", (json_int_t)list->n, "hash", leat_json_hex64(list->hash));
    int bad = list->selects && json_object_set_new(o, "selects", json_true());
    if (text) {
        *room -= strlen(text);
        bad |= json_object_set_new(o, "positions", json_string(text));
    }
    leat_free(text);
    return leat_json_whole(o, bad);
}

/* The rows that each source of a mixture had given as an epoch began. */
static int add_begin(const struct leat_plan *p, const struct leat_entry *e, bool packed, json_t *o)
{
    json_t *begin =
        json_pack("{s:o, s:o, s:I}", "given", leat_numbers_json((const int64_t *)e->base, p->n_sources, packed),
                  "carry", leat_numbers_json(e->carry, p->n_sources, packed), "stream", (json_int_t)e->stream);
    const int bad = !begin || json_object_update(o, begin);
    json_decref(begin);
    return bad;
}

json_t *leat_begin_json(const struct leat_plan *p, uint64_t epoch)
{
    struct leat_entry e = {.base = leat_new_array(p->n_sources, sizeof *e.base),
                           .carry = leat_new_array(p->n_sources, sizeof *e.carry)};
    json_t *o = NULL;
    if (e.base && e.carry && leat_timeline_counts(p, (struct leat_position){epoch, 0}, e.base, e.carry, &e.stream) &&
        (o = json_object()))
        o = leat_json_whole(o, add_begin(p, &e, true, o));
    leat_entry_destroy(&e);
    return o;
}

static json_t *shares_json(const struct leat_plan *p, const uint64_t *sums, bool packed)
{
    int64_t *shares = leat_new_array(p->n_sources, sizeof *shares);
    for (uint32_t k = 0; shares && k < p->n_sources; k++)
        shares[k] = (int64_t)(sums[k + 1] - sums[k]);
    json_t *o = shares ? leat_numbers_json(shares, p->n_sources, packed) : NULL;
    leat_free(shares);
    return o;
}

/* The numbers of the sources that are through; a text says of each whether it is (numbers.c). */
static json_t *through_json(const struct leat_plan *p, const bool *through, bool packed)
{
    int64_t *numbers = leat_new_array(p->n_sources, sizeof *numbers);
    const bool listed = !packed || leat_numbers_listed(p->n_sources);
    uint32_t n = 0;
    for (uint32_t k = 0; numbers && k < p->n_sources; k++)
        if (!listed)
            numbers[n++] = through[k];
        else if (through[k])
            numbers[n++] = k;
    json_t *o = numbers ? leat_numbers_json(numbers, n, packed) : NULL;
    leat_free(numbers);
    return o;
}

/* The phase within an epoch that a folded entry lies in. */
static json_t *inside_json(const struct leat_plan *p, const struct leat_fold_inside *in, bool packed)
{
    json_t *o = json_pack(
        "{s:o, s:o, s:o, s:I, s:I}", "given", leat_numbers_json((const int64_t *)in->given, p->n_sources, packed),
        "carry", leat_numbers_json(in->carry, p->n_sources, packed), "through", through_json(p, in->through, packed),
        "row", (json_int_t)in->row, "opening", (json_int_t)in->opening);
    int bad = !o;
    if (in->first)
        bad |= json_object_set_new(o, "first", shares_json(p, in->first, packed));
    return leat_json_whole(o, bad);
}

static int add_folded(const struct leat_plan *p, const struct leat_entry *e, bool packed, json_t *o)
{
    json_t *folded = json_pack("{s:I, s:I, s:I, s:o}", "entries", (json_int_t)e->folded.entries, "steps",
                               (json_int_t)e->folded.steps, "opened_batch", (json_int_t)e->folded.opened_batch, "hash",
                               leat_json_hex64(e->folded.hash));
    int bad = !folded || json_object_update(o, folded);
    json_decref(folded);
    if (e->folded.rests)
        bad |= json_object_set_new(o, "rests", json_true());
    if (e->inside.row)
        bad |= json_object_set_new(o, "inside", inside_json(p, &e->inside, packed));
    return p->mixed ? bad | add_begin(p, e, packed, o) : bad;
}

json_t *leat_entry_json(const struct leat_plan *p, const struct leat_entry *e, bool packed, uint64_t *room)
{
    json_t *o = json_pack("{s:s, s:I, s:I}", "kind", kind_names[e->kind], "epoch", (json_int_t)e->at.epoch, "row",
                          (json_int_t)e->at.row);
    int bad = !o;
    if (e->global_batch)
        bad |= json_object_set_new(o, "global_batch", json_integer((json_int_t)e->global_batch));
    if (e->world_size)
        bad |= json_object_set_new(o, "world_size", json_integer(e->world_size));
    if (e->tail >= 0)
        bad |= json_object_set_new(o, "tail", json_string(tail_names[e->tail]));
    if (e->facts)
        bad |= json_object_set_new(o, "facts", json_loads(e->facts, 0, NULL));
    if (e->sums)
        bad |= json_object_set_new(o, "shares", shares_json(p, e->sums, packed));
    if (e->kind == LEAT_ENTRY_FOLDED)
        bad |= add_folded(p, e, packed, o);
    if (e->list || e->unlisted)
        bad |= json_object_set_new(o, "list", e->list ? list_json(e->list, room) : json_null());
    return leat_json_whole(o, bad);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static int read_shares(const struct leat_plan *p, const json_t *value, uint64_t **out, struct leat_error *error)
{
    static const char *const unfit = "an entry of its log has shares that do not fit the sources";
    int64_t *shares = NULL;
    if (!p->mixed)
        return leat_not_a_state(error, unfit);
    int rc = leat_numbers_read(value, p->n_sources, unfit, &shares, error);
    uint64_t *sums = *out = rc ? NULL : leat_new_array(p->n_sources + 1u, sizeof *sums);
    rc = rc || sums ? rc : leat_no_memory_for_state(error);
    for (uint32_t k = 0; !rc && k < p->n_sources; k++) {
        if (shares[k] < 0 || shares[k] > INT64_C(1) << LEAT_SHARE_BITS || (shares[k] && !p->sources[k].rows))
            rc = leat_not_a_state(error, "a share in its log is out of range");
        sums[k + 1] = sums[k] + (uint64_t)shares[k];
    }
    leat_free(shares);
    if (!rc && sums[p->n_sources] != UINT64_C(1) << LEAT_SHARE_BITS)
        rc = leat_not_a_state(error, "the shares of an entry of its log do not sum to 2^32");
    return rc;
}

static bool read_hash(const char *text, uint64_t *out)
{
    if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return false;
    *out = strtoull(text, NULL, 16);
    return true;
}

static bool is_list(const struct leat_list *list, const struct leat_list *stated)
{
    return list && list->n == stated->n && (list->positions || !list->n) && list->hash == stated->hash;
}

/* A list that is not in the state may be known to this plan. */
static int known_list(const struct leat_plan *p, const struct leat_list *stated, struct leat_list **out,
                      struct leat_error *error)
{
    const struct leat_list *found = p->known;
    while (found && !is_list(found, stated))
        found = found->next;
    for (uint32_t i = 0; !found && i <= p->n_log; i++) {
        const struct leat_list *l = i ? p->log[i - 1].list : p->sources->list;
        found = is_list(l, stated) ? l : NULL;
    }
    if (found)
        return leat_list_new(found->positions, found->n, p->sources->count, out, error);
    return leat_fail(error, LEAT_E_STATE,
                     "the state names a list of %" PRIu64 " positions (hash %016" PRIx64
                     ") that is too large to stand in it: "
                     "give this list to the loader before loading the state",
                     stated->n, stated->hash);
}

static int read_list(const struct leat_plan *p, const json_t *list, struct leat_entry *e, struct leat_error *error)
{
    const char *text = NULL, *hash = NULL;
    struct leat_list stated = {0};
    json_int_t n = 0;
    int selects = 0;
    const bool none = json_is_null(list), within = e->at.row && e->kind != LEAT_ENTRY_FOLDED,
               good = none || (!json_unpack((json_t *)list, "{s:I, s:s, s?b, s?s}", "n", &n, "hash", &hash, "selects",
                                            &selects, "positions", &text) &&
                               n >= 0 && read_hash(hash, &stated.hash));
    const enum leat_order order = p->sources->order;
    if (!good || p->mixed || ((p->sources->groups || p->packed) && order != LEAT_ORDER_LIST) ||
        (within && order == LEAT_ORDER_LIST) || ((selects || (none && within)) && order == LEAT_ORDER_WEIGHTED))
        return leat_not_a_state(error, "an entry of its log has a list that does not fit the order");
    if (none) {
        e->unlisted = true;
        return LEAT_OK;
    }
    stated.n = (uint64_t)n;
    int rc =
        text ? leat_list_from_text(text, p->sources->count, &e->list, error) : known_list(p, &stated, &e->list, error);
    if (rc == LEAT_E_RANGE)
        return leat_not_a_state(error, "a list of positions in its log leaves the data set");
    if (rc)
        return rc;
    e->list->selects = selects;
    return is_list(e->list, &stated) ? LEAT_OK
                                     : leat_not_a_state(error, "a list of positions in its log has another hash");
}

static int read_facts(const json_t *facts, struct leat_entry *e, struct leat_error *error)
{
    char *text = json_is_object(facts) ? json_dumps(facts, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    int rc = LEAT_OK;
    if (!text || strlen(text) > LEAT_PLAN_MAX_FACTS)
        rc = leat_not_a_state(error, "the facts of an entry of its log are no small object");
    else if (!(e->facts = leat_strdup(text)))
        rc = leat_no_memory_for_state(error);
    free(text);
    return rc;
}

static int64_t most_carry(const struct leat_plan *p)
{
    return p->fair ? MAX_FAIR : MAX_CARRY;
}

static const char *const damaged = "the phase of the folded entry of its log is malformed";

int leat_begin_read(const struct leat_plan *p, const json_t *o, struct leat_entry *e, struct leat_error *error)
{
    static const char *const missing = "it does not say what each source gave";
    uint64_t sum = 0;
    json_int_t stream = -1;
    const int bad = json_unpack((json_t *)o, "{s:I}", "stream", &stream) || stream < 0;
    int rc = bad ? leat_not_a_state(error, missing) : LEAT_OK;
    int64_t *given = NULL;
    rc = rc ? rc : leat_numbers_read(json_object_get(o, "given"), p->n_sources, missing, &given, error);
    e->base = (uint64_t *)given;
    rc = rc ? rc : leat_numbers_read(json_object_get(o, "carry"), p->n_sources, missing, &e->carry, error);
    if (rc)
        return rc;
    e->stream = (uint64_t)stream;
    for (uint32_t k = 0; k < p->n_sources; k++) {
        const bool fresh = p->sources[k].exhausted != LEAT_EXHAUSTED_REPEAT;
        if (e->base[k] > (fresh ? 0 : e->stream - sum) || e->carry[k] > most_carry(p) || e->carry[k] < -most_carry(p))
            return leat_not_a_state(error, "it counts more rows than there were");
        sum += e->base[k];
    }
    if (p->varies || (sum == e->stream && (unsigned __int128)e->at.epoch * p->epoch_rows == e->stream))
        return LEAT_OK;
    return leat_not_a_state(error, "it counts fewer rows than there were");
}

static int read_through(const struct leat_plan *p, const json_t *through, bool *out, struct leat_error *error)
{
    const json_t *v;
    size_t i;
    if (json_is_array(through)) {
        json_array_foreach(through, i, v)
        {
            uint64_t k = 0;
            if (!leat_json_number(v, p->n_sources - 1, &k))
                return leat_not_a_state(error, damaged);
            out[k] = true;
        }
        return LEAT_OK;
    }
    int64_t *flags = NULL;
    const int rc = leat_numbers_read(through, p->n_sources, damaged, &flags, error);
    for (uint32_t k = 0; !rc && k < p->n_sources; k++)
        out[k] = flags[k] != 0;
    leat_free(flags);
    return rc;
}

static int read_inside(const struct leat_plan *p, const json_t *o, struct leat_entry *e, struct leat_error *error)
{
    struct leat_fold_inside *in = &e->inside;
    const json_t *first = json_object_get(o, "first");
    uint64_t rows = 0;
    json_int_t row = 0, opening = 0;
    const json_t *given, *carry, *through;
    if (!p->mixed || !e->sums ||
        json_unpack((json_t *)o, "{s:I, s:I, s:o, s:o, s:o}", "row", &row, "opening", &opening, "given", &given,
                    "carry", &carry, "through", &through) ||
        opening <= 0 || opening > row || (uint64_t)row > e->at.row)
        return leat_not_a_state(error, damaged);
    in->row = (uint64_t)row;
    in->opening = (uint64_t)opening;
    int64_t *numbers = NULL;
    int rc = leat_numbers_read(given, p->n_sources, damaged, &numbers, error);
    in->given = (uint64_t *)numbers;
    rc = rc ? rc : leat_numbers_read(carry, p->n_sources, damaged, &in->carry, error);
    if (!rc && !(in->through = leat_new_array(p->n_sources, sizeof *in->through)))
        rc = leat_no_memory_for_state(error);
    if (!rc)
        rc = read_through(p, through, in->through, error);
    for (uint32_t k = 0; !rc && k < p->n_sources; k++) {
        const struct leat_source_order *s = &p->sources[k];
        const bool repeats = s->exhausted == LEAT_EXHAUSTED_REPEAT;
        uint64_t most = INT64_MAX;
        if ((repeats && s->limit && __builtin_mul_overflow(s->limit, s->rows, &most)) || most > INT64_MAX - e->base[k])
            most = INT64_MAX - e->base[k];
        if (in->given[k] > (repeats ? e->base[k] + most : s->rows) || in->given[k] < e->base[k] ||
            in->carry[k] > most_carry(p) || in->carry[k] < -most_carry(p) || in->given[k] - e->base[k] > in->row - rows)
            return leat_not_a_state(error, damaged);
        rows += in->given[k] - e->base[k];
    }
    if (rc)
        return rc;
    return rows != in->row || e->stream > INT64_MAX - in->row ? leat_not_a_state(error, damaged)
           : first                                            ? read_shares(p, first, &in->first, error)
                                                              : LEAT_OK;
}

static int read_folded(const struct leat_plan *p, const json_t *o, struct leat_entry *e, struct leat_error *error)
{
    json_int_t entries = 0, steps = 0, batch = 0;
    const char *hash = NULL;
    int rests = 0;
    if (json_unpack((json_t *)o, "{s:I, s:I, s:I, s:s, s?b}", "entries", &entries, "steps", &steps, "opened_batch",
                    &batch, "hash", &hash, "rests", &rests) ||
        entries <= 0 || steps < 0 || (uint64_t)steps > e->at.row || batch <= 0 ||
        (uint64_t)batch > LEAT_MAX_GLOBAL_BATCH || !read_hash(hash, &e->folded.hash) || !e->global_batch ||
        !e->world_size || e->tail < 0)
        return leat_not_a_state(error, "the folded entry of its log is malformed");
    e->folded.entries = (uint64_t)entries;
    e->folded.steps = (uint64_t)steps;
    e->folded.opened_batch = (uint64_t)batch;
    e->folded.rests = rests;
    const json_t *inside = json_object_get(o, "inside");
    const int rc = p->mixed ? leat_begin_read(p, o, e, error) : LEAT_OK;
    return !rc && inside ? read_inside(p, inside, e, error) : rc;
}

/* The number of a name; -1: it is none of them. */
static int number_of(const char *name, const char *const *names, int n)
{
    while (n-- && strcmp(name, names[n]))
        ;
    return n;
}

int leat_entry_read(const struct leat_plan *p, const json_t *o, bool first, struct leat_entry *e,
                    struct leat_error *error)
{
    const char *kind = "", *tail = NULL;
    json_int_t epoch = 0, row = 0, batch = 0, world = 0;
    const json_t *shares = NULL, *list = NULL, *facts = NULL;
    const int bad = json_unpack((json_t *)o, "{s:s, s:I, s:I, s?I, s?I, s?s, s?o, s?o, s?o}", "kind", &kind, "epoch",
                                &epoch, "row", &row, "global_batch", &batch, "world_size", &world, "tail", &tail,
                                "shares", &shares, "list", &list, "facts", &facts);
    *e = (struct leat_entry){.kind = (enum leat_entry_kind)number_of(kind, kind_names, 4),
                             .at = {(uint64_t)epoch, (uint64_t)row},
                             .global_batch = (uint64_t)batch,
                             .world_size = (uint32_t)world,
                             .tail = tail ? number_of(tail, tail_names, 3) : -1};
    if (bad || (int)e->kind < 0 || (tail && e->tail < 0) || epoch < 0 || row < 0 || batch < 0 || world < 0 ||
        e->global_batch > LEAT_MAX_GLOBAL_BATCH || world > UINT32_MAX)
        return leat_not_a_state(error, "an entry of its log is malformed");
    if (first != (e->kind == LEAT_ENTRY_OPEN) ||
        (first && (e->at.epoch || e->at.row || !e->global_batch || !e->world_size || e->tail < 0 || list ||
                   p->mixed != !!shares)))
        return leat_not_a_state(error, "its log does not begin with the opening");
    int rc = shares ? read_shares(p, shares, &e->sums, error) : LEAT_OK;
    if (!rc && list)
        rc = read_list(p, list, e, error);
    if (!rc && facts)
        rc = read_facts(facts, e, error);
    if (!rc && e->kind == LEAT_ENTRY_FOLDED)
        rc = read_folded(p, o, e, error);
    if (first)
        e->now.list = p->sources->list;
    return rc;
}
