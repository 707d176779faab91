/* Rows of matrices in files: sparse ones with columns of every type and in any order, dense ones, gene maps, and what
 * is damaged. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "../allocations.h"
#include "../folder.h"
#include "base/random.h"
#include "data/dataset.h"
#include "leat/stored.h"

enum { ROWS = 60, COLUMNS = 100, VALUES = ROWS * 12, MOST = 8 * VALUES };

/* A sparse matrix: `columns` and `values` in the files are made of these. */
static int64_t pointers[ROWS + 1];
static int64_t columns[VALUES];
static int32_t map[COLUMNS];
static char paths[2][PATH_MAX + 16];
static const char *names[2] = {paths[0], paths[1]};
static struct leat_stored_array column_array;
static struct leat_stored_rows rows;
static _Atomic int released;

static void release(void *user)
{
    assert_ptr_equal(user, &rows);
    atomic_fetch_add(&released, 1);
}

/* Value k of the matrix, in an item of so many bytes. */
static uint64_t value_at(uint64_t k, size_t item)
{
    return (k * 0x9e3779b97f4a7c15) >> (64 - 8 * item);
}

static void write_files(enum leat_dtype item, enum leat_dtype column_dtype)
{
    static uint8_t text[MOST];
    const size_t bytes = leat_dtype_size(item), column_bytes = leat_dtype_size(column_dtype);
    for (uint64_t k = 0; k < VALUES; k++) {
        const uint64_t value = value_at(k, bytes);
        memcpy(text + k * bytes, &value, bytes);
    }
    files_write(folder, "values", text, VALUES * bytes);
    for (uint64_t k = 0; k < VALUES; k++)
        memcpy(text + k * column_bytes, &columns[k], column_bytes);
    files_write(folder, "columns", text, VALUES * column_bytes);
}

/* A matrix whose columns rise in each row, in chunks of 50 values and 70 columns as they are. */
static void make_matrix(enum leat_dtype item, enum leat_dtype column_dtype)
{
    static struct leat_stored_chunk chunks[2][VALUES];
    static const uint64_t sizes[] = {50, 70};
    memset(&rows, 0, sizeof rows);
    pointers[0] = 0;
    for (uint64_t i = 0, k = 0; i < ROWS; i++) {
        const uint64_t n = i == 7 ? 0 : leat_draw_below(1, i, 13);
        for (uint64_t j = 0, column = leat_draw_below(2, i, 8); j < n; j++, column += 1 + leat_draw_below(3, k, 8))
            columns[k++] = (int64_t)column;
        pointers[i + 1] = (int64_t)k;
    }
    column_array = (struct leat_stored_array){.name = "X/indices"};
    rows.values = (struct leat_stored_array){.name = "X/data"};
    for (unsigned a = 0; a < 2; a++) {
        struct leat_stored_array *to = a ? &column_array : &rows.values;
        snprintf(paths[a], sizeof paths[a], "%s/%s", folder, a ? "columns" : "values");
        to->item = (uint32_t)leat_dtype_size(a ? column_dtype : item);
        to->ndim = 1;
        to->shape[0] = (uint64_t)pointers[ROWS];
        to->chunk[0] = sizes[a];
        to->files = &names[a];
        to->n_files = 1;
        to->chunks = chunks[a];
        to->n_chunks = (to->shape[0] + sizes[a] - 1) / sizes[a];
        for (uint64_t i = 0; i < to->n_chunks; i++)
            chunks[a][i] = (struct leat_stored_chunk){.offset = i * sizes[a] * to->item, .bytes = sizes[a] * to->item};
    }
    rows.field = (struct leat_field){.name = "X",
                                     .kind = LEAT_KIND_ARRAY,
                                     .dtype = LEAT_U8,
                                     .ndim = 2,
                                     .shape = {-1, (int64_t)leat_dtype_size(item) + 4},
                                     .role = LEAT_ROLE_SPARSE,
                                     .item = item,
                                     .columns = COLUMNS};
    rows.columns = &column_array;
    rows.column_dtype = column_dtype;
    rows.pointers = pointers;
    write_files(item, column_dtype);
}

static struct leat_dataset *open_rows(void)
{
    struct leat_error error;
    struct leat_dataset *d;
    assert_ok(leat_dataset_from_stored(&rows, ROWS, "version", release, &rows, &d, &error));
    return d;
}

static void close_rows(struct leat_dataset *d)
{
    const int before = atomic_load(&released);
    leat_dataset_release(d);
    assert_int_equal(atomic_load(&released), before + 1);
}

/* What row i has in column c of the field, as the number of its value; -1: nothing. */
static int64_t number_in(uint64_t i, int64_t c)
{
    for (int64_t k = pointers[i]; k < pointers[i + 1]; k++)
        if ((rows.map ? map[columns[k]] : columns[k]) == c)
            return k;
    return -1;
}

static bool row_is_good(const struct leat_dataset *d, uint64_t i)
{
    struct leat_error error;
    struct leat_value value;
    const size_t item = rows.values.item;
    if (leat_dataset_read(d, i, 0, &value, &error)) {
        printf("# row %d: %s\n", (int)i, error.message);
        return false;
    }
    const uint64_t n = value.length / (item + 4);
    uint64_t k = 0;
    bool good = value.length % (item + 4) == 0;
    for (int32_t c = 0; c < rows.field.columns && good; c++) {
        const int64_t number = number_in(i, c);
        if (number < 0)
            continue;
        const uint64_t wanted = value_at((uint64_t)number, item);
        const uint8_t *data = value.data;
        good = k < n && memcmp(data + k * item, &wanted, item) == 0 && memcmp(data + n * item + 4 * k, &c, 4) == 0;
        k++;
    }
    leat_value_clear(&value);
    return good && k == n;
}

static void assert_rows(void)
{
    struct leat_dataset *d = open_rows();
    for (uint64_t i = 0; i < ROWS; i++)
        assert_true(row_is_good(d, i));
    close_rows(d);
}

/* The order of the columns in each row is turned. */
static void turn_columns(void)
{
    for (uint64_t i = 0; i < ROWS; i++)
        for (int64_t a = pointers[i], b = pointers[i + 1] - 1; a < b; a++, b--) {
            const int64_t c = columns[a];
            columns[a] = columns[b];
            columns[b] = c;
        }
}

static const enum leat_dtype column_dtypes[] = {LEAT_I8,  LEAT_U8,  LEAT_I16, LEAT_U16,
                                                LEAT_I32, LEAT_U32, LEAT_I64, LEAT_U64};
static const enum leat_dtype items[] = {LEAT_U8, LEAT_F16, LEAT_F32, LEAT_F64, LEAT_I8, LEAT_U16, LEAT_I32, LEAT_U64};

/* 37 other columns of the field take some of those of the file. */
static void make_map(void)
{
    for (int32_t c = 0; c < COLUMNS; c++)
        map[c] = c % 3 ? -1 : COLUMNS / 3 + 1 - c / 3;
    rows.map = map;
    rows.n_map = COLUMNS;
    rows.field.columns = COLUMNS / 3 + 4;
}

TEST(rows_have_columns_of_every_type_and_values_of_every_size)
{
    for (size_t t = 0; t < sizeof column_dtypes / sizeof *column_dtypes; t++)
        for (size_t v = t % test_every(2); v < sizeof items / sizeof *items; v += test_every(2)) {
            make_matrix(items[v], column_dtypes[t]);
            assert_rows();
            make_map();
            assert_rows();
        }
}

TEST(columns_that_do_not_rise_are_put_in_order)
{
    for (size_t t = 0; t < sizeof column_dtypes / sizeof *column_dtypes; t++) {
        make_matrix(items[t], column_dtypes[t]);
        turn_columns();
        write_files(items[t], column_dtypes[t]);
        assert_rows();
        make_map();
        assert_rows();
    }
}

static uint64_t row_with(int64_t n)
{
    uint64_t i = 0;
    while (pointers[i + 1] - pointers[i] < n)
        i++;
    return i;
}

/* Arrays that are not in chunks, of which enough was read that the rest is taken out of their mapping. */
static struct leat_dataset *open_warm(void)
{
    rows.values.n_chunks = column_array.n_chunks = 0;
    struct leat_dataset *d = open_rows();
    for (uint64_t i = 0; i < ROWS; i++)
        assert_true(row_is_good(d, i));
    return d;
}

TEST(rows_of_arrays_without_chunks_are_those_of_arrays_in_chunks)
{
    for (size_t t = 0; t < sizeof column_dtypes / sizeof *column_dtypes; t++)
        for (unsigned way = 0; way < 4; way++) {
            make_matrix(items[t], column_dtypes[t]);
            if (way % 2)
                turn_columns();
            write_files(items[t], column_dtypes[t]);
            if (way / 2)
                make_map();
            struct leat_dataset *d = open_warm();
            for (uint64_t i = 0; i < ROWS; i++)
                assert_true(row_is_good(d, i));
            close_rows(d);
        }
}

TEST(a_wrong_column_in_a_mapped_array_breaks_its_row_alone)
{
    for (unsigned turned = 0; turned < 2; turned++) {
        struct leat_error error;
        struct leat_value value;
        make_matrix(LEAT_F32, LEAT_I32);
        if (turned)
            turn_columns();
        write_files(LEAT_F32, LEAT_I32);
        leat_dataset_release(open_warm()); /* it is good */
        const uint64_t i = row_with(5), at = (uint64_t)pointers[i] + 3;
        const int32_t wrong = COLUMNS;
        FILE *f = fopen(paths[1], "r+b");
        assert_non_null(f);
        assert_int_equal(fseek(f, (long)(at * 4), SEEK_SET), 0);
        assert_int_equal(fwrite(&wrong, 4, 1, f), 1);
        fclose(f);
        rows.values.n_chunks = column_array.n_chunks = 0;
        rows.values.times = column_array.times = NULL;
        struct leat_dataset *d = open_rows();
        for (unsigned pass = 0; pass < 3; pass++) {
            assert_int_equal(leat_dataset_read(d, i, 0, &value, &error), LEAT_E_DECODE);
            assert_non_null(strstr(error.message, "value 3 (byte"));
            assert_int_equal(error.offset, at * 4);
            for (uint64_t k = 0; k < ROWS; k++)
                assert_true(k == i || row_is_good(d, k));
        }
        close_rows(d);
    }
}

static _Atomic bool toggles;

/* A column is good and beyond the file in turns. Changes by a mapping move no time of the file. */
static void *toggle(void *column)
{
    while (atomic_load(&toggles)) {
        *(volatile int32_t *)column = COLUMNS + 5;
        *(volatile int32_t *)column = 3;
    }
    return NULL;
}

TEST(a_column_that_changes_while_its_row_is_read_is_good_or_broken)
{
    struct leat_error error;
    struct leat_value value;
    pthread_t thread;
    make_matrix(LEAT_F32, LEAT_I32);
    const uint64_t i = row_with(5), n = (uint64_t)(pointers[i + 1] - pointers[i]);
    struct leat_dataset *d = open_warm();
    const int fd = open(paths[1], O_RDWR);
    const size_t bytes = (size_t)pointers[ROWS] * 4;
    uint8_t *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(shared != MAP_FAILED);
    atomic_store(&toggles, true);
    assert_int_equal(pthread_create(&thread, NULL, toggle, shared + 4 * (uint64_t)pointers[i]), 0);
    for (unsigned turn = 0; turn < 20000; turn++) {
        if (leat_dataset_read(d, i, 0, &value, &error))
            continue;
        for (uint64_t k = 0; k < n; k++) {
            int32_t column;
            memcpy(&column, (const uint8_t *)value.data + n * 4 + k * 4, 4);
            assert_in_range(column, 0, COLUMNS - 1);
        }
        leat_value_clear(&value);
    }
    atomic_store(&toggles, false);
    pthread_join(thread, NULL);
    munmap(shared, bytes);
    close(fd);
    close_rows(d);
}

/* As HDF5 has them behind something else: reads of numbers would be at odd places. */
TEST(arrays_that_lie_at_odd_places_are_read)
{
    for (size_t t = 0; t < sizeof column_dtypes / sizeof *column_dtypes; t++) {
        make_matrix(items[t], column_dtypes[t]);
        turn_columns();
        write_files(items[t], column_dtypes[t]);
        rows.values.n_chunks = column_array.n_chunks = 0;
        for (unsigned f = 0; f < 2; f++) {
            struct stat st;
            assert_int_equal(stat(paths[f], &st), 0);
            uint8_t *bytes = malloc((size_t)st.st_size + 3);
            FILE *file = fopen(paths[f], "rb");
            assert_int_equal(fread(bytes + 3, 1, (size_t)st.st_size, file), st.st_size);
            fclose(file);
            file = fopen(paths[f], "wb");
            assert_int_equal(fwrite(bytes, 1, (size_t)st.st_size + 3, file), st.st_size + 3);
            fclose(file);
            free(bytes);
        }
        rows.values.offset = column_array.offset = 3;
        rows.values.times = column_array.times = NULL;
        rows.values.sizes = column_array.sizes = NULL;
        struct leat_dataset *d = open_warm();
        for (uint64_t i = 0; i < ROWS; i++)
            assert_true(row_is_good(d, i));
        close_rows(d);
        rows.values.offset = column_array.offset = 0;
    }
}

TEST(a_map_that_takes_nothing_gives_empty_rows)
{
    make_matrix(LEAT_F32, LEAT_I32);
    make_map();
    memset(map, 0xff, sizeof map);
    rows.field.columns = 1;
    assert_rows();
}

/* ---- columns that are wrong ------------------------------------------------------------------------ */

/* Row i fails with a text, and all others are read. */
static void assert_broken(uint64_t i, const char *text)
{
    struct leat_error error;
    struct leat_value value;
    struct leat_dataset *d = open_rows();
    for (uint64_t k = 0; k < ROWS; k++)
        if (k != i)
            assert_true(row_is_good(d, k));
    assert_int_equal(leat_dataset_read(d, i, 0, &value, &error), LEAT_E_DECODE);
    if (!strstr(error.message, text))
        fail_msg("\"%s\" is not in \"%s\"", text, error.message);
    close_rows(d);
}

TEST(a_column_beyond_those_of_the_file_breaks_its_row_alone)
{
    static const int64_t wrong[] = {COLUMNS, 127, -1, INT8_MIN, INT16_MIN, INT32_MIN, INT64_MIN, INT64_MAX};
    char text[64];
    for (size_t t = 0; t < sizeof column_dtypes / sizeof *column_dtypes; t++)
        for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
            make_matrix(LEAT_F32, column_dtypes[t]);
            const uint64_t i = row_with(5);
            const int64_t k = pointers[i] + 3;
            int64_t says = 0;
            memcpy(&says, &wrong[w], column_array.item);
            const unsigned bits = 64 - 8 * column_array.item;
            if (t % 2 == 0) /* signed */
                says = (int64_t)((uint64_t)says << bits) >> bits;
            if (says >= 0 && says < COLUMNS)
                continue;
            columns[k] = wrong[w];
            write_files(LEAT_F32, column_dtypes[t]);
            snprintf(text, sizeof text, "value 3 (byte %d): column %" PRId64 " is beyond",
                     (int)(k / 70 * 70 * column_array.item), says);
            assert_broken(i, text);
            if (w == 0) {
                make_map();
                assert_broken(i, text);
            }
        }
}

TEST(a_column_that_stands_twice_breaks_its_row_alone)
{
    make_matrix(LEAT_F32, LEAT_I32);
    const uint64_t i = row_with(5);
    columns[pointers[i] + 4] = columns[pointers[i] + 1];
    write_files(LEAT_F32, LEAT_I32);
    assert_broken(i, "value 4");
    assert_broken(i, "stands twice in the row");
    rows.map = map; /* that takes it not: nobody sees it */
    rows.n_map = COLUMNS;
    for (int32_t c = 0; c < COLUMNS; c++)
        map[c] = c == columns[pointers[i] + 1] ? -1 : c;
    assert_rows();
}

TEST(a_row_of_more_values_than_columns_is_broken_whatever_pointers_say)
{
    struct leat_error error;
    struct leat_value value;
    make_matrix(LEAT_F32, LEAT_I32);
    for (int64_t k = 0; k < COLUMNS; k++)
        columns[k] = k;
    for (uint64_t i = 1; i <= ROWS; i++)
        pointers[i] = COLUMNS;
    write_files(LEAT_F32, LEAT_I32);
    assert_rows(); /* as many as columns */
    make_matrix(LEAT_F32, LEAT_I32);
    rows.values.n_chunks = column_array.n_chunks = 0;
    rows.values.shape[0] = column_array.shape[0] = (uint64_t)(pointers[ROWS] = INT64_C(1) << 31);
    for (unsigned mapped = 0; mapped < 2; mapped++) {
        assert_broken(ROWS - 1, "X/indices, row 59: 2147");
        assert_broken(ROWS - 1, " values in a row of 100 columns");
        struct leat_dataset *d = open_rows();
        assert_int_equal(leat_dataset_read(d, ROWS - 1, 0, &value, &error), LEAT_E_DECODE);
        assert_string_equal(error.file, paths[1]);
        assert_int_equal(error.offset, pointers[ROWS - 1] * 4);
        close_rows(d);
        make_map();
    }
}

TEST(of_a_chunk_that_was_not_written_no_byte_is_said)
{
    struct leat_error error;
    struct leat_value value;
    struct leat_stored_chunk chunks[VALUES];
    uint64_t i = 0;
    make_matrix(LEAT_F32, LEAT_I32);
    memcpy(chunks, column_array.chunks, column_array.n_chunks * sizeof *chunks);
    column_array.chunks = chunks;
    chunks[1].offset = LEAT_STORED_MISSING; /* all are of column 0 */
    while (pointers[i] < 70 || pointers[i + 1] < pointers[i] + 2)
        i++;
    struct leat_dataset *d = open_rows();
    assert_int_equal(leat_dataset_read(d, i, 0, &value, &error), LEAT_E_DECODE);
    assert_non_null(strstr(error.message, "value 1: column 0 of the field stands twice"));
    assert_int_equal(error.offset, LEAT_NO_OFFSET);
    close_rows(d);
}

TEST(a_file_that_was_cut_breaks_the_rows_that_lie_behind)
{
    struct leat_error error;
    struct leat_value value;
    make_matrix(LEAT_F32, LEAT_I32);
    assert_int_equal(truncate(paths[0], 4 * 100), 0);
    struct leat_dataset *d = open_rows();
    for (uint64_t i = 0; i < ROWS; i++)
        if (pointers[i + 1] <= 100)
            assert_true(row_is_good(d, i));
        else if (pointers[i] < pointers[i + 1])
            assert_int_equal(leat_dataset_read(d, i, 0, &value, &error), LEAT_E_DECODE);
    close_rows(d);
}

/* ---- descriptions that are wrong ------------------------------------------------------------------- */

TEST(a_description_that_makes_no_sense_is_refused_and_nothing_is_released)
{
    struct leat_dataset *d;
    struct leat_error error;
    const int before = atomic_load(&released);
#define REFUSED(change, code)                                                                                          \
    do {                                                                                                               \
        make_matrix(LEAT_F32, LEAT_I32);                                                                               \
        change;                                                                                                        \
        assert_int_equal(leat_dataset_from_stored(&rows, ROWS, "", release, &rows, &d, &error), code);                 \
        assert_true(error.message[0]);                                                                                 \
        assert_null(d);                                                                                                \
        assert_int_equal(leat_dataset_from_stored(&rows, ROWS, "", release, &rows, &d, NULL), code);                   \
    } while (0)
    REFUSED(pointers[0] = -1, LEAT_E_CORRUPT);
    REFUSED(pointers[5] = pointers[4] - 1, LEAT_E_CORRUPT);
    REFUSED(pointers[ROWS] += 1, LEAT_E_CORRUPT);
    REFUSED(pointers[ROWS] = INT64_MAX, LEAT_E_CORRUPT);
    REFUSED(pointers[ROWS] = INT64_MIN, LEAT_E_CORRUPT);
    REFUSED((rows.values.shape[0] = 50, rows.values.n_chunks = 1), LEAT_E_CORRUPT);
    REFUSED((column_array.shape[0] = 70, column_array.n_chunks = 1), LEAT_E_CORRUPT);
    REFUSED(rows.pointers = NULL, LEAT_E_INVALID);
    REFUSED(rows.column_dtype = LEAT_F32, LEAT_E_INVALID);
    REFUSED(rows.column_dtype = LEAT_BOOL, LEAT_E_INVALID);
    REFUSED(rows.column_dtype = 0, LEAT_E_INVALID);
    REFUSED(rows.column_dtype = LEAT_I64, LEAT_E_INVALID);
    REFUSED(rows.values.item = 8, LEAT_E_INVALID);
    REFUSED(rows.values.ndim = 9, LEAT_E_INVALID);
    REFUSED(column_array.n_files = 0, LEAT_E_INVALID);
    REFUSED(column_array.filters[column_array.n_filters++].kind = 50, LEAT_E_UNSUPPORTED);
    REFUSED(rows.field.role = 0, LEAT_E_INVALID);
    REFUSED(rows.field.columns = 0, LEAT_E_INVALID);
    REFUSED(rows.field.columns = -1, LEAT_E_INVALID);
    REFUSED(rows.field.name = "9 x", LEAT_E_INVALID);
    REFUSED((make_map(), map[4] = (int32_t)rows.field.columns), LEAT_E_INVALID);
    REFUSED((make_map(), map[0] = map[COLUMNS - 1]), LEAT_E_INVALID);
    REFUSED((make_map(), rows.n_map = UINT64_C(1) << 31), LEAT_E_INVALID);
    assert_int_equal(atomic_load(&released), before);
}

TEST(the_fingerprint_is_that_of_the_version)
{
    uint8_t a[16], b[16];
    make_matrix(LEAT_F32, LEAT_I32);
    struct leat_dataset *d = open_rows();
    leat_dataset_fingerprint(d, a);
    close_rows(d);
    d = open_rows();
    leat_dataset_fingerprint(d, b);
    close_rows(d);
    assert_memory_equal(a, b, 16);
    assert_int_equal(leat_dataset_from_stored(&rows, ROWS, "another", NULL, NULL, &d, NULL), LEAT_OK);
    leat_dataset_fingerprint(d, b);
    leat_dataset_release(d);
    assert_memory_not_equal(a, b, 16);
}

/* ---- dense rows ------------------------------------------------------------------------------------- */

static uint32_t dense[ROWS * 12];

/* Rows of 3 by 4 numbers, in chunks of 7 by 2 by 4. */
static void make_dense(void)
{
    static struct leat_stored_chunk chunks[18];
    static uint32_t text[18][7][2][4];
    memset(&rows, 0, sizeof rows);
    for (uint32_t i = 0; i < ROWS * 12; i++)
        dense[i] = i * 3 + 1;
    for (uint64_t i = 0; i < ROWS; i++)
        for (uint64_t j = 0; j < 3; j++)
            memcpy(text[i / 7 * 2 + j / 2][i % 7][j % 2], dense + i * 12 + j * 4, 16);
    for (uint64_t k = 0; k < 18; k++)
        chunks[k] = (struct leat_stored_chunk){.offset = k * sizeof text[0], .bytes = sizeof text[0]};
    files_write(folder, "values", text, sizeof text);
    snprintf(paths[0], sizeof paths[0], "%s/values", folder);
    rows.values = (struct leat_stored_array){.name = "X",
                                             .item = 4,
                                             .ndim = 3,
                                             .shape = {ROWS, 3, 4},
                                             .chunk = {7, 2, 4},
                                             .files = names,
                                             .n_files = 1,
                                             .chunks = chunks,
                                             .n_chunks = 18};
    rows.field =
        (struct leat_field){.name = "X", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U32, .ndim = 2, .shape = {3, 4}};
}

TEST(dense_rows_are_parts_of_the_array)
{
    struct leat_error error;
    struct leat_value value;
    make_dense();
    struct leat_dataset *d = open_rows();
    for (uint64_t i = 0; i < ROWS; i++) {
        assert_ok(leat_dataset_read(d, i, 0, &value, &error));
        assert_int_equal(value.length, 48);
        assert_memory_equal(value.data, dense + i * 12, 48);
        leat_value_clear(&value);
    }
    close_rows(d);
}

TEST(dense_rows_take_a_map_too)
{
    struct leat_error error;
    struct leat_value value;
    static const int32_t of_twelve[12] = {5, -1, 0, 1, -1, -1, 6, -1, -1, 2, -1, 4};
    make_dense();
    rows.field.ndim = 1;
    rows.field.shape[0] = 8;
    rows.map = of_twelve;
    rows.n_map = 12;
    struct leat_dataset *d = open_rows();
    for (uint64_t i = 0; i < ROWS; i++) {
        uint32_t wanted[8] = {0};
        for (size_t k = 0; k < 12; k++)
            if (of_twelve[k] >= 0)
                wanted[of_twelve[k]] = dense[i * 12 + k];
        assert_ok(leat_dataset_read(d, i, 0, &value, &error));
        assert_int_equal(value.length, sizeof wanted);
        assert_memory_equal(value.data, wanted, sizeof wanted);
        leat_value_clear(&value);
    }
    close_rows(d);
}

TEST(dense_rows_of_another_shape_or_count_are_refused)
{
    struct leat_dataset *d;
    for (unsigned wrong = 0; wrong < 8; wrong++) {
        make_dense();
        rows.field.shape[1] += wrong == 0;
        rows.field.ndim = wrong == 6 ? 1000 : 2;
        rows.field.dtype = wrong == 1 ? LEAT_U16 : LEAT_U32;
        rows.field.shape[0] = wrong == 2 ? -1 : 3;
        rows.map = wrong == 3 || wrong == 5 || wrong == 7 ? map : NULL;
        rows.n_map = wrong == 3 ? 11 : 12;
        for (int32_t k = 0; k < 12; k++)
            map[k] = k;
        map[11] = wrong == 5 ? 12 : wrong == 7 ? 3 : 11;
        assert_int_equal(leat_dataset_from_stored(&rows, ROWS - (wrong == 4), "", NULL, NULL, &d, NULL),
                         LEAT_E_INVALID);
    }
}

TEST(a_data_set_of_no_rows_is_opened_dense_and_sparse_and_mapped)
{
    struct leat_dataset *d;
    make_dense();
    rows.values.shape[0] = rows.values.n_chunks = 0;
    assert_int_equal(leat_dataset_from_stored(&rows, 0, "", NULL, NULL, &d, NULL), LEAT_OK);
    leat_dataset_release(d);
    rows.field.ndim = 1;
    rows.field.shape[0] = 5;
    rows.map = map;
    rows.n_map = 12;
    memset(map, 0xff, sizeof map);
    assert_int_equal(leat_dataset_from_stored(&rows, 0, "", NULL, NULL, &d, NULL), LEAT_OK);
    leat_dataset_release(d);
    make_matrix(LEAT_F32, LEAT_I32);
    rows.values.shape[0] = column_array.shape[0] = rows.values.n_chunks = column_array.n_chunks = 0;
    assert_int_equal(leat_dataset_from_stored(&rows, 0, "", NULL, NULL, &d, NULL), LEAT_OK);
    leat_dataset_release(d);
}

/* ---- arrays alone ------------------------------------------------------------------------------------ */

TEST(elements_of_an_array_are_read_without_a_data_set)
{
    struct leat_error error;
    uint32_t got[ROWS * 12];
    make_dense();
    assert_ok(leat_stored_read(&rows.values, 5, 100, got, &error));
    assert_memory_equal(got, dense + 5, 400);
    assert_ok(leat_stored_read(&rows.values, ROWS * 12, 0, got, &error));
    assert_int_equal(leat_stored_read(&rows.values, 5, ROWS * 12, got, &error), LEAT_E_INVALID);
    rows.values.n_chunks = 17;
    assert_int_equal(leat_stored_read(&rows.values, 5, 100, got, NULL), LEAT_E_INVALID);
}

/* ---- threads, cancelling, memory ------------------------------------------------------------------- */

static void *read_rows(void *user)
{
    uintptr_t bad = 0;
    for (uint64_t k = 0; k < 5 * ROWS; k++)
        bad += !row_is_good(user, k * 7 % ROWS);
    return (void *)bad;
}

TEST(threads_read_at_once)
{
    pthread_t threads[4];
    make_matrix(LEAT_U16, LEAT_U8);
    turn_columns();
    write_files(LEAT_U16, LEAT_U8);
    make_map();
    struct leat_dataset *d = open_rows();
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_rows, d), 0);
    for (size_t i = 0; i < 4; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        assert_null(bad);
    }
    close_rows(d);
}

TEST(a_read_that_is_cancelled_says_so)
{
    struct leat_error error;
    struct leat_values out;
    struct leat_sample_ref refs[ROWS];
    uint64_t positions[ROWS];
    const size_t field = 0;
    size_t failed;
    _Atomic bool cancelled;
    make_matrix(LEAT_F32, LEAT_I32);
    struct leat_dataset *d = open_rows();
    for (uint64_t i = 0; i < ROWS; i++)
        positions[i] = i;
    leat_dataset_locate(d, positions, ROWS, refs);
    for (unsigned stops = 0; stops < 2; stops++) {
        atomic_init(&cancelled, stops);
        assert_int_equal(leat_values_init(&out, 1, ROWS), LEAT_OK);
        out.cancelled = &cancelled;
        assert_int_equal(leat_dataset_compute(d, &field, 1, refs, ROWS, &out, &failed, &error),
                         stops ? LEAT_E_CANCELLED : LEAT_OK);
        leat_values_destroy(&out);
    }
    close_rows(d);
}

TEST(no_memory_anywhere_is_an_error_and_the_next_read_is_good)
{
    struct leat_error error;
    struct leat_value value;
    make_matrix(LEAT_F32, LEAT_I32);
    turn_columns();
    write_files(LEAT_F32, LEAT_I32);
    make_map();
    for (int64_t n = 0;; n++) {
        struct leat_dataset *d = NULL;
        const uint64_t i = row_with(9);
        fail_allocation(n);
        int rc = leat_dataset_from_stored(&rows, ROWS, "", release, &rows, &d, &error);
        if (!rc && !(rc = leat_dataset_read(d, i, 0, &value, &error)))
            leat_value_clear(&value);
        const bool failed = allocation_failed();
        assert_int_equal(rc, failed ? LEAT_E_NOMEM : LEAT_OK);
        if (d) {
            assert_true(row_is_good(d, i));
            close_rows(d);
        }
        if (!failed)
            break;
    }
}

TEST_MAIN_IN(make_folder, remove_folder)
