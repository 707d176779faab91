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
#include "plan/entry_json.h"
#include "plan/geometry.h"
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
#define KEPT_ENTRIES 32              /* entries before the position; older ones are folded */
#define KEPT_LATER 32                /* entries behind it, if not all of them find room */

/* ---- writing --------------------------------------------------------------------------------- */

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
    int bad = json_array_append_new(log, leat_entry_json(p, p->log, true, &room));
    if (last >= 2) {
        bad |= json_array_append_new(log, leat_entry_json(p, &fold, true, &room));
        fold.list = NULL; /* an entry's own */
        leat_entry_destroy(&fold);
    }
    for (uint32_t i = last >= 2 ? last + 1 : 1; i < end; i++)
        bad |= json_array_append_new(log, leat_entry_json(p, &p->log[i], true, &room));
    return leat_json_whole(log, bad);
}

static char *state_text(const struct leat_plan *plan, const uint8_t fingerprint[16], struct leat_position at,
                        const struct leat_plan_received *received, const struct part *part)
{
    char print[33], seed[24];
    leat_json_fingerprint(fingerprint, print);
    snprintf(seed, sizeof seed, "%" PRIu64, plan->seed);
    json_t *log = log_json(plan, at, part), *second = json_array_get(log, 1);
    const uint32_t behind = plan->n_log - 1 - (uint32_t)(leat_log_entry(plan, at) - plan->log);
    const bool cut = behind > part->later, inside = cut || json_object_get(second, "inside");
    const bool begun = json_object_get(second, "entries") && /* a folded entry, which says how the epoch began */
                       json_integer_value(json_object_get(second, "epoch")) == (json_int_t)at.epoch &&
                       json_integer_value(json_object_get(second, "row")) > 0;
    json_t *o =
        json_pack("{s:{s:I, s:I}, s:s, s:i, s:i, s:s, s:s, s:s, s:o, s:o}", "at", "epoch", (json_int_t)at.epoch, "row",
                  (json_int_t)at.row, "reader", "loader", "plan", LEAT_PLAN_VERSION, "state",
                  inside     ? INSIDE_VERSION
                  : received ? UNORDERED_VERSION
                             : STATE_VERSION,
                  "leat", LEAT_VERSION, "fingerprint", print, "seed", seed, "order", leat_order_json(plan), "log", log);
    int bad = !o;
    if (received)
        bad |= json_object_set_new(o, "received", leat_received_json(plan, at, received));
    if (plan->view && part->view)
        bad |= json_object_set_new(o, "view", json_loads(plan->view, 0, NULL));
    if (cut)
        bad |= json_object_set_new(o, "later", json_integer(behind - part->later));
    if (plan->varies && at.epoch && !begun)
        bad |= json_object_set_new(o, "begin", leat_begin_json(plan, at.epoch));
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

int leat_plan_state(const struct leat_plan *plan, const uint8_t fingerprint[16], struct leat_position at,
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
        rc = leat_no_memory_for_state(error);
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
            bad = json_array_append_new(log, leat_entry_json(plan, e, false, &room));
    }
    char *text = bad ? NULL : json_dumps(log, JSON_COMPACT | JSON_SORT_KEYS);
    *json = text ? leat_strdup(text) : NULL;
    json_decref(log);
    free(text);
    return *json ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for a log");
}

/* ---- reading --------------------------------------------------------------------------------- */

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

static int read_log(const struct leat_plan *p, const json_t *log, struct leat_entry **out, uint32_t *n,
                    struct leat_error *error)
{
    size_t size = json_array_size(log);
    *n = 0;
    if (!json_is_array(log) || !size || size > LEAT_PLAN_MAX_LOG)
        return leat_not_a_state(error, "its log is missing or too long");
    *out = leat_new_array(size + 1, sizeof **out); /* room for a resume entry */
    if (!*out)
        return leat_no_memory_for_state(error);
    for (size_t i = 0; i < size; i++) {
        (*n)++;
        int rc = leat_entry_read(p, json_array_get(log, i), !i, &(*out)[i], error);
        if (rc)
            return rc;
        if (i != 1 && (*out)[i].kind == LEAT_ENTRY_FOLDED)
            return leat_not_a_state(error, "a folded entry stands inside its log");
        if (i && leat_position_precedes((*out)[i].at, (*out)[i - 1].at))
            return leat_not_a_state(error, "the entries of its log are not in order");
    }
    if (p->mixed && memcmp((*out)->sums, p->log->sums, (p->n_sources + 1u) * sizeof *p->log->sums))
        return leat_fail(
            error, LEAT_E_STATE,
            "the state's run was opened with other shares of its sources: open with the same shares, load, and change "
            "them by a decision");
    return leat_log_resolve(p, *out, 0, *n, error)
               ? leat_not_a_state(error, "the sizes in its log do not fit each other")
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
            return leat_no_memory_for_state(error);
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
        return leat_not_a_state(error, "it has no fingerprint, seed or order");
    if (strcmp(print, own))
        return of_other_data(p, print, own, order, error);
    if (strcmp(seed, text))
        return leat_fail(error, LEAT_E_STATE,
                         "the state's run has seed %.20s, this loader %s: open the loader with seed=%.20s", seed, text,
                         seed);
    json_t *mine = leat_order_json(p);
    if (!mine)
        return leat_no_memory_for_state(error);
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
    json_int_t state = 0, plan = 0;
    const char *leat = "?", *reader = json_string_value(json_object_get(o, "reader"));
    if (reader && strcmp(reader, "loader") != 0)
        return leat_not_a_state(error, "it is that of another kind of reader");
    if (json_unpack((json_t *)o, "{s:I, s:I}", "state", &state, "plan", &plan) || state <= 0 || plan <= 0)
        return leat_not_a_state(error, "it is no JSON object with the versions of state and plan");
    json_unpack((json_t *)o, "{s:s}", "leat", &leat);
    if (state > INSIDE_VERSION || plan != LEAT_PLAN_VERSION)
        return leat_fail(
            error, LEAT_E_STATE,
            "the state has version %lld and plan version %lld (of leat %.32s), this leat %s knows %d and %d: "
            "load it with the leat that wrote it",
            (long long)state, (long long)plan, leat, LEAT_VERSION, INSIDE_VERSION, LEAT_PLAN_VERSION);
    return LEAT_OK;
}

/* Enters the start of the position's epoch into a new timeline, if it is stated. */
static int read_begin(const struct leat_plan *trial, const json_t *begin, uint64_t epoch, struct leat_error *error)
{
    struct leat_entry e = {.at = {epoch, 0}};
    if (!begin || !trial->varies || !epoch || leat_plan_forgot(trial, e.at))
        return LEAT_OK;
    int rc = leat_begin_read(trial, begin, &e, error);
    if (!rc && !leat_timeline_seed(trial, &e))
        rc = leat_not_a_state(error, "its epoch has no rows");
    leat_entry_destroy(&e);
    return rc;
}

/* The rows of the position's epoch and of later ones, if they were decided within it. */
static int load_rests(struct leat_plan *trial, uint64_t epoch, struct leat_rest **rests, struct leat_error *error)
{
    trial->rests = NULL;
    const int rc = leat_rest_load(trial, epoch, error);
    *rests = trial->rests;
    return rc && rc != LEAT_E_NOMEM
               ? leat_not_a_state(error, "what was decided on rows within its epoch does not fit it")
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
        return leat_not_a_state(error, "no rows follow from the folded entry of its log");
    if (at->row && at->row >= leat_plan_epoch_units(trial, at->epoch))
        return leat_not_a_state(error, "its position lies outside its epoch");
    int rc = leat_plan_batch(trial, *at, &batch);
    if (rc && rc != LEAT_E_END)
        return leat_not_a_state(error, rc == LEAT_E_INVALID ? "its position is not where a batch begins"
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
                   struct leat_plan_received *received, bool *found, struct leat_error *error)
{
    struct leat_entry *log = NULL;
    struct leat_timeline *timeline = NULL;
    struct leat_rest *rests = NULL;
    uint32_t n = 0;
    if (strnlen(json, MAX_READ) == MAX_READ)
        return leat_not_a_state(error, "it is too long");
    json_error_t syntax;
    json_t *o = json_loads(json, JSON_REJECT_DUPLICATES, &syntax);
    if (!o)
        return leat_fail(error, LEAT_E_INVALID,
                         "not a state of leat: %s at byte %d. Give the text that state_dict() gave, unchanged",
                         syntax.text, syntax.position);
    json_int_t epoch = -1, row = -1, later = 0;
    int rc = check_versions(o, error);
    rc = rc ? rc : check_belongs(plan, fingerprint, o, error);
    if (!rc && (json_unpack(o, "{s?I}", "later", &later) || later))
        rc =
            leat_fail(error, LEAT_E_STATE,
                      "the state leaves out the last %lld decisions of its run's log, which lie ahead of its position: "
                      "open the loader with that log",
                      (long long)later);
    if (!rc && (json_unpack(o, "{s:{s:I, s:I}}", "at", "epoch", &epoch, "row", &row) || epoch < 0 || row < 0))
        rc = leat_not_a_state(error, "it has no position");
    if (rc)
        goto out;
    struct leat_position where = {(uint64_t)epoch, (uint64_t)row};
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
            rc = leat_no_memory_for_state(error);
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
        rc = leat_not_a_state(error, "it has fewer ranks than this loader");
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
