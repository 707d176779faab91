/* Large values have checksums of pages, so that a piece of one is verified without the rest. */
#include "../tuning.h"
#include "made.h"
#include "store/reader.h"

static char folder[PATH_MAX], path[PATH_MAX + 16], other[PATH_MAX + 16];
static const struct leat_store_tuning small = {.large = 2000, .shift = 8};

static int make_folder(void **state)
{
    files_folder(folder);
    snprintf(path, sizeof path, "%s/a.leat", folder);
    snprintf(other, sizeof other, "%s/b.leat", folder);
    tuning = small;
    return 0;
}

static int remove_folder(void **state)
{
    tuning = (struct leat_store_tuning){0};
    files_remove(folder);
    return 0;
}

#define TEST_IN_FOLDER(name) TEST_IN(name, make_folder, remove_folder)

enum { FIELDS = 2, SAMPLES = 5 };
static const struct leat_field fields[FIELDS] = {
    {.name = "tokens", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U16, .ndim = 1, .shape = {-1}},
    {.name = "label", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
};
static const uint64_t lengths[SAMPLES] = {40, 3000, 0, 2100, 6};
static uint8_t tokens[SAMPLES][3000];

static void write_it(void)
{
    struct leat_writer_options o = made_options();
    struct leat_error error;
    struct leat_writer *w;
    assert_ok(writer_open_with(path, fields, FIELDS, &o, NULL, &w, &error));
    for (uint64_t i = 0; i < SAMPLES; i++) {
        for (uint64_t b = 0; b < lengths[i]; b++)
            tokens[i][b] = (uint8_t)leat_draw_u64(i, b);
        struct leat_value_ref values[FIELDS] = {{tokens[i], lengths[i], NULL}, {&lengths[i], 8, NULL}};
        assert_ok(leat_writer_add(w, values, NULL, &error));
    }
    assert_ok(leat_writer_finish(w, &error));
    leat_writer_free(w, false);
}

static struct leat_store_source *open_file(const char *file, enum leat_recheck recheck)
{
    struct leat_open_options o = LEAT_OPEN_OPTIONS_INIT;
    struct leat_error error;
    struct leat_source *s;
    o.recheck = recheck;
    assert_ok(leat_source_open(file, &o, &s, &error));
    return (struct leat_store_source *)s;
}

static struct leat_store_source *open_it(enum leat_recheck recheck)
{
    return open_file(path, recheck);
}

static struct leat_extent extent_of(struct leat_store_source *s, uint64_t i)
{
    struct leat_error error;
    struct leat_extent e;
    size_t failed;
    assert_ok(s->base.v->extents(&s->base, 0, &i, 1, &e, &failed, &error));
    return e;
}

/* Bytes [begin, begin + length) of value i, read with nothing but their pages. */
static int read_piece(struct leat_store_source *s, uint64_t i, uint64_t begin, uint64_t length, uint8_t *to,
                      struct leat_error *error)
{
    static uint8_t pages[8192];
    struct leat_extent whole = extent_of(s, i), e = whole;
    assert_true(s->base.v->piece(&s->base, i, &e, begin, length));
    assert_true(e.offset <= whole.offset + begin && e.offset + e.length >= whole.offset + begin + length);
    assert_true(e.length < length + 2 * 256);
    int rc = leat_io_read(s->file, e.offset, e.length, pages, error);
    memcpy(to, pages + (whole.offset + begin - e.offset), length);
    return rc ? rc : s->base.v->check_piece(&s->base, i, &e, pages, false, error);
}

static void flip(uint64_t offset)
{
    uint8_t byte;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
    byte ^= 4;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
    close(fd);
}

TEST_IN_FOLDER(any_piece_is_read_by_its_pages)
{
    static uint8_t got[3000];
    struct leat_error error;
    write_it();
    struct leat_store_source *s = open_it(LEAT_RECHECK_ALWAYS);
    for (uint64_t i = 0; i < SAMPLES; i++)
        for (uint64_t begin = 0; begin <= lengths[i]; begin += 1 + begin / 7)
            for (uint64_t length = 0; length <= lengths[i] - begin; length += 1 + 2 * length) {
                assert_ok(read_piece(s, i, begin, length, got, &error));
                assert_memory_equal(got, tokens[i] + begin, length);
            }
    leat_source_close(&s->base);
}

TEST_IN_FOLDER(a_damaged_page_breaks_the_pieces_that_touch_it_and_no_other)
{
    uint8_t got[600];
    struct leat_error error;
    write_it();
    struct leat_store_source *s = open_it(LEAT_RECHECK_ALWAYS);
    const uint64_t at = extent_of(s, 1).offset + 1500;
    flip(at);
    assert_ok(read_piece(s, 1, 0, 600, got, &error));
    assert_ok(read_piece(s, 1, 2000, 600, got, &error));
    assert_int_equal(read_piece(s, 1, 1400, 600, got, &error), LEAT_E_CORRUPT);
    assert_string_equal(error.file, path);
    assert_true(error.offset <= (int64_t)at && (int64_t)at < error.offset + 256);
    assert_non_null(strstr(error.message, "a page of the value"));
    flip(at);
    assert_ok(read_piece(s, 1, 1400, 600, got, &error));
    leat_source_close(&s->base);
}

static int note_offset(void *user, const struct leat_error *fault)
{
    int64_t *offsets = user;
    offsets[offsets[0] ? 1 : 0] = fault->offset;
    return 0;
}

TEST_IN_FOLDER(values_are_verified_as_wholes_where_the_list_of_page_checksums_is_damaged)
{
    uint8_t got[100];
    int64_t at[2] = {0};
    struct leat_verify_options o = {.struct_size = sizeof o, .report = note_offset, .user = at};
    struct leat_error error;
    write_it();
    struct leat_store_source *s = open_it(LEAT_RECHECK_ALWAYS);
    const uint64_t list = s->page_checksums_at;
    struct leat_extent e = extent_of(s, 3), whole = e;
    flip(list + 9);
    assert_false(s->base.v->piece(&s->base, 3, &e, 0, 100));
    assert_int_equal(e.length, whole.length);
    leat_source_close(&s->base);
    s = open_it(LEAT_RECHECK_NEVER);
    assert_ok(read_piece(s, 3, 0, 100, got, &error));
    leat_source_close(&s->base);
    assert_int_equal(leat_verify(path, &o, &error), LEAT_E_CORRUPT);
    assert_int_equal(at[0], list);
    flip(list + 9);
    flip(list - 3); /* the index */
    s = open_it(LEAT_RECHECK_ALWAYS);
    assert_null(s->paged);
    assert_false(s->base.v->piece(&s->base, 3, &e, 0, 100));
    leat_source_close(&s->base);
    assert_int_equal(leat_verify(path, NULL, &error), LEAT_E_CORRUPT);
}

TEST_IN_FOLDER(what_is_verified_again_follows_recheck)
{
    uint8_t got[100];
    struct leat_error error;
    for (enum leat_recheck recheck = LEAT_RECHECK_FIRST; recheck <= LEAT_RECHECK_NEVER; recheck++) {
        write_it();
        struct leat_store_source *s = open_it(recheck);
        struct leat_extent e = extent_of(s, 1);
        assert_true(s->base.v->piece(&s->base, 1, &e, 0, 100));
        assert_ok(read_piece(s, 1, 0, 100, got, &error));
        flip(e.offset);
        assert_int_equal(read_piece(s, 1, 0, 100, got, &error), recheck == LEAT_RECHECK_ALWAYS ? LEAT_E_CORRUPT : 0);
        assert_ok(s->base.v->check_piece(&s->base, 1, &e, s->map + e.offset, true, &error)); /* until it is refreshed */
        assert_ok(s->base.v->refresh(&s->base, &error));
        assert_int_equal(s->base.v->check_piece(&s->base, 1, &e, s->map + e.offset, true, &error),
                         recheck == LEAT_RECHECK_NEVER ? 0 : LEAT_E_CORRUPT);
        leat_source_close(&s->base);
        unlink(path);
    }
}

TEST_IN_FOLDER(any_flipped_bit_is_found_and_never_gives_a_wrong_piece)
{
    static uint8_t got[3000];
    struct leat_open_options o = LEAT_OPEN_OPTIONS_INIT;
    struct leat_error error;
    struct leat_source *s;
    size_t n, failed;
    write_it();
    free(made_bytes(path, &n));
    struct leat_store_source *whole = open_it(LEAT_RECHECK_NEVER);
    const size_t large = extent_of(whole, 1).offset, end = extent_of(whole, 3).offset + lengths[3];
    leat_source_close(&whole->base);
    for (size_t at = 0; at < n; at += at >= large && at < end ? test_every(9) : 1) { /* values are alike in all bytes */
        flip(at);
        assert_int_not_equal(leat_verify(path, NULL, &error), LEAT_OK);
        o.format = "leat";
        if (!leat_source_open(path, &o, &s, &error)) {
            for (uint64_t i = 1; i < SAMPLES; i += 2) {
                struct leat_extent e;
                if (s->v->extents(s, 0, &i, 1, &e, &failed, &error))
                    continue;
                if (s->v->piece(s, i, &e, 500, 1500) &&
                    !read_piece((struct leat_store_source *)s, i, 500, 1500, got, &error))
                    assert_memory_equal(got, tokens[i] + 500, 1500);
            }
            leat_source_close(s);
        }
        flip(at);
    }
    assert_ok(leat_verify(path, NULL, &error));
}

TEST_IN_FOLDER(a_flipped_bit_is_found_by_its_value_and_its_page)
{
    int64_t at[2] = {0};
    struct leat_verify_options o = {.struct_size = sizeof o, .report = note_offset, .user = at};
    struct leat_error error;
    struct leat_dataset *d;
    struct leat_value value;
    write_it();
    struct leat_store_source *s = open_it(LEAT_RECHECK_ALWAYS);
    const int64_t last_at = (int64_t)extent_of(s, SAMPLES - 1).offset, value_at = (int64_t)extent_of(s, 1).offset;
    leat_source_close(&s->base);
    flip((uint64_t)last_at + 5); /* in the last page */
    assert_int_equal(leat_verify(path, &o, &error), LEAT_E_CORRUPT);
    assert_int_equal(at[0], last_at);
    assert_true(at[1] <= last_at + 5 && last_at + 5 < at[1] + 256 && at[1]);
    flip((uint64_t)last_at + 5);
    memset(at, 0, sizeof at);
    flip((uint64_t)value_at + 1500);
    assert_int_equal(leat_verify(path, &o, &error), LEAT_E_CORRUPT);
    assert_int_equal(at[0], value_at);
    assert_true(at[1] <= value_at + 1500 && value_at + 1500 < at[1] + 256);
    assert_ok(leat_dataset_open(path, NULL, &d, &error));
    assert_int_equal(leat_dataset_read(d, 1, 0, &value, &error), LEAT_E_CORRUPT);
    assert_ok(leat_dataset_read(d, 3, 0, &value, &error));
    assert_memory_equal(value.data, tokens[3], lengths[3]);
    leat_value_clear(&value);
    leat_dataset_release(d);
}

TEST_IN_FOLDER(only_files_with_a_large_value_that_is_not_encoded_have_them)
{
    for (int large = 0; large < 2; large++) {
        tuning.large = large ? 3000 : 3001;
        write_it();
        struct leat_store_source *s = open_it(LEAT_RECHECK_ALWAYS);
        struct leat_extent e = extent_of(s, 1);
        assert_int_equal(s->base.v->piece(&s->base, 1, &e, 5, 10), large);
        leat_source_close(&s->base);
        unlink(path);
    }
    struct leat_writer_options o = made_options();
    struct leat_error error;
    tuning.large = 200; /* photos are longer, and nothing else is */
    assert_ok(made_file(path, 30, &o, &error));
    struct leat_store_source *s = open_it(LEAT_RECHECK_ALWAYS);
    assert_null(s->paged);
    leat_source_close(&s->base);
    tuning = small;
}

/* Groups of one value of 5 MiB each. */
static void write_long(const char *to, bool resume, uint64_t shard_bytes, uint64_t until)
{
    enum { LONG = 5 << 20, N = 4 };
    struct leat_writer_options o = made_options();
    struct leat_error error;
    struct leat_writer *w;
    uint8_t *value = calloc(1, LONG);
    int64_t label = 0;
    o.resume = resume;
    o.shard_bytes = shard_bytes;
    assert_ok(writer_open_with(to, fields, FIELDS, &o, NULL, &w, &error));
    assert_true(!resume || leat_writer_count(w) > 0);
    for (uint64_t i = leat_writer_count(w); i < until; i++) {
        for (uint64_t b = 0; b < LONG; b += 1000)
            value[b] = (uint8_t)(b / 1000 + i);
        struct leat_value_ref values[FIELDS] = {{value, LONG, NULL}, {&label, 8, NULL}};
        assert_ok(leat_writer_add(w, values, NULL, &error));
    }
    if (until == N)
        assert_ok(leat_writer_finish(w, &error));
    leat_writer_free(w, true);
    free(value);
}

TEST_IN_FOLDER(a_resumed_file_has_the_same_bytes_and_so_have_shards)
{
    struct leat_error error;
    tuning = (struct leat_store_tuning){0};
    for (uint64_t shard_bytes = 0; shard_bytes < 2; shard_bytes++) {
        const char *number = shard_bytes ? ".00001" : "";
        char a[PATH_MAX + 32], b[PATH_MAX + 32];
        write_long(other, false, shard_bytes, 4);
        write_long(path, false, shard_bytes, 3);
        write_long(path, true, shard_bytes, 4);
        snprintf(a, sizeof a, "%s/a%s.leat", folder, number);
        snprintf(b, sizeof b, "%s/b%s.leat", folder, number);
        assert_same_files(a, b);
        assert_ok(leat_verify(path, NULL, &error));
        struct leat_store_source *s = open_file(a, LEAT_RECHECK_ALWAYS);
        assert_int_equal(leat_store_paged_count(s, 0), 80);
        leat_source_close(&s->base);
        unlink(path);
        unlink(other);
    }
}

TEST_MAIN()
