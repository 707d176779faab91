/* Checks text, without recursion. It may run over mapped memory: what it allocates, to read a long number, is none of
 * it.
 */
#include "store/text.h"

#include "format/json_pass.h"

size_t leat_json_check(const void *text, size_t n)
{
    const size_t bad = leat_utf8_check(text, n);
    if (bad < n)
        return bad;
    struct leat_json j;
    leat_json_span(&j, text, n);
    j.deepest = LEAT_JSON_DEEPEST;
    j.is_utf8 = j.no_nan = j.any_value = true;
    const uint8_t *const behind = leat_json_pass(&j, text);
    if (behind && leat_json_done(&j, behind))
        return n;
    return j.at < n ? (size_t)j.at : n ? n - 1 : 0;
}

bool leat_text_fits(enum leat_kind kind, const void *text, size_t n, size_t *bad)
{
    *bad = kind == LEAT_KIND_STR ? leat_utf8_check(text, n) : kind == LEAT_KIND_JSON ? leat_json_check(text, n) : n;
    return *bad == n && (n || kind != LEAT_KIND_JSON);
}
