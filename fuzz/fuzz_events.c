/* A file of events, of the form that the first byte says, sorted or not: reading it never crashes; cut into pieces it
 * gives the same columns; times rise; nodes are in range; and sorting changes nothing that was in order. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "format/event_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool scan(enum leat_event_form form, bool sorts, const uint8_t *data, size_t size, size_t piece,
                 struct leat_event_table *t)
{
    struct leat_event_scan *s;
    struct leat_error error;
    int rc = leat_event_scan_begin("fuzz", form, sorts, &s, &error);
    for (size_t at = 0; at < size && !rc; at += piece)
        rc = leat_event_scan_push(s, data + at, size - at < piece ? size - at : piece, &error);
    if (rc && error.offset > (int64_t)size)
        abort();
    return !leat_event_scan_end(s, !rc, t, rc ? NULL : &error) && !rc;
}

static double time_of(const struct leat_event_table *t, uint64_t i)
{
    int64_t whole;
    double real;
    leat_event_table_get(t, LEAT_EVENT_TIME, i, &whole, NULL);
    memcpy(&real, &whole, sizeof real);
    return t->facts.real ? real : (double)whole;
}

static void check(const struct leat_event_table *t)
{
    for (uint64_t i = 0; i < t->facts.count; i++) {
        int64_t src, dst;
        leat_event_table_get(t, LEAT_EVENT_SRC, i, &src, NULL);
        leat_event_table_get(t, LEAT_EVENT_DST, i, &dst, NULL);
        if (src < 0 || src > INT32_MAX || dst < 0 || dst > INT32_MAX || (i && !(time_of(t, i - 1) <= time_of(t, i))))
            abort();
    }
}

static void compare(const struct leat_event_table *a, const struct leat_event_table *b)
{
    if (memcmp(&a->facts, &b->facts, sizeof a->facts) != 0)
        abort();
    for (unsigned c = 0; c < LEAT_EVENT_COLUMNS; c++) {
        const size_t n = (size_t)a->facts.count *
                         (c == LEAT_EVENT_FEATURES ? (size_t)a->facts.n_features * sizeof(float) : sizeof(int64_t));
        if (!a->columns[c] != !b->columns[c] || (a->columns[c] && memcmp(a->columns[c], b->columns[c], n) != 0))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct leat_event_table whole, pieces, sorted;
    if (!size)
        return 0;
    const enum leat_event_form form = (enum leat_event_form)(*data % 3);
    const bool good = scan(form, false, data + 1, size - 1, size, &whole);
    const bool again = scan(form, false, data + 1, size - 1, 1 + size % 7, &pieces);
    const bool sorts = scan(form, true, data + 1, size - 1, size, &sorted);
    if (good != again || (good && !sorts))
        abort();
    if (good) {
        check(&whole);
        compare(&whole, &pieces);
        compare(&whole, &sorted);
        leat_event_table_destroy(&whole);
        leat_event_table_destroy(&pieces);
    }
    if (sorts) {
        check(&sorted);
        leat_event_table_destroy(&sorted);
    }
    return 0;
}
