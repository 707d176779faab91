/* CRC-32C: by the instruction, and by the table (the whole test runs with LEAT_ISA=portable, too). */
#include "../test.h"

#include "base/crc32c.h"

static uint32_t by_bits(const uint8_t *p, size_t n)
{
    uint32_t crc = UINT32_MAX;
    for (; n; p++, n--) {
        crc ^= *p;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    return ~crc;
}

TEST(a_known_text_has_its_crc)
{
    assert_int_equal(leat_crc32c(0, "123456789", 9), 0xe3069283); /* RFC 3720 */
    assert_int_equal(leat_crc32c(0, "", 0), 0);
}

TEST(bytes_of_any_length_and_place_have_the_crc_of_their_bits)
{
    uint8_t bytes[200];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 37 + 11);
    for (size_t from = 0; from < 9; from++)
        for (size_t n = 0; n <= 100; n++) {
            const uint32_t whole = by_bits(bytes + from, n);
            assert_int_equal(leat_crc32c(0, bytes + from, n), whole);
            assert_int_equal(leat_crc32c(leat_crc32c(0, bytes + from, n / 3), bytes + from + n / 3, n - n / 3), whole);
        }
}

TEST_MAIN()
