/*
 * Any bytes as a manifest, and as JSON and UTF-8 text. The checksum at its end is made right first, if the first byte
 * says so. A manifest that parses is written back as text that parses to the same, and names only files beside itself.
 */
#include <inttypes.h>
#include <stdio.h>

#include "format/json_text.h"
#include "fuzz_store.h"
#include "store/manifest.h"
#include "store/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct leat_manifest m, again;
    struct leat_error error;
    if (length < 1)
        return 0;
    char *text = malloc(length), *back;
    size_t n = length - 1, back_length;
    memcpy(text, data + 1, n);
    size_t utf8 = leat_utf8_check(text, n), json = leat_json_check(text, n);
    FUZZ_ASSERT(utf8 <= n && json <= n && (json < n || utf8 == n || n == 0));
    if (data[0] & 1 && n > 32) {
        char tail[33];
        snprintf(tail, sizeof tail, "\"checksum\": \"%016" PRIx64 "\"}\n", leat_hash64(text, n - 32));
        memcpy(text + n - 32, tail, 32);
    }
    if (!leat_manifest_parse(text, n, &m, &error)) {
        for (size_t i = 0; i < m.n_shards; i++)
            FUZZ_ASSERT(!strchr(m.shards[i].file, '/') && strcmp(m.shards[i].file, "..") != 0 && m.shards[i].file[0]);
        FUZZ_ASSERT(!leat_manifest_text(&m, &back, &back_length, &error));
        FUZZ_ASSERT(!leat_manifest_parse(back, back_length, &again, &error));
        FUZZ_ASSERT(again.n_shards == m.n_shards && again.count == m.count && again.sums[0] == m.sums[0]);
        FUZZ_ASSERT(!strcmp(again.shards[0].file, m.shards[0].file));
        FUZZ_ASSERT(again.converted == m.converted &&
                    (!m.converted || (!memcmp(again.conversion.sums, m.conversion.sums, sizeof m.conversion.sums) &&
                                      !memcmp(m.conversion.values, m.sums, sizeof m.sums) &&
                                      again.conversion.classes_apart == m.conversion.classes_apart)));
        leat_manifest_destroy(&again);
        leat_manifest_destroy(&m);
        leat_free(back);
    }
    free(text);
    return 0;
}
