/* Whether bytes are UTF-8, at the speed of memory. */
#ifndef LEAT_KERNELS_UTF8_H
#define LEAT_KERNELS_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* No overlong forms, no surrogates, nothing above U+10FFFF, no character that is cut off at the end. */
bool leat_utf8_is_valid(const uint8_t *text, size_t n);
/* The same for each instruction set, for tests. */
bool leat_utf8_is_valid_portable(const uint8_t *text, size_t n);
bool leat_utf8_is_valid_avx2(const uint8_t *text, size_t n); /* if the processor has AVX2 */

#endif
