/*
 * The state: a position and the log as JSON, and back. docs/order.md has its keys. Reading trusts nothing: a state may
 * come from another data set, another version, or an attacker.
 *
 * Sizes, ranks, tail and facts may differ between the plan as it is opened now and the state. Then a "resume" entry is
 * added at the state's position. The comparison is with the state's last "open" or "resume" entry, not with later
 * decisions: a script that is started again with its old options keeps the decisions.
 */
#include "plan/state.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "plan/decide.h"
#include "plan/geometry.h"
#include "plan/groups.h"
#include "plan/list.h"
#include "plan/mixture.h"
#include "plan/numbers.h"
#include "plan/order.h"
#include "plan/order_json.h"
#include "plan/rest.h"
#include "plan/timeline.h"

#define STATE_VERSION 1
#define UNORDERED_VERSION 2          /* with rows received beyond the position, which an older leat must not ignore */
#define INSIDE_VERSION 3             /* with a log that was folded within an epoch, or not whole behind the position */
#define MAX_STATE 65536              /* bytes of a state that we write, */
#define MAX_OF_SOURCE 128            /* ... or so many a source, if that is more */
#define MAX_READ (UINT64_C(1) << 26) /* of one with a whole log, as runs that are repeated have */
#define MAX_LISTS 45056              /* bytes of lists in it */
#define MAX_CARRY (INT64_C(1) << 48) /* of a source, in units of 2^-32 rows: no run gets near, */
#define MAX_FAIR (INT64_C(1) << 61)  /* ... of tokens, if rows vary in length */
#define KEPT_ENTRIES 32              /* entries before the position; older ones are folded */
#define KEPT_LATER 32                /* entries behind it, if not all of them find room */

static const char *const tail_names[] = {"pad", "drop", "uneven"};
static const char *const kind_names[] = {"open", "resume", "decide", "folded"};

/* ---- writing --------------------------------------------------------------------------------- */

static json_t *list_json(const struct leat_list *list, uint64_t *room)
{
    char *text;
    if (leat_list_to_text(list, *room, &text))
        return NULL;
    json_t *o = json_object();
    int bad = json_object_set_new(o, "n", json_integer((json_int_t)list->n));
    bad |= json_object_set_new(o, "hash", leat_json_hex64(list->hash));
    if (list->selects)
        bad |= json_object_set_new(o, "selects", json_true());
    if (text) {
        *room -= strlen(text);
        bad |= json_object_set_new(o, "positions", json_string(text));
    }
    leat_free(text);
    return leat_json_whole(o, bad);
}

/* The rows that each source of a mixture had given as an epoch began. */
static int given_json(const struct leat_plan *p, const struct leat_entry *e, bool packed, json_t *o)
{
    int bad = json_object_set_new(o, "given", leat_numbers_json((const int64_t *)e->base, p->n_sources, packed));
    bad |= json_object_set_new(o, "carry", leat_numbers_json(e->carry, p->n_sources, packed));
    return bad | json_object_set_new(o, "stream", json_integer((json_int_t)e->stream));
}

/* For the epoch of a position: it need not be found again from those before it. */
static json_t *begin_json(const struct leat_plan *p, uint64_t epoch)
{
    struct leat_entry e = {.base = leat_new_array(p->n_sources, sizeof *e.base),
                           .carry = leat_new_array(p->n_sources, sizeof *e.carry)};
    json_t *o = NULL;
    if (e.base && e.carry && leat_timeline_counts(p, (struct leat_position){epoch, 0}, e.base, e.carry, &e.stream) &&
        (o = json_object()))
        o = leat_json_whole(o, given_json(p, &e, true, o));
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
    json_t *o = json_object();
    int bad = json_object_set_new(o, "given", leat_numbers_json((const int64_t *)in->given, p->n_sources, packed));
    bad |= json_object_set_new(o, "carry", leat_numbers_json(in->carry, p->n_sources, packed));
    bad |= json_object_set_new(o, "through", through_json(p, in->through, packed));
    bad |= json_object_set_new(o, "row", json_integer((json_int_t)in->row));
    bad |= json_object_set_new(o, "opening", json_integer((json_int_t)in->opening));
    if (in->first)
        bad |= json_object_set_new(o, "first", shares_json(p, in->first, packed));
    return leat_json_whole(o, bad);
}

static int folded_json(const struct leat_plan *p, const struct leat_entry *e, bool packed, json_t *o)
{
    int bad = json_object_set_new(o, "entries", json_integer((json_int_t)e->folded.entries));
    bad |= json_object_set_new(o, "steps", json_integer((json_int_t)e->folded.steps));
    bad |= json_object_set_new(o, "opened_batch", json_integer((json_int_t)e->folded.opened_batch));
    bad |= json_object_set_new(o, "hash", leat_json_hex64(e->folded.hash));
    if (e->folded.rests)
        bad |= json_object_set_new(o, "rests", json_true());
    if (e->inside.row)
        bad |= json_object_set_new(o, "inside", inside_json(p, &e->inside, packed));
    return p->mixed ? bad | given_json(p, e, packed, o) : bad;
}

/* `packed`: as a state has it, in which numbers of many sources take little room. */
static json_t *entry_json(const struct leat_plan *p, const struct leat_entry *e, bool packed, uint64_t *room)
{
    json_t *o = json_object();
    int bad = json_object_set_new(o, "kind", json_string(kind_names[e->kind]));
    bad |= json_object_set_new(o, "epoch", json_integer((json_int_t)e->at.epoch));
    bad |= json_object_set_new(o, "row", json_integer((json_int_t)e->at.row));
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
        bad |= folded_json(p, e, packed, o);
    if (e->list || e->unlisted)
        bad |= json_object_set_new(o, "list", e->list ? list_json(e->list, room) : json_null());
    return leat_json_whole(o, bad);
}

/* The parts that are left out of a state that is too large otherwise. */
struct part {
    uint32_t kept, later; /* entries before and behind the position; the others before it are folded */
    bool view;            /* which only informs */
    uint64_t lists;       /* bytes of lists that stand in it; others have only the hash */
};

/* The log as a run at `at` needs it: entries long before, and lists that a later one has replaced, are folded into one.
 * The text is the same whether or not the plan has folded its log. */
static json_t *log_json(const struct leat_plan *p, struct leat_position at, const struct part *part)
{
    const struct leat_entry *now = leat_log_entry(p, at);
    uint32_t past = (uint32_t)(now - p->log), last = past > part->kept ? past - part->kept : 0, end = p->n_log;
    uint64_t room = part->lists;
    struct leat_entry fold;
    for (uint32_t i = last + 1; i <= past; i++)
        if (p->log[i].list || p->log[i].unlisted)
            last = i;
    if (end - past - 1 > part->later)
        end = past + 1 + part->later;
    last = leat_log_foldable(p, last, at.epoch);
    if (last >= 2 && leat_log_fold(p, last, &fold))
        return NULL;
    json_t *log = json_array();
    int bad = json_array_append_new(log, entry_json(p, p->log, true, &room));
    if (last >= 2) {
        bad |= json_array_append_new(log, entry_json(p, &fold, true, &room));
        fold.list = NULL; /* an entry's own */
        leat_entry_destroy(&fold);
    }
    for (uint32_t i = last >= 2 ? last + 1 : 1; i < end; i++)
        bad |= json_array_append_new(log, entry_json(p, &p->log[i], true, &room));
    return leat_json_whole(log, bad);
}

static char *state_text(const struct leat_plan *plan, const uint8_t fingerprint[16], struct leat_position at,
                        const struct leat_plan_received *received, const struct part *part)
{
    char print[33], seed[24];
    leat_json_fingerprint(fingerprint, print);
    snprintf(seed, sizeof seed, "%" PRIu64, plan->seed);
    json_t *o = json_object(), *where = json_object();
    int bad = json_object_set_new(where, "epoch", json_integer((json_int_t)at.epoch));
    bad |= json_object_set_new(where, "row", json_integer((json_int_t)at.row));
    bad |= json_object_set_new(o, "at", where);
    bad |= json_object_set_new(o, "reader", json_string("loader"));
    if (received)
        bad |= json_object_set_new(o, "received", leat_received_json(plan, at, received));
    bad |= json_object_set_new(o, "plan", json_integer(LEAT_PLAN_VERSION));
    bad |= json_object_set_new(o, "leat", json_string(LEAT_VERSION));
    bad |= json_object_set_new(o, "fingerprint", json_string(print));
    bad |= json_object_set_new(o, "seed", json_string(seed));
    bad |= json_object_set_new(o, "order", leat_order_json(plan));
    if (plan->view && part->view)
        bad |= json_object_set_new(o, "view", json_loads(plan->view, 0, NULL));
    bad |= json_object_set_new(o, "log", log_json(plan, at, part));
    const uint32_t behind = plan->n_log - 1 - (uint32_t)(leat_log_entry(plan, at) - plan->log);
    if (behind > part->later)
        bad |= json_object_set_new(o, "later", json_integer(behind - part->later));
    const json_t *second = json_array_get(json_object_get(o, "log"), 1),
                 *folded = json_object_get(second, "entries") ? second : NULL;
    const bool begun = folded && json_integer_value(json_object_get(folded, "epoch")) == (json_int_t)at.epoch &&
                       json_integer_value(json_object_get(folded, "row")) > 0; /* it says how */
    if (plan->varies && at.epoch && !begun)
        bad |= json_object_set_new(o, "begin", begin_json(plan, at.epoch));
    const bool inside = json_object_get(folded, "inside") || behind > part->later;
    bad |= json_object_set_new(o, "state",
                               json_integer(inside     ? INSIDE_VERSION
                                            : received ? UNORDERED_VERSION
                                                       : STATE_VERSION));
    char *text = bad ? NULL : json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(o);
    return text;
}

/* Whether the entries behind a position alone are larger than a state: a share takes a byte at least. */
static bool surely_too_large(const struct leat_plan *plan, struct leat_position at)
{
    uint64_t bytes = 0;
    for (const struct leat_entry *e = leat_log_entry(plan, at) + 1; e < plan->log + plan->n_log; e++)
        bytes += e->sums ? plan->n_sources : 0;
    return bytes > MAX_STATE;
}

/* A state is small, whatever the run; from some number of sources on, for its facts of each. */
static uint64_t most_bytes(const struct leat_plan *plan)
{
    const uint64_t all = plan->n_sources * (uint64_t)MAX_OF_SOURCE;
    return all > MAX_STATE ? all : MAX_STATE;
}

int leat_plan_state(const struct leat_plan *plan, const uint8_t fingerprint[16], struct leat_position at, char **json,
                    struct leat_error *error)
{
    return leat_plan_state_unordered(plan, fingerprint, at, NULL, json, error);
}

int leat_plan_state_unordered(const struct leat_plan *plan, const uint8_t fingerprint[16], struct leat_position at,
                              const struct leat_plan_received *received, char **json, struct leat_error *error)
{
    *json = NULL;
    if (at.epoch >> 63 || at.row >> 63 || (plan->varies && !leat_plan_epoch_units(plan, at.epoch)))
        return leat_fail(error, LEAT_E_RANGE, "epoch %" PRIu64 " row %" PRIu64 " is no position", at.epoch, at.row);
    if (leat_plan_forgot(plan, at))
        return leat_fail(error, LEAT_E_RANGE,
                         "epoch %" PRIu64 " row %" PRIu64
                         " lies before decisions that were folded: a state can no longer be made there",
                         at.epoch, at.row);
    if (at.row && at.row >= leat_plan_epoch_units(plan, at.epoch)) /* after the last batch: the next epoch's start */
        at = (struct leat_position){at.epoch + 1, 0};
    static const struct part parts[] = {{KEPT_ENTRIES, UINT32_MAX, true, MAX_LISTS},
                                        {0, UINT32_MAX, true, MAX_LISTS},
                                        {0, UINT32_MAX, false, MAX_LISTS},
                                        {0, UINT32_MAX, false, 0},
                                        {0, KEPT_LATER, false, 0},
                                        {0, 0, false, 0}};
    char *text = NULL;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && (!text || strlen(text) > most_bytes(plan)); i++) {
        if (parts[i].later == UINT32_MAX && surely_too_large(plan, at))
            continue;
        free(text);
        text = state_text(plan, fingerprint, at, received, &parts[i]);
        if (!text)
            break;
    }
    int rc = LEAT_OK;
    if (text && strlen(text) > most_bytes(plan))
        rc = leat_fail(error, LEAT_E_RANGE, "the state would have %zu bytes, above %" PRIu64 " KiB", strlen(text),
                       most_bytes(plan) >> 10);
    else if (!text || !(*json = leat_strdup(text)))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a state");
    free(text);
    return rc;
}

int leat_plan_log(const struct leat_plan *plan, uint64_t first, char **json, struct leat_error *error)
{
    uint64_t room = MAX_LISTS, last = 0; /* the number of an entry, or of the last one that it stands for */
    json_t *log = json_array();
    int bad = !log;
    for (uint32_t i = 0; i < plan->n_log && !bad; i++) {
        const struct leat_entry *e = &plan->log[i];
        last += e->kind == LEAT_ENTRY_FOLDED ? e->folded.entries : i > 0;
        if (last >= first)
            bad = json_array_append_new(log, entry_json(plan, e, false, &room));
    }
    char *text = bad ? NULL : json_dumps(log, JSON_COMPACT | JSON_SORT_KEYS);
    *json = text ? leat_strdup(text) : NULL;
    json_decref(log);
    free(text);
    return *json ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for a log");
}

/* ---- reading --------------------------------------------------------------------------------- */

static int not_a_state(struct leat_error *error, const char *what)
{
    return leat_fail(error, LEAT_E_INVALID, "not a state of leat: %s. Give the text that state_dict() gave, unchanged",
                     what);
}

/* A number in [0, most]; if it is absent, *out stays as it is. */
static bool get_number(const json_t *o, const char *key, uint64_t most, uint64_t *out)
{
    const json_t *v = json_object_get(o, key);
    return !v || leat_json_number(v, most, out);
}

static bool get_name(const json_t *o, const char *key, const char *const *names, int n, int *out)
{
    const json_t *v = json_object_get(o, key);
    if (!v)
        return true;
    for (int i = 0; json_is_string(v) && i < n; i++)
        if (!strcmp(json_string_value(v), names[i])) {
            *out = i;
            return true;
        }
    return false;
}

/* A number for each source, freed with leat_free. Errors: INVALID, with `what`. */
static int read_numbers(const struct leat_plan *p, const json_t *value, const char *what, int64_t **out,
                        struct leat_error *error)
{
    *out = leat_new_array(p->n_sources, sizeof **out);
    if (!*out)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a state");
    const int rc = leat_numbers_read(value, p->n_sources, *out);
    return rc == LEAT_E_NOMEM     ? leat_fail(error, LEAT_E_NOMEM, "no memory for a state")
           : rc == LEAT_E_INVALID ? not_a_state(error, what)
                                  : LEAT_OK;
}

static int read_shares(const struct leat_plan *p, const json_t *value, uint64_t **out, struct leat_error *error)
{
    static const char *const unfit = "an entry of its log has shares that do not fit the sources";
    int64_t *shares = NULL;
    if (!p->mixed)
        return not_a_state(error, unfit);
    int rc = read_numbers(p, value, unfit, &shares, error);
    uint64_t *sums = *out = rc ? NULL : leat_new_array(p->n_sources + 1u, sizeof *sums);
    if (!rc && !sums)
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a state");
    for (uint32_t k = 0; !rc && k < p->n_sources; k++) {
        if (shares[k] < 0 || shares[k] > INT64_C(1) << LEAT_SHARE_BITS || (shares[k] && !p->sources[k].rows))
            rc = not_a_state(error, "a share in its log is out of range");
        sums[k + 1] = sums[k] + (uint64_t)shares[k];
    }
    leat_free(shares);
    if (!rc && sums[p->n_sources] != UINT64_C(1) << LEAT_SHARE_BITS)
        rc = not_a_state(error, "the shares of an entry of its log do not sum to 2^32");
    return rc;
}

int leat_plan_know_list(struct leat_plan *plan, const int64_t *positions, uint64_t n, struct leat_error *error)
{
    struct leat_list *list;
    const int rc = leat_list_new(positions, n, INT64_MAX, &list, error); /* read_list looks at the data set's size */
    if (rc)
        return rc;
    list->next = plan->known;
    plan->known = list;
    return LEAT_OK;
}

void leat_plan_forget_lists(struct leat_plan *plan)
{
    for (struct leat_list *next; plan->known; plan->known = next) {
        next = plan->known->next;
        leat_list_free(plan->known);
    }
}

static bool is_list(const struct leat_list *list, uint64_t n, const char *hash)
{
    char text[17];
    if (!list || list->n != n || (n && !list->positions))
        return false;
    snprintf(text, sizeof text, "%016" PRIx64, list->hash);
    return !strcmp(text, hash);
}

/* A list that is not in the state may be known to this plan. */
static int known_list(const struct leat_plan *p, uint64_t n, const char *hash, struct leat_list **out,
                      struct leat_error *error)
{
    const struct leat_list *found = p->known;
    while (found && !is_list(found, n, hash))
        found = found->next;
    for (uint32_t i = 0; !found && i <= p->n_log; i++) {
        const struct leat_list *l = i ? p->log[i - 1].list : p->sources->list;
        found = is_list(l, n, hash) ? l : NULL;
    }
    if (found)
        return leat_list_new(found->positions, n, p->sources->count, out, error);
    return leat_fail(error, LEAT_E_STATE,
                     "the state names a list of %" PRIu64 " positions (hash %.16s) that is too large to stand in it: "
                     "give this list to the loader before loading the state",
                     n, hash);
}

static int read_list(const struct leat_plan *p, const json_t *list, struct leat_entry *e, struct leat_error *error)
{
    const char *hash = json_string_value(json_object_get(list, "hash")),
               *text = json_string_value(json_object_get(list, "positions"));
    uint64_t n = UINT64_MAX;
    const bool selects = json_is_true(json_object_get(list, "selects")), none = json_is_null(list);
    if (p->mixed || ((p->sources->groups || p->packed) && p->sources->order != LEAT_ORDER_LIST) ||
        (e->at.row && e->kind != LEAT_ENTRY_FOLDED && p->sources->order == LEAT_ORDER_LIST) ||
        ((selects || (none && e->at.row && e->kind != LEAT_ENTRY_FOLDED)) &&
         p->sources->order == LEAT_ORDER_WEIGHTED) ||
        (!none && (!hash || !get_number(list, "n", INT64_MAX, &n) || n == UINT64_MAX)))
        return not_a_state(error, "an entry of its log has a list that does not fit the order");
    if (none) {
        e->unlisted = true;
        return LEAT_OK;
    }
    int rc =
        text ? leat_list_from_text(text, p->sources->count, &e->list, error) : known_list(p, n, hash, &e->list, error);
    if (rc == LEAT_E_RANGE)
        return not_a_state(error, "a list of positions in its log leaves the data set");
    if (rc)
        return rc;
    e->list->selects = selects;
    return is_list(e->list, n, hash) ? LEAT_OK : not_a_state(error, "a list of positions in its log has another hash");
}

static int read_facts(const json_t *facts, struct leat_entry *e, struct leat_error *error)
{
    char *text = json_is_object(facts) ? json_dumps(facts, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    int rc = LEAT_OK;
    if (!text || strlen(text) > LEAT_PLAN_MAX_FACTS)
        rc = not_a_state(error, "the facts of an entry of its log are no small object");
    else if (!(e->facts = leat_strdup(text)))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a state");
    free(text);
    return rc;
}

static bool get_hash(const json_t *v, uint64_t *out)
{
    const char *text = json_string_value(v);
    if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return false;
    *out = strtoull(text, NULL, 16);
    return true;
}

static int64_t most_carry(const struct leat_plan *p)
{
    return p->fair ? MAX_FAIR : MAX_CARRY;
}

static const char *const damaged = "the phase of the folded entry of its log is malformed";

/* The rows that each source of a mixture had given as the epoch of the folded entry began. */
static int read_given(const struct leat_plan *p, const json_t *o, struct leat_entry *e, struct leat_error *error)
{
    static const char *const missing = "it does not say what each source gave";
    uint64_t sum = 0;
    int64_t *given = NULL;
    int rc = read_numbers(p, json_object_get(o, "given"), missing, &given, error);
    e->base = (uint64_t *)given;
    if (!rc)
        rc = read_numbers(p, json_object_get(o, "carry"), missing, &e->carry, error);
    for (uint32_t k = 0; !rc && k < p->n_sources; k++) {
        const bool fresh = p->sources[k].exhausted != LEAT_EXHAUSTED_REPEAT;
        if (given[k] < 0 || e->base[k] > (fresh ? 0 : e->stream - sum) || e->carry[k] > most_carry(p) ||
            e->carry[k] < -most_carry(p))
            return not_a_state(error, "it counts more rows than there were");
        sum += e->base[k];
    }
    if (rc || p->varies)
        return rc;
    return sum == e->stream && (unsigned __int128)e->at.epoch * p->epoch_rows == e->stream
               ? LEAT_OK
               : not_a_state(error, "it counts fewer rows than there were");
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
                return not_a_state(error, damaged);
            out[k] = true;
        }
        return LEAT_OK;
    }
    int64_t *flags = NULL;
    const int rc = read_numbers(p, through, damaged, &flags, error);
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
    int64_t *given = NULL;
    if (!p->mixed || !e->sums || !get_number(o, "row", e->at.row, &in->row) ||
        !get_number(o, "opening", in->row, &in->opening) || !in->opening)
        return not_a_state(error, damaged);
    int rc = read_numbers(p, json_object_get(o, "given"), damaged, &given, error);
    in->given = (uint64_t *)given;
    if (!rc)
        rc = read_numbers(p, json_object_get(o, "carry"), damaged, &in->carry, error);
    if (!rc && !(in->through = leat_new_array(p->n_sources, sizeof *in->through)))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a state");
    if (!rc)
        rc = read_through(p, json_object_get(o, "through"), in->through, error);
    for (uint32_t k = 0; !rc && k < p->n_sources; k++) {
        const struct leat_source_order *s = &p->sources[k];
        const bool repeats = s->exhausted == LEAT_EXHAUSTED_REPEAT;
        uint64_t most = INT64_MAX;
        if ((repeats && s->limit && __builtin_mul_overflow(s->limit, s->rows, &most)) || most > INT64_MAX - e->base[k])
            most = INT64_MAX - e->base[k];
        if (given[k] < 0 || in->given[k] > (repeats ? e->base[k] + most : s->rows) || in->given[k] < e->base[k] ||
            in->carry[k] > most_carry(p) || in->carry[k] < -most_carry(p) || in->given[k] - e->base[k] > in->row - rows)
            return not_a_state(error, damaged);
        rows += in->given[k] - e->base[k];
    }
    if (rc)
        return rc;
    return rows != in->row || e->stream > INT64_MAX - in->row ? not_a_state(error, damaged)
           : first                                            ? read_shares(p, first, &in->first, error)
                                                              : LEAT_OK;
}

static int read_folded(const struct leat_plan *p, const json_t *o, struct leat_entry *e, struct leat_error *error)
{
    if (!get_number(o, "entries", INT64_MAX, &e->folded.entries) ||
        !get_number(o, "steps", e->at.row, &e->folded.steps) ||
        !get_number(o, "opened_batch", LEAT_MAX_GLOBAL_BATCH, &e->folded.opened_batch) ||
        !get_number(o, "stream", INT64_MAX, &e->stream) || !get_hash(json_object_get(o, "hash"), &e->folded.hash) ||
        !e->folded.entries || !e->folded.opened_batch || !e->global_batch || !e->world_size || e->tail < 0)
        return not_a_state(error, "the folded entry of its log is malformed");
    e->folded.rests = json_is_true(json_object_get(o, "rests"));
    const json_t *inside = json_object_get(o, "inside");
    const int rc = p->mixed ? read_given(p, o, e, error) : LEAT_OK;
    return !rc && inside ? read_inside(p, inside, e, error) : rc;
}

static int read_entry(const struct leat_plan *p, const json_t *o, bool first, struct leat_entry *e,
                      struct leat_error *error)
{
    int kind = -1;
    uint64_t world = 0;
    *e = (struct leat_entry){.tail = -1, .at = {UINT64_MAX, UINT64_MAX}};
    if (!get_name(o, "kind", kind_names, 4, &kind) || !get_name(o, "tail", tail_names, 3, &e->tail) ||
        !get_number(o, "epoch", INT64_MAX, &e->at.epoch) || !get_number(o, "row", INT64_MAX, &e->at.row) ||
        !get_number(o, "global_batch", LEAT_MAX_GLOBAL_BATCH, &e->global_batch) ||
        !get_number(o, "world_size", UINT32_MAX, &world) || kind < 0 || e->at.epoch == UINT64_MAX ||
        e->at.row == UINT64_MAX)
        return not_a_state(error, "an entry of its log is malformed");
    e->kind = (enum leat_entry_kind)kind;
    e->world_size = (uint32_t)world;
    const json_t *shares = json_object_get(o, "shares"), *list = json_object_get(o, "list"),
                 *facts = json_object_get(o, "facts");
    if (first != (e->kind == LEAT_ENTRY_OPEN) || (first && (e->at.epoch || e->at.row || !e->global_batch || !world ||
                                                            e->tail < 0 || list || p->mixed != !!shares)))
        return not_a_state(error, "its log does not begin with the opening");
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

static int read_log(const struct leat_plan *p, const json_t *log, struct leat_entry **out, uint32_t *n,
                    struct leat_error *error)
{
    size_t size = json_array_size(log);
    *n = 0;
    if (!json_is_array(log) || !size || size > LEAT_PLAN_MAX_LOG)
        return not_a_state(error, "its log is missing or too long");
    *out = leat_new_array(size + 1, sizeof **out); /* room for a resume entry */
    if (!*out)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a state");
    for (size_t i = 0; i < size; i++) {
        (*n)++;
        int rc = read_entry(p, json_array_get(log, i), !i, &(*out)[i], error);
        if (rc)
            return rc;
        if (i != 1 && (*out)[i].kind == LEAT_ENTRY_FOLDED)
            return not_a_state(error, "a folded entry stands inside its log");
        if (i && leat_position_precedes((*out)[i].at, (*out)[i - 1].at))
            return not_a_state(error, "the entries of its log are not in order");
    }
    if (p->mixed && memcmp((*out)->sums, p->log->sums, (p->n_sources + 1u) * sizeof *p->log->sums))
        return leat_fail(
            error, LEAT_E_STATE,
            "the state's run was opened with other shares of its sources: open with the same shares, load, and change "
            "them by a decision");
    return leat_log_resolve(p, *out, 0, *n, error) ? not_a_state(error, "the sizes in its log do not fit each other")
                                                   : LEAT_OK;
}

/* Inserts an entry at `at` for the differences from the state's own opening. `says`: whether other facts are
 * reported. */
static int add_resume(const struct leat_plan *p, struct leat_entry *log, uint32_t *n, struct leat_position at,
                      bool says, struct leat_error *error)
{
    struct leat_entry opened = {0}, e = {.kind = LEAT_ENTRY_RESUME, .at = at, .tail = -1};
    for (uint32_t i = 0; i < *n; i++) {
        if (log[i].kind == LEAT_ENTRY_DECIDE)
            continue;
        uint64_t batch = log[i].kind == LEAT_ENTRY_FOLDED ? log[i].folded.opened_batch : log[i].global_batch;
        opened.global_batch = batch ? batch : opened.global_batch;
        opened.world_size = log[i].world_size ? log[i].world_size : opened.world_size;
        opened.tail = log[i].tail >= 0 ? log[i].tail : opened.tail;
        opened.facts = log[i].facts ? log[i].facts : opened.facts;
    }
    if (p->opened_global_batch != opened.global_batch)
        e.global_batch = p->opened_global_batch;
    if (p->opened_world_size != opened.world_size)
        e.world_size = p->opened_world_size;
    if ((int)p->opened_tail != opened.tail)
        e.tail = (int)p->opened_tail;
    if (p->opened_facts && (!opened.facts || strcmp(p->opened_facts, opened.facts))) {
        if (says)
            leat_log(LEAT_LOG_WARNING, "the state's run had other facts: %.200s, now %.200s",
                     opened.facts ? opened.facts : "{}", p->opened_facts);
        if (!(e.facts = leat_strdup(p->opened_facts)))
            return leat_fail(error, LEAT_E_NOMEM, "no memory for a state");
    }
    if (!e.global_batch && !e.world_size && e.tail < 0 && !e.facts)
        return LEAT_OK;
    uint32_t i = *n;
    for (; leat_position_precedes(at, log[i - 1].at); i--)
        log[i] = log[i - 1];
    log[i] = e;
    (*n)++;
    return leat_log_resolve(p, log, 0, *n, error);
}

static int of_other_data(const struct leat_plan *p, const char *print, const char *own, const json_t *order,
                         struct leat_error *error)
{
    uint64_t theirs = leat_order_samples(order), ours = 0;
    for (uint32_t k = 0; k < p->n_sources; k++)
        ours += p->sources[k].count;
    char counts[96] = "";
    if (theirs != ours)
        snprintf(counts, sizeof counts, " (its run was over %" PRIu64 " samples, this one is over %" PRIu64 ")", theirs,
                 ours);
    return leat_fail(
        error, LEAT_E_STATE,
        "the state belongs to another data set or another part of this one%s: its fingerprint is %.32s, this one's %s. "
        "Open the "
        "data set that the run was started with, and if that was a slice, a selection or a split, take the same again",
        counts, print, own);
}

/* Checks that fingerprint, seed and order are this plan's. */
static int check_belongs(const struct leat_plan *p, const uint8_t fingerprint[16], const json_t *o,
                         struct leat_error *error)
{
    const char *print = json_string_value(json_object_get(o, "fingerprint")),
               *seed = json_string_value(json_object_get(o, "seed"));
    const json_t *order = json_object_get(o, "order");
    char own[33], text[24];
    leat_json_fingerprint(fingerprint, own);
    snprintf(text, sizeof text, "%" PRIu64, p->seed);
    if (!print || !seed || !json_is_object(order))
        return not_a_state(error, "it has no fingerprint, seed or order");
    if (strcmp(print, own))
        return of_other_data(p, print, own, order, error);
    if (strcmp(seed, text))
        return leat_fail(error, LEAT_E_STATE,
                         "the state's run has seed %.20s, this loader %s: open the loader with seed=%.20s", seed, text,
                         seed);
    json_t *mine = leat_order_json(p);
    if (!mine)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a state");
    int rc = LEAT_OK;
    if (leat_order_differs_in_lengths(mine, order))
        rc = leat_fail(error, LEAT_E_STATE,
                       "the state's run packed documents of other lengths into its rows, which are others here: an "
                       "earlier leat gave a document without a token a place for bos and eos. Begin an epoch again "
                       "without the state, or go on with the leat that wrote it");
    else if (!json_equal(mine, order)) {
        char *theirs = json_dumps(order, JSON_COMPACT | JSON_SORT_KEYS),
             *ours = json_dumps(mine, JSON_COMPACT | JSON_SORT_KEYS);
        rc = leat_fail(error, LEAT_E_STATE,
                       "the state's run has another order: %.350s, this loader %.350s. Open the loader with that order",
                       theirs ? theirs : "?", ours ? ours : "?");
        free(theirs);
        free(ours);
    }
    json_decref(mine);
    return rc;
}

static int check_versions(const json_t *o, struct leat_error *error)
{
    uint64_t state = 0, plan = 0;
    const char *reader = json_string_value(json_object_get(o, "reader"));
    if (reader && strcmp(reader, "loader") != 0)
        return not_a_state(error, "it is that of another kind of reader");
    if (!json_is_object(o) || !get_number(o, "state", INT64_MAX, &state) || !get_number(o, "plan", INT64_MAX, &plan) ||
        !state || !plan)
        return not_a_state(error, "it is no JSON object with the versions of state and plan");
    const char *leat = json_string_value(json_object_get(o, "leat"));
    if (state > INSIDE_VERSION || plan != LEAT_PLAN_VERSION)
        return leat_fail(error, LEAT_E_STATE,
                         "the state has version %" PRIu64 " and plan version %" PRIu64
                         " (of leat %.32s), this leat %s knows %d and %d: "
                         "load it with the leat that wrote it",
                         state, plan, leat ? leat : "?", LEAT_VERSION, INSIDE_VERSION, LEAT_PLAN_VERSION);
    return LEAT_OK;
}

/* Enters the start of the position's epoch into a new timeline, if it is stated. */
static int read_begin(const struct leat_plan *trial, const json_t *begin, uint64_t epoch, struct leat_error *error)
{
    struct leat_entry e = {.at = {epoch, 0}, .stream = UINT64_MAX};
    if (!begin || !trial->varies || !epoch || leat_plan_forgot(trial, e.at))
        return LEAT_OK;
    int rc = !get_number(begin, "stream", INT64_MAX, &e.stream) || e.stream == UINT64_MAX
                 ? not_a_state(error, "it does not say what each source gave")
                 : read_given(trial, begin, &e, error);
    if (!rc && !leat_timeline_seed(trial, &e))
        rc = not_a_state(error, "its epoch has no rows");
    leat_entry_destroy(&e);
    return rc;
}

/* The rows of the position's epoch and of later ones, if they were decided within it. */
static int load_rests(struct leat_plan *trial, uint64_t epoch, struct leat_rest **rests, struct leat_error *error)
{
    trial->rests = NULL;
    const int rc = leat_rest_load(trial, epoch, error);
    *rests = trial->rests;
    return rc && rc != LEAT_E_NOMEM ? not_a_state(error, "what was decided on rows within its epoch does not fit it")
                                    : rc;
}

/* Checks the position of a state under the log of `trial`. */
static int check_position(const struct leat_plan *trial, struct leat_position *at, struct leat_error *error)
{
    struct leat_plan_batch batch;
    const struct leat_entry *fold = leat_plan_fold(trial);
    if (fold && fold->inside.row &&
        (!leat_timeline_gives(trial, (struct leat_position){fold->at.epoch, fold->inside.opening - 1}) ||
         !leat_timeline_gives(trial, fold->at)))
        return not_a_state(error, "no rows follow from the folded entry of its log");
    if (at->row && at->row >= leat_plan_epoch_units(trial, at->epoch))
        return not_a_state(error, "its position lies outside its epoch");
    int rc = leat_plan_batch(trial, *at, &batch);
    if (rc && rc != LEAT_E_END)
        return not_a_state(error, rc == LEAT_E_INVALID ? "its position is not where a batch begins"
                                                       : "its position is out of range");
    return LEAT_OK;
}

/* Rows received out of order need the same batches as when they were received. */
static int check_unchanged(const struct leat_plan *p, const struct leat_entry *log, uint32_t n, struct leat_position at,
                           struct leat_error *error)
{
    for (uint32_t i = 1; i < n; i++)
        if (log[i].kind == LEAT_ENTRY_RESUME && log[i].at.epoch == at.epoch && log[i].at.row == at.row &&
            (log[i].global_batch || log[i].world_size || log[i].tail >= 0))
            return leat_fail(
                error, LEAT_E_STATE,
                "the state holds what one rank received out of order, and sizes differ now (global batch %" PRIu64
                ", %u ranks), which would need the parts of all ranks: go on with the sizes that the run had, or from "
                "a "
                "state taken at an epoch's end",
                p->opened_global_batch, p->opened_world_size);
    return LEAT_OK;
}

int leat_plan_load(struct leat_plan *plan, const uint8_t fingerprint[16], const char *json, struct leat_position *at,
                   struct leat_error *error)
{
    return leat_plan_load_unordered(plan, fingerprint, json, at, NULL, NULL, error);
}

int leat_plan_load_unordered(struct leat_plan *plan, const uint8_t fingerprint[16], const char *json,
                             struct leat_position *at, struct leat_plan_received *received, bool *found,
                             struct leat_error *error)
{
    struct leat_entry *log = NULL;
    struct leat_timeline *timeline = NULL;
    struct leat_rest *rests = NULL;
    struct leat_position where = {UINT64_MAX, UINT64_MAX};
    uint32_t n = 0;
    if (strnlen(json, MAX_READ) == MAX_READ)
        return not_a_state(error, "it is too long");
    json_error_t syntax;
    json_t *o = json_loads(json, JSON_REJECT_DUPLICATES, &syntax);
    if (!o)
        return leat_fail(error, LEAT_E_INVALID,
                         "not a state of leat: %s at byte %d. Give the text that state_dict() gave, unchanged",
                         syntax.text, syntax.position);
    int rc = check_versions(o, error);
    if (!rc)
        rc = check_belongs(plan, fingerprint, o, error);
    uint64_t later = 0;
    if (!rc && (!get_number(o, "later", INT64_MAX, &later) || later))
        rc = leat_fail(error, LEAT_E_STATE,
                       "the state leaves out the last %" PRIu64 " decisions of its run's log, which lie ahead of its "
                       "position: open the loader with that log",
                       later);
    if (rc)
        goto out;
    const json_t *position = json_object_get(o, "at");
    if (!get_number(position, "epoch", INT64_MAX, &where.epoch) ||
        !get_number(position, "row", INT64_MAX, &where.row) || where.epoch == UINT64_MAX || where.row == UINT64_MAX) {
        rc = not_a_state(error, "it has no position");
        goto out;
    }
    rc = read_log(plan, json_object_get(o, "log"), &log, &n, error);
    if (rc)
        goto out;
    struct leat_plan trial = *plan;
    trial.log = log;
    trial.n_log = n;
    rc = load_rests(&trial, where.epoch, &rests, error);
    if (rc)
        goto out;
    if (plan->mixed) {
        trial.timeline = timeline = leat_timeline_new(plan->n_sources);
        if (!timeline) {
            rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a state");
            goto out;
        }
        rc = read_begin(&trial, json_object_get(o, "begin"), where.epoch, error);
        if (rc)
            goto out;
    }
    rc = check_position(&trial, &where, error);
    const json_t *beyond = json_object_get(o, "received");
    if (!rc && beyond)
        rc = received ? leat_received_read(&trial, beyond, where, received, error)
                      : leat_fail(error, LEAT_E_STATE,
                                  "the state was taken within an epoch whose rows came out of order: open the loader "
                                  "with in_order=False");
    if (!rc)
        rc = add_resume(plan, log, &n, where, at != NULL, error);
    if (!rc && beyond)
        rc = check_unchanged(plan, log, n, where, error);
    if (!rc && plan->rank >= leat_log_entry(&(struct leat_plan){.log = log, .n_log = n}, where)->now.world_size)
        rc = not_a_state(error, "it has fewer ranks than this loader");
    if (rc || !at)
        goto out;
    leat_log_free(plan->log, plan->n_log);
    plan->log = log;
    plan->n_log = n;
    plan->room = n;
    log = NULL;
    leat_timeline_free(plan->timeline);
    plan->timeline = timeline;
    timeline = NULL;
    leat_rest_free(plan->rests);
    plan->rests = rests;
    rests = NULL;
    *at = where;
    if (found)
        *found = beyond != NULL;
out:
    json_decref(o);
    leat_timeline_free(timeline);
    leat_rest_free(rests);
    if (log)
        leat_log_free(log, n);
    return rc;
}
