#include <math.h>

#include "base/random.h"
#include "data/dataset.h"
#include "data/internal.h"
#include "native.h"

static char folder[PATH_MAX], path[PATH_MAX + 16];
static struct leat_dataset *whole;
enum { N = 1000 };

static int set_up(void **state)
{
    struct leat_error error;
    files_folder(folder);
    snprintf(path, sizeof path, "%s/data.leat", folder);
    native_write(path, 0, N, 0);
    assert_ok(leat_dataset_open(path, NULL, &whole, &error));
    return 0;
}

static int tear_down(void **state)
{
    leat_dataset_release(whole);
    files_remove(folder);
    return 0;
}

static struct leat_dataset *slice(struct leat_dataset *d, uint64_t begin, uint64_t end, uint64_t step)
{
    struct leat_error error;
    struct leat_dataset *out;
    assert_ok(leat_dataset_slice(d, begin, end, step, &out, &error));
    return out;
}

static struct leat_dataset *select_of(struct leat_dataset *d, const int64_t *positions, uint64_t n)
{
    struct leat_error error;
    struct leat_dataset *out;
    assert_ok(leat_dataset_select(d, positions, n, &out, &error));
    return out;
}

/* Ids by leat_dataset_ids, by locate, and values read: all say the same. */
static void assert_ids(const struct leat_dataset *d, const int64_t *want, uint64_t n)
{
    struct leat_error error;
    int64_t *ids = calloc(n + 1, sizeof *ids);
    uint64_t *positions = calloc(n + 1, sizeof *positions);
    struct leat_sample_ref *refs = calloc(n + 1, sizeof *refs);
    assert_true(ids && positions && refs);
    assert_int_equal(leat_dataset_count(d), n);
    assert_ok(leat_dataset_ids(d, 0, n, ids, &error));
    for (uint64_t i = 0; i < n; i++)
        positions[i] = n - 1 - i;
    leat_dataset_locate(d, positions, n, refs);
    for (uint64_t i = 0; i < n; i++) {
        assert_int_equal(ids[i], want[i]);
        assert_int_equal(refs[i].id, want[n - 1 - i]);
    }
    struct leat_value column;
    assert_ok(leat_dataset_column(d, X, false, false, &column, &error));
    for (uint64_t i = 0; i < n; i++)
        assert_int_equal(((const int64_t *)column.data)[i], want[i] * 10);
    leat_value_clear(&column);
    free(ids);
    free(positions);
    free(refs);
}

TEST(slices_keep_base_ids)
{
    struct leat_dataset *a = slice(whole, 10, 15, 1), *b = slice(a, 1, 5, 3), *none = slice(whole, 7, 7, 1);
    assert_ids(a, (int64_t[]){10, 11, 12, 13, 14}, 5);
    assert_ids(b, (int64_t[]){11, 14}, 2);
    assert_ids(none, NULL, 0);
    leat_dataset_release(a); /* views live on without what they were made of */
    assert_ids(b, (int64_t[]){11, 14}, 2);
    leat_dataset_release(b);
    leat_dataset_release(none);
}

TEST(selections_take_any_order_and_duplicates)
{
    const int64_t positions[] = {5, 5, 3, 999, 0, 1, 2, 3, 3, 4};
    struct leat_dataset *a = select_of(whole, positions, 10);
    assert_ids(a, positions, 10);
    struct leat_dataset *b = select_of(a, (int64_t[]){9, 0, 4, 5, 6}, 5);
    assert_ids(b, (int64_t[]){4, 5, 0, 1, 2}, 5);
    leat_dataset_release(a);
    leat_dataset_release(b);
}

TEST(runs_of_neighbours_collapse)
{
    struct leat_dataset *half = slice(whole, 100, 900, 1);
    assert_int_equal(half->selection.n_runs, 1);
    int64_t positions[600];
    for (int i = 0; i < 600; i++)
        positions[i] = i < 300 ? i : i + 100;
    struct leat_dataset *two = select_of(half, positions, 600);
    assert_int_equal(two->selection.n_runs, 2);
    struct leat_dataset *all = slice(whole, 0, N, 1);
    assert_false(all->selected);
    leat_dataset_release(half);
    leat_dataset_release(two);
    leat_dataset_release(all);
}

TEST(any_selection_is_found_again)
{
    /* Runs of very different length, so that buckets of the index hold none, one and many. */
    for (uint64_t key = 0; key < 20; key++) {
        enum { LONGEST = 4000 };
        static int64_t want[LONGEST];
        uint64_t n = 0;
        for (uint64_t r = 0; n < LONGEST - 300; r++) {
            uint64_t begin = leat_draw_below(key, 2 * r, 700);
            uint64_t count = r % 7 == 0 ? 1 + leat_draw_below(key, 2 * r + 1, 300) : 1;
            for (uint64_t i = 0; i < count; i++)
                want[n++] = (int64_t)(begin + i);
        }
        struct leat_dataset *d = select_of(whole, want, n);
        assert_non_null(d->selection.index);
        assert_ids(d, want, n);
        uint64_t from = leat_draw_below(key, 90000, n);
        struct leat_dataset *part = slice(d, from, n, 1);
        assert_ids(part, want + from, n - from);
        leat_dataset_release(part);
        leat_dataset_release(d);
    }
}

TEST(positions_out_of_range_are_named)
{
    struct leat_error error;
    struct leat_dataset *out;
    assert_int_equal(leat_dataset_select(whole, (int64_t[]){0, N}, 2, &out, &error), LEAT_E_RANGE);
    assert_null(out);
    assert_non_null(strstr(error.message, "1000"));
    assert_int_equal(leat_dataset_select(whole, (int64_t[]){-1}, 1, &out, &error), LEAT_E_RANGE);
    assert_int_equal(leat_dataset_slice(whole, 5, 4, 1, &out, &error), LEAT_E_RANGE);
    assert_int_equal(leat_dataset_slice(whole, 5, N + 1, 1, &out, &error), LEAT_E_RANGE);
    assert_int_equal(leat_dataset_slice(whole, 5, 6, 0, &out, &error), LEAT_E_RANGE);
    int64_t id;
    assert_int_equal(leat_dataset_ids(whole, N, 1, &id, &error), LEAT_E_RANGE);
    assert_int_equal(leat_dataset_ids(whole, UINT64_MAX, 2, &id, &error), LEAT_E_RANGE);
}

TEST(a_split_is_disjoint_ascending_and_complete)
{
    struct leat_error error;
    struct leat_dataset *parts[3];
    uint8_t seen[N] = {0};
    assert_ok(leat_dataset_split(whole, (double[]){0.7, 0.2, 0.1}, 3, 42, parts, &error));
    const uint64_t want[] = {700, 200, 100};
    for (int k = 0; k < 3; k++) {
        int64_t ids[N];
        uint64_t n = leat_dataset_count(parts[k]);
        assert_int_equal(n, want[k]);
        assert_ok(leat_dataset_ids(parts[k], 0, n, ids, &error));
        for (uint64_t i = 0; i < n; i++) {
            assert_true(i == 0 || ids[i] > ids[i - 1]);
            assert_int_equal(seen[ids[i]]++, 0);
        }
        leat_dataset_release(parts[k]);
    }
}

TEST(splits_depend_on_the_seed_only)
{
    struct leat_error error;
    struct leat_dataset *a, *b, *c;
    uint8_t fa[16], fb[16], fc[16];
    assert_ok(leat_dataset_split(whole, (double[]){0.3}, 1, 1, &a, &error));
    assert_ok(leat_dataset_split(whole, (double[]){0.3}, 1, 1, &b, &error));
    assert_ok(leat_dataset_split(whole, (double[]){0.3}, 1, 2, &c, &error));
    leat_dataset_fingerprint(a, fa);
    leat_dataset_fingerprint(b, fb);
    leat_dataset_fingerprint(c, fc);
    assert_memory_equal(fa, fb, 16);
    assert_memory_not_equal(fa, fc, 16);
    leat_dataset_release(a);
    leat_dataset_release(b);
    leat_dataset_release(c);
}

TEST(a_split_never_changes_between_versions)
{
    struct leat_error error;
    struct leat_dataset *part;
    uint64_t sum = 0;
    int64_t ids[N];
    assert_ok(leat_dataset_split(whole, (double[]){0.5}, 1, 7, &part, &error));
    assert_ok(leat_dataset_ids(part, 0, 500, ids, &error));
    for (int i = 0; i < 500; i++)
        sum = leat_key_mix(sum, (uint64_t)ids[i]);
    if (sum != UINT64_C(0x778f05ec30434133))
        fail_msg("0x%016" PRIx64, sum);
    leat_dataset_release(part);
}

TEST(fractions_that_are_none_are_refused)
{
    struct leat_error error;
    struct leat_dataset *parts[2];
    assert_int_equal(leat_dataset_split(whole, (double[]){0.7, 0.4}, 2, 0, parts, &error), LEAT_E_RANGE);
    assert_null(parts[0]);
    assert_int_equal(leat_dataset_split(whole, (double[]){-0.1, 0.4}, 2, 0, parts, &error), LEAT_E_RANGE);
    assert_int_equal(leat_dataset_split(whole, (double[]){NAN, 0.4}, 2, 0, parts, &error), LEAT_E_RANGE);
    struct leat_dataset *none = slice(whole, 0, 0, 1);
    assert_ok(leat_dataset_split(none, (double[]){0.5, 0.5}, 2, 0, parts, &error));
    assert_int_equal(leat_dataset_count(parts[1]), 0);
    leat_dataset_release(parts[0]);
    leat_dataset_release(parts[1]);
    leat_dataset_release(none);
}

TEST(the_fingerprint_of_a_view_tells_base_and_selection)
{
    struct leat_dataset *views[] = {leat_dataset_retain(whole), slice(whole, 0, 10, 1), slice(whole, 1, 11, 1),
                                    slice(whole, 0, 20, 2), slice(whole, 0, 0, 1)};
    uint8_t prints[5][16], again[16];
    for (int i = 0; i < 5; i++) {
        leat_dataset_fingerprint(views[i], prints[i]);
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(prints[i], prints[k], 16);
        leat_dataset_release(views[i]);
    }
    /* The same selection made in another way. */
    struct leat_dataset *a = slice(whole, 5, 100, 1), *b = select_of(a, (int64_t[]){0, 1, 2}, 3),
                        *c = slice(whole, 5, 8, 1);
    leat_dataset_fingerprint(b, prints[0]);
    leat_dataset_fingerprint(c, again);
    assert_memory_equal(prints[0], again, 16);
    leat_dataset_release(a);
    leat_dataset_release(b);
    leat_dataset_release(c);
}

TEST(joining_adds_offsets_to_ids)
{
    struct leat_error error;
    struct leat_dataset *other, *joined, *views;
    char second[PATH_MAX + 16];
    snprintf(second, sizeof second, "%s/second.leat", folder);
    native_write(second, N, 5, 0); /* goes on where the first one ends */
    assert_ok(leat_dataset_open(second, NULL, &other, &error));
    assert_ok(leat_dataset_concat((struct leat_dataset *[]){whole, other}, 2, &joined, &error));
    assert_int_equal(leat_dataset_count(joined), N + 5);
    struct leat_dataset *border = slice(joined, N - 2, N + 2, 1);
    assert_ids(border, (int64_t[]){N - 2, N - 1, N, N + 1}, 4);
    leat_dataset_release(border);
    struct leat_dataset *a = slice(whole, 7, 9, 1), *b = select_of(other, (int64_t[]){4, 0}, 2);
    assert_ok(leat_dataset_concat((struct leat_dataset *[]){a, b}, 2, &views, &error));
    assert_ids(views, (int64_t[]){7, 8, N + 4, N}, 4);
    struct leat_dataset *again;
    const char *text = leat_dataset_view_text(views);
    assert_ok(leat_dataset_view(joined, text, NULL, 0, &again, &error));
    assert_ids(again, (int64_t[]){7, 8, N + 4, N}, 4);
    assert_string_equal(leat_dataset_view_text(again), text);
    leat_dataset_release(again);
    leat_dataset_release(a);
    leat_dataset_release(b);
    leat_dataset_release(other);
    assert_ids(views, (int64_t[]){7, 8, N + 4, N}, 4);
    leat_dataset_release(views);
    leat_dataset_release(joined);
}

TEST(a_data_set_may_be_joined_to_itself_and_to_nothing)
{
    struct leat_error error;
    struct leat_dataset *empty, *joined, *twice;
    struct leat_value value;
    char second[PATH_MAX + 16];
    snprintf(second, sizeof second, "%s/empty.leat", folder);
    native_write(second, 0, 0, 0);
    assert_ok(leat_dataset_open(second, NULL, &empty, &error));
    assert_int_equal(leat_dataset_count(empty), 0);
    assert_ok(leat_dataset_concat((struct leat_dataset *[]){empty, whole, empty, whole, empty}, 5, &joined, &error));
    assert_ok(leat_dataset_concat(&joined, 1, &twice, &error));
    assert_int_equal(leat_dataset_count(twice), 2 * N);
    assert_ok(leat_dataset_read(twice, N + 3, X, &value, &error));
    assert_int_equal(*(const int64_t *)value.data, 30);
    leat_value_clear(&value);
    leat_dataset_release(twice);
    assert_int_equal(leat_dataset_concat(NULL, 0, &twice, &error), LEAT_E_INVALID);
    leat_dataset_release(joined);
    leat_dataset_release(empty);
}

TEST(views_that_a_loader_joins_keep_the_ids_of_their_data_set)
{
    struct leat_error error;
    struct leat_dataset *parts[3], *again, *joined;
    enum { HALF = N / 2 };
    static int64_t scattered[N]; /* in no order */
    for (int64_t i = 0; i < N; i++)
        scattered[i] = i * 7 % N;
    assert_ok(leat_dataset_slice(whole, HALF, N, 1, &parts[0], &error));
    assert_ok(leat_dataset_slice(whole, 0, HALF, 1, &parts[1], &error)); /* together as many as all, in another order */
    assert_ok(leat_dataset_select(whole, scattered, N, &parts[2], &error));
    for (size_t n = 2; n <= 3; n++) {
        assert_ok(leat_dataset_join(parts, n, &joined, &error));
        assert_int_equal(leat_dataset_count(joined), n == 2 ? N : 2 * N);
        for (uint64_t position = 0; position < leat_dataset_count(joined); position++) {
            struct leat_sample_ref ref;
            leat_dataset_locate(joined, &position, 1, &ref);
            const int64_t id = position < HALF ? HALF + (int64_t)position
                               : position < N  ? (int64_t)position - HALF
                                               : scattered[position - N];
            assert_int_equal(ref.id, id);
            assert_int_equal(ref.sample, id);
        }
        leat_dataset_release(joined);
    }
    assert_ok(leat_dataset_open(path, NULL, &again, &error)); /* the same file, opened twice */
    assert_ok(leat_dataset_join((struct leat_dataset *[]){parts[1], again}, 2, &joined, &error));
    struct leat_sample_ref ref;
    leat_dataset_locate(joined, &(uint64_t){HALF + 3}, 1, &ref);
    assert_int_equal(ref.id, 3);
    leat_dataset_release(joined);
    leat_dataset_release(again);
    for (size_t i = 0; i < 3; i++)
        leat_dataset_release(parts[i]);
}

TEST(what_differs_cannot_be_joined)
{
    struct leat_error error;
    struct leat_dataset *photos, *joined, *others;
    char second[PATH_MAX + 16];
    files_write_text(folder, "one/a/1.jpg", "x");
    files_write_text(folder, "two/b/1.jpg", "x");
    snprintf(second, sizeof second, "%s/one", folder);
    assert_ok(leat_dataset_open(second, NULL, &photos, &error));
    snprintf(second, sizeof second, "%s/two", folder);
    assert_ok(leat_dataset_open(second, NULL, &others, &error));
    assert_int_equal(leat_dataset_concat((struct leat_dataset *[]){whole, photos}, 2, &joined, &error), LEAT_E_INVALID);
    assert_null(joined);
    assert_non_null(strstr(error.message, "\"x\""));
    assert_int_equal(leat_dataset_concat((struct leat_dataset *[]){photos, others}, 2, &joined, &error),
                     LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "classes"));
    leat_dataset_release(photos);
    leat_dataset_release(others);
}

TEST(shards_are_one_data_set_with_the_fingerprint_of_one_file)
{
    enum { MANY = 140000 }; /* shards are whole groups of rows, of 65536 here */
    struct leat_error error;
    struct leat_dataset *sharded, *single;
    char manifest[PATH_MAX + 16], *about;
    uint8_t one[16], many[16];
    snprintf(manifest, sizeof manifest, "%s/single.leat", folder);
    native_write(manifest, 0, MANY, 0);
    assert_ok(leat_dataset_open(manifest, NULL, &single, &error));
    snprintf(manifest, sizeof manifest, "%s/shards.leat", folder);
    native_write(manifest, 0, MANY, 10000);
    assert_ok(leat_dataset_open(manifest, NULL, &sharded, &error));
    assert_int_equal(sharded->base->n_parts, 3);
    leat_dataset_fingerprint(single, one);
    leat_dataset_fingerprint(sharded, many);
    assert_memory_equal(one, many, 16);
    int64_t *ids = calloc(MANY, sizeof *ids);
    assert_non_null(ids);
    for (int i = 0; i < MANY; i++)
        ids[i] = i;
    assert_ids(sharded, ids, MANY);
    free(ids);
    leat_dataset_release(single);
    assert_ok(leat_dataset_about(sharded, &about, &error));
    assert_non_null(strstr(about, "\"format\":\"leat\""));
    assert_non_null(strstr(about, "\"shards\":[{"));
    leat_free(about);
    char *second = strdup(sharded->base->owned[1]->path);
    leat_dataset_release(sharded);
    assert_int_equal(remove(second), 0);
    assert_int_equal(leat_dataset_open(manifest, NULL, &sharded, &error), LEAT_E_NOT_FOUND);
    assert_non_null(strstr(error.message, "shard 2 of"));
    native_write(second, 0, 3, 0); /* a good file, but another one */
    assert_int_equal(leat_dataset_open(manifest, NULL, &sharded, &error), LEAT_E_CHANGED);
    assert_null(sharded);
    free(second);
}

TEST(runs_that_overlap_are_not_ascending)
{
    enum { RUNS = 5000 }; /* so many would be packed if they ascended */
    struct leat_selection s = {0};
    for (uint64_t i = 0; i < RUNS; i++)
        assert_int_equal(leat_selection_push(&s, i, 2), LEAT_OK);
    assert_int_equal(leat_selection_seal(&s), LEAT_OK);
    assert_false(s.ascending);
    assert_int_equal(s.count, 2 * RUNS);
    for (uint64_t i = 0; i < 2 * RUNS; i++)
        assert_int_equal(leat_selection_at(&s, i, NULL), i / 2 + i % 2);
    leat_selection_destroy(&s);
}

TEST(a_zipped_sample_is_resolved_to_the_one_behind_it_and_keeps_its_id)
{
    struct leat_error error;
    struct leat_dataset *parts[] = {slice(whole, 10, 20, 1), slice(whole, 40, 50, 1)}, *zipped;
    struct leat_sample_ref ref;
    assert_ok(leat_dataset_zip(parts, (const char *const[]){"a", "b"}, 2, false, NULL, 0, &zipped, &error));
    size_t n, field = 0;
    const struct leat_field *fields = leat_dataset_fields(zipped, &n);
    while (field < n && strcmp(fields[field].name, "b.x") != 0)
        field++;
    assert_true(field < n);
    leat_dataset_locate(zipped, &(uint64_t){3}, 1, &ref);
    leat_ref_resolve(&ref, &field);
    assert_int_equal(field, X);
    assert_int_equal(ref.sample, 43);
    assert_int_equal(ref.id, 3);
    leat_dataset_release(zipped);
    leat_dataset_release(parts[0]);
    leat_dataset_release(parts[1]);
}

TEST_MAIN_IN(set_up, tear_down)
