/* Columns beside a data set: what is written is read, in this open file and in others, and what is wrong is refused. */
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include "base/random.h"
#include "columns/internal.h"
#include "rows.h"

#define TEST_IN_FOLDER(name) TEST_IN(name, rows_make_folder, rows_remove_folder)

static struct leat_columns *opened(bool keyed)
{
    struct leat_columns *c;
    struct leat_error error;
    assert_ok(rows_open(path, keyed, &c, &error));
    return c;
}

TEST_IN_FOLDER(what_is_written_is_read_and_what_is_not_is_missing)
{
    struct leat_error error;
    struct leat_columns *c = opened(false), *other;
    const uint64_t ids[] = {0, 7, 70000, 300000000, LEAT_COLUMNS_MAX_ID - 1};
    for (size_t i = 0; i < 5; i++)
        assert_ok(rows_write(c, ids[i], NULL, i + 1, &error));
    assert_ok(rows_open(path, false, &other, &error));
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(rows_version(c, ids[i], NULL), i + 1);
        assert_int_equal(rows_version(other, ids[i], NULL), i + 1);
        assert_int_equal(rows_version(other, ids[i] ^ 1, NULL), 0);
    }
    assert_ok(rows_write(other, 7, NULL, 9, &error));
    assert_int_equal(rows_version(c, 7, NULL), 9);
    leat_columns_close(c);
    leat_columns_close(other);
    c = opened(false);
    assert_int_equal(rows_version(c, 7, NULL), 9);
    assert_int_equal(rows_version(c, 0, NULL), 1);
    leat_columns_close(c);
}

TEST_IN_FOLDER(rows_are_rewritten_in_place_of_what_a_flush_has_made_free)
{
    enum { ROWS = 3000, ROUNDS = 12 };
    struct leat_error error;
    struct leat_columns *c = opened(false);
    struct stat after[ROUNDS];
    for (uint64_t round = 0; round < ROUNDS; round++) {
        for (uint64_t i = 0; i < ROWS; i++)
            assert_ok(rows_write(c, (i * 7919) % ROWS, NULL, round * ROWS + i + 1, &error));
        assert_ok(leat_columns_flush(c, &error));
        assert_int_equal(stat(path, &after[round]), 0);
        for (uint64_t i = 0; i < ROWS; i++)
            assert_int_equal(rows_version(c, (i * 7919) % ROWS, NULL), round * ROWS + i + 1);
    }
    assert_true(after[2].st_size < 2 * after[0].st_size);
    assert_int_equal(after[ROUNDS - 1].st_size, after[2].st_size);
    leat_columns_close(c);
    c = opened(false); /* what another open file has left is found free */
    for (uint64_t i = 0; i < ROWS; i++)
        assert_ok(rows_write(c, i, NULL, 1, &error));
    struct stat last;
    assert_int_equal(stat(path, &last), 0);
    assert_true(last.st_size <= after[2].st_size + (1 << 20));
    leat_columns_close(c);
}

TEST_IN_FOLDER(rows_written_again_and_again_without_a_flush_take_no_more_room)
{
    struct leat_error error;
    struct leat_columns *c = opened(false);
    struct stat st;
    for (uint64_t i = 0; i < 200000; i++)
        assert_ok(rows_write(c, i % 10, NULL, i + 1, &error));
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size <= 8 << 20);
    assert_true(c->n_dirty <= 1 << 16 && c->n_left < 10000); /* nor memory */
    assert_ok(leat_columns_flush(c, &error));
    assert_int_equal(c->n_dirty, 0);
    leat_columns_close(c);
}

TEST_IN_FOLDER(files_of_two_writers_of_the_same_rows_stay_small)
{
    enum { ROWS = 6000, ROUNDS = 16 };
    struct leat_error error;
    struct leat_columns *c[] = {opened(false), opened(false)};
    struct stat after[ROUNDS];
    for (uint64_t round = 0; round < ROUNDS; round++) {
        for (uint64_t i = 0; i < ROWS; i++) { /* who writes a row differs from round to round */
            const uint64_t id = (i * 7919 + round * 31) % ROWS;
            assert_ok(rows_write(c[leat_draw_below(round, i, 2)], id, NULL, round * ROWS + id + 1, &error));
        }
        for (size_t i = 0; i < 2; i++)
            assert_ok(leat_columns_flush(c[i], &error));
        assert_int_equal(stat(path, &after[round]), 0);
        for (uint64_t id = 0; id < ROWS; id++)
            assert_int_equal(rows_version(c[round % 2], id, NULL), round * ROWS + id + 1);
    }
    assert_true(after[ROUNDS - 1].st_size <= after[4].st_size + (1 << 20));
    leat_columns_close(c[0]);
    leat_columns_close(c[1]);
}

enum { LOST = 500, OTHER = 600, MORE = 40 }; /* ids */

static struct entry *entry_of(struct leat_columns *c, uint64_t id)
{
    struct entry *entry;
    struct leat_error error;
    assert_ok(leat_columns_look_up(c, id, 0, false, &entry, &error));
    return entry;
}

static uint64_t offset_of(struct leat_columns *c, uint64_t id)
{
    return leat_columns_offset(atomic_load(&entry_of(c, id)->live));
}

/* As if power had been lost before it was on disk. */
static void lose_record(uint64_t offset)
{
    const uint8_t zeroes[sizeof(struct record)] = {0};
    const int fd = open(path, O_RDWR);
    assert_int_equal(pwrite(fd, zeroes, sizeof zeroes, (off_t)offset), sizeof zeroes);
    close(fd);
}

/* A row whose record was lost with power gives its slot to another, which is flushed. That one's id. */
static uint64_t lose_slot_to_another(struct leat_columns **out)
{
    struct leat_error error;
    struct leat_columns *c = opened(false);
    for (uint64_t i = 0; i < 100; i++)
        assert_ok(rows_write(c, i, NULL, 1, &error));
    assert_ok(leat_columns_flush(c, &error));
    assert_ok(rows_write(c, LOST, NULL, 2, &error));
    const uint64_t offset = offset_of(c, LOST);
    leat_columns_close(c);
    lose_record(offset);
    *out = c = opened(false);
    for (uint64_t i = 0; i < MORE; i++)
        assert_ok(rows_write(c, OTHER + i, NULL, 3, &error));
    assert_ok(leat_columns_flush(c, &error));
    uint64_t id = OTHER;
    while (offset_of(c, id) != offset)
        assert_true(++id < OTHER + MORE);
    return id;
}

TEST_IN_FOLDER(a_slot_is_freed_under_nobody_who_has_it_now)
{
    struct leat_error error;
    struct leat_columns *c;
    lose_slot_to_another(&c);
    assert_ok(rows_write(c, LOST, NULL, 4, &error));
    assert_ok(leat_columns_flush(c, &error));
    for (uint64_t i = 0; i < MORE; i++)
        assert_ok(rows_write(c, OTHER + MORE + i, NULL, 5, &error));
    assert_ok(leat_columns_flush(c, &error));
    for (uint64_t i = 0; i < 2 * MORE; i++)
        assert_int_equal(rows_version(c, OTHER + i, NULL), i < MORE ? 3 : 5);
    assert_int_equal(rows_version(c, LOST, NULL), 4);
    leat_columns_close(c);
}

/* Its live record is elsewhere by now, and may be lost with power. */
TEST_IN_FOLDER(nor_under_one_who_had_it_at_the_last_flush)
{
    struct leat_error error;
    struct leat_columns *c;
    const uint64_t owner = lose_slot_to_another(&c);
    assert_ok(rows_write(c, LOST, NULL, 4, &error));
    assert_ok(rows_write(c, owner, NULL, 4, &error));
    assert_ok(leat_columns_flush_begin(c, false, &error)); /* as a write that wants a slot does */
    leat_columns_reclaim(c);
    leat_columns_flush_end(c);
    for (uint64_t i = 0; i < MORE; i++)
        assert_ok(rows_write(c, OTHER + MORE + i, NULL, 5, &error));
    assert_int_equal(rows_version(c, owner, NULL), 4);
    lose_record(offset_of(c, owner));
    assert_int_equal(rows_version(c, owner, NULL), 3);
    leat_columns_close(c);
}

TEST_IN_FOLDER(pairs_are_found_however_many_there_are)
{
    enum { PAIRS = 150000 }; /* three levels */
    struct leat_error error;
    struct leat_columns *c = opened(true);
    uint64_t *ids, *keys, n;
    for (uint64_t i = 0; i < PAIRS; i++) {
        const uint64_t key = i * i;
        assert_ok(rows_write(c, i % 1000, &key, i + 1, &error));
    }
    leat_columns_close(c);
    c = opened(true);
    for (uint64_t i = 0; i < PAIRS; i++) {
        const uint64_t key = i * i, absent = i * i + (UINT64_C(1) << 40);
        assert_int_equal(rows_version(c, i % 1000, &key), i + 1);
        assert_int_equal(rows_version(c, i % 1000, &absent), 0);
    }
    assert_ok(leat_columns_list(c, &ids, &keys, &n, &error));
    assert_int_equal(n, PAIRS);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += keys[i] * 3 + ids[i];
    for (uint64_t i = 0; i < PAIRS; i++)
        sum -= i * i * 3 + i % 1000;
    assert_int_equal(sum, 0);
    leat_free(ids);
    leat_free(keys);
    leat_columns_close(c);
}

TEST_IN_FOLDER(fields_of_all_kinds_come_back_as_docs_say)
{
    const struct leat_field fields[] = {
        {.name = "half", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_F16, .ndim = 1, .shape = {3}},
        {.name = "brain", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_BF16},
        {.name = "small", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I8, .ndim = 1, .shape = {4}},
        {.name = "list", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I32, .ndim = 2, .shape = {-1, 2}},
        {.name = "bytes", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I8, .ndim = 1, .shape = {-1}},
    };
    struct leat_columns_options options = LEAT_COLUMNS_OPTIONS_INIT;
    options.fields = fields;
    options.n_fields = 5;
    struct leat_columns *c;
    struct leat_error error;
    assert_ok(leat_columns_open(path, &options, &c, &error));
    const float half[] = {1, -2.5f, 65504, 0.1f, INFINITY, 0}, brain[] = {1.00390625f, 3},
                small[] = {-1, 0.5f, 0, 1, 0, 0, 0, 0};
    const int32_t list[] = {1, 2, 3, 4, 5, 6};
    const int8_t bytes[] = {-128, 127, 5};
    const int64_t list_at[] = {0, 1, 3}, bytes_at[] = {0, 0, 3};
    const struct leat_column columns[] = {{half, LEAT_F32, NULL},
                                          {brain, LEAT_F32, NULL},
                                          {small, LEAT_F32, NULL},
                                          {list, LEAT_I32, list_at},
                                          {bytes, LEAT_I8, bytes_at}};
    const uint64_t ids[] = {5, 9}, asked[] = {9, 1, 5};
    assert_ok(leat_columns_write(c, ids, NULL, 2, columns, &error));
    uint16_t half_out[9], brain_out[3];
    float small_out[12];
    int64_t list_out[4], bytes_out[4];
    uint8_t present[3];
    struct leat_column_out out[5] = {{true, half_out, NULL},
                                     {true, brain_out, NULL},
                                     {true, small_out, NULL},
                                     {true, NULL, list_out},
                                     {true, NULL, bytes_out}};
    assert_ok(leat_columns_gather(c, asked, NULL, 3, out, false, present, &error));
    const uint8_t there[] = {1, 0, 1};
    assert_memory_equal(present, there, 3);
    const uint16_t halves[] = {0x2e66, 0x7c00, 0, 0, 0, 0, 0x3c00, 0xc100, 0x7bff};
    assert_memory_equal(half_out, halves, sizeof halves);
    const uint16_t brains[] = {0x4040, 0, 0x3f80}; /* a tie goes to even */
    assert_memory_equal(brain_out, brains, sizeof brains);
    for (int i = 0; i < 8; i++)
        assert_true(small_out[i] == 0);
    assert_true(small_out[8] == -1 && fabsf(small_out[9] - 0.5f) < 1.0f / 254 && small_out[10] == 0 &&
                small_out[11] == 1);
    const int64_t list_ends[] = {0, 2, 2, 3}, bytes_ends[] = {0, 3, 3, 3};
    assert_memory_equal(list_out, list_ends, sizeof list_ends);
    assert_memory_equal(bytes_out, bytes_ends, sizeof bytes_ends);
    const int32_t listed[] = {3, 4, 5, 6, 1, 2};
    assert_memory_equal(out[3].data, listed, sizeof listed);
    const float floats[] = {-128, 127, 5};
    assert_memory_equal(out[4].data, floats, sizeof floats);
    leat_free(out[3].data);
    leat_free(out[4].data);
    const float most[] = {65519.9f, -65519.9f, INFINITY, 65520, 0, 0}, much[] = {0, 0, 0, -65520, 0, 0},
                large[] = {3, 0x1.ffp127f}, infinite[] = {1, 1, 1, 1, NAN, 1, 1, 1};
    const struct leat_column beyond[][5] = {
        {{most, LEAT_F32, NULL}, columns[1], columns[2], columns[3], columns[4]},
        {{much, LEAT_F32, NULL}, columns[1], columns[2], columns[3], columns[4]},
        {columns[0], {large, LEAT_F32, NULL}, columns[2], columns[3], columns[4]},
        {columns[0], columns[1], {infinite, LEAT_F32, NULL}, columns[3], columns[4]}};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(leat_columns_write(c, ids, NULL, 2, beyond[i], &error), LEAT_E_INVALID);
        assert_non_null(strstr(error.message, "of id 9"));
        assert_int_equal(error.sample, 9);
    }
    assert_ok(leat_columns_write(c, ids, NULL, 1, beyond[0], &error));
    leat_columns_close(c);
}

TEST_IN_FOLDER(columns_of_sparse_rows_rise_wherever_they_come_from)
{
    struct leat_field field = {.name = "X",
                               .kind = LEAT_KIND_ARRAY,
                               .dtype = LEAT_U8,
                               .ndim = 2,
                               .shape = {-1, 5},
                               .role = LEAT_ROLE_SPARSE,
                               .item = LEAT_U8,
                               .columns = 300};
    struct leat_columns_options options = LEAT_COLUMNS_OPTIONS_INIT;
    options.fields = &field;
    options.n_fields = 1;
    struct leat_columns *c;
    struct leat_error error;
    assert_ok(leat_columns_open(path, &options, &c, &error));
    const uint8_t rows[] = {7, 8, 0, 0, 0, 0, 43, 1, 0, 0, 9, 1, 0, 0, 0}; /* columns 0 and 299; 1 */
    const uint8_t wrong[3][10] = {
        {7, 8, 4, 0, 0, 0, 4, 0, 0, 0}, {7, 8, 0, 0, 0, 0, 44, 1, 0, 0}, {7, 8, 255, 255, 255, 255, 1, 0, 0, 0}};
    const uint64_t ids[] = {4, 2, 6};
    int64_t offsets[4] = {0, 2, 2, 3}, found[4];
    struct leat_column column = {rows, LEAT_U8, offsets};
    assert_ok(leat_columns_write(c, ids, NULL, 3, &column, &error));
    assert_ok(leat_columns_flush(c, &error));
    leat_columns_close(c);
    for (field.columns = 299; field.columns < 302; field.columns += 2)
        assert_int_equal(leat_columns_open(path, &options, &c, &error), LEAT_E_TYPE);
    field.columns = 300;
    field.item = LEAT_BOOL;
    assert_int_equal(leat_columns_open(path, &options, &c, &error), LEAT_E_TYPE);
    field.item = LEAT_U16;
    assert_int_equal(leat_columns_open(path, &options, &c, &error), LEAT_E_INVALID);
    field.item = LEAT_U8;
    field.columns = INT64_C(1) << 31;
    assert_int_equal(leat_columns_open(path, &options, &c, &error), LEAT_E_INVALID);
    options.fields = NULL;
    assert_ok(leat_columns_open(path, &options, &c, &error));
    size_t n;
    const struct leat_field *fields = leat_columns_fields(c, &n);
    assert_true(n == 1 && fields->role == LEAT_ROLE_SPARSE && fields->item == LEAT_U8 && fields->columns == 300);
    uint8_t present[3];
    struct leat_column_out out = {true, NULL, found};
    for (unsigned i = 0; i < 3; i++) {
        column.data = wrong[i];
        assert_int_equal(leat_columns_write(c, ids, NULL, 1, &column, &error), LEAT_E_INVALID);
        assert_int_equal(error.sample, 4);
    }
    assert_ok(leat_columns_gather(c, ids, NULL, 3, &out, false, present, &error));
    assert_memory_equal(found, offsets, sizeof offsets);
    assert_memory_equal(out.data, rows, sizeof rows);
    leat_free(out.data);
    c->fields[0].columns = 299; /* as if the row had been forged */
    out.data = NULL;
    assert_ok(leat_columns_gather(c, ids, NULL, 3, &out, true, present, &error));
    assert_true(present[0] == LEAT_BROKEN && present[1] == LEAT_PRESENT && present[2] == LEAT_PRESENT);
    assert_true(found[1] == 0 && found[3] == 1);
    leat_free(out.data);
    leat_columns_close(c);
}

TEST_IN_FOLDER(a_store_of_other_fields_or_another_data_set_is_refused)
{
    struct leat_error error;
    struct leat_columns *c;
    struct leat_columns_options options = LEAT_COLUMNS_OPTIONS_INIT;
    struct leat_field field = rows_field;
    options.fields = &field;
    options.n_fields = 1;
    options.fingerprint = "abc";
    assert_ok(leat_columns_open(path, &options, &c, &error));
    assert_string_equal(leat_columns_fingerprint(c), "abc");
    leat_columns_close(c);
    options.fingerprint = "abd";
    assert_int_equal(leat_columns_open(path, &options, &c, &error), LEAT_E_STATE);
    assert_null(c);
    assert_non_null(strstr(error.message, "another data set"));
    options.fingerprint = NULL;
    options.keyed = true;
    assert_int_equal(leat_columns_open(path, &options, &c, &error), LEAT_E_TYPE);
    options.keyed = false;
    field.shape[0]++;
    assert_int_equal(leat_columns_open(path, &options, &c, &error), LEAT_E_TYPE);
    options.fields = NULL;
    options.read_only = true;
    assert_ok(leat_columns_open(path, &options, &c, &error));
    assert_int_equal(rows_write(c, 1, NULL, 1, &error), LEAT_E_CLOSED);
    assert_int_equal(leat_columns_flush(c, &error), LEAT_E_CLOSED);
    leat_columns_close(c);
    snprintf(path, sizeof path, "%s/none", folder);
    assert_int_equal(leat_columns_open(path, &options, &c, &error), LEAT_E_NOT_FOUND);
}

TEST_IN_FOLDER(what_no_row_can_be_is_refused_and_nothing_is_written)
{
    struct leat_error error;
    struct leat_columns *c = opened(false);
    uint64_t row[2 * WIDTH] = {0}, ids[2] = {3, LEAT_COLUMNS_MAX_ID};
    struct leat_column column = {.data = row, .dtype = LEAT_U64};
    assert_int_equal(leat_columns_write(c, ids, NULL, 2, &column, &error), LEAT_E_INVALID);
    assert_int_equal(error.sample, (int64_t)LEAT_COLUMNS_MAX_ID);
    assert_int_equal(rows_version(c, 3, NULL), 0);
    column.dtype = LEAT_F32;
    assert_int_equal(leat_columns_write(c, ids, NULL, 1, &column, &error), LEAT_E_INVALID);
    column.dtype = LEAT_U64;
    assert_int_equal(leat_columns_write(c, ids, ids, 1, &column, &error), LEAT_E_INVALID);
    leat_columns_close(c);
}

TEST_MAIN()
