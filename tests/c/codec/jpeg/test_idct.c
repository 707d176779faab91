/*
 * The inverse DCTs against libjpeg-turbo: photos of one component are written from chosen coefficients and decoded at
 * each scale; every instruction set of this machine gives the same samples. Arithmetic coding takes coefficients of 16
 * bits, with a restart marker before every block also for DC.
 *
 * Where coefficients are larger than those of a picture, libjpeg-turbo gives other samples on other processors. leat
 * gives those of its vector code for x86-64 everywhere: each test ends with a checksum of all samples that were
 * expected, which on x86-64 are libjpeg-turbo's.
 */
#include "../../test.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/random.h"
#include "codec/jpeg/frame.h"
#include "codec/jpeg/idct.h"
#include "codec/jpeg/libjpeg.h"

enum { WIDE = 61, HIGH = 20, BLOCKS = WIDE * HIGH, BEHIND = 64 };

static int16_t *coefficients; /* [BLOCKS][64], ends where a page begins that cannot be read */
static uint8_t *lasts;        /* [BLOCKS], the same */
static uint16_t quant[64];
static uint8_t exact[BLOCKS];
static uint64_t seed, hint_seed, expected;

static uint64_t draw(uint64_t below)
{
    return leat_draw_below(5, seed++, below);
}

/* Each test draws the same on every machine. */
static int begin(void **state)
{
    seed = hint_seed = expected = 0;
    return 0;
}

#define TEST_SET_UP(name) TEST_IN(name, begin, NULL)

static void expect_checksum(uint64_t checksum)
{
    if (expected != checksum)
        fail_msg("the samples' checksum is %016llx, should be %016llx", (unsigned long long)expected,
                 (unsigned long long)checksum);
}

/* `bytes` in front of a page without access. */
static void *guarded(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + page - 1) / page * page;
    uint8_t *p = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    assert_int_equal(mprotect(p + room, page, PROT_NONE), 0);
    return p + room - bytes;
}

static int prepare(void **state)
{
    coefficients = guarded((size_t)BLOCKS * 64 * sizeof *coefficients);
    lasts = guarded(BLOCKS);
    return 0;
}

static unsigned char *encode(unsigned long *length)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    unsigned char *out = NULL;
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out, length);
    c.image_width = WIDE * 8;
    c.image_height = HIGH * 8;
    c.input_components = 1;
    c.in_color_space = JCS_GRAYSCALE;
    jpeg_set_defaults(&c);
    c.arith_code = TRUE;
    c.restart_interval = 1;
    for (int i = 0; i < 64; i++)
        c.quant_tbl_ptrs[0]->quantval[i] = quant[i];
    jvirt_barray_ptr array = c.mem->request_virt_barray((j_common_ptr)&c, JPOOL_IMAGE, FALSE, WIDE, HIGH, 1);
    leat_jpeg_write_coefficients(&c, &array);
    for (unsigned y = 0; y < HIGH; y++) {
        JBLOCKARRAY rows = c.mem->access_virt_barray((j_common_ptr)&c, array, y, 1, TRUE);
        memcpy(rows[0], coefficients + (size_t)y * WIDE * 64, WIDE * sizeof(JBLOCK));
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    return out;
}

static uint8_t *decode(const unsigned char *data, unsigned long length, unsigned size)
{
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr errors;
    d.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, data, length);
    assert_int_equal(jpeg_read_header(&d, TRUE), JPEG_HEADER_OK);
    d.dct_method = JDCT_ISLOW;
    d.scale_num = 1;
    d.scale_denom = 8 / size;
    jpeg_start_decompress(&d);
    assert_int_equal(d.output_width, WIDE * size);
    uint8_t *out = malloc((size_t)BLOCKS * size * size);
    while (d.output_scanline < d.output_height) {
        JSAMPROW row = out + (size_t)d.output_scanline * WIDE * size;
        jpeg_read_scanlines(&d, &row, 1);
    }
    jpeg_finish_decompress(&d);
    assert_int_equal(errors.num_warnings, 0);
    jpeg_destroy_decompress(&d);
    return out;
}

static leat_jpeg_idct_fn function(const struct leat_jpeg_idct *of, unsigned size)
{
    return size == 8 ? of->samples8 : size == 4 ? of->samples4 : size == 2 ? of->samples2 : of->samples1;
}

static void compare(const uint8_t *want, unsigned size, enum leat_isa isa, const char *hint)
{
    leat_jpeg_idct_fn fn = function(leat_jpeg_idct(isa), size);
    size_t stride = WIDE * size + BEHIND;
    uint8_t *got = malloc(stride * size);
    for (size_t y = 0; y < HIGH; y++) {
        size_t piece = y ? y : WIDE; /* so many blocks at once, and what is left */
        for (size_t x = 0; x < WIDE; x += piece)
            fn(coefficients + (y * WIDE + x) * 64, lasts + y * WIDE + x, x + piece < WIDE ? piece : WIDE - x, quant,
               got + x * size, stride);
        for (size_t r = 0; r < size; r++, want += WIDE * size)
            for (size_t i = 0; i < WIDE * size; i++)
                if (got[r * stride + i] != want[i])
                    fail_msg("isa %d, %u samples, %s, block %zu of row %zu: sample %zu of row %zu is %d, should be %d",
                             (int)isa, size, hint, i / size, y, i % size, r, got[r * stride + i], want[i]);
    }
    free(got);
}

/* Whether libjpeg-turbo's vector code for AArch64 gives the samples that its code for x86-64 gives: no coefficient has
 * more than the 11 bits of a picture's. */
static bool usual_block(const int16_t *k)
{
    for (int i = 0; i < 64; i++) {
        int64_t value = (int64_t)k[i] * quant[i];
        if (value < -1024 || value >= 1024)
            return false;
    }
    return true;
}

/* Where libjpeg-turbo's vector code is not the one for x86-64: the samples of blocks about which it may differ, by
 * portable code. */
static void correct(uint8_t *want, unsigned size)
{
#if defined(__x86_64__)
    const bool other = false;
#else
    const bool other = true;
#endif
    uint8_t block[8 * (8 + BEHIND)];
    const size_t stride = 8 + BEHIND;
    for (size_t i = 0; i < BLOCKS && other; i++) {
        if (usual_block(coefficients + 64 * i))
            continue;
        function(leat_jpeg_idct(LEAT_ISA_PORTABLE), size)(coefficients + 64 * i, (const uint8_t[]){63}, 1, quant, block,
                                                          stride);
        for (size_t r = 0; r < size; r++)
            memcpy(want + ((i / WIDE * size + r) * WIDE + i % WIDE) * size, block + r * stride, size);
    }
}

static void compare_all(const uint8_t *want, unsigned size)
{
    for (int isa = 0; isa <= (int)leat_cpu_isa(); isa++) {
        memcpy(lasts, exact, BLOCKS);
        compare(want, size, (enum leat_isa)isa, "exact hints");
        memset(lasts, 63, BLOCKS);
        compare(want, size, (enum leat_isa)isa, "no hints");
        for (size_t i = 0; i < BLOCKS; i++)
            lasts[i] = (uint8_t)(exact[i] + leat_draw_below(6, hint_seed++, 64u - exact[i]));
        compare(want, size, (enum leat_isa)isa, "loose hints");
    }
}

/* The coefficients as they stand, decoded by libjpeg-turbo and by everything here, with every kind of hint, and once
 * more with only the coefficients that a scale needs. */
static void check(void)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        exact[i] = 63;
        while (exact[i] && !coefficients[i * 64 + leat_jpeg_natural[exact[i]]])
            exact[i]--;
    }
    unsigned long length = 0;
    unsigned char *data = encode(&length);
    size_t bytes = (size_t)BLOCKS * 64 * sizeof *coefficients;
    int16_t *all = malloc(bytes);
    memcpy(all, coefficients, bytes);
    for (unsigned size = 8; size; size /= 2) {
        uint8_t *want = decode(data, length, size);
        correct(want, size);
        const uint64_t both[2] = {expected, leat_hash64(want, (size_t)BLOCKS * size * size)};
        expected = leat_hash64(both, sizeof both);
        compare_all(want, size);
        uint64_t needed = size == 8   ? LEAT_JPEG_NEEDED8
                          : size == 4 ? LEAT_JPEG_NEEDED4
                          : size == 2 ? LEAT_JPEG_NEEDED2
                                      : LEAT_JPEG_NEEDED1;
        for (size_t i = 0; i < (size_t)BLOCKS * 64; i++)
            coefficients[i] = needed >> i % 64 & 1 ? all[i] : 0;
        compare_all(want, size);
        memcpy(coefficients, all, bytes);
        free(want);
    }
    free(all);
    free(data);
}

static void clear(void)
{
    memset(coefficients, 0, (size_t)BLOCKS * 64 * sizeof *coefficients);
}

static void quantise_by(uint16_t (*value)(void))
{
    for (int i = 0; i < 64; i++)
        quant[i] = value();
}

static uint16_t one(void)
{
    return 1;
}

static uint16_t usual(void)
{
    return (uint16_t)(1 + draw(60));
}

static uint16_t any_byte(void)
{
    return (uint16_t)draw(256);
}

static uint16_t any(void)
{
    return (uint16_t)draw(65536);
}

static int16_t any_value(void)
{
    return (int16_t)((int32_t)draw(65536) - 32768);
}

/* Of about `bits` bits, either sign. */
static int16_t value_of(unsigned bits)
{
    int32_t v = (int32_t)draw(1u << bits);
    return (int16_t)(draw(2) ? -v : v);
}

static int16_t extreme(void)
{
    static const int16_t values[] = {INT16_MIN, INT16_MIN + 1, -16384, -8193, -8192,    -1, 0,
                                     1,         8191,          8192,   16384, INT16_MAX};
    return values[draw(sizeof values / sizeof *values)];
}

TEST_SET_UP(one_coefficient_at_each_place_and_of_each_magnitude_is_transformed_as_by_libjpeg)
{
    static uint16_t (*const quants[])(void) = {one, usual, any_byte, any};
    for (size_t q = 0; q < 4; q++) {
        quantise_by(quants[q]);
        clear();
        for (size_t i = 0; i < BLOCKS; i++) { /* 61 is odd to 64: all places come with all magnitudes */
            unsigned bit = (unsigned)(i / 64 % 19);
            int32_t magnitude = bit < 16 ? (1 << bit) - (i % 3 == 0) : (int32_t)draw(32768);
            coefficients[i * 64 + i % 64] = (int16_t)(i / 64 % 2 ? -magnitude : magnitude > 32767 ? 32767 : magnitude);
        }
        check();
    }
    expect_checksum(UINT64_C(0x7e6f5997517d9adf));
}

TEST_SET_UP(every_dc_is_transformed_as_by_libjpeg)
{
    for (int32_t begin = -32768; begin < 32768; begin += 31 * BLOCKS) {
        clear();
        quantise_by(one);
        for (size_t i = 0; i < BLOCKS; i++)
            coefficients[i * 64] =
                (int16_t)(begin + 31 * (int32_t)i > 32767 ? 32767 - (int32_t)i : begin + 31 * (int32_t)i);
        check();
    }
    for (int32_t i = 0; i < BLOCKS; i++)
        coefficients[i * 64] = (int16_t)(i - BLOCKS / 2);
    check();
    quantise_by(any);
    check();
    expect_checksum(UINT64_C(0xdb800ad3be07b5d1));
}

TEST_SET_UP(usual_blocks_are_transformed_as_by_libjpeg)
{
    for (unsigned round = 0; round < 4; round++) {
        quantise_by(round % 2 ? usual : one);
        clear();
        for (size_t i = 0; i < BLOCKS; i++) {
            uint64_t end = 1 + draw(64);
            for (uint64_t k = 0; k < end; k++)
                if (!draw(1 + i % 4))
                    coefficients[i * 64 + leat_jpeg_natural[k]] = value_of(1 + (unsigned)draw(10));
        }
        check();
    }
    expect_checksum(UINT64_C(0x26af535883bd66a3));
}

TEST_SET_UP(blocks_of_few_low_frequencies_are_transformed_as_by_libjpeg)
{
    for (unsigned round = 0; round < 4; round++) {
        quantise_by(round % 2 ? any : usual);
        clear();
        for (size_t i = 0; i < BLOCKS; i++)
            for (uint64_t k = 0, end = 1 + draw(12); k < end; k++)
                coefficients[i * 64 + leat_jpeg_natural[k]] = round < 2 ? value_of(1 + (unsigned)draw(12)) : extreme();
        check();
    }
    expect_checksum(UINT64_C(0x8f4dccb2cb93713a));
}

TEST_SET_UP(hostile_blocks_are_transformed_as_by_libjpeg)
{
    static uint16_t (*const quants[])(void) = {one, any, any_byte};
    for (unsigned round = 0; round < 9; round++) {
        quantise_by(quants[round % 3]);
        for (size_t i = 0; i < (size_t)BLOCKS * 64; i++)
            coefficients[i] = round < 3 ? any_value() : round < 6 ? extreme() : draw(2) ? INT16_MIN : INT16_MAX;
        check();
    }
    expect_checksum(UINT64_C(0x9675b7dd3da1ed39));
}

/* The sign of cos((2 x + 1) u pi / 16). */
static int sign_of(unsigned x, unsigned u)
{
    const unsigned angle = (2 * x + 1) * u % 32;
    return angle < 8 || angle > 24 ? 1 : -1;
}

/* Every coefficient adds to the same sample: about the bounds within which code for usual values is exact, no sum may
 * be lost. */
TEST_SET_UP(blocks_whose_sums_are_as_large_as_can_be_are_transformed_as_by_libjpeg)
{
    static const int magnitudes[] = {100, 250, 500, 600, 1000, 1023, 1024, 1025, 1500, 2047, 2048, 4095};
    static const unsigned most[] = {64, 10, 3, 36}; /* in zigzag order */
    quantise_by(one);
    for (size_t m = 0; m < sizeof magnitudes / sizeof *magnitudes; m++) {
        clear();
        for (size_t i = 0; i < BLOCKS; i++)
            for (unsigned k = 0; k < most[i / 64 % 4]; k++) {
                const unsigned place = leat_jpeg_natural[k], u = place % 8, v = place / 8;
                const int sign = sign_of(i % 8, u) * sign_of(i / 8 % 8, v) * (i & 256 ? -1 : 1);
                coefficients[i * 64 + place] = (int16_t)(sign * magnitudes[m]);
            }
        check();
    }
    expect_checksum(UINT64_C(0x08f50029e3379638));
}

/* libjpeg-turbo's vector code takes a short way where rows 1 to 7 hold nothing, and there values wrap. */
TEST_SET_UP(large_values_in_the_first_row_or_in_one_more_place_are_transformed_as_by_libjpeg)
{
    for (unsigned round = 0; round < 4; round++) {
        quantise_by(round % 2 ? any : one);
        clear();
        for (size_t i = 0; i < BLOCKS; i++) {
            for (size_t c = 0; c < 8; c++)
                coefficients[i * 64 + c] = draw(2) ? extreme() : any_value();
            if (round >= 2 && i % 5)
                coefficients[i * 64 + 8 + draw(56)] = draw(2) ? 1 : extreme();
            if (round >= 2 && i % 5 == 1) /* a factor of 0 makes nothing of it, and still the long way is taken */
                quant[8 + draw(56)] = 0;
        }
        check();
    }
    expect_checksum(UINT64_C(0xd4bf334b386edbc6));
}

TEST_MAIN_IN(prepare, NULL)
