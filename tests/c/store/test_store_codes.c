/* Fields of few texts have codes beside the texts, which say the same. */
#include "../allocations.h"
#include "../tuning.h"
#include "made.h"
#include "store/codes.h"
#include "store/reader.h"

static char folder[PATH_MAX], path[PATH_MAX + 16], other[PATH_MAX + 16];

static int make_folder(void **state)
{
    files_folder(folder);
    snprintf(path, sizeof path, "%s/a.leat", folder);
    snprintf(other, sizeof other, "%s/b.leat", folder);
    tuning.coded_rows = 20;
    return 0;
}

static int remove_folder(void **state)
{
    tuning = (struct leat_store_tuning){0};
    files_remove(folder);
    return 0;
}

#define TEST_IN_FOLDER(name) TEST_IN(name, make_folder, remove_folder)

enum { FIELDS = 4 };
static const struct leat_field fields[FIELDS] = {
    {.name = "number", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
    {.name = "language", .kind = LEAT_KIND_STR},
    {.name = "url", .kind = LEAT_KIND_STR},
    {.name = "meta", .kind = LEAT_KIND_JSON},
};
static uint64_t languages = 5; /* distinct ones */

/* Value of a field of sample i. */
static uint64_t value_of(size_t field, uint64_t i, char out[64])
{
    const uint64_t which = leat_draw_below(field, i, languages);
    switch (field) {
    case 0:
        memcpy(out, &i, 8);
        return 8;
    case 1:
        return which ? (uint64_t)snprintf(out, 64, "l\xc3\xa4nguage %" PRIu64, which) : 0;
    case 2:
        return (uint64_t)snprintf(out, 64, "https://example.org/%" PRIu64, i);
    default:
        return (uint64_t)snprintf(out, 64, i % 3 ? "null" : "{\"a\": %" PRIu64 "}", i % 2);
    }
}

static int add(struct leat_writer *w, uint64_t begin, uint64_t end, struct leat_error *error)
{
    int rc = LEAT_OK;
    for (uint64_t i = begin; i < end && !rc; i++) {
        char texts[FIELDS][64];
        struct leat_value_ref values[FIELDS];
        for (size_t f = 0; f < FIELDS; f++)
            values[f] = (struct leat_value_ref){.data = texts[f], .length = value_of(f, i, texts[f])};
        rc = leat_writer_add(w, values, NULL, error);
    }
    return rc;
}

static int write_to(const char *file, uint64_t n, struct leat_error *error)
{
    struct leat_writer_options o = made_options();
    struct leat_writer *w;
    o.overwrite = true;
    int rc = leat_writer_open(file, fields, FIELDS, &o, &w, error);
    if (rc)
        return rc;
    rc = add(w, 0, n, error);
    if (!rc)
        rc = leat_writer_finish(w, error);
    leat_writer_free(w, rc == LEAT_OK);
    return rc;
}

static struct leat_source *open_it(void)
{
    struct leat_open_options o = LEAT_OPEN_OPTIONS_INIT;
    struct leat_error error;
    struct leat_source *s;
    assert_ok(leat_source_open(path, &o, &s, &error));
    return s;
}

/* Whether a field has codes; those are the ones of its texts. */
static bool has_codes(struct leat_source *s, size_t field, unsigned *width)
{
    struct leat_source_codes codes;
    struct leat_error error;
    assert_ok(s->v->codes(s, field, &codes, &error));
    if (!codes.memory)
        return false;
    for (uint64_t i = 0; i < s->count; i++) {
        const uint32_t code = codes.width == 1 ? codes.codes[i] : leat_get_u16(codes.codes + 2 * i);
        const uint8_t *text = codes.texts;
        char want[64];
        const uint64_t length = value_of(field, i, want);
        assert_true(code < codes.n);
        for (uint32_t k = 0; k < code; k++)
            text += leat_get_u32(codes.lengths + 4 * (size_t)k);
        assert_int_equal(leat_get_u32(codes.lengths + 4 * (size_t)code), length);
        assert_memory_equal(text, want, length);
    }
    *width = codes.width;
    leat_free(codes.memory);
    return true;
}

TEST_IN_FOLDER(texts_that_repeat_have_codes_and_others_none)
{
    unsigned width = 0;
    struct leat_error error;
    assert_ok(write_to(path, 100, &error));
    assert_ok(leat_verify(path, NULL, &error));
    struct leat_source *s = open_it();
    assert_true(has_codes(s, 1, &width));
    assert_int_equal(width, 1);
    assert_true(has_codes(s, 3, &width));
    assert_false(has_codes(s, 0, &width));
    assert_false(has_codes(s, 2, &width));
    leat_source_close(s);
}

TEST_IN_FOLDER(more_than_256_texts_have_codes_of_two_bytes)
{
    unsigned width = 0;
    struct leat_error error;
    languages = 700;
    assert_ok(write_to(path, 6000, &error));
    assert_ok(leat_verify(path, NULL, &error));
    struct leat_source *s = open_it();
    assert_true(has_codes(s, 1, &width));
    assert_int_equal(width, 2);
    leat_source_close(s);
    languages = 5;
}

TEST_IN_FOLDER(few_samples_have_no_codes)
{
    unsigned width;
    struct leat_error error;
    assert_ok(write_to(path, 19, &error));
    struct leat_source *s = open_it();
    assert_false(has_codes(s, 1, &width));
    leat_source_close(s);
}

TEST_IN_FOLDER(more_codes_than_a_writer_may_keep_are_left_out)
{
    unsigned width;
    struct leat_error error;
    tuning.coded_bytes = 60;
    assert_ok(write_to(path, 100, &error));
    tuning.coded_bytes = 0;
    assert_ok(leat_verify(path, NULL, &error));
    struct leat_source *s = open_it();
    assert_false(has_codes(s, 1, &width));
    leat_source_close(s);
}

TEST_IN_FOLDER(a_resumed_file_has_the_same_codes)
{
    struct leat_writer_options o = made_options();
    struct leat_error error;
    struct leat_writer *w;
    assert_ok(write_to(path, 200000, &error));
    assert_ok(leat_writer_open(other, fields, FIELDS, &o, &w, &error));
    assert_ok(add(w, 0, 150000, &error));
    leat_writer_free(w, true);
    o.resume = true;
    assert_ok(leat_writer_open(other, fields, FIELDS, &o, &w, &error));
    assert_true(leat_writer_count(w) > 0);
    assert_ok(add(w, leat_writer_count(w), 200000, &error));
    assert_ok(leat_writer_finish(w, &error));
    leat_writer_free(w, false);
    assert_same_files(path, other);
}

/* The section of a field. */
static struct leat_store_section section_of(uint32_t field)
{
    struct leat_store_source *s = (struct leat_store_source *)open_it();
    struct leat_store_section found = {0};
    for (uint32_t i = 0; i < s->n_sections; i++) {
        uint8_t head[4];
        struct leat_error error;
        assert_ok(leat_io_read(s->file, s->sections[i].offset, 4, head, &error));
        if (s->sections[i].type == LEAT_SECTION_CODES && leat_get_u32(head) == field)
            found = s->sections[i];
    }
    leat_source_close(&s->base);
    assert_true(found.length > 0);
    return found;
}

static void flip(uint64_t offset, uint8_t bit)
{
    size_t n;
    uint8_t *bytes = made_bytes(path, &n);
    bytes[offset] ^= bit;
    made_write(path, bytes, n);
    free(bytes);
}

TEST_IN_FOLDER(damaged_codes_are_reported_and_not_used)
{
    unsigned width;
    struct leat_error error;
    assert_ok(write_to(path, 100, &error));
    const struct leat_store_section x = section_of(1);
    for (uint64_t at = x.offset; at < x.offset + x.length; at++) {
        flip(at, 1);
        struct leat_source *s = open_it();
        assert_false(has_codes(s, 1, &width));
        leat_source_close(s);
        assert_int_equal(leat_verify(path, NULL, &error), LEAT_E_CORRUPT);
        flip(at, 1);
    }
    assert_ok(leat_verify(path, NULL, &error));
}

/* Makes the checksums right again that lead to a section. */
static void repair(struct leat_store_section x)
{
    size_t n;
    uint8_t *bytes = made_bytes(path, &n), *footer = bytes + n - LEAT_STORE_FOOTER,
            *directory = bytes + leat_get_u64(footer + 16);
    const uint64_t length = leat_get_u64(footer + 24);
    for (uint64_t e = 0; e < length; e += LEAT_STORE_SECTION_ENTRY)
        if (leat_get_u64(directory + e + 8) == x.offset)
            leat_put_u64(directory + e + 24, leat_hash64(bytes + x.offset, x.length));
    leat_put_u64(footer + 32, leat_hash64(directory, length));
    leat_put_u64(footer + LEAT_STORE_FOOTER - 8, leat_hash64(footer, LEAT_STORE_FOOTER - 8));
    made_write(path, bytes, n);
    free(bytes);
}

static int note_text(void *user, const struct leat_error *fault)
{
    snprintf(user, sizeof fault->message, "%s", fault->message);
    return 0;
}

TEST_IN_FOLDER(codes_of_other_texts_are_reported)
{
    struct leat_error error;
    char said[sizeof error.message] = "";
    struct leat_verify_options o = {.struct_size = sizeof o, .report = note_text, .user = said};
    assert_ok(write_to(path, 100, &error));
    const struct leat_store_section x =
        section_of(3); /* of three texts; the last sample has the third, and gets the first */
    flip(x.offset + x.length - 1, 2);
    repair(x);
    assert_int_equal(leat_verify(path, &o, &error), LEAT_E_CORRUPT);
    assert_non_null(strstr(said, "the code of the text is that of another"));
}

TEST_IN_FOLDER(impossible_codes_are_reported_and_not_used)
{
    static const uint64_t numbers[] = {0, 4, 8, 16, 20, 24, LEAT_CODES_HEAD};
    unsigned width;
    struct leat_error error;
    char said[sizeof error.message] = "";
    struct leat_verify_options o = {.struct_size = sizeof o, .report = note_text, .user = said};
    for (size_t i = 0; i <= sizeof numbers / sizeof *numbers; i++) {
        assert_ok(write_to(path, 100, &error));
        const struct leat_store_section x = section_of(1);
        /* A number of the head, or a code beyond the texts. */
        flip(i < sizeof numbers / sizeof *numbers ? x.offset + numbers[i] : x.offset + x.length - 1, 0x40);
        repair(x);
        struct leat_source *s = open_it();
        assert_false(has_codes(s, 1, &width));
        leat_source_close(s);
        assert_int_equal(leat_verify(path, &o, &error), LEAT_E_CORRUPT);
        assert_non_null(strstr(said, "the codes of texts are impossible"));
    }
}

TEST_IN_FOLDER(without_memory_writing_and_reading_codes_fail_cleanly)
{
    struct leat_source_codes codes = {0};
    struct leat_error error;
    bool reached = true;
    for (int n = 0; reached; n++) {
        fail_allocation(n);
        const int rc = write_to(path, 100, &error);
        reached = allocation_failed();
        assert_true(rc == LEAT_OK || (rc == LEAT_E_NOMEM && reached));
    }
    struct leat_source *s = open_it();
    reached = true;
    for (int n = 0; reached; n++) {
        fail_allocation(n);
        const int rc = s->v->codes(s, 1, &codes, &error);
        reached = allocation_failed();
        assert_int_equal(rc, reached ? LEAT_E_NOMEM : LEAT_OK);
    }
    leat_free(codes.memory);
    leat_source_close(s);
}

TEST_MAIN()
