/* The index of a file of lines does not depend on how the file is cut for reading it. */
#include "format/text_scan.h"

#include <stdio.h>
#include <string.h>

#include "../test.h"
#include "base/hash.h"

static const char *const lines[] = {"{\"a\": 1, \"s\": \"x\"}\n",
                                    "\n",
                                    "{\"a\": 2.5, \"m\": {\"k\": [1, 2]}}\r\n",
                                    "{\"b\": true, \"s\": \"y\"}\n",
                                    "{broken\n",
                                    "{\"a\": -3, \"s\": null, \"m\": {}}\n",
                                    "  {\"s\": \"x\", \"z\": \"\\u00e9\"}  \n"};

static uint64_t hash_index(const struct leat_text_index *x)
{
    uint64_t h[64] = {x->count, x->n_lines, x->n_bad, x->sums[0][0], x->sums[1][1], x->tree.n};
    h[6] = leat_hash64(x->lines, (size_t)x->count * sizeof *x->lines);
    h[7] = leat_hash64(x->bad, (size_t)x->n_bad * sizeof *x->bad);
    h[8] = leat_hash64(x->tree.keys, x->tree.keys_n);
    for (size_t i = 1; i < x->tree.n; i++) {
        const struct leat_text_property *p = &x->properties[i];
        const size_t each = p->column == LEAT_COLUMN_NUMBERS ? 8 : p->column == LEAT_COLUMN_WORDS ? 4 : 1;
        h[9] = h[9] * 31 + p->types + 7 * p->present + 13 * p->column;
        h[10] += leat_hash64(p->lines, sizeof p->lines);
        h[11] = h[11] * 31 + (p->values ? leat_hash64(p->values, (size_t)x->count * each) : 0);
        h[12] = h[12] * 31 + (p->valid ? leat_hash64(p->valid, (size_t)x->count) : 0);
        h[13] = h[13] * 31 + (p->words ? leat_hash64(p->words, (size_t)p->starts[p->n_words]) : 0);
    }
    return leat_hash64(h, sizeof h);
}

static size_t make_text(char *text, size_t n)
{
    size_t used = 0;
    for (size_t i = 0; used + 64 < n; i++)
        used += (size_t)sprintf(text + used, "%s", lines[i * 7 / 5 % (sizeof lines / sizeof *lines)]);
    return used;
}

TEST(any_chunks_and_threads_give_the_same_index)
{
    static char text[20000];
    const size_t n = make_text(text, sizeof text);
    struct leat_io_file *file;
    assert_int_equal(leat_io_from_memory("text", text, n, &file, NULL), LEAT_OK);
    uint64_t want = 0;
    const uint64_t chunks[] = {1 << 20, 1000, 97, 31, 7};
    for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++)
        for (unsigned threads = 1; threads <= 3; threads += 2) {
            struct leat_text_index x;
            const struct leat_text_scan scan = {.mode = LEAT_TEXT_JSONL, .threads = threads, .chunk_bytes = chunks[c]};
            assert_int_equal(leat_text_scan_file(file, &scan, &x, NULL), LEAT_OK);
            want = want ? want : hash_index(&x);
            assert_int_equal(hash_index(&x), want);
            leat_text_index_destroy(&x);
        }
    leat_io_release(file);
}

TEST(a_stream_in_any_pieces_gives_the_same_index)
{
    static char text[20000];
    const size_t n = make_text(text, sizeof text);
    uint64_t want = 0;
    const size_t pieces[] = {20000, 999, 64, 1};
    for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
        struct leat_text_stream *s;
        struct leat_text_index x;
        const struct leat_text_scan scan = {.mode = LEAT_TEXT_JSONL, .threads = 2, .chunk_bytes = 500};
        assert_int_equal(leat_text_stream_begin("text", &scan, &s, NULL), LEAT_OK);
        for (size_t at = 0; at < n; at += pieces[p])
            assert_int_equal(
                leat_text_stream_push(s, (const uint8_t *)text + at, n - at < pieces[p] ? n - at : pieces[p], NULL),
                LEAT_OK);
        assert_int_equal(leat_text_stream_end(s, true, &x, NULL), LEAT_OK);
        want = want ? want : hash_index(&x);
        assert_int_equal(hash_index(&x), want);
        leat_text_index_destroy(&x);
    }
}

TEST(a_line_that_is_too_long_is_broken_and_the_next_ones_are_not)
{
    static char text[6000];
    struct leat_io_file *file;
    size_t used = (size_t)sprintf(text, "{\"a\": 1}\n{\"a\": \"");
    memset(text + used, 'x', 3000);
    used += 3000;
    used += (size_t)sprintf(text + used, "\"}\n{\"a\": 2}\n");
    assert_int_equal(leat_io_from_memory("text", text, used, &file, NULL), LEAT_OK);
    for (uint64_t chunk = 50; chunk < 10000; chunk *= 5) {
        struct leat_text_index x;
        const struct leat_text_scan scan = {
            .mode = LEAT_TEXT_JSONL, .threads = 2, .chunk_bytes = chunk, .longest = 1000};
        assert_int_equal(leat_text_scan_file(file, &scan, &x, NULL), LEAT_OK);
        assert_int_equal(x.count, 3);
        assert_int_equal(x.n_bad, 1);
        assert_int_equal(x.bad[0].record, 1);
        assert_int_equal(x.bad[0].line, 2);
        assert_int_equal(x.bad[0].fault, LEAT_FAULT_LONG);
        leat_text_index_destroy(&x);
    }
    leat_io_release(file);
}

TEST_MAIN()
