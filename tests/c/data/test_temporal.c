#include "../allocations.h"
#include "../folder.h"
#include "data/event_index.h"
#include "leat/temporal.h"

enum { EVENTS = 700, NODES = 31 };

static int64_t src[EVENTS], dst[EVENTS], times[EVENTS], given[EVENTS][2];
static struct leat_dataset *events;

static const struct leat_field fields[] = {
    {.name = "src", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
    {.name = "dst", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
    {.name = "t", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
};

static int set_up(void **state)
{
    struct leat_error error;
    files_folder(folder);
    uint32_t x = 1;
    for (int i = 0; i < EVENTS; i++) {
        x = x * 1664525 + 1013904223;
        src[i] = x >> 8 & 15;
        dst[i] = (x >> 16) % NODES;
        times[i] = i ? times[i - 1] + (x >> 30) : -50; /* a quarter have the time of the event before */
        given[i][0] = i % 3;
        given[i][1] = NODES + 5;
    }
    const struct leat_array arrays[] = {{src, 8, NULL, 0}, {dst, 8, NULL, 0}, {times, 8, NULL, 0}};
    assert_ok(leat_dataset_from_arrays(fields, arrays, 3, EVENTS, NULL, NULL, NULL, &events, &error));
    return 0;
}

static int tear_down(void **state)
{
    leat_dataset_release(events);
    return remove_folder(state);
}

/* The sides of a node before an event, counted by hand. */
static uint32_t count_before(int64_t node, int64_t event)
{
    uint32_t n = 0;
    for (int64_t e = 0; e < event && e < EVENTS; e++)
        n += src[e] == node || dst[e] == node;
    return n;
}

TEST(sides_before_an_event_are_found_from_wherever_the_last_search_ended)
{
    struct leat_event_index x;
    struct leat_error error;
    assert_ok(leat_event_index_make(&x, events, (size_t[]){0, 1, 2}, false, NULL, &error));
    assert_int_equal(x.n_nodes, NODES);
    uint32_t drawn = 9;
    for (int i = 0; i < 20000; i++) {
        drawn = drawn * 1664525 + 1013904223;
        const uint32_t v = (drawn >> 8) % NODES, e = (drawn >> 16) % (EVENTS + 2);
        if (i % 3 == 0)
            atomic_store(&x.hints[v], drawn); /* any number is right */
        assert_int_equal(leat_event_before(&x, v, e) - x.begin[v], count_before(v, e));
    }
    for (uint32_t v = 0; v < NODES; v++)
        for (uint32_t i = x.begin[v]; i < x.begin[v + 1]; i++) {
            const struct leat_event_side s = x.sides[i];
            assert_true((src[s.event] == v && dst[s.event] == s.other) ||
                        (dst[s.event] == v && src[s.event] == s.other));
            assert_int_equal(s.time, times[s.event]);
        }
    leat_event_index_destroy(&x);
}

TEST(the_past_of_a_source_is_its_distinct_destinations_in_order)
{
    struct leat_event_index x;
    struct leat_error error;
    assert_ok(leat_event_index_make(&x, events, (size_t[]){0, 1, 2}, true, NULL, &error));
    for (uint32_t e = 0; e < EVENTS; e += 7) {
        const uint32_t v = (uint32_t)src[e];
        uint64_t seen = 0, n = 0;
        for (uint32_t i = 0; i < e; i++)
            if (src[i] == v && !(seen >> dst[i] & 1)) {
                assert_int_equal(x.past[x.past_begin[v] + n].dst, dst[i]);
                assert_int_equal(x.past[x.past_begin[v] + n].event, i);
                seen |= UINT64_C(1) << dst[i];
                n++;
            }
        assert_int_equal(leat_event_past_before(&x, v, e), n);
        assert_int_equal(x.past[x.past_begin[v] + x.pair[e]].dst, dst[e]);
    }
    leat_event_index_destroy(&x);
}

/* Makes a graph with all that may be wanted, and reads some of it. */
static int use(const char *index_dir, bool with_given, struct leat_error *error)
{
    struct leat_temporal_options o = LEAT_TEMPORAL_OPTIONS_INIT;
    struct leat_dataset *graph = NULL, *part = NULL;
    struct leat_value value;
    o.negatives = 2;
    o.how = LEAT_NEGATIVES_HISTORICAL;
    o.index_dir = index_dir;
    o.given = with_given ? given[0] : NULL;
    int rc = leat_dataset_slice(events, 100, 600, 1, &part, error);
    rc = rc ? rc : leat_dataset_temporal(part, &o, &graph, error);
    if (!rc)
        rc = leat_dataset_read(graph, 99, leat_dataset_field(graph, "neg"), &value, error);
    if (!rc) {
        for (int i = 0; i < 2 && with_given; i++)
            assert_int_equal(((const int64_t *)value.data)[i], given[99][i]);
        leat_value_clear(&value);
        rc = leat_dataset_column(graph, leat_dataset_field(graph, "src.events"), false, true, &value, error);
    }
    if (!rc) {
        assert_true(((const int64_t *)value.data)[10 * 400] >= 100); /* ids are those of the events */
        leat_value_clear(&value);
    }
    leat_dataset_release(graph);
    leat_dataset_release(part);
    return rc;
}

TEST(any_allocation_for_a_graph_may_fail)
{
    for (int kept = 0; kept < 3; kept++) {
        char dir[PATH_MAX + 16];
        snprintf(dir, sizeof dir, "%s/kept", folder);
        for (int64_t n = 0;; n++) {
            struct leat_error error = {.code = 0};
            fail_allocation(n);
            int rc = use(kept ? dir : NULL, kept == 2, &error);
            if (!allocation_failed()) {
                assert_ok(rc);
                assert_true(n > 20);
                break;
            }
            if (rc)
                assert_int_equal(rc, LEAT_E_NOMEM);
        }
    }
}

static int released;

static void release(void *user)
{
    released++;
}

TEST(given_negatives_are_released_with_the_graph_and_not_if_there_is_none)
{
    struct leat_temporal_options o = LEAT_TEMPORAL_OPTIONS_INIT;
    struct leat_dataset *graph;
    struct leat_error error;
    o.given = given[0];
    o.release = release;
    o.before = (enum leat_temporal_before)2;
    assert_int_equal(leat_dataset_temporal(events, &o, &graph, &error), LEAT_E_INVALID);
    assert_int_equal(released, 0);
    o.before = LEAT_BEFORE_BATCH;
    o.negatives = 2;
    assert_ok(leat_dataset_temporal(events, &o, &graph, &error));
    assert_int_equal(released, 0);
    leat_dataset_release(graph);
    assert_int_equal(released, 1);
}

TEST(what_is_no_graph_has_no_neighbours)
{
    struct leat_error error;
    bool floats;
    uint64_t n, nodes;
    assert_int_equal(leat_temporal_look(events, &floats, &n, &nodes, &error), LEAT_E_INVALID);
    assert_int_equal(leat_temporal_recent(events, src, times, 1, 1, NULL, NULL, NULL, NULL, &error), LEAT_E_INVALID);
}

TEST(too_many_neighbours_are_refused)
{
    struct leat_temporal_options o = LEAT_TEMPORAL_OPTIONS_INIT;
    struct leat_dataset *graph;
    struct leat_error error;
    o.neighbors = 1 << 12;
    o.negatives = 1 << 12;
    assert_int_equal(leat_dataset_temporal(events, &o, &graph, &error), LEAT_E_INVALID);
}

TEST_MAIN_IN(set_up, tear_down)
