#include "../test.h"
#include "format/fingerprint.h"

enum { SAMPLES = 300 };

static const struct leat_field fields[] = {
    {.name = "image", .kind = LEAT_KIND_IMAGE, .dtype = LEAT_U8, .flags = LEAT_FIELD_FILES},
    {.name = "label", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
    {.name = "name", .kind = LEAT_KIND_STR, .dtype = LEAT_U8, .flags = LEAT_FIELD_DERIVED},
};
static const char *const classes[] = {"ant", "bee"};

static void sum_of(unsigned begin, unsigned end, uint64_t sums[2])
{
    sums[0] = sums[1] = 0;
    for (unsigned i = begin; i < end; i++) {
        uint64_t sample[2] = {0, 0};
        char name[32];
        snprintf(name, sizeof name, "ant/%u.jpg", i);
        leat_fingerprint_file(sample, name, 1000 + i);
        leat_fingerprint_value(sample, i % 2);
        leat_fingerprint_append(sums, sample);
    }
}

TEST(joined_parts_have_the_sums_of_the_whole)
{
    uint64_t whole[2];
    sum_of(0, SAMPLES, whole);
    for (unsigned cut = 0; cut <= SAMPLES; cut += 25) {
        uint64_t head[2], tail[2];
        sum_of(0, cut, head);
        sum_of(cut, SAMPLES, tail);
        leat_fingerprint_join(head, tail, SAMPLES - cut);
        assert_memory_equal(head, whole, sizeof whole);
    }
}

TEST(order_name_length_and_label_all_count)
{
    uint64_t forth[2] = {0, 0}, back[2] = {0, 0};
    uint64_t a[2] = {0, 0}, b[2] = {0, 0};
    leat_fingerprint_file(a, "a.jpg", 5);
    leat_fingerprint_file(b, "b.jpg", 5);
    leat_fingerprint_append(forth, a);
    leat_fingerprint_append(forth, b);
    leat_fingerprint_append(back, b);
    leat_fingerprint_append(back, a);
    for (int k = 0; k < 2; k++) { /* each of the two hashes by itself */
        uint64_t longer[2] = {0, 0}, labelled[2] = {a[0], a[1]};
        leat_fingerprint_file(longer, "a.jpg", 6);
        leat_fingerprint_value(labelled, 0);
        assert_int_not_equal(forth[k], back[k]);
        assert_int_not_equal(a[k], b[k]);
        assert_int_not_equal(a[k], longer[k]);
        assert_int_not_equal(a[k], labelled[k]);
    }
}

TEST(derived_fields_do_not_count_and_all_else_does)
{
    uint64_t sums[2];
    uint8_t want[16], got[16];
    sum_of(0, 10, sums);
    leat_fingerprint_finish(fields, 3, classes, 2, 10, sums, want);
    leat_fingerprint_finish(fields, 2, classes, 2, 10, sums, got);
    assert_memory_equal(got, want, 16);
    leat_fingerprint_finish(fields, 2, classes, 1, 10, sums, got);
    assert_memory_not_equal(got, want, 16);
    leat_fingerprint_finish(fields, 1, classes, 2, 10, sums, got);
    assert_memory_not_equal(got, want, 16);
    leat_fingerprint_finish(fields, 2, classes, 2, 11, sums, got);
    assert_memory_not_equal(got, want, 16);
    struct leat_field other[2] = {fields[0], fields[1]};
    other[1].dtype = LEAT_I32;
    leat_fingerprint_finish(other, 2, classes, 2, 10, sums, got);
    assert_memory_not_equal(got, want, 16);
}

TEST(what_numbers_mean_counts)
{
    static const uint16_t pairs[] = {1, 2, 3, 4}, others[] = {1, 3, 2, 4};
    const uint64_t sums[2] = {1, 2};
    struct leat_field f = {.name = "of", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_F32, .ndim = 2, .shape = {-1, 4}};
    uint8_t got[8][16];
    unsigned n = 0;
    for (; n < 5; n++) { /* plain, then boxes of each format, then normalized */
        f.role = n < 4 ? LEAT_ROLE_NONE + n : f.role;
        f.normalized = n == 4;
        leat_fingerprint_finish(&f, 1, NULL, 0, 10, sums, got[n]);
    }
    f = (struct leat_field){.name = "of", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_F32, .ndim = 3, .shape = {-1, 5, 3}};
    f.role = LEAT_ROLE_KEYPOINTS;
    for (; n < 8; n++) {
        f.pairs = n == 6 ? pairs : others;
        f.n_pairs = n == 5 ? 0 : 2;
        leat_fingerprint_finish(&f, 1, NULL, 0, 10, sums, got[n]);
    }
    for (unsigned i = 0; i < n; i++)
        for (unsigned j = 0; j < i; j++)
            assert_memory_not_equal(got[i], got[j], 16);
}

TEST(fingerprints_never_change_between_versions)
{
    static const uint8_t golden[16] = {0xf6, 0xb0, 0xdd, 0x38, 0x51, 0xd6, 0xbd, 0x2b,
                                       0x14, 0x11, 0xc8, 0x88, 0x60, 0xc3, 0x61, 0x58};
    uint64_t sums[2];
    uint8_t got[16];
    sum_of(0, SAMPLES, sums);
    leat_fingerprint_finish(fields, 3, classes, 2, SAMPLES, sums, got);
    assert_memory_equal(got, golden, 16);
}

TEST_MAIN()
