/* Sources that decode chunks: values from the cache in any order, missing ones, faults, and threads. */
#include <pthread.h>
#include <stdatomic.h>

#include "../allocations.h"
#include "../test.h"
#include "base/ledger.h"
#include "base/random.h"
#include "data/dataset.h"
#include "leat/chunks.h"

enum { CHUNKS = 9, SAMPLES = 100, FIELDS = 4, NUMBER = 0, LIST, TEXT, SLOW };

static const struct leat_field fields[FIELDS] = {
    {.name = "number", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I32, .ndim = 1, .shape = {3}},
    {.name = "list", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U16, .ndim = 2, .shape = {-1, 2}},
    {.name = "text", .kind = LEAT_KIND_STR, .dtype = LEAT_U8},
    {.name = "slow", .kind = LEAT_KIND_BYTES, .dtype = LEAT_U8}, /* has no bytes in chunks */
};
static const uint64_t rows[CHUNKS] = {7, 0, 20, 1, 30, 0, 12, 29, 1};

static struct plan {
    bool missing; /* texts of samples that 5 divides */
    bool begun;   /* texts of other samples that 3 divides: "#" and the number */
    int refuses;  /* the sample whose begun value cannot be made; 0: none */
    unsigned offset_bytes;
    int fails; /* the chunk that cannot be decoded; -1: none */
    enum lie { GOOD = 0, SHORT, LONG, NO_OFFSETS, DESCENDING, BEYOND, ODD_OFFSETS, TWICE, LIES } lie;
} plan;
static _Atomic int decoded[CHUNKS][FIELDS], computed, released;

/* The value of a sample, in `to`: its bytes. */
static size_t value_of(size_t field, uint64_t sample, uint8_t *to)
{
    switch (field) {
    case NUMBER:
        for (int32_t i = 0; i < 3; i++)
            memcpy(to + 4 * i, &(int32_t){(int32_t)sample * 10 + i}, 4);
        return 12;
    case LIST:
        for (uint64_t i = 0; i < sample % 7 * 2; i++)
            memcpy(to + 2 * i, &(uint16_t){(uint16_t)(sample * 20 + i)}, 2);
        return sample % 7 * 4;
    default:
        return (size_t)snprintf((char *)to, 64, "%.*s %d", (int)(sample % 11), "the sample with", (int)sample);
    }
}

static bool is_missing(size_t field, uint64_t sample)
{
    return plan.missing && field == TEXT && sample % 5 == 0;
}

static bool is_begun(size_t field, uint64_t sample)
{
    return plan.begun && field == TEXT && sample % 3 == 0 && !is_missing(field, sample);
}

static uint64_t begin_of(uint64_t chunk)
{
    uint64_t begin = 0;
    for (uint64_t i = 0; i < chunk; i++)
        begin += rows[i];
    return begin;
}

static int put_column(struct leat_chunk *out, size_t index, size_t field, uint64_t chunk)
{
    static const uint64_t units[] = {12, 4, 1};
    uint8_t values[64 * 32], marks[32] = {0};
    int64_t offsets[33] = {field == LIST ? 2 : 0}; /* as a part of a larger array has them */
    int32_t narrow[33];
    uint64_t bytes = (uint64_t)offsets[0] * units[field];
    memset(values, 0xee, sizeof values);
    for (uint64_t i = 0; i < rows[chunk]; i++) {
        const uint64_t sample = begin_of(chunk) + i;
        marks[i] = is_missing(field, sample) ? LEAT_MARK_NONE : is_begun(field, sample) ? LEAT_MARK_BEGUN : 0;
        bytes += marks[i] == LEAT_MARK_NONE ? 0
                 : marks[i]                 ? (uint64_t)snprintf((char *)values + bytes, 64, "#%d", (int)sample)
                                            : value_of(field, sample, values + bytes);
        offsets[i + 1] = (int64_t)(bytes / units[field]);
    }
    if (plan.lie == DESCENDING)
        offsets[rows[chunk]] = -1;
    if (plan.lie == BEYOND)
        offsets[rows[chunk]] += 1 + 64;
    for (uint64_t i = 0; i <= rows[chunk]; i++)
        narrow[i] = (int32_t)offsets[i];
    bytes += plan.lie == LONG ? 1 : plan.lie == SHORT && field == NUMBER ? UINT64_MAX : 0;
    const bool has_offsets = (field != NUMBER && plan.lie != NO_OFFSETS) || plan.lie == LIES;
    return leat_chunk_put(out, index, values, bytes,
                          !has_offsets             ? NULL
                          : plan.offset_bytes == 4 ? (const void *)narrow
                                                   : (const void *)offsets,
                          plan.lie == ODD_OFFSETS ? 3 : plan.offset_bytes, plan.missing || plan.begun ? marks : NULL);
}

static int decode(void *user, const size_t *wanted, size_t n, uint64_t chunk, struct leat_chunk *out,
                  struct leat_error *error)
{
    assert_ptr_equal(user, &plan);
    assert_true(!leat_chunk_cancelled(out));
    int rc = LEAT_OK;
    for (size_t k = 0; k < n && !rc; k++) {
        atomic_fetch_add(&decoded[chunk][wanted[k]], 1);
        if (wanted[k] != SLOW)
            rc = put_column(out, k, wanted[k], chunk);
        if (plan.lie == TWICE && wanted[k] != SLOW)
            rc = put_column(out, k, wanted[k], chunk);
    }
    if (!rc && plan.fails == (int)chunk)
        rc = LEAT_E_DECODE;
    if (rc) {
        *error = (struct leat_error){.code = rc, .sample = LEAT_NO_SAMPLE, .offset = LEAT_NO_OFFSET};
        snprintf(error->message, sizeof error->message, "chunk %d", (int)chunk);
    }
    return rc;
}

static int compute(void *user, const size_t *wanted, size_t n_fields, const uint64_t *samples, size_t n,
                   struct leat_values *out, size_t *failed, struct leat_error *error)
{
    uint8_t bytes[64];
    const void *data;
    uint64_t has;
    atomic_fetch_add(&computed, 1);
    for (size_t f = 0; f < n_fields; f++)
        for (size_t i = 0; i < n; i++) {
            const bool begun = leat_values_begun(out, i, &data, &has);
            assert_int_equal(begun, wanted[f] == TEXT);
            assert_int_equal(data != NULL, is_begun(wanted[f], samples[i]));
            if (data) {
                assert_int_equal(has, snprintf((char *)bytes, sizeof bytes, "#%d", (int)samples[i]));
                assert_memory_equal(data, bytes, has);
            }
            if (is_missing(wanted[f], samples[i]) || (begun && plan.refuses == (int)samples[i])) {
                *failed = i;
                *error = (struct leat_error){.code = LEAT_E_DECODE, .sample = LEAT_NO_SAMPLE, .offset = LEAT_NO_OFFSET};
                snprintf(error->message, sizeof error->message, "it has no text");
                return LEAT_E_DECODE;
            }
            if (leat_values_put(out, f, i, bytes, value_of(wanted[f], samples[i], bytes)))
                return error->code = LEAT_E_NOMEM;
        }
    return LEAT_OK;
}

static void release(void *user)
{
    atomic_fetch_add(&released, 1);
}

static int open_chunks(struct leat_dataset **out, struct leat_error *error)
{
    memset(decoded, 0, sizeof decoded);
    return leat_dataset_from_chunks(fields, FIELDS, rows, CHUNKS, "1", decode, compute, release, &plan, out, error);
}

/* n samples drawn, with repetitions, of fields in any order, of which each is asked for. */
static int ask(struct leat_dataset *d, uint64_t seed, size_t n, bool may_lack, size_t *failed, struct leat_error *error)
{
    static const size_t wanted[FIELDS] = {TEXT, SLOW, NUMBER, LIST};
    uint64_t positions[300];
    struct leat_sample_ref refs[300];
    struct leat_values v;
    for (size_t i = 0; i < n; i++)
        positions[i] = leat_draw_below(seed, i, SAMPLES);
    leat_dataset_locate(d, positions, n, refs);
    if (leat_values_init(&v, FIELDS, n))
        return LEAT_E_NOMEM;
    v.may_lack = may_lack;
    const int rc = leat_dataset_compute(d, wanted, FIELDS, refs, n, &v, failed, error);
    for (size_t f = 0; f < FIELDS && !rc; f++)
        for (size_t i = 0; i < n; i++) {
            uint8_t bytes[64];
            const struct leat_computed *c = &v.at[f * n + i];
            assert_int_equal(c->lacking, is_missing(wanted[f], positions[i]));
            if (c->lacking)
                continue;
            assert_int_equal(c->bytes, value_of(wanted[f], positions[i], bytes));
            assert_memory_equal(c->data, bytes, c->bytes);
        }
    if (rc && *failed < n)
        assert_int_equal(error->sample, positions[*failed]);
    leat_values_destroy(&v);
    return rc;
}

static int set_up(void **state)
{
    plan = (struct plan){.fails = -1, .offset_bytes = 8};
    test_blocks_budget = 1 << 20;
    return 0;
}

TEST_IN(samples_of_any_order_have_their_values_and_each_chunk_is_decoded_once, set_up, NULL)
{
    struct leat_error error;
    struct leat_dataset *d;
    size_t failed;
    for (plan.offset_bytes = 4; plan.offset_bytes <= 8; plan.offset_bytes += 4) {
        assert_ok(open_chunks(&d, &error));
        assert_int_equal(leat_dataset_count(d), SAMPLES);
        for (uint64_t seed = 0; seed < 20; seed++)
            assert_ok(ask(d, seed, 1 + leat_draw_below(9, seed, 300), false, &failed, &error));
        for (size_t c = 0; c < CHUNKS; c++)
            for (size_t f = 0; f < FIELDS; f++)
                assert_int_equal(decoded[c][f], rows[c] > 0);
        assert_true(leat_ledger_used(LEAT_OF_BLOCKS) > 0);
        leat_dataset_release(d);
        assert_int_equal(leat_ledger_used(LEAT_OF_BLOCKS), 0);
    }
}

TEST_IN(values_are_the_same_where_nothing_stays_in_the_cache, set_up, NULL)
{
    struct leat_error error;
    struct leat_dataset *d;
    struct leat_value value;
    size_t failed;
    test_blocks_budget = 1;
    assert_ok(open_chunks(&d, &error));
    for (uint64_t seed = 0; seed < 20; seed++)
        assert_ok(ask(d, seed, 100, false, &failed, &error));
    for (uint64_t i = 0; i < SAMPLES; i++) {
        uint8_t bytes[64];
        assert_ok(leat_dataset_read(d, i, LIST, &value, &error));
        assert_int_equal(value.length, value_of(LIST, i, bytes));
        assert_memory_equal(value.data, bytes, value.length);
        leat_value_clear(&value);
    }
    assert_true(decoded[2][LIST] > 20);
    assert_int_equal(leat_ledger_used(LEAT_OF_BLOCKS), 0);
    leat_dataset_release(d);
}

TEST_IN(a_sample_without_a_value_is_an_error_unless_the_caller_takes_it, set_up, NULL)
{
    struct leat_error error;
    struct leat_dataset *d;
    size_t failed;
    plan.missing = true;
    assert_ok(open_chunks(&d, &error));
    assert_ok(leat_dataset_may_lack(d, (size_t[]){TEXT}, 1, &error));
    assert_ok(ask(d, 1, 200, true, &failed, &error));
    assert_int_equal(ask(d, 1, 200, false, &failed, &error), LEAT_E_DECODE);
    assert_true(failed < 200 && error.sample % 5 == 0);
    assert_string_equal(error.message, "it has no text");
    leat_dataset_release(d);
}

TEST_IN(values_that_are_begun_are_made_of_what_the_chunk_has_in_one_call, set_up, NULL)
{
    struct leat_dataset *d;
    struct leat_error error;
    size_t failed;
    plan.begun = plan.missing = true;
    for (int stays = 0; stays < 2; stays++) {
        test_blocks_budget = stays ? 1 << 20 : 1;
        assert_int_equal(open_chunks(&d, &error), LEAT_OK);
        const int before = computed;
        assert_int_equal(ask(d, 7, 300, true, &failed, &error), LEAT_OK);
        assert_int_equal(computed - before, 2); /* the texts, and the field that is slow */
        plan.refuses = 33;
        assert_int_equal(ask(d, 7, 300, true, &failed, &error), LEAT_E_DECODE);
        assert_int_equal(error.sample, 33);
        plan.refuses = 0;
        leat_dataset_release(d);
    }
}

TEST_IN(a_chunk_that_cannot_be_decoded_fails_its_samples_and_is_decoded_later, set_up, NULL)
{
    struct leat_error error;
    struct leat_dataset *d;
    size_t failed;
    assert_ok(open_chunks(&d, &error));
    plan.fails = 4;
    assert_int_equal(ask(d, 3, 100, false, &failed, &error), LEAT_E_DECODE);
    assert_true(error.sample >= 28 && error.sample < 58);
    assert_string_equal(error.message, "chunk 4");
    plan.fails = -1;
    assert_ok(ask(d, 3, 100, false, &failed, &error));
    leat_dataset_release(d);
    assert_int_equal(leat_ledger_used(LEAT_OF_BLOCKS), 0);
}

TEST_IN(columns_of_other_sizes_than_their_fields_are_refused, set_up, NULL)
{
    struct leat_error error;
    struct leat_dataset *d;
    size_t failed;
    for (unsigned lie = SHORT; lie <= LIES; lie++) {
        plan.lie = (enum lie)lie;
        assert_ok(open_chunks(&d, &error));
        assert_int_equal(ask(d, 3, 100, false, &failed, &error), LEAT_E_INVALID);
        leat_dataset_release(d);
    }
    const uint64_t many[] = {INT64_MAX, 1};
    assert_int_equal(leat_dataset_from_chunks(fields, FIELDS, many, 2, NULL, decode, compute, NULL, &plan, &d, &error),
                     LEAT_E_RANGE);
    assert_null(d);
}

TEST_IN(every_allocation_may_fail, set_up, NULL)
{
    struct leat_error error;
    struct leat_dataset *d = NULL;
    size_t failed;
    bool more = true;
    plan.missing = true;
    for (int64_t n = 0; more; n++) {
        const int before = atomic_load(&released);
        fail_allocation(n);
        int rc = open_chunks(&d, &error);
        assert_int_equal(rc == LEAT_OK, d != NULL);
        if (!rc)
            rc = ask(d, 5, 150, true, &failed, &error);
        more = allocation_failed();
        assert_int_equal(rc, more ? LEAT_E_NOMEM : LEAT_OK);
        if (d)
            assert_ok(ask(d, 6, 150, true, &failed, &error));
        assert_int_equal(atomic_load(&released), before);
        leat_dataset_release(d);
        assert_int_equal(atomic_load(&released), before + (d != NULL));
        assert_int_equal(leat_ledger_used(LEAT_OF_BLOCKS), 0);
    }
}

enum { THREADS = 4 };
static struct leat_dataset *shared;

static void *ask_often(void *arg)
{
    struct leat_error error;
    size_t failed;
    for (uint64_t i = 0; i < 50; i++)
        assert_ok(ask(shared, (uintptr_t)arg * 1000 + i, 150, false, &failed, &error));
    return NULL;
}

TEST_IN(threads_decode_a_chunk_once_or_again_if_it_did_not_stay, set_up, NULL)
{
    struct leat_error error;
    pthread_t threads[THREADS];
    for (int small = 0; small < 2; small++) {
        test_blocks_budget = small ? 1000 : 1 << 20;
        assert_ok(open_chunks(&shared, &error));
        for (uintptr_t i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, ask_often, (void *)(i + 1)), 0);
        for (size_t i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        assert_true(small ? decoded[4][NUMBER] > 1 : decoded[4][NUMBER] == 1);
        leat_dataset_release(shared);
        assert_int_equal(leat_ledger_used(LEAT_OF_BLOCKS), 0);
    }
}

TEST_MAIN()
