/* Files that were converted from another data set: they have its fingerprint, and nothing else has. */
#include <inttypes.h>

#include "../allocations.h"
#include "../folder.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/json.h"
#include "data/internal.h"
#include "format/fingerprint.h"
#include "format/source.h"
#include "store/manifest.h"

enum { N = 300, SHARD = 1 << 10 };
static char file[PATH_MAX + 16], other[PATH_MAX + 16];
static int64_t labels[N];
static uint8_t noise[N][64];

static int set_up(void **state)
{
    files_folder(folder);
    snprintf(file, sizeof file, "%s/a.leat", folder);
    snprintf(other, sizeof other, "%s/b.leat", folder);
    for (size_t i = 0; i < N; i++) {
        labels[i] = (int64_t)(i % 2);
        for (size_t k = 0; k < sizeof noise[i]; k++)
            noise[i][k] = (uint8_t)(i * 7 + k * 13);
    }
    return 0;
}
#define TEST_IN_FOLDER(name) TEST_IN(name, set_up, remove_folder)

static const struct leat_field fields[2] = {
    {.name = "label", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
    {.name = "noise", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U8, .ndim = 1, .shape = {64}}};

/* Arrays whose fingerprint is made of a text; `n` of them, with classes apart if they are named. */
static struct leat_dataset *source(const char *version, uint64_t n, bool classes)
{
    const struct leat_array arrays[2] = {{labels, sizeof *labels, NULL, 0}, {noise, sizeof *noise, NULL, 0}};
    static const char *const names[] = {"cat", "dog"};
    struct leat_error error;
    struct leat_dataset *d;
    assert_ok(leat_dataset_from_arrays(fields, arrays, 2, n, version, NULL, NULL, &d, &error));
    if (classes)
        assert_ok(leat_dataset_name_classes(d, names, 2, &error));
    return d;
}

/* Rows of a megabyte, of which eight fill a group. */
enum { ROWS = 20, ROW_BYTES = 1 << 20 };
static const struct leat_field large = {
    .name = "x", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U8, .ndim = 1, .shape = {ROW_BYTES}};

static struct leat_dataset *large_source(void)
{
    static uint8_t row[ROW_BYTES];
    const struct leat_array same = {row, 0, NULL, 0};
    struct leat_error error;
    struct leat_dataset *d;
    assert_ok(leat_dataset_from_arrays(&large, &same, 1, ROWS, "one", NULL, NULL, &d, &error));
    return d;
}

static int write_large(struct leat_writer *w, struct leat_dataset *d, uint64_t begin, uint64_t n)
{
    static const size_t one[] = {0};
    struct leat_error error;
    return leat_dataset_write(d, one, 1, begin, n, w, &error);
}

static struct leat_writer_options options_of(struct leat_dataset *d)
{
    struct leat_writer_options o = LEAT_WRITER_OPTIONS_INIT;
    o.classes = leat_dataset_classes(d, &o.n_classes);
    o.overwrite = true;
    o.num_threads = 1;
    return o;
}

/* Writes all of `d`, as a conversion if `convert`. */
static int write_all(const char *path, struct leat_dataset *d, bool convert, uint64_t shard_bytes,
                     struct leat_error *error)
{
    static const size_t both[] = {0, 1};
    struct leat_writer_options o = options_of(d);
    struct leat_writer *w = NULL;
    size_t n;
    o.shard_bytes = shard_bytes;
    int rc = leat_writer_open(path, leat_dataset_fields(d, &n), 2, &o, &w, error);
    if (!rc && convert)
        rc = leat_writer_set_source(w, d, error);
    for (uint64_t i = 0; i < leat_dataset_count(d) && !rc; i += 100)
        rc = leat_dataset_write(d, both, 2, i, leat_dataset_count(d) - i < 100 ? leat_dataset_count(d) - i : 100, w,
                                error);
    rc = rc ? rc : leat_writer_finish(w, error);
    leat_writer_free(w, false);
    return rc;
}

static struct leat_dataset *opened(const char *path)
{
    struct leat_error error;
    struct leat_dataset *d;
    assert_ok(leat_dataset_open(path, NULL, &d, &error));
    return d;
}

static bool same_print(const struct leat_dataset *a, const struct leat_dataset *b)
{
    uint8_t one[16], two[16];
    leat_dataset_fingerprint(a, one);
    leat_dataset_fingerprint(b, two);
    return !memcmp(one, two, sizeof one);
}

/* A source_id as commands give it: the fingerprint, and more. */
static const char *id_of(const struct leat_dataset *d, char id[64])
{
    uint8_t print[16];
    leat_dataset_fingerprint(d, print);
    leat_json_fingerprint(print, id);
    strcat(id, ":0123");
    return id;
}

static struct leat_dataset *part_of(struct leat_dataset *d)
{
    static const int64_t positions[] = {7, 3, 4, 5};
    struct leat_error error;
    struct leat_dataset *view;
    assert_ok(leat_dataset_select(d, positions, 4, &view, &error));
    return view;
}

static struct leat_dataset *joined(struct leat_dataset *a, struct leat_dataset *b)
{
    struct leat_dataset *const both[] = {a, b};
    struct leat_error error;
    struct leat_dataset *d;
    assert_ok(leat_dataset_concat(both, 2, &d, &error));
    return d;
}

/* The fingerprint of the values of a file that has another one; freed by the caller. NULL: it has its own. */
static char *of_values(const struct leat_dataset *d)
{
    struct leat_error error;
    char *about, *found = NULL, *at;
    assert_ok(leat_dataset_about(d, &about, &error));
    if ((at = strstr(about, "\"fingerprint_of_values\":\"")))
        found = strndup(at + 25, 32);
    leat_free(about);
    return found;
}

TEST_IN_FOLDER(a_conversion_has_the_fingerprint_of_its_source_and_so_have_views_and_joins)
{
    struct leat_error error;
    for (int form = 0; form < 4; form++) {
        const bool classes = form & 1;
        struct leat_dataset *src = source("one", N, classes), *src2 = source("two", 20, classes);
        assert_ok(write_all(file, src, true, form & 2 ? SHARD : 0, &error));
        assert_ok(write_all(other, src2, true, 0, &error));
        struct leat_dataset *a = opened(file), *b = opened(other);
        assert_true(same_print(src, a));
        assert_true(same_print(src2, b));
        assert_false(same_print(a, b));
        struct leat_dataset *views[2] = {part_of(src), part_of(a)};
        assert_true(same_print(views[0], views[1]));
        assert_false(same_print(views[1], a));
        struct leat_dataset *joins[4] = {joined(src, src2), joined(a, b), joined(src, b), joined(b, a)};
        assert_true(same_print(joins[0], joins[1]));
        assert_true(same_print(joins[0], joins[2]));
        assert_false(same_print(joins[0], joins[3])); /* in another order */
        assert_ok(leat_verify(file, NULL, &error));
        for (size_t i = 0; i < 4; i++)
            leat_dataset_release(joins[i]);
        for (size_t i = 0; i < 2; i++)
            leat_dataset_release(views[i]);
        leat_dataset_release(a);
        leat_dataset_release(b);
        leat_dataset_release(src);
        leat_dataset_release(src2);
    }
}

TEST_IN_FOLDER(a_conversion_is_known_as_one_and_says_the_fingerprint_of_its_values)
{
    struct leat_error error;
    char text[33], *said;
    uint8_t print[16];
    struct leat_dataset *src = source("one", N, true);
    for (int sharded = 0; sharded < 2; sharded++) {
        assert_ok(write_all(file, src, true, sharded ? SHARD : 0, &error));
        assert_ok(write_all(other, src, false, 0, &error));
        struct leat_dataset *a = opened(file), *b = opened(other);
        assert_false(same_print(a, b));
        assert_null(of_values(b));
        leat_dataset_fingerprint(b, print);
        for (size_t i = 0; i < sizeof print; i++)
            snprintf(text + 2 * i, 3, "%02x", print[i]);
        assert_non_null(said = of_values(a));
        assert_string_equal(said, text);
        free(said);
        struct leat_dataset *both = joined(b, a);
        assert_non_null(said = of_values(both));
        free(said);
        leat_dataset_release(both);
        leat_dataset_release(a);
        leat_dataset_release(b);
    }
    leat_dataset_release(src);
}

static uint8_t *bytes_of(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    uint8_t *p = malloc(*n + 1);
    assert_int_equal(fread(p, 1, *n, f), *n);
    fclose(f);
    return p;
}

/* The bytes of `file` and of `other`, which are the same. */
static void assert_same_bytes(void)
{
    size_t n, m;
    uint8_t *p = bytes_of(file, &n), *q = bytes_of(other, &m);
    assert_int_equal(n, m);
    assert_memory_equal(p, q, n);
    free(p);
    free(q);
}

TEST_IN_FOLDER(a_conversion_of_data_whose_fingerprint_is_of_its_values_is_the_file_that_packing_writes)
{
    struct leat_error error;
    struct leat_dataset *src = source(NULL, N, false);
    assert_ok(write_all(file, src, true, 0, &error));
    assert_ok(write_all(other, src, false, 0, &error));
    assert_same_bytes();
    leat_dataset_release(src);
}

TEST_IN_FOLDER(a_conversion_of_a_conversion_has_the_fingerprint_of_the_first_source)
{
    struct leat_error error;
    struct leat_dataset *src = source("one", N, true);
    assert_ok(write_all(file, src, true, SHARD, &error));
    struct leat_dataset *a = opened(file);
    assert_ok(write_all(other, a, true, 0, &error));
    struct leat_dataset *b = opened(other);
    assert_true(same_print(src, b));
    leat_dataset_release(a);
    leat_dataset_release(b);
    leat_dataset_release(src);
}

TEST_IN_FOLDER(a_conversion_that_was_resumed_is_byte_for_byte_one_that_was_not)
{
    struct leat_error error;
    struct leat_writer *w;
    struct leat_dataset *src = large_source();
    struct leat_writer_options o = options_of(src);
    char id[64];
    o.source_id = id_of(src, id);
    assert_ok(leat_writer_open(other, &large, 1, &o, &w, &error));
    assert_ok(leat_writer_set_source(w, src, &error));
    assert_ok(write_large(w, src, 0, ROWS));
    assert_ok(leat_writer_finish(w, &error));
    leat_writer_free(w, false);
    assert_ok(leat_writer_open(file, &large, 1, &o, &w, &error));
    assert_ok(leat_writer_set_source(w, src, &error));
    assert_ok(write_large(w, src, 0, 10));
    leat_writer_free(w, true);
    o.resume = true;
    assert_ok(leat_writer_open(file, &large, 1, &o, &w, &error));
    assert_int_equal(leat_writer_count(w), 8);
    assert_ok(leat_writer_set_source(w, src, &error));
    assert_ok(write_large(w, src, 8, ROWS - 8));
    assert_ok(leat_writer_finish(w, &error));
    leat_writer_free(w, false);
    assert_same_bytes();
    leat_dataset_release(src);
}

static int refused(const struct leat_field *of, size_t n, struct leat_writer_options o, struct leat_dataset *d,
                   const char *why)
{
    struct leat_error error;
    struct leat_writer *w;
    assert_ok(leat_writer_open(file, of, n, &o, &w, &error));
    const int rc = leat_writer_set_source(w, d, &error);
    assert_int_equal(rc, LEAT_E_INVALID);
    assert_non_null(strstr(error.message, why));
    leat_writer_free(w, false);
    return rc;
}

TEST_IN_FOLDER(what_would_be_no_conversion_is_refused)
{
    static const size_t both[] = {0, 1};
    struct leat_error error;
    struct leat_writer *w;
    struct leat_dataset *src = source("one", N, false), *view = part_of(src), *few = source("one", 3, false);
    struct leat_writer_options o = options_of(src);
    refused(fields, 2, o, view, "a view");
    refused(fields, 1, o, src, "other fields");
    const struct leat_field changed[2] = {{.name = "label", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U64}, fields[1]};
    refused(changed, 2, o, src, "other fields");
    struct leat_writer_options with = o;
    with.classes = (const char *const[]){"a"};
    with.n_classes = 1;
    refused(fields, 2, with, src, "other classes: 0, and the file 1");
    with = o;
    with.on_bad = LEAT_BAD_SKIP;
    refused(fields, 2, with, src, "on_bad");
    with = o;
    with.max_side = 100;
    refused(fields, 2, with, src, "max_side");
    /* resumed samples that may be anyone's */
    struct leat_dataset *many = large_source();
    assert_ok(leat_writer_open(file, &large, 1, &o, &w, &error));
    assert_ok(write_large(w, many, 0, 9));
    leat_writer_free(w, true);
    with = o;
    with.resume = true;
    refused(&large, 1, with, many, "source_id");
    /* resumed samples that are another data set's, whose name says so */
    char id[64];
    with.source_id = id_of(src, id);
    with.resume = false;
    assert_ok(leat_writer_open(file, &large, 1, &with, &w, &error));
    assert_ok(write_large(w, many, 0, 9));
    leat_writer_free(w, true);
    with.resume = true;
    refused(&large, 1, with, many, "a source_id that holds the fingerprint of its source");
    leat_dataset_release(many);
    /* more samples, or fewer */
    assert_ok(leat_writer_open(file, fields, 2, &o, &w, &error));
    assert_ok(leat_writer_set_source(w, few, &error));
    assert_ok(leat_dataset_write(src, both, 2, 0, 2, w, &error));
    assert_int_equal(leat_writer_finish(w, &error), LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "2 samples"));
    assert_ok(leat_dataset_write(src, both, 2, 2, 2, w, &error));
    assert_int_equal(leat_writer_finish(w, &error), LEAT_E_INVALID);
    leat_writer_free(w, false);
    assert_int_equal(access(file, F_OK), -1);
    leat_dataset_release(few);
    leat_dataset_release(view);
    leat_dataset_release(src);
}

TEST_IN_FOLDER(samples_that_were_added_before_and_a_second_source_are_refused)
{
    static const size_t both[] = {0, 1};
    struct leat_error error;
    struct leat_writer *w;
    struct leat_dataset *src = source("one", N, false), *twin = source("two", N, false);
    struct leat_writer_options o = options_of(src);
    assert_ok(leat_writer_open(file, fields, 2, &o, &w, &error));
    assert_ok(leat_dataset_write(src, both, 2, 0, 10, w, &error));
    assert_int_equal(leat_writer_set_source(w, src, &error), LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "10 samples were added before"));
    leat_writer_free(w, false);
    assert_ok(leat_writer_open(file, fields, 2, &o, &w, &error));
    assert_ok(leat_writer_set_source(w, src, &error));
    assert_int_equal(leat_writer_set_source(w, twin, &error), LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "a conversion already"));
    assert_ok(leat_dataset_write(src, both, 2, 0, N, w, &error));
    assert_int_equal(leat_writer_set_source(w, twin, &error), LEAT_E_INVALID);
    assert_ok(leat_writer_finish(w, &error));
    leat_writer_free(w, false);
    struct leat_dataset *made = opened(file);
    assert_true(same_print(src, made));
    leat_dataset_release(made);
    leat_dataset_release(twin);
    leat_dataset_release(src);
}

TEST_IN_FOLDER(a_conversion_has_the_classes_of_its_source_though_the_fingerprint_has_none)
{
    static const char *const swapped[] = {"dog", "cat"};
    struct leat_dataset *src = source("one", 3, true);
    struct leat_writer_options o = options_of(src);
    o.classes = swapped;
    refused(fields, 2, o, src, "other classes");
    o.n_classes = 1;
    refused(fields, 2, o, src, "other classes: 2, and the file 1");
    o.n_classes = 0;
    refused(fields, 2, o, src, "other classes: 2, and the file 0");
    leat_dataset_release(src);
}

static struct leat_dataset *chosen(const char *path, const struct leat_field *of, size_t n)
{
    struct leat_open_options o = LEAT_OPEN_OPTIONS_INIT;
    struct leat_error error;
    struct leat_dataset *d;
    o.fields = of;
    o.n_fields = n;
    assert_ok(leat_dataset_open(path, &o, &d, &error));
    return d;
}

TEST_IN_FOLDER(chosen_fields_of_a_conversion_have_the_sums_of_its_source_in_one_file_and_in_shards)
{
    struct leat_error error;
    char *said;
    uint8_t want[16], print[16];
    for (int classes = 0; classes < 2; classes++) {
        struct leat_dataset *src = source("one", N, classes);
        assert_ok(write_all(file, src, true, 0, &error));
        assert_ok(write_all(other, src, true, SHARD, &error));
        for (size_t first = 0; first < 2; first++) {
            struct leat_dataset *one = chosen(file, &fields[first], 1), *shards = chosen(other, &fields[first], 1);
            leat_fingerprint_finish(&fields[first], 1, NULL, 0, N, src->base->sums, want);
            leat_dataset_fingerprint(one, print);
            assert_memory_equal(print, want, sizeof want);
            assert_true(same_print(one, shards));
            assert_null(said = of_values(one)); /* a file of these fields alone would have others */
            leat_dataset_release(one);
            leat_dataset_release(shards);
        }
        struct leat_dataset *one = chosen(file, fields, 2), *shards = chosen(other, fields, 2);
        assert_true(same_print(src, one));
        assert_true(same_print(src, shards));
        assert_non_null(said = of_values(one));
        free(said);
        leat_dataset_release(one);
        leat_dataset_release(shards);
        leat_dataset_release(src);
    }
}

TEST_IN_FOLDER(a_join_says_the_fingerprint_of_its_values_only_if_those_of_all_parts_are_known)
{
    struct leat_error error;
    char *said;
    struct leat_dataset *src = source("one", N, false), *src2 = source("two", 20, false);
    assert_ok(write_all(file, src, true, 0, &error));
    struct leat_dataset *a = opened(file), *joins[] = {joined(a, src2), joined(src2, a), joined(a, a)};
    assert_null(of_values(joins[0]));
    assert_null(of_values(joins[1]));
    assert_non_null(said = of_values(joins[2]));
    free(said);
    struct leat_dataset *again = joined(joins[0], a);
    assert_null(of_values(again));
    leat_dataset_release(again);
    for (size_t i = 0; i < 3; i++)
        leat_dataset_release(joins[i]);
    leat_dataset_release(a);
    leat_dataset_release(src);
    leat_dataset_release(src2);
}

TEST_IN_FOLDER(a_flipped_bit_gives_a_conversion_no_other_fingerprint)
{
    struct leat_error error;
    struct leat_dataset *src = source("one", 3, true), *d;
    size_t n, refusals = 0;
    assert_ok(write_all(file, src, true, 0, &error));
    uint8_t *bytes = bytes_of(file, &n);
    for (size_t i = 0; i < n; i++) {
        bytes[i] ^= (uint8_t)(1 << i % 8);
        files_write(folder, "b.leat", bytes, n);
        bytes[i] ^= (uint8_t)(1 << i % 8);
        if (leat_dataset_open(other, NULL, &d, &error)) {
            refusals++;
            continue;
        }
        assert_true(same_print(src, d));
        leat_dataset_release(d);
    }
    assert_true(refusals > 300); /* header, sections, directory, footer */
    free(bytes);
    leat_dataset_release(src);
}

/* Opens a conversion whose section of the source has another byte, and fewer bytes, with checksums that are right. */
static int open_changed(size_t byte, uint64_t fewer, struct leat_error *error)
{
    struct leat_dataset *src = source("one", 3, false), *d;
    size_t n;
    bool found = false;
    assert_int_equal(write_all(file, src, true, 0, error), LEAT_OK);
    leat_dataset_release(src);
    uint8_t *bytes = bytes_of(file, &n), *footer = bytes + n - LEAT_STORE_FOOTER;
    const uint64_t directory = leat_get_u64(footer + 16), length = leat_get_u64(footer + 24);
    for (uint64_t e = directory; e < directory + length; e += LEAT_STORE_SECTION_ENTRY) {
        struct leat_store_section s;
        leat_store_section_get(bytes + e, &s);
        if (s.type != LEAT_SECTION_CONVERSION)
            continue;
        found = true;
        assert_false(s.flags & LEAT_SECTION_REQUIRED);
        bytes[s.offset + byte] ^= 1;
        s.length -= fewer;
        s.checksum = leat_hash64(bytes + s.offset, s.length);
        leat_store_section_put(bytes + e, &s);
    }
    assert_true(found);
    leat_put_u64(footer + 32, leat_hash64(bytes + directory, length));
    leat_put_u64(footer + 56, leat_hash64(footer, 56));
    files_write(folder, "b.leat", bytes, n);
    free(bytes);
    return leat_dataset_open(other, NULL, &d, error);
}

TEST_IN_FOLDER(the_fingerprint_of_a_source_in_a_file_of_other_values_is_refused)
{
    struct leat_error error;
    const struct leat_store_conversion c = {{1, 2}, {3, 4}, true};
    struct leat_store_conversion back;
    uint8_t p[LEAT_STORE_CONVERSION];
    leat_store_conversion_put(p, &c);
    assert_true(leat_store_conversion_get(p, &back));
    assert_memory_equal(back.sums, c.sums, sizeof c.sums);
    assert_memory_equal(back.values, c.values, sizeof c.values);
    assert_true(back.classes_apart);
    p[32] = 3; /* a flag of a later version */
    assert_false(leat_store_conversion_get(p, &back));

    /* The same in a file whose checksums are right. */
    assert_int_equal(open_changed(16, 0, &error), LEAT_E_CORRUPT); /* of the file's values */
    assert_non_null(strstr(error.message, "belongs to another file"));
    assert_int_equal(open_changed(24, 0, &error), LEAT_E_CORRUPT);
    assert_non_null(strstr(error.message, "belongs to another file"));
    assert_int_equal(open_changed(33, 0, &error), LEAT_E_FORMAT); /* a flag of a later version */
    assert_non_null(strstr(error.message, "flags that this leat does not know"));
    assert_int_equal(open_changed(0, 8, &error), LEAT_E_CORRUPT);
    assert_non_null(strstr(error.message, "a wrong length"));
}

/* A manifest with the text `from` replaced, and its checksum right again. */
static int parse_changed(const char *text, const char *from, const char *to, struct leat_error *error)
{
    struct leat_manifest m;
    const char *at = strstr(text, from);
    char *changed;
    assert_non_null(at);
    assert_true(asprintf(&changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)) > 0);
    const size_t n = strlen(changed);
    char tail[40];
    snprintf(tail, sizeof tail, "\"checksum\": \"%016" PRIx64 "\"}\n", leat_hash64(changed, n - 32));
    memcpy(changed + n - 32, tail, 32);
    const int rc = leat_manifest_parse(changed, n, &m, error);
    if (!rc)
        leat_manifest_destroy(&m);
    free(changed);
    return rc;
}

TEST_IN_FOLDER(a_manifest_has_the_fingerprint_of_the_source_of_its_own_shards_only)
{
    struct leat_error error;
    size_t n;
    struct leat_dataset *src = source("one", N, true);
    assert_ok(write_all(file, src, true, SHARD, &error));
    char *text = (char *)bytes_of(file, &n), values[64];
    text[n] = 0;
    assert_non_null(strstr(text, "\n \"source\": {\"sums\": [\""));
    assert_ok(parse_changed(text, "\"classes_apart\": true", "\"classes_apart\": false", &error));
    assert_int_equal(parse_changed(text, "\"classes_apart\": true", "\"classes_apart\": 1", &error), LEAT_E_CORRUPT);
    assert_non_null(strstr(error.message, "does not say whether its classes are apart"));
    assert_int_equal(parse_changed(text, "\"values\"", "\"value\"", &error), LEAT_E_CORRUPT);
    assert_non_null(strstr(error.message, "lacks a number"));
    assert_int_equal(parse_changed(text, "\"source\": {", "\"source\": 1, \"unknown\": {", &error), LEAT_E_CORRUPT);
    assert_non_null(strstr(error.message, "is no object"));
    snprintf(values, sizeof values, "%.27s", strstr(text, "\"values\": [\""));
    assert_int_equal(parse_changed(text, values, "\"values\": [\"0000000000000000", &error), LEAT_E_CORRUPT);
    char *sums = strndup(strstr(text, "\"sums\": [\""), 26), *others = strdup(sums); /* of the first shard */
    others[12] = others[12] == '7' ? '8' : '7';
    assert_int_equal(parse_changed(text, sums, others, &error), LEAT_E_CORRUPT);
    free(sums);
    free(others);
    assert_non_null(strstr(error.message, "other shards"));
    assert_ok(parse_changed(text, "\"source\"", "\"unknown\"", &error)); /* as of an older leat, which passes it over */
    free(text);
    leat_dataset_release(src);
}

TEST_IN_FOLDER(several_shards_have_the_fingerprint_of_their_source_and_one_alone_its_own)
{
    struct leat_dataset *src = large_source();
    struct leat_writer_options o = options_of(src);
    struct leat_error error;
    struct leat_manifest m;
    struct leat_writer *w;
    o.shard_bytes = SHARD;
    o.num_threads = 2;
    assert_ok(leat_writer_open(file, &large, 1, &o, &w, &error));
    assert_ok(leat_writer_set_source(w, src, &error));
    assert_ok(write_large(w, src, 0, ROWS));
    assert_ok(leat_writer_finish(w, &error));
    leat_writer_free(w, false);
    assert_ok(leat_manifest_read(file, &m, &error));
    assert_int_equal(m.n_shards, 3);
    struct leat_dataset *whole = opened(file);
    assert_true(same_print(src, whole));
    char *path = leat_manifest_shard_path(file, m.shards[0].file);
    struct leat_dataset *alone = opened(path);
    assert_null(of_values(alone));
    leat_free(path);
    leat_dataset_release(alone);
    leat_dataset_release(whole);
    leat_dataset_release(src);
    leat_manifest_destroy(&m);
}

static void fail_each_allocation(uint64_t shard_bytes)
{
    struct leat_dataset *src = source("one", 3, true);
    for (int64_t n = 0;; n++) {
        struct leat_error error = {.code = 0};
        struct leat_dataset *d = NULL;
        fail_allocation(n);
        int rc = write_all(file, src, true, shard_bytes, &error);
        rc = rc ? rc : leat_dataset_open(file, NULL, &d, &error);
        const bool failed = allocation_failed();
        if (!rc)
            assert_true(same_print(src, d));
        else
            assert_int_equal(rc, LEAT_E_NOMEM);
        leat_dataset_release(d);
        if (!failed) {
            assert_ok(rc);
            assert_true(n > 20);
            break;
        }
    }
    leat_dataset_release(src);
}

TEST_IN_FOLDER(any_allocation_may_fail_when_a_conversion_is_written_and_opened)
{
    fail_each_allocation(0);
    fail_each_allocation(SHARD);
}

TEST_MAIN()
