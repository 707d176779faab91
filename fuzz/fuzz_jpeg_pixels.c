/*
 * Any bytes as a JPEG, with libjpeg-turbo alone as the oracle: whatever decoder leat chooses, for the photo as it came,
 * with its row index, and in the decode-fast form, gives libjpeg's pixels, or refuses as libjpeg does. So does a card,
 * of the blocks that leat reads for it. On x86-64: elsewhere libjpeg-turbo makes other pixels of coefficients that no
 * picture has.
 */
#include "fuzz_photo.h"

#include "../tests/c/device/photos.h"
#include "codec/photo/decode_libjpeg.h"
#include "format/source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static struct leat_decoder *decoder;
static struct leat_decoder *checker;
static uint8_t *expected, *pixels;

/* The box by libjpeg-turbo alone; the code of its first failure. */
static int oracle(const struct leat_decode_request *request, unsigned denominator, const uint32_t box[4])
{
    static struct leat_libjpeg libjpeg;
    struct leat_error error;
    uint32_t w, h;
    struct leat_decode_rows rows;
    int rc = leat_libjpeg_open(&libjpeg, request, &w, &h, &rows, &error);
    if (!rc)
        rc = leat_libjpeg_begin(&libjpeg, denominator, box[0], box[1], box[2], box[3], &error);
    for (uint32_t i = 0; !rc && i < box[3]; i++) {
        const uint8_t *row;
        rc = leat_libjpeg_row(&libjpeg, &row, &error);
        if (!rc)
            memcpy(expected + (size_t)i * box[2] * 4, row, box[2] * (rows.gray ? 1u : 4u));
    }
    if (!rc && request->scan_to_end)
        rc = leat_libjpeg_scan(&libjpeg, &error);
    leat_libjpeg_close(&libjpeg);
    return rc;
}

static void compare(const struct leat_decode_request *request, unsigned denominator, const uint32_t box[4], bool gray,
                    int verdict)
{
    int rc = fuzz_decode(decoder, request, denominator, box, pixels);
    /* libjpeg reads a little beyond the box, and may meet bytes there that the box does not need */
    FUZZ_ASSERT(rc == verdict || (!rc && !request->scan_to_end));
    if (verdict)
        return;
    const size_t pixel = gray ? 1 : 4;
    for (uint32_t i = 0; !rc && i < box[3]; i++)
        FUZZ_ASSERT(!memcmp(pixels + i * box[2] * pixel, expected + (size_t)i * box[2] * 4, box[2] * pixel));
}

/* The box by a card's kernels, if they get the blocks of it, or its coded bytes. Only a photo that was found whole has
 * a row index here, so its coded bytes become pixels without a fault. */
static void compare_on_card(const struct leat_decode_request *request, const uint32_t box[4], bool gray, int verdict,
                            bool coded)
{
    static struct leat_card_packer *packer;
    struct photo_batch batch = {.alone = true};
    struct leat_card_photo photo;
    struct leat_card_mcus mcus;
    struct leat_jpeg_source *source;
    const uint8_t *bytes;
    uint32_t w, h;
    if (!packer)
        packer = leat_card_packer_new();
    if (leat_image_open(decoder, request, &w, &h, NULL))
        return;
    struct leat_card_view view = {.source = {box[0], box[1]}};
    for (unsigned d = 0; d < 2; d++)
        view.source_size[d] = view.grid[d] = view.window_size[d] = box[2 + d] < 50 ? box[2 + d] : 50;
    const struct leat_jpeg_frame *frame = leat_decoder_blocks(decoder, NULL);
    const bool packed =
        frame && !leat_card_plan_box(frame, &view, &photo, &mcus, NULL) && leat_decoder_blocks(decoder, &source) &&
        (coded ? source->coded && !leat_card_pack_coded(packer, source->coded, &mcus, &photo, &bytes, NULL)
               : !leat_card_pack(packer, source, &mcus, &photo, &bytes, NULL));
    const int end = leat_decoder_end(decoder, NULL);
    if (!packed)
        return;
    FUZZ_ASSERT(!end && (!verdict || (!request->scan_to_end && !coded)));
    memcpy(photo_add(&batch, &photo), bytes, photo.bytes);
    photo_run(&batch);
    FUZZ_ASSERT(!batch.faults[0]);
    for (uint32_t y = 0; !verdict && y < view.grid[1]; y++)
        for (uint32_t x = 0; x < view.grid[0]; x++) {
            const uint8_t *const wanted = expected + 4 * (size_t)y * box[2] + (gray ? 1 : 4) * x;
            const uint8_t *const out = batch.out + 3 * ((size_t)y * view.grid[0] + x);
            FUZZ_ASSERT(gray ? out[0] == wanted[0] && out[2] == wanted[0] : !memcmp(out, wanted, 3));
        }
    photo_batch_destroy(&batch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct leat_error error;
    struct leat_value_info info;
    if (length < 3 || memcmp(data, "\xff\xd8\xff", 3))
        return 0;
    if (!decoder) {
        decoder = leat_decoder_new(&leat_codec_photo);
        checker = leat_decoder_new(&leat_codec_photo);
        expected = malloc(4 * FUZZ_MAX_PIXELS);
        pixels = malloc(4 * FUZZ_MAX_PIXELS);
    }
    struct leat_image_wish wish = {0};
    struct leat_decode_request request = {.data = data, .length = length, .wish = &wish};
    uint32_t w, h;
    if (leat_codec_photo.probe(data, length, &info, &error) || (uint64_t)info.size[0] * info.size[1] > FUZZ_MAX_PIXELS)
        return 0;
    if (leat_image_open(decoder, &request, &w, &h, &error))
        return 0;
    const uint64_t draw = leat_hash64(data, length);
    const unsigned denominator = leat_decoder_scaled_size(decoder, 1u << (draw & 3), &w, &h);
    leat_decoder_end(decoder, &error);
    wish.gray = info.channels == 1;
    request.scan_to_end = draw & 4;
    const uint32_t x = (uint32_t)(draw >> 8) % w, y = (uint32_t)(draw >> 16) % h;
    const uint32_t box[4] = {x, y, 1 + (uint32_t)(draw >> 32) % (w - x), 1 + (uint32_t)(draw >> 48) % (h - y)};
    const int verdict = oracle(&request, denominator, box);
    compare(&request, denominator, box, wish.gray, verdict);
    if (denominator == 1)
        for (unsigned coded = 0; coded < 2; coded++)
            compare_on_card(&request, box, wish.gray, verdict, coded);

    request.scan_to_end = false;
    const bool whole = leat_decoder_check(checker, data, length, false, &error) == LEAT_OK;
    if (whole) {
        FUZZ_ASSERT(oracle(&request, denominator, box) == LEAT_OK);
        request.rows = leat_decoder_rows(checker, &request.rows_length);
        if (request.rows)
            compare(&request, denominator, box, wish.gray, LEAT_OK);
        if (denominator == 1)
            for (unsigned coded = 0; coded < 2; coded++)
                compare_on_card(&request, box, wish.gray, LEAT_OK, coded);
    }
    uint8_t *fast;
    size_t fast_length;
    int rc = leat_codec_photo.pack(checker, LEAT_PHOTOS_FAST, false, data, length, &fast, &fast_length, &error);
    FUZZ_ASSERT(whole ? rc == LEAT_OK || rc == LEAT_E_UNSUPPORTED : rc != LEAT_OK);
    if (!rc) {
        const struct leat_decode_request of_fast = {
            .data = fast, .length = fast_length, .form = LEAT_FORM_FAST, .wish = &wish};
        compare(&of_fast, denominator, box, wish.gray, LEAT_OK);
    }
    leat_free(fast);
    return 0;
}
