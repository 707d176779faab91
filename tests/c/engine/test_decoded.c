/* Loaders that share decoded photos: the same batches as without, and each photo decoded once. */
#include "engine/loader.h"
#include "engine/open.h"
#include "support.h"

#include "../codec/photo/photos.h"
#include "op/decoded.h"

#define DECODE "\"d\": {\"type\": \"Decode\"}"
#define FLIP "\"f\": {\"type\": \"RandomHorizontalFlip\"}"

static const char *const crops = "{\"operators\": {" DECODE ", " FLIP ", \"c\": {\"type\": \"RandomResizedCrop\", "
                                 "\"size\": [32, 32]}}, \"outputs\": {\"image\": {\"field\": \"image\", \"chain\": "
                                 "[\"d\", \"c\", \"f\"]}}}";
static const char *const views = "{\"operators\": {" DECODE ", \"c\": {\"type\": \"RandomResizedCrop\", \"name\": "
                                 "\"one\", \"size\": [32, 32]}, \"e\": {\"type\": \"RandomResizedCrop\", \"name\": "
                                 "\"other\", \"size\": [24, 24]}}, \"outputs\": {\"one\": {\"field\": \"image\", "
                                 "\"chain\": [\"d\", \"c\"]}, \"other\": {\"field\": \"image\", \"chain\": [\"d\", "
                                 "\"e\"]}, \"label\": {\"field\": \"label\", \"chain\": []}}}";
static const char *const boxes = "{\"operators\": {" DECODE ", " FLIP ", \"c\": {\"type\": \"RandomIoUCrop\"}, \"r\": "
                                 "{\"type\": \"Resize\", \"size\": [40, 40]}}, \"outputs\": {\"image\": {\"fields\": "
                                 "[\"image\", \"boxes\"], \"chain\": [\"d\", \"c\", \"f\", \"r\"]}}}";
static const char *const mosaic = "{\"operators\": {" DECODE ", \"m\": {\"type\": \"Mosaic\", \"size\": 48}}, "
                                  "\"outputs\": {\"image\": {\"fields\": [\"image\", \"boxes\"], \"chain\": [\"d\", "
                                  "\"m\"]}}}";

enum { PHOTOS = TEST_THREAD_SANITIZED ? 20 : 60 };

static uint8_t *make_jpeg(uint64_t i, uint64_t salt, size_t *length)
{
    static const struct photo_style styles[] = {{"4:2:0", JCS_RGB, JCS_YCbCr, {2, 1, 1}, {2, 1, 1}, 0, 0, 0, 0, 0},
                                                {"slow", JCS_RGB, JCS_YCbCr, {1, 1, 1}, {1, 1, 1}, 0, 1, 0, 0, 0}};
    const uint32_t w = 80 + (uint32_t)i, h = 120 - (uint32_t)i;
    uint8_t *pixels = photo_pixels(w, h, 3, leat_key_mix(salt, i));
    uint8_t *data = photo_encode(&styles[i % 2], pixels, w, h, 85, length);
    free(pixels);
    return data;
}

/* Photos with a box or two each, packed. */
static struct leat_dataset *packed(const char *name, uint64_t salt)
{
    const struct leat_field fields[] = {{.name = "image", .kind = LEAT_KIND_IMAGE, .dtype = LEAT_U8},
                                        {.name = "boxes",
                                         .kind = LEAT_KIND_ARRAY,
                                         .dtype = LEAT_F32,
                                         .ndim = 2,
                                         .shape = {-1, 4},
                                         .role = LEAT_ROLE_BOXES_XYXY},
                                        {.name = "label", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64}};
    struct leat_writer_options options = LEAT_WRITER_OPTIONS_INIT;
    struct leat_writer *writer;
    struct leat_error error;
    assert_ok(leat_writer_open(test_path(name), fields, 3, &options, &writer, &error));
    for (uint64_t i = 0; i < PHOTOS; i++) {
        const float at[] = {5, 6, 40, 50, 20, 10, 60, (float)(20 + i % 30)};
        const int64_t label = (int64_t)i;
        size_t length;
        uint8_t *photo = make_jpeg(i, salt, &length);
        const struct leat_value_ref values[] = {
            {photo, length, NULL}, {at, (1 + i % 2) * 4 * sizeof *at, NULL}, {&label, sizeof label, NULL}};
        assert_ok(leat_writer_add(writer, values, NULL, &error));
        free(photo);
    }
    assert_ok(leat_writer_finish(writer, &error));
    leat_writer_free(writer, false);
    return test_open(test_path(name));
}

/* The same photos as files, of which every ninth is cut off. */
static struct leat_dataset *folder(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s", test_path(name));
    if (mkdir(path, 0777))
        return test_open(path);
    for (uint64_t i = 0; i < PHOTOS; i++) {
        size_t length;
        uint8_t *photo = make_jpeg(i, 1, &length);
        snprintf(path, sizeof path, "%s/%03d.jpg", test_path(name), (int)i);
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        length -= i % 9 == 4 ? length / 3 : 0;
        assert_int_equal(fwrite(photo, 1, length, f), length);
        assert_int_equal(fclose(f), 0);
        free(photo);
    }
    return test_open(test_path(name));
}

static struct leat_loader_options options_of(const char *program)
{
    struct leat_loader_options options = test_options(8);
    options.program = program;
    options.budget_bytes = 32 << 20;
    return options;
}

/* Two loaders a batch at a time, for `epochs` epochs: what each delivers. */
static void go_along(struct leat_loader *loaders[2], int epochs, uint64_t hashes[2])
{
    hashes[0] = hashes[1] = 0;
    for (int e = 0; e < epochs; e++) {
        const uint64_t iterations[2] = {test_start(loaders[0]), test_start(loaders[1])};
        for (unsigned going = 3; going;)
            for (int i = 0; i < 2; i++) {
                struct leat_batch *b = going >> i & 1 ? test_next(loaders[i], iterations[i]) : NULL;
                if (b)
                    hashes[i] = leat_key_mix(hashes[i], test_hash_batch(b));
                going &= b ? going : ~(1u << i);
                leat_batch_free(b);
            }
    }
}

/* Batches of two programs over one data set, without a store and with it. */
static struct leat_decoded_counts compare(struct leat_dataset *(*open)(const char *), const char *name, const char *one,
                                          const char *other, uint64_t max_bytes, unsigned users)
{
    const char *const programs[2] = {one, other};
    struct leat_decoded_counts counts = {0};
    uint64_t expected[2], hashes[2];
    for (int shared = 0; shared < 2; shared++) {
        struct leat_dataset *dataset = open(name);
        struct leat_decoded *store = shared ? leat_decoded_new(max_bytes) : NULL;
        struct leat_loader *loaders[2];
        for (int i = 0; i < 2; i++) {
            struct leat_loader_options options = options_of(programs[i]);
            options.on_error = open == folder ? LEAT_ON_ERROR_SUBSTITUTE : LEAT_ON_ERROR_RAISE;
            loaders[i] = test_loader(dataset, &options);
            if (shared)
                leat_loader_share_decoded(loaders[i], store);
        }
        if (shared)
            leat_decoded_expect(store, users);
        go_along(loaders, 2, shared ? hashes : expected);
        for (int i = 0; i < 2; i++)
            leat_loader_close(loaders[i]);
        if (shared)
            leat_decoded_count(store, &counts);
        leat_decoded_release(store);
        leat_dataset_release(dataset);
    }
    assert_int_equal(hashes[0], expected[0]);
    assert_int_equal(hashes[1], expected[1]);
    return counts;
}

static struct leat_dataset *packed_once(const char *name)
{
    return access(test_path(name), F_OK) ? packed(name, 1) : test_open(test_path(name));
}

TEST(loaders_that_share_deliver_the_same_batches_as_without)
{
    struct leat_decoded_counts counts = compare(packed_once, "photos", crops, views, 64 << 20, 1000);
    assert_int_equal(counts.fills, PHOTOS);
    assert_true(counts.hits >= (2 * 3 - 1) * PHOTOS); /* more, where a further epoch was begun */
    counts = compare(packed_once, "photos", crops, views, 64 << 20, 3);
    assert_true(counts.fills >= 2 * PHOTOS - PHOTOS / 2 && counts.hits >= counts.fills);
    compare(packed_once, "photos", crops, views, 100 << 10, 2);
}

TEST(broken_photos_are_substituted_as_without)
{
    struct leat_decoded_counts counts = compare(folder, "broken", crops, crops, 64 << 20, 2);
    assert_true(counts.fills && counts.hits);
}

TEST(tuples_and_mosaics_are_the_same_as_without)
{
    struct leat_decoded_counts counts = compare(packed_once, "photos", crops, boxes, 64 << 20, 2);
    assert_true(counts.hits >= PHOTOS);
    counts = compare(packed_once, "photos", crops, mosaic, 64 << 20, 1000);
    assert_int_equal(counts.fills, PHOTOS);
    assert_true(counts.hits > 2 * PHOTOS);
}

/* Samples of the same number in two sources are others. */
TEST(sources_of_a_mixture_are_told_apart)
{
    struct leat_dataset *one = packed_once("photos"), *other = packed("others", 2);
    const struct leat_mix_source sources[] = {{.dataset = one, .share = 0.5}, {.dataset = other, .share = 0.5}};
    struct leat_mix_options mix = LEAT_MIX_OPTIONS_INIT;
    struct leat_decoded *store = leat_decoded_new(64 << 20);
    uint64_t expected[2], hashes[2];
    leat_decoded_expect(store, 1000);
    mix.sources = sources;
    mix.n_sources = 2;
    for (int shared = 0; shared < 2; shared++) {
        struct leat_loader *loaders[2];
        struct leat_error error;
        for (int i = 0; i < 2; i++) {
            const struct leat_loader_options options = options_of(i ? views : crops);
            assert_ok(leat_loader_open_mix(&mix, &options, &loaders[i], &error));
            if (shared)
                leat_loader_share_decoded(loaders[i], store);
        }
        go_along(loaders, 1, shared ? hashes : expected);
        for (int i = 0; i < 2; i++)
            leat_loader_close(loaders[i]);
    }
    assert_memory_equal(hashes, expected, sizeof hashes);
    struct leat_decoded_counts counts;
    leat_decoded_count(store, &counts);
    assert_in_range(counts.fills, PHOTOS + 1, 2 * PHOTOS);
    leat_decoded_release(store);
    leat_dataset_release(one);
    leat_dataset_release(other);
}

TEST(a_loader_that_runs_can_begin_to_share_and_says_so)
{
    struct leat_dataset *dataset = packed_once("photos");
    struct leat_loader_options options = options_of(views);
    struct leat_loader *loader = test_loader(dataset, &options), *plain = test_loader(dataset, &options);
    struct leat_decoded *store = leat_decoded_new(64 << 20), *other = leat_decoded_new(64 << 20);
    const uint64_t iteration = test_start(loader), plain_iteration = test_start(plain);
    struct leat_error error;
    char *stats;
    assert_ok(leat_loader_stats(loader, &stats, &error));
    assert_null(strstr(stats, "\"decoded\""));
    leat_free(stats);
    stats = NULL;
    for (struct leat_batch *b, *want; (b = test_next(loader, iteration)); leat_batch_free(b), leat_batch_free(want)) {
        want = test_next(plain, plain_iteration);
        assert_non_null(want);
        assert_int_equal(test_hash_batch(b), test_hash_batch(want));
        leat_loader_share_decoded(loader, store);
        leat_loader_share_decoded(loader, other); /* in vain */
    }
    test_hash_epochs(loader, 2); /* what was read ahead was not shared */
    struct leat_decoded_counts counts, after;
    char words[128];
    for (bool same = false; !same; same = !memcmp(&counts, &after, sizeof counts)) { /* it may read ahead meanwhile */
        leat_free(stats);
        leat_decoded_count(store, &counts);
        assert_ok(leat_loader_stats(loader, &stats, &error));
        leat_decoded_count(store, &after);
    }
    assert_true(counts.fills && counts.hits >= PHOTOS);
    snprintf(words, sizeof words, "\"decoded\":{\"hits\":%" PRIu64 ",\"fills\":%" PRIu64 ",\"bytes\":%" PRIu64 "}",
             counts.hits, counts.fills, counts.bytes);
    assert_non_null(strstr(stats, words));
    leat_free(stats);
    leat_decoded_count(other, &counts);
    assert_int_equal(counts.fills, 0);
    leat_decoded_release(store); /* the loader has it as long as it is open */
    leat_decoded_release(other);
    test_hash_epochs(loader, 1);
    leat_loader_close(loader);
    leat_loader_close(plain);
    leat_dataset_release(dataset);
}

TEST_MAIN_IN(NULL, test_clean)
