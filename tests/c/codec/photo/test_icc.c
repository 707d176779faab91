/* Transforms to sRGB: one table of them for all threads, which does not grow. */
#include "../../test.h"

#include <pthread.h>
#include <stdatomic.h>

#include "codec/photo/cicp.h"
#include "codec/photo/icc.h"

enum { PROFILES = 3 * LEAT_ICC_KEPT, THREADS = 4, ROUNDS = 60, PIXELS = 64 };

static uint8_t profiles[PROFILES][LEAT_CICP_BYTES], wanted[PROFILES][4 * PIXELS];
static atomic_int wrong;

/* Display P3, with another gamma each. */
static void make_profiles(void)
{
    for (int i = 0; i < PROFILES; i++) {
        assert_int_equal(leat_cicp_profile(12, 4, profiles[i]).n, LEAT_CICP_BYTES);
        profiles[i][296 + 12 + 2] = (uint8_t)(100 + i); /* the upper byte of the exponent's fraction */
    }
}

static struct leat_icc *open_profile(int i)
{
    struct leat_icc *icc = NULL;
    struct leat_error error;
    const struct leat_bytes profile = {profiles[i], LEAT_CICP_BYTES};
    return leat_icc_open("TEST", profile, false, &icc, &error) ? NULL : icc;
}

static void convert(const struct leat_icc *icc, uint8_t pixels[4 * PIXELS])
{
    uint8_t room[8 * PIXELS];
    for (int i = 0; i < 4 * PIXELS; i++)
        pixels[i] = (uint8_t)(i * 37 + i / 7);
    leat_icc_apply(icc, pixels, room, PIXELS);
}

static bool is_missing(void)
{
    struct leat_error error;
    if (!leat_icc_load(&error))
        return false;
    print_message("no Little CMS: %s\n", error.message);
    return true;
}

TEST(photos_of_one_profile_share_a_transform_and_the_process_keeps_a_few)
{
    if (is_missing())
        return;
    struct leat_icc *first = open_profile(0), *again = open_profile(0);
    assert_non_null(first);
    assert_ptr_equal(first, again);
    for (int i = 0; i < PROFILES; i++) {
        struct leat_icc *icc = open_profile(i);
        assert_non_null(icc);
        convert(icc, wanted[i]);
        leat_icc_close(icc);
        assert_true(leat_icc_kept() <= LEAT_ICC_KEPT);
    }
    assert_int_equal(leat_icc_kept(), LEAT_ICC_KEPT);
    uint8_t pixels[4 * PIXELS];
    convert(first, pixels); /* it was evicted, and is there for those that have it */
    assert_memory_equal(pixels, wanted[0], sizeof pixels);
    leat_icc_close(first);
    leat_icc_close(again);
}

static void *run(void *number)
{
    uint8_t pixels[4 * PIXELS];
    for (int i = 0; i < ROUNDS; i++) {
        const int of = (i * 7 + (int)(intptr_t)number * (i % 3)) % PROFILES;
        struct leat_icc *icc = open_profile(of);
        if (!icc) {
            atomic_store(&wrong, 1);
            break;
        }
        convert(icc, pixels);
        if (memcmp(pixels, wanted[of], sizeof pixels) != 0)
            atomic_store(&wrong, 1);
        leat_icc_close(icc);
    }
    return NULL;
}

TEST(threads_convert_at_once)
{
    pthread_t threads[THREADS];
    if (is_missing())
        return;
    for (intptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_false(atomic_load(&wrong));
    assert_true(leat_icc_kept() <= LEAT_ICC_KEPT);
}

int main(void)
{
    make_profiles();
    return test_run(NULL, NULL);
}
