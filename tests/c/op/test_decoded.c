/* Photos that are decoded once for several users: the same pixels and errors as without, how often they are decoded,
 * and what memory that takes. */
#include "../allocations.h"
#include "program_helpers.h"

#include <pthread.h>
#include <spng.h>
#include <webp/encode.h>

#include "../codec/photo/photos.h"
#include "base/alloc.h"
#include "op/decoded.h"

#define ROOMY (UINT64_C(1) << 28)

static const char *const whole = "{\"type\": \"Decode\"}, {\"type\": \"Resize\", \"size\": [30, 40]}";
static const char *const crop = "{\"type\": \"Decode\"}, {\"type\": \"RandomResizedCrop\", \"size\": [32, 32]}, "
                                "{\"type\": \"RandomHorizontalFlip\"}";

/* ---- photos ---- */

struct bytes {
    uint8_t *data;
    size_t length;
};

static const struct photo_style baseline = {"4:2:0", JCS_RGB, JCS_YCbCr, {2, 1, 1}, {2, 1, 1}, 0, 0, 0, 0, 0},
                                progressive = {"progressive", JCS_RGB, JCS_YCbCr, {2, 1, 1}, {2, 1, 1}, 0, 1, 0, 0, 0},
                                inks = {"CMYK", JCS_CMYK, JCS_CMYK, {1, 1, 1, 1}, {1, 1, 1, 1}, 0, 0, 0, 0, 0},
                                gray = {"gray", JCS_GRAYSCALE, JCS_GRAYSCALE, {1}, {1}, 0, 0, 0, 0, 0};

static struct bytes jpeg_of(const struct photo_style *style, uint32_t w, uint32_t h, uint64_t seed)
{
    const unsigned channels = style->in == JCS_CMYK ? 4 : style->in == JCS_GRAYSCALE ? 1 : 3;
    struct bytes photo;
    uint8_t *pixels = photo_pixels(w, h, channels, seed);
    photo.data = photo_encode(style, pixels, w, h, 85, &photo.length);
    free(pixels);
    return photo;
}

static struct bytes turned_of(struct bytes photo, unsigned orientation)
{
    struct bytes turned;
    turned.data = with_orientation(photo.data, photo.length, orientation, false, &turned.length);
    free(photo.data);
    return turned;
}

/* With `depth` 8 or 16, of `channels` 1, 3 or 4. */
static struct bytes png_of(uint32_t w, uint32_t h, unsigned channels, uint8_t depth, uint64_t seed)
{
    struct bytes photo;
    uint8_t *pixels = photo_pixels(w * depth / 8, h, channels, seed);
    spng_ctx *spng = spng_ctx_new(SPNG_CTX_ENCODER);
    const uint8_t types[] = {0, 0, 0, 2, 6};
    struct spng_ihdr header = {.width = w, .height = h, .bit_depth = depth, .color_type = types[channels]};
    int code;
    assert_int_equal(spng_set_option(spng, SPNG_ENCODE_TO_BUFFER, 1), 0);
    assert_int_equal(spng_set_ihdr(spng, &header), 0);
    assert_int_equal(
        spng_encode_image(spng, pixels, (size_t)w * h * channels * depth / 8, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE), 0);
    photo.data = spng_get_png_buffer(spng, &photo.length, &code);
    assert_non_null(photo.data);
    spng_ctx_free(spng);
    free(pixels);
    return photo;
}

static struct bytes webp_of(uint32_t w, uint32_t h, uint64_t seed)
{
    uint8_t *pixels = photo_pixels(w, h, 3, seed), *data = NULL;
    struct bytes photo = {.length = WebPEncodeLosslessRGB(pixels, (int)w, (int)h, (int)w * 3, &data)};
    photo.data = malloc(photo.length);
    memcpy(photo.data, data, photo.length);
    WebPFree(data);
    free(pixels);
    return photo;
}

static const int source; /* whose samples they are */

static struct leat_row row_of(struct bytes photo, uint64_t sample, uint64_t key)
{
    return (struct leat_row){
        .data = photo.data, .length = photo.length, .key = key, .value = {.source = &source, .sample = sample}};
}

/* ---- users ---- */

struct user {
    struct leat_program *program;
    struct leat_scratch *scratch;
    uint8_t *out;
    size_t bytes;
};

static struct user user_of(const char *chain, struct leat_decoded *store)
{
    struct leat_field field = field_of("x", LEAT_KIND_IMAGE, LEAT_U8, LEAT_LAYOUT_NONE, 0, NULL);
    struct user user = {.program = must_compile(&field, chain)};
    user.bytes = leat_program_output(user.program, 0)->row_bytes;
    user.scratch = leat_scratch_new(user.program);
    user.out = malloc(user.bytes);
    assert_true(user.scratch && user.out);
    leat_scratch_share(user.scratch, store);
    return user;
}

static void end_user(struct user *user)
{
    leat_scratch_free(user->scratch);
    leat_program_free(user->program);
    free(user->out);
}

static int make(struct user *user, const struct leat_row *row, struct leat_error *error)
{
    memset(user->out, 0x5a, user->bytes);
    *error = (struct leat_error){0};
    return leat_program_apply(user->program, 0, user->scratch, row, 1, user->out, error) == 1 ? LEAT_OK : error->code;
}

static void must_make(struct user *user, const struct leat_row *row)
{
    struct leat_error error;
    if (make(user, row, &error))
        fail_msg("%s", error.message);
}

/* All that one row has come to: a user of the store must have it as one without. */
static void check_same(const char *name, struct user *plain, struct user *user, const struct leat_row *row)
{
    struct leat_error expected, error;
    const int want = make(plain, row, &expected), got = make(user, row, &error);
    const char *const *names;
    if (got != want || (got && (strcmp(error.message, expected.message) != 0 || error.offset != expected.offset)))
        fail_msg("%s: \"%s\" with a store, \"%s\" without", name, error.message, expected.message);
    if (!want && memcmp(plain->out, user->out, user->bytes) != 0)
        fail_msg("%s: other pixels", name);
    assert_int_equal(leat_scratch_warnings(user->scratch, &names), leat_scratch_warnings(plain->scratch, &names));
    const enum leat_health health = leat_scratch_health(user->scratch), is = leat_scratch_health(plain->scratch);
    if (health != is && (health != LEAT_HEALTH_UNCHECKED || is != LEAT_HEALTH_GOOD))
        fail_msg("%s: health %d with a store, %d without", name, health, is);
}

static struct leat_decoded_counts counts_of(struct leat_decoded *store)
{
    struct leat_decoded_counts counts;
    leat_decoded_count(store, &counts);
    return counts;
}

/* Two users of a photo, each twice, against users without a store. */
static struct leat_decoded_counts compare(const char *name, struct bytes photo, const char *one, const char *other)
{
    struct leat_decoded *store = leat_decoded_new(ROOMY);
    struct user users[2] = {user_of(one, store), user_of(other, store)},
                plain[2] = {user_of(one, NULL), user_of(other, NULL)};
    for (uint64_t sample = 0; sample < 2; sample++) /* scanned to its end by its first users, then not */
        for (uint64_t key = 0; key < 4; key++) {
            struct leat_row row = row_of(photo, sample, leat_key_mix(3, key));
            row.scan_to_end = !sample;
            check_same(name, &plain[key % 2], &users[key % 2], &row);
        }
    struct leat_decoded_counts counts = counts_of(store);
    for (int i = 0; i < 2; i++) {
        end_user(&users[i]);
        end_user(&plain[i]);
    }
    leat_decoded_release(store);
    return counts;
}

/* ---- the same as without a store ---- */

TEST(photos_of_every_kind_have_the_same_pixels)
{
    struct {
        const char *name;
        struct bytes photo;
    } photos[] = {{"baseline", jpeg_of(&baseline, 211, 157, 1)},
                  {"progressive", jpeg_of(&progressive, 120, 90, 2)},
                  {"CMYK", jpeg_of(&inks, 97, 61, 3)},
                  {"gray", jpeg_of(&gray, 97, 61, 4)},
                  {"mirrored", turned_of(jpeg_of(&baseline, 130, 77, 5), 2)},
                  {"turned", turned_of(jpeg_of(&baseline, 130, 77, 6), 6)},
                  {"upside down", turned_of(jpeg_of(&progressive, 130, 77, 7), 3)},
                  {"PNG", png_of(83, 59, 3, 8, 8)},
                  {"PNG with opacity", png_of(83, 59, 4, 8, 9)},
                  {"PNG of 16 bits", png_of(83, 59, 3, 16, 10)},
                  {"gray PNG of 16 bits", png_of(83, 59, 1, 16, 11)},
                  {"WebP", webp_of(83, 59, 12)},
                  {"one pixel", png_of(1, 1, 3, 8, 13)}};
    const char *const decodes[] = {"\"mode\": \"RGB\"",
                                   "\"mode\": \"GRAY\"",
                                   "\"mode\": \"RGB\", \"exif\": true",
                                   "\"mode\": \"RGBA\"",
                                   "\"alpha\": \"blend\", \"background\": [9, 99, 199]",
                                   "\"mode\": \"RGB\", \"icc\": \"srgb\"",
                                   "\"mode\": \"RGB\", \"dtype\": \"uint16\"",
                                   "\"mode\": \"GRAY\", \"dtype\": \"uint16\""};
    for (size_t p = 0; p < sizeof photos / sizeof *photos; p++) {
        for (size_t i = 0; i < sizeof decodes / sizeof *decodes; i++) {
            char one[400], other[400];
            snprintf(one, sizeof one, "{\"type\": \"Decode\", %s}, {\"type\": \"CenterCrop\", \"size\": [20, 24]}",
                     decodes[i]);
            snprintf(other, sizeof other,
                     "{\"type\": \"Decode\", %s}, {\"type\": \"RandomCrop\", \"size\": [40, 40], "
                     "\"pad_if_needed\": true}",
                     decodes[i]);
            struct leat_decoded_counts counts = compare(photos[p].name, photos[p].photo, one, other);
            assert_int_equal(counts.fills, 2);
            assert_int_equal(counts.hits, 6);
        }
        struct leat_decoded_counts counts = compare(photos[p].name, photos[p].photo, whole, crop);
        assert_true(counts.fills == 2 && counts.hits == 6);
        free(photos[p].photo.data);
    }
}

TEST(broken_photos_have_the_same_errors)
{
    const struct photo_style *const styles[] = {&baseline, &progressive};
    for (size_t s = 0; s < 2; s++) {
        struct bytes photo = jpeg_of(styles[s], 300, 200, 20 + s);
        for (size_t cut = 1; cut < 12; cut++) {
            const struct bytes part = {photo.data, photo.length * cut / 12};
            const char *const top = "{\"type\": \"Decode\"}, {\"type\": \"RandomCrop\", \"size\": [16, 16]}";
            assert_int_equal(compare("truncated", part, top, whole).fills, 0);
            struct bytes damaged = {malloc(photo.length), photo.length};
            memcpy(damaged.data, photo.data, photo.length);
            memset(damaged.data + photo.length * cut / 12, 0xff, 40);
            compare("damaged", damaged, top, crop);
            free(damaged.data);
        }
        const char *const wide = "{\"type\": \"Decode\"}, {\"type\": \"RandomCrop\", \"size\": [201, 32]}";
        compare("too small for the operator", photo, wide, crop);
        free(photo.data);
    }
    struct bytes none = {(uint8_t[]){1, 2, 3, 4}, 4};
    assert_int_equal(compare("no photo", none, whole, crop).fills, 0);
}

static const char *const also_lenient = "{\"type\": \"Decode\", \"strict\": false}, "
                                        "{\"type\": \"Resize\", \"size\": [30, 40]}";

TEST(what_more_than_pixels_comes_of_is_decoded_by_each_user)
{
    struct bytes photo = jpeg_of(&baseline, 300, 200, 30);
    const char *const scaled = "{\"type\": \"Decode\", \"dct_scaling\": true}, "
                               "{\"type\": \"Resize\", \"size\": [30, 40]}";
    struct leat_decoded_counts counts = compare("whole", photo, also_lenient, scaled);
    assert_true(!counts.fills && !counts.hits);
    photo.length -= photo.length / 3;
    counts = compare("truncated", photo, also_lenient, whole);
    assert_true(!counts.fills && !counts.hits);
    free(photo.data);
}

static unsigned compare_file(const char *path, const uint8_t *data, size_t length)
{
    const char *const turned = "{\"type\": \"Decode\", \"exif\": true}, {\"type\": \"RandomResizedCrop\", "
                               "\"size\": [24, 24]}";
    const struct bytes photo = {(uint8_t *)(uintptr_t)data, length};
    if (!test_takes(path, 4))
        return 0;
    compare(path, photo, whole, turned);
    return 1;
}

TEST(odd_photos_have_the_same_pixels_and_errors)
{
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/odd-images", test_data());
    assert_true(for_each_file(folder, compare_file) > 10);
}

/* ---- how often photos are decoded ---- */

TEST(ways_to_decode_and_values_are_told_apart)
{
    struct bytes photo = png_of(50, 40, 4, 8, 40), other = png_of(50, 40, 4, 8, 41);
    struct leat_decoded *store = leat_decoded_new(ROOMY);
    const char *const decodes[] = {"\"mode\": \"RGB\"",
                                   "\"mode\": \"GRAY\"",
                                   "\"mode\": \"RGBA\"",
                                   "\"alpha\": \"blend\"",
                                   "\"alpha\": \"blend\", \"background\": [1, 2, 3]",
                                   "\"dtype\": \"uint16\"",
                                   "\"exif\": true",
                                   "\"icc\": \"srgb\""};
    enum { WAYS = sizeof decodes / sizeof *decodes };
    for (size_t i = 0; i < WAYS; i++) {
        char chain[300];
        snprintf(chain, sizeof chain, "{\"type\": \"Decode\", %s}, {\"type\": \"CenterCrop\", \"size\": 30}",
                 decodes[i]);
        struct user user = user_of(chain, store), plain = user_of(chain, NULL);
        struct leat_row rows[4] = {row_of(photo, 1, 5), row_of(other, 2, 5), row_of(other, 1, 5), row_of(photo, 1, 5)};
        rows[2].value.field = 1;
        rows[3].value.source = &plain;
        for (size_t k = 0; k < 4; k++)
            check_same(decodes[i], &plain, &user, &rows[k]);
        assert_int_equal(counts_of(store).fills, 4 * (i + 1));
        end_user(&user);
        end_user(&plain);
    }
    assert_int_equal(counts_of(store).hits, 0);
    leat_decoded_release(store);
    free(photo.data);
    free(other.data);
}

TEST(a_value_that_nothing_identifies_is_not_shared)
{
    struct bytes photo = png_of(50, 40, 3, 8, 42);
    struct leat_decoded *store = leat_decoded_new(ROOMY);
    struct user user = user_of(whole, store);
    struct leat_row row = {.data = photo.data, .length = photo.length};
    must_make(&user, &row);
    must_make(&user, &row);
    struct leat_decoded_counts counts = counts_of(store);
    assert_true(!counts.fills && !counts.hits && !counts.bytes);
    end_user(&user);
    leat_decoded_release(store);
    free(photo.data);
}

TEST(a_photo_goes_when_all_its_users_have_had_it)
{
    struct bytes photo = png_of(50, 40, 3, 8, 43);
    struct leat_decoded *store = leat_decoded_new(ROOMY);
    struct user user = user_of(whole, store);
    struct leat_row row = row_of(photo, 1, 5);
    leat_decoded_expect(store, 3);
    for (unsigned i = 1; i <= 7; i++) {
        must_make(&user, &row);
        assert_int_equal(counts_of(store).fills, (i + 2) / 3);
    }
    leat_decoded_expect(store, 1);
    for (uint64_t sample = 2; sample < 10; sample++) {
        row.value.sample = sample;
        must_make(&user, &row);
    }
    assert_int_equal(counts_of(store).fills, 3);
    end_user(&user);
    leat_decoded_release(store);
    free(photo.data);
}

TEST(the_first_user_alone_says_what_decoding_has_found)
{
    struct bytes photo = jpeg_of(&baseline, 300, 200, 44);
    struct leat_decoded *store = leat_decoded_new(ROOMY);
    struct user users[2] = {user_of(whole, store), user_of(crop, store)};
    struct leat_row row = row_of(photo, 1, 5);
    size_t length;
    row.scan_to_end = true;
    must_make(&users[0], &row);
    assert_int_equal(leat_scratch_health(users[0].scratch), LEAT_HEALTH_GOOD);
    assert_non_null(leat_scratch_rows(users[0].scratch, &length));
    must_make(&users[1], &row);
    assert_int_equal(leat_scratch_health(users[1].scratch), LEAT_HEALTH_UNCHECKED);
    assert_null(leat_scratch_rows(users[1].scratch, &length));
    assert_int_equal(counts_of(store).hits, 1);
    /* one that was not scanned does not serve who wants to know whether it is whole */
    row.value.sample = 2;
    row.scan_to_end = false;
    must_make(&users[0], &row);
    row.scan_to_end = true;
    must_make(&users[1], &row);
    assert_int_equal(leat_scratch_health(users[1].scratch), LEAT_HEALTH_GOOD);
    assert_int_equal(counts_of(store).hits, 1);
    end_user(&users[0]);
    end_user(&users[1]);
    leat_decoded_release(store);
    free(photo.data);
}

TEST(few_photos_are_stored_while_users_come_too_late)
{
    enum { PHOTOS = 4000 };
    struct bytes photo = png_of(20, 20, 3, 8, 45);
    struct leat_decoded *store = leat_decoded_new(64 << 10); /* some 30 of them */
    struct user user = user_of(whole, store);
    for (uint64_t i = 0; i < PHOTOS; i++) {
        struct leat_row row = row_of(photo, i, 5);
        must_make(&user, &row);
    }
    struct leat_decoded_counts before = counts_of(store);
    assert_int_equal(before.hits, 0);
    assert_in_range(before.fills, 256, 800);
    for (uint64_t i = PHOTOS; i < 2 * PHOTOS; i++) { /* now there are two, side by side */
        struct leat_row row = row_of(photo, i, 5);
        must_make(&user, &row);
        must_make(&user, &row);
    }
    struct leat_decoded_counts after = counts_of(store);
    assert_int_equal(after.hits, after.fills - before.fills);
    assert_in_range(after.hits, PHOTOS / 2, PHOTOS);
    end_user(&user);
    leat_decoded_release(store);
    free(photo.data);
}

TEST(photos_are_stored_if_their_users_need_more_than_a_whole_together)
{
    enum { MANY = 1000 };
    const char *const small = "{\"type\": \"Decode\"}, {\"type\": \"RandomCrop\", \"size\": [10, 10]}";
    struct bytes photo = png_of(20, 20, 3, 8, 46);
    const struct {
        const char *chain;
        unsigned users;
        bool stored;
    } cases[] = {{small, 2, false}, {small, 4, true}, {small, 0, false}, {whole, 2, true}, {whole, 0, true}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct leat_decoded *store = leat_decoded_new(ROOMY);
        struct user user = user_of(cases[c].chain, store);
        leat_decoded_expect(store, cases[c].users);
        for (uint64_t i = 0; i < MANY; i++) {
            struct leat_row row = row_of(photo, i, i);
            for (unsigned k = 0; k < (cases[c].users ? cases[c].users : 2); k++)
                must_make(&user, &row);
        }
        struct leat_decoded_counts counts = counts_of(store);
        if (cases[c].stored)
            assert_int_equal(counts.fills, MANY);
        else
            assert_in_range(counts.fills, 1, MANY / 10); /* before it is known what they need */
        end_user(&user);
        leat_decoded_release(store);
    }
    free(photo.data);
}

/* ---- memory ---- */

TEST(bytes_stay_below_the_limit)
{
    struct bytes photos[3] = {png_of(100, 80, 3, 8, 50), png_of(300, 200, 3, 8, 51), png_of(420, 380, 3, 8, 52)};
    const uint64_t limits[] = {0, 1000, 33 << 10, 240 << 10, 300 << 10, 1 << 20, 32 << 20};
    for (size_t l = 0; l < sizeof limits / sizeof *limits; l++) {
        struct leat_decoded *store = leat_decoded_new(limits[l]);
        struct user user = user_of(crop, store), plain = user_of(crop, NULL);
        for (uint64_t i = 0; i < 30; i++) {
            struct leat_row row = row_of(photos[i % 3], i % 15, i);
            check_same("photo", &plain, &user, &row);
            assert_true(counts_of(store).bytes <= limits[l]);
        }
        assert_true(limits[l] >= 33 << 10 ? counts_of(store).fills > 0 : !counts_of(store).fills);
        assert_true(limits[l] < 32 << 20 || counts_of(store).hits > 0);
        end_user(&user);
        end_user(&plain);
        leat_decoded_release(store);
    }
    for (size_t i = 0; i < 3; i++)
        free(photos[i].data);
}

TEST(a_photo_in_use_is_kept_and_the_oldest_goes_first)
{
    const uint64_t keys[4][LEAT_DECODED_KEY] = {{1}, {2}, {3}, {4}};
    struct leat_decoded *store = leat_decoded_new(25000);
    struct leat_decoded_photo *photos[4];
    for (size_t i = 0; i < 2; i++) {
        photos[i] = leat_decoded_claim(store, keys[i], false, 0, 10000);
        assert_non_null(photos[i]);
        assert_false(photos[i]->ready);
        leat_decoded_fill(store, photos[i]);
    }
    assert_null(leat_decoded_claim(store, keys[2], false, 0, 10000)); /* both are in use */
    assert_null(leat_decoded_claim(store, keys[2], false, 0, 30000)); /* too large at all */
    leat_decoded_leave(store, photos[0], 0);
    leat_decoded_leave(store, photos[1], 0);
    photos[0] = leat_decoded_find(store, keys[0], false); /* the other one is the oldest now */
    leat_decoded_leave(store, photos[0], 0);
    photos[2] = leat_decoded_claim(store, keys[2], false, 0, 10000);
    assert_non_null(photos[2]);
    leat_decoded_fill(store, photos[2]);
    leat_decoded_leave(store, photos[2], 0);
    assert_null(leat_decoded_find(store, keys[1], false));
    photos[0] = leat_decoded_find(store, keys[0], false);
    assert_non_null(photos[0]);
    leat_decoded_leave(store, photos[0], 0);
    leat_decoded_release(store);
}

TEST(without_memory_for_the_store_photos_are_decoded_as_without_one)
{
    struct bytes photo = png_of(100, 80, 3, 8, 53);
    struct user plain = user_of(whole, NULL);
    for (int64_t n = 0; n < 3; n++) {
        struct leat_decoded *store = leat_decoded_new(ROOMY);
        struct user user = user_of(whole, store);
        struct leat_row row = row_of(photo, 9, 0);
        must_make(&plain, &row);
        must_make(&user, &row); /* decoders have what they need */
        row.value.sample = 10;
        struct leat_error error;
        fail_allocation(n);
        const int rc = make(&user, &row, &error);
        allocation_failed();
        if (!rc)
            assert_memory_equal(user.out, plain.out, plain.bytes);
        else
            assert_int_equal(rc, LEAT_E_NOMEM);
        must_make(&user, &row);
        assert_memory_equal(user.out, plain.out, plain.bytes);
        end_user(&user);
        leat_decoded_release(store);
    }
    end_user(&plain);
    free(photo.data);
}

/* ---- threads ---- */

enum { THREADS = 4, PHOTOS = TEST_THREAD_SANITIZED ? 20 : 40, TURNS = 3 };

struct crowd {
    struct leat_decoded *store;
    struct bytes photos[PHOTOS];
    uint64_t expected[PHOTOS][TURNS];
    pthread_barrier_t begin;
    struct user users[THREADS];
    unsigned turn, wrong;
};

static uint64_t make_one(const struct crowd *crowd, struct user *user, uint64_t photo, uint64_t turn)
{
    struct leat_row row = row_of(crowd->photos[photo], photo, leat_key_mix(photo, turn));
    struct leat_error error;
    return make(user, &row, &error) ? leat_hash64(error.message, strlen(error.message))
                                    : leat_hash64(user->out, user->bytes);
}

static void *be_a_user(void *context)
{
    struct crowd *crowd = context;
    struct user *user = &crowd->users[__atomic_fetch_add(&crowd->turn, 1, __ATOMIC_RELAXED)];
    unsigned wrong = 0;
    pthread_barrier_wait(&crowd->begin);
    for (uint64_t turn = 0; turn < TURNS; turn++)
        for (uint64_t p = 0; p < PHOTOS; p++)
            wrong += make_one(crowd, user, p, turn) != crowd->expected[p][turn];
    __atomic_fetch_add(&crowd->wrong, wrong, __ATOMIC_RELAXED);
    return NULL;
}

/* Some of them are broken. */
static struct leat_decoded_counts run_crowd(uint64_t max_bytes, unsigned expected)
{
    struct crowd crowd = {.store = leat_decoded_new(max_bytes)};
    struct user plain = user_of(crop, NULL);
    pthread_t threads[THREADS];
    leat_decoded_expect(crowd.store, expected);
    for (uint64_t p = 0; p < PHOTOS; p++) {
        crowd.photos[p] = jpeg_of(p % 2 ? &baseline : &progressive, 90 + (uint32_t)p, 70, p);
        crowd.photos[p].length -= p % 10 == 7 ? crowd.photos[p].length / 2 : 0;
        for (uint64_t turn = 0; turn < TURNS; turn++)
            crowd.expected[p][turn] = make_one(&crowd, &plain, p, turn);
    }
    assert_int_equal(pthread_barrier_init(&crowd.begin, NULL, THREADS), 0);
    for (size_t i = 0; i < THREADS; i++)
        crowd.users[i] = user_of(crop, crowd.store);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, be_a_user, &crowd), 0);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (size_t i = 0; i < THREADS; i++)
        end_user(&crowd.users[i]);
    pthread_barrier_destroy(&crowd.begin);
    assert_int_equal(crowd.wrong, 0);
    struct leat_decoded_counts counts = counts_of(crowd.store);
    leat_decoded_release(crowd.store);
    for (size_t p = 0; p < PHOTOS; p++)
        free(crowd.photos[p].data);
    end_user(&plain);
    return counts;
}

TEST(many_threads_decode_each_photo_once)
{
    const unsigned good = PHOTOS - PHOTOS / 10;
    struct leat_decoded_counts counts = run_crowd(ROOMY, 1000);
    assert_int_equal(counts.fills, good);
    assert_int_equal(counts.hits, good * (THREADS * TURNS - 1));
    counts = run_crowd(ROOMY, THREADS * TURNS);
    assert_int_equal(counts.fills, good);
    assert_true(counts.bytes < 16 * 4 * 130 * 70); /* photos are gone, some memory is kept for the next ones */
}

TEST(many_threads_have_the_same_pixels_where_photos_come_and_go)
{
    run_crowd(100 << 10, 0); /* three of them */
    run_crowd(200 << 10, 2);
    run_crowd(ROOMY, THREADS);
}

TEST_MAIN()
