/* The entropy decoder: what it reads is what libjpeg reads, wherever it begins; what it cannot read it refuses. */
#include "oracle.h"

#include "base/hash.h"
#include "codec/jpeg/huffman.h"
#include "codec/jpeg/huffman_stream.h"
#include "codec/jpeg/idct.h"

static struct leat_jpeg_huffman *huffman;

/* A photo whose header was read, and libjpeg's coefficients. */
struct photo {
    struct jpeg_decompress_struct d;
    struct photo_errors errors;
    struct leat_jpeg_frame frame;
    int16_t *of[LEAT_JPEG_MAX_COMPONENTS], *blocks;
    size_t bytes;
    bool known, clean; /* to this decoder; to libjpeg */
};

static void photo_close(struct photo *p)
{
    free(p->blocks);
    jpeg_destroy_decompress(&p->d);
    p->blocks = NULL;
}

/* Headers are read twice: the decoder begins where the coefficients do. False: libjpeg refuses the header, or it makes
 * no frame. */
static bool photo_open(struct photo *p, const uint8_t *data, size_t length, bool oracle)
{
    p->blocks = NULL;
    p->clean = false;
    if (!photo_header(&p->d, &p->errors, data, length) || !leat_jpeg_frame_of(&p->d, &p->frame)) {
        photo_close(p);
        return false;
    }
    if (oracle) {
        p->blocks = photo_blocks(&p->frame, p->of, &p->bytes);
        p->clean = photo_coefficients(&p->d, &p->frame, p->of);
        jpeg_destroy_decompress(&p->d);
        assert_true(photo_header(&p->d, &p->errors, data, length));
    }
    p->known = leat_jpeg_huffman_knows(huffman, &p->d, &p->frame);
    return true;
}

/* True if it is read; then it is what libjpeg reads. */
static bool check_read_all(const char *name, struct photo *p)
{
    int16_t *of[LEAT_JPEG_MAX_COMPONENTS];
    size_t bytes;
    int16_t *blocks = photo_blocks(&p->frame, of, &bytes);
    const bool read = leat_jpeg_huffman_read_all(huffman, of);
    if (read && (!p->clean || memcmp(blocks, p->blocks, bytes)))
        fail_msg("%s: read, but %s", name,
                 p->clean ? "with other coefficients than libjpeg's" : "libjpeg has a complaint");
    free(blocks);
    return read;
}

/* ---- by an index ----------------------------------------------------------------------------- */

struct box {
    uint32_t row, rows, x0, x1;
};

/* Reads rows of MCUs, `at_once` at a time, and compares them with libjpeg's coefficients. */
static void check_box(const char *name, struct photo *p, struct leat_jpeg_source *source, struct box box,
                      uint32_t at_once, uint64_t needed)
{
    struct leat_error error;
    for (uint32_t r = box.row; r < box.row + box.rows;) {
        struct leat_jpeg_blocks blocks[LEAT_JPEG_ROWS_AT_ONCE][LEAT_JPEG_MAX_COMPONENTS];
        const uint32_t left = box.row + box.rows - r, n = left < at_once ? left : at_once;
        for (uint32_t i = 0; i < n; i++)
            for (unsigned c = 0; c < p->frame.n_components; c++) {
                const size_t room = (size_t)p->frame.component[c].v * (box.x1 - box.x0) * p->frame.component[c].h;
                blocks[i][c].coefficients = aligned_alloc(64, room * 128);
                blocks[i][c].last = malloc(room);
                assert_non_null(blocks[i][c].coefficients);
                assert_non_null(blocks[i][c].last);
                memset(blocks[i][c].coefficients, 0x5a, room * 128);
            }
        assert_ok(source->read(source, r, n, box.x0, box.x1, needed, blocks, &error));
        for (uint32_t i = 0; i < n; i++)
            for (unsigned c = 0; c < p->frame.n_components; c++) {
                const struct leat_jpeg_component *f = &p->frame.component[c];
                const uint32_t across = (box.x1 - box.x0) * f->h;
                for (uint32_t y = 0; y < f->v; y++)
                    for (uint32_t x = 0; x < across; x++) {
                        const int16_t *got = blocks[i][c].coefficients + 64 * ((size_t)y * across + x);
                        const int16_t *want =
                            p->of[c] + 64 * (((size_t)(r + i) * f->v + y) * f->blocks_w + (size_t)box.x0 * f->h + x);
                        const uint8_t last = blocks[i][c].last[(size_t)y * across + x];
                        assert_true(last < 64);
                        for (unsigned k = 0; k < 64; k++) {
                            const unsigned at = leat_jpeg_natural[k];
                            if ((needed >> at & 1 && got[at] != want[at]) || (k > last && got[at]))
                                fail_msg(
                                    "%s: MCU row %u, component %u, block %u, %u: coefficient %u is %d, not %d; last %u",
                                    name, r + i, c, x, y, at, got[at], want[at], last);
                        }
                    }
                free(blocks[i][c].coefficients);
                free(blocks[i][c].last);
            }
        r += n;
    }
}

/* What the index says of a row is what the scan has found there. */
static void check_unpacked(const char *name, const struct photo *p, const struct leat_jpeg_rows *scanned,
                           const uint8_t *index, size_t length)
{
    struct leat_jpeg_rows rows = {0};
    assert_true(leat_jpeg_rows_unpack(&rows, &p->frame, index, length, UINT32_MAX));
    for (uint32_t i = 0; i < rows.n; i++) {
        const struct leat_jpeg_row_start *got = &rows.row[i], *want = &scanned->row[i * rows.every];
        if (got->bit != want->bit || got->restart != want->restart ||
            memcmp(got->dc, want->dc, 2 * (size_t)p->frame.n_components))
            fail_msg("%s: row %u of MCUs begins elsewhere by its index", name, i * (unsigned)rows.every);
    }
    leat_jpeg_rows_destroy(&rows);
}

/* Boxes, read with and without the index that a scan makes. */
static void check_boxes(const char *name, struct photo *p, uint64_t photo_bytes, unsigned n, uint64_t key)
{
    struct leat_jpeg_rows rows = {0};
    uint8_t *index;
    size_t length;
    assert_true(leat_jpeg_huffman_scan(huffman, NULL));
    assert_true(leat_jpeg_huffman_scan(huffman, &rows));
    assert_int_equal(rows.n, p->frame.mcus_h);
    assert_int_equal(leat_jpeg_rows_pack(&rows, &p->frame, photo_bytes, &index, &length), LEAT_OK);
    if (length)
        check_unpacked(name, p, &rows, index, length);
    for (unsigned i = 0; i < n; i++) {
        struct leat_jpeg_source *source;
        struct box box = {0, p->frame.mcus_h, 0, p->frame.mcus_w};
        if (i > 1) {
            box.row = (uint32_t)leat_draw_below(key, 8 * i, p->frame.mcus_h);
            box.rows = 1 + (uint32_t)leat_draw_below(key, 8 * i + 1, p->frame.mcus_h - box.row);
            box.x0 = (uint32_t)leat_draw_below(key, 8 * i + 2, p->frame.mcus_w);
            box.x1 = box.x0 + 1 + (uint32_t)leat_draw_below(key, 8 * i + 3, p->frame.mcus_w - box.x0);
        }
        const bool indexed = length && (i & 1);
        assert_true(leat_jpeg_huffman_begin(huffman, indexed ? index : NULL, indexed ? length : 0, &source));
        check_box(name, p, source, box, 1 + (uint32_t)leat_draw_below(key, 8 * i + 4, 2),
                  i % 5 == 4 ? LEAT_JPEG_NEEDED1 : LEAT_JPEG_NEEDED8);
    }
    leat_jpeg_rows_destroy(&rows);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static uint8_t *made(const struct photo_style *style, uint32_t w, uint32_t h, int quality, uint64_t key, size_t *length)
{
    const unsigned channels = style->in == JCS_GRAYSCALE ? 1 : style->in == JCS_CMYK ? 4 : 3;
    uint8_t *pixels = photo_pixels(w, h, channels, key), *data = photo_encode(style, pixels, w, h, quality, length);
    free(pixels);
    return data;
}

/* Photos of a style with restart markers or none, with usual tables or their own. */
static void for_each_made(void (*check)(const char *name, struct photo *p, const uint8_t *data, size_t length,
                                        uint64_t key))
{
    static const uint32_t sizes[][2] = {{1, 1}, {17, 9}, {75, 66}, {130, 43}};
    static const int restarts[] = {0, 1, 3, 7};
    static const int qualities[] = {5, 50, 90, 100};
    uint64_t key = 0;
    for (size_t s = 0; s < PHOTO_STYLES; s++)
        for (size_t i = 0; i < 4; i++)
            for (size_t r = 0; r < 4; r++)
                for (int optimized = 0; optimized < 2; optimized++) {
                    struct photo_style style = photo_styles[s];
                    struct photo p;
                    size_t length;
                    style.restart = restarts[r];
                    style.optimized = optimized;
                    uint8_t *data = made(&style, sizes[i][0], sizes[i][1], qualities[(r + s + i) % 4], key++, &length);
                    assert_true(photo_open(&p, data, length, true));
                    assert_true(p.known && p.clean);
                    check(style.name, &p, data, length, key);
                    photo_close(&p);
                    free(data);
                }
}

static void check_all(const char *name, struct photo *p, const uint8_t *data, size_t length, uint64_t key)
{
    assert_true(check_read_all(name, p));
}

TEST(all_coefficients_of_made_photos_are_those_of_libjpeg)
{
    for_each_made(check_all);
}

static void check_some(const char *name, struct photo *p, const uint8_t *data, size_t length, uint64_t key)
{
    check_boxes(name, p, length * 100, 12, key); /* so that the index is whole */
    check_boxes(name, p, length * 4, 6, key);    /* and with gaps */
}

TEST(rows_and_columns_of_made_photos_are_those_of_libjpeg)
{
    for_each_made(check_some);
}

static unsigned real_read;

static void check_real(const char *name, const uint8_t *data, size_t length)
{
    struct photo p;
    if (!photo_open(&p, data, length, true))
        return;
    if (p.known) {
        if (check_read_all(name, &p)) {
            assert_true(leat_jpeg_huffman_scan(huffman, NULL));
            check_boxes(name, &p, length, 4, length);
            real_read++;
        } else {
            assert_false(leat_jpeg_huffman_scan(huffman, NULL));
        }
    }
    photo_close(&p);
}

TEST(coefficients_of_real_photos_are_those_of_libjpeg)
{
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/imagenet", test_data());
    real_read = 0;
    const unsigned n = photo_each(folder, 10, check_real);
    assert_true(n > 30);
    assert_int_equal(real_read, n);
    snprintf(folder, sizeof folder, "%s/odd-images", test_data());
    photo_each(folder, 1, check_real);
}

/* The photo has no byte behind it that may be read: see the sanitizer. */
TEST(a_photo_cut_anywhere_is_refused)
{
    for (unsigned s = 0; s < 5; s += 2)
        for (int restart = 0; restart < 4; restart += 3) {
            struct photo_style style = photo_styles[s];
            size_t length;
            style.restart = restart;
            uint8_t *data = made(&style, 75, 40, 60, 7, &length);
            for (size_t cut = 0; cut < length; cut++) {
                struct photo p;
                uint8_t *part = malloc(cut ? cut : 1);
                assert_non_null(part);
                memcpy(part, data, cut);
                if (photo_open(&p, part, cut, false)) {
                    struct leat_jpeg_source *source;
                    struct leat_jpeg_rows rows = {0};
                    p.blocks = photo_blocks(&p.frame, p.of, &p.bytes);
                    assert_true(p.known);
                    assert_false(leat_jpeg_huffman_read_all(huffman, p.of));
                    assert_false(leat_jpeg_huffman_scan(huffman, &rows));
                    assert_true(leat_jpeg_huffman_begin(huffman, NULL, 0, &source));
                    leat_jpeg_rows_destroy(&rows);
                    photo_close(&p);
                }
                free(part);
            }
            free(data);
        }
}

TEST(a_photo_with_a_byte_changed_is_refused_or_read_as_libjpeg_reads_it)
{
    for (unsigned s = 0; s < 5; s += 2)
        for (int restart = 0; restart < 4; restart += 3) {
            struct photo_style style = photo_styles[s];
            size_t length;
            unsigned read = 0;
            style.restart = restart;
            uint8_t *data = made(&style, 40, 33, 80, 3, &length);
            for (size_t at = 0; at < length; at++) {
                const uint8_t was = data[at], values[] = {0, 0xff, (uint8_t)(was ^ 1), (uint8_t)(was ^ 0x80)};
                for (size_t i = at % test_every(4); i < 4; i += test_every(4)) {
                    struct photo p;
                    data[at] = values[i];
                    if (photo_open(&p, data, length, true)) {
                        const bool whole = p.known && check_read_all(style.name, &p);
                        if (p.known)
                            assert_int_equal(leat_jpeg_huffman_scan(huffman, NULL), whole);
                        read += whole;
                        photo_close(&p);
                    }
                }
                data[at] = was;
            }
            assert_true(read > length / test_every(4)); /* most changes make another photo */
            free(data);
        }
}

/* Such a byte has a zero behind it, which belongs to the row that ends as well as to the one that begins. */
TEST(a_row_may_end_within_a_byte_of_ones)
{
    size_t length;
    unsigned met = 0;
    struct photo p;
    struct leat_jpeg_rows rows = {0};
    struct leat_jpeg_source *source;
    uint8_t *data = made(&photo_styles[0], 8, 4000, 100, 5, &length), *index; /* rows of one block */
    assert_true(photo_open(&p, data, length, true));
    assert_true(leat_jpeg_huffman_scan(huffman, &rows));
    const uint8_t *scan = p.d.src->next_input_byte;
    for (uint32_t r = 1; r < rows.n; r++)
        met += scan[rows.row[r].bit / 8] == 0xff && rows.row[r].bit % 8;
    assert_true(met);
    assert_int_equal(leat_jpeg_rows_pack(&rows, &p.frame, length * 100, &index, &length), LEAT_OK);
    for (uint32_t at_once = 1; at_once <= LEAT_JPEG_ROWS_AT_ONCE; at_once++) {
        assert_true(leat_jpeg_huffman_begin(huffman, index, length, &source));
        check_box("rows of one block", &p, source, (struct box){0, p.frame.mcus_h, 0, 1}, at_once, LEAT_JPEG_NEEDED8);
    }
    leat_jpeg_rows_destroy(&rows);
    photo_close(&p);
    free(data);
}

/* Differences that add up beyond 16 bits, which libjpeg cuts off: a row index has no place for what they add up to. */
TEST(dc_values_beyond_16_bits_are_left_to_libjpeg)
{
    enum { ACROSS = 20, BITS = 9 + 11 + 4 }; /* DC code of 11 bits, 2047, end of block: tables of the standard */
    for (unsigned blocks = 16; blocks <= 17; blocks++) { /* so many differences of 2047, then of 0: 32752 or 34799 */
        struct photo p;
        struct leat_jpeg_rows rows = {0};
        size_t length;
        uint8_t *data = made(&photo_styles[0], 8 * ACROSS, 8, 50, 3, &length), coded[ACROSS * BITS / 4 + 8] = {0},
                *out = coded;
        assert_true(photo_open(&p, data, length, false));
        uint8_t *const scan = data + (p.d.src->next_input_byte - data);
        photo_close(&p);
        uint64_t acc = 0;
        unsigned n = 0;
        for (unsigned x = 0; x <= ACROSS; x++) { /* and ones at the end */
            const unsigned bits = x == ACROSS ? 7 : x < blocks ? BITS : 6;
            acc = acc << bits | (x == ACROSS ? 127 : x < blocks ? 0x1feu << 15 | 2047 << 4 | 10 : 10);
            for (n += bits; n >= 8; n -= 8) {
                *out++ = (uint8_t)(acc >> (n - 8));
                if (out[-1] == 0xff)
                    *out++ = 0;
            }
        }
        const size_t coded_length = (size_t)(out - coded);
        uint8_t *changed = malloc((size_t)(scan - data) + coded_length + 2);
        assert_non_null(changed);
        memcpy(changed, data, (size_t)(scan - data));
        memcpy(changed + (scan - data), coded, coded_length);
        memcpy(changed + (scan - data) + coded_length, "\xff\xd9", 2);
        assert_true(photo_open(&p, changed, (size_t)(scan - data) + coded_length + 2, true));
        assert_true(p.known && p.clean);
        assert_int_equal(check_read_all("DC values of any size", &p), blocks == 16);
        assert_int_equal(leat_jpeg_huffman_scan(huffman, &rows), blocks == 16);
        assert_int_equal(p.of[0][64 * (ACROSS - 1)], (int16_t)(uint16_t)(2047 * blocks));
        leat_jpeg_rows_destroy(&rows);
        photo_close(&p);
        free(changed);
        free(data);
    }
}

/* What an index says is not trusted: checksums are made right again. */
TEST(a_changed_index_does_no_harm)
{
    struct photo_style style = photo_styles[4];
    for (int restart = 0; restart < 8; restart += 3) {
        size_t length, packed;
        uint8_t *index;
        struct photo p;
        struct leat_jpeg_rows rows = {0};
        struct leat_error error;
        style.restart = restart;
        uint8_t *data = made(&style, 75, 70, 60, 9, &length);
        assert_true(photo_open(&p, data, length, false));
        p.blocks = photo_blocks(&p.frame, p.of, &p.bytes);
        assert_true(leat_jpeg_huffman_scan(huffman, &rows));
        assert_int_equal(leat_jpeg_rows_pack(&rows, &p.frame, length * 100, &index, &packed), LEAT_OK);
        assert_true(packed > 8);
        unsigned began = 0;
        for (size_t at = 4; at < packed; at++)
            for (unsigned value = 0; value < 256; value += 5) {
                const uint8_t was = index[at];
                struct leat_jpeg_source *source;
                index[at] = (uint8_t)value;
                const uint64_t sum = leat_hash64(index + 4, packed - 4);
                memcpy(index, &sum, 4);
                if (leat_jpeg_huffman_begin(huffman, index, packed, &source)) {
                    began++;
                    for (uint32_t r = 0; r + 2 <= p.frame.mcus_h; r += 2) {
                        struct leat_jpeg_blocks blocks[2][LEAT_JPEG_MAX_COMPONENTS];
                        uint8_t last[64];
                        for (unsigned i = 0; i < 2; i++)
                            for (unsigned c = 0; c < p.frame.n_components; c++) {
                                blocks[i][c].coefficients = p.of[c] + (size_t)64 * (r + i) * p.frame.component[c].v *
                                                                          p.frame.component[c].blocks_w;
                                blocks[i][c].last = last;
                            }
                        if (source->read(source, r, 2, 0, p.frame.mcus_w, LEAT_JPEG_NEEDED8, blocks, &error)) {
                            assert_int_equal(error.code, LEAT_E_DECODE);
                            break;
                        }
                    }
                }
                index[at] = was;
            }
        assert_true(began);
        leat_jpeg_rows_destroy(&rows);
        photo_close(&p);
        free(data);
    }
}

TEST(an_index_of_another_photo_is_refused)
{
    size_t length, packed;
    uint8_t *index;
    struct photo p;
    struct leat_jpeg_rows rows = {0};
    struct leat_jpeg_source *source;
    uint8_t *data = made(&photo_styles[2], 75, 70, 60, 9, &length);
    assert_true(photo_open(&p, data, length, false));
    assert_true(leat_jpeg_huffman_scan(huffman, &rows));
    assert_int_equal(leat_jpeg_rows_pack(&rows, &p.frame, length * 100, &index, &packed), LEAT_OK);
    photo_close(&p);
    free(data);
    struct photo_style style = photo_styles[2];
    style.restart = 5; /* the same rows, and restart markers */
    data = made(&style, 75, 70, 60, 9, &length);
    assert_true(photo_open(&p, data, length, false));
    assert_false(leat_jpeg_huffman_begin(huffman, index, packed, &source));
    photo_close(&p);
    free(data);
    data = made(&photo_styles[2], 75, 60, 60, 9, &length); /* a row less */
    assert_true(photo_open(&p, data, length, false));
    assert_false(leat_jpeg_huffman_begin(huffman, index, packed, &source));
    photo_close(&p);
    free(data);
    leat_jpeg_rows_destroy(&rows);
}

TEST(other_kinds_are_not_known)
{
    for (int kind = 0; kind < 3; kind++) {
        struct photo_style style = photo_styles[4];
        struct photo p;
        size_t length;
        style.progressive = kind == 0;
        style.arithmetic = kind == 1;
        style.separate_scans = kind == 2;
        uint8_t *data = made(&style, 40, 33, 80, 3, &length);
        assert_true(photo_open(&p, data, length, false));
        assert_false(p.known);
        photo_close(&p);
        free(data);
    }
}

static int setup(void **state)
{
    huffman = leat_jpeg_huffman_new();
    return !huffman;
}

static int teardown(void **state)
{
    leat_jpeg_huffman_free(huffman);
    return 0;
}

TEST(a_table_with_a_code_of_all_ones_is_none)
{
    static struct leat_jpeg_dc_table dc;
    static struct leat_jpeg_ac_table ac;
    const uint8_t values[256] = {0, 1, 2};
    const uint8_t full[17] = {[1] = 1, [2] = 2}, room[17] = {[1] = 1, [2] = 1}, many[17] = {[1] = 1, [2] = 1, [3] = 3};
    assert_true(leat_jpeg_dc_table_make(&dc, room, values) && leat_jpeg_ac_table_make(&ac, room, values));
    assert_false(leat_jpeg_dc_table_make(&dc, full, values) || leat_jpeg_ac_table_make(&ac, full, values));
    assert_false(leat_jpeg_dc_table_make(&dc, many, values) || leat_jpeg_ac_table_make(&ac, many, values));
    assert_true(leat_jpeg_dc_table_make(&dc, room, values) && leat_jpeg_ac_table_make(&ac, room, values));
}

TEST_MAIN_IN(setup, teardown)
