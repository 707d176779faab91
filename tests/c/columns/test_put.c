/*
 * Rows that are put into the file by calls, runs of them at a time, beside those that are written through the mapping:
 * what the calls give, when they are made, and what is left of one that fails.
 */
#include <errno.h>
#include <pthread.h>

#include "../allocations.h"
#include "base/random.h"
#include "columns/internal.h"
#include "rows.h"

/* What the calls have done. */
static struct {
    uint64_t calls, bytes, failing; /* failing: the call that fails, 0: none */
    uint64_t crossed;               /* a byte; how many calls had it and the one before */
    uint64_t crossing;
    bool in_bits; /* a few bytes at a time, and interrupted in between */
    int with;     /* errno of the failing one; 0: it writes nothing */
} puts_made;

static ssize_t watched_put(int fd, const void *data, uint64_t bytes, uint64_t offset)
{
    const uint64_t at = puts_made.crossed;
    if (++puts_made.calls == puts_made.failing) {
        errno = puts_made.with;
        return puts_made.with ? -1 : 0;
    }
    if (puts_made.in_bits && puts_made.calls % 3 == 0) {
        errno = EINTR;
        return -1;
    }
    if (puts_made.in_bits && bytes > 1000)
        bytes = 1 + puts_made.calls * 37 % 1000;
    puts_made.bytes += bytes;
    puts_made.crossing += offset < at && offset + bytes > at;
    return plain_calls.put(fd, data, bytes, offset);
}

static int watch_puts(void **state)
{
    rows_make_folder(state);
    calls.put = watched_put;
    memset(&puts_made, 0, sizeof puts_made);
    return 0;
}

#define TEST_IN_FOLDER(name) TEST_IN(name, watch_puts, rows_remove_folder)

/* Wherever the test runs, the file is counted as one on a disk, or in memory. */
static struct leat_columns *opened(bool in_memory)
{
    struct leat_columns *c;
    struct leat_error error;
    assert_ok(rows_open(path, false, &c, &error));
    c->in_memory = in_memory;
    c->put_least = 0;
    return c;
}

static int write_from(struct leat_columns *c, uint64_t first, uint64_t n, uint64_t version, struct leat_error *error)
{
    uint64_t ids[ROWS_MANY], versions[ROWS_MANY];
    for (uint64_t i = 0; i < n; i++) {
        ids[i] = first + i;
        versions[i] = version;
    }
    return rows_write_many(c, ids, NULL, versions, n, error);
}

static uint64_t size_of_file(void)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return (uint64_t)st.st_size;
}

TEST_IN_FOLDER(rows_are_put_together_and_read_whole)
{
    struct leat_error error;
    struct leat_columns *c = opened(false);
    assert_ok(write_from(c, 0, ROWS_MANY, 3, &error));
    assert_true(puts_made.calls > 0 && puts_made.calls < 10);
    assert_true(puts_made.bytes >= ROWS_MANY * sizeof(uint64_t[WIDTH]));
    for (uint64_t id = 0; id < ROWS_MANY; id++)
        assert_int_equal(rows_version(c, id, NULL), 3);
    const uint64_t before = puts_made.calls;
    assert_ok(rows_write(c, 5, NULL, 4, &error)); /* too few bytes for a call */
    assert_int_equal(puts_made.calls, before);
    assert_int_equal(rows_version(c, 5, NULL), 4);
    c->put_least = PUT_LEAST_TOGETHER;
    assert_ok(write_from(c, 0, 50, 5, &error)); /* likewise, though their run is long enough */
    assert_int_equal(puts_made.calls, before);
    assert_ok(write_from(c, 0, ROWS_MANY, 6, &error));
    assert_true(puts_made.calls > before);
    leat_columns_close(c);
}

TEST_IN_FOLDER(a_call_that_writes_a_part_or_is_interrupted_goes_on)
{
    struct leat_error error;
    struct leat_columns *c = opened(false);
    puts_made.in_bits = true;
    for (uint64_t version = 1; version < 4; version++) {
        assert_ok(write_from(c, 0, ROWS_MANY, version, &error));
        for (uint64_t id = 0; id < ROWS_MANY; id++)
            assert_int_equal(rows_version(c, id, NULL), version);
    }
    assert_true(puts_made.calls > 100);
    leat_columns_close(c);
}

TEST_IN_FOLDER(the_last_of_rows_with_one_id_stays)
{
    enum { IDS = 7 };
    struct leat_error error;
    struct leat_columns *c = opened(false);
    uint64_t ids[ROWS_MANY], versions[ROWS_MANY];
    for (uint64_t round = 0; round < 5; round++) {
        for (uint64_t i = 0; i < ROWS_MANY; i++) {
            ids[i] = leat_draw_below(round, i, IDS);
            versions[i] = round * ROWS_MANY + i + 1;
        }
        assert_ok(rows_write_many(c, ids, NULL, versions, ROWS_MANY, &error));
        for (uint64_t id = 0; id < IDS; id++) {
            uint64_t last = ROWS_MANY - 1;
            while (ids[last] != id)
                last--;
            assert_int_equal(rows_version(c, id, NULL), versions[last]);
        }
        assert_ok(leat_columns_flush(c, &error));
    }
    assert_true(puts_made.calls > 0);
    leat_columns_close(c);
}

/* ---- a call that fails --------------------------------------------------------------------------------------------
 */

TEST_IN_FOLDER(rows_before_one_that_cannot_be_put_are_visible_and_the_others_as_they_were)
{
    const int with[] = {ENOSPC, EIO, 0};
    struct leat_error error;
    for (unsigned n = 1; n <= 3; n++) {
        unlink(path);
        struct leat_columns *c = opened(false);
        assert_ok(write_from(c, 0, ROWS_MANY, 1, &error));
        const uint64_t size = size_of_file();
        puts_made.calls = 0;
        puts_made.failing = n;
        puts_made.with = with[n - 1];
        assert_int_equal(write_from(c, 0, ROWS_MANY, 2, &error), LEAT_E_IO);
        assert_int_equal(error.sys_errno, with[n - 1] ? with[n - 1] : EIO);
        assert_string_equal(error.file, path);
        assert_true(error.offset > 0 && (uint64_t)error.offset < size_of_file());
        assert_non_null(strstr(error.message, "cannot be written to"));
        assert_true(error.sample == 0 ? n == 1 : error.sample < ROWS_MANY);
        for (uint64_t id = 0; id < ROWS_MANY; id++)
            assert_int_equal(rows_version(c, id, NULL), id < (uint64_t)error.sample ? 2 : 1);
        /* their slots are free again */
        puts_made.failing = 0;
        for (uint64_t turn = 0; turn < 50; turn++) {
            puts_made.failing = puts_made.calls + 1;
            assert_int_equal(write_from(c, 0, ROWS_MANY, 3, &error), LEAT_E_IO);
        }
        assert_true(size_of_file() <= size + SEGMENT_BYTES);
        puts_made.failing = 0;
        assert_ok(write_from(c, 0, ROWS_MANY, 4, &error));
        assert_ok(leat_columns_flush(c, &error));
        for (uint64_t id = 0; id < ROWS_MANY; id++)
            assert_int_equal(rows_version(c, id, NULL), 4);
        leat_columns_close(c);
    }
}

static const struct leat_field mixed[] = {
    {.name = "half", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_F16, .ndim = 1, .shape = {50}},
    {.name = "small", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I8, .ndim = 1, .shape = {70}},
    {.name = "list", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I32, .ndim = 2, .shape = {-1, 2}},
    {.name = "bytes", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I8, .ndim = 1, .shape = {-1}},
};
enum { MIXED = 200, LIST_MOST = 400 };

static struct leat_columns *opened_mixed(const char *at)
{
    struct leat_columns_options options = LEAT_COLUMNS_OPTIONS_INIT;
    struct leat_columns *c;
    struct leat_error error;
    options.fields = mixed;
    options.n_fields = 4;
    assert_ok(leat_columns_open(at, &options, &c, &error));
    c->in_memory = false;
    c->put_least = 0;
    return c;
}

struct mixed_rows {
    uint64_t ids[MIXED];
    float half[MIXED][50], small[MIXED][70], bytes[MIXED * LIST_MOST];
    int32_t list[MIXED * LIST_MOST * 2];
    int64_t list_at[MIXED + 1], bytes_at[MIXED + 1];
};

static void fill_mixed(struct mixed_rows *m)
{
    memset(m, 0, sizeof *m);
    for (uint64_t i = 0; i < MIXED; i++) {
        m->ids[i] = i * 7 % MIXED;
        for (unsigned k = 0; k < 50; k++)
            m->half[i][k] = (float)leat_draw_below(1, i * 50 + k, 1000) / 7;
        for (unsigned k = 0; k < 70; k++)
            m->small[i][k] = (float)leat_draw_below(2, i * 70 + k, 1000) / 9 - 50;
        m->list_at[i + 1] = m->list_at[i] + (int64_t)leat_draw_below(3, i, LIST_MOST);
        m->bytes_at[i + 1] = m->bytes_at[i] + (int64_t)leat_draw_below(4, i, LIST_MOST);
    }
    for (unsigned k = 0; k < MIXED * LIST_MOST; k++) {
        m->list[2 * k] = (int32_t)(k * 2654435761u);
        m->list[2 * k + 1] = (int32_t)k;
        m->bytes[k] = (float)leat_draw_below(5, k, 1000) / 3 - 100;
    }
}

/* Rows first to first + n by one call. */
static int write_mixed(struct leat_columns *c, const struct mixed_rows *m, uint64_t first, uint64_t n,
                       struct leat_error *error)
{
    int64_t list_at[MIXED + 1], bytes_at[MIXED + 1];
    for (uint64_t i = 0; i <= n; i++) {
        list_at[i] = m->list_at[first + i] - m->list_at[first];
        bytes_at[i] = m->bytes_at[first + i] - m->bytes_at[first];
    }
    const struct leat_column columns[] = {{m->half[first], LEAT_F32, NULL},
                                          {m->small[first], LEAT_F32, NULL},
                                          {m->list + 2 * m->list_at[first], LEAT_I32, list_at},
                                          {m->bytes + m->bytes_at[first], LEAT_F32, bytes_at}};
    return leat_columns_write(c, m->ids + first, NULL, n, columns, error);
}

struct mixed_out {
    uint16_t half[MIXED][50];
    float small[MIXED][70];
    int64_t list_at[MIXED + 1], bytes_at[MIXED + 1];
    uint8_t present[MIXED];
    struct leat_column_out out[4];
};

static void gather_mixed(struct leat_columns *c, const uint64_t *ids, struct mixed_out *o)
{
    struct leat_error error;
    memset(o, 0, sizeof *o);
    o->out[0] = (struct leat_column_out){true, o->half, NULL};
    o->out[1] = (struct leat_column_out){true, o->small, NULL};
    o->out[2] = (struct leat_column_out){true, NULL, o->list_at};
    o->out[3] = (struct leat_column_out){true, NULL, o->bytes_at};
    assert_ok(leat_columns_gather(c, ids, NULL, MIXED, o->out, false, o->present, &error));
}

TEST_IN_FOLDER(values_that_are_rounded_and_rows_of_all_sizes_are_the_same_both_ways)
{
    static struct mixed_rows m;
    static struct mixed_out put, mapped;
    char other[PATH_MAX + 32];
    struct leat_error error;
    snprintf(other, sizeof other, "%s/b.store", folder);
    fill_mixed(&m);
    struct leat_columns *c = opened_mixed(path), *one = opened_mixed(other);
    for (unsigned round = 0; round < 3; round++) {
        const uint64_t before = puts_made.calls;
        assert_ok(write_mixed(c, &m, 0, MIXED, &error));
        assert_true(puts_made.calls > before);
        calls.put = NULL; /* none is made */
        for (uint64_t i = 0; i < MIXED; i++)
            if (m.list_at[i + 1] - m.list_at[i] < 300) /* one row at a time, of less than 4096 bytes */
                assert_ok(write_mixed(one, &m, i, 1, &error));
        calls.put = watched_put;
        for (uint64_t i = 0; i < MIXED; i++)
            if (m.list_at[i + 1] - m.list_at[i] >= 300)
                assert_ok(write_mixed(one, &m, i, 1, &error));
        gather_mixed(c, m.ids, &put);
        gather_mixed(one, m.ids, &mapped);
        for (unsigned i = 0; i < MIXED; i++)
            assert_int_equal(put.present[i], LEAT_PRESENT);
        assert_memory_equal(put.half, mapped.half, sizeof put.half);
        assert_memory_equal(put.small, mapped.small, sizeof put.small);
        assert_memory_equal(put.list_at, m.list_at, sizeof m.list_at);
        assert_memory_equal(mapped.list_at, m.list_at, sizeof m.list_at);
        assert_memory_equal(put.bytes_at, m.bytes_at, sizeof m.bytes_at);
        assert_memory_equal(put.out[2].data, m.list, (size_t)m.list_at[MIXED] * 8);
        assert_memory_equal(mapped.out[2].data, m.list, (size_t)m.list_at[MIXED] * 8);
        assert_memory_equal(put.out[3].data, mapped.out[3].data, (size_t)m.bytes_at[MIXED] * 4);
        for (unsigned f = 2; f < 4; f++) {
            leat_free(put.out[f].data);
            leat_free(mapped.out[f].data);
        }
        assert_ok(leat_columns_flush(c, &error));
        assert_ok(leat_columns_flush(one, &error));
    }
    leat_columns_close(c);
    leat_columns_close(one);
}

/* Rows of several sizes are put in another order than theirs. */
TEST_IN_FOLDER(so_the_rows_before_are_where_rows_of_several_sizes_lie_apart)
{
    static struct mixed_rows m;
    static struct mixed_out got;
    struct leat_error error;
    fill_mixed(&m);
    bool in_the_middle = false;
    for (puts_made.failing = 1;; puts_made.failing++) {
        unlink(path);
        struct leat_columns *c = opened_mixed(path);
        puts_made.calls = 0;
        puts_made.with = ENOSPC;
        const int rc = write_mixed(c, &m, 0, MIXED, &error);
        uint64_t written = MIXED;
        if (rc) {
            assert_int_equal(rc, LEAT_E_IO);
            for (written = 0; m.ids[written] != (uint64_t)error.sample;)
                written++;
            in_the_middle |= written % WRITTEN_TOGETHER != 0;
        }
        gather_mixed(c, m.ids, &got);
        for (uint64_t i = 0; i < MIXED; i++)
            assert_int_equal(got.present[i], i < written ? LEAT_PRESENT : LEAT_MISSING);
        leat_free(got.out[2].data);
        leat_free(got.out[3].data);
        leat_columns_close(c);
        if (!rc)
            break;
    }
    assert_true(puts_made.failing > 3);
    assert_true(in_the_middle);
}

/* ---- where and when -----------------------------------------------------------------------------------------------
 */

enum { PAGE_ROW = (4096 - sizeof(struct record)) / 8 }; /* numbers of a row whose slot is a page */

/* `bytes` a multiple of 8. */
static struct leat_columns *opened_wide(uint64_t bytes, bool in_memory)
{
    const struct leat_field field = {
        .name = "x", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U64, .ndim = 1, .shape = {(int64_t)(bytes / 8)}};
    struct leat_columns_options options = LEAT_COLUMNS_OPTIONS_INIT;
    struct leat_columns *c;
    struct leat_error error;
    options.fields = &field;
    options.n_fields = 1;
    assert_ok(leat_columns_open(path, &options, &c, &error));
    c->in_memory = in_memory;
    c->put_least = 0;
    return c;
}

/* n rows of `numbers`, each of which begins with its id and the version. */
static int write_wide(struct leat_columns *c, uint64_t numbers, uint64_t first, uint64_t n, uint64_t version,
                      struct leat_error *error)
{
    uint64_t *ids = malloc(n * sizeof *ids), *rows = calloc(n * numbers, sizeof *rows);
    for (uint64_t i = 0; i < n; i++) {
        ids[i] = first + i;
        rows[i * numbers] = first + i;
        rows[i * numbers + numbers - 1] = version;
    }
    const struct leat_column column = {.data = rows, .dtype = LEAT_U64};
    const int rc = leat_columns_write(c, ids, NULL, n, &column, error);
    free(ids);
    free(rows);
    return rc;
}

/* The version of a row; 0: there is none. */
static uint64_t wide_version(struct leat_columns *c, uint64_t numbers, uint64_t id)
{
    uint64_t *row = malloc(numbers * sizeof *row);
    uint8_t present;
    struct leat_error error;
    struct leat_column_out out = {.wanted = true, .data = row};
    assert_ok(leat_columns_gather(c, &id, NULL, 1, &out, false, &present, &error));
    const uint64_t version = present ? row[numbers - 1] : 0;
    assert_true(!present || row[0] == id);
    free(row);
    return version;
}

static int sparse(int fd, uint64_t offset, uint64_t bytes)
{
    return ftruncate(fd, (off_t)(offset + bytes));
}

TEST_IN_FOLDER(a_run_goes_on_from_one_group_and_window_to_the_next)
{
    const uint64_t before = 64 * (SEGMENT_BYTES / 4096), around = 300; /* rows of a group */
    struct leat_error error;
    struct leat_columns *c = opened_wide(PAGE_ROW * 8, false);
    uint64_t segment, end = 0;
    calls.allocate = sparse;
    assert_ok(write_wide(c, PAGE_ROW, 0, 1, 1, &error)); /* the index is there */
    for (uint64_t i = 1; i < 300; i++)                   /* and what is free of its group is taken */
        assert_ok(write_wide(c, PAGE_ROW, i, 1, 1, &error));
    struct group *g = c->groups[c->n_groups - 1];
    g->n_free = 0;
    memset(g->free, 0, g->slots / 8);
    assert_ok(leat_columns_look_end(c, &end, &error));
    assert_ok(leat_columns_grow_begin(c, &error));
    assert_ok(leat_columns_grow(c, SEGMENT_NONE, WINDOW_SEGMENTS - 64 - end, &segment, &error));
    leat_columns_grow_end(c);
    for (uint64_t i = 0; i + around / 2 < before; i += 64)
        assert_ok(write_wide(c, PAGE_ROW, 1000 + i, 64, 2, &error));
    assert_ok(write_wide(c, PAGE_ROW, 39000, 10, 2, &error)); /* no run ends where the window does */
    puts_made.crossed = WINDOW_BYTES;
    assert_ok(write_wide(c, PAGE_ROW, 40000, around, 3, &error));
    assert_int_equal(puts_made.crossing, 1);
    for (uint64_t i = 0; i < around; i++)
        assert_int_equal(wide_version(c, PAGE_ROW, 40000 + i), 3);
    puts_made.crossed = WINDOW_BYTES + SEGMENT_BYTES;
    puts_made.crossing = 0;
    assert_ok(write_wide(c, PAGE_ROW, 50000, around, 4, &error));
    assert_int_equal(puts_made.crossing, 1);
    for (uint64_t i = 0; i < around; i++)
        assert_int_equal(wide_version(c, PAGE_ROW, 50000 + i), 4);
    leat_columns_close(c);
}

TEST_IN_FOLDER(large_rows_are_put_one_at_a_time_and_larger_ones_not_at_all)
{
    const uint64_t large = PUT_BYTES / 8 + 100, larger = PUT_MOST / 8 + 100;
    struct leat_error error;
    struct leat_columns *c = opened_wide(large * 8, false);
    assert_ok(write_wide(c, large, 0, 5, 1, &error));
    assert_int_equal(puts_made.calls, 5);
    for (uint64_t id = 0; id < 5; id++)
        assert_int_equal(wide_version(c, large, id), 1);
    leat_columns_close(c);
    unlink(path);
    c = opened_wide(larger * 8, false);
    assert_ok(write_wide(c, larger, 0, 3, 1, &error));
    assert_int_equal(puts_made.calls, 5);
    for (uint64_t id = 0; id < 3; id++)
        assert_int_equal(wide_version(c, larger, id), 1);
    leat_columns_close(c);
}

TEST_IN_FOLDER(pages_that_are_mapped_and_dirty_are_written_through_the_mapping)
{
    enum { ROWS = 100 };
    struct leat_error error;
    for (int in_memory = 0; in_memory < 2; in_memory++) {
        uint64_t after[5];
        unlink(path);
        struct leat_columns *c = opened_wide(PAGE_ROW * 8, in_memory);
        for (unsigned round = 0; round < 5; round++) { /* two sets of slots take turns */
            assert_ok(write_wide(c, PAGE_ROW, 0, ROWS, round + 1, &error));
            assert_ok(leat_columns_flush(c, &error));
            after[round] = puts_made.calls;
            for (uint64_t id = 0; id < ROWS; id++)
                assert_int_equal(wide_version(c, PAGE_ROW, id), round + 1);
        }
        assert_true(after[0] > 0 && after[1] > after[0]);
        assert_true(in_memory ? after[4] == after[1] : after[4] > after[3]);
        leat_columns_close(c);
        puts_made.calls = 0;
    }
}

TEST_IN_FOLDER(a_file_that_was_cut_is_an_error_and_does_not_become_longer)
{
    struct leat_error error;
    struct leat_columns *c = opened_wide(PAGE_ROW * 8, false);
    assert_ok(write_wide(c, PAGE_ROW, 0, 10, 1, &error));
    const uint64_t size = size_of_file() - SEGMENT_BYTES + 20 * 4096; /* the index is before it */
    assert_int_equal(truncate(path, (off_t)size), 0);
    assert_int_equal(write_wide(c, PAGE_ROW, 100, 100, 1, &error), LEAT_E_IO);
    assert_string_equal(error.file, path);
    assert_int_equal(size_of_file(), size);
    for (uint64_t id = 100; id < 200; id++)
        assert_int_equal(wide_version(c, PAGE_ROW, id), id < (uint64_t)error.sample);
    leat_columns_close(c);
}

TEST_IN_FOLDER(without_memory_for_a_buffer_rows_are_written_all_the_same)
{
    struct leat_error error;
    bool without = false, failed = true;
    for (int64_t n = 0; failed; n++) {
        unlink(path);
        struct leat_columns *c = opened_wide(PAGE_ROW * 8, false);
        puts_made.calls = 0;
        fail_allocation(n);
        const int rc = write_wide(c, PAGE_ROW, 0, 50, 1, &error);
        failed = allocation_failed();
        assert_true(!rc || rc == LEAT_E_NOMEM);
        without |= !rc && !puts_made.calls;
        for (uint64_t id = 0; id < 50; id++)
            assert_int_equal(wide_version(c, PAGE_ROW, id), !rc || id < (uint64_t)error.sample);
        leat_columns_close(c);
    }
    assert_true(without);
}

/* ---- many at a time -----------------------------------------------------------------------------------------------
 */

enum { THREADS = 4, EACH = 60, TURNS = TEST_THREAD_SANITIZED ? 60 : 300 };
static struct leat_columns *common;

/* Rows of its own, and some that all write, by each call. */
static void *write_together(void *number)
{
    const uint64_t t = (uintptr_t)number;
    uint64_t ids[2 * EACH], versions[2 * EACH];
    struct leat_error error;
    for (uint64_t turn = 0; turn < TURNS; turn++) {
        for (uint64_t i = 0; i < 2 * EACH; i++) {
            ids[i] = i < EACH ? i : 1000 * (t + 1) + i;
            versions[i] = turn * THREADS + t + 1;
        }
        if (rows_write_many(common, ids, NULL, versions, 2 * EACH, &error))
            return &common;
        for (uint64_t i = 0; i < 2 * EACH; i += 7) {
            const uint64_t version = rows_version(common, ids[i], NULL);
            if (i < EACH ? !version || version >= UINT64_MAX - 1 : version != versions[i])
                return &common;
        }
        if (turn % 10 == t && leat_columns_flush(common, &error))
            return &common;
    }
    return NULL;
}

TEST_IN_FOLDER(threads_that_put_the_same_rows_leave_whole_ones)
{
    pthread_t threads[THREADS];
    void *failed;
    calls.put = plain_calls.put;
    common = opened(false);
    for (uintptr_t t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, write_together, (void *)t), 0);
    for (unsigned t = 0; t < THREADS; t++) {
        assert_int_equal(pthread_join(threads[t], &failed), 0);
        assert_null(failed);
    }
    leat_columns_close(common);
}

TEST_MAIN()
