/* Photos that a card decodes, whose part standin.c takes: the kernels are launched in their order. */
#include <dlfcn.h>

#include "../codec/jpeg/jpegs.h"
#include "photos.h"
#include "standin.h"

#include "codec/jpeg/fast.h"
#include "device/photos.h"

static struct leat_error error;
static struct standin *standin, usual;
static struct photo_batch batch;

static struct photo pack(struct photo photo)
{
    struct leat_jpeg_packer *packer = leat_jpeg_packer_new();
    const uint8_t *out;
    struct photo packed;
    assert_ok(leat_jpeg_pack(packer, photo.data, photo.length, 1, 1, &out, &packed.length, &error));
    packed.data = memcpy(malloc(packed.length), out, packed.length);
    leat_jpeg_packer_free(packer);
    free(photo.data);
    return packed;
}

static int set_up(void **state)
{
    void *handle = dlopen(getenv("LEAT_LIBCUDA"), RTLD_NOW);
    struct standin *(*get)(void);
    void *found = handle ? dlsym(handle, "standin_state") : NULL;
    memcpy(&get, &found, sizeof get);
    if (!found)
        return -1;
    standin = get();
    usual = *standin;
    /* several photos, one of which is broken */
    for (unsigned i = 0; i < 5; i++) {
        const uint32_t w = 40 + 9 * i, h = 70 - 7 * i;
        struct photo photo = pack(make_photo(&kinds[i], BASELINE, w, h, 85, 0));
        const struct leat_card_view view = {.source_size = {w, h}, .grid = {20, 24}, .window_size = {20, 24}};
        struct leat_card_photo card;
        struct leat_card_source source;
        assert_ok(leat_card_plan(photo.data, photo.length, &view, &card, &source, &error));
        uint8_t *bytes = photo_add(&batch, &card);
        leat_card_write(&card, &source, bytes);
        if (i == 3)
            memset(bytes + 4 * card.n_rows, 0xff, 20);
        free(photo.data);
    }
    photo_run(&batch);
    return 0;
}
static int tear_down(void **state)
{
    photo_batch_destroy(&batch);
    return 0;
}

/* Launches for the batch; *out and *faults are ended with free. */
static int launch(struct leat_card *card, uint8_t **out, uint32_t **faults)
{
    const uint64_t scratch = leat_card_place(batch.photos, batch.n, batch.places);
    struct leat_photo_args args = {.photos = batch.photos,
                                   .data = batch.data,
                                   .scratch = malloc(scratch),
                                   .out = *out = calloc(batch.n, 20 * 24 * 3),
                                   .faults = *faults = calloc(batch.n, sizeof **faults),
                                   .n = (unsigned)batch.n};
    assert_ok(leat_card_enter(card, &error));
    const int rc = leat_photos_launch(card, NULL, &args, NULL, &error);
    assert_int_equal(card->cuda->cuStreamSynchronize(NULL), 0);
    leat_card_leave(card);
    free(args.scratch);
    return rc;
}

TEST(a_batch_goes_through_all_kernels_and_says_which_photo_is_broken)
{
    struct leat_card *card;
    uint8_t *out;
    uint32_t *faults;
    assert_ok(leat_card_open(0, &card, &error));
    standin->later = true;
    assert_ok(launch(card, &out, &faults));
    standin->later = usual.later;
    assert_int_equal(standin->launched - usual.launched, LEAT_KERNELS_PHOTO);
    assert_memory_equal(out, batch.out, batch.n * 20 * 24 * 3);
    for (size_t i = 0; i < batch.n; i++)
        assert_int_equal(faults[i] != 0, i == 3);
    free(out);
    free(faults);
}

TEST(after_an_error_of_the_compiler_nothing_runs_and_one_of_a_launch_is_said)
{
    struct leat_card *card;
    uint8_t *out;
    uint32_t *faults;
    assert_ok(leat_card_open(1, &card, &error));
    const int launched = standin->launched;
    standin->fails = "nvrtcCompileProgram";
    standin->code = 6;
    assert_int_equal(launch(card, &out, &faults), LEAT_E_INVALID);
    assert_int_equal(standin->launched, launched);
    free(out);
    free(faults);
    standin->fails = "cuLaunchKernel";
    standin->code = 719;
    assert_int_not_equal(launch(card, &out, &faults), LEAT_OK);
    assert_non_null(strstr(error.message, "does not decode photos"));
    free(out);
    free(faults);
    standin->fails = NULL;
    struct leat_photo_args args = {.n = LEAT_CARD_BLOCKS + 1};
    assert_int_equal(leat_photos_launch(card, NULL, &args, NULL, &error), LEAT_E_INVALID);
    args.n = 0;
    assert_ok(leat_photos_launch(card, NULL, &args, NULL, &error));
}

TEST_MAIN_IN(set_up, tear_down)
