/* UTF-8 is told from what is none alike on every instruction set. */
#include "kernels/utf8.h"

#include "../test.h"
#include "base/cpu.h"
#include "base/random.h"
#include "format/json_text.h"

/* What all of them say. */
static bool is_valid(const uint8_t *text, size_t n)
{
    const bool valid = leat_utf8_check(text, n) == n;
    assert_int_equal(leat_utf8_is_valid(text, n), valid);
    assert_int_equal(leat_utf8_is_valid_portable(text, n), valid);
    if (leat_cpu_isa() >= LEAT_ISA_AVX2)
        assert_int_equal(leat_utf8_is_valid_avx2(text, n), valid);
    return valid;
}

TEST(any_two_and_three_bytes_are_judged_alike_wherever_they_stand)
{
    static const size_t places[] = {0, 13, 30, 31, 61, 62, 63};
    for (size_t k = 0; k < sizeof places / sizeof *places; k++)
        for (unsigned v = 0x80; v < 0x10000; v++) {
            uint8_t text[80];
            memset(text, 'x', sizeof text);
            text[places[k]] = (uint8_t)(v >> 8 | 0x80);
            text[places[k] + 1] = (uint8_t)v;
            text[places[k] + 2] = (uint8_t)(0x78 + v % 16);
            is_valid(text, sizeof text);
            is_valid(text, places[k] + 2);
        }
}

TEST(any_character_is_valid_and_cut_off_it_is_not)
{
    for (uint32_t c = 0; c < 0x120000; c += c < 0x900 ? 1 : 37) {
        uint8_t text[40];
        memset(text, 'y', sizeof text);
        const size_t at = c % 36, n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        const uint8_t first[] = {0, 0, 0xc0, 0xe0, 0xf0};
        uint32_t left = c;
        for (size_t i = n; i-- > 1; left >>= 6)
            text[at + i] = (uint8_t)(0x80 | (left & 63));
        text[at] = (uint8_t)(first[n] | left);
        assert_int_equal(is_valid(text, sizeof text), c < 0x110000 && (c < 0xd800 || c > 0xdfff));
        for (size_t cut = 1; cut < n; cut++)
            assert_false(is_valid(text, at + cut));
    }
}

TEST(texts_with_faults_are_judged_alike)
{
    static const char *const part[] = {"a", "ä", "€", "😀", "\xff", "\x80", "\xe2\x82", "\xf0\x9f", "\xed\xa0\x80",
                                       "zz"};
    for (uint64_t i = 0; i < 20000; i++) {
        char text[512] = "";
        const size_t n = leat_draw_below(i, 0, 90), kinds = i % 3 ? 4 : 10;
        for (size_t k = 0; k < n; k++)
            strcat(text, part[leat_draw_below(i, k + 1, kinds)]);
        is_valid((const uint8_t *)text, strlen(text));
    }
}

TEST_MAIN()
